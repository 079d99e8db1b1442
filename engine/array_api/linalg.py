"""The `linalg` extension: matrices, also batched in the last two dimensions."""

from __future__ import annotations

from typing import Any, NamedTuple

import engine

from ..base.dtypes import dtype as Dtype
from ..core.tensor import Tensor
from .axes import normal, reduced
from .dtypes import alike
from .manipulation import broadcast_arrays, broadcast_shapes
from .reductions import sum as _sum


class EighResult(NamedTuple):
    eigenvalues: Tensor
    eigenvectors: Tensor


class EigResult(NamedTuple):
    eigenvalues: Tensor
    eigenvectors: Tensor


class QRResult(NamedTuple):
    Q: Tensor
    R: Tensor


class SlogdetResult(NamedTuple):
    sign: Tensor
    logabsdet: Tensor


class SVDResult(NamedTuple):
    U: Tensor
    S: Tensor
    Vh: Tensor


def matmul(x1: Tensor, x2: Tensor, /) -> Tensor:
    """Matrix product; 1-D operands are a row on the left and a column on the right."""
    return engine.matmul(*alike(x1, x2))


def matrix_transpose(x: Tensor, /) -> Tensor:
    """Transpose the matrices, as a view."""
    normal((-2, -1), x.ndim)
    return engine.transpose(x, -2, -1)


def tensordot(x1: Tensor, x2: Tensor, /, *, axes: Any = 2) -> Tensor:
    """Contract axes of both arrays: the last and first `axes`, or two sequences of equal length."""
    return engine.tensordot(*alike(x1, x2), axes)


def _check_axis(name: str, x1: Tensor, x2: Tensor, axis: int) -> None:
    """Raise IndexError unless the axis exists in both arrays; it must be negative if they differ in dimensions."""
    if not -min(x1.ndim, x2.ndim) <= axis < 0 and not (x1.ndim == x2.ndim and 0 <= axis < x1.ndim):
        raise IndexError(f"{name}: axis {axis} is out of range for arrays of {x1.ndim} and {x2.ndim} dimensions")


def vecdot(x1: Tensor, x2: Tensor, /, *, axis: int = -1) -> Tensor:
    """Dot products of vectors along an axis; the first operand is conjugated."""
    x1, x2 = alike(x1, x2)
    _check_axis("vecdot", x1, x2, axis)
    if x1.shape[axis] != x2.shape[axis]:
        raise ValueError(f"vecdot: the vectors have the lengths {x1.shape[axis]} and {x2.shape[axis]}")
    x1, x2 = broadcast_arrays(x1, x2)
    rows, columns = engine.movedim(x1, axis, -1)[..., None, :], engine.movedim(x2, axis, -1)[..., :, None]
    return engine.matmul(rows.conj_physical(), columns)[..., 0, 0]


def cholesky(x: Tensor, /, *, upper: bool = False) -> Tensor:
    """Lower or upper Cholesky factor of positive definite matrices."""
    return engine.linalg.cholesky(x, upper=upper)


def cross(x1: Tensor, x2: Tensor, /, *, axis: int = -1) -> Tensor:
    """Cross products of 3-vectors along an axis."""
    x1, x2 = alike(x1, x2)
    _check_axis("cross", x1, x2, axis)
    if not x1.shape[axis] == x2.shape[axis] == 3:
        raise ValueError(f"cross: the vectors must have the length 3, not {x1.shape[axis]} and {x2.shape[axis]}")
    return engine.linalg.cross(*broadcast_arrays(x1, x2), dim=axis)


def det(x: Tensor, /) -> Tensor:
    """Determinants of square matrices."""
    return engine.linalg.det(x)


def diagonal(x: Tensor, /, *, offset: int = 0) -> Tensor:
    """Diagonals of matrices, `offset` above the main one."""
    return engine.diagonal(x, offset, -2, -1)


