"""`GradScaler`: multiplies losses by a large scale, so that half-precision gradients do not underflow, and adapts the scale."""

from __future__ import annotations

import math
import warnings
from collections import defaultdict
from collections.abc import Iterable
from enum import Enum
from typing import Any

import numpy

from ..autograd import no_grad
from ..base import dtypes
from ..core import devices, versions
from ..core.create import full
from ..core.tensor import Tensor

__all__ = ["GradScaler", "OptState"]


class OptState(Enum):
    """The stage of an optimizer since the last `update()`."""

    READY = 0
    UNSCALED = 1
    STEPPED = 2


def _new_state() -> dict[str, Any]:
    return {"stage": OptState.READY, "found_inf_per_device": {}}


class GradScaler:
    """Scale losses and unscale gradients: `scaler.scale(loss).backward(); scaler.step(optimizer); scaler.update()`.

    The scale starts at `init_scale`. After `growth_interval` consecutive steps without an infinite or nan gradient it is multiplied by
    `growth_factor`; after a step with one, which the optimizer skips, by `backoff_factor`. With `enabled=False`, or `device="cuda"`
    without a GPU (which warns), losses are unchanged and `step` only calls the optimizer's.
    Raises AssertionError unless growth_factor > 1 and backoff_factor < 1.
    """

    def __init__(
        self,
        device: str = "cuda",
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        self._device, self._enabled = device, enabled
        if device == "cuda" and enabled and not devices.cuda_available():
            warnings.warn("torch.cuda.amp.GradScaler is enabled, but CUDA is not available.  Disabling.", stacklevel=2)
            self._enabled = False
        if not self._enabled:
            return
        if growth_factor <= 1.0:
            raise AssertionError("The growth factor must be > 1.0.")
        if backoff_factor >= 1.0:
            raise AssertionError("The backoff factor must be < 1.0.")
        self._init_scale, self._init_growth_tracker = init_scale, 0
        self._scale: Tensor | None = None  # 0-d, float32, on the device of the first loss
        self._growth_tracker: Tensor | None = None  # 0-d, int32: steps since the last infinite gradient or growth
        self._growth_factor, self._backoff_factor, self._growth_interval = growth_factor, backoff_factor, growth_interval
        self._per_optimizer_states: dict[int, dict[str, Any]] = defaultdict(_new_state)

    # -- one iteration ---------------------------------------------------------------------------------------------------------

    def scale(self, outputs: Any) -> Any:
        """Multiply a tensor, or the tensors in lists, tuples and other iterables, by the scale. ValueError for anything else."""
        if not self._enabled:
            return outputs
        if isinstance(outputs, Tensor):
            return outputs * self._on(outputs.device)
        if isinstance(outputs, Iterable):
            scaled = map(self.scale, outputs)
            return type(outputs)(scaled) if isinstance(outputs, (list, tuple)) else scaled  # type: ignore[call-arg]
        raise ValueError("outputs must be a Tensor or an iterable of Tensors")

    def unscale_(self, optimizer: Any) -> None:
        """Divide the gradients of an optimizer's parameters by the scale, for example to clip them; otherwise `step` does it.

        RuntimeError if they are already unscaled, or `step` was called, since the last `update()`; ValueError for float16 gradients.
        """
        if not self._enabled:
            return
        scale, _ = self._begun("unscale_")
        state = self._per_optimizer_states[id(optimizer)]
        if state["stage"] is OptState.UNSCALED:
            raise RuntimeError("unscale_() has already been called on this optimizer since the last update().")
        if state["stage"] is OptState.STEPPED:
            raise RuntimeError("unscale_() is being called after step().")
        state["found_inf_per_device"] = self._unscale_grads_(optimizer, scale, False)
        state["stage"] = OptState.UNSCALED

    def step(self, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        """Unscale the gradients and call `optimizer.step(*args, **kwargs)`, unless a gradient is infinite or nan.

        On a GPU the host waits to know this, except for SGD, Adam and AdamW without hooks: their kernels skip the step by themselves.
        Returns the result of the optimizer's step, or None if it was skipped. RuntimeError for a second step before `update()`, and for a
        `closure` keyword.
        """
        if not self._enabled:
            return optimizer.step(*args, **kwargs)
        if "closure" in kwargs:
            raise RuntimeError("Closure use is not currently supported if GradScaler is enabled.")
        scale, _ = self._begun("step")
        state = self._per_optimizer_states[id(optimizer)]
        if state["stage"] is OptState.STEPPED:
            raise RuntimeError("step() has already been called since the last update().")
        if getattr(optimizer, "_step_supports_amp_scaling", False):
            return self._step_that_scales(optimizer, state, scale, args, kwargs)
        if state["stage"] is OptState.READY:
            self.unscale_(optimizer)
        if not state["found_inf_per_device"]:
            raise AssertionError("No inf checks were recorded for this optimizer.")
        found = list(state["found_inf_per_device"].values())
        can_skip = getattr(type(optimizer), "_can_skip", None)  # of the type: wrappers pass on what they do not have
        if can_skip is not None and not args and can_skip(optimizer, found):
            optimizer._found = found[0].array
            try:
                result = optimizer.step(**kwargs)
            finally:
                del optimizer._found
        elif any(devices.is_traced(x.array) for x in found):
            result = self._step_unless(sum(found[1:], found[0]), optimizer, args, kwargs)
        else:
            result = None if sum(float(x.item()) for x in found) else optimizer.step(*args, **kwargs)
        state["stage"] = OptState.STEPPED
        return result

    @staticmethod
    def _step_unless(found: Tensor, optimizer: Any, args: tuple, kwargs: dict) -> Any:
        """Make the step and, where `found` is not 0, undo it: a traced step cannot decide."""
        xp = devices.namespace(found.array)
        changed = [p for group in optimizer.param_groups for p in group["params"] if p._grad is not None]
        changed += [x for p in changed for x in optimizer.state[p].values() if isinstance(x, Tensor)]
        before = [x.array.copy() for x in changed]
        result = optimizer.step(*args, **kwargs)
        for x, old in zip(changed, before, strict=True):
            x.array[...] = xp.where(found.array != 0, old, x.array)
        return result

    def _step_that_scales(self, optimizer: Any, state: dict, scale: Tensor, args: tuple, kwargs: dict) -> Any:
        """Step an optimizer that unscales gradients itself, from its attributes `grad_scale` and `found_inf`."""
        ready = state["stage"] is OptState.READY
        if ready:
            state["found_inf_per_device"] = self._unscale_grads_(optimizer, full((), 1.0, dtype=dtypes.float32, device=scale.device), True)
        before = getattr(optimizer, "grad_scale", None)
        optimizer.grad_scale = (scale if before is None else scale * before) if ready else before
        optimizer.found_inf = sum(x.to(scale.device) for x in state["found_inf_per_device"].values())
        try:
            return optimizer.step(*args, **kwargs)
        finally:
            state["stage"] = OptState.STEPPED
            del optimizer.grad_scale, optimizer.found_inf

    def update(self, new_scale: Any = None) -> None:
        """Adapt the scale at the end of an iteration, or set it to `new_scale`, a float or a one-element tensor.

        AssertionError if no optimizer's gradients were checked since the last update.
        """
        if not self._enabled:
            return
        scale, tracker = self._begun("update")
        with no_grad():
            if isinstance(new_scale, float):
                scale.fill_(new_scale)
            elif new_scale is not None:
                if new_scale.device.type != self._device or new_scale.numel() != 1 or new_scale.requires_grad:
                    raise AssertionError(
                        "new_scale should be a float or a 1-element torch.cuda.FloatTensor or torch.FloatTensor with requires_grad=False."
                    )
                scale.copy_(new_scale.reshape(()))
            else:
                found = [x.to(scale.device) for s in self._per_optimizer_states.values() for x in s["found_inf_per_device"].values()]
                if not found:
                    raise AssertionError("No inf checks were recorded prior to update.")
                if gpu := devices.list_kernels([scale.array]):
                    total: Any = sum(found[1:], found[0])
                    gpu.adapt(scale.array, tracker.array, total.array, self._growth_factor, self._backoff_factor, self._growth_interval)
                elif any(devices.is_traced(x.array) for x in found):
                    total = sum(found[1:], found[0])
                    self._adapt_traced(scale.array, tracker.array, total.array != 0)
                else:
                    self._adapt(scale, tracker, any(float(x.item()) for x in found))
        self._per_optimizer_states = defaultdict(_new_state)

    def _adapt(self, scale: Tensor, tracker: Tensor, found: bool) -> None:
        now = float(scale.item())
        if found:
            scale.fill_(now * self._backoff_factor)
            tracker.fill_(0)
            return
        steps = int(tracker.item()) + 1
        if steps == self._growth_interval:
            with numpy.errstate(over="ignore"):
                grown = float(numpy.float32(now * self._growth_factor))
            if math.isfinite(grown):  # an infinite scale would make every gradient infinite
                scale.fill_(grown)
            steps = 0
        tracker.fill_(steps)

    def _adapt_traced(self, scale: Any, tracker: Any, found: Any) -> None:
        """`_adapt` without decisions, for a traced step."""
        xp = devices.namespace(scale)
        steps, grown = tracker + 1, scale * self._growth_factor
        grows = steps == self._growth_interval
        scale[...] = xp.where(found, scale * self._backoff_factor, xp.where(grows & xp.isfinite(grown), grown, scale))
        tracker[...] = xp.where(found | grows, 0, steps)

    # -- gradients -------------------------------------------------------------------------------------------------------------

    def _unscale_grads_(self, optimizer: Any, scale: Tensor, allow_fp16: bool) -> dict[Any, Tensor]:
        """Divide the gradients by `scale`; return {device: 1.0 if any gradient there was infinite or nan, else 0.0}."""
        grads: dict[Any, list[Tensor]] = defaultdict(list)
        for param in (p for group in optimizer.param_groups for p in group["params"]):
            if not isinstance(param, Tensor):
                raise AssertionError(f"expected param to be torch.Tensor, got {type(param).__name__}")
            if param.grad is None:
                continue
            if not allow_fp16 and param.grad.dtype == dtypes.float16:
                raise ValueError("Attempting to unscale FP16 gradients.")
            grad = param.grad._values() if param.grad.is_sparse else param.grad
            grads[grad.device].append(grad)
        with no_grad():
            return {device: self._unscaled(of_device, scale.to(device)) for device, of_device in grads.items()}

    def _unscaled(self, grads: list[Tensor], scale: Tensor) -> Tensor:
        """Divide gradients on one device by `scale`; return 1.0 if any was infinite or nan, else 0.0."""
        if gpu := devices.list_kernels([scale.array, *[grad.array for grad in grads]]):
            for grad in grads:
                versions.note_write(grad.array, "unscale_")
            return Tensor._wrap(gpu.unscale([grad.array for grad in grads], scale.array))
        traced = devices.is_traced(scale.array)
        inverse: Any = scale.double().reciprocal().float() if traced else float(numpy.float32(1 / float(scale.item())))
        bad: Any = False
        for grad in grads:
            xp = devices.namespace(grad.array)
            bad = xp.logical_or(bad, xp.logical_not(xp.all(xp.isfinite(grad.array))))
            if traced or inverse != 1.0:
                grad.mul_(inverse)
        return Tensor._wrap(xp.asarray(bad, numpy.float32))

    def _on(self, device: Any) -> Tensor:
        scale = self._scale
        if scale is None:
            scale = self._scale = full((), self._init_scale, dtype=dtypes.float32, device=device)
            self._growth_tracker = full((), self._init_growth_tracker, dtype=dtypes.int32, device=device)
        return scale.to(device)

    def _begun(self, name: str) -> tuple[Tensor, Tensor]:
        if self._scale is None or self._growth_tracker is None:
            raise AssertionError(
                f"Attempted {name} but _scale is None.  This may indicate your script did not use scaler.scale(loss or outputs) earlier "
                "in the iteration."
            )
        return self._scale, self._growth_tracker

    # -- questions and state ---------------------------------------------------------------------------------------------------

    def is_enabled(self) -> bool:
        """Whether losses are scaled."""
        return self._enabled

    def get_scale(self) -> float:
        """The current scale; 1.0 if the scaler is disabled."""
        if not self._enabled:
            return 1.0
        return self._init_scale if self._scale is None else float(self._scale.item())

    def get_growth_factor(self) -> float:
        """The factor by which the scale grows."""
        return self._growth_factor

    def set_growth_factor(self, new_factor: float) -> None:
        """Set the factor by which the scale grows."""
        self._growth_factor = new_factor

    def get_backoff_factor(self) -> float:
        """The factor by which the scale shrinks."""
        return self._backoff_factor

    def set_backoff_factor(self, new_factor: float) -> None:
        """Set the factor by which the scale shrinks."""
        self._backoff_factor = new_factor

    def get_growth_interval(self) -> int:
        """The number of consecutive steps without an infinite gradient after which the scale grows."""
        return self._growth_interval

    def set_growth_interval(self, new_interval: int) -> None:
        """Set the number of consecutive steps without an infinite gradient after which the scale grows."""
        self._growth_interval = new_interval

    def _get_growth_tracker(self) -> int:
        if not self._enabled:
            return 0
        return self._init_growth_tracker if self._growth_tracker is None else int(self._growth_tracker.item())

    def state_dict(self) -> dict[str, Any]:
        """PyTorch's five entries as Python numbers; empty if the scaler is disabled."""
        if not self._enabled:
            return {}
        return {
            "scale": self.get_scale(),
            "growth_factor": self._growth_factor,
            "backoff_factor": self._backoff_factor,
            "growth_interval": self._growth_interval,
            "_growth_tracker": self._get_growth_tracker(),
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load the result of `state_dict()`; does nothing if the scaler is disabled. RuntimeError for an empty one."""
        if not self._enabled:
            return
        if not state_dict:
            raise RuntimeError("The source state dict is empty, possibly because it was saved from a disabled instance of GradScaler.")
        taken = [state_dict[name] for name in ("scale", "_growth_tracker", "growth_factor", "backoff_factor", "growth_interval")]
        self._init_scale, self._init_growth_tracker, self._growth_factor, self._backoff_factor, self._growth_interval = taken
        if self._scale is not None and self._growth_tracker is not None:
            self._scale.fill_(self._init_scale)
            self._growth_tracker.fill_(self._init_growth_tracker)

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__.copy()
        if self._enabled:
            if self._per_optimizer_states:
                raise AssertionError(
                    "A GradScaler instance may only be pickled at the beginning of an iteration, or at the end after scaler.update()."
                )
            state |= {"_init_scale": self.get_scale(), "_init_growth_tracker": self._get_growth_tracker()}
            state |= {"_scale": None, "_growth_tracker": None}
        return state
