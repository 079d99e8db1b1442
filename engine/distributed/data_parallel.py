"""`DistributedDataParallel`: replicate a model in every process and average gradients over the batch shards."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy

from ..core import tape
from ..core.tensor import Tensor
from ..futures import Future
from ..nn.module import Module
from . import collectives
from .algorithms.join import Join, Joinable, JoinHook
from .grad_bucket import GradBucket
from .group import ProcessGroup, Work
from .reductions import ReduceOp
from .world import resolve

_FIRST_BUCKET = 1 << 20  # bytes; small, so that communication starts early in the backward pass
_UNFINISHED = (
    "Expected to have finished reduction in the prior iteration before starting a new one. This error indicates that your module has "
    "parameters that were not used in producing loss. You can enable unused parameter detection by passing the keyword argument "
    "`find_unused_parameters=True` to `torch.nn.parallel.DistributedDataParallel`. "
)


class _Bucket:
    """Gradients that are sent in one message."""

    def __init__(self, params: list[Tensor]) -> None:
        self.params = params
        self.ends = numpy.cumsum([p.numel() for p in params]).tolist()
        self.waiting: set[int] = set()
        self.message: Tensor | None = None
        self.work: Work | Future | None = None

    def pack(self) -> Tensor:
        """Return the gradients as one flat tensor, with zeros for missing ones."""
        message = self.params[0].detach().new_empty(self.ends[-1])  # where the gradients are, so that NCCL can take it
        for param, end in zip(self.params, self.ends, strict=True):
            message.array[end - param.numel() : end] = 0 if param._grad is None else param._grad.array.reshape(-1)
        return message

    def unpack(self, used: set[int], scale: float) -> None:
        """Write the means, times `scale`, into the gradients of the parameters used by any process."""
        assert self.message is not None
        for param, end in zip(self.params, self.ends, strict=True):
            if id(param) not in used:
                continue
            mean = self.message.array[end - param.numel() : end]
            mean = mean if scale == 1 else mean * mean.dtype.type(scale)
            if param._grad is None:
                param._grad = param._like(mean.reshape(param.array.shape).copy())
            else:
                collectives._put(param._grad, mean, None, "DistributedDataParallel")


class DistributedDataParallel(Module, Joinable):
    """Wrap `module` in every process of the group; `backward()` averages each parameter's gradient over all processes.

    Parameters and buffers are initially copied from process 0. With `broadcast_buffers`, its buffers are copied again before each forward
    pass after a synchronized one. As in PyTorch, only the first backward pass after a forward pass averages. Gradients are sent in buckets
    of `bucket_cap_mb` MB (default 8; PyTorch's is 25) during the backward pass. Every parameter must take part in each backward pass unless
    `find_unused_parameters` is set. `device_ids` is this process's one GPU, or None for a CPU module.
    `gradient_as_bucket_view`, `static_graph`, `check_reduction`, `batched_grad_copy`, `skip_all_reduce_unused_params`,
    `bucket_cap_mb_list` and `dim` cannot change results and are ignored. `broadcast_buffers=False` keeps each process's own buffers;
    `forward_sync_buffers=False` only copies them initially. Other options raise NotImplementedError.
    """

    def __init__(
        self, module: Module, device_ids: Sequence[Any] | None = None, output_device: Any = None, dim: int = 0,
        broadcast_buffers: bool | None = None, init_sync: bool = True, process_group: ProcessGroup | None = None,
        bucket_cap_mb: float | None = None, find_unused_parameters: bool = False, check_reduction: bool = False,
        gradient_as_bucket_view: bool = False, static_graph: bool = False, delay_all_reduce_named_params: Any = None,
        param_to_hook_all_reduce: Any = None, mixed_precision: Any = None, device_mesh: Any = None,
        skip_all_reduce_unused_params: bool = False, bucket_cap_mb_list: list | None = None, batched_grad_copy: bool = False,
        forward_sync_buffers: bool | None = None,
    ):  # fmt: skip
        super().__init__()
        for name, given in (
            ("delay_all_reduce_named_params", delay_all_reduce_named_params), ("param_to_hook_all_reduce", param_to_hook_all_reduce),
            ("mixed_precision", mixed_precision), ("device_mesh", device_mesh),
        ):  # fmt: skip
            if given is not None:
                raise NotImplementedError(f"DistributedDataParallel: {name} is not supported here, expected None")
        self.process_group = resolve(process_group)
        params = [p for p in module.parameters() if p.requires_grad]
        if not params:
            raise RuntimeError("DistributedDataParallel is not needed when a module doesn't have any parameter that requires a gradient.")
        places = {p.device for p in module.parameters()}
        if device_ids is not None and len(device_ids) > 1:
            raise ValueError("device_ids can only be None or contain a single element.")
        if device_ids and (len(places) > 1 or any(d.type == "cpu" for d in places)):
            raise ValueError(
                "DistributedDataParallel device_ids and output_device arguments only work with single-device/multiple-device GPU modules "
                f"or CPU modules, but got device_ids {list(device_ids)}, output_device {output_device}, and module parameters {places}."
            )
        self.module, self.dim = module, dim
        self.device_ids, self.output_device = (list(device_ids) if device_ids else None), output_device
        given = broadcast_buffers if forward_sync_buffers is None else forward_sync_buffers
        self.broadcast_buffers = True if given is None else given
        self.find_unused_parameters, self.static_graph = find_unused_parameters, static_graph
        self.gradient_as_bucket_view = gradient_as_bucket_view
        self.require_backward_grad_sync = True
        self._syncs = self._started = False
        self._gives_buffers = True
        self._hook: tuple[Any, Callable] | None = None  # (state, hook)
        self._divides_by_all = True  # in `join`: divide gradients by the number of all processes, not of those still training
        self._check_sizes()
        if init_sync:
            buffers = () if broadcast_buffers is False and forward_sync_buffers is None else module.buffers()
            for tensor in (*module.parameters(), *buffers):
                collectives.broadcast(tensor, group=self.process_group, group_src=0)
        cap = 8.0 if bucket_cap_mb is None else bucket_cap_mb  # docs/cluster.md, "How far it scales"
        self._buckets = _bucketed(params, int(cap * (1 << 20)))
        self._bucket_of = {id(p): bucket for bucket in self._buckets for p in bucket.params}
        for param in params:
            param.register_post_accumulate_grad_hook(self._has_grad)

    def _check_sizes(self) -> None:
        """Raise RuntimeError unless all processes have the same parameters."""
        mine = [(name, tuple(p.shape), str(p.dtype)) for name, p in self.module.named_parameters()]
        found: list = [None] * self.process_group.size()
        from .objects import all_gather_object

        all_gather_object(found, mine, self.process_group)
        for i, theirs in enumerate(found):
            if theirs != found[0]:
                other = next((b for a, b in zip(found[0], theirs, strict=False) if a != b), f"{len(theirs)} parameters")
                raise RuntimeError(
                    f"DDP expects same model across all ranks, but Rank 0 has {len(found[0])} params, while rank {i} differs: {other}"
                )

    # -- forward and backward -----------------------------------------------------------------------------------------------

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        Join.notify_join_context(self)
        self._syncs = tape.mode.grad and self.require_backward_grad_sync
        if self._syncs and self._started:
            raise RuntimeError(_UNFINISHED + f"This process's rank is {self.process_group.rank()}.")
        if self._join is not None:
            self._most(int(self._syncs))
        self._give_buffers(self.process_group.rank())
        self._gives_buffers = self._syncs
        if self.device_ids:
            from ..nn.data_parallel import moved

            inputs, kwargs = moved(
                (inputs, kwargs), f"cuda:{self.device_ids[0]}" if isinstance(self.device_ids[0], int) else self.device_ids[0]
            )
        outputs = self.module(*inputs, **kwargs)
        if self._syncs:
            self._begin(_leaves_of(outputs) if self.find_unused_parameters else None)
        return outputs

    def _give_buffers(self, rank: int) -> None:
        """Broadcast the buffers of process 0; in `join`, of the process with the highest `rank` (-1 once it is done)."""
        buffers = list(self.module.buffers())
        if not (self.broadcast_buffers and self._gives_buffers and buffers):
            return
        source = 0 if self._join is None else self._most(rank)
        for buffer in buffers:
            collectives.broadcast(buffer, group=self.process_group, group_src=source)

    def _most(self, mine: int) -> int:
        """Return the maximum of a value over all processes."""
        found = Tensor._wrap(numpy.array([mine]))
        collectives.all_reduce(found, ReduceOp.MAX, self.process_group)
        return int(found.item())

    def _begin(self, used: set[int] | None = None) -> None:
        """Expect gradients of all parameters, or of those that the outputs depend on."""
        self._next, self._used = 0, set(self._bucket_of) if used is None else used & set(self._bucket_of)
        for bucket in self._buckets:
            bucket.waiting, bucket.work = {id(p) for p in bucket.params if id(p) in self._used}, None

    def reset(self) -> None:
        """Forget a backward pass that has failed."""
        self._started = self._syncs = False
        self._gives_buffers = True
        for bucket in self._buckets:
            bucket.message = bucket.work = None

    def _has_grad(self, param: Tensor) -> None:
        if not self._syncs:
            return
        self._started = True
        self._bucket_of[id(param)].waiting.discard(id(param))
        while self._next < len(self._buckets) and not self._buckets[self._next].waiting:  # same order in all processes
            bucket = self._buckets[self._next]
            self._send(bucket, bucket.pack())
            self._next += 1
        if self._next == len(self._buckets):
            self._finish()

    def _send(self, bucket: _Bucket, message: Tensor) -> None:
        bucket.message = message
        if self._hook is None:
            bucket.work = collectives.all_reduce(message, ReduceOp.AVG, self.process_group, async_op=True)
            return
        state, hook = self._hook
        number = self._buckets.index(bucket)
        found = hook(state, GradBucket(number, number == len(self._buckets) - 1, message, bucket.params))
        if not isinstance(found, Future):
            raise TypeError(f"expected the communication hook to return a Future of a tensor, got {type(found).__name__}")
        bucket.work = found

    def _receive(self, bucket: _Bucket) -> None:
        """Wait for the averaged gradients."""
        assert bucket.work is not None and bucket.message is not None
        found = bucket.work.wait()
        if self._hook is None:
            return
        found = found[0] if isinstance(found, (list, tuple)) and found else found
        if not isinstance(found, Tensor) or found.numel() != bucket.message.numel():
            what = f"{found.numel()} numbers" if isinstance(found, Tensor) else type(found).__name__
            raise RuntimeError(f"expected {bucket.message.numel()} gradients from the communication hook, in a tensor, got {what}")
        bucket.message = found.detach().reshape(-1).to(bucket.message.dtype)

    def _finish(self) -> None:
        used = self._used
        if self.find_unused_parameters:
            used = self._used_anywhere()
        scale = 1.0 if self._join is None or self._divides_by_all else self.process_group.size() / self._join.active
        for bucket in self._buckets:
            self._receive(bucket)
            bucket.unpack(used, scale)
            bucket.message = None
        self._started = self._syncs = False

    def _used_anywhere(self) -> set[int]:
        ids = list(self._bucket_of)
        mask = Tensor._wrap(numpy.array([i in self._used for i in ids], numpy.uint8))
        collectives.all_reduce(mask, ReduceOp.MAX, self.process_group)
        return {i for i, one in zip(ids, mask.array.tolist(), strict=True) if one}

    def register_comm_hook(self, state: object, hook: Callable[[Any, GradBucket], Future]) -> None:
        """Replace averaging by `hook(state, bucket)`, which returns a Future of a tensor with as many elements as the bucket.

        All processes must register the same hook before the first backward pass. See `torch.distributed.algorithms.ddp_comm_hooks`.
        """
        if not callable(hook):
            raise TypeError("Communication hook must be callable.")
        if self._hook is not None:
            raise RuntimeError("register_comm_hook or register_builtin_comm_hook can only be called once.")
        self._hook = state, hook

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """Accumulate local gradients without synchronization; the next pass outside averages the sums."""
        before, self.require_backward_grad_sync = self.require_backward_grad_sync, False
        try:
            yield
        finally:
            self.require_backward_grad_sync = before

    # -- uneven inputs --------------------------------------------------------------------------------------------------------

    def join(self, divide_by_initial_world_size: bool = True, enable: bool = True, throw_on_early_termination: bool = False) -> Join:
        """Return a context for training with uneven numbers of batches; see `Join`.

        Gradients are divided by the number of all processes, or else of those still training. At the end, all processes get the model of
        the highest rank among the last to finish.
        """
        return Join([self], enable, throw_on_early_termination, divide_by_initial_world_size=divide_by_initial_world_size)

    def join_hook(self, **kwargs: Any) -> JoinHook:
        """Return the hook that mirrors collectives after this process's last batch."""
        self._divides_by_all = kwargs.get("divide_by_initial_world_size", True)
        return _Mirror(self)

    @property
    def join_device(self) -> Any:
        """The device of the parameters."""
        return self._buckets[0].params[0].device

    @property
    def join_process_group(self) -> ProcessGroup:
        """The group of training processes."""
        return self.process_group

    def _mirror(self) -> None:
        """Mirror the collectives of one iteration, contributing zero gradients."""
        syncs = bool(self._most(0))
        self._give_buffers(-1)
        self._gives_buffers = syncs
        if not syncs:
            return
        for bucket in self._buckets:
            self._send(bucket, bucket.pack().zero_())
        if self.find_unused_parameters:
            self._used = set()
            self._used_anywhere()
        for bucket in self._buckets:
            self._receive(bucket)

    def __getstate__(self) -> dict:
        raise RuntimeError("a DistributedDataParallel belongs to its process; save or send its .module, or its state_dict()")


class _Mirror(JoinHook):
    """Mirrors the collectives of the others in a process without batches."""

    def __init__(self, ddp: DistributedDataParallel) -> None:
        self._ddp = ddp

    def main_hook(self) -> None:
        self._ddp._mirror()

    def post_hook(self, is_last_joiner: bool) -> None:
        ddp = self._ddp
        source = ddp._most(ddp.process_group.rank() if is_last_joiner else -1)
        for tensor in (*ddp.module.parameters(), *ddp.module.buffers()):
            collectives.broadcast(tensor, group=ddp.process_group, group_src=source)


def _bucketed(params: list, cap: int) -> list[_Bucket]:
    """Assign parameters to buckets in reverse order, starting a new one when full or when the dtype or device changes."""
    buckets: list[list] = []
    room = 0
    for param in reversed(params):
        fits = buckets and param.numel() * param.itemsize <= room
        alike = buckets and (buckets[-1][0].dtype is param.dtype and buckets[-1][0].device == param.device)
        if not (fits and alike):
            room = min(cap, _FIRST_BUCKET) if not buckets else cap
            buckets.append([])
        buckets[-1].append(param)
        room -= param.numel() * param.itemsize
    return [_Bucket(bucket) for bucket in buckets]


def _leaves_of(outputs: Any) -> set[int]:
    """Return the ids of the parameters that the tensors in `outputs` depend on."""
    todo, seen, found = [t.node for t in _tensors(outputs)], set(), set()
    while todo:
        node = todo.pop()
        if node is None or id(node) in seen:
            continue
        seen.add(id(node))
        if node.op is None:
            found.add(id(node.tensor()))
        else:
            todo.extend(node.inputs)
    return found


def _tensors(x: Any) -> Iterator[Tensor]:
    if isinstance(x, Tensor):
        yield x
    elif isinstance(x, dict):
        for value in x.values():
            yield from _tensors(value)
    elif isinstance(x, (list, tuple)):
        for value in x:
            yield from _tensors(value)
    elif hasattr(x, "__dict__"):  # such as a dataclass or a model's output class
        yield from _tensors(vars(x))
