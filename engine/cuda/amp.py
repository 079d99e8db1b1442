"""`engine.cuda.amp`: the older, deprecated name of `engine.amp`, with `autocast` and `GradScaler` for the GPU."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from .. import amp
from ..amp.grad_scaler import OptState
from ..base import dtypes
from ..core import devices

__all__ = ["GradScaler", "OptState", "amp_definitely_not_available", "autocast", "custom_bwd", "custom_fwd"]


def _warn(name: str, now: str) -> None:
    warnings.warn(f"`torch.cuda.amp.{name}(args...)` is deprecated. Please use `torch.amp.{now}` instead.", FutureWarning, stacklevel=3)


class autocast(amp.autocast):
    """`engine.amp.autocast("cuda", ...)`."""

    def __init__(self, enabled: bool = True, dtype: Any = dtypes.float16, cache_enabled: bool = True) -> None:
        _warn("autocast", "autocast('cuda', args...)")
        super().__init__("cuda", enabled=enabled, dtype=dtype, cache_enabled=cache_enabled)


class GradScaler(amp.GradScaler):
    """`engine.amp.GradScaler("cuda", ...)`."""

    def __init__(
        self,
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        _warn("GradScaler", "GradScaler('cuda', args...)")
        super().__init__("cuda", init_scale, growth_factor, backoff_factor, growth_interval, enabled)


def custom_fwd(fwd: Callable | None = None, *, cast_inputs: Any = None) -> Callable:
    """`engine.amp.custom_fwd(..., device_type="cuda")`."""
    _warn("custom_fwd", "custom_fwd(args..., device_type='cuda')")
    return amp.custom_fwd(fwd, device_type="cuda", cast_inputs=cast_inputs)


def custom_bwd(bwd: Callable) -> Callable:
    """`engine.amp.custom_bwd(..., device_type="cuda")`."""
    _warn("custom_bwd", "custom_bwd(args..., device_type='cuda')")
    return amp.custom_bwd(bwd, device_type="cuda")


def amp_definitely_not_available() -> bool:
    """Return whether no GPU is available."""
    return not devices.cuda_available()
