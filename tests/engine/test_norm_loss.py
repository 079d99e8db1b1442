"""Normalization, losses and attention: values that torch 2.13 gives, running statistics, warnings and errors."""

from __future__ import annotations

import itertools
import math

import numpy
import pytest

import engine
from engine import Tensor
from engine.autograd import gradcheck, gradgradcheck
from engine.nn import functional as F
from grouping import grouped

Y = numpy.array([[1.0, 2, 4], [0, -1, 3], [2, 2, -2], [5, 0, 1]])
P = numpy.array([[0.2, 0.3, 0.5], [1.0, 0, 0], [0.1, 0.1, 0.8], [0.4, 0.4, 0.2]])
T = numpy.array([2, 0, -100, 1])
W = numpy.array([1, 0.5, 2])


def close(found, expected):
    found = found.detach().numpy() if isinstance(found, Tensor) else found
    assert numpy.shape(found) == numpy.shape(expected) and numpy.allclose(found, expected, rtol=1e-12, atol=1e-12)


def t(x):
    return engine.tensor(numpy.array(x))


corners = pytest.mark.filterwarnings("ignore:.*encountered in:RuntimeWarning")  # log(0) and 0 / 0 are among the values


# -- normalization -------------------------------------------------------------------------------------------------------


def test_batch_norm():
    mean, var = engine.zeros(3, dtype=engine.float64), engine.ones(3, dtype=engine.float64)
    found = F.batch_norm(t(Y), mean, var, training=True, momentum=0.25)
    close(found[0], [-0.5345217202229368, 0.9622475975496074, 1.0910884120486357])
    close(mean, [0.5, 0.1875, 0.375])
    close(var, [1.9166666666666667, 1.3125, 2.5])
    assert mean._version == 1
    close(F.batch_norm(t(Y), mean, var, t(W), t(W)), (Y - mean.numpy()) / numpy.sqrt(var.numpy() + 1e-5) * W + W)
    F.batch_norm(t(Y), mean, var, training=True, momentum=1.0)
    close(mean, Y.mean(0))
    close(var, Y.var(0, ddof=1))


def test_statistics_move_once_although_the_gradient_is_differentiated():
    mean, var = engine.zeros(3, dtype=engine.float64), engine.ones(3, dtype=engine.float64)
    x = t(Y).requires_grad_()
    (g,) = engine.autograd.grad((F.batch_norm(x, mean, var, training=True) ** 3).sum(), x, create_graph=True)
    (g * g).sum().backward()
    close(mean, 0.1 * Y.mean(0))
    assert x.grad is not None and numpy.abs(x.grad.numpy()).max() > 0


def test_other_norms():
    close(F.layer_norm(t(Y), (3,))[1], [-0.3922315914145858, -0.9805789785364644, 1.37281056995105])
    close(F.group_norm(t(Y).reshape(1, 4, 3), 2).reshape(-1)[:3], [-0.29276951999438444, 0.29276951999438444, 1.4638475999719223])
    close(F.rms_norm(t(Y), (3,))[1], [0.0, -0.5477225575051661, 1.6431676725154982])
    close(F.local_response_norm(t(Y).reshape(1, 4, 3), 3, alpha=0.5)[0, 1], [0.0, -0.5029733718731741, 0.7992518666619656])
    close(F.normalize(t(Y), dim=1).numpy(), Y / numpy.linalg.norm(Y, axis=1, keepdims=True))
    x = numpy.random.default_rng(0).normal(size=(2, 3, 8))
    mean, var = engine.zeros(3, dtype=engine.float64), engine.ones(3, dtype=engine.float64)
    close(F.instance_norm(t(x), mean, var), (x - x.mean(2, keepdims=True)) / numpy.sqrt(x.var(2, keepdims=True) + 1e-5))
    close(mean, 0.1 * x.mean((0, 2)))
    close(var, 0.9 + 0.1 * x.var(2, ddof=1).mean(0))


