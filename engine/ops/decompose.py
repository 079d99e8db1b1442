"""Linear algebra: inverses, determinants, solves, decompositions and matrix norms, with their published gradients.

Sources: Giles, "Collected matrix derivative results" (2008), for inv, det, solve, eigh and svd; Murray, "Differentiation of the Cholesky
decomposition" (2016); Walter and Lehmann, "Algorithmic differentiation of linear algebra functions" (2018), and Roberts and Roberts,
"QR and LQ decomposition matrix backpropagation" (2020), for qr; Golub and Pereyra (1973) for pinv. All take batches of matrices (*, n, m).
The gradients of eigenvectors and singular vectors are finite only where the values are distinct.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy

from ..backends.products import smallest
from ..base import dtypes
from ..base.errors import LinAlgError, Refused
from ..base.layout import contiguous_format
from ..base.return_types import result_type
from ..core.devices import namespace
from ..core.op import RULES_ONLY, Op, composite, functions
from ..core.tensor import Tensor, define
from .front import refuse_gradients
from .linalg import matmul
from .math import is_complex
from .reduce import norm_dtype, vector_norm
from .shape import clone, permute, transpose, unsqueeze, wrap_dim

_SQUARE = (((3, 3),), ((2, 3, 3),))
ONE_TRIANGLE = dict.fromkeys(("reverse", "second"), "One triangle is read and the gradient is spread over both; tests/engine/test_decompose.py checks symmetric changes.")
ASYMMETRIC = {"forward": "Of a change that is not symmetric the gradient takes the symmetric part, and the tangent, as PyTorch's, one triangle of a product."}



class Factor(Op):
    """Base of ops on float matrices that PyTorch neither promotes nor runs in half precision."""
    home, method, inputs, samples, types = "linalg", False, ("input",), _SQUARE, "same"
    square, checks, least = True, True, 4  # least: bytes per element
    lacks: ClassVar[str] = "h"  # kinds without a kernel, for NotImplementedError: "i" integers and bools, "h" half precision; "" neither
    fails = "The algorithm failed to converge because the input matrix is ill-conditioned, or contained non-finite values."

    @classmethod
    def explain(cls, error, inputs, attrs):
        # on the fast path, float matrices skip `prepare` and NumPy refuses them
        if isinstance(error, (numpy.linalg.LinAlgError, IndexError)):
            error = cls._misshapen(inputs[0]) or (Refused(cls.fails, LinAlgError) if isinstance(error, numpy.linalg.LinAlgError) else error)
        return super().explain(error, inputs, attrs)

    @classmethod
    def _misshapen(cls, a):
        if a.ndim < 2: return Refused(f"The input tensor A must have at least 2 dimensions. Got {a.ndim}D")
        if not cls.square or a.shape[-1] == a.shape[-2]: return None
        return Refused(f"A must be batches of square matrices, but they are {a.shape[-2]} by {a.shape[-1]} matrices")

    @classmethod
    def prepare(cls, arrays):
        a = arrays[0]
        wrong = cls._misshapen(a)
        if wrong is not None: raise wrong
        refuse_dtype(dtypes.FROM_NUMPY[a.dtype], cls.lacks, cls.least)
        return super().prepare(arrays)

    @classmethod
    def _broken(cls, inputs, attrs): return None  # `prepare` checks the shapes first


def refuse_dtype(d: dtypes.dtype, lacks: str, least: int = 4) -> None:
    """Refuse integers, bools and dtypes of fewer than `least` bytes; `lacks` as in `Factor`."""
    if d.rank < dtypes.FLOAT or d.itemsize < least:
        kind = NotImplementedError if ("i" if d.rank < dtypes.FLOAT else "h") in lacks else RuntimeError
        raise Refused(f"Expected a floating point or complex tensor of at least 32 bits as input. Got {d.name}", kind)


def need_floats(name: str, x: Tensor, lacks: str = "ih") -> None:
    """`refuse_dtype` for composite functions."""
    try:
        refuse_dtype(x.dtype, lacks)
    except Refused as error:
        raise error.kind(f"{name}: {error}") from None


def refuse_complex(function: str, **tolerances: Any) -> None:
    """Raise RuntimeError for a tolerance that is a complex tensor."""
    for name, x in tolerances.items():
        if isinstance(x, Tensor) and x.is_complex():
            raise RuntimeError(f"{function}: {name} tensor of complex type is not supported. Got {x.dtype.name}")


class inv(Factor):
    """Inverse of a square matrix."""
    fails, lacks = "The inversion could not be completed because the input matrix is singular.", ""
    def forward(xp, input): return xp.inv(input)
    def d_input(xp, g, out): return -xp.matmul(T(xp, out), xp.matmul(g, T(xp, out)))


class det(Factor):
    """Determinant of a square matrix."""
    def forward(xp, input): return xp.det(input)
    def d_input(xp, g, input): return g[..., None, None] * xp.cofactor(input)


class cofactor(Factor):
    """Matrix of cofactors, the gradient of the determinant; also for singular matrices."""
    home = ""
    exempt = RULES_ONLY
    def forward(xp, input): return xp.cofactor(input)
    def d_input(xp, g, input, out):
        inverse = xp.inv(input)
        inner = xp.sum(g * out, axis=(-2, -1), keepdims=True)
        return T(xp, inverse) * inner - xp.matmul(T(xp, inverse), xp.matmul(T(xp, g), out))


class slogdet(Factor):
    """Sign of the determinant, and logarithm of its absolute value."""
    outputs, lacks = ("sign", "logabsdet"), ""
    def forward(xp, input): return xp.slogdet(input)
    def d_input(xp, g, input, sign):
        slope = g[1] if not is_complex(input) else g[1] - 1j * xp.real(1j * g[0] * sign)  # a real sign is constant
        return slope[..., None, None] * T(xp, xp.quotients(input))


class solve_matrix(Factor):
    """X with `input @ X == other`. A singular matrix raises LinAlgError or, unchecked, gives the result of dividing by 0."""
    fails = "The solver failed because the input matrix is singular."
    home, inputs, samples, exempt = "", ("input", "other"), (((3, 3), (3, 2)), ((2, 3, 3), (2, 3, 2))), RULES_ONLY

    @classmethod
    def _broken(cls, inputs, attrs):
        error = super(Factor, cls)._broken(inputs, attrs)
        return None if isinstance(error, numpy.linalg.LinAlgError) else error  # the ones that `_broken` tries are singular

    def forward(xp, input, other, checked=True): return xp.solve_matrix(input, other, checked)
    def d_input(xp, g, input, out, checked): return -xp.matmul(xp.solve_matrix(T(xp, input), g, checked), T(xp, out))
    def d_other(xp, g, input, checked): return xp.solve_matrix(T(xp, input), g, checked)


class solve_triangle(Factor):
    """X with `input @ X == other` (without `left`, `X @ input == other`) for a triangular matrix; the other triangle is not read."""
    home, inputs, exempt = "", ("input", "other"), RULES_ONLY
    examples = ((((3, 3), (3, 2)), {"upper": True}), (((2, 3, 3), (2, 2, 3)), {"upper": False, "left": False}), (((3, 3), (2, 3, 2)), {"upper": False, "unitriangular": True}))
    def forward(xp, input, other, upper, left=True, unitriangular=False): return xp.solve_triangle(input, other, upper, left, unitriangular)
    def d_input(xp, g, input, out, upper, left, unitriangular):
        g = xp.solve_triangle(T(xp, input), g, not upper, left, unitriangular)
        whole = xp.matmul(g, T(xp, out)) if left else xp.matmul(T(xp, out), g)
        return -(xp.triu(whole, int(unitriangular)) if upper else xp.tril(whole, -int(unitriangular)))
    def d_other(xp, g, input, upper, left, unitriangular): return xp.solve_triangle(T(xp, input), g, not upper, left, unitriangular)


class cholesky(Factor):
    """Lower triangular L with `L @ L.mH` equal to a positive definite matrix, of which one triangle is read; `U.mH @ U` with `upper`."""
    samples, exempt = (([[2.0, 0.5, 0.1], [0.5, 1.5, -0.3], [0.1, -0.3, 1.0]],), ([[[2.0, 0.5], [0.5, 1.5]], [[1.0, -0.2], [-0.2, 3.0]]],)), ONE_TRIANGLE | ASYMMETRIC
    @classmethod
    def explain(cls, error, inputs, attrs):
        a = getattr(inputs[0], "array", inputs[0])
        if isinstance(error, numpy.linalg.LinAlgError) and cls._misshapen(a) is None:
            error = Refused(indefinite(namespace(a).cholesky_ex(a, attrs.get("upper", False))[1]), LinAlgError)
        return super().explain(error, inputs, attrs)

    def forward(xp, input, upper=False): return xp.cholesky(input, upper)
    def d_input(xp, g, out, upper): return cholesky_slope(xp, g, out, upper)
    def t_input(xp, t, out, upper): return cholesky_push(xp, t, out, upper)


def cholesky_slope(xp: Any, g: Any, out: Any, upper: bool) -> Any:
    """Gradient of the matrix with the factor `out`."""
    g = conj(xp, g)
    L, g = (H(xp, out), H(xp, g)) if upper else (out, g)
    lower = xp.tril(xp.matmul(H(xp, L), g))
    left = xp.solve_triangle(H(xp, L), lower + H(xp, off_diagonal(xp, lower)), True)
    return conj(xp, xp.solve_triangle(L, left, False, False)) / 2


def cholesky_push(xp: Any, t: Any, out: Any, upper: bool) -> Any:
    """Tangent of the factor `out`."""
    L = H(xp, out) if upper else out
    lower = xp.tril(xp.solve_triangle(H(xp, L), xp.solve_triangle(L, t, False), True, False))
    found = xp.matmul(L, lower + off_diagonal(xp, lower)) / 2
    return H(xp, found) if upper else found


def indefinite(info: Any) -> str:
    """Return the error message for matrices that cannot be factored; `info` is 0 or the order of the first leading minor that fails."""
    at = int((info.reshape(-1) != 0).argmax())
    which = f"(Batch element {at}): " if info.ndim else ""
    words = f"not positive-definite (the leading minor of order {int(info.reshape(-1)[at])} is not positive-definite)."
    return f"{which}The factorization could not be completed because the input is {words}"


class qr(Factor):
    """Q with orthonormal columns and upper triangular R, with `Q @ R` the input; `mode` is "reduced", "complete" or "r" (Q is empty)."""
    outputs, square, samples = ("Q", "R"), False, (((4, 3),), ((3, 3),), ((2, 4),))
    def forward(xp, input, mode="reduced"): return xp.qr(input, mode)
    def d_input(xp, g, input, Q, R, mode):
        m, n = input.shape[-2:]
        if mode == "r" or mode == "complete" and m > n:
            raise RuntimeError(f"linalg.qr: the derivative depends on Q; it is not defined for mode='{mode}' here. Use mode='reduced'.")
        gQ, gR = conj(xp, g[0]), conj(xp, g[1])
        if m >= n:
            return conj(xp, tall_qr(xp, gQ, gR, Q, R))
        head = tall_qr(xp, gQ + xp.matmul(input[..., m:], H(xp, gR[..., m:])), gR[..., :m], Q, R[..., :m])
        return conj(xp, xp.concatenate([head, xp.matmul(Q, gR[..., m:])], axis=-1))


class eigh(Factor):
    """Eigenvalues, ascending, and eigenvectors (columns) of a symmetric or Hermitian matrix, of which one triangle is read."""
    outputs, exempt, lacks = ("eigenvalues", "eigenvectors"), ONE_TRIANGLE | ASYMMETRIC, "ih"
    samples = (([[2.0, 0.5, 0.1], [0.5, 1.5, -0.3], [0.1, -0.3, 1.0]],), ([[[2.0, 0.5], [0.5, 1.5]], [[1.0, -0.2], [-0.2, 3.0]]],))
    def forward(xp, input, UPLO="L"): return xp.eigh(input, UPLO)
    def d_input(xp, g, input, eigenvalues, eigenvectors):
        gw, gV, V = g[0], conj(xp, g[1]), eigenvectors
        gaps = apart(xp, eigenvalues[..., None, :] - eigenvalues[..., :, None])
        inner = off_diagonal(xp, ratio(xp, skew(xp, xp.matmul(H(xp, V), gV)), 2 * gaps, gV))
        return conj(xp, xp.matmul(V, xp.matmul(inner + on_diagonal(xp, gw), H(xp, V))))
    def t_input(xp, t, eigenvalues, eigenvectors):
        inner = xp.matmul(H(xp, eigenvectors), xp.matmul(t, eigenvectors))
        gaps = apart(xp, eigenvalues[..., None, :] - eigenvalues[..., :, None])
        return xp.real(xp.sum(inner - off_diagonal(xp, inner), axis=-1)), xp.matmul(eigenvectors, off_diagonal(xp, inner) / gaps)


class eigvalsh(Factor):
    """Eigenvalues, ascending, of a symmetric or Hermitian matrix, of which one triangle is read."""
    aux, exempt, samples, lacks = ("eigenvectors",), ONE_TRIANGLE, eigh.samples, "ih"
    def forward(xp, A, UPLO="L"): return tuple(xp.eigh(A, UPLO))
    inputs = ("A",)
    def d_A(xp, g, A, eigenvectors): return conj(xp, xp.matmul(eigenvectors * g[..., None, :], H(xp, eigenvectors)))


class svd(Factor):
    """U, singular values S (descending) and Vh, with `U @ diag(S) @ Vh` the input; without `full_matrices` U and Vh are thin."""
    outputs, square = ("U", "S", "Vh"), False
    examples = ((((4, 3),), {"full_matrices": False}), (((3, 3),), {}), (((2, 4),), {"full_matrices": False}))
    def forward(xp, input, full_matrices=True, *, driver=None): return xp.svd(input, _no_driver(full_matrices, driver))
    def d_input(xp, g, input, U, S, Vh):
        gU, gS, gV = conj(xp, g[0]), g[1], T(xp, g[2])
        k = S.shape[-1]
        U, V, gU, gV = U[..., :, :k], H(xp, Vh)[..., :, :k], gU[..., :, :k], gV[..., :, :k]
        row, column = S[..., None, :], S[..., :, None]
        gaps = apart(xp, (row - column) * (row + column))
        turn = skew(xp, xp.matmul(H(xp, U), gU))
        skew_u, skew_v = off_diagonal(xp, ratio(xp, turn, gaps, gU)), off_diagonal(xp, ratio(xp, skew(xp, xp.matmul(H(xp, V), gV)), gaps, gV))
        middle = skew_u * row + column * skew_v + on_diagonal(xp, gS)
        if is_complex(U):  # the phase of complex singular vectors is free
            middle = middle + xp.where(eye_of(xp, turn), ratio(xp, turn, 2 * row, gU), 0)
        found = xp.matmul(U, xp.matmul(middle, H(xp, V)))
        if U.shape[-2] > k:
            found = found + xp.matmul(ratio(xp, outside(xp, U, gU), row, gU), H(xp, V))
        if V.shape[-2] > k:
            found = found + xp.matmul(U, H(xp, ratio(xp, outside(xp, V, gV), row, gV)))
        return conj(xp, found)


class svdvals(Factor):
    """Singular values, descending."""
    aux, square, samples, inputs = ("U", "Vh"), False, (((4, 3),), ((3, 3),), ((2, 4),)), ("A",)
    def forward(xp, A, *, driver=None):
        U, S, Vh = xp.svd(A, _no_driver(False, driver))
        return S, U, Vh
    def d_A(xp, g, A, U, Vh): return conj(xp, xp.matmul(U * g[..., None, :], Vh))


class pinv(Factor):
    """Moore-Penrose pseudoinverse; singular values up to `atol` or `rtol` times the largest count as zero."""
    square, lacks, samples = False, "", (((4, 3),), ((3, 3),), ((2, 4),))
    def forward(xp, input, rtol=None, hermitian=False, *, atol=None): return xp.pinv(input, rtol, hermitian, atol)

    @classmethod
    def bind(cls, args, kwargs):
        """Accept PyTorch's older name of `rtol`."""
        inputs, attrs = super().bind(args, {"rtol" if k == "rcond" else k: v for k, v in kwargs.items()})
        tolerances = {k: attrs[k] for k in ("atol", "rtol")}
        refuse_complex("linalg.pinv", **tolerances)
        refuse_gradients("linalg_pinv", **tolerances)
        return inputs, attrs

    def d_input(xp, g, input, out):
        P, PH, gH = out, H(xp, out), T(xp, g)
        left = xp.matmul(gH, xp.matmul(P, PH))
        right = xp.matmul(xp.matmul(PH, P), gH)
        straight = xp.matmul(PH, xp.matmul(conj(xp, g), PH))
        return conj(xp, (left - xp.matmul(input, xp.matmul(P, left))) + (right - xp.matmul(xp.matmul(right, P), input)) - straight)


