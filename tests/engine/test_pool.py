"""Pooling and resampling: values that torch 2.13 gives, and errors."""

from __future__ import annotations

import numpy
import pytest

import engine
from engine.autograd import gradcheck, gradgradcheck
from engine.nn import functional as F

X = (numpy.arange(50).reshape(1, 2, 5, 5) % 7).astype(numpy.float32)


def test_max_pool():
    values, places = F.max_pool2d(engine.tensor(X), 2, ceil_mode=True, return_indices=True)
    assert values.tolist() == [[[[6, 3, 4], [4, 6, 5], [6, 2, 3]], [[5, 6, 6], [6, 3, 4], [4, 6, 0]]]]
    assert places.tolist() == [[[[6, 3, 4], [11, 13, 19], [20, 23, 24]], [[1, 2, 9], [16, 13, 14], [21, 23, 24]]]]
    assert F.max_pool2d(engine.tensor(X), 2, ceil_mode=True).tolist() == values.tolist()
    assert F.max_pool2d(engine.tensor(X).long(), 3, 2, 1).dtype is engine.int64


def test_max_pool_finds_nan():
    x = numpy.zeros((1, 1, 4), numpy.float32)
    x[0, 0, 1] = numpy.nan
    values, places = F.max_pool1d(engine.tensor(x), 2, return_indices=True)
    assert numpy.isnan(values.numpy()[0, 0, 0]) and places.tolist() == [[[1, 2]]]


def test_max_pool_gradient_goes_to_one_element():
    for stride in (2, 1):  # disjoint and overlapping windows
        x = engine.zeros(1, 4, 4, requires_grad=True)
        F.max_pool2d(x, 2, stride).sum().backward()
        assert x.grad.sum().item() == (4 if stride == 2 else 9) and x.grad[0, 0, 0].item() == 1  # of equal elements the first


def test_unpool():
    values, places = F.max_pool2d(engine.tensor(X[:, :, :4, :4].copy()), 2, return_indices=True)
    expected = [[[0, 0, 0, 3], [0, 6, 0, 0], [0, 4, 0, 6], [0, 0, 0, 0]], [[0, 5, 6, 0], [0, 0, 0, 0], [0, 0, 0, 3], [0, 6, 0, 0]]]
    assert F.max_unpool2d(values, places, 2).tolist() == [expected]
    assert F.max_unpool2d(values, places, 2, output_size=(1, 2, 5, 5)).shape == (1, 2, 5, 5)
    with pytest.raises(ValueError, match="output_size"):
        F.max_unpool2d(values, places, 2, output_size=(7, 7))
    with pytest.raises(RuntimeError, match="invalid max index"):
        F.max_unpool2d(values, places + 20, 2)


def test_avg_pool():
    found = F.avg_pool2d(engine.tensor(X[:, :1].copy()), 3, 2, 1, ceil_mode=True, count_include_pad=False).numpy()
    assert numpy.allclose(found, [[[[3, 13 / 6, 2.5], [3.5, 31 / 9, 3], [2.25, 2, 3.5]]]])
    assert F.avg_pool2d(engine.ones(1, 1, 4, 4), 2, divisor_override=3)[0, 0].tolist() == [[numpy.float32(4 / 3).item()] * 2] * 2
    assert F.avg_pool1d(engine.ones(1, 4), 3, 1, 1).tolist() == [[numpy.float32(2 / 3).item(), 1, 1, numpy.float32(2 / 3).item()]]


def test_adaptive_pools():
    x = engine.tensor(X[:, :1].copy())
    assert numpy.allclose(F.adaptive_avg_pool2d(x, (2, 3)).numpy(), [[[[19 / 6, 28 / 9, 8 / 3], [8 / 3, 3, 10 / 3]]]])
    assert F.adaptive_avg_pool2d(x, (None, 1)).shape == (1, 1, 5, 1)
    assert F.adaptive_avg_pool2d(x, 1).item() == pytest.approx(X[0, 0].mean())
    values, places = F.adaptive_max_pool2d(x, (2, 3), return_indices=True)
    assert values.tolist() == [[[[6, 6, 6], [6, 6, 6]]]] and places.tolist() == [[[[6, 6, 13], [20, 13, 13]]]]


def test_lp_pool_is_a_norm():
    x = numpy.random.default_rng(0).uniform(0.1, 1, (2, 6))
    assert numpy.allclose(F.lp_pool1d(engine.tensor(x), 3.0, 2).numpy(), (x.reshape(2, 3, 2) ** 3).sum(-1) ** (1 / 3))


