"""More linear algebra: LU factors, general eigenvalues, matrix exponentials, solves from factors, tensors as matrices.

The gradients are those of Walter and Lehmann, "Algorithmic differentiation of linear algebra functions" (2018), and, for the exponential,
of Najfeld and Havel, "Derivatives of the matrix exponential and their computation" (1995): a block of a larger exponential.
"""

from __future__ import annotations

import functools
import math
from typing import Any

from ..backends.products import columns
from ..base.dtypes import FLOAT, bool_, int32
from ..base.errors import LinAlgError, Refused
from ..base.return_types import result_type
from ..core.devices import known, namespace
from ..core.op import RULES_ONLY, composite, functions
from ..core.tensor import Tensor
from .decompose import (
    Factor,
    H,
    T,
    apart,
    arranged,
    cholesky,
    cholesky_push,
    cholesky_slope,
    conj,
    eye_of,
    indefinite,
    inv,
    matrix_norm,
    need_floats,
    off_diagonal,
    on_diagonal,
    ratio,
    solve,
    solve_matrix,
    solve_triangular,
    svd,
    svdvals,
    unit,
)
from .linalg import matmul, vdot
from .shape import broadcast_shapes, clone, diagonal, expand, permute, reshape, transpose, unsqueeze, wrap_dim

# -- LU ----------------------------------------------------------------------------------------------------------------------------


class lu_factor_(Factor):
    """L and U of `A` with its rows exchanged, in one matrix without the ones on L's diagonal, and LAPACK's pivots, from 1."""
    name, inputs, outputs, differentiable, aux, square = "lu_factor", ("A",), ("LU", "pivots"), ("LU",), ("where",), False
    samples, lacks = (((3, 3),), ((2, 4, 2),), ((2, 3),)), "ih"
    def forward(xp, A, *, pivot=True):
        if not pivot: raise Refused("LU without pivoting is not implemented on the CPU")
        return xp.lu_factor(A)

    def d_A(xp, g, LU, where):
        g, k = conj(xp, g), min(LU.shape[-2:])
        one = unit(xp, LU, LU.shape[-2], k)
        L, U = xp.where(one, 1, xp.tril(LU[..., :, :k])), xp.triu(LU[..., :k, :])
        def under_l(x): return xp.solve_triangle(H(xp, L1), x, True, True, True)
        L1, U1, g1 = L[..., :k, :], U[..., :, :k], g[..., :k, :k]
        low, high = xp.matmul(H(xp, L1), off_diagonal(xp, xp.tril(g1))), xp.matmul(xp.triu(g1), H(xp, U1))
        if LU.shape[-1] > k: low = low - xp.matmul(g[..., :, k:], H(xp, U[..., :, k:]))
        if LU.shape[-2] > k: high = high - xp.matmul(H(xp, L[..., k:, :]), g[..., k:, :])
        middle = off_diagonal(xp, xp.tril(low)) + xp.triu(high)
        found = under_l(xp.solve_triangle(H(xp, U1), middle, False, False))
        if LU.shape[-1] > k: found = xp.concatenate([found, under_l(g[..., :, k:])], axis=-1)
        if LU.shape[-2] > k: found = xp.concatenate([found, xp.solve_triangle(H(xp, U1), g[..., k:, :], False, False)], axis=-2)
        return conj(xp, xp.take_along_axis(found, xp.broadcast_to(where[..., None], LU.shape), -2))


_LU, _Unpacked = result_type("lu", ("P", "L", "U"), "linalg"), result_type("lu_unpack", ("P", "L", "U"))


@composite
def lu_unpack(LU_data: Tensor, LU_pivots: Tensor, unpack_data: bool = True, unpack_pivots: bool = True) -> Any:
    """P, L and U with `P @ L @ U` the matrix given to `lu_factor`; parts that are not requested are empty."""
    m, n = LU_data.shape[-2:]
    k, xp = min(m, n), namespace(LU_data.array)
    P = L = U = LU_data.new_empty(0)
    if unpack_pivots:
        P = Tensor._wrap(namespace(LU_pivots.array).permutation(LU_pivots.array, m, LU_data.array.dtype))
    if unpack_data:
        one = Tensor._wrap(xp.eye(m, k, dtype=LU_data.array.dtype))
        L, U = LU_data[..., :, :k].tril(-1) + one, LU_data[..., :k, :].triu()
    return _Unpacked(P, L, U)