def _no_driver(full_matrices, driver):
    if driver is not None: raise Refused("keyword argument `driver=` is only supported on CUDA inputs with cuSOLVER backend.")
    return full_matrices


# -- helpers of the rules ----------------------------------------------------------------------------------------------------


def T(xp: Any, x: Any) -> Any:
    return xp.matrix_transpose(x)


def conj(xp: Any, x: Any) -> Any:
    return xp.conj(x) if is_complex(x) else x


def H(xp: Any, x: Any) -> Any:
    """Conjugate transpose. Published formulas conjugate, rules do not: `g` is conjugated on the way in and out."""
    return xp.matrix_transpose(conj(xp, x))


def eye_of(xp: Any, x: Any) -> Any:
    """Bool identity of the size of the matrices in `x`."""
    return unit(xp, x, x.shape[-1], x.shape[-1])


def unit(xp: Any, beside: Any, rows: int, columns: int) -> Any:
    """Bool matrix with ones on the diagonal, on the device of `beside`."""
    return xp.asarray(namespace(getattr(beside, "array", beside)).eye(rows, columns, dtype=bool))


def off_diagonal(xp: Any, x: Any) -> Any:
    return xp.where(eye_of(xp, x), 0, x)


def on_diagonal(xp: Any, v: Any) -> Any:
    """Diagonal matrices of the vectors in the last dimension."""
    return xp.where(eye_of(xp, v), v[..., None, :], 0)


