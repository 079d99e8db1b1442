"""Order statistics, counting and searching: median, mode, quantile, unique, histograms, searchsorted."""

from ..base.dtypes import fitting, float64, int64
from ..base.errors import Refused
from ..core import devices
from ..core.from_data import tensor
from ..core.op import Op, composite
from ..core.tensor import Tensor
from .compare import isnan
from .front import Refusing, front, must_be_tensor
from .math import lerp
from .reduce import PLACES, OfAll, Pairs, at_places
from .rounding import ceil, floor, round_
from .scatter import gather
from .shape import wrap_dim
from .sorting import sort
from .statistics import within


class kthvalue(Pairs, Op):
    """The k-th smallest element along `dim`, counted from 1, and its index."""
    home, refuses, examples = "engine", "bc", ((((5,),), {"k": 2}), (((2, 4),), {"k": 1, "dim": 0}), (((2, 4),), {"k": 4, "dim": 1, "keepdim": True}))
    def forward(xp, input, k, dim=-1, keepdim=False): return _squeezed(xp, xp.ranked(input, dim, (_place(input, k, dim),)), input.shape, dim, keepdim)
    def d_input(xp, g, indices, shape, dim): return at_places(xp, g, indices, shape, dim)


def _place(x, k, dim):
    size = x.shape[dim] if x.ndim else 1
    if not size: raise Refused(f"Expected reduction dim {dim % x.ndim} to have non-zero size.", IndexError)
    if not 1 <= k <= size: raise Refused(f"selected number k out of range for dimension {dim % x.ndim if x.ndim else 0}")
    return k - 1


def _squeezed(xp, pair, shape, dim, keepdim):
    if keepdim or not shape: return pair
    left = tuple(n for d, n in enumerate(shape) if d != dim % len(shape))
    return tuple(xp.reshape(x, left) for x in pair)


class median_(Pairs, Op):
    """Lower median along `dim` and its index; nan where there is a nan."""
    name, refuses, examples = "median", "bc", PLACES[:3]
    def forward(xp, input, dim, keepdim=False): return _squeezed(xp, xp.ranked(input, dim, "median"), input.shape, dim, keepdim)
    def d_input(xp, g, indices, shape, dim): return at_places(xp, g, indices, shape, dim)


class nanmedian_(Pairs, Op):
    """Lower median along `dim` of the elements that are not nan, and its index."""
    name, refuses, examples = "nanmedian", "bc", PLACES[:3]
    def forward(xp, input, dim, keepdim=False): return _squeezed(xp, xp.ranked(input, dim, "nanmedian"), input.shape, dim, keepdim)
    def d_input(xp, g, indices, shape, dim): return at_places(xp, g, indices, shape, dim)


class median_of_all(OfAll, Op):
    """Lower median of all elements, or with `skip_nan` of those that are not nan; ties share the gradient equally."""
    refuses, examples = "bc", ((((2, 3),), {}), (((5,),), {"skip_nan": True}))
    def forward(xp, input, skip_nan=False): return xp.median_of_all(input, skip_nan)


def _median(name, pairs, skip_nan):
    def call(input, dim=None, keepdim=False, *, axis=None, keepdims=False):
        if axis is not None and dim is not None: raise TypeError(f"{name}() got multiple values for argument 'dim'")
        dim, keepdim = dim if axis is None else axis, keepdim or keepdims
        return median_of_all.call(input, skip_nan=skip_nan) if dim is None else pairs.call(input, dim, keepdim)
    call.__name__, call.__doc__ = name, f"{pairs.__doc__} Without `dim`: the value of all elements alone; equal ones share its gradient."
    front(name, out=True)(call)


_median("median", median_, False)
_median("nanmedian", nanmedian_, True)


class mode(Pairs, Op):
    """Most frequent value along `dim` (the smallest at a tie) and the index of its last occurrence."""
    home = "engine"
    examples = ((((2, 4),), {"dim": 1}), (((5,),), {"keepdim": True}), (([[2, 1, 2, 1, 3], [1, 1, 2, 5, 1]],), {}), (([3, 1, 3],), {"dim": 0, "keepdim": True}))
    def forward(xp, input, dim=-1, keepdim=False): return _squeezed(xp, xp.mode(input, dim), input.shape, dim, keepdim)
    def d_input(xp, g, indices, shape, dim): return at_places(xp, g, indices, shape, dim)


@composite(method=True)
def quantile(input, q, dim=None, keepdim=False, *, interpolation="linear"):
    """Quantiles at the fractions `q` (a scalar or a 1-d tensor), along `dim` or of all elements; nan where there is a nan.

    Between two elements, `interpolation` is "linear", "lower", "higher", "nearest" or "midpoint". A 1-d `q` becomes the first dimension.
    """
    return _quantile("quantile", input, q, dim, keepdim, interpolation, lambda x, q: (q * (n := x.shape[-1] - 1)).masked_fill(isnan(x).any(-1, keepdim=True), n))


