"""Op implementations for sparse operands: ops on the values, with the indices adjusted."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy

from ..backends.coo import Coo
from ..base import dtypes
from ..core.devices import namespace
from ..core.op import functions
from ..core.tensor import Tensor
from ..ops.linalg import coo_matmul
from .tensor import SparseTensor

_TABLE: dict[str, Callable] = {}
# ops that map 0 to 0 are applied to the coalesced values
_KEEPS_ZERO = {
    "abs", "neg", "sgn", "sign", "relu", "sqrt", "square", "sin", "tan", "sinh", "tanh", "asin", "atan", "asinh", "atanh", "expm1",
    "log1p", "ceil", "floor", "round", "trunc", "frac", "erf", "erfinv", "deg2rad", "rad2deg", "conj", "isnan", "isinf", "isposinf",
    "isneginf", "real", "imag", "angle", "leaky_relu", "hardtanh", "relu6", "nan_to_num",
}  # fmt: skip
_MOVES = frozenset(("to_dtype", "to_device", "clone", "masked_scale"))  # applied to the values without coalescing


def run(op: Any, inputs: tuple, attrs: dict) -> Any:
    """Run an op with at least one sparse operand. Raises NotImplementedError, as PyTorch words it, if the op is not supported."""
    first = next(x for x in inputs if isinstance(x, SparseTensor))
    if op.name in _TABLE:
        return _TABLE[op.name](*inputs, **attrs) if not op.variadic else _TABLE[op.name](list(inputs), **attrs)
    if op.name in _KEEPS_ZERO:
        x = first.coalesce()
        return x._like_values(op.call(x._values(), **attrs))
    if op.name in _MOVES:
        out = first._like_values(op.call(first._values(), *inputs[1:], **attrs))
        if op.name == "to_device":
            out._places = out._places.to(out._values().device)
        return out
    layout = "SparseCsrCPU" if first.is_sparse_csr else "SparseCPU"
    raise NotImplementedError(
        f"Could not run 'aten::{op.name}' with arguments from the '{layout}' backend. Sparse tensors do not know this operation; "
        "use to_dense() first."
    )


def rule(*names: str) -> Callable:
    def add(fn: Callable) -> Callable:
        _TABLE.update(dict.fromkeys(names, fn))
        return fn

    return add


def coordinates(x: SparseTensor) -> SparseTensor:
    """Return the tensor in coordinate layout."""
    return SparseTensor(x._indices(), x._values(), x.shape, x.is_coalesced()) if x.is_sparse_csr else x


def _places(array: Any) -> Tensor:
    return Tensor._wrap(array)


def _at(x: Tensor, mask: SparseTensor) -> Tensor:
    """Return the elements of a dense tensor at the indices of a sparse one."""
    return x[tuple(mask._indices())]


# -- sums, elementwise products and quotients ----------------------------------------------------------------------------------------


@rule("add")
def _add(a: Any, b: Any) -> Any:
    if not isinstance(a, SparseTensor):
        return _onto(a, b)
    if not isinstance(b, SparseTensor):
        raise RuntimeError("add(sparse, dense) is not supported. Use add(dense, sparse) instead.")
    _same_shape("add", a, b)
    want = dtypes.promote(a.dtype, b.dtype)
    places = functions["cat"]([a._indices(), b._indices()], 1)
    out = SparseTensor(places, functions["cat"]([a._values().to(want), b._values().to(want)]), a.shape)
    out = out.coalesce() if a.is_coalesced() and b.is_coalesced() else out
    return SparseTensor(out._indices(), out._values(), a.shape, True, True) if a.is_sparse_csr and b.is_sparse_csr else out


def _onto(a: Any, b: SparseTensor) -> Tensor:
    if not isinstance(a, Tensor) or tuple(a.shape) != tuple(b.shape):
        raise RuntimeError(
            f"add: expected 'self' and 'other' to have same size, but got {list(getattr(a, 'shape', ()))} and {list(b.shape)}"
        )
    want = dtypes.promote(a.dtype, b.dtype)
    return a.to(want).contiguous().index_put(tuple(b._indices()), b._values().to(want), accumulate=True)


@rule("sub")
def _sub(a: Any, b: Any) -> Any:
    if isinstance(a, SparseTensor) and not isinstance(b, SparseTensor):
        raise RuntimeError("sub(sparse, dense) is not supported. Use to_dense() first.")
    return _add(a, -b)


def _same_shape(name: str, a: Tensor, b: Tensor) -> None:
    if tuple(a.shape) != tuple(b.shape):
        raise RuntimeError(f"{name}: expected operands of one size, but got {list(a.shape)} and {list(b.shape)}")


@rule("mul")
def _mul(a: Any, b: Any) -> Any:
    if not isinstance(a, SparseTensor):
        a, b = b, a
    if isinstance(b, SparseTensor):
        return _intersected(a.coalesce(), b.coalesce())
    if not isinstance(b, Tensor) or b.ndim == 0:
        return a._like_values(a._values() * b)
    if tuple(functions["broadcast_shapes"](tuple(a.shape), tuple(b.shape))) != tuple(a.shape):
        raise RuntimeError(f"mul(sparse, dense): the dense operand of shape {list(b.shape)} must broadcast to {list(a.shape)}")
    return a._like_values(a._values() * _at(b.expand(tuple(a.shape)), a))


def _intersected(a: SparseTensor, b: SparseTensor) -> SparseTensor:
    _same_shape("mul", a, b)
    lead = tuple(a.shape[: a.sparse_dim()])
    flat = [numpy.ravel_multi_index(tuple(x._indices()._host()), lead) for x in (a, b)]
    _, i, j = numpy.intersect1d(*flat, assume_unique=True, return_indices=True)
    xp = namespace(a._values().array)
    i, j = (_places(xp.asarray(k)) for k in (i, j))
    return SparseTensor(a._indices()[:, i], a._values()[i] * b._values()[j], a.shape, True, a.is_sparse_csr and b.is_sparse_csr)


def _divided(a: Any, b: Any, rounding: str | None) -> Any:
    if not isinstance(a, SparseTensor) or isinstance(b, SparseTensor) or isinstance(b, Tensor) and b.ndim:
        raise RuntimeError(
            f"Sparse division requires a scalar or zero-dim dense tensor divisor (got shape {list(getattr(b, 'shape', ()))} for divisor)"
        )
    a = a.coalesce()
    return a._like_values(functions["div"](a._values(), b, rounding_mode=rounding))


for _name, _rounding in (("div", None), ("floor_divide", "floor"), ("trunc_divide", "trunc")):
    rule(_name)(functools.partial(_divided, rounding=_rounding))


@rule("pow")
def _pow(a: Any, b: Any) -> Any:
    if not isinstance(a, SparseTensor) or isinstance(b, Tensor) or b <= 0:
        raise NotImplementedError("pow of a sparse tensor is for positive numbers as exponents: otherwise all its zeros would change")
    a = a.coalesce()
    return a._like_values(a._values() ** b)


# -- matrix products -------------------------------------------------------------------------------------------------------------


@rule("matmul")
def _matmul(a: Any, b: Any) -> Any:
    if a.dtype is not b.dtype:
        raise RuntimeError(f"expected scalar type {a.dtype.name} but found {b.dtype.name}")
    if isinstance(a, SparseTensor) and isinstance(b, SparseTensor):
        return _sparse_product(a, b)
    if not isinstance(a, SparseTensor):
        if a.ndim == 1:
            return _matmul(_permute(b, (1, 0)), a)
        return _matmul(_permute(b, (1, 0)), a.mT).mT
    if a.ndim != 2 or a.dense_dim() or b.ndim not in (1, 2):
        raise RuntimeError(f"sparse matmul: expected a sparse matrix and a dense matrix or vector, but got {a.ndim}D and {b.ndim}D tensors")
    if a.shape[1] != b.shape[0]:
        shapes = f"{a.shape[0]}x{a.shape[1]} and {'x'.join(map(str, b.shape))}"
        raise RuntimeError(f"mat1 and mat2 shapes cannot be multiplied ({shapes}): the inner sizes must agree")
    out = coo_matmul(a._values(), b if b.ndim == 2 else b[:, None], a._indices(), rows=a.shape[0])
    return out if b.ndim == 2 else out[:, 0]


def _sparse_product(a: SparseTensor, b: SparseTensor) -> SparseTensor:
    """Multiply each value of `a` by all values in the row of `b` given by its column."""
    if a.ndim != 2 or b.ndim != 2 or a.shape[1] != b.shape[0]:
        raise RuntimeError(f"mat1 and mat2 shapes cannot be multiplied ({'x'.join(map(str, a.shape))} and {'x'.join(map(str, b.shape))})")
    rows, a, b = a.is_sparse_csr and b.is_sparse_csr, a.coalesce(), b.coalesce()
    (ra, ca), (rb, cb) = a._indices()._host(), b._indices()._host()
    first, many = numpy.searchsorted(rb, ca), numpy.bincount(rb, minlength=b.shape[0])[ca]
    i = numpy.repeat(numpy.arange(len(ca)), many)
    j = numpy.arange(len(i)) - numpy.repeat(numpy.cumsum(many) - many, many) + numpy.repeat(first, many)
    xp = namespace(a._values().array)
    places = _places(xp.asarray(numpy.stack([ra[i], cb[j]])))
    i, j = (_places(xp.asarray(k)) for k in (i, j))
    out = SparseTensor(places, a._values()[i] * b._values()[j], (a.shape[0], b.shape[1])).coalesce()
    return SparseTensor(out._indices(), out._values(), out.shape, True, rows)


# -- shapes ----------------------------------------------------------------------------------------------------------------------


@rule("permute")
def _permute(x: SparseTensor, dims: Any) -> SparseTensor:
    x, k = coordinates(x), x.sparse_dim()
    dims = tuple(d % x.ndim for d in dims)
    if sorted(dims[:k]) != list(range(k)):
        raise RuntimeError("sparse dimensions and dense ones cannot be exchanged by permute or transpose")
    values = x._values() if dims[k:] == tuple(range(k, x.ndim)) else x._values().permute((0, *(d - k + 1 for d in dims[k:])))
    return SparseTensor(x._indices()[list(dims[:k])], values, [x.shape[d] for d in dims], dims == tuple(range(x.ndim)) and x.is_coalesced())


@rule("transpose")
def _transpose(x: SparseTensor, dim0: int, dim1: int) -> SparseTensor:
    dims = list(range(x.ndim))
    dims[dim0], dims[dim1] = dims[dim1], dims[dim0]
    return _permute(x, dims)


@rule("unsqueeze")
def _unsqueeze(x: SparseTensor, dim: int) -> SparseTensor:
    x = coordinates(x)
    d, k = dim % (x.ndim + 1), x.sparse_dim()
    size = [*x.shape[:d], 1, *x.shape[d:]]
    if d > k:
        return SparseTensor(x._indices(), x._values().unsqueeze(d - k + 1), size, x.is_coalesced())
    places = functions["cat"]([x._indices()[:d], x._indices().new_zeros((1, x._nnz())), x._indices()[d:]])
    return SparseTensor(places, x._values(), size, x.is_coalesced())


def _getitem(x: SparseTensor, index: Any) -> Any:
    index = index if isinstance(index, tuple) else (index,)
    if not all(isinstance(i, int) and not isinstance(i, bool) or i == slice(None) for i in index):
        raise NotImplementedError("sparse tensors are indexed by integers and whole slices only; use index_select, or to_dense() first")
    out: Any = coordinates(x)
    dim = 0
    for i in index:
        if isinstance(i, int):
            out = _select(out, dim, i) if isinstance(out, SparseTensor) else out[(slice(None),) * dim + (i,)]
        else:
            dim += 1
    return out


def _select(x: SparseTensor, dim: int, i: int) -> Any:
    n, k = x.shape[dim] if dim < x.ndim else 0, x.sparse_dim()
    if dim >= x.ndim or not -n <= i < n:
        raise IndexError(f"select(): index {i} out of range for tensor of size {list(x.shape)} at dimension {dim}")
    size = [*x.shape[:dim], *x.shape[dim + 1 :]]
    if dim >= k:
        return SparseTensor(x._indices(), x._values()[(slice(None),) * (dim - k + 1) + (i,)], size, x.is_coalesced())
    x = x.coalesce()
    kept = Tensor._wrap(namespace(x._places.array).nonzero(x._places.array[dim] == i % n)[0])
    values = x._values()[kept]
    if k == 1:
        return values.sum(0)
    others = [d for d in range(k) if d != dim]
    return SparseTensor(x._indices()[others][:, kept], values, size, True)


@rule("index_select")
def _index_select(x: SparseTensor, index: Tensor, dim: int) -> SparseTensor:
    x = coordinates(x).coalesce()
    d, wanted = dim % x.ndim, index._host()
    size = [*x.shape[:d], len(wanted), *x.shape[d + 1 :]]
    if d >= x.sparse_dim():
        return SparseTensor(x._indices(), x._values().index_select(d - x.sparse_dim() + 1, index), size, True)
    if wanted.size and (wanted.min() < 0 or wanted.max() >= x.shape[d]):
        raise IndexError(f"index_select(): index out of range for a dimension of size {x.shape[d]}")
    there = x._indices()._host()[d]
    new, old = numpy.nonzero(wanted[:, None] == there)
    xp = namespace(x._values().array)
    old, new = _places(xp.asarray(old)), _places(xp.asarray(new))
    places = x._indices()[:, old]
    places[d] = new
    return SparseTensor(places, x._values()[old], size)


@rule("cat")
def _cat(tensors: list, dim: int = 0) -> SparseTensor:
    if not all(isinstance(x, SparseTensor) for x in tensors):
        raise RuntimeError("Concatenating sparse tensors, but a dense tensor was found among them")
    tensors = [coordinates(x) for x in tensors]
    first, d, start, places = tensors[0], dim % tensors[0].ndim, 0, []
    if d >= first.sparse_dim():
        raise NotImplementedError("cat of sparse tensors is for dimensions that are indexed")
    for x in tensors:
        if x.ndim != first.ndim or any(a != b for i, (a, b) in enumerate(zip(x.shape, first.shape, strict=True)) if i != d):
            raise RuntimeError(f"Sizes of tensors must match except in dimension {d}: got {list(first.shape)} and {list(x.shape)}")
        moved = x._indices().clone()
        moved[d] += start
        places.append(moved)
        start += x.shape[d]
    size = [start if i == d else n for i, n in enumerate(first.shape)]
    return SparseTensor(functions["cat"](places, 1), functions["cat"]([x._values() for x in tensors]), size)


@rule("stack")
def _stack(tensors: list, dim: int = 0) -> SparseTensor:
    return _cat([_unsqueeze(x, dim) for x in tensors], dim % (tensors[0].ndim + 1))


# -- reductions ------------------------------------------------------------------------------------------------------------------


@rule("sum")
def sum_(x: SparseTensor, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    """Sum over `dim`; the result is sparse unless all sparse dimensions are summed."""
    dims = range(x.ndim) if dim is None else (dim,) if isinstance(dim, int) else dim
    dims, k, x = {d % x.ndim for d in dims}, x.sparse_dim(), coordinates(x)
    values = x._values() if dtype is None else x._values().to(dtype)
    dense = tuple(d - k + 1 for d in dims if d >= k)
    values = values.sum(dense) if dense else values
    left = [d for d in range(k) if d not in dims]
    if not left:
        out = values.sum(0)
        return out.reshape([1 if d in dims else n for d, n in enumerate(x.shape)]) if keepdim and dim is not None else out
    out = SparseTensor(x._indices()[left], values, [n for d, n in enumerate(x.shape) if d not in dims])
    out = out.coalesce()
    if keepdim:
        for d in sorted(dims):
            out = _unsqueeze(out, d)
    return out


@rule("vector_norm")
def _norm(x: SparseTensor, ord: Any = 2, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    if dim is not None or keepdim or ord <= 0:
        raise NotImplementedError("the norm of a sparse tensor is over all elements, of a positive order; use to_dense() first")
    return functions["linalg.vector_norm"](x.coalesce()._values(), ord, dtype=dtype)


@rule("any")
def _any(x: SparseTensor, dim: Any = None, keepdim: bool = False) -> Tensor:
    if dim is not None:
        raise NotImplementedError("any of a sparse tensor is over all elements; use to_dense() first")
    return x.coalesce()._values().any()


def softmax(x: SparseTensor, dim: int, log: bool) -> SparseTensor:
    """Softmax over the specified elements; the others count as minus infinity."""
    x = coordinates(x).coalesce()
    d, k, values = dim % x.ndim, x.sparse_dim(), x._values()
    if d >= k:
        return x._like_values((functions["log_softmax"] if log else functions["softmax"])(values, d - k + 1))
    lead = [n for i, n in enumerate(x.shape[:k]) if i != d]
    others = tuple(x._indices()._host()[[i for i in range(k) if i != d]])
    group = numpy.ravel_multi_index(others, lead) if lead else numpy.zeros(x._nnz(), numpy.int64)
    found, inverse = numpy.unique(group, return_inverse=True)
    index = _places(namespace(values.array).asarray(inverse.reshape(-1)))
    wide = index.reshape((-1, *[1] * (values.ndim - 1))).expand(tuple(values.shape))
    empty = values.detach().new_full((len(found), *values.shape[1:]), -math.inf)
    top = empty.scatter_reduce(0, wide, values.detach(), "amax")
    apart = values - top[index]
    total = values.new_zeros(tuple(empty.shape)).index_add(0, index, apart.exp())[index]
    return x._like_values(apart - total.log() if log else apart.exp() / total)


@rule("softmax")
def _softmax(x: SparseTensor, dim: int, dtype: Any = None) -> SparseTensor:
    return softmax(x if dtype is None else x.to(dtype), dim, False)


@rule("log_softmax")
def _log_softmax(x: SparseTensor, dim: int, dtype: Any = None) -> SparseTensor:
    return softmax(x if dtype is None else x.to(dtype), dim, True)


SparseTensor.__getitem__ = _getitem  # type: ignore[method-assign]


def tensor_of(array: Coo) -> SparseTensor:
    """Wrap a `Coo` array, such as a gradient, in a sparse tensor."""
    return SparseTensor(Tensor._wrap(array.indices), Tensor._wrap(array.values), array.shape)


Coo.run, Coo.tensor = staticmethod(run), staticmethod(tensor_of)
