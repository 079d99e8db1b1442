"""Module containers: `Sequential`, and lists and dicts of modules or parameters."""

from __future__ import annotations

import operator
import warnings
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, Self

from ..core.tensor import Tensor
from .module import Module, indented
from .parameter import Parameter


def _position(index: Any, length: int) -> int:
    i = operator.index(index)
    if not -length <= i < length:
        raise IndexError(f"index {i} is out of range")
    return i % length


class Container(Module):
    """PyTorch's original container of named modules, deprecated there: subclass `Module` instead."""

    def __init__(self, **kwargs: Any):
        super().__init__()
        warnings.warn(
            "`nn.Container` is deprecated. All of its functionality is now implemented in `nn.Module`. Subclass that instead.",
            FutureWarning,
            stacklevel=2,
        )
        for name, module in kwargs.items():
            self.add_module(name, module)


class _Row(Module):
    """Base of `Sequential` and `ModuleList`: an ordered list of modules, named by index."""

    def _key(self, index: Any) -> str:
        return str(_position(index, len(self)))

    def _renumber(self, modules: list) -> None:
        self.__dict__["_modules"] = {str(i): m for i, m in enumerate(modules)}

    def __setitem__(self, index: int, module: Module) -> None:
        setattr(self, self._key(index), module)

    def __delitem__(self, index: Any) -> None:
        modules = list(self._modules.values())
        del modules[index if isinstance(index, slice) else _position(index, len(modules))]
        self._renumber(modules)

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._modules.values())

    def append(self, module: Module) -> Self:
        """Append a module and return self."""
        self.add_module(str(len(self)), module)
        return self

    def extend(self, modules: Iterable[Module]) -> Self:
        """Append the modules of an iterable and return self."""
        if not isinstance(modules, Iterable):
            raise TypeError(f"{type(self).__name__}.extend should be called with an iterable, but got {type(modules).__name__}")
        for module in list(modules):
            self.append(module)
        return self

    def pop(self, key: Any) -> Module:
        """Remove a module and return it."""
        module = self[key]  # type: ignore[index]
        del self[key]
        return module


class Sequential(_Row):
    """Chain modules: each one's output is the next one's input. Takes modules, or an OrderedDict of named modules."""

    def __init__(self, *args: Any):
        super().__init__()
        named = args[0].items() if len(args) == 1 and isinstance(args[0], OrderedDict) else ((str(i), m) for i, m in enumerate(args))
        for name, module in named:
            self.add_module(name, module)

    def forward(self, input: Any) -> Any:
        for module in self._modules.values():
            input = module(input)  # type: ignore[misc]
        return input

    def _key(self, index: Any) -> str:  # the names may be the user's
        return next(islice(self._modules, _position(index, len(self)), None))

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return self.__class__(OrderedDict(list(self._modules.items())[index]))
        return self._modules[self._key(index)]

    def __add__(self, other: Sequential) -> Sequential:
        if not isinstance(other, Sequential):
            raise ValueError(f"add operator supports only objects of Sequential class, but {type(other)} is given.")
        return Sequential(*self, *other)

    def __iadd__(self, other: Sequential) -> Sequential:
        if not isinstance(other, Sequential):
            raise ValueError(f"add operator supports only objects of Sequential class, but {type(other)} is given.")
        return self.extend(other)

    def __mul__(self, times: int) -> Sequential:
        if not isinstance(times, int):
            raise TypeError(f"unsupported operand type(s) for *: {type(self)} and {type(times)}")
        if times <= 0:
            raise ValueError(f"Non-positive multiplication factor {times} for {type(self)}")
        return Sequential(*[m for _ in range(times) for m in self])

    __rmul__ = __mul__

    def insert(self, index: int, module: Module) -> Sequential:
        """Insert a module before position `index`."""
        if not isinstance(module, Module):
            raise AssertionError(f"module should be of type: {Module}")
        n = len(self)
        if not -n <= index <= n:
            raise IndexError(f"Index out of range: {index}")
        modules = list(self._modules.values())
        modules.insert(index % n if index < 0 else index, module)
        self._renumber(modules)
        return self


