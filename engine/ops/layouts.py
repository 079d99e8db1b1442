"""The way into sparse layouts: the op that multiplies, and the functions that make sparse tensors, which load `engine.sparse`."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from ..core.op import RULES_ONLY, Linear
from ..core.tensor import Tensor
from .front import front


class coo_matmul(Linear):
    """The product of a sparse matrix, with `values` at `indices` (2, n) and so many rows, and a dense matrix."""
    exempt = {**RULES_ONLY, "low_precision": "Sparse products of half precision are summed in it, element by element, as PyTorch's."}
    home, inputs, types = "", ("values", "other", "indices"), "any"
    examples = ((((4,), (3, 2), [[0, 1, 1, 0], [2, 0, 2, 2]]), {"rows": 2}),)
    def forward(xp, values, other, indices, rows): return xp.coo_matmul(values, other, indices, rows)
    def d_values(xp, g, other, indices): return xp.sum(g[indices[0]] * other[indices[1]], axis=-1)
    def d_other(xp, g, values, indices, shape): return xp.coo_matmul(values, g, xp.flip(indices, 0), shape[0])


def load_sparse() -> Any:
    """`engine.sparse`, loaded when the first sparse tensor is made."""
    return import_module("engine.sparse")


@front("sparse_coo_tensor", method=False)
def _sparse_coo_tensor(indices: Any = None, values: Any = None, size: Any = None, *, dtype: Any = None, device: Any = None,
                       pin_memory: bool = False, requires_grad: bool = False, check_invariants: bool | None = None,
                       is_coalesced: bool | None = None) -> Tensor:  # fmt: skip
    """A sparse tensor in coordinate form: `values` (n, *dense) at the columns of `indices` (k, n), zeros elsewhere.

    Without `size` it is just large enough; of a size alone it is empty. Equal places add up. RuntimeError for a place outside.
    `pin_memory` and `check_invariants` change nothing: places are always checked.
    """
    if values is None:
        return load_sparse().empty(indices if size is None else size, dtype, device, requires_grad)
    return load_sparse().coo(indices, values, size, dtype, device, requires_grad, is_coalesced)


@front("sparse_csr_tensor", method=False)
def _sparse_csr_tensor(crow_indices: Any, col_indices: Any, values: Any, size: Any = None, *, dtype: Any = None, device: Any = None,
                       pin_memory: bool = False, requires_grad: bool = False, check_invariants: bool | None = None) -> Tensor:  # fmt: skip
    """A sparse matrix in row form: the values of row i, at the columns `col_indices`, are those from crow_indices[i] to crow_indices[i + 1].

    `pin_memory` and `check_invariants` change nothing: the indices are always checked.
    """
    return load_sparse().csr(crow_indices, col_indices, values, size, dtype, device, requires_grad)


@front("to_sparse", "to_sparse_coo", function=False)
def _to_sparse(self: Tensor, sparse_dim: int | None = None, *, layout: Any = None, blocksize: Any = None, dense_dim: int | None = None) -> Tensor:
    """The tensor in coordinate form, its first `sparse_dim` dimensions indexed (by default all); with `layout` in that of rows."""
    return load_sparse().to_sparse(self, sparse_dim, layout, blocksize, dense_dim)


@front("to_sparse_csr", function=False)
def _to_sparse_csr(self: Tensor, dense_dim: int | None = None) -> Tensor:
    """The matrix in row form."""
    if dense_dim:
        raise NotImplementedError("to_sparse_csr: dense_dim is not supported, only matrices of numbers are")
    return load_sparse().to_csr(self)


@front("sparse_mask", function=False)
def _sparse_mask(self: Tensor, mask: Tensor) -> Tensor:
    """The elements at the places that the sparse tensor `mask` has."""
    return load_sparse().masked(self, mask)


@front("spmm", "smm", "hspmm", "dsmm", "hsmm")
def _spmm(input: Tensor, mat2: Tensor) -> Tensor:
    """The product of two matrices, the first of them sparse."""
    return input.mm(mat2)
