"""Distributions drawn from a generator's words, step for step as PyTorch's CPU kernels draw them, so that the numbers agree.

`source` has `words(n)`, `long_words(n)` and `spare` (see `engine.random.Generator`). All functions return flat arrays on the host.
"""

from __future__ import annotations

import math
from typing import Any

import numpy

_F32 = numpy.dtype("float32")
_f = numpy.float32

# Polynomial coefficients of Cephes' logf, sinf and cosf (S. Moshier), as the vectorised Box-Muller transform uses them.
_LOG = (
    7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1, 1.4249322787e-1, -1.6668057665e-1, 2.0000714765e-1,
    -2.4999993993e-1, 3.3333331174e-1,
)  # fmt: skip
_SIN = (-1.9515295891e-4, 8.3321608736e-3, -1.6666654611e-1)
_COS = (2.443315711809948e-5, -1.388731625493765e-3, 4.166664568298827e-2)
_QUARTER_PI = (-0.78515625, -2.4187564849853515625e-4, -3.77489497744594108e-8)  # pi / 4 in three parts, negative


def unit(source: Any, n: int) -> numpy.ndarray:
    """`n` float64 numbers in [0, 1) with 53 random bits."""
    return (source.long_words(n) & numpy.uint64((1 << 53) - 1)) * 2.0**-53


def _unit32(source: Any, n: int) -> numpy.ndarray:
    return (source.words(n) & numpy.uint64((1 << 24) - 1)).astype(_F32) * _f(2.0**-24)


def uniform(source: Any, n: int, d: numpy.dtype, low: float = 0.0, high: float = 1.0) -> numpy.ndarray:
    """`n` numbers in [low, high): 53 random bits for float64, 24 for every smaller type."""
    if d == numpy.float64:
        u = unit(source, n)
        return u if (low, high) == (0, 1) else u * (high - low) + low
    u = _unit32(source, n)
    if (low, high) != (0, 1):
        low, high = d.type(low), d.type(high)
        u = _fma(u, _f(high - low), _f(low))
    return u.astype(d, copy=False)


def _fma(a: numpy.ndarray, b: Any, c: Any) -> numpy.ndarray:
    """a * b + c in float32 with one rounding, as the fused instruction gives it."""
    return (numpy.multiply(a, b, dtype=numpy.float64) + c).astype(_F32)


def _log(x: numpy.ndarray) -> numpy.ndarray:
    m, e = numpy.frexp(x)
    small = m < _f(0.707106781186547524)
    x = m - _f(1) + numpy.where(small, m, _f(0))
    e = e.astype(_F32) - small.astype(_F32)
    y = numpy.full_like(x, _LOG[0])
    for p in _LOG[1:]:
        y = _fma(y, x, _f(p))
    z = x * x
    y = _fma(z, _f(-0.5), _fma(y * x, z, e * _f(-2.12194440e-4)))
    return _fma(e, _f(0.693359375), x + y)


def _sin_cos(x: numpy.ndarray) -> tuple[numpy.ndarray, numpy.ndarray]:
    """Sine and cosine of non-negative angles."""
    octant = ((x * _f(1.27323954473516)).astype(numpy.int32) + 1) & ~1
    y = octant.astype(_F32)
    for part in _QUARTER_PI:
        x = _fma(y, _f(part), x)
    z = x * x
    c, s = numpy.full_like(x, _COS[0]), numpy.full_like(x, _SIN[0])
    for p, q in zip(_COS[1:], _SIN[1:], strict=True):
        c, s = _fma(c, z, _f(p)), _fma(s, z, _f(q))
    c = _fma(c * z, z, z * _f(-0.5)) + _f(1)
    s = _fma(s * z, x, x)
    plain = (octant & 2) == 0
    sin, cos = numpy.where(plain, s, c), numpy.where(plain, c, s)
    return numpy.where(octant & 4, -sin, sin), numpy.where((octant - 2) & 4, cos, -cos)


def _box_muller(u: numpy.ndarray) -> numpy.ndarray:
    """Uniform numbers in blocks of 16 into normal ones: the first eight give the radii, the last eight the angles."""
    blocks = u.reshape(-1, 2, 8)
    if u.dtype == _F32:
        radius = numpy.sqrt(_f(-2) * _log(_f(1) - blocks[:, 0]))
        sin, cos = _sin_cos(_f(2 * math.pi) * blocks[:, 1])
    else:
        radius, angle = numpy.sqrt(-2 * numpy.log(1 - blocks[:, 0])), 2 * math.pi * blocks[:, 1]
        sin, cos = numpy.sin(angle), numpy.cos(angle)
    return numpy.stack([radius * cos, radius * sin], axis=1).reshape(-1)


def normal_pairs(source: Any, n: int) -> numpy.ndarray:
    """`n` standard normal numbers in float64, drawn in pairs; an odd one out waits in `source.spare`."""
    out = numpy.empty(n)
    start = 0
    if n and source.spare is not None:
        out[0], source.spare, start = source.spare, None, 1
    pairs = (n - start + 1) // 2
    u = unit(source, 2 * pairs).tolist()
    found = []
    for angle, length in zip(u[0::2], u[1::2], strict=True):
        radius, angle = math.sqrt(-2 * math.log1p(-length)), 2 * math.pi * angle
        found += [radius * math.cos(angle), radius * math.sin(angle)]
    if len(found) > n - start:
        source.spare = found.pop()
    out[start:] = found
    return out