@composite(home="linalg")
def lu(A: Tensor, *, pivot: bool = True) -> Any:
    """P, L and U with `P @ L @ U == A`: a permutation, a unit lower triangular and an upper triangular matrix."""
    packed, pivots = lu_factor_.call(A, pivot=pivot)
    return _LU(*lu_unpack(packed, pivots))


@composite(method=True)
def lu_(A: Tensor, pivot: bool = True, get_infos: bool = False) -> Any:
    """Old form of `linalg.lu_factor`; `get_infos` also returns the index, from 1, of the first 0 on U's diagonal, or 0."""
    found = lu_factor_ex(A, pivot=pivot)
    return tuple(found) if get_infos else tuple(found[:2])


_LUFactor, _LUFactorEx = result_type("lu_factor", ("LU", "pivots"), "linalg"), result_type("lu_factor_ex", ("LU", "pivots", "info"), "linalg")


@composite(home="linalg")
def lu_factor(A: Tensor, *, pivot: bool = True) -> Any:
    """L and U of `A` with its rows exchanged, in one matrix, and LAPACK's pivots, from 1. Raises RuntimeError if U's diagonal has a 0."""
    packed, pivots = lu_factor_.call(A, pivot=pivot)
    _info(packed, True, "linalg.lu_factor: U[{0},{0}] is zero and using it on lu_solve would result in a division by zero; lu_factor_ex does not ask.")
    return _LUFactor(packed, pivots)


@composite(home="linalg")
def lu_factor_ex(A: Tensor, *, pivot: bool = True, check_errors: bool = False) -> Any:
    """`lu_factor`, and `info`: the index, from 1, of the first 0 on U's diagonal, or 0. Raises only with `check_errors`."""
    packed, pivots = lu_factor_.call(A, pivot=pivot)
    info = _info(packed, check_errors, "linalg.lu_factor_ex: U[{0},{0}] is zero and using it on lu_solve would result in a division by zero.")
    return _LUFactorEx(packed, pivots, info)


def _info(packed: Tensor, check: bool, words: str) -> Tensor:
    """Return the index, from 1, of the first 0 on U's diagonal, or 0. If `check`, raise LinAlgError with `words` for a 0."""
    xp = namespace(packed.array)
    return Tensor._wrap(xp.asarray(xp.first_zero(packed.array, words if check else "")))


@composite(home="linalg")
def lu_solve(LU: Tensor, pivots: Tensor, B: Tensor, *, left: bool = True, adjoint: bool = False) -> Tensor:
    """Solve `A @ X == B` from the LU factors of A (`X @ A == B` with `left=False`; with A's conjugate transpose if `adjoint`)."""
    if B.ndim < 2:
        raise RuntimeError("linalg.lu_solve: The input tensor B must have at least 2 dimensions.")
    if LU.dtype.rank < FLOAT or LU.dtype is not B.dtype or pivots.dtype is not int32:
        raise RuntimeError(f"linalg.lu_solve: Expected floating point or complex LU and B of one dtype, and pivots of int32, but got {LU.dtype.name}, {B.dtype.name} and {pivots.dtype.name}")
    _refuse_oblong("linalg.lu_solve", LU)
    if B.shape[-2 if left else -1] != LU.shape[-1]:
        raise RuntimeError(f"linalg.lu_solve: Incompatible shapes of A and B: {list(LU.shape)} and {list(B.shape)}")
    if pivots.shape != LU.shape[:-1]:
        raise RuntimeError(f"linalg.lu_solve: Number of pivots per batch should be same as the dimension of the matrix, but got {list(pivots.shape)} and {list(LU.shape)}")
    need_floats("lu_solve", LU)
    if not left:
        flipped = functions["adjoint"](B)
        return functions["adjoint"](lu_solve(LU, pivots, flipped, adjoint=not adjoint))
    lead = broadcast_shapes(tuple(LU.shape[:-2]), tuple(B.shape[:-2]))
    P, L, U = lu_unpack(LU, pivots)
    B = expand(B, (*lead, *B.shape[-2:]))
    P, L, U = (expand(x, (*lead, *x.shape[-2:])) for x in (P, L, U))
    if adjoint:
        turned = solve_triangular(functions["adjoint"](U), B, upper=False)
        return matmul(P, solve_triangular(functions["adjoint"](L), turned, upper=True, unitriangular=True))
    return solve_triangular(U, solve_triangular(L, matmul(transpose(P, -2, -1), B), upper=False, unitriangular=True), upper=True)


