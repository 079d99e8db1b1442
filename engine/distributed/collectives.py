"""Collectives on tensors, under PyTorch's names. They write to their arguments in place and are not differentiable."""

from __future__ import annotations

import functools
import sys
import warnings
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import numpy

from ..core import devices, inplace
from ..core.tensor import Tensor
from . import reductions
from .errors import DistBackendError
from .group import TAGS, Line, ProcessGroup, Put, Received, Steps, Work, flat
from .reductions import ReduceOp
from .world import GroupMember, get_rank, resolve


def _checked(x: Any, name: str, of: str = "torch.Tensor") -> None:
    if not isinstance(x, Tensor):
        raise TypeError(f"Invalid function argument. Expected parameter `{name}` of type {of}\n             but got {type(x)} instead.")


def _list(xs: Any, name: str) -> list:
    if not isinstance(xs, (list, tuple)) or any(not isinstance(x, Tensor) for x in xs):
        raise TypeError(
            f"Invalid function argument. Expected parameter `{name}` of type List[torch.Tensor]\n             but got {type(xs)} instead."
        )
    return list(xs)


def _put(target: Tensor, values: Any, line: Line, name: str) -> None:
    """Write flat values into a tensor, unless they are its own memory. `line` called the collective."""
    array = target.array
    if not _is_memory_of(values, array):
        shaped = values.reshape(array.shape)
        if not isinstance(array, numpy.ndarray) and isinstance(shaped, numpy.ndarray):
            shaped = devices.move(shaped, devices.of(array))
        array[...] = shaped
    inplace.note_write_to(target, name, line=line)


def _is_memory_of(values: Any, array: Any) -> bool:
    if values is array or values.base is array:
        return True
    kinds = [isinstance(x, numpy.ndarray) for x in (values, array)]
    if all(kinds):
        return numpy.may_share_memory(values, array)
    return not any(kinds) and values.data.ptr == array.data.ptr


def _outside(group: Any) -> bool:
    """Return whether this process is not in the group, with a warning if so."""
    if group is None or group != GroupMember.NON_GROUP_MEMBER:
        return False
    asked = sys._getframe(1)
    told = f"Running {asked.f_code.co_name} on global rank {get_rank()} which does not belong to the given group."
    warnings.warn(told, stacklevel=3)
    return True


def _go(
    group: ProcessGroup, async_op: bool, name: str, tensors: Sequence[Tensor], steps: Steps, put: Put | None = None,
    op: ReduceOp | None = None, like: Any = None,
) -> Work | None:  # fmt: skip
    """Begin a collective that writes into `tensors` by `put(what the steps return, the line)`, and wait for it unless `async_op`."""
    work = group.start(name, steps, list(tensors), op, like, put)
    if async_op:
        group.wake()
        return work
    work.wait()
    return None


def _place(group: ProcessGroup, rank: int | None, group_rank: int | None, name: str, default: int | None = None) -> int:
    """Return a process's rank in the group, given its global or group rank."""
    if rank is not None and group_rank is not None:
        raise ValueError(f"Can't specify both group_{name} and {name}")
    if rank is None:
        rank = default if group_rank is None else None
        if rank is None and group_rank is None:
            raise ValueError(f"Must specify {name} or group_{name}")
    if group_rank is not None:
        if not 0 <= group_rank < group.size():
            raise RuntimeError(f"invalid root rank: group_{name}={group_rank} in a group of {group.size()} processes")
        return group_rank
    if rank not in group.ranks:
        raise (ValueError if group.number else RuntimeError)(f"invalid root rank: {name}={rank} is none of the group's ranks {group.ranks}")
    return group.ranks.index(rank)


def _array(group: ProcessGroup, x: Tensor) -> Any:
    """Return the flat array to communicate: on the GPU for NCCL, else on the host."""
    return group.of(x.array)


def all_reduce(tensor: Tensor, op: ReduceOp = ReduceOp.SUM, group: Any = None, async_op: bool = False) -> Work | None:
    """Reduce `tensor` over all processes, in place in each of them."""
    _checked(tensor, "tensor")
    if _outside(group):
        return None
    g = resolve(group)
    reductions.check(op, tensor.array.dtype, "all_reduce")
    x = _array(g, tensor)
    return _go(g, async_op, "all_reduce", [tensor], g.all_reduce(x, op), lambda _, line: _put(tensor, x, line, "all_reduce"), op, x)


