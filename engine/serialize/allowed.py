"""The globals that a checkpoint may use: PyTorch's `weights_only=True` list of tensors and plain containers, and the user's additions.

Each listed name maps to a function in this module, never to the library function of that name.
"""

from __future__ import annotations

import enum
import re
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy

from ..base import dtypes
from ..base.layout import LAYOUTS, layout, sparse_coo, sparse_csr
from ..core import devices, versions
from ..core.op import functions
from ..core.storage import TypedStorage, UntypedStorage
from ..core.tensor import Size, Tensor
from ..nn.module import Module
from ..nn.parameter import Buffer, Parameter
from .errors import CheckpointError, told
from .storage import STORAGES, UNTYPED, Storage, bytes_of, storage_of, tensor_of, without_data

_added: dict[str, Any] = {}  # added by the user, keyed by "module.name"


def add_safe_globals(safe_globals: list) -> None:
    """Allow `load(weights_only=True)` to call and rebuild these classes or functions; `(obj, "module.name")` sets the name in the file."""
    _added.update(dict(map(_named, safe_globals)))


def get_safe_globals() -> list:
    """Return the objects added by `add_safe_globals`."""
    return list(_added.values())


def clear_safe_globals() -> None:
    """Remove everything added by `add_safe_globals`."""
    _added.clear()


@contextmanager
def safe_globals(safe_globals: list) -> Iterator[None]:
    """Call `add_safe_globals` for the duration of a `with` block."""
    before = dict(_added)
    add_safe_globals(safe_globals)
    try:
        yield
    finally:
        _added.clear()
        _added.update(before)


def _named(item: Any) -> tuple[str, Any]:
    if isinstance(item, tuple):
        if len(item) != 2 or not isinstance(item[1], str):
            raise ValueError(f"Expected tuple of global (callable, a string of callable full path), got {item!r}")
        return item[1], item[0]
    if not hasattr(item, "__qualname__"):
        raise TypeError(f"add_safe_globals: expected classes and functions, got {item!r}")
    return f"{item.__module__}.{item.__qualname__}", item


class Call:
    """A placeholder for a function while a pickle is read; only the machine can call it."""

    __slots__ = ("name", "function")

    def __init__(self, name: str, function: Callable):
        self.name, self.function = name, function

    def __repr__(self) -> str:
        return f"<{self.name} of a checkpoint>"


def _word(x: Any) -> str:
    return repr(x) if isinstance(x, (Call, layout)) else told(x)


# -- the list -------------------------------------------------------------------------------------------------------------------------


def _pairs(x: Any, kind: type) -> Any:
    if not isinstance(x, (dict, list, tuple)):
        raise TypeError(f"expected the items of a {kind.__name__}, got a {type(x).__name__}")
    if not isinstance(x, dict) and not all(isinstance(p, (list, tuple)) and len(p) == 2 and isinstance(p[0], (str, int)) for p in x):
        raise TypeError(f"expected pairs of a plain key and a value for a {kind.__name__}")
    return x


def _ordered(items: Any = ()) -> OrderedDict:
    return OrderedDict(_pairs(items, OrderedDict))


def _counter(items: Any = ()) -> Counter:
    return Counter(dict(_pairs(items, Counter)))


def _default(factory: Any = None, items: Any = ()) -> defaultdict:
    if not any(factory is known for known in (None, *_FACTORIES.values())):
        raise CheckpointError(f"load: a defaultdict with the factory {_word(factory)}; allowed are {', '.join(_FACTORIES)}")
    return defaultdict(factory, _pairs(items, defaultdict))


_FACTORIES: dict[str, type] = {f"builtins.{t.__name__}": t for t in (list, dict, set, tuple, int, float, str, bool, bytes)}


def some(items: Any) -> Any:
    """Return a collection from the file. Other iterables, such as a range, may be endless."""
    if not isinstance(items, (list, tuple, set, frozenset)):
        raise TypeError(f"expected a list or a tuple, got a {type(items).__name__}")
    return items


def _plain_set(kind: type) -> Callable:
    def build(items: Any = ()) -> Any:
        items = some(items)
        if not all(isinstance(x, (str, bytes, int, float, complex, dtypes.dtype, devices.device, type(None))) for x in items):
            raise TypeError(f"a {kind.__name__} of other things than text and numbers")
        return kind(items)

    return build


