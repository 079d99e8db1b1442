"""Gather, scatter and masks: elements read and written where index tensors or masks say."""

from __future__ import annotations

from typing import Any

import numpy

from ..backends.batch import Batched
from ..base import dtypes
from ..core.devices import known, look, namespace
from ..core.op import RULES_ONLY, Op, composite, functions, replacing
from ..core.tensor import Tensor, define
from .index import Overwriting, Placing, index_put
from .shape import broadcast_shapes, clone, expand, reshape, wrap_dim


class gather(Op):
    """Elements that an index tensor selects along a dimension: `out[i][j] = input[i][index[i][j]]` for dim 1, and so on."""
    tensors = True
    inputs, order, exact, row_major = ("input", "index"), ("input", "dim", "index", "sparse_grad"), True, True
    examples = ((((3, 3), [[0, 2, 1], [1, 1, 0]]), {"dim": 0}), (((2, 4), [[0, 2, 2], [3, 1, 0]]), {"dim": -1}))
    def forward(xp, input, index, dim, sparse_grad=False): return xp.gather(input, dim, index)
    def d_input(xp, g, index, shape, dim): return xp.scatter_add(xp.new_zeros(g, shape), dim, index, g)


class scatter_add(Placing):
    """The input with the elements of `src` added at the positions that an index tensor gives along a dimension."""
    tensors = True
    inputs, order, exact, inplace = ("input", "index", "src"), ("input", "dim", "index", "src"), True, True
    examples = ((((3, 3), [[0, 2, 1], [0, 1, 0]], (2, 3)), {"dim": 0}), (((2, 4), [[0, 2, 2], [3, 1, 0]], (2, 4)), {"dim": 1}))
    def forward(xp, input, index, src, dim): return xp.scatter_add(input, dim, index, src)
    def d_input(xp, g): return g
    def d_src(xp, g, index, shape, dim): return grown(xp, xp.gather(g, dim, index), shape)


class scatter(Overwriting):
    """The input with elements of `src`, or a scalar, written at the positions that an index tensor gives along a dimension."""
    home, inputs, order, exact = "", ("input", "index", "src"), ("input", "dim", "index", "src"), True
    examples = ((((3, 3), [[0, 2, 1], [1, 1, 0]], (2, 3)), {"dim": 0}), (((2, 4), [[0, 2, 1], [3, 1, 0]], (2, 4)), {"dim": 1}))
    def forward(xp, input, index, src, dim): return xp.scatter(input, dim, index, src)
    def d_input(xp, g, index, dim): return xp.scatter(g, dim, index, 0)
    def d_src(xp, g, index, shape, dim): return grown(xp, xp.gather(g, dim, index), shape)


class scatter_extreme(Placing):
    """Largest or smallest of the input's element and all elements of `src` that an index tensor sends to it."""
    exempt = RULES_ONLY
    home, inputs, order, exact = "", ("input", "index", "src"), ("input", "dim", "index", "src", "reduce"), True
    examples = (
        (((3, 3), [[0, 2, 1], [0, 1, 0]], (2, 3)), {"dim": 0, "reduce": "amax"}), (((2, 4), [[0, 2, 2], [3, 1, 0]], (2, 3)), {"dim": 1, "reduce": "amin"}),
    )  # fmt: skip
    def forward(xp, input, index, src, dim, reduce): return xp.scatter_extreme(input, dim, index, src, reduce)
    def d_input(xp, g, input, index, src, out, dim): return g / ties(xp, input, index, src, out, dim) * (input == out)
    def d_src(xp, g, input, index, src, out, dim):
        return xp.gather(g / ties(xp, input, index, src, out, dim), dim, index) * (src == xp.gather(out, dim, index))


class scatter_prod(Placing):
    """Product of the input's element and all elements of `src` that an index tensor sends to it."""
    exempt = RULES_ONLY
    home, inputs, order, exact = "", ("input", "index", "src"), ("input", "dim", "index", "src"), True
    examples = ((((3, 3), [[0, 2, 1], [0, 1, 0]], (2, 3)), {"dim": 0}), (((2, 4), [[0, 2, 2], [3, 1, 0]], (2, 3)), {"dim": 1}))
    def forward(xp, input, index, src, dim): return xp.scatter_prod(input, dim, index, src)
    def d_input(xp, g, input, index, src, dim):
        x = xp.where(input == 0, 1, input)
        return g * xp.scatter_prod(x, dim, index, src) / x
    def d_src(xp, g, input, index, src, dim):
        nonzero_product = xp.scatter_prod(xp.where(input == 0, 1, input), dim, index, xp.where(src == 0, 1, src))
        zeros_there = xp.scatter_add(xp.astype(input == 0, g.dtype), dim, index, xp.astype(src == 0, g.dtype))
        others = xp.gather(zeros_there, dim, index) - xp.astype(src == 0, g.dtype)
        return xp.where(others == 0, xp.gather(g * nonzero_product, dim, index) / xp.where(src == 0, 1, src), 0)


