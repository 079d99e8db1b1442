"""`engine.cpu.amp`: the older, deprecated name of `engine.amp`, with `autocast` and `GradScaler` for the CPU."""

from __future__ import annotations

import warnings
from typing import Any

from ... import amp
from ...amp.grad_scaler import OptState
from ...base import dtypes

__all__ = ["GradScaler", "OptState", "autocast"]


def _warn(name: str) -> None:
    now = f"`torch.amp.{name}('cpu', args...)`"
    warnings.warn(f"`torch.cpu.amp.{name}(args...)` is deprecated. Please use {now} instead.", FutureWarning, stacklevel=3)


class autocast(amp.autocast):
    """`engine.amp.autocast("cpu", ...)`."""

    def __init__(self, enabled: bool = True, dtype: Any = dtypes.bfloat16, cache_enabled: bool = True) -> None:
        _warn("autocast")
        super().__init__("cpu", enabled=enabled, dtype=dtype, cache_enabled=cache_enabled)


class GradScaler(amp.GradScaler):
    """`engine.amp.GradScaler("cpu", ...)`."""

    def __init__(
        self,
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        _warn("GradScaler")
        super().__init__("cpu", init_scale, growth_factor, backoff_factor, growth_interval, enabled)
