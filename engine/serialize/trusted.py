"""The globals that `load(weights_only=False)` may use: also classes of the engine and of the running program.

PyTorch executes whatever such a file names. Here, a file still cannot call a function, import a module or use a library's classes:

* Classes: the engine's modules, optimizers, schedulers and datasets (also by PyTorch's names), all subclasses of them, and classes that
  the user's program defines in `__main__` or in its own modules that are already imported. Classes with a `__del__` are refused, since it
  would run on forged attributes. Objects are made by `__new__` and get their state by `__setstate__` or as attributes, without `__init__`.
* Enums by value; NumPy arrays, scalars and dtypes of numbers and text; paths, dates, namespaces, partials and a few other plain types.
* Functions only as values that an object keeps (`self.act = F.relu`) and that are never called here: engine ops and the user's functions.

A file still decides the objects' contents, so calls of a loaded model are no more trustworthy than its file.
"""

from __future__ import annotations

import argparse
import collections
import datetime
import decimal
import enum
import fractions
import functools
import pathlib
import re
import sys
import sysconfig
import types
from typing import Any

import numpy

from .. import data, nn, optim
from ..base import return_types
from ..core.public import function_of
from ..core.subclasses import methods
from ..core.tensor import Tensor
from .allowed import BUILT, Allowed, Call, built_by, give_state, member, some
from .errors import CheckpointError, told

_HOME = __name__.split(".")[0]
_KINDS = (nn.Module, optim.Optimizer, optim.lr_scheduler.LRScheduler, data.Dataset, Tensor)
_PLACES = ("stdlib", "platstdlib", "purelib", "platlib")
_LIBRARIES = {pathlib.Path(p).resolve() for name in _PLACES if (p := sysconfig.get_path(name))} | {
    pathlib.Path(__file__).resolve().parents[1]
}
_INSTALLED = {"site-packages", "dist-packages"}  # also catches user and system packages outside a virtual environment


def _path(kind: type) -> Any:
    def build(*parts: Any) -> Any:
        if not all(isinstance(p, str) for p in parts):
            raise TypeError("expected the parts of a path as text")
        return kind(*parts)

    return build


def _fraction(*parts: Any) -> fractions.Fraction:
    """Build a fraction from (3, 4) or "3/4", as pickled; a string like "1e999999999" would be expensive to evaluate."""
    if not all(type(p) is int or isinstance(p, str) and re.fullmatch(r"-?[0-9]+(/[0-9]+)?", p) for p in parts):
        raise TypeError("expected a fraction of two integers")
    return fractions.Fraction(*parts)


def _deque(items: Any = (), most: Any = None) -> collections.deque:
    return collections.deque(some(items), most)


def _raw(x: Any) -> bytes:
    if not isinstance(x, (str, bytes, bytearray)):
        raise TypeError(f"expected bytes, got a {type(x).__name__}")
    return x.encode("latin1") if isinstance(x, str) else bytes(x)


def _number_type(d: Any) -> numpy.dtype:
    if not isinstance(d, numpy.dtype) or d.kind not in "biufcSUmM":
        raise TypeError(f"a NumPy dtype of numbers or text was expected, got {told(d)}")
    return d


def _dtype(code: Any, *_: Any) -> numpy.dtype:
    if not isinstance(code, str) or len(code) > 20:
        raise TypeError("damaged NumPy dtype")
    return _number_type(numpy.dtype(code, copy=True))  # a copy, because the unit of dates and times is set through its state


def _scalar(d: Any, raw: Any) -> Any:
    d, raw = _number_type(d), _raw(raw)
    if len(raw) != d.itemsize or not raw:
        raise ValueError(f"a {d} takes {d.itemsize} bytes, got {len(raw)}")
    return numpy.frombuffer(raw, d)[0]


def _from_buffer(raw: Any, d: Any, shape: Any, order: Any) -> numpy.ndarray:
    return numpy.frombuffer(_raw(raw), _number_type(d)).reshape(shape, order="F" if order == "F" else "C").copy()


