"""Weight averaging, stochastic (SWA) or exponential (EMA), with its learning-rate schedule and the batch norm update that follows."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable
from copy import deepcopy
from typing import Any

from ..autograd import no_grad
from ..base.dtypes import int64
from ..core.create import zeros
from ..core.tensor import Tensor
from ..nn.module import Module
from ..nn.normalization import _BatchNorm
from .lr_scheduler.base import LRScheduler, asked_by_step, per_group
from .optimizer import Optimizer


def _check_decay(decay: float) -> None:
    if not 0.0 <= decay <= 1.0:
        raise ValueError(f"Invalid decay value {decay} provided. Please provide a value in [0,1] range.")


def get_ema_multi_avg_fn(decay: float = 0.999) -> Callable:
    """Return a function that updates lists of tensors in place: average = decay average + (1 - decay) new."""
    _check_decay(decay)

    def ema_update(ema_param_list: list[Tensor], current_param_list: list[Tensor], _: Any) -> None:
        with no_grad():
            for average, current in zip(ema_param_list, current_param_list, strict=True):
                if average.is_floating_point() or average.is_complex():
                    average.lerp_(current.to(average.dtype), 1 - decay)
                else:
                    average.copy_(average * decay + current * (1 - decay))

    return ema_update


def get_swa_multi_avg_fn() -> Callable:
    """Return a function that updates lists of tensors in place: average = average + (new - average) / (n + 1)."""

    def swa_update(averaged_param_list: list[Tensor], current_param_list: list[Tensor], num_averaged: Any) -> None:
        with no_grad():
            for average, current in zip(averaged_param_list, current_param_list, strict=True):
                average.copy_(average + (current - average) / (num_averaged + 1))

    return swa_update


def get_ema_avg_fn(decay: float = 0.999) -> Callable:
    """Return a function that computes decay average + (1 - decay) new for one tensor."""
    _check_decay(decay)

    def ema_update(ema_param: Tensor, current_param: Tensor, num_averaged: Any) -> Tensor:
        with no_grad():
            return decay * ema_param + (1 - decay) * current_param

    return ema_update


def get_swa_avg_fn() -> Callable:
    """Return a function that computes average + (new - average) / (n + 1) for one tensor."""

    def swa_update(averaged_param: Tensor, current_param: Tensor, num_averaged: Any) -> Tensor:
        with no_grad():
            return averaged_param + (current_param - averaged_param) / (num_averaged + 1)

    return swa_update


class AveragedModel(Module):
    """A copy of a model whose parameters average those passed to `update_parameters(model)`, by default with equal weights.

    `avg_fn(average, new, n)` returns the average of one tensor; `multi_avg_fn(averages, news, n)` updates lists in place. Buffers are
    averaged too with `use_buffers`, else copied. Source: Izmailov et al. 2018.
    """

    n_averaged: Tensor

    def __init__(
        self, model: Module, device: Any = None, avg_fn: Callable | None = None, multi_avg_fn: Callable | None = None,
        use_buffers: bool = False,
    ):  # fmt: skip
        super().__init__()
        if avg_fn is not None and multi_avg_fn is not None:
            raise AssertionError("Only one of avg_fn and multi_avg_fn should be provided")
        self.module: Module = deepcopy(model)
        if device is not None:
            self.module = self.module.to(device)
        self.register_buffer("n_averaged", zeros((), dtype=int64, device=device))
        self.avg_fn, self.multi_avg_fn, self.use_buffers = avg_fn, multi_avg_fn, use_buffers

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.module(*args, **kwargs)

    def update_parameters(self, model: Module) -> None:
        """Add a model's parameters to the average."""
        mine, theirs = (
            [t.detach() for t in (itertools.chain(m.parameters(), m.buffers()) if self.use_buffers else m.parameters())]
            for m in (self.module, model)
        )
        theirs = [t.to(a.device) for a, t in zip(mine, theirs, strict=True)]
        with no_grad():
            if self.n_averaged.item() == 0:
                for average, new in zip(mine, theirs, strict=True):
                    average.copy_(new)
            elif self.avg_fn is not None:
                for average, new in zip(mine, theirs, strict=True):
                    average.copy_(self.avg_fn(average, new, self.n_averaged))
            else:
                (self.multi_avg_fn or get_swa_multi_avg_fn())(mine, theirs, self.n_averaged)
            if not self.use_buffers:
                for kept, new in zip(self.module.buffers(), model.buffers(), strict=True):
                    kept.detach().copy_(new.detach().to(kept.device))
            self.n_averaged += 1


def update_bn(loader: Iterable[Any], model: Module, device: Any = None) -> None:
    """Recompute the running statistics of batch norm as averages over one pass of the data; of tuples, the first element is the input."""
    momenta: dict[_BatchNorm, Any] = {}
    for module in model.modules():
        if isinstance(module, _BatchNorm):
            module.reset_running_stats()
            momenta[module] = module.momentum
    if not momenta:
        return
    was_training = model.training
    model.train()
    for module in momenta:
        module.momentum = None
    with no_grad():
        for input in loader:
            if isinstance(input, (list, tuple)):
                input = input[0]
            model(input if device is None else input.to(device))
    for module, momentum in momenta.items():
        module.momentum = momentum
    model.train(was_training)


class SWALR(LRScheduler):
    """Anneal the rate to `swa_lr` over `anneal_epochs` by a cosine ("cos") or linearly ("linear"), then keep it."""

    def __init__(self, optimizer: Optimizer, swa_lr: Any, anneal_epochs: int = 10, anneal_strategy: str = "cos", last_epoch: int = -1):
        for group, rate in zip(optimizer.param_groups, per_group(swa_lr, optimizer, "swa_lr"), strict=True):
            group["swa_lr"] = rate
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(f"anneal_strategy must by one of 'cos' or 'linear', instead got {anneal_strategy}")
        if not isinstance(anneal_epochs, int) or anneal_epochs < 0:
            raise ValueError(f"anneal_epochs must be equal or greater than 0, got {anneal_epochs}")
        self._anneal_strategy, self.anneal_epochs = anneal_strategy, anneal_epochs
        super().__init__(optimizer, last_epoch)

    def _share(self, t: float) -> float:
        """Return the annealed fraction at a fraction t of the epochs."""
        return t if self._anneal_strategy == "linear" else (1 - math.cos(math.pi * t)) / 2

    @asked_by_step
    def get_lr(self) -> list[float]:
        step, length = self._step_count - 1, max(1, self.anneal_epochs)
        if self.anneal_epochs == 0:
            step = max(1, step)
        before = self._share(max(0, min(1, (step - 1) / length)))
        now = self._share(max(0, min(1, step / length)))
        found = []
        for group, lr in zip(self.optimizer.param_groups, self._now(), strict=True):
            start = group["swa_lr"] if before == 1 else (lr - before * group["swa_lr"]) / (1 - before)
            found.append(group["swa_lr"] * now + start * (1 - now))
        return found
