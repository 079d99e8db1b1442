"""`engine.func` against mathematics: derivatives with known formulas, maps against loops. tests/parity runs this file on torch itself."""

from __future__ import annotations

import math

import numpy
import pytest
from leaf import leaf

import engine
from engine.func import functional_call, grad, grad_and_value, hessian, jacfwd, jacrev, jvp, linearize, vjp, vmap


def values(t):
    return [round(v, 6) for v in t.detach().flatten().tolist()]


def numbers(*v):
    return engine.tensor(v, dtype=engine.float64)


def test_grad_of_a_power():
    assert values(grad(lambda x: (x**3).sum())(numbers(1.0, 2.0))) == [3.0, 12.0]
    assert grad(grad(grad(lambda x: x**4)))(numbers(2.0)[0]).item() == pytest.approx(48.0)


def test_grad_and_value_with_aux():
    g, (value, aux) = grad_and_value(lambda x: ((x * x).sum(), x + 1), has_aux=True)(numbers(3.0))
    assert (values(g), value.item(), values(aux)) == ([6.0], 9.0, [4.0])
    assert not value.requires_grad and not g.requires_grad and not aux.requires_grad


def test_grad_leaves_what_it_was_given_alone():
    x = leaf(1.0, 2.0)
    grad(lambda a: (a * a).sum())(x)
    assert x.grad is None


def test_the_gradient_can_be_differentiated_outside():
    x = leaf(1.0, 2.0)
    grad(lambda a: (a**3).sum())(x).sum().backward()
    assert values(x.grad) == [6.0, 12.0]
    w = leaf(5.0)
    grad(lambda a: (a * a * w).sum())(numbers(3.0)).sum().backward()  # w is used besides
    assert values(w.grad) == [6.0]


def test_no_grad_inside_is_respected_and_outside_is_not():
    x = numbers(2.0)

    def half(a):
        with engine.no_grad():
            c = a * a
        return (a * c).sum()

    assert values(grad(half)(x)) == [4.0]
    with engine.no_grad():
        assert values(grad(lambda a: (a * a).sum())(x)) == [4.0]


def test_jacobians_are_the_known_ones():
    x = numbers(0.3, 1.2)
    expected = [round(v, 6) for v in (math.cos(0.3), 0.0, 0.0, math.cos(1.2))]
    assert values(jacrev(engine.sin)(x)) == values(jacfwd(engine.sin)(x)) == expected
    assert values(hessian(lambda a: a[0] * a[1] ** 2)(numbers(2.0, 3.0))) == [0.0, 6.0, 6.0, 4.0]


def test_forward_and_reverse_products():
    x, v = numbers(1.0, 2.0), numbers(1.0, 10.0)
    out, tangent = jvp(lambda a: a * a, (x,), (v,))
    assert (values(out), values(tangent)) == ([1.0, 4.0], [2.0, 40.0])
    out, pull = vjp(lambda a: a * a, x)
    assert values(pull(v)[0]) == values(pull(v)[0]) == [2.0, 40.0]  # as often as one likes
    assert values(linearize(lambda a: a * a, x)[1](v)) == [2.0, 40.0]


def test_each_sample_has_its_own_gradient():
    w, xs = numbers(2.0), numbers(1.0, 2.0, 3.0)
    found = vmap(grad(lambda w, x: (w * x).sum() ** 2), in_dims=(None, 0))(w, xs)
    assert values(found) == [4.0, 16.0, 36.0]
    w = leaf(2.0)
    vmap(lambda x: (w * x).sum() ** 2)(xs).sum().backward()  # and outside of the map they are summed
    assert values(w.grad) == [56.0]


def test_a_batched_tensor_has_the_shape_of_a_sample():
    seen = []
    vmap(lambda x: (seen.append((tuple(x.shape), x.ndim, x.numel())), x)[1])(engine.zeros(5, 2, 3))
    assert seen == [((2, 3), 2, 6)]


def test_random_numbers_by_sample():
    ones = engine.ones(3)
    same = vmap(lambda x: x + engine.rand(4), randomness="same")(ones)
    assert bool((same[0] == same[1]).all())
    different = vmap(lambda x: x + engine.rand(4), randomness="different")(ones)
    assert not bool((different[0] == different[1]).any())
    assert vmap(lambda x: engine.nn.functional.dropout(x, 0.5), randomness="different")(engine.ones(3, 50)).shape == (3, 50)
    with pytest.raises(RuntimeError, match="randomness error mode"):
        vmap(lambda x: x + engine.rand(4))(ones)


