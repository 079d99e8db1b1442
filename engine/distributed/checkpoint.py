"""Names of `torch.distributed.checkpoint`: checkpoints that several processes write in parts are refused.

Parameters are whole in every process here, so `engine.save` and `engine.load` in one of them hold everything.
"""

from __future__ import annotations

from typing import Any, NoReturn

__path__: list[str] = []  # a package, as PyTorch's is: an import of what is below is answered in words
__all__ = ["HuggingFaceStorageReader", "HuggingFaceStorageWriter", "load", "save"]


def _refuse(name: str) -> NoReturn:
    raise NotImplementedError(
        f"{name}: this engine writes no checkpoints in parts; engine.save and engine.load in one process hold everything"
    )


class HuggingFaceStorageReader:
    """NotImplementedError when one is made."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        _refuse("HuggingFaceStorageReader")


class HuggingFaceStorageWriter:
    """NotImplementedError when one is made."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        _refuse("HuggingFaceStorageWriter")


def save(*args: Any, **kwargs: Any) -> NoReturn:
    """NotImplementedError: see above."""
    _refuse("distributed.checkpoint.save")


def load(*args: Any, **kwargs: Any) -> NoReturn:
    """NotImplementedError: see above."""
    _refuse("distributed.checkpoint.load")
