"""Scaled dot-product attention by the kernels of `attention.cu`, on the emulator, beside float64."""

from __future__ import annotations

import itertools
import math
import re
from typing import Any, NamedTuple

import numpy
import pytest
from fake_cupy import BF16, EPS, F16, F32, emulated, wide

from engine.backends import cudnn
from engine.backends.gpu import attention, launch, random, sdpa
from engine.core.random import Philox

pytestmark = pytest.mark.slow  # a text that is new takes seconds to build

DTYPES = [F32, F16, BF16]


@pytest.fixture
def device(monkeypatch):
    made = emulated(monkeypatch, attention, random, sdpa)
    monkeypatch.setattr(cudnn, "enabled", False)
    yield made
    assert made.intact()


class Case(NamedTuple):
    """Shapes of query, key and value, which may have fewer heads; a mask; how far causal."""

    query: tuple
    key: tuple
    width: int
    mask: Any = None  # "bool", "same" or "single", and a shape
    causal: bool = False
    dropout: float = 0.0
    turned: bool = False  # (batch, rows, heads, elements) in memory, as the heads of a projection are


CASES = {
    "plain": Case((2, 2, 5, 8), (2, 2, 7, 8), 6),
    "many tiles": Case((1, 2, 130, 33), (1, 2, 70, 33), 40),
    "two dimensions": Case((5, 4), (7, 4), 3),
    "three dimensions": Case((3, 5, 4), (3, 66, 4), 4),
    "five dimensions": Case((2, 1, 2, 5, 4), (2, 1, 2, 6, 4), 4),
    "one element": Case((1, 1, 1, 1), (1, 1, 1, 1), 1),
    "causal": Case((1, 2, 70, 8), (1, 2, 70, 8), 8, causal=True),
    "causal, more queries": Case((1, 1, 140, 8), (1, 1, 67, 8), 8, causal=True),
    "causal, more keys": Case((2, 1, 5, 8), (2, 1, 80, 8), 8, causal=True),
    "grouped": Case((2, 6, 9, 16), (2, 2, 11, 16), 16, turned=True),
    "grouped and causal": Case((1, 4, 70, 16), (1, 1, 66, 16), 8, causal=True),
    "heads in turned memory": Case((2, 3, 9, 16), (2, 3, 11, 16), 16, turned=True),
    "a head of 130": Case((1, 1, 40, 130), (1, 1, 5, 130), 140),
    "a head of 256": Case((1, 1, 3, 256), (1, 1, 70, 256), 256, causal=True),
    "a narrow value": Case((1, 1, 3, 65), (1, 1, 9, 65), 1),
    "a boolean mask": Case((2, 2, 9, 8), (2, 2, 7, 8), 8, ("bool", (2, 2, 9, 7))),
    "hidden keys": Case((2, 2, 9, 8), (2, 2, 70, 8), 8, ("bool", (2, 1, 1, 70))),
    "rows that see nothing": Case((2, 2, 70, 8), (2, 2, 7, 8), 8, ("none", (70, 1))),
    "an added mask": Case((2, 4, 9, 8), (2, 2, 7, 8), 8, ("same", (4, 9, 7))),
    "an added mask of singles": Case((2, 2, 9, 8), (2, 2, 7, 8), 8, ("single", (2, 1, 9, 1))),
    "dropout": Case((2, 2, 9, 8), (2, 2, 71, 8), 8, dropout=0.3),
    "everything": Case((2, 4, 9, 8), (2, 2, 70, 8), 8, ("same", (2, 1, 9, 70)), dropout=0.5, turned=True),
}


def drawn(shape: tuple, dtype: Any, seed: int, turned: bool = False) -> numpy.ndarray:
    x = numpy.random.default_rng((seed, *shape)).normal(size=shape).astype(dtype)
    return numpy.ascontiguousarray(x.swapaxes(1, 2)).swapaxes(1, 2) if turned else x


