"""Schedulers that cycle the rate per batch, and optionally momentum (or beta1) in the opposite direction."""

from __future__ import annotations

import math
import types
from collections.abc import Callable
from typing import Any

from ..optimizer import Optimizer
from .base import LRScheduler, asked_by_step, per_group, set_lr


class _Momentum(LRScheduler):
    """Base of schedulers that vary momentum (or beta1) inversely to the rate."""

    def _has_momentum(self, optimizer: Optimizer) -> None:
        if "momentum" not in optimizer.defaults and "betas" not in optimizer.defaults:
            raise ValueError("optimizer must support momentum or beta1 with `cycle_momentum` option enabled")
        self.use_beta1 = "betas" in optimizer.defaults

    def _set_momentum(self, group: dict, value: float) -> None:
        if self.use_beta1:
            group["betas"] = (value, *group["betas"][1:])
        else:
            group["momentum"] = value


class CyclicLR(_Momentum):
    """Cycle the rate linearly from base_lr to max_lr in `step_size_up` batches and back in `step_size_down` (Smith 2015).

    `mode` scales the amplitude: "triangular" keeps it, "triangular2" halves it every cycle, "exp_range" multiplies it by gamma^iteration.
    """

    def __init__(
        self, optimizer: Optimizer, base_lr: Any, max_lr: Any, step_size_up: int = 2000, step_size_down: int | None = None,
        mode: str = "triangular", gamma: float = 1.0, scale_fn: Callable[[float], float] | None = None, scale_mode: str = "cycle",
        cycle_momentum: bool = True, base_momentum: float = 0.8, max_momentum: float = 0.9, last_epoch: int = -1,
    ):  # fmt: skip
        base_lrs = per_group(base_lr, optimizer, "base_lr")
        for group, lr in zip(optimizer.param_groups, base_lrs, strict=True):
            if last_epoch == -1:
                set_lr(group, lr)
        self.max_lrs = per_group(max_lr, optimizer, "max_lr")
        up = float(step_size_up)
        self.total_size = up + float(step_size_up if step_size_down is None else step_size_down)
        self.step_ratio = up / self.total_size
        if mode not in ("triangular", "triangular2", "exp_range") and scale_fn is None:
            raise ValueError("mode is invalid and scale_fn is None")
        self.mode, self.gamma, self._scale_fn = mode, gamma, scale_fn
        self.scale_mode = scale_mode if scale_fn is not None else ("iterations" if mode == "exp_range" else "cycle")
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            self._has_momentum(optimizer)
            self.base_momentums = per_group(base_momentum, optimizer, "base_momentum")
            self.max_momentums = per_group(max_momentum, optimizer, "max_momentum")
            for group, low, high in zip(optimizer.param_groups, self.base_momentums, self.max_momentums, strict=True):
                if last_epoch == -1:
                    self._set_momentum(group, high)
                group["base_momentum"], group["max_momentum"] = low, high
        super().__init__(optimizer, last_epoch)
        self.base_lrs = base_lrs

    def scale_fn(self, x: float) -> float:
        """Return the factor of the amplitude in cycle (or iteration) x."""
        if self._scale_fn is not None:
            return self._scale_fn(x)
        return {"triangular": 1.0, "triangular2": 1 / 2.0 ** (x - 1), "exp_range": self.gamma**x}[self.mode]

    @asked_by_step
    def get_lr(self) -> list[float]:
        cycle = math.floor(1 + self.last_epoch / self.total_size)
        x = 1.0 + self.last_epoch / self.total_size - cycle
        height = x / self.step_ratio if x <= self.step_ratio else (x - 1) / (self.step_ratio - 1)
        scale = self.scale_fn(cycle if self.scale_mode == "cycle" else self.last_epoch)
        if self.cycle_momentum:
            for group, low, high in zip(self.optimizer.param_groups, self.base_momentums, self.max_momentums, strict=True):
                self._set_momentum(group, high - (high - low) * height * scale)
        return [base + (top - base) * height * scale for base, top in zip(self.base_lrs, self.max_lrs, strict=True)]

    def state_dict(self) -> dict[str, Any]:
        state = super().state_dict()
        fn = state.pop("_scale_fn")
        state["_scale_fn_custom"] = fn.__dict__.copy() if fn is not None and not isinstance(fn, types.FunctionType) else None
        return state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        state = dict(state_dict)
        custom = state.pop("_scale_fn_custom", None)
        if custom is not None and self._scale_fn is not None:
            self._scale_fn.__dict__.update(custom)
        super().load_state_dict(state)