def _bytes() -> bytes:
    """Empty bytes, as pickles of protocol 2 encode them."""
    return b""


def _bytearray(data: Any = b"", encoding: str = "latin-1") -> bytearray:
    return bytearray(_encode(data, encoding) if isinstance(data, str) else memoryview(data))


def _encode(text: str, encoding: str = "latin1") -> bytes:
    """Bytes, as pickles of protocol 2 encode them."""
    if not isinstance(text, str) or encoding not in ("latin1", "latin-1"):
        raise ValueError(f"expected text in latin1, got {type(text).__name__} and {told(encoding)}")
    return text.encode("latin1")


def _complex(real: float = 0.0, imag: float = 0.0) -> complex:
    return complex(float(real), float(imag))


def _size(sizes: Any = ()) -> Size:
    if not all(type(n) is int for n in some(sizes)):
        raise TypeError("expected integers")
    return Size(sizes)


def _tensor(
    storage: Any, offset: Any, size: Any, stride: Any, requires_grad: Any = False, hooks: Any = None, metadata: Any = None
) -> Tensor:
    if not isinstance(storage, TypedStorage):
        raise TypeError(f"expected a storage with a type, got a {type(storage).__name__}")
    return _rebuild(storage, offset, size, stride, requires_grad, hooks, storage.dtype, metadata)


def _rebuild(
    storage: Any, offset: Any, size: Any, stride: Any, requires_grad: Any, hooks: Any, dtype: Any, metadata: Any = None
) -> Tensor:  # fmt: skip
    if not isinstance(storage, UntypedStorage) or not isinstance(dtype, dtypes.dtype):
        raise TypeError(f"expected a storage and a dtype, got a {type(storage).__name__} and a {type(dtype).__name__}")
    storage = bytes_of(storage)
    metadata = {} if metadata is None else metadata
    if not isinstance(metadata, dict) or not _nothing(hooks) or not set(metadata) <= {"conj", "neg"}:
        raise CheckpointError(f"load: a tensor with hooks, or with {_word(metadata)}, which is not read")
    array = storage.seen_as(dtype, offset, size, stride)
    for name, change in (("conj", lambda a: a.conj()), ("neg", lambda a: -a)):
        if not _flag(metadata.get(name, False)):
            continue
        if array.size * array.itemsize <= storage.nbytes():
            array = change(array)
        else:  # strides can repeat elements without bound; process each stored element once
            storage = storage.changed(dtype, change)
            array = storage.seen_as(dtype, offset, size, stride)
    return tensor_of(array, _flag(requires_grad))


def _meta(dtype: Any, size: Any, stride: Any, requires_grad: Any) -> Tensor:
    if not isinstance(dtype, dtypes.dtype):
        raise TypeError(f"expected a dtype, got a {type(dtype).__name__}")
    return tensor_of(without_data(dtype, size, stride), _flag(requires_grad))


def _nothing(hooks: Any) -> bool:
    return hooks is None or isinstance(hooks, dict) and not hooks


def _flag(x: Any) -> bool:
    if not isinstance(x, bool):
        raise TypeError(f"expected True or False, got a {type(x).__name__}")
    return x


def _parameter(data: Any, requires_grad: Any = True, hooks: Any = None, state: Any = None) -> Parameter:
    if not isinstance(data, Tensor) or not _nothing(hooks):
        raise TypeError(f"expected a tensor without hooks, got a {type(data).__name__}")
    out: Any = tensor_of(data.array, _flag(requires_grad), Parameter)
    attach(out, state)
    return out


def _typed(function: Any, kind: Any, args: Any, state: Any) -> Any:
    """Build a tensor of a subclass, or with attributes."""
    if not isinstance(function, Call) or not function.name.startswith("torch._utils._rebuild_") or not isinstance(args, tuple):
        raise CheckpointError(f"load: a tensor made by {_word(function)}")
    return retyped(function.function(*args), kind, state)