@composite(method=True)
def lu_solve_(b: Tensor, LU_data: Tensor, LU_pivots: Tensor) -> Tensor:
    """Solve `A @ X == b` from the LU factors of A."""
    return lu_solve(LU_data, LU_pivots, b)


# -- variants that return `info` instead of raising ------------------------------------------------------------------------------


def _refuse_oblong(name: str, A: Tensor) -> None:
    if A.ndim < 2:
        raise RuntimeError(f"{name}: The input tensor A must have at least 2 dimensions.")
    if A.shape[-1] != A.shape[-2]:
        raise RuntimeError(f"{name}: A must be batches of square matrices, but they are {A.shape[-2]} by {A.shape[-1]} matrices")


class inv_unchecked(inv):
    """Inverse; for a singular matrix, the result of dividing by 0."""
    home, exempt = "", RULES_ONLY
    def forward(xp, input): return xp.solve_matrix(input, xp.eye(input.shape[-1], dtype=input.dtype), False)


@composite(home="linalg")
def inv_ex(A: Tensor, *, check_errors: bool = False) -> Any:
    """Inverse, and `info`: 0, or the index, from 1, of the first 0 on U's diagonal. The inverse is then not finite."""
    _refuse_oblong("linalg.inv", A)
    need_floats("linalg.inv", A, "")
    info = _info(lu_factor_.call(A.detach())[0], check_errors, "linalg.inv_ex: The diagonal element {} is zero, the inversion could not be completed because the input matrix is singular.")
    return _Inverse(inv_unchecked(A), info)


_Inverse = result_type("inv_ex", ("inverse", "info"), "linalg")
_Cholesky = result_type("cholesky_ex", ("L", "info"), "linalg")
_Solved = result_type("solve_ex", ("result", "info"), "linalg")


@composite(home="linalg")
def solve_ex(A: Tensor, B: Tensor, *, left: bool = True, check_errors: bool = False) -> Any:
    """`solve`, and `info`: 0, or the index, from 1, of the first 0 on U's diagonal. The result is then not finite."""
    _refuse_oblong("linalg.solve", A)
    need_floats("linalg.solve", A, "h")
    info = _info(lu_factor_.call(A.detach())[0], check_errors, "torch.linalg.solve_ex: The solver failed because the input matrix is singular: element {} is zero.")
    return _Solved(arranged(functools.partial(solve_matrix, checked=False), A, B, left), info)


class cholesky_ex_(Factor):
    """`cholesky`, and `info`: 0, or the order of the first leading minor that is not positive definite.

    The gradient is that of a complete factor.
    """
    name, outputs, differentiable, samples, exempt = "cholesky_ex", ("L", "info"), ("L",), cholesky.samples, cholesky.exempt
    def forward(xp, input, upper=False): return xp.cholesky_ex(input, upper)
    def d_input(xp, g, L, upper): return cholesky_slope(xp, g, L, upper)
    def t_input(xp, t, L, upper): return cholesky_push(xp, t, L, upper)


@composite(home="linalg")
def cholesky_ex(A: Tensor, *, upper: bool = False, check_errors: bool = False) -> Any:
    """`cholesky`, and `info`: 0, or the order of the first leading minor that fails. Raises only with `check_errors`."""
    _refuse_oblong("linalg.cholesky", A)
    need_floats("linalg.cholesky", A, "h")
    L, info = cholesky_ex_.call(A, upper)
    if check_errors and info.numel() and known(info.max()):
        raise LinAlgError(f"linalg.cholesky_ex: {indefinite(info.array)}")
    return _Cholesky(L, info)


