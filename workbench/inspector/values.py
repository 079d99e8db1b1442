"""Tests of arrays for NaN and infinities."""

from __future__ import annotations

import math
from typing import Any

import numpy

from engine.backends.batch import Batched, Level

from .numbers import host, library, unbatched
from .statistics import summary
from .text import number_text

KINDS = {"NaN": numpy.isnan, "+Inf": numpy.isposinf, "−Inf": numpy.isneginf}


def floating(array: Any) -> bool:
    return hasattr(array, "dtype") and array.dtype.kind in "fc" and bool(array.size)


def finite(array: Any) -> bool:
    """Whether all elements are finite: tested by the sum, in one pass over memory, and by element only if the sum is not finite."""
    if not floating(array):
        return True
    array = unbatched(array)
    with numpy.errstate(all="ignore"):
        total = complex(array.sum()) if array.dtype.kind == "c" else float(array.sum())
        if math.isfinite(total.real) and math.isfinite(total.imag):
            return True
        return bool(library(array).isfinite(array).all())


def kinds(array: Any) -> list[str]:
    """Which of NaN, +Inf and −Inf occur in the array."""
    if finite(array):
        return []
    data = host(array)
    parts = (numpy.real(data), numpy.imag(data)) if data.dtype.kind == "c" else (data,)
    return [kind for kind, test in KINDS.items() if any(test(part).any() for part in parts)]


def first(array: Any, kind: str) -> tuple[int, ...]:
    """The index, in C order, of the first element of that kind."""
    data = host(array)
    found = KINDS[kind](numpy.real(data)) | KINDS[kind](numpy.imag(data)) if data.dtype.kind == "c" else KINDS[kind](data)
    return tuple(int(i) for i in numpy.unravel_index(int(numpy.argmax(found)), data.shape))


def opposite(array: Any, result: Any, index: tuple[int, ...]) -> tuple[int, ...] | None:
    """The index of the element of `array` that broadcasts to `index` of `result`; None if it does not broadcast.

    An index of a vmapped array begins with the sample in each `vmap`, as in `unbatched`.
    """
    samples = dict(zip(_levels(result), index, strict=False))
    own, shape, index = tuple(array.shape), tuple(result.shape), index[len(samples) :]
    if len(own) > len(shape):
        return None
    tail = len(shape) - len(own)
    if any(n not in (1, m) for n, m in zip(own, shape[tail:], strict=True)) or any(level not in samples for level in _levels(array)):
        return None
    return (*(samples[level] for level in _levels(array)), *(0 if n == 1 else i for n, i in zip(own, index[tail:], strict=True)))


def _levels(array: Any) -> list[Level]:
    """The `vmap`s around a vmapped array, the outermost first."""
    return [*_levels(array.inner), array.level] if isinstance(array, Batched) else []


def element(array: Any, index: tuple[int, ...]) -> Any:
    """One element as a Python number."""
    array = unbatched(array)
    return host(array[index]).item() if hasattr(array[index], "dtype") else array[index]


def health(array: Any) -> str:
    """Range, moments and counts in words, such as "from −1 to 3, ..., with 2 NaN"."""
    if not hasattr(array, "dtype"):
        return number_text(array)
    if not array.size:
        return "no elements"
    s = summary(array)
    return s.text.partition(", ")[2]


def indexed(name: str, index: tuple[int, ...]) -> str:
    """Format an element: "x[0, 2]", or "x" for a scalar."""
    return f"{name}[{', '.join(map(str, index))}]" if index else name
