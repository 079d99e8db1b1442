"""A series of scalars by step in bounded memory: when it is full, every second value is dropped."""

from __future__ import annotations

import math
import numbers
from typing import Any

import numpy

from engine.core import devices

KEEP = 1000  # values per curve at most


class Curve:
    """Scalars by step: at most `keep` values plus the newest. NaN and infinities are kept unchanged.

    Numbers may be on their way from a GPU: only who reads the curve waits for them.
    """

    def __init__(self, keep: int = KEEP) -> None:
        self.keep, self.stride, self.seen = keep, 1, 0
        self._steps: list[int] = []
        self._values: list[Any] = []
        self._here = 0  # so many of the values have arrived
        self._last: tuple[int, Any] = (0, math.nan)

    def add(self, step: int, value: Any) -> None:
        """Append a value. A second value for the same step is another point; it does not replace the first."""
        if self.seen % self.stride == 0:
            if len(self._steps) >= self.keep:
                del self._steps[1::2], self._values[1::2]
                self._here = (self._here + 1) // 2
                self.stride *= 2
            if self.seen % self.stride == 0:
                self._steps.append(step)
                self._values.append(value)
        self._last = (step, value)
        self.seen += 1
        self._arrive()

    @property
    def last(self) -> float:
        """The newest value; NaN if there is none."""
        return _number(self._last[1])

    @property
    def steps(self) -> numpy.ndarray:
        """The steps of `values`, int64, ascending."""
        return numpy.array([*self._steps, *self._newest(0)], numpy.int64)

    @property
    def values(self) -> numpy.ndarray:
        """The kept values, float64: every `stride`-th of the `seen` values, and the newest."""
        return numpy.array(self.points()[1], numpy.float64)

    def points(self, wait: bool = True) -> tuple[list[int], list[float]]:
        """The steps and the values; unless `wait`, without those that are still on their way from a GPU."""
        self._arrive(wait)
        steps, values = self._steps[: self._here], self._values[: self._here]
        if self._here == len(self._values) and (wait or _done(self._last[1])):
            steps, values = [*steps, *self._newest(0)], [*values, *map(_number, self._newest(1))]
        return steps, values

    def _arrive(self, wait: bool = False) -> None:
        while self._here < len(self._values) and (wait or _done(self._values[self._here])):
            self._values[self._here] = _number(self._values[self._here])
            self._here += 1

    def _newest(self, which: int) -> list:
        return [self._last[which]] if self.seen and (self.seen - 1) % self.stride else []

    def __len__(self) -> int:
        return len(self._steps) + len(self._newest(0))

    def __repr__(self) -> str:
        return f"Curve({len(self)} of {self.seen} numbers, the last is {self.last:.4g})"


def _done(value: Any) -> bool:
    return isinstance(value, numbers.Real) or value.done


def _number(value: Any) -> float:
    return float(value if isinstance(value, numbers.Real) else value.get().reshape(())[()])


def later(name: str, value: Any, who: str) -> Any:
    """As `as_number`, but a number on a GPU is returned on its way to the host, as an `Arriving`: nothing waits for it."""
    array: Any = getattr(value, "array", None)
    if devices.gpu is not None and isinstance(array, devices.gpu_array) and array.size == 1 and array.dtype.kind != "c":
        return devices.gpu.arriving.Arriving(array)
    return as_number(name, value, who)


def as_number(name: str, value: Any, who: str) -> float:
    """Convert a real number or a tensor with one element to a float, so that no graph stays alive.

    Raises TypeError for other types and ValueError for tensors with several elements; `who` names the caller in the message.
    """
    if isinstance(value, numbers.Real):
        return float(value)
    item = getattr(value, "item", None)
    if item is None:
        raise TypeError(f"{who} takes one number per name, but {name} is of type {type(value).__name__}.")
    elements = math.prod(getattr(value, "shape", ()))
    if elements != 1:
        raise ValueError(f"{who} takes one number per name, but {name} has shape {tuple(value.shape)}. Give its mean() or sum().")
    number = item()
    if not isinstance(number, numbers.Real):
        raise TypeError(f"{who} takes real numbers, but {name} is {number!r}.")
    return float(number)