def test_values_of_a_batched_tensor_cannot_be_read():
    with pytest.raises(RuntimeError, match=r"\.item\(\)"):
        vmap(lambda x: x * x.item())(engine.ones(3))
    with pytest.raises(RuntimeError, match="data-dependent control flow"):
        vmap(lambda x: x if x > 0 else -x)(engine.ones(3))


def test_functional_call_uses_other_weights_and_leaves_the_module_alone():
    layer = engine.nn.Linear(2, 1, bias=False)
    before = layer.weight.tolist()
    out = functional_call(layer, {"weight": engine.tensor([[1.0, 2.0]])}, (engine.tensor([3.0, 4.0]),))
    assert out.item() == 11.0 and layer.weight.tolist() == before


def test_functional_call_ties_weights():
    class Twice(engine.nn.Module):
        def __init__(self):
            super().__init__()
            self.a = engine.nn.Linear(1, 1, bias=False)
            self.b = self.a

        def forward(self, x):
            return self.a(x) + self.b(x)

    x, given = engine.ones(1), {"a.weight": engine.tensor([[3.0]])}
    assert functional_call(Twice(), given, x).item() == 6.0


def test_buffers_that_the_module_changes_go_into_the_dict():
    norm = engine.nn.BatchNorm1d(2, affine=False)
    buffers = {name: b.clone() for name, b in norm.named_buffers()}
    functional_call(norm, buffers, engine.tensor([[1.0, 2.0], [3.0, 4.0]]))
    assert norm.num_batches_tracked.item() == 0 and buffers["num_batches_tracked"].item() == 1


def test_what_nested_vmaps_share_gets_one_gradient():
    x = engine.arange(24.0, dtype=engine.float64).reshape(2, 3, 4).requires_grad_()
    w = engine.arange(1.0, 5.0, dtype=engine.float64).requires_grad_()
    u = (engine.arange(12.0, dtype=engine.float64).reshape(3, 4) / 7).requires_grad_()
    mapped = vmap(lambda a: vmap(lambda b, c: ((b * w).sin() * c).sum())(a, u))(x)  # w and u are of no sample of the outer one
    plain = ((x * w).sin() * u).sum(2)
    weights = engine.arange(6.0, dtype=engine.float64).reshape(2, 3)
    found, expected = (engine.autograd.grad((y * weights).sum(), (x, w, u)) for y in (mapped, plain))
    for a, b in zip(found, expected, strict=True):
        assert engine.allclose(a, b, rtol=1e-12)


SHARED = numpy.random.default_rng(0).normal(size=(4, 3))
ROWS, COLUMNS = numpy.array([0, 2, -1, 0]), numpy.array([[0, 1], [1, 2], [2, 0], [1, 1]])
INDEXED = {
    "a row": (lambda x, i, j: x[i], SHARED[ROWS]),
    "a row and a number": (lambda x, i, j: x[i, 1], SHARED[ROWS, 1]),
    "a column": (lambda x, i, j: x[:, j[0]], SHARED[:, COLUMNS[:, 0]].T),
    "an element": (lambda x, i, j: x[i, j[0]], SHARED[ROWS, COLUMNS[:, 0]]),
    "columns": (lambda x, i, j: x[1:, j], SHARED[1:, COLUMNS].swapaxes(0, 1)),
    "a new dimension": (lambda x, i, j: x[i, None, :2], SHARED[ROWS, None, :2]),
    "numbers for all and for one": (lambda x, i, j: x[[0, 1], j], SHARED[[0, 1], COLUMNS]),
    "along a dimension": (
        lambda x, i, j: engine.take_along_dim(x, i.reshape(1, 1), 0),
        numpy.take_along_axis(SHARED[None], ROWS[:, None, None], 1),
    ),
}


@pytest.mark.parametrize("read, expected", INDEXED.values(), ids=INDEXED)
def test_each_sample_reads_elsewhere_in_what_all_share(read, expected):
    x, i, j = engine.from_numpy(SHARED), engine.from_numpy(ROWS), engine.from_numpy(COLUMNS)
    found = vmap(lambda i, j: read(x, i, j))(i, j)
    assert found.shape == expected.shape and numpy.allclose(found.numpy(), expected)
    w = x.clone().requires_grad_()
    vmap(lambda i, j: read(w, i, j))(i, j).sum().backward()
    times = numpy.array([[(expected == SHARED[r, c]).sum() for c in range(3)] for r in range(4)])  # no two elements are equal
    assert w.grad.tolist() == times.tolist()


def test_indices_of_two_maps():
    x, i, j = engine.from_numpy(SHARED), engine.tensor([0, 2, 1, 3]), engine.tensor([2, 0])
    found = vmap(lambda i: vmap(lambda j: x[i, j])(j))(i)
    assert found.tolist() == SHARED[[[0], [2], [1], [3]], [2, 0]].tolist()
    assert vmap(vmap(lambda j: x[:, j]))(j.reshape(1, 2)).tolist() == [[SHARED[:, 2].tolist(), SHARED[:, 0].tolist()]]


