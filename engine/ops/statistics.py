"""Covariances, histograms, distances, numerical gradients, and floats split into mantissas and exponents."""

import math

import numpy

from ..backends.reduction import search
from ..base import dtypes
from ..base.return_types import result_type
from ..core.devices import namespace, require
from ..core.from_data import tensor
from ..core.op import RULES_ONLY, Elementwise, Op, composite, replacing
from ..core.ranges import evenly
from ..core.tensor import Tensor, define
from .front import Refusing, must_be_tensor
from .index import getitem
from .join import cat
from .math import pow_
from .reduce import vector_norm
from .scatter import scatter_reduce
from .select import where
from .shape import expand, reshape, wrap_dim

# -- covariance ------------------------------------------------------------------------------------------------------------------


@composite(method=True)
def cov(input, *, correction=1, fweights=None, aweights=None):
    """Covariance matrix of variables in rows and observations in columns; a vector is one variable.

    `fweights` count how often an observation occurred, `aweights` weight it; sums are divided by the total weight less `correction`.
    """
    if input.ndim > 2: raise RuntimeError(f"cov(): expected input to have two or fewer dimensions but got an input with {input.ndim} dimensions")
    if input.dtype is dtypes.bool_: raise RuntimeError("cov(): bool dtype is not supported for input")
    x = input.reshape((1, -1)) if input.ndim < 2 else input
    n, weights = x.shape[1], None
    for name, w in (("fweights", fweights), ("aweights", aweights)):
        if w is None: continue
        if w.ndim > 1: raise RuntimeError(f"cov(): expected {name} to have one or fewer dimensions but got {name} with {w.ndim} dimensions")
        if (w.dtype.rank == dtypes.INT) != (name == "fweights"): raise RuntimeError(f"cov(): expected {name} to have {'integral' if name == 'fweights' else 'floating point'} dtype but got {name} with {w.dtype.name} dtype")
        if w.numel() != n: raise RuntimeError(f"cov(): expected {name} to have the same numel as there are observations in the input but got {w.numel()} != {n}")
        if w.numel() and w.detach().min().item() < 0: raise RuntimeError(f"cov(): {name} cannot be negative")
        weights = w if weights is None else weights * w
    if weights is None:
        total, mean = n, x.sum(1, keepdim=True) / n
    else:
        total = weights.sum()
        if total.item() == 0: raise RuntimeError("cov(): weights sum to zero, can't be normalized")
        mean = (x * weights).sum(1, keepdim=True) / total
    count = total - correction
    if weights is not None and aweights is not None and correction != 0: count = total - correction * (weights * aweights).sum() / total
    apart = x - mean
    other = apart.conj() if apart.is_complex() else apart
    found = (apart if weights is None else apart * weights) @ other.mT
    count = count.clamp_min(0) if isinstance(count, Tensor) else max(count, 0)
    return (found / count).squeeze()


@composite(method=True)
def corrcoef(input):
    """Pearson correlation coefficients of variables in rows and observations in columns; a vector is one variable."""
    if input.ndim > 2: raise RuntimeError(f"corrcoef(): expected input to have two or fewer dimensions but got an input with {input.ndim} dimensions")
    c = cov(input)
    if c.ndim == 0: return c / c
    size = c.diagonal().real.sqrt() if c.is_complex() else c.diagonal().sqrt()
    found = c / size.unsqueeze(-1) / size.unsqueeze(-2)
    if not found.is_complex(): return found.clip(-1, 1)
    return found.real.clip(-1, 1) + 1j * found.imag.clip(-1, 1)


# -- distances -------------------------------------------------------------------------------------------------------------------


@composite(method=True)
def dist(input, other, p=2):
    """The p-norm of the difference of two tensors."""
    return vector_norm(input - other, p)


