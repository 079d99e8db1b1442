"""Products and factorizations of matrices."""

from __future__ import annotations

import numpy as np
import scipy.linalg


def _cofactor(input):
    n = input.shape[-1]
    out = np.zeros_like(input)
    for *lead, i, j in np.ndindex(*input.shape):
        minor = np.delete(np.delete(input[tuple(lead)], i, 0), j, 1)
        out[(*lead, i, j)] = (-1) ** (i + j) * (np.linalg.det(minor) if n > 1 else 1.0)
    return out


def _matmul(a, b):
    """One sum of products for each element."""
    x, y = (a[None] if a.ndim == 1 else a), (b[:, None] if b.ndim == 1 else b)
    out = (x[..., :, :, None] * y[..., None, :, :]).sum(-2)
    out = out[..., 0] if b.ndim == 1 else out
    return out[..., 0, :] if a.ndim == 1 and b.ndim > 1 else out[..., 0] if a.ndim == 1 else out


def _lu(A):
    found = [scipy.linalg.lu_factor(a) for a in A.reshape(-1, *A.shape[-2:])]
    packed, pivots = (np.stack(x) for x in zip(*found, strict=True))
    return packed.reshape(A.shape), (pivots + 1).reshape(*A.shape[:-2], -1)


def _solve_triangle(input, other, upper, left=True, unitriangular=False):
    a = np.triu(input) if upper else np.tril(input)
    if unitriangular:
        a = np.where(np.eye(a.shape[-1], dtype=bool), 1, a)
    return np.linalg.inv(a) @ other if left else other @ np.linalg.inv(a)


def _exponential(input):
    """The series, up to a term that no digit shows."""
    term = total = np.broadcast_to(np.eye(input.shape[-1]), input.shape)
    for k in range(1, 40):
        term = term @ input / k
        total = total + term
    return total


def _sparse_product(values, other, indices, rows):
    dense = np.zeros((rows, len(other)))
    for v, i, j in zip(values, *indices, strict=True):
        dense[i, j] += v
    return dense @ other


LINEAR = {
    "coo_matmul": _sparse_product,
    "matmul": _matmul,
    "linear": lambda input, weight, bias=0.0: np.einsum("...i,oi->...o", input, weight) + bias,
    "contract": lambda operands, equation="ij,jk->ik": np.einsum(equation, *operands),
    "inv": np.linalg.inv,
    "inv_unchecked": np.linalg.inv,
    "det": np.linalg.det,
    "cofactor": _cofactor,
    "slogdet": lambda input: (np.sign(np.linalg.det(input)), np.log(np.abs(np.linalg.det(input)))),
    "solve_matrix": lambda input, other: np.linalg.inv(input) @ other,
    "solve_triangle": _solve_triangle,
    "cholesky": lambda input, upper=False: np.linalg.cholesky(input).swapaxes(-1, -2).conj() if upper else np.linalg.cholesky(input),
    "cholesky_ex": lambda input: (np.linalg.cholesky(input), np.zeros(input.shape[:-2], np.int32)),
    "cholesky_inverse": lambda input, upper=False: np.linalg.inv(
        np.triu(input).swapaxes(-1, -2) @ np.triu(input) if upper else np.tril(input) @ np.tril(input).swapaxes(-1, -2)
    ),
    "qr": lambda input, mode="reduced": tuple(np.linalg.qr(input, mode)),
    "eigh": lambda input, UPLO="L": tuple(np.linalg.eigh(input, UPLO)),
    "eigvalsh": lambda input, UPLO="L": np.sort(np.linalg.eigvals(input).real, -1),
    "svdvals": lambda input: np.linalg.norm(np.linalg.svd(input, full_matrices=False)[0].swapaxes(-1, -2) @ input, axis=-1),
    "svd": lambda input, full_matrices=True: tuple(np.linalg.svd(input, full_matrices)),
    "eig": lambda input: tuple(x.astype(complex) for x in np.linalg.eig(input)),
    "eigvals": lambda input: np.linalg.eigvals(input).astype(complex),
    "lu_factor": _lu,
    "matrix_exp": _exponential,
    "pinv": lambda input, rtol=None, hermitian=False: np.linalg.pinv(input),
}
