"""What stands on a node's box: scalars, health, what the tape keeps by the rules of calculus, views and versions."""

from __future__ import annotations

import json

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

import engine
import workbench as wb
from workbench import protocol
from workbench.graph import faces


def asked(session, *names):
    """The faces of the rows with these names, through a request as a view sends it."""
    r = session.recording
    rows = [next(row for row in reversed(range(r.count)) if r.names.get(row) == name) for name in names]
    ((message, _),) = session.handle(protocol.AskFaces(7, rows).to_json())
    json.dumps(message, allow_nan=False)
    assert message["type"] == "faces" and message["re"] == 7
    return message["faces"]


def test_micrograds_lecture_graph_has_its_numbers():
    # The expression of Karpathy's lecture: a = 2, b = -3, c = 10, f = -2; d = a * b + c; L = d * f = -8.
    with wb.record() as session:
        a, b, c, f = (engine.tensor(float(x), requires_grad=True) for x in (2, -3, 10, -2))
        e = a * b
        d = e + c
        loss = d * f
    found = asked(session, "a", "e", "d", "loss")
    assert [face["value"] for face in found] == [2.0, -6.0, 4.0, -8.0]
    assert [face["saves"] for face in found] == [[], ["input (input 0)", "other (input 1)"], [], ["input (input 0)", "other (input 1)"]]
    assert loss.item() == -8.0


def test_only_what_a_needed_gradient_needs_is_saved():
    with wb.record() as session:
        x, w = engine.randn(3), engine.randn(3, requires_grad=True)
        product = x * w  # d/dw needs x; nobody asks for d/dx, which would need w
        squashed = product.tanh()  # d tanh = 1 - out ** 2
        total = squashed.sum()  # noqa: F841 - the recorder names it; it needs the shape alone
    found = asked(session, "product", "squashed", "total")
    assert [(face["kept_inputs"], face["kept_result"]) for face in found] == [([0], False), ([], True), ([], False)]
    kept = [face["saves"] for face in found]
    assert kept == [["input (input 0)"], ["out (the result)"], []]


def test_infinities_and_nan_are_words_and_counted():
    with wb.record() as session:
        x = engine.tensor([1.0, 0.0, -1.0, -0.0], requires_grad=True)
        y = x / engine.zeros(4)  # inf, nan, -inf, nan
        top = y[0]  # noqa: F841
        hole = y[1]  # noqa: F841
        bottom = y[2]  # noqa: F841
    face, first, second, third = asked(session, "y", "top", "hole", "bottom")
    assert face["health"] == [2, 2, 0, 0, 0] and face["value"] is None
    assert [one["value"] for one in (first, second, third)] == ["inf", "nan", "-inf"]


def test_views_say_whose_memory_and_in_place_writes_count():
    with wb.record() as session:
        x = engine.zeros(2, 3)
        rows = x[0]  # noqa: F841
        x.add_(1.0)
        copy = x * 2
    r = session.recording
    view = asked(session, "rows")[0]
    written = next(row for row in range(r.count) if r.note[row] == "in place")
    assert view["base"] == written  # the view shows the memory as it is since the write
    first = next(row for row in range(r.count) if r.op_name(row) == "getitem")
    assert r.kind[faces.faces(r, [first])[0].base] == "input"
    assert faces.faces(r, [written])[0].version == 1
    assert asked(session, "copy")[0]["base"] == -1 and copy.shape == (2, 3)


def test_rows_that_are_not_there_are_left_out_and_large_tensors_uncounted():
    with wb.record() as session:
        large = engine.ones(faces.MOST + 1) * 2
    ((message, _),) = session.handle(protocol.AskFaces(1, [-1, 10**9]).to_json())
    assert message["faces"] == []
    (face,) = asked(session, "large")
    assert face["health"] == [] and face["value"] is None and large.numel() == faces.MOST + 1


@given(arrays.arrays(numpy.float32, st.integers(2, 40), elements=st.floats(width=32, allow_nan=True, allow_infinity=True)))
def test_counts_are_what_python_counts(array):
    numbers = [float(x) for x in array]
    nan = sum(x != x for x in numbers)
    inf = sum(abs(x) == float("inf") for x in numbers)
    minus = sum(float("-inf") < x < 0 for x in numbers)
    zero = sum(x == 0 for x in numbers)
    assert faces.counts(array) == [nan, inf, minus, zero, len(numbers) - nan - inf - minus - zero]


@pytest.mark.parametrize(("value", "expected"), [(3, 3), (True, True), (2.5, 2.5), ("x", None), (None, None), (numpy.ones(2), None)])
def test_a_scalar_is_one_number(value, expected):
    assert faces.scalar(value) == expected
