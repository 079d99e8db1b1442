"""Random samples drawn from a generator's words exactly as PyTorch's CPU kernels draw them, so that the values agree.

`source` has `words(n)`, `long_words(n)` and `spare` (see `engine.random.Generator`). All functions return flat arrays on the host.
"""

from __future__ import annotations

import math
from typing import Any

import numpy

from ..base.dtypes import LOW
from . import fused
from .workers import share

_F32 = numpy.dtype("float32")
_f = numpy.float32
_BLOCK = 1 << 15  # normal samples per block: smaller blocks lose more to calls than they gain from the cache
_BITS_21, _BITS_24, _32 = numpy.uint64((1 << 21) - 1), numpy.uint64((1 << 24) - 1), numpy.uint64(32)

# Polynomial coefficients of Cephes' logf, cosf and sinf (S. Moshier), as used by the vectorized Box-Muller transform: float32 values,
# kept as float64, in which they are multiplied.
LOG = [
    float(_f(c))
    for c in (
        7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1, 1.4249322787e-1, -1.6668057665e-1, 2.0000714765e-1,
        -2.4999993993e-1, 3.3333331174e-1,
    )
]  # fmt: skip
COS_SIN = [
    numpy.array(c, _F32).astype(numpy.float64).reshape(2, 1, 1)
    for c in (
        (2.443315711809948e-5, -1.9515295891e-4), (-1.388731625493765e-3, 8.3321608736e-3), (4.166664568298827e-2, -1.6666654611e-1),
    )
]  # fmt: skip
QUARTER_PI = [float(_f(c)) for c in (-0.78515625, -2.4187564849853515625e-4, -3.77489497744594108e-8)]  # pi / 4 in three parts, negative
LN2 = 0.693359375, float(_f(-2.12194440e-4))  # in two parts


def unit(source: Any, n: int) -> numpy.ndarray:
    """Draw `n` float64 values in [0, 1) with 53 random bits."""
    return (source.long_words(n) & numpy.uint64((1 << 53) - 1)) * 2.0**-53


def _unit32(source: Any, n: int) -> numpy.ndarray:
    words = source.words(n)
    words &= _BITS_24
    u = words.astype(_F32)
    u *= _f(2.0**-24)
    return u


def uniform(source: Any, n: int, d: numpy.dtype, low: float = 0.0, high: float = 1.0) -> numpy.ndarray:
    """Draw `n` values in [low, high): 53 random bits for float64, 24 for every smaller dtype."""
    if d == numpy.float64:
        u = unit(source, n)
        return u if (low, high) == (0, 1) else _below(_fma64(u, high - low, low), d.type(low), d.type(high))
    u = _unit32(source, n)
    if (low, high) != (0, 1):
        u = _fma(u, _f(high) - _f(low), _f(low))
    elif d == _F32:
        return u
    return _below(u.astype(d, copy=False), d.type(low), d.type(high))


def _below(u: numpy.ndarray, low: Any, high: Any) -> numpy.ndarray:
    """Replace values that rounding has brought to the excluded bound `high` by `low`."""
    u[u == high] = low
    return u


def _fma(a: numpy.ndarray, b: Any, c: Any) -> numpy.ndarray:
    """a * b + c in float32 with one rounding, as a fused multiply-add gives it."""
    return (numpy.multiply(a, b, dtype=numpy.float64) + c).astype(_F32)


def _fma64(a: numpy.ndarray, b: float, c: float) -> numpy.ndarray:
    """a * b + c in float64 with one rounding, by the error-free transformations of Dekker (product) and Knuth (sum)."""
    split = lambda x: (high := x * 134217729.0 - (x * 134217729.0 - x), x - high)  # noqa: E731  2^27 + 1 halves 53 bits
    product, (a1, a2), (b1, b2) = a * b, split(a), split(b)
    lost = ((a1 * b1 - product) + a1 * b2 + a2 * b1) + a2 * b2
    total = product + c
    part = total - product
    return total + ((product - (total - part)) + (c - part) + lost)