def all_reduce_coalesced(tensors: Sequence[Tensor], op: ReduceOp = ReduceOp.SUM, group: Any = None, async_op: bool = False) -> Work | None:
    """Apply `all_reduce` to several tensors of one dtype in one message."""
    tensors = _list(tensors, "tensors")
    if _outside(group) or not tensors:
        return None
    g = resolve(group)
    reductions.check(op, tensors[0].array.dtype, "all_reduce")
    if len({t.dtype for t in tensors}) > 1:
        raise RuntimeError(f"all_reduce_coalesced: tensors must have one dtype, got {sorted({str(t.dtype) for t in tensors})}")
    x = numpy.concatenate([flat(t.array) for t in tensors])

    def put(_: Any, line: Line) -> None:
        at = 0
        for t in tensors:
            _put(t, x[at : at + t.numel()], line, "all_reduce")
            at += t.numel()

    return _go(g, async_op, "all_reduce", tensors, g.all_reduce(x, op), put, op, x)


def broadcast(
    tensor: Tensor, src: int | None = None, group: Any = None, async_op: bool = False, group_src: int | None = None
) -> Work | None:
    """Copy `tensor` from process `src` to all processes, in place."""
    _checked(tensor, "tensor")
    if _outside(group):
        return None
    g = resolve(group)
    source, x = _place(g, src, group_src, "src"), _array(g, tensor)

    def put(_: Any, line: Line) -> None:
        if g.rank() != source:
            _put(tensor, x, line, "broadcast")

    return _go(g, async_op, "broadcast", [tensor], g.broadcast(x, source), put, like=x)


def reduce(
    tensor: Tensor, dst: int | None = None, op: ReduceOp = ReduceOp.SUM, group: Any = None, async_op: bool = False,
    group_dst: int | None = None,
) -> Work | None:  # fmt: skip
    """Reduce `tensor` over all processes, in place in process `dst`; other processes keep theirs."""
    _checked(tensor, "tensor")
    if _outside(group):
        return None
    g = resolve(group)
    reductions.check(op, tensor.array.dtype, "reduce")
    to, x = _place(g, dst, group_dst, "dst"), _array(g, tensor)

    def put(_: Any, line: Line) -> None:
        if g.rank() == to:
            _put(tensor, x, line, "reduce")

    return _go(g, async_op, "reduce", [tensor], g.reduce(x, to, op), put, op, x)


def all_gather(tensor_list: Sequence[Tensor], tensor: Tensor, group: Any = None, async_op: bool = False) -> Work | None:
    """Gather `tensor` from all processes into `tensor_list`, ordered by rank."""
    outs = _list(tensor_list, "tensor_list")
    _checked(tensor, "tensor")
    if _outside(group):
        return None
    g = resolve(group)
    if len(outs) != g.size():
        raise RuntimeError(f"all_gather: tensor_list needs one tensor for each of the {g.size()} processes, got {len(outs)}")
    _same_sizes(outs, tensor, "allgather")
    x = _array(g, tensor)
    whole = g.empty(x.size * g.size(), x)

    def put(_: Any, line: Line) -> None:
        for i, out in enumerate(outs):
            _put(out, whole[i * x.size : (i + 1) * x.size], line, "all_gather")

    return _go(g, async_op, "all_gather", outs, g.all_gather(x, whole), put, like=x)


def _same_sizes(outs: Sequence[Tensor], x: Tensor, name: str) -> None:
    for i, out in enumerate(outs):
        if out.shape != x.shape:
            raise RuntimeError(f"{name}: invalid tensor size at index {i} (expected {tuple(x.shape)}, got {tuple(out.shape)})")
        if out.dtype is not x.dtype:
            raise ValueError(f"{name}: invalid tensor type at index {i} (expected {x.dtype}, got {out.dtype})")


