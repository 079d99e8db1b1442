"""What the engine says when it refuses: PyTorch's error types, with op, rule, every operand's shape and the user's line."""

from __future__ import annotations

import importlib
import inspect
import os

import numpy
import pytest

import engine
from engine import Tensor, errors


def message(kind, call):
    """The text of the error; `{here}` in an expectation stands for this file and the line of the call."""
    with pytest.raises(kind) as caught:
        call()
    assert type(caught.value) in (kind, *kind.__subclasses__()), type(caught.value)
    return str(caught.value)


def here():
    frame = inspect.currentframe().f_back
    return f"test_errors.py, line {frame.f_lineno}"


A, B = engine.ones(2, 3), engine.ones(4, 5)


def test_matmul_names_op_rule_shapes_and_line():
    line, text = here(), message(RuntimeError, lambda: A @ B)
    assert text.startswith("matmul: ") and "the inner sizes must agree, 3 != 4" in text
    assert "input is (2, 3) float32, other is (4, 5) float32" in text
    assert f"({line})" in text


def test_the_line_is_the_users_also_from_inside_a_function():
    def model(x):
        return x + B

    text = message(RuntimeError, lambda: model(A))
    assert f"test_errors.py, line {model.__code__.co_firstlineno + 1}" in text


@pytest.mark.parametrize(
    ("call", "kind", "words"),
    [
        (lambda: A + B, RuntimeError, ["add: the shapes do not broadcast: 2 and 4 at dimension 0", "(2, 3)", "(4, 5)"]),
        (lambda: A.reshape(5), RuntimeError, ["reshape", "(2, 3)", "5"]),
        (lambda: A.reshape(-1, -1), RuntimeError, ["reshape", "-1"]),
        (lambda: A.view(4, 2), RuntimeError, ["view", "(2, 3)"]),
        (lambda: A.t().view(6), RuntimeError, ["view", "reshape"]),
        (lambda: A.expand(3, 3), RuntimeError, ["expand", "(2, 3)"]),
        (lambda: A.sum(2), IndexError, ["Dimension out of range", "[-2, 1]", "2"]),
        (lambda: A.softmax(-3), IndexError, ["Dimension out of range", "[-2, 1]", "-3"]),
        (lambda: A[5], IndexError, ["5", "(2, 3)"]),
        (lambda: A[0, 0, 0], IndexError, ["(2, 3)"]),
        (lambda: engine.cat((A, B)), RuntimeError, ["cat", "(2, 3)", "(4, 5)"]),
        (lambda: engine.cat(()), (RuntimeError, ValueError), ["cat"]),
        (lambda: engine.stack((A, B)), RuntimeError, ["stack", "(2, 3)", "(4, 5)"]),
        (lambda: A.t() @ A.double(), RuntimeError, ["matmul", "dtype", "float32", "float64"]),
        (lambda: A.gather(0, engine.ones(2, 3)), RuntimeError, ["gather", "int"]),
        (lambda: engine.ones(2, dtype=engine.int64).mean(), RuntimeError, ["mean", "floating point"]),
        (lambda: A + "a", TypeError, ["add", "'a'"]),
        (lambda: A.sum(dim=0, banana=1), TypeError, ["sum", "banana"]),
        (lambda: engine.where(A > 0, A), (TypeError, RuntimeError), ["where"]),
        (lambda: A.permute(0, 0), RuntimeError, ["permute"]),
        (lambda: A.squeeze(4), IndexError, ["Dimension out of range"]),
        (lambda: engine.nn.functional.linear(A, B), RuntimeError, ["(2, 3)", "(4, 5)"]),
        (lambda: engine.nn.functional.conv2d(engine.ones(1, 3, 8, 8), engine.ones(4, 2, 3, 3)), RuntimeError,
         ["conv2d", "(1, 3, 8, 8)", "(4, 2, 3, 3)"]),
        (lambda: engine.nn.functional.cross_entropy(A, engine.ones(2)), (RuntimeError, ValueError), ["(2, 3)", "(2,)"]),
        (lambda: engine.nn.functional.embedding(engine.tensor([7]), A), IndexError, ["embedding", "7"]),
    ],
)  # fmt: skip
def test_words(call, kind, words):
    with pytest.raises(kind) as caught:
        call()
    text = str(caught.value)
    assert [w for w in words if w not in text] == [], text
    assert "test_errors.py, line" in text or isinstance(caught.value, TypeError), text


