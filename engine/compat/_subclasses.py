"""PyTorch's private address of tensors without values, by which a program is traced; no tensor here is one."""

from __future__ import annotations

from typing import Any


class FakeTensor:
    """Of this class there are no tensors: `isinstance(x, FakeTensor)` is False of every one, and none can be made."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError("FakeTensor: this engine traces no programs, so it has no tensors without values; use real ones")


def is_fake(x: object) -> bool:
    """Whether a tensor stands for one in a trace: never."""
    return isinstance(x, FakeTensor)