class index_add(Placing):
    """The input with slices of `source`, times `alpha`, added at the positions that a 1-d index gives along a dimension."""
    tensors = True
    inputs, order, inplace = ("input", "index", "source"), ("input", "dim", "index", "source", "alpha"), True
    examples = ((((3, 2), [0, 2, 0], (3, 2)), {"dim": 0}), (((2, 4), [3, 1], (2, 2)), {"dim": -1, "alpha": 2}))
    exempt = {"zero_size": "PyTorch does not look at the index when the input is empty; here it is checked as always."}

    @classmethod
    def bind(cls, args, kwargs):
        inputs, attrs = super().bind(args, kwargs)
        return inputs, {**attrs, "alpha": dtypes.fitting(attrs.get("alpha", 1), inputs[0].dtype)}

    def forward(xp, input, index, source, dim, alpha=1): return xp.index_add(input, dim, index, source, alpha)
    def d_input(xp, g): return g
    def d_source(xp, g, index, dim, alpha): return xp.index_select(g, dim, index) * alpha


class index_copy(Overwriting):
    """The input with slices of `source` written at the positions that a 1-d index gives along a dimension."""
    tensors = True
    memory_first = True
    inputs, order, exact, inplace = ("input", "index", "source"), ("input", "dim", "index", "source"), True, True
    examples = ((((3, 2), [0, 2], (2, 2)), {"dim": 0}), (((2, 4), [3, 1], (2, 2)), {"dim": -1}))
    def forward(xp, input, index, source, dim): return xp.index_copy(input, dim, index, source)
    def d_input(xp, g, index, dim): return xp.index_copy(g, dim, index, 0)
    def d_source(xp, g, index, dim): return xp.index_select(g, dim, index)


class index_select(Op):
    """Slices that a 1-d index tensor selects along a dimension; a copy."""
    tensors = True
    inputs, order, exact, row_major = ("input", "index"), ("input", "dim", "index"), True, True
    examples = ((((3, 2), [0, 2, 0]), {"dim": 0}), (((2, 4), [3, 1]), {"dim": -1}))
    def forward(xp, input, index, dim): return xp.index_select(input, dim, index)
    def d_input(xp, g, index, shape, dim): return xp.index_add(xp.new_zeros(g, shape), dim, index, g)


def grown(xp: Any, g: Any, shape: tuple) -> Any:
    """Pad `g` with zeros at the end to `shape`: PyTorch lets `src` be larger than the index."""
    return g if tuple(g.shape) == tuple(shape) else xp.put_zeros(g, shape, tuple(slice(0, n) for n in g.shape))


def ties(xp: Any, input: Any, index: Any, src: Any, out: Any, dim: int) -> Any:
    """How many elements equal each position's extreme: they share the gradient, which is nan where the extreme is."""
    d = out.dtype
    return xp.scatter_add(xp.astype(input == out, d), dim, index, xp.astype(src == xp.gather(out, dim, index), d))


@composite(method=True, in_place=True)
def scatter_(input: Tensor, dim: int, index: Tensor, src: Any = None, *, value: Any = None, reduce: str | None = None) -> Tensor:
    """The input with `src` (a tensor or a scalar) written where an index tensor says, or combined by `reduce`, "add" or "multiply"."""
    src = value if src is None else src
    src = src if isinstance(src, Tensor) else dtypes.fitting(src, input.dtype)
    if reduce is not None:
        if reduce not in ("add", "multiply"):
            wrap_dim(dim, input.ndim)
            raise RuntimeError("reduce argument must be either add or multiply.")
        src = src if isinstance(src, Tensor) else input.new_full(tuple(index.shape), src)
        return scatter_reduce(input, dim, index, src, "sum" if reduce == "add" else "prod")
    if isinstance(src, Tensor) and src.dtype is not input.dtype:
        raise RuntimeError("scatter(): Expected self.dtype to be equal to src.dtype")
    return scatter(input, dim, index, src)


def _lowest(d: dtypes.dtype) -> Any:
    return -numpy.inf if d.is_floating_point else False if d is dtypes.bool_ else dtypes.iinfo(d).min


