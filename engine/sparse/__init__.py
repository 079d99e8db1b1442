"""`engine.sparse`: sparse tensors in coordinate (COO) and compressed row (CSR) layout, under PyTorch's names."""

from __future__ import annotations

from typing import Any

import numpy

from ..base import dtypes
from ..base.layout import LAYOUTS, layout
from ..core import devices
from ..core.devices import namespace
from ..core.from_lists import to_array
from ..core.tensor import Tensor
from . import dispatch
from .tensor import SparseTensor

__all__ = ["SparseTensor", "addmm", "log_softmax", "mm", "sampled_addmm", "softmax", "spdiags", "sum"]


# -- making them -----------------------------------------------------------------------------------------------------------------


def _parts(values: Any, dtype: Any, device: Any, *indices: Any) -> tuple[Tensor, ...]:
    """Return the values as a tensor of `dtype` and the indices as int64 on its device; values stay in the autograd graph."""
    if isinstance(values, Tensor):
        values = values.to(dtype=dtype, device=device).clone() if dtype or device else values.clone()
    else:
        values = Tensor._wrap(to_array(values, dtype, devices.default if device is None else device))
    xp = namespace(values.array)
    return (values, *(Tensor._wrap(xp.asarray(to_array(i, dtypes.int64))) for i in indices))


def coo(indices: Any, values: Any, size: Any, dtype: Any, device: Any, requires_grad: bool, coalesced: bool | None) -> SparseTensor:
    """Implement `sparse_coo_tensor`."""
    values, indices = _parts(values, dtype, device, indices)
    if indices.ndim == 1 and not indices.numel():
        indices = indices.reshape((1, 0))
    if indices.ndim != 2:
        raise RuntimeError(f"indices must be sparse_dim x nnz, but got: {list(indices.shape)}")
    values = values if values.ndim else values.reshape(1)
    k, nnz = indices.shape
    if nnz != values.shape[0]:
        raise RuntimeError(f"indices and values must have same nnz, but got nnz from indices: {nnz}, nnz from values: {values.shape[0]}")
    host = indices._host()
    if size is None:
        if nnz == 0 and k:
            size = [0] * k
        else:
            size = (host.max(1) + 1).tolist() if k else []
        size = [*size, *values.shape[1:]]
    size = [int(n) for n in size]
    if len(size) != k + values.ndim - 1:
        raise RuntimeError(f"number of dimensions must be sparse_dim ({k}) + dense_dim ({values.ndim - 1}), but got {len(size)}")
    if tuple(size[k:]) != tuple(values.shape[1:]):
        raise RuntimeError(f"values has incorrect size, expected {[nnz, *size[k:]]}, got {list(values.shape)}")
    for d in range(k if nnz else 0):
        if host[d].min() < 0:
            raise RuntimeError(f"found negative index {host[d].min()} for dim {d}")
        if host[d].max() >= size[d]:
            raise RuntimeError(f"size is inconsistent with indices: for dim {d}, size is {size[d]} but found index {host[d].max()}")
    out = SparseTensor(indices, values, size, bool(coalesced) or nnz == 0)
    return out.requires_grad_() if requires_grad else out


def empty(size: Any, dtype: Any, device: Any, requires_grad: bool) -> SparseTensor:
    """Return a sparse tensor of zeros."""
    values = Tensor._wrap(to_array([], dtype or dtypes.default, devices.default if device is None else device))
    out = SparseTensor(Tensor._wrap(namespace(values.array).zeros((len(size), 0), numpy.int64)), values, tuple(size), True)
    return out.requires_grad_() if requires_grad else out


def csr(crow: Any, col: Any, values: Any, size: Any, dtype: Any, device: Any, requires_grad: bool) -> SparseTensor:
    """Implement `sparse_csr_tensor`."""
    values, crow, col = _parts(values, dtype, device, crow, col)
    starts, columns = crow._host(), col._host()
    if crow.ndim != 1 or col.ndim != 1 or values.ndim != 1:
        raise NotImplementedError("sparse_csr_tensor: only matrices of numbers are supported, without batches or dense dimensions")
    if col.shape[0] != values.shape[0] or not starts.size or starts[0] != 0 or starts[-1] != len(columns) or (numpy.diff(starts) < 0).any():
        raise RuntimeError(
            "sparse_csr_tensor: crow_indices must start at 0, not decrease and end at the number of col_indices and of values"
        )
    size = (len(starts) - 1, int(columns.max(initial=-1)) + 1) if size is None else tuple(size)
    if len(size) != 2 or size[0] != len(starts) - 1 or columns.size and (columns.min() < 0 or columns.max() >= size[1]):
        raise RuntimeError(f"sparse_csr_tensor: the indices do not fit into a matrix of size {list(size)}")
    rows = numpy.repeat(numpy.arange(size[0]), numpy.diff(starts))
    places = Tensor._wrap(namespace(values.array).asarray(numpy.stack([rows, columns])))
    out = SparseTensor(places, values, size, True, True)
    return out.requires_grad_() if requires_grad else out


def to_sparse(x: Tensor, sparse_dim: int | None, to: layout | None, blocksize: Any, dense_dim: int | None) -> Tensor:
    """Implement `Tensor.to_sparse`."""
    if to not in (None, LAYOUTS["sparse_coo"], LAYOUTS["sparse_csr"]) or blocksize is not None or dense_dim:
        raise NotImplementedError("to_sparse: the layouts are torch.sparse_coo and torch.sparse_csr, without blocks or dense dimensions")
    if to is LAYOUTS["sparse_csr"]:
        return to_csr(x)
    if isinstance(x, SparseTensor):
        return dispatch.coordinates(x)
    k = x.ndim if sparse_dim is None else sparse_dim
    if not 0 <= k <= x.ndim or k == 0 and x.ndim:
        raise RuntimeError(f"to_sparse: sparse_dim must be in 1..{x.ndim} for a tensor of {x.ndim} dimensions, but got {k}")
    xp, array = namespace(x.array), x.array
    there = array != 0
    places = Tensor._wrap(
        xp.stack(xp.nonzero(there.any(tuple(range(k, x.ndim))) if k < x.ndim else there)) if k else xp.zeros((0, 1), numpy.int64)
    )
    return SparseTensor(places, x[tuple(places)] if k else x.reshape(1), x.shape, True)