@composite(method=True)
def cholesky_solve(B: Tensor, L: Tensor, upper: bool = False) -> Tensor:
    """Solve `L @ L.mH @ X == B` for a lower triangular L (with `upper`, `L.mH @ L` for an upper triangular one)."""
    if B.dtype is not L.dtype:
        raise RuntimeError(f"Expected b and A to have the same dtype, but found b of type {B.dtype.name} and A of type {L.dtype.name} instead.")
    turned = functions["adjoint"](L)
    first, second = (turned, L) if upper else (L, turned)
    lead = broadcast_shapes(tuple(L.shape[:-2]), tuple(B.shape[:-2]))
    first, second, B = (expand(x, (*lead, *x.shape[-2:])) for x in (first, second, B))
    return solve_triangular(second, solve_triangular(first, B, upper=False), upper=True)


class cholesky_inverse(Factor):
    """Inverse of `L @ L.mH` for a lower triangular L (with `upper`, of `L.mH @ L` for an upper triangular one)."""
    home, method, lacks = "engine", True, "ih"
    fails = "The inversion could not be completed because the input matrix is singular: its diagonal has a 0."
    examples = ((((3, 3),), {}), (((2, 3, 3),), {"upper": True}))
    def forward(xp, input, upper=False): return xp.cholesky_inverse(input, upper)
    def d_input(xp, g, input, out, upper):
        g = conj(xp, g)
        inner = xp.matmul(out, xp.matmul(g + H(xp, g), out))
        return conj(xp, -(xp.triu(xp.matmul(xp.triu(input), inner)) if upper else xp.tril(xp.matmul(inner, xp.tril(input)))))


_Triangular = result_type("triangular_solve", ("solution", "cloned_coefficient"))


@composite(method=True)
def triangular_solve(b: Tensor, A: Tensor, upper: bool = True, transpose: bool = False, unitriangular: bool = False) -> Any:
    """Solve `A @ X == b` (`A.mT` with `transpose`) for a triangular A; returns X and a copy of A. Old form of `linalg.solve_triangular`."""
    for name, x in (("b", b), ("A", A)):
        if x.ndim < 2:
            raise RuntimeError(f"triangular_solve: Expected {name} to have at least 2 dimensions, but it has {x.ndim} dimensions instead")
    if b.dtype is not A.dtype:
        raise RuntimeError(f"triangular_solve: Expected b and A to have the same dtype, but found b of type {b.dtype} and A of type {A.dtype} instead.")
    lead = broadcast_shapes(tuple(A.shape[:-2]), tuple(b.shape[:-2]))
    wide, b = expand(A, (*lead, *A.shape[-2:])), expand(b, (*lead, *b.shape[-2:]))
    found = solve_triangular(wide.mT if transpose else wide, b, upper=upper != transpose, unitriangular=unitriangular)
    return _Triangular(found, clone(wide))


# -- eigenvalues, exponentials ---------------------------------------------------------------------------------------------------


class eig(Factor):
    """Complex eigenvalues and eigenvectors (columns) of a square matrix; the gradient is finite only for distinct eigenvalues."""
    outputs, samples = ("eigenvalues", "eigenvectors"), (((3, 3),), ((2, 3, 3),))
    exempt = dict.fromkeys(("reverse", "forward", "second"), "An eigenvector's phase is free and its slope arbitrary; tests/engine/test_decompose.py takes functions that do not see it.")
    def forward(xp, input): return xp.eig(input)
    def d_input(xp, g, input, eigenvalues, eigenvectors):
        gL, gV, V = conj(xp, g[0]), conj(xp, g[1]), eigenvectors
        gaps = apart(xp, conj(xp, eigenvalues[..., None, :] - eigenvalues[..., :, None]))
        inner = xp.matmul(H(xp, V), gV)
        along = xp.real(xp.sum(xp.where(eye_of(xp, inner), inner, 0), axis=-1))
        inner = ratio(xp, inner - xp.matmul(H(xp, V), V * along[..., None, :]), gaps, gV)
        middle = xp.where(eye_of(xp, inner), gL[..., None, :], inner)
        return conj(xp, xp.solve_matrix(H(xp, V), xp.matmul(middle, H(xp, V))))


