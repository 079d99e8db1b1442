"""`engine.xpu`: what programs ask about Intel's GPUs, which are not used here: there is none."""

from __future__ import annotations

from typing import Any


def is_available() -> bool:
    """False."""
    return False


def is_initialized() -> bool:
    """False."""
    return False


def is_bf16_supported() -> bool:
    """False."""
    return False


def device_count() -> int:
    """0."""
    return 0


def manual_seed(seed: int) -> None:
    """Seed the current GPU of the kind: there is none. TypeError for what is no number."""
    int(seed)


manual_seed_all = manual_seed


def empty_cache() -> None:
    """Give free memory back: there is none."""


def _refused(name: str) -> Any:
    def refuse(device: Any = None) -> Any:
        raise RuntimeError(f"xpu.{name}: there is no XPU device here; ask xpu.is_available() first")

    refuse.__name__, refuse.__doc__ = name, "RuntimeError: there is no device."
    return refuse


current_device, set_device, synchronize, get_device_name = map(_refused, ("current_device", "set_device", "synchronize", "get_device_name"))
