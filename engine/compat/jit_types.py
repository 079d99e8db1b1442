"""TorchScript's types, `torch.TensorType` and its like: nothing is compiled by them; libraries name them in annotations."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

__all__ = ["Type", "UnionType"]


class Type:
    """A type of TorchScript, with its name in annotations. Equal to another one with the same name and of the same kind."""

    __module__ = "torch"
    name: ClassVar[str] = ""
    inner: tuple[Type, ...] = ()
    __hash__ = None  # type: ignore[assignment]  as PyTorch's

    def __init__(self, *inner: Type) -> None:
        if type(self) is Type:
            raise TypeError("torch._C.Type: No constructor defined!")
        self.inner = inner

    def kind(self) -> str:
        """The name of its class."""
        return type(self).__name__

    def containedTypes(self) -> list[Type]:
        """What it is a list, a tuple ... of."""
        return list(self.inner)

    def str(self) -> str:
        """As in an annotation."""
        return f"{self.name}[{', '.join(map(repr, self.inner))}]" if self.inner else self.name

    annotation_str = property(str)
    __repr__ = __str__ = str

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and repr(other) == repr(self)


class _Plain(Type):
    """A type of which there is one, given by `get()`."""

    one: ClassVar[_Plain | None] = None

    def __new__(cls, *args: Any) -> Any:
        raise TypeError(f"torch._C.{cls.__name__}: No constructor defined!")

    @classmethod
    def get(cls) -> Type:
        """The one of its kind."""
        if cls.__dict__.get("one") is None:
            cls.one = object.__new__(cls)
        return cls.one  # type: ignore[return-value]


class _Of(Type):
    """A type around another one."""

    def __init__(self, inner: Type) -> None:
        super().__init__(inner)

    def getElementType(self) -> Type:
        """What it is around."""
        return self.inner[0]


class DictType(Type):
    """A dict, by the types of keys and values."""

    name = "Dict"

    def __init__(self, key: Type, value: Type) -> None:
        super().__init__(key, value)

    def getKeyType(self) -> Type:
        """The type of the keys."""
        return self.inner[0]

    def getValueType(self) -> Type:
        """The type of the values."""
        return self.inner[1]


class TupleType(Type):
    """A tuple, by the types of its elements."""

    name = "Tuple"

    def __init__(self, inner: Iterable[Type]) -> None:
        super().__init__(*inner)

    elements = Type.containedTypes


class UnionType(Type):
    """One of several types."""

    name = "Union"

    def __init__(self, inner: Iterable[Type]) -> None:
        super().__init__(*inner)


_PLAIN = {
    "AnyType": "Any", "BoolType": "bool", "ComplexType": "complex", "DeviceObjType": "Device", "FloatType": "float", "IntType": "int",
    "NoneType": "NoneType", "NumberType": "number", "PyObjectType": "PyObject", "StreamObjType": "Stream", "StringType": "str",
    "SymBoolType": "bool", "SymIntType": "int", "TensorType": "Tensor",
}  # fmt: skip
_OF = {"AwaitType": "Await", "FutureType": "Future", "ListType": "List", "OptionalType": "Optional", "RRefType": "RRef"}
for _bases, _names in ((_Plain, _PLAIN), (_Of, _OF)):
    for _class, _name in _names.items():
        globals()[_class] = type(_class, (_bases,), {"name": _name, "__module__": "torch", "__doc__": f"TorchScript's `{_name}`."})
__all__ += ["DictType", "TupleType", *_PLAIN, *_OF]