def test_the_backends_own_error_is_the_cause():
    with pytest.raises(RuntimeError) as caught:
        A + B
    assert isinstance(caught.value.__cause__, ValueError)


def test_a_chosen_attribute_is_told():
    assert "dim=7" in message(IndexError, lambda: A.softmax(7))


def test_a_spoiled_value_names_op_and_line():
    x = Tensor(numpy.ones(2), requires_grad=True)
    y = x.exp()
    z = y.sum()
    line = here().replace(str(inspect.currentframe().f_lineno), str(inspect.currentframe().f_lineno + 1))
    y.add_(1)
    text = message(engine.errors.SpoiledError, z.backward)
    assert "exp saved 'out' of shape (2,)" in text and f"add_ wrote over it at {line}" in text and "version 1" in text


def test_a_freed_graph_names_the_op():
    x = Tensor(numpy.ones(2), requires_grad=True)
    y = x.exp().sum()
    y.backward()
    assert "exp" in message(engine.errors.GraphFreedError, y.backward)


def test_a_non_scalar_says_its_shape():
    assert "(2, 3)" in message(RuntimeError, lambda: engine.ones(2, 3, requires_grad=True).backward())


def test_code_of_a_notebook_cell_is_called_so():
    code = compile("x = 1\nA + B\n", "<ipython-input-3-abc>", "exec")
    text = message(RuntimeError, lambda: exec(code, {"A": A, "B": B}))
    assert "(line 2 of the cell)" in text


def test_an_observer_is_told_of_the_failure():
    class Log(engine.observe.Observer):
        seen = []

        def failed(self, op, inputs, attrs, error):
            self.seen.append((op.name, type(error)))

    with engine.observe.observing(Log()), pytest.raises(RuntimeError):
        A + B
    assert Log.seen == [("add", RuntimeError)]


def test_an_error_inside_an_op_leaves_the_tensor_alone():
    x = engine.zeros(2, 3)
    with pytest.raises(RuntimeError):
        x.add_(B)
    with pytest.raises((RuntimeError, IndexError)):
        x[0, 5] = 1
    assert x.sum().item() == 0 and x._version == 0


def test_unknown_names_suggest_the_near_one():
    assert "softmax" in message(AttributeError, lambda: engine.sofmax)


@pytest.mark.parametrize("data", [[[1, 2], [3]], [[1.0], 2.0]])
def test_ragged_data(data):
    assert "equal length" in message(ValueError, lambda: engine.tensor(data))


def test_data_that_is_no_number():
    assert "str" in message(TypeError, lambda: engine.tensor(["a"]))
    assert "NoneType" in message(TypeError, lambda: engine.tensor([None]))


def test_truth_of_many_elements():
    assert "ambiguous" in message(RuntimeError, lambda: bool(A))
    assert "6 elements" in message(RuntimeError, lambda: A.item())


def test_the_lines_of_a_hidden_tool_are_not_the_users(tmp_path, monkeypatch):
    (tmp_path / "tool.py").write_text("def call(a, b):\n    return a @ b\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(errors, "_hidden", errors._hidden)
    call = importlib.import_module("tool").call
    assert "(tool.py, line 2)" in message(RuntimeError, lambda: call(A, B))
    errors.hide(str(tmp_path) + os.sep)
    line, text = here(), message(RuntimeError, lambda: call(A, B))
    assert f"({line})" in text
