"""The kernels of `optim.cu` on the emulator, against the engine's optimizers on the CPU in float64."""

from __future__ import annotations

import copy
import math
import re

import ml_dtypes
import numpy
import pytest
from fake_cupy import Array, emulated

import engine
from engine.backends.gpu import launch
from engine.core import devices

kernels = pytest.importorskip("engine.backends.gpu.optim")  # needs CuPy, not a GPU

FLOATS = [numpy.dtype(d) for d in ("float32", "float64", "float16", ml_dtypes.bfloat16)]
EPS = {"float32": 2.0**-23, "float64": 2.0**-52, "float16": 2.0**-10, "bfloat16": 2.0**-7, "complex64": 2.0**-23}
SIZES = [1, 0, 7, 64, 1000, 16384, 16385, 40000]

each_float = pytest.mark.parametrize("d", FLOATS, ids=str)


@pytest.fixture(params=[0, 1, 2], ids=lambda seed: f"order{seed}")
def gpu(request, monkeypatch):
    fake = emulated(monkeypatch, kernels, seed=request.param)
    yield fake
    assert fake.intact()


def draw(d, seed, sizes=SIZES):
    rng = numpy.random.default_rng(seed)
    return [rng.standard_normal(n).astype(d) for n in sizes]


def placed(gpu, arrays, begin=0):
    """Arrays of the fake device, each `begin` elements after an aligned address."""
    return [gpu.array(numpy.concatenate([numpy.zeros(begin, a.dtype), a]))[begin:] for a in arrays]


def stepped(kind, start, gradients, **options):
    """Parameters after the steps of an optimizer of the engine, in float64 on the CPU."""
    params = [engine.tensor(p.astype(numpy.float64)) for p in start]
    optimizer = kind(params, **options)
    for grads in gradients:
        for p, g in zip(params, grads, strict=True):
            p.grad = engine.tensor(g.astype(numpy.float64))
        optimizer.step()
    return [p.numpy() for p in params]


def near(found, expected, steps, d):
    """Each step rounds a parameter and its state once; values stay below 8."""
    for a, b in zip(found, expected, strict=True):
        assert numpy.abs(a.astype(float) - b).max(initial=0) <= 8 * steps * EPS[d.name]


def test_the_constants_are_those_of_the_text():
    text = (launch.HERE / "optim.cu").read_text()
    assert f"BLOCK = {kernels._BLOCK}, PIECE = {kernels._PIECE}" in text and f"T* at[{kernels._COLUMNS}];" in text


SGD = [
    {"lr": 0.1},
    {"lr": 0.1, "weight_decay": 0.2, "maximize": True},
    {"lr": 0.1, "momentum": 0.9},
    {"lr": 0.05, "momentum": 0.8, "dampening": 0.3, "weight_decay": 0.1},
    {"lr": 0.05, "momentum": 0.9, "nesterov": True, "weight_decay": 0.1, "maximize": True},
]


@each_float
@pytest.mark.parametrize("options", SGD, ids=str)
def test_sgd(gpu, d, options):
    start, gradients = draw(d, 0), [draw(d, seed) for seed in (1, 2, 3)]
    params, buffers = placed(gpu, start), placed(gpu, [p * numpy.nan for p in start])
    full = {"momentum": 0, "dampening": 0, "weight_decay": 0, "nesterov": False, "maximize": False} | options
    for k, grads in enumerate(gradients):
        kernels.sgd(params, placed(gpu, grads), buffers, **full, first=not k)
    near(params, stepped(engine.optim.SGD, start, gradients, **options), 3, d)


ADAM = [
    {"lr": 0.1, "betas": (0.8, 0.9), "eps": 1e-3},
    {"lr": 0.1, "betas": (0.8, 0.9), "eps": 1e-3, "weight_decay": 0.1, "maximize": True},
    {"lr": 0.1, "betas": (0.5, 0.6), "eps": 1e-3, "weight_decay": 0.1, "amsgrad": True},
    {"lr": 0.1, "betas": (0.8, 0.9), "eps": 1e-3, "weight_decay": 0.1, "decoupled_weight_decay": True},
    {"lr": 0.1, "betas": (0.5, 0.6), "eps": 1e-3, "weight_decay": 0.1, "decoupled_weight_decay": True, "amsgrad": True, "maximize": True},
]


