"""Random state for GPUs. The default host generator draws all random numbers, so a seed gives the same values on every device."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..core import random
from ..core.devices import cuda_available
from ..core.tensor import Tensor
from .device import device_count


def manual_seed(seed: int) -> None:
    """Seed the default generator. A no-op without a GPU, as in PyTorch."""
    seed = int(seed)
    if cuda_available():
        random.manual_seed(seed)


manual_seed_all = manual_seed


def seed() -> None:
    """Seed the default generator from the operating system's randomness. A no-op without a GPU."""
    if cuda_available():
        random.seed()


seed_all = seed


def initial_seed() -> int:
    """Return the seed of the default generator."""
    return random.initial_seed()


def get_rng_state(device: Any = "cuda") -> Tensor:
    """Return the state of the default generator as a uint8 tensor on the CPU."""
    return random.get_rng_state()


def set_rng_state(new_state: Tensor, device: Any = "cuda") -> None:
    """Set the state of the default generator, as returned by `get_rng_state`."""
    random.set_rng_state(new_state)


def get_rng_state_all() -> list[Tensor]:
    """Return one state per GPU, all of them the default generator's."""
    return [random.get_rng_state() for _ in range(device_count())]


def set_rng_state_all(new_states: Iterable[Tensor]) -> None:
    """Set the default generator to the last of these states."""
    for state in new_states:
        random.set_rng_state(state)