def test_attention_with_a_mask_of_each_sample():
    x = numpy.random.default_rng(1).normal(size=(3, 2, 4, 5))
    mask = numpy.tril(numpy.ones((4, 4), bool))
    masks = numpy.stack([mask, ~mask, numpy.ones_like(mask)])  # the first row of the second sees nothing

    def expected(x, mask):
        scores = numpy.where(mask, x @ x.swapaxes(-1, -2) / numpy.sqrt(5), -numpy.inf)
        weights = numpy.exp(scores - numpy.where(mask.any(-1, keepdims=True), scores.max(-1, keepdims=True), 0))
        return weights / numpy.maximum(weights.sum(-1, keepdims=True), 1e-30) @ x

    def attend(x, mask=None, **more):
        return engine.nn.functional.scaled_dot_product_attention(x, x, x, mask, **more)

    q = engine.from_numpy(x)
    found = vmap(attend)(q, engine.from_numpy(masks))
    assert numpy.allclose(found.numpy(), [expected(a, m) for a, m in zip(x, masks, strict=True)])
    found = vmap(lambda a: attend(a, is_causal=True))(q)
    assert numpy.allclose(found.numpy(), [expected(a, mask) for a in x])


@pytest.mark.parametrize("outer", [jacrev, jacfwd])
@pytest.mark.parametrize("inner", [jacrev, jacfwd])
def test_what_second_derivatives_of_each_sample_leave_for_a_parameter(inner, outer):
    """As in physics-informed networks: the loss is made of second derivatives by the inputs, its gradient is asked for by the weights."""
    w, x = leaf(1.5), numbers(0.5, -1.0, 2.0)

    def residual(x):  # u = w^2 sin(w x): u'' = -w^4 sin(w x)
        return outer(inner(lambda x: w**2 * (w * x).sin()))(x)

    vmap(residual)(x).sum().backward()
    expected = sum(-4 * 1.5**3 * math.sin(1.5 * v) - 1.5**4 * v * math.cos(1.5 * v) for v in x.tolist())
    assert w.grad.item() == pytest.approx(expected)
    w.grad = None
    vmap(vmap(residual))(x.reshape(1, 3)).sum().backward()
    assert w.grad.item() == pytest.approx(expected)
    vmap(residual)(x).sum().backward()  # it is a plain tensor, to which more can be added
    assert w.grad.item() == pytest.approx(2 * expected)


def test_derivatives_within_a_derivative_do_not_require_grad():
    def u(w, x):
        return w**2 * (w * x).sin()

    def loss(w, x):
        return grad(grad(u, 1), 1)(w, x)

    w, x = numbers(1.5)[0], numbers(0.5)[0]
    g, value = grad_and_value(loss)(w, x)
    assert value.item() == pytest.approx(-(1.5**4) * math.sin(0.75)) and not g.requires_grad and not value.requires_grad
    assert g.item() == pytest.approx(-4 * 1.5**3 * math.sin(0.75) - 1.5**4 * 0.5 * math.cos(0.75))
    v = leaf(0.5)
    assert grad(loss)(w, v).requires_grad  # what lies outside still gets its gradient


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_tangents_of_half_precision_are_rounded_once(dtype):
    functions = {
        "cumsum": lambda x: x.cumsum(0)[-1],
        "mean": lambda x: x.mean() * 300,
        "product": lambda x: x @ engine.ones_like(x),
        "pool": lambda x: engine.nn.functional.avg_pool1d(x[None], 300).sum() * 300,
    }
    x = engine.full((300,), 0.3, dtype=getattr(engine, dtype))
    exact, digits = x.double().sum().item(), engine.finfo(x.dtype).eps
    for name, fn in functions.items():
        value, tangent = jvp(fn, (x,), (x,))
        assert tangent.dtype is value.dtype is x.dtype, name
        assert tangent.item() == pytest.approx(exact, rel=digits), name


def test_a_layer_norm_does_not_move_with_its_mean():
    """However the mean is rounded, the same cotangent or tangent for all elements gives 0."""
    x = engine.tensor([[0.5343, 0.47], [100.1, 100.3], [-3.3, 7.1]])

    def norm(x):
        return engine.nn.functional.layer_norm(x, (2,))

    assert grad(lambda x: norm(x).sum())(x).abs().max() < 1e-12
    assert jvp(norm, (x,), (engine.ones_like(x),))[1].abs().max() < 1e-12