def retyped(out: Tensor, kind: Any, state: Any) -> Tensor:
    """Return a tensor as one of a subclass, with the attributes in `state`."""
    if not isinstance(kind, type) or not issubclass(kind, Tensor):
        raise CheckpointError(f"load: a tensor of the class {_word(kind)}")
    state = dict(state) if isinstance(state, dict) else state
    if isinstance(state, dict) and state.pop("_is_buffer", False):
        kind = Buffer
    if isinstance(state, dict) and state.pop("_is_param", False):
        kind = Parameter
    if kind is not Tensor:
        out = tensor_of(out.array, out.requires_grad, kind)
    attach(out, state)
    return out


def attach(tensor: Tensor, state: Any) -> None:
    """Set a tensor's attributes, refusing those that the engine uses itself."""
    if isinstance(state, tuple) and len(state) == 2 and not state[1]:
        state = state[0]
    if state is None:
        return
    if (
        not isinstance(state, dict)
        or not all(isinstance(k, str) for k in state)
        or state.keys() & {"array", "node", "_view", "_views", "_grad"}
    ):
        raise TypeError("damaged attributes of a tensor")
    tensor.__dict__.update(state)


def _layout(name: Any) -> Any:
    if not isinstance(name, str) or name.removeprefix("torch.") not in LAYOUTS:
        raise CheckpointError(f"load: {_word(name)} is no layout of the engine's")
    return LAYOUTS[name.removeprefix("torch.")]


def _sparse(kind: Any, data: Any) -> Tensor:
    """Build a sparse tensor, checking that all indices are within its size."""
    if not isinstance(data, tuple) or not all(isinstance(x, Tensor) for x in data[: 2 if kind is sparse_coo else 3]):
        raise TypeError("damaged parts of a sparse tensor")
    for part in data:
        if isinstance(part, Tensor) and part.array.size * part.array.itemsize > versions.storage(part.array).nbytes:
            raise CheckpointError("load: a sparse tensor whose parts have more elements than their storages")  # all are checked
        if not isinstance(part, (Tensor, bool)):
            _size(part)
    try:
        if kind is sparse_coo:
            indices, values, size, *more = data
            made = functions["sparse_coo_tensor"](indices, values, size, check_invariants=True)
            return made.coalesce() if more and _flag(more[0]) else made
        if kind is sparse_csr:
            return functions["sparse_csr_tensor"](*data, check_invariants=True)
    except RuntimeError as error:
        raise CheckpointError(f"load: a damaged sparse tensor: {error}") from None
    raise CheckpointError(f"load: tensors of the layout {_word(kind)} are not read")


def rebuilder(name: str) -> Callable:
    """Return the function that stands for PyTorch's function of that name when a checkpoint is read."""
    return _CALLS[name]


def member(cls: Any, name: Any) -> Any:
    """Evaluate `getattr(Enum, "MEMBER")`, as some Python versions pickle enum members; any other attribute is refused."""
    if not (isinstance(cls, type) and issubclass(cls, enum.Enum) and isinstance(name, str) and name in cls.__members__):
        raise CheckpointError(f"load: the pickle asks for the attribute {_word(name)} of {_word(cls)}, which is not allowed")
    return cls.__members__[name]


def _refused(what: str) -> Callable:
    def build(*args: Any) -> Any:
        raise CheckpointError(f"load: {what} are not read")

    return build


