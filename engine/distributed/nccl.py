"""`Communicator` on NCCL, through CuPy, and the group of processes that uses it for arrays on GPUs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy

from .communicator import Communicator, Request
from .group import ProcessGroup, flat
from .reductions import ReduceOp

_OPS = {ReduceOp.SUM: 0, ReduceOp.AVG: 0, ReduceOp.PRODUCT: 1, ReduceOp.MAX: 2, ReduceOp.MIN: 3}  # ncclRedOp_t
_TYPES = {"i1": 0, "u1": 1, "i4": 2, "u4": 3, "i8": 4, "u8": 5, "f2": 6, "f4": 7, "f8": 8, "bfloat16": 9}  # ncclDataType_t


def available() -> bool:
    """Return whether CuPy was built with NCCL."""
    try:
        from cupy.cuda import nccl
    except ImportError:
        return False
    return bool(getattr(nccl, "available", False))


def carries(array: Any) -> bool:
    """Return whether an array is on a GPU and NCCL has its dtype."""
    return not isinstance(array, numpy.ndarray) and _type(array.dtype) is not None


def _type(dtype: Any) -> int | None:
    return _TYPES.get(dtype.name, _TYPES.get(dtype.str[1:]))


class _OnStream:
    """The calls put on a stream so far, which have finished once the GPU has passed them."""

    def __init__(self, *arrays: Any) -> None:
        import cupy

        self._arrays = arrays
        self._event = cupy.cuda.Event(disable_timing=True)
        self._event.record(cupy.cuda.get_current_stream())

    def test(self) -> bool:
        return bool(self._event.done)


class NcclCommunicator(Communicator):
    """The GPUs of an MPI communicator's processes, one for each.

    NCCL's calls are put on the current stream of the GPU on which the first array is. Its first call waits for all processes.
    """

    def __init__(self, host: Communicator, identity: Sequence[int], device: int) -> None:
        import cupy
        from cupy.cuda import nccl

        self.rank, self.size, self._host, self._device = host.rank, host.size, host, device
        with cupy.cuda.Device(device):
            self._nccl = nccl.NcclCommunicator(host.size, tuple(int(v) for v in identity), host.rank)

    def _call(self, name: str, array: Any, *arguments: Any, keep: Any = None) -> Request:
        import cupy

        with cupy.cuda.Device(self._device):
            getattr(self._nccl, name)(*arguments, cupy.cuda.get_current_stream().ptr)
            return _OnStream(array, keep)

    def all_reduce(self, array: Any, op: ReduceOp) -> Request:
        pointer = array.data.ptr
        return self._call("allReduce", array, pointer, pointer, array.size, _type(array.dtype), _OPS[op])

    def broadcast(self, array: Any, root: int) -> Request:
        return self._call("broadcast", array, array.data.ptr, array.data.ptr, array.size, _type(array.dtype), root)

    def all_gather(self, array: Any, out: Any, counts: Sequence[int] | None = None) -> Request:
        if counts is not None:
            raise NotImplementedError("all_gather: NCCL needs equal numbers of values")
        return self._call("allGather", array, array.data.ptr, out.data.ptr, array.size, _type(array.dtype), keep=out)

    def reduce_scatter(self, array: Any, out: Any, op: ReduceOp) -> Request:
        return self._call("reduceScatter", array, array.data.ptr, out.data.ptr, out.size, _type(array.dtype), _OPS[op], keep=out)

    def all_to_all(self, array: Any, out: Any, counts: Sequence[int], out_counts: Sequence[int]) -> Request:
        from cupy.cuda import nccl

        nccl.groupStart()
        sent = got = 0
        for peer, (n, m) in enumerate(zip(counts, out_counts, strict=True)):
            if n:
                self._call("send", array, array.data.ptr + sent * array.itemsize, n, _type(array.dtype), peer)
            if m:
                self._call("recv", out, out.data.ptr + got * out.itemsize, m, _type(out.dtype), peer)
            sent, got = sent + n, got + m
        nccl.groupEnd()
        return _OnStream(array, out)

    def send(self, array: Any, to: int, tag: int) -> Request:
        return self._host.send(flat(array), to, tag)

    def recv(self, sources: Sequence[int], tag: int) -> Any:
        return self._host.recv(sources, tag)

    def barrier(self) -> Request:
        return self._host.barrier()

    def split(self, ranks: Sequence[int]) -> Communicator:
        return self._host.split(ranks)

    def agree(self, flag: bool) -> bool:
        return self._host.agree(flag)

    def shrink(self) -> Communicator:
        self.abort()
        return self._host.shrink()

    def abort(self) -> None:
        self._nccl.abort()


class NcclGroup(ProcessGroup):
    """A process group with one GPU per process. The communicator is created at the first collective on a GPU array."""

    _gpus: NcclCommunicator | None = None

    def of(self, array: Any) -> Any:
        """Return the flattened array on its device if NCCL carries it, else on the host."""
        if not carries(array):
            return flat(array)
        import cupy

        return cupy.ascontiguousarray(array).reshape(-1)

    def empty(self, n: int, like: Any) -> Any:
        if isinstance(like, numpy.ndarray):
            return numpy.empty(n, like.dtype)
        import cupy

        with cupy.cuda.Device(like.device):
            return cupy.empty(n, like.dtype)

    def carrier(self, array: Any) -> Communicator:
        return self.comm if isinstance(array, numpy.ndarray) else self._on_gpus(array)

    def abort(self) -> None:
        super().abort()
        if self._gpus is not None:
            self._gpus.abort()
            self._gpus = None

    def _on_gpus(self, array: Any) -> NcclCommunicator:
        if self._gpus is None:
            from cupy.cuda import nccl

            identity = numpy.array(nccl.get_unique_id() if self._me == 0 else (0,) * 128, numpy.int8)
            request = self.frames.broadcast(identity, 0)
            while not request.test():
                continue
            self._gpus = NcclCommunicator(self.comm, identity, array.device.id)
        return self._gpus
