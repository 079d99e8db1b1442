"""PyTorch's private module of fake tensors, used for tracing; no tensor here is fake."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class FakeTensor:
    """Raises NotImplementedError; `isinstance(x, FakeTensor)` is always False."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError("FakeTensor: this engine traces no programs, so it has no tensors without values; use real ones")


def is_fake(x: object) -> bool:
    """Return whether a tensor is fake: never."""
    return isinstance(x, FakeTensor)


@contextmanager
def unset_fake_temporarily() -> Iterator[None]:
    """Do nothing: no mode that makes fake tensors is ever active."""
    yield
