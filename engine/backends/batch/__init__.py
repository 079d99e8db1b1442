"""`vmap` as an array namespace: arrays with a hidden batch dimension, and versions of the backends' functions for them."""

from .array import UNWRITTEN, Batched, Level, Unbatchable, space
from .namespace import Namespace, at_work

__all__ = ["UNWRITTEN", "Batched", "Level", "Namespace", "Unbatchable", "at_work", "space"]
