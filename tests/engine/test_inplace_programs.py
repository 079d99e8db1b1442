"""Random programs of views and writes: values against NumPy's own views, gradients against finite differences of those."""

from __future__ import annotations

import numpy
from hypothesis import example, given

import engine
import programs

X, W = numpy.array([[0.3, -0.7, 1.1], [0.9, 0.4, -1.2]]), numpy.array([0.8, -1.3, 0.6])


def slope(f, x, t, h=1e-6):
    return (f(x + h * t) - f(x - h * t)) / (2 * h)


@given(programs.steps)
@example([("view", 0, "flat"), ("view", 2, "tail"), ("write", 3, "mul_", "weight", 1), ("write", 0, "add_", "itself", 0), ("new", 3, 2)])
@example([("view", 1, "first"), ("write", 2, "add_", "weight", 0), ("view", 1, "transpose"), ("write", 3, "mul_", "another", 3)])
def test_a_program_means_what_it_means_in_numpy(program):
    x, w = engine.tensor(X, requires_grad=True), engine.tensor(W, requires_grad=True)
    pool = programs.run(program, x, w, lambda v: v.clone(), lambda shape: engine.zeros(shape, dtype=engine.float64), programs.write_tensor)
    expected = programs.run(program, X, W, numpy.copy, numpy.zeros, programs.write_numpy)
    loss = None
    for v, plain, c in zip(pool, expected, programs.weights(expected), strict=True):
        assert numpy.array_equal(v.detach().numpy(), plain)
        term = (engine.tensor(c) * v).sum()
        loss = term if loss is None else loss + term
    gx, gw = engine.autograd.grad(loss, (x, w), allow_unused=True, materialize_grads=True) if loss.requires_grad else (0 * x, 0 * w)
    rng = numpy.random.default_rng(1)
    tx, tw = rng.normal(size=X.shape), rng.normal(size=W.shape)
    sx, sw = slope(lambda a: programs.numpy_loss(program, a, W), X, tx), slope(lambda a: programs.numpy_loss(program, X, a), W, tw)
    assert numpy.isclose((gx.detach().numpy() * tx).sum(), sx, rtol=1e-5, atol=1e-6)
    assert numpy.isclose((gw.detach().numpy() * tw).sum(), sw, rtol=1e-5, atol=1e-6)