def test_rows_in_blocks():
    """More rows than are normalized at a time give what each gives alone."""
    x = numpy.random.default_rng(0).normal(size=(500, 300)).astype(numpy.float32) * 3 + 100
    found = F.layer_norm(t(x), (300,)).numpy()
    wide = x.astype(float)
    assert numpy.allclose(found, (wide - wide.mean(1, keepdims=True)) / numpy.sqrt(wide.var(1, keepdims=True) + 1e-5), atol=1e-4)


# -- losses --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, 2.7534916044841786),
        ({"weight": W}, 1.6908423965541177),
        ({"label_smoothing": 0.1}, 2.7201582711508454),
        ({"weight": W, "label_smoothing": 0.2, "reduction": "sum"}, 6.095136166823789),
    ],
)
def test_cross_entropy(settings, expected):
    settings = {k: t(v) if isinstance(v, numpy.ndarray) else v for k, v in settings.items()}
    close(F.cross_entropy(t(Y), t(T), **settings), expected)
    moved = numpy.ascontiguousarray(Y.T)[None]  # (1, C, places)
    close(F.cross_entropy(t(moved), t(T[None]), **settings), expected)
    x = t(Y).requires_grad_()
    assert gradcheck(lambda x: F.cross_entropy(x, t(T), **settings), (x,)) and gradgradcheck(
        lambda x: F.cross_entropy(x, t(T), **settings), (x,)
    )


@corners
def test_cross_entropy_of_large_logits_and_probabilities():
    close(F.cross_entropy(t([[1e4, -1e4, 0.0]]), t([1])), 2e4)
    close(F.cross_entropy(t(Y), t(P), label_smoothing=0.1), 2.7440178670562414)
    close(F.cross_entropy(t(Y[0]), t(T[0])), -math.log(math.exp(4) / (math.exp(1) + math.exp(2) + math.exp(4))))
    assert numpy.isnan(F.cross_entropy(t(Y), t(numpy.full(4, -100))).item())  # the mean of nothing, as in PyTorch
    close(F.nll_loss(t(Y), t(T), t(W)), -(Y[0, 2] * 2 + Y[1, 0] + Y[3, 1] * 0.5) / 3.5)


@corners
def test_probabilities():
    u = numpy.abs(Y / 10)
    close(F.binary_cross_entropy(t(u), t(P)), 12.137759046244952)
    close(F.binary_cross_entropy_with_logits(t(Y), t(P), pos_weight=t(W)), 1.7263748973169555)
    close(F.binary_cross_entropy_with_logits(t([1e3, -1e3]), t([0.0, 0.0]), reduction="none"), [1000, 0])
    close(
        F.kl_div(t(numpy.log([[0.5, 0.5], [0.25, 0.75]])), t([[0.5, 0.5], [0.5, 0.5]]), reduction="batchmean"),
        0.5 * (0.5 * math.log(2) + 0.5 * math.log(2 / 3)),
    )
    close(F.gaussian_nll_loss(t([1.0]), t([2.0]), t([4.0]), full=True), 0.5 * (math.log(2 * math.pi * 4) + 0.25))
    close(F.poisson_nll_loss(t([0.5]), t([3.0])), math.exp(0.5) - 1.5)


def test_differences():
    close(F.huber_loss(t(Y), t(P * 3), delta=0.7), 1.1741666666666666)
    close(F.smooth_l1_loss(t(Y), t(P * 3), beta=0.3), 1.8666666666666665)
    close(F.mse_loss(t(Y), t(P), reduction="none"), (Y - P) ** 2)
    close(F.l1_loss(t(Y), t(P), reduction="sum"), numpy.abs(Y - P).sum())


