"""The CPU's array namespace: NumPy's functions, and what ops need beyond them."""

from __future__ import annotations

from typing import Any

import numpy
from numpy import (  # noqa: F401  the namespace itself
    abs, add, all, any, arange, arccos, arccosh, arcsin, arcsinh, arctan, arctan2, arctanh, argmax, argmin, argsort, asarray,
    bitwise_and, bitwise_or, bitwise_xor, broadcast_to, ceil, concatenate, conj, copysign, cos, cosh, cumprod, cumsum, diagonal,
    divide, empty, empty_like, equal, exp, exp2, expand_dims, expm1, eye, flip, floor, floor_divide, fmax, fmin, fmod, full, full_like,
    greater, greater_equal, heaviside, hypot, imag, invert, isfinite, isinf, isnan, isneginf, isposinf, ldexp, left_shift, less, less_equal,
    log, log1p, log2, log10, logaddexp, logaddexp2, logical_and, logical_not, logical_or, logical_xor, matmul, matrix_transpose, max,
    maximum, mean, min, minimum, moveaxis, nan_to_num, negative, nextafter, nonzero, not_equal, ones, ones_like, outer, power, prod, real,
    reciprocal, remainder, repeat, reshape, right_shift, rint, roll, searchsorted, sign, signbit, sin, sinh, sort, sqrt, square, squeeze,
    stack, subtract, swapaxes, take, take_along_axis, tan, tanh, tensordot, tile, transpose, tril, triu, trunc, unique, var,
    where, zeros, zeros_like,
)  # fmt: skip

from . import malloc  # noqa: F401  sets malloc's thresholds
from .kernels_conv import col2im, convolution, convolution_input, convolution_weight, im2col  # noqa: F401
from .kernels_pool import (  # noqa: F401
    adaptive_max, avg_pool, avg_pool_back, flat_gather, flat_scatter, max_pool, resample, resample_back, tap_gather, tap_places, tap_scatter,
)  # fmt: skip
from .reference import *  # noqa: F403

pi, inf, nan = numpy.pi, numpy.inf, numpy.nan


def astype(x: Any, dtype: Any) -> numpy.ndarray:
    """The array in another dtype; itself when it has that dtype already. Works on NumPy scalars too."""
    return numpy.asarray(x).astype(dtype, copy=False)


def sum(x: Any, axis: Any = None, keepdims: bool = False, dtype: Any = None) -> Any:
    """Sum over axes; `numpy.sum` without its 0.6 us of argument handling."""
    return add.reduce(x, axis, dtype, None, keepdims)


def copy(x: Any) -> numpy.ndarray:
    return numpy.array(x, copy=True)