@composite(method=True)
def nanquantile(input, q, dim=None, keepdim=False, *, interpolation="linear"):
    """`quantile` of the elements that are not nan; nan if there are none."""
    def ranked(x, q): return q * (isnan(x).logical_not().sum(-1, keepdim=True) - 1).clamp(min=0).to(x.dtype)
    return _quantile("nanquantile", input, q, dim, keepdim, interpolation, ranked)


_ROUNDED = {"linear": None, "lower": floor, "higher": ceil, "midpoint": None, "nearest": round_}


def _quantile(name, input, q, dim, keepdim, interpolation, ranked):
    """`ranked(x, q)` gives the fractional index of each quantile in the sorted last dimension, where nans are last."""
    if input.dtype.name not in ("float32", "float64"): raise RuntimeError(f"{name}() input tensor must be either float or double dtype")
    if isinstance(q, Tensor) and q.dtype is not input.dtype: raise RuntimeError(f"{name}() q tensor must be same dtype as the input tensor")
    if interpolation not in _ROUNDED: raise RuntimeError(f"{name}() interpolation must be one of {', '.join(_ROUNDED)}, but got {interpolation}")
    if not isinstance(q, (Tensor, int, float)): raise TypeError(f"{name}(): argument 'q' must be Tensor or float, not {type(q).__name__}")
    if input.numel() == 0: raise RuntimeError(f"{name}() input tensor must be non-empty")
    if dim is not None: wrap_dim(dim, input.ndim)
    fractions = q if isinstance(q, Tensor) else tensor(float(q), dtype=input.dtype, device=input.device)
    if fractions.ndim > 1: raise RuntimeError(f"{name}() q must be a scalar or 1D tensor")
    wanted = fractions._steering()
    if not ((wanted >= 0) & (wanted <= 1)).all(): raise RuntimeError(f"{name}() q must be in the range [0, 1] but got {q.tolist() if isinstance(q, Tensor) else q}")
    x = input.reshape((-1,)) if dim is None or input.ndim == 0 else input.movedim(dim, -1)
    rank = ranked(x, fractions.reshape((-1,)))
    rank = _ROUNDED[interpolation](rank) if _ROUNDED[interpolation] else rank
    ordered, low = sort(x, -1).values, rank.detach().floor()
    out = gather(ordered, -1, low.long())
    if _ROUNDED[interpolation] is None:
        out = lerp(out, gather(ordered, -1, rank.detach().ceil().long()), 0.5 if interpolation == "midpoint" else rank - low)
    out = out.movedim(-1, 0)
    if keepdim: out = out.reshape((len(out), *([1] * input.ndim if dim is None else [1 if d == wrap_dim(dim, input.ndim) else n for d, n in enumerate(input.shape)])))
    return out if fractions.ndim else out[0]


# -- counting: no gradient -----------------------------------------------------------------------------------------------------


@front("unique")
def _unique(input, sorted=True, return_inverse=False, return_counts=False, dim=None):
    """Sorted unique values (along `dim`: unique slices), optionally with the inverse indices and the counts."""
    must_be_tensor("unique", "input", input)
    xp, dim = devices.namespace(input.array), _slices(input, dim)
    values, inverse, counts = xp.unique(input.array, return_inverse=True, return_counts=True, axis=dim, equal_nan=False)
    found = [values, inverse.reshape(-1 if dim is not None else input.array.shape), counts]
    return _asked(found, return_inverse, return_counts)


@front("unique_consecutive")
def _unique_consecutive(input, return_inverse=False, return_counts=False, dim=None):
    """Values without consecutive repeats (along `dim`: slices), optionally with the inverse indices and the counts."""
    must_be_tensor("unique_consecutive", "input", input)
    xp, dim = devices.namespace(input.array), _slices(input, dim)
    rows = input.array.reshape(-1) if dim is None else xp.moveaxis(input.array, dim, 0)
    new = xp.ones(rows.shape[:1], bool)
    new[1:] = xp.any(rows[1:] != rows[:-1], tuple(range(1, rows.ndim))) if rows.ndim > 1 else rows[1:] != rows[:-1]
    inverse = xp.cumsum(new, 0) - 1
    values = rows[new] if dim is None else xp.moveaxis(rows[new], 0, dim)
    return _asked([values, inverse.reshape(input.array.shape) if dim is None else inverse, xp.bincount(inverse)], return_inverse, return_counts)