class ModuleList(_Row):
    """A list whose modules are registered as submodules; it has no `forward`."""

    def __init__(self, modules: Iterable[Module] | None = None):
        super().__init__()
        if modules is not None:
            self.extend(modules)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return self.__class__(list(self._modules.values())[index])
        return self._modules[self._key(index)]

    def __iadd__(self, modules: Iterable[Module]) -> ModuleList:
        return self.extend(modules)

    def __add__(self, other: Iterable[Module]) -> ModuleList:
        return ModuleList([*self, *other])

    def insert(self, index: int, module: Module) -> None:
        """Insert a module before position `index`."""
        modules = list(self._modules.values())
        modules.insert(index, module)
        self._renumber(modules)

    def __repr__(self) -> str:
        """Return the repr, with runs of equal modules collapsed to one line and a count."""
        runs: list[list] = []
        for i, text in enumerate(map(repr, self)):
            if runs and runs[-1][2] == text:
                runs[-1][1] = i
            else:
                runs.append([i, i, text])
        if not runs:
            return f"{self._get_name()}()"
        lines = [f"({a}): {text}" if a == b else f"({a}-{b}): {b - a + 1} x {text}" for a, b, text in runs]
        return f"{self._get_name()}(\n  " + "\n  ".join(indented(line, 2) for line in lines) + "\n)"


def _items(values: Any, who: str) -> Iterable[tuple[str, Any]]:
    if isinstance(values, (Mapping, ModuleDict, ParameterDict)):
        return list(values.items())
    if not isinstance(values, Iterable):
        raise TypeError(f"{who} should be called with an iterable of key/value pairs, but got {type(values).__name__}")
    pairs = list(values)
    for i, pair in enumerate(pairs):
        if not isinstance(pair, Iterable):
            raise TypeError(f"{who} sequence element #{i} should be Iterable; is {type(pair).__name__}")
        if len(pair) != 2:  # type: ignore[arg-type]
            raise ValueError(f"{who} sequence element #{i} has length {len(pair)}; 2 is required")  # type: ignore[arg-type]
    return pairs


class ModuleDict(Module):
    """A dict whose modules are registered as submodules; it has no `forward`."""

    def __init__(self, modules: Any = None):
        super().__init__()
        if modules is not None:
            self.update(modules)

    def __getitem__(self, key: str) -> Any:
        return self._modules[key]

    def __setitem__(self, key: str, module: Module) -> None:
        self.add_module(key, module)

    def __delitem__(self, key: str) -> None:
        del self._modules[key]

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def __contains__(self, key: str) -> bool:
        return key in self._modules

    def clear(self) -> None:
        """Remove all modules."""
        self._modules.clear()

    def pop(self, key: str) -> Module:
        """Remove a module and return it."""
        module = self[key]
        del self[key]
        return module

    def keys(self) -> Iterable[str]:
        """Return the keys."""
        return self._modules.keys()

    def items(self) -> Iterable[tuple[str, Any]]:
        """Return the `(key, module)` pairs."""
        return self._modules.items()

    def values(self) -> Iterable[Any]:
        """Return the modules."""
        return self._modules.values()

    def update(self, modules: Any) -> None:
        """Add the modules of a mapping or of an iterable of `(key, module)` pairs."""
        for key, module in _items(modules, "ModuleDict.update"):
            self[key] = module


def _owned(value: Any) -> Any:
    return Parameter(value) if isinstance(value, Tensor) and not isinstance(value, Parameter) else value


def _told(value: Any, name: Any) -> str:
    if not isinstance(value, Tensor):
        return f"Object of type: {type(value).__name__}"
    kind = "Parameter" if isinstance(value, Parameter) else "Tensor"
    size = "x".join(map(str, value.shape))
    place = f" ({value.device})" if value.is_cuda else ""
    return f"{kind} containing: [{name(value)} of size {size}{place}]"


class _Parameters(Module):
    @staticmethod
    def _type_name(value: Tensor) -> str:
        return str(value.dtype)

    def extra_repr(self) -> str:
        return "\n".join(f"  ({key}): {_told(value, self._type_name)}" for key, value in self._pairs())

    def _pairs(self) -> Iterable[tuple[Any, Any]]:
        raise NotImplementedError

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(f"{type(self).__name__} should not be called.")


