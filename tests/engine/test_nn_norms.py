"""Weight and spectral norms, parametrizations, pruning and fusion, against mathematics and finite differences."""

from __future__ import annotations

import numpy
import pytest

import engine
from engine import nn
from engine.autograd import gradcheck
from engine.nn.utils import parametrizations, parametrize, prune

R = numpy.random.default_rng(0)


def layer(*sizes):
    return nn.Linear(*sizes, dtype=engine.float64)


def normal(*shape):
    return engine.tensor(R.standard_normal(shape))


def close(a, b, tolerance=1e-10):
    numpy.testing.assert_allclose(
        a.detach().numpy(), b.detach().numpy() if isinstance(b, engine.Tensor) else b, rtol=tolerance, atol=tolerance
    )


@pytest.mark.parametrize("dim", [0, 1, None])
def test_weight_norm_keeps_the_weight_and_splits_it(dim):
    m = layer(4, 3)
    before = m.weight.detach().numpy().copy()
    parametrizations.weight_norm(m, dim=dim)
    close(m.weight, before)
    axes = None if dim is None else 1 - dim
    norms = numpy.linalg.norm(before, axis=axes, keepdims=dim is not None) if dim is not None else numpy.linalg.norm(before)
    close(m.parametrizations.weight.original0, norms)
    with engine.no_grad():
        m.parametrizations.weight.original1.mul_(7.0)  # the direction's length does not matter
    close(m.weight, before)
    parametrize.remove_parametrizations(m, "weight")
    close(m.weight, before)
    assert type(m) is nn.Linear and [n for n, _ in m.named_parameters()] == ["bias", "weight"]


def test_old_weight_norm_trains_norm_and_direction():
    with pytest.warns(FutureWarning, match="weight_norm` is deprecated"):
        m = nn.utils.weight_norm(layer(4, 3))
    g, v = m.weight_g, m.weight_v
    x = normal(2, 4)

    def out(g, v):
        with engine.no_grad():
            m.weight_g.copy_(g), m.weight_v.copy_(v)
        return nn.functional.linear(x, nn.utils.weight_norm.__globals__["weighted"](v, g, 0))

    assert gradcheck(out, (g.detach().clone().requires_grad_(), v.detach().clone().requires_grad_()))
    nn.utils.remove_weight_norm(m)
    assert set(m.state_dict()) == {"bias", "weight"}
    with pytest.raises(ValueError, match="weight_norm of 'weight' not found"):
        nn.utils.remove_weight_norm(m)


@pytest.mark.parametrize("old", [True, False])
def test_spectral_norm_divides_by_the_largest_singular_value(old):
    m = nn.utils.spectral_norm(layer(6, 4)) if old else parametrizations.spectral_norm(layer(6, 4))
    for _ in range(60):
        m(normal(2, 6))
    original = m.weight_orig if old else m.parametrizations.weight.original
    close(m.weight, original.detach().numpy() / numpy.linalg.norm(original.detach().numpy(), 2), 1e-6)
    assert abs(numpy.linalg.norm(m.weight.detach().numpy(), 2) - 1) < 1e-6
    before = {k: v.clone() for k, v in m.state_dict().items()}
    m.eval()
    m(normal(2, 6))
    for key, value in m.state_dict().items():
        close(value, before[key])  # evaluation leaves u and v alone


@pytest.mark.parametrize("kind", ["matrix_exp", "cayley", "householder"])
@pytest.mark.parametrize("sizes", [(4, 4), (5, 3), (3, 5)])
@pytest.mark.parametrize("base", [True, False])
def test_orthogonal_stays_orthogonal(kind, sizes, base):
    m = parametrizations.orthogonal(layer(*sizes), orthogonal_map=kind, use_trivialization=base)
    optimizer = engine.optim.SGD(m.parameters(), lr=0.01)
    for _ in range(3):
        optimizer.zero_grad()
        m(normal(6, sizes[0])).pow(3).sum().backward()
        optimizer.step()
        w = m.weight.detach().numpy()
        gram = w @ w.T if sizes[1] <= sizes[0] else w.T @ w
        numpy.testing.assert_allclose(gram, numpy.eye(len(gram)), atol=1e-9)


