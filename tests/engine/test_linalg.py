"""Products: matmul in every shape, einsum against NumPy's, linear, and what they refuse."""

from __future__ import annotations

import numpy
import pytest

import engine
from engine.autograd import gradcheck, gradgradcheck
from engine.core.op import functions
from grouping import grouped

rng = numpy.random.default_rng(5)
linear = functions["nn.functional.linear"]


def draw(*shapes):
    return [rng.normal(size=s) for s in shapes]


def leaves(arrays):
    return [engine.tensor(a, requires_grad=True) for a in arrays]


SHAPES = [
    ((2, 3), (3, 4)),
    ((3,), (3,)),
    ((3,), (3, 4)),
    ((2, 3), (3,)),
    ((5, 2, 3), (3, 4)),
    ((2, 2, 3), (2, 3, 4)),
    ((2, 1, 2, 3), (2, 3, 2)),
    ((3,), (2, 3, 4)),
    ((2, 2, 3), (3,)),
    ((2, 3), (2, 3, 4)),
    ((0, 3), (3, 4)),
    ((2, 0), (0, 4)),
]


@pytest.mark.parametrize("a, b", SHAPES)
def test_matmul(a, b):
    arrays = draw(a, b)
    x, y = leaves(arrays)
    assert numpy.allclose((x @ y).detach().numpy(), numpy.matmul(*arrays))
    if all(n for n in (*a, *b)):
        assert gradcheck(lambda x, y: (x @ y) ** 2, (x, y)) and gradgradcheck(lambda x, y: (x @ y) ** 2, (x, y))


EQUATIONS = [
    ("ij,jk->ik", (2, 3), (3, 2)),
    ("ij,jk", (2, 3), (3, 2)),
    ("ii->i", (3, 3)),
    ("ii", (3, 3)),
    ("ij->", (2, 3)),
    ("ij->j", (2, 3)),
    ("i,j->ij", (2,), (3,)),
    ("bhid,bhjd->bhij", (1, 2, 2, 3), (1, 2, 3, 3)),
    ("...ij,...jk->...ik", (2, 2, 3), (3, 2)),
    ("ij,jk,kl->il", (2, 3), (3, 2), (2, 2)),
    ("iij,jk->ik", (2, 2, 3), (3, 2)),
    ("iijj->ij", (2, 2, 3, 3)),
    ("ij,ij->", (2, 3), (2, 3)),
    ("ij,kj->k", (2, 3), (4, 3)),
    ("i,i,i->i", (3,), (3,), (3,)),
    ("bn,anm,bm->ba", (2, 3), (2, 3, 2), (2, 2)),
    (" i j , j -> i ", (2, 3), (3,)),
    ("b...i,ij->b...j", (2, 2, 3), (3, 2)),
    ("ij,jk->ik", (2, 1), (3, 2)),
]


@grouped("equation, shapes", [(e, s) for e, *s in EQUATIONS])
def test_einsum(equation, shapes):
    arrays = draw(*shapes)
    xs = leaves(arrays)
    found = engine.einsum(equation, *xs)
    assert numpy.allclose(found.detach().numpy(), numpy.einsum(equation, *arrays))
    assert gradcheck(lambda *xs: engine.einsum(equation, *xs) ** 2, tuple(xs)) and gradgradcheck(
        lambda *xs: engine.einsum(equation, *xs) ** 2, tuple(xs)
    )


@pytest.mark.parametrize(
    "equation, dtypes, expected",
    [
        ("i,j->ij", (engine.int64, engine.float32), engine.float32),
        ("i,i->i", (engine.float32, engine.float64), engine.float64),
        ("i,j->ji", (engine.bool, engine.bool), engine.bool),
        ("i,j->i", (engine.float16, engine.complex64), engine.complex64),
        ("i,j,k->ijk", (engine.float32, engine.int64, engine.float64), engine.float64),
    ],
)
def test_einsum_promotes_types_where_nothing_is_contracted(equation, dtypes, expected):
    found = engine.einsum(equation, *[engine.tensor([0, 1, 2], dtype=dtype) for dtype in dtypes])
    assert found.dtype == expected
    with pytest.raises(RuntimeError, match="dtype"):
        engine.einsum("i,i->", engine.ones(3), engine.ones(3, dtype=engine.float64))


