"""Convolutions: values that torch 2.13 gives, what a convolution by hand gives, padding modes, and errors."""

from __future__ import annotations

import itertools

import numpy
import pytest

import engine
from engine.autograd import gradcheck, gradgradcheck
from engine.nn import functional as F
from grouping import grouped

X = (numpy.arange(50).reshape(1, 2, 5, 5) % 7).astype(numpy.float32)
W = ((numpy.arange(54).reshape(3, 2, 3, 3) % 5) - 2).astype(numpy.float32)
B = numpy.array([1, 0, -1], numpy.float32)


def by_hand(x, w, b, stride, padding, dilation, groups):
    """The definition, one output element at a time, in float64."""
    n = w.ndim - 2
    x = numpy.pad(x, [(0, 0), (0, 0), *[(p, p) for p in padding]])
    out_size = [(x.shape[2 + i] - dilation[i] * (w.shape[2 + i] - 1) - 1) // stride[i] + 1 for i in range(n)]
    out = numpy.zeros((len(x), len(w), *out_size))
    per_in, per_out = w.shape[1], len(w) // groups
    for o, place in itertools.product(range(len(w)), itertools.product(*map(range, out_size))):
        part = x[:, o // per_out * per_in : (o // per_out + 1) * per_in]
        for i in range(n):
            start = place[i] * stride[i]
            part = part.take(range(start, start + dilation[i] * (w.shape[2 + i] - 1) + 1, dilation[i]), axis=2 + i)
        out[(slice(None), o, *place)] = (part * w[o]).reshape(len(x), -1).sum(1) + b[o]
    return out


CASES = [
    (1, {"stride": 2, "padding": 1, "dilation": 1, "groups": 1}), (1, {"stride": 1, "padding": 2, "dilation": 3, "groups": 2}),
    (2, {"stride": (2, 1), "padding": (0, 2), "dilation": (1, 2), "groups": 1}),
    (2, {"stride": 1, "padding": 1, "dilation": 1, "groups": 4}),
    (2, {"stride": (3, 2), "padding": 1, "dilation": 1, "groups": 2}),
    (3, {"stride": (1, 2, 1), "padding": (1, 0, 1), "dilation": 1, "groups": 2}),
]  # fmt: skip


@pytest.mark.parametrize(("n", "settings"), CASES)
def test_by_hand(n, settings):
    rng = numpy.random.default_rng(0)
    x, w, b = rng.normal(size=(3, 4, *(7, 6, 5)[:n])), rng.normal(size=(8, 4 // settings["groups"], *(3, 2, 2)[:n])), rng.normal(size=8)
    each = lambda v: v if isinstance(v, tuple) else (v,) * n  # noqa: E731
    plain = {k: v if k == "groups" else each(v) for k, v in settings.items()}
    convolve = getattr(F, f"conv{n}d")
    assert numpy.allclose(convolve(engine.tensor(x), engine.tensor(w), engine.tensor(b), **settings).numpy(), by_hand(x, w, b, **plain))
    # the transposed convolution is the transpose: <conv(x), y> = <x, conv_transpose(y)>
    out = convolve(engine.tensor(x), engine.tensor(w), **settings).numpy()
    y = rng.normal(size=out.shape)
    back = x.shape[2:]
    spread = [
        (o - 1) * s - 2 * p + d * (k - 1) + 1
        for o, s, p, d, k in zip(out.shape[2:], plain["stride"], plain["padding"], plain["dilation"], w.shape[2:], strict=True)
    ]
    extra = tuple(m - s for m, s in zip(back, spread, strict=True))
    transposed = getattr(F, f"conv_transpose{n}d")(engine.tensor(y), engine.tensor(w), output_padding=extra, **settings)
    assert transposed.shape == x.shape and numpy.isclose((out * y).sum(), (x * transposed.numpy()).sum())


def test_values_of_pytorch():
    found = F.conv2d(engine.tensor(X), engine.tensor(W), engine.tensor(B), stride=2, padding=1).tolist()
    assert found == [[
        [[17, -9, -4], [-14, -18, -3], [7, 20, -6]], [[-21, -2, 11], [4, 14, -2], [12, -9, 2]], [[16, 15, -4], [2, -19, 9], [-18, -13, -5]],
    ]]  # fmt: skip
    turned = numpy.ascontiguousarray(W.swapaxes(0, 1))
    found = F.conv_transpose2d(
        engine.tensor(X[:, :, :2, :2].copy()), engine.tensor(turned), engine.tensor(B), stride=2, padding=1, output_padding=1
    ).tolist()
    assert found == [[
        [[5, 10, 8, 9], [-12, -18, -16, -1], [13, 1, 16, -5], [-1, -6, -2, 7]],
        [[-4, -11, -5, 1], [20, -1, 23, -17], [-2, -7, -3, 6], [-6, 6, -6, -12]],
        [[7, -2, 7, -12], [-3, -9, -3, 12], [-7, 5, -7, -13], [4, 8, 5, 14]],
    ]]  # fmt: skip
    found = F.conv1d(engine.tensor(X[0, :, 0].copy()), engine.tensor(W[:, :, 0, :2].copy()), padding="same").tolist()
    assert found == [[-3, -6, 5, -12, -6], [7, 11, 8, 12, 4], [-13, -17, -14, -4, -6]]


def test_padding_in_words():
    x, w = engine.tensor(X), engine.tensor(W)
    assert F.conv2d(x, w, padding="same").tolist() == F.conv2d(x, w, padding=1).tolist()
    assert F.conv2d(x, w, padding="valid").tolist() == F.conv2d(x, w).tolist()
    assert F.conv2d(x, w, padding="same", dilation=2).shape == (1, 3, 5, 5)


def test_an_image_without_a_batch():
    x = engine.tensor(X[0].copy()).requires_grad_()
    w, b = engine.tensor(W).requires_grad_(), engine.tensor(B).requires_grad_()
    out = F.conv2d(x, w, b, padding=1)
    whole = F.conv2d(x.unsqueeze(0), w, b, padding=1)
    assert out.shape == (3, 5, 5) and out.tolist() == whole[0].tolist()
    seed = engine.ones(3, 5, 5)
    for a, b_ in zip(engine.autograd.grad(out, [x, w, b], seed), engine.autograd.grad(whole, [x, w, b], seed.unsqueeze(0)), strict=True):
        assert a.tolist() == b_.tolist()


def test_chunks_do_not_show():
    """More samples than fit into one chunk give what each gives alone."""
    rng = numpy.random.default_rng(1)
    for groups in (1, 8):
        x, w = (
            engine.tensor(rng.normal(size=(40, 8, 20, 20))).requires_grad_(),
            engine.tensor(rng.normal(size=(8, 8 // groups, 3, 3))).requires_grad_(),
        )
        out = F.conv2d(x, w, groups=groups)
        single = engine.cat([F.conv2d(x[i : i + 1], w, groups=groups) for i in range(40)])
        assert numpy.allclose(out.detach().numpy(), single.detach().numpy())
        seed = engine.tensor(rng.normal(size=tuple(out.shape)))
        for a, b in zip(engine.autograd.grad(out, [x, w], seed), engine.autograd.grad(single, [x, w], seed), strict=True):
            assert numpy.allclose(a.numpy(), b.numpy())


DEPTHWISE = [  # at least 16 lines of results, from which on band matrices are used
    ((3, 3, 6, 7), (3, 1, 3, 3), 1, 1, 1), ((4, 2, 9, 8), (6, 1, 2, 3), (2, 1), (0, 2), 1), ((2, 4, 8, 6), (4, 1, 3, 2), (1, 3), 2, (2, 3)),
    ((6, 2, 5, 9), (2, 1, 1, 5), (3, 2), 2, 1),
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(("size", "kernel", "stride", "padding", "dilation"), DEPTHWISE)
def test_depthwise(size, kernel, stride, padding, dilation):
    """Band matrices give what the definition does; the gradients are the transposes."""
    rng = numpy.random.default_rng(0)
    x, w, b = (engine.tensor(rng.normal(size=s), requires_grad=True) for s in (size, kernel, kernel[:1]))
    pair = lambda v: v if isinstance(v, tuple) else (v, v)  # noqa: E731
    out = F.conv2d(x, w, b, stride, padding, dilation, size[1])
    expected = by_hand(x.detach().numpy(), w.detach().numpy(), b.detach().numpy(), pair(stride), pair(padding), pair(dilation), size[1])
    assert numpy.allclose(out.detach().numpy(), expected)
    assert gradcheck(lambda x, w: F.conv2d(x, w, None, stride, padding, dilation, size[1]), (x, w), fast_mode=True)
    assert gradgradcheck(lambda x, w: F.conv2d(x, w, None, stride, padding, dilation, size[1]), (x, w), fast_mode=True)


@pytest.mark.parametrize("bad", [numpy.nan, numpy.inf])
def test_a_depthwise_convolution_keeps_a_nan_in_its_windows(bad):
    x, w = engine.ones(4, 2, 6, 6), engine.ones(2, 1, 3, 3)
    x[1, 0, 2, 3] = bad
    expected = numpy.ones((4, 2, 6, 6), bool)
    expected[1, 0, 1:4, 2:5] = False
    assert (numpy.isfinite(F.conv2d(x, w, padding=1, groups=2).numpy()) == expected).all()
    g = F.conv_transpose2d(x, w, padding=1, groups=2).numpy()
    assert (numpy.isfinite(g) == expected).all() and g[0, 0].tolist() == F.conv2d(x[0], w, padding=1, groups=2)[0].tolist()


@pytest.mark.parametrize("settings", [{}, {"stride": 2, "padding": 1}, {"groups": 2}, {"dilation": 2, "padding": "same"}])
def test_gradients_of_gradients(settings):
    rng = numpy.random.default_rng(2)
    x, b = engine.tensor(rng.normal(size=(1, 2, 4, 4))).requires_grad_(), engine.tensor(rng.normal(size=2)).requires_grad_()
    w = engine.tensor(rng.normal(size=(2, 2 // settings.get("groups", 1), 2, 2))).requires_grad_()
    assert gradcheck(lambda *a: F.conv2d(*a, **settings), (x, w, b))
    assert gradgradcheck(lambda *a: F.conv2d(*a, **settings), (x, w, b))


def test_unfold_and_fold():
    x = engine.tensor(numpy.arange(2 * 3 * 4 * 5, dtype=float).reshape(2, 3, 4, 5)).requires_grad_()
    columns = F.unfold(x, (2, 3), padding=1, stride=2)
    assert columns.shape == (2, 18, 9)
    w = numpy.random.default_rng(0).normal(size=(4, 3, 2, 3))
    assert numpy.allclose(
        (engine.tensor(w).reshape(4, 18) @ columns).detach().numpy().reshape(2, 4, 3, 3),
        F.conv2d(x, engine.tensor(w), padding=1, stride=2).detach().numpy(),
    )
    counts = F.fold(F.unfold(engine.ones(1, 1, 4, 4), 2), 4, 2)
    assert counts[0, 0].tolist() == [[1, 2, 2, 1], [2, 4, 4, 2], [2, 4, 4, 2], [1, 2, 2, 1]]
    with pytest.raises(RuntimeError, match="number of sliding blocks"):
        F.fold(engine.ones(1, 4, 8), 4, 2)


def ones(*shape):
    return engine.ones(*shape)


@grouped(
    ("call", "words"),
    [
        (
            lambda: F.conv2d(ones(2, 4, 5, 5), ones(4, 3, 3, 3)),
            r"weight of size \[4, 3, 3, 3\], expected input\[2, 4, 5, 5\] to have 3 channels, but got 4",
        ),
        (lambda: F.conv2d(ones(8), ones(4, 3, 3, 3)), r"Expected 3D \(unbatched\) or 4D \(batched\) input to conv2d"),
        (
            lambda: F.conv2d(ones(2, 3, 2, 2), ones(4, 3, 3, 3)),
            r"Calculated padded input size per channel: \(2 x 2\). Kernel size: \(3 x 3\)",
        ),
        (lambda: F.conv2d(ones(2, 3, 5, 5), ones(4, 3, 3, 3), ones(3)), "expected bias to be 1-dimensional with 4 elements"),
        (lambda: F.conv2d(ones(2, 3, 5, 5), ones(4, 1, 3, 3), groups=3), "divisible by 3"),
        (lambda: F.conv2d(ones(2, 3, 5, 5), ones(4, 3, 3, 3), stride=2, padding="same"), "not supported for strided"),
        (lambda: F.conv2d(ones(2, 3, 5, 5), ones(4, 3, 3, 3), stride=0), "non-positive stride"),
        (lambda: F.conv2d(ones(2, 3, 5, 5), ones(4, 3, 3, 3), padding=-1), "negative padding"),
        (lambda: F.conv2d(ones(2, 3, 5, 5), ones(4, 3, 3, 3), padding="full"), "Invalid padding string"),
        (lambda: F.conv2d(ones(2, 3, 5, 5), ones(4, 3, 3, 3), stride=(1, 2, 3)), "list of 2 values"),
        (lambda: F.conv2d(ones(2, 3, 5, 5), ones(4, 3, 3, 3).double()), "float32 and float64"),
        (lambda: F.conv1d(ones(2, 3, 5), ones(4, 3, 3, 3)), "weight of 3 dimensions"),
        (lambda: F.conv_transpose2d(ones(2, 3, 5, 5), ones(4, 3, 3, 3)), "to have 4 channels, but got 3"),
        (lambda: F.conv_transpose2d(ones(2, 3, 5, 5), ones(3, 4, 3, 3), stride=2, output_padding=2), "output padding must be smaller"),
    ],
)
def test_refusals(call, words):
    with pytest.raises(RuntimeError, match=words):
        call()


def test_a_transposed_convolution_without_an_output_is_refused():
    with pytest.raises(RuntimeError, match=r"Calculated output size per channel: \(13, -1\). Output size is too small"):
        F.conv_transpose2d(engine.zeros(2, 4, 6, 1), engine.zeros(4, 4, 3, 1), stride=(2, 3), padding=1, dilation=2)
    with pytest.raises(RuntimeError, match="Output size is too small"):
        F.conv_transpose1d(engine.zeros(1, 1, 2), engine.zeros(1, 1, 1), padding=1)
