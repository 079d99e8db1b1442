"""Tensors in memory that several processes see."""

from __future__ import annotations

import mmap

import numpy

from ..tensor import Tensor


def share(tensor: Tensor) -> Tensor:
    """A tensor of the same values in anonymous shared memory: a process forked from here sees writes, and its own are seen here."""
    array = tensor.array
    if not isinstance(array, numpy.ndarray):
        return tensor  # GPU memory is shared through handles of its own
    owner = array
    while isinstance(owner, numpy.ndarray):
        owner = owner.base
    if isinstance(owner.obj if isinstance(owner, memoryview) else owner, mmap.mmap):
        return tensor
    memory = numpy.frombuffer(mmap.mmap(-1, max(array.nbytes, 1)), numpy.uint8, count=array.nbytes)
    shared = memory.view(array.dtype).reshape(array.shape)
    shared[...] = array
    return tensor._like(shared)
