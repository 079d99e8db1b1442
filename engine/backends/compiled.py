"""Kernels compiled by Numba: one pass over memory where NumPy takes several. It and `team` alone import Numba; see `fused`.

All take C-contiguous arrays, float32 unless said otherwise, write into their last arguments and hold no lock, so that threads can share the
work. Importing this module compiles those that are not in Numba's cache on disk.
"""

from __future__ import annotations

import math
from typing import Any

import numpy
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic
from numpy import float32 as F

from . import team  # noqa: F401  for `loops`
from .elementwise import CDF, CDF_END
from .kernels_random import COS_SIN, LN2, LOG, QUARTER_PI
from .special import ERF, ERF_END
from .team import Team

_real = types.float64  # of a number, which becomes float32 inside
_flat, _rows, _cube = (types.Array(types.float32, n, "C") for n in (1, 2, 3))
_places, _places2 = (types.Array(types.int64, n, "C") for n in (1, 2))
_marks = types.Array(types.uint8, 2, "C")
_inline = njit(fastmath={"contract"}, error_model="numpy")  # no reordering: the constants below rely on the order of additions


def _kernel(*arguments: Any, flags: frozenset = frozenset(("contract", "reassoc"))) -> Any:
    """Compile for these arguments, with sums in any order, or load it from the cache. `kernel.team` calls it from several threads."""

    def compiled(fn: Any) -> Any:
        kernel: Any = njit([types.void(*arguments)], cache=True, nogil=True, fastmath=set(flags), error_model="numpy")(fn)
        kernel.team = Team(kernel, arguments)
        return kernel

    return compiled