def to_csr(x: Tensor) -> SparseTensor:
    """Implement `Tensor.to_sparse_csr`."""
    if x.ndim != 2:
        raise NotImplementedError(f"to_sparse_csr: only matrices are supported, without batches, but got a tensor of {x.ndim} dimensions")
    found = x.coalesce() if isinstance(x, SparseTensor) else to_sparse(x, None, None, None, None)
    assert isinstance(found, SparseTensor)
    return SparseTensor(found._indices(), found._values(), found.shape, True, True)


def masked(x: Tensor, mask: Any) -> SparseTensor:
    """Implement `Tensor.sparse_mask`."""
    if not isinstance(mask, SparseTensor):
        raise RuntimeError("sparse_mask(): the mask must be a sparse tensor")
    if tuple(x.shape) != tuple(mask.shape):
        raise RuntimeError(
            f"sparse_mask(): operands have incompatible sizes; self has size {list(x.shape)} but mask has size {list(mask.shape)}"
        )
    return mask._like_values((x.to_dense() if isinstance(x, SparseTensor) else x)[tuple(mask._indices())])


def _legacy(name: str, dtype: dtypes.dtype) -> None:
    def make(*args: Any) -> SparseTensor:
        if len(args) >= 2 and isinstance(args[0], Tensor):
            return coo(args[0], args[1].to(dtype), args[2] if len(args) > 2 else None, None, None, False, None)
        return empty(args[0] if len(args) == 1 and not isinstance(args[0], int) else args, dtype, None, False)

    make.__name__ = make.__qualname__ = name
    make.__doc__ = f"The old form of `sparse_coo_tensor` in {dtype.name}: (indices, values, size), or a size alone."
    globals()[name] = make


for _name, _dtype in {
    "FloatTensor": dtypes.float32, "DoubleTensor": dtypes.float64, "HalfTensor": dtypes.float16, "BFloat16Tensor": dtypes.bfloat16,
    "LongTensor": dtypes.int64, "IntTensor": dtypes.int32, "ShortTensor": dtypes.int16, "CharTensor": dtypes.int8,
    "ByteTensor": dtypes.uint8,
}.items():  # fmt: skip
    _legacy(_name, _dtype)


# -- functions -------------------------------------------------------------------------------------------------------------------


def mm(mat1: Tensor, mat2: Tensor, reduce: str | None = None) -> Tensor:
    """Matrix product with at least one sparse operand; sparse if both are, else dense. Differentiable in both."""
    if reduce not in (None, "sum"):
        raise NotImplementedError(f"sparse.mm: the reduction {reduce!r} is not supported, products are summed")
    return mat1.mm(mat2)


def addmm(input: Tensor, mat1: Tensor, mat2: Tensor, *, beta: float = 1.0, alpha: float = 1.0) -> Tensor:
    """`beta * input + alpha * (mat1 @ mat2)` for a sparse `mat1`."""
    return beta * input + alpha * mat1.mm(mat2)


def sum(input: SparseTensor, dim: Any = None, dtype: Any = None) -> Tensor:
    """Sum over `dim`, or over all dimensions; the result is sparse unless all sparse dimensions are summed."""
    return dispatch.sum_(input, dim, dtype=dtype)


def softmax(input: SparseTensor, dim: int, *, dtype: Any = None) -> SparseTensor:
    """Softmax over the specified elements; the others count as minus infinity."""
    return dispatch.softmax(input if dtype is None else input.to(dtype), dim, False)


def log_softmax(input: SparseTensor, dim: int, *, dtype: Any = None) -> SparseTensor:
    """Logarithm of `softmax`."""
    return dispatch.softmax(input if dtype is None else input.to(dtype), dim, True)


def sampled_addmm(input: SparseTensor, mat1: Tensor, mat2: Tensor, *, beta: float = 1.0, alpha: float = 1.0) -> SparseTensor:
    """`beta * input + alpha * (mat1 @ mat2)`, evaluated only at the indices of `input`."""
    rows, columns = input._indices()
    product = (mat1[rows] * mat2.mT[columns]).sum(-1)
    return input._like_values(beta * input._values() + alpha * product)


def spdiags(diagonals: Tensor, offsets: Tensor, shape: Any, layout: Any = None) -> SparseTensor:
    """Return a sparse matrix with the rows of `diagonals` on the diagonals `offsets`; element j of a row goes to column j."""
    rows = diagonals if diagonals.ndim == 2 else diagonals[None]
    numbers = offsets._host().reshape(-1)
    if len(numbers) != rows.shape[0] or len(set(numbers.tolist())) != len(numbers):
        raise RuntimeError("spdiags(): offsets must be distinct, and as many as there are diagonals")
    which, column = numpy.indices(tuple(rows.shape)).reshape(2, -1)
    row = column - numbers[which]
    kept = (row >= 0) & (row < shape[0]) & (column < shape[1])
    xp = namespace(rows.array)
    places = Tensor._wrap(xp.asarray(numpy.stack([row[kept], column[kept]])))
    out = SparseTensor(places, rows[tuple(Tensor._wrap(xp.asarray(a[kept])) for a in (which, column))], tuple(shape))
    return to_csr(out) if layout is LAYOUTS["sparse_csr"] else out