@pytest.mark.parametrize(
    "equation, shapes, strides",  # from PyTorch
    [
        ("ij,jk->ik", ((3, 4), (4, 5)), (5, 1)),
        ("ij,jk->ki", ((3, 4), (4, 5)), (3, 1)),
        ("bij,bjk->kbi", ((2, 3, 4), (2, 4, 5)), (3, 15, 1)),
        ("bhqd,bhkd->bqhk", ((2, 2, 3, 4), (2, 2, 5, 4)), (30, 5, 15, 1)),
        ("bijk,bijk->kjib", ((2, 3, 4, 5), (2, 3, 4, 5)), (1, 5, 20, 60)),
        ("ij,kj->kji", ((3, 4), (5, 4)), (12, 1, 4)),
    ],
)
def test_how_results_of_einsum_are_laid_out(equation, shapes, strides):
    assert engine.einsum(equation, *[engine.ones(*s) for s in shapes]).stride() == strides


def test_einsum_of_one_operand_is_a_view():
    x = engine.ones(2, 3, requires_grad=True)
    y = engine.einsum("ij", x)
    assert y is not x and y.data_ptr() == x.data_ptr() and type(y.grad_fn).__name__ == "PermuteBackward0"


def test_einsum_with_lists_of_subscripts():
    a, b = draw((2, 3, 4), (4, 5))
    found = engine.einsum(engine.tensor(a), [..., 0, 1], engine.tensor(b), [1, 2], [..., 0, 2])
    assert numpy.allclose(found.numpy(), a @ b)


@pytest.mark.parametrize(
    "equation, shapes, words",
    [
        ("ij,jk->ik", ((2, 3), (4, 4)), "subscript j has size 4 for operand 1 which does not broadcast with previously seen size 3"),
        ("ij,jk->iz", ((2, 3), (3, 4)), "output subscript z does not appear"),
        ("ij,jk->ii", ((2, 3), (3, 4)), "appears more than once in the output"),
        ("ij", ((2, 3), (3, 4)), "more operands were provided"),
        ("ij,jk", ((2, 3),), "fewer operands were provided"),
        ("ijk", ((2, 3),), "does not match the number of dimensions"),
        ("i1", ((2, 3),), "invalid subscript"),
        ("ii", ((2, 3),), "sizes don't match"),
    ],
)
def test_einsum_refuses(equation, shapes, words):
    with pytest.raises(RuntimeError, match=words):
        engine.einsum(equation, *[engine.zeros(*s) for s in shapes])


@pytest.mark.parametrize("shape", [(2, 3), (2, 2, 3), (3,)])
def test_linear(shape):
    arrays = draw(shape, (4, 3), (4,))
    found = linear(*[engine.tensor(a) for a in arrays])
    assert numpy.allclose(found.numpy(), arrays[0] @ arrays[1].T + arrays[2])
    square = lambda *xs: linear(*xs) ** 2  # noqa: E731
    assert gradcheck(square, leaves(arrays)) and gradgradcheck(square, leaves(arrays)) and gradcheck(square, leaves(arrays[:2]))


