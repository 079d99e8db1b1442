"""Activation checkpointing: discard a function's intermediate results and recompute them in the backward pass, to save memory."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from .. import autograd
from ..autograd.graph import saved_tensors_hooks
from ..base.errors import warn
from ..core import casting, random, tape, versions
from ..core.devices import device
from ..core.tensor import Tensor
from ..nn import Sequential

__all__ = [
    "CheckpointError", "CheckpointFunction", "check_backward_validity", "checkpoint", "checkpoint_sequential", "detach_variable",
    "get_device_states", "noop_context_fn", "set_checkpoint_debug_enabled", "set_checkpoint_early_stop", "set_device_states",
]  # fmt: skip


class CheckpointError(RuntimeError):
    """The recomputation saved other tensors than the forward pass."""


class _Settings:
    early_stop = True
    debug: bool | None = None


def noop_context_fn() -> tuple:
    """Return two null contexts, for the forward pass and the recomputation."""
    return contextlib.nullcontext(), contextlib.nullcontext()


@contextlib.contextmanager
def set_checkpoint_early_stop(enable: bool) -> Iterator[None]:
    """Set whether recomputation stops as soon as all tensors that backward needs are available."""
    before, _Settings.early_stop = _Settings.early_stop, enable
    try:
        yield
    finally:
        _Settings.early_stop = before


@contextlib.contextmanager
def set_checkpoint_debug_enabled(enabled: bool | None) -> Iterator[None]:
    """Set whether errors list the tensors saved in both runs, overriding `checkpoint(debug=)`; None does not override it."""
    before, _Settings.debug = _Settings.debug, enabled
    try:
        yield
    finally:
        _Settings.debug = before


def detach_variable(inputs: tuple) -> tuple:
    """Return the inputs with tensors detached but keeping their `requires_grad`; other values are unchanged."""
    if not isinstance(inputs, tuple):
        raise RuntimeError(f"Only tuple of tensors is supported. Got Unsupported input type: {type(inputs).__name__}")
    found = []
    for x in inputs:
        if isinstance(x, Tensor):
            wanted, x = x.requires_grad, x.detach()
            x.requires_grad_(wanted)
        found.append(x)
    return tuple(found)


def check_backward_validity(inputs: Iterable) -> None:
    """Warn if no input requires grad: a reentrant checkpoint then computes no gradients, not even for parameters."""
    if not any(x.requires_grad for x in inputs if isinstance(x, Tensor)):
        warn("None of the inputs have requires_grad=True. Gradients will be None")


def get_device_states(*args: Any) -> tuple[list, list]:
    """Return the indices of the GPUs among the arguments, and the states of their generators."""
    places = {x.device for x in args if isinstance(x, Tensor) and x.is_cuda}
    places = sorted(places, key=lambda place: place.index)
    return [place.index for place in places], [random.generator_of(place).get_state() for place in places]


def set_device_states(devices: Any, states: Any, *, device_type: Any = None) -> None:
    """Set the states that `get_device_states` returned."""
    for index, state in zip(devices, states, strict=True):
        random.generator_of(device("cuda", index)).set_state(state)


@contextlib.contextmanager
def _random_state(state: Any) -> Iterator[None]:
    """Restore the random state of the forward pass inside the block, and the current state afterwards."""
    if state is None:
        yield
        return
    now = random.states()
    random.restore(state)
    try:
        yield
    finally:
        random.restore(now)


def checkpoint(
    function: Callable,
    *args: Any,
    use_reentrant: bool | None = None,
    context_fn: Callable = noop_context_fn,
    determinism_check: str = "default",
    debug: bool = False,
    early_stop: bool = True,
    **kwargs: Any,
) -> Any:
    """Return `function(*args, **kwargs)`, recomputing its intermediate results in the backward pass instead of keeping them.

    `use_reentrant=False` is recommended: it supports keyword arguments, `autograd.grad`, nested structures and closures. True runs a
    backward pass inside the outer one and needs an input that requires grad. The keyword `preserve_rng_state=False` draws new random
    numbers in the recomputation. `context_fn` returns two contexts, for the forward pass and the recomputation. `determinism_check`
    "default" compares the shapes, dtypes and devices of the tensors saved in both runs and raises CheckpointError if they differ;
    "none" skips the check.
    """
    if use_reentrant is None:
        warn(
            "torch.utils.checkpoint: the use_reentrant parameter should be passed explicitly. use_reentrant=False is recommended, but if "
            "you need to preserve the current default behavior, you can pass use_reentrant=True. Refer to docs for more details on the "
            "differences between the two variants."
        )
        use_reentrant = True
    preserve = kwargs.pop("preserve_rng_state", True)
    if kwargs and use_reentrant:
        raise ValueError("Unexpected keyword arguments: " + ",".join(kwargs))
    if use_reentrant:
        if context_fn is not noop_context_fn or debug:
            raise ValueError("Passing `context_fn` or `debug` is only supported when use_reentrant=False.")
        return CheckpointFunction.apply(function, preserve, *args)
    if determinism_check not in ("default", "none"):
        raise ValueError(f"determinism_check should be one of ['default', 'none'], but got {determinism_check}")
    return _Frame(function, args, kwargs, preserve, context_fn, determinism_check, debug, early_stop).run()


class CheckpointFunction(autograd.Function):
    """The reentrant form: run forward without a graph, then recompute with one in backward and backpropagate through it."""

    @staticmethod
    def forward(ctx: Any, run_function: Callable, preserve_rng_state: bool, *args: Any) -> Any:
        check_backward_validity(args)
        ctx.run_function, ctx.state = run_function, random.states() if preserve_rng_state else None
        ctx.autocast = casting.snapshot()
        ctx.places = [i for i, x in enumerate(args) if isinstance(x, Tensor)]
        ctx.others = [None if isinstance(x, Tensor) else x for x in args]
        ctx.save_for_backward(*[args[i] for i in ctx.places])
        return run_function(*args)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple:
        if tape.mode.limited:
            raise RuntimeError(
                "When use_reentrant=True, torch.utils.checkpoint is incompatible with .grad() or passing an `inputs` parameter to "
                ".backward(). To resolve this error, you can either set use_reentrant=False, or call .backward() without passing the "
                "`inputs` argument."
            )
        inputs = list(ctx.others)
        for i, x in zip(ctx.places, ctx.saved_tensors, strict=True):
            inputs[i] = x
        fresh = detach_variable(tuple(inputs))
        with autograd.enable_grad(), _random_state(ctx.state), casting.as_then(ctx.autocast):
            outputs = ctx.run_function(*fresh)
        outputs = (outputs,) if isinstance(outputs, Tensor) else outputs
        live = [(o, g) for o, g in zip(outputs, grads, strict=True) if isinstance(o, Tensor) and o.requires_grad]
        if not live:
            raise RuntimeError("none of output has requires_grad=True, this checkpoint() is not necessary")
        autograd.backward([o for o, _ in live], [g for _, g in live])
        return (None, None, *(x.grad if isinstance(x, Tensor) else None for x in fresh))


class _Stop(Exception):
    """Raised when recomputation has produced all tensors that backward needs."""


class _Frame:
    """One checkpointed call: its arguments, the metadata of the tensors saved by the first run, and the tensors saved by the second."""

    def __init__(
        self, function: Callable, args: tuple, kwargs: dict, preserve: bool, context_fn: Callable, check: str, debug: bool, early_stop: bool
    ) -> None:
        self.function, self.args, self.kwargs, self.check, self.debug = function, args, kwargs, check, debug
        self.state, self.autocast = random.states() if preserve else None, casting.snapshot()
        self.first, self.second = context_fn()
        self.early_stop, self.time = early_stop, tape.tick()
        self.told: list[tuple] = []  # (shape, dtype, device) of each tensor saved by the first run
        self.again: dict[int, Tensor] = {}
        self.recomputing = False

    def run(self) -> Any:
        with saved_tensors_hooks(self._pack, self._unpack), self.first:
            return self.function(*self.args, **self.kwargs)

    def _pack(self, tensor: Tensor) -> int:
        self.told.append((tuple(tensor.shape), tensor.dtype, tensor.device))
        return len(self.told) - 1

    def _unpack(self, place: int) -> Tensor:
        if place not in self.again:
            self._recompute()
        if place not in self.again:
            raise CheckpointError(
                "torch.utils.checkpoint: A different number of tensors was saved during the original forward and recomputation.\n"
                f"Number of tensors saved during forward: {len(self.told)}\n"
                f"Number of tensors saved during recomputation: {self.seen}.{self._listing()}"
            )
        return self.again.pop(place)

    def _recompute(self) -> None:
        for i, given in enumerate(self.args):
            write = versions.last_write_of(given.array) if isinstance(given, Tensor) else None
            if write is not None and write.time > self.time:
                raise versions.spoiled(given.array, write, "checkpoint", f"args[{i}]")
        self.again, self.seen, self.found = {}, 0, []
        stop = self.early_stop and _Settings.early_stop

        def pack(tensor: Tensor) -> Tensor:
            place, self.seen = self.seen, self.seen + 1
            kept = tensor.detach()
            told = (tuple(tensor.shape), tensor.dtype, tensor.device)
            self.found.append(told)
            if place < len(self.told):
                if self.check == "default" and told != self.told[place]:
                    raise CheckpointError(
                        "torch.utils.checkpoint: Recomputed values for the following tensors have different metadata than during the "
                        f"forward pass.\ntensor at position {place}:\nsaved metadata: {_metadata(self.told[place])}\n"
                        f"recomputed metadata: {_metadata(told)}{self._listing()}"
                    )
                self.again[place] = kept
            if stop and self.seen == len(self.told):
                raise _Stop
            return kept

        args = detach_variable(self.args)
        kwargs = dict(zip(self.kwargs, detach_variable(tuple(self.kwargs.values())), strict=True))
        with (
            autograd.enable_grad(),
            _random_state(self.state),
            casting.as_then(self.autocast),
            saved_tensors_hooks(pack, lambda t: t),
            self.second,
            contextlib.suppress(_Stop),
        ):
            self.function(*args, **kwargs)
        if not stop and self.seen != len(self.told) and self.check != "none":
            self.again = {}

    def _listing(self) -> str:
        """List the tensors saved by both runs if debugging is enabled."""
        debug = self.debug if _Settings.debug is None else _Settings.debug
        if not debug:
            return ""
        lines = [
            f"  {name} {i}: {_metadata(m)}" for name, run in (("forward", self.told), ("recomputed", self.found)) for i, m in enumerate(run)
        ]
        return "\nSaved in both runs:\n" + "\n".join(lines)


def _metadata(told: tuple) -> dict:
    return {"shape": told[0], "dtype": told[1], "device": told[2]}


def checkpoint_sequential(functions: Any, segments: int, input: Any, use_reentrant: bool | None = None, **kwargs: Any) -> Any:
    """Run a sequence of modules in `segments` parts of nearly equal length, all checkpointed except the last."""
    if use_reentrant is None:
        warn(
            "torch.utils.checkpoint.checkpoint_sequential: the use_reentrant parameter should be passed explicitly. use_reentrant=False is "
            "recommended, but if you need to preserve the current default behavior, you can pass use_reentrant=True."
        )
        use_reentrant = True
    preserve = kwargs.pop("preserve_rng_state", True)
    if kwargs:
        raise ValueError("Unexpected keyword arguments: " + ",".join(kwargs))
    parts = list(functions.children()) if isinstance(functions, Sequential) else list(functions)

    def piece(start: int, end: int) -> Callable:
        def run(x: Any) -> Any:
            for part in parts[start:end]:
                x = part(x)
            return x

        return run

    size = len(parts) // segments
    for i in range(segments - 1):
        input = checkpoint(piece(i * size, (i + 1) * size), input, use_reentrant=use_reentrant, preserve_rng_state=preserve)
    return piece((segments - 1) * size, len(parts))(input)