class eigvals(Factor):
    """Complex eigenvalues of a square matrix."""
    aux, samples = ("V",), (((3, 3),), ((2, 3, 3),))
    def forward(xp, input): return xp.eig(input)
    def d_input(xp, g, input, V): return conj(xp, xp.solve_matrix(H(xp, V), xp.matmul(on_diagonal(xp, conj(xp, g)), H(xp, V))))


class matrix_exp(Factor):
    """Exponential of a square matrix: the sum of A^k / k! over all k."""
    least = 2
    home, method, domain = "engine", True, (-1.0, 1.0)
    def forward(xp, input): return xp.matrix_exp(input)
    def d_input(xp, g, input):
        n, a = input.shape[-1], T(xp, input)
        rows = [xp.concatenate([a, g], axis=-1), xp.concatenate([xp.zeros_like(a), a], axis=-1)]
        return xp.matrix_exp(xp.concatenate(rows, axis=-2))[..., :n, n:]


functions["linalg.matrix_exp"] = functions["matrix_exp"]


# -- composites --------------------------------------------------------------------------------------------------------------------


@composite(home="linalg")
def cond(A: Tensor, p: Any = None) -> Tensor:
    """Condition number: the norm of a matrix times that of its inverse; by default and for 2, the ratio of singular values."""
    if A.ndim < 2:
        raise RuntimeError(f"linalg.cond: The input tensor A must have at least 2 dimensions. Got {A.ndim}D")
    if not A.numel():
        return svdvals(A.detach()).new_zeros(tuple(A.shape[:-2]))
    if p in (None, 2, -2):
        s = svdvals(A)
        return s[..., -1] / s[..., 0] if p == -2 else s[..., 0] / s[..., -1]
    if A.shape[-1] != A.shape[-2]:
        raise RuntimeError(f"linalg.cond: A must be batches of square matrices, but they are {A.shape[-2]} by {A.shape[-1]} matrices")
    if p == "nuc":
        s = svdvals(A)
        return s.sum(-1) * (1 / s).sum(-1)
    inverse, info = inv_ex(A)
    found = matrix_norm(A, p) * matrix_norm(inverse, p)
    return found.masked_fill(info != 0, math.inf)