def test_interpolate():
    x = engine.tensor(X[:, :1, :2, :3].copy())
    bilinear = F.interpolate(x, size=(3, 4), mode="bilinear")[0, 0].numpy()
    assert numpy.allclose(bilinear, [[0, 0.625, 1.375, 2], [2.5, 3.125, 2.5625, 1], [5, 5.625, 3.75, 0]])
    corners = F.interpolate(x, size=(3, 4), mode="bilinear", align_corners=True)[0, 0].numpy()
    assert numpy.allclose(corners, [[0, 2 / 3, 4 / 3, 2], [2.5, 19 / 6, 8 / 3, 1], [5, 17 / 3, 4, 0]])
    cubic = F.interpolate(engine.tensor(X[:, :1, :3, :3].copy()), scale_factor=1.5, mode="bicubic")[0, 0].numpy()
    expected = [
        [-0.5208335518836975, -0.08474399149417877, 0.8835036158561707, 1.9602466821670532],
        [2.6006946563720703, 3.4833984375, 3.3213257789611816, 1.0015919208526611],
        [5.060184955596924, 6.172272682189941, 5.429661750793457, 1.3654789924621582],
        [3.2870376110076904, 3.885669708251953, 4.442543029785156, 4.283153533935547],
    ]
    assert numpy.allclose(cubic, expected, rtol=1e-5)
    assert F.interpolate(x, scale_factor=2)[0, 0].tolist() == X[0, 0, :2, :3].repeat(2, 0).repeat(2, 1).tolist()
    row = engine.tensor([[[1.0, 2.0, 4.0, 8.0]]])
    assert F.interpolate(row, scale_factor=1.2, mode="linear").tolist() == row.tolist()  # of the same length, whatever the scale


def test_interpolated_bytes_are_rounded_to_bytes():
    """PyTorch's numbers, from a run of it."""
    x = engine.tensor([[[[172, 47, 117, 192], [67, 251, 195, 103], [9, 211, 21, 242]]]], dtype=engine.uint8)
    assert F.interpolate(x, (5, 3), mode="bilinear").tolist() == [
        [[[151, 82, 180], [130, 138, 155], [98, 223, 118], [65, 159, 170], [43, 116, 205]]]
    ]
    assert F.interpolate(x, (5, 3), mode="bicubic").tolist() == [
        [[[159, 45, 188], [134, 145, 149], [94, 249, 115], [57, 180, 166], [36, 101, 216]]]
    ]
    smaller = F.interpolate(x, (2, 6), mode="bilinear", antialias=True)
    assert smaller.tolist() == [[[[133, 128, 128, 142, 153, 159], [31, 128, 203, 110, 138, 190]]]]
    for shape, mode in (((1, 1, 4), "linear"), ((1, 1, 2, 2, 2), "trilinear")):
        with pytest.raises(NotImplementedError, match="uint8"):
            F.interpolate(engine.ones(*shape, dtype=engine.uint8), scale_factor=2, mode=mode)


@pytest.mark.parametrize(
    "fn",
    [
        lambda x: F.avg_pool2d(x, 3, 2, 1, ceil_mode=True, count_include_pad=False),
        lambda x: F.adaptive_avg_pool2d(x, (2, 3)),
        lambda x: F.interpolate(x, size=(6, 3), mode="bilinear"),
        lambda x: F.interpolate(x, scale_factor=1.3, mode="bicubic", align_corners=True),
        lambda x: F.max_pool2d(x, 3, 2, 1),
        lambda x: F.adaptive_max_pool2d(x, (2, 3)),
        lambda x: F.lp_pool2d(x, 2.0, 2),
    ],
)
def test_gradients(fn):
    x = engine.tensor(numpy.random.default_rng(0).permutation(20).reshape(1, 1, 4, 5) / 20 + 0.1).requires_grad_()
    assert gradcheck(fn, (x,)) and gradgradcheck(fn, (x,))


def test_one_window_that_hangs_over_the_end():
    x = engine.tensor([[[3.0]]], requires_grad=True)
    F.avg_pool1d(x, 2, ceil_mode=True).sum().backward()
    assert x.grad.tolist() == [[[1.0]]] and F.avg_pool2d(engine.tensor(X), (6, 2), (2, 2), ceil_mode=True).shape == (1, 2, 1, 3)


