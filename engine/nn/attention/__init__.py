"""`sdpa_kernel` and PyTorch's names of attention kernels; `flex_attention` and `bias` when they are named."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum, IntEnum
from typing import Any

from ...base import addresses


class SDPBackend(IntEnum):
    """PyTorch's kernels for scaled dot-product attention. Here there is one, that of the formula: MATH."""

    ERROR = -1
    MATH = 0
    FLASH_ATTENTION = 1
    EFFICIENT_ATTENTION = 2
    CUDNN_ATTENTION = 3
    OVERRIDEABLE = 4

    __str__ = Enum.__str__
    __format__ = Enum.__format__  # type: ignore[assignment]


@contextmanager
def sdpa_kernel(backends: Any, set_priority: bool = False) -> Iterator[None]:
    """Say which of PyTorch's kernels attention may use in this block. Every call computes the formula, so results do not depend on it."""
    chosen = [backends] if isinstance(backends, SDPBackend) else list(backends)
    if not all(isinstance(b, SDPBackend) for b in chosen):
        raise TypeError(f"sdpa_kernel expects SDPBackend members, got {backends!r}")
    yield


_LATER = ("bias", "flex_attention")  # imported when a program first names them


def __getattr__(name: str) -> Any:
    return addresses.attribute(__name__, name, 2)


__all__ = ["SDPBackend", "sdpa_kernel"]
