"""The CPU's array namespace: NumPy's functions, and what ops need beyond them."""

from __future__ import annotations

import warnings
from typing import Any

import numpy
from numpy import (  # noqa: F401  the namespace itself
    abs,
    add,
    arange,
    arccos,
    arccosh,
    arcsin,
    arcsinh,
    arctan,
    arctan2,
    arctanh,
    argsort,
    asarray,
    ascontiguousarray,
    bincount,
    bitwise_and,
    bitwise_or,
    bitwise_xor,
    broadcast_to,
    ceil,
    concatenate,
    copysign,
    cos,
    cosh,
    diagonal,
    divide,
    empty,
    empty_like,
    equal,
    exp,
    exp2,
    expand_dims,
    expm1,
    eye,
    flip,
    floor,
    fmax,
    fmin,
    full,
    full_like,
    greater,
    greater_equal,
    hypot,
    invert,
    isclose,
    isfinite,
    isinf,
    isnan,
    isneginf,
    isposinf,
    isreal,
    ldexp,
    left_shift,
    less,
    less_equal,
    log,
    log1p,
    log2,
    log10,
    logaddexp2,
    logical_and,
    logical_not,
    logical_or,
    logical_xor,
    matrix_transpose,
    maximum,
    minimum,
    moveaxis,
    nextafter,
    nonzero,
    not_equal,
    ones,
    ones_like,
    real,
    reshape,
    right_shift,
    roll,
    searchsorted,
    signbit,
    sin,
    sinh,
    sort,
    sqrt,
    square,
    squeeze,
    stack,
    subtract,
    swapaxes,
    take,
    take_along_axis,
    tan,
    tanh,
    tensordot,
    tile,
    transpose,
    tril,
    triu,
    trunc,
    unique,
    zeros,
    zeros_like,
)  # fmt: skip

from ..base.layout import condensed, overlaps
from . import malloc  # noqa: F401  sets malloc's thresholds
from .coo import coo_matmul, sparse_rows  # noqa: F401
from .elementwise import *  # noqa: F403
from .factors import *  # noqa: F403
from .indexing import *  # noqa: F403
from .kernels_conv import col2im, convolution, convolution_input, convolution_weight, im2col  # noqa: F401
from .kernels_loss import class_pick, class_spread, class_weights, ctc, log_sum_exp, softmax_minus  # noqa: F401
from .kernels_lstm import lstm, lstm_back  # noqa: F401
from .kernels_norm import normalize, normalize_input, normalize_weight  # noqa: F401
from .kernels_pool import (  # noqa: F401
    adaptive_max,
    avg_pool,
    avg_pool_back,
    flat_gather,
    flat_scatter,
    max_pool,
    resample,
    resample_back,
    tap_gather,
    tap_places,
    tap_scatter,
)  # fmt: skip
from .order import *  # noqa: F403
from .polynomials import *  # noqa: F403
from .products import *  # noqa: F403
from .reduction import *  # noqa: F403
from .reference import *  # noqa: F403
from .special import *  # noqa: F403

# 1 / 0 is inf and log(-1) is nan without a word, as in PyTorch; NumPy's own state would not reach other threads
warnings.filterwarnings("ignore", category=RuntimeWarning, module=r"engine\.")

pi, inf, nan = numpy.pi, numpy.inf, numpy.nan


def astype(x: Any, dtype: Any) -> numpy.ndarray:
    """The array in another dtype; itself when it has that dtype already. Works on NumPy scalars too."""
    x = numpy.asarray(x)
    if 0 in x.strides and x.dtype != dtype and overlaps(x):
        return condensed(x, dtype)
    return x.astype(dtype, copy=False)


def copy(x: Any) -> numpy.ndarray:
    return condensed(x, x.dtype) if 0 in x.strides and overlaps(x) else numpy.array(x, copy=True, order="K")
