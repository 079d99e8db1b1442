"""Sparse arrays in coordinate (COO) format, used for sparse gradients, and the product of a sparse and a dense matrix."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy

from .reference import accumulate, module_of

__all__ = ["coo_matmul", "sparse_rows"]


class Coo:
    """`values[i]` at the place `indices[:, i]`, zeros elsewhere; values at equal places add up. The dimensions not indexed are dense."""

    __slots__ = ("indices", "values", "shape", "__weakref__")
    __array_ufunc__ = None  # makes NumPy's operators defer to those below
    base = None
    run: ClassVar[Any] = None  # runs an op on sparse tensors; set by engine/sparse
    tensor: ClassVar[Any] = None  # makes a tensor from such an array; set by engine/late, then by engine/sparse

    def __init__(self, indices: Any, values: Any, shape: tuple[int, ...]):
        self.indices, self.values, self.shape = indices, values, shape

    @property
    def dtype(self) -> Any:
        return self.values.dtype

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return int(numpy.prod(self.shape))

    @property
    def nbytes(self) -> int:
        return self.indices.nbytes + self.values.nbytes

    @property
    def device(self) -> Any:
        return self.values.device

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> numpy.ndarray:
        raise TypeError("can't convert Sparse layout tensor to numpy. Use Tensor.to_dense() first.")

    def _like(self, values: Any) -> Coo:
        return Coo(self.indices, values, self.shape)

    def copy(self) -> Coo:
        return self._like(self.values.copy())

    def conj(self) -> Coo:
        return self._like(self.values.conj())

    def dense(self) -> Any:
        """Return the dense array, zeros included."""
        return self + module_of(self.values).zeros(self.shape, self.dtype)

    def __neg__(self) -> Coo:
        return self._like(-self.values)

    def __add__(self, other: Any) -> Any:
        if not isinstance(other, Coo):
            out = other.copy()
            accumulate("add", out, tuple(self.indices), self.values)
            return out
        lib = module_of(self.values)
        return Coo(lib.concatenate([self.indices, other.indices], 1), lib.concatenate([self.values, other.values]), self.shape)

    __radd__ = __add__

    def coalesced(self) -> Coo:
        """Return the array with each place once, in row-major order, and values at equal places summed."""
        lib, k = module_of(self.values), len(self.indices)
        flat = lib.zeros(self.indices.shape[1], numpy.int64)
        for row, n in zip(self.indices, self.shape, strict=False):
            flat = flat * n + row
        first, inverse = lib.unique(flat, return_index=True, return_inverse=True)[1:]
        values = lib.zeros((len(first), *self.shape[k:]), self.values.dtype)
        lib.add.at(values, inverse.reshape(-1), self.values)
        return Coo(self.indices[:, first], values, self.shape)


def sparse_rows(g: Any, index: Any, count: int, padding_idx: int | None, scale: bool) -> Coo:
    """Return the sparse gradient of a table of `count` rows that was read at `index`: `add_rows` without the zeros; `scale` is unused."""
    lib, places = module_of(g), index.reshape(-1)
    values = g.reshape(places.size, *g.shape[index.ndim :])
    if padding_idx is not None:
        kept = places != padding_idx
        places, values = places[kept], values[kept]
    return Coo(lib.asarray(places, numpy.int64)[None], values, (count, *values.shape[1:]))


def coo_matmul(values: Any, other: Any, indices: Any, rows: int) -> Any:
    """Return the dense product of a sparse matrix of `rows` rows, with `values` at `indices` (2, n), and the dense matrix `other`."""
    lib = module_of(values)
    if lib is numpy and values.dtype.kind in "fc" and values.dtype.itemsize >= 4:
        from scipy.sparse import coo_array

        return numpy.ascontiguousarray(coo_array((values, (indices[0], indices[1])), shape=(rows, len(other))).tocsr() @ other)
    out = lib.zeros((rows, other.shape[1]), values.dtype)
    accumulate("add", out, indices[0], values[:, None] * other[indices[1]])
    return out
