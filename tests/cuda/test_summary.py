"""The kernels of `summary.cu` on the emulator, against NumPy in float64; and how often the workbench waits for the GPU."""

from __future__ import annotations

import collections
import io
import math
import types

import ml_dtypes
import numpy
import pytest
import syncs
from fake_cupy import emulated
from on_stand_in import installed

import engine
import engine.nn.functional as F
import workbench as wb
from engine import nn
from engine.backends.gpu import launch
from engine.core import devices
from workbench import inspector
from workbench.inspector import gradient_flow
from workbench.inspector.statistics import Wanted, statistics
from workbench.recording.activations import activations
from workbench.training import parameters
from workbench.training.progress import Track

kernels = pytest.importorskip("engine.backends.gpu.summary")  # needs CuPy, not a GPU

REAL = [numpy.dtype(d) for d in ("f4", "f8", "f2", ml_dtypes.bfloat16, "i1", "u1", "i2", "i4", "i8", "?")]
DTYPES = [*REAL, numpy.dtype("c8"), numpy.dtype("c16")]


def on_the_emulator(monkeypatch, seed=0):
    fake = emulated(monkeypatch, kernels, seed=seed)
    fake.cuda.get_current_stream = lambda: types.SimpleNamespace(ptr=0)
    monkeypatch.setattr(kernels, "Arriving", lambda array, dtype: types.SimpleNamespace(get=lambda: numpy.asarray(array).view(dtype)))
    return fake


@pytest.fixture(params=[0, 1, 2], ids=lambda seed: f"order{seed}")
def gpu(request, monkeypatch):
    fake = on_the_emulator(monkeypatch, request.param)
    yield fake
    assert fake.intact()


def draw(d, n, seed=0):
    return (10 * numpy.random.default_rng(seed).standard_normal(n)).astype(d)


def arrays_of(gpu, d):
    """Row-major, of no dimension, empty, in columns, with gaps, backwards, expanded, at odd addresses, and over several pieces."""
    grid = gpu.array(draw(d, 60).reshape(3, 4, 5))
    odd = [gpu.array(draw(d, 1000, seed), offset=seed) for seed in (1, 2, 3)]
    spread = numpy.lib.stride_tricks.as_strided(odd[0], (50, 20), (0, odd[0].itemsize), subok=True)
    many = gpu.array(draw(d, 40000).reshape(200, 200))
    several = [grid, grid.T, grid[:, 1:3, ::2], grid[::-1], odd[1][::3], spread, many, many.T, many[:, :150]]
    return [*several, *odd, gpu.array(draw(d, ())), gpu.array(draw(d, 0)), gpu.array(draw(d, 1)), gpu.array(draw(d, 5))]


def expected(x):
    """The statistics by NumPy, in double precision; the sums are exact."""
    flat = numpy.asarray(x).reshape(-1)
    flat = (numpy.abs(flat) if flat.dtype.kind == "c" else flat).astype(numpy.float64)
    fine = flat[numpy.isfinite(flat)]
    mean = math.fsum(fine) / fine.size if fine.size else 0.0
    return {
        "finite": fine.size, "nan": numpy.isnan(flat).sum(), "pos_inf": (flat == math.inf).sum(), "neg_inf": (flat == -math.inf).sum(),
        "negative": (fine < 0).sum(), "zero": (fine == 0).sum(), "low": fine.min(initial=math.inf), "high": fine.max(initial=-math.inf),
        "mean": mean, "squares": math.fsum((fine - mean) ** 2), "size": math.fsum(numpy.abs(fine)) / max(fine.size, 1),
    }  # fmt: skip


def check(results, arrays):
    for result, x in zip(results, arrays, strict=True):
        for name, value in expected(x).items():
            exact = name not in ("mean", "squares", "size")
            scale = max(abs(value), numpy.abs(numpy.asarray(x).astype("c16")).max(initial=0) if name == "mean" else 0)
            assert result[name] == value if exact else abs(result[name] - value) <= 1e-13 * scale, (x.dtype, x.shape, name)
        if x.size <= kernels.FEW:
            found = kernels.values(result, x.shape, x.dtype)
            assert found.dtype == x.dtype and found.tobytes() == numpy.asarray(x).tobytes()