@intrinsic
def _in_wide_vectors(context: Any) -> Any:
    """Let the kernel that calls this use vectors of 512 bits, if the processor has them; by default LLVM uses 256."""

    def generate(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        set.add(builder.function.attributes, '"prefer-vector-width"="512"')  # `attributes.add` takes the names that llvmlite knows
        return context.get_dummy_value()

    return types.none(), generate


# -- functions of a number -----------------------------------------------------------------------------------------------------

# exp by Cephes: 2^k times a polynomial on [-ln 2 / 2, ln 2 / 2]; relative error 1e-7. ln 2 is split in two parts.
_LEAST, _MOST, _LOG2E, _ROUND = F(-104), F(89), F(1.44269504088896341), F(12582912)
_LN2, _LN2_LOW = F(0.693359375), F(-2.12194440e-4)
_E0, _E1, _E2, _E3, _E4, _E5 = map(F, (1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 0.5))
_ZERO, _HALF, _ONE, _TWO, _BIAS, _MAGNITUDE = F(0), F(0.5), F(1), F(2), numpy.int32(127), numpy.int32(0x7FFFFFFF)


@_inline
def _reduced(x: Any) -> Any:
    """Return exp(r) - 1 and k, with x = r + k ln 2, for x >= -104; above 89 float32 is inf anyway. A nan stays in the first."""
    x = _MOST if x > _MOST else x
    shifted = F(x * _LOG2E + _ROUND)  # adding 1.5 2^23 rounds to an integer, which is in the low bits
    k = numpy.int32(shifted.view(numpy.int32) - numpy.int32(0x4B400000))
    n = shifted - _ROUND
    r = x - n * _LN2 - n * _LN2_LOW
    p = ((((_E0 * r + _E1) * r + _E2) * r + _E3) * r + _E4) * r + _E5
    return p * (r * r) + r, k


@_inline
def _power_of_2(k: Any) -> Any:
    bits = numpy.int32((k + _BIAS) << numpy.int32(23))
    return bits.view(numpy.float32)


@_inline
def _exp(x: Any) -> Any:
    vanishes = x < _LEAST  # handled separately, like a mask's -inf: a result that underflows takes 100 times as long
    p, k = _reduced(_ZERO if vanishes else x)
    half = numpy.int32(k >> numpy.int32(1))  # in two steps: 2^k itself may be out of range
    y = (p + _ONE) * _power_of_2(half) * _power_of_2(numpy.int32(k - half))
    return _ZERO if vanishes else y


@_inline
def _expm1(x: Any) -> Any:
    """exp(x) - 1 for x <= 0."""
    p, k = _reduced(x if x > F(-80) else F(-80))
    scale = _power_of_2(k)
    return p * scale + (scale - _ONE)


@_inline
def _sigmoid(x: Any) -> Any:
    return _ONE / (_ONE + _exp(-x))


_L3, _L5, _L7, _L9, _L11, _L13, _L15 = (F(1 / n) for n in (3, 5, 7, 9, 11, 13, 15))


@_inline
def _log1p_exp(x: Any) -> Any:
    """log(1 + exp(x)); with e = exp(-|x|) and s = e / (2 + e) <= 1 / 3, log(1 + e) = 2 atanh(s), whose series is short."""
    e = _exp(-abs(x))
    s = e / (_TWO + e)
    q = s * s
    series = ((((((_L15 * q + _L13) * q + _L11) * q + _L9) * q + _L7) * q + _L5) * q + _L3) * q + _ONE
    return (x if x > _ZERO else _ZERO) + _TWO * s * series


_C0, _C1, _C2, _C3, _C4, _C5, _C6 = (F(2 * c) for c in CDF)
_SQUARE_END, _DENSITY = F(CDF_END), F(1 / math.sqrt(2 * math.pi))
_TANH, _TANH3 = F(2 * math.sqrt(2 / math.pi)), F(0.044715)
_EP0, _EP1, _EP2, _EP3, _EP4, _EP5, _EP6 = map(F, ERF[0])
_EQ0, _EQ1, _EQ2, _EQ3, _EQ4 = map(F, ERF[1])
_ERF_END, _SLOPE = F(ERF_END), F(2 / math.sqrt(math.pi))


@_inline
def _cdf(x: Any) -> Any:
    """Standard normal distribution function; see `elementwise.CDF`."""
    q = x * x
    q = _SQUARE_END if q > _SQUARE_END else q
    return _sigmoid(x * ((((((_C6 * q + _C5) * q + _C4) * q + _C3) * q + _C2) * q + _C1) * q + _C0))


# -- elementwise ---------------------------------------------------------------------------------------------------------------


@_kernel(_flat, _flat)
def exp(x, out):
    _in_wide_vectors()
    for i in range(x.size):
        out[i] = _exp(x[i])


@_kernel(_flat, _flat)
def sigmoid(x, out):
    _in_wide_vectors()
    for i in range(x.size):
        out[i] = _sigmoid(x[i])


@_kernel(_flat, _flat, _flat)
def sigmoid_input(g, y, out):
    for i in range(g.size):
        out[i] = g[i] * (y[i] * (_ONE - y[i]))


@_kernel(_flat, _flat)
def silu(x, out):
    _in_wide_vectors()
    for i in range(x.size):
        out[i] = x[i] / (_ONE + _exp(-x[i]))


@_kernel(_flat, _flat, _flat)
def silu_input(g, x, out):
    _in_wide_vectors()
    for i in range(x.size):
        s = _sigmoid(x[i])
        out[i] = g[i] * (s * (_ONE + x[i] * (_ONE - s)))


@_kernel(_flat, _flat)
def gelu(x, out):
    _in_wide_vectors()
    for i in range(x.size):
        out[i] = x[i] * _cdf(x[i])


@_kernel(_flat, _flat, _flat)
def gelu_input(g, x, out):
    _in_wide_vectors()
    for i in range(x.size):
        out[i] = g[i] * (_cdf(x[i]) + x[i] * _DENSITY * _exp(-_HALF * x[i] * x[i]))


@_kernel(_flat, _flat)
def gelu_tanh(x, out):
    _in_wide_vectors()
    for i in range(x.size):  # (1 + tanh(u)) / 2 is the sigmoid of 2 u
        out[i] = x[i] * _sigmoid(_TANH * x[i] * (_ONE + _TANH3 * x[i] * x[i]))


@_kernel(_flat, _flat, _flat)
def gelu_tanh_input(g, x, out):
    _in_wide_vectors()
    for i in range(x.size):
        q = _TANH3 * x[i] * x[i]
        s = _sigmoid(_TANH * x[i] * (_ONE + q))
        out[i] = g[i] * (s + s * (_ONE - s) * x[i] * _TANH * (_ONE + F(3) * q))


@_kernel(_flat, _real, _real, _flat)
def softplus(x, beta, threshold, out):
    _in_wide_vectors()
    beta, threshold = F(beta), F(threshold)
    for i in range(x.size):
        scaled = beta * x[i]
        smooth = _log1p_exp(scaled) / beta
        out[i] = x[i] if scaled > threshold else smooth


@_kernel(_flat, _flat, _real, _real, _flat)
def softplus_input(g, x, beta, threshold, out):
    _in_wide_vectors()
    beta, threshold = F(beta), F(threshold)
    for i in range(x.size):
        scaled = beta * x[i]
        slope = g[i] * _sigmoid(scaled)
        out[i] = g[i] if scaled > threshold else slope


@_kernel(_flat, _flat)
def log_sigmoid(x, out):
    _in_wide_vectors()
    for i in range(x.size):
        out[i] = -_log1p_exp(-x[i])


@_kernel(_flat, _real, _flat)
def elu(x, alpha, out):
    _in_wide_vectors()
    alpha = F(alpha)
    for i in range(x.size):
        low = alpha * _expm1(_ZERO if x[i] > _ZERO else x[i])
        out[i] = low if x[i] < _ZERO else x[i]


@_kernel(_flat, _flat, _real, _flat)
def elu_input(g, x, alpha, out):
    _in_wide_vectors()
    alpha = F(alpha)
    for i in range(x.size):
        low = g[i] * (alpha * _exp(x[i]))
        out[i] = low if x[i] <= _ZERO else g[i]


@_kernel(_flat, _flat, _flat)
def relu_input(g, y, out):
    for i in range(g.size):
        out[i] = _ZERO if y[i] <= _ZERO else g[i]


@_kernel(_flat, _flat, _flat)
def tanh_input(g, y, out):
    for i in range(g.size):
        out[i] = g[i] * (_ONE - y[i] * y[i])


@_kernel(_flat, _real, _flat)
def leaky_relu(x, slope, out):
    slope = F(slope)
    for i in range(x.size):
        out[i] = x[i] if x[i] > _ZERO else x[i] * slope


@_kernel(_flat, _flat, _real, _flat)
def leaky_relu_input(g, x, slope, out):
    slope = F(slope)
    for i in range(x.size):
        out[i] = g[i] if x[i] > _ZERO else g[i] * slope


_exactly = frozenset()  # flags for results that agree with NumPy's to the bit


@_kernel(_flat, _flat, _flat, _flat, flags=_exactly)
def div_other(g, x, y, out):
    for i in range(g.size):
        out[i] = -g[i] * ((x[i] / y[i]) / y[i])


@_kernel(_flat, _flat, _flat, flags=_exactly)
def abs_input(g, x, out):
    for i in range(g.size):
        out[i] = g[i] * (_ONE if x[i] > _ZERO else F(-1) if x[i] < _ZERO else _ZERO)


@_kernel(_flat, _flat, _flat, flags=_exactly)
def square_input(g, x, out):
    for i in range(g.size):
        out[i] = g[i] * (_TWO * x[i])


@_kernel(_flat, _flat, _flat, flags=_exactly)
def sqrt_input(g, y, out):
    for i in range(g.size):
        out[i] = g[i] / (_TWO * y[i])


@_kernel(_flat, _flat)
def erf(x, out):
    _in_wide_vectors()
    for i in range(x.size):
        t = _ERF_END if x[i] > _ERF_END else -_ERF_END if x[i] < -_ERF_END else x[i]
        q = t * t
        p = ((((((_EP0 * q + _EP1) * q + _EP2) * q + _EP3) * q + _EP4) * q + _EP5) * q + _EP6) * t
        p /= (((_EQ0 * q + _EQ1) * q + _EQ2) * q + _EQ3) * q + _EQ4
        out[i] = _ONE if p > _ONE else -_ONE if p < -_ONE else p


@_kernel(_flat, _flat, _flat)
def erf_input(g, x, out):
    _in_wide_vectors()
    for i in range(x.size):
        out[i] = g[i] * (_SLOPE * _exp(-(x[i] * x[i])))


@_kernel(_flat, _flat, _real, _flat)
def scaled_difference(x, y, factor, out):
    factor = F(factor)
    for i in range(x.size):
        out[i] = factor * (x[i] - y[i])


@_kernel(_flat, _real, _real, _flat)
def shifted_scaled(x, shift, factor, out):
    shift, factor = F(shift), F(factor)
    for i in range(x.size):
        out[i] = (x[i] - shift) * factor


# -- rows ----------------------------------------------------------------------------------------------------------------------


@_inline
def _ordered(bits: Any) -> Any:
    """The bits of a float32 as an integer of the same order, and back: LLVM vectorizes the maximum of integers, which are never nan."""
    return numpy.int32(bits ^ numpy.int32(numpy.int32(bits >> numpy.int32(31)) & _MAGNITUDE))


@_inline
def _most(x: Any, i: Any) -> Any:
    """The largest element of a row; of one with a nan, any element or nan."""
    most = numpy.int32(-(2**31))
    for j in range(x.shape[1]):
        most = max(most, _ordered(F(x[i, j]).view(numpy.int32)))
    return numpy.int32(_ordered(most)).view(numpy.float32)


@_kernel(_rows, _flat)
def row_sums(x, out):
    for i in range(len(x)):
        row, total = x[i], _ZERO
        for j in range(row.size):
            total += row[j]
        out[i] = total


@_kernel(_rows, _flat)
def row_squares(x, out):
    for i in range(len(x)):
        row, total = x[i], _ZERO
        for j in range(row.size):
            total += row[j] * row[j]
        out[i] = total


@_kernel(_cube, _rows)
def column_sums(x, out):
    """The sums of each part's columns."""
    for k in range(len(x)):
        into = out[k]
        into[:] = x[k, 0]
        for i in range(1, x.shape[1]):
            row = x[k, i]
            for j in range(row.size):
                into[j] += row[j]


@_kernel(_rows, _flat, _flat, _flat)
def row_spread(x, middle, rest, out):
    """The sums of the distances from each row's middle, and of their squares."""
    for i in range(len(x)):
        row, m, total, squares = x[i], middle[i], _ZERO, _ZERO
        for j in range(row.size):
            d = row[j] - m
            total += d
            squares += d * d
        rest[i], out[i] = total, squares


@_kernel(_rows, _rows, _flat)
def row_distances(x, y, out):
    """The sums of squared differences."""
    for i in range(len(x)):
        one, two, total = x[i], y[i], _ZERO
        for j in range(one.size):
            d = one[j] - two[j]
            total += d * d
        out[i] = total


@_kernel(_rows, _marks, _real, _rows)
def masked(x, mask, value, out):
    """`value` where the mask, which has one row or as many as x, is not 0."""
    value = F(value)
    for i in range(len(x)):
        row, marks, into = x[i], mask[i if len(mask) > 1 else 0], out[i]
        for j in range(row.size):
            into[j] = value if marks[j] else row[j]


@_kernel(_rows, _rows)
def softmax(x, out):
    _in_wide_vectors()
    for i in range(len(x)):
        row, into, total = x[i], out[i], _ZERO
        most = _most(x, i)
        for j in range(row.size):
            e = _exp(row[j] - most)
            into[j] = e
            total += e
        total = _ONE / total
        for j in range(row.size):
            into[j] *= total


@_kernel(_rows, _rows, _rows)
def softmax_input(g, y, out):
    for i in range(len(g)):
        slope, row, into, total = g[i], y[i], out[i], _ZERO
        for j in range(row.size):
            total += slope[j] * row[j]
        for j in range(row.size):
            into[j] = row[j] * (slope[j] - total)


@_kernel(_rows, _flat)
def log_sum_exp(x, out):
    _in_wide_vectors()
    for i in range(len(x)):
        row, total = x[i], _ZERO
        most = _most(x, i)
        for j in range(row.size):
            total += _exp(row[j] - most)
        out[i] = F(math.log(total)) + most


@_kernel(_rows, _rows)
def log_softmax(x, out):
    _in_wide_vectors()
    for i in range(len(x)):
        row, into, total = x[i], out[i], _ZERO
        most = _most(x, i)
        for j in range(row.size):
            total += _exp(row[j] - most)
        total = F(math.log(total))
        for j in range(row.size):
            shifted = row[j] - most
            into[j] = shifted - total


@_kernel(_rows, _rows, _rows)
def log_softmax_input(g, y, out):
    _in_wide_vectors()
    for i in range(len(g)):
        slope, row, into, total = g[i], y[i], out[i], _ZERO
        for j in range(row.size):
            total += slope[j]
        for j in range(row.size):
            into[j] = slope[j] - _exp(row[j]) * total


@_kernel(_rows, _flat, _flat, _rows)
def softmax_scaled(x, lse, scale, out):
    _in_wide_vectors()
    for i in range(len(x)):
        row, into, below, factor = x[i], out[i], lse[i], scale[i]
        for j in range(row.size):
            into[j] = _exp(row[j] - below) * factor


@_kernel(_rows, _rows)
def cumsum(x, out):
    for i in range(len(x)):
        total = 0.0  # in float64, as in PyTorch
        for j in range(x.shape[1]):
            total += x[i, j]
            out[i, j] = total


@_kernel(_rows, _places2, _rows)
def gather(x, places, out):
    for i in range(len(places)):
        for j in range(places.shape[1]):
            out[i, j] = x[i, places[i, j]]


@_kernel(_rows, _places2, _rows)
def scatter_add(x, places, out):
    for i in range(len(places)):
        for j in range(places.shape[1]):
            out[i, places[i, j]] += x[i, j]


@_kernel(_rows, _places, _rows)
def add_rows(x, places, out):
    for i in range(len(places)):
        row, into = x[i], out[places[i]]
        for j in range(row.size):
            into[j] += row[j]


@_kernel(_cube, _rows, _marks)
def squares_maximum(x, out, places):
    """The maximum of each square of 2 by 2 in pairs of rows, and its place (row-major): the first of equal ones, the last nan."""
    for i in range(len(x)):
        above, below, into, at = x[i, 0], x[i, 1], out[i], places[i]
        for j in range(into.size):
            a, b, c, d = above[2 * j], above[2 * j + 1], below[2 * j], below[2 * j + 1]
            best, place = a, numpy.uint8(0)
            later = (b > best) | (b != b)
            best, place = (b if later else best), (numpy.uint8(1) if later else place)
            later = (c > best) | (c != c)
            best, place = (c if later else best), (numpy.uint8(2) if later else place)
            later = (d > best) | (d != d)
            into[j], at[j] = (d if later else best), (numpy.uint8(3) if later else place)


@_kernel(_rows, _marks, _cube)
def scatter_squares(x, places, out):
    """Write each element to its place (row-major) in a square of 2 by 2, zeros beside it; `out` has pairs of rows."""
    for i in range(len(x)):
        for k in range(2):
            for j in range(out.shape[2]):
                out[i, k, j] = _ZERO
        for j in range(x.shape[1]):
            place = numpy.int64(places[i, j])
            out[i, place >> 1, 2 * j + (place & 1)] = x[i, j]


# -- normalization -------------------------------------------------------------------------------------------------------------


@_kernel(_rows, _flat, _flat, _real, _rows, _flat, _flat)
def normalize_rows(x, weight, bias, eps, out, mean, rstd):
    n, eps = F(x.shape[1]), F(eps)
    for i in range(len(x)):
        row, into, total, rest, squares = x[i], out[i], _ZERO, _ZERO, _ZERO
        for j in range(row.size):
            total += row[j]
        m = total / n
        for j in range(row.size):
            d = row[j] - m
            rest += d
            squares += d * d
        rest /= n  # the mean's rounding error
        r = _ONE / math.sqrt((squares - n * rest * rest) / n + eps)
        mean[i], rstd[i] = m + rest, r
        for j in range(row.size):
            d = row[j] - m
            into[j] = (d - rest) * r
        if weight.size:
            for j in range(row.size):
                into[j] *= weight[j]
        if bias.size:
            for j in range(row.size):
                into[j] += bias[j]


@_kernel(_rows, _rows, _flat, _flat, _flat, _rows)
def normalize_rows_input(g, x, mean, rstd, weight, out):
    n = F(x.shape[1])
    for i in range(len(x)):
        slope, row, into, m, r, total, along = g[i], x[i], out[i], mean[i], rstd[i], _ZERO, _ZERO
        if weight.size:
            for j in range(row.size):
                into[j] = slope[j] * weight[j]
        else:
            for j in range(row.size):
                into[j] = slope[j]
        for j in range(row.size):
            total += into[j]
        total /= n
        for j in range(row.size):
            along += (into[j] - total) * (row[j] - m)
        along *= r * r / n
        for j in range(row.size):
            into[j] = r * ((into[j] - total) - (row[j] - m) * along)


@_kernel(_cube, _cube, _rows, _rows, _rows)
def normalize_rows_weight(g, x, mean, rstd, out):
    """The sum over the rows of each part."""
    for k in range(len(x)):
        for i in range(x.shape[1]):
            slope, row, into, m, r = g[k, i], x[k, i], out[k], mean[k, i], rstd[k, i]
            for j in range(row.size):
                into[j] += slope[j] * ((row[j] - m) * r)


@_kernel(_rows, _flat, _real, _rows, _flat)
def rms_rows(x, weight, eps, out, rstd):
    n, eps = F(x.shape[1]), F(eps)
    for i in range(len(x)):
        row, into, total = x[i], out[i], _ZERO
        for j in range(row.size):
            total += row[j] * row[j]
        r = _ONE / math.sqrt(total / n + eps)
        rstd[i] = r
        if weight.size:
            for j in range(row.size):
                into[j] = row[j] * r * weight[j]
        else:
            for j in range(row.size):
                into[j] = row[j] * r


@_kernel(_rows, _rows, _flat, _flat, _rows)
def rms_rows_input(g, x, rstd, weight, out):
    n = F(x.shape[1])
    for i in range(len(x)):
        slope, row, into, r, along = g[i], x[i], out[i], rstd[i], _ZERO
        if weight.size:
            for j in range(row.size):
                into[j] = slope[j] * weight[j]
        else:
            for j in range(row.size):
                into[j] = slope[j]
        for j in range(row.size):
            along += into[j] * row[j]
        along *= r * r / n
        for j in range(row.size):
            into[j] = r * (into[j] - row[j] * along)


@njit(fastmath={"contract", "reassoc"}, error_model="numpy")
def _moments(x: Any, at: Any, eps: Any, channel: Any) -> tuple:
    """The mean of a channel x[:, at], or of a block x[at]; the mean's rounding error; and 1 / sqrt(variance + eps)."""
    count = len(x) if channel else x.shape[1]
    n, total, rest, squares = F(count * x.shape[2]), _ZERO, _ZERO, _ZERO
    for k in range(count):
        row = x[k, at] if channel else x[at, k]
        for j in range(row.size):
            total += row[j]
    m = total / n
    for k in range(count):
        row = x[k, at] if channel else x[at, k]
        for j in range(row.size):
            d = row[j] - m
            rest += d
            squares += d * d
    rest /= n
    return m, rest, _ONE / math.sqrt((squares - n * rest * rest) / n + eps)


@_kernel(_places, _cube, _rows, _rows, _real, _cube, _flat, _flat)
def normalize_groups(which, x, weight, bias, eps, out, mean, rstd):
    """Normalize blocks of channels, of which weight and bias have one row for each group."""
    eps = F(eps)
    for i in which:
        m, rest, r = _moments(x, i, eps, False)
        mean[i], rstd[i] = m + rest, r
        for c in range(x.shape[1]):
            row, into = x[i, c], out[i, c]
            scale = weight[i % len(weight), c] if weight.size else _ONE
            shift = bias[i % len(bias), c] if bias.size else _ZERO
            for j in range(row.size):
                d = row[j] - m
                into[j] = (d - rest) * r * scale + shift


@_kernel(_places, _cube, _cube, _flat, _flat, _rows, _cube)
def normalize_groups_input(which, g, x, mean, rstd, weight, out):
    n = F(x.shape[1] * x.shape[2])
    for i in which:
        m, r, total, along = mean[i], rstd[i], _ZERO, _ZERO
        for c in range(x.shape[1]):
            slope, part = g[i, c], _ZERO
            for j in range(slope.size):
                part += slope[j]
            total += part * (weight[i % len(weight), c] if weight.size else _ONE)
        total /= n
        for c in range(x.shape[1]):
            slope, row = g[i, c], x[i, c]
            scale = weight[i % len(weight), c] if weight.size else _ONE
            for j in range(row.size):
                along += (slope[j] * scale - total) * (row[j] - m)
        along *= r * r / n
        for c in range(x.shape[1]):
            slope, row, into = g[i, c], x[i, c], out[i, c]
            scale = weight[i % len(weight), c] if weight.size else _ONE
            for j in range(row.size):
                into[j] = r * ((slope[j] * scale - total) - (row[j] - m) * along)


@_kernel(_places, _cube, _cube, _rows, _rows, _flat)
def normalize_groups_weight(which, g, x, mean, rstd, out):
    """The sum for each channel of x (N, C, n), over samples and places; mean and rstd are (N, groups)."""
    channels = x.shape[1] // mean.shape[1]
    for c in which:
        total, group = _ZERO, c // channels
        for i in range(len(x)):
            slope, row, m, part = g[i, c], x[i, c], mean[i, group], _ZERO
            for j in range(row.size):
                part += slope[j] * (row[j] - m)
            total += part * rstd[i, group]
        out[c] = total


@_kernel(_places, _cube, _flat, _flat, _real, _cube, _flat, _flat)
def normalize_channels(which, x, weight, bias, eps, out, mean, rstd):
    eps = F(eps)
    for c in which:
        m, rest, r = _moments(x, c, eps, True)
        mean[c], rstd[c] = m + rest, r
        scale = weight[c] if weight.size else _ONE
        shift = bias[c] if bias.size else _ZERO
        for i in range(len(x)):
            row, into = x[i, c], out[i, c]
            for j in range(row.size):
                d = row[j] - m
                into[j] = (d - rest) * r * scale + shift


@_kernel(_places, _cube, _cube, _flat, _flat, _flat, _cube)
def normalize_channels_input(which, g, x, mean, rstd, weight, out):
    n = F(len(x) * x.shape[2])
    for c in which:
        m, r, total, along = mean[c], rstd[c], _ZERO, _ZERO
        for i in range(len(x)):
            slope = g[i, c]
            for j in range(slope.size):
                total += slope[j]
        total /= n
        for i in range(len(x)):
            slope, row = g[i, c], x[i, c]
            for j in range(row.size):
                along += (slope[j] - total) * (row[j] - m)
        along *= r * r / n
        r *= weight[c] if weight.size else _ONE
        for i in range(len(x)):
            slope, row, into = g[i, c], x[i, c], out[i, c]
            for j in range(row.size):
                into[j] = r * ((slope[j] - total) - (row[j] - m) * along)


@_kernel(_places, _cube, _cube, _flat, _flat, _flat)
def normalize_channels_weight(which, g, x, mean, rstd, out):
    for c in which:
        m, total = mean[c], _ZERO
        for i in range(len(x)):
            slope, row = g[i, c], x[i, c]
            for j in range(row.size):
                total += slope[j] * (row[j] - m)
        out[c] = total * rstd[c]


# -- optimizers -------------------------------------------------------------------------------------------------------------


@_kernel(_flat, _real, _real, _real, _real, _real, _real, _real, _flat, _flat, _flat)
def adam(g, shrink, decay, beta1, beta2, root, eps, rate, p, m, v):
    """A step of Adam, before which p is multiplied by `shrink` and `decay` p is added to g.

    `root` is the square root of 1 - beta2^t, and `rate` is lr / (1 - beta1^t).
    """
    shrink, decay, new1, kept2, new2 = F(shrink), F(decay), F(1 - beta1), F(beta2), F(1 - beta2)
    root, eps, rate = F(root), F(eps), F(rate)
    for i in range(g.size):
        p[i] *= shrink
        slope = g[i] + decay * p[i]
        first = m[i] + new1 * (slope - m[i])
        second = v[i] * kept2 + new2 * (slope * slope)
        m[i], v[i] = first, second
        p[i] -= rate * (first / (math.sqrt(second) / root + eps))


@_kernel(_flat, _real, _real, _real, _real, _real, _flat, _flat)
def sgd(g, decay, momentum, share, rate, nesterov, p, b):
    """A step of SGD with momentum: `decay` p is added to g, `share` of the sum to the buffer b."""
    decay, momentum, share, rate, nesterov = F(decay), F(momentum), F(share), F(rate), F(nesterov)
    for i in range(g.size):
        slope = g[i] + decay * p[i]
        b[i] = momentum * b[i] + share * slope
        p[i] -= rate * (slope + momentum * b[i] if nesterov else b[i])


# -- LSTM ----------------------------------------------------------------------------------------------------------------------


@_inline
def _tanh(x: Any) -> Any:
    m = _expm1(-_TWO * abs(x))
    t = -m / (_TWO + m)
    return t if x >= _ZERO else -t


@intrinsic
def _sgemm(context: Any, function: Any, n: Any, m: Any, k: Any, a: Any, b: Any, beta: Any, out: Any) -> Any:
    """Call oneDNN's sgemm for row-major matrices (n, k) and (k, m) at their addresses: out = a b + beta out."""

    def generate(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        def number(value: Any) -> Any:
            return ir.Constant(ir.FloatType(), value)

        rows, columns, inner, one, two, old, result = given[1:]
        plainly, long, single = ir.Constant(ir.IntType(32), ord("N")), ir.IntType(64), ir.FloatType()
        arguments = [plainly, plainly, rows, columns, inner, number(1.0), one, inner, two, columns, old, result, columns]
        kind = ir.FunctionType(ir.IntType(32), [a.type for a in arguments])
        assert (rows.type, old.type) == (long, single)
        builder.call(builder.inttoptr(given[0], kind.as_pointer()), arguments)
        return context.get_dummy_value()

    words = (types.int64,) * 6
    return types.none(*words, types.float32, types.int64), generate


@_kernel(types.int64, types.int64, _cube, _rows, _rows, _rows, _cube, _cube, _cube)
def lstm_steps(product, backwards, given, h, c, weight, gates, cells, outs):
    """All steps, from the input's part of the gates; the weight is (H, 4H), and `product` is the address of oneDNN's sgemm."""
    _in_wide_vectors()
    steps, rows, n = outs.shape
    before, old = h, c
    for s in range(steps):
        t = steps - 1 - s if backwards else s
        z, new, out = gates[t], cells[t], outs[t]
        z[:, :] = given[t]
        _sgemm(product, rows, 4 * n, n, before.ctypes.data, weight.ctypes.data, _ONE, z.ctypes.data)
        for k in range(rows):  # every loop starts at 0: only then does Numba see that no index is negative
            for j in range(2 * n):
                z[k, j] = _sigmoid(z[k, j])
            for j in range(n):
                z[k, 2 * n + j] = _tanh(z[k, 2 * n + j])
            for j in range(n):
                z[k, 3 * n + j] = _sigmoid(z[k, 3 * n + j])
            for j in range(n):
                new[k, j] = z[k, n + j] * old[k, j] + z[k, j] * z[k, 2 * n + j]
            for j in range(n):
                out[k, j] = z[k, 3 * n + j] * _tanh(new[k, j])
        before, old = out, new


@_kernel(_rows, _rows, _rows, _rows, _rows)
def lstm_slopes(gates, old, cells, by, to_c):
    """The factors of the gradients of c (for i, f, g) and of h (for o) in those of the gates, and of that of h in that of c."""
    _in_wide_vectors()
    n = cells.shape[1]
    for k in range(len(gates)):  # one loop per result: LLVM does not vectorize when too many arrays might overlap
        for j in range(n):
            by[k, j] = (_ONE - gates[k, j]) * gates[k, j] * gates[k, 2 * n + j]
        for j in range(n):
            by[k, n + j] = (_ONE - gates[k, n + j]) * gates[k, n + j] * old[k, j]
        for j in range(n):
            by[k, 2 * n + j] = (_ONE - gates[k, 2 * n + j] * gates[k, 2 * n + j]) * gates[k, j]
        for j in range(n):
            to_c[k, j] = _tanh(cells[k, j])
        for j in range(n):
            by[k, 3 * n + j] = (_ONE - gates[k, 3 * n + j]) * gates[k, 3 * n + j] * to_c[k, j]
        for j in range(n):
            to_c[k, j] = (_ONE - to_c[k, j] * to_c[k, j]) * gates[k, 3 * n + j]


@_kernel(types.int64, types.int64, _cube, _cube, _cube, _rows, _rows, _rows, _cube)
def lstm_back_steps(product, backwards, g, gates, to_c, weight, dh, dc, by):
    """Steps back: the gradients of h and c. `by` holds the factors of `lstm_slopes`, then the gradients of the gates."""
    steps, rows, n = g.shape
    for s in range(steps):
        t = s if backwards else steps - 1 - s
        slope, gate, factor, into = g[t], gates[t], to_c[t], by[t]
        for k in range(rows):
            for j in range(n):
                dh[k, j] += slope[k, j]
            for j in range(n):
                into[k, 3 * n + j] *= dh[k, j]
            for j in range(n):
                dc[k, j] += dh[k, j] * factor[k, j]
            for part in range(3):
                for j in range(n):
                    into[k, part * n + j] *= dc[k, j]
            for j in range(n):
                dc[k, j] *= gate[k, n + j]
        _sgemm(product, rows, n, 4 * n, into.ctypes.data, weight.ctypes.data, _ZERO, dh.ctypes.data)


# -- RNN and GRU ---------------------------------------------------------------------------------------------------------------


@_kernel(types.int64, types.int64, types.int64, _cube, _rows, _rows, _cube)
def rnn_steps(product, relu, backwards, given, h, weight, outs):
    """All steps, from the input's part; the weight is transposed, and `product` is the address of oneDNN's sgemm."""
    _in_wide_vectors()
    steps, rows, n = outs.shape
    before = h
    for s in range(steps):
        t = steps - 1 - s if backwards else s
        out = outs[t]
        out[:, :] = given[t]
        _sgemm(product, rows, n, n, before.ctypes.data, weight.ctypes.data, _ONE, out.ctypes.data)
        for k in range(rows):
            if relu:
                for j in range(n):
                    out[k, j] = _ZERO if out[k, j] < _ZERO else out[k, j]
            else:
                for j in range(n):
                    out[k, j] = _tanh(out[k, j])
        before = out


@_kernel(types.int64, types.int64, types.int64, _cube, _cube, _rows, _rows, _cube)
def rnn_back_steps(product, relu, backwards, g, outs, weight, dh, dz):
    """Steps back: the gradients of the sums under tanh or ReLU, and of h."""
    steps, rows, n = outs.shape
    for s in range(steps):
        t = s if backwards else steps - 1 - s
        slope, out, into = g[t], outs[t], dz[t]
        for k in range(rows):
            for j in range(n):
                dh[k, j] += slope[k, j]
            if relu:
                for j in range(n):
                    into[k, j] = dh[k, j] if out[k, j] > _ZERO else _ZERO
            else:
                for j in range(n):
                    into[k, j] = dh[k, j] * (_ONE - out[k, j] * out[k, j])
        _sgemm(product, rows, n, n, into.ctypes.data, weight.ctypes.data, _ZERO, dh.ctypes.data)


@_kernel(types.int64, types.int64, _cube, _rows, _rows, _flat, _rows, _cube, _cube)
def gru_steps(product, backwards, given, h, weight, bias, states, gates, outs):
    """All steps, from the input's part of the gates; the weight is (H, 3H), and `product` is the address of oneDNN's sgemm."""
    _in_wide_vectors()
    steps, rows, n = outs.shape
    before = h
    for s in range(steps):
        t = steps - 1 - s if backwards else s
        part, gate, out = given[t], gates[t], outs[t]
        for k in range(rows):
            states[k] = bias
        _sgemm(product, rows, 3 * n, n, before.ctypes.data, weight.ctypes.data, _ONE, states.ctypes.data)
        for k in range(rows):
            for j in range(2 * n):
                gate[k, j] = _sigmoid(part[k, j] + states[k, j])
            for j in range(n):
                gate[k, 3 * n + j] = states[k, 2 * n + j]
            for j in range(n):
                gate[k, 2 * n + j] = _tanh(part[k, 2 * n + j] + gate[k, j] * states[k, 2 * n + j])
            for j in range(n):
                out[k, j] = gate[k, 2 * n + j] + gate[k, n + j] * (before[k, j] - gate[k, 2 * n + j])
        before = out


@_kernel(_rows, _rows, _rows, _rows)
def gru_slopes(gates, old, by, by_new):
    """The factors of the gradient of h' in those of r's, z's and n's part of the states, and in that of n's gate."""
    _in_wide_vectors()
    n = old.shape[1]
    for k in range(len(gates)):
        for j in range(n):
            by_new[k, j] = (_ONE - gates[k, n + j]) * (_ONE - gates[k, 2 * n + j] * gates[k, 2 * n + j])
        for j in range(n):
            by[k, n + j] = (old[k, j] - gates[k, 2 * n + j]) * gates[k, n + j] * (_ONE - gates[k, n + j])
        for j in range(n):
            by[k, 2 * n + j] = by_new[k, j] * gates[k, j]
        for j in range(n):
            by[k, j] = by[k, 2 * n + j] * gates[k, 3 * n + j] * (_ONE - gates[k, j])


@_kernel(types.int64, types.int64, _cube, _cube, _rows, _rows, _cube, _cube)
def gru_back_steps(product, backwards, g, gates, weight, dh, by, by_new):
    """Steps back: the gradient of h. `by` and `by_new` hold the factors of `gru_slopes`, then the gradients."""
    steps, rows, n = g.shape
    for s in range(steps):
        t = s if backwards else steps - 1 - s
        slope, gate, into, new = g[t], gates[t], by[t], by_new[t]
        for k in range(rows):
            for j in range(n):
                dh[k, j] += slope[k, j]
            for part in range(3):
                for j in range(n):
                    into[k, part * n + j] *= dh[k, j]
            for j in range(n):
                new[k, j] *= dh[k, j]
            for j in range(n):
                dh[k, j] *= gate[k, n + j]
        _sgemm(product, rows, n, 3 * n, into.ctypes.data, weight.ctypes.data, _ONE, dh.ctypes.data)


# -- normal samples ------------------------------------------------------------------------------------------------------------


@intrinsic
def _fma(context, a, b, c):
    """a * b + c with one rounding."""
    return types.float32(types.float32, types.float32, types.float32), lambda context, builder, signature, given: builder.fma(*given)


# The samples of `kernels_random`, bit by bit: its float64 numbers, rounded to float32, stand for fused steps
_exactly = njit(error_model="numpy")
_R0, _R1, _R2, _R3, _R4, _R5, _R6, _R7, _R8 = map(F, LOG)
_P0, _P1, _P2 = map(F, QUARTER_PI)
(_COS0, _SIN0), (_COS1, _SIN1), (_COS2, _SIN2) = (map(F, numpy.ravel(c)) for c in COS_SIN)
_BIG_LN2, _SMALL_LN2 = map(F, LN2)
_SQRT_HALF, _OCTANTS, _CIRCLE = F(0.707106781186547524), F(1.27323954473516), F(2 * math.pi)
_EXPONENT, _MANTISSA, _HALVES = numpy.int32(23), numpy.int32(0x7FFFFF), numpy.int32(0x3F000000)
_I1, _I2, _I4, _EVEN, _LESS = map(numpy.int32, (1, 2, 4, ~1, 126))


@_exactly
def _log(x: Any) -> Any:
    x = F(x)
    bits = x.view(numpy.int32)
    reduced = numpy.int32((bits & _MANTISSA) | _HALVES)
    mantissa = reduced.view(numpy.float32)
    small = mantissa < _SQRT_HALF
    e = F(numpy.int32((bits >> _EXPONENT) - _LESS)) - (_ONE if small else _ZERO)
    x = (mantissa + mantissa if small else mantissa) - _ONE
    y = _fma(_fma(_fma(_fma(x, _R0, _R1), x, _R2), x, _R3), x, _R4)
    y = _fma(_fma(_fma(_fma(y, x, _R5), x, _R6), x, _R7), x, _R8)
    z = x * x
    y = _fma(y * x, z, e * _SMALL_LN2)
    return _fma(e, _BIG_LN2, x + _fma(z, -_HALF, y))


@_exactly
def _cos_sin(x: Any) -> Any:
    octant = numpy.int32((numpy.int32(x * _OCTANTS) + _I1) & _EVEN)
    y = F(octant)
    x = _fma(y, _P2, _fma(y, _P1, _fma(y, _P0, x)))
    z = x * x
    c = _fma(_fma(z, _COS0, _COS1), z, _COS2) * z
    s = _fma(_fma(z, _SIN0, _SIN1), z, _SIN2) * z
    c = _fma(c, z, z * -_HALF) + _ONE
    s = _fma(s, x, x)
    turned = (octant & _I2) != 0
    cos, sin = (s if turned else c), (c if turned else s)
    return (-cos if ((octant + _I2) & _I4) != 0 else cos), (-sin if (octant & _I4) != 0 else sin)


@_kernel(_rows, flags=frozenset())
def box_muller(blocks):
    """In each block of 16, the first eight give the radii, the last eight the angles; 64 blocks at a time, in vectors."""
    first, second = numpy.empty(512, numpy.float32), numpy.empty(512, numpy.float32)
    for start in range(0, len(blocks), 64):
        some = blocks[start : start + 64]
        for i in range(len(some)):
            for j in range(8):
                first[8 * i + j], second[8 * i + j] = some[i, j], some[i, 8 + j]
        for i in range(8 * len(some)):
            radius = F(math.sqrt(-_TWO * _log(_ONE - first[i])))
            cos, sin = _cos_sin(_CIRCLE * second[i])
            first[i], second[i] = radius * cos, radius * sin
        for i in range(len(some)):
            for j in range(8):
                some[i, j], some[i, 8 + j] = first[8 * i + j], second[8 * i + j]
