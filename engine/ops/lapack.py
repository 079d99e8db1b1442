"""The rest of linear algebra: LDL factors, reflections, low-rank approximations, extreme eigenpairs, PyTorch's old names."""

from __future__ import annotations

import functools
from typing import Any

from ..base import dtypes
from ..base.errors import LinAlgError
from ..base.return_types import result_type
from ..core.devices import known, namespace
from ..core.op import composite, functions
from ..core.tape import mode
from ..core.tensor import Tensor, define
from .decompose import cholesky, eigh, matrix_norm, need_floats, qr, solve_triangular, svd
from .factor import householder_product
from .front import must_be_tensors
from .linalg import matmul
from .random import randn
from .reduce import vector_norm
from .shape import broadcast_shapes, expand

functions["linalg.matmul"] = functions["matmul"]
_adjoint = functions["adjoint"]


def _kernel(name: str, tensors: tuple, *rest: Any) -> tuple:
    """Call a LAPACK routine without a derivative, as in PyTorch. Raises NotImplementedError for inputs that require a gradient."""
    arrays = tuple(t.array for t in tensors)
    if mode.grad and any(t.requires_grad for t in tensors):
        raise NotImplementedError(f"the derivative for '{name}' is not implemented; detach() its inputs, or use linalg.qr, solve or cholesky")
    need_floats(f"linalg.{name}", tensors[0], "h")
    found = getattr(namespace(arrays[0]), name)(*arrays, *rest)
    return tuple(Tensor._wrap(a) for a in (found if isinstance(found, tuple) else (found,)))


def _matrices(A: Tensor, name: str, square: bool = True) -> None:
    if A.ndim < 2:
        raise RuntimeError(f"{name}: The input tensor A must have at least 2 dimensions.")
    if square and A.shape[-1] != A.shape[-2]:
        raise RuntimeError(f"{name}: A must be batches of square matrices, but they are {A.shape[-2]} by {A.shape[-1]} matrices")


# -- LDL ---------------------------------------------------------------------------------------------------------------------------

_LDL, _LDLEx = result_type("ldl_factor", ("LD", "pivots"), "linalg"), result_type("ldl_factor_ex", ("LD", "pivots", "info"), "linalg")


@composite(home="linalg")
def ldl_factor_ex(A: Tensor, *, hermitian: bool = False, check_errors: bool = False) -> Any:
    """`ldl_factor`, and `info`: the index, from 1, of the first 0 on D's diagonal, or 0."""
    _matrices(A, "torch.linalg.ldl_factor_ex")
    packed, pivots, info = _kernel("ldl_factor", (A,), hermitian)
    if check_errors and info.numel() and known(info.max()):
        raise LinAlgError(f"torch.linalg.ldl_factor_ex: The diagonal element {int(info.max())} of D is zero; ldl_solve would divide by it.")
    return _LDLEx(packed, pivots, info)


@composite(home="linalg")
def ldl_factor(A: Tensor, *, hermitian: bool = False) -> Any:
    """L and D of a symmetric (with `hermitian`, Hermitian) matrix in one matrix, and LAPACK's pivots; the lower triangle is read."""
    return _LDL(*ldl_factor_ex(A, hermitian=hermitian, check_errors=True)[:2])


@composite(home="linalg")
def ldl_solve(LD: Tensor, pivots: Tensor, B: Tensor, *, hermitian: bool = False) -> Tensor:
    """Solve `A @ X == B` from the factors of A that `ldl_factor` returns."""
    _matrices(LD, "torch.linalg.ldl_solve")
    if B.ndim < 2:
        raise RuntimeError(f"torch.linalg.ldl_solve: Expected B to have at least 2 dimensions, but it has {B.ndim} dimensions instead")
    if tuple(pivots.shape) != tuple(LD.shape[:-1]):
        raise RuntimeError(f"torch.linalg.ldl_solve: Expected LD.shape[:-1] and pivots.shape to be the same, but got pivots with shape {list(pivots.shape)} instead")
    if B.shape[-2] != LD.shape[-1]:
        raise RuntimeError(f"linalg.ldl_solve: Incompatible shapes of A and B for the equation AX = B ({LD.shape[-2]}x{LD.shape[-1]} and {B.shape[-2]}x{B.shape[-1]})")
    if pivots.dtype.rank != dtypes.INT:
        raise RuntimeError(f"torch.linalg.ldl_solve: Expected pivots to be integers. Got {pivots.dtype!r}")
    if B.dtype is not LD.dtype:
        raise RuntimeError(f"torch.linalg.ldl_solve: Expected LD and B to have the same dtype, but found LD of type {LD.dtype!r} and B of type {B.dtype!r} instead")
    lead = broadcast_shapes(tuple(LD.shape[:-2]), tuple(B.shape[:-2]))
    LD, pivots, B = expand(LD, (*lead, *LD.shape[-2:])), expand(pivots, (*lead, pivots.shape[-1])), expand(B, (*lead, *B.shape[-2:]))
    return _kernel("ldl_solve", (LD, pivots, B), hermitian)[0]


