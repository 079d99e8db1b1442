"""Values of a training as plain data: copies of tensors, arrays, numbers and containers, from which equal values are made again.

A copy consists of None, booleans, numbers, strings, lists, tuples and dicts. Everything else is a dict with the key "@", which names its
kind: {"@": "torch", "value": Copy}. `serialize.safetensors` can write it, and nothing in it is code.
"""

from __future__ import annotations

import contextlib
import hashlib
import random
import struct
import sys
import weakref
from collections import OrderedDict, deque, namedtuple
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from types import MappingProxyType, ModuleType
from typing import Any

import numpy

import engine
from engine.base import dtypes
from engine.core.tensor import Tensor
from engine.serialize.storage import tensor_of

from ..torch_models.loaded import is_tensor, torch
from ..torch_models.recorder import bookkeeping

PLAIN = (type(None), bool, int, float, complex, str, bytes)
_AROUND = "^"  # and the number of the object, counted from the outermost one, that a part of it refers to
_CACHES = ("_encodings",)  # of transformers' BatchEncoding: its tokenizer's own objects
_classes: dict[str, type] = {}  # of objects that this process has copied, or that a program has made
_LIBRARIES = ("engine", "torch", "numpy")
_CONTAINERS: dict[str, Callable[[list], Any]] = {"set": set, "frozenset": frozenset, "deque": deque}
_NUMPY = {d.name: d.numpy for d in dtypes.BY_NAME.values()}


class Unknown(ValueError):
    """A copy that no value can be made from."""


class Copy:
    """The bytes of a tensor or an array, with its dtype and shape."""

    __slots__ = ("data", "dtype", "shape")

    def __init__(self, data: numpy.ndarray, dtype: str, shape: tuple[int, ...]) -> None:
        self.data, self.dtype, self.shape = data, dtype, shape  # `data` is flat, of dtype uint8

    @classmethod
    def of(cls, value: Any, shared: bool = False) -> Copy:
        """Copy a tensor or an array. `shared`: without copying, if it lies contiguously in the host's memory."""
        if is_tensor(value):
            with bookkeeping():
                t = value.detach().resolve_conj().resolve_neg().cpu().contiguous()
                data, dtype, shape = t.reshape(-1).view(torch().uint8).numpy(), str(t.dtype).removeprefix("torch."), tuple(t.shape)
        else:
            array = value._host() if isinstance(value, Tensor) else value
            shape = array.shape
            data, dtype = numpy.ascontiguousarray(array).reshape(-1).view(numpy.uint8), dtypes.FROM_NUMPY[array.dtype].name
        return cls(data if shared else data.copy(), dtype, shape)

    def array(self) -> numpy.ndarray:
        """Make a NumPy array, which owns its memory."""
        return self.data.copy().view(_NUMPY[self.dtype]).reshape(self.shape)

    def tensor(self) -> Tensor:
        """Make a tensor of the engine that shares the bytes."""
        return tensor_of(numpy.require(self.data.view(_NUMPY[self.dtype]).reshape(self.shape), requirements="A"), False)

    def torch(self) -> Any:
        """Make a tensor of PyTorch, which owns its memory."""
        lib = torch()
        if lib is None:
            raise Unknown("it holds tensors of PyTorch, and torch has not been imported")
        out = lib.empty(self.shape, dtype=getattr(lib, self.dtype))
        if self.data.size:
            out.reshape(-1).view(lib.uint8).numpy()[:] = self.data
        return out

    def write(self, target: Any) -> None:
        """Write the values into a tensor of the same shape, on any device. No gradient flows, and no version check objects."""
        if tuple(target.shape) != self.shape:
            raise ValueError(f"its shape is {tuple(target.shape)} here and {self.shape} in the record")
        lib = torch() if is_tensor(target) else engine
        with lib.no_grad():
            target.copy_(self.torch() if is_tensor(target) else self.tensor())