def _array_state(array: numpy.ndarray, state: Any) -> None:
    _, shape, d, fortran, raw = state if len(state) == 5 else (0, *state)
    raw = _raw(raw)
    if not all(type(n) is int and n >= 0 for n in shape) or len(raw) != _total(shape) * _number_type(d).itemsize:
        raise ValueError("a NumPy array whose bytes do not fill its shape")
    array.__setstate__((1, tuple(shape), d, bool(fortran), raw))


def _total(shape: Any) -> int:
    return functools.reduce(lambda a, b: a * b, shape, 1)


def _dtype_state(d: numpy.dtype, state: Any) -> None:
    if not isinstance(state, tuple) or not isinstance(state[1], str) or state[1] not in "<=|":
        raise TypeError(f"a NumPy dtype of another order of bytes than this machine's: {told(state)}")
    if d.kind in "mM":
        unit, *steps = state[-1][-1]
        if not isinstance(unit, bytes) or len(steps) != 3 or not all(type(n) is int and 0 < n < 1 << 31 for n in steps):
            raise TypeError(f"a NumPy dtype of a damaged unit of time: {told(state[-1][-1])}")
        d.__setstate__((4, "<" if sys.byteorder == "little" else ">", None, None, None, -1, -1, 0, (None, (unit, *steps))))  # type: ignore[attr-defined]


def _made(cls: Any, base: Any, state: Any) -> Any:
    """`copyreg._reconstructor`, only for objects without a built-in base."""
    if not isinstance(cls, type) or base is not object or state is not None:
        raise TypeError("an object of a built-in base")
    return object.__new__(cls)


def _kind(x: Any) -> type:
    """Return the type of None, `...` or NotImplemented, as pickles encode these types."""
    if not any(x is one for one in (None, ..., NotImplemented)):
        raise TypeError(f"the type of {told(x)}")
    return type(x)


_CALLS: dict[str, Any] = {
    "builtins.type": _kind,
    "argparse.Namespace": argparse.Namespace,
    "types.SimpleNamespace": types.SimpleNamespace,
    "builtins.slice": slice, "builtins.range": range, "builtins.xrange": range, "builtins.object": object,
    "datetime.date": datetime.date, "datetime.datetime": datetime.datetime, "datetime.time": datetime.time,
    "datetime.timedelta": datetime.timedelta, "datetime.timezone": datetime.timezone,
    "decimal.Decimal": decimal.Decimal, "fractions.Fraction": _fraction, "collections.deque": _deque,
    "copyreg._reconstructor": _made,
    "numpy.dtype": _dtype,
    "numpy.ndarray": lambda *args: numpy.empty(0),
}  # fmt: skip
_POSIX, _WINDOWS = (pathlib.Path, pathlib.PureWindowsPath) if sys.platform != "win32" else (pathlib.PurePosixPath, pathlib.Path)
for _module in ("pathlib", "pathlib._local"):
    _CALLS |= {f"{_module}.{name}": _path(_POSIX) for name in ("PosixPath", "Path")} | {f"{_module}.WindowsPath": _path(_WINDOWS)}
    _CALLS |= {f"{_module}.Pure{name}": _path(getattr(pathlib, f"Pure{name}")) for name in ("Path", "PosixPath", "WindowsPath")}
for _module in ("numpy.core", "numpy._core"):
    _CALLS[f"{_module}.multiarray._reconstruct"] = lambda *args: numpy.empty(0)
    _CALLS[f"{_module}.multiarray.scalar"] = _scalar
    _CALLS[f"{_module}.numeric._frombuffer"] = _from_buffer
BUILT |= {function: function for function in _CALLS.values() if isinstance(function, type)}
_NAMES: dict[str, Any] = {name: function if function in BUILT else Call(name, function) for name, function in _CALLS.items()}
_NAMES |= {"builtins.Ellipsis": ..., "builtins.NotImplemented": NotImplemented}
_OPS = _NAMES["torch._C._VariableFunctionsClass"] = Call("torch._C._VariableFunctionsClass", _kind)  # `torch.exp` is an attribute of it
_METHODS = _NAMES["torch._C.TensorBase"] = Call("torch._C.TensorBase", _kind)  # `torch.Tensor.exp` of it or `torch.Tensor`
_PLAIN = (argparse.Namespace, types.SimpleNamespace, datetime.date, datetime.time, datetime.timedelta, datetime.tzinfo)
_PLAIN += (decimal.Decimal, fractions.Fraction, pathlib.PurePath)


