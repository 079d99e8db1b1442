"""PyTorch's deprecated autocast functions, one set per device type; each warns and calls its replacement."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from ..core import casting

__all__ = []


def _older(name: str, now: str, do: Callable, device: str, arguments: str = "") -> None:
    def call(*args: Any) -> Any:
        told = f"torch.{name}({arguments}) is deprecated. Please use torch.{now}('{device}'{', ' if arguments else ''}{arguments}) instead."
        warnings.warn(told, DeprecationWarning, stacklevel=2)
        return do(device, *args)

    call.__name__ = call.__qualname__ = name
    call.__doc__ = f"`{now}` for {device!r}."
    globals()[name] = call
    __all__.append(name)


for _device in ("cpu", "ipu", "xla", "cuda"):
    _short = {"cuda": "gpu"}.get(_device, _device)
    _older(f"get_autocast_{_short}_dtype", "get_autocast_dtype", casting.get_autocast_dtype, _device)
    _older(f"set_autocast_{_short}_dtype", "set_autocast_dtype", casting.set_autocast_dtype, _device, "dtype")
    if _device != "cuda":
        _older(f"is_autocast_{_short}_enabled", "is_autocast_enabled", casting.is_autocast_enabled, _device)
        _older(f"set_autocast_{_short}_enabled", "set_autocast_enabled", casting.set_autocast_enabled, _device, "enabled")
