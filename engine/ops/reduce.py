"""Reductions over dimensions: sums, products, means, variances, norms and extremes."""

import math

import numpy

from ..base.dtypes import FLOAT, LOW, as_dtype, as_numpy, promote
from ..base.return_types import result_type
from ..core.naming import named
from ..core.op import RULES_ONLY, Elementwise, Linear, Op, composite, functions
from ..core.rules import pull
from .compare import isnan
from .front import Along, Refusing, front
from .math import UNARY
from .select import maximum, minimum

DIMS = (
    (((2, 3),), {}), (((2, 3, 4),), {"dim": 1}), (((2, 3, 4),), {"dim": (0, -1)}), (((2, 3),), {"dim": -1, "keepdim": True}),
    (((2, 3),), {"keepdim": True, "dim": (0, 1)}), (((),), {}), (((3,),), {"dim": 0}),
)  # fmt: skip


def kept(shape, dim):
    """Return the shape after reducing `dim`, with the reduced dimensions kept as size 1."""
    if dim is None or not shape: return (1,) * len(shape)
    dims = {d % len(shape) for d in ((dim,) if isinstance(dim, int) else dim)}
    return tuple(1 if i in dims else n for i, n in enumerate(shape))


def count(shape, dim):
    """Return how many elements are reduced into each result."""
    return math.prod(n for n, k in zip(shape, kept(shape, dim), strict=True) if k == 1)


def spread(xp, g, shape, dim):
    """Reshape a result, or its gradient, to broadcast against the input: the reduced dimensions are restored as size 1."""
    return g if dim is None else xp.reshape(g, kept(shape, dim))


class Reduction(Along):
    types, inputs, examples = "promote", ("input",), DIMS


class Accumulating(Reduction):
    """Base of sums and products, which are int64 for integers and bools unless `dtype` is given."""

    @classmethod
    def bind(cls, args, kwargs):
        inputs, attrs = super().bind(args, kwargs)
        if kwargs.get("dtype") is not None and ((d := as_numpy(kwargs["dtype"])).kind not in "fc" or d in LOW): attrs["dtype"] = d
        return inputs, attrs

    @classmethod
    def prepare(cls, arrays):
        arrays, xp = super().prepare(arrays)
        return [a.astype("int64") if a.dtype.kind in "bu" else a for a in arrays], xp


def as_told(xp, x, dtype):
    """Cast a result to an integer or half-precision `dtype`; for other dtypes the input was cast beforehand."""
    return x if dtype is None else xp.astype(x, dtype)


class sum_(Accumulating, Linear):
    """Sum over the given dimensions, or over all; integers are summed in int64, and `dtype` casts first."""
    def forward(xp, input, dim=None, keepdim=False, *, dtype=None): return xp.sum(input, dim, keepdim) if dtype is None else as_told(xp, xp.sum(input, dim, keepdim), dtype)
    def d_input(xp, g, shape, dim): return xp.spread_to(spread(xp, g, shape, dim), shape)


class mean(Reduction, Refusing, Linear):
    """Mean over the given dimensions, or over all; nan for no elements. Raises RuntimeError for integers unless `dtype` is given."""
    refuses, refusal = "bi", (RuntimeError, "could not infer output dtype. Input dtype must be either a floating point or complex dtype. Got: {}")
    def forward(xp, input, dim=None, keepdim=False, *, dtype=None): return xp.mean(input, axis=dim, keepdims=keepdim)
    def d_input(xp, g, shape, dim): return xp.spread_to(spread(xp, g, shape, dim) / max(count(shape, dim), 1), shape)


