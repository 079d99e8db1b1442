"""The numbers of an array: on the host, dense, in dtypes that support arithmetic; their moments in one pass over memory."""

from __future__ import annotations

import importlib
import math
from typing import Any

import numpy

from engine.backends.batch import Batched
from engine.backends.coo import Coo

CHUNK = 1 << 15  # elements that fit into the processor's cache, also in double precision


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


def unbatched(array: Any) -> Any:
    """Return a vmapped array with its samples along the first axis, any other as it is."""
    while isinstance(array, Batched):
        array = array.whole()
    return array


def whole(array: Any) -> Any:
    """Return a dense array: scalars as 0-d arrays, sparse arrays with their zeros, vmapped arrays with samples along the first axis."""
    array = unbatched(array)
    return array.dense() if isinstance(array, Coo) else array if hasattr(array, "dtype") else numpy.asarray(array)


def real(array: Any) -> Any:
    """Return the array on its device with a real dtype: complex values as magnitudes, bool as 0 and 1."""
    array = computable(whole(array))
    if array.dtype.kind == "c":
        return library(array).abs(array)
    return array.astype(numpy.uint8) if array.dtype.kind == "b" else array


class Moments:
    """Counts of elements, and the extremes, mean and sum of squared distances from the mean of the finite ones."""

    finite = nan = pos_inf = neg_inf = negative = zero = 0
    mean = squares = 0.0
    low, high = math.inf, -math.inf


def moments(data: numpy.ndarray) -> Moments:
    """The moments of an array of the host, of a real dtype."""
    m = Moments()
    flat = data.reshape(-1) if data.flags.c_contiguous else numpy.ravel(data, order="K")
    with numpy.errstate(all="ignore"):
        for start in range(0, flat.size, CHUNK):
            chunk = flat[start : start + CHUNK]
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
