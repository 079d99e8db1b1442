"""The kernels of `random.cu` on the emulator: Philox's published answers, distributions, and streams."""

from __future__ import annotations

import re
import types

import ml_dtypes
import numpy
import pytest
import scipy
from emulate import Emulator, Guarded
from fake_cupy import emulated

import engine
from engine.backends import kernels_random
from engine.backends.gpu import launch
from engine.core import devices, random
from engine.core.random import Philox

kernels = pytest.importorskip("engine.backends.gpu.random")  # needs CuPy, not a GPU

FLOATS = [numpy.dtype(d) for d in ("float16", ml_dtypes.bfloat16, "float32", "float64")]
BF16, F32, F64, I64 = FLOATS[1], FLOATS[2], FLOATS[3], numpy.dtype("int64")
N = 40_000

each_float = pytest.mark.parametrize("d", FLOATS, ids=str)


@pytest.fixture
def gpu(monkeypatch):
    fake = emulated(monkeypatch, kernels)
    yield fake
    assert fake.intact()


def philox(seed=7):
    return Philox("cuda:0").manual_seed(seed)


# -- the generator -----------------------------------------------------------------------------------------------------------

# from the known-answer tests of the paper's library Random123: counter, key, result
KNOWN = [
    ("00000000 00000000 00000000 00000000", "00000000 00000000", "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
    ("ffffffff ffffffff ffffffff ffffffff", "ffffffff ffffffff", "408f276d 41c83b0e a20bc7c6 6d5451fd"),
    ("243f6a88 85a308d3 13198a2e 03707344", "a4093822 299f31d0", "d16cfe09 94fdcceb 5001e420 24126ea1"),
]


@pytest.mark.parametrize(("counter", "key", "expected"), KNOWN)
def test_philox_gives_the_published_words(monkeypatch, counter, key, expected):
    monkeypatch.setattr(launch, "driver", Emulator())
    text = launch.source("random.cu", T="uint32_t", P="float")
    text += 'extern "C" __global__ void words(uint64_t key, uint64_t low, uint64_t high, Words* out) { *out = philox(key, low, high); }\n'
    counter, key, expected = ([int(word, 16) for word in words.split()] for words in (counter, key, expected))
    out = Guarded((4,), "uint32")
    launch.Kernel(text, "words")(1, 1, key[1] << 32 | key[0], counter[1] << 32 | counter[0], counter[3] << 32 | counter[2], out.pointer)
    assert out.array.tolist() == expected and out.intact()


def test_the_host_draws_the_same_words(gpu):
    assert philox(0).words(4).tolist() == [int(word, 16) for word in KNOWN[0][2].split()]
    seed, start = 0x299F31D0A4093822, (1 << 32) - 3  # the counter's low word overflows
    host, device = philox(seed), philox(seed)
    host.advance(start)
    device.advance(start)
    words = kernels.integers(device, 501, 0, 1 << 64, numpy.dtype("uint64"))
    assert host.words(1002).tolist() == words.view("uint32").tolist()
    assert host.offset == device.offset == start + 251


def test_a_stream_goes_on_where_it_stopped(gpu):
    whole, parts = philox(), philox()
    x = kernels.uniform(whole, 5000, F32)
    y = numpy.concatenate([kernels.uniform(parts, n, F32) for n in (4, 1000, 3996)])
    assert x.tobytes() == y.tobytes() and whole.offset == parts.offset == 1250
    assert kernels.uniform(parts, 0, F32).size == 0 and parts.offset == 1250
    assert (kernels.uniform(philox(), 9, F32) == x[:9]).all() and (kernels.uniform(philox(8), 9, F32) != x[:9]).all()


@pytest.mark.parametrize("block", [32, 96, 256])
def test_values_do_not_depend_on_the_launch(gpu, monkeypatch, block):
    found = kernels.normal(philox(), 1003, F32)
    real = launch.source
    monkeypatch.setattr(launch, "source", lambda file, **types: real(file, **types).replace("BLOCK = 256", f"BLOCK = {block}"))
    emulated(monkeypatch, kernels, seed=2)
    monkeypatch.setattr(kernels, "_BLOCK", block)
    assert kernels.normal(philox(), 1003, F32).tobytes() == found.tobytes()


@pytest.mark.parametrize("n", [0, 1, 2, 3, 4, 5, 255, 1023, 1025])
@each_float
def test_any_number_of_values(gpu, n, d):
    for draw in (kernels.uniform, kernels.normal, kernels.exponential):
        x = draw(philox(), n, d)
        assert x.shape == (n,) and x.dtype == d and numpy.isfinite(x.astype(float)).all()
    assert kernels.bernoulli(philox(), n, 0.5).shape == kernels.integers(philox(), n, 0, 5, I64).shape == (n,)


# -- distributions: a p-value below 1e-4 would be 1 in 10,000 for right code, and the seeds are fixed ----------------------------


def follows(x, distribution, d):
    """Kolmogorov and Smirnov's test; for coarse dtypes the distance may be half a step of rounding more."""
    found = scipy.stats.kstest(numpy.asarray(x, float), distribution.cdf)
    return (
        found.pvalue > 1e-4 if d.itemsize > 2 else found.statistic < 2.0 ** {"float16": -10, "bfloat16": -7}[d.name] + 1.9 / len(x) ** 0.5
    )


@each_float
@pytest.mark.parametrize("seed", [1, 2])
def test_distributions(gpu, d, seed):
    s = philox(seed)
    u = kernels.uniform(s, N, d)
    assert follows(u, scipy.stats.uniform(), d) and u.min() >= 0 and u.max() < 1
    u = kernels.uniform(s, N, d, -3, 5)
    assert follows(u, scipy.stats.uniform(-3, 8), d) and u.min() >= -3 and u.max() < 5
    x = kernels.normal(s, N, d, 2, 3)
    assert follows(x, scipy.stats.norm(2, 3), d)
    assert abs(x.astype(float).mean() - 2) < 5 * 3 / N**0.5 and abs(x.astype(float).std() - 3) < 5 * 3 / (2 * N) ** 0.5
    e = kernels.exponential(s, N, d, 4)
    assert follows(e, scipy.stats.expon(0, 1 / 4), d) and e.min() > 0
    x = x.astype(float)
    for lag in (1, 2, 3, 4):  # neighbors come of one block
        assert abs(numpy.corrcoef(x[:-lag], x[lag:])[0, 1]) < 5 / N**0.5


def test_the_tails_reach_as_far_as_the_bits():
    """The largest and smallest word at each place of a block, through the text's own functions."""
    text = launch.source("random.cu", T="float", P="float") + (
        'extern "C" __global__ void ends(uint32_t w, float* out) { const Words words = {w, w, w, w};\n'
        "out[0] = U::unit(words, 0); out[1] = U::above(words, 0);\n"
        "out[2] = larger((F)-log(U::above(words, 0)), U::LEAST); out[3] = Unit<double>::unit(words, 1); out[4] = Unit<double>::above(words, 1); }\n"
    )
    out = Guarded((5,), "float32")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(launch, "driver", Emulator())
        launch.Kernel(text, "ends")(1, 1, 0, out.pointer)
        assert out.array.tolist() == [0, 2.0**-32, pytest.approx(32 * numpy.log(2)), 0, 2.0**-53]
        launch.Kernel(text, "ends")(1, 1, 0xFFFFFFFF, out.pointer)
        assert out.array.tolist() == [1 - 2.0**-24, 1, 2.0**-25, 1, 1]


@pytest.mark.parametrize("p", [0.0, 1e-3, 0.3, 0.9, 1.0])
def test_bernoulli(gpu, p):
    x = kernels.bernoulli(philox(), N, p)
    assert x.dtype == bool and abs(int(x.sum()) - N * p) <= 5 * (N * p * (1 - p)) ** 0.5


@each_float
def test_bernoulli_with_a_probability_for_each(gpu, d):
    p = numpy.tile(numpy.array([0, 0.25, 1, 0.5, numpy.nan], d), N // 5)
    x = kernels.bernoulli_each(philox(), gpu.array(p)).reshape(-1, 5).mean(0)
    assert x[0] == 0 and x[2] == 1 and x[4] == 0
    assert abs(x[1] - 0.25) < 5 * (0.25 * 0.75 * 5 / N) ** 0.5 and abs(x[3] - 0.5) < 5 * (0.25 * 5 / N) ** 0.5


@pytest.mark.parametrize("name", ["bool", "uint8", "int8", "int32", "int64", "uint64", "float16", "bfloat16", "float32", "float64"])
def test_integers(gpu, name):
    d = BF16 if name == "bfloat16" else numpy.dtype(name)
    low, high = (0, 2) if name == "bool" else (0, 7) if d.kind == "u" else (-3, 4)
    x = kernels.integers(philox(), N, low, high, d)
    found, counts = numpy.unique(x.astype(float), return_counts=True)
    assert x.dtype == d and found.tolist() == list(range(low, high)) and scipy.stats.chisquare(counts).pvalue > 1e-4


def test_integers_of_the_widest_ranges(gpu):
    x = kernels.integers(philox(), N, -(1 << 63), 1 << 63, I64).astype(float)
    assert scipy.stats.kstest(x, scipy.stats.uniform(-(2.0**63), 2.0**64).cdf).pvalue > 1e-4
    x = kernels.integers(philox(), N, 10**9, 10**9 + 3 * 2**30, I64)
    assert x.min() >= 10**9 and x.max() < 10**9 + 3 * 2**30
    assert scipy.stats.kstest(x.astype(float), scipy.stats.uniform(10**9, 3 * 2.0**30).cdf).pvalue > 1e-4
    for d in (numpy.dtype("uint8"), numpy.dtype("uint64"), F32, numpy.dtype(bool)):
        most = {"uint8": 255, "uint64": 2**64 - 1, "float32": 2**24, "bool": 1}[d.name]
        x = kernels.full_range(philox(), N, d).astype(float)
        assert x.min() >= 0 and most * 0.99 < x.max() <= most and abs(x.mean() / most - 0.5) < 0.02


@pytest.mark.parametrize("n", [0, 1, 2, 1000])
def test_permutations(gpu, n):
    assert sorted(kernels.permutation(philox(), n).tolist()) == list(range(n))


def test_permutations_are_all_as_likely(gpu):
    s = philox()
    counts = numpy.unique([kernels.permutation(s, 3) for _ in range(3000)], axis=0, return_counts=True)[1]
    assert len(counts) == 6 and scipy.stats.chisquare(counts).pvalue > 1e-4


def test_what_is_made_of_other_draws(gpu):
    s = philox()
    x = kernels.geometric(s, N, F32, 0.3)
    assert x.min() == 1 and scipy.stats.chisquare([(x == k).mean() for k in range(1, 9)], scipy.stats.geom(0.3).pmf(range(1, 9)) * 1, sum_check=False).statistic * N < 40  # fmt: skip
    assert follows(kernels.cauchy(s, N, F64, 1, 2), scipy.stats.cauchy(1, 2), F64)
    assert follows(kernels.log_normal(s, N, F64, 1, 0.5), scipy.stats.lognorm(0.5, scale=numpy.e), F64)


def test_multinomial(gpu):
    weights = numpy.array([[1, 0, 3, 4], [0, 2, 2, 0]], "float32")
    s = philox()
    x = kernels.multinomial(s, gpu.array(weights), N, True)
    for row, w in zip(x, weights, strict=True):
        counts = numpy.bincount(row, minlength=4)
        assert (counts[w == 0] == 0).all() and scipy.stats.chisquare(counts[w > 0], N * w[w > 0] / w.sum()).pvalue > 1e-4
    for n in (1, 2):
        x = kernels.multinomial(s, gpu.array(numpy.repeat(weights[:1], 4000, 0)), n, False)
        assert x.shape == (4000, n) and not (x == 1).any() and abs((x[:, 0] == 3).mean() - 0.5) < 0.04


# -- the engine's functions ----------------------------------------------------------------------------------------------------


@pytest.fixture
def cuda(gpu, monkeypatch):
    """A GPU for the engine: arrays are made by the emulated kernels, and moving there does nothing."""
    backend = types.SimpleNamespace(device_count=lambda: 2, current_device=lambda: 0, to_device=lambda x, index: x, to_host=lambda x: x)
    monkeypatch.setattr(devices, "gpu", backend)
    monkeypatch.setattr(random, "_of_gpus", {})
    before = engine.get_rng_state()
    engine.manual_seed(5)
    yield launch.driver.launches
    engine.set_rng_state(before)


@pytest.mark.parametrize(
    ("call", "kernel", "drawn"),
    [
        (lambda: engine.rand(3, 5, device="cuda"), "uniform", lambda s: kernels.uniform(s, 15, F32)),
        (lambda: engine.randn(3, 5, device="cuda", dtype=engine.float64), "normal", lambda s: kernels.normal(s, 15, F64)),
        (
            lambda: engine.rand(15, device="cuda", dtype=engine.complex64),
            "uniform",
            lambda s: kernels.uniform(s, 30, F32).view("complex64"),
        ),
        (lambda: engine.randint(3, 9, (15,), device="cuda"), "integers", lambda s: kernels.integers(s, 15, 3, 9, I64)),
        (lambda: engine.randperm(15, device="cuda"), "integers", lambda s: kernels.permutation(s, 15)),
        (lambda: engine.normal(1.0, 2.0, (15,), device="cuda"), "normal", lambda s: kernels.normal(s, 15, F32, 1, 2)),
    ],
)
def test_new_tensors_are_drawn_on_the_device(cuda, call, kernel, drawn):
    found = call().array
    assert cuda == [kernel] and found.ravel().tolist() == drawn(philox(5)).tolist()
    assert call().array.tolist() != found.tolist()
    engine.manual_seed(5)
    assert call().array.tolist() == found.tolist()


def test_generators_of_gpus(cuda):
    g = engine.Generator("cuda")
    assert isinstance(g, Philox) and g.device == engine.device("cuda") and g.initial_seed() == engine.Generator().initial_seed()
    x = engine.rand(9, device="cuda", generator=g.manual_seed(3))
    state, twin = g.get_state(), g.clone_state()
    assert x.tolist() == kernels.uniform(philox(3), 9, F32).tolist() and state.tolist() == [3] + [0] * 7 + [3] + [0] * 7
    y = engine.rand(9, device="cuda", generator=g)
    assert y.tolist() == engine.rand(9, device="cuda", generator=twin).tolist() != x.tolist()
    assert y.tolist() == engine.rand(9, device="cuda", generator=g.set_state(state)).tolist()
    for device, other in (("cuda", engine.Generator()), ("cpu", g)):
        with pytest.raises(RuntimeError, match=f"Expected a '{device}' device type for generator but found '{other.device.type}'"):
            engine.rand(3, device=device, generator=other)
    with pytest.raises(RuntimeError, match="expected 16 bytes, got 5056"):
        g.set_state(engine.get_rng_state())
    with pytest.raises(TypeError, match="uint8"):
        g.set_state(engine.zeros(16))


def test_each_device_has_its_own_stream(cuda):
    draws = [
        lambda: engine.rand(4).tolist(),
        lambda: engine.rand(4, device="cuda").tolist(),
        lambda: engine.rand(4, device="cuda:1").tolist(),
    ]
    first, second = ([draw() for draw in draws] for _ in range(2))
    engine.cuda.manual_seed(5)  # of the current one
    assert [draws[1](), draws[2]()] == [first[1], engine.rand(4, device="cuda:1", generator=philox(5).set_state(philox_at(5, 2))).tolist()]
    engine.cuda.manual_seed_all(5)
    assert [draws[1](), draws[2]()] == first[1:] and second[0] not in first
    states = engine.cuda.get_rng_state_all()
    third = [draw() for draw in draws[1:]]
    with random.fork_rng():
        again = [draw() for draw in draws]
    assert [draw() for draw in draws] == again
    engine.cuda.set_rng_state_all(states)
    assert [draw() for draw in draws[1:]] == third
    engine.cuda.seed_all()
    assert len({engine.cuda.initial_seed(), *[g.initial_seed() for g in random._of_gpus.values()]}) == 1 and engine.initial_seed() == 5


def philox_at(seed, offset):
    g = philox(seed)
    g.advance(offset)
    return g.get_state()


def test_a_generator_first_used_since_the_state_was_saved_begins_anew(cuda):
    saved = random.states()
    x = engine.rand(4, device="cuda")
    random.restore(saved)
    assert engine.rand(4, device="cuda").tolist() == x.tolist()


def test_host_algorithms_draw_the_words_of_the_gpu(cuda):
    source = random.generator_of(engine.device("cuda"))
    x = kernels_random.poisson(source, numpy.full(4000, 3.5))
    assert source.offset > 4000 and abs(x.mean() - 3.5) < 5 * (3.5 / 4000) ** 0.5


# -- the checks themselves, and the compiler ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("round < 10", "round < 2"),
        ("offset + (uint64_t)block", "offset + (uint64_t)(block % 1000)"),
        ("U::above(words, k))), angle = 2", "U::above(words, k))), angle = 1"),
        ("first + N <= size", "first < size"),
        ("radius * sinpi", "radius * cospi"),
    ],
)
def test_a_planted_fault_is_caught(gpu, monkeypatch, right, wrong):
    real = launch.source
    monkeypatch.setattr(launch, "source", lambda file, **types: real(file, **types).replace(right, wrong))
    assert real("random.cu", T="float", P="float").count(right) >= 1
    x = numpy.asarray(kernels.normal(philox(), N - 1, F32), float)
    related = (
        max(abs(numpy.corrcoef(x[:-lag], x[lag:])[0, 1]) for lag in (1, 2, 3, 4, 4000)) > 5 / N**0.5 if numpy.isfinite(x).all() else True
    )
    assert not gpu.intact() or related or not follows(x, scipy.stats.norm(), F32)
    gpu.guards.clear()


@pytest.mark.parametrize("arch", ["compute_80", "compute_90"])
@pytest.mark.parametrize(
    ("T", "stores"), [("float", "v4"), ("half_t", "v4|u64|b64"), ("bf16_t", "v4|u64|b64"), ("double", "v2"), ("bool", ""), ("int64_t", "")]
)
def test_it_compiles_for_the_gpus(arch, T, stores):
    ptx = launch.compiled(launch.source("random.cu", T=T, P="float"), arch)
    bodies = dict(re.findall(r"\.entry (\w+)\((.*?)\n}", ptx if isinstance(ptx, str) else ptx.decode(), re.S))
    assert set(bodies) == {"uniform", "normal", "exponential", "bernoulli", "integers", "set_state", "hold"}
    if stores:
        assert all(re.search(rf"st\.global\.({stores})", bodies[name]) for name in ("uniform", "normal", "exponential"))
    if T == "float":
        assert not re.search(r"(add|mul|fma|div|sqrt)\S*\.f64", bodies["normal"] + bodies["exponential"])
