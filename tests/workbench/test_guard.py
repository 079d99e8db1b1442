"""wb.guard stops at the op, or the backward step, that makes a NaN or an infinity."""

from __future__ import annotations

from pathlib import Path

import pytest

import engine
import engine.data
import workbench as wb
from engine.base import observe


def test_the_guard_stops_at_the_very_op_with_its_operands() -> None:
    x = engine.tensor([4.0, -1.0], requires_grad=True)
    with (
        pytest.raises(
            FloatingPointError, match=r"log made NaN.*result\[1\]; input is \(2,\) float32, values 4, −1, input\[1\] = −1\."
        ) as raised,
        wb.guard(),
    ):
        y = x * 1
        y.log().sum()
        raise AssertionError("it went on")
    assert isinstance(raised.value, RuntimeError)  # what PyTorch's detect_anomaly raises
    assert observe.current is None


def test_the_guard_stops_backward_at_the_rule() -> None:
    x = engine.tensor([4.0, 0.0], requires_grad=True)
    with wb.guard():
        loss = x.sqrt().sum()
        with pytest.raises(
            FloatingPointError,
            match=r"backward step of sqrt made \+Inf.*gradient of input\[1\], by its rule d_input = .*upstream gradient g is \(2,\)",
        ):
            loss.backward()


def test_the_guard_looks_for_what_it_is_told_to_and_lets_masks_be() -> None:
    big = engine.tensor([1000.0])
    with wb.guard(inf=False):
        big.exp()
    with wb.guard(nan=False):
        (-big).log()
    with pytest.raises(FloatingPointError, match=r"exp made \+Inf"), wb.guard():
        big.exp()
    with wb.guard():
        masked = engine.zeros(2, 2).masked_fill(engine.tensor([[False, True], [False, False]]), float("-inf"))
        assert masked.softmax(-1).tolist() == [[1.0, 0.0], [0.5, 0.5]]
        (masked + 1.0).exp()
    with pytest.raises(FloatingPointError, match="hands on"), wb.guard():
        engine.tensor([float("nan")]).mul(2)
    with pytest.raises(FloatingPointError, match="sqrt"), wb.guard():
        engine.tensor([-1.0]).sqrt_()


def test_the_guard_names_the_line_of_the_user_and_in_backward_that_of_the_op() -> None:
    lines = Path(__file__).read_text(encoding="utf-8").splitlines()
    x = engine.tensor([4.0, 0.0], requires_grad=True)
    with wb.guard():
        root = x.sqrt()  # the op
        loss = root.sum()
        with pytest.raises(FloatingPointError) as backward:
            loss.backward()
        with pytest.raises(FloatingPointError) as forward:
            (x - 1).log()  # the forward op
    number = next(at for at, text in enumerate(lines, 1) if text.endswith("# the op"))
    assert f"sqrt made +Inf (test_guard.py, line {number})" in str(backward.value)
    number = next(at for at, text in enumerate(lines, 1) if text.endswith("# the forward op"))
    assert f"log made NaN (test_guard.py, line {number})" in str(forward.value)


def test_the_guard_tells_a_recording_on() -> None:
    with wb.record() as r, wb.guard():
        x = engine.ones(3, requires_grad=True)
        (x * 2).sum().backward()
    ops = [r.recording.op_name(row) for row in range(r.recording.count)]
    assert ops.count("mul") == 1 and ops.count("sum") == 1 and len(r.recording.steps) == 3