@composite(home="linalg")
def diagonal_(A: Tensor, *, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """Diagonals of the matrices in the last two dimensions; a view."""
    return diagonal(A, offset, dim1, dim2)


@composite(home="linalg")
def vecdot(x: Tensor, y: Tensor, *, dim: int = -1) -> Tensor:
    """Sum of products along a dimension, with `x` conjugated."""
    if x.dtype.rank < FLOAT:
        raise RuntimeError(f"linalg.vecdot: Expected a floating point or complex tensor as input. Got {x.dtype.name}")
    if x.dtype is not y.dtype:
        raise RuntimeError(f"linalg.vecdot: Expected x and y to have the same dtype, but found {x.dtype.name} and {y.dtype.name}")
    if x.ndim == y.ndim == 1:
        return vdot(x, y)  # as in PyTorch, `dim` is ignored
    return ((x.conj() if x.is_complex() else x) * y).sum(dim)


@composite(home="linalg")
def vander(x: Tensor, *, N: int | None = None) -> Tensor:
    """Powers 0 to N - 1 (by default, N is the size of the last dimension) of the elements of vectors, as rows."""
    if x.dtype is bool_ or x.dtype.rank >= FLOAT and x.dtype.itemsize < 4:
        raise RuntimeError(f"linalg.vander supports floating point, complex, and integer tensors, but got {x.dtype.name}")
    x = x if x.ndim else reshape(x, (1,))
    n = x.shape[-1] if N is None else N
    if n <= 1:
        raise RuntimeError("N must be greater than 1.")
    x = x.long() if x.array.dtype.kind in "bu" or x.array.dtype.kind == "i" else x
    powers = expand(unsqueeze(x, -1), (*x.shape, n - 1)).cumprod(-1)
    return functions["cat"]([unsqueeze(x.new_ones(tuple(x.shape)), -1), powers], -1)


@composite(home="linalg")
def tensorinv(A: Tensor, ind: int = 2) -> Tensor:
    """Inverse of a tensor, viewed as a matrix from its last dimensions to its first `ind`."""
    if ind <= 0:
        raise RuntimeError("Expected a strictly positive integer for 'ind'")
    if ind > A.ndim:
        raise RuntimeError(f"linalg.tensorinv: a tensor of {A.ndim} dimensions has no first {ind}")
    front, back = tuple(A.shape[:ind]), tuple(A.shape[ind:])
    if math.prod(front) != math.prod(back):
        raise RuntimeError(f"Expected self to satisfy the requirement prod(self.shape[ind:]) == prod(self.shape[:ind]), but got {math.prod(back)} != {math.prod(front)}")
    return reshape(inv(reshape(A, (math.prod(front), math.prod(back)))), (*back, *front))


@composite(home="linalg")
def tensorsolve(A: Tensor, B: Tensor, dims: Any = None) -> Tensor:
    """X with `tensordot(A, X, X.ndim) == B`, after A's dimensions `dims` are moved to its end."""
    if dims is not None:
        places = tuple(wrap_dim(d, A.ndim) for d in dims)
        A = permute(A, (*[d for d in range(A.ndim) if d not in places], *places))
    rest = tuple(A.shape[B.ndim :])
    if math.prod(rest) != B.numel():
        raise RuntimeError(f"Expected self to satisfy the requirement prod(self.shape[other.ndim:]) == prod(self.shape[:other.ndim]), but got {math.prod(rest)} != {B.numel()}")
    return reshape(solve(reshape(A, (B.numel(), math.prod(rest))), reshape(B, (B.numel(),))), rest)


@composite(home="linalg")
def householder_product(A: Tensor, tau: Tensor) -> Tensor:
    """First columns of the product of reflections I - tau v v^H, with the vectors v below A's diagonal, as LAPACK packs them."""
    if A.ndim < 2:
        raise RuntimeError(f"torch.linalg.householder_product: input must have at least 2 dimensions, but it is of shape {list(A.shape)}")
    if not tau.ndim:
        raise IndexError("Dimension specified as -1 but tensor has no dimensions")
    if tau.shape[:-1] != A.shape[:-2]:
        raise RuntimeError(f"torch.linalg.householder_product: Expected tau to have one dimension less than input, and its batch, but got {list(tau.shape)} and {list(A.shape)}")
    m, n = A.shape[-2:]
    if m < n:
        raise RuntimeError("torch.linalg.householder_product: input.shape[-2] must be greater than or equal to input.shape[-1]")
    if n < tau.shape[-1]:
        raise RuntimeError("torch.linalg.householder_product: input.shape[-1] must be greater than or equal to tau.shape[-1]")
    if tau.dtype is not A.dtype:
        raise RuntimeError(f"torch.linalg.householder_product: tau dtype {tau.dtype.name} does not match input dtype {A.dtype.name}")
    need_floats("householder_product", A)
    xp = namespace(A.array)
    below = A.tril(-1) + Tensor._wrap(xp.eye(m, n, dtype=A.array.dtype))
    one = Tensor._wrap(columns(xp.copy(xp.broadcast_to(xp.eye(m, n, dtype=A.array.dtype), A.array.shape))))
    out = one + A.triu(n)  # adds zeros: recorded without reflections too, as in PyTorch
    for i in reversed(range(tau.shape[-1])):
        v = below[..., i : i + 1]
        out = out - tau[..., i, None, None] * matmul(v, matmul(functions["adjoint"](v), out))
    return out


_SVD = result_type("svd", ("U", "S", "V"))


@composite(method=True)
def svd_(input: Tensor, some: bool = True, compute_uv: bool = True) -> Any:
    """U, S and V with `U @ diag(S) @ V.mH` the input. Old form of `linalg.svd`."""
    if input.ndim < 2:
        raise RuntimeError(f"svd: input should have at least 2 dimensions, but has {input.ndim} dimensions instead")
    if not compute_uv:
        m, n = input.shape[-2:]
        S = svdvals(input)
        return _SVD(input.new_zeros((*input.shape[:-2], m, m)), S, input.new_zeros((*input.shape[:-2], n, n)))
    U, S, Vh = svd(input, not some)
    return _SVD(U, S, functions["adjoint"](Vh))
