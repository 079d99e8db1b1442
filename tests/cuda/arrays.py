"""The few functions of CuPy that the kernels' Python side uses, over NumPy arrays in guarded memory, with launches on the emulator."""

from __future__ import annotations

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
    """A NumPy array with the address where CuPy's has it."""

    @property
    def data(self) -> Any:
        return types.SimpleNamespace(ptr=self.ctypes.data)

    def astype(self, dtype: Any, copy: bool = True) -> Any:
        """A copy at an aligned address."""
        return self if not copy and self.dtype == dtype else guarded(numpy.asarray(self).astype(dtype)).array.view(Array)


class Device:
    """Replaces CuPy in modules, and the driver by an emulator with the order of threads `seed`."""

    def __init__(self, monkeypatch: Any, *modules: Any) -> None:
        self.memory: list[Guarded] = []
        for module in modules:
            monkeypatch.setattr(module, "cupy", self)
        self._monkeypatch = monkeypatch
        self.order(0)

    def order(self, seed: int) -> None:
        self.emulator = Emulator(seed)
        self._monkeypatch.setattr(launch, "driver", self.emulator)

    def empty(self, shape: Any, dtype: Any) -> Array:
        memory = Guarded(shape if isinstance(shape, tuple) else (shape,), dtype)
        memory.array[...] = numpy.frombuffer(b"\xff" * memory.array.itemsize, memory.array.dtype)[0]  # what is never written shows
        self.memory.append(memory)
        return memory.array.view(Array)

    def array(self, x: Any, offset: int = 0) -> Array:
        """A row-major copy that begins `offset` elements after an aligned address."""
        x = numpy.asarray(x)
        whole = self.empty((x.size + offset,), x.dtype)
        whole[offset:] = x.reshape(-1)
        return whole[offset:].reshape(x.shape)

    def ascontiguousarray(self, x: Array) -> Array:
        return x if x.flags.c_contiguous else self.array(x)

    def intact(self) -> bool:
        """Whether no kernel wrote outside of an array."""
        return all(memory.intact() for memory in self.memory)