def adam(gpu, start, gradients, options, begin=0, **more):
    options = {"weight_decay": 0.0, "maximize": False, "amsgrad": False, "decoupled_weight_decay": False} | options
    params = placed(gpu, start, begin)
    state = [placed(gpu, [p * 0 for p in start], begin) for _ in range(3 if options.pop("amsgrad") else 2)]
    decoupled = options.pop("decoupled_weight_decay")
    for k, grads in enumerate(gradients, 1):
        kernels.adam(params, placed(gpu, grads, begin), *state, *[[]] * (3 - len(state)), **options, decoupled=decoupled, step=k, **more)
    return params


@each_float
@pytest.mark.parametrize("options", ADAM, ids=str)
def test_adam(gpu, d, options):
    start, gradients = draw(d, 0), [draw(d, seed) for seed in (1, 2, 3)]
    near(adam(gpu, start, gradients, options), stepped(engine.optim.Adam, start, gradients, **options), 3, d)


@pytest.mark.parametrize("begin", [1, 2])
@each_float
def test_any_address(gpu, d, begin):
    start, gradients = draw(d, 0), [draw(d, 1)]
    found = adam(gpu, start, gradients, ADAM[2], begin)
    for a, b in zip(found, adam(gpu, start, gradients, ADAM[2]), strict=True):
        assert a.tobytes() == b.tobytes()


def test_complex_numbers_are_pairs(gpu):
    start, grads = ([a.astype("complex64") * (1 + 2j) for a in draw("float32", seed)] for seed in (0, 1))
    found = adam(gpu, start, [grads], ADAM[0])
    pairs = [a.view("float32") for a in start], [[a.view("float32") for a in grads]]
    near([a.view("float32") for a in found], stepped(engine.optim.Adam, *pairs, **ADAM[0]), 3, numpy.dtype("float32"))


def test_a_step_is_skipped_on_the_device(gpu):
    """With `found` set nothing changes; bias is corrected for the steps taken, which are counted on the device."""
    start, gradients = draw("float32", 0), [draw("float32", 1)]
    yes, no = gpu.array(numpy.float32(1)), gpu.array(numpy.float32(0))
    steps = placed(gpu, [numpy.zeros(1, "float32")] * len(start))
    for a, b in zip(adam(gpu, start, gradients, ADAM[0], found=yes), start, strict=True):
        assert a.tobytes() == b.tobytes()
    for a, b in zip(adam(gpu, start, gradients, ADAM[0], found=yes, steps=steps), start, strict=True):
        assert a.tobytes() == b.tobytes()
    assert all(step == 0 for step in steps)
    params = placed(gpu, start)
    options = {"lr": 1.0, "momentum": 0.9, "dampening": 0.0, "weight_decay": 0.0, "nesterov": False, "maximize": False, "first": True}
    kernels.sgd(params, placed(gpu, gradients[0]), placed(gpu, start), **options, found=yes)
    assert all(a.tobytes() == b.tobytes() for a, b in zip(params, start, strict=True))
    once = adam(gpu, start, gradients, ADAM[0])
    again = adam(gpu, start, gradients, ADAM[0], found=no, steps=steps)
    assert all(a.tobytes() == b.tobytes() for a, b in zip(again, once, strict=True)) and all(step == 1 for step in steps)


def test_each_parameter_has_its_own_count(gpu):
    start, gradients = draw("float32", 0, [5, 40000]), draw("float32", 1, [5, 40000])
    params, state = placed(gpu, start), [placed(gpu, [p * 0 for p in start]) for _ in range(2)]
    steps = [gpu.array(numpy.float32(t)) for t in (0, 6)]
    options = {"weight_decay": 0.0, "decoupled": False, "maximize": False, **ADAM[0]}
    kernels.adam(params, placed(gpu, gradients), *state, **options, steps=steps)
    assert [float(step) for step in steps] == [1, 7]
    for found, p, g, t in zip(params, start, gradients, (1, 7), strict=True):
        means = [0.2 * g.astype(float) / (1 - 0.8**t), 0.1 * g.astype(float) ** 2 / (1 - 0.9**t)]
        assert numpy.abs(found - (p - 0.1 * means[0] / (numpy.sqrt(means[1]) + 1e-3))).max() < 1e-5


@pytest.mark.parametrize("kind", ["sgd", "adam"])
def test_rates_may_be_on_the_device(gpu, kind):
    start, gradients, lr = draw("float32", 0), [draw("float32", 1)], gpu.array(numpy.float64(0.1))
    if kind == "adam":
        options = {**ADAM[3], "lr": lr, "betas": (0.8, gpu.array(numpy.float64(0.9)))}
        found, expected = adam(gpu, start, gradients, options), adam(gpu, start, gradients, ADAM[3])
    else:
        options = {"momentum": 0, "dampening": 0, "weight_decay": 0.2, "nesterov": False, "maximize": False, "first": True}
        found, expected = placed(gpu, start), placed(gpu, start)
        kernels.sgd(found, placed(gpu, gradients[0]), [], lr=lr, **options)
        kernels.sgd(expected, placed(gpu, gradients[0]), [], lr=0.1, **options)
    assert all(a.tobytes() == b.tobytes() for a, b in zip(found, expected, strict=True))


