"""`engine.mps`: the interface of `torch.mps`; Apple GPUs are not supported, so none is available."""

from __future__ import annotations

from typing import Any


def is_available() -> bool:
    """Return False."""
    return False


def device_count() -> int:
    """Return 0."""
    return 0


def manual_seed(seed: int) -> None:
    """Do nothing, since there is no device; raises TypeError if `seed` is not a number."""
    int(seed)


def seed() -> None:
    """Do nothing: there is no device."""


def empty_cache() -> None:
    """Do nothing: there is no device."""


def current_allocated_memory() -> int:
    """Return 0, the bytes in use."""
    return 0


driver_allocated_memory = current_allocated_memory


def synchronize() -> None:
    """Raise RuntimeError: there is no device."""
    raise RuntimeError("mps.synchronize: there is no MPS device here; ask backends.mps.is_available() first")


def get_rng_state(device: Any = "mps") -> Any:
    """Raise RuntimeError: there is no device."""
    raise RuntimeError("mps.get_rng_state: there is no MPS device here; ask backends.mps.is_available() first")
