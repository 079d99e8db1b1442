"""`engine.testing`: what assert_close says, against PyTorch's stored answers, and the tensors that make_tensor draws."""

from __future__ import annotations

import json
import math

import pytest

import closeness
import engine
from engine.testing import assert_close, make_tensor

STORED = json.loads(closeness.STORED.read_text(encoding="utf-8"))


def test_every_call_has_an_answer():
    assert list(STORED) == closeness.CALLS


@pytest.fixture(scope="module")
def found():
    import engine.testing

    return closeness.answers(engine)


@pytest.mark.parametrize("call", closeness.CALLS)
def test_it_says_what_pytorch_says(call, found):
    assert found[call] == STORED[call]


def test_tolerances_apply_where_the_values_meet_them():
    one = engine.tensor([1.0])
    assert_close(one * (1 + 1e-6), one)
    assert_close(one + 2e-5, one, rtol=0, atol=3e-5)
    with pytest.raises(AssertionError, match=r"up to 1e-05 allowed"):
        assert_close(one + 2e-5, one)
    with pytest.raises(RuntimeError, match="rtol must be greater than or equal to zero"):
        assert_close(one, one, rtol=-1, atol=0)
    with pytest.raises(AssertionError, match=r"Greatest absolute difference: 0\.1.* at index \(0,\)"):
        assert_close(engine.tensor([1 + 1j]), engine.tensor([1 + 1.1j]))


def test_gradients_and_devices_do_not_matter():
    x = engine.ones(2, requires_grad=True)
    assert_close(x * 2, engine.full((2,), 2.0))


def test_allclose_warns():
    with pytest.warns(FutureWarning, match="deprecated"):
        engine.testing.assert_allclose([1.0], engine.ones(1))


@pytest.mark.parametrize(
    ("dtype", "low", "high"),
    [(d, -9, 9) for d in (engine.float16, engine.bfloat16, engine.float32, engine.float64, engine.int8, engine.int64)]
    + [(engine.uint8, 0, 9), (engine.bool, 0, 1)],
)
def test_a_tensor_is_drawn_from_the_whole_usual_range(dtype, low, high):
    x = make_tensor(40, 50, dtype=dtype, device="cpu")
    assert x.dtype is dtype and x.shape == (40, 50)
    values = x.double()
    assert low <= values.min().item() <= low + 0.5 and high - 0.5 <= values.max().item() <= high
    if not dtype.is_floating_point:
        assert len(set(values.flatten().tolist())) == high - low + 1


def test_how_a_tensor_is_asked_for():
    x = make_tensor((3, 4), dtype=engine.complex64, device="cpu", low=2, high=3, requires_grad=True)
    assert x.requires_grad and x.is_leaf
    assert x.real.min().item() >= 2 and x.imag.max().item() <= 3
    apart = make_tensor(3, 4, dtype=engine.float32, device="cpu", noncontiguous=True)
    assert apart.stride() == (8, 2) and not apart.is_contiguous()
    assert make_tensor((), dtype=engine.float32, device="cpu", noncontiguous=True).shape == ()
    assert make_tensor(50, dtype=engine.int64, device="cpu", low=0, high=2, exclude_zero=True).tolist() == [1] * 50
    assert set(make_tensor(200, dtype=engine.int64, device="cpu", low=1.5, high=4.5).tolist()) == {2, 3, 4}
    assert make_tensor(0, 3, dtype=engine.float32, device="cpu").shape == (0, 3)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"low": 4, "high": 3}, "`low` must be less than `high`, but got 4 >= 3"),
        ({"low": math.nan}, "`low` and `high` cannot be NaN"),
        ({"dtype": engine.int64, "requires_grad": True}, "`requires_grad=True` is not supported for boolean and integral dtypes"),
        ({"noncontiguous": True, "memory_format": engine.channels_last}, "mutually exclusive"),
        ({"dtype": engine.int64, "low": 2.5, "high": 2.7}, "there is no int64"),
    ],
)
def test_what_cannot_be_drawn_is_refused(options, message):
    with pytest.raises(ValueError, match=message):
        make_tensor(3, **{"dtype": engine.float32, "device": "cpu", **options})