_CALLS: dict[str, Callable] = {
    "collections.OrderedDict": _ordered,
    "collections.Counter": _counter,
    "collections.defaultdict": _default,
    "builtins.set": _plain_set(set),
    "builtins.frozenset": _plain_set(frozenset),
    "builtins.bytes": _bytes,
    "builtins.bytearray": _bytearray,
    "builtins.complex": _complex,
    "builtins.getattr": member,
    "_codecs.encode": _encode,
    "torch.Size": _size,
    "torch.device": lambda *args: devices.device(*args),
    "torch.Tensor": _refused("tensors of bare classes"),
    "torch.nn.parameter.Parameter": _parameter,
    "torch.nn.parameter.Buffer": _refused("buffers of bare classes"),
    "torch._utils._rebuild_tensor": _tensor,
    "torch._utils._rebuild_tensor_v2": _tensor,
    "torch._utils._rebuild_tensor_v3": _rebuild,
    "torch._utils._rebuild_parameter": _parameter,
    "torch._utils._rebuild_parameter_with_state": _parameter,
    "torch._utils._rebuild_sparse_tensor": _sparse,
    "torch._utils._rebuild_qtensor": _refused("quantized tensors"),
    "torch._utils._rebuild_meta_tensor_no_storage": _meta,
    "torch._utils._rebuild_nested_tensor": _refused("nested tensors"),
    "torch._tensor._rebuild_from_type_v2": _typed,
    "torch.serialization._get_layout": _layout,
}
_CALLS |= {name: _refused(f"calls of {name}") for name in _FACTORIES if name not in _CALLS}
_TYPES: dict[str, type] = _FACTORIES | {
    "collections.OrderedDict": OrderedDict,
    "collections.Counter": Counter,
    "collections.defaultdict": defaultdict,
    "builtins.frozenset": frozenset,
    "builtins.bytearray": bytearray,
    "builtins.complex": complex,
    "torch.Size": Size,
    "torch.device": devices.device,
    "torch.Tensor": Tensor,
    "torch.nn.parameter.Parameter": Parameter,
    "torch.nn.parameter.Buffer": Buffer,
}  # as values, the types themselves; calling one calls its function in _CALLS
BUILT: dict[type, Callable] = {kind: _CALLS[name] for name, kind in _TYPES.items()}
_NAMES: dict[str, Any] = {name: _TYPES.get(name) or Call(name, function) for name, function in _CALLS.items()}
_NAMES |= {f"torch.{d.name}": d for d in dtypes.ALL}
_NAMES |= {f"torch.{name}": d for name, d in STORAGES.items()} | {f"torch.cuda.{name}": d for name, d in STORAGES.items()}
_NAMES["torch.storage.UntypedStorage"] = UNTYPED
_NAMES |= {"builtins.long": _NAMES["builtins.int"], "builtins.unicode": _NAMES["builtins.str"]}  # names in pickles of protocol 2
_UNREAD = {f"torch.{name}Storage": "quantized tensors" for name in ("QInt8", "QUInt8", "QInt32", "QUInt4x2", "QUInt2x4")}
_UNREAD |= {f"torch.{name}": "quantized tensors" for name in ("qint8", "quint8", "qint32", "quint4x2", "quint2x4")}
_OTHER_DTYPES = re.compile(r"torch\.(float8_\w+|float4_\w+|complex32|bits\w+|u?int[1-7])")
_PYTHON_2 = {"__builtin__": "builtins", "copy_reg": "copyreg"}


def built_by(x: Any) -> Callable | None:
    """Return the function that calling a type runs in a pickle, or None if the type is not listed."""
    return BUILT.get(x) if type(x) is type else None