def normal(source: Any, n: int, d: numpy.dtype, mean: float = 0.0, std: float = 1.0, dense: bool = True) -> numpy.ndarray:
    """`n` normal numbers. From 16 on, and for memory that is `dense`, by Box-Muller on whole blocks, else in pairs."""
    if n < 16 or not dense:
        return (normal_pairs(source, n) * std + mean).astype(d)
    wide = numpy.dtype("float64") if d == numpy.float64 else _F32
    u = uniform(source, n, wide)
    whole = n - n % 16
    for i in range(0, whole, 1 << 14):  # what a block needs stays in the cache
        u[i : min(i + (1 << 14), whole)] = _box_muller(u[i : min(i + (1 << 14), whole)])
    if n % 16:
        u[-16:] = _box_muller(uniform(source, 16, wide))
    if (mean, std) != (0, 1):
        u = _fma(u, _f(std), _f(mean)) if wide is _F32 else u * std + mean
    return u.astype(d, copy=False)


def integers(source: Any, n: int, low: int, high: int, d: numpy.dtype) -> numpy.ndarray:
    """`n` integers in [low, high), by remainder; 64 bits are drawn when the range has 2^28 values or more."""
    span = high - low
    words = source.long_words(n) if span >= 1 << 28 else source.words(n)
    return ((words % numpy.uint64(span)).astype(numpy.int64) + low).astype(d)


def full_range(source: Any, n: int, d: numpy.dtype) -> numpy.ndarray:
    """`n` integers from 0 to the largest that the type can count to: its maximum, or 2^(bits of the mantissa)."""
    if d.kind == "b":
        return (source.words(n) & numpy.uint64(1)).astype(d)
    if d.kind in "iu":
        largest = int(numpy.iinfo(d).max)
    else:
        largest = 1 << {"float64": 53, "float32": 24, "float16": 11}.get(d.name, 8)
    words = source.long_words(n) if d.itemsize == 8 else source.words(n)
    return (words % numpy.uint64(largest + 1) if largest + 1 < 1 << 64 else words).astype(d)


def permutation(source: Any, n: int) -> numpy.ndarray:
    """The integers below `n` shuffled (Fisher and Yates, from the front)."""
    order = list(range(n))
    for i, word in enumerate(source.words(max(n - 1, 0)).tolist()):
        j = i + word % (n - i)
        order[i], order[j] = order[j], order[i]
    return numpy.array(order, numpy.int64)


def bernoulli(source: Any, n: int, p: float) -> numpy.ndarray:
    """`n` booleans, True with probability `p`."""
    return unit(source, n) < p


def bernoulli_each(source: Any, p: numpy.ndarray) -> numpy.ndarray:
    """One boolean for each probability, compared in the type of `p`."""
    return uniform(source, p.size, p.dtype if p.dtype == numpy.float64 else _F32) < p.reshape(-1)


def exponential(source: Any, n: int, d: numpy.dtype, rate: float = 1.0) -> numpy.ndarray:
    """`n` exponential numbers of the given rate."""
    return (-1.0 / rate * numpy.log1p(-unit(source, n))).astype(d)


def geometric(source: Any, n: int, d: numpy.dtype, p: float) -> numpy.ndarray:
    """How many trials of probability `p` until the first success, `n` times."""
    return numpy.ceil(numpy.log(unit(source, n)) / math.log1p(-p)).astype(d)


def cauchy(source: Any, n: int, d: numpy.dtype, median: float, sigma: float) -> numpy.ndarray:
    """`n` Cauchy numbers."""
    return (median + sigma * numpy.tan(math.pi * (unit(source, n) - 0.5))).astype(d)


def multinomial(source: Any, weights: numpy.ndarray, n: int, replacement: bool) -> numpy.ndarray:
    """`n` column numbers for each row of non-negative weights (rows, columns)."""
    rows, columns = weights.shape
    if not replacement or n == 1:
        # the n largest of w / exponential noise: a draw without replacement
        keys = weights / exponential(source, rows * columns, weights.dtype).reshape(rows, columns)
        if n == 1:
            return keys.argmax(axis=1)[:, None]
        return numpy.argsort(-keys, axis=1, kind="stable")[:, :n]
    total = numpy.cumsum(weights, axis=1, dtype=weights.dtype)
    total /= total[:, -1:]
    total[:, -1] = 1
    u = unit(source, rows * n).reshape(rows, n)
    return numpy.stack([numpy.searchsorted(t, v, side="left") for t, v in zip(total, u, strict=True)])


def poisson(source: Any, rates: numpy.ndarray) -> numpy.ndarray:
    """One Poisson number for each rate (flat, float64)."""
    return numpy.array([_poisson(source, rate) for rate in rates.tolist()], dtype=numpy.float64)


def _poisson(source: Any, rate: float) -> int:
    """Knuth's product of uniforms for small rates, transformed rejection (PTRS; Hoermann, 1993) from 10 on."""

    def draw() -> float:
        return float(unit(source, 1)[0])

    if rate == 0:
        return 0
    if rate < 10:
        limit, product, k = math.exp(-rate), draw(), 0
        while product > limit:
            product, k = product * draw(), k + 1
        return k
    b = 0.931 + 2.53 * math.sqrt(rate)
    a = -0.059 + 0.02483 * b
    inverse_alpha, squeeze = 1.1239 + 1.1328 / (b - 3.4), 0.9277 - 3.6224 / (b - 2)
    while True:
        u, v = draw() - 0.5, draw()
        s = 0.5 - abs(u)
        k = math.floor((2 * a / s + b) * u + rate + 0.43)
        if s >= 0.07 and v <= squeeze:
            return k
        if k < 0 or (s < 0.013 and v > s):
            continue
        if math.log(v) + math.log(inverse_alpha) - math.log(a / (s * s) + b) <= -rate + k * math.log(rate) - math.lgamma(k + 1):
            return k
