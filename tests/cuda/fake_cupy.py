"""CuPy's functions that the kernels' Python side calls, over NumPy arrays in guarded memory, with launches on the emulator."""

from __future__ import annotations

import functools
import types
from typing import Any

import ml_dtypes
import numpy
from emulate import Emulator, Guarded, guarded

from engine.backends.gpu import launch

BF16, F16, F32, F64, C64, C128 = (numpy.dtype(d) for d in (ml_dtypes.bfloat16, "f2", "f4", "f8", "c8", "c16"))
FLOATS = [F16, BF16, F32, F64]
EPS = {F16: 2**-11, BF16: 2**-8, F32: 2**-24, F64: 2**-53, C64: 2**-24, C128: 2**-53}  # the largest relative rounding error


def wide(x: Any) -> numpy.ndarray:
    """Convert to double precision, or to a higher one if that is its own."""
    x = numpy.asarray(x)
    return x.astype({F64: "g", C128: "G"}.get(x.dtype, "c16" if x.dtype.kind == "c" else "f8"))


class Array(numpy.ndarray):
    """A NumPy array with CuPy's `.data.ptr`."""

    @property
    def data(self) -> Any:
        return types.SimpleNamespace(ptr=self.ctypes.data)

    def astype(self, dtype: Any, copy: bool = True) -> Any:
        """A copy at an aligned address."""
        return self if not copy and self.dtype == dtype else guarded(numpy.asarray(self).astype(dtype)).array.view(Array)


class FakeCupy:
    """The module `cupy`, made by `emulated`; `intact()` tells whether a kernel wrote out of bounds."""

    ndarray = Array
    cuda = types.SimpleNamespace(get_current_stream=lambda: types.SimpleNamespace(ptr=0))
    memory = types.SimpleNamespace(capturing=lambda: False)  # as `engine.backends.gpu.namespace` has, for which it stands in too

    def __init__(self, monkeypatch: Any) -> None:
        self.guards: list[Guarded] = []
        self.get_default_pinned_memory_pool = lambda: types.SimpleNamespace(malloc=lambda n: numpy.zeros(n, numpy.uint8))
        self._monkeypatch = monkeypatch
        monkeypatch.setattr(Array, "__new__", lambda cls, shape, dtype: self.empty(shape, dtype), raising=False)  # not called by views

    def order(self, seed: int) -> None:
        """Let threads and blocks run in another order from now on."""
        self.emulator = Emulator(seed)
        self._monkeypatch.setattr(launch, "driver", self.emulator)

    def empty(self, shape: Any, dtype: Any) -> Any:
        self.guards.append(Guarded(shape if isinstance(shape, tuple) else (shape,), dtype))  # filled with nan: what is never written shows
        return self.guards[-1].array.view(Array)

    def array(self, x: Any, dtype: Any = None, order: str = "K", offset: int = 0) -> Array:
        """A row-major copy that begins `offset` elements after an aligned address."""
        x = numpy.asarray(x, dtype)
        whole = self.empty((x.size + offset,), x.dtype)
        whole[offset:] = x.reshape(-1)
        return whole[offset:].reshape(x.shape)

    def asarray(self, x: Any, dtype: Any = None) -> Array:
        return x if isinstance(x, Array) and dtype in (None, x.dtype) else self.array(x, dtype)

    def ascontiguousarray(self, x: Array) -> Array:
        return x if x.flags.c_contiguous else self.array(x)

    def zeros(self, shape: Any, dtype: Any) -> Array:
        out = self.empty(shape, dtype)
        out[...] = 0
        return out

    def ones(self, shape: Any, dtype: Any) -> Array:
        return self.zeros(shape, dtype) + numpy.dtype(dtype).type(1)

    def arange(self, *bounds: int, dtype: Any = None) -> Array:
        return self.array(numpy.arange(*bounds, dtype=dtype))

    def concatenate(self, arrays: Any, axis: int = 0) -> Array:
        return self.array(numpy.concatenate(arrays, axis))

    def argsort(self, x: Array, axis: int = -1) -> Array:
        return numpy.argsort(x, axis, kind="stable").view(Array)

    def __getattr__(self, name: str) -> Any:
        return getattr(numpy, name)  # plain array functions

    broadcast_to = staticmethod(lambda x, shape: numpy.broadcast_to(x, shape, subok=True))

    def intact(self) -> bool:
        return all(guard.intact() for guard in self.guards)


def emulated(monkeypatch: Any, *modules: Any, seed: int = 0) -> FakeCupy:
    """Let the kernels of modules run on the emulator, and return their CuPy. What the modules cache is their own for this test."""
    fake = FakeCupy(monkeypatch)
    fake.order(seed)
    for module in modules:
        monkeypatch.setattr(module, "cupy", fake)
        if hasattr(module, "memory"):
            monkeypatch.setattr(module.memory, "upload", lambda table: fake.asarray(table))
        for name, value in list(vars(module).items()):
            if hasattr(value, "cache_parameters"):
                monkeypatch.setattr(module, name, functools.lru_cache(**value.cache_parameters())(value.__wrapped__))
    return fake
