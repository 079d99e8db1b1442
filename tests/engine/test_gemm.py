"""Large matrix products by oneDNN, against NumPy in float64: however the operands lie, in stacks that broadcast, on any thread."""

from __future__ import annotations

import concurrent.futures
import itertools
import os

import numpy
import pytest

import engine
from engine.backends import gemm, mkldnn, onednn, products
from grouping import grouped

pytestmark = pytest.mark.skipif(not mkldnn.is_available(), reason="needs the extra `fast`")
RNG = numpy.random.default_rng(0)


def numbers(*shape: int) -> numpy.ndarray:
    return RNG.standard_normal(shape, dtype=numpy.float32)


def shifted(a: numpy.ndarray) -> numpy.ndarray:
    """The same matrix, not aligned."""
    room = numpy.empty(a.nbytes + 1, numpy.uint8)[1:]
    room[:] = a.reshape(-1).view(numpy.uint8)
    return room.view(numpy.float32).reshape(a.shape)


LAYOUTS = {  # of a matrix: the same numbers, lying otherwise
    "rows": lambda a: a,
    "columns": lambda a: numpy.asfortranarray(a),
    "part of longer rows": lambda a: numpy.concatenate([a, a], -1)[..., : a.shape[-1]],
    "part of longer columns": lambda a: numpy.concatenate([a, a], -2).swapaxes(-1, -2).copy().swapaxes(-1, -2)[..., : a.shape[-2], :],
    "every other row": lambda a: numpy.repeat(a, 2, -2)[..., ::2, :],
    "every other column": lambda a: numpy.repeat(a, 2, -1)[..., ::2],
    "backwards": lambda a: a[..., ::-1, :].copy()[..., ::-1, :],
    "not aligned": shifted,
    "in a record": lambda a: numpy.rec.fromarrays([a, a.astype("i2")]).f0,
}
TAKEN = {"rows", "columns", "part of longer rows", "part of longer columns", "every other row"}


@grouped(("one", "two"), list(itertools.product(LAYOUTS, LAYOUTS)))
def test_operands_may_lie_in_any_way(one, two):
    a, b = numbers(64, 48), numbers(48, 96)
    x, y = LAYOUTS[one](a), LAYOUTS[two](b)
    assert (x == a).all() and (y == b).all()
    found, expected = gemm.product(x, y), a.astype(float) @ b
    assert (found is not None) == ({one, two} <= TAKEN)
    for result in (products.matmul(x, y), found if found is not None else a @ b):
        numpy.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-4)
        assert result.dtype == numpy.float32 and result.flags.c_contiguous


@grouped(
    ("n", "k", "m"),
    [(1, 512, 600), (600, 512, 1), (512, 1, 600), (1, 300_000, 1), (3, 100_000, 3), (65, 1024, 65), (1000, 300, 2), (128, 128, 128)],
)
def test_narrow_and_long_ones(n, k, m):
    a, b = numbers(n, k), numbers(k, m)
    expected = a.astype(float) @ b
    for x in (a, numpy.asfortranarray(a)):
        for y in (b, numpy.asfortranarray(b)):
            found = gemm.product(x, y)
            assert found is not None and abs(found - expected).max() < 1e-5 * k


@grouped(
    ("one", "two"),
    [
        ((6, 40, 50), (6, 50, 30)),
        ((2, 3, 40, 50), (2, 3, 50, 30)),
        ((2, 1, 40, 50), (3, 50, 30)),
        ((40, 50), (6, 50, 30)),
        ((5, 1, 1, 50), (1, 7, 50, 1)),
        ((1, 200, 50), (1, 50, 300)),
        ((2, 1, 2, 1, 30, 40), (1, 3, 1, 2, 40, 20)),
    ],
)
@pytest.mark.parametrize("turned", [False, True])
def test_stacks_broadcast(one, two, turned):
    a, b = numbers(*one), numbers(*two)
    if turned:  # as queries and keys lie: in columns, and with the stack within
        a, b = a.swapaxes(-1, -2).copy().swapaxes(-1, -2), numpy.moveaxis(numpy.moveaxis(b, -2, 0).copy(), 0, -2)
    found = gemm.products(a, b)
    assert found is not None and found.flags.c_contiguous
    numpy.testing.assert_allclose(found, a.astype(float) @ b, rtol=1e-5, atol=1e-4)


