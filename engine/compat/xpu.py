"""`engine.xpu`: the interface of `torch.xpu`; Intel GPUs are not supported, so none is available."""

from __future__ import annotations

from typing import Any


def is_available() -> bool:
    """Return False."""
    return False


def is_initialized() -> bool:
    """Return False."""
    return False


def is_bf16_supported() -> bool:
    """Return False."""
    return False


def device_count() -> int:
    """Return 0."""
    return 0


def manual_seed(seed: int) -> None:
    """Do nothing, since there is no device; raises TypeError if `seed` is not a number."""
    int(seed)


manual_seed_all = manual_seed


def empty_cache() -> None:
    """Do nothing: there is no device."""


def _refused(name: str) -> Any:
    def refuse(device: Any = None) -> Any:
        raise RuntimeError(f"xpu.{name}: there is no XPU device here; ask xpu.is_available() first")

    refuse.__name__, refuse.__doc__ = name, "RuntimeError: there is no device."
    return refuse


current_device, set_device, synchronize, get_device_name = map(_refused, ("current_device", "set_device", "synchronize", "get_device_name"))