def apart(xp: Any, gaps: Any) -> Any:
    """Differences of eigenvalues as divisors: 1 on the diagonal, where the numerator is 0."""
    return xp.where(eye_of(xp, gaps), 1, gaps)


def ratio(xp: Any, a: Any, b: Any, g: Any) -> Any:
    """`a / b` for an `a` computed from the gradient `g` of vectors; 0 / 0 is 0 where `g` is 0, so that values alone have a gradient."""
    return a / xp.where((b == 0) & (xp.sum(xp.abs(g), axis=(-2, -1), keepdims=True) == 0), 1, b)


def skew(xp: Any, x: Any) -> Any:
    return x - H(xp, x)


def outside(xp: Any, basis: Any, g: Any) -> Any:
    """Part of `g` that is orthogonal to the columns of `basis`."""
    return g - xp.matmul(basis, xp.matmul(H(xp, basis), g))


def tall_qr(xp: Any, gQ: Any, gR: Any, Q: Any, R: Any) -> Any:
    """Gradient of the input of `qr` with at least as many rows as columns."""
    m = xp.triu(xp.matmul(gR, H(xp, R)) - xp.matmul(H(xp, Q), gQ))
    whole = gQ + xp.matmul(Q, xp.where(eye_of(xp, m), xp.real(m), m) + H(xp, off_diagonal(xp, m)))
    return xp.solve_triangle(H(xp, R), whole, False, False)