def _round(x: numpy.ndarray, narrow: numpy.ndarray) -> None:
    """Round float64 values in place to float32 precision, through `narrow`: product, sum and this are one fused step in float32."""
    narrow[...] = x
    x[...] = narrow


def _log(x: numpy.ndarray) -> numpy.ndarray:
    mantissa, exponent = numpy.frexp(x)
    small = mantissa < _f(0.707106781186547524)
    e = (exponent - small).astype(numpy.float64)
    x = mantissa.astype(numpy.float64)
    x *= 1.0 + small
    x -= 1.0
    narrow = numpy.empty(x.shape, _F32)
    y = x * LOG[0]
    for p in LOG[1:-1]:
        y += p
        _round(y, narrow)
        y *= x
    y += LOG[-1]
    _round(y, narrow)
    z = x * x
    _round(z, narrow)
    y *= x
    _round(y, narrow)
    y *= z
    low = e * LN2[1]
    _round(low, narrow)
    y += low
    _round(y, narrow)
    z *= -0.5
    z += y
    _round(z, narrow)
    x += z
    _round(x, narrow)
    e *= LN2[0]
    e += x
    narrow[...] = e
    return narrow


def _cos_sin(x: numpy.ndarray) -> numpy.ndarray:
    """Cosines and sines of a matrix of non-negative angles, stacked."""
    octant = (x * _f(1.27323954473516)).astype(numpy.int32)
    octant += 1
    octant &= ~1
    y, x = octant.astype(numpy.float64), x.astype(numpy.float64)
    both = numpy.empty((2, *x.shape), _F32)
    narrow = both[0]
    for part in QUARTER_PI:
        x += y * part
        _round(x, narrow)
    z = x * x
    _round(z, narrow)
    p = z * COS_SIN[0]
    for more in COS_SIN[1:]:
        p += more
        _round(p, both)
        p *= z
    _round(p, both)
    cos, sin = p
    cos *= z
    z *= -0.5
    _round(z, narrow)
    cos += z
    _round(cos, narrow)
    cos += 1.0
    sin *= x
    sin += x
    both[...] = p
    cos, sin = both.view(numpy.int32)  # swap the two and flip their signs through their bits
    turned = (octant & 2) << 30 >> 31
    turned &= cos ^ sin
    cos ^= turned
    sin ^= turned
    sin ^= (octant & 4) << 29
    cos ^= (octant + 2 & 4) << 29
    return both


def _box_muller(u: numpy.ndarray) -> numpy.ndarray:
    """Transform uniform values into normal ones in blocks of 16: the first eight give the radii, the last eight the angles."""
    blocks = u.reshape(-1, 2, 8)
    if u.dtype == _F32:
        radius = numpy.sqrt(_f(-2) * _log(_f(1) - blocks[:, 0]))
        cos, sin = _cos_sin(_f(2 * math.pi) * blocks[:, 1])
    else:
        radius, angle = numpy.sqrt(-2 * numpy.log(1 - blocks[:, 0])), 2 * math.pi * blocks[:, 1]
        cos, sin = numpy.cos(angle), numpy.sin(angle)
    out = numpy.empty_like(blocks)
    numpy.multiply(radius, cos, out[:, 0])
    numpy.multiply(radius, sin, out[:, 1])
    return out.reshape(-1)


def normal_pairs(source: Any, n: int) -> numpy.ndarray:
    """Draw `n` standard normal values in float64, in pairs; an odd one is kept in `source.spare`."""
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
    """Draw `n` normal values: Box-Muller on whole blocks if `n` is at least 16 and the memory is `dense`, else in pairs."""
    if n < 16 or not dense:
        return (normal_pairs(source, n) * std + mean).astype(d)
    wide = numpy.dtype("float64") if d == numpy.float64 else _F32
    whole = n - n % 16
    last = 16 if n % 16 else 0
    # PyTorch also draws the values that the last 16 replace, except in half precision
    u = uniform(source, (whole if d in LOW else n) + last, wide)
    drawn = numpy.concatenate([u[:whole], u[-16:]]) if last else u  # the whole blocks, and the block of the last 16
    if (run := fused.kernel("box_muller", drawn, least=0)) is not None:
        share(run, (drawn.reshape(-1, 16),))
    else:
        for block in (slice(i, i + _BLOCK) for i in range(0, drawn.size, _BLOCK)):
            drawn[block] = _box_muller(drawn[block])
    u = drawn if n == whole else numpy.concatenate([drawn[: n - 16], drawn[-16:]])
    if (mean, std) != (0, 1):
        u = _fma(u, _f(std), _f(mean)) if wide is _F32 else u * std + mean
    return u.astype(d, copy=False)