def arrays_of(case: Case, dtype: Any) -> tuple[list, Any, numpy.ndarray]:
    """Query, key and value, the mask, and the gradient of the result."""
    shapes = case.query, case.key, (*case.key[:-1], case.width)
    arrays = [drawn(shape, dtype, seed, case.turned) for seed, shape in enumerate(shapes)]
    g, mask = drawn((*case.query[:-1], case.width), dtype, 4), None
    if case.mask:
        kind, shape = case.mask
        mask = drawn(shape, F32 if kind == "single" else dtype, 5)
        if kind == "same":
            mask.reshape(-1)[::5] = -math.inf
        mask = mask > -1 if kind == "bool" else mask > 0 if kind == "none" else mask
    return arrays, mask, g


def on_device(device: Any, x: Any) -> Any:
    """A copy with the same order of axes in memory."""
    if x is None:
        return None
    axes = sorted(range(x.ndim), key=lambda d: -x.strides[d])
    return device.array(numpy.ascontiguousarray(x.transpose(axes))).transpose(numpy.argsort(axes))


class Exact:
    """Attention and its gradients in float64, with the whole matrix of weights."""

    def __init__(self, case: Case, arrays: list, mask: Any, g: Any, scale: float, kept: Any = 1.0) -> None:
        q, k, v, g = (wide(x) for x in (*arrays, g))
        group = 1 if q.ndim < 3 else q.shape[-3] // k.shape[-3]
        keys, values = (x.repeat(group, -3) if group > 1 else x for x in (k, v))
        scores = q @ keys.mT * scale
        if case.causal:
            scores[~numpy.tril(numpy.ones(scores.shape, bool))] = -math.inf
        if mask is not None:
            scores = numpy.where(mask, scores, -math.inf) if mask.dtype == bool else scores + wide(mask)
        top = scores.max(-1, keepdims=True)
        weights = numpy.exp(scores - numpy.where(top == -math.inf, 0, top))
        sums = weights.sum(-1, keepdims=True)
        self.log_sum = numpy.where(sums > 0, top + numpy.log(numpy.where(sums > 0, sums, 1)), math.inf)
        weights /= numpy.where(sums > 0, sums, 1)
        self.out = (weights * kept) @ values
        d_value, slope = (weights * kept).mT @ g, (g @ values.mT) * kept
        self.terms = (numpy.abs(g) @ numpy.abs(values).mT).max()  # of which gradients are differences
        self.slope = weights * (slope - (weights * slope).sum(-1, keepdims=True))
        one = lambda d, x: d.reshape(*x.shape[:-2], -1, *x.shape[-2:]).sum(-3) if group > 1 else d  # noqa: E731
        self.gradients = [self.slope @ keys * scale, one(self.slope.mT @ q * scale, k), one(d_value, v)]


def kept_of(case: Case, draws: Any) -> Any:
    """The factors of the weights, from Philox's words as the host computes them."""
    if not case.dropout:
        return 1.0
    source, shape = Philox("cpu"), (*case.query[:-1], case.key[-2])
    source._seed, source.offset = numpy.asarray(draws).tolist()
    words = source.words(math.prod(shape)).reshape(shape)
    return (words < (1 - case.dropout) * 2.0**32) / (1 - case.dropout)


