"""Decompositions: gradients under changes that keep a matrix symmetric, and of functions that do not depend on a choice of signs."""

from __future__ import annotations

import numpy
import pytest

import engine
from engine.autograd import gradcheck, gradgradcheck
from engine.core.op import functions
from grouping import grouped

linalg = {name.removeprefix("linalg."): f for name, f in functions.items() if name.startswith("linalg.")}


def matrix(*shape):
    return engine.tensor(numpy.random.default_rng(3).normal(size=shape), requires_grad=True)


def symmetric(x):
    return x + x.mT


def definite(x):
    return x @ x.mT + engine.eye(x.shape[-2], dtype=engine.float64)


FUNCTIONS = {
    "cholesky": lambda x: linalg["cholesky"](definite(x)),
    "cholesky_ex": lambda x: linalg["cholesky_ex"](definite(x), upper=True)[0],
    "cholesky upper": lambda x: linalg["cholesky"](definite(x), upper=True),
    "eigenvalues": lambda x: linalg["eigh"](symmetric(x))[0],
    "eigenvectors": lambda x: linalg["eigh"](symmetric(x))[1] ** 2,
    "logdet": lambda x: linalg["slogdet"](definite(x))[1],
}


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("shape", [(3, 3), (2, 3, 3)])
def test_symmetric(name, shape):
    assert gradcheck(FUNCTIONS[name], (matrix(*shape),), check_forward_ad=True)
    assert gradgradcheck(FUNCTIONS[name], (matrix(*shape),), atol=1e-4)


def product(x):
    u, s, vh = linalg["svd"](x, full_matrices=False)
    return u @ (s.exp().unsqueeze(-1) * vh)


def test_svd_of_a_function_without_a_choice_of_signs():
    for shape in ((3, 3), (4, 2), (2, 4)):
        assert gradcheck(product, (matrix(*shape),))
        assert gradgradcheck(product, (matrix(*shape),), atol=1e-3)


def test_decompositions_multiply_back():
    x = matrix(2, 4, 3)
    with engine.no_grad():
        u, s, vh = linalg["svd"](x, full_matrices=False)
        q, r = linalg["qr"](x)
        w, v = linalg["eigh"](x.mT @ x)
        c = linalg["cholesky"](definite(x))
        for found, expected in ((u * s.unsqueeze(-2) @ vh, x), (q @ r, x), (v * w.unsqueeze(-2) @ v.mT, x.mT @ x), (c @ c.mT, definite(x))):
            assert numpy.allclose(found.array, expected.array)
        for orthonormal in (q, u, v):
            n = orthonormal.shape[-1]
            assert numpy.allclose((orthonormal.mT @ orthonormal).array, numpy.eye(n))
        assert numpy.array_equal(r.array, numpy.triu(r.array)) and numpy.array_equal(c.array, numpy.tril(c.array))


def test_singular_and_indefinite_matrices_are_refused():
    with pytest.raises(RuntimeError, match="(?i)singular"):
        linalg["inv"](engine.ones(2, 2))
    with pytest.raises(RuntimeError, match="(?i)positive"):
        linalg["cholesky"](-engine.eye(2))


@pytest.mark.parametrize("name", ["inv", "det", "slogdet", "cholesky", "eig", "eigvals", "eigh", "eigvalsh", "matrix_exp"])
def test_what_is_not_a_square_matrix_is_told_so(name):
    """Not that a matrix of 2 by 3 is singular. PyTorch's error is a RuntimeError and no LinAlgError."""
    function = getattr(engine.linalg, name)
    for shape, told in (
        ((2, 3), "square matrices, but they are 2 by 3"),
        ((4, 2, 3), "but they are 2 by 3"),
        ((3,), "at least 2 dimensions"),
    ):
        for dtype in (engine.float32, engine.complex128):
            with pytest.raises(RuntimeError, match=told) as caught:
                function(engine.ones(shape, dtype=dtype))
            assert caught.type is RuntimeError


@pytest.mark.parametrize("order", ["fro", "nuc", 1, -1, 2, float("inf")])
def test_a_norm_of_a_matrix_of_integers_is_refused(order):
    for x in (engine.ones(2, 2, dtype=engine.int64), engine.ones(2, 2, dtype=engine.bool)):
        for dtype in (None, engine.float32):
            with pytest.raises(RuntimeError, match="Expected a floating point or complex tensor as input. Got (int64|bool)"):
                engine.linalg.matrix_norm(x, order, dtype=dtype)


