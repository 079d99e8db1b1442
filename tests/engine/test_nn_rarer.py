"""Rarer layers and functions: attention by functions of positions, gradients of convolutions, hooks on everything, weight averages."""

from __future__ import annotations

import math

import numpy
import pytest

import engine
from engine import nn, optim
from engine.autograd import gradcheck
from engine.nn import functional as F
from engine.nn.attention import SDPBackend, bias, sdpa_kernel
from engine.nn.attention.flex_attention import AuxRequest, and_masks, create_block_mask, flex_attention

R = numpy.random.default_rng(0)


def normal(*shape, grad=False):
    x = engine.tensor(R.standard_normal(shape))
    return x.requires_grad_() if grad else x


def close(a, b, tolerance=1e-10):
    numpy.testing.assert_allclose(
        a.detach().numpy(), b.detach().numpy() if isinstance(b, engine.Tensor) else b, rtol=tolerance, atol=tolerance
    )


def causal(b, h, i, j):
    return i >= j


def test_flex_attention_is_the_formula():
    q, k, v = normal(2, 3, 5, 4), normal(2, 3, 6, 4), normal(2, 3, 6, 7)
    distance = numpy.abs(numpy.arange(5)[:, None] - numpy.arange(6)[None, :])
    scores = q.numpy() @ k.numpy().swapaxes(-1, -2) / math.sqrt(4) - 0.3 * distance
    scores = numpy.where(numpy.arange(5)[:, None] >= numpy.arange(6)[None, :], scores, -numpy.inf)
    weights = numpy.exp(scores) / numpy.exp(scores).sum(-1, keepdims=True)
    mask = create_block_mask(causal, None, None, 5, 6)
    out, aux = flex_attention(
        q, k, v, lambda s, b, h, i, j: s - 0.3 * (i - j).abs().double(), mask, return_aux=AuxRequest(lse=True, max_scores=True)
    )
    close(out, weights @ v.numpy())
    close(aux.lse, numpy.log(numpy.exp(scores).sum(-1)))
    close(aux.max_scores, scores.max(-1))


def test_flex_attention_has_gradients_and_blind_rows_give_zeros():
    q, k, v = (normal(1, 2, 3, 2, grad=True) for _ in range(3))
    mask = create_block_mask(lambda b, h, i, j: i > j, None, None, 3, 3)
    assert gradcheck(lambda q, k, v: flex_attention(q, k, v, lambda s, b, h, i, j: s * (h + 1), mask), (q, k, v))
    close(flex_attention(q, k, v, block_mask=mask)[:, :, 0], numpy.zeros((1, 2, 2)))


def test_flex_attention_refuses():
    with pytest.raises(ValueError, match="same number of heads"):
        flex_attention(normal(1, 4, 2, 2), normal(1, 2, 2, 2), normal(1, 2, 2, 2))
    with pytest.raises(ValueError, match="4D"):
        flex_attention(normal(4, 2, 2), normal(4, 2, 2), normal(4, 2, 2))
    with pytest.raises(RuntimeError, match="callable"):
        and_masks(causal, 3)


def test_block_mask_counts_blocks():
    mask = create_block_mask(causal, 1, 2, 256, 256, BLOCK_SIZE=64)
    numpy.testing.assert_array_equal(mask.to_dense()[0, 0].numpy(), numpy.tril(numpy.ones((4, 4))))
    assert mask.kv_num_blocks[0, 0].tolist() == [1, 1, 1, 1] and mask.full_kv_num_blocks[0, 0].tolist() == [0, 1, 2, 3]
    assert mask.shape == (1, 2, 256, 256) and mask.sparsity() == pytest.approx(37.5)


def test_causal_biases_and_kernels():
    assert bias.causal_lower_right(2, 3).tolist() == [[True, True, False], [True, True, True]]
    assert bias.causal_upper_left(2, 3).tolist() == [[True, False, False], [True, True, False]]
    q = normal(1, 1, 3, 2)
    with sdpa_kernel([SDPBackend.FLASH_ATTENTION, SDPBackend.MATH]):
        close(
            F.scaled_dot_product_attention(q, q, q, is_causal=True), F.scaled_dot_product_attention(q, q, q, bias.causal_upper_left(3, 3))
        )
    with pytest.raises(TypeError, match="SDPBackend"), sdpa_kernel(["flash"]):
        pass


