"""Linear algebra: inverses, determinants, solves, decompositions and matrix norms, with their published gradients.

Sources: Giles, "Collected matrix derivative results" (2008), for inv, det, solve, eigh and svd; Murray, "Differentiation of the Cholesky
decomposition" (2016); Walter and Lehmann, "Algorithmic differentiation of linear algebra functions" (2018), and Roberts and Roberts,
"QR and LQ decomposition matrix backpropagation" (2020), for qr; Golub and Pereyra (1973) for pinv. All take batches of matrices (*, n, m).
The gradients of eigenvectors and singular vectors are finite only where the values are distinct.
"""

from __future__ import annotations

import math
from collections import namedtuple
from typing import Any

import numpy

from .. import dtypes
from ..devices import namespace
from ..errors import Refused
from ..op import RULES_ONLY, Op, composite
from ..tensor import Tensor
from .linalg import matmul
from .reduce import vector_norm
from .shape import clone, permute, transpose, unsqueeze, wrap_dim

_SQUARE = (((3, 3),), ((2, 3, 3),))
ONE_TRIANGLE = dict.fromkeys(("reverse", "second"), "One triangle is read and the gradient is spread over both; tests/engine/test_decompose.py checks symmetric changes.")


class Factor(Op):
    """An op on float matrices that PyTorch neither promotes nor runs in half precision."""
    home, method, inputs, samples, types = "linalg", False, ("input",), _SQUARE, "same"
    square = True

    @classmethod
    def prepare(cls, arrays):
        a = arrays[0]
        if a.ndim < 2:
            raise Refused(f"The input tensor A must have at least 2 dimensions. Got {a.ndim}D")
        if a.dtype.kind not in "fc" or a.dtype.itemsize < 4:
            raise Refused(f"Expected a floating point or complex tensor of at least 32 bits as input. Got {dtypes.FROM_NUMPY[a.dtype].name}")
        if cls.square and a.shape[-1] != a.shape[-2]:
            raise Refused(f"A must be batches of square matrices, but they are {a.shape[-2]} by {a.shape[-1]} matrices")
        return super().prepare(arrays)


class inv(Factor):
    """The inverse of a square matrix."""
    def forward(xp, input): return xp.inv(input)
    def d_input(xp, g, out): return -xp.matmul(T(xp, out), xp.matmul(g, T(xp, out)))


class det(Factor):
    """The determinant of a square matrix."""
    def forward(xp, input): return xp.det(input)
    def d_input(xp, g, input): return g[..., None, None] * xp.cofactor(input)


class cofactor(Factor):
    """The matrix of cofactors, the gradient of the determinant; of singular matrices too."""
    home = ""
    exempt = RULES_ONLY
    def forward(xp, input): return xp.cofactor(input)
    def d_input(xp, g, input, out):
        inverse = xp.inv(input)
        inner = xp.sum(g * out, axis=(-2, -1), keepdims=True)
        return T(xp, inverse) * inner - xp.matmul(T(xp, inverse), xp.matmul(T(xp, g), out))


class slogdet(Factor):
    """The sign of the determinant, and the logarithm of its absolute value."""
    outputs, differentiable = ("sign", "logabsdet"), ("logabsdet",)
    def forward(xp, input): return xp.slogdet(input)
    def d_input(xp, g, input): return g[..., None, None] * T(xp, xp.inv(input))


class solve_matrix(Factor):
    """The matrix X with `input @ X == other`."""
    home, inputs, samples, exempt = "", ("input", "other"), (((3, 3), (3, 2)), ((2, 3, 3), (2, 3, 2))), RULES_ONLY
    def forward(xp, input, other): return xp.solve_matrix(input, other)
    def d_input(xp, g, input, out): return -xp.matmul(xp.solve_matrix(T(xp, input), g), T(xp, out))
    def d_other(xp, g, input): return xp.solve_matrix(T(xp, input), g)


class cholesky(Factor):
    """The lower triangular L with `L @ L.mT` equal to a symmetric positive definite matrix, of which one triangle is read."""
    samples, exempt = (([[2.0, 0.5, 0.1], [0.5, 1.5, -0.3], [0.1, -0.3, 1.0]],), ([[[2.0, 0.5], [0.5, 1.5]], [[1.0, -0.2], [-0.2, 3.0]]],)), ONE_TRIANGLE
    def forward(xp, input, upper=False): return xp.cholesky(input, upper)
    def d_input(xp, g, out, upper):
        real_only(g, "cholesky")
        L, g = (T(xp, out), T(xp, g)) if upper else (out, g)
        middle = half_diagonal(xp, xp.tril(xp.matmul(T(xp, L), g)))
        s = xp.solve_matrix(T(xp, L), T(xp, xp.solve_matrix(T(xp, L), T(xp, middle))))
        return (s + T(xp, s)) / 2