@composite(method=True, in_place=True)
def renorm(input, p, dim, maxnorm):
    """Slices of a dimension, scaled down to a p-norm of at most `maxnorm`."""
    if isinstance(p, complex): raise RuntimeError("renorm: p must be real-valued")
    if not p > 0: raise RuntimeError("renorm: non-positive-norm not supported")
    if isinstance(maxnorm, complex): raise RuntimeError("renorm: maxnorm must be real-valued")
    if not maxnorm >= 0: raise RuntimeError(f"renorm: expected maxnorm to be >= 0 but got {maxnorm}")
    if input.ndim < 2: raise RuntimeError(f"renorm: input needs at least 2 dimensions, got {input.ndim} dimensions")
    d = wrap_dim(dim, input.ndim)
    wide = input.float() if input.dtype.itemsize == 2 and input.is_floating_point() else input  # half precision may not hold the norm
    dims = tuple(i for i in range(input.ndim) if i != d)
    over = vector_norm(wide.detach(), p, dims, True) > maxnorm
    held = where(over, wide, 1.0)  # the gradient of an unused norm may be nan
    return where(over, held * (maxnorm / (vector_norm(held, p, dims, True) + 1e-7)), wide).to(input.dtype)


# -- order -----------------------------------------------------------------------------------------------------------------------


@composite
def isin(elements, test_elements, *, assume_unique=False, invert=False):
    """True where elements occur in `test_elements`, or with `invert` where they do not; either may be a scalar."""
    if not isinstance(elements, Tensor) and not isinstance(test_elements, Tensor): raise TypeError("isin(): one of elements and test_elements must be a Tensor")
    beside = elements if isinstance(elements, Tensor) else test_elements
    xp = namespace(beside.array)
    a, b = (x.array if isinstance(x, Tensor) else xp.asarray(x) for x in (elements, test_elements))
    kind = dtypes.result(tuple([getattr(x, "array", x) for x in (elements, test_elements)]))
    if kind.is_complex: raise RuntimeError("Unsupported input type encountered for isin(): complex")
    kind = numpy.dtype("float32") if kind is dtypes.bfloat16 else kind.numpy  # NumPy does not sort bfloat16's nan last
    wanted, ordered = a.reshape(-1).astype(kind), xp.sort(b.reshape(-1).astype(kind))
    places = xp.searchsorted(ordered, wanted)
    found = xp.zeros(a.shape, bool) if not b.size else (ordered[xp.minimum(places, b.size - 1)] == wanted).reshape(a.shape)
    return Tensor._wrap(~found if invert else found)


def within(index, size, kind, text):
    """Raise an error unless all indices are between 0 and size - 1; under `vmap`, those of every sample."""
    places = index.array
    while hasattr(places, "inner"): places = places.inner
    require((places >= 0) & (places < size), kind, text)


@composite(method=True, in_place=True)
def index_reduce(input, dim: int, index: Tensor, source: Tensor, reduce, *, include_self=True):
    """Reduce the input's slices with those of `source` that a 1-d index sends to them, by prod, mean, amax or amin.

    With `include_self=False` an input slice that receives others does not count; slices that receive nothing are kept.
    """
    if reduce not in ("prod", "mean", "amax", "amin"): raise RuntimeError(f"index_reduce(): Expected reduce to be one of prod, mean, amax or amin but got {reduce}.")
    if index.ndim > 1: raise IndexError(f"index_reduce_(): Expected a 1-D tensor for index, got {index.ndim}-D")
    if index.dtype not in (dtypes.int32, dtypes.int64): raise RuntimeError(f"index_reduce_(): Expected dtype int32/int64 for index but got: {index.dtype.name}")
    d = wrap_dim(dim, input.ndim)
    if not source.ndim and index.numel() != 1: raise IndexError(f"index_reduce_(): Dimension specified as {dim} but tensor has no dimensions")
    if source.dtype is not input.dtype: raise RuntimeError(f"index_reduce_(): self ({input.dtype.name}) and source ({source.dtype.name}) must have the same scalar type")
    if source.ndim and (source.ndim <= d or source.shape[d] != index.numel()): raise RuntimeError(f"index_reduce_(): Number of indices ({index.numel()}) should be equal to source.size(dim), for dim {d} of {list(source.shape)}")
    size = input.shape[wrap_dim(dim, input.ndim)] if input.ndim else 1
    within(index, size, IndexError, f"index_reduce_(): index out of range: expected 0 to {size - 1}, got others")
    if input.ndim == 0: return scatter_reduce(input, 0, index.reshape(()), source.reshape(()), reduce, include_self=include_self)
    shape = [-1 if i == d else 1 for i in range(input.ndim)]
    places = expand(reshape(index, tuple(shape)), tuple(index.numel() if i == d else n for i, n in enumerate(input.shape)))
    return scatter_reduce(input, d, places.long(), source, reduce, include_self=include_self)