class OneCycleLR(_Momentum):
    """One-cycle policy: from max_lr / div_factor to max_lr in `pct_start` of all steps, then down (Smith & Topin 2017).

    The final rate is the initial one / final_div_factor. With `three_phase`, the rate returns to the initial one symmetrically before that.
    """

    def __init__(
        self, optimizer: Optimizer, max_lr: Any, total_steps: int | None = None, epochs: int | None = None,
        steps_per_epoch: int | None = None, pct_start: float = 0.3, anneal_strategy: str = "cos", cycle_momentum: bool = True,
        base_momentum: Any = 0.85, max_momentum: Any = 0.95, div_factor: float = 25.0, final_div_factor: float = 1e4,
        three_phase: bool = False, last_epoch: int = -1,
    ):  # fmt: skip
        if total_steps is not None:
            if total_steps <= 0 or not isinstance(total_steps, int):
                raise ValueError(f"Expected positive integer total_steps, but got {total_steps}")
            self.total_steps = total_steps
        elif epochs is not None and steps_per_epoch is not None:
            if not isinstance(epochs, int) or epochs <= 0:
                raise ValueError(f"Expected positive integer epochs, but got {epochs}")
            if not isinstance(steps_per_epoch, int) or steps_per_epoch <= 0:
                raise ValueError(f"Expected positive integer steps_per_epoch, but got {steps_per_epoch}")
            self.total_steps = epochs * steps_per_epoch
        else:
            raise ValueError("You must define either total_steps OR (epochs AND steps_per_epoch)")
        if pct_start < 0 or pct_start > 1 or not isinstance(pct_start, float):
            raise ValueError(f"Expected float between 0 and 1 pct_start, but got {pct_start}")
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}")
        top = float(pct_start * self.total_steps) - 1
        if three_phase:
            phases = [
                (top, "initial_lr", "max_lr", "max_momentum", "base_momentum"),
                (2 * top, "max_lr", "initial_lr", "base_momentum", "max_momentum"),
                (self.total_steps - 1, "initial_lr", "min_lr", "max_momentum", "max_momentum"),
            ]
        else:
            phases = [
                (top, "initial_lr", "max_lr", "max_momentum", "base_momentum"),
                (self.total_steps - 1, "max_lr", "min_lr", "base_momentum", "max_momentum"),
            ]
        names = ("end_step", "start_lr", "end_lr", "start_momentum", "end_momentum")  # as in PyTorch's state dict
        self._schedule_phases = [dict(zip(names, phase, strict=True)) for phase in phases]
        self._anneal_func_type, self.cycle_momentum = anneal_strategy, cycle_momentum
        max_lrs = per_group(max_lr, optimizer, "max_lr")
        for group, value in zip(optimizer.param_groups, max_lrs, strict=True):
            if last_epoch == -1:
                group["initial_lr"], group["max_lr"] = value / div_factor, value
                group["min_lr"] = group["initial_lr"] / final_div_factor
        if cycle_momentum:
            self._has_momentum(optimizer)
            lows, highs = per_group(base_momentum, optimizer, "base_momentum"), per_group(max_momentum, optimizer, "max_momentum")
            for group, low, high in zip(optimizer.param_groups, lows, highs, strict=True):
                if last_epoch == -1:
                    self._set_momentum(group, high)
                    group["max_momentum"], group["base_momentum"] = high, low
        super().__init__(optimizer, last_epoch)

    def _between(self, start: float, end: float, done: float) -> float:
        if self._anneal_func_type == "cos":
            return end + (start - end) / 2.0 * (math.cos(math.pi * done) + 1)
        return (end - start) * done + start

    @asked_by_step
    def get_lr(self) -> list[float]:
        step = self.last_epoch
        if step > self.total_steps:
            raise ValueError(f"Tried to step {step} times. The total number of steps is {self.total_steps}")
        begin = 0.0
        for i, phase in enumerate(self._schedule_phases):
            end, lr_from, lr_to, momentum_from, momentum_to = phase.values()
            if step <= end or i == len(self._schedule_phases) - 1:
                done = (step - begin) / (end - begin)
                if self.cycle_momentum:
                    for group in self.optimizer.param_groups:
                        self._set_momentum(group, self._between(group[momentum_from], group[momentum_to], done))
                return [self._between(group[lr_from], group[lr_to], done) for group in self.optimizer.param_groups]
            begin = end
        raise AssertionError("a schedule has at least one phase")
