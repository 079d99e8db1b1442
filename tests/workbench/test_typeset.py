"""Formulas: golden ones, every op of the registry, three depths, and users' strings as text."""

from __future__ import annotations

import unicodedata

import numpy
import pytest
from walked import leaf

import engine
from engine.base import observe
from engine.core.op import registry
from grouping import grouped
from workbench.formulas import notation, symbols, typeset
from workbench.formulas.typeset import Operand
from workbench.recording.recorder import Recorder
from workbench.session.session import Session

TAGS = {"mrow", "mi", "mn", "mo", "mtext", "mfrac", "msup", "msub", "msubsup", "mover", "munder", "munderover", "msqrt", "mspace"}
TAGS |= {"mtable", "mtr", "mtd"}


def check_tree(tree) -> None:
    """MathML of the allowed tags; token elements hold text and the others hold trees."""
    tag, *parts = tree
    assert tag in TAGS
    if tag in ("mi", "mn", "mo", "mtext"):
        assert len(parts) == 1 and isinstance(parts[0], str)
        return
    for part in parts:
        assert isinstance(part, list)
        check_tree(part)
    if tag in ("mfrac", "msup", "msub", "mover", "munder"):
        assert len(parts) == 2


def operands(*parts) -> list[Operand]:
    return [Operand("", numpy.shape(p), numpy.asarray(p), i) for i, p in enumerate(parts)]


def forward(op: str, *parts, out=0.0, **attrs) -> str:
    return typeset.as_text(typeset.forward(registry[op], attrs, operands(*parts), Operand("", numpy.shape(out), out, "out")).symbols)


def backward(op: str, i: int, *parts, out=0.0, **attrs) -> str:
    output = Operand("", numpy.shape(out), out, "out")
    return typeset.as_text(typeset.backward(registry[op], attrs, operands(*parts), output, i, numpy.asarray(out), None).symbols)


M, V = numpy.ones((2, 3)), numpy.ones(3)


@pytest.mark.parametrize(
    ("made", "formula"),
    [
        (lambda: forward("add", M, M, out=M), "z = x + y"),
        (lambda: forward("mul", M, M, out=M), "z = x ⊙ y"),
        (lambda: forward("mul", 2.0, 3.0), "z = x · y"),
        (lambda: forward("matmul", M, M.T, out=M @ M.T), "z = x y"),
        (lambda: forward("exp", M, out=M), "z = e^x"),
        (lambda: forward("tanh", M, out=M), "z = tanh(x)"),
        (lambda: forward("relu", M, out=M), "z = max(0, x)"),
        (lambda: forward("sqrt", M, out=M), "z = √(x)"),
        (lambda: forward("div", M, M, out=M), "z = x/y"),
        (lambda: forward("linear", M, numpy.ones((4, 3)), numpy.ones(4), out=numpy.ones((2, 4))), "z = x W⊤ + b"),
        (lambda: forward("mean", M), "z = 1/6∑x"),
        (lambda: forward("sum", M, out=V, dim=0), "z = ∑_dim 0x"),
        (lambda: forward("softmax", M, out=M, dim=1), "z = (e^x)/(∑_dim 1e^x)"),
        (lambda: backward("mul", 0, M, M, out=M), "x̄ += z̄ ⊙ y"),
        (lambda: backward("tanh", 0, M, out=M), "x̄ += z̄ ⊙ (1 − z^2)"),
        (lambda: backward("matmul", 0, M, M.T, out=M @ M.T), "x̄ += z̄ y⊤"),
        (lambda: backward("matmul", 1, M, M.T, out=M @ M.T), "ȳ += x⊤ z̄"),
        (lambda: backward("add", 1, M, V, out=M), "ȳ += ∑_dim 0z̄"),
        (lambda: backward("softmax", 0, M, out=M, dim=1), "x̄ += z ⊙ (z̄ − ∑_dim 1(z̄ ⊙ z))"),
    ],
)
def test_golden_formulas(made, formula):
    assert unicodedata.normalize("NFC", made()) == unicodedata.normalize("NFC", formula)


@grouped("name", list(registry), by=lambda name: registry[name].__module__)
def test_every_op_and_every_rule_can_be_written(name):
    op = registry[name]
    for sample in op.samples or ((),):
        shapes = [s for s in sample if isinstance(s, tuple)]
        parts = [Operand("", s, None, i) for i, s in enumerate(shapes)]
        inputs = parts if op.variadic else (parts + [None] * len(op.inputs))[: len(op.inputs)]
        output = Operand("", shapes[0] if shapes else (), None, "out")
        rules = [typeset.forward(op, {}, inputs, output)]
        for i, x in enumerate(inputs):
            if x is not None and op.rules[0 if op.variadic else i] is not None:
                rules.append(typeset.backward(op, {}, inputs, output, i, None, None))
        for rule in rules:
            check_tree(rule.symbols)
            check_tree(rule.shapes)
            assert len(typeset.as_text(rule.symbols)) < 400


