"""Cumulative sums, products and extremes along a dimension, differences and integrals."""

import math

from ..core.op import RULES_ONLY, Linear, Op, composite
from ..core.tensor import Tensor
from .front import Along, Refusing
from .join import cat
from .reduce import Accumulating, Pairs, as_told, no_zeros
from .shape import clone, wrap_dim
from .split import sliced

LINES = ((((4,),), {"dim": 0}), (((2, 3, 4),), {"dim": 1}), (((2, 3),), {"dim": -1}))


class cumsum(Accumulating, Linear):
    """Cumulative sum along `dim`; integers are summed in int64, and `dtype` casts first."""
    examples, inplace = LINES, True
    def forward(xp, input, dim, *, dtype=None): return as_told(xp, xp.cumsum(input, dim), dtype)
    def d_input(xp, g, dim): return _from_here(xp, g, dim)


def _from_here(xp, g, dim):
    """Sum of each element and all after it."""
    return g if g.ndim == 0 else xp.flip(xp.cumsum(xp.flip(g, dim), dim), dim)


class cumprod(Accumulating, Op):
    """Cumulative product along `dim`; integers multiply to int64, and `dtype` casts first. The gradient is correct at zeros."""
    examples, inplace = (*LINES, (([2.0, 0.0, 3.0, 0.0, 5.0],), {"dim": 0})), True
    def forward(xp, input, dim, *, dtype=None): return as_told(xp, xp.cumprod(input, dim), dtype)
    def d_input(xp, g, input, out, dim):
        # y[i] = y[i-1] x[i]: the gradient of y flows back through the factors and multiplies y[i-1] at x[i]
        if g.ndim == 0 or g.shape[dim] == 1: return g
        if no_zeros(input): return _from_here(xp, g * out, dim) / input
        return later(xp, g, _shifted(xp, input, dim, 1, 0), dim) * _shifted(xp, out, dim, -1, 1)
    def t_input(xp, t, input, out, dim):
        # t[i] = t[i-1] x[i] + y[i-1] dx[i]
        if t.ndim == 0 or t.shape[dim] == 1: return t
        return xp.flip(later(xp, xp.flip(t * _shifted(xp, out, dim, -1, 1), dim), xp.flip(input, dim), dim), dim)


class logcumsumexp(Along, Refusing, Op):
    """log(cumsum(exp(x))) along `dim`, without overflow."""
    types, inputs, refuses, examples = "promote", ("input",), "bi", LINES
    def forward(xp, input, dim): return xp.logcumsumexp(input, dim)
    def d_input(xp, g, input, out, dim):
        if g.ndim == 0: return g
        rise = xp.where(xp.isinf(out), 0, xp.exp(xp.where(xp.isinf(out), 0, out) - _shifted(xp, out, dim, 1, math.inf)))
        return xp.where(input == -math.inf, 0, later(xp, g, rise, dim) * xp.exp(input - xp.where(out == -math.inf, 0, out)))


def _shifted(xp, x, dim, by, fill):
    """Shift `x` along `dim` by `by` positions towards its beginning (negative: its end), and write `fill` to the freed positions."""
    lead, n = (slice(None),) * (dim % x.ndim), abs(by)
    blank = fill * xp.ones_like(x[(*lead, slice(0, n))])
    return xp.concatenate([x[(*lead, slice(by, None))], blank] if by > 0 else [blank, x[(*lead, slice(None, by))]], dim)


def later(xp, g, factors, dim):
    """r[i] = g[i] + factors[i] r[i+1], by doubling: after k rounds each element covers the 2^k elements from it on."""
    step, n, lead = 1, g.shape[dim], (slice(None),) * (dim % g.ndim)
    while step < n:
        near, far = (*lead, slice(None, n - step)), (*lead, slice(step, None))
        g = xp.concatenate([g[near] + factors[near] * g[far], g[(*lead, slice(n - step, None))]], dim)
        factors = factors[(*lead, slice(None, max(0, n - 2 * step)))] * factors[(*lead, slice(step, max(step, n - step)))]
        step *= 2
    return g


class cummax(Pairs, Op):
    """Largest element so far along `dim` and the index of its last occurrence; a nan stays the largest."""
    home, examples, method = "engine", LINES, True
    def forward(xp, input, dim): return xp.cumextreme(input, dim, True)
    def d_input(xp, g, indices, shape, dim): return xp.add_along_axis(g, indices, shape[dim] if shape else 1, dim)