def test_margins():
    close(F.hinge_embedding_loss(t([0.3, 0.4]), t([1.0, -1.0]), reduction="none"), [0.3, 0.6])
    close(F.margin_ranking_loss(t([1.0, 2]), t([2.0, 1]), t([1.0, 1]), 0.5, reduction="none"), [1.5, 0])
    close(F.soft_margin_loss(t([0.0, 2.0]), t([1.0, -1.0]), reduction="none"), numpy.log1p(numpy.exp([0, 2.0])))
    close(F.cosine_embedding_loss(t([[1.0, 0], [1, 1]]), t([[0.0, 1], [1, 1]]), t([1, -1]), 0.5, reduction="none"), [1, 0.5])
    close(F.multi_margin_loss(t([[0.1, 0.2, 0.4, 0.8]]), t([3])), (0.3 + 0.4 + 0.6) / 4)
    close(F.multilabel_margin_loss(t([[0.1, 0.2, 0.4, 0.8]]), t([[3, 0, -1, 1]])), 0.25 * ((1 - 0.6) + (1 - 0.4) + (1 + 0.1) + (1 + 0.3)))
    close(F.multilabel_soft_margin_loss(t([[0.0, 0.0]]), t([[1.0, 0.0]])), math.log(2))


def test_the_gradient_of_ctc_is_not_differentiated():
    x = t(numpy.linspace(-1, 1, 40).reshape(5, 2, 4)).requires_grad_()
    loss = F.ctc_loss(x.log_softmax(2), t([[1, 2], [3, 3]]), (5, 4), (2, 2))
    (once,) = engine.autograd.grad(loss, x, create_graph=True)
    (plain,) = engine.autograd.grad(F.ctc_loss(x.log_softmax(2), t([[1, 2], [3, 3]]), (5, 4), (2, 2)), x)
    assert engine.equal(once, plain)
    with pytest.raises(RuntimeError, match="once"):
        engine.autograd.grad(once.sum(), x)


def test_ctc_by_every_path():
    """The likelihood is the sum over all paths that collapse to the target; torch gives 6.3205... and 7.4848..."""
    x = t(numpy.arange(40.0).reshape(5, 2, 4) % 7).requires_grad_()
    log_probs = x.log_softmax(2)
    found = F.ctc_loss(log_probs, t([[1, 2], [3, 3]]), (5, 4), (2, 2), reduction="none")
    close(found, [6.320534827224309, 7.484835699283269])
    for n, (steps, target) in enumerate(((5, [1, 2]), (4, [3, 3]))):
        total = 0.0
        for path in itertools.product(range(4), repeat=steps):
            collapsed = [c for i, c in enumerate(path) if c and (i == 0 or path[i - 1] != c)]
            if collapsed == target:
                total += math.exp(sum(log_probs.detach().numpy()[i, n, c] for i, c in enumerate(path)))
        close(found[n], -math.log(total))
    assert gradcheck(lambda x: F.ctc_loss(x.log_softmax(2), t([1, 2, 3, 3]), (5, 4), (2, 2)), (x,))
    assert F.ctc_loss(log_probs, t([[1, 1], [3, 3]]), (2, 4), (2, 2), reduction="none")[0].item() == math.inf  # too short
    assert F.ctc_loss(log_probs, t([[1, 1], [3, 3]]), (2, 4), (2, 2), reduction="none", zero_infinity=True)[0].item() == 0


def test_warnings_of_pytorch():
    with pytest.warns(
        UserWarning, match=r"\(torch.Size\(\[3\]\)\) that is different to the input size \(torch.Size\(\[4, 3\]\)\)"
    ) as caught:
        F.mse_loss(t(Y), t(W))
    assert caught[0].filename == __file__  # it points at the user's line
    with pytest.warns(UserWarning, match="batchmean"):
        F.kl_div(t(Y), t(P))
    with pytest.warns(UserWarning, match="reduction='sum'"):
        F.cross_entropy(t(Y), t(T), size_average=False)


