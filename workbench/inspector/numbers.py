"""A tensor in numbers: counts and moments in one pass over memory, and the histogram. On a GPU only the results leave the device."""

from __future__ import annotations

import importlib
import math
from typing import Any

import numpy

from ..protocol import Histogram, Summary
from .text import FEW, plain_values, sentence

BINS = 64
SAMPLE = 1 << 16
SAMPLED_FROM = 1_000_000  # elements; from here on the first histogram is of a sample
_CHUNK = 1 << 15  # elements that fit into the processor's cache, in double precision too


def library(array: Any) -> Any:
    """NumPy or CuPy: where the array is. Anything that is neither counts as NumPy's."""
    return importlib.import_module("cupy") if hasattr(array, "get") and hasattr(array, "device") else numpy


def host(array: Any) -> numpy.ndarray:
    """The array in the host's memory, in a type that NumPy computes with."""
    return computable(numpy.asarray(array.get() if library(array) is not numpy else array))


def computable(array: Any) -> Any:
    """The array where it is, in a type that can be computed with: half precision as float32."""
    dtype = array.dtype
    return array if dtype.kind in "iubc" or dtype.kind == "f" and dtype.itemsize > 2 else array.astype(numpy.float32)


def real(array: Any) -> Any:
    """The array where it is, in real numbers: complex ones by their magnitude, bool as 0 and 1."""
    array = computable(array if hasattr(array, "dtype") else numpy.asarray(array))
    if array.dtype.kind == "c":
        return library(array).abs(array)
    return array.astype(numpy.uint8) if array.dtype.kind == "b" else array


def summary(array: Any) -> Summary:
    """The tensor's health, exact. Of complex numbers it is that of their magnitudes."""
    name = getattr(getattr(array, "dtype", None), "name", type(array).__name__)
    if not hasattr(array, "dtype"):
        array = numpy.asarray(array)
    shape, size = list(array.shape), array.size
    values = plain_values(host(array)) if size <= FEW else None
    data = real(array)
    xp = library(data)
    m = _moments(data) if xp is numpy else moments_at_once(xp, data)
    n = m.finite
    mean = m.mean if n else None
    std = math.sqrt(m.squares / (n - 1)) if n > 1 else None
    norm = None if m.nan or m.pos_inf or m.neg_inf else math.sqrt(m.squares + n * m.mean * m.mean)
    low, high = (_number(m.low), _number(m.high)) if n else (None, None)
    positive = n - m.negative - m.zero
    s = Summary(shape, name, size, m.nan, m.pos_inf, m.neg_inf, m.negative, m.zero, positive, low, high, _number(mean),
                _number(std), _number(norm), values, "")  # fmt: skip
    return Summary(**{**s.__dict__, "text": sentence(s)})


class _Moments:
    finite = nan = pos_inf = neg_inf = negative = zero = 0
    mean = squares = 0.0
    low, high = math.inf, -math.inf


def _moments(data: numpy.ndarray) -> _Moments:
    m = _Moments()
    flat = data.reshape(-1) if data.flags.c_contiguous else numpy.ravel(data, order="K")
    with numpy.errstate(all="ignore"):
        for start in range(0, flat.size, _CHUNK):
            chunk = flat[start : start + _CHUNK]
            low, high = chunk.min(), chunk.max()
            if not (math.isfinite(low) and math.isfinite(high)):
                m.nan += int(numpy.count_nonzero(chunk != chunk))
                m.pos_inf += int(numpy.count_nonzero(chunk == numpy.inf))
                m.neg_inf += int(numpy.count_nonzero(chunk == -numpy.inf))
                chunk = chunk[numpy.isfinite(chunk)]
                if not chunk.size:
                    continue
                low, high = chunk.min(), chunk.max()
            n = chunk.size
            m.low, m.high = min(m.low, float(low)), max(m.high, float(high))
            m.zero += n - int(numpy.count_nonzero(chunk))
            if low < 0:
                m.negative += n if high < 0 else int(numpy.count_nonzero(chunk < 0))
            wide = chunk.astype(numpy.float64)
            mean = float(wide.sum()) / n
            wide -= mean
            squares = float(numpy.einsum("i,i->", wide, wide))  # not `dot`: BLAS would wake its threads for each chunk
            # two parts' moments joined: Chan, Golub and LeVeque, 1979
            gap, total = mean - m.mean, m.finite + n
            m.squares += squares + gap * gap * m.finite * n / total
            m.mean += gap * n / total
            m.finite = total
    return m


def moments_at_once(xp: Any, data: Any) -> _Moments:
    """The same by whole-array reductions, for a device whose memory has no cache to stay in; one transfer of numbers for each."""
    m = _Moments()
    m.nan, m.pos_inf, m.neg_inf = (int(xp.count_nonzero(found)) for found in (data != data, data == numpy.inf, data == -numpy.inf))
    fine = data if not (m.nan or m.pos_inf or m.neg_inf) else data[xp.isfinite(data)]
    m.finite = n = int(fine.size)
    if n:
        m.low, m.high = float(fine.min()), float(fine.max())
        m.negative, m.zero = int(xp.count_nonzero(fine < 0)), n - int(xp.count_nonzero(fine))
        m.mean = float(fine.mean(dtype=numpy.float64))
        m.squares = float(xp.square(xp.subtract(fine, m.mean, dtype=numpy.float64)).sum())
    return m


def _number(x: Any) -> float | None:
    return None if x is None or not math.isfinite(x) else float(x)


def histogram(array: Any, exact: bool = False, ends: tuple[float, float] | None = None) -> Histogram | None:
    """Counts of the finite elements in 64 equal bins, from the least to the largest or between `ends`; None when there are none.

    From 1,000,000 elements on, unless `exact`, of an even sample.
    """
    data = real(array)
    xp = library(data)
    sampled = not exact and data.size > SAMPLED_FROM
    if sampled:
        flat = (data.reshape(-1) if data.flags.c_contiguous or xp is not numpy else data.flat)[:: data.size // SAMPLE]
    else:
        flat = data.reshape(-1)
    if not flat.size:
        return None
    low, high = flat.min(), flat.max()
    if not (math.isfinite(low) and math.isfinite(high)):
        flat = flat[xp.isfinite(flat)]
        if not flat.size:
            return None
        low, high = flat.min(), flat.max()
    low, high = ends or (float(low), float(high))
    if high == low:
        low, high = low - 0.5, high + 0.5
    counts = xp.zeros(BINS, numpy.int64)
    scale = BINS / (high - low) if math.isfinite(high - low) and high - low > 0 else 0.0
    step = _CHUNK if xp is numpy else flat.size
    for start in range(0, flat.size, step):
        at = ((flat[start : start + step] - low) * scale).astype(numpy.int32)
        xp.clip(at, 0, BINS - 1, out=at)
        counts += xp.bincount(at, minlength=BINS)
    return Histogram(low, high, counts.tolist(), sampled)