define("index_reduce_", replacing("index_reduce", index_reduce, scatters=True))


# -- counting --------------------------------------------------------------------------------------------------------------------

histogram_result = result_type("histogram", ("hist", "bin_edges"))


@composite(method=True)
def histogram(input, bins=100, *, range=None, weight=None, density=False):
    """Count, or total weight, of the elements in each bin, and the bin edges; the last bin is closed.

    `bins` is the number of equal bins over `range` (by default that of the data) or a tensor of edges; with `density` the integral is 1.
    """
    if isinstance(bins, Tensor):
        edges_fit("histogram", input, bins, 0)
    elif bins <= 0:
        raise RuntimeError(f"histogram(): bins must be > 0, but got {bins} for dimension 0")
    if range is not None and len(range) != 2: raise RuntimeError(f"histogram(): for a 1-dimensional histogram range should have 2 elements, but got {len(range)}")
    if range is not None and range[0] > range[1]: raise RuntimeError(f"histogram(): min should not exceed max, but got {range}")
    if input.dtype.name not in ("float32", "float64"): raise NotImplementedError(f"histogram(): not implemented for {input.dtype.name!r}")
    if weight is not None and (weight.numel() != input.numel() or weight.dtype is not input.dtype): raise RuntimeError("histogram(): if weight tensor is provided it should have the same number of elements and dtype as the input tensor")
    x, w = input._host().reshape(-1), None if weight is None else weight._host().reshape(-1)
    if isinstance(bins, Tensor):
        edges = bins._host()
    else:
        edges = equal_edges("histogram", x, bins, range)
    hist = numpy.histogram(x, edges, weights=w)[0].astype(x.dtype) if _rises(edges) else boxed([x], [edges], w)
    if density: hist = hist / (hist.sum() * numpy.diff(edges))
    xp = namespace(input.array)
    return histogram_result(Tensor._wrap(xp.asarray(hist)), Tensor._wrap(xp.asarray(edges)))


def _rises(edges):
    return bool((edges[1:] >= edges[:-1]).all())


def boxed(points, edges, weight):
    """Count points, or sum their weights, in each box by bisection: PyTorch accepts edges in any order."""
    at, inside, shape = 0, True, [len(e) - 1 for e in edges]
    for x, e, n in zip(points, edges, shape, strict=True):
        at, inside = at * n + numpy.minimum(search(e, x, True) - 1, n - 1), inside & (x >= e[0]) & (x <= e[-1])
    counts = numpy.bincount(at[inside], None if weight is None else weight[inside], math.prod(shape))
    return counts.astype(points[0].dtype).reshape(shape)


def edges_fit(name, input, bins, dim):
    """Refuse a tensor of edges that is not a vector, is empty, or has another dtype than the points."""
    if bins.dtype is not input.dtype: raise RuntimeError(f"{name}(): input tensor and bins tensors should have the same dtype, but got input with dtype {input.dtype.name} and bins for dimension {dim} with dtype {bins.dtype.name}")
    if bins.ndim != 1: raise RuntimeError(f"{name}(): bins tensor should have one dimension, but got {bins.ndim} dimensions in the bins tensor for dimension {dim}")
    if not bins.numel(): raise RuntimeError(f"{name}(): bins tensor should have at least 1 element, but got 0 elements in the bins tensor for dimension {dim}")


