"""The inspector against NumPy, and its sentences."""

from __future__ import annotations

import math

import ml_dtypes
import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from walked import leaf

import engine
from workbench import inspector
from workbench.inspector import heat_map, numbers, text
from workbench.inspector.heat_map import Look
from workbench.inspector.vocabulary import Vocabulary


@given(arrays.arrays(numpy.float64, arrays.array_shapes(min_dims=0, max_dims=3, max_side=6), elements=st.floats(width=32)))
def test_counts_and_moments_are_those_of_numpy(x):
    s = inspector.summary(x)
    fine = x[numpy.isfinite(x)]
    assert (s.nan, s.pos_inf, s.neg_inf) == (numpy.isnan(x).sum(), (x == math.inf).sum(), (x == -math.inf).sum())
    assert (s.negative, s.zero, s.positive) == ((fine < 0).sum(), (fine == 0).sum(), (fine > 0).sum())
    assert s.size == x.size == s.nan + s.pos_inf + s.neg_inf + s.negative + s.zero + s.positive
    if fine.size:
        assert (s.min, s.max) == (fine.min(), fine.max())
        largest = float(numpy.abs(fine).max())
        assert s.mean == pytest.approx(fine.mean(), rel=1e-9, abs=1e-9 * largest)
    else:
        assert s.min is s.max is s.mean is None
    if fine.size > 1:
        assert s.std == pytest.approx(fine.std(ddof=1), rel=1e-6, abs=1e-6 * largest)
    if fine.size == x.size:
        assert s.norm == pytest.approx(float(numpy.linalg.norm(x.reshape(-1))), rel=1e-9)
    else:
        assert s.norm is None
    assert (s.values is None) == (x.size > 6)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "int64", "uint8", "bool", "complex64", "int8"])
def test_every_dtype_can_be_summarised(dtype):
    d = ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype
    x = numpy.array([[0, 1, 1], [1, 0, 1], [0, 0, 1]]).astype(d)
    s = inspector.summary(x)
    assert (s.dtype, s.zero, s.positive, s.max) == (dtype, 4, 5, 1.0)
    assert sum(inspector.histogram(x).counts) == 9
    assert inspector.heat(x)[0].rows == 3


def test_a_norm_is_there_where_its_square_has_no_number():
    for x in (numpy.array([3e200, -4e200]), numpy.array([3e-200, 4e-200])):
        assert inspector.summary(x).norm == pytest.approx(float(numpy.hypot(*x)), rel=1e-12)
    assert inspector.summary(numpy.zeros(3)).norm == 0.0
    assert numbers.norm(numpy.array([3j, 4.0])) == 5.0 and numbers.norm(numpy.zeros(0)) == 0.0


@pytest.mark.parametrize(
    "x",
    [
        numpy.array([-3e38, 3e38, 0.0, 1e38], numpy.float32),
        numpy.array([-1.7e308, 1.7e308, 0.0]),
        numpy.array([0.0, 1e-323, 5e-324]),
        numpy.array([-5.0, 5.0, 0.0, 1.7], numpy.float32),
    ],
    ids=["float32", "float64", "subnormal", "usual"],
)
def test_a_histogram_has_its_bins_where_the_span_has_no_number_of_the_dtype(x):
    h = inspector.histogram(x)
    wide = x.astype(numpy.longdouble)
    low, high = wide.min(), wide.max()
    expected = numpy.bincount(numpy.minimum(63, ((wide - low) / (high - low) * 64).astype(int)), minlength=64)
    assert (h.low, h.high) == (x.min(), x.max()) and h.counts == expected.tolist()


def test_moments_do_not_lose_digits_to_a_large_mean():
    x = (1e6 + numpy.random.default_rng(0).normal(size=200_000)).astype(numpy.float64)
    assert inspector.summary(x).std == pytest.approx(x.std(ddof=1), rel=1e-9)


def test_a_view_that_is_not_contiguous():
    x = numpy.arange(24.0).reshape(4, 6)[::2, ::-1].T
    s = inspector.summary(x)
    assert (s.shape, s.mean, s.min) == ([6, 2], x.mean(), x.min())


