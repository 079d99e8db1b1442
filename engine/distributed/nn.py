"""`torch.distributed.nn`: differentiable collectives.

Each returns new tensors and does not modify its inputs; those with an output argument, as in PyTorch, also write to it. All processes must
call the same ones in forward and in backward. The ranks `src` and `dst` are global ranks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..autograd.function import Function
from ..core.tensor import Tensor
from ..ops.join import stack
from . import collectives
from .reductions import ReduceOp
from .world import get_rank, get_world_size

__all__ = [
    "all_gather", "all_reduce", "all_to_all", "all_to_all_single", "broadcast", "gather", "reduce", "reduce_scatter", "scatter",
]  # fmt: skip


def all_reduce(tensor: Tensor, op: Any = ReduceOp.SUM, group: Any = None) -> Tensor:
    """Reduce the tensors of all processes, in each of them. The gradient is `op` of all processes' gradients."""
    return _AllReduce.apply(tensor, op, group)


def all_gather(tensor: Tensor, group: Any = None) -> tuple[Tensor, ...]:
    """Gather equally shaped tensors by rank. The gradient is the sum over processes of the gradients of this process's tensor."""
    return _AllGather.apply(tensor, group)


def broadcast(tensor: Tensor, src: int, group: Any = None) -> Tensor:
    """Return the tensor of process `src`. Its gradient there is the sum over all processes, and zero elsewhere."""
    return _Broadcast.apply(tensor, src, group)


def reduce(tensor: Tensor, dst: int, op: Any = ReduceOp.SUM, group: Any = None) -> Tensor:
    """Reduce the tensors of all processes to process `dst`. The gradient is that of `dst`."""
    return _Reduce.apply(tensor, dst, op, group)


def gather(tensor: Tensor, dst: int = 0, group: Any = None) -> tuple[Tensor, ...]:
    """Gather all tensors in process `dst`; zeros elsewhere. The gradient is that of `dst` for this process's tensor."""
    return _Gather.apply(tensor, dst, group)


def scatter(tensors: Sequence[Tensor], src: int = 0, group: Any = None) -> Tensor:
    """Send tensor i of process `src` to process i; others pass tensors of that shape. Gradients are gathered in `src`."""
    return _Scatter.apply(src, group, *tensors)


def reduce_scatter(output: Tensor, input_list: Sequence[Tensor], op: Any = ReduceOp.SUM, group: Any = None) -> Tensor:
    """Reduce tensor i of all processes to process i. The gradient of tensor i is that of process i, as for a sum."""
    return _ReduceScatter.apply(output, op, group, *input_list)


def all_to_all(output_tensor_list: Sequence[Tensor], input_tensor_list: Sequence[Tensor], group: Any = None) -> tuple[Tensor, ...]:
    """Send tensor i to process i and return the tensors received, in the outputs' shapes. Gradients are sent back."""
    return _AllToAll.apply(list(output_tensor_list), group, *input_tensor_list)


def all_to_all_single(
    output: Tensor, input: Tensor, output_split_sizes: Sequence[int] | None = None, input_split_sizes: Sequence[int] | None = None,
    group: Any = None,
) -> Tensor:  # fmt: skip
    """`all_to_all` of one tensor, split along its first dimension equally or into the given lengths."""
    return _AllToAllSingle.apply(input, output, output_split_sizes, input_split_sizes, group)


def _own(tensor: Tensor) -> Tensor:
    """Return a contiguous copy that a collective may overwrite."""
    return tensor.detach().contiguous().clone()


class _AllReduce(Function):
    @staticmethod
    def forward(ctx: Any, tensor: Tensor, op: Any, group: Any) -> Tensor:
        ctx.op, ctx.group = op, group
        result = _own(tensor)
        collectives.all_reduce(result, op, group)
        return result

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        return all_reduce(grads[0], ctx.op, ctx.group), None, None


class _AllGather(Function):
    @staticmethod
    def forward(ctx: Any, tensor: Tensor, group: Any) -> tuple[Tensor, ...]:
        ctx.group = group
        mine = _own(tensor)
        gathered = [mine.new_empty(mine.shape) for _ in range(get_world_size(group))]
        collectives.all_gather(gathered, mine, group)
        return tuple(gathered)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        return all_reduce(stack(grads), group=ctx.group)[get_rank(ctx.group)], None


class _Broadcast(Function):
    @staticmethod
    def forward(ctx: Any, tensor: Tensor, src: int, group: Any) -> Tensor:
        ctx.src, ctx.group = src, group
        result = _own(tensor)
        collectives.broadcast(result, src, group)
        return result

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        total = reduce(grads[0], ctx.src, group=ctx.group)
        return total if get_rank() == ctx.src else total.new_zeros(total.shape), None, None


class _Reduce(Function):
    @staticmethod
    def forward(ctx: Any, tensor: Tensor, dst: int, op: Any, group: Any) -> Tensor:
        ctx.dst, ctx.group = dst, group
        result = _own(tensor)
        collectives.reduce(result, dst, op, group)
        return result

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        return broadcast(grads[0], ctx.dst, ctx.group), None, None, None


class _Gather(Function):
    @staticmethod
    def forward(ctx: Any, tensor: Tensor, dst: int, group: Any) -> tuple[Tensor, ...]:
        ctx.dst, ctx.group = dst, group
        mine = _own(tensor)
        gathered = [mine.new_zeros(mine.shape) for _ in range(get_world_size(group))]
        collectives.gather(mine, gathered if get_rank() == dst else None, dst, group)
        return tuple(gathered)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        return scatter(grads, ctx.dst, ctx.group), None, None


class _Scatter(Function):
    @staticmethod
    def forward(ctx: Any, src: int, group: Any, *tensors: Tensor) -> Tensor:
        ctx.src, ctx.group = src, group
        parts = [_own(t) for t in tensors]
        result = parts[0].new_zeros(parts[0].shape)
        collectives.scatter(result, parts if get_rank() == src else None, src, group)
        return result

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        return None, None, *gather(grads[0], ctx.src, ctx.group)


class _ReduceScatter(Function):
    @staticmethod
    def forward(ctx: Any, output: Tensor, op: Any, group: Any, *tensors: Tensor) -> Tensor:
        ctx.group = group
        result = output.detach()
        collectives.reduce_scatter(result, [_own(t) for t in tensors], op, group)
        return result

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        return None, None, None, *all_gather(grads[0], ctx.group)


class _AllToAll(Function):
    @staticmethod
    def forward(ctx: Any, outputs: list, group: Any, *tensors: Tensor) -> tuple[Tensor, ...]:
        ctx.group, ctx.shapes = group, [t.shape for t in tensors]
        results = [output.detach() for output in outputs]
        collectives.all_to_all(results, [_own(t) for t in tensors], group)
        return tuple(results)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        return None, None, *all_to_all([grads[0].new_empty(shape) for shape in ctx.shapes], grads, ctx.group)


class _AllToAllSingle(Function):
    @staticmethod
    def forward(ctx: Any, input: Tensor, output: Tensor, outs: Any, parts: Any, group: Any) -> Tensor:
        ctx.outs, ctx.parts, ctx.group, ctx.shape = outs, parts, group, input.shape
        result = output.detach()
        collectives.all_to_all_single(result, _own(input), outs, parts, group)
        return result

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        back = all_to_all_single(grads[0].new_empty(ctx.shape), grads[0], ctx.parts, ctx.outs, ctx.group)
        return back, None, None, None, None