@each_float
@pytest.mark.parametrize("p", [1.0, 3.0, 0.5, math.inf])
def test_other_norms(gpu, d, p):
    grads, more = draw(d, 1), draw("float64", 2)
    values = numpy.concatenate([a.astype(float) for a in (*grads, *more)])
    norm = kernels.total_norm([*placed(gpu, grads), *placed(gpu, more)], p)
    assert norm.dtype == "float64" and numpy.allclose(norm, numpy.linalg.norm(values, p), rtol=1e-12)
    grads[-1][0] = numpy.nan
    assert numpy.isnan(kernels.total_norm(placed(gpu, grads), p))


@each_float
def test_limit(gpu, d):
    grads = draw(d, 1)
    grads[-1][:3] = numpy.nan, numpy.inf, -numpy.inf
    held = placed(gpu, grads)
    kernels.limit(held, 0.75)
    for a, b in zip(held, grads, strict=True):
        assert a.tobytes() == numpy.clip(b, d.type(-0.75), d.type(0.75)).astype(d).tobytes()


@each_float
def test_norm_clip_and_unscale(gpu, d):
    grads, more = draw(d, 1), draw("float32", 2)
    size = math.sqrt(sum((a.astype(float) ** 2).sum() for a in (*grads, *more)))
    held = placed(gpu, grads)
    norm = kernels.total_norm([*held, *placed(gpu, more)])
    assert (
        norm.dtype == max(d, numpy.dtype("float32"))
        and norm.shape == ()
        and abs(norm - size) <= EPS["float64" if d == "float64" else "float32"] * size
    )
    kernels.clip(held, size * 2, norm)
    assert all(a.tobytes() == b.tobytes() for a, b in zip(held, grads, strict=True))
    kernels.clip(held, 3.0, norm)
    near(held, [a.astype(float) * (3 / (size + 1e-6)) for a in grads], 1, d)
    held = placed(gpu, grads)
    found = kernels.unscale(held, gpu.array(numpy.float32(8)))
    near(held, [a.astype(float) / 8 for a in grads], 1, d)
    assert found == 0
    for bad in (numpy.nan, numpy.inf, -numpy.inf):
        for place in (-1, 0, 16384):
            held[-1][...] = 1
            held[-1][place] = bad
            assert kernels.unscale(held, gpu.array(numpy.float32(1))) == 1


def test_norms_of_what_is_not_finite_or_nothing(gpu):
    for values in ([numpy.nan, 1], [numpy.inf, 1], [1e30, 1e30], []):
        held = placed(gpu, [numpy.array(values, "float32"), numpy.ones(3, "float32")])
        expected = math.sqrt(3 + sum(float(numpy.float32(v)) ** 2 for v in values))
        assert numpy.allclose(kernels.total_norm(held), expected, rtol=1e-14, equal_nan=True)
    held = placed(gpu, [numpy.ones(3, "float32")])
    kernels.clip(held, 1.0, gpu.array(numpy.float64(numpy.nan)))
    assert numpy.isnan(held[0]).all()


def test_norms_are_the_same_bits_in_every_order(monkeypatch):
    found = set()
    for seed in range(4):
        fake = emulated(monkeypatch, kernels, seed=seed)
        found.add(kernels.total_norm(placed(fake, draw("float64", 1))).tobytes())
    assert len(found) == 1


def test_the_scale_adapts(gpu, monkeypatch):
    """As the engine's GradScaler on the CPU does, given the same steps."""
    scaler = engine.amp.GradScaler("cpu", init_scale=2.0**10, growth_interval=2, growth_factor=3.0, backoff_factor=0.25)
    p = engine.ones(1, requires_grad=True)
    optimizer = engine.optim.SGD([p], lr=0.0)
    scale = gpu.array(numpy.float32(2.0**10))
    taken, found = gpu.zeros((), numpy.int32), gpu.zeros((), numpy.float32)
    for bad in (0, 0, 1, 0, 1, 1, 0, 0, 0, 0):
        optimizer.zero_grad()
        scaler.scale(p.sum()).backward()
        p.grad = p.grad * (numpy.inf if bad else 1)
        scaler.step(optimizer)
        scaler.update()
        found[...] = bad
        kernels.adapt(scale, taken, found, 3.0, 0.25, 2)
        assert float(scale) == scaler.get_scale() and int(taken) == scaler._get_growth_tracker()
    scale[...], taken[...], found[...] = 3e38, 1, 0
    kernels.adapt(scale, taken, found, 3.0, 0.25, 2)
    assert float(scale) == numpy.float32(3e38) and taken == 0  # an infinite scale would make every gradient infinite