def _many(out: Tensor, x: Tensor, n: int, name: str) -> None:
    if out.dtype is not x.dtype:
        raise RuntimeError(f"{name}: output has dtype {out.dtype}, input {x.dtype}")
    if out.numel() != n * x.numel():
        raise RuntimeError(f"{name}: output must have {n} times as many elements as input: got {out.numel()} and {x.numel()}")


def all_gather_into_tensor(output_tensor: Tensor, input_tensor: Tensor, group: Any = None, async_op: bool = False) -> Work | None:
    """Gather the inputs of all processes into one tensor, concatenated along the first dimension or stacked, ordered by rank."""
    _checked(output_tensor, "output_tensor")
    _checked(input_tensor, "input_tensor")
    if _outside(group):
        return None
    g = resolve(group)
    _many(output_tensor, input_tensor, g.size(), "all_gather_into_tensor")
    x, whole = _array(g, input_tensor), _array(g, output_tensor)
    if isinstance(x, numpy.ndarray) and _is_memory_of(x, whole):
        x = x.copy()

    def put(_: Any, line: Line) -> None:
        _put(output_tensor, whole, line, "all_gather_into_tensor")

    return _go(g, async_op, "all_gather", [output_tensor], g.all_gather(x, whole), put, like=x)


def gather(
    tensor: Tensor, gather_list: Sequence[Tensor] | None = None, dst: int | None = None, group: Any = None, async_op: bool = False,
    group_dst: int | None = None,
) -> Work | None:  # fmt: skip
    """Gather `tensor` from all processes into `gather_list` on process `dst` (default 0), ordered by rank."""
    _checked(tensor, "tensor")
    if _outside(group):
        return None
    g = resolve(group)
    to = _place(g, dst, group_dst, "dst", default=0)
    outs = _own_list(gather_list, g, to, "gather_list", "destination")
    if outs is not None:
        _same_sizes(outs, tensor, "gather")
    x = flat(tensor.array)

    def put(found: Any, line: Line) -> None:
        for out, values in zip(outs or (), found or (), strict=True):
            _put(out, values, line, "gather")

    return _go(g, async_op, "gather", outs or [], g.gather(x, to), put, like=x)


def _own_list(xs: Any, g: ProcessGroup, rank: int, name: str, what: str) -> list | None:
    """Validate a list that exactly one process must pass."""
    if g.rank() != rank:
        if xs:
            raise ValueError(f"Argument ``{name}`` must NOT be specified on non-{what} ranks.")
        return None
    if not xs:
        raise ValueError(f"Argument ``{name}`` must be specified on {what} rank.")
    xs = _list(xs, name)
    if len(xs) != g.size():
        raise RuntimeError(f"{name} needs one tensor for each of the {g.size()} processes, got {len(xs)}")
    return xs


def scatter(
    tensor: Tensor, scatter_list: Sequence[Tensor] | None = None, src: int | None = None, group: Any = None, async_op: bool = False,
    group_src: int | None = None,
) -> Work | None:  # fmt: skip
    """Send tensor i of `scatter_list` on process `src` (default 0) to `tensor` on process i."""
    _checked(tensor, "tensor")
    if _outside(group):
        return None
    g = resolve(group)
    source = _place(g, src, group_src, "src", default=0)
    parts = _own_list(scatter_list, g, source, "scatter_list", "source")
    if parts is not None:
        _same_sizes(parts, tensor, "scatter")
    x, whole = flat(tensor.array), None if parts is None else numpy.concatenate([flat(p.array) for p in parts])
    return _go(g, async_op, "scatter", [tensor], g.scatter(whole, source, x), lambda _, line: _put(tensor, x, line, "scatter"), like=x)


def reduce_scatter(
    output: Tensor, input_list: Sequence[Tensor], op: ReduceOp = ReduceOp.SUM, group: Any = None, async_op: bool = False
) -> Work | None:
    """Reduce tensor i of all processes' lists into `output` on process i."""
    _checked(output, "output")
    parts = _list(input_list, "input_list")
    if _outside(group):
        return None
    g = resolve(group)
    reductions.check(op, output.array.dtype, "reduce_scatter")
    if len(parts) != g.size():
        raise RuntimeError(f"reduce_scatter: input_list needs one tensor for each of the {g.size()} processes, got {len(parts)}")
    _same_sizes(parts, output, "reduce_scatter")
    x = numpy.concatenate([flat(p.array) for p in parts])
    put = functools.partial(_put, output, name="reduce_scatter")
    return _go(g, async_op, "reduce_scatter", [output], g.reduce_scatter(x, op), put, op, x)


