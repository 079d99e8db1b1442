"""`engine.cuda.nccl`: the names of PyTorch's module. Collectives of one process over its GPUs are those of `engine.cuda.comm`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..core.op import functions
from ..core.tensor import Tensor
from . import comm
from .device import backend

__all__ = ["all_gather", "all_reduce", "broadcast", "reduce", "reduce_scatter"]

SUM = 0


def is_available(tensors: Sequence[Tensor]) -> bool:
    """Return whether the tensors are contiguous, and each on a GPU of its own."""
    places = {x.device for x in tensors if x.is_cuda and not x.is_sparse and x.is_contiguous()}
    return len(places) == len(tensors) > 0


def version() -> tuple[int, int, int]:
    """Return the version of NCCL, such as (2, 27, 3). Raises RuntimeError without a GPU or NCCL."""
    number = backend().nccl_version()
    return number // 10000, number // 100 % 100, number % 100


def _only_sums(op: int) -> None:
    if op != SUM:
        raise NotImplementedError("torch.cuda.nccl: only sums are supported; torch.distributed has other reductions")


def all_reduce(
    inputs: Sequence[Tensor], outputs: Sequence[Tensor] | None = None, op: int = SUM, streams: Any = None, comms: Any = None
) -> None:
    """Write the sum of the inputs to each of the outputs, by default the inputs."""
    _only_sums(op)
    comm.broadcast(comm.reduce_add(inputs, inputs[0].device), out=inputs if outputs is None else outputs)


def reduce(
    inputs: Sequence[Tensor], output: Tensor | None = None, root: int = 0, op: int = SUM, streams: Any = None, comms: Any = None
) -> None:
    """Write the sum of the inputs to `output`, by default `inputs[root]`."""
    _only_sums(op)
    target = inputs[root] if output is None else output
    target.copy_(comm.reduce_add(inputs, target.device))


def broadcast(inputs: Sequence[Tensor], root: int = 0, streams: Any = None, comms: Any = None) -> None:
    """Write `inputs[root]` to the other tensors."""
    comm.broadcast(inputs[root], out=[x for i, x in enumerate(inputs) if i != root])


def all_gather(inputs: Sequence[Tensor], outputs: Sequence[Tensor], streams: Any = None, comms: Any = None) -> None:
    """Write all inputs, concatenated, to each of the outputs."""
    for out in outputs:
        out.copy_(comm.gather([x.reshape(-1) for x in inputs], 0, out.device).reshape(out.shape))


def reduce_scatter(inputs: Sequence[Tensor], outputs: Sequence[Tensor], op: int = SUM, streams: Any = None, comms: Any = None) -> None:
    """Write a part of the sum of the inputs to each of the outputs."""
    _only_sums(op)
    total = comm.reduce_add(inputs, inputs[0].device).reshape(-1)
    for out, part in zip(outputs, functions["chunk"](total, len(outputs)), strict=True):
        out.copy_(part.reshape(out.shape))