def test_the_table_stays_on_the_device(gpu, monkeypatch):
    copies = []
    real = gpu.asarray
    monkeypatch.setattr(gpu, "asarray", lambda x, *rest: copies.append(x.shape) or real(x, *rest))
    held, norm = placed(gpu, draw("float32", 1)), gpu.array(numpy.float64(1))
    for _ in range(3):
        kernels.clip(held, 1.0, norm)
    assert len(copies) == 2  # rows and pieces
    kernels.clip([*held[:-1], held[-1].copy()], 1.0, norm)
    assert len(copies) == 3 and launch.driver.launches == ["clip"] * 4


def test_what_lies_alike(gpu):
    x = gpu.array(numpy.zeros((2, 3, 4), "float32"))
    y = gpu.array(numpy.zeros((4, 3, 2), "float32")).transpose(2, 1, 0)
    for arrays in ((x, x + 0), (y, y + 0), (x[:1, 0, 0], x[0, :1, 0])):
        assert kernels.alike(*arrays)
    for arrays in ((x, y), (x[:, :2],), (x, x.astype("float64")), (x[::-1],), (x.astype("int32"),), (numpy.zeros(3),), (x[..., :1, :1],)):
        assert not kernels.alike(*arrays)


# -- the engine's optimizers -------------------------------------------------------------------------------------------------


def twins(gpu, shapes):
    """Parameters on the CPU in float64, and the same on the emulated GPU in float32, one of them in another order of memory."""
    rng = numpy.random.default_rng(0)
    host = [rng.standard_normal(shape) for shape in shapes]
    there = [gpu.array(x.astype("float32")) for x in host]
    there[0] = gpu.array(host[0].T.astype("float32")).T
    return [engine.tensor(x) for x in host], [engine.nn.Parameter(engine.Tensor._wrap(x)) for x in there]


def with_gradients(host, there, seed):
    rng = numpy.random.default_rng(seed)
    for p, q in zip(host, there, strict=True):
        g = rng.standard_normal(p.shape)
        p.grad, q.grad = engine.tensor(g), engine.Tensor._wrap(numpy.empty_like(q.array))
        q.grad.array[...] = g


@pytest.mark.parametrize(
    ("kind", "options"),
    [*((engine.optim.SGD, o) for o in SGD), *((engine.optim.Adam, o) for o in ADAM), (engine.optim.AdamW, {"lr": 0.1})],
    ids=str,
)
def test_optimizers_step_in_one_launch(gpu, monkeypatch, kind, options):
    monkeypatch.setattr(devices, "gpu", gpu)
    host, there = twins(gpu, [(3, 5), (), (40, 7), (0, 2)])
    reference, optimizer = kind(host, **options), kind(there, **options)
    for step in range(4):
        with_gradients(host, there, step)
        if step == 1:
            host[1].grad = there[1].grad = None  # this one's count stays behind
        if step == 3:  # state that was loaded lies in rows
            loaded = copy.deepcopy(optimizer.state_dict())
            for state in loaded["state"].values():
                for name, value in state.items():
                    if name != "step" and value is not None:
                        state[name] = engine.Tensor._wrap(gpu.array(numpy.ascontiguousarray(value.array)))
            optimizer.load_state_dict(loaded)
        launch.driver.launches.clear()
        versions = [p._version for p in there]
        reference.step()
        optimizer.step()
        kernel = "sgd" if kind is engine.optim.SGD else "adam"
        assert set(launch.driver.launches) == {kernel} and len(launch.driver.launches) <= 2
        assert [p._version - v for p, v in zip(there, versions, strict=True)] == [int(p.grad is not None) for p in there]
    near([p.array for p in there], [p.array for p in host], 4, numpy.dtype("float32"))
    assert optimizer.state_dict()["state"].keys() == reference.state_dict()["state"].keys()