# -- composites ----------------------------------------------------------------------------------------------------------------


@composite(home="linalg")
def solve(A: Tensor, B: Tensor, *, left: bool = True) -> Tensor:
    """Solve `A @ X == B` (with `left=False`, `X @ A == B`); B is a matrix (*, n, k) or a batch of vectors (*, n)."""
    return arranged(solve_matrix, A, B, left)


def arranged(solver: Any, A: Tensor, B: Tensor, left: bool) -> Tensor:
    """`solve` for vectors, matrices and either side, given a `solver` of `A @ X == B`."""
    if A.ndim < 2:
        raise RuntimeError("linalg.solve: The input tensor A must have at least 2 dimensions.")
    vector = B.ndim == 1 or A.ndim - 1 == B.ndim and B.shape == A.shape[:-1]
    if vector and not left:
        raise RuntimeError(f"linalg.solve: vectors B of shape {list(B.shape)} have no X with X @ A == B; give them as rows of a matrix")
    return solver(A, unsqueeze(B, -1))[..., 0] if vector else _sided(solver, A, B, left)


def _sided(solver: Any, A: Tensor, B: Tensor, left: bool) -> Tensor:
    return solver(A, B) if left else transpose(solver(transpose(A, -2, -1), transpose(B, -2, -1)), -2, -1)