def _slices(input, dim):
    """Return the dimension of the slices to compare, counted from 0. Raises RuntimeError if the slices have no elements."""
    if dim is None: return None
    if not input.ndim: raise IndexError(f"Dimension specified as {dim} but tensor has no dimensions")
    dim = wrap_dim(dim, input.ndim)
    if any(n == 0 for d, n in enumerate(input.shape) if d != dim): raise RuntimeError("There are 0 sized dimensions, and they aren't selected, so unique cannot be applied")
    return dim


def _asked(found, inverse, counts):
    tensors = [Tensor._wrap(a) for a, wanted in zip(found, (True, inverse, counts), strict=True) if wanted]
    return tensors[0] if len(tensors) == 1 else tuple(tensors)


class bincount(Op):
    """Count of each non-negative integer in a 1-d tensor, or the sum of its `weights`; the result has at least `minlength` elements."""
    inputs, examples = ("input", "weights"), ((([0, 1, 1, 3], None), {}), (([0, 1, 1], None), {"minlength": 5}), (([0, 2, 2], [0.5, 1.0, 2.0]), {}))
    exempt = {"reverse": "PyTorch does not differentiate bincount, not even by the weights.", "meta": "How many places there are, only the data tell."}
    def forward(xp, input, weights=None, minlength=0): return xp.count_integers(input, weights, minlength)


class histc(Refusing, Op):
    """Histogram of the elements in `bins` equal bins between `min` and `max`; if these are equal, over the range of the data."""
    exact = True  # bins are found in half precision too
    inputs, types, refuses, examples = ("input",), "promote", "bic", ((((20,),), {"bins": 4}), (((4, 5),), {"bins": 3, "min": 0.6, "max": 1.2}))
    def forward(xp, input, bins=100, min=0, max=0): return xp.histogram(input, bins, *(fitting(bound, float64) for bound in (min, max)))


class searchsorted_(Op):
    """Indices at which values would be inserted into the sorted last dimension of `input`."""
    name, home, inputs = "searchsorted", "", ("input", "values")
    examples = (([1.0, 3.0, 5.0], [[3.0, 6.0], [0.0, 4.0]]), {}), (([[1, 3, 5], [2, 4, 6]], [[3, 6], [3, 6]]), {"right": True})
    def forward(xp, input, values, right=False, out_int32=False): return xp.astype(xp.search(input, values, right), "int32" if out_int32 else "int64")


@front("searchsorted", method=False, out=True)
def _searchsorted(sorted_sequence, input, *, out_int32=False, right=False, side=None, sorter=None):
    """Indices at which `input`, a tensor or a scalar, would be inserted into the sorted last dimension.

    They are before equal elements, or after them with `right=True` or `side="right"`.
    """
    if side not in (None, "left", "right"): raise RuntimeError(f"searchsorted(): side can only be 'left' or 'right' but got {side}")
    if side == "left" and right: raise RuntimeError("searchsorted(): side and right can't be set to opposites, got side of left while right was True")
    if not sorted_sequence.ndim: raise RuntimeError("torch.searchsorted(): boundaries tensor should have positive dimension, but got 0 dimension")
    values = input if isinstance(input, Tensor) else tensor(input, device=sorted_sequence.device)
    if not values.ndim and sorted_sequence.ndim > 1: raise RuntimeError(f"torch.searchsorted(): input value can be a scalar only when boundaries tensor dimension is 1, but we got boundaries tensor dim({sorted_sequence.ndim})")
    if sorter is not None: sorted_sequence = _in_order(sorted_sequence, sorter)
    return searchsorted_.call(sorted_sequence, values, right=right or side == "right", out_int32=out_int32)


def _in_order(boundaries, sorter):
    if sorter.shape != boundaries.shape: raise RuntimeError(f"torch.searchsorted(): boundary and sorter must have the same size, but got boundary tensor {list(boundaries.shape)} and got sorter tensor {list(sorter.shape)}")
    if sorter.dtype is not int64: raise RuntimeError(f"torch.searchsorted(): sorter must be a tensor of long dtype but got dtype {sorter.dtype.name}")
    within(sorter, boundaries.shape[-1], RuntimeError, "torch.searchsorted(): sorter index out of range")
    return boundaries.gather(-1, sorter)


@front("bucketize", out=True)
def _bucketize(input, boundaries, *, out_int32=False, right=False):
    """Index of the bucket between sorted 1-d `boundaries` that each element falls into.

    A bucket includes its upper boundary, or with `right` its lower one.
    """
    if boundaries.ndim != 1: raise RuntimeError(f"bucketize(): boundaries tensor must be 1 dimension, but got dim({boundaries.ndim})")
    return _searchsorted(boundaries, input, out_int32=out_int32, right=right)