def test_shapes_stand_at_the_symbols():
    rules = typeset.forward(registry["matmul"], {}, operands(M, M.T), Operand("", (2, 2), None, "out"))
    assert typeset.as_text(rules.shapes) == "z_2×2 = x_2×3 y_3×2"


def test_numbers_are_written_while_they_are_few():
    x = operands(numpy.float64(0.5))
    out = Operand("h", (), numpy.tanh(0.5), "out")
    rules = typeset.forward(registry["tanh"], {}, x, out)
    assert typeset.as_text(rules.numbers) == "h = tanh(0.5) = 0.4621"
    rules = typeset.backward(registry["tanh"], {}, x, out, 0, numpy.float64(-2), numpy.float64(-1.5729))
    assert typeset.as_text(rules.numbers) == "x̄ += (−2) · (1 − 0.4621^2) = −1.573"
    assert typeset.forward(registry["tanh"], {}, operands(numpy.ones(7)), Operand("", (7,), numpy.ones(7), "out")).numbers is None


def test_a_rule_needs_only_the_values_that_it_names():
    large = Operand("", (100,), numpy.ones(100), 0)
    small = Operand("", (1,), numpy.ones(1), 1)
    output = Operand("", (100,), None, "out")
    assert typeset.backward(registry["add"], {}, [large, small], output, 1, numpy.ones(3), numpy.ones(1)).numbers is not None
    assert typeset.backward(registry["mul"], {}, [large, small], output, 1, numpy.ones(3), numpy.ones(1)).numbers is None


def test_users_names_are_used_when_short_and_are_always_text():
    x = Operand("x", (2,), None, 0)
    hostile = Operand("<script>alert(1)</script>", (2,), None, 1)
    rules = typeset.forward(registry["add"], {}, [x, hostile], Operand("W1", (2,), None, 2))
    assert typeset.as_text(rules.symbols) == "W_1 = x + y"
    check_tree(rules.symbols)
    same = typeset.forward(registry["mul"], {}, [x, x], Operand("", (2,), None, 2))
    assert typeset.as_text(same.symbols) == "z = x^2"


def test_the_same_letter_never_stands_for_two_tensors():
    a, b = Operand("y", (2,), None, 0), Operand("", (2,), None, 1)
    text = typeset.as_text(typeset.forward(registry["add"], {}, [a, b], Operand("", (2,), None, 2)).symbols)
    assert text == "z = y + x"
    named = {"others": {"x", "z"}}  # elsewhere in the program
    d = Operand("", (2,), None, 3, **named)
    text = typeset.as_text(typeset.forward(registry["tanh"], {}, [d], Operand("", (2,), None, 4, **named)).symbols)
    assert text == "u = tanh(y)"
    weight = Operand("enc.weight", (2,), None, 5, others={"enc.weight", "x"})
    rule = typeset.accumulation(weight, numpy.ones(2)).symbols
    assert typeset.as_text(rule) == "W.grad += W\u0304"  # x is the program's
    every = {"others": {*"abcdefghijklmnopqrstuvwxyz", "out", "x1"}}
    text = typeset.as_text(
        typeset.forward(registry["neg"], {}, [Operand("", (), None, 0, **every)], Operand("", (), None, 1, **every)).symbols
    )
    assert text == "x_3 = −x_2"


def test_numbers_among_the_operands_and_attributes_are_written():
    recorder = Recorder()
    with observe.observing(recorder):
        ((leaf(2, 3) * 2.5).sum(1)).reshape(2, 1)
    r = recorder.stop()
    session = Session(r)
    told = {r.op_name(i): typeset.as_text(session.forward(i).symbols) for i in range(r.count) if r.kind[i] == "op"}
    assert told["mul"] == "z = x · 2.5"
    assert told["sum"] == "z = ∑_dim 1x"
    assert "shape" in told["reshape"]


class Double(engine.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, g):
        return g * 2


def test_a_user_written_function_is_written_as_a_function():
    recorder = Recorder()
    with observe.observing(recorder):
        y = Double.apply(leaf(2))
    r = recorder.stop()
    session = Session(r)
    assert typeset.as_text(session.forward(r.find(y)).symbols) == "z = Double(x)"


def test_a_formula_stated_as_text_is_read_with_the_operands_put_in():
    x, w = symbols.Symbol(["mi", "h"]), symbols.Symbol(["mi", "W"])
    assert notation.as_text(notation.parsed("conv2d(x, w) + 1 / sqrt(x)", {"x": x, "w": w}).tree) == "conv2d(h, W) + (1)/(√(h))"