@composite(home="linalg")
def solve_triangular(input: Tensor, B: Tensor, *, upper: bool, left: bool = True, unitriangular: bool = False) -> Tensor:
    """Solve `input @ X == B` for a triangular matrix; the other triangle is not read. A 0 on the diagonal makes X infinite or nan."""
    for name, x in (("A", input), ("B", B)):
        if x.ndim < 2:
            raise RuntimeError(f"linalg.solve_triangular: The input tensor {name} must have at least 2 dimensions.")
    if input.shape[-1] != input.shape[-2] or input.shape[-1] != B.shape[-2 if left else -1]:
        raise RuntimeError(f"linalg.solve_triangular: Incompatible shapes of a square matrix and what it multiplies: {list(input.shape)} and {list(B.shape)}")
    need_floats("triangular_solve", input)
    return solve_triangle(input, B.to(input.dtype), upper, left, unitriangular)


@composite(home="linalg")
def matrix_rank(A: Tensor, tol: Any = None, hermitian: bool = False, *, atol: Any = None, rtol: Any = None) -> Tensor:
    """Number of singular values larger than `atol` and than `rtol` times the largest.

    Without either, `rtol` is max(n, m) eps; `tol` is the old name of `atol`. Only one triangle of a `hermitian` matrix is read.
    """
    if A.ndim < 2:
        raise RuntimeError(f"torch.linalg.matrix_rank: The input tensor input must have at least 2 dimensions, got {A.ndim}.")
    refuse_complex("linalg.matrix_rank", atol=tol if atol is None else atol, rtol=rtol)
    need_floats("linalg.matrix_rank", A, "" if tol is atol is rtol is None else "h")
    if not A.numel():
        return A.new_zeros(tuple(A.shape[:-2]), dtype=dtypes.int64)
    s = eigvalsh(A.detach()).abs() if hermitian else svdvals(A.detach())
    xp = namespace(s.array)
    try:
        least = smallest(xp, A.array, s.array, tol if atol is None else atol, rtol)
    except ValueError as error:
        raise RuntimeError(f"linalg.matrix_rank: {error}") from None
    return (s > Tensor._wrap(least[..., None])).sum(-1)


