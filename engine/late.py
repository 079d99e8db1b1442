"""Methods and functions that import the package that implements them at their first call, so that `import engine` stays fast."""

from __future__ import annotations

import sys
from typing import Any

from .backends.coo import Coo
from .core.tensor import Tensor, define
from .nn import Module
from .ops.front import front


def share_memory_(self: Tensor) -> Tensor:
    """Move the tensor to shared memory in place, so that queues, pipes and `multiprocessing.spawn` share it with other processes."""
    from .multiprocessing.memory import share_

    return share_(self)


def is_shared(self: Tensor) -> bool:
    """Whether the tensor is in shared memory; always True on a GPU."""
    from .multiprocessing.memory import is_shared

    return is_shared(self)


def __array_namespace__(self: Tensor, *, api_version: str | None = None) -> Any:
    """Return the array API namespace: see `engine.array_api`. Raises ValueError for an unsupported `api_version`."""
    array_api = sys.modules[__name__.partition(".")[0]].array_api  # imported lazily by the package
    if api_version is not None and api_version not in array_api.VERSIONS:
        raise ValueError(f"supported versions of the array API standard are {', '.join(array_api.VERSIONS)}, not {api_version!r}")
    return array_api


def compile(self: Module, *args: Any, **kwargs: Any) -> None:
    """Compile `forward` in place; the arguments are those of `engine.compile`."""
    from .compiler import compile

    self.__dict__["forward"] = compile(self.forward, *args, **kwargs)


Module.compile = compile  # pyright: ignore[reportAttributeAccessIssue]

for _method in (share_memory_, is_shared, __array_namespace__):
    define(_method.__name__, _method)


def _sparse() -> Any:
    from . import sparse

    return sparse


def _tensor_of(array: Coo) -> Tensor:
    _sparse()  # replaces Coo.tensor
    return Coo.tensor(array)


Coo.tensor = staticmethod(_tensor_of)


@front("sparse_coo_tensor", method=False)
def _sparse_coo_tensor(indices: Any = None, values: Any = None, size: Any = None, *, dtype: Any = None, device: Any = None,
                       pin_memory: bool = False, requires_grad: bool = False, check_invariants: bool | None = None,
                       is_coalesced: bool | None = None) -> Tensor:  # fmt: skip
    """Return a sparse COO tensor with `values` (n, *dense) at the columns of `indices` (k, n), and zeros elsewhere.

    Without `size` it has the smallest size that fits; from a size alone it is empty. Values at equal indices are summed. Raises
    RuntimeError for an index out of range. `pin_memory` and `check_invariants` have no effect: indices are always checked.
    """
    if values is None:
        return _sparse().empty(indices if size is None else size, dtype, device, requires_grad)
    return _sparse().coo(indices, values, size, dtype, device, requires_grad, is_coalesced)


@front("sparse_csr_tensor", method=False)
def _sparse_csr_tensor(crow_indices: Any, col_indices: Any, values: Any, size: Any = None, *, dtype: Any = None, device: Any = None,
                       pin_memory: bool = False, requires_grad: bool = False, check_invariants: bool | None = None) -> Tensor:  # fmt: skip
    """Return a sparse CSR matrix: row i has the values from crow_indices[i] to crow_indices[i + 1], at the columns `col_indices`.

    `pin_memory` and `check_invariants` have no effect: the indices are always checked.
    """
    return _sparse().csr(crow_indices, col_indices, values, size, dtype, device, requires_grad)


@front("to_sparse", "to_sparse_coo", function=False)
def _to_sparse(
    self: Tensor, sparse_dim: int | None = None, *, layout: Any = None, blocksize: Any = None, dense_dim: int | None = None
) -> Tensor:
    """Convert the tensor to COO with the first `sparse_dim` dimensions sparse (by default all), or to CSR if `layout` says so."""
    return _sparse().to_sparse(self, sparse_dim, layout, blocksize, dense_dim)


@front("to_sparse_csr", function=False)
def _to_sparse_csr(self: Tensor, dense_dim: int | None = None) -> Tensor:
    """Convert the matrix to CSR. Raises NotImplementedError if `dense_dim` is not 0."""
    if dense_dim:
        raise NotImplementedError("to_sparse_csr: dense_dim is not supported, only matrices of scalars")
    return _sparse().to_csr(self)


@front("sparse_mask", function=False)
def _sparse_mask(self: Tensor, mask: Tensor) -> Tensor:
    """Return a sparse tensor of the elements at the indices of the sparse tensor `mask`."""
    return _sparse().masked(self, mask)


@front("spmm", "smm", "hspmm", "dsmm", "hsmm")
def _spmm(input: Tensor, mat2: Tensor) -> Tensor:
    """Multiply two matrices, the first of which is sparse."""
    return input.mm(mat2)
