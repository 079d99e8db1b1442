"""Statistics and histograms of tensors: on the CPU in one pass over memory, on a GPU for a list at once, with one copy to the host."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any, NamedTuple

import numpy

from engine.backends.meta import Meta
from engine.core import devices

from ..protocol import Histogram, Summary
from .numbers import CHUNK, Moments, computable, host, moments, norm, real, whole
from .text import FEW, NO_NUMBERS, plain_values, sentence

BINS = 64
SAMPLE = 1 << 16
SAMPLED_FROM = 1_000_000  # elements; above this, the first histogram of an array on the CPU is of a sample


class Statistics(NamedTuple):
    """What is known of one tensor."""

    summary: Summary
    magnitude: float = math.nan  # mean of |x| over the finite elements; NaN if there are none
    histogram: Histogram | None = None  # of the finite elements


class Wanted(NamedTuple):
    """What to compute beside the summary."""

    magnitude: bool = False
    histogram: bool = False
    exact: bool = False  # the histogram, of an array on the CPU; else it is of a sample above 1,000,000 elements
    ends: tuple[float, float] | None = None  # of the histogram; None: the minimum and maximum


class Measuring:
    """Statistics of tensors as they are now. Those on a GPU are computed there, on the current stream: nothing waits before `get`.

    With `aside`, a stream of its own computes them, as soon as all work before is done.
    """

    def __init__(self, arrays: Sequence[Any], wanted: Wanted, aside: bool = False) -> None:
        self._found: list[Any] = [None] * len(arrays)
        self._late: list[tuple[list[tuple], Any]] = []
        self._ends = wanted.ends
        there: dict[int, list[tuple[int, str, Any]]] = {}
        for i, array in enumerate(arrays):
            name = getattr(getattr(array, "dtype", None), "name", type(array).__name__)
            array = whole(array)
            if on_gpu(array):
                data = array if devices.gpu.summary.computed(array) else computable(array)
                there.setdefault(data.data.device_id, []).append((i, name, data))
            else:
                self._found[i] = _on_the_cpu(name, array, wanted)
        for index, several in there.items():
            gpu = devices.cuda()
            with gpu.device(index), gpu.summary.aside() if aside else nullcontext():
                begun = gpu.summary.begun([data for *_, data in several], wanted.histogram, wanted.ends)
            self._late.append(([(i, name, data.shape, data.dtype) for i, name, data in several], begun))
        self._read = list(there.values()) if aside else None  # alive until the other stream has read it

    @property
    def done(self) -> bool:
        """Whether `get` returns at once."""
        return all(begun.done for _, begun in self._late)

    def get(self) -> list[Statistics]:
        """The statistics, in the order of the tensors."""
        while self._late:
            described, begun = self._late[-1]
            for (i, *rest), result in zip(described, begun.get(), strict=True):
                self._found[i] = _of_gpu(*rest, result, self._ends)
            self._late.pop()
        self._read = None
        return self._found


def on_gpu(array: Any) -> bool:
    """Whether the array is on a GPU."""
    return devices.gpu_array is not None and isinstance(array, devices.gpu_array)


def capturing() -> bool:
    """Whether this thread captures a CUDA graph, in which nothing can be measured."""
    return devices.gpu_array is not None and devices.gpu.memory.capturing()


def statistics(arrays: Sequence[Any], wanted: Wanted) -> list[Statistics]:
    """The statistics of several tensors. On a GPU a stream of its own computes them, in one go, and the host waits once."""
    return Measuring(arrays, wanted, aside=True).get()


def summaries(arrays: Sequence[Any]) -> list[Summary]:
    """Exact statistics of several tensors, as `summary` returns them for one; those on a GPU take one wait in all."""
    return [found.summary for found in statistics(arrays, Wanted())]


def summary(array: Any) -> Summary:
    """Return exact statistics of the tensor; for complex tensors, of the magnitudes."""
    return summaries([array])[0]


def histogram(array: Any, exact: bool = False, ends: tuple[float, float] | None = None) -> Histogram | None:
    """Counts of the finite elements in 64 equal bins, from minimum to maximum or between `ends`; None if there are none.

    On the CPU, above 1,000,000 elements, unless `exact`, only an evenly spaced sample is counted.
    """
    if on_gpu(whole(array)):
        return statistics([array], Wanted(histogram=True, ends=ends))[0].histogram
    return _histogram(array, exact, ends)


def mean_magnitude(array: Any, known: Summary | None = None) -> float:
    """Mean of |x| over the finite elements in double precision; NaN if there are none. `known` is the array's summary, if available."""
    if known is not None and known.mean is not None and not (known.negative and known.positive):
        return abs(known.mean)
    return mean_magnitudes([array])[0]


def mean_magnitudes(arrays: Sequence[Any]) -> list[float]:
    """The same for several tensors; those on a GPU take one wait in all."""
    arrays = [whole(array) for array in arrays]
    there = [] if devices.gpu is None else [i for i, array in enumerate(arrays) if isinstance(array, devices.gpu_array)]
    found = dict(zip(there, statistics([arrays[i] for i in there], Wanted(magnitude=True)), strict=True))
    return [found[i].magnitude if i in found else _mean_magnitude(array) for i, array in enumerate(arrays)]


