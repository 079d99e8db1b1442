"""Base class of learning-rate schedulers: rates per group, epoch counting, saving and loading."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any

from ...core.tensor import Tensor
from ..optimizer import Optimizer, number


def set_lr(group: dict, value: Any) -> None:
    if isinstance(group["lr"], Tensor):
        group["lr"].array[...] = value.array if isinstance(value, Tensor) else value
    else:
        group["lr"] = value


def check_optimizer(optimizer: Any) -> None:
    """Raise TypeError unless the argument is an optimizer."""
    if not isinstance(optimizer, Optimizer):
        raise TypeError(f"{type(optimizer).__name__} is not an Optimizer")


def asked_by_step(get_lr: Callable) -> Callable:
    """Wrap `get_lr` to warn when it is called outside `step()`: for chainable schedules it returns the next rates, not the current ones."""

    @functools.wraps(get_lr)
    def call(self: LRScheduler) -> list[float]:
        if not self._get_lr_called_within_step:
            warnings.warn("To get the last learning rate computed by the scheduler, please use `get_last_lr()`.", UserWarning, stacklevel=2)
        return get_lr(self)

    return call


class LRScheduler:
    """Base of schedulers: subclasses define `get_lr()`, the recursive form, and optionally `_get_closed_form_lr()`, for `last_epoch`."""

    _get_closed_form_lr: Callable[[], list[float]] | None = None

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1):
        check_optimizer(optimizer)
        self.optimizer = optimizer
        for i, group in enumerate(optimizer.param_groups):
            if last_epoch == -1:
                group.setdefault("initial_lr", number(group["lr"]))
            elif "initial_lr" not in group:
                raise KeyError(
                    f"param 'initial_lr' is not specified in param_groups[{i}] when resuming scheduler with last_epoch >= 0.\n"
                    "This typically happens when:\n1. You're trying to resume training from a checkpoint but haven't properly loaded the "
                    "optimizer state\n2. You're using last_epoch >= 0 for a fresh training run (not recommended)"
                )
        self.base_lrs: list[float] = [group["initial_lr"] for group in optimizer.param_groups]
        self.last_epoch, self._step_count = last_epoch, 0
        self._is_initial = self._get_lr_called_within_step = False
        self._initial_step()

    def _initial_step(self) -> None:
        self._step_count = 0
        self._is_initial = True
        try:
            self.step()
        finally:
            self._is_initial = False

    def _undo(self) -> None:
        """Undo the first step, which the constructor made, for a schedule that starts later."""
        self.last_epoch -= 1

    def step(self, epoch: int | None = None) -> None:
        """Advance to the next epoch and set the rates; passing `epoch` is deprecated and uses the closed form if there is one."""
        if self._step_count == 1 and self.optimizer._steps == 0:
            warnings.warn(
                "Detected call of `lr_scheduler.step()` before `optimizer.step()`. Call them in the opposite order: "
                "`optimizer.step()` before `lr_scheduler.step()`. Otherwise the first value of the learning rate schedule is skipped.",
                UserWarning,
                stacklevel=2,
            )
        self._step_count += 1
        if epoch is not None:
            warnings.warn(
                "The epoch parameter in `scheduler.step()` was not necessary and is being deprecated where possible. Please use "
                "`scheduler.step()` to step the scheduler. During the deprecation, if epoch is different from None, the closed form is "
                "used instead of the new chainable form, where available.",
                UserWarning,
                stacklevel=2,
            )
        self._update_lr(epoch)

    def _update_lr(self, epoch: int | None) -> None:
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        self._put(self._rates() if epoch is None or self._get_closed_form_lr is None else self._get_closed_form_lr())

    def _rates(self) -> list[float]:
        self._get_lr_called_within_step = True
        try:
            return self.get_lr()
        finally:
            self._get_lr_called_within_step = False

    def _put(self, values: list[float]) -> None:
        for group, value in zip(self.optimizer.param_groups, values, strict=True):
            set_lr(group, value)
        self._last_lr = self._now()

    def get_last_lr(self) -> list[float]:
        """Return the last computed rates, one per group."""
        return self._last_lr

    def get_lr(self) -> list[float]:
        """Return the rates for `last_epoch`, computed from the groups' current rates."""
        raise NotImplementedError(f"{type(self).__name__} has no get_lr")

    def _now(self) -> list[Any]:
        """The groups' rates; those that are tensors on a GPU as copies, for the host would wait for their values."""
        rates = [group["lr"] for group in self.optimizer.param_groups]
        return [lr.detach().clone() if isinstance(lr, Tensor) and lr.is_cuda else number(lr) for lr in rates]

    def _scaled(self, factor: float) -> list[float]:
        return [lr * factor for lr in self._now()]

    def state_dict(self) -> dict[str, Any]:
        """Return all attributes except the optimizer."""
        return {k: v for k, v in self.__dict__.items() if k != "optimizer"}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore a state dict."""
        self.__dict__.update(state_dict)


class _LRScheduler(LRScheduler):
    """PyTorch's older name of the base class, for existing subclasses."""


def per_group(value: Any, optimizer: Optimizer, name: str) -> list:
    """Expand one value, or check a sequence of values, to one per group; ValueError for a wrong length."""
    check_optimizer(optimizer)
    n = len(optimizer.param_groups)
    if not isinstance(value, (list, tuple)):
        return [value] * n
    if len(value) != n:
        raise ValueError(
            f"{name} must have the same length as optimizer.param_groups. {name} has {len(value)} values, param_groups has {n}."
        )
    return list(value)