class Trusted(Allowed):
    """The policy of `weights_only=False`."""

    def beyond(self, module: str, name: str) -> Any:
        full = f"{module}.{name}"
        if full in _NAMES:
            return _NAMES[full]
        if full == "functools.partial":
            return functools.partial
        if module in ("torch.return_types", return_types.__name__) and (made := _result_type(full, name)):
            return made
        found = of_engine(module, name) or _of_program(module, name)
        if found is None:
            raise CheckpointError(
                f"Unsupported global: GLOBAL {full} is neither a class of the engine nor one that the running program has defined or "
                "imported from modules of its own, so nothing was built (PyTorch would run it). Import or define it first; if it belongs "
                f"to a library and you trust the file, allow it by `torch.serialization.add_safe_globals([{name}])`."
            )
        return found

    def call(self, function: Any, args: tuple) -> Any:
        if function is functools.partial and len(args) == 1 and _is_value(args[0]):
            return functools.partial(args[0])
        if isinstance(function, type) and issubclass(function, enum.Enum) and len(args) == 1:
            if not all(isinstance(x, (str, bytes, int, float, complex, type(None))) for x in (args[0] if type(args[0]) is tuple else args)):
                raise CheckpointError(f"load: a member of {function.__qualname__} whose value is not text or a number: {told(args[0])}")
            return function(args[0])
        if isinstance(function, Call) and function.function is _made and args:
            self._may_be_made(args[0], ())
        if isinstance(function, Call) and function.function is member and args and any(args[0] is x for x in (_OPS, _METHODS, Tensor)):
            name = args[1] if len(args) == 2 and isinstance(args[1], str) else ""
            found = function_of(name) if args[0] is _OPS else methods[name].function if name in methods else None
            if found is None:
                raise CheckpointError(f"load: the engine has no {'function' if args[0] is _OPS else 'method'} {told(args[1:])}")
            return found
        return super().call(function, args)

    def new(self, cls: Any, args: tuple, kwargs: dict) -> Any:
        if isinstance(cls, Call) or built_by(cls) or self.is_added(cls):
            return super().new(cls, args, kwargs)
        self._may_be_made(cls, args)
        return cls.__new__(cls, *args, **kwargs)

    def _may_be_made(self, cls: Any, args: tuple) -> None:
        if not isinstance(cls, type) or cls is functools.partial or built_by(cls) or issubclass(cls, (bytes, bytearray, type)):
            raise CheckpointError(f"load: the pickle makes {told(cls)}, which is not allowed")
        if hasattr(cls, "__del__"):
            raise CheckpointError(
                f"load: the class {cls.__qualname__} has a __del__, which would run on what the file puts there. Save state instead of the "
                f"object, or allow it by torch.serialization.add_safe_globals([{cls.__name__}])"
            )

    def build(self, obj: Any, state: Any) -> None:
        kind = type(obj)
        if isinstance(obj, functools.partial):
            function, args, kwargs, attributes = state
            if not _is_value(function) or not isinstance(args, tuple) or not isinstance(kwargs, (dict, type(None))):
                raise CheckpointError(f"load: a partial of {told(function)}, which is not allowed")
            obj.__setstate__((function, args, kwargs or {}, attributes))  # type: ignore[attr-defined]
        elif isinstance(obj, numpy.ndarray):
            _array_state(obj, state)
        elif isinstance(obj, numpy.dtype):
            _dtype_state(obj, state)
        elif kind in (argparse.Namespace, types.SimpleNamespace) or _is_rebuilt(kind):
            give_state(obj, state)
        else:
            super().build(obj, state)

    def is_key(self, x: Any) -> bool:
        return super().is_key(x) or isinstance(x, (enum.Enum, *_PLAIN)) or _is_rebuilt(type(x)) or _is_value(x)