@grouped(
    ("call", "kind", "words"),
    [
        (lambda: F.cross_entropy(t(Y), t([0, 1, 3, 2])), IndexError, "Target 3 is out of bounds"),
        (lambda: F.cross_entropy(t(Y), t([0, -1, 1, 2])), IndexError, "Target -1 is out of bounds"),
        (lambda: F.cross_entropy(t(Y), t([0, 1])), ValueError, r"batch_size \(4\) to match target batch_size \(2\)"),
        (lambda: F.cross_entropy(t(Y), t(T).int()), RuntimeError, "int32"),
        (lambda: F.cross_entropy(t(Y), t(T), t([1.0])), RuntimeError, "all 3 classes"),
        (lambda: F.cross_entropy(t(Y), t(T), label_smoothing=2.0), RuntimeError, "label_smoothing"),
        (lambda: F.mse_loss(t(Y), t(P), reduction="avg"), ValueError, "avg is not a valid value for reduction"),
        (lambda: F.binary_cross_entropy(t(Y), t(P)), RuntimeError, "between 0 and 1"),
        (lambda: F.binary_cross_entropy_with_logits(t(Y), t(P[:2])), ValueError, "must be the same as input size"),
        (lambda: F.huber_loss(t(Y), t(P), delta=0), RuntimeError, "non-positive"),
        (lambda: F.gaussian_nll_loss(t(Y), t(P), t(-P)), ValueError, "negative"),
        (lambda: F.batch_norm(t(Y[:1]), None, None, training=True), ValueError, "more than 1 value per channel"),
        (lambda: F.batch_norm(t(Y), None, None), RuntimeError, "running_mean"),
        (lambda: F.layer_norm(t(Y), (4,)), RuntimeError, r"normalized_shape=\[4\], expected input with shape \[\*, 4\]"),
        (lambda: F.group_norm(t(Y), 2), RuntimeError, "divisible by num_groups"),
        (lambda: F.scaled_dot_product_attention(t(Y), t(Y), t(Y), t(P) > 0, is_causal=True), RuntimeError, "is_causal"),
    ],
)
def test_refusals(call, kind, words):
    with pytest.raises(kind, match=words):
        call()


# -- attention -----------------------------------------------------------------------------------------------------------


def test_attention():
    q = t(numpy.arange(12.0).reshape(1, 3, 4) / 7)
    expected = [
        [0.0, 0.02040816326530612, 0.08163265306122448, 0.18367346938775508],
        [0.09452083795590403, 0.1621894201991622, 0.27067432897303256, 0.4199755642775152],
        [0.10179453181857194, 0.1614212943148766, 0.2618643833417934, 0.40312379889932254],
    ]
    close(F.scaled_dot_product_attention(q, q.flip(1), q * q, is_causal=True)[0], expected)
    seen = t(numpy.tril(numpy.ones((3, 3), bool)))
    close(F.scaled_dot_product_attention(q, q.flip(1), q * q, seen)[0], expected)
    added = engine.zeros(3, 3, dtype=engine.float64).masked_fill(seen.logical_not(), -math.inf)
    close(F.scaled_dot_product_attention(q, q.flip(1), q * q, added)[0], expected)


def test_a_row_that_sees_nothing():
    x = t(numpy.random.default_rng(0).normal(size=(3, 4))).requires_grad_()
    mask = t(numpy.array([[True, True, False], [False, False, False], [True, True, True]]))
    out = F.scaled_dot_product_attention(x, x, x, mask)
    assert out[1].tolist() == [0, 0, 0, 0]
    out.sum().backward()
    assert numpy.isfinite(x.grad.numpy()).all()
    assert gradcheck(lambda x: F.scaled_dot_product_attention(x, x, x, mask), (x,)) and gradgradcheck(
        lambda x: F.scaled_dot_product_attention(x, x, x, mask), (x,)
    )