def copied(
    value: Any, lost: Callable[[str, Any], Any], path: str = "", shared: bool = False, known: Mapping[int, str] = MappingProxyType({})
) -> Any:
    """Copy a value. What has no plain form is what `lost(path, value)` returns. `shared` as in `Copy.of`.

    `known`: the names, by id, of values that are not copied but found again by their name.
    """

    def inner(x: Any, key: Any) -> Any:
        return copied(x, lost, f"{path}.{key}" if path else str(key), shared, known)

    if id(value) in known:
        return {"@": "known", "value": known[id(value)]}
    kind = type(value)
    if kind in PLAIN:
        return value
    if isinstance(value, Tensor) or is_tensor(value):
        if value.is_sparse:
            parts = {"indices": value._indices(), "values": value._values().detach(), "shape": list(value.shape)}
            found = {"@": "sparse", "value": {name: inner(part, name) for name, part in parts.items()}}
            return found | {"torch": is_tensor(value), "coalesced": value.is_coalesced()}
        if not _dense(value):
            return lost(path, value)
        found = {"@": "torch" if is_tensor(value) else "engine", "value": Copy.of(value, shared)}
        more = {"device": str(value.device), "grad": value.requires_grad, "strides": [] if value.is_contiguous() else list(value.stride())}
        return found | {name: x for name, x in more.items() if x and x != "cpu"}
    if isinstance(value, numpy.ndarray | numpy.generic):
        array = numpy.asarray(value)
        if array.dtype not in dtypes.FROM_NUMPY:
            return lost(path, value)
        more = {"scalar": isinstance(value, numpy.generic), "fortran": array.flags.f_contiguous and not array.flags.c_contiguous}
        return {"@": "numpy", "value": Copy.of(array, shared)} | {name: True for name, x in more.items() if x}
    if issubclass(kind, tuple) and (names := getattr(kind, "_fields", None)) is not None:
        parts = [inner(x, i) for i, x in enumerate(value)]
        return {"@": "named", "value": parts, "fields": list(names), "name": _name_of(kind)}
    if kind in (list, tuple):
        return kind(inner(x, i) for i, x in enumerate(value))
    if kind in (dict, OrderedDict) or kind.__name__ == "defaultdict":
        if not all(type(k) in (str, int, float, bool, type(None)) for k in value) or "@" in value:
            return {"@": "pairs", "value": [(inner(k, "key"), inner(x, k)) for k, x in value.items()]}
        return {k: inner(x, k) for k, x in value.items()}
    if kind.__name__ in _CONTAINERS and kind.__module__ in ("builtins", "collections"):
        return {"@": kind.__name__, "value": [inner(x, i) for i, x in enumerate(value)], "most": getattr(value, "maxlen", None)}
    if isinstance(value, random.Random):
        return {"@": "random", "value": inner(value.getstate(), "state")}
    if isinstance(value, numpy.random.Generator):
        return {"@": "generator", "value": inner(value.bit_generator.state, "state")}
    if is_generator(value):
        return {"@": "states", "value": inner(value.get_state(), "state")}
    if is_dataclass(value) and not isinstance(value, type):
        parts = {f.name: inner(getattr(value, f.name, None), f.name) for f in fields(value)}
        return {"@": "data", "value": parts, "name": _name_of(kind)}
    if isinstance(value, type):
        _classes[_name_of(value)] = value
        return {"@": "class", "name": _name_of(value)}
    if isinstance(value, weakref.ref) and id(value()) in known:
        return {"@": "weak", "value": known[id(value())]}
    return _object(value, path, shared, known) or lost(path, value)


def _object(value: Any, path: str, shared: bool, known: Mapping[int, str]) -> dict[str, Any] | None:
    """A copy of an object by its attributes and items, such as a tokenizer's batch; None if one of them has no plain form."""
    kind, failed = type(value), []
    if not all(_is_pythons(one) for one in kind.__mro__) or type(getattr(value, "__dict__", None)) is not dict:
        return None

    def lose(name: str, x: Any) -> None:
        failed.append(name)

    within = {**known, id(value): f"{_AROUND}{sum(name.startswith(_AROUND) for name in known.values())}"}  # its parts may refer to it
    parts = {name: None if name in _CACHES else copied(x, lose, f"{path}.{name}", shared, within) for name, x in vars(value).items()}
    items = [*(value.items() if isinstance(value, dict) else value)] if isinstance(value, dict | list) else []
    items = copied(items, lose, path, shared, within)
    if failed:
        return None
    _classes[_name_of(kind)] = kind
    return {"@": "object", "value": parts, "items": items, "name": _name_of(kind)}


def _is_pythons(kind: type) -> bool:
    """Whether an object of that class has nothing but attributes and items."""
    heap_type = 1 << 9  # Py_TPFLAGS_HEAPTYPE: made by a `class` statement
    return kind in (object, dict, list) or bool(kind.__flags__ & heap_type) and kind.__module__ not in ("builtins", "functools")


def learn(value: Any) -> None:
    """Know the classes of a value that the program has made, so that copies of others like it can be made into objects again."""
    for one in walked(value, set()):
        kind = one if isinstance(one, type) else type(one)
        _classes[_name_of(kind)] = kind


def walked(value: Any, seen: set[int]) -> Iterator[Any]:
    """Yield a value and those within it: items of containers, attributes of objects."""
    if id(value) in seen or type(value) in PLAIN or isinstance(value, Tensor | numpy.ndarray) or is_tensor(value):
        return
    seen.add(id(value))
    yield value
    if isinstance(value, type | ModuleType):
        return
    inner = [*value.values()] if isinstance(value, dict) else value if isinstance(value, list | tuple) else ()
    own = getattr(value, "__dict__", None)
    for x in [*inner, *(own.values() if type(own) is dict else ())]:
        yield from walked(x, seen)