class prod(Accumulating, Op):
    """Product over one dimension, or over all; integers multiply to int64, and `dtype` casts first. The gradient is correct at zeros."""
    examples = ((((2, 3),), {}), (((2, 3, 4),), {"dim": 1}), (((2, 3),), {"dim": -1, "keepdim": True}), (([2.0, 0.0, 3.0],), {}), (([[0.0, 2.0], [0.0, 0.0]],), {"dim": 1}))

    @classmethod
    def bind(cls, args, kwargs):
        inputs, attrs = super().bind(args, kwargs)
        if attrs["dim"].__class__ is tuple: raise TypeError(f"prod(): argument 'dim' must be int, not {attrs['dim']}")
        return inputs, attrs

    def forward(xp, input, dim=None, keepdim=False, *, dtype=None): return as_told(xp, xp.prod(input, axis=dim, keepdims=keepdim), dtype)
    def d_input(xp, g, input, out, dim):
        if count(input.shape, dim) == 1: return xp.reshape(g, input.shape)
        others = spread(xp, out, input.shape, dim) / input if no_zeros(input) else product_of_others(xp, input, dim)
        return spread(xp, g, input.shape, dim) * others
    def t_input(xp, t, input, dim, keepdim): return xp.sum(t * product_of_others(xp, input, dim), axis=dim, keepdims=keepdim)


def no_zeros(x):
    """Return whether no element is 0, so that the product of the others can be computed by division.

    False inside `vmap`, on a GPU, where the host would wait for the answer, and for a Tensor, the derivative of which is recorded: the
    terms of a quotient's derivative would cancel only up to rounding.
    """
    return isinstance(x, (numpy.ndarray, numpy.generic)) and bool((x != 0).all())


def product_of_others(xp, x, dim):
    """For each element, the product of all others along `dim`: those before it times those after it."""
    if x.ndim == 0: return xp.ones_like(x)
    if dim is None: return xp.reshape(product_of_others(xp, xp.reshape(x, (math.prod(x.shape),)), 0), x.shape)
    if x.shape[dim] == 0: return x
    lead = (slice(None),) * (dim % x.ndim)
    first = xp.ones_like(x[(*lead, slice(0, 1))])
    before = xp.cumprod(xp.concatenate([first, x[(*lead, slice(None, -1))]], dim), dim)
    after = xp.flip(xp.cumprod(xp.concatenate([first, xp.flip(x[(*lead, slice(1, None))], dim)], dim), dim), dim)
    return before * after


# -- variance ------------------------------------------------------------------------------------------------------------------


class Spread(Reduction, Refusing):
    refuses, refusal = "bi", (RuntimeError, "std and var only support floating point and complex dtypes, not {}")

    @classmethod
    def bind(cls, args, kwargs):
        """Accept PyTorch's older signatures: `std(x, unbiased)`, `std(x, dim, unbiased, keepdim)`."""
        kwargs = dict(kwargs)
        if len(args) > 1 and isinstance(args[1], bool): args = (args[0], None, *args[1:])
        if len(args) > 2 and isinstance(args[2], bool):
            kwargs["correction"] = int(args[2])
            if len(args) > 3: kwargs["keepdim"] = args[3]
            args = args[:2]
        if "unbiased" in kwargs and "correction" in kwargs: raise TypeError(f"{cls.name}() takes either unbiased or correction, not both")
        if "unbiased" in kwargs: kwargs["correction"] = int(kwargs.pop("unbiased"))
        inputs, attrs = super().bind(args, kwargs)
        if attrs["correction"] is None: attrs["correction"] = 1
        return inputs, attrs


class var(Spread, Op):
    """Variance over the given dimensions, or over all: the sum of squared deviations, divided by their count minus `correction`."""
    examples = (*DIMS[:5], (((2, 3),), {"correction": 0}), (((4,),), {"correction": 2}))
    def forward(xp, input, dim=None, *, correction=1, keepdim=False): return xp.var(input, dim, correction, keepdim)
    def d_input(xp, g, input, dim, correction): return spread(xp, g, input.shape, dim) * _var_slope(xp, input, dim, correction)


