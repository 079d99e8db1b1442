"""Random numbers are PyTorch's: fingerprints of what torch 2.13 draws on a CPU, for three seeds."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy
import pytest

import engine
from engine.core.random import Generator, fork_rng
from engine.nn import functional as F
from grouping import grouped

SEEDS = (0, 12345, 2**40 + 3)
LINE = numpy.linspace(0, 1, 1000, dtype=numpy.float32)
WEIGHTS = numpy.arange(1, 101, dtype=numpy.float32)

DRAWS = {
    "rand": lambda: engine.rand(1000),
    "rand64": lambda: engine.rand(1000, dtype=engine.float64),
    "randn15": lambda: engine.randn(15),
    "randn": lambda: engine.randn(1000),
    "randn1003": lambda: engine.randn(1003),
    "randint": lambda: engine.randint(-5, 17, (1000,)),
    "wide": lambda: engine.randint(0, 2**40, (1000,)),
    "randperm": lambda: engine.randperm(1000),
    "bernoulli": lambda: engine.zeros(1000).bernoulli_(0.3),
    "bernoulli_p": lambda: engine.bernoulli(engine.tensor(LINE)),
    "uniform": lambda: engine.zeros(1000).uniform_(-0.3, 0.7),
    "normal": lambda: engine.zeros(1000).normal_(2, 0.5),
    "random_f": lambda: engine.zeros(1000).random_(),
    "random_l": lambda: engine.zeros(1000, dtype=engine.int64).random_(),
    "random_u": lambda: engine.zeros(1000, dtype=engine.uint8).random_(),
    "transposed": lambda: engine.zeros(30, 50).t().normal_(),
    "multinomial": lambda: engine.multinomial(engine.tensor(WEIGHTS), 50),
    "multinomial_r": lambda: engine.multinomial(engine.tensor(WEIGHTS.reshape(4, 25)), 500, True),
    "dropout": lambda: F.dropout(engine.arange(1000).float(), 0.3),
    "dropout2d": lambda: F.dropout2d(engine.ones(7, 11, 3, 2), 0.4),
}
EXPECTED = {
    "rand": ("20221bec9830215c", "123a3ce8815e6b83", "b138739ab45fc497"),
    "rand64": ("c59b53ef72076721", "93e3abf419a2421a", "3cf4e153f1a962ff"),
    "randn15": ("feb39d97c8afee24", "46fdc2b1452cd252", "b2d08fdec01738fa"),
    "randn": ("43678415636bbad8", "c3e72928cef812ed", "387b8b0d3946850a"),
    "randn1003": ("d8712f5f5c0c1803", "5e0601131264d155", "83e956e965ae474e"),
    "randint": ("975a43e4d9ac8835", "ba6ab83dbb85c587", "6936f1a0c0096db6"),
    "wide": ("7ee676fe3b205c41", "5d4620aa4c2e9c94", "6cd340d87ac55e8f"),
    "randperm": ("cee4a88ef6120e8e", "4305397719749378", "f0818b66bc03445e"),
    "bernoulli": ("23f60bc641a0332d", "a80c08a171178c9c", "92150bbff67a1fcb"),
    "bernoulli_p": ("805621816760d358", "9c128e5cf4f98da7", "f1150ad411a3e7b6"),
    "uniform": ("4eeb708ef1161574", "f5f523a8a1c57f9b", "e133b9adb51b5004"),
    "normal": ("cfb2dca3a2f41965", "9067b01b450c52e4", "7f8b7b853e51c545"),
    "random_f": ("ae7389f1d20e19f8", "0e11f025d57f38c5", "1c0826bb66ef9029"),
    "random_l": ("35fbbccf4a403543", "6852868f5c2f8dd8", "58cd3e06d5b1f9c4"),
    "random_u": ("190484e0f0546710", "e5a74f0d3291187d", "fbffa440b533fbe2"),
    "transposed": ("26bdea2622faeca9", "de90ecbc2f3c23e4", "cff26cce785109cb"),
    "multinomial": ("cc5d4dc299d5b351", "dba39e63d4b34703", "703cc0c9a99d4c7c"),
    "multinomial_r": ("38c361352a29dfac", "c8ac46efc69d75b2", "c0485fa78951606b"),
    "dropout": ("beb10730cfade039", "151006e1bd3aac10", "b23bcfbad8724ebd"),
    "dropout2d": ("5bc6af2976c67821", "2e75142bd65a86a5", "6488f1be5cb29971"),
}


@pytest.fixture(autouse=True)
def undisturbed():
    with fork_rng():
        yield


def fingerprint(x):
    return hashlib.sha256(numpy.ascontiguousarray(x.numpy()).tobytes()).hexdigest()[:16]


@grouped("name", DRAWS)
def test_bit_for_bit(name):
    found = []
    for seed in SEEDS:
        engine.manual_seed(seed)
        found.append(fingerprint(DRAWS[name]()))
    assert tuple(found) == EXPECTED[name]


def test_first_numbers():
    engine.manual_seed(0)
    assert engine.rand(4).tolist() == [0.49625658988952637, 0.7682217955589294, 0.08847743272781372, 0.13203048706054688]
    engine.manual_seed(0)
    assert engine.randn(3).tolist() == [1.5409960746765137, -0.293428897857666, -2.1787893772125244]


def test_state_goes_to_and_from_pytorch():
    engine.manual_seed(5)
    engine.randn(3), engine.rand(2)
    state = engine.get_rng_state()
    assert state.dtype is engine.uint8 and state.shape == (5056,) and fingerprint(state) == "335ec4b8874d55df"
    for _ in range(2):
        assert engine.rand(2).tolist() == [0.6064285635948181, 0.5645712614059448]
        assert engine.randn(1).item() == 0.6675242781639099  # the spare number of the pair drawn before
        engine.set_rng_state(state)
    with pytest.raises(TypeError, match="uint8"):
        engine.set_rng_state(state.float())
    with pytest.raises(RuntimeError, match="5056"):
        engine.set_rng_state(state[:10])


def test_generators_are_independent():
    a, b = Generator().manual_seed(7), Generator()
    assert b.initial_seed() == 67280421310721 and a.initial_seed() == 7
    before = engine.get_rng_state().tolist()
    x = engine.rand(5, generator=a)
    assert engine.get_rng_state().tolist() == before
    twin = a.clone_state()
    assert engine.rand(3, generator=a).tolist() == engine.rand(3, generator=twin).tolist()
    assert engine.rand(5, generator=a.manual_seed(7)).tolist() == x.tolist()
    assert a.seed() == a.initial_seed() != 7
    assert Generator().manual_seed(-1).initial_seed() == 2**64 - 1
    with pytest.raises(ValueError, match="Overflow"):
        a.manual_seed(2**64)
    with pytest.raises(RuntimeError, match="expected a long"):
        a.manual_seed(1.5)


def test_fork_rng_leaves_the_stream_alone():
    engine.manual_seed(3)
    expected = engine.rand(2).tolist()
    engine.manual_seed(3)
    with fork_rng():
        engine.rand(100)
    assert engine.rand(2).tolist() == expected


@pytest.mark.parametrize(
    ("fill", "mean", "variance"),
    [
        (lambda x: x.exponential_(2.0), 0.5, 0.25),
        (lambda x: x.geometric_(0.3), 1 / 0.3, 0.7 / 0.09),
        (lambda x: x.log_normal_(0.0, 0.5), numpy.exp(0.125), (numpy.exp(0.25) - 1) * numpy.exp(0.25)),
        (lambda x: engine.poisson(x * 0 + 4.5), 4.5, 4.5),
        (lambda x: engine.poisson(x * 0 + 40.0), 40.0, 40.0),
        (lambda x: x.bernoulli_(engine.full((1,), 0.25)), 0.25, 0.1875),
    ],
)
def test_moments(fill, mean, variance):
    engine.manual_seed(1)
    x = fill(engine.zeros(20000, dtype=engine.float64)).numpy()
    assert abs(x.mean() - mean) < 5 * (variance / x.size) ** 0.5
    assert abs(x.var() / variance - 1) < 0.15


def test_cauchy_quartiles():
    engine.manual_seed(1)
    quartiles = numpy.quantile(engine.zeros(20000, dtype=engine.float64).cauchy_(1, 2).numpy(), [0.25, 0.5, 0.75])
    assert numpy.allclose(quartiles, [-1, 1, 3], atol=0.15)


def test_normal_of_tensors():
    engine.manual_seed(2)
    mean, std = engine.tensor(numpy.arange(20.0)), engine.tensor(numpy.arange(1.0, 21.0))
    drawn = engine.normal(mean, std)
    engine.manual_seed(2)
    assert numpy.array_equal(drawn.numpy(), engine.randn(20, dtype=engine.float64).numpy() * std.numpy() + mean.numpy())


@grouped("mean, std", [(True, 1.0), (0.0, True), (True, True), (True, False), (False, True), (False, False)])
def test_normal_requires_a_gradient_where_a_parameter_does_and_gives_zeros(mean: Any, std: Any) -> None:
    """As PyTorch 2.13. True and False: a tensor that requires a gradient, and one that does not."""
    given = [engine.ones(shape, requires_grad=one) if isinstance(one, bool) else one for one, shape in ((mean, (2, 1)), (std, (3,)))]
    values = engine.normal(*given)
    assert values.requires_grad == (mean is True or std is True)
    if values.requires_grad:
        values.sum().backward()
    for one in given:
        if isinstance(one, engine.Tensor) and one.requires_grad:
            assert numpy.array_equal(one.grad.numpy(), numpy.zeros(one.shape))


@grouped("name, kernel", [("bernoulli", "Bernoulli"), ("poisson", "Poisson")])
def test_values_drawn_with_a_probability_or_a_rate_require_a_gradient_where_it_does_and_give_zeros(name: str, kernel: str) -> None:
    """As PyTorch 2.13."""
    for device in ("cpu", "meta"):
        p = engine.full((3,), 0.5, device=device)
        assert not getattr(engine, name)(p).requires_grad
        values = getattr(engine, name)(p.requires_grad_())
        assert values.grad_fn.name() == f"{kernel}Backward0"
        values.sum().backward()
        assert p.grad.shape == (3,)
        assert p.grad.is_meta or numpy.array_equal(p.grad.numpy(), numpy.zeros(3))


@pytest.mark.parametrize(
    "name, given",
    [("uniform_", (0.25, 2)), ("normal_", (0.25, 2)), ("cauchy_", (0.25, 2)), ("log_normal_", (0.25, 2)), ("exponential_", (2,))],
)
def test_fillers_take_tensors_of_no_dimension_as_numbers(name: str, given: tuple) -> None:
    filled = []
    for numbers in (given, [engine.tensor(n) for n in given]):
        engine.manual_seed(0)
        filled.append(getattr(engine.zeros(20), name)(*numbers).tolist())
    assert filled[0] == filled[1]
    engine.manual_seed(0)
    assert engine.nn.init.normal_(engine.zeros(2), 0.0, engine.tensor(0.5)).tolist() == pytest.approx([0.7704980373, -0.1467144489])


def test_fillers_know_the_graph():
    leaf = engine.ones(3, requires_grad=True)
    with pytest.raises(RuntimeError, match="leaf"):
        leaf.normal_()
    x = leaf * 2
    y = x * x
    x.uniform_()
    with pytest.raises(RuntimeError, match="uniform_"):
        y.sum().backward()
    z = leaf * 2
    z[0:1].normal_()
    z.sum().backward()
    assert leaf.grad.tolist() == [0.0, 2.0, 2.0]


def test_dropout_has_the_gradient_of_its_mask():
    x = engine.ones(50, requires_grad=True)
    y = F.dropout(x, 0.4)
    y.sum().backward()
    assert set(y.tolist()) == {0.0, numpy.float32(1 / 0.6).item()} and x.grad.tolist() == y.tolist()
    assert F.dropout(x, 0.4, training=False) is x
    assert F.dropout(x, 1.0).tolist() == [0.0] * 50
    w = engine.ones(50)
    assert F.dropout(w, 0.4, inplace=True) is w and 0 in w.tolist()


def test_alpha_dropout_keeps_mean_and_variance():
    engine.manual_seed(0)
    x = engine.randn(200000)
    for y in (F.alpha_dropout(x, 0.3, True), F.feature_alpha_dropout(x.reshape(-1, 2), 0.3, True)):
        assert abs(y.mean().item()) < 0.02 and abs(y.numpy().var() - 1) < 0.03


def test_gumbel_softmax_samples():
    engine.manual_seed(0)
    p = numpy.array([0.1, 0.2, 0.7])
    logits = engine.tensor(numpy.log(p)).expand(20000, 3).clone().requires_grad_()
    hard = F.gumbel_softmax(logits, hard=True)
    assert set(hard.detach().numpy().sum(1).round(9)) == {1.0} and numpy.allclose(hard.detach().numpy().mean(0), p, atol=0.02)
    hard[:, 0].sum().backward()
    assert numpy.abs(logits.grad.numpy()).max() > 0


@grouped(
    ("call", "kind", "words"),
    [
        (lambda: engine.randint(5, 3, (2,)), RuntimeError, "from=5 >= to=3"),
        (lambda: engine.randperm(-1), RuntimeError, "non-negative"),
        (lambda: engine.rand(2, dtype=engine.int64), NotImplementedError, "int64"),
        (lambda: engine.rand(-2), RuntimeError, "negative"),
        (lambda: engine.zeros(2, dtype=engine.int64).normal_(), NotImplementedError, "int64"),
        (lambda: engine.zeros(2).normal_(0, -1), RuntimeError, "std >= 0"),
        (lambda: engine.zeros(2).uniform_(1, 0), RuntimeError, "from=1"),
        (lambda: engine.zeros(2).bernoulli_(1.5), RuntimeError, "p=1.5"),
        (lambda: engine.bernoulli(engine.ones(2) * 2), RuntimeError, "p_in"),
        (lambda: engine.multinomial(engine.zeros(3), 1), RuntimeError, "sum of probabilities"),
        (lambda: engine.multinomial(engine.ones(3), 4), RuntimeError, "without replacement"),
        (lambda: engine.multinomial(-engine.ones(3), 1), RuntimeError, "element < 0"),
        (lambda: engine.poisson(-engine.ones(1)), RuntimeError, "rate"),
        (lambda: F.dropout(engine.ones(2), 1.5), ValueError, "between 0 and 1"),
        (lambda: F.dropout1d(engine.ones(2)), RuntimeError, "2D or 3D"),
    ],
)
def test_refusals(call, kind, words):
    with pytest.raises(kind, match=words):
        call()


def test_dropout_of_channels_by_other_sizes():
    """PyTorch warns and goes on, as classroom code with `Dropout2d` behind a linear layer needs; what is drawn is torch 2.13's."""
    with pytest.warns(UserWarning, match="Received a 2-D input to dropout2d, which is deprecated"):
        engine.manual_seed(0)
        assert F.dropout2d(engine.ones(2, 3)).tolist() == [[0, 0, 2], [0, 0, 0]]
    with pytest.warns(UserWarning, match="Received a 3D input to dropout2d"):
        kept = F.dropout2d(engine.ones(4, 5, 7))
    assert ((kept == 0) | (kept == 2)).all() and (kept == kept[:, :, :1]).all()
    with pytest.warns(UserWarning, match="Received a 1-D input to dropout3d"):
        engine.manual_seed(0)
        assert F.dropout3d(engine.ones(3)).tolist() == [0, 0, 2]
    with (
        pytest.warns(UserWarning, match="dropout2d"),
        pytest.raises(RuntimeError, match="requires at least 2 dimensions in the input, but got 1"),
    ):
        F.dropout2d(engine.ones(3))
    assert F.feature_alpha_dropout(engine.ones(3)).tolist() == [1, 1, 1]  # nothing is drawn, nothing refused


def test_dropout_needs_numbers_that_can_be_scaled():
    for x in (engine.ones(3, dtype=engine.int64), engine.ones(3, dtype=engine.bool)):
        with pytest.raises(RuntimeError, match="dropout scales by 2, and so needs floating-point or complex numbers"):
            F.dropout(x)
        assert F.dropout(x, training=False) is x
