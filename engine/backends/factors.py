"""Fourier transforms, and matrix factorizations that only the CPU has, mostly in SciPy's LAPACK; GPU arrays are copied to the host."""

from __future__ import annotations

import math
from typing import Any

import numpy

from ..base.errors import LinAlgError
from .elimination import eliminated, factored, finite, must_be_square
from .products import columns, in_columns
from .reference import _through_host, module_of

__all__ = [
    "cholesky_ex",
    "cholesky_inverse",
    "eig",
    "first_zero",
    "fourier",
    "fourier_back",
    "ldl_factor",
    "ldl_solve",
    "lu_factor",
    "matrix_exp",
    "permutation",
    "reflections",
    "solve_triangle",
]


@_through_host
@in_columns
def lu_factor(x: Any) -> tuple:
    """LU: return L (unit diagonal not stored) and U in one matrix, LAPACK's 1-based pivots, and the new position of each input row."""
    from scipy.linalg.lapack import get_lapack_funcs

    (getrf,) = get_lapack_funcs(("getrf",), (x,))
    *lead, m, n = x.shape
    k, flat = min(m, n), x.reshape(-1, m, n) if x.size else x.reshape(0, m, n)
    count = math.prod(lead)
    packed, pivots = numpy.zeros((count, m, n), x.dtype), numpy.zeros((count, k), numpy.int32)
    for i in range(count if x.size else 0):
        if finite(flat[i]):
            packed[i], found, _ = getrf(flat[i])
        else:
            packed[i], found = eliminated(flat[i])
        pivots[i] = found + 1
    pivots = pivots.reshape(*lead, k)
    return packed.reshape(x.shape), pivots, numpy.argsort(exchanged(pivots, m), -1)


def first_zero(packed: Any, refusal: str = "") -> Any:
    """Return the 1-based position of the first 0 on the diagonal of each U, or 0; with `refusal`, a message, raise LinAlgError for a 0."""
    lib, zero = module_of(packed), packed.diagonal(0, -2, -1) == 0
    info = (lib.where(zero.any(-1), zero.argmax(-1) + 1, 0) if zero.shape[-1] else lib.zeros(zero.shape[:-1])).astype(numpy.int32)
    if refusal and info.any():
        raise LinAlgError(refusal.format(int(info.max())))
    return info


def exchanged(pivots: numpy.ndarray, m: int) -> numpy.ndarray:
    """Return the original index of each of `m` rows after row j was exchanged with row `pivots[..., j]` (1-based), for each j in turn."""
    swaps = pivots.reshape(math.prod(pivots.shape[:-1]), pivots.shape[-1])
    rows = numpy.arange(len(swaps))
    order = numpy.broadcast_to(numpy.arange(m), (len(swaps), m)).copy()
    for j, other in enumerate(swaps.T - 1):
        order[rows, j], order[rows, other] = order[rows, other].copy(), order[rows, j].copy()
    return order.reshape(*pivots.shape[:-1], m)


@_through_host
def permutation(pivots: Any, m: int, dtype: Any) -> Any:
    """Return the permutation matrix P for which `P @ L @ U` is the factored matrix."""
    return (numpy.arange(m)[:, None] == exchanged(pivots, m)[..., None, :]).astype(dtype)


@_through_host
@in_columns
def eig(x: Any) -> tuple:
    """Return complex eigenvalues and eigenvectors (columns of length 1)."""
    wide = numpy.result_type(x.dtype, numpy.complex64)
    values, vectors = numpy.linalg.eig(x)
    return values.astype(wide), vectors.astype(wide)


@_through_host
def matrix_exp(x: Any) -> Any:
    """Return the exponential of square matrices."""
    from scipy.linalg import expm

    must_be_square(x)  # SciPy also accepts a scalar and empty arrays
    wide = numpy.result_type(x.dtype, numpy.float64)  # in float32, intermediate values would overflow with a large eigenvalue
    return expm(x.astype(wide)).astype(x.dtype, copy=False) if x.size else x.copy()


@_through_host
@in_columns
def cholesky_ex(x: Any, upper: bool = False) -> tuple:
    """Return Cholesky factors and, for each, 0 or the order of the first leading minor that is not positive definite.

    From that order on, a factor holds the input.
    """
    from scipy.linalg.lapack import get_lapack_funcs

    must_be_square(x)
    (potrf,) = get_lapack_funcs(("potrf",), (x,))
    out, info, half = numpy.zeros(x.shape, x.dtype), numpy.zeros(x.shape[:-2], numpy.int32), numpy.triu if upper else numpy.tril
    for i in numpy.ndindex(x.shape[:-2] if x.size else (0,)):
        out[i], info[i] = potrf(x[i], not upper) if finite(half(x[i])) else factored(x[i], upper)
    return out, info