def test_the_constants_are_those_of_the_text():
    text = (launch.HERE / "summary.cu").read_text()
    assert f"BLOCK = {kernels._BLOCK}, PIECE = {kernels._PIECE}" in text and f"BINS = {kernels.BINS}, FEW = {kernels.FEW};" in text
    assert kernels.BINS == inspector.BINS and kernels.FEW == inspector.FEW


@pytest.mark.parametrize("d", DTYPES, ids=str)
def test_statistics_are_numpys(gpu, d):
    arrays = arrays_of(gpu, d)
    results = kernels.begun(arrays, histogram=True).get()
    check(results, arrays)
    for result, x in zip(results, arrays, strict=True):
        flat = numpy.asarray(x).reshape(-1)
        flat = (numpy.abs(flat) if d.kind == "c" else flat).astype(numpy.float64)
        counts, _ = numpy.histogram(flat, kernels.BINS) if flat.size else (numpy.zeros(kernels.BINS), None)
        # at the edge of a bin, rounding decides
        assert numpy.abs(numpy.cumsum(counts) - numpy.cumsum(result["counts"].astype(int))).max() <= (
            flat.size / 100 if d.kind in "biu" else 2
        )
        assert result["counts"].sum() == flat.size


def test_a_list_of_several_dtypes_takes_three_launches_for_each(gpu):
    arrays = [gpu.array(draw(d, n)) for n in (3, 30000) for d in REAL]
    check(kernels.begun(arrays, histogram=True).get(), arrays)
    assert collections.Counter(launch.driver.launches) == dict.fromkeys(("moments", "merge", "histogram"), len(REAL))


@pytest.mark.parametrize("d", [d for d in REAL if d.kind not in "biu"], ids=str)
def test_what_is_not_finite_is_counted_and_left_out(gpu, d):
    x = draw(d, 20000)
    x[[3, 77, 16390]], x[[0, 19999]], x[5:9] = math.nan, math.inf, -math.inf
    bad = numpy.array([math.nan, math.inf, -math.inf, math.nan] * 4).astype(d)
    arrays = [gpu.array(x), gpu.array(bad), gpu.array(x[:3])]
    results = kernels.begun(arrays, histogram=True).get()
    check(results, arrays)
    assert results["counts"].sum(axis=1).tolist() == [20000 - 9, 0, 2]


def test_digits_are_not_lost_to_a_large_mean(gpu):
    far = 1e9 + draw("f8", 50000)
    arrays = [gpu.array(far), gpu.array(far.astype("f4"))]
    for result, x in zip(kernels.begun(arrays).get(), arrays, strict=True):
        assert result["squares"] == pytest.approx(expected(x)["squares"], rel=1e-9)  # means are rounded to 1e-7


def test_norms_do_not_overflow_or_vanish(gpu):
    for x in (numpy.array([3e200, -4e200] * 9), numpy.array([3e-200, 4e-200] * 9), draw("f8", 100), numpy.zeros(9), numpy.full(9, 5e-324)):
        (result,) = kernels.begun([gpu.array(x)]).get()
        largest = numpy.abs(x).max() or 1.0
        assert kernels.norm(result) == pytest.approx(largest * numpy.linalg.norm(x / largest), rel=1e-12)


def test_bins_lie_between_given_ends(gpu):
    x = gpu.array(numpy.array([-9, 0, 0.49, 0.51, 1, 9], "f4"))
    (result,) = kernels.begun([x], histogram=True, ends=(0.0, 1.0)).get()
    assert result["counts"].nonzero()[0].tolist() == [0, 31, 32, 63] and result["counts"][[0, 31, 32, 63]].tolist() == [2, 1, 1, 2]
    for values in ([1e308, -1e308, 0.0], [0.0, 1e-310, 2e-310], [2.0**60] * 3):  # too wide and too narrow for a scale, and one value
        (result,) = kernels.begun([gpu.array(numpy.array(values))], histogram=True).get()
        other = inspector.histogram(numpy.array(values))
        assert other is not None and result["counts"].tolist() == other.counts


