"""`SparseTensor`: indices and values, with ops and gradients delegated to the values."""

from __future__ import annotations

from typing import Any

import numpy

from ..backends.coo import Coo
from ..base import dtypes
from ..base.layout import LAYOUTS
from ..core.devices import namespace
from ..core.tape import Node
from ..core.tensor import Size, Tensor


class SparseTensor(Tensor):
    """A tensor that stores only some elements, as indices and values; all others are 0.

    `_indices` (k, n) index the first k dimensions and `_values` (n, *dense) hold the elements there. The autograd node is that of the
    values: incoming gradients are gradients of the values, and a leaf's `.grad` has the same indices.
    """

    __slots__ = ("_places", "_content", "_size", "_sorted", "_rows")

    def __init__(self, indices: Tensor, values: Tensor, size: Any, coalesced: bool = False, rows: bool = False):
        self._places, self._content, self._size, self._sorted, self._rows = indices, values, Size(size), coalesced, rows

    # -- the Tensor interface ---------------------------------------------------------------------------------------------------

    @property
    def array(self) -> Any:
        return Coo(self._places.array, self._content.array, tuple(self._size))

    @property
    def node(self) -> Node | None:
        return self._content.node

    @property
    def is_sparse(self) -> bool:
        return not self._rows

    @property
    def is_sparse_csr(self) -> bool:
        return self._rows

    @property
    def layout(self) -> Any:
        return LAYOUTS["sparse_csr" if self._rows else "sparse_coo"]

    @property
    def shape(self) -> Size:
        return self._size

    def size(self, dim: int | None = None) -> Any:
        return self._size if dim is None else self._size[dim]

    @property
    def device(self) -> Any:
        return self._content.device

    @property
    def is_cuda(self) -> bool:
        return self._content.is_cuda

    @property
    def requires_grad(self) -> bool:
        return self._content.requires_grad

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        self._content.requires_grad_(value)

    def requires_grad_(self, requires_grad: bool = True) -> SparseTensor:
        self._content.requires_grad_(requires_grad)
        return self

    @property
    def grad(self) -> SparseTensor | None:
        found = self._content.grad
        return None if found is None else self._like_values(found)

    @grad.setter
    def grad(self, value: SparseTensor | None) -> None:
        self._content.grad = None if value is None else value._content

    _grad = grad  # pyright: ignore[reportAssignmentType]

    def detach(self) -> SparseTensor:
        return self._like_values(self._content.detach())

    @property
    def data(self) -> SparseTensor:
        return self.detach()

    def is_contiguous(self, memory_format: Any = None) -> bool:
        return False

    def stride(self, dim: int | None = None) -> Any:
        return (0,) * len(self._size) if dim is None else 0

    def numel(self) -> int:
        return self.array.size

    def numpy(self, *, force: bool = False) -> numpy.ndarray:
        raise TypeError("can't convert Sparse layout tensor to numpy. Use Tensor.to_dense() first.")

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> numpy.ndarray:
        return self.numpy()

    def tolist(self) -> Any:
        raise RuntimeError("tolist() is not implemented for sparse tensors. Use Tensor.to_dense() first.")

    def data_ptr(self) -> int:
        raise RuntimeError("Cannot access data pointer of Tensor that doesn't have storage")

    def item(self) -> Any:
        return self.to_dense().item()

    def __setitem__(self, index: Any, value: Any) -> None:
        raise TypeError("Cannot assign to a sparse tensor. Use Tensor.to_dense() first.")

    def __deepcopy__(self, memo: dict) -> SparseTensor:
        out = self._like_values(self._content.__deepcopy__(memo))
        memo[id(self)] = out
        return out

    def __reduce_ex__(self, protocol: Any) -> Any:
        return SparseTensor, (self._places, self._content, tuple(self._size), self._sorted, self._rows)

    # -- sparse tensors only ----------------------------------------------------------------------------------------------------

    def _like_values(self, values: Tensor) -> SparseTensor:
        """Return a tensor with the same indices and other values."""
        return SparseTensor(self._places, values, self._size, self._sorted, self._rows)

    def sparse_dim(self) -> int:
        """Return the number of sparse (indexed) dimensions."""
        return self._places.shape[0]

    def dense_dim(self) -> int:
        """Return the number of dense dimensions, those of each value."""
        return self._content.ndim - 1

    def _nnz(self) -> int:
        return self._places.shape[1]

    def _indices(self) -> Tensor:
        return self._places

    def _values(self) -> Tensor:
        return self._content

    def is_coalesced(self) -> bool:
        """Return whether the indices are sorted and unique."""
        return self._sorted

    def indices(self) -> Tensor:
        """Return the indices (k, n). Raises RuntimeError if the tensor is not coalesced."""
        self._only(False, "indices")
        return self._places.detach()

    def values(self) -> Tensor:
        """Return the values (n, *dense). Raises RuntimeError if the tensor is not coalesced."""
        if not self._sorted:
            raise RuntimeError("Cannot get values on an uncoalesced tensor, please call .coalesce() first")
        return self._content

    def crow_indices(self) -> Tensor:
        """Return the offset of each row of a CSR matrix in the values, followed by their number."""
        self._only(True, "crow_indices")
        xp = namespace(self._places.array)
        counts = xp.bincount(self._places.array[0], minlength=self._size[0])
        return Tensor._wrap(xp.concatenate([xp.zeros(1, numpy.int64), xp.cumsum(counts, 0)]))

    def col_indices(self) -> Tensor:
        """Return the column of each value of a CSR matrix."""
        self._only(True, "col_indices")
        return self._places[1]

    def _only(self, rows: bool, name: str) -> None:
        if self._rows is not rows:
            wanted = "sparse row compressed tensor layout" if rows else "sparse coordinate tensor layout"
            raise RuntimeError(f"{name} expected {wanted} but got {'SparseCsr' if self._rows else 'Sparse'}")
        if not self._sorted:
            raise RuntimeError(f"Cannot get {name} on an uncoalesced tensor, please call .coalesce() first")

    def coalesce(self) -> SparseTensor:
        """Return an equal tensor with sorted unique indices; the values of duplicates are summed."""
        if self._sorted:
            return self
        k, xp = self.sparse_dim(), namespace(self._places.array)
        lead = tuple(self._size[:k])
        flat = xp.zeros(self._nnz(), numpy.int64)
        for row, n in zip(self._places.array, lead, strict=True):
            flat = flat * n + row
        found, inverse = xp.unique(flat, return_inverse=True)
        places = Tensor._wrap(xp.asarray(numpy.stack(numpy.unravel_index(found, lead)) if k else xp.zeros((0, len(found)), numpy.int64)))
        empty = self._content.new_zeros((len(found), *self._content.shape[1:]))
        return SparseTensor(places, empty.index_add(0, Tensor._wrap(inverse.reshape(-1)), self._content), self._size, True)

    def to_dense(self, dtype: Any = None, *, masked_grad: bool | None = None) -> Tensor:
        """Return the dense tensor."""
        if dtype is not None:
            raise RuntimeError("dtype argument is not supported by sparse_to_dense")
        empty = self._content.new_zeros(tuple(self._size))
        return empty.index_put(tuple(self._places), self._content, accumulate=True) if self.sparse_dim() else self._content.sum(0)

    def _become(self, other: SparseTensor) -> SparseTensor:
        """Replace the contents by another tensor's, in place."""
        if self.requires_grad and self.is_leaf:
            raise RuntimeError("a leaf Variable that requires grad is being used in an in-place operation.")
        self._places, self._content, self._sorted = other._places, other._content, other._sorted
        return self

    def zero_(self) -> SparseTensor:
        """Set all elements to 0 by removing all indices."""
        return self._become(SparseTensor(self._places[:, :0], self._content[:0], self._size, True, self._rows))

    def mul_(self, other: Any) -> SparseTensor:
        return self._become(self * other)

    def div_(self, other: Any) -> SparseTensor:
        return self._become(self / other)

    def add_(self, other: Any, *, alpha: float = 1) -> SparseTensor:
        return self._become(self + other * alpha)

    def sub_(self, other: Any, *, alpha: float = 1) -> SparseTensor:
        return self._become(self - other * alpha)

    def copy_(self, src: Any, non_blocking: bool = False) -> SparseTensor:
        if not isinstance(src, SparseTensor):
            raise RuntimeError(
                "copy_() between dense and sparse Tensors is not implemented! Found a dense source and a sparse tensor to fill"
            )
        return self._become(src.clone())

    __imul__, __itruediv__, __iadd__, __isub__ = mul_, div_, add_, sub_

    def __repr__(self) -> str:
        from ..core.printing import elements_text, suffixed

        indent = len("tensor(")
        names = {"crow_indices": self.crow_indices(), "col_indices": self.col_indices()} if self._rows else {"indices": self._places}
        parts = []
        for name, inner in {**names, "values": self._content.detach()}.items():
            start = f"{name}=tensor("
            size = f", size={tuple(inner.shape)}" if not inner.numel() else ""
            parts.append(f"{start}{elements_text(inner, indent + len(start))}{size})")
        told = [f"device='{self.device}'"] if self.is_cuda else []
        told += [f"size={tuple(self._size)}", f"nnz={self._nnz()}"]
        if self.dtype not in (dtypes.default, dtypes.default.to_complex(), dtypes.int64, dtypes.bool_):
            told.append(f"dtype={self.dtype!r}")
        told.append(f"layout={self.layout!r}")
        if self.grad_fn is not None:
            told.append(f"grad_fn=<{self.grad_fn.name().removesuffix('0')}0>")
        elif self.requires_grad:
            told.append("requires_grad=True")
        return suffixed("tensor(" + f",\n{' ' * indent}".join(parts), told, indent, newline=not self._rows)
