"""Statistics of a tensor in one pass over memory, and its histogram. On a GPU, only the results leave the device."""

from __future__ import annotations

import importlib
import math
from typing import Any

import numpy

from engine.backends.batch import Batched
from engine.backends.coo import Coo
from engine.backends.meta import Meta

from ..protocol import Histogram, Summary
from .text import FEW, NO_NUMBERS, plain_values, sentence

BINS = 64
SAMPLE = 1 << 16
SAMPLED_FROM = 1_000_000  # elements; above this, the first histogram is of a sample
_CHUNK = 1 << 15  # elements that fit into the processor's cache, also in double precision


def library(array: Any) -> Any:
    """Return the array's module, CuPy for an array on a GPU and NumPy for anything else."""
    return importlib.import_module("cupy") if hasattr(array, "get") and hasattr(array, "device") else numpy


def host(array: Any) -> numpy.ndarray:
    """Return the array in host memory, in a dtype that NumPy computes with."""
    array = whole(array)
    return computable(numpy.asarray(array.get() if library(array) is not numpy else array))


def computable(array: Any) -> Any:
    """Return the array on its device in a dtype that supports arithmetic: 16-bit and narrower floats become float32."""
    dtype = array.dtype
    return array if dtype.kind in "iubc" or dtype.kind == "f" and dtype.itemsize > 2 else array.astype(numpy.float32)


def whole(array: Any) -> Any:
    """Return a dense array: scalars as 0-d arrays, sparse arrays with their zeros, vmapped arrays with samples along the first axis."""
    while isinstance(array, Batched):
        array = array.whole()
    return array.dense() if isinstance(array, Coo) else array if hasattr(array, "dtype") else numpy.asarray(array)


def real(array: Any) -> Any:
    """Return the array on its device with a real dtype: complex values as magnitudes, bool as 0 and 1."""
    array = computable(whole(array))
    if array.dtype.kind == "c":
        return library(array).abs(array)
    return array.astype(numpy.uint8) if array.dtype.kind == "b" else array


def summary(array: Any) -> Summary:
    """Return exact statistics of the tensor; for complex tensors, of the magnitudes."""
    name = getattr(getattr(array, "dtype", None), "name", type(array).__name__)
    array = whole(array)
    shape, size = list(array.shape), array.size
    if array.__class__ is Meta:
        return Summary(shape, name, size, 0, 0, 0, 0, 0, 0, None, None, None, None, None, None, NO_NUMBERS)
    values = plain_values(host(array)) if size <= FEW else None
    data = real(array)
    xp = library(data)
    m = _moments(data) if xp is numpy else moments_at_once(xp, data)
    n = m.finite
    mean = m.mean if n else None
    std = math.sqrt(m.squares / (n - 1)) if n > 1 else None
    length = None if m.nan or m.pos_inf or m.neg_inf else math.sqrt(m.squares + n * m.mean * m.mean)
    low, high = (_number(m.low), _number(m.high)) if n else (None, None)
    if length is not None and (not math.isfinite(length) or not length and (low or high)):
        length = norm(data)
    positive = n - m.negative - m.zero
    s = Summary(shape, name, size, m.nan, m.pos_inf, m.neg_inf, m.negative, m.zero, positive, low, high, _number(mean),
                _number(std), _number(length), values, "")  # fmt: skip
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
            # combine the moments of two parts: Chan, Golub and LeVeque, 1979
            gap, total = mean - m.mean, m.finite + n
            m.squares += squares + gap * gap * m.finite * n / total
            m.mean += gap * n / total
            m.finite = total
    return m


def moments_at_once(xp: Any, data: Any) -> _Moments:
    """The same by whole-array reductions, for GPUs, with one transfer of a scalar for each."""
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


def wide(array: Any) -> numpy.ndarray:
    """Return the array in host memory in a dtype wide enough for differences: double precision, or longdouble for 64-bit integers."""
    data = host(array)
    if data.dtype.kind == "c":
        return data.astype(numpy.complex128)
    return data.astype(numpy.longdouble if data.dtype.kind in "iu" and data.dtype.itemsize == 8 else numpy.float64)


def norm(array: Any) -> float:
    """The Euclidean norm of all elements in double precision, safe against overflow and underflow of the squares."""
    data = numpy.abs(wide(array)).astype(numpy.float64).reshape(-1)
    with numpy.errstate(all="ignore"):
        found = float(numpy.linalg.norm(data))
        if found and math.isfinite(found) or not data.size:
            return found
        largest = float(data.max())
        return found if not largest or not math.isfinite(largest) else largest * float(numpy.linalg.norm(data / largest))


def mean_magnitude(array: Any, known: Summary | None = None) -> float:
    """Mean of |x| over the finite elements in double precision; NaN if there are none. `known` is the array's summary, if available."""
    if known is not None and known.mean is not None and not (known.negative and known.positive):
        return abs(known.mean)
    data = real(array)
    sizes = numpy.abs(data.astype(numpy.float64) if data.dtype.kind == "i" else data)  # −128 has no magnitude in int8
    with numpy.errstate(over="ignore"):
        mean = float(sizes.mean(dtype=numpy.float64)) if sizes.size else math.nan
        if not math.isfinite(mean):
            finite = sizes[library(sizes).isfinite(sizes)]
            mean = float(finite.mean(dtype=numpy.float64)) if finite.size else math.nan
    return mean


def max_magnitude(known: Summary) -> float:
    """Maximum of |x| over the finite elements, from a summary; NaN if there are none."""
    return math.nan if known.min is None or known.max is None else max(abs(known.min), abs(known.max))


def _number(x: Any) -> float | None:
    return None if x is None or not math.isfinite(x) else float(x)


def histogram(array: Any, exact: bool = False, ends: tuple[float, float] | None = None) -> Histogram | None:
    """Counts of the finite elements in 64 equal bins, from minimum to maximum or between `ends`; None if there are none.

    Above 1,000,000 elements, unless `exact`, only an evenly spaced sample is counted.
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
    span = high - low
    usual = flat.dtype.kind != "f" or 1e-300 < span <= float(numpy.finfo(flat.dtype).max)
    scale = BINS / span if usual and span else 0.0  # 0: around one integer so large that its neighbours are the same in double precision
    step = _CHUNK if xp is numpy else flat.size
    for start in range(0, flat.size, step):
        chunk = flat[start : start + step]
        if usual or not span:
            at = ((chunk - low) * scale).astype(numpy.int32)
        else:  # too wide, or too narrow, for the dtype
            half = 1.0 if math.isfinite(span) else 0.5
            double = chunk.astype(numpy.float64) * half
            at = ((double - low * half) / (high * half - low * half) * BINS).astype(numpy.int32)
        xp.clip(at, 0, BINS - 1, out=at)
        counts += xp.bincount(at, minlength=BINS)
    return Histogram(low, high, counts.tolist(), sampled)
