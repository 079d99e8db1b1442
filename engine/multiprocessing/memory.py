"""Memory that several processes see: segments without a name, known by a file descriptor that is passed on."""

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
    """A piece of shared memory. It lives as long as some array lies in it, in any process; there is no name that could be left behind."""

    fd: int
    address: int  # of its first byte, in this process

    @classmethod
    def of(cls, fd: int, size: int) -> Segment:
        """The segment behind a descriptor, which is the segment's from now on."""
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
        """A fresh segment of `size` bytes, all zero. OSError when the system has no memory or no descriptor left."""
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
        """An array that lies in the segment, `offset` bytes from its start."""
        return numpy.ndarray(shape, dtype, buffer=self, offset=offset, strides=strides)  # type: ignore[arg-type]  mmap is a buffer


def _anonymous_file() -> int:
    if hasattr(os, "memfd_create"):
        return os.memfd_create("engine", os.MFD_CLOEXEC)
    folder = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # macOS has neither: a file that is deleted at once
    fd, path = tempfile.mkstemp(prefix="engine-", dir=folder)
    os.unlink(path)
    return fd


def segment_of(array: Any) -> Segment | None:
    """The segment that an array lies in; None for ordinary memory."""
    while isinstance(array, numpy.ndarray):
        array = array.base
    if isinstance(array, memoryview):
        return segment_of(array.obj)
    return array if isinstance(array, Segment) else None


def is_shared(tensor: Tensor) -> bool:
    """Whether other processes can see the tensor's memory: it is in a shared segment, or on a GPU."""
    return tensor.is_cuda or segment_of(tensor.array) is not None


def share_(tensor: Tensor) -> Tensor:
    """Move the tensor's memory, and with it its base and all views of that, into a shared segment, in place; the tensor is returned.

    What shares the memory without being known as a view, such as the array that `numpy()` gave before, stays with the old memory.
    A tensor on a GPU is left as it is.
    """
    if is_shared(tensor):
        return tensor
    if tensor.is_meta:
        raise RuntimeError("share_memory_: only available on CPU, and a meta tensor has no memory")
    base = tensor if tensor._base is None else tensor._base
    array = base.array
    like = numpy.empty_like(array, subok=False)  # strides in the same order, without gaps
    shared = Segment.new(array.nbytes).array(array.shape, FROM_NUMPY[array.dtype].numpy, 0, like.strides)
    shared[...] = array
    base.array = shared
    for seen in base._views or ():
        view = seen()
        if view is not None and view._base is base:
            view.array = _along(base, view)
    return tensor


def _along(base: Tensor, view: Tensor) -> Any:
    """The array of a view, found anew from its base's."""
    from ..core import devices

    array = base.array
    for op, attrs in view._path:
        array = op.forward(devices.namespace(array), array, **attrs)
    return array
