"""NCCL collectives between GPUs, through CuPy. Unsupported calls and CPU tensors use the TCP links."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy

from ..core import devices
from .group import ProcessGroup, Work
from .reductions import ReduceOp


def available() -> bool:
    """Return whether CuPy was built with NCCL."""
    try:
        from cupy.cuda import nccl
    except ImportError:
        return False
    return bool(getattr(nccl, "available", False))


class NcclGroup(ProcessGroup):
    """A process group with one GPU per process. The communicator is created at the first collective on a GPU array."""

    def __init__(self, links: Any, number: int, ranks: list[int], timeout: float, backend: str) -> None:
        super().__init__(links, number, ranks, timeout, backend)
        self._comm: Any = None

    def of(self, array: Any) -> Any:
        """Return the flattened array on its device."""
        if isinstance(array, numpy.ndarray):
            return numpy.ascontiguousarray(array).reshape(-1)
        import cupy

        return cupy.ascontiguousarray(array).reshape(-1)

    def start(self, fn: Callable[[], None], tensors: list) -> Work:
        """Run `fn` in the group's thread, on the caller's GPU and stream; a thread would otherwise use GPU 0 and its default stream."""
        import cupy

        place, stream = cupy.cuda.Device(), cupy.cuda.get_current_stream()

        def there() -> None:
            with place, stream:
                fn()

        return super().start(there, tensors)

    def _communicator(self, tag: int) -> Any:
        if self._comm is None:
            from cupy.cuda import nccl

            made = numpy.array(nccl.get_unique_id() if self._me == 0 else (0,) * 128, numpy.int8)
            identity = super().broadcast(made, 0, tag + 1, "object")
            self._comm = nccl.NcclCommunicator(len(self.ranks), tuple(int(v) for v in identity), self._me)
        return self._comm

    def _ready(self, flat: Any, tag: int) -> tuple[Any, int, int, int] | None:
        """Return `(communicator, NCCL dtype, count, stream)`, or None if NCCL does not support the array."""
        if isinstance(flat, numpy.ndarray):
            return None
        import cupy
        from cupy.cuda import nccl

        kinds = {"i1": nccl.NCCL_INT8, "u1": nccl.NCCL_UINT8, "i4": nccl.NCCL_INT32, "u4": nccl.NCCL_UINT32}
        kinds |= {"i8": nccl.NCCL_INT64, "u8": nccl.NCCL_UINT64, "f2": nccl.NCCL_FLOAT16, "f4": nccl.NCCL_FLOAT32, "f8": nccl.NCCL_FLOAT64}
        kind = kinds.get(flat.dtype.str[1:])
        return None if kind is None else (self._communicator(tag), kind, flat.size, cupy.cuda.get_current_stream().ptr)

    def all_reduce(self, flat: Any, op: ReduceOp, tag: int) -> Any:
        ready = self._ready(flat, tag)
        kinds = {ReduceOp.SUM: 0, ReduceOp.AVG: 0, ReduceOp.PRODUCT: 1, ReduceOp.MAX: 2, ReduceOp.MIN: 3}
        if ready is None or op not in kinds:
            return super().all_reduce(_host(flat), op, tag)
        comm, kind, count, stream = ready
        out = flat.copy()
        comm.allReduce(flat.data.ptr, out.data.ptr, count, kind, kinds[op], stream)
        return out / len(self.ranks) if op is ReduceOp.AVG else out

    def broadcast(self, flat: Any, source: int, tag: int, call: str = "broadcast", same: bool = True) -> Any:
        ready = self._ready(flat, tag)
        if ready is None:
            return super().broadcast(_host(flat), source, tag, call, same)
        comm, kind, count, stream = ready
        out = flat.copy()
        comm.broadcast(flat.data.ptr, out.data.ptr, count, kind, source, stream)
        return out

    def all_gather(self, flat: Any, tag: int, call: str = "all_gather", same: bool = True) -> list:
        ready = self._ready(flat, tag)
        if ready is None:
            return super().all_gather(_host(flat), tag, call, same)
        comm, kind, count, stream = ready
        import cupy

        out = cupy.empty(count * len(self.ranks), flat.dtype)
        comm.allGather(flat.data.ptr, out.data.ptr, count, kind, stream)
        return [out[i * count : (i + 1) * count] for i in range(len(self.ranks))]

    def gather(self, flat: Any, to: int, tag: int, call: str = "gather", same: bool = True) -> list | None:
        return super().gather(_host(flat), to, tag, call, same)


def _host(flat: Any) -> numpy.ndarray:
    return flat if isinstance(flat, numpy.ndarray) else devices.cuda().to_host(flat)
