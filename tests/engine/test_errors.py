"""What the engine says when it refuses: PyTorch's error types, with op, rule, every operand's shape and the user's line."""

from __future__ import annotations

import gc
import importlib
import inspect
import os
import weakref

import numpy
import pytest

import engine
from engine.base import errors
from grouping import grouped


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


@grouped(
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
        (lambda: A + "a", TypeError, ["+", "'Tensor' and 'str'"]),  # Python's words, as of PyTorch's tensors
        (lambda: engine.add(A, "a"), TypeError, ["add", "'a'"]),
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
    x = engine.tensor(numpy.ones(2), requires_grad=True)
    y = x.exp()
    z = y.sum()
    line = here().replace(str(inspect.currentframe().f_lineno), str(inspect.currentframe().f_lineno + 1))
    y.add_(1)
    text = message(engine.base.errors.SpoiledError, z.backward)
    assert "exp saved 'out' of shape (2,)" in text and f"add_ overwrote it at {line}" in text and "version 1" in text


def test_a_freed_graph_names_the_op():
    x = engine.tensor(numpy.ones(2), requires_grad=True)
    y = x.exp().sum()
    y.backward()
    assert "exp" in message(engine.base.errors.GraphFreedError, y.backward)


def test_a_non_scalar_says_its_shape():
    assert "(2, 3)" in message(RuntimeError, lambda: engine.ones(2, 3, requires_grad=True).backward())


def test_code_of_a_notebook_cell_is_called_so():
    code = compile("x = 1\nA + B\n", "<ipython-input-3-abc>", "exec")
    text = message(RuntimeError, lambda: exec(code, {"A": A, "B": B}))
    assert "(line 2 of the cell)" in text


def test_an_observer_is_told_of_the_failure():
    class Log(engine.base.observe.Observer):
        seen = []

        def failed(self, op, inputs, attrs, error):
            self.seen.append((op.name, type(error)))

    with engine.base.observe.observing(Log()), pytest.raises(RuntimeError):
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


@pytest.mark.parametrize(
    ("data", "kind", "words"),
    [
        ([[1, 2], [3]], ValueError, "expected sequence of length 2 at dim 1 (got 1)"),
        ([[1.0], 2.0], TypeError, "not a sequence"),
        ([1, [2]], TypeError, "'list' object cannot be interpreted"),
    ],
)
def test_ragged_data(data, kind, words):
    assert words in message(kind, lambda: engine.tensor(data))


def test_data_that_is_no_number():
    assert "str" in message(ValueError, lambda: engine.tensor(["a"]))
    assert "NoneType" in message(RuntimeError, lambda: engine.tensor([None]))


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


@grouped(
    ("call", "told"),
    [
        (lambda: engine.relu(1), "relu(): argument 'input' (position 1) must be Tensor, not int"),
        (lambda: engine.exp(1.5), "exp(): argument 'input' (position 1) must be Tensor, not float"),
        (lambda: engine.sum(1), "sum(): argument 'input' (position 1) must be Tensor, not int"),
        (lambda: engine.logical_not(True), "logical_not(): argument 'input' (position 1) must be Tensor, not bool"),
        (lambda: engine.softmax(1, 0), "softmax(): argument 'input' (position 1) must be Tensor, not int"),
        (lambda: engine.tril(1, 0), "tril(): argument 'input' (position 1) must be Tensor, not int"),
        (lambda: engine.roll(1, 1), "roll(): argument 'input' (position 1) must be Tensor, not int"),
        (lambda: engine.atan2(1, 1), "atan2(): argument 'input' (position 1) must be Tensor, not int"),
        (lambda: engine.matmul(A, 1), "matmul(): argument 'other' (position 2) must be Tensor, not int"),
        (lambda: engine.argmax(1), "argmax(): argument 'input' (position 1) must be Tensor, not int"),
        (lambda: engine.where(1), "where(): argument 'condition' (position 1) must be Tensor, not int"),
        (lambda: engine.unique(1), "unique(): argument 'input' (position 1) must be Tensor, not int"),
        (lambda: engine.einsum(1, A), "einsum(): argument 'equation' (position 1) must be str, not int"),
        (lambda: engine.nn.functional.gelu(1), "gelu(): argument 'input' (position 1) must be Tensor, not int"),
    ],
)
def test_a_number_where_a_tensor_belongs(call, told):
    """The texts are PyTorch 2.13's, which are followed by the user's line here."""
    assert message(TypeError, call).startswith(told)


def test_einsum_of_nothing():
    assert "at least one operand" in message(ValueError, lambda: engine.einsum("i"))


@pytest.mark.parametrize("dtype", [engine.int64, engine.bool, engine.uint8])
@pytest.mark.parametrize(
    ("call", "kind"),
    [
        (lambda F, x, image: F.glu(x), NotImplementedError),
        (lambda F, x, image: F.layer_norm(x, (4,)), NotImplementedError),
        (lambda F, x, image: F.rms_norm(x, (4,)), NotImplementedError),
        (lambda F, x, image: F.group_norm(image, 2), NotImplementedError),
        (lambda F, x, image: F.batch_norm(image, None, None, training=True), NotImplementedError),
        (lambda F, x, image: F.instance_norm(image), NotImplementedError),
        (lambda F, x, image: F.interpolate(image, scale_factor=2, mode="area"), NotImplementedError),
        (lambda F, x, image: F.adaptive_avg_pool2d(image, 2), NotImplementedError),
        (lambda F, x, image: F.grid_sample(image, engine.zeros(1, 2, 2, 2), align_corners=False), NotImplementedError),
        (lambda F, x, image: F.gumbel_softmax(x), RuntimeError),
    ],
)
def test_whole_numbers_have_no_kernel(dtype, call, kind):
    """The types of these errors are PyTorch 2.13's."""
    with pytest.raises(kind, match=dtype.name):
        call(engine.nn.functional, engine.ones(2, 4, dtype=dtype), engine.ones(1, 2, 4, 4, dtype=dtype))


def test_kernels_that_some_whole_numbers_have():
    F, image, yes = engine.nn.functional, engine.ones(1, 2, 4, 4, dtype=engine.uint8), engine.ones(1, 2, 4, 4, dtype=engine.bool)
    for mode in ("nearest", "nearest-exact", "bilinear", "bicubic"):
        assert F.interpolate(image, scale_factor=2, mode=mode).dtype is engine.uint8
        with pytest.raises(NotImplementedError, match="int64"):
            F.interpolate(image.long(), scale_factor=2, mode=mode)
    assert F.unfold(yes, 2).dtype is engine.bool
    for call in (lambda: F.unfold(image, 2), lambda: F.fold(engine.ones(1, 8, 9, dtype=engine.int64), (4, 4), 2)):
        with pytest.raises(NotImplementedError, match="not implemented for"):
            call()
    for call in (lambda: F.linear(yes, yes[0, 0]), lambda: yes @ yes, lambda: engine.mm(yes[0, 0], yes[0, 0])):
        with pytest.raises(NotImplementedError, match="not implemented for bool"):
            call()
    assert F.linear(image.long(), image[0, 0].long()).dtype is engine.int64


def test_warnings_point_at_the_programs_line():
    with pytest.warns(UserWarning, match="requires_grad=True") as told:
        engine.utils.checkpoint.checkpoint(lambda x: x * 2, engine.ones(1), use_reentrant=True)
    assert told[0].filename == __file__


@pytest.mark.parametrize(
    "fails",
    [
        lambda h: h + engine.ones(7),
        lambda h: h @ engine.ones(7),
        lambda h: h.view(7, 3),
        lambda h: h[2000],
        lambda h: engine.cat([h, engine.ones(1, 7)]),
        lambda h: h.mul_(engine.ones(7)),
        lambda h: engine.nn.Linear(3, 3)(h),
        lambda h: h.sum(5),
        lambda h: engine.add(h, "a"),
        lambda h: h.__setitem__(slice(0, 3), engine.ones(7)),
        lambda h: engine.linalg.inv(h),
        lambda h: ~h,
        lambda h: h.backward(),
        lambda h: engine.autograd.grad(h.sum(), engine.ones(2)),
    ],
)
def test_what_failed_holds_nothing(fails):
    """No cycle through the error's traceback, in which the inputs would wait for the garbage collector."""
    h = engine.ones(10, requires_grad=True) * 1
    held = weakref.ref(h)
    gc.disable()
    try:
        with pytest.raises((RuntimeError, IndexError, TypeError)):
            fails(h)
        del h
        assert held() is None
    finally:
        gc.enable()