def equal_edges(name, x, bins, limits, dim=0):
    """Edges of equal bins of one dimension of points, between limits or by default over the range of the points."""
    if bins <= 0: raise RuntimeError(f"{name}(): bins must be > 0, but got {bins} for dimension {dim}")
    low, high = limits if limits is not None else (float(x.min()), float(x.max())) if x.size else (0.0, 1.0)
    if not (math.isfinite(low) and math.isfinite(high)): raise RuntimeError(f"{name}(): dimension {dim}'s range [{low}, {high}] is not finite")
    if low > high: raise RuntimeError(f"{name}(): min should not exceed max")
    if low == high: low, high = low - 0.5, high + 0.5
    return evenly(low, high, bins + 1, x.dtype)


# -- numerical gradients ---------------------------------------------------------------------------------------------------------


@composite
def gradient(input, *, spacing=1, dim=None, edge_order=1):
    """Numerical gradient along dimensions, one tensor for each: central differences, one-sided at the edges.

    `spacing` is the distance of the samples, one for each dimension, or a tensor of coordinates for each; `edge_order` is 1 or 2.
    """
    if spacing is None and isinstance(dim, (tuple, list)): raise TypeError("gradient(): argument 'spacing' must be given for several dimensions, not None")
    if input.dtype is dtypes.uint8: raise RuntimeError("torch.gradient does not support uint8 input: its differences would wrap")
    if edge_order not in (1, 2): raise RuntimeError("torch.gradient only supports edge_order=1 and edge_order=2.")
    dims = tuple(range(input.ndim)) if dim is None else (dim,) if isinstance(dim, int) else tuple(dim)
    spacing = 1 if spacing is None else spacing
    steps = (spacing,) * len(dims) if not isinstance(spacing, (list, tuple)) else tuple(spacing)
    if len(steps) != len(dims): raise RuntimeError(f"torch.gradient expected spacing to be unspecified, a scalar, or a list of length {len(dims)}, but got a list of length {len(steps)}.")
    if any(isinstance(h, Tensor) and h.ndim > 1 for h in steps): raise RuntimeError("torch.gradient expected each element of spacing to have one dimension")
    dims = tuple(wrap_dim(d, input.ndim) for d in dims)
    if len(set(dims)) != len(dims): raise RuntimeError(f"dim {dims} appears multiple times in the list of dims")
    if any(input.shape[d] < edge_order + 1 for d in dims): raise RuntimeError("torch.gradient expected each dimension size to be at least edge_order+1")
    return tuple(_slope(input, d, h, edge_order) for d, h in zip(dims, steps, strict=True))