def test_stacks_that_stand_still_go_back_or_do_not_fit_are_numpys():
    a, b = numbers(6, 40, 50), numbers(50, 30)
    still, back = numpy.broadcast_to(b, (6, 50, 30)), numbers(6, 50, 30)[::-1]
    for other in (still, back):
        assert gemm.products(a, other) is None
        numpy.testing.assert_allclose(products.matmul(a, other), a.astype(float) @ other, rtol=1e-5, atol=1e-4)
    for other in (numbers(5, 50, 30), numbers(6, 49, 30)):
        assert gemm.products(a, other) is None
        with pytest.raises(ValueError, match="broadcast|matmul"):
            products.matmul(a, other)


def test_who_computes(monkeypatch):
    calls = []
    monkeypatch.setattr(gemm, "product", lambda *given: calls.append(given[0].shape))
    small, large = numbers(60, 60), numbers(70, 70)
    products.matmul(small, small)
    assert not calls
    products.matmul(large, large)
    products.matmul(numbers(2, 35, 70), large)
    assert calls == [(70, 70), (70, 70)]
    monkeypatch.undo()
    for a, b in [(large.astype(float), large), (large, large.astype(float)), (large.astype(complex), large), (large[:0], large)]:
        assert gemm.product(a, b) is None and gemm.products(a[None], b[None]) is None
    with mkldnn.flags(enabled=False):
        assert gemm.product(large, large) is None and gemm.products(large[None], large[None]) is None


def test_infinities_and_nans_stay_in_their_rows_and_columns():
    a, b = numbers(80, 80), numbers(80, 80)
    a[3, 5], b[7, 11] = numpy.nan, numpy.inf
    with numpy.errstate(invalid="ignore"):
        expected = a.astype(float) @ b
    for found in (gemm.product(a, b), gemm.products(a[None], b[None])[0]):
        numpy.testing.assert_array_equal(numpy.isfinite(found), numpy.isfinite(expected))


def test_the_result_is_written_where_it_was_asked_for():
    a, b, out = numbers(64, 80), numbers(80, 96), numpy.full((64, 96), numpy.nan, numpy.float32)
    assert gemm.product(a, b, out) is out
    products.multiply(a, b, other := numpy.empty_like(out))
    numpy.testing.assert_array_equal(out, other)
    numpy.testing.assert_allclose(out, a.astype(float) @ b, rtol=1e-5, atol=1e-4)


def test_where_it_cannot_be_written_numpy_writes_or_refuses():
    a, b = numbers(64, 80), numbers(80, 96)
    room = numpy.zeros((96, 64), numpy.float32).T
    products.multiply(a, b, room)
    products.multiply(a, b, wide := numpy.zeros((64, 96)))
    numpy.testing.assert_allclose(room, wide, rtol=1e-5, atol=1e-4)
    with pytest.raises(ValueError, match="mismatch"):
        products.multiply(a, b, numpy.zeros((96, 64), numpy.float32))


def test_threads_have_their_own_plans_and_one_count():
    a, b = numbers(8, 64, 64), numbers(8, 64, 64)
    expected, before = gemm.products(a, b), engine.get_num_threads()
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        for found in pool.map(lambda _: gemm.products(a, b), range(64)):
            numpy.testing.assert_array_equal(found, expected)
    try:
        for count in (2, 1):
            engine.set_num_threads(count)
            gemm.product(a[0], b[0])
            assert onednn.found()._c.omp_get_max_threads() == count
    finally:
        engine.set_num_threads(before)


def test_a_forked_process_multiplies():
    a = numbers(256, 256)
    expected, child = products.matmul(a, a), os.fork()
    if child == 0:  # OpenMP's threads have stayed in the parent
        os._exit(0 if numpy.allclose(products.matmul(a, a), expected, atol=1e-3) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_training_gives_the_same_with_and_without():
    """Linear layers, attention and an LSTM: values and gradients."""

    def trained() -> list[numpy.ndarray]:
        engine.manual_seed(0)
        layers = [
            engine.nn.Linear(128, 128),
            engine.nn.MultiheadAttention(128, 4, batch_first=True),
            engine.nn.LSTM(128, 128, batch_first=True),
        ]
        x = engine.randn(8, 32, 128, requires_grad=True)
        y = layers[0](x)
        y = layers[2](layers[1](y, y, y)[0])[0]
        y.square().sum().backward()
        return [y.detach().numpy(), x.grad.numpy(), *(p.grad.numpy() for layer in layers for p in layer.parameters())]

    with mkldnn.flags(enabled=False):
        expected = trained()
    for found, one in zip(trained(), expected, strict=True):
        assert abs(found - one).max() <= 2e-5 * abs(one).max()
