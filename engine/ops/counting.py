"""Counting and segments: multi-dimensional histograms, segment reductions, and non-zero indices of a fixed size."""

from __future__ import annotations

import math
from typing import Any

import numpy

from ..base import dtypes
from ..base.return_types import result_type
from ..core.devices import namespace
from ..core.op import composite, functions
from ..core.tensor import Tensor
from .scatter import scatter_reduce
from .shape import expand, reshape, wrap_dim
from .statistics import boxed, edges_fit, equal_edges

_Histogram = result_type("histogramdd", ("hist", "bin_edges"))


@composite(method=True)
def histogramdd(input: Tensor, bins: Any, range: Any = None, weight: Tensor | None = None, density: bool = False) -> Any:
    """Number of the points (*, D), or sum of their weights (*), in each box, and the bin edges of each dimension.

    `bins` is an int for all dimensions, a list of ints, or a list of tensors of edges; `range` holds the lowest and highest edge of each
    dimension in turn, by default those of the data. With `density` the integral is 1.
    """
    if not input.ndim and isinstance(bins, int):
        raise IndexError("Dimension specified as -1 but tensor has no dimensions")
    if input.ndim < 2:
        raise RuntimeError("torch.histogramdd: input tensor should have at least 2 dimensions")
    count = input.shape[-1]
    bins = [bins] * count if isinstance(bins, int) else list(bins)
    if len(bins) != count:
        raise RuntimeError(f"histogramdd(): The size of bins must be equal to the innermost dimension of the input, {count}, but got {len(bins)}")
    if range is not None and len(range) != 2 * count:
        raise RuntimeError(f"histogramdd(): for a {count}-dimensional histogram range should have {2 * count} elements, but got {len(range)}")
    for d, b in enumerate(bins):
        if isinstance(b, Tensor):
            edges_fit("histogramdd", input, b, d)
    if input.dtype.name not in ("float32", "float64"):
        raise NotImplementedError(f"histogramdd(): not implemented for {input.dtype.name!r}")
    if weight is not None and ((tuple(weight.shape) or (1,)) != tuple(input.shape[:-1]) or weight.dtype is not input.dtype):
        raise RuntimeError("histogramdd(): if weight tensor is provided it should have the input's dtype and its shape excluding the innermost dimension")
    x, w = input._host().reshape(-1, count), None if weight is None else weight._host().reshape(-1)
    edges = [_edges(x[:, d], b, None if range is None else range[2 * d : 2 * d + 2], d) for d, b in enumerate(bins)]
    hist = boxed(list(x.T), edges, w)
    if density:
        sizes = [numpy.diff(e).reshape([-1 if i == d else 1 for i in numpy.arange(count)]) for d, e in enumerate(edges)]
        hist = hist / hist.sum() / math.prod(sizes)
    xp = namespace(input.array)
    return _Histogram(Tensor._wrap(xp.asarray(hist)), tuple(Tensor._wrap(xp.asarray(e)) for e in edges))


def _edges(x: numpy.ndarray, bins: Any, limits: Any, dim: int) -> numpy.ndarray:
    """Edges of the bins of one dimension."""
    return bins._host() if isinstance(bins, Tensor) else equal_edges("histogramdd", x, bins, limits, dim)


@composite
def _convert_indices_from_coo_to_csr(input: Tensor, size: int, *, out_int32: bool = False) -> Tensor:
    """Starts of each of `size` rows among sorted row indices, followed by the number of indices."""
    starts = numpy.searchsorted(input._host(), numpy.arange(size + 1))
    return Tensor._wrap(namespace(input.array).asarray(starts.astype("int32" if out_int32 else "int64")))


@composite
def _convert_indices_from_csr_to_coo(crow_indices: Tensor, col_indices: Tensor, *, out_int32: bool = False, transpose: bool = False) -> Tensor:
    """Rows and columns of elements, from the starts of the rows and the columns; with `transpose`, columns first."""
    begins = crow_indices._host()
    rows = numpy.repeat(numpy.arange(len(begins) - 1), numpy.diff(begins))
    pair = (col_indices._host(), rows) if transpose else (rows, col_indices._host())
    return Tensor._wrap(namespace(col_indices.array).asarray(numpy.stack(pair).astype("int32" if out_int32 else "int64")))


@composite
def _shape_as_tensor(self: Tensor) -> Tensor:
    """Shape as a tensor of integers."""
    return Tensor._wrap(numpy.array(self.shape, numpy.int64))