class qr(Factor):
    """Q with orthonormal columns and R upper triangular, with `Q @ R` the input; `mode` "reduced", "complete" or "r" (Q is empty)."""
    outputs, square, samples = ("Q", "R"), False, (((4, 3),), ((3, 3),), ((2, 4),))
    def forward(xp, input, mode="reduced"): return xp.qr(input, mode)
    def d_input(xp, g, input, Q, R, mode):
        real_only(g[1], "qr")
        m, n = input.shape[-2:]
        if mode == "r" or mode == "complete" and m > n:
            raise RuntimeError(f"linalg.qr: the derivative depends on Q; it is not defined for mode='{mode}' here. Use mode='reduced'.")
        gQ, gR = g
        if m >= n:
            return tall_qr(xp, gQ, gR, Q, R)
        head = tall_qr(xp, gQ + xp.matmul(input[..., m:], T(xp, gR[..., m:])), gR[..., :m], Q, R[..., :m])
        return xp.concatenate([head, xp.matmul(Q, gR[..., m:])], axis=-1)


class eigh(Factor):
    """Eigenvalues, ascending, and eigenvectors (columns) of a symmetric or Hermitian matrix, of which one triangle is read."""
    outputs, exempt = ("eigenvalues", "eigenvectors"), ONE_TRIANGLE
    samples = (([[2.0, 0.5, 0.1], [0.5, 1.5, -0.3], [0.1, -0.3, 1.0]],), ([[[2.0, 0.5], [0.5, 1.5]], [[1.0, -0.2], [-0.2, 3.0]]],))
    def forward(xp, input, UPLO="L"): return xp.eigh(input, UPLO)
    def d_input(xp, g, input, eigenvalues, eigenvectors):
        gw, gV = g
        real_only(gV, "eigh")
        V = eigenvectors
        gaps = apart(xp, eigenvalues[..., None, :] - eigenvalues[..., :, None])
        inner = skew(xp, xp.matmul(T(xp, V), gV)) / (2 * gaps)
        return xp.matmul(V, xp.matmul(inner + on_diagonal(xp, gw), T(xp, V)))


class svd(Factor):
    """U, the singular values S (descending) and Vh, with `U @ diag(S) @ Vh` the input; without `full_matrices` U and Vh are thin."""
    outputs, square = ("U", "S", "Vh"), False
    examples = ((((4, 3),), {"full_matrices": False}), (((3, 3),), {}), (((2, 4),), {"full_matrices": False}))
    def forward(xp, input, full_matrices=True): return xp.svd(input, full_matrices)
    def d_input(xp, g, input, U, S, Vh):
        gU, gS, gVh = g
        real_only(gU, "svd")
        k = S.shape[-1]
        U, V, gU, gV = U[..., :, :k], T(xp, Vh)[..., :, :k], gU[..., :, :k], T(xp, gVh)[..., :, :k]
        row, column = S[..., None, :], S[..., :, None]
        gaps = apart(xp, (row - column) * (row + column))
        skew_u, skew_v = (skew(xp, xp.matmul(T(xp, a), b)) / gaps for a, b in ((U, gU), (V, gV)))
        middle = skew_u * row + column * skew_v + on_diagonal(xp, gS)
        found = xp.matmul(U, xp.matmul(middle, T(xp, V)))
        if U.shape[-2] > k:
            found = found + xp.matmul(outside(xp, U, gU) / row, T(xp, V))
        if V.shape[-2] > k:
            found = found + xp.matmul(U, T(xp, outside(xp, V, gV) / row))
        return found


class pinv(Factor):
    """The Moore-Penrose pseudoinverse; singular values up to `rtol` times the largest count as zero."""
    square, samples = False, (((4, 3),), ((3, 3),), ((2, 4),))
    def forward(xp, input, rtol=None, hermitian=False): return xp.pinv(input, rtol, hermitian)
    def d_input(xp, g, input, out):
        real_only(g, "pinv")
        P, PT, gT = out, T(xp, out), T(xp, g)
        left = xp.matmul(gT, xp.matmul(P, PT))
        right = xp.matmul(xp.matmul(PT, P), gT)
        return (left - xp.matmul(input, xp.matmul(P, left))) + (right - xp.matmul(xp.matmul(right, P), input)) - xp.matmul(PT, xp.matmul(g, PT))


# -- parts of the rules ------------------------------------------------------------------------------------------------------


def T(xp: Any, x: Any) -> Any:
    return xp.matrix_transpose(x)


def real_only(g: Any, name: str) -> None:
    if getattr(g.dtype, "kind", "") == "c" or getattr(g.dtype, "is_complex", False):
        raise NotImplementedError(f"linalg.{name}: the gradient of complex matrices is not supported")


