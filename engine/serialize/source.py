"""Random access to the bytes of a checkpoint: a path, a memory-mapped path or a file object."""

from __future__ import annotations

import io
import mmap
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO

import numpy

from .errors import CheckpointError


class Source:
    """A file being loaded. `array` returns memory owned by the caller (copy-on-write pages if the file is mapped)."""

    def __init__(self, file: BinaryIO, name: str, mapped: mmap.mmap | None = None, copied: bool = False):
        self.file, self.name, self.mapped = file, name, mapped
        self.copied = copied  # whether `file` is a private copy, which may be truncated
        self.size = self.end = file.seek(0, os.SEEK_END)  # `end` moves if another checkpoint follows

    def refuse(self, reason: str) -> CheckpointError:
        return CheckpointError(f"load: {self.name} {reason}")

    def read(self, at: int, n: int) -> bytes:
        """Return `n` bytes from offset `at`."""
        self.file.seek(at)
        found = self.file.read(n)
        if len(found) != n:
            raise self.refuse(f"is cut off: expected {n} bytes at {at}, got {len(found)}")
        return found

    def array(self, at: int, n: int) -> numpy.ndarray:
        """Return `n` bytes from offset `at` as a writable uint8 array."""
        if at < 0 or n < 0 or at + n > self.size:
            raise self.refuse(f"is cut off: expected {n} bytes at {at}, it has {self.size}")
        if self.mapped is not None and n:
            return numpy.frombuffer(self.mapped, numpy.uint8, n, at)
        out = numpy.empty(n, numpy.uint8)
        self.file.seek(at)
        found = self.file.readinto(memoryview(out)) if n else 0  # type: ignore[attr-defined]
        if found != n:
            raise self.refuse(f"is cut off: expected {n} bytes at {at}, got {found}")
        return out


@contextmanager
def opened(f: Any, mapped: bool) -> Iterator[Source]:
    """Open a path, or an object with `read`, as a `Source`."""
    if isinstance(f, (str, os.PathLike)):
        with open(f, "rb") as file:
            pages = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY) if mapped and os.fstat(file.fileno()).st_size else None
            yield Source(file, os.fspath(f), pages)
    elif mapped:
        raise ValueError(f"load: f must be a file path in order to use the mmap argument, got a {type(f).__name__}")
    elif not hasattr(f, "read"):
        raise AttributeError(f"load: f must be a path or a file object with `read`, got a {type(f).__name__}")
    else:
        data = f.read()
        if not isinstance(data, (bytes, bytearray, memoryview)):
            raise TypeError(f"load: expected a file opened in binary mode, its read() gave a {type(data).__name__}")
        source = Source(io.BytesIO(data), "the file", copied=True)
        yield source
        if source.end != source.size and hasattr(f, "seekable") and f.seekable():  # seek to the next checkpoint
            f.seek(source.end - source.size, os.SEEK_CUR)


@contextmanager
def whole(path: str) -> Iterator[BinaryIO]:
    """Write a file atomically: it replaces `path` only if the block ends without an error."""
    part = f"{path}.{os.getpid()}.part"
    try:
        with open(part, "wb") as file:
            yield file
        os.replace(part, path)
    except BaseException:
        if os.path.exists(part):
            os.unlink(part)
        raise
