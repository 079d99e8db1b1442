"""Arrays of the GPU on their way to the host, for which nothing waits before they are read."""

from __future__ import annotations

from typing import Any

import cupy
import numpy

from . import memory

_newest: dict[int, Any] = {}  # address of a stream -> the event after its newest copy


class Arriving:
    """A copy of an array on its way to the host, made when the current stream comes to it."""

    def __init__(self, array: Any, dtype: Any = None) -> None:
        """Begin the copy; the host sees the bytes as elements of `dtype`, if that is given."""
        with array.device:
            stream = cupy.cuda.get_current_stream()
            self._array, self._dtype, self._stream = memory.copy_to_pinned(array), dtype, stream.ptr
            self._event = _newest[stream.ptr] = stream.record(cupy.cuda.Event(disable_timing=True))

    @property
    def done(self) -> bool:
        """Whether `get` returns at once."""
        return self._event is None or self._event.done

    def get(self) -> numpy.ndarray:
        """Return the array on the host. The first call waits, for all copies that the stream was given, so that theirs do not."""
        if self._event is not None:
            if not self._event.done:
                _newest[self._stream].synchronize()
            found = self._array if self._dtype is None else self._array.view(self._dtype)
            self._array, self._event = found.copy(), None  # the pinned memory is free again
        return self._array
