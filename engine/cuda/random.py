"""The default generators of GPUs. Their numbers are drawn on the GPU and differ from the CPU's."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..core import random
from ..core.devices import cuda_available
from ..core.devices import device as _device
from ..core.tensor import Tensor
from .device import device_count


def _generator(device: Any = "cuda") -> random.Generator:
    return random.generator_of(_device(device))


def manual_seed(seed: int) -> None:
    """Seed the generator of the current GPU. A no-op without a GPU, as in PyTorch."""
    seed = int(seed)
    if cuda_available():
        _generator().manual_seed(seed)


def manual_seed_all(seed: int) -> None:
    """Seed the generators of all GPUs. A no-op without a GPU."""
    seed = int(seed)
    for index in range(device_count()):
        _generator(index).manual_seed(seed)


def seed() -> None:
    """Seed the current GPU's generator from the operating system's randomness. A no-op without a GPU."""
    if cuda_available():
        _generator().seed()


def seed_all() -> None:
    """Seed the generators of all GPUs with one number from the operating system's randomness. A no-op without a GPU."""
    if cuda_available():
        manual_seed_all(_generator().seed())


def initial_seed() -> int:
    """Return the seed of the current GPU's generator; RuntimeError without a GPU."""
    return _generator().initial_seed()


def get_rng_state(device: Any = "cuda") -> Tensor:
    """Return the state of a GPU's generator, a uint8 tensor of 16 bytes on the CPU; RuntimeError without a GPU."""
    return _generator(device).get_state()


def set_rng_state(new_state: Tensor, device: Any = "cuda") -> None:
    """Set the state of a GPU's generator, as returned by `get_rng_state`."""
    _generator(device).set_state(new_state)


def get_rng_state_all() -> list[Tensor]:
    """Return the state of each GPU's generator."""
    return [get_rng_state(index) for index in range(device_count())]


def set_rng_state_all(new_states: Iterable[Tensor]) -> None:
    """Set the state of each GPU's generator."""
    for index, state in enumerate(new_states):
        set_rng_state(state, index)