def test_the_bits_are_the_same_in_every_order(monkeypatch):
    found = set()
    for seed in range(4):
        fake = on_the_emulator(monkeypatch, seed)
        found.add(
            kernels.begun([fake.array(draw("f4", n)) for n in (70000, 300)], histogram=True).get()[[*kernels.NUMBERS, "counts"]].tobytes()
        )
    assert len(found) == 1


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("    __syncthreads();\n    if (threadIdx.x < half)", "    if (threadIdx.x < half)"),
        ("  if (threadIdx.x < BINS) counts[threadIdx.x] = 0;\n  __syncthreads();", "  if (threadIdx.x < BINS) counts[threadIdx.x] = 0;"),
        ("gap * gap * a.finite * share", "gap * gap * share"),
        ("i += BLOCK * V) {\n    const", "i += BLOCK * V * 2) {\n    const"),
        ("i < size; i += BLOCK) use", "i <= size; i += BLOCK) use"),
        ("i < row.parts", "i < row.parts - 1"),
    ],
)
def test_a_planted_fault_is_caught(monkeypatch, right, wrong):
    gpu, real = on_the_emulator(monkeypatch, seed=2), launch.source
    assert real("summary.cu", T="float").count(right) == 1
    monkeypatch.setattr(launch, "source", lambda file, **types: real(file, **types).replace(right, wrong))
    arrays = [gpu.array(draw("f4", n), offset=n % 2) for n in (40000, 40001, 7)]
    try:
        results = kernels.begun(arrays, histogram=True).get()
        check(results, arrays)
        assert [x.size for x in arrays] == results["counts"].sum(axis=1).tolist() and gpu.intact()
    except (AssertionError, RuntimeError):
        return
    pytest.fail("nothing was found")


@pytest.mark.parametrize("arch", ["compute_80", "compute_90"])
@pytest.mark.parametrize("T", ["float", "double", "half_t", "bf16_t", "uint8_t", "int64_t", "complex64_t", "complex128_t"])
def test_it_compiles_for_the_gpus(arch, T):
    text = str(launch.compiled(launch.source("summary.cu", T=T), arch))
    assert all(f".entry {name}(" in text for name in ("moments", "merge", "histogram"))


# -- the workbench on the stand-in -------------------------------------------------------------------------------------------


def waits():
    """What the host has waited for since the last call, without what the program itself waits for: indices are checked."""
    found = [s for s in syncs.found if s.primitive != "class_pick"]
    syncs.found.clear()
    return found


class Training:
    """An MLP, its optimizer, and steps of training."""

    def __init__(self, device="cuda", **options):
        engine.manual_seed(0)
        self.model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4)).to(device)
        self.optimizer = engine.optim.AdamW(self.model.parameters(), lr=0.1)
        self.x, self.y = engine.randn(32, 8).to(device), engine.randint(4, (32,)).to(device)
        self.options = options
        self.step()
        syncs.found.clear()

    def step(self):
        self.optimizer.zero_grad(**self.options)
        loss = F.cross_entropy(self.model(self.x), self.y)
        loss.backward()
        self.optimizer.step()
        return loss


@pytest.mark.parametrize("d", DTYPES, ids=str)
def test_summaries_are_those_of_the_cpu(stand_in, d):
    arrays = [draw(d, shape) for shape in ((), 0, 3, (30, 7), (200, 150))] + [draw(d, (30, 8)).T[::2]]
    there = [stand_in.to_device(x) for x in arrays]
    syncs.found.clear()
    found = statistics(there, Wanted(True, True))
    assert len(waits()) == 1
    for mine, theirs in zip(found, statistics(arrays, Wanted(True, True)), strict=True):
        for name, value in vars(theirs.summary).items():
            other = getattr(mine.summary, name)
            assert other == value or name == "text" or other == pytest.approx(value, rel=1e-6, abs=1e-12), name
        assert mine.magnitude == pytest.approx(theirs.magnitude, rel=1e-6, nan_ok=True)
        assert (mine.histogram is None) == (theirs.histogram is None)
        if mine.histogram is not None and theirs.histogram is not None:
            assert (mine.histogram.low, mine.histogram.high) == (theirs.histogram.low, theirs.histogram.high)


def test_tensors_of_both_devices_are_measured_together(stand_in):
    x = draw("f4", 100)
    a, b, c = inspector.summaries([stand_in.to_device(x), x, stand_in.to_device(x[::2])])
    assert a.zero == b.zero and a.mean == pytest.approx(b.mean) and c.size == 50 and len(waits()) == 1