def _highest(d: dtypes.dtype) -> Any:
    return numpy.inf if d.is_floating_point else True if d is dtypes.bool_ else dtypes.iinfo(d).max


@composite(method=True, in_place=True)
def scatter_reduce(input: Tensor, dim: int, index: Tensor, src: Tensor, reduce: str, *, include_self: bool = True) -> Tensor:
    """Sum, prod, mean, amax or amin of the elements of `src` that an index tensor sends to each position.

    With `include_self` the input's own element counts too; positions that receive nothing keep their element.
    """
    if reduce not in ("sum", "prod", "mean", "amax", "amin"):
        raise RuntimeError(f"reduce argument must be either sum, prod, mean, amax or amin, got {reduce}.")
    wrap_dim(dim, input.ndim)
    if input.ndim and index.ndim and index.numel() and not input.ndim == index.ndim == src.ndim:
        raise RuntimeError(f"scatter_reduce(): index and src must have as many dimensions as self, but got {index.ndim}, {src.ndim} and {input.ndim}")
    if input.ndim and src.shape != index.shape:
        src = src[tuple(slice(0, n) for n in index.shape)] if index.numel() else reshape(reshape(src, (-1,))[:0], tuple(index.shape))
    if not include_self:
        start = {"sum": 0, "mean": 0, "prod": 1}.get(reduce)
        if start is None:
            start = _lowest(input.dtype) if reduce == "amax" else _highest(input.dtype)
        input = scatter(input, dim, index, start)
    if reduce in ("amax", "amin"):
        return scatter_extreme(input, dim, index, src, reduce)
    if reduce == "prod":
        return scatter_prod(input, dim, index, src)
    total = scatter_add(input, dim, index, src)
    if reduce == "sum":
        return total
    one = Tensor._wrap(namespace(input.array).ones_like(input.array))
    count = scatter_add(one if include_self else scatter(one, dim, index, 0), dim, index, src.new_ones(tuple(src.shape)))
    return total / count.clamp(min=1) if input.is_floating_point() else total.div(count.clamp(min=1), rounding_mode="floor")


@composite(method=True, in_place=True)
def index_fill(input: Tensor, dim: int, index: Tensor, value: Any) -> Tensor:
    """The input with a scalar or 0-d tensor written to the slices that a 1-d index gives along a dimension."""
    if isinstance(value, Tensor) and value.ndim:
        raise RuntimeError(f"index_fill_ only supports a 0-dimensional value tensor, but got tensor with {value.ndim} dimension(s).")
    if index.dtype is not dtypes.int64:
        raise IndexError(f"index_fill_(): Expected dtype int64 for index, but got {index.dtype.name}")
    if index.ndim > 1:
        raise RuntimeError(f"index_fill_(): Index has to be a vector/scalar, but got {index.ndim} dimensions")
    xp, d = namespace(input.array), wrap_dim(dim, input.ndim)
    chosen = xp.zeros((input.array.shape or (1,))[d], dtype=bool)
    look(chosen, (index.array,), "index_fill")
    chosen[index.array] = True
    mask = chosen.reshape((-1,) + (1,) * (input.ndim - d - 1)) if input.ndim else chosen[0]
    return masked_fill(input, Tensor._wrap(mask), value)


@composite(method=True)
def take_along_dim(input: Tensor, indices: Tensor, dim: int | None = None) -> Tensor:
    """`gather` with the other dimensions broadcast; without `dim`, from the flattened tensor."""
    if dim is None:
        return gather(reshape(input, (input.numel(),)), 0, reshape(indices, (indices.numel(),)))
    if indices.dtype is not dtypes.int64:
        raise RuntimeError(f"torch.take_along_dim(): dtype of indices should be Long but got {indices.dtype.name}")
    if input.ndim != indices.ndim:
        raise RuntimeError(f"torch.take_along_dim(): input and indices should have the same number of dimensions, but got {input.ndim} dimensions for input, and {indices.ndim} dimensions for indices")
    d = wrap_dim(dim, input.ndim)
    shape, places = list(input.shape), list(indices.shape)
    shape[d] = places[d] = 1
    both = list(broadcast_shapes(shape, places))
    wide = expand(input, (*both[:d], input.shape[d], *both[d + 1 :]))
    if indices.array.__class__ is Batched or indices.is_cuda or indices.numel() and known(indices.min() < 0):
        indices = indices + (indices < 0) * input.shape[d]
    return gather(wide, d, expand(indices, (*both[:d], indices.shape[d], *both[d + 1 :])))


