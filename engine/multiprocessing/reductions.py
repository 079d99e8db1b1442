"""Send tensors to other processes as file descriptors of shared memory, without copying."""

from __future__ import annotations

import io
import os
import pickle
from multiprocessing import reduction
from multiprocessing.context import get_spawning_popen  # type: ignore[attr-defined]
from multiprocessing.reduction import ForkingPickler
from typing import Any

from ..base import dtypes
from ..core.tensor import Tensor
from ..nn.parameter import Buffer, Parameter
from .memory import Segment, segment_of, share_

NON_LEAF = (
    "Cowardly refusing to serialize non-leaf tensor which requires_grad, since autograd does not support crossing process boundaries. "
    "If you just want to transfer the data, call detach() on the tensor before serializing (e.g., putting it on the queue)."
)


def reduce_tensor(tensor: Tensor) -> tuple:
    """Pickle a tensor for a queue or pipe; afterwards both processes share its memory, as in PyTorch.

    The sending process must live until the tensor is received. A GPU tensor is sent as a copy on the host.
    Raises RuntimeError for a non-leaf tensor that requires grad: graphs do not cross process boundaries.
    """
    if tensor.requires_grad and not tensor.is_leaf:
        raise RuntimeError(NON_LEAF)
    kind = None if type(tensor) is Tensor else type(tensor)  # Tensor's printed name cannot be imported
    wants = tensor.requires_grad
    if tensor.is_cuda:
        return _from_host, (kind, tensor._like(tensor._host()), str(tensor.device), wants)
    share_(tensor)
    array = tensor.array
    segment = segment_of(array)
    assert segment is not None
    offset = array.__array_interface__["data"][0] - segment.address
    handle = reduction.DupFd(segment.fd)  # type: ignore[attr-defined]  absent on Windows only
    return _from_segment, (kind, handle, len(segment), tensor.dtype.name, array.shape, array.strides, offset, wants)


def _from_segment(kind: type | None, handle: Any, size: int, name: str, shape: tuple, strides: tuple, offset: int, wants: bool) -> Tensor:
    try:
        fd = handle.detach()
    except (ConnectionError, FileNotFoundError) as error:
        raise RuntimeError(
            "a tensor can't be received: the process that sent it has ended, and its memory with it. Keep the sender alive until then."
        ) from error
    segment = Segment.of(fd, size)
    return _built(kind, segment.array(shape, dtypes.BY_NAME[name].numpy, offset, strides), wants)


def _from_host(kind: type | None, host: Tensor, device: str, wants: bool) -> Tensor:
    return _built(kind, host.to(device).array, wants)


def _built(kind: type | None, array: Any, wants: bool) -> Tensor:
    out = object.__new__(kind or Tensor)
    out.array, out.node = array, None
    return out.requires_grad_() if wants else out


def init_reductions() -> None:
    """Register the tensor classes with the pickler of Python's queues and pipes."""
    if os.name == "posix":
        for kind in (Tensor, Parameter, Buffer):
            ForkingPickler.register(kind, reduce_tensor)


class Portable:
    """A function and its arguments for a starting process; functions defined in a notebook are pickled by value."""

    def __init__(self, content: Any) -> None:
        self.content = content

    def __reduce__(self) -> tuple:
        return _unpacked, (portable(self.content),)


def _unpacked(packed: bytes) -> Portable:
    return Portable(pickle.loads(packed))


def portable(content: Any) -> bytes:
    """Pickle objects defined in `__main__` by value, and tensors by file descriptor while a process starts."""
    import cloudpickle

    kinds: dict[str, Any] = {}
    if get_spawning_popen() is not None:
        tensors = dict(ForkingPickler(io.BytesIO()).dispatch_table)  # type: ignore[attr-defined]
        kinds["dispatch_table"] = cloudpickle.Pickler.dispatch_table.new_child(tensors)  # type: ignore[attr-defined]  read when a pickler is made: a class needs it
    buffer = io.BytesIO()
    pickler = type("Pickler", (cloudpickle.Pickler,), kinds)(buffer, protocol=5)
    pickler.dump(content)
    return buffer.getvalue()