class std(Spread, Op):
    """Standard deviation over the given dimensions, or over all: the square root of `var`. The gradient is 0 where it is 0."""
    examples = (*DIMS[:5], (((2, 3),), {"correction": 0}), (((4,),), {"correction": 2}))
    def forward(xp, input, dim=None, *, correction=1, keepdim=False): return xp.std(input, dim, correction, keepdim)
    def d_input(xp, g, input, out, dim, correction):
        g = xp.where(out == 0, 0, g / xp.where(out == 0, 1, 2 * out))
        return spread(xp, g, input.shape, dim) * _var_slope(xp, input, dim, correction)


def _var_slope(xp, x, dim, correction):
    n, middle = count(x.shape, dim) - correction, xp.mean(x, axis=dim, keepdims=True)
    if n <= 0 and (dim is None or not x.ndim): return xp.where(x == middle, math.nan, math.inf)
    return xp.conj(x - middle) * (2 / n if n else math.inf)


@composite(method=False)
def var_mean(input, *args, **kwargs):
    """Variance and mean over the given dimensions, or over all; arguments as for `var`."""
    (input,), attrs = var.bind((input, *args), kwargs)
    return var(input, **attrs), mean(input, attrs["dim"], attrs["keepdim"])


@composite(method=False)
def std_mean(input, *args, **kwargs):
    """Standard deviation and mean over the given dimensions, or over all; arguments as for `std`."""
    (input,), attrs = std.bind((input, *args), kwargs)
    return std(input, **attrs), mean(input, attrs["dim"], attrs["keepdim"])


# -- ignoring nans -------------------------------------------------------------------------------------------------------------


class without_nans(Elementwise):
    """Elements with nan replaced by 0; the gradient at a nan is multiplied by 0."""
    home, exempt, samples = "", RULES_ONLY, UNARY
    def forward(xp, input): return xp.where(xp.isnan(input), 0, input)
    def d_input(xp, g, input): return g * (input == input)
    def t_input(xp, t, input): return xp.where(xp.isnan(input), 0, t)


@composite(method=True)
def nansum(input, dim=None, keepdim=False, *, dtype=None):
    """Sum of the elements that are not nan, over the given dimensions or over all."""
    if input.dtype.is_complex: raise RuntimeError("nansum does not support complex inputs")
    return sum_(without_nans(input), dim, keepdim, dtype=dtype)


@composite(method=True)
def nanmean(input, dim=None, keepdim=False, *, dtype=None):
    """Mean of the elements that are not nan, over the given dimensions or over all."""
    if input.dtype.rank < 2: raise RuntimeError(f"nanmean(): expected input to have floating point or complex dtype but got {input.dtype.name}")
    if dtype is not None and dtype.rank < 2: raise RuntimeError(f"nanmean(): could not infer output dtype. Optional dtype must be either a floating point or complex dtype. Got: {dtype.name}")
    numbers = ~isnan(input)
    return nansum(input, dim, keepdim, dtype=dtype) / sum_(numbers, dim, keepdim)


class logsumexp(Reduction, Op):
    """log(sum(exp(x))) over the given dimensions, without overflow."""
    types, examples, formula = "float", DIMS[1:5], "log(sum(exp(input)))"
    def forward(xp, input, dim, keepdim=False): return xp.logsumexp(input, dim, keepdim)
    def d_input(xp, g, input, out, dim): return spread(xp, g, input.shape, dim) * xp.exp(input - spread(xp, out, input.shape, dim))


# -- norms ---------------------------------------------------------------------------------------------------------------------


