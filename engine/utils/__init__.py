"""`engine.utils`: PyTorch's address of the data package."""

from . import data

__all__ = ["data"]
