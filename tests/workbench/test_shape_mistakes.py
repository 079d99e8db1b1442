"""Shapes and devices that do not fit: what is said, marked and offered."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy
import pytest
from mistakes import (
    Program,
    checked,
    one,
)

import engine
import engine.data
import engine.nn.functional as F
from engine import nn
from engine.base import observe
from workbench.checks import shapes
from workbench.checks.look import flags, look
from workbench.recording.recorder import Recorder


def works(op: Callable[..., Any], *shapes: tuple[int, ...]) -> bool:
    try:
        op(*(numpy.zeros(s, "float32") for s in shapes))
    except ValueError:
        return False
    return True


def test_shapes_clash_exactly_where_numpy_refuses_them_and_what_is_offered_works() -> None:
    rng = numpy.random.default_rng(0)
    clashes = fixes = 0
    for _ in range(600):
        a, b = (tuple(int(n) for n in rng.choice([1, 2, 3, 4], size=rng.integers(1, 4))) for _ in range(2))
        for op, ufunc, elementwise in (("matmul", numpy.matmul, False), ("add", numpy.add, True)):
            found = shapes.clash(op, [a, b], elementwise)
            assert (found is None) == works(ufunc, a, b), (op, a, b)
            if found is None:
                continue
            clashes += 1
            code = shapes.fix(op, [a, b], ["a", "b"], elementwise, {})
            if code:
                fixes += 1
                changed = {"a": engine.ones(*a), "b": engine.ones(*b)}
                changed[code[0]] = eval(code, {}, changed)
                assert works(ufunc, tuple(changed["a"].shape), tuple(changed["b"].shape)), (op, a, b, code)
    assert clashes > 200 and fixes > clashes / 4


@pytest.mark.parametrize(
    ("program", "marked", "fix"),
    [
        (lambda: engine.ones(5, 8) @ engine.ones(3, 8), [[1], [0]], ".T"),
        (lambda: engine.ones(4, 3) + engine.ones(4), [[1], [0]], ".unsqueeze(-1)"),
        (lambda: nn.Conv2d(3, 2, 3)(engine.ones(1, 8, 8, 3)), [[1], [1], []], ".movedim(-1, 1)"),
        (lambda: nn.Linear(64, 10)(engine.ones(2, 4, 4, 4)), [[3], [1], []], ".flatten(1)"),
        (lambda: engine.cat([engine.ones(2, 3), engine.ones(2, 4)]), [[1], [1]], "print the shapes"),
        (lambda: F.binary_cross_entropy_with_logits(engine.ones(4, 1), engine.ones(4)), [[0, 1], [0]], ".unsqueeze(-1)"),
        (lambda: F.binary_cross_entropy(engine.ones(4, 1), engine.ones(4)), [[0, 1], [0]], ".unsqueeze(-1)"),
        (lambda: F.cross_entropy(engine.ones(4, 3), engine.arange(5)), [[0], [0]], "print the shapes"),
        (lambda: F.nll_loss(engine.ones(4, 3), engine.arange(5)), [[0], [0]], "print the shapes"),
        (lambda: engine.ones(4, 3).reshape(5, 3), [[0, 1]], "reshape"),
    ],
)
def test_axes_that_do_not_fit_are_marked_and_a_view_that_fits_is_offered(program: Program, marked: list, fix: str) -> None:
    finding = one(checked(program), "shape-mismatch")
    assert [operand.marked for operand in finding.operands] == marked
    assert fix in finding.fix


def test_operands_that_do_not_fit_are_flagged_in_the_graph() -> None:
    report = checked(lambda: engine.ones(5, 8).exp() @ engine.ones(3, 8).exp())
    row = one(report, "shape-mismatch").node
    told = [(flag.glyph, flag.words) for flag in flags(report.findings, row)]
    exp = f"exp, line {test_operands_that_do_not_fit_are_flagged_in_the_graph.__code__.co_firstlineno + 1}"
    assert told == [("≠", f"axis 1 (size 8) of {exp} does not fit"), ("≠", f"axis 0 (size 3) of {exp} does not fit")]


def test_a_transpose_too_many_is_taken_back() -> None:
    w, h = engine.ones(8, 3), engine.ones(5, 8)
    finding = one(checked(lambda: h @ w.T), "shape-mismatch")
    assert finding.fix.endswith(", without the transpose")


def test_operands_on_different_devices_are_told() -> None:
    """The recorder hears of a refusal as it would from a machine with a GPU."""
    recorder = Recorder()
    x, w = engine.ones(2, 3), engine.ones(3, 2)
    with observe.observing(recorder):
        recorder.begins()
        said = "matmul: Expected all tensors to be on the same device, but found at least two devices, cpu and cuda:0!"
        recorder.failed(engine.matmul.op, (x, w), {}, RuntimeError(said))
    finding = look(recorder.stop()).findings[0]
    assert (
        finding.code == "device-mismatch" and "model.to(device)" in finding.fix and [o.shape for o in finding.operands] == [[2, 3], [3, 2]]
    )