def check(device: Any, case: Case, dtype: Any, seeds: int = 1) -> None:
    """Forward and backward equal float64, up to roundings, with the same bits in several orders of threads and blocks."""
    arrays, mask, g = arrays_of(case, dtype)
    given, on_mask, on_g = [on_device(device, x) for x in arrays], on_device(device, mask), on_device(device, g)
    assert attention.whole_attention(*given, on_mask, True)
    to_mask, scale = mask is not None and mask.dtype != bool, 0.37
    draws = None
    if case.dropout:
        source = Philox("cpu")
        source._seed, source.offset = 123456789 << 20, 77
        draws = attention.attention_draws(*given, on_mask, case.causal, to_mask, source)
    exact = Exact(case, arrays, mask, g, scale, kept_of(case, draws))
    bits = []
    for seed in range(seeds):
        device.order(seed)
        out, log_sum = attention.attention(*given, on_mask, draws, scale, case.causal, case.dropout)
        back = attention.attention_back(on_g, *given, on_mask, draws, out, log_sum, scale, case.causal, case.dropout, to_mask)
        bits.append([numpy.asarray(x).tobytes() for x in (out, log_sum, *back[: 3 + to_mask])])
    assert all(one == bits[0] for one in bits), "the result depends on the order of threads"
    assert out.dtype == dtype and log_sum.dtype == F32 and [d.dtype for d in back[:3]] == [dtype] * 3
    want = [exact.out, exact.log_sum, *exact.gradients] + [exact.slope] * to_mask
    for found, expected in zip([out, log_sum, *back], want, strict=False):
        # what is rounded: the result; and, to float, sums of products, the result among them in the backward pass
        bound = EPS[dtype] * 2 + 100 * EPS[F32]
        assert found.shape == expected.shape
        most = numpy.abs(expected[numpy.isfinite(expected)]).max(initial=1)
        atol = bound * (1 + most) * (8 if dtype != F32 else 1) + 4 * EPS[F32] * exact.terms
        numpy.testing.assert_allclose(wide(found), expected, rtol=bound, atol=atol)


@pytest.mark.parametrize("name", CASES)
def test_attention_and_its_gradients(name, device):
    for dtype in DTYPES if math.prod(CASES[name].query) < 2000 else [F32]:
        check(device, CASES[name], dtype, 3 if dtype == F32 else 1)


def test_the_result_lies_in_memory_as_the_query(device):
    q = on_device(device, drawn((2, 3, 5, 8), F32, 0, turned=True))
    out, log_sum = attention.attention(q, q, q, None, None, 1.0, False, 0.0)
    assert out.strides == q.strides and log_sum.flags.c_contiguous
    assert all(d.strides == q.strides for d in attention.attention_back(out, q, q, q, None, None, out, log_sum, 1.0, False, 0.0)[:3])


def test_views_of_any_strides(device):
    """Parts of a projection, broadcast heads, reversed rows; a gradient that is one number everywhere."""
    whole = device.array(drawn((2, 9, 4, 24), F32, 0))
    q, k, v = (whole[..., i : i + 8].swapaxes(1, 2) for i in (0, 8, 16))
    spread = numpy.broadcast_to(device.array(drawn((2, 1, 9, 8), F32, 1)), (2, 4, 9, 8), subok=True)
    one = numpy.broadcast_to(device.array(numpy.ones((), F32)), q.shape, subok=True)
    for query, key, value in ((q, k, v), (q[:, :, ::-1], k, v[..., ::2]), (q, spread, v)):
        case = Case(query.shape, key.shape, value.shape[-1])
        g = one[..., : value.shape[-1]]
        exact = Exact(case, [query, key, value], None, g, 1.0)
        out, log_sum = attention.attention(query, key, value, None, None, 1.0, False, 0.0)
        found = attention.attention_back(g, query, key, value, None, None, out, log_sum, 1.0, False, 0.0)
        for a, b in zip((out, *found[:3]), (exact.out, *exact.gradients), strict=True):
            numpy.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


def test_scores_that_are_not_finite(device):
    """Of a row with nan or inf among its scores all is nan, as a softmax gives, unless they are hidden."""
    q, k, v = (drawn((3, 4), F32, i) for i in range(3))
    q[0, 0], k[2, 1] = math.nan, math.inf
    hidden = numpy.array([[True, True, False]] * 3)
    given = [device.array(x) for x in (q, k, v)]
    out = attention.attention(*given, None, None, 1.0, False, 0.0)[0]
    assert numpy.isnan(out[0]).all() and numpy.isnan(out[q[:, 1] > 0]).all()
    out = attention.attention(*given, device.array(hidden), None, 1.0, False, 0.0)[0]
    assert numpy.isnan(out[0]).all() and numpy.isfinite(out[1:]).all()


