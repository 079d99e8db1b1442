"""`vmap` as an array namespace: arrays with a hidden batch dimension, and the backends' functions for them."""

from .array import Batched, Level, Unbatchable, space
from .namespace import Namespace, at_work

__all__ = ["Batched", "Level", "Namespace", "Unbatchable", "at_work", "space"]