def integers(source: Any, n: int, low: int, high: int, d: numpy.dtype) -> numpy.ndarray:
    """Draw `n` integers in [low, high), by remainder; from a range of 2^28 values on, 64 bits are drawn for each."""
    span = high - low
    words = source.long_words(n) if span >= 1 << 28 else source.words(n)
    return ((words % numpy.uint64(span)).astype(numpy.int64) + low).astype(d)


def largest(d: numpy.dtype) -> int:
    """Return the largest integer up to which a dtype counts exactly: its maximum, or 2^(mantissa bits)."""
    if d.kind in "iu":
        return int(numpy.iinfo(d).max)
    return 1 if d.kind == "b" else 1 << {"float64": 53, "float32": 24, "float16": 11}.get(d.name, 8)


def full_range(source: Any, n: int, d: numpy.dtype) -> numpy.ndarray:
    """Draw `n` integers from 0 to `largest(d)`."""
    words = source.long_words(n) if d.itemsize == 8 else source.words(n)
    most = largest(d)
    return (words % numpy.uint64(most + 1) if most + 1 < 1 << 64 else words).astype(d)


def permutation(source: Any, n: int) -> numpy.ndarray:
    """Shuffle the integers below `n` (Fisher-Yates from the front: position i is swapped with a position from i on)."""
    i = numpy.arange(n)
    chosen = i.copy()
    chosen[:-1] += (source.words(max(n - 1, 0)) % (n - i[:-1]).astype(numpy.uint64)).astype(numpy.int64)
    if n < 500:
        order = i.tolist()
        for here, there in enumerate(chosen.tolist()):
            order[here], order[there] = order[there], order[here]
        return numpy.array(order, numpy.int64)
    # All steps at once: at its own step, a position holds what the last earlier step that chose it left there,
    # which is what that earlier step's position held.
    by_place = numpy.argsort(chosen * n + i)
    places = chosen[by_place]
    again = places[1:] == places[:-1]
    before = numpy.full(n, -1)  # for each step, the last earlier one that chose the same position
    before[by_place[1:]] = numpy.where(again, by_place[:-1], -1)
    last = numpy.flatnonzero(numpy.append(~again, True))
    giver = i.copy()  # for each position, the step whose value it holds at its own step, or itself
    giver[places[last]] = by_place[last]
    own = giver == i
    giver = numpy.where(own & (chosen == i) & (before >= 0), before, giver)
    while True:
        further = giver[giver]
        if (further == giver).all():
            break
        giver = further
    return numpy.where(before >= 0, giver[before], numpy.where(chosen == i, giver, chosen))


def bernoulli(source: Any, n: int, p: float) -> numpy.ndarray:
    """Draw `n` booleans that are True with probability `p`."""
    limit = math.ceil(p * 2.0**53)  # the 53 random bits as an integer: exact, and faster than in floating point
    words = source.words(2 * n)
    high = words[0::2] & _BITS_21
    high <<= _32
    high |= words[1::2]
    return high < numpy.uint64(limit)


def bernoulli_each(source: Any, p: numpy.ndarray) -> numpy.ndarray:
    """Draw one boolean for each probability, compared in the dtype of `p`."""
    return uniform(source, p.size, p.dtype if p.dtype == numpy.float64 else _F32) < p.reshape(-1)


