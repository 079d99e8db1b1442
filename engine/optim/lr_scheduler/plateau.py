"""`ReduceLROnPlateau`: reduce the rate when a metric stops improving."""

from __future__ import annotations

import math
from typing import Any

from ..optimizer import Optimizer, number
from .base import LRScheduler, per_group, set_lr


class ReduceLROnPlateau(LRScheduler):
    """Multiply the rate by `factor` after more than `patience` epochs without improvement of the metric passed to `step(metric)`.

    An improvement exceeds `threshold`, relative ("rel") or absolute ("abs"); `cooldown` epochs after a reduction are not counted.
    """

    def __init__(
        self, optimizer: Optimizer, mode: str = "min", factor: float = 0.1, patience: int = 10, threshold: float = 1e-4,
        threshold_mode: str = "rel", cooldown: int = 0, min_lr: Any = 0, eps: float = 1e-8,
    ):  # fmt: skip
        if factor >= 1.0:
            raise ValueError("Factor should be < 1.0.")
        if mode not in ("min", "max"):
            raise ValueError("mode " + mode + " is unknown!")
        if threshold_mode not in ("rel", "abs"):
            raise ValueError("threshold mode " + threshold_mode + " is unknown!")
        self.optimizer, self.mode, self.factor, self.patience, self.threshold = optimizer, mode, factor, patience, threshold
        self.threshold_mode, self.cooldown, self.eps = threshold_mode, cooldown, eps
        self.default_min_lr = None if isinstance(min_lr, (list, tuple)) else min_lr
        self.min_lrs = per_group(min_lr, optimizer, "min_lrs")
        self.last_epoch = 0
        self._last_lr = self._now()
        self._reset()

    def _reset(self) -> None:
        self.best = self.mode_worse = math.inf if self.mode == "min" else -math.inf
        self.cooldown_counter = self.num_bad_epochs = 0

    def step(self, metrics: Any, epoch: int | None = None) -> None:  # type: ignore[override]
        """Record the metric of one epoch, and reduce the rates if it has stopped improving."""
        current = float(metrics)
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        if self._is_better(current, self.best):
            self.best, self.num_bad_epochs = current, 0
        else:
            self.num_bad_epochs += 1
        if self.in_cooldown:
            self.cooldown_counter -= 1
            self.num_bad_epochs = 0
        if self.num_bad_epochs > self.patience:
            self._reduce_lr(epoch)
            self.cooldown_counter, self.num_bad_epochs = self.cooldown, 0
        self._last_lr = self._now()

    def _reduce_lr(self, epoch: int | None) -> None:
        for group, least in zip(self.optimizer.param_groups, self.min_lrs, strict=True):
            old = number(group["lr"])
            new = max(old * self.factor, least)
            if old - new > self.eps:
                set_lr(group, new)

    @property
    def in_cooldown(self) -> bool:
        return self.cooldown_counter > 0

    def _is_better(self, a: float, best: float) -> bool:
        """Return whether `a` improves on the best value by more than the threshold."""
        sign = 1 if self.mode == "max" else -1
        least = best * (1 + sign * self.threshold) if self.threshold_mode == "rel" else best + sign * self.threshold
        return sign * a > sign * least
