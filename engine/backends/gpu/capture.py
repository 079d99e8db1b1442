"""CUDA graphs: the work of a stream, recorded by CUDA instead of run, with memory of its own."""

from __future__ import annotations

import contextlib
from typing import Any

import cupy

from . import memory, random

_CAPTURE_ERRORS = range(900, 909)  # the codes of cudaErrorStreamCaptureUnsupported and those after it


class _OnlyFrom(cupy.cuda.MemoryHook):
    """Refuses allocations of this thread that are not from one pool."""

    name = "engine.capture"

    def __init__(self, pool: memory.Pool) -> None:
        super().__init__()
        self.pool = pool

    def malloc_preprocess(self, **told: Any) -> None:
        if memory.capturing() and not self.pool.allocating:
            raise memory.Uncapturable("it allocates memory outside of the graph's pool, which would be reused before a replay")


class Capture:
    """The capture of the current stream's work, from `__init__` to `end`.

    CUDA's mode is "relaxed": kernels are loaded and memory is allocated at once while work is only recorded.
    """

    def __init__(self, pool: memory.Pool) -> None:
        self.stream, self.held = cupy.cuda.get_current_stream(), []
        with contextlib.ExitStack() as stack:
            stack.enter_context(memory.using(pool))
            stack.enter_context(_OnlyFrom(pool))
            stack.callback(setattr, memory.capture, "held", None)
            memory.capture.held = self.held
            self.stream.begin_capture()
            self._stack = stack.pop_all()

    def end(self) -> Any:
        """Return the graph. Raises CuPy's error for a capture that became invalid; the stream and the pools can be used either way."""
        with self._stack:
            return self.stream.end_capture()


def is_capturing() -> bool:
    """Return whether the current stream is capturing. The default stream never is."""
    stream = cupy.cuda.get_current_stream()
    return bool(stream.ptr) and bool(stream.is_capturing())


def reason(error: BaseException) -> str:
    """Return why work could not be captured, or "" if the error has another cause."""
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, memory.Uncapturable):
            return str(seen)
        if isinstance(seen, cupy.cuda.runtime.CUDARuntimeError) and getattr(seen, "status", 0) in _CAPTURE_ERRORS:
            return "the host would wait for work that is only recorded"
        seen = seen.__cause__ or seen.__context__
    return ""


def abandon(capture: Capture) -> None:
    """End a capture without a graph."""
    try:
        capture.end()
    except cupy.cuda.runtime.CUDARuntimeError as error:
        if error.status not in _CAPTURE_ERRORS:  # an invalid capture has ended as well
            raise


class Randomness:
    """The seed and offset, in the GPU's memory, from which the kernels of a graph draw; set before each replay."""

    def __init__(self, generator: Any) -> None:
        self.generator, self.drawn = generator, 0
        self._array = cupy.empty(2, "uint64")
        self.pointer = self._array.data.ptr

    def advance(self, n: int) -> int:
        """Return the number of blocks that the graph draws before these, and count `n` more."""
        self.drawn += n
        return self.drawn - n

    def set(self) -> None:
        """Move the generator on by what the graph draws, and tell its kernels from where."""
        random.set_state(self.pointer, self.generator.initial_seed(), self.generator.advance(self.drawn))
