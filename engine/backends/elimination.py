"""LU and Cholesky factors, solutions and determinants of singular or non-finite matrices, on which LAPACK implementations disagree.

Elimination runs column by column, as in the reference LAPACK and the library PyTorch calls: the order changes the result.
"""

from __future__ import annotations

import math
from typing import Any

import numpy

from .reference import _through_host, module_of


def finite(x: Any) -> bool:
    """Return whether every element is finite. True on a GPU: cuSOLVER accepts any, and the host would wait for the result."""
    return module_of(x) is not numpy or bool(numpy.isfinite(x).all())


def must_be_square(x: Any) -> None:
    if x.ndim < 2 or x.shape[-1] != x.shape[-2]:
        raise numpy.linalg.LinAlgError("The last two dimensions must be square")


@numpy.errstate(all="ignore")
def eliminated(x: Any) -> tuple:
    """LU with partial pivoting: return L and U packed into one matrix, and for each row the index of the row it was swapped with."""
    x, pivots = x.copy(), numpy.arange(min(x.shape))
    for j in pivots:
        size = abs(x[j:, j].real) + abs(x[j:, j].imag)
        for i in range(1, len(size)):
            if size[i] > size[pivots[j] - j]:  # comparisons with nan are false, so a leading nan stays the pivot
                pivots[j] = j + i
        x[[j, pivots[j]]] = x[[pivots[j], j]]
        if x[j, j]:
            x[j + 1 :, j] /= x[j, j]
        x[j + 1 :, j + 1 :] -= x[j + 1 :, j, None] * x[j, j + 1 :]
    return x, pivots


@_through_host
@numpy.errstate(all="ignore")
def substituted(a: Any, b: Any, checked: bool = True) -> Any:
    """Solve `a @ X == b`; for a singular matrix raise LinAlgError or, with `checked=False`, divide by zero."""
    must_be_square(a)
    lead = numpy.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    a, out = numpy.broadcast_to(a, (*lead, *a.shape[-2:])), numpy.broadcast_to(b, (*lead, *b.shape[-2:])).astype(a.dtype)
    for i in numpy.ndindex(lead):
        packed, pivots = eliminated(a[i])
        if checked and not packed.diagonal().all():
            raise numpy.linalg.LinAlgError("Singular matrix")
        x = out[i]
        for j, other in enumerate(pivots):
            x[[j, other]] = x[[other, j]]
        for j in range(len(x)):
            x[j + 1 :] -= packed[j + 1 :, j, None] * x[j]
        for j in reversed(range(len(x))):
            x[j] /= packed[j, j]
            x[:j] -= packed[:j, j, None] * x[j]
    return out


@_through_host
def pivots_of(x: Any) -> Any:
    """Return the diagonal of U, its first element times the sign of the row permutation: the product is the determinant."""
    must_be_square(x)
    out = numpy.empty(x.shape[:-1], x.dtype)
    turned = x.swapaxes(-1, -2) if x.flags.c_contiguous else x  # the layout in which PyTorch passes matrices to LAPACK
    for i in numpy.ndindex(x.shape[:-2]):
        packed, pivots = eliminated(turned[i])
        out[i] = packed.diagonal()
        out[(*i, 0)] *= (-1) ** int((pivots != numpy.arange(len(pivots))).sum())
    return out


@numpy.errstate(all="ignore")
def factored(x: Any, upper: bool) -> tuple:
    """Return the Cholesky factor up to the first non-positive pivot, with the input from there on, and that pivot's 1-based index, or 0."""
    out = numpy.tril(x.conj().T if upper else x)
    info = 0
    for j in range(len(out)):
        out[j, j] = out[j, j].real - (abs(out[j, :j]) ** 2).sum()
        if not out[j, j].real > 0:
            info = j + 1
            break
        out[j, j] = math.sqrt(out[j, j].real)
        out[j + 1 :, j] = (out[j + 1 :, j] - out[j + 1 :, :j] @ out[j, :j].conj()) / out[j, j]
    return out.conj().T if upper else out, info