def _slope(x, d, h, order):
    cut = lambda a, b: getitem(x, (slice(None),) * d + (slice(a, b),))
    n, wide = x.shape[d], (-1,) + (1,) * (x.ndim - 1 - d)
    if isinstance(h, Tensor) and h.ndim:
        if h.numel() != n: raise RuntimeError(f"torch.gradient expected each element of spacing to have the length of its dimension, {n}, but got {h.numel()}")
        gaps = h[1:] - h[:-1]
        a, b = gaps[:-1].reshape(wide), gaps[1:].reshape(wide)
        inner = cut(0, -2) * (-b / (a * (a + b))) + cut(1, -1) * ((b - a) / (a * b)) + cut(2, None) * (a / (b * (a + b)))
        first, last = gaps[0], gaps[-1]
        if order == 2:
            p, q, r, s = gaps[0], gaps[1], gaps[-2], gaps[-1]
            left = cut(0, 1) * (-(2 * p + q) / (p * (p + q))) + cut(1, 2) * ((p + q) / (p * q)) - cut(2, 3) * (p / (q * (p + q)))
            right = cut(-3, -2) * (s / (r * (r + s))) - cut(-2, -1) * ((s + r) / (r * s)) + cut(-1, None) * ((2 * s + r) / (s * (r + s)))
    else:
        h = h.item() if isinstance(h, Tensor) else h
        inner, first, last = (cut(2, None) - cut(0, -2)) / (2 * h), h, h
        if order == 2:
            left = (-1.5 * cut(0, 1) + 2 * cut(1, 2) - 0.5 * cut(2, 3)) / h
            right = (0.5 * cut(-3, -2) - 2 * cut(-2, -1) + 1.5 * cut(-1, None)) / h
    if order == 1:
        left, right = (cut(1, 2) - cut(0, 1)) / first, (cut(-1, None) - cut(-2, -1)) / last
    return cat([left, inner, right], d)


# -- mantissas and exponents -----------------------------------------------------------------------------------------------------


@composite(method=True, in_place=True)
def ldexp(input, other):
    """Elementwise `input * 2 ** other`."""
    must_be_tensor("ldexp", "input", input)
    must_be_tensor("ldexp", "other", other)
    if input.is_floating_point() and other.dtype.rank == dtypes.INT:
        return exponent_added(input, other.int())
    # as in PyTorch, the base has the input's precision, except for float32, where it has the exponent's
    two = input.new_full((), 2.0) if input.is_floating_point() and input.dtype is not dtypes.float32 else 2.0
    return input * pow_(two, other)


class exponent_added(Elementwise):
    """Floats times 2 to the power of integers, rounded once: 2 ** other may overflow if the product does not."""
    home, types, samples, exempt = "", "any", (((2, 3), [[1, -2, 0], [3, 0, -1]]),), RULES_ONLY
    def forward(xp, input, other): return xp.ldexp(input, other)
    def d_input(xp, g, other): return xp.ldexp(g, other)


class frexp(Refusing, Op):
    """Mantissas with a magnitude from 1/2 to 1, and exponents: `input == mantissa * 2 ** exponent`."""
    outputs, differentiable, refuses, types = ("mantissa", "exponent"), ("mantissa",), "bic", "promote"
    examples, domain = ((((2, 3),), {}), (([0.3, -3.0, 5.0],), {})), (-4.0, 4.0)
    refusal = (RuntimeError, "torch.frexp() only supports floating-point dtypes, got {}")
    def forward(xp, input): return xp.frexp(input)
    def d_input(xp, g, exponent): return g * xp.power(2.0 * xp.ones_like(g), -xp.astype(exponent, g.dtype))


class nextafter(Refusing, Elementwise):
    """Next value after `input` towards `other` in the dtype. The gradient of `input` is 1, or 0 where it equals `other`."""
    refuses, inplace, exact, tensors = "bic", True, True, True
    exempt = {"value": "Compared with NumPy in float32 its steps are those of float64."}
    def forward(xp, input, other): return xp.nextafter(input, other)
    def d_input(xp, g, input, other): return xp.where(input == other, 0, g)
    def d_other(xp, g): return xp.zeros_like(g)


@composite(method=True, in_place=True, aliases=("multigammaln",))
def mvlgamma(input, p):
    """Logarithm of the multivariate gamma function of dimension `p`."""
    if p < 1: raise RuntimeError("p has to be greater than or equal to 1")
    if input.dtype is dtypes.bool_: raise RuntimeError("mvlgamma: The input tensor may not be a boolean tensor.")
    steps = tensor([-0.5 * j for j in range(p)], dtype=input.dtype if input.is_floating_point() else dtypes.default, device=input.device)
    return (input.unsqueeze(-1) + steps).lgamma().sum(-1) + p * (p - 1) / 4 * math.log(math.pi)
