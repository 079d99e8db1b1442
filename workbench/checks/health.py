"""Checks for vanishing and exploding gradients, dead units and saturated activations."""

from __future__ import annotations

from .. import inspector
from ..inspector.gradient_flow import EXPLODING, VANISHING
from ..protocol import ActivationRow
from ..protocol.checks import Finding
from ..recording import activations
from .case import Case, place, several

DEAD = 0.5  # share of dead units in a layer from which it is a warning
UNEVEN = 1000.0  # largest over smallest gradient; uniformly small gradients are those of a converged model
LISTED = 12  # parameters listed in a finding about many
PASSED = 8  # ops followed from an activation to the next layer, such as those of a dropout

Sizes = list[tuple[int, float]]  # (row, largest |gradient|), in the order in which the program used them


def check(case: Case, thorough: bool) -> list[Finding]:
    """Check the parameters' gradients, now or when an optimizer last used them, and with `thorough` the activations too."""
    nothing = [row for row, largest in case.gradients if largest == 0 and len(case.r.shape[row]) > 1]
    layers = case.activations if thorough or nothing else []
    dead = [one for one in layers if one.flag in ("dead units", "all dead") and one.units > 1]
    around = {one.node: _around(case, one.node) for one in dead if one.flag == "all dead"} if nothing else {}
    if not thorough:  # only layers that explain zero gradients
        dead = [one for one in dead if around.get(one.node, set()) & set(nothing)]
    silenced = [row for row in nothing if any(row in rows for rows in around.values())]
    found = [*_dead(case, dead, silenced)]
    found += _gradients(case, [row for row in nothing if row not in silenced])
    if thorough:
        found += _saturated(case, [one for one in layers if one.flag == "saturated"])
    return found


def _around(case: Case, row: int) -> set[int]:
    """The ancestors of the row, and of the operands that it is combined with: the gradients of all of them are 0 if the row is 0."""
    r, after = case.r, [row]
    met: set[int] = set()
    for at in after:  # up to the next parameters
        for consumer in case.consumers.get(at, ()):
            others = {source for source, _ in r.inputs(consumer) if source != at}
            met |= others
            if len(after) < PASSED and not any(r.kind[leaf] in ("parameter", "leaf") for s in others for leaf in r.reachable(s)):
                after.append(consumer)
    return set(r.reachable(row)).union(*(r.reachable(source) for source in met))


def _gradients(case: Case, nothing: list[int]) -> list[Finding]:
    r, sizes, findings = case.r, case.gradients, []
    most = max((size for _, size in sizes), default=0.0)
    if nothing and len(case.witness.updates) > 1 and case.loss() != 0:  # a later layer may start at zero on purpose
        findings.append(_zero(case, nothing, len(sizes), most))
    small = [(row, size) for row, size in sizes if 0 < size < VANISHING and len(r.shape[row]) > 1]  # biases before normalization have none
    if small and most >= UNEVEN * min(size for _, size in small):
        why = f"Below {VANISHING:g} a step changes nothing that float32 can hold."
        fix = "ReLU or GELU instead of sigmoid/tanh, residual connections, normalization; layer.reset_parameters()"
        findings.append(_spread(case, "vanishing", "vanishes", small, why, fix))
    large = [(row, size) for row, size in sizes if EXPLODING < size < float("inf")]
    if large and not case.diverges():
        why = f"Above {EXPLODING:g} one step throws the parameters far away; NaN is near."
        fix = "nn.utils.clip_grad_norm_(model.parameters(), 1.0); a smaller learning rate; normalized inputs"
        findings.append(_spread(case, "exploding", "explodes", large, why, fix))
    return findings