def test_large_scores(device):
    q, k, v = (drawn((1, 1, 66, 8), F32, i) * 300 for i in range(3))
    case, given = Case(q.shape, k.shape, 8), [device.array(x) for x in (q, k, v)]
    out, log_sum = attention.attention(*given, None, None, 1.0, False, 0.0)
    exact = Exact(case, [q, k, v], None, out, 1.0)
    numpy.testing.assert_allclose(log_sum, exact.log_sum, rtol=1e-5)
    numpy.testing.assert_allclose(out, exact.out, rtol=1e-2, atol=1)


def test_dropout_is_that_of_the_composed_ops(device):
    """The mask is `bernoulli`'s for the same state of the generator, and a state is used once."""
    q = device.array(drawn((2, 3, 40, 8), F32, 0))
    source = Philox("cpu")
    before = source.offset
    draws = attention.attention_draws(q, q, q, None, False, False, source)
    assert draws.tolist() == [source._seed, before] and source.offset == before + 2 * 3 * 40 * 40 // 4
    kept = attention.attention_kept(q, q, draws, 0.25)
    again = Philox("cpu")
    again._seed, again.offset = source._seed, before
    assert (numpy.asarray(random.bernoulli(again, 9600, 0.75)).reshape(kept.shape) == (kept > 0)).all()
    assert set(numpy.unique(kept)) == {0, F32.type(1 / 0.75)} and abs((kept > 0).mean() - 0.75) < 4 * math.sqrt(0.75 * 0.25 / 9600)
    assert attention.attention_kept(q, q, None, 0.0) is None


@pytest.mark.parametrize(("shapes", "mask"), [
    (((2, 3, 4), (3, 4), (3, 4)), None), (((3, 4), (5, 3), (5, 4)), None), (((3, 4), (5, 4), (6, 4)), None), (((0, 4), (5, 4), (5, 4)), None),
    (((2, 4, 3, 4), (2, 3, 5, 4), (2, 3, 5, 4)), None), (((2, 4, 3, 4), (1, 4, 5, 4), (1, 4, 5, 4)), None), (((3, 300), (5, 300), (5, 4)), None),
    (((3, 4), (5, 4), (5, 4)), (3, 4)), (((3, 4), (5, 4), (5, 4)), (1, 3, 5)), (((2, 2, 2, 3, 4),) * 3, (3, 3)),
])  # fmt: skip
def test_what_is_left_to_the_composed_ops(shapes, mask, device):
    arrays = [device.zeros(shape, F32) for shape in shapes]
    assert not attention.whole_attention(*arrays, None if mask is None else device.zeros(mask, F32), True)
    assert not attention.whole_attention(*[x.astype("f8") for x in arrays])


# -- the compiler, and faults that the tests must find --------------------------------------------------------------------------


@pytest.mark.parametrize("arch", ["compute_80", "compute_90"])
def test_the_compiler_takes_every_text(arch):
    kinds = [(32, 0, 0), (64, 1, 1), (128, 2, 0), (256, 3, 1)] if arch == "compute_90" else [(64, 0, 0)]
    for dtype, (head, mask, dropout) in itertools.product(DTYPES, kinds):
        text = launch.source("attention.cu", T=launch.TYPES[dtype.name], HEAD=head, MASK=mask, DROPOUT=dropout)
        ptx = launch.compiled(text, arch).decode()
        assert len(re.findall(r"\.entry (\w+)", ptx)) == 4
        assert len(re.findall(r"ld\.shared\.v4", ptx)) > 20
        assert sum(int(size) for size in re.findall(r"\.shared \.align \d+ \.b8 \w+\[(\d+)\]", ptx)) <= 3 * 48 << 10  # of three kernels