def reduce_scatter_tensor(
    output: Tensor, input: Tensor, op: ReduceOp = ReduceOp.SUM, group: Any = None, async_op: bool = False
) -> Work | None:
    """`reduce_scatter` of one tensor, split equally along its first dimension."""
    _checked(output, "output")
    _checked(input, "input")
    if _outside(group):
        return None
    g = resolve(group)
    reductions.check(op, output.array.dtype, "reduce_scatter_tensor")
    _many(input, output, g.size(), "reduce_scatter_tensor")
    x = _array(g, input)
    put = functools.partial(_put, output, name="reduce_scatter_tensor")
    return _go(g, async_op, "reduce_scatter", [output], g.reduce_scatter(x, op), put, op, x)


def all_to_all(
    output_tensor_list: Sequence[Tensor], input_tensor_list: Sequence[Tensor], group: Any = None, async_op: bool = False
) -> Work | None:
    """Send tensor i of the inputs to process i, and receive one tensor from each process into the outputs."""
    outs, parts = _list(output_tensor_list, "output_tensor_list"), _list(input_tensor_list, "input_tensor_list")
    if _outside(group):
        return None
    g = resolve(group)
    if len(outs) != g.size() or len(parts) != g.size():
        raise ValueError(f"all_to_all: both lists need one tensor for each of the {g.size()} processes, got {len(outs)} and {len(parts)}")
    if len(kinds := {t.dtype for t in (*outs, *parts)}) > 1:
        raise ValueError(f"all_to_all: tensors must have one dtype, got {sorted(map(str, kinds))}")
    x, sizes = numpy.concatenate([flat(p.array) for p in parts]), [o.numel() for o in outs]
    found = numpy.empty(sum(sizes), x.dtype)

    def put(_: Any, line: Line) -> None:
        for out, values in zip(outs, numpy.split(found, numpy.cumsum(sizes)[:-1]), strict=True):
            _put(out, values, line, "all_to_all")

    return _go(g, async_op, "all_to_all", outs, g.all_to_all(x, found, [p.numel() for p in parts], sizes), put, like=x)


def all_to_all_single(
    output: Tensor, input: Tensor, output_split_sizes: Sequence[int] | None = None, input_split_sizes: Sequence[int] | None = None,
    group: Any = None, async_op: bool = False,
) -> Work | None:  # fmt: skip
    """`all_to_all` of one tensor, split along its first dimension equally or into the given lengths."""
    _checked(output, "output")
    _checked(input, "input")
    if _outside(group):
        return None
    g = resolve(group)
    outs = _lengths(output, output_split_sizes, g.size(), "output")
    parts = _lengths(input, input_split_sizes, g.size(), "input")
    x, found = flat(input.array), numpy.empty(output.numel(), output.array.dtype)
    steps = g.all_to_all(x, found, parts, outs)
    return _go(g, async_op, "all_to_all", [output], steps, lambda _, line: _put(output, found, line, "all_to_all_single"), like=x)


