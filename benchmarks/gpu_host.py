"""Host time of eager ops on a GPU: CuPy's own arrays over host memory, and a driver that launches nothing. Needs CuPy, but no GPU.

python benchmarks/gpu_host.py
"""

from __future__ import annotations

import ctypes
import importlib
import time
from collections.abc import Callable
from typing import Any

import numpy

import engine
from engine.core import devices


class NoDriver:
    """Stands in for `engine.backends.gpu.launch.driver`: a launch is a call through `ctypes` with as many arguments, and does nothing."""

    def __init__(self) -> None:
        self.launch = ctypes.CDLL(None).labs

    def device(self) -> int:
        return 0

    def stream(self) -> ctypes.c_void_p:
        return ctypes.c_void_p(0)

    def load(self, text: str, name: str, device: int) -> ctypes.c_void_p:
        return ctypes.c_void_p(0)


def on_host_memory() -> Any:
    """Make CuPy allocate host memory, and device="cuda" usable without a device; what runs CuPy's own kernels still fails."""
    memory = importlib.import_module("cupy.cuda.memory")
    block = numpy.empty((1 << 20) + 512, numpy.uint8)
    pointer = memory.MemoryPointer(memory.UnownedMemory((block.ctypes.data + 511) & -512, 1 << 20, block, 0), 0)
    memory.set_allocator(lambda size: pointer)
    cupy = importlib.import_module("cupy")
    devices.gpu, devices.gpu_array, devices.mixed = importlib.import_module("engine.backends.gpu.namespace"), cupy.ndarray, True
    importlib.import_module("engine.backends.gpu.launch").driver = NoDriver()
    return cupy


def micros(run: Callable, n: int = 3000, rounds: int = 25) -> float:
    """The least time of a call, in microseconds."""
    found = []
    for _ in range(rounds):
        begin = time.perf_counter()
        for _ in range(n):
            run()
        found.append((time.perf_counter() - begin) / n * 1e6)
    return min(found)


def main() -> None:
    cupy = on_host_memory()
    a, b = (engine.Tensor._wrap(cupy.ndarray((16, 16), "float32")) for _ in "ab")
    c = engine.Tensor._wrap(cupy.ndarray((16, 16), "float32")).requires_grad_()
    row = engine.Tensor._wrap(cupy.ndarray((16,), "float32"))
    product = c * b
    host = engine.ones(16, 16)
    grad = product.array
    rows = {
        "cupy.ndarray": lambda: cupy.ndarray((16, 16), numpy.dtype("float32")),
        "a + b": lambda: a + b,
        "a + b, recorded": lambda: c + b,
        "a * 2.0": lambda: a * 2.0,
        "a.tanh()": lambda: a.tanh(),
        "a.tanh(), recorded": lambda: c.tanh(),
        "a + row": lambda: a + row,
        "where(a > b, a, b)": lambda: engine.where(a > b, a, b),
        "backward step of a product": lambda: product.node.op.pull(product.node, grad),
        "on the CPU: a + b": lambda: host + host,
    }
    for name, run in rows.items():
        print(f"{name:32} {micros(run):6.2f} us")


if __name__ == "__main__":
    main()
