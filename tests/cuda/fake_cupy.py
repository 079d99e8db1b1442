"""CuPy's functions that the kernels' Python side calls, over NumPy: arrays have an address, and guards around them."""

from __future__ import annotations

import functools
import types
from typing import Any

import numpy
from emulate import Emulator, Guarded

from engine.backends.gpu import launch


class Array(numpy.ndarray):
    """A NumPy array with CuPy's `.data.ptr`."""

    @property
    def data(self) -> Any:
        return types.SimpleNamespace(ptr=self.ctypes.data)


class FakeCupy:
    """The module `cupy`, for `monkeypatch.setattr(module, "cupy", FakeCupy())`; `intact()` tells whether a kernel wrote out of bounds."""

    ndarray = Array
    memory = types.SimpleNamespace(capturing=lambda: False)  # as `engine.backends.gpu.namespace` has, for which it stands in too

    def __init__(self) -> None:
        self.guards: list[Guarded] = []
        self.cuda = types.SimpleNamespace(alloc_pinned_memory=lambda n: numpy.zeros(n, numpy.uint8))

    def empty(self, shape: Any, dtype: Any) -> Array:
        self.guards.append(Guarded(shape if isinstance(shape, tuple) else (shape,), dtype))
        return self.guards[-1].array.view(Array)

    def array(self, x: Any, dtype: Any = None, order: str = "K") -> Array:
        x = numpy.asarray(x, dtype)
        out = self.empty(x.shape, x.dtype)
        out[...] = x
        return out

    def asarray(self, x: Any, dtype: Any = None) -> Array:
        return x if isinstance(x, Array) and dtype in (None, x.dtype) else self.array(x, dtype)

    ascontiguousarray = array

    def zeros(self, shape: Any, dtype: Any) -> Array:
        out = self.empty(shape, dtype)
        out[...] = 0
        return out

    def ones(self, shape: Any, dtype: Any) -> Array:
        return self.zeros(shape, dtype) + numpy.dtype(dtype).type(1)

    def arange(self, *bounds: int, dtype: Any = None) -> Array:
        return self.array(numpy.arange(*bounds, dtype=dtype))

    def argsort(self, x: Array, axis: int = -1) -> Array:
        return numpy.argsort(x, axis, kind="stable").view(Array)

    def __getattr__(self, name: str) -> Any:
        return getattr(numpy, name)  # plain array functions

    broadcast_to = staticmethod(lambda x, shape: numpy.broadcast_to(x, shape, subok=True))

    def intact(self) -> bool:
        return all(guard.intact() for guard in self.guards)


def emulated(monkeypatch: Any, module: Any, seed: int = 0) -> FakeCupy:
    """Let the kernels of a module run on the emulator, and return its CuPy. What the module caches is its own for this test."""
    fake = FakeCupy()
    monkeypatch.setattr(module, "cupy", fake)
    monkeypatch.setattr(launch, "driver", Emulator(seed))
    if hasattr(module, "memory"):
        monkeypatch.setattr(module.memory, "upload", lambda table: fake.asarray(table))
    for name, value in list(vars(module).items()):
        if hasattr(value, "cache_parameters"):
            monkeypatch.setattr(module, name, functools.lru_cache(**value.cache_parameters())(value.__wrapped__))
    return fake