# -- reflections -------------------------------------------------------------------------------------------------------------------

_Geqrf = result_type("geqrf", ("a", "tau"))


@composite(method=True)
def geqrf(input: Tensor) -> Any:
    """QR decomposition as LAPACK packs it: R, with the vectors of reflections below its diagonal, and their factors `tau`."""
    _matrices(input, "torch.geqrf", square=False)
    need_floats("geqrf", input)
    return _Geqrf(*_kernel("reflections", (input,)))


functions["orgqr"] = householder_product
define("orgqr", householder_product)


@composite(method=True)
def ormqr(input: Tensor, tau: Tensor, other: Tensor, left: bool = True, transpose: bool = False) -> Tensor:
    """`Q @ other` (`other @ Q` with `left=False`; Q's conjugate transpose with `transpose`) for the square Q that `geqrf` packed."""
    _matrices(input, "torch.ormqr", square=False)
    if other.ndim < 2:
        raise RuntimeError("torch.ormqr: other must have at least 2 dimensions.")
    if tau.ndim != input.ndim - 1 or other.ndim != input.ndim:
        raise RuntimeError(f"torch.ormqr: Expected tau to have one dimension less than input and other as many, but got {tau.ndim}, {input.ndim} and {other.ndim}")
    m, k = other.shape[-2 if left else -1], tau.shape[-1]
    if input.shape[-2] != m:
        raise RuntimeError(f"torch.ormqr: other.shape[{-2 if left else -1}] must be equal to input.shape[-2], got {m} and {input.shape[-2]}")
    if k != min(m, input.shape[-1]):
        raise RuntimeError(f"torch.ormqr: tau.shape[-1] must be equal to min(other.shape[{-2 if left else -1}], input.shape[-1]), got {k}")
    if not input.dtype is tau.dtype is other.dtype:
        raise RuntimeError(f"torch.ormqr: Expected input, tau and other to have one dtype, but got {input.dtype.name}, {tau.dtype.name} and {other.dtype.name}")
    need_floats("ormqr", input)
    if not left:
        return _adjoint(ormqr(input, tau, _adjoint(other), True, not transpose))
    one = Tensor._wrap(namespace(input.array).eye(*input.shape[-2:], dtype=input.array.dtype))
    below, out = input.tril(-1) + one, other
    for i in range(k) if transpose else reversed(range(k)):
        v, factor = below[..., i : i + 1], tau[..., i, None, None]
        out = out - (factor.conj() if transpose and factor.is_complex() else factor) * matmul(v, matmul(_adjoint(v), out))
    return out


# -- low rank ----------------------------------------------------------------------------------------------------------------------


@composite
def svd_lowrank(A: Tensor, q: int | None = 6, niter: int | None = 2, M: Tensor | None = None) -> tuple:
    """U, S and V of rank `q` with `U @ diag(S) @ V.mH` near the matrix (less `M`).

    Source: Halko, Martinsson and Tropp, "Finding structure with randomness" (2009), algorithms 4.4 and 5.1, with `niter` subspace
    iterations from a random start.
    """
    _matrices(A, "svd_lowrank", square=False)
    A = A if M is None else A - M
    q, niter = 6 if q is None else q, 2 if niter is None else niter
    if A.shape[-2] < A.shape[-1]:
        V, S, U = svd_lowrank(_adjoint(A), q, niter)
        return U, S, V
    AH = _adjoint(A)
    Q = qr(matmul(A, randn(A.shape[-1], q, dtype=A.dtype, device=A.device))).Q
    for _ in range(niter):
        Q = qr(matmul(A, qr(matmul(AH, Q)).Q)).Q
    U, S, Vh = svd(matmul(_adjoint(Q), A), False)
    return matmul(Q, U), S, _adjoint(Vh)


@composite
def pca_lowrank(A: Tensor, q: int | None = None, center: bool = True, niter: int = 2) -> tuple:
    """Principal components of rows of data: `svd_lowrank` of the matrix, after subtracting the columns' means if `center`.

    `q` is the number of components, by default min(6, m, n).
    """
    m, n = A.shape[-2:]
    q = min(6, m, n) if q is None else q
    if not 0 <= q <= min(m, n):
        raise ValueError(f"q(={q}) must be non-negative integer and not greater than min(m, n)={min(m, n)}")
    if niter < 0:
        raise ValueError(f"niter(={niter}) must be non-negative integer")
    return svd_lowrank(A - A.mean(-2, keepdim=True) if center else A, q, niter)


