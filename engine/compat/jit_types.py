"""TorchScript's types, such as `torch.TensorType`, which libraries use in annotations."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

__all__ = ["Type", "UnionType"]


class Type:
    """A TorchScript type, printed as in annotations. Types of the same class and text are equal."""

    __module__ = "torch"
    name: ClassVar[str] = ""
    inner: tuple[Type, ...] = ()
    __hash__ = None  # type: ignore[assignment]  as PyTorch's

    def __init__(self, *inner: Type) -> None:
        if type(self) is Type:
            raise TypeError("torch._C.Type: No constructor defined!")
        self.inner = inner

    def kind(self) -> str:
        """Return the class name."""
        return type(self).__name__

    def containedTypes(self) -> list[Type]:
        """Return the element types."""
        return list(self.inner)

    def str(self) -> str:
        """Return the annotation text."""
        return f"{self.name}[{', '.join(map(repr, self.inner))}]" if self.inner else self.name

    annotation_str = property(str)
    __repr__ = __str__ = str

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and repr(other) == repr(self)


class _Plain(Type):
    """A singleton type, returned by `get()`."""

    one: ClassVar[_Plain | None] = None

    def __new__(cls, *args: Any) -> Any:
        raise TypeError(f"torch._C.{cls.__name__}: No constructor defined!")

    @classmethod
    def get(cls) -> Type:
        """Return the singleton."""
        if cls.__dict__.get("one") is None:
            cls.one = object.__new__(cls)
        return cls.one  # type: ignore[return-value]


class _Of(Type):
    """A type with one element type."""

    def __init__(self, inner: Type) -> None:
        super().__init__(inner)

    def getElementType(self) -> Type:
        """Return the element type."""
        return self.inner[0]


class DictType(Type):
    """A dict with key and value types."""

    name = "Dict"

    def __init__(self, key: Type, value: Type) -> None:
        super().__init__(key, value)

    def getKeyType(self) -> Type:
        """Return the type of the keys."""
        return self.inner[0]

    def getValueType(self) -> Type:
        """Return the type of the values."""
        return self.inner[1]


class TupleType(Type):
    """A tuple with element types."""

    name = "Tuple"

    def __init__(self, inner: Iterable[Type]) -> None:
        super().__init__(*inner)

    elements = Type.containedTypes


class UnionType(Type):
    """A union of types."""

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