def unknown(copy: Any) -> bool:
    """Whether there are objects in a copy whose classes are not known."""
    if isinstance(copy, dict):
        return copy.get("@") in ("object", "class") and copy.get("name") not in _classes or any(map(unknown, copy.values()))
    return isinstance(copy, list | tuple) and any(map(unknown, copy))


def _name_of(kind: type) -> str:
    return f"{kind.__module__}:{kind.__qualname__}"


def made(copy: Any, known: Mapping[str, Any] = MappingProxyType({})) -> Any:
    """Make a value that equals the one that was copied. `known`: what is found by its name. Raises Unknown."""
    try:
        return _made(copy, known)
    except (KeyError, TypeError, AttributeError) as error:  # in a file that no flight recorder wrote
        raise Unknown(f"it is no copy: {error!r}") from error


def _made(copy: Any, known: Mapping[str, Any]) -> Any:
    def inner(x: Any) -> Any:
        return _made(x, known)

    if isinstance(copy, list | tuple):
        return type(copy)(map(inner, copy))
    if not isinstance(copy, dict):
        return copy
    kind = copy.get("@")
    if kind is None:
        return {k: inner(x) for k, x in copy.items()}
    value = copy.get("value")
    if kind in _LIBRARIES and isinstance(value, Copy):
        if kind == "numpy":
            return value.array()[()] if copy.get("scalar") else numpy.asarray(value.array(), order="F" if copy.get("fortran") else "C")
        found = _laid_out(value.torch() if kind == "torch" else value.tensor().clone(), copy.get("strides", []))
        with contextlib.suppress(RuntimeError, AssertionError):  # a file from a GPU, opened where there is none
            found = found.to(copy.get("device", "cpu"))
        return found.requires_grad_() if copy.get("grad") else found
    if kind == "same":
        return value
    if kind == "known" and value in known:
        return known[value]
    if kind == "sparse":
        lib, parts = torch() if copy["torch"] else engine, inner(value)
        more = {"is_coalesced": copy["coalesced"], "check_invariants": True}
        return lib.sparse_coo_tensor(parts["indices"], parts["values"], parts["shape"], **more)
    if kind == "named":
        own = _program_class(copy["name"])
        fits = isinstance(own, type) and issubclass(own, tuple) and getattr(own, "_fields", ()) == tuple(copy["fields"])
        batch: Any = own if fits else namedtuple("Batch", copy["fields"])
        return batch._make(inner(value))
    if kind == "data":
        own = _program_class(copy["name"])
        known_fields = {f.name for f in fields(own)} if isinstance(own, type) and is_dataclass(own) else set()
        if known_fields != value.keys() or hasattr(own, "__del__"):  # type: ignore[union-attr]  nothing of a class is called
            raise Unknown(f"it holds a {copy['name']}, and this program has no such dataclass")
        found = object.__new__(own)
        for name, x in value.items():  # type: ignore[union-attr]
            object.__setattr__(found, name, inner(x))
        return found
    if kind == "weak" and value in known:
        return weakref.ref(known[value])
    if kind in ("object", "class"):
        own = _classes.get(copy["name"])
        if own is None or hasattr(own, "__del__"):  # nothing of a class is called
            raise Unknown(f"it holds a {copy['name']}, and the program has not made one here")
        if kind == "class":
            return own
        base = next(kind for kind in (dict, list, object) if issubclass(own, kind))
        found: Any = base.__new__(own)
        within = {**known, f"{_AROUND}{sum(name.startswith(_AROUND) for name in known)}": found}
        if base is not object:
            items: Any = _made(copy["items"], within)
            base.update(found, items) if base is dict else base.extend(found, items)  # type: ignore[attr-defined]
        vars(found).update((name, _made(x, within)) for name, x in value.items())  # type: ignore[union-attr]
        return found
    if kind == "pairs":
        return {inner(k): inner(x) for k, x in value}  # type: ignore[union-attr]
    if kind == "deque":
        return deque(inner(value), copy.get("most"))
    if kind in _CONTAINERS:
        return _CONTAINERS[kind](inner(value))
    raise Unknown(f"it holds {copy.get('type', kind)}, which has no plain form")


