"""The device "meta" as an array namespace: arrays with a shape, strides and a dtype, but no memory."""

from .array import Meta, blank
from .namespace import space

__all__ = ["Meta", "blank", "space"]