class vector_norm(Along, Refusing, Op):
    """Vector norm `sum(|x|**ord)**(1/ord)` over the given dimensions, or over all.

    It is the largest |x| for inf, the smallest for -inf and the number of non-zeros for 0. The gradient is 0 where the norm is 0, is shared
    equally by tied extremes, and does not exist for the number of non-zeros.
    """
    pull = classmethod(pull)  # the general form: the rule may return None
    home, method, types, inputs, formula, domain = "linalg", False, "promote", ("input",), "sum(abs(input) ** ord) ** (1 / ord)", (0.5, 2.0)
    examples = (*((((2, 3),), {"ord": p, "dim": d}) for p, d in ((2, None), (1, 0), (3, (0, 1)), (0.5, -1), (1.5, 1), (-1, 1), (0, 0))),
                (((2, 3),), {"ord": math.inf, "dim": 1, "keepdim": True}), (((2, 3),), {"ord": -math.inf}), (([-1.0, 2.0, -3.0],), {"ord": 2.5}))  # fmt: skip
    refuses, refusal = "bi", (RuntimeError, "Expected a floating point or complex tensor as input. Got {}")

    @classmethod
    def bind(cls, args, kwargs):
        if kwargs.get("dtype") is not None: norm_dtype("linalg.vector_norm", args[0] if args else kwargs.get("input", kwargs.get("x")), kwargs["dtype"])
        inputs, attrs = super().bind(args, kwargs)
        if isinstance(attrs["ord"], complex): raise RuntimeError("linalg.vector_norm: Expected a non-complex scalar as the order of norm.")
        return inputs, attrs

    def forward(xp, input, ord=2, dim=None, keepdim=False, *, dtype=None): return xp.vector_norm(input, ord, dim, keepdim)
    def d_input(xp, g, input, out, ord, dim): return None if ord == 0 else norm_slope(xp, spread(xp, g, input.shape, dim), input, spread(xp, out, input.shape, dim), ord, dim)
    def t_input(xp, t, input, out, ord, dim, keepdim):
        return None if ord == 0 else xp.sum(norm_slope(xp, t, input, spread(xp, out, input.shape, dim), ord, dim), axis=dim, keepdims=keepdim)


def norm_dtype(name, x, dtype):
    """Return the `dtype` of a norm of `x`. Raises RuntimeError for integers, a narrowing, and a change from real to complex or back."""
    if dtype is None or not hasattr(x, "array"): return dtype
    if x.dtype.rank < FLOAT: raise RuntimeError(f"{name}: Expected a floating point or complex tensor as input. Got {x.dtype.name}")
    d, kind = as_dtype(dtype), "complex" if x.dtype.is_complex else "real"
    if d.is_complex != x.dtype.is_complex: raise RuntimeError(f"{name}: dtype should be {kind} for {kind} inputs, but got {d.name}")
    if promote(x.dtype, d) is not d:
        raise RuntimeError(f"{name}: the dtype of the input ({x.dtype.name}) should be convertible without narrowing to the specified dtype ({d.name})")
    return d


def norm_slope(xp, g, x, norm, p, dim):
    """g x |x|^(p-2) / norm^(p-1), multiplied in PyTorch's order so that it and its derivative are nan or infinite where PyTorch's are."""
    if p == 1: return g * xp.conj(xp.sgn(x))
    if math.isinf(p): return xp.conj(xp.sgn(x)) * (g * shared(xp, xp.abs(x), norm, dim, True))
    if p == 2: return g * xp.where(norm == 0, 0, xp.conj(x) / norm)
    size = xp.abs(x)
    if p < 1: return xp.conj(xp.sgn(x)) * xp.where(size == 0, 0, xp.power(size, p - 1)) * g * xp.power(norm, 1 - p)
    slope = xp.conj(xp.sgn(x)) * xp.power(size, p - 1) if p < 2 else xp.conj(x) * xp.power(size, p - 2)
    return slope * xp.where(norm == 0, 0, g / xp.power(norm, p - 1))


@composite(method=True)
def norm(input, p="fro", dim=None, keepdim=False, *, dtype=None):
    """Vector norm over the given dimensions, or over all; "fro" is the 2-norm, "nuc" the sum of a matrix's singular values."""
    if p == "nuc":
        return functions["linalg.matrix_norm"](input, "nuc", (-2, -1) if dim is None else dim, keepdim, dtype=dtype)
    if isinstance(p, str) and p != "fro": raise RuntimeError(f"norm: Order {p} is none of the norms: 'fro', 'nuc' or a number")
    return vector_norm(input, 2 if p in ("fro", None) else p, dim, keepdim, dtype=dtype)