def _lengths(x: Tensor, sizes: Sequence[int] | None, n: int, name: str) -> list[int]:
    """Return the numbers of values of the parts."""
    rows = x.shape[0]
    if not sizes:
        if rows % n:
            raise RuntimeError(f"all_to_all_single: the first dimension of {name}, {rows}, does not divide equally across {n} processes")
        sizes = [rows // n] * n
    if len(sizes) != n or sum(sizes) != rows:
        raise RuntimeError(f"all_to_all_single: {name}_split_sizes must be {n} lengths that sum to {rows}, got {list(sizes)}")
    return [size * (x.numel() // rows if rows else 0) for size in sizes]


def barrier(group: Any = None, async_op: bool = False, device_ids: Any = None, timeout: timedelta | None = None) -> Work | None:
    """Wait until all processes reach the barrier. Raises DistBackendError after `timeout` (default: the group's)."""
    if _outside(group):
        return None
    g = resolve(group)
    work = _go(g, True, "barrier", [], g.barrier())
    assert work is not None
    if async_op:
        return work
    work.wait(timeout)
    return None


def monitored_barrier(group: Any = None, timeout: timedelta | None = None, wait_all_ranks: bool = False) -> None:
    """A barrier after which process 0 raises RuntimeError with the ranks that did not reach it in time."""
    if _outside(group):
        return
    g = resolve(group)
    g.monitored_barrier(g.timeout if timeout is None else timeout.total_seconds(), wait_all_ranks)


# -- point to point --------------------------------------------------------------------------------------------------------------


def _peer(g: ProcessGroup, rank: int | None, group_rank: int | None, name: str, what: str) -> int:
    peer = _place(g, rank, group_rank, name)
    if peer == g.rank():
        raise ValueError(f"Invalid {what} rank: {what} rank should not be the same as the rank of the current process.")
    return peer


def send(tensor: Tensor, dst: int | None = None, group: Any = None, tag: int = 0, group_dst: int | None = None) -> None:
    """Send a tensor to one process, and wait until it takes it."""
    work = isend(tensor, dst, group, tag, group_dst)
    if work is not None:
        work.wait()


def isend(tensor: Tensor, dst: int | None = None, group: Any = None, tag: int = 0, group_dst: int | None = None) -> Work | None:
    """Non-blocking `send`; the tensor must not be changed before `wait()`."""
    _checked(tensor, "tensor")
    if _outside(group):
        return None
    g = resolve(group)
    return g.send(flat(tensor.array), _peer(g, dst, group_dst, "dst", "destination"), _own_tag(tag), [tensor])


def _own_tag(tag: int) -> int:
    if not 0 <= tag < TAGS:
        raise ValueError(f"tag: expected 0 to {TAGS - 1}, got {tag}")
    return tag


def irecv(tensor: Tensor, src: int | None = None, group: Any = None, tag: int = 0, group_src: int | None = None) -> Work | None:
    """Non-blocking `recv`; the tensor is filled after `wait()`."""
    _checked(tensor, "tensor")
    if _outside(group):
        return None
    g = resolve(group)
    source = None if src is None and group_src is None else _peer(g, src, group_src, "src", "source")
    kind, size = tensor.array.dtype, tensor.numel()

    def use(found: int, values: numpy.ndarray) -> None:
        if values.dtype != kind or values.size != size:
            sent, expected = f"{values.size} {values.dtype}", f"{size} {kind}"
            raise DistBackendError(f"recv: rank {g.ranks[found]} sent {sent} values where rank {get_rank()} expected {expected}")
        _put(tensor, values, None, "recv")

    return g.recv(source, _own_tag(tag), use, [tensor])


def recv(tensor: Tensor, src: int | None = None, group: Any = None, tag: int = 0, group_src: int | None = None) -> int:
    """Receive a tensor from a process, or from any if `src` is None. Returns the sender's rank, or -1 outside of the group."""
    work = irecv(tensor, src, group, tag, group_src)
    return work.source_rank() if isinstance(work, Received) else -1


class P2POp:
    """One send or receive for `batch_isend_irecv`: `P2POp(dist.isend, tensor, peer)`."""

    def __init__(
        self, op: Callable, tensor: Tensor, peer: int | None = None, group: Any = None, tag: int = 0, group_peer: int | None = None
    ):
        if op not in (isend, irecv):
            raise ValueError("Invalid ``op``. Expected ``op`` to be of type ``torch.distributed.isend`` or ``torch.distributed.irecv``.")
        self.op, self.tensor, self.peer, self.group, self.tag, self.group_peer = op, tensor, peer, group, tag, group_peer


def batch_isend_irecv(p2p_op_list: Sequence[P2POp]) -> list:
    """Start several sends and receives, and return their requests."""
    if not p2p_op_list or any(not isinstance(p, P2POp) for p in p2p_op_list):
        raise ValueError("Invalid ``p2p_op_list``. Each op is expected to be of type ``torch.distributed.P2POp``.")
    works = [p.op(p.tensor, p.peer, p.group, p.tag, p.group_peer) for p in p2p_op_list]
    return [w for w in works if w is not None]
