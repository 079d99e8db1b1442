"""`out=`: which dtypes it may have, what is resized and with which words, what is refused. PyTorch's answers, as data."""

from __future__ import annotations

import warnings

import pytest

import engine as e

# PyTorch 2.13 with a float64 `out` for a float32 result (an int32 one for int64): cast or refused
CAST = {
    "add": lambda out: e.add(e.ones(2), 1, out=out), "sin": lambda out: e.sin(e.ones(2), out=out), "sum": lambda out: e.sum(e.ones(3, 2), 0, out=out),
    "cat": lambda out: e.cat([e.ones(1), e.ones(1)], out=out), "mean": lambda out: e.mean(e.ones(3, 2), 0, out=out),
    "cumsum": lambda out: e.cumsum(e.ones(2), 0, out=out), "stack": lambda out: e.stack([e.tensor(1.0), e.tensor(1.0)], out=out),
    "clamp": lambda out: e.clamp(e.ones(2), e.zeros(2), e.ones(2), out=out), "polynomial": lambda out: e.special.legendre_polynomial_p(e.ones(2), 1, out=out),
}  # fmt: skip
EXACT = {
    "clamp": lambda out: e.clamp(e.ones(2), 0, 1, out=out),
    "mm": lambda out: e.mm(e.ones(2, 2), e.ones(2, 2), out=out), "abs": lambda out: e.abs(e.ones(2), out=out), "amax": lambda out: e.amax(e.ones(3, 2), 0, out=out),
    "inv": lambda out: e.linalg.inv(e.eye(2), out=out), "softmax": lambda out: e.softmax(e.ones(2), 0, out=out), "round": lambda out: e.round(e.ones(2), out=out),
    "where": lambda out: e.where(e.tensor([True, False]), e.ones(2), e.ones(2), out=out), "index_select": lambda out: e.index_select(e.ones(2), 0, e.tensor([0, 1]), out=out),
    "any": lambda out: e.any(e.ones(3, 2), 0, out=out), "argmax": lambda out: e.argmax(e.ones(3, 2), 0, out=out), "det": lambda out: e.linalg.det(e.eye(2), out=out),
}  # fmt: skip


@pytest.mark.parametrize("name", CAST)
def test_a_wider_dtype_takes_the_result(name):
    out = e.empty(2, dtype=e.float64)
    assert CAST[name](out) is out and out.dtype is e.float64 and bool((out != 0).all())


@pytest.mark.parametrize("name", EXACT)
def test_another_dtype_is_refused(name):
    with warnings.catch_warnings(), pytest.raises(RuntimeError, match="Expected out tensor to have dtype"):
        warnings.simplefilter("ignore")
        EXACT[name](e.empty(0, dtype=e.float64))


def test_a_narrower_kind_is_refused():
    with pytest.raises(RuntimeError, match="can't be cast"):
        e.add(e.ones(2), 1, out=e.empty(2, dtype=e.int64))
    with pytest.raises(RuntimeError, match="long int, but got int"):
        e.max(e.ones(2, 2), 0, out=(e.empty(2), e.empty(2, dtype=e.int32)))


def test_another_shape_is_resized_with_a_warning():
    out = e.empty(3)
    with pytest.warns(UserWarning, match=r"resized since it had shape \[3\], which does not match the required output shape \[2\]"):
        e.add(e.ones(2), 1, out=out)
    assert out.tolist() == [2, 2]
    out = e.empty(0)
    e.add(e.ones(2), 1, out=out)  # an empty one without
    assert out.tolist() == [2, 2]


def test_what_is_no_tensor_and_a_wrong_number():
    with pytest.raises(TypeError, match="argument 'out' must be Tensor, not int"):
        e.sin(e.ones(2), out=3)
    with pytest.raises(TypeError, match="2 tensors"):
        e.sort(e.ones(2), out=e.ones(2))
    with pytest.raises(RuntimeError, match="don't support automatic differentiation"):
        e.sin(e.ones(2, requires_grad=True), out=e.empty(2))


def test_a_spread_far_smaller_than_the_mean_is_normalised_precisely():
    x = (e.randn(64, 3, generator=e.Generator().manual_seed(1)).double() * 1e-6 + 1).float()
    wanted = x.double() - x.double().mean(0)
    wanted = wanted / (wanted * wanted).mean(0).sqrt()
    found = e.nn.functional.batch_norm(x, None, None, training=True, eps=1e-20)
    assert float((found.double() - wanted).abs().max()) < 1e-5