def eye_of(xp: Any, x: Any) -> Any:
    """The identity as large as the matrices in `x`, as bool."""
    return xp.asarray(numpy.eye(x.shape[-1], dtype=bool))


def off_diagonal(xp: Any, x: Any) -> Any:
    return xp.where(eye_of(xp, x), 0, x)


def on_diagonal(xp: Any, v: Any) -> Any:
    """Diagonal matrices of the vectors in the last dimension."""
    return xp.where(eye_of(xp, v), v[..., None, :], 0)


def half_diagonal(xp: Any, x: Any) -> Any:
    return xp.where(eye_of(xp, x), x / 2, x)


def apart(xp: Any, gaps: Any) -> Any:
    """Differences of eigenvalues, to divide by: 1 on the diagonal, where the numerator is 0."""
    return xp.where(eye_of(xp, gaps), 1, gaps)


def skew(xp: Any, x: Any) -> Any:
    return x - T(xp, x)


def outside(xp: Any, basis: Any, g: Any) -> Any:
    """The part of `g` that is orthogonal to the columns of `basis`."""
    return g - xp.matmul(basis, xp.matmul(T(xp, basis), g))


def tall_qr(xp: Any, gQ: Any, gR: Any, Q: Any, R: Any) -> Any:
    """The gradient of the input of `qr` with at least as many rows as columns."""
    m = xp.triu(xp.matmul(gR, T(xp, R)) - xp.matmul(T(xp, Q), gQ))
    whole = gQ + xp.matmul(Q, m + T(xp, off_diagonal(xp, m)))
    return T(xp, xp.solve_matrix(R, T(xp, whole)))


# -- made of the above ---------------------------------------------------------------------------------------------------------


@composite(home="linalg")
def solve(A: Tensor, B: Tensor, *, left: bool = True) -> Tensor:
    """X with `A @ X == B` (with `left` False, `X @ A == B`); B is a matrix (*, n, k) or a batch of vectors (*, n)."""
    vector = B.ndim == 1 or A.ndim - 1 == B.ndim and B.shape == A.shape[:-1]
    if vector:
        return solve_matrix(A, unsqueeze(B, -1))[..., 0]
    return solve_matrix(A, B) if left else transpose(solve_matrix(transpose(A, -2, -1), transpose(B, -2, -1)), -2, -1)


@composite(home="linalg")
def solve_triangular(input: Tensor, B: Tensor, *, upper: bool, left: bool = True, unitriangular: bool = False) -> Tensor:
    """X with `input @ X == B` for a triangular matrix, of which only that triangle is read."""
    a = input.triu() if upper else input.tril()
    if unitriangular:
        a = a - a.diagonal(0, -2, -1).diag_embed() + Tensor._wrap(namespace(a.array).eye(a.shape[-1], dtype=a.array.dtype))
    return solve(a, B, left=left)


@composite(home="linalg")
def eigvalsh(A: Tensor, UPLO: str = "L") -> Tensor:
    """The eigenvalues, ascending, of a symmetric or Hermitian matrix."""
    return eigh(A, UPLO)[0]


@composite(home="linalg")
def svdvals(A: Tensor) -> Tensor:
    """The singular values, descending."""
    return svd(A, False)[1]


@composite(home="linalg")
def matrix_rank(A: Tensor, *, rtol: float | None = None) -> Tensor:
    """How many singular values are larger than `rtol` (by default max(n, m) eps) times the largest."""
    s = svdvals(A.detach())
    rtol = max(A.shape[-2:]) * float(numpy.finfo(s.array.dtype).eps) if rtol is None else rtol
    return (s > rtol * s[..., :1]).sum(-1)


@composite(home="linalg")
def matrix_power(A: Tensor, n: int) -> Tensor:
    """The product of `n` copies of a square matrix; of its inverse when `n` is negative."""
    if A.ndim < 2 or A.shape[-1] != A.shape[-2]:
        raise RuntimeError(f"linalg.matrix_power: A must be batches of square matrices, but they have the shape {list(A.shape)}")
    if n < 0:
        A, n = inv(A), -n
    if n == 0:
        return clone(Tensor._wrap(namespace(A.array).eye(A.shape[-1], dtype=A.array.dtype)).broadcast_to(tuple(A.shape)))
    out = None
    while True:
        if n & 1:
            out = A if out is None else matmul(out, A)
        n >>= 1
        if not n:
            return clone(out) if out is A else out
        A = matmul(A, A)


_Lstsq = namedtuple("lstsq", "solution residuals rank singular_values")