@composite(home="linalg")
def matrix_power(A: Tensor, n: int) -> Tensor:
    """Product of `n` copies of a square matrix, or of its inverse if `n` is negative."""
    if A.ndim < 2 or A.shape[-1] != A.shape[-2]:
        raise RuntimeError(f"linalg.matrix_power: A must be batches of square matrices, but they have the shape {list(A.shape)}")
    if n < 0:
        A, n = inv(A), -n
    if n == 0:
        return clone(A, memory_format=contiguous_format).copy_(Tensor._wrap(namespace(A.array).eye(A.shape[-1], dtype=A.array.dtype)))  # recorded, as in PyTorch
    out = None
    while True:
        if n & 1:
            out = A if out is None else matmul(out, A)
        n >>= 1
        if not n:
            return clone(out, memory_format=contiguous_format) if out is A else out
        A = matmul(A, A)


_Lstsq = result_type("lstsq", ("solution", "residuals", "rank", "singular_values"), "linalg")


@composite(home="linalg")
def lstsq(A: Tensor, B: Tensor, rcond: float | None = None, *, driver: str | None = None) -> Any:
    """Least-squares solution of `A @ X == B` for a matrix B (*, n, k) or vectors (*, n): (solution, residuals, rank, singular_values).

    The solution is that of least norm; its gradient passes through the pseudoinverse. As in PyTorch, `driver`, LAPACK's name of the
    algorithm, decides which other results are not empty: the residuals (for full rank and more rows than columns) except with "gelsy", the
    default on a CPU; the rank except with "gels"; the singular values with "gelsd" and "gelss".
    """
    if driver not in (None, "gels", "gelsy", "gelsd", "gelss"):
        raise RuntimeError(f"torch.linalg.lstsq: parameter `driver` should be one of (gels, gelsy, gelsd, gelss), but got {driver}")
    vector = A.ndim - 1 == B.ndim and B.shape == A.shape[:-1]
    b = unsqueeze(B, -1) if vector else B
    if A.ndim > 1:
        need_floats("torch.linalg.lstsq", A, "")
    s = svdvals(A.detach())
    rcond = max(A.shape[-2:]) * float(numpy.finfo(s.array.dtype).eps) if rcond is None else rcond
    x = matmul(pinv(A, rcond), b)
    rank = (s > rcond * s[..., :1]).sum(-1)
    full = A.shape[-2] > A.shape[-1] and driver not in (None, "gelsy") and bool((rank == A.shape[-1]).all())
    residuals = ((matmul(A, x) - b).abs() ** 2).sum(-2) if full else s.new_empty(0)
    none = s.new_empty(0)
    return _Lstsq(
        x[..., 0] if vector else x, residuals, none.long() if driver == "gels" else rank,
        s if driver in ("gelsd", "gelss") else none,
    )  # fmt: skip