def test_grouped_heads():
    rng = numpy.random.default_rng(0)
    q, k, v = (t(rng.normal(size=s)) for s in ((2, 4, 3, 5), (2, 2, 6, 5), (2, 2, 6, 5)))
    found = F.scaled_dot_product_attention(q, k, v, enable_gqa=True)
    for h in range(4):
        close(found[:, h], F.scaled_dot_product_attention(q[:, h], k[:, h // 2], v[:, h // 2]).numpy())


def test_the_gradient_of_an_impossible_alignment():
    """PyTorch's loss of a target that is too long is inf and its gradient nan, up to the input's length; both are 0 with zero_infinity."""
    for zero in (False, True):
        x = t(numpy.zeros((3, 2, 4))).requires_grad_()
        loss = F.ctc_loss(x.log_softmax(2), t([[1, 1], [3, 2]]), (2, 3), (2, 2), reduction="sum", zero_infinity=zero)
        loss.backward()
        assert math.isinf(loss.item()) is not zero and numpy.isfinite(x.grad[:, 1].numpy()).all()
        expected = numpy.zeros((3, 4))
        expected[:2] = 0 if zero else math.nan
        numpy.testing.assert_array_equal(x.grad[:, 0].numpy(), expected)


def test_a_row_of_scores_and_a_vector_of_one_class():
    loss = F.multi_margin_loss(t([0.1, 0.2, 0.4, 0.8]), t([3]), reduction="none")
    close(loss, [(0.3 + 0.4 + 0.6) / 4])
    close(F.multi_margin_loss(t([0.1, 0.2, 0.4, 0.8]), t(3), reduction="none"), (0.3 + 0.4 + 0.6) / 4)


def test_bags_that_the_last_offset_does_not_end():
    """Sums are torch 2.13's; its mean of such a bag divides by one too many."""
    table, index = t(numpy.arange(15.0).reshape(5, 3)), t([0, 1, 2, 3, 4, 0])
    close(F.embedding_bag(index, table, t([0, 2, 5]), mode="sum", include_last_offset=True), [[3, 5, 7], [27, 30, 33]])
    close(F.embedding_bag(index, table, t([0, 2, 5]), mode="mean", include_last_offset=True), [[1.5, 2.5, 3.5], [9, 10, 11]])
    close(F.embedding_bag(index, table, t([0, 2, 5]), mode="sum", include_last_offset=True, padding_idx=1), [[0, 1, 2], [27, 30, 33]])
    assert F.embedding_bag(index, table, t([0]), mode="sum", include_last_offset=True).shape == (0, 3)
    nothing = engine.zeros(0, dtype=engine.int64)
    assert F.embedding_bag(index, table, nothing, mode="mean").shape == (0, 3)
    with pytest.raises(RuntimeError, match="number of offset should be at least 1"):
        F.embedding_bag(index, table, nothing, include_last_offset=True)
    with pytest.raises(RuntimeError, match="offsets must not fall"):
        F.embedding_bag(index, table, t([0, 4, 2]))


@pytest.mark.parametrize("name", ["l1_loss", "mse_loss", "smooth_l1_loss", "huber_loss", "soft_margin_loss", "kl_div", "cross_entropy"])
def test_the_mean_by_its_first_name(name):
    x, y = t(Y), t(numpy.array([0, 2, 1, 1])) if name == "cross_entropy" else t(numpy.abs(Y) + 0.5)
    with pytest.warns(UserWarning, match="reduction='elementwise_mean' is deprecated") as told:
        found = getattr(F, name)(x, y, reduction="elementwise_mean")
    assert len(told) == 1
    close(found, getattr(F, name)(x, y, reduction="none").mean())


def test_divergences_warn_once_and_want_real_numbers():
    with pytest.warns(UserWarning, match="size_average and reduce args will be deprecated") as told:
        F.kl_div(t(Y), t(P), size_average=True)
    assert len(told) == 1
    for x, y in ((t(Y), t(T)), (t(T), t(Y))):
        with pytest.raises(RuntimeError, match="kl_div: Integral inputs not supported"):
            F.kl_div(x, y)


def test_targets_that_are_no_tensors():
    with pytest.raises(TypeError, match="'target' \\(position 2\\) must be Tensor, not list"):
        F.cross_entropy(t(Y), [0, 1, 2, 0])
    with pytest.raises(TypeError, match="'target' \\(position 2\\) must be Tensor, not list"):
        F.kl_div(t(Y), [1, 2])


def test_attention_with_a_mask_of_single_floats():
    """PyTorch adds a float32 mask to scores of any dtype."""
    q, mask = t(Y), engine.tensor(numpy.tril(numpy.ones((4, 4), numpy.float32)))
    found = F.scaled_dot_product_attention(q, q, q, attn_mask=mask)
    assert found.dtype is engine.float64
    close(found, F.scaled_dot_product_attention(q, q, q, attn_mask=mask.double()))
    with pytest.raises(RuntimeError, match="attn_mask dtype"):
        F.scaled_dot_product_attention(q, q, q, attn_mask=mask.half())