def eig(x: Tensor, /) -> EigResult:
    """Complex eigenvalues and eigenvectors of square matrices."""
    return EigResult(*engine.linalg.eig(x))


def eigh(x: Tensor, /) -> EighResult:
    """Ascending eigenvalues and eigenvectors of symmetric or Hermitian matrices."""
    return EighResult(*engine.linalg.eigh(x))


def eigvals(x: Tensor, /) -> Tensor:
    """Complex eigenvalues of square matrices."""
    return engine.linalg.eigvals(x)


def eigvalsh(x: Tensor, /) -> Tensor:
    """Ascending eigenvalues of symmetric or Hermitian matrices."""
    return engine.linalg.eigvalsh(x)


def inv(x: Tensor, /) -> Tensor:
    """Inverses of square matrices."""
    return engine.linalg.inv(x)


def matrix_norm(x: Tensor, /, *, keepdims: bool = False, ord: Any = "fro") -> Tensor:
    """Matrix norms: "fro", "nuc", ±1, ±2 or ±infinity."""
    return engine.linalg.matrix_norm(x, ord, keepdim=keepdims)


def matrix_power(x: Tensor, n: int, /) -> Tensor:
    """Integer powers of square matrices; `n` may be negative."""
    return engine.linalg.matrix_power(x, n)


def matrix_rank(x: Tensor, /, *, rtol: Any = None) -> Tensor:
    """Number of singular values of each matrix greater than `rtol` times the largest one."""
    return engine.linalg.matrix_rank(x, rtol=rtol)


def outer(x1: Tensor, x2: Tensor, /) -> Tensor:
    """Outer product of two vectors."""
    return engine.outer(*alike(x1, x2))


def pinv(x: Tensor, /, *, rtol: Any = None) -> Tensor:
    """Pseudo-inverses of matrices; singular values up to `rtol` times the largest one count as 0."""
    return engine.linalg.pinv(x, rtol=rtol)


def qr(x: Tensor, /, *, mode: str = "reduced") -> QRResult:
    """Orthonormal and upper triangular factors; `mode` is "reduced" or "complete"."""
    if mode not in ("reduced", "complete"):
        raise ValueError(f"qr: mode must be 'reduced' or 'complete', got {mode!r}")
    return QRResult(*engine.linalg.qr(x, mode))


def slogdet(x: Tensor, /) -> SlogdetResult:
    """Signs and log absolute values of the determinants of square matrices."""
    return SlogdetResult(*engine.linalg.slogdet(x))


def solve(x1: Tensor, x2: Tensor, /) -> Tensor:
    """Solve `x1 @ x = x2`; `x2` is a vector if and only if it is 1-D."""
    x1, x2 = alike(x1, x2)
    columns = x2[:, None] if x2.ndim == 1 else x2
    batch = broadcast_shapes(x1.shape[:-2], columns.shape[:-2])  # explicit, since PyTorch treats some stacks of matrices as vectors
    found = engine.linalg.solve(*(engine.broadcast_to(x, batch + x.shape[-2:]) for x in (x1, columns)))
    return found[..., 0] if x2.ndim == 1 else found


def svd(x: Tensor, /, *, full_matrices: bool = True) -> SVDResult:
    """Singular value decomposition, with descending values."""
    return SVDResult(*engine.linalg.svd(x, full_matrices=full_matrices))


def svdvals(x: Tensor, /) -> Tensor:
    """Singular values, descending."""
    return engine.linalg.svdvals(x)


def trace(x: Tensor, /, *, offset: int = 0, dtype: Dtype | None = None) -> Tensor:
    """Sums of the diagonals; narrow integers are summed in 64 bits."""
    return _sum(diagonal(x, offset=offset), axis=-1, dtype=dtype)


def vector_norm(x: Tensor, /, *, axis: Any = None, keepdims: bool = False, ord: float = 2) -> Tensor:
    """Vector norms over the axes, or over all elements."""
    return reduced(engine.linalg.vector_norm, x, axis, keepdims, ord)