def test_gradients_are_clipped_without_a_synchronization(gpu, monkeypatch):
    monkeypatch.setattr(devices, "gpu", gpu)
    host, there = twins(gpu, [(3, 5), (40, 7)])
    with_gradients(host, there, 1)
    with monkeypatch.context() as patch:
        patch.setattr(engine.Tensor, "item", lambda self: pytest.fail("the host waits"))
        norm = engine.nn.utils.clip_grad_norm_(there, 2.0)
    assert launch.driver.launches == ["powers", "root", "clip"] and isinstance(norm.array, Array) and norm.dtype is engine.float32
    assert abs(float(norm.array) - engine.nn.utils.clip_grad_norm_(host, 2.0).item()) < 1e-5
    near([p.grad.array for p in there], [p.grad.array for p in host], 1, numpy.dtype("float32"))


def test_gradients_are_unscaled_without_a_synchronization(gpu, monkeypatch):
    monkeypatch.setattr(devices, "gpu", gpu)
    host, there = twins(gpu, [(3, 5), (40, 7)])
    scalers = [engine.amp.GradScaler("cpu", init_scale=3.0, growth_interval=2) for _ in range(2)]
    optimizers = [engine.optim.SGD(params, lr=0.1) for params in (host, there)]
    for scaler in scalers:
        scaler.scale(engine.zeros(()))
    scalers[1]._scale, scalers[1]._growth_tracker = (engine.Tensor._wrap(gpu.array(x)) for x in (numpy.float32(3), numpy.int32(0)))
    for step in range(5):
        with_gradients(host, there, step)
        if step == 2:
            host[1].grad[0, 0], there[1].grad.array[0, 0] = math.nan, math.nan
        launch.driver.launches.clear()
        with monkeypatch.context() as patch:
            patch.setattr(engine.Tensor, "item", lambda self: pytest.fail("the host waits"))
            scalers[1].unscale_(optimizers[1])
        scalers[0].step(optimizers[0])
        with monkeypatch.context() as patch:
            patch.setattr(engine.Tensor, "item", lambda self: pytest.fail("the host waits"))
            scalers[1].step(optimizers[1])
            scalers[1].update()
        scalers[0].update()
        assert launch.driver.launches == ["unscale", "sgd", "adapt"]
        assert scalers[0].state_dict() == scalers[1].state_dict()
    near([p.array for p in there], [p.array for p in host], 5, numpy.dtype("float32"))


# -- the checks themselves, and the compiler ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("  }\n  __syncthreads();\n  const C size", "  }\n  const C size"),
        ("shared[threadIdx.x / 32] = x;\n  __syncthreads();", "shared[threadIdx.x / 32] = x;"),
        ("i < size; i += BLOCK)", "i <= size; i += BLOCK)"),
        ("i += BLOCK * V", "i += BLOCK"),
        ("each<4, 0b1101>", "each<4, 0b0101>"),
        ("begin = (int64_t)piece.number * PIECE", "begin = (int64_t)piece.number * (PIECE - V)"),
    ],
)
def test_a_planted_fault_is_caught(monkeypatch, right, wrong):
    gpu, real = emulated(monkeypatch, kernels, seed=2), launch.source
    assert real("optim.cu", T="float").count(right) == 1
    monkeypatch.setattr(launch, "source", lambda file, **types: real(file, **types).replace(right, wrong))
    start, gradients = draw("float32", 0), [draw("float32", seed) for seed in (1, 2)]
    found = adam(gpu, start, gradients, ADAM[0])
    expected = stepped(engine.optim.Adam, start, gradients, **ADAM[0])
    norm, size = kernels.total_norm(placed(gpu, start)), math.sqrt(sum((a.astype(float) ** 2).sum() for a in start))
    wrong_values = any(not numpy.allclose(a, b, rtol=1e-4, atol=1e-4) for a, b in zip(found, expected, strict=True))
    assert wrong_values or not gpu.intact() or not abs(norm - size) <= 1e-6 * size


@pytest.mark.parametrize("arch", ["compute_80", "compute_90"])
@pytest.mark.parametrize("T", ["float", "double", "half_t", "bf16_t"])
def test_it_compiles_for_the_gpus(arch, T):
    ptx = launch.compiled(launch.source("optim.cu", T=T), arch)
    bodies = dict(re.findall(r"\.entry (\w+)\((.*?)\n}", ptx if isinstance(ptx, str) else ptx.decode(), re.S))
    assert set(bodies) == {"sgd", "count", "adam", "powers", "root", "limit", "clip", "unscale", "adapt"}
    for name in ("sgd", "adam", "powers", "limit", "clip", "unscale"):  # addresses from a table are generic ones
        assert re.search(r"ld\.v" + ("2" if T == "double" else "4"), bodies[name]), name
        assert name == "powers" or re.search(r"st\.v" + ("2" if T == "double" else "4"), bodies[name]), name