@pytest.mark.parametrize(
    "call, words",
    [
        (lambda: engine.zeros(2, 3) @ engine.zeros(4, 5), r"mat1 and mat2 shapes cannot be multiplied \(2x3 and 4x5\)"),
        (
            lambda: engine.zeros(2, 3) @ engine.zeros(3, 4, dtype=engine.float64),
            "expected m1 and m2 to have the same dtype, but got: float != double",
        ),
        (lambda: engine.zeros(3) @ engine.zeros(4), "expected tensor .3. and src .4. to have the same number of elements"),
        (lambda: engine.tensor(1.0) @ engine.zeros(3), "need to be at least 1D"),
        (lambda: engine.mm(engine.zeros(3), engine.zeros(3, 4)), "self must be a matrix"),
        (
            lambda: engine.bmm(engine.zeros(2, 3, 4), engine.zeros(3, 4, 5)),
            r"Expected size for first two dimensions of batch2 tensor to be: \[2, 4\] but got: \[3, 4\]",
        ),
        (lambda: linear(engine.zeros(2, 3), engine.zeros(4, 2)), r"cannot be multiplied \(2x3 and 2x4\)"),
        (lambda: engine.mv(engine.zeros(2, 3), engine.zeros(4)), r"size mismatch, got input \(2\), mat \(2x3\), vec \(4\)"),
        (lambda: engine.cross(engine.zeros(2, 3), engine.zeros(3)), "inputs must have the same number of dimensions"),
        (lambda: engine.linalg.cross(engine.zeros(2, 3), engine.zeros(2, 2)), "dimension -1 must have length 3. Got 3 and 2"),
        (lambda: engine.linalg.multi_dot([engine.zeros(3)]), "expected at least 2 tensors but got 1"),
    ],
)
def test_refusals(call, words):
    with pytest.raises(RuntimeError, match=words):
        call()


def test_products_with_names():
    a, b, c = draw((2, 3), (3, 4), (2, 4))
    x, y, z = engine.tensor(a), engine.tensor(b), engine.tensor(c)
    assert numpy.allclose(engine.addmm(z, x, y, beta=2, alpha=0.5).numpy(), 2 * c + 0.5 * (a @ b))
    assert numpy.allclose(engine.addmm(z * float("nan"), x, y, beta=0).numpy(), a @ b)
    assert numpy.allclose(engine.tensordot(x, y, 1).numpy(), a @ b) and numpy.allclose(engine.kron(x, y).numpy(), numpy.kron(a, b))
    u, v = draw((3,), (3,))
    assert numpy.allclose(engine.cross(engine.tensor(u), engine.tensor(v)).numpy(), numpy.cross(u, v)) and numpy.allclose(
        engine.outer(engine.tensor(u), engine.tensor(v)).numpy(), numpy.outer(u, v)
    )


def test_distances_have_no_gradient_between_equal_rows():
    rows = engine.tensor(numpy.array([[0.0, 0.0], [3.0, 4.0]]), requires_grad=True)
    distances = engine.cdist(rows, rows.detach())
    assert numpy.allclose(distances.detach().numpy(), [[0, 5], [5, 0]])
    distances.sum().backward()
    assert numpy.allclose(rows.grad.numpy(), [[-0.6, -0.8], [0.6, 0.8]])


@pytest.mark.parametrize(("name", "args"), [("inv", ()), ("cholesky", ()), ("solve", (engine.ones(2),))])
def test_what_is_checked_is_square(name, args):
    call = getattr(engine.linalg, f"{name}_ex")
    with pytest.raises(RuntimeError, match=f"linalg.{name}: A must be batches of square matrices, but they are 2 by 3 matrices"):
        call(engine.ones(2, 3), *args)
    with pytest.raises(RuntimeError, match=f"linalg.{name}: The input tensor A must have at least 2 dimensions"):
        call(engine.ones(3), *args)


@pytest.mark.parametrize("pivots", [[0, 0, 0], [9, 1, 1], [1, -7, 1]])
def test_pivots_that_point_out_of_the_matrix_are_refused(pivots):
    """LAPACK would follow them, and write to memory that is not its own."""
    with pytest.raises(RuntimeError, match="Pivots given to ldl_solve must all satisfy"):
        engine.linalg.ldl_solve(engine.eye(3), engine.tensor(pivots, dtype=engine.int32), engine.ones(3, 1))