def _laid_out(tensor: Any, strides: Sequence[int]) -> Any:
    """The same values with these strides, on which the last bit of a result can depend; as they are if most of the memory is not theirs."""
    reach = sum((n - 1) * step for n, step in zip(tensor.shape, strides, strict=False))
    if not strides or min(strides) < 1 or reach >= 2 * tensor.numel():
        return tensor
    lib = torch() if is_tensor(tensor) else engine
    return lib.empty_strided(tuple(tensor.shape), tuple(strides), dtype=tensor.dtype).copy_(tensor)


def _program_class(name: str) -> Any:
    """The class with that module and name in the program that runs; None if it has none. Nothing is imported or called for it."""
    module, _, qualified = name.partition(":")
    found: Any = sys.modules.get(module)
    for part in qualified.split("."):
        found = vars(found).get(part) if isinstance(found, (ModuleType, type)) else None  # nothing is computed for a name in a file
    return found


def copies(copy: Any) -> Iterator[Copy]:
    """Yield the copies of tensors and arrays within a copy."""
    if isinstance(copy, Copy):
        yield copy
    elif isinstance(copy, Mapping):
        for x in copy.values():
            yield from copies(x)
    elif isinstance(copy, list | tuple):
        for x in copy:
            yield from copies(x)


def bytes_in(copy: Any) -> int:
    """The bytes of all tensors and arrays within a copy, each counted once."""
    return sum(one.data.nbytes for one in {id(one): one for one in copies(copy)}.values())


def digest(body: Any) -> str:
    """A SHA-256 of everything: containers, numbers, strings, and the bytes of tensors with their dtypes and shapes."""
    found = hashlib.sha256()

    def add(x: Any) -> None:
        if isinstance(x, Copy):
            found.update(f"tensor {x.dtype} {x.shape} ".encode())
            found.update(x.data)
        elif isinstance(x, dict):
            found.update(f"dict {len(x)} ".encode())
            for k, v in x.items():
                add(k)
                add(v)
        elif isinstance(x, list | tuple):
            found.update(f"{type(x).__name__} {len(x)} ".encode())
            for v in x:
                add(v)
        elif isinstance(x, float):
            found.update(b"float nan" if x != x else b"float " + struct.pack("<d", x))  # the file keeps no sign of NaN
        else:
            found.update(f"{type(x).__name__} {x!r} ".encode())

    add(body)
    return found.hexdigest()


def sample(tensor: Any, most: int = 64) -> numpy.ndarray:
    """Some of the bytes of a tensor, from all over it. A recording does not see this."""
    if is_tensor(tensor):
        with bookkeeping():
            flat = tensor.detach().reshape(-1)
            return Copy.of(flat[:: max(1, flat.numel() // most)]).data
    flat = numpy.reshape(tensor._host(), -1)
    return Copy.of(flat[:: max(1, flat.size // most)]).data


def scalar(tensor: Any) -> Any:
    """The value of a tensor with one element, for `number`; on a GPU, it is not waited for. A recording does not see this."""
    if is_tensor(tensor):
        with bookkeeping():
            return tensor.detach().clone() if tensor.is_cuda else tensor.item()
    return tensor._host().item() if isinstance(tensor.array, numpy.ndarray) else tensor.array.copy()


def number(scalar: Any) -> float:
    """What `scalar` returned, as a number."""
    return float(scalar.item() if hasattr(scalar, "item") else scalar)


def is_generator(value: Any) -> bool:
    """Whether it is a random generator of the engine or of PyTorch."""
    lib = torch()
    return isinstance(value, engine.Generator) or (lib is not None and isinstance(value, lib.Generator))


def put(copy: Any, target: Any, known: Mapping[str, Any] = MappingProxyType({})) -> None:
    """Write a copy into an existing value in place: a tensor, an array, a list, a dict, a set, a deque or a random generator."""
    kind, value = copy.get("@") if isinstance(copy, dict) else None, copy.get("value") if isinstance(copy, dict) else None
    if isinstance(value, Copy) and kind != "numpy":
        value.write(target)
    elif isinstance(value, Copy):
        target[...] = value.array()
    elif kind == "random":
        target.setstate(made(value))
    elif kind == "generator":
        target.bit_generator.state = made(value)
    elif kind == "states":
        target.set_state(made(value))
    else:
        fill(target, made(copy, known))


def fill(target: Any, content: Any) -> None:
    """Give a list, dict, set or deque the items of another one."""
    target.clear()
    (target.extend if isinstance(target, list | deque) else target.update)(content)


def _dense(tensor: Any) -> bool:
    if is_tensor(tensor):
        return (
            tensor.layout is torch().strided and not (tensor.is_meta or tensor.is_quantized or tensor.is_nested) and _name(tensor) in _NUMPY
        )
    return isinstance(tensor._host(), numpy.ndarray) if not tensor.is_sparse else False


def _name(tensor: Any) -> str:
    return str(tensor.dtype).removeprefix("torch.")