INF, NAN = float("inf"), float("nan")
ZEROS, ONES, VECTOR = engine.zeros(3, 3), engine.ones(3, 3), engine.ones(3)
IMAGINARY, WHOLE, BATCH = engine.eye(3) * 2j, engine.eye(3).long(), engine.ones(2, 3, 3)
LA = engine.linalg


REFUSED = [
    (lambda: LA.lu_factor(ZEROS), r"U\[1,1\] is zero"),
    (lambda: LA.lu_factor(ONES, pivot=False), "without pivoting"),
    (lambda: LA.lu_solve(engine.eye(3), engine.tensor([1, 2, 3]), VECTOR), "at least 2 dimensions"),
    (lambda: LA.solve(engine.eye(3), VECTOR, left=False), "X @ A == B"),
    (lambda: LA.solve_triangular(engine.eye(3), VECTOR, upper=True), "B must have at least 2 dimensions"),
    (lambda: LA.solve_triangular(VECTOR, engine.eye(3), upper=True), "A must have at least 2 dimensions"),
    (lambda: engine.triangular_solve(VECTOR, engine.eye(3)), "Expected b to have at least 2 dimensions"),
    (lambda: engine.triangular_solve(engine.eye(3), VECTOR), "Expected A to have at least 2 dimensions"),
    (lambda: engine.triangular_solve(engine.eye(3, dtype=engine.float64), engine.eye(3)), "same dtype.*Double|same dtype.*float64"),
    (lambda: engine.eye(3).renorm(2, 0, float("nan")), "maxnorm to be >= 0 but got nan"),
    (lambda: engine.eye(3).renorm(float("nan"), 0, 1.0), "non-positive-norm"),
    (lambda: LA.norm(IMAGINARY, dtype=engine.float64), "should be complex for complex inputs, but got float64"),
    (lambda: engine.norm(IMAGINARY, dtype=engine.float64), "should be complex"),
    (lambda: LA.vector_norm(ONES, dtype=engine.complex64), "should be real for real inputs"),
    (lambda: LA.matrix_norm(IMAGINARY, "nuc", dtype=engine.float32), "should be complex"),
    (lambda: LA.matrix_norm(ONES.double(), dtype=engine.float32), "without narrowing"),
    (lambda: LA.norm(ONES.double(), 2, dtype=engine.float32), "without narrowing"),
    (lambda: LA.vector_norm(WHOLE, dtype=engine.float32), "Got int64"),
    (lambda: LA.norm(VECTOR, "nuc"), "'nuc' is one of matrices"),
    (lambda: LA.norm(ONES, "fro", dim=0), "'fro' is one of matrices"),
    (lambda: LA.norm(engine.tensor(2.0), 2), "Got 0D"),
    (lambda: LA.multi_dot([BATCH, BATCH]), "tensor 0 is 3D"),
    (lambda: LA.multi_dot([ONES, VECTOR, ONES]), "tensor 1 is 1D"),
    (lambda: engine.matrix_exp(engine.tensor(2.0)), "at least 2 dimensions"),
    (lambda: engine.matrix_exp(engine.zeros(3, 0)), "they are 3 by 0 matrices"),
    (lambda: engine.pdist(IMAGINARY), "floating-point"),
    (lambda: LA.ldl_factor(WHOLE), "Got int64"),
    (lambda: engine.geqrf(WHOLE), "Got int64"),
    (lambda: engine.ormqr(WHOLE, WHOLE[0], WHOLE), "Got int64"),
    (lambda: engine.ormqr(ONES, VECTOR[:2], ONES), r"tau.shape\[-1\] must be equal to min\(other.shape\[-2\], input.shape\[-1\]\), got 2"),
    (lambda: engine.ormqr(VECTOR, VECTOR, ONES), "^torch.ormqr: The input tensor A must have at least 2 dimensions"),
    (lambda: LA.cholesky_ex(ONES.half()), "Got float16"),
    (lambda: LA.vecdot(WHOLE, WHOLE), "Got int64"),
    (lambda: engine.cholesky_inverse(VECTOR), "at least 2 dimensions"),
    (lambda: engine.svd_lowrank(VECTOR), "at least 2 dimensions"),
    (lambda: LA.householder_product(WHOLE, WHOLE[0]), "Got int64"),
    (lambda: LA.householder_product(VECTOR, VECTOR), r"of shape \[3\]"),
    (lambda: LA.cond(VECTOR, 1), "at least 2 dimensions"),
    (lambda: engine.svd(VECTOR, compute_uv=False), "at least 2 dimensions"),
    (lambda: engine.adjoint(VECTOR), "Got 1-D tensor"),
    (lambda: LA.vander(engine.tensor(2.0)), "greater than 1"),
]