@composite
def lobpcg(
    A: Tensor, k: int | None = None, B: Tensor | None = None, X: Tensor | None = None, n: int | None = None, iK: Tensor | None = None,
    niter: int | None = None, tol: float | None = None, largest: bool | None = None, method: str | None = None, tracker: Any = None,
    ortho_iparams: Any = None, ortho_fparams: Any = None, ortho_bparams: Any = None,
) -> tuple:
    """The `k` largest (or smallest) eigenvalues of a symmetric matrix and their eigenvectors; with B, those of `A x = e B x`.

    They are computed exactly, by a full decomposition: the parameters of PyTorch's iteration (`X` except its width, `iK`, `niter`, `tol`,
    `method` and `ortho_*`) do not change the result. A `tracker` raises ValueError, since there is no iteration.
    """
    if tracker is not None:
        raise ValueError("lobpcg: tracker is not supported: the eigenpairs are not found by iteration")
    _matrices(A, "lobpcg")
    k = k if k is not None else 1 if X is None else X.shape[-1]
    if A.shape[-1] < 3 * k:
        raise ValueError(f"LPBPCG algorithm is not applicable when the number of A rows (={A.shape[-1]}) is smaller than 3 x the number of requested eigenpairs (={k})")
    if B is None:
        values, vectors = eigh(A)
    else:
        L = cholesky(B)
        half = solve_triangular(L, A, upper=False)
        values, vectors = eigh(_adjoint(solve_triangular(L, _adjoint(half), upper=False)))
        vectors = solve_triangular(_adjoint(L), vectors, upper=True)
    if largest is False:
        return values[..., :k], vectors[..., :k]
    return values.flip(-1)[..., :k], vectors.flip(-1)[..., :k]


# -- old names ---------------------------------------------------------------------------------------------------------------------


@composite
def chain_matmul(*matrices: Any) -> Tensor:
    """Product of several matrices, from left to right. Old form of `linalg.multi_dot`."""
    must_be_tensors(matrices)
    if not matrices:
        raise RuntimeError("chain_matmul(): Expected one or more matrices")
    if any(m.ndim != 2 for m in matrices):
        raise RuntimeError(f"Tensor dimension is {next(m.ndim for m in matrices if m.ndim != 2)}, expected 2 instead.")
    return functools.reduce(matmul, matrices)


@composite
def nuclear_norm(input: Tensor, dim: Any = None, keepdim: bool = False) -> Tensor:
    """Sum of the singular values of a matrix. Old form of `linalg.matrix_norm`."""
    if isinstance(dim, bool):  # `nuclear_norm(x, True)`
        dim, keepdim = None, dim
    dim = (dim,) if isinstance(dim, int) else dim
    return matrix_norm(input, "nuc", (-2, -1) if dim is None else tuple(dim), keepdim)


@composite
def frobenius_norm(input: Tensor, dim: Any = (), keepdim: bool = False) -> Tensor:
    """Square root of the sum of squares over one or two dimensions, or over all."""
    if not isinstance(dim, int) and len(dim) > 2:
        raise RuntimeError(f"Expected at most 2 dimensions, but got {len(dim)} dimensions instead.")
    return vector_norm(input, 2, None if not isinstance(dim, int) and not len(dim) else dim, keepdim)


@composite
def norm_except_dim(v: Tensor, pow: int = 2, dim: int = 0) -> Tensor:
    """Norm over all dimensions but one, with the others kept as 1, for weight normalization; over all dimensions for dim -1."""
    if dim == -1:
        return vector_norm(v, pow)
    if not -v.ndim <= dim < v.ndim:
        raise IndexError(f"Dimension out of range (expected to be in range of [{-v.ndim}, {v.ndim - 1}], but got {dim})")
    others = tuple(d for d in range(v.ndim) if d != dim % v.ndim)
    return vector_norm(v, pow, others, True) if others else v.abs()  # for no dimensions, `vector_norm` would reduce all


@composite
def vander_(x: Tensor, N: int | None = None, increasing: bool = False) -> Tensor:
    """Powers N - 1 to 0 (with `increasing`, 0 to N - 1) of the elements of a vector, as rows."""
    if x.ndim != 1:
        raise RuntimeError("x must be a one-dimensional tensor.")
    if N is not None and N < 0:
        raise RuntimeError("N must be non-negative.")
    n = x.shape[0] if N is None else N
    x = x if x.dtype.rank >= dtypes.FLOAT else x.long()
    powers = functions["cat"]([x.new_ones((len(x), 1)), expand(x[:, None], (len(x), n - 1)).cumprod(-1)], -1) if n else x[:, None][:, :0]
    return powers if increasing else powers.flip(-1)


def _gone(name: str, now: str) -> None:
    def call(*args: Any, **kwargs: Any) -> None:
        raise RuntimeError(f"This function was deprecated since version 1.9 and is now removed. `torch.{name}` is deprecated in favor of `torch.linalg.{now}`.")

    call.__name__ = call.__qualname__ = name
    call.__doc__ = f"RuntimeError: PyTorch has taken it away; use `linalg.{now}`."
    functions[name] = call
    if name != "matrix_rank":
        define(name, call)


for _old, _new in {"eig": "eig", "symeig": "eigh", "solve": "solve", "lstsq": "lstsq", "matrix_rank": "matrix_rank"}.items():
    _gone(_old, _new)