class Allowed:
    """The policy of `weights_only=True`."""

    def __init__(self, stored: Callable[[Any], Any], size: int = 0):
        self._stored = stored  # resolves persistent IDs
        self._handed: dict[int, tuple[Storage, UntypedStorage]] = {}
        self._left = 4 * size + 1000  # elements of sparse tensors: each takes 8 bytes in a file, and all are checked

    def persistent(self, pid: Any) -> Any:
        """Resolve a persistent ID; a `Storage` is returned as the public storage class."""
        found = self._stored(pid)
        if not isinstance(found, Storage):
            return found
        return self._handed.setdefault(id(found), (found, storage_of(found)))[1]

    def resolve(self, module: str, name: str) -> Any:
        full = f"{_PYTHON_2.get(module, module)}.{name}"
        if full in _added:
            return _added[full]
        if full in _NAMES:
            return _NAMES[full]
        if full in _UNREAD or _OTHER_DTYPES.fullmatch(full):
            raise CheckpointError(f"load: {_UNREAD.get(full, f'tensors of {name}')} are not read: the engine has no such dtype")
        return self.beyond(_PYTHON_2.get(module, module), name)

    of_engine: Callable[[str, str], Any]  # finds the engine's object for a name; set by files.py, which may import the whole engine

    def beyond(self, module: str, name: str) -> Any:
        """Resolve an unlisted global. Engine objects that the user allowed also match their PyTorch names."""
        if _added and (found := self.of_engine(module, name)) is not None and self.is_added(found):
            return found
        raise CheckpointError(
            f"Weights only load failed. Unsupported global: GLOBAL {module}.{name} was not an allowed global by default. "
            f"If you trust it, allow it by `torch.serialization.add_safe_globals([{name}])` or in a block of "
            f"`torch.serialization.safe_globals([{name}])`; `load(..., weights_only=False)` rebuilds modules and classes that the running "
            "program itself defines. Only do so with files from a source that you trust."
        )

    def call(self, function: Any, args: tuple) -> Any:
        built = function.function if isinstance(function, Call) else built_by(function)
        if built is _sparse:
            self._spend(args)
        if built is not None:
            return built(*args)
        if self.is_added(function):
            return function(*args)
        raise CheckpointError(f"load: the pickle calls {_word(function)}, which is not allowed")

    def new(self, cls: Any, args: tuple, kwargs: dict) -> Any:
        if (isinstance(cls, Call) or built_by(cls)) and not kwargs:
            return self.call(cls, args)
        if self.is_added(cls):
            return cls.__new__(cls, *args, **kwargs)
        raise CheckpointError(f"load: the pickle makes {_word(cls)}, which is not allowed")

    def _spend(self, args: tuple) -> None:
        """Charge for index checks: a file of a few bytes can refer to one sparse tensor many times."""
        parts = args[1] if len(args) == 2 and isinstance(args[1], tuple) else ()
        self._left -= sum(part.array.size for part in parts if isinstance(part, Tensor))
        if self._left < 0:
            raise CheckpointError("load: the sparse tensors have more elements together than a file of this size holds")

    def build(self, obj: Any, state: Any) -> None:
        if type(obj) in (OrderedDict, Counter):
            if not isinstance(state, dict) or not all(isinstance(k, str) for k in state):
                raise TypeError("damaged attributes of a dict")
            obj.__dict__.update(state)
        elif self.is_added(type(obj)):
            give_state(obj, state)
        else:
            raise CheckpointError(f"load: the pickle gives a state to a {type(obj).__name__}, which is not allowed")

    def is_key(self, x: Any) -> bool:
        return (
            x is None
            or type(x) is type  # hashed by identity
            or isinstance(x, (str, bytes, float, complex, dtypes.dtype, devices.device, Tensor, numpy.generic))
            or self.is_added(type(x))
        )

    @staticmethod
    def is_added(x: Any) -> bool:
        return any(x is one for one in _added.values())


def give_state(obj: Any, state: Any) -> None:
    """Set an object's state as Python's unpickler does; PyTorch modules' state is converted to the engine's."""
    if isinstance(obj, Module) and isinstance(state, dict):
        state = module_state(state)
    own = getattr(type(obj), "__setstate__", None)
    if own is not None:
        own(obj, state)
        return
    slots = None
    if isinstance(state, tuple) and len(state) == 2:
        state, slots = state
    if (
        not isinstance(state or {}, dict)
        or not isinstance(slots or {}, dict)
        or not all(isinstance(k, str) for k in (*(state or ()), *(slots or ())))
    ):
        raise TypeError(f"damaged state of a {type(obj).__name__}")
    if state:
        obj.__dict__.update(state)
    declared = {name for cls in type(obj).__mro__ for name in _slots(cls)}
    for name, value in (slots or {}).items():
        if name not in declared:
            raise TypeError(f"a {type(obj).__name__} has no slot {name!r}")
        setattr(obj, name, value)


def _slots(cls: type) -> tuple:
    found = cls.__dict__.get("__slots__", ())
    return (found,) if isinstance(found, str) else tuple(found)


def module_state(state: dict) -> dict:
    """Convert the state of a PyTorch module to the engine's: without hook tables, and with one set renamed."""
    if "_non_persistent_buffers_set" not in state or "_non_persistent" not in Module().__dict__:
        return state
    tables = {k: v for k, v in state.items() if k.startswith("_") and k.endswith(("_hooks", "_hooks_with_kwargs", "_hooks_always_called"))}
    if any(tables.values()):
        raise CheckpointError(f"load: a module with hooks ({', '.join(k for k, v in tables.items() if v)}), which are not read")
    kept = {k: v for k, v in state.items() if k not in tables and k not in ("_is_full_backward_hook", "_non_persistent_buffers_set")}
    return {**kept, "_non_persistent": set(state["_non_persistent_buffers_set"])}
