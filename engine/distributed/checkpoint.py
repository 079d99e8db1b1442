"""The names of `torch.distributed.checkpoint`; sharded checkpoints are not supported.

Every process has the full parameters, so `engine.save` and `engine.load` in one process are enough.
"""

from __future__ import annotations

from typing import Any, NoReturn

__path__: list[str] = []  # a package, as in PyTorch, so that importing a submodule gives a clear error
__all__ = ["HuggingFaceStorageReader", "HuggingFaceStorageWriter", "load", "save"]


def _refuse(name: str) -> NoReturn:
    raise NotImplementedError(
        f"{name} is not supported: engine.save in one process holds everything, and ElasticJob.save writes checkpoints in parts"
    )


class HuggingFaceStorageReader:
    """Raises NotImplementedError."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        _refuse("HuggingFaceStorageReader")


class HuggingFaceStorageWriter:
    """Raises NotImplementedError."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        _refuse("HuggingFaceStorageWriter")


def save(*args: Any, **kwargs: Any) -> NoReturn:
    """Raise NotImplementedError; see the module."""
    _refuse("distributed.checkpoint.save")


def load(*args: Any, **kwargs: Any) -> NoReturn:
    """Raise NotImplementedError; see the module."""
    _refuse("distributed.checkpoint.load")
