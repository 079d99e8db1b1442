"""Random samples drawn on the GPU by the kernels of `random.cu`: `kernels_random` with flat CuPy arrays.

`source.take(n)` returns the seed and the counter of a stream and moves it on by n blocks of 128 bits (see `engine.core.random.Philox`).
The values do not depend on the GPU or on how a kernel is launched.
"""

from __future__ import annotations

import functools
import math
import struct
from typing import Any

import cupy
import numpy

from .. import kernels_random
from . import launch

_BLOCK = 256  # as in random.cu
_F32, _F64 = numpy.dtype("float32"), numpy.dtype("float64")


@functools.cache
def _kernel(name: str, T: str, P: str = "float") -> launch.Kernel:
    return launch.Kernel(launch.source("random.cu", T=T, P=P), name)


def _drawn(kernel: launch.Kernel, source: Any, n: int, d: numpy.dtype, per: int, *parameters: Any) -> Any:
    """Draw `n` elements, `per` of each block."""
    out = cupy.empty((n,), d)
    if n:
        blocks = -(-n // per)
        kernel(-(-blocks // _BLOCK), _BLOCK, out.data.ptr, n, struct.pack("=QQQ", *source.take(blocks)), *parameters)
    return out


def _real(name: str, source: Any, n: int, d: numpy.dtype, *parameters: Any) -> Any:
    return _drawn(_kernel(name, launch.TYPES[d.name]), source, n, d, 2 if d == _F64 else 4, *parameters)


class Held:
    """A source for kernels that draw, once more, from the seed and the counter that `held` put into an array."""

    def __init__(self, array: Any) -> None:
        self._array = array

    def take(self, n: int) -> tuple[int, int, int]:
        return 0, 0, self._array.data.ptr


def held(source: Any, n: int, step: int) -> Any:
    """Take `n` blocks from a source and return its seed and counter as an array, in which they are `step` numbers apart."""
    out = cupy.empty(2 * step, numpy.int64)
    _kernel("hold", "float")(1, 1, out.data.ptr, struct.pack("=QQQ", *source.take(n)), step)
    return out


def set_state(pointer: int, seed: int, offset: int) -> None:
    """Write the seed and the offset from which the kernels of a CUDA graph draw."""
    _kernel("set_state", "float")(1, 1, pointer, seed, offset)


def uniform(source: Any, n: int, d: numpy.dtype, low: float = 0.0, high: float = 1.0) -> Any:
    """Draw `n` values in [low, high): 53 random bits for float64, 24 for every smaller dtype."""
    return _real("uniform", source, n, d, low, high)


def normal(source: Any, n: int, d: numpy.dtype, mean: float = 0.0, std: float = 1.0, dense: bool = True) -> Any:
    """Draw `n` normal values. `dense` is for the CPU, where the values depend on it."""
    return _real("normal", source, n, d, mean, std)


def exponential(source: Any, n: int, d: numpy.dtype, rate: float = 1.0) -> Any:
    """Draw `n` exponential values of the given rate, all above 0."""
    return _real("exponential", source, n, d, rate)


def bernoulli(source: Any, n: int, p: float) -> Any:
    """Draw `n` booleans that are True with probability `p`."""
    return _drawn(_kernel("bernoulli", "bool"), source, n, numpy.dtype(bool), 4, 0, p)


def bernoulli_each(source: Any, p: Any) -> Any:
    """Draw one boolean for each probability."""
    p = cupy.ascontiguousarray(p)
    return _drawn(_kernel("bernoulli", "bool", launch.TYPES[p.dtype.name]), source, p.size, numpy.dtype(bool), 4, p.data.ptr, 0.0)


def integers(source: Any, n: int, low: int, high: int, d: numpy.dtype) -> Any:
    """Draw `n` integers in [low, high), by the high half of the product of 64 random bits and the number of integers."""
    low, span = (low + (1 << 63)) % (1 << 64) - (1 << 63), (high - low) % (1 << 64)
    return _drawn(_kernel("integers", launch.TYPES[d.name]), source, n, d, 2, low, span)


def full_range(source: Any, n: int, d: numpy.dtype) -> Any:
    """Draw `n` integers from 0 to the largest up to which the dtype counts exactly."""
    return integers(source, n, 0, kernels_random.largest(d) + 1, d)


def permutation(source: Any, n: int) -> Any:
    """Shuffle the integers below `n`: the order of random 64-bit keys."""
    return cupy.argsort(integers(source, n, 0, 1 << 64, numpy.dtype(numpy.int64)))


def geometric(source: Any, n: int, d: numpy.dtype, p: float) -> Any:
    """Draw `n` geometric values: the number of trials of probability `p` up to the first success."""
    return cupy.ceil(exponential(source, n, _F64, -math.log1p(-p))).astype(d)


def cauchy(source: Any, n: int, d: numpy.dtype, median: float, sigma: float) -> Any:
    """Draw `n` Cauchy values."""
    return (median + sigma * cupy.tan(math.pi * (uniform(source, n, _F64) - 0.5))).astype(d)


def log_normal(source: Any, n: int, d: numpy.dtype, mean: float, std: float) -> Any:
    """Draw `n` log-normal values; `mean` and `std` are those of the logarithm."""
    return cupy.exp(normal(source, n, _F64 if d == _F64 else _F32, mean, std)).astype(d)


def multinomial(source: Any, weights: Any, n: int, replacement: bool) -> Any:
    """Draw `n` column indices for each row of non-negative weights (rows, columns)."""
    rows, columns = weights.shape
    if not replacement or n == 1:
        # the n largest of weight / exponential noise are a draw without replacement
        keys = weights.astype(_F64 if weights.dtype == _F64 else _F32) / exponential(source, weights.size, _F32).reshape(rows, columns)
        return cupy.argmax(keys, axis=1)[:, None] if n == 1 else cupy.argsort(-keys, axis=1)[:, :n]
    total = cupy.cumsum(weights, axis=1, dtype=_F64)
    total /= total[:, -1:]
    row = cupy.arange(rows, dtype=_F64)[:, None]  # row r's running sums are in (r, r + 1], so one search serves all rows
    found = cupy.searchsorted((total + row).reshape(-1), (uniform(source, rows * n, _F64).reshape(rows, n) + row).reshape(-1), side="right")
    return cupy.minimum(found.reshape(rows, n) - (row * columns).astype(numpy.int64), columns - 1)
