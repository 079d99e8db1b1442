"""Matrix products and linear algebra for NumPy and CuPy arrays."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy

from . import gemm, loops
from .elimination import finite, pivots_of, substituted
from .reference import module_of, new_zeros


def matmul(a: Any, b: Any) -> Any:
    """Matrix product; (*, n, m) by a single matrix is one 2-d product."""
    if a.ndim == 2 and b.ndim == 2:
        found = gemm.product(a, b) if a.size * b.shape[1] >= gemm.LEAST else None
        return a.dot(b) if found is None else found  # saves the 0.45 us that `matmul` takes to choose its loop
    if a.ndim > 2 and b.ndim == 2 and a.size and a.shape[-1] == b.shape[0]:
        return matmul(a.reshape(-1, a.shape[-1]), b).reshape(*a.shape[:-1], b.shape[1])
    if a.ndim > 1 < b.ndim and a.size * b.shape[-1] >= gemm.LEAST and (found := gemm.products(a, b)) is not None:
        return found
    out = a @ b
    return out if out.ndim < 3 or out.flags.c_contiguous else out.copy()  # a batched result would follow the memory order of `a`


def multiply(a: Any, b: Any, out: Any) -> None:
    """Write the product of two matrices into `out`."""
    if a.size * b.shape[1] < gemm.LEAST or gemm.product(a, b, out) is None:
        module_of(out).matmul(a, b, out=out)


def linear(x: Any, weight: Any, bias: Any = None, product: Callable = matmul) -> Any:
    """`x @ weight.T + bias`, with the bias added in place; `weight` is (out, in) or (in,)."""
    if weight.ndim != 2:
        if weight.ndim > 2:
            raise ValueError(f"t() expects a tensor with <= 2 dimensions, but self is {weight.ndim}D")
        out = product(x, weight)
        return out if bias is None else out + bias
    out = product(x, weight.T)
    if bias is None:
        return out
    if bias.ndim > out.ndim:
        return out + bias
    loops.add_to(out, bias)
    return out


def contract(operands: Any, equation: str, product: Callable = matmul) -> Any:
    """`einsum` with letter subscripts, none repeated within an operand; two operands become one matrix product."""
    if len(operands) != 2:
        return module_of(operands[0]).einsum(equation, *operands, optimize=len(operands) > 2)
    a, b = operands
    terms, out = equation.split("->")
    one, two = terms.split(",")
    batch = [c for c in out if c in one and c in two]
    inner = [c for c in one if c in two and c not in out]
    mine, yours = ([c for c in out if c in term and c not in batch] for term in (one, two))  # as the result is laid out
    if mine and yours and out.index(yours[-1]) < out.index(mine[0]):  # the other product is nearer to the result's order
        return contract([b, a], f"{two},{one}->{out}", product)
    sizes = dict(zip(one + two, a.shape + b.shape, strict=True))
    shape = [sizes[c] for c in batch]
    n, k, m = (math.prod(sizes[c] for c in letters) for letters in (mine, inner, yours))
    a = a.transpose([one.index(c) for c in batch + mine + inner]).reshape(*shape, n, k)
    b = b.transpose([two.index(c) for c in batch + inner + yours]).reshape(*shape, k, m)
    whole = batch + mine + yours
    return product(a, b).reshape([sizes[c] for c in whole]).transpose([whole.index(c) for c in out])


# -- linear algebra ----------------------------------------------------------------------------------------------------------


def columns(a: Any) -> Any:
    """Return the same matrices in column-major order, as LAPACK leaves its results and PyTorch returns them."""
    turned = a.swapaxes(-1, -2)
    return (turned if turned.flags.c_contiguous else turned.copy()).swapaxes(-1, -2)


def in_columns(fn: Callable) -> Callable:
    """Decorate a kernel to return its matrix results (those with as many dimensions as its first argument) in column-major order."""

    @functools.wraps(fn)
    def call(x: Any, *args: Any) -> Any:
        found = fn(x, *args)
        return tuple([columns(a) if a.ndim == x.ndim else a for a in found]) if isinstance(found, tuple) else columns(found)

    return call


@in_columns
def inv(x: Any) -> Any:
    """Inverse of (*, n, n); LinAlgError for a singular matrix."""
    lib = module_of(x)
    return lib.linalg.inv(x) if finite(x) else substituted(x, lib.eye(x.shape[-1]))


def quotients(x: Any) -> Any:
    """Inverse of (*, n, n); a singular matrix gives the result of dividing by zero instead of an error."""
    try:
        if finite(x):
            return inv(x)
    except numpy.linalg.LinAlgError:
        pass
    return substituted(x.swapaxes(-1, -2), module_of(x).eye(x.shape[-1]), False).swapaxes(-1, -2)


def det(x: Any) -> Any:
    """Determinant of (*, n, n): shape (*)."""
    return module_of(x).linalg.det(x) if x.dtype.kind == "c" or finite(x) else pivots_of(x).prod(-1)


def slogdet(x: Any) -> tuple:
    """Sign of the determinant (0 for a real matrix with nans) and the logarithm of its absolute value."""
    lib = module_of(x)
    if x.dtype.kind == "c" or finite(x):
        return tuple(lib.linalg.slogdet(x))
    d = pivots_of(x)
    return lib.where(d != d, d.dtype.type(0), lib.sign(d)).prod(-1), lib.log(abs(d)).sum(-1)


def cofactor(x: Any) -> Any:
    """Matrix of cofactors, from the SVD: det(U) det(V^H) conj(U diag(products of the other singular values) V^H).

    For a non-finite matrix it is the determinant times the transposed inverse, for a 1 x 1 matrix 1.
    """
    lib, n = module_of(x), x.shape[-1]
    if n == 1:
        return lib.ones_like(x)
    if not finite(x):
        known = lib.isfinite(x).all((-2, -1))[..., None, None]
        divided = substituted(x.swapaxes(-1, -2), det(x)[..., None, None] * lib.eye(n), False)
        return lib.where(known, cofactor(lib.where(known, x, 0)), divided).astype(x.dtype)
    u, s, vh = lib.linalg.svd(x)
    others = lib.where(lib.eye(n, dtype=bool), 1, s[..., None, :]).prod(-1)
    turn = lib.linalg.det(u) * lib.linalg.det(vh)
    return turn[..., None, None] * ((u * others[..., None, :]) @ vh).conj()


def solve_matrix(a: Any, b: Any, checked: bool = True) -> Any:
    """Solve `a @ X == b` for a matrix X; for a singular matrix raise LinAlgError or, with `checked=False`, divide by zero."""
    lib = module_of(a)
    if lib is not numpy and a.shape[:-2] != b.shape[:-2]:  # CuPy solves matrices of the same leading dimensions only
        lead = numpy.broadcast_shapes(a.shape[:-2], b.shape[:-2])
        a, b = (lib.broadcast_to(x, (*lead, *x.shape[-2:])) for x in (a, b))
    try:
        return columns(lib.linalg.solve(a, b) if finite(a) else substituted(a, b))
    except numpy.linalg.LinAlgError:
        if checked:
            raise
        return columns(substituted(a, b, False))


@in_columns
def cholesky(x: Any, upper: bool = False) -> Any:
    """Lower (or upper) Cholesky factor, from that triangle; LinAlgError also for a nan on the diagonal, which LAPACK may accept."""
    lib = module_of(x)
    out = lib.linalg.cholesky(x.conj().swapaxes(-1, -2) if upper else x)
    if lib.isnan(out.diagonal(0, -2, -1).sum()):
        raise numpy.linalg.LinAlgError("Matrix is not positive definite")
    return out.conj().swapaxes(-1, -2) if upper else out


@in_columns
def qr(x: Any, mode: str = "reduced") -> tuple:
    """QR decomposition; Q is empty in mode "r", ValueError for an unknown mode."""
    if mode not in ("reduced", "complete", "r"):
        raise ValueError(f"qr received unrecognized mode '{mode}' but expected one of 'reduced' (default), 'r', or 'complete'")
    found = module_of(x).linalg.qr(x, mode)
    return (new_zeros(x, (0,)), found) if mode == "r" else tuple(found)


@in_columns
def eigh(x: Any, uplo: str = "L") -> tuple:
    """Eigenvalues and eigenvectors of Hermitian matrices (*, n, n), from the triangle `uplo`."""
    return tuple(module_of(x).linalg.eigh(x, uplo))


@in_columns
def svd(x: Any, full_matrices: bool = True) -> tuple:
    """U, S and Vh; nan for a matrix with infinities, on which LAPACK may never return."""
    lib = module_of(x)
    lost = (lib.isinf(x).any((-2, -1)) & ~lib.isnan(x).any((-2, -1)))[..., None, None]
    if lib is numpy and not lost.any():  # on a GPU, the host would wait for the condition
        return tuple(lib.linalg.svd(x, full_matrices))
    u, s, vh = lib.linalg.svd(lib.where(lost, 0, x), full_matrices)
    return lib.where(lost, math.nan, u), lib.where(lost[..., 0], math.nan, s), lib.where(lost, math.nan, vh)


def smallest(lib: Any, x: Any, s: Any, atol: Any = None, rtol: Any = None) -> Any:
    """Return the threshold at or below which singular values `s` count as zero: max(`atol`, `rtol` * largest).

    `rtol` defaults to max(n, m) * eps, or to 0 where `atol` is positive.
    """
    atol, rtol = (getattr(t, "array", t) for t in (atol, rtol))
    if rtol is None:
        eps = max(x.shape[-2:]) * float(numpy.finfo(x.dtype).eps)
        rtol = eps if atol is None else lib.where(lib.asarray(atol) > 0, 0.0, eps)
    top = lib.max(s, -1) if s.shape[-1] else lib.zeros(s.shape[:-1], s.dtype)
    return lib.maximum(0 if atol is None else atol, lib.asarray(rtol) * top)


def pinv(x: Any, rtol: Any = None, hermitian: bool = False, atol: Any = None) -> Any:
    """Pseudoinverse, from the singular values above the tolerance; for a Hermitian matrix from the eigenvalues."""
    lib = module_of(x)
    if not x.size:
        return lib.zeros((*x.shape[:-2], x.shape[-1], x.shape[-2]), x.dtype)
    if hermitian:
        values, v = lib.linalg.eigh(x)
        u, s, vh = v, lib.abs(values), v.conj().swapaxes(-1, -2)
    else:
        u, s, vh = svd(x, False)
        values = s
    kept = s > smallest(lib, x, s, atol, rtol)[..., None]
    turned = lib.where(kept, 1 / lib.where(kept, values, 1), 0).astype(s.dtype)
    return (vh.conj().swapaxes(-1, -2) * turned[..., None, :]) @ u.conj().swapaxes(-1, -2)