# -- extremes ------------------------------------------------------------------------------------------------------------------


def shared(xp, x, extreme, dim, nans=False):
    """1 / n at each of the n elements equal to the extreme along `dim`, else 0.

    If the extreme is nan, all shares are nan or, with `nans`, the nans share equally.
    """
    ties = xp.astype((x == extreme) | (xp.isnan(x) & xp.isnan(extreme)) if nans else x == extreme, x.dtype)
    return ties / xp.sum(ties, axis=dim, keepdims=True)


class amax(Reduction, Refusing, Op):
    """Largest element over the given dimensions, or over all; ties share the gradient equally. A nan result has a nan gradient."""
    refuses = "c"
    def forward(xp, input, dim=None, keepdim=False): return xp.max(input, axis=dim, keepdims=keepdim)
    def d_input(xp, g, input, out, dim): return spread(xp, g, input.shape, dim) * shared(xp, input, spread(xp, out, input.shape, dim), dim)
    def t_input(xp, t, input, out, dim, keepdim): return xp.sum(t * shared(xp, input, spread(xp, out, input.shape, dim), dim), axis=dim, keepdims=keepdim)


class amin(Reduction, Refusing, Op):
    """Smallest element over the given dimensions, or over all; ties share the gradient equally. A nan result has a nan gradient."""
    refuses = "c"
    def forward(xp, input, dim=None, keepdim=False): return xp.min(input, axis=dim, keepdims=keepdim)
    def d_input(xp, g, input, out, dim): return spread(xp, g, input.shape, dim) * shared(xp, input, spread(xp, out, input.shape, dim), dim)
    def t_input(xp, t, input, out, dim, keepdim): return xp.sum(t * shared(xp, input, spread(xp, out, input.shape, dim), dim), axis=dim, keepdims=keepdim)


class OfAll(Refusing):
    """Base of reductions that pick one of all elements. If it is nan, the nans share the gradient, and the tangent is nan."""
    home, types, inputs, exempt = "", "promote", ("input",), RULES_ONLY
    def d_input(xp, g, input, out):
        ties = (input == out) | xp.isnan(input) & xp.isnan(out)
        return xp.where(ties, g / xp.sum(ties), 0)
    def t_input(xp, t, input, out): return xp.sum(t * shared(xp, input, out, None))


class max_of_all(OfAll, Op):
    """Largest of all elements; ties share the gradient equally, and so do nans."""
    refuses, casts = "c", True
    def forward(xp, input): return xp.max(input)


class min_of_all(OfAll, Op):
    """Smallest of all elements; ties share the gradient equally, and so do nans."""
    refuses, casts = "c", True
    def forward(xp, input): return xp.min(input)


PLACES = ((((2, 3),), {"dim": 0}), (((2, 3, 4),), {"dim": 1}), (((2, 3),), {"dim": -1, "keepdim": True}), (([[1.0, 3.0, 3.0], [2.0, 0.0, 2.0]],), {"dim": 1}))


class Pairs(Along, Refusing):
    """Base of ops that return the chosen element along one dimension and its index; the gradient goes to that element alone."""

    types, inputs, outputs, differentiable, refuses, home = "promote", ("input",), ("values", "indices"), ("values",), "c", ""


class max_(Pairs, Op):
    """Largest element along `dim` and the index of its first occurrence."""
    name, examples, dims_first = "max", PLACES[:3], True
    refusal = RuntimeError, "does not support complex input"
    def forward(xp, input, dim, keepdim=False): return xp.max(input, axis=dim, keepdims=keepdim), xp.argmax(input, dim, keepdim)
    def d_input(xp, g, indices, shape, dim): return at_places(xp, g, indices, shape, dim)