def test_the_histogram_counts_every_finite_element_once():
    x = numpy.random.default_rng(0).normal(size=5000).astype(numpy.float32)
    x[:3] = [math.nan, math.inf, -math.inf]
    h = inspector.histogram(x)
    fine = x[3:].astype(numpy.float64)
    assert sum(h.counts) == fine.size and not h.sampled
    wanted, _ = numpy.histogram(fine, bins=64, range=(h.low, h.high))
    assert numpy.abs(numpy.array(h.counts) - wanted).sum() <= 4  # an element on an edge may fall to either side
    assert inspector.histogram(numpy.full(9, 3.0)).counts[32] == 9
    assert inspector.histogram(numpy.array([math.nan])) is None


def test_a_large_histogram_is_sampled_first_and_exact_when_asked():
    x = numpy.random.default_rng(0).normal(size=1_500_000).astype(numpy.float32)
    assert inspector.histogram(x).sampled
    exact = inspector.histogram(x, exact=True)
    assert not exact.sampled and sum(exact.counts) == x.size


def pictures(heat, buffers):
    """The values as an array of (pictures, rows, columns), and the marks."""
    values = numpy.frombuffer(buffers[0], "<f4").reshape(heat.values.shape)
    return values, None if heat.marks is None else numpy.frombuffer(buffers[1], numpy.uint8).reshape(heat.marks.shape)


