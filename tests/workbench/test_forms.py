"""The rules of the ops that lessons are about read like a textbook: no name of a kernel, no argument of the engine's own."""

from __future__ import annotations

from unicodedata import normalize

import pytest
from walked import leaf

import engine
from engine import nn
from workbench.backward.stepper import Stepper
from workbench.formulas.typeset import as_text
from workbench.graph.graph import Graph
from workbench.recording.retrace import retrace

F = nn.functional
TARGET = engine.tensor([0, 2, 1])


def rules_of(result) -> tuple[str, list[str]]:
    """The forward of the op that made `result`, and its rules, as text."""
    loss = result.sum() if result.ndim else result * 1
    recording = retrace([loss.node], [loss])
    stepper = Stepper.of(recording, Graph(recording), loss)
    stepper.prepare()
    place = stepper.plan.index(recording.row_of(result.node)) + 1
    step = stepper.step(place)
    assert step is not None
    return as_text(step.forward.symbols), [as_text(c.rule.symbols) for c in step.contributions]


def test_a_norm_layer_passes_what_is_left_without_mean_and_x_hat():
    forward, (of_x, of_w, of_b) = rules_of(F.layer_norm(leaf(3, 4), (4,), leaf(4, seed=1), leaf(4, seed=2)))
    assert forward == "z = (x − μ)/(√(σ^2 + ε)) ⊙ W + b"
    assert of_x == "x̄ += (1)/(√(σ^2 + ε))(z̄ ⊙ W − mean(z̄ ⊙ W) − x̂ ⊙ mean(z̄ ⊙ W ⊙ x̂))"
    assert (of_w, of_b) == ("W̄ += ∑z̄ ⊙ x̂", "b̄ += ∑z̄")


@pytest.mark.parametrize(
    ("made", "forward", "rules"),
    [
        (lambda: leaf(2, 3) @ leaf(3, 2, seed=1), "z = x y", ["x̄ += z̄ y⊤", "ȳ += x⊤ z̄"]),
        (lambda: F.linear(leaf(2, 3), leaf(4, 3, seed=1)), "z = x W⊤", ["x̄ += z̄ W", "W̄ += z̄⊤ x"]),
        (lambda: F.conv2d(leaf(1, 1, 4, 4), leaf(1, 1, 2, 2, seed=1)), "z = W ∗ x", ["x̄ += W⊤ ∗ z̄", "W̄ += x ⋆ z̄"]),
        (lambda: leaf(2, 3).softmax(-1), "z = (e^x)/(∑_dim −1e^x)", ["x̄ += z ⊙ (z̄ − ∑_dim −1(z̄ ⊙ z))"]),
        (lambda: F.cross_entropy(leaf(3, 4), TARGET), "z = mean(−ln softmax(x)_t)", ["x̄ += (z̄)/(3) · (softmax(x) − 1_t)"]),
        (lambda: F.nll_loss(leaf(3, 4), TARGET), "z = −mean(x_t)", ["x̄ += −(z̄)/(3) · 1_t"]),
        (lambda: F.embedding(TARGET, leaf(4, 2)), "z = W_x", ["W̄ += z̄\u00a0added to the rows\u00a0x"]),
        (lambda: leaf(2, 3).mean(), "z = 1/6∑x", ["x̄ += (z̄)/(6)\u00a0for every element"]),
        (lambda: leaf(5).var(), "z = var(x)", ["x̄ += (z̄ · 2)/(4) · (x − mean(x))"]),
        (lambda: F.gelu(leaf(3)), "z = x ⊙ Φ(x)", ["x̄ += z̄ ⊙ (Φ(x) + x ⊙ φ(x))"]),
        (lambda: leaf(3) ** 2, "z = x^2", ["x̄ += z̄ ⊙ (2 · x)"]),
        (lambda: leaf(3).norm(), "z =  ‖ x ‖ _2", ["x̄ += z̄ · x/z"]),
    ],
)
def test_rules_read_like_a_textbook(made, forward, rules):
    assert rules_of(made()) == (forward, [normalize("NFD", rule) for rule in rules])


@pytest.mark.parametrize(
    "made",
    [
        lambda: F.batch_norm(leaf(4, 3), None, None, leaf(3, seed=1), leaf(3, seed=2), True), lambda: F.group_norm(leaf(2, 4), 2),
        lambda: F.rms_norm(leaf(2, 3), (3,)), lambda: leaf(3, 4).max(1)[0], lambda: leaf(3, 4).std(), lambda: leaf(4).prod(),
        lambda: leaf(3, 2).gather(1, engine.tensor([[0], [1], [1]])), lambda: leaf(4).cumsum(0), lambda: leaf(2, 3).reshape(6),
        lambda: F.binary_cross_entropy(leaf(3).sigmoid().detach().requires_grad_(), engine.tensor([0.0, 1.0, 1.0])),
        lambda: F.max_pool2d(leaf(1, 1, 4, 4), 2), lambda: leaf(2, 3).sum(1), lambda: leaf(3).abs(), lambda: leaf(2, 3).logsumexp(1),
    ],
)  # fmt: skip
def test_no_rule_names_what_is_inside_the_engine(made):
    forward, rules = rules_of(made())
    inner = ("spread", "normalize_", "class_", "rstd", "conj", "correction", "keepdim", "add_along", "scatter_", "_to(", "concatenate", "∅")
    for text in (forward, *rules):
        assert not any(name in text for name in inner), text