@composite(home="linalg")
def lstsq(A: Tensor, B: Tensor, rcond: float | None = None, *, driver: str | None = None) -> Any:
    """The X that makes `A @ X - B` smallest, for a matrix B (*, n, k) or vectors (*, n): (solution, residuals, rank, singular_values).

    The solution is that of the least length; its gradient passes through the pseudoinverse. `driver` is accepted and changes nothing.
    """
    vector = A.ndim - 1 == B.ndim and B.shape == A.shape[:-1]
    b = unsqueeze(B, -1) if vector else B
    s = svdvals(A.detach())
    rcond = max(A.shape[-2:]) * float(numpy.finfo(s.array.dtype).eps) if rcond is None else rcond
    x = matmul(pinv(A, rcond), b)
    rank = (s > rcond * s[..., :1]).sum(-1)
    full = A.shape[-2] > A.shape[-1] and bool((rank == A.shape[-1]).all())
    rest = (matmul(A, x) - b).detach()
    residuals = (rest * rest).sum(-2) if full else s.new_empty(0)
    return _Lstsq(x[..., 0] if vector else x, residuals[..., 0] if vector and full else residuals, rank, s)


@composite(home="linalg")
def matrix_norm(A: Tensor, ord: Any = "fro", dim: tuple[int, int] = (-2, -1), keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """A norm of matrices: "fro", "nuc", inf, -inf (rows), 1, -1 (columns), 2, -2 (singular values)."""
    A = A if dtype is None else A.to(dtype)
    if A.ndim < 2:
        raise RuntimeError(f"linalg.matrix_norm: The input tensor A must have at least 2 dimensions. Got {A.ndim}D")
    a, b = (wrap_dim(d, A.ndim) for d in dim)
    if ord == "fro":
        return vector_norm(A, 2, (a, b), keepdim)
    x = permute(A, (*[d for d in range(A.ndim) if d not in (a, b)], a, b))
    if ord == "nuc":
        out = svdvals(x).sum(-1)
    elif ord in (2, -2):
        out = svdvals(x).amax(-1) if ord == 2 else svdvals(x).amin(-1)
    elif ord in (1, -1, math.inf, -math.inf):
        sums = x.abs().sum(-2 if abs(ord) == 1 else -1)
        out = sums.amax(-1) if ord > 0 else sums.amin(-1)
    else:
        raise RuntimeError(f"linalg.matrix_norm: Order {ord} not supported.")
    if keepdim:
        for d in sorted((a, b)):
            out = unsqueeze(out, d)
    return out


@composite(home="linalg", method=False)
def norm(A: Tensor, ord: Any = None, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """A vector norm over `dim` or, for two dimensions (or a matrix with `ord` given), a matrix norm."""
    A = A if dtype is None else A.to(dtype)
    if dim is not None and not isinstance(dim, int) and len(dim) == 2 and ord is not None or dim is None and ord is not None and A.ndim == 2:
        return matrix_norm(A, ord, (-2, -1) if dim is None else tuple(dim), keepdim)
    if dim is None and ord is not None and A.ndim > 2:
        raise RuntimeError(f"linalg.norm: If dim is not specified but ord is, the input must be 1D or 2D. Got {A.ndim}D.")
    return vector_norm(A, 2 if ord is None else ord, dim, keepdim)


@composite
def cdist(x1: Tensor, x2: Tensor, p: float = 2.0, compute_mode: str | None = None) -> Tensor:
    """The p-norm distance of every pair of rows, (*, n, d) and (*, m, d): (*, n, m). The gradient between equal rows is 0."""
    if x1.shape[-1] != x2.shape[-1]:
        raise RuntimeError(f"X1 and X2 must have the same number of columns. X1: {x1.shape[-1]} X2: {x2.shape[-1]}")
    if p < 0:
        raise RuntimeError("cdist only supports non-negative p values")
    return vector_norm(unsqueeze(x1, -2) - unsqueeze(x2, -3), p, -1)


@composite(method=True)
def logdet(input: Tensor) -> Tensor:
    """The logarithm of the determinant: NaN where it is negative, -inf where it is 0."""
    sign, log = slogdet(input)
    return log.masked_fill(sign < 0, math.nan)


def _also(name: str, fn: Any, doc: str) -> None:
    """A function of `engine.linalg` that is found in `engine`, and as a method, as well."""

    def call(input: Tensor, *args: Any, **kwargs: Any) -> Any:
        return fn(input, *args, **kwargs)

    call.__name__, call.__doc__ = name, doc
    composite(call, method=True)


for _name, _fn in {"inverse": inv, "det": det, "slogdet": slogdet, "matrix_power": matrix_power, "pinverse": pinv, "cholesky": cholesky, "qr": qr}.items():
    _also(_name, _fn, f"The same as `linalg.{_fn.__name__}`: {_fn.__doc__}")