@composite(method=True)
def hash_tensor(input: Tensor, dim: Any = (), *, keepdim: bool = False, mode: int = 0) -> Tensor:
    """Exclusive or of the bits of all elements, or along `dim`, as uint64; floats are read as float64, integers as int64."""
    if mode:
        raise RuntimeError(f"Unknown hash_tensor mode: {mode}")
    if input.dtype.is_complex:
        raise NotImplementedError(f"hash_tensor(): not implemented for {input.dtype.name!r}")
    if not input.numel() and dim in ((), []):
        raise RuntimeError("hash_tensor: Expected reduction dim to be specified for input.numel() == 0. Specify the reduction dim with the 'dim' argument.")
    dims = tuple(wrap_dim(d, input.ndim) for d in (dim if isinstance(dim, (tuple, list)) else (dim,))) or tuple(numpy.arange(input.ndim))
    dims = dims if input.ndim else ()
    if input.is_meta:
        return input.new_empty([1 if d in dims else n for d, n in enumerate(input.shape) if keepdim or d not in dims], dtype=dtypes.uint64)
    bits = input._host().astype("float64" if input.dtype.is_floating_point else "int64").view("uint64")
    return Tensor._wrap(namespace(input.array).asarray(numpy.bitwise_xor.reduce(bits, axis=dims, keepdims=keepdim)))


@composite(method=True)
def nonzero_static(input: Tensor, *, size: int, fill_value: int = -1) -> Tensor:
    """Indices of the first `size` non-zero elements, as rows, padded with rows of `fill_value`."""
    if size < 0:
        raise RuntimeError("nonzero_static: 'size' must be an non-negative integer")
    if input.is_meta:
        return input.new_empty((input.ndim, size), dtype=dtypes.int64).t()
    found = functions["nonzero"](input)[:size]
    return functions["cat"]([found, found.new_full((size - found.shape[0], input.ndim), fill_value)]).contiguous()


_EMPTY = {"sum": 0.0, "mean": 0.0, "max": -math.inf, "min": math.inf, "prod": 1.0}
_SCATTERED = {"sum": "sum", "mean": "sum", "max": "amax", "min": "amin", "prod": "prod"}


@composite
def segment_reduce(
    data: Tensor, reduce: str, *, lengths: Tensor | None = None, indices: Tensor | None = None, offsets: Tensor | None = None,
    axis: int = 0, unsafe: bool = False, initial: float | None = None,
) -> Tensor:
    """Sum, mean, max, min or prod of consecutive segments of `data` along `axis`, with the given `lengths` or bounds (`offsets`).

    `initial` is included in every segment and is the result of an empty one, the mean of which is otherwise nan. `axis` must be the last
    dimension of `lengths`; `unsafe` skips the check that they add up.
    """
    if reduce not in _EMPTY:
        raise RuntimeError(f"Unsupported reduction given! Expected one of sum, mean, max, min, prod, but got {reduce}")
    if indices is not None:
        raise RuntimeError("segment_reduce(): indices based reduction is not supported yet.")
    if (lengths is None) == (offsets is None):
        raise RuntimeError("segment_reduce(): Either lengths or offsets must be defined.")
    given = lengths if offsets is None else offsets
    assert given is not None
    if not 1 <= given.ndim <= data.ndim:
        raise RuntimeError(f"segment_reduce(): Expected lengths of at least one and no more dimensions than the {data.ndim} of data, but got {given.ndim}")
    axis = wrap_dim(axis, data.ndim)
    if axis != given.ndim - 1:
        raise RuntimeError("segment_reduce(): Expected axis to be the last dimension of lengths.")
    sizes = given._host() if offsets is None else numpy.diff(given._host(), axis=-1)
    if not unsafe and ((sizes < 0).any() or offsets is None and (sizes.sum(-1) != data.shape[axis]).any()):
        raise RuntimeError("segment_reduce(): Expected all rows of lengths along axis to sum to data.size(lengths.dim()-1) when !unsafe.")
    if offsets is not None and not unsafe and (given._host()[..., -1] != data.shape[axis]).any():
        raise RuntimeError("segment_reduce(): Expected offsets to end at data.size(axis) when !unsafe.")
    lead, rest, n = tuple(data.shape[:axis]), tuple(data.shape[axis + 1 :]), sizes.shape[-1]
    starts = given._host()[..., 0].reshape(-1) if offsets is not None else numpy.zeros(math.prod(lead), numpy.int64)
    rows, flat = math.prod(lead), sizes.reshape(-1, n)
    xp = namespace(data.array)
    places = numpy.concatenate([numpy.arange(start, start + row.sum()) + i * data.shape[axis] for i, (row, start) in enumerate(zip(flat, starts, strict=True))])
    segments = numpy.repeat(numpy.arange(rows * n), flat.reshape(-1))
    items = reshape(data, (rows * data.shape[axis], *rest))[Tensor._wrap(xp.asarray(places))]
    index = expand(reshape(Tensor._wrap(xp.asarray(segments)), (-1, *[1] * len(rest))), tuple(items.shape))
    out = data.new_full((rows * n, *rest), _EMPTY[reduce] if initial is None else initial)
    out = scatter_reduce(out, 0, index, items, _SCATTERED[reduce])
    if reduce == "mean":
        count = Tensor._wrap(xp.asarray(flat.reshape(-1, *[1] * len(rest)).astype(data.array.dtype)))
        divided = out / count
        out = divided if initial is None else functions["where"](count > 0, divided, out)
    return reshape(out, (*lead, n, *rest))


functions["_segment_reduce"] = segment_reduce