@composite(method=True)
def take(input: Tensor, index: Tensor) -> Tensor:
    """Elements of the flattened tensor at the given indices, in the shape of `index`."""
    if index.dtype is not dtypes.int64:
        raise RuntimeError(f"take(): Expected a long tensor for index, but got {index.dtype.name}")
    flat = reshape(input, (input.numel(),))
    return flat[index] if index.ndim else clone(reshape(flat[reshape(index, (1,))], ()))


@composite(method=True, in_place=True)
def put(input: Tensor, index: Tensor, source: Tensor, accumulate: bool = False) -> Tensor:
    """The input with elements of `source` written, or added with `accumulate`, at indices into the flattened tensor."""
    if index.dtype is not dtypes.int64:
        raise RuntimeError(f"put_(): Expected a long tensor for index, but got {index.dtype.name}")
    if source.dtype is not input.dtype:
        raise RuntimeError(f"put_(): self and source expected to have the same dtype, but got {input.dtype.name} and {source.dtype.name}")
    if source.numel() != index.numel():
        raise IndexError(
            f"put_(): Expected source and index to have the same number of elements, but got {source.numel()} and {index.numel()}"
        )
    flat = index_put(reshape(input, (input.numel(),)), (reshape(index, tuple(source.shape)),), source, accumulate)
    return reshape(flat, tuple(input.shape))


for _name in ("scatter", "scatter_reduce", "put"):
    define(f"{_name}_", replacing(_name, functions[_name], scatters=True))


# -- masks -----------------------------------------------------------------------------------------------------------------------


class masked_fill(Op):
    """The input with a scalar or 0-d tensor where a mask is True."""
    inputs, exact, inplace, reads_first, row_major = ("input", "mask", "value"), True, True, True, True
    samples = (((2, 3), [[True, False, True], [False, True, True]], ()), ((2, 3), [True, False, True], ()))
    def forward(xp, input, mask, value): return xp.masked_fill(input, mask, value)
    def d_input(xp, g, mask): return xp.where(mask, 0, g)
    def d_value(xp, g, mask): return xp.where(mask, g, 0)


@composite(method=True)
def masked_select(input: Tensor, mask: Tensor) -> Tensor:
    """Elements where a mask is True, as a 1-d tensor."""
    if mask.dtype is not dtypes.bool_:
        raise RuntimeError("masked_select: expected BoolTensor for mask")
    shape = broadcast_shapes(tuple(input.shape), tuple(mask.shape))
    return expand(input, shape)[expand(mask, shape)] if shape else reshape(input, (1,))[reshape(mask, (1,))]


@composite(method=True, in_place=True)
def masked_scatter(input: Tensor, mask: Tensor, source: Tensor) -> Tensor:
    """The input with the elements of `source`, in order, where a mask is True."""
    if mask.dtype is not dtypes.bool_:
        raise RuntimeError(f"masked_scatter_ only supports boolean masks, but got mask with dtype {mask.dtype.name}")
    if source.dtype is not input.dtype:
        raise RuntimeError(f"masked_scatter: expected self and source to have same dtypes but got {input.dtype.name} and {source.dtype.name}")
    shape = broadcast_shapes(tuple(input.shape), tuple(mask.shape))
    where = numpy.broadcast_to(mask._steering(), shape).copy()
    n = int(where.sum())
    if source.numel() < n:
        raise RuntimeError(f"Number of elements of source < number of ones in mask: {source.numel()} < {n}")
    return index_put(expand(input, shape).contiguous(), (namespace(input.array).asarray(where),), reshape(source, (source.numel(),))[:n])


@composite(method=True)
def nonzero(input: Tensor, *, as_tuple: bool = False) -> Any:
    """Indices of the non-zero elements: one row for each, or with `as_tuple` one tensor for each dimension."""
    array = input.array
    places = namespace(array).nonzero(array if array.ndim or not as_tuple else array.reshape(1)) if array.ndim or as_tuple else None
    if as_tuple:
        return tuple(Tensor._wrap(namespace(array).ascontiguousarray(p)) for p in places)
    if places is None:
        return Tensor._wrap(namespace(array).zeros((int(bool(array)), 0), numpy.int64))
    return Tensor._wrap(namespace(array).stack(places).T)  # as in PyTorch, the indices of a dimension are adjacent in memory


@composite(method=True)
def argwhere(input: Tensor) -> Tensor:
    """Indices of the non-zero elements, one row for each."""
    return nonzero(input)
