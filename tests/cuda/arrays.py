"""The few functions of CuPy that the kernels' Python side uses, over NumPy arrays in guarded memory, with launches on the emulator."""

from __future__ import annotations

import types
from typing import Any

import numpy

from emulate import Emulator, Guarded
from engine.backends.gpu import launch


class Array(numpy.ndarray):
    """A NumPy array with the address where CuPy's has it."""

    @property
    def data(self) -> Any:
        return types.SimpleNamespace(ptr=self.ctypes.data)


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