def _spread(case: Case, flag: str, does: str, some: Sizes, why: str, fix: str) -> Finding:
    """One finding for all parameters with too small or too large gradients, from the first, with its line, to the last."""
    (first, size), (last, least) = some[0], some[-1]
    site = case.site_of_use(first)
    at = f" at {place(site)}" if site else ""
    if len(some) == 1:
        sentence = f"The gradient of {case.called(first)}{at} {does}: its largest |gradient| is {inspector.number_text(size)}."
    else:
        sentence = (
            f"The gradient {does} in {len(some)} of {len(case.gradients)} parameters, from {case.called(first)}{at}, where the largest "
            f"|gradient| is {inspector.number_text(size)}, to {case.called(last)}, where it is {inspector.number_text(least)}."
        )
    weights = [one for one in case.gradients if len(case.r.shape[one[0]]) > 1] or case.gradients
    every = max(1, -(-len(weights) // LISTED))
    operands = [case.operand(row, (), f"largest |gradient| {inspector.number_text(largest)}") for row, largest in weights[::every]]
    return case.finding(f"{flag}-gradient", "warning", sentence, first, why, fix, site=site, operands=operands)


def _zero(case: Case, nothing: list[int], count: int, most: float) -> Finding:
    """The finding for parameters of which the gradient is 0 in every element."""
    told = several([case.called(row) for row in nothing])
    if most == 0:
        sentence = f"Every gradient is exactly 0, in all {count} parameters."
        why = "Nothing is learned: gradients were multiplied by 0 (a clipping to 0, a loss weighted by 0), or no unit lets any through."
        fix = "check what changes the gradients between backward() and step(), such as clip_grad_norm_(..., max_norm)"
    else:
        sentence = f"The gradient of {told} is exactly 0, while others are up to {inspector.number_text(most)}."
        why = "An op between them and the loss has slope 0: dead ReLUs, saturated units, or a multiplication by 0."
        fix = "a smaller learning rate and the model made anew; leaky_relu or GELU; normalized inputs"
    return case.finding("zero-gradient", "warning", sentence, nothing[0], why, fix, operands=[case.operand(row) for row in nothing[:4]])


def _named(one: ActivationRow) -> str:
    return f"{one.module} ({one.op})" if one.module else one.op


def _dead(case: Case, layers: list[ActivationRow], silenced: list[int]) -> list[Finding]:
    """One finding for all layers with dead units, and for the gradients that are 0 because of them."""
    if not layers:
        return []
    first, *others = layers
    calls = f"{first.calls} call{'s' if first.calls > 1 else ''}"
    sentence = f"{first.dead} of {first.units} units of {_named(first)}{case.at(first.node)} were 0 for every sample of {calls}"
    if others:
        sentence += f"; so were {several([f'{one.dead} of {one.units} in {_named(one)}' for one in others])}"
    if silenced:
        told = several([case.called(row) for row in silenced])
        sentence += f". The gradient{' of' if len(silenced) == 1 else 's of'} {told} {'is' if len(silenced) == 1 else 'are'} exactly 0"
    why = "A unit that is 0 for all inputs gets no gradient, and stays so: a large step, or a bias far below zero, has killed it."
    fix = "initialize the layer before it anew: layer.reset_parameters(); a smaller learning rate; leaky_relu or GELU"
    severe = any(one.dead >= DEAD * one.units for one in layers)
    operands = [case.operand(one.node) for one in layers[:4]]
    return [case.finding("dead-units", "warning" if severe else "note", sentence + ".", first.node, why, fix, operands=operands)]


def _saturated(case: Case, layers: list[ActivationRow]) -> list[Finding]:
    """One finding for all saturated layers."""
    if not layers:
        return []
    first, *others = layers
    sentence = f"{round(100 * first.saturated)} % of {_named(first)}{case.at(first.node)} are saturated: {first.limits}"
    if others:
        sentence += f"; so are {several([f'{round(100 * one.saturated)} % in {_named(one)}' for one in others])}"
    why = "There the slope is nearly 0, and hardly any gradient comes through."
    fix = "smaller weights (xavier initialization), normalized inputs, LayerNorm or BatchNorm before it"
    return [
        case.finding("saturated", "warning", sentence + ".", first.node, why, fix, operands=[case.operand(one.node) for one in layers[:4]])
    ]


def unsure(case: Case) -> str:
    """A sentence on layers with units that are 0 for every sample, but too few samples to call them dead; "" if there are none."""
    few, enough = activations.FEW, activations.SAMPLES
    some = [one for one in case.activations if not one.flag and one.dead >= few * one.units and 1 < one.samples < enough]
    if not some:
        return ""
    told = several([f"{one.dead} of {one.units} units of {_named(one)} were 0 for all {one.samples} samples" for one in some])
    return f"Too few samples to distinguish dead units: {told}. A healthy unit is 0 for about half of them; {enough} are enough."