@composite(home="linalg")
def matrix_norm(A: Tensor, ord: Any = "fro", dim: tuple[int, int] = (-2, -1), keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """Matrix norm: "fro", "nuc", inf and -inf (row sums), 1 and -1 (column sums), 2 and -2 (singular values)."""
    if not (A.is_floating_point() or A.is_complex()):  # also with a `dtype`
        raise RuntimeError(f"linalg.matrix_norm: Expected a floating point or complex tensor as input. Got {A.dtype.name}")
    A = A if dtype is None else A.to(norm_dtype("linalg.matrix_norm", A, dtype))
    if A.ndim < 2:
        raise RuntimeError(f"linalg.matrix_norm: The input tensor A must have at least 2 dimensions. Got {A.ndim}D")
    if isinstance(dim, int):
        raise TypeError(f"linalg_matrix_norm(): argument 'dim' must be tuple of ints, not {type(dim).__name__}")
    if len(dim) != 2:
        raise RuntimeError(f"linalg.matrix_norm: dim must be a 2-tuple. Got {list(dim)}")
    a, b = (wrap_dim(d, A.ndim) for d in dim)
    if ord == "fro":
        return vector_norm(A, 2, (a, b), keepdim)
    if ord in ("nuc", 2, -2):
        need_floats("linalg.matrix_norm", A, "")
    x = permute(A, (*[d for d in range(A.ndim) if d not in (a, b)], a, b))
    if ord == "nuc":
        out = svdvals(x).sum(-1)
    elif ord in (2, -2):
        values = svdvals(x)
        if ord == 2 and not values.shape[-1]:
            values = values.new_zeros((*values.shape[:-1], 1))
        out = values.amax(-1) if ord == 2 else values.amin(-1)
    elif ord in (1, -1, math.inf, -math.inf):
        sums = x.abs().sum(-2 if abs(ord) == 1 else -1)
        if ord > 0 and not sums.shape[-1]:
            sums = sums.new_zeros((*sums.shape[:-1], 1))  # the largest of no sums is 0
        out = sums.amax(-1) if ord > 0 else sums.amin(-1)
    else:
        raise RuntimeError(f"linalg.matrix_norm: Order {ord} not supported.")
    if keepdim:
        for d in sorted((a, b)):
            out = unsqueeze(out, d)
    return out


@composite(home="linalg", method=False)
def norm(A: Tensor, ord: Any = None, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """Vector norm over `dim` or, if `ord` is given, matrix norm over two dimensions."""
    if isinstance(dim, (tuple, list)) and len(dim) not in (1, 2):
        raise RuntimeError(f"linalg.norm: If dim is specified, it must be of length 1 or 2. Got {list(dim)}")
    pair = len(dim) == 2 if isinstance(dim, (tuple, list)) else dim is None and A.ndim == 2
    if pair and ord is not None:
        return matrix_norm(A, ord, (-2, -1) if dim is None else tuple(dim), keepdim, dtype=dtype)
    if dim is None and ord is not None and A.ndim not in (1, 2):
        raise RuntimeError(f"linalg.norm: If dim is not specified but ord is, the input must be 1D or 2D. Got {A.ndim}D.")
    if isinstance(ord, str):
        raise RuntimeError(f"linalg.norm: the order {ord!r} is one of matrices: the input must have 2 dimensions, or dim two. Got {A.ndim}D, dim={dim}")
    return vector_norm(A, 2 if ord is None else ord, dim, keepdim, dtype=dtype)


@composite(method=True)
def logdet(input: Tensor) -> Tensor:
    """Logarithm of the determinant; for real matrices nan if it is negative and -inf if it is 0."""
    sign, log = slogdet(input)
    if input.is_complex():
        return sign.log() + log
    return log.masked_fill(sign < 0, math.nan)


@composite(method=True)
def pinverse(input: Tensor, rcond: float = 1e-15) -> Tensor:
    """`linalg.pinv` with `rcond` as the relative tolerance."""
    return pinv(input, rcond)


@composite(method=True)
def matrix_power_(input: Tensor, n: int) -> Tensor:
    """Same as `linalg.matrix_power`."""
    return matrix_power(input, n)


@composite(method=True)
def qr_(input: Tensor, some: bool = True) -> Any:
    """Q and R with `Q @ R` the input, thin, or with square Q without `some`. Old form of `linalg.qr`."""
    return qr(input, "reduced" if some else "complete")


@composite(method=True)
def cholesky_(input: Tensor, upper: bool = False) -> Tensor:
    """Same as `linalg.cholesky`."""
    if cholesky._misshapen(input) is None:
        need_floats("cholesky", input)
    return cholesky(input, upper)


for _name, _op in {"inverse": inv, "det": det, "slogdet": slogdet}.items():
    functions[_name] = _op.call
    define(_name, _op.call)