_TILES = "  for (int64_t first = 0; first < end; first += COLS) {\n    Tile tile = {};\n"  # of the forward pass alone
FAULTS = {  # name -> a case that shows it, within the guards; the text, and what is in its place
    "no barrier before a part is read": ("many tiles", "    __syncthreads();\n    read<ROWS>", "    read<ROWS>"),
    "no barrier after a part is read": ("many tiles", "    __syncthreads();\n#pragma unroll 8", "#pragma unroll 8"),
    "no barrier before weights are shared": ("many tiles", "int64_t cols, int width) {\n  __syncthreads();", "int64_t cols, int width) {"),
    "no barrier after a value is read": ("many tiles", "    __syncthreads();\n#pragma unroll 2", "#pragma unroll 2"),
    "no barrier before a value is read": ("many tiles", "    __syncthreads();\n    for (int r = threadIdx", "    for (int r = threadIdx"),
    "a row beyond the end": ("hidden keys", "if (b.row(i) < rows && e < width)", "if (e < width)"),
    "an element beyond the end": ("hidden keys", "if (b.row(i) < rows && e < width)", "if (b.row(i) < rows)"),
    "another head": ("a boolean mask", "blockIdx.x / tiles % heads", "(blockIdx.x / tiles % heads & ~1)"),
    "the head of a group": ("everything", "group);\n  Dropped dropped(p);\n  Sums sums = {};\n  float top", "group ^ 1);\n  Dropped dropped(p);\n  Sums sums = {};\n  float top"),
    "sums that do not fade": ("many tiles", "sum[i] * fade + across", "sum[i] + across"),
    "results that do not fade": ("many tiles", "sums[i][n][0] *= fade, sums[i][n][1] *= fade", "sums[i][n][0] *= fade"),
    "a maximum of a part of the threads": ("many tiles", "for (int d = 8; d > 0", "for (int d = 4; d > 0"),
    "a late diagonal": ("causal", "p.causal && col > row", "p.causal && col > row + 1"),
    "a tile too few before the diagonal": ("causal", f"b.first + ROWS : p.cols;\n{_TILES}    product(tile, shared, b, query, p.query.row, p.rows, key, p.key.row, first, p.cols, p.depth);\n#", f"b.first : p.cols;\n{_TILES}    product(tile, shared, b, query, p.query.row, p.rows, key, p.key.row, first, p.cols, p.depth);\n#"),
    "queries that come too late": ("causal", "p.causal ? b.first / COLS * COLS : 0", "p.causal ? b.first / COLS * COLS + COLS : 0"),
    "a mask of another head": ("an added mask", "head * m.head + row", "row"),
    "dropout of another block": ("dropout", "seed, offset + (held = place / 4)", "seed, offset + 1 + (held = place / 4)"),
    "a word of another place": ("dropout", "words.w[place % 4]", "words.w[col % 4]"),
    "no gradient through the sum": ("plain", "(slope[i][j] * kept - p.dot[beside + row])", "(slope[i][j] * kept)"),
    "another group's gradients": ("grouped", "head < (b.head + 1) * p.group", "head < b.head * p.group + 1"),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_faults_are_found(fault, device, monkeypatch):
    case, right, wrong = FAULTS[fault]
    assert launch.source("attention.cu").count(right) == 1

    def kernel(name: str, dtype: str, head: int, mask: int, dropout: bool) -> Any:
        text = launch.source("attention.cu", T=launch.TYPES[dtype], HEAD=head, MASK=mask, DROPOUT=int(dropout))
        return launch.Kernel(text.replace(right, wrong), name)

    monkeypatch.setattr(attention, "_kernel", kernel)
    try:
        check(device, CASES[case], F32, 3)
        found = not device.intact()
    except (AssertionError, RuntimeError):
        found = True
    device.guards.clear()
    assert found
