"""Methods and functions whose work is done in a package that is imported at their first call, so that `import engine` stays quick."""

from __future__ import annotations

import sys
from typing import Any

from .backends.coo import Coo
from .core.tensor import Tensor, define
from .ops.front import front


def share_memory_(self: Tensor) -> Tensor:
    """Move the memory, in place, to where other processes see it too; queues, pipes and `multiprocessing.spawn` then pass it on."""
    from .multiprocessing.memory import share_

    return share_(self)


def is_shared(self: Tensor) -> bool:
    """Whether the memory is shared with other processes, or could be: always so on a GPU."""
    from .multiprocessing.memory import is_shared

    return is_shared(self)


def __array_namespace__(self: Tensor, *, api_version: str | None = None) -> Any:
    """The functions of the array API standard on tensors: see `engine.array_api`."""
    array_api = sys.modules[__name__.partition(".")[0]].array_api  # which the package imports when it is first asked for
    if api_version is not None and api_version not in array_api.VERSIONS:
        raise ValueError(f"the array API standard is here in the versions {', '.join(array_api.VERSIONS)}, not {api_version!r}")
    return array_api


for _method in (share_memory_, is_shared, __array_namespace__):
    define(_method.__name__, _method)


def _sparse() -> Any:
    from . import sparse

    return sparse


def _tensor_of(array: Coo) -> Tensor:
    _sparse()  # which puts its own function in this one's place
    return Coo.tensor(array)


Coo.tensor = staticmethod(_tensor_of)


@front("sparse_coo_tensor", method=False)
def _sparse_coo_tensor(indices: Any = None, values: Any = None, size: Any = None, *, dtype: Any = None, device: Any = None,
                       pin_memory: bool = False, requires_grad: bool = False, check_invariants: bool | None = None,
                       is_coalesced: bool | None = None) -> Tensor:  # fmt: skip
    """A sparse tensor in coordinate form: `values` (n, *dense) at the columns of `indices` (k, n), zeros elsewhere.

    Without `size` it is just large enough; of a size alone it is empty. Equal places add up. RuntimeError for a place outside.
    `pin_memory` and `check_invariants` change nothing: places are always checked.
    """
    if values is None:
        return _sparse().empty(indices if size is None else size, dtype, device, requires_grad)
    return _sparse().coo(indices, values, size, dtype, device, requires_grad, is_coalesced)


@front("sparse_csr_tensor", method=False)
def _sparse_csr_tensor(crow_indices: Any, col_indices: Any, values: Any, size: Any = None, *, dtype: Any = None, device: Any = None,
                       pin_memory: bool = False, requires_grad: bool = False, check_invariants: bool | None = None) -> Tensor:  # fmt: skip
    """A sparse matrix in row form: row i has the values from crow_indices[i] to crow_indices[i + 1], at the columns `col_indices`.

    `pin_memory` and `check_invariants` change nothing: the indices are always checked.
    """
    return _sparse().csr(crow_indices, col_indices, values, size, dtype, device, requires_grad)


@front("to_sparse", "to_sparse_coo", function=False)
def _to_sparse(
    self: Tensor, sparse_dim: int | None = None, *, layout: Any = None, blocksize: Any = None, dense_dim: int | None = None
) -> Tensor:
    """The tensor in coordinate form, its first `sparse_dim` dimensions indexed (by default all); with `layout` in that of rows."""
    return _sparse().to_sparse(self, sparse_dim, layout, blocksize, dense_dim)


@front("to_sparse_csr", function=False)
def _to_sparse_csr(self: Tensor, dense_dim: int | None = None) -> Tensor:
    """The matrix in row form."""
    if dense_dim:
        raise NotImplementedError("to_sparse_csr: dense_dim is not supported, only matrices of numbers are")
    return _sparse().to_csr(self)


@front("sparse_mask", function=False)
def _sparse_mask(self: Tensor, mask: Tensor) -> Tensor:
    """The elements at the places that the sparse tensor `mask` has."""
    return _sparse().masked(self, mask)


@front("spmm", "smm", "hspmm", "dsmm", "hsmm")
def _spmm(input: Tensor, mat2: Tensor) -> Tensor:
    """The product of two matrices, the first of them sparse."""
    return input.mm(mat2)