def exponential(source: Any, n: int, d: numpy.dtype, rate: float = 1.0) -> numpy.ndarray:
    """Draw `n` exponential values of the given rate."""
    return (-1.0 / rate * numpy.log1p(-unit(source, n))).astype(d)


def geometric(source: Any, n: int, d: numpy.dtype, p: float) -> numpy.ndarray:
    """Draw `n` geometric values: the number of trials of probability `p` up to the first success."""
    return numpy.ceil(numpy.log(unit(source, n)) / math.log1p(-p)).astype(d)


def cauchy(source: Any, n: int, d: numpy.dtype, median: float, sigma: float) -> numpy.ndarray:
    """Draw `n` Cauchy values."""
    return (median + sigma * numpy.tan(math.pi * (unit(source, n) - 0.5))).astype(d)


def log_normal(source: Any, n: int, d: numpy.dtype, mean: float, std: float) -> numpy.ndarray:
    """Draw `n` log-normal values; `mean` and `std` are those of the logarithm."""
    return numpy.exp(normal_pairs(source, n) * std + mean).astype(d)


def multinomial(source: Any, weights: numpy.ndarray, n: int, replacement: bool) -> numpy.ndarray:
    """Draw `n` column indices for each row of non-negative weights (rows, columns)."""
    rows, columns = weights.shape
    if not replacement or n == 1:
        # the n largest of weight / exponential noise are a draw without replacement
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
    """Draw one Poisson value for each rate (flat, float64)."""
    return numpy.array([_poisson(source, rate) for rate in rates.tolist()], dtype=numpy.float64)


def binomial(source: Any, count: float, p: float) -> float:
    """Draw the number of successes in `count` trials of probability `p`, by inversion or, for a large mean, BTRS (Hoermann 1993)."""
    if count <= 0 or p <= 0:
        return 0.0
    if p >= 1 or p != p:
        return count if p >= 1 else math.nan
    few = min(p, 1 - p)
    found = _rejected(source, count, few) if count * few >= 10 else _inverted(source, count, few)
    return found if p <= 0.5 else count - found


def _inverted(source: Any, count: float, p: float) -> float:
    trials, found, log_miss = 0.0, 0, math.log1p(-p)
    while True:
        u = unit(source, 1)[0]
        trials += math.ceil(math.log(u) / log_miss) if u > 0 else math.inf
        if trials > count:
            return float(found)
        found += 1


def _rejected(source: Any, count: float, p: float) -> float:
    spread, odds, most = math.sqrt(count * p * (1 - p)), p / (1 - p), math.floor((count + 1) * p)
    b = 1.15 + 2.53 * spread
    a, c, v_r, alpha = -0.0873 + 0.0248 * b + 0.01 * p, count * p + 0.5, 0.92 - 4.2 / b, (2.83 + 5.1 / b) * spread
    tail = [0.0810614667953272, 0.0413406959554092, 0.0276779256849983, 0.0207906721037650, 0.0166446911898211,
            0.0138761288230707, 0.0118967099458917, 0.0104112652619720, 0.00925546218271273, 0.00833056343336287]  # fmt: skip

    def stirling(k: float) -> float:
        """The error of Stirling's approximation of log(k!)."""
        square = (k + 1) ** 2
        return tail[int(k)] if k <= 9 else (1 / 12 - (1 / 360 - 1 / 1260 / square) / square) / (k + 1)

    while True:
        u, v = unit(source, 1)[0] - 0.5, unit(source, 1)[0]
        us = 0.5 - abs(u)
        k = math.floor((2 * a / us + b) * u + c)
        if us >= 0.07 and v <= v_r:
            return float(k)
        if not 0 <= k <= count:
            continue
        bound = (most + 0.5) * math.log((most + 1) / (odds * (count - most + 1)))
        bound += (count + 1) * math.log((count - most + 1) / (count - k + 1))
        bound += (k + 0.5) * math.log(odds * (count - k + 1) / (k + 1))
        if math.log(v * alpha / (a / us**2 + b)) <= bound + stirling(most) + stirling(count - most) - stirling(k) - stirling(count - k):
            return float(k)


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