@given(st.integers(1, 400), st.integers(1, 400), st.sampled_from(["mean", "absmax"]))
def test_each_cell_of_a_heat_map_pools_a_block(rows, cols, how):
    x = numpy.random.default_rng(rows * 1000 + cols).normal(size=(rows, cols)).astype(numpy.float32)
    heat, buffers = inspector.heat(x, Look(pool=how))
    values, _ = pictures(heat, buffers)
    assert sum(map(len, buffers)) <= 64 << 10 and max(values.shape) <= 128
    assert (heat.rows, heat.cols) == (rows, cols)
    r, c = heat.block
    assert values.shape == (1, -(-rows // r), -(-cols // c))
    if rows * cols <= 128 * 128 and max(rows, cols) <= 128:
        numpy.testing.assert_array_equal(values[0], x)
        return
    measure = {"mean": lambda b: b.mean(dtype=numpy.float64), "absmax": lambda b: numpy.abs(b).max()}[how]
    for i, j in ((0, 0), (values.shape[1] // 2, values.shape[2] - 1), (values.shape[1] - 1, 0)):
        block = x[i * r : (i + 1) * r, j * c : (j + 1) * c]
        assert values[0, i, j] == pytest.approx(measure(block), rel=1e-5, abs=1e-6)


@pytest.mark.parametrize("how", ["mean", "absmax"])
def test_one_nan_among_many_is_never_averaged_away(how):
    x = numpy.ones((1000, 1000), numpy.float32)
    x[500, 501], x[3, 4], x[999, 0] = math.nan, math.inf, -math.inf
    heat, buffers = inspector.heat(x, Look(pool=how))
    values, marks = pictures(heat, buffers)
    r, c = heat.block
    assert {(i, j): marks[0, i, j] for i, j in numpy.argwhere(marks[0])} == {(500 // r, 501 // c): 1, (3 // r, 4 // c): 2, (999 // r, 0): 4}
    assert (values == 1).all()


def test_any_axes_can_be_rows_columns_and_side_by_side():
    x = numpy.arange(2 * 3 * 4 * 5, dtype=numpy.float32).reshape(2, 3, 4, 5)

    def shown(**look):
        heat, buffers = inspector.heat(x, Look(**look))
        return heat, pictures(heat, buffers)[0]

    heat, values = shown()  # the last two, and the short one before them side by side
    assert heat.axes == [1, 2, 3]
    numpy.testing.assert_array_equal(values, x[0])
    heat, values = shown(facet=-1, index=[1, 2, 0, 0])
    assert (heat.axes, heat.index) == ([-1, 2, 3], [1, 2, 0, 0])
    numpy.testing.assert_array_equal(values[0], x[1, 2])
    heat, values = shown(facet=3, rows=1, cols=0, index=[0, 0, 2, 0])
    numpy.testing.assert_array_equal(values, x[:, :, 2, :].transpose(2, 1, 0))
    heat, values = shown(facet=-1, rows=-1, cols=1, index=[1, 0, 3, 4])
    numpy.testing.assert_array_equal(values[0, 0], x[1, :, 3, 4])
    assert shown(index=[9])[0].index[0] == 1  # an index beyond the end is the last one
    with pytest.raises(ValueError, match="axes"):
        inspector.heat(x, Look(rows=4))
    with pytest.raises(ValueError, match="axes"):
        inspector.heat(x, Look(rows=1, cols=1))
    assert inspector.heat(numpy.zeros((0, 3)))[0] is None
    assert inspector.heat(numpy.float32(3))[0].values.shape == [1, 1, 1]


def test_many_channels_side_by_side_stay_within_the_room():
    x = numpy.random.default_rng(0).normal(size=(100, 64, 64)).astype(numpy.float32)
    heat, buffers = inspector.heat(x, Look(facet=0, index=[50, 0, 0]))
    values, _ = pictures(heat, buffers)
    assert (heat.facets, heat.first, len(values)) == (100, 50, 36) and sum(map(len, buffers)) <= 64 << 10
    r, c = heat.block
    assert values[3, 1, 2] == pytest.approx(x[53, r : 2 * r, 2 * c : 3 * c].mean(dtype=numpy.float64), rel=1e-5)
    assert inspector.heat(x, Look(facet=0, index=[99, 0, 0]))[0].first == 64


def test_elements_keep_their_exact_value_and_sign():
    x = numpy.array([[1e300, -1e300, math.inf], [math.nan, 0.1, -0.0]])
    heat, buffers = inspector.heat(x)
    values, marks = pictures(heat, buffers)
    assert marks is None and math.isnan(values[0, 1, 0]) and values[0, 0, 2] == math.inf
    assert numpy.isfinite(values[0, 0, :2]).all()  # what float32 cannot hold is large, not infinite


@pytest.mark.parametrize("shape", [(300, 500), (3, 140, 77), (1, 1, 1000)])
@pytest.mark.parametrize("bad", [False, True])
def test_what_runs_on_a_device_gives_what_numpy_gives(shape, bad):
    """The code for arrays on a GPU, whose library has no `reduceat`, run on NumPy's arrays."""
    x = numpy.random.default_rng(1).normal(size=shape).astype(numpy.float32).reshape((-1, *shape[-2:]))
    if bad:
        x[0, 0, 3], x[-1, -1, -1] = math.nan, math.inf
    marks = (numpy.isnan(x) * 1 | numpy.isposinf(x) * 2).astype(numpy.uint8)
    fine = numpy.where(marks == 0, x, 0)
    for op in (numpy.minimum, numpy.maximum, numpy.add):
        a = heat_map._blocks(numpy, op, fine, 3, 4, numpy.float64 if op is numpy.add else None)
        b = heat_map._blocks_at_once(numpy, op, fine, 3, 4, numpy.float64 if op is numpy.add else None)
        numpy.testing.assert_allclose(a, b, rtol=1e-12)
    a, b = (f(numpy, numpy.bitwise_or, marks, 3, 4) for f in (heat_map._blocks, heat_map._blocks_at_once))
    numpy.testing.assert_array_equal(a, b)


def test_facts_say_shape_memory_and_place():
    x = leaf(4, 6)
    view = x[1:3, ::2]
    told = {f.label: f.text for f in inspector.facts(view.array, view)}
    assert told["shape"] == "(2, 3)" and told["dtype"] == "float32" and told["device"] == "cpu"
    assert told["strides"] == "(6, 2), not contiguous"
    assert told["view of"] == "a tensor of shape (4, 6)"
    assert told["leaf"] == "False" and told["requires_grad"] == "True"


def test_layouts_in_which_a_tensor_can_be_an_image():
    names = lambda *shape: [one.name for one in inspector.layouts(shape)]  # noqa: E731
    assert names(28, 28) == ["H, W"]
    assert names(3, 32, 32) == ["C, H, W", "N, H, W"]
    assert names(32, 32, 4) == ["H, W, C", "N, H, W"]
    assert names(8, 1, 28, 28) == ["N, C, H, W"]
    assert names(8, 28, 28, 3) == ["N, H, W, C"]
    assert names(8, 16, 28, 28) == names(64) == names(2, 2) == names() == names(0, 3, 28, 28) == []


def drawn(array, layout, first=0):
    told, buffers = inspector.image(array, layout, first)
    assert sum(map(len, buffers)) <= 64 << 10
    return told, numpy.frombuffer(buffers[0], numpy.uint8).reshape(told.pixels.shape)


def test_a_large_image_says_which_rows_are_drawn():
    told, _ = inspector.image(numpy.zeros((4096, 8), numpy.uint8), "H, W")
    assert told.rule.endswith("Every 32nd row and column is drawn.")
    assert [text.ordinal(n) for n in (2, 3, 4, 11, 12, 13, 21, 111, 122)] == (
        ["2nd", "3rd", "4th", "11th", "12th", "13th", "21st", "111th", "122nd"]
    )


def test_an_image_says_how_numbers_become_brightness():
    x = numpy.linspace(0, 1, 48).reshape(3, 4, 4)
    told, pixels = drawn(x, "C, H, W")
    assert told.rule == "0 is black, 1 is white." and (told.height, told.width) == (4, 4)
    numpy.testing.assert_array_equal(pixels[0], (x.transpose(1, 2, 0) * 255).round())
    told, pixels = drawn(x * 2 - 1, "C, H, W")
    assert told.rule.startswith("−1 is black") and pixels.min() == 0 and pixels.max() == 255
    told, pixels = drawn(x * 10 - 3, "C, H, W")
    assert told.rule.startswith("Stretched: the least, −3, is black, the largest, 7, is white")
    numpy.testing.assert_array_equal(pixels[0], (x.transpose(1, 2, 0) * 255).round())
    told, pixels = drawn(numpy.arange(16, dtype=numpy.uint8).reshape(4, 4), "H, W")
    assert told.rule == "0 is black, 255 is white." and pixels[0, 3, 3, 0] == 15
    assert drawn(numpy.eye(4) > 0, "H, W")[1][0, 1, 1, 0] == 255


def test_pixels_that_are_no_numbers_have_colours_of_their_own():
    x = numpy.full((4, 4), 0.5)
    x[1, 2], x[3, 3] = math.nan, -math.inf
    told, pixels = drawn(x, "H, W")
    assert pixels.shape == (1, 4, 4, 3) and "NaN are magenta" in told.rule
    assert pixels[0, 1, 2].tolist() == [214, 0, 108] and pixels[0, 3, 3].tolist() == [122, 0, 184]
    assert pixels[0, 0, 0].tolist() == [128, 128, 128]


def test_a_batch_of_images_is_shown_in_parts_and_large_ones_with_fewer_pixels():
    x = numpy.random.default_rng(0).random((40, 3, 64, 64))
    told, pixels = drawn(x, "N, C, H, W", 30)
    assert (told.count, told.first, len(pixels)) == (40, 24, 16)
    step = -(-64 // pixels.shape[1])
    assert f"Every {step}" in told.rule
    numpy.testing.assert_array_equal(pixels[2], (x[26].transpose(1, 2, 0)[::step, ::step] * 255).round())
    with pytest.raises(ValueError, match="cannot be seen as an image"):
        inspector.image(x, "H, W")


def test_ids_are_tokens_by_a_list_a_dict_or_a_tokenizer():
    class Tokenizer:
        def get_vocab(self):
            return {"the": 0, "cat": 1, "sat": 2}

    ids = numpy.array([[0, 1], [2, 7]])
    for source in (["the", "cat", "sat"], {0: "the", 1: "cat", 2: "sat"}, {"the": 0, "cat": 1, "sat": 2}, Tokenizer()):
        told = inspector.tokens(ids, Vocabulary(source))
        assert (told.texts, told.unknown, told.ids) == ([["the", "cat"], ["sat", ""]], 1, ids.tolist())
    assert inspector.tokens(ids * 1.0, Vocabulary(["a"])) is None and inspector.tokens(ids, None) is None
    assert Vocabulary("ab").text(1) == "b" and Vocabulary([b"\xff", "x" * 99]).text(1).endswith("…")
    for wrong in (3, {"a": "b"}, {1.5: "a"}):
        with pytest.raises(TypeError, match="vocabulary"):
            Vocabulary(wrong)
    long = inspector.tokens(numpy.zeros((100, 300), int), Vocabulary(["a"]))
    assert (long.rows, long.cols) == (100, 300) and sum(map(len, long.ids)) <= 512


def test_attention_weights_are_recognised():
    scores = numpy.random.default_rng(0).normal(size=(2, 4, 5, 5))
    weights = numpy.exp(scores) / numpy.exp(scores).sum(-1, keepdims=True)
    assert inspector.is_attention(weights.astype(numpy.float32))
    assert (
        not inspector.is_attention(scores) and not inspector.is_attention(weights[..., :4]) and not inspector.is_attention(numpy.eye(3) * 2)
    )
    assert inspector.is_attention(weights.astype(ml_dtypes.bfloat16)) and not inspector.is_attention(scores.astype(ml_dtypes.bfloat16))
    bad = weights.copy()
    bad[0, 0, 0, 0] = math.nan
    assert not inspector.is_attention(bad)


def test_the_layout_of_a_view_in_its_memory():
    x = numpy.arange(24.0).reshape(4, 6)
    view = x[1:3, ::2].T
    told = inspector.storage(view)
    assert (told.elements, told.offset, told.strides) == (24, 6, [2, 6])
    order = numpy.array(told.order)
    assert (order >= 0).sum() == 6
    for place in numpy.flatnonzero(order >= 0):  # the element at each place is the one that NumPy has there
        assert x.reshape(-1)[place] == view.reshape(-1)[order[place]]
    assert (
        "2 along axis 0, 6 along axis 1" in told.words and "not contiguous" in told.words and "6 elements of a memory of 24" in told.words
    )
    backwards = inspector.storage(x.reshape(-1)[::-1])
    assert (backwards.offset, backwards.strides, backwards.order) == (23, [-1], list(range(23, -1, -1)))
    wide = inspector.storage(numpy.broadcast_to(numpy.arange(3.0), (5, 3)))
    assert wide.strides == [0, 1] and "expanded" in wide.words and wide.order[:3] == [0, 1, 2]
    assert "order of its transpose" in inspector.storage(x.T).words
    assert inspector.storage(numpy.zeros((0, 3))).words == "It has no elements."
    assert inspector.storage(3.5) is None


def test_a_large_memory_is_drawn_in_pieces():
    x = numpy.zeros((96, 100), numpy.float32)
    shares = inspector.storage(x[10:20, :50]).shares
    assert len(shares) == 96 and shares[10:20] == [0.5] * 10 and sum(shares) == 5
    flat = x.reshape(-1)
    wanted = numpy.zeros(flat.size)
    wanted[250:701] = 1
    assert inspector.storage(flat[250:701]).shares == wanted.reshape(96, 100).mean(axis=1).tolist()  # one stretch
    assert inspector.storage(x).shares == [1.0] * 96


def test_who_shares_the_memory():
    x = engine.arange(12.0).reshape(3, 4)
    top, bottom, same, other = x[:2], x[2:], x.detach(), x.clone()
    named = [(2, "bottom", bottom.array), (3, "same", same.array), (4, "other", other.array)]
    told = inspector.storage(top.array, [(0, "x", x.array), *named])
    assert [(s.node, s.name, s.how) for s in told.sharers] == [
        (0, "x", "overlapping elements"), (2, "bottom", "other elements of it"), (3, "same", "overlapping elements")
    ]  # fmt: skip
    assert [s.how for s in inspector.storage(same.array, [(0, "x", x.array)]).sharers] == ["the same elements"]
    x[0] = 5.0
    assert "version 1" in inspector.storage(x.array).words
