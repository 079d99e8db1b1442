"""Shared memory: anonymous segments, passed between processes by file descriptor."""

from __future__ import annotations

import mmap
import os
import tempfile
from typing import Any

import numpy

from ..base.dtypes import FROM_NUMPY
from ..core.tensor import Tensor

ALIGN = 64  # bytes: a cache line


class Segment(mmap.mmap):
    """A shared memory segment, alive while an array in any process uses it. It has no name, so nothing is left behind."""

    fd: int
    address: int  # of the first byte, in this process

    @classmethod
    def of(cls, fd: int, size: int) -> Segment:
        """Map the segment behind a file descriptor, taking ownership of it."""
        try:
            segment = cls(fd, size)
        except BaseException:
            os.close(fd)
            raise
        segment.fd = fd
        segment.address = numpy.frombuffer(segment, numpy.uint8).__array_interface__["data"][0]
        return segment

    @classmethod
    def new(cls, size: int) -> Segment:
        """Create a zeroed segment of `size` bytes. Raises OSError if memory or file descriptors are exhausted."""
        size = max(size, 1)
        fd = _anonymous_file()
        try:
            os.ftruncate(fd, size)
        except OSError:
            os.close(fd)
            raise
        return cls.of(fd, size)

    def __del__(self) -> None:
        fd = self.__dict__.pop("fd", None)
        if fd is not None:
            os.close(fd)

    def array(self, shape: tuple, dtype: Any, offset: int = 0, strides: tuple | None = None) -> numpy.ndarray:
        """Return an array in the segment, `offset` bytes from its start."""
        return numpy.ndarray(shape, dtype, buffer=self, offset=offset, strides=strides)  # type: ignore[arg-type]  mmap is a buffer


def _anonymous_file() -> int:
    if hasattr(os, "memfd_create"):
        return os.memfd_create("engine", os.MFD_CLOEXEC)
    folder = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # macOS has neither: use a temporary file
    fd, path = tempfile.mkstemp(prefix="engine-", dir=folder)
    os.unlink(path)
    return fd


def segment_of(array: Any) -> Segment | None:
    """Return the segment that holds an array, or None for ordinary memory."""
    while isinstance(array, numpy.ndarray):
        array = array.base
    if isinstance(array, memoryview):
        return segment_of(array.obj)
    return array if isinstance(array, Segment) else None


def is_shared(tensor: Tensor) -> bool:
    """Return whether other processes can access the tensor's memory: a shared segment, or a GPU."""
    return tensor.is_cuda or segment_of(tensor.array) is not None


def share_(tensor: Tensor) -> Tensor:
    """Move the storage of a tensor, its base and all its views to a shared segment in place, and return the tensor.

    Arrays that share the storage without being views of the tensor, such as earlier results of `numpy()`, keep the old memory.
    GPU tensors are unchanged.
    """
    if is_shared(tensor):
        return tensor
    if tensor.is_meta:
        raise RuntimeError("share_memory_: only available on CPU, and a meta tensor has no memory")
    base = tensor if tensor._base is None else tensor._base
    array = base.array
    like = numpy.empty_like(array, subok=False)  # same stride order, without gaps
    shared = Segment.new(array.nbytes).array(array.shape, FROM_NUMPY[array.dtype].numpy, 0, like.strides)
    shared[...] = array
    base.array = shared
    for seen in base._views or ():
        view = seen()
        if view is not None and view._base is base:
            view.array = _along(base, view)
    return tensor


def _along(base: Tensor, view: Tensor) -> Any:
    """Recompute a view's array from its base's."""
    from ..core import devices

    array = base.array
    for op, attrs in view._path:
        array = op.forward(devices.namespace(array), array, **attrs)
    return array
