"""Numbers of arrays that are read later: those of the CPU are computed at once, those of a GPU without waiting for it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy

from engine.backends import reduction
from engine.core import devices

from ..inspector import values
from ..inspector.statistics import Measuring, Statistics, Wanted, max_magnitude

TINY = 1e-30  # a sum of squares in float32 below this may have lost some of them


class Late:
    """One number for each of several arrays as they are now."""

    def __init__(self, arrays: Sequence[Any], number: Callable[[Any], float], told: Callable[[Statistics], float]) -> None:
        """`number` computes it on the CPU; on a GPU, `told` finds it among the statistics."""
        there = devices.gpu is not None and any(isinstance(array, devices.gpu_array) for array in arrays)
        self._measuring, self._told = Measuring(arrays, Wanted()) if there else None, told
        self._numbers = [] if there else [number(array) for array in arrays]

    @property
    def done(self) -> bool:
        """Whether `get` returns at once."""
        return self._measuring is None or self._measuring.done

    def get(self) -> list[float]:
        """The numbers; the first call waits for a GPU."""
        if self._measuring is not None:
            self._numbers, self._measuring = [self._told(found) for found in self._measuring.get()], None
        return self._numbers


def largest(arrays: Sequence[Any]) -> Late:
    """The largest |x| of each array; NaN if it has NaN."""
    return Late(arrays, _largest, lambda s: _unless_bad(s, max_magnitude(s.summary)))


def squares(arrays: Sequence[Any]) -> Late:
    """The sum of |x|² of each array; it does not overflow if training diverges."""
    return Late(arrays, _squares, lambda s: _unless_bad(s, _square(s.summary.norm)))


def _largest(array: Any) -> float:
    if array.dtype.kind == "f":  # without a copy
        return float(max(array.max(), -array.min()))
    return float(abs(array).max())


def _squares(array: Any) -> float:
    if array.__class__ is numpy.ndarray and array.dtype.char in "fd":
        total = float(reduction.squares(array))  # one pass over memory, without a copy
        if TINY < total < math.inf:
            return total
    return float((abs(array).astype("float64") ** 2).sum())


def bad(arrays: Sequence[Any]) -> Late:
    """How many elements of each array are not finite."""
    return Late(arrays, _bad, lambda s: s.summary.nan + s.summary.pos_inf + s.summary.neg_inf)


def _bad(array: Any) -> int:
    return 0 if values.finite(array) else 1


def nonzero(arrays: Sequence[Any]) -> Late:
    """Whether each array has an element other than 0."""
    return Late(arrays, lambda array: bool(array.any()), lambda s: s.summary.zero < s.summary.size)


def _square(norm: float | None) -> float:
    return math.inf if norm is None else norm * norm


def _unless_bad(s: Statistics, number: float) -> float:
    return math.nan if s.summary.nan else math.inf if s.summary.pos_inf or s.summary.neg_inf else number
