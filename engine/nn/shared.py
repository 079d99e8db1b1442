"""Tensors in memory that several processes see."""

from __future__ import annotations

from ..multiprocessing.memory import share_ as share

__all__ = ["share"]