@pytest.mark.parametrize("n", [1, 2, 3])
def test_gradients_of_convolutions(n):
    conv = getattr(F, f"conv{n}d")
    x, w = normal(2, 2, *[5] * n, grad=True), normal(3, 2, *[2] * n, grad=True)
    y = conv(x, w, None, 2, 1)
    g = normal(*y.shape)
    y.backward(g)
    close(getattr(nn.grad, f"conv{n}d_input")(x.shape, w, g, 2, 1), x.grad)
    close(getattr(nn.grad, f"conv{n}d_weight")(x, w.shape, g, 2, 1), w.grad)


def test_rarer_layers_have_the_gradient_of_what_they_compute():
    x = normal(2, 6, 2, 2, grad=True)
    assert gradcheck(nn.CrossMapLRN2d(3, 0.5, 0.6, 1.5), (x,))
    assert gradcheck(nn.SyncBatchNorm(6).double(), (x,))
    loss = nn.LinearCrossEntropyLoss(4, 5, bias=True, label_smoothing=0.1).double()
    targets = engine.tensor([0, 4, 2])
    assert gradcheck(lambda x, w: F.linear_cross_entropy(x, w, targets), (normal(3, 4, grad=True), normal(5, 4, grad=True)))
    scores = F.linear(x := normal(3, 4), loss.linear.weight, loss.linear.bias)
    close(loss(x, targets), F.cross_entropy(scores, targets, label_smoothing=0.1))


def test_statistics_over_processes_are_those_of_all_batches(monkeypatch):
    """Two processes played by one: what `all_reduce` adds is the other's part."""
    import sys
    import types

    x, y = normal(4, 3), normal(2, 3)
    layer = nn.SyncBatchNorm(3).double()
    sums = []

    def all_reduce(total, group=None):
        if not sums:
            total += engine.cat([y.sum(0), engine.tensor([2.0], dtype=engine.float64)])
        else:
            both = engine.cat([x, y]).mean(0)
            total += ((y - both) ** 2).sum(0)
        sums.append(total)

    stand_in = types.SimpleNamespace(all_reduce=all_reduce, is_initialized=lambda: True, get_world_size=lambda group=None: 2)
    monkeypatch.setitem(sys.modules, "engine.distributed", stand_in)
    out = layer(x)
    plain = nn.BatchNorm1d(3).double()
    close(out, plain(engine.cat([x, y]))[:4])
    close(layer.running_mean, plain.running_mean)
    close(layer.running_var, plain.running_var)


def test_hooks_of_all_modules_go_away():
    from engine.nn.modules.module import register_module_forward_hook

    seen = []
    net = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    handle = register_module_forward_hook(lambda module, args, out: seen.append(type(module).__name__))
    net(normal(1, 2).float())
    handle.remove()
    net(normal(1, 2).float())
    assert seen == ["Linear", "ReLU", "Sequential"]


def test_averages():
    net = nn.Linear(2, 1, bias=False).double()
    mean, moving = (
        optim.swa_utils.AveragedModel(net),
        optim.swa_utils.AveragedModel(net, multi_avg_fn=optim.swa_utils.get_ema_multi_avg_fn(0.9)),
    )
    expected, ema = [], None
    for _ in range(4):
        with engine.no_grad():
            net.weight.copy_(normal(1, 2))
        mean.update_parameters(net)
        moving.update_parameters(net)
        w = net.weight.detach().numpy().copy()
        expected.append(w)
        ema = w if ema is None else 0.9 * ema + 0.1 * w
    close(mean.module.weight, numpy.mean(expected, 0))
    close(moving.module.weight, ema)
    assert mean.n_averaged.item() == 4


def test_statistics_anew():
    net = nn.Sequential(nn.BatchNorm1d(3).double())
    batches = [normal(5, 3) for _ in range(3)]
    optim.swa_utils.update_bn(batches, net)
    close(net[0].running_mean, numpy.mean([b.numpy().mean(0) for b in batches], 0))
    assert net[0].momentum == 0.1