def test_each_gpu_measures_its_own():
    with installed(gpus=2) as gpu:
        x = draw("f4", 100)
        there = [gpu.to_device(x[:50], 1), gpu.to_device(x, 0), gpu.to_device(x[50:], 1)]
        assert [s.size for s in inspector.summaries(there)] == [50, 100, 50] and gpu.current_device() == 0


def test_a_view_leaves_the_stream_of_the_program_alone(stand_in):
    import cupy

    x, stream = stand_in.to_device(draw("f4", 100)), cupy.cuda.get_current_stream()
    before = stream.until
    inspector.summary(x)
    assert stream.until == before and cupy.cuda.get_current_stream() is stream


def test_recording_never_waits(stand_in):
    for options in ({}, {"set_to_none": False}):
        t = Training(**options)
        with wb.record() as rec:
            for _ in range(9):
                t.step()
        assert waits() == []
        w = rec.recording.witness
        assert len(w.ratios) == 4 and len(w.largest) == 2 and len(waits()) <= 1


def test_recording_knows_what_it_knows_on_the_cpu(stand_in):
    found = []
    for device in ("cpu", "cuda"):
        t = Training(device)
        with wb.record() as rec:
            for _ in range(5):
                t.step()
            for _ in range(3):
                F.cross_entropy(t.model(t.x), t.y).backward()
                t.optimizer.step()  # with gradients that accumulate
        w = rec.recording.witness
        found.append((w.ratios, w.largest, w.earliest, [(a.row, a.number) for a in w.accumulated]))
    assert found[0][3] and found[0][3] == found[1][3]
    for a, b in zip(found[0][:3], found[1][:3], strict=True):
        assert numpy.array(list(a.items() if isinstance(a, dict) else a)) == pytest.approx(
            numpy.array(list(b.items() if isinstance(b, dict) else b)), rel=1e-4
        )


def test_text_waits_once_for_all_gradients(stand_in):
    t = Training()
    with wb.record() as rec:
        t.step()
    syncs.found.clear()
    assert str(rec).count("gradient norm") == 4 and len(waits()) == 1


def test_a_history_never_waits_before_it_is_read(stand_in):
    there, here = [], []
    for device, found in (("cpu", here), ("cuda", there)):
        for optimizer in (True, False):
            t = Training(device)
            with wb.history(t.model, t.optimizer if optimizer else None, keep=4) as history:
                for _ in range(6):
                    history.log(loss=t.step())
                assert waits() == []
                found.append(history.table())
                assert len(waits()) <= 1
    for a, b in zip(here, there, strict=True):
        for kind, names in (("parameters", ("weight", "grad", "update")), ("modules", ("activation",))):
            for name, one in a[kind].items():
                for what in names:
                    mine, other = one[what], b[kind][name][what]
                    assert numpy.allclose(mine["numbers"], other["numbers"], rtol=1e-3, atol=1e-4, equal_nan=True)
                    assert (mine["counts"].sum(axis=1) == other["counts"].sum(axis=1)).all()
        assert b["scalars"]["loss"]["values"] == pytest.approx(a["scalars"]["loss"]["values"], rel=1e-4)


def test_progress_shows_what_has_arrived(stand_in):
    t, page = Training(), io.StringIO()
    for _ in (track := Track(range(5), file=page)):
        track.report(loss=t.step())
        assert track._bar is not None
        track._bar.refresh()
        assert waits() == []
    assert len(track.scalars["loss"]) == 5 and numpy.isfinite(track.scalars["loss"].values).all()
    assert "loss" in page.getvalue()


def test_activations_are_read_at_once(stand_in):
    found = []
    for device in ("cpu", "cuda"):
        t = Training(device)
        with wb.record() as rec:
            t.step()
        syncs.found.clear()
        found.append(activations(rec.recording))
        assert len(waits()) == (device == "cuda")
    assert found[0] == found[1] and len(found[0][0]) == 1


def test_tables_of_parameters_wait_for_all_at_once(stand_in):
    t = Training()
    syncs.found.clear()
    rows = gradient_flow.of_model(t.model)
    assert len(rows) == 4 and not any(row.flag for row in rows) and len(waits()) == 1
    with wb.record() as rec:
        t.step()
    syncs.found.clear()
    table = parameters.parameters(rec.recording, rec.gradient, [t.optimizer])
    assert all(row.ratio is not None for row in table) and len(waits()) <= 3
    assert devices.gpu is stand_in