def _is_value(x: Any) -> bool:
    """Return whether a file may store this class or function as a value."""
    return isinstance(x, types.FunctionType) or isinstance(x, type) and (_is_rebuilt(x) or x is functools.partial)


def _is_rebuilt(cls: type) -> bool:
    return (
        issubclass(cls, _KINDS)
        or of_engine(cls.__module__, cls.__qualname__) is cls
        or _of_program(cls.__module__, cls.__qualname__) is cls
    )


def of_engine(module: str, name: str) -> Any:
    """Return a class or op of the engine by its own name or PyTorch's, or None."""
    home, _, rest = module.partition(".")
    if home not in (_HOME, "torch"):
        return None
    if sys.modules.get(home) is sys.modules[_HOME]:  # under the alias `torch`, the engine's classes report torch modules
        found = _defined(module, name)
        room = rest.removeprefix("utils.").split(".")[0]
        if found is not None and (room in ("nn", "optim", "vision", "distributions") or room == "data" and _is_data(found)):
            return found
    if rest.startswith("nn.modules") or rest.startswith("nn.parameter"):
        return _class_in(nn, name)
    if rest.startswith("optim.lr_scheduler"):
        return _class_in(optim.lr_scheduler, name)
    if rest.startswith("optim"):
        return _class_in(optim, name)
    if rest.startswith("distributions"):
        loaded = sys.modules.get("engine.distributions")
        return None if loaded is None else _class_in(loaded, name)
    if rest.startswith("utils.data"):
        found = _class_in(data, name)
        return found if _is_data(found) else None
    if rest in ("nn.functional", "_C._nn"):
        found = vars(nn.functional).get(name)
        return found if isinstance(found, types.FunctionType) else None
    if rest == "nn.init":
        found = _defined(nn.init.__name__, name)
        return found if isinstance(found, types.FunctionType) else None
    if rest in ("_C._fft", "_C._linalg", "_C._special"):  # ops there are named `linalg_inv` and so on
        rest = rest.removeprefix("_C._")
        name = name.removeprefix(f"{rest}_")
    return function_of(f"{rest}.{name}" if rest else name)


def _result_type(full: str, name: str) -> Call | None:
    """Return a builder for one of `return_types`, pickled like PyTorch's: `max((values, indices), {})`."""
    kind = vars(return_types).get(name)
    if not (isinstance(kind, type) and issubclass(kind, tuple)):
        return None
    return Call(full, lambda items, more=None: kind(*some(items)))


def _is_data(x: Any) -> bool:
    """Return whether `x` is a dataset or sampler class; loaders own processes and files."""
    return isinstance(x, type) and issubclass(x, (data.Dataset, data.Sampler))


def _class_in(room: Any, name: str) -> Any:
    found = vars(room).get("Linear" if name == "NonDynamicallyQuantizableLinear" else name)  # used by PyTorch's attention
    return found if isinstance(found, type) else None


def _of_program(module: str, name: str) -> Any:
    """Return a class or function of the user's own program, or a library's subclass of one of the engine's classes."""
    found = _defined(module, name)
    if found is None:
        return None
    file = getattr(sys.modules[module], "__file__", None)
    own = module == "__main__" or file is not None and not _is_library(pathlib.Path(file).resolve())
    return found if own or isinstance(found, type) and issubclass(found, _KINDS) else None


def _is_library(file: pathlib.Path) -> bool:
    return not _LIBRARIES.isdisjoint(file.parents) or not _INSTALLED.isdisjoint(file.parts)


def _defined(module: str, name: str) -> Any:
    """Return the class or function of this name if an already imported module defines it."""
    found: Any = sys.modules.get(module)
    for part in name.split("."):
        found = vars(found).get(part) if isinstance(found, (types.ModuleType, type)) else None
    if not isinstance(found, (type, types.FunctionType)):
        return None
    return found if (found.__module__, found.__qualname__) == (module, name) else None
