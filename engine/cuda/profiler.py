"""`engine.cuda.profiler`: start and stop NVIDIA's profilers, through CuPy. No-ops without a GPU."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ..core import devices
from .device import backend

__all__ = ["profile", "start", "stop"]


def start() -> None:
    """Start recording in a profiler that waits for it, such as Nsight Systems with `--capture-range=cudaProfilerApi`."""
    if devices.cuda_available():
        backend().profiler().start()


def stop() -> None:
    """Stop recording in the profiler."""
    if devices.cuda_available():
        backend().profiler().stop()


@contextmanager
def profile() -> Iterator[None]:
    """Let the profiler record a `with` block."""
    start()
    try:
        yield
    finally:
        stop()
