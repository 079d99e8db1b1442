"""Read pickles of dicts, lists, strings, numbers and NumPy arrays with the engine's restricted unpickler."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy

from engine.serialize.errors import CheckpointError
from engine.serialize.machine import Machine

_CORES = ("numpy.core", "numpy._core")
_NAMES = {("numpy", "ndarray"): "ndarray", ("numpy", "dtype"): "dtype", ("_codecs", "encode"): "encode"}
_NAMES |= {(f"{core}.multiarray", name): name for core in _CORES for name in ("_reconstruct", "scalar")}
_NAMES |= {(f"{core}.numeric", "_frombuffer"): "_frombuffer" for core in _CORES}


class _Name:
    """A placeholder for a NumPy function or class while a pickle is read."""

    def __init__(self, name: str):
        self.name = name


class _Arrays:
    """The policy: allows arrays and scalars of numbers and strings, as NumPy pickles them."""

    def resolve(self, module: str, name: str) -> Any:
        if (module, name) not in _NAMES:
            raise CheckpointError(f"the pickle names {module}.{name}; dicts, lists, text, numbers and NumPy arrays are expected")
        return _Name(_NAMES[module, name])

    def call(self, function: Any, args: tuple) -> Any:
        name = function.name if isinstance(function, _Name) else None
        if name == "_reconstruct":
            return numpy.empty((0,), numpy.uint8)  # its state follows
        if name == "dtype":
            return _plain(numpy.dtype(str(args[0])))
        if name == "encode" and args[1:] in ((), ("latin1",)):
            return args[0].encode("latin1")
        if name == "scalar":
            return numpy.frombuffer(_bytes(args[1]), _plain(args[0]))[0]
        if name == "_frombuffer":
            buffer, dtype, shape, order = args
            return numpy.frombuffer(buffer, _plain(dtype)).reshape(shape, order=order)
        raise CheckpointError(f"the pickle calls {name or function!r}, which is not allowed")

    def new(self, cls: Any, args: tuple, kwargs: dict) -> Any:
        raise CheckpointError("the pickle makes an object, which is not allowed")

    def build(self, obj: Any, state: Any) -> None:
        if isinstance(obj, numpy.dtype) and state[1] in ("|", "<", "="):
            return  # byte order only; NumPy's own types are immutable
        if not isinstance(obj, numpy.ndarray):
            raise CheckpointError(f"the pickle gives a state to a {type(obj).__name__}, which is not allowed")
        _, shape, dtype, fortran, data = state
        obj.__setstate__((1, tuple(shape), _plain(dtype), bool(fortran), _bytes(data)))

    def persistent(self, pid: Any) -> Any:
        raise CheckpointError("the pickle refers to something outside of itself")

    def is_key(self, x: Any) -> bool:
        return x is None or isinstance(x, (str, bytes, int, float))


def _plain(dtype: Any) -> numpy.dtype:
    if not isinstance(dtype, numpy.dtype) or dtype.kind not in "biufcSU":
        raise CheckpointError(f"the pickle has an array of {dtype}; numbers and text are expected")
    return dtype


def _bytes(data: Any) -> bytes:
    return data.encode("latin1") if isinstance(data, str) else bytes(data)  # Python 2 pickled bytes as str


def load(path: str | Path) -> Any:
    """Read an object from a file. Raises RuntimeError if it is damaged or contains anything else."""
    try:
        return Machine(Path(path).read_bytes(), _Arrays(), "latin1").run()
    except CheckpointError as error:
        raise RuntimeError(f"{path}: {error}") from error
