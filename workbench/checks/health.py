"""Gradients that vanish or explode, units that are dead, activations that are saturated."""

from __future__ import annotations

import math

from .. import inspector
from ..model_health import activations
from ..model_health.gradient_flow import EXPLODING, VANISHING
from ..protocol.checks import Finding
from .case import Case, several

DEAD, FEW_DEAD = 0.5, 0.25  # shares of a layer's units from which it is a warning, and a note
SAMPLES = 32  # of fewer, a unit that is 0 for all says nothing
UNEVEN = 1000.0  # gradients that are small everywhere are those of a model that has learned


def check(case: Case, thorough: bool) -> list[Finding]:
    """Of the parameters' gradients as they are now, or were when an optimizer last used them; thorough: of activations too."""
    return [*_gradients(case), *(_activations(case) if thorough else [])]


def _gradients(case: Case) -> list[Finding]:
    """Parameters in depth order: that in which the program used them."""
    r, found = case.r, {"vanishing": [], "exploding": []}
    sizes = case.gradients
    nothing: list[tuple[int, float]] = []
    for row, largest in sizes:
        if largest == 0 and len(r.shape[row]) > 1:
            nothing.append((row, largest))
        elif 0 < largest < VANISHING and len(r.shape[row]) > 1:  # a bias before a normalisation has none
            found["vanishing"].append((row, largest))
        elif EXPLODING < largest < float("inf"):
            found["exploding"].append((row, largest))
    findings, most = [], max((size for _, size in sizes), default=0.0)
    if nothing and len(case.witness.updates) > 1 and case.loss() != 0:  # at first a layer after it may be zero on purpose
        findings.append(_zero(case, nothing, len(sizes), most))
    if found["exploding"] and case.diverges():
        found["exploding"] = []
    for flag, some in found.items():
        if not some or flag == "vanishing" and most < UNEVEN * min(size for _, size in some):
            continue
        depth = several([f"{case.called(row)} {inspector.number_text(size)}" for row, size in some])
        small = flag == "vanishing"
        sentence = (
            f"The gradient {'vanishes in' if small else 'explodes in'} {len(some)} of {len(sizes)} parameters: "
            f"largest |gradient|, in depth order: {depth}."
        )
        why = (
            f"Below {VANISHING:g} a step changes nothing that float32 can hold."
            if small
            else f"Above {EXPLODING:g} one step throws the parameters far away; NaN is near."
        )
        fix = (
            "ReLU or GELU instead of sigmoid/tanh, residual connections, normalisation, kaiming/xavier initialisation"
            if small
            else "nn.utils.clip_grad_norm_(model.parameters(), 1.0); a smaller learning rate; normalised inputs"
        )
        operands = [case.operand(row, (), f"largest |gradient| {inspector.number_text(size)}") for row, size in sizes[:24]]
        findings.append(case.finding(f"{flag}-gradient", "warning", sentence, some[0][0], why, fix, operands=operands))
    return findings


def _zero(case: Case, nothing: list[tuple[int, float]], count: int, most: float) -> Finding:
    """Parameters that an optimizer uses, whose gradient is 0 in every element."""
    told = several([case.called(row) for row, _ in nothing])
    if most == 0:
        sentence = f"Every gradient is exactly 0, in all {count} parameters."
        why = "Nothing is learned: gradients were multiplied by 0 (a clipping to 0, a loss weighted by 0), or no unit lets any through."
        fix = "look at what is done to the gradients between backward() and step(), such as clip_grad_norm_(..., max_norm)"
    else:
        sentence = f"The gradient of {told} is exactly 0, while others are up to {inspector.number_text(most)}."
        why = "What lies between them and the loss has the slope 0: ReLUs that are dead, saturated units, or a multiplication by 0."
        fix = "a smaller learning rate and the model made anew; leaky_relu or GELU; normalised inputs"
    return case.finding(
        "zero-gradient", "warning", sentence, nothing[0][0], why, fix, operands=[case.operand(row) for row, _ in nothing[:4]]
    )


def _activations(case: Case) -> list[Finding]:
    findings = []
    for one in activations.activations(case.r)[0]:
        name = f"{one.module} {one.op}".strip() or one.op
        if one.flag in ("dead units", "all dead") and one.units > 1:
            share = one.dead / one.units
            if share < FEW_DEAD or one.calls * math.prod(case.r.shape[one.node]) < SAMPLES * one.units:
                continue
            sentence = (
                f"{one.dead} of {one.units} units of {name}{case.at(one.node)} were 0 for every sample of {one.calls} "
                f"call{'s' if one.calls > 1 else ''}."
            )
            why = "A unit that is 0 for all inputs gets no gradient, and stays so: a large step, or a bias far below zero, has killed it."
            fix = "a smaller learning rate; leaky_relu or GELU; kaiming initialisation"
            findings.append(
                case.finding(
                    "dead-units", "warning" if share >= DEAD else "note", sentence, one.node, why, fix, operands=[case.operand(one.node)]
                )
            )
        elif one.flag == "saturated":
            sentence = f"{round(100 * one.saturated)} % of {name}{case.at(one.node)} are saturated: {one.limits}."
            why = "There the slope is nearly 0, and hardly any gradient comes through."
            fix = "smaller weights (xavier initialisation), normalised inputs, LayerNorm or BatchNorm before it"
            findings.append(case.finding("saturated", "warning", sentence, one.node, why, fix, operands=[case.operand(one.node)]))
    return findings