@pytest.mark.parametrize(
    ("call", "kind", "words"),
    [
        (lambda x: F.max_pool2d(x[0, 0], 2), RuntimeError, "3D or 4D"),
        (lambda x: F.max_pool2d(x, 2, padding=2), RuntimeError, "at most half"),
        (lambda x: F.max_pool2d(x, 9), RuntimeError, "Output size is too small"),
        (lambda x: F.max_pool2d(x, 2, 0), RuntimeError, "stride"),
        (lambda x: F.avg_pool2d(x, (1, 2, 3)), RuntimeError, "list of 2 values"),
        (lambda x: F.avg_pool2d(x, 2, divisor_override=0), RuntimeError, "not zero"),
        (lambda x: F.interpolate(x), ValueError, "size or scale_factor"),
        (lambda x: F.interpolate(x, 2, mode="linear"), NotImplementedError, "4D"),
        (lambda x: F.interpolate(x, 2, align_corners=True), ValueError, "align_corners"),
        (lambda x: F.interpolate(x, 2, 2.0), ValueError, "only one"),
        (lambda x: F.interpolate(x, 2, mode="nearest", antialias=True), ValueError, "Anti-alias option is restricted"),
        (lambda x: F.adaptive_avg_pool2d(x, (1, 2, 3)), RuntimeError, "2 elements"),
    ],
)
def test_refusals(call, kind, words):
    with pytest.raises(kind, match=words):
        call(engine.tensor(X))


@pytest.mark.parametrize("n", [1, 2, 3])
def test_pools_of_an_empty_batch(n):
    x = engine.zeros((0, 3) + (6,) * n, requires_grad=True)
    out, index = getattr(F, f"adaptive_max_pool{n}d")(x, 2, return_indices=True)
    assert out.shape == index.shape == (0, 3) + (2,) * n
    out.sum().backward()
    assert x.grad.shape == x.shape
    out, index = getattr(F, f"max_pool{n}d")(x, 2, return_indices=True)
    assert getattr(F, f"max_unpool{n}d")(out, index, 2).shape == x.shape


def test_the_mean_of_a_volume_smaller_than_the_kernel_is_refused():
    """PyTorch looks at the size without the padding, for volumes only."""
    with pytest.raises(RuntimeError, match=r"at least the kernel's size \[3, 3, 3\], but got \[6, 6, 1\]"):
        F.avg_pool3d(engine.zeros(2, 3, 6, 6, 1), 3, padding=1)
    assert F.avg_pool2d(engine.zeros(2, 3, 6, 1), 3, padding=1).shape == (2, 3, 2, 1)


def test_the_nearest_places_have_a_gradient_of_zeros():
    grid = engine.zeros(1, 2, 2, 2, requires_grad=True)
    out = F.grid_sample(engine.tensor(X[:1]), grid, mode="nearest", align_corners=False)
    out.sum().backward()
    assert grid.grad.tolist() == numpy.zeros((1, 2, 2, 2)).tolist()


def test_padding_that_leaves_nothing_to_repeat():
    with pytest.raises(RuntimeError, match="leaves nothing of dimension 1"):
        F.pad(engine.zeros(1, 2), (1, -2), "circular")
    assert F.pad(engine.zeros(1, 2), (0, -2), "circular").shape == (1, 0)
    assert F.pad(engine.tensor([[4.0, 5.0]]), (3, -2), "replicate").tolist() == [[4.0, 4.0, 4.0]]


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda x: F.pixel_shuffle(x[0, 0], 2), "pixel_shuffle expects input to have at least 3 dimensions, but got input with 2"),
        (lambda x: F.pixel_unshuffle(x[0, 0], 2), "pixel_unshuffle expects input to have at least 3 dimensions, but got input with 2"),
        (lambda x: F.pixel_shuffle(x, 0), "positive upscale_factor, but got 0"),
        (lambda x: F.pixel_unshuffle(x, -1), "positive downscale_factor, but got -1"),
        (lambda x: F.channel_shuffle(x[0, 0], 2), "channel_shuffle expects input with > 2 dims"),
        (lambda x: F.channel_shuffle(x, 0), "must be positive. Value of groups:0"),
    ],
)
def test_refusals_of_shuffles(call, words):
    with pytest.raises(RuntimeError, match=words):
        call(engine.tensor(X))


def test_bytes_are_resized_with_weights_of_16_bits():
    """PyTorch's own numbers: with weights that are not rounded to 16 bits two of them would be one less, and a few of the sums others."""
    x = (engine.arange(0, 250, 7, dtype=engine.uint8) * 37 % 251).reshape(1, 1, 4, 9)
    found = F.interpolate(x, size=(3, 4), mode="bicubic", antialias=True)
    assert found[0, 0].tolist() == [[7, 13, 21, 27], [43, 49, 57, 63], [78, 84, 92, 98]]
    x = (engine.arange(1200) * 37 % 251).to(engine.uint8).reshape(1, 1, 30, 40)
    for mode, total, weighed in (("bilinear", 54674, 11967884), ("bicubic", 54670, 11942930)):
        y = F.interpolate(x, size=(19, 23), mode=mode)[0, 0].long()
        assert (y.sum().item(), (y * engine.arange(19 * 23).reshape(19, 23)).sum().item()) == (total, weighed)