@grouped(("f", "words"), [pytest.param(*case, id=str(i)) for i, case in enumerate(REFUSED)])
def test_what_pytorch_refuses_is_refused_in_words(f, words):
    with pytest.raises(RuntimeError, match=words):
        f()


EDGES = [  # a call and PyTorch's answer
    (lambda: LA.solve_triangular(ZEROS[:2, :2], engine.tensor([[1.0, -1.0], [2.0, -2.0]]), upper=True), [[NAN, NAN], [INF, -INF]]),
    (lambda: LA.solve_triangular(engine.tensor([[1.0, 0], [1, 0]]), engine.ones(2, 1), upper=False), [[1], [NAN]]),
    (
        lambda: LA.solve_triangular(engine.tensor([[1.0, 2, 0], [0, 0, 3], [0, 0, 1]]), engine.ones(1, 3), upper=True, left=False),
        [[1, -INF, INF]],
    ),
    (lambda: LA.solve_triangular(engine.eye(3).expand(2, 3, 3) * 2, engine.ones(2, 3), upper=True, left=False), numpy.full((2, 2, 3), 0.5)),
    (lambda: LA.vander(engine.tensor([INF, 0.0])), [[1, INF], [1, 0]]),
    (lambda: engine.vander(engine.tensor([INF, 0.0]), 2), [[INF, 1], [0, 1]]),
    (lambda: engine.triangular_solve(BATCH, engine.eye(3)).cloned_coefficient, numpy.broadcast_to(numpy.eye(3), (2, 3, 3))),
    (lambda: LA.lstsq(engine.eye(3)[:, :2], VECTOR, driver="gelsd").residuals, [1.0]),
    (lambda: LA.lstsq(engine.eye(3)[:, :2].expand(2, 3, 2), BATCH[..., 0] * 2, driver="gelss").residuals, [[4.0], [4.0]]),
    (lambda: LA.norm(engine.ones(2, 2), "fro", dtype=engine.float64), 2.0),
]


@pytest.mark.parametrize(("f", "expected"), [pytest.param(*case, id=str(i)) for i, case in enumerate(EDGES)])
def test_degenerate_matrices_and_shapes(f, expected):
    assert f().shape == numpy.shape(expected)
    numpy.testing.assert_allclose(f().numpy(), numpy.asarray(expected), atol=1e-6)


def test_a_singular_triangle_beside_others_leaves_their_gradients_alone():
    a = engine.tensor([[[2.0, 0], [1, 4]], [[0, 0], [1, 1]]], dtype=engine.float64, requires_grad=True)
    out = LA.solve_triangular(a, engine.ones(2, 2, 1, dtype=engine.float64), upper=False)
    (found,) = engine.autograd.grad(out[0].sum(), a)
    # x = 1 / a, y = (1 - c x) / d
    numpy.testing.assert_allclose(found[0].numpy(), [[-1 / 4 + 1 / 16, 0], [-1 / 8, -1 / 32]])


def test_cholesky_names_the_part_that_is_not_definite_and_reads_one_triangle():
    """As PyTorch does, a nan among the numbers that are read is refused; what is above (with `upper`, below) is not read."""
    nan = float("nan")
    for matrix, told in (
        ([[nan, 0.0], [0.0, 1.0]], "the leading minor of order 1"),
        ([[1.0, 0.0], [nan, 1.0]], "the leading minor of order 2"),
        ([[[1.0, 0.0], [0.0, 1.0]], [[1.0, 2.0], [2.0, 1.0]]], r"\(Batch element 1\): The factorization .* order 2"),
    ):
        with pytest.raises(engine.linalg.LinAlgError, match=told):
            engine.linalg.cholesky(engine.tensor(matrix))
        assert engine.linalg.cholesky_ex(engine.tensor(matrix)).info.max() == (1 if told.endswith("1") else 2)
    above, below = engine.tensor([[4.0, nan], [2.0, 5.0]]), engine.tensor([[4.0, 2.0], [nan, 5.0]])
    assert engine.linalg.cholesky(above).tolist() == [[2, 0], [1, 2]] == engine.linalg.cholesky_ex(above).L.tolist()
    assert engine.linalg.cholesky(below, upper=True).tolist() == [[2, 1], [0, 2]]
    assert engine.linalg.cholesky_ex(below, upper=True).info == 0
    with pytest.raises(engine.linalg.LinAlgError, match="order 2"):
        engine.linalg.cholesky(above, upper=True)