def max_magnitude(known: Summary) -> float:
    """Maximum of |x| over the finite elements, from a summary; NaN if there are none."""
    return math.nan if known.min is None or known.max is None else max(abs(known.min), abs(known.max))


# -- on a GPU ----------------------------------------------------------------------------------------------------------------


def _of_gpu(name: str, shape: tuple, dtype: Any, result: Any, ends: tuple[float, float] | None) -> Statistics:
    """The statistics of a tensor from a result of `engine/backends/gpu/summary.py`."""
    m, kernels, size = Moments(), devices.gpu.summary, math.prod(shape)
    m.finite, m.nan, m.pos_inf, m.neg_inf, m.negative, m.zero = map(int, result.tolist()[:6])
    m.low, m.high, m.mean, m.squares = result.tolist()[6:10]
    values = plain_values(computable(kernels.values(result, shape, dtype))) if size <= FEW else None
    told = _summary(name, shape, size, m, kernels.norm(result), values)
    if not m.finite:
        return Statistics(told)
    return Statistics(told, float(result["size"]), Histogram(*_ends(*(ends or (m.low, m.high))), result["counts"].tolist(), False))


# -- on the CPU --------------------------------------------------------------------------------------------------------------


def _on_the_cpu(name: str, array: Any, wanted: Wanted) -> Statistics:
    if array.__class__ is Meta:
        return Statistics(Summary(list(array.shape), name, array.size, 0, 0, 0, 0, 0, 0, None, None, None, None, None, None, NO_NUMBERS))
    values = plain_values(host(array)) if array.size <= FEW else None
    data = real(array)
    m = moments(data)
    length = math.sqrt(m.squares + m.finite * m.mean * m.mean)
    if m.finite == data.size and (not math.isfinite(length) or not length and (m.low or m.high)):
        length = norm(data)
    told = _summary(name, array.shape, array.size, m, length, values)
    magnitude = mean_magnitude(array, told) if wanted.magnitude else math.nan
    return Statistics(told, magnitude, _histogram(array, wanted.exact, wanted.ends) if wanted.histogram else None)


def _summary(name: str, shape: tuple, size: int, m: Moments, length: float, values: list | None) -> Summary:
    n = m.finite
    low, high, mean = (m.low, m.high, m.mean) if n else (None, None, None)
    std = math.sqrt(m.squares / (n - 1)) if n > 1 else None
    s = Summary(list(shape), name, size, m.nan, m.pos_inf, m.neg_inf, m.negative, m.zero, n - m.negative - m.zero, _number(low),
                _number(high), _number(mean), _number(std), _number(length) if n == size else None, values, "")  # fmt: skip
    return Summary(**{**s.__dict__, "text": sentence(s)})


def _number(x: float | None) -> float | None:
    return None if x is None or not math.isfinite(x) else float(x)


def _ends(low: float, high: float) -> tuple[float, float]:
    """The ends of a histogram: equal ones are moved apart."""
    return (low - 0.5, high + 0.5) if high == low else (low, high)


def _mean_magnitude(array: Any) -> float:
    data = real(array)
    sizes = numpy.abs(data.astype(numpy.float64) if data.dtype.kind == "i" else data)  # −128 has no magnitude in int8
    with numpy.errstate(over="ignore"):
        mean = float(sizes.mean(dtype=numpy.float64)) if sizes.size else math.nan
        if not math.isfinite(mean):
            finite = sizes[numpy.isfinite(sizes)]
            mean = float(finite.mean(dtype=numpy.float64)) if finite.size else math.nan
    return mean


def _histogram(array: Any, exact: bool, ends: tuple[float, float] | None) -> Histogram | None:
    data = real(array)
    sampled = not exact and data.size > SAMPLED_FROM
    if sampled:
        flat = (data.reshape(-1) if data.flags.c_contiguous else data.flat)[:: data.size // SAMPLE]
    else:
        flat = data.reshape(-1)
    if not flat.size:
        return None
    low, high = flat.min(), flat.max()
    if not (math.isfinite(low) and math.isfinite(high)):
        flat = flat[numpy.isfinite(flat)]
        if not flat.size:
            return None
        low, high = flat.min(), flat.max()
    low, high = _ends(*(ends or (float(low), float(high))))
    counts = numpy.zeros(BINS, numpy.int64)
    span = high - low
    usual = flat.dtype.kind != "f" or 1e-300 < span <= float(numpy.finfo(flat.dtype).max)
    scale = BINS / span if usual and span else 0.0  # 0: around one integer so large that its neighbors are the same in double precision
    for start in range(0, flat.size, CHUNK):
        chunk = flat[start : start + CHUNK]
        if usual or not span:
            at = ((chunk - low) * scale).astype(numpy.int32)
        else:  # too wide, or too narrow, for the dtype
            half = 1.0 if math.isfinite(span) else 0.5
            double = chunk.astype(numpy.float64) * half
            at = ((double - low * half) / (high * half - low * half) * BINS).astype(numpy.int32)
        numpy.clip(at, 0, BINS - 1, out=at)
        counts += numpy.bincount(at, minlength=BINS)
    return Histogram(low, high, counts.tolist(), sampled)
