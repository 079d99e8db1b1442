"""Decompositions: gradients under changes that keep a matrix symmetric, and of functions that do not depend on a choice of signs."""

from __future__ import annotations

import numpy
import pytest

import engine
from engine import Tensor
from engine.autograd import gradcheck, gradgradcheck
from engine.op import functions

linalg = {name.removeprefix("linalg."): f for name, f in functions.items() if name.startswith("linalg.")}


def matrix(*shape):
    return Tensor(numpy.random.default_rng(3).normal(size=shape), requires_grad=True)


def symmetric(x):
    return x + x.mT


def definite(x):
    return x @ x.mT + engine.eye(x.shape[-2], dtype=engine.float64)


FUNCTIONS = {
    "cholesky": lambda x: linalg["cholesky"](definite(x)),
    "cholesky upper": lambda x: linalg["cholesky"](definite(x), upper=True),
    "eigenvalues": lambda x: linalg["eigh"](symmetric(x))[0],
    "eigenvectors": lambda x: linalg["eigh"](symmetric(x))[1] ** 2,
    "logdet": lambda x: linalg["slogdet"](definite(x))[1],
}


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("shape", [(3, 3), (2, 3, 3)])
def test_symmetric(name, shape):
    assert gradcheck(FUNCTIONS[name], (matrix(*shape),))
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
