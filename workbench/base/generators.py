"""The state of the engine's random generators, of the CPU and of each GPU in use."""

from __future__ import annotations

import engine
from engine.core import devices
from engine.core.tensor import Tensor


def state() -> list[Tensor]:
    """Return the state of the CPU's generator, then of each GPU's if GPUs are in use."""
    return [engine.get_rng_state(), *([] if devices.gpu is None else engine.cuda.get_rng_state_all())]


def restore(states: list[Tensor]) -> None:
    """Set what `state` returned."""
    engine.set_rng_state(states[0])
    for index, one in enumerate(states[1:]):
        engine.cuda.set_rng_state(one, index)