def test_adafactor_keeps_means_of_rows_and_columns():
    p = nn.Parameter(normal(3, 4))
    g = normal(3, 4)
    p.grad = g
    before = p.detach().numpy().copy()
    optimizer = optim.Adafactor([p], lr=0.05)
    optimizer.step()
    squares = g.numpy() ** 2
    rows, columns = squares.mean(1, keepdims=True), squares.mean(0, keepdims=True)
    close(optimizer.state[p]["row_var"], rows)
    u = g.numpy() / numpy.sqrt(rows * columns / rows.mean())
    u /= max(1, numpy.sqrt((u**2).mean()))
    close(p, before - max(1e-3, numpy.sqrt((before**2).mean())) * 0.05 * u)


def test_muon_steps_along_an_almost_orthogonal_matrix():
    p = nn.Parameter(engine.zeros(4, 3, dtype=engine.float64))
    p.grad = normal(4, 3)
    optim.Muon([p], lr=1.0, weight_decay=0.0).step()
    singular = numpy.linalg.svd(p.detach().numpy() / math.sqrt(4 / 3), compute_uv=False)
    assert ((singular > 0.6) & (singular < 1.3)).all()
    with pytest.raises(ValueError, match="only supports 2D"):
        optim.Muon([nn.Parameter(engine.zeros(3))])


def test_duplicates_in_a_group_are_warned_of():
    p = nn.Parameter(engine.ones(2))
    with pytest.warns(UserWarning, match="duplicate parameters"):
        optim.SGD([p, p], lr=0.1)


def test_uniform_rounds_once_and_stays_below():
    engine.manual_seed(0)
    u = engine.rand(1000, dtype=engine.float64).numpy()
    engine.manual_seed(0)
    found = engine.empty(1000, dtype=engine.float64).uniform_(-0.3, 0.7).numpy()
    from fractions import Fraction

    exact = [float(Fraction(x) * Fraction(0.7 - -0.3) + Fraction(-0.3)) for x in u]
    numpy.testing.assert_array_equal(found, exact)
    low = engine.empty(5000, dtype=engine.bfloat16).uniform_(0.0, 1.0)
    assert (low < 1).all()


def test_batches_are_cut_for_devices_and_joined():
    from engine.nn.parallel import gather, scatter, scatter_kwargs

    x = engine.arange(6.0).view(3, 2)
    parts = scatter({"x": x, "more": (x, "word")}, ["cpu", "cpu"])
    assert [p["x"].tolist() for p in parts] == [[[0, 1], [2, 3]], [[4, 5]]] and parts[1]["more"][1] == "word"
    whole = gather([p["x"] for p in parts], "cpu")
    assert whole.tolist() == x.tolist()
    assert gather([(x[:1], {"k": x[1:2]}), (x[2:], {"k": x[:1]})], "cpu")[1]["k"].tolist() == [[2, 3], [0, 1]]
    inputs, named = scatter_kwargs((x,), {}, ["cpu", "cpu"])
    assert len(inputs) == len(named) == 2 and named[0] == {}
    with pytest.warns(UserWarning, match="scalars"):
        assert gather([engine.tensor(1.0), engine.tensor(2.0)], "cpu").tolist() == [1, 2]
    with pytest.raises(ValueError, match="same number of keys"):
        gather([{"a": x}, {}], "cpu")


def test_reductions_have_pytorchs_numbers():
    from engine.nn import _reduction

    assert [_reduction.get_enum(name) for name in ("none", "mean", "sum")] == [0, 1, 2]
    with pytest.raises(ValueError, match="most is not a valid value for reduction"):
        _reduction.get_enum("most")
    told = {(True, True): "mean", (None, None): "mean", (False, None): "sum", (True, False): "none", (False, False): "none"}
    assert {flags: _reduction.legacy_get_string(*flags, emit_warning=False) for flags in told} == told
    with pytest.warns(UserWarning, match="please use reduction='sum' instead"):
        assert _reduction.legacy_get_enum(False, None) == 2
