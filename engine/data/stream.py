"""Random draws of data loading, in PyTorch's order, so that equal seeds give equal batches."""

from __future__ import annotations

from typing import Any

from ..core import random
from ..core.op import functions


def draw_seed(generator: Any = None) -> int:
    """Draw a 63-bit seed, as `torch.empty((), dtype=torch.int64).random_()` does."""
    return int((generator or random.default_generator).long_words(1)[0]) & ((1 << 63) - 1)


def randperm(n: int, generator: Any = None) -> list[int]:
    """Return a random permutation of range(n), drawn on the CPU whatever the default device."""
    return functions["randperm"](n, generator=generator, device="cpu").tolist()


def randint(high: int, n: int, generator: Any = None) -> list[int]:
    """Return n random integers in [0, high), drawn on the CPU."""
    return functions["randint"](high, (n,), generator=generator, device="cpu").tolist()


def multinomial(weights: Any, n: int, replacement: bool, generator: Any = None) -> list[int]:
    """Return n indices drawn with probabilities proportional to `weights`."""
    return functions["multinomial"](weights, n, replacement, generator=generator).tolist()
