"""Random numbers for GPUs. They are drawn by the default generator, on the host, so a seed gives the same numbers everywhere."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..core import random
from ..core.devices import cuda_available
from ..core.tensor import Tensor
from .device import device_count


def manual_seed(seed: int) -> None:
    """Seed the numbers of the current GPU: those of the default generator. Does nothing without a GPU, as in PyTorch."""
    seed = int(seed)
    if cuda_available():
        random.manual_seed(seed)


manual_seed_all = manual_seed


def seed() -> None:
    """Seed from the operating system's randomness. Does nothing without a GPU."""
    if cuda_available():
        random.seed()


seed_all = seed


def initial_seed() -> int:
    """The seed that the stream was started with."""
    return random.initial_seed()


def get_rng_state(device: Any = "cuda") -> Tensor:
    """The state of the one generator, a uint8 tensor on the CPU."""
    return random.get_rng_state()


def set_rng_state(new_state: Tensor, device: Any = "cuda") -> None:
    """Put the one generator into a state that `get_rng_state` gave."""
    random.set_rng_state(new_state)


def get_rng_state_all() -> list[Tensor]:
    """A state for each GPU; they are the same one."""
    return [random.get_rng_state() for _ in range(device_count())]


def set_rng_state_all(new_states: Iterable[Tensor]) -> None:
    """Put the one generator into the last of these states."""
    for state in new_states:
        random.set_rng_state(state)