class min_(Pairs, Op):
    """Smallest element along `dim` and the index of its first occurrence."""
    name, examples, dims_first = "min", PLACES[:3], True
    refusal = RuntimeError, "does not support complex input"
    def forward(xp, input, dim, keepdim=False): return xp.min(input, axis=dim, keepdims=keepdim), xp.argmin(input, dim, keepdim)
    def d_input(xp, g, indices, shape, dim): return at_places(xp, g, indices, shape, dim)


def at_places(xp, g, indices, shape, dim):
    """Put the gradient at the chosen indices along `dim`, with zeros elsewhere."""
    return xp.add_along_axis(spread(xp, g, shape, dim), xp.reshape(indices, kept(shape, dim)), shape[dim] if shape else 1, dim)


def _extreme(name, whole, pairs, pairwise):
    def call(input, *args, **kwargs):
        other = args[0] if args else kwargs.get("other", kwargs.get("dim", kwargs.get("axis")))
        if other is None: return named(whole.call(input, **kwargs), f"{name.capitalize()}1")
        if isinstance(other, (tuple, list)): raise TypeError(f"{name}(): dim must be one int, not {other!r}; use a{name} for several")
        return (pairwise if hasattr(other, "array") else pairs).call(input, *args, **kwargs)
    call.__doc__ = f"{whole.__doc__} With `dim`: values and indices along it. With a second tensor: `{pairwise.name}`."
    return call


front("max")(_extreme("max", max_of_all, max_, maximum))
front("min")(_extreme("min", min_of_all, min_, minimum))

aminmax_result = result_type("aminmax", ("min", "max"))


@composite(method=True)
def aminmax(input, *, dim=None, keepdim=False):
    """Smallest and largest element along `dim`, or of all; ties share the gradient equally."""
    return aminmax_result(amin(input, dim, keepdim), amax(input, dim, keepdim))


class argmax(Along, Refusing, Op):
    """Index of the first largest element along `dim`, or in the flattened tensor."""
    types, inputs, refuses, refusal = "promote", ("input",), "bc", (RuntimeError, "does not support {} input")
    examples = ((((2, 3),), {}), *PLACES, (((2, 3),), {"keepdim": True}))
    def forward(xp, input, dim=None, keepdim=False): return xp.argmax(input, dim, keepdim)


class argmin(Along, Refusing, Op):
    """Index of the first smallest element along `dim`, or in the flattened tensor."""
    types, inputs, refuses, refusal = "promote", ("input",), "bc", (RuntimeError, "does not support {} input")
    examples = ((((2, 3),), {}), *PLACES, (((2, 3),), {"keepdim": True}))
    def forward(xp, input, dim=None, keepdim=False): return xp.argmin(input, dim, keepdim)


# -- logical reductions --------------------------------------------------------------------------------------------------------

TRUTHS = (([True, False],), {}), (([[1.0, 0.0], [2.0, 3.0]],), {"dim": 1}), (([[0.0, 0.0], [2.0, 3.0]],), {"dim": (0, 1), "keepdim": True})


class all_(Reduction, Op):
    """Whether all elements over the given dimensions are non-zero: bool, or uint8 for uint8. `dim=()` tests each element by itself."""
    name, of_no_dims, examples = "all", (), TRUTHS
    def forward(xp, input, dim=None, keepdim=False): return xp.all(input, dim, keepdim)


class any_(Reduction, Op):
    """Whether any element over the given dimensions is non-zero: bool, or uint8 for uint8. `dim=()` tests each element by itself."""
    name, of_no_dims, examples = "any", (), TRUTHS
    def forward(xp, input, dim=None, keepdim=False): return xp.any(input, dim, keepdim)


class count_nonzero(Along, Op):
    """Number of non-zero elements over the given dimensions, or of all."""
    types, inputs, examples = "promote", ("input",), ((([[1.0, 0.0], [2.0, 3.0]],), {}), (([[1.0, 0.0], [0.0, 0.0]],), {"dim": 1}), (([True, False],), {"dim": 0}))
    def forward(xp, input, dim=None): return xp.count_nonzero(input, dim)
