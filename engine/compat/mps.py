"""`engine.mps`: what programs ask about Apple's GPUs, which are not used here: there is none."""

from __future__ import annotations

from typing import Any


def is_available() -> bool:
    """False."""
    return False


def device_count() -> int:
    """0."""
    return 0


def manual_seed(seed: int) -> None:
    """Seed every GPU of the kind: there is none. TypeError for what is no number."""
    int(seed)


def seed() -> None:
    """Seed every GPU of the kind: there is none."""


def empty_cache() -> None:
    """Give free memory back: there is none."""


def current_allocated_memory() -> int:
    """Bytes in use: 0."""
    return 0


driver_allocated_memory = current_allocated_memory


def synchronize() -> None:
    """RuntimeError: there is nothing to wait for."""
    raise RuntimeError("mps.synchronize: there is no MPS device here; ask backends.mps.is_available() first")


def get_rng_state(device: Any = "mps") -> Any:
    """RuntimeError: there is no generator."""
    raise RuntimeError("mps.get_rng_state: there is no MPS device here; ask backends.mps.is_available() first")