class ParameterList(_Parameters):
    """A list of registered parameters: tensors are converted to `Parameter`, other values are stored unchanged."""

    def __init__(self, values: Iterable[Any] | None = None):
        super().__init__()
        self._size = 0
        if values is not None:
            self.extend(values)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return self.__class__([self[i] for i in range(*index.indices(self._size))])
        return getattr(self, str(_position(index, self._size)))

    def __setitem__(self, index: int, value: Any) -> None:
        setattr(self, str(_position(index, self._size)), _owned(value))

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(self._size))

    def __iadd__(self, values: Iterable[Any]) -> ParameterList:
        return self.extend(values)

    def append(self, value: Any) -> ParameterList:
        """Append a value and return self."""
        self._size += 1
        self[self._size - 1] = value
        return self

    def extend(self, values: Iterable[Any]) -> ParameterList:
        """Append the values of an iterable and return self."""
        if not isinstance(values, Iterable) or isinstance(values, Tensor):
            raise TypeError(f"ParameterList.extend should be called with an iterable, but got {type(values).__name__}")
        for value in values:
            self.append(value)
        return self

    def _pairs(self) -> Iterable[tuple[Any, Any]]:
        return enumerate(self)


class ParameterDict(_Parameters):
    """A dict of registered parameters: tensors are converted to `Parameter`, other values are stored unchanged."""

    @staticmethod
    def _type_name(value: Tensor) -> str:
        return value.type()  # type: ignore[attr-defined]

    def __init__(self, parameters: Any = None):
        super().__init__()
        self._keys: dict[str, None] = {}
        if parameters is not None:
            self.update(parameters)

    def __getitem__(self, key: str) -> Any:
        if key not in self._keys:
            raise AttributeError(f"'{self._get_name()}' object has no attribute {key!r}")
        return getattr(self, key)

    def __setitem__(self, key: str, value: Any) -> None:
        if not isinstance(key, str):
            raise TypeError(f"Index given to ParameterDict cannot be used as a key as it is not a string (type is '{type(key).__name__}').")
        setattr(self, key, _owned(value))
        self._keys[key] = None

    def __delitem__(self, key: str) -> None:
        del self._keys[key]
        delattr(self, key)

    def __len__(self) -> int:
        return len(self._keys)

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __reversed__(self) -> Iterator[str]:
        return reversed(self._keys)

    def __contains__(self, key: str) -> bool:
        return key in self._keys

    def keys(self) -> Iterable[str]:
        """Return the keys."""
        return self._keys.keys()

    def values(self) -> Iterable[Any]:
        """Return an iterator over the values."""
        return (self[k] for k in self._keys)

    def items(self) -> Iterable[tuple[str, Any]]:
        """Return an iterator over the `(key, value)` pairs."""
        return ((k, self[k]) for k in self._keys)

    def get(self, key: str, default: Any = None) -> Any:
        """Return the value for a key, or `default` if it is missing."""
        return self[key] if key in self._keys else default

    def setdefault(self, key: str, default: Any = None) -> Any:
        """Return the value for a key, setting it to `default` if it is missing."""
        if key not in self:
            self[key] = default
        return self[key]

    def pop(self, key: str) -> Any:
        """Remove a key and return its value."""
        value = self[key]
        del self[key]
        return value

    def popitem(self) -> tuple[str, Any]:
        """Remove the last pair and return it."""
        key = next(reversed(self._keys))
        return key, self.pop(key)

    def clear(self) -> None:
        """Remove all items."""
        for key in list(self._keys):
            del self[key]

    def copy(self) -> ParameterDict:
        """Return a new `ParameterDict` with the same values."""
        return ParameterDict(OrderedDict(self.items()))

    def fromkeys(self, keys: Iterable[str], default: Any = None) -> ParameterDict:
        """Return a new `ParameterDict` with these keys and one common value."""
        return ParameterDict((k, default) for k in keys)

    def update(self, parameters: Any) -> None:
        """Add the values of a mapping or of `(key, value)` pairs; a mapping is sorted by key unless it is an OrderedDict, as in PyTorch."""
        pairs = _items(parameters, "ParameterDict.update")
        for key, value in sorted(pairs) if isinstance(parameters, Mapping) and not isinstance(parameters, OrderedDict) else pairs:
            self[key] = value

    def __or__(self, other: ParameterDict) -> ParameterDict:
        merged = self.copy()
        merged.update(other)
        return merged

    def __ior__(self, other: ParameterDict) -> ParameterDict:
        self.update(other)
        return self

    def _pairs(self) -> Iterable[tuple[Any, Any]]:
        return self.items()