@_through_host
@in_columns
def cholesky_inverse(x: Any, upper: bool = False) -> Any:
    """Return the inverse of the matrix whose Cholesky factor is in one triangle of `x`; LinAlgError if its diagonal has a 0."""
    from scipy.linalg.lapack import get_lapack_funcs

    must_be_square(x)
    (potri,) = get_lapack_funcs(("potri",), (x,))
    out = numpy.zeros(x.shape, x.dtype)
    for i in numpy.ndindex(x.shape[:-2] if x.size else (0,)):
        found, info = potri(x[i], not upper)
        if info:
            raise numpy.linalg.LinAlgError("Singular matrix")
        half = numpy.triu(found) if upper else numpy.tril(found)
        out[i] = numpy.where(numpy.eye(len(half), dtype=bool), half, half + half.conj().T)
    return out


def fourier(x: Any, dims: tuple, scale: float = 1.0) -> Any:
    """Discrete Fourier transform: sums of x[k] exp(-2 pi i j k / n) over k along the dimensions `dims`, times `scale`."""
    lib = module_of(x)
    for d in dims:
        x = lib.fft.fft(x, axis=d)
    return x * x.dtype.type(scale)


def fourier_back(x: Any, dims: tuple, scale: float = 1.0) -> Any:
    """The same with the opposite sign in the exponent."""
    return fourier(x.conj(), dims, scale).conj()


@_through_host
@in_columns
def ldl_factor(x: Any, hermitian: bool = False) -> tuple:
    """Factor into `L D L^T` (`L D L^H` if Hermitian).

    Returns L and D in one lower triangle, LAPACK's 1-based pivots, and the 1-based position of the first 0 of D, or 0.
    """
    from scipy.linalg.lapack import get_lapack_funcs

    (trf,) = get_lapack_funcs(("hetrf" if hermitian and x.dtype.kind == "c" else "sytrf",), (x,))
    n = x.shape[-1]
    count = math.prod(x.shape[:-2])
    flat = x.reshape(count, n, n)
    packed, pivots, info = numpy.zeros((count, n, n), x.dtype), numpy.zeros((count, n), numpy.int32), numpy.zeros(count, numpy.int32)
    for i in range(count if n else 0):
        found, pivots[i], info[i] = trf(flat[i], lower=1)
        packed[i] = numpy.tril(found)
    return packed.reshape(x.shape), pivots.reshape(x.shape[:-1]), info.reshape(x.shape[:-2])


@_through_host
def ldl_solve(packed: Any, pivots: Any, b: Any, hermitian: bool = False) -> Any:
    """Return X with `A @ X == b` from the factors of A; all three have the same leading dimensions. RuntimeError for invalid pivots."""
    from scipy.linalg.lapack import get_lapack_funcs

    (trs,) = get_lapack_funcs(("hetrs" if hermitian and packed.dtype.kind == "c" else "sytrs",), (packed,))
    n, k = b.shape[-2:]
    if pivots.size and not 1 <= int(abs(pivots).min()) <= int(abs(pivots).max()) <= n:  # LAPACK would access memory outside the matrix
        raise RuntimeError(f"Pivots given to ldl_solve must all satisfy 1 <= |pivot| <= {n}: pass what ldl_factor gave")
    flat = [a.reshape(-1, *a.shape[-d:]) if b.size else () for a, d in ((packed, 2), (pivots, 1), (b, 2))]
    out = numpy.zeros((math.prod(b.shape[:-2]), n, k), b.dtype)
    for i, (matrix, places, right) in enumerate(zip(*flat, strict=True)):
        out[i], _ = trs(matrix, places, right, lower=1)
    return columns(out.reshape(b.shape))


@_through_host
@in_columns
def reflections(x: Any) -> tuple:
    """LAPACK's geqrf: return R, with the vectors of the Householder reflections below the diagonal, and their factors tau."""
    from scipy.linalg.lapack import get_lapack_funcs

    (geqrf,) = get_lapack_funcs(("geqrf",), (x,))
    m, n = x.shape[-2:]
    count, k = math.prod(x.shape[:-2]), min(m, n)
    flat, packed, tau = x.reshape(count, m, n), numpy.zeros((count, m, n), x.dtype), numpy.zeros((count, k), x.dtype)
    for i in range(count if k else 0):
        packed[i], tau[i] = geqrf(flat[i])[:2]
    return packed.reshape(x.shape), tau.reshape(*x.shape[:-2], k)


@_through_host
def solve_triangle(a: Any, b: Any, upper: bool, left: bool = True, unitriangular: bool = False) -> Any:
    """Return X with `a @ X == b` or, without `left`, `X @ a == b`, by substitution; divides even by a 0 on the diagonal."""
    from scipy.linalg.blas import get_blas_funcs

    (trsm,) = get_blas_funcs(("trsm",), (a,))
    lead, (n, k) = numpy.broadcast_shapes(a.shape[:-2], b.shape[:-2]), b.shape[-2:]
    count = math.prod(lead)
    a, b = (numpy.broadcast_to(x, (*lead, *x.shape[-2:])).reshape(count, *x.shape[-2:]) for x in (a, b))
    out = numpy.zeros((count, k, n), a.dtype)
    for i in range(count if out.size else 0):
        out[i] = trsm(1.0, a[i], b[i], not left, not upper, 0, unitriangular).T
    return out.reshape(*lead, k, n).swapaxes(-1, -2)
