"""The memory of a compiled step's state: XLA owns it, and the engine's arrays look at it by address, so that neither side copies.

A `Block` is one storage. `buffer()` returns it as XLA's, moved there at the first use and again whenever the program has given a tensor
other memory. `adopt()` takes XLA's result in its place: usually the very same memory, which XLA has written anew.
"""

from __future__ import annotations

import ctypes
import sys
from typing import Any

import jax.numpy as jnp
import numpy

from ..core import versions
from ..core.tensor import Tensor


def _memory(buffer: Any) -> Any:
    """Return the memory of an XLA buffer for NumPy; its attribute `buffer` is the buffer, which it keeps alive."""
    memory = (ctypes.c_char * buffer.nbytes).from_address(buffer.unsafe_buffer_pointer())
    memory.buffer = buffer
    return memory


def seen(buffer: Any) -> numpy.ndarray:
    """Return a NumPy array over the memory of an XLA buffer, once that is computed."""
    return _array(_memory(buffer.block_until_ready()))


def as_buffer(array: Any) -> Any:
    """Return an XLA buffer with the contents of an array: the one that it looks at, if it sees the whole of it, else a copy."""
    buffer = getattr(array.base, "buffer", None)
    whole = buffer is not None and buffer.shape == array.shape and buffer.dtype == array.dtype and array.flags.c_contiguous
    return buffer if whole else jnp.array(array, copy=True)


def _array(memory: Any) -> numpy.ndarray:
    return numpy.ndarray(memory.buffer.shape, memory.buffer.dtype, memory)


def _memory_order(array: numpy.ndarray) -> tuple[int, ...]:
    return tuple(sorted(range(array.ndim), key=lambda d: -array.strides[d]))


def _alone() -> int:
    only = object()
    return sys.getrefcount(only)


ALONE = _alone()  # the references to what a local variable alone holds: two with that of the call, which Python 3.14 does not count


class Block:
    """A storage, and the tensors of the state that share it."""

    def __init__(self, tensors: list[Tensor]) -> None:
        self.tensors = tensors
        self._memory: Any = None
        self._owner: Any = None  # the array over XLA's memory

    @property
    def shape(self) -> tuple:
        """The shape of the storage, with its dimensions in the order of the memory."""
        owner = versions.storage(self.tensors[0].array)
        return tuple(owner.shape[d] for d in _memory_order(owner))

    @property
    def dtype(self) -> numpy.dtype:
        return versions.storage(self.tensors[0].array).dtype

    def views(self, root: Any) -> list:
        """Return for each tensor its view of `root`, which stands for the whole storage."""
        return [self._view(root, tensor.array) for tensor in self.tensors]

    def _view(self, root: Any, array: numpy.ndarray) -> Any:
        owner, order = versions.storage(array), _memory_order(array)
        if array.size == owner.size and array.transpose(order).flags.c_contiguous:
            whole = root.reshape(tuple(array.shape[d] for d in order))
            return whole if order == tuple(range(array.ndim)) else whole.transpose(tuple(int(i) for i in numpy.argsort(order)))
        at = array.__array_interface__["data"][0] - owner.__array_interface__["data"][0]
        return root.library.strided_view(root, array.shape, tuple(s // array.itemsize for s in array.strides), at // array.itemsize)

    def buffer(self) -> Any:
        """Return the memory as an XLA buffer."""
        if self._owner is None or versions.storage(self.tensors[0].array) is not self._owner:
            self._take_in()
        return jnp.array(self._in_order(), copy=True) if self._memory is None else self._memory.buffer

    def _in_order(self) -> Any:
        return self._owner.transpose(_memory_order(self._owner))

    def _take_in(self) -> None:
        """Move the memory to XLA, unless something else looks at it: then it stays where it is, and is copied for each call."""
        owner = self._owner = versions.storage(self.tensors[0].array)
        holders = ALONE + 1 + sum(t.array is owner or t.array.base is owner for t in self.tensors)  # `self._owner`, and the tensors
        self._memory = None
        if sys.getrefcount(owner) <= holders:
            self._look_at(jnp.array(self._in_order(), copy=True))

    def _look_at(self, buffer: Any) -> None:
        """Let the tensors see the memory of a buffer, with the strides that they have."""
        self._memory = _memory(buffer.block_until_ready())
        whole, owner = _array(self._memory), self._owner
        back = tuple(int(i) for i in numpy.argsort(_memory_order(owner)))
        for tensor in self.tensors:
            array = tensor.array
            if array is owner:
                tensor.array = whole.transpose(back) if back != tuple(range(len(back))) else whole
            else:
                at = array.__array_interface__["data"][0] - owner.__array_interface__["data"][0]
                tensor.array = numpy.ndarray(array.shape, array.dtype, whole, at, array.strides)
        self._owner = versions.storage(self.tensors[0].array)

    def adopt(self, buffer: Any) -> bool:
        """Take XLA's result as the new contents. Returns False if it lies elsewhere: other views of the memory are then out of date."""
        if self._memory is None:
            self._in_order()[...] = numpy.asarray(buffer)
        elif buffer.unsafe_buffer_pointer() == ctypes.addressof(self._memory):
            self._memory.buffer = buffer
        else:
            self._look_at(buffer)
            return False
        return True


def blocks(tensors: list[Tensor]) -> list[Block]:
    """Group tensors by the storage that they share."""
    found: dict[int, list[Tensor]] = {}
    for tensor in tensors:
        found.setdefault(id(versions.storage(tensor.array)), []).append(tensor)
    return [Block(group) for group in found.values()]