class cummin(Pairs, Op):
    """Smallest element so far along `dim` and the index of its last occurrence; a nan stays the smallest."""
    home, examples, method = "engine", LINES, True
    def forward(xp, input, dim): return xp.cumextreme(input, dim, False)
    def d_input(xp, g, indices, shape, dim): return xp.add_along_axis(g, indices, shape[dim] if shape else 1, dim)


class add_along_axis(Linear):
    """Zeros of size `size` along `axis`, with `input` added at `indices`: the transpose of taking along a dimension."""
    exempt = RULES_ONLY
    home, inputs = "", ("input", "indices")
    examples = ((((2, 2), [[0, 2], [1, 1]]), {"size": 3, "axis": 1}), (((1, 3), [[2, 0, 1]]), {"size": 4, "axis": 0}))
    def forward(xp, input, indices, size, axis): return xp.add_along_axis(input, indices, size, axis)
    def d_input(xp, g, indices, axis): return g if g.ndim == 0 else xp.take_along_axis(g, indices, axis)


# -- differences and integrals -------------------------------------------------------------------------------------------------


@composite(method=True)
def diff(input, n=1, dim=-1, prepend=None, append=None):
    """Differences of neighbors along `dim`, taken `n` times; `prepend` and `append` are joined first. For bools, xor."""
    if input.ndim == 0: raise RuntimeError("diff expects input to be at least one-dimensional")
    if n < 0: raise RuntimeError(f"diff: order must be non-negative but got {n}")
    if n == 0: return clone(input)  # PyTorch then joins nothing
    parts = [x for x in (prepend, input, append) if x is not None]
    out, lead = parts[0] if len(parts) == 1 else cat(parts, dim), (slice(None),) * (dim % input.ndim)
    for _ in range(min(n, out.shape[dim])):
        after, before = out[(*lead, slice(1, None))], out[(*lead, slice(None, -1))]
        out = after ^ before if out.array.dtype == bool else after - before
    return out


def _refuse_points(name, y, x, dx):
    """Raise RuntimeError for bool points and for steps that are not real numbers."""
    if "bool" in (y.dtype.name, getattr(x, "dtype", y.dtype).name): raise RuntimeError(f"{name}: received a bool input for `x` or `y`, but bool is not supported")
    if x is None and isinstance(dx, (bool, complex)): raise RuntimeError(f"{name}: Currently, we only support dx as a real number.")


def _areas(name, y, x, dx, dim):
    """Return sums of neighboring heights, and the steps between them; for an `x` of several dimensions the caller broadcasts the two."""
    _refuse_points(name, y, x, dx)
    heights = sliced(y, dim, 1, None, 1) + sliced(y, dim, 0, -1, 1)
    if x is None: return heights, float(dx)
    if x.ndim == 1:
        if len(x) != y.shape[dim]: raise RuntimeError(f"{name}: There must be one `x` value for each sample point")
        x = x.reshape((-1,) + (1,) * (y.ndim - 1 - dim % y.ndim))
    x = x.reshape((1,) * (y.ndim - x.ndim) + tuple(x.shape))
    return heights, sliced(x, dim, 1, None, 1) - sliced(x, dim, 0, -1, 1)


@composite(method=False, aliases=("trapz",))
def trapezoid(y: Tensor, x=None, *, dx=1, dim=-1):
    """Integral along `dim` by the trapezoidal rule, over the points `x` or with steps of `dx`."""
    d = wrap_dim(dim, y.ndim)
    if y.ndim == 0: raise IndexError(f"trapezoid: Dimension specified as {dim} but tensor has no dimensions")
    if not y.shape[d]: return y.new_zeros((*y.shape[:d], *y.shape[d + 1 :]))
    if x is None:
        _refuse_points("trapezoid", y, x, dx)
        return (y.sum(d) - (y.select(d, 0) + y.select(d, -1)) * 0.5) * float(dx)
    heights, steps = _areas("trapezoid", y, x, dx, d)
    return (heights * steps).sum(d) / 2


@composite(method=False)
def cumulative_trapezoid(y: Tensor, x=None, *, dx=1, dim=-1):
    """Cumulative integral along `dim` by the trapezoidal rule, over the points `x` or with steps of `dx`."""
    d = wrap_dim(dim, y.ndim)
    heights, steps = _areas("cumulative_trapezoid", y, x, dx, d)
    return cumsum(steps / 2 * heights if x is None else steps * heights / 2, d)  # in this order integers wrap as in PyTorch
