"""Attention utilities under PyTorch's names: `sdpa_kernel`, `SDPBackend`, and lazily `flex_attention` and `bias`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum, IntEnum
from typing import Any

from ...backends.cuda import allowed_attention
from ...base import addresses


class SDPBackend(IntEnum):
    """PyTorch's backends for scaled dot-product attention. Here it is composed of ops, as MATH says, or on a GPU one kernel."""

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
    """Context manager that selects attention backends. With MATH alone, attention is composed of ops on a GPU too."""
    chosen = [backends] if isinstance(backends, SDPBackend) else list(backends)
    if not all(isinstance(b, SDPBackend) for b in chosen):
        raise TypeError(f"sdpa_kernel expects SDPBackend members, got {backends!r}")
    kinds = ("FLASH_ATTENTION", "MATH", "EFFICIENT_ATTENTION", "CUDNN_ATTENTION")
    with allowed_attention(*[SDPBackend[kind] in chosen for kind in kinds]):
        yield


_LATER = ("bias", "flex_attention")  # imported on first access


def __getattr__(name: str) -> Any:
    return addresses.attribute(__name__, name, 2)


__all__ = ["SDPBackend", "sdpa_kernel"]