def test_orthogonal_takes_the_matrix_that_it_is_given():
    m = parametrizations.orthogonal(layer(3, 3))
    q = engine.tensor(numpy.linalg.qr(R.standard_normal((3, 3)))[0])
    m.weight = q
    close(m.weight, q)
    with pytest.raises(ValueError, match="orthogonal_map has to be one of"):
        parametrizations.orthogonal(layer(3, 3), orthogonal_map="other")


def test_parametrization_says_what_is_wrong():
    class Shorter(nn.Module):
        def forward(self, x):
            return x[:1]

    with pytest.raises(ValueError, match="may not change the shape"):
        parametrize.register_parametrization(layer(2, 2), "weight", Shorter())
    with pytest.raises(ValueError, match="does not have a parameter, a buffer"):
        parametrize.register_parametrization(layer(2, 2), "other", Shorter())
    with pytest.raises(ValueError, match="does not have a parametrization on weight"):
        parametrize.remove_parametrizations(layer(2, 2), "weight")


@pytest.mark.parametrize(("call", "zeros"), [
    (lambda m: prune.l1_unstructured(m, "weight", 5), 5), (lambda m: prune.random_unstructured(m, "weight", 0.25), 5),
    (lambda m: prune.ln_structured(m, "weight", 1, 2, 0), 5), (lambda m: prune.random_structured(m, "weight", 0.5, 1), 8),
    (lambda m: prune.l1_unstructured(prune.ln_structured(m, "weight", 1, 1, 0), "weight", 4), 9),
])  # fmt: skip
def test_pruned_stays_zero_in_training(call, zeros):
    m = layer(5, 4)
    size = m.weight.detach().numpy().copy()
    call(m)
    optimizer = engine.optim.SGD(m.parameters(), lr=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        m(normal(6, 5)).pow(2).sum().backward()
        optimizer.step()
    m(normal(6, 5))
    assert int((m.weight == 0).sum().item()) == zeros == int((m.weight_mask == 0).sum().item())
    assert prune.is_pruned(m)
    prune.remove(m, "weight")
    assert not prune.is_pruned(m) and int((m.weight == 0).sum().item()) == zeros and size.shape == tuple(m.weight.shape)


def test_smallest_are_pruned_over_several_parameters():
    net = nn.Sequential(layer(3, 4), layer(4, 2))
    values = numpy.concatenate([numpy.abs(m.weight.detach().numpy()).ravel() for m in net])
    prune.global_unstructured([(m, "weight") for m in net], prune.L1Unstructured, amount=7)
    kept = numpy.concatenate([m.weight_mask.numpy().ravel() for m in net])
    numpy.testing.assert_array_equal(kept == 0, values <= numpy.sort(values)[6])


def test_fused_does_what_both_do():
    conv, bn = nn.Conv2d(2, 3, 3).double(), nn.BatchNorm2d(3).double()
    for _ in range(3):
        bn(conv(normal(4, 2, 6, 6)))
    with pytest.raises(AssertionError, match="Fusion only for eval"):
        nn.utils.fuse_conv_bn_eval(conv, bn)
    x = normal(2, 2, 6, 6)
    close(nn.utils.fuse_conv_bn_eval(conv.eval(), bn.eval())(x), bn(conv(x)))


def test_skipped_initialization_draws_nothing():
    engine.manual_seed(3)
    after = engine.rand(4)
    engine.manual_seed(3)
    made = nn.utils.skip_init(nn.Linear, 5, 6)
    assert tuple(made.weight.shape) == (6, 5)
    close(engine.rand(4), after)
