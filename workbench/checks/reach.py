"""Checks for parameters that no gradient reaches, with the op that broke the path, and parameters that no optimizer updates."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from ..protocol import Site
from ..protocol.checks import Finding
from ..recording import source
from ..recording.reasons import UNUSED
from ..recording.sites import line_of
from .case import Case, several

LOOKED = 40  # parameters whose path is followed through the whole graph
# expressions that take values out of a graph, the most common first
_LEAVING = [re.compile(r"\.(item|numpy|tolist)\b"), re.compile(r"\b(float|int|bool)\(|\.(detach|data)\b")]


def parameters(case: Case) -> Iterator[tuple[str, Any]]:
    """Yield each parameter of the outermost modules that ran once, with its name."""
    seen: set[int] = set()
    for held in case.r.modules:
        module = held()
        for name, p in module.named_parameters() if module is not None else ():
            if id(p) not in seen:
                seen.add(id(p))
                yield name, p


def row_of(case: Case, p: Any) -> int:
    """The parameter's row; -1 if no recorded op used it."""
    return case.witness.row(case.r, p)


def check(case: Case, thorough: bool) -> list[Finding]:
    """Find parameters without a gradient although a backward pass ran, and those not updated although an optimizer took a step."""
    if not case.witness.passes:
        return []
    broken = case.witness.ended is not None and case.witness.ended.backward  # the failed pass did not reach everything
    return [*([] if broken else _unreached(case)), *_not_updated(case), *(_frozen(case) if thorough else [])]


def _received(case: Case, p: Any) -> bool:
    return case.witness.has_gradient(p) or row_of(case, p) in case.r.gradients


def _unreached(case: Case) -> Iterator[Finding]:
    unused: list[str] = []
    site = None
    cut: dict[int, list[tuple[str, int]]] = {}  # first untracked row -> the parameters before it
    lost: list[tuple[str, int]] = []
    aside = _aside(case)
    elsewhere = _elsewhere(case, aside)
    inside: set[int] = set()  # cuts within a model
    looked, last = 0, -1
    for name, p in parameters(case):
        if not p.requires_grad or _received(case, p) or case.witness.updates and not case.updates(p):
            continue  # not expected to learn: a target network, or an encoder used for its features
        row = row_of(case, p)
        name = case.r.names.get(row) or name  # the user's name, such as model.first.weight
        if row >= 0 and looked < LOOKED:
            looked, last = looked + 1, case.reasons.cut_at(row)
        at = UNUSED if row < 0 else last  # beyond LOOKED parameters, reuse the result of the last one
        if at == UNUSED:
            unused.append(name)
            site = site or _made_at(case, p)
        elif at >= 0:
            if id(p) in elsewhere:
                continue
            cut.setdefault(at, []).append((name, row))
            if id(p) not in aside:
                inside.add(at)
        elif not case.came_to_loss(row):  # otherwise a pass failed halfway and the error was caught
            lost.append((name, row))
    for at, before in cut.items():
        told = several([name for name, _ in before])
        sentence = (
            f"No gradient reaches {told}: what depends on {'it' if len(before) == 1 else 'them'}, "
            f"{case.called(at)}, {case.reasons.broke(at)}."
        )
        between = at not in inside and at in case.reasons.detached
        why = "An optimizer leaves what has no gradient as it is: these parameters do not learn."
        if between:
            why = "Between two models this is often intended: a GAN's critic takes the generator's output as data."
        fix = "take detach(), .data, no_grad(), or the op without a derivative, off the path from them to the loss"
        operands = [case.operand(row) for _, row in before[:4]]
        place = case.reasons.detached_at(at) if at in case.reasons.detached else None
        site = case.site_at(*place) if place is not None else None
        yield case.finding("gradient-cut", "note" if between else "error", sentence, at, why, fix, site=site, operands=operands)
    if lost:
        told, line = several([name for name, _ in lost]), _leaves_the_graph(case, lost[0][1])
        how = (
            f": line {line[1]} of {source.cell_of(line[0]) or line[0].rpartition('/')[2]} takes values out of the graph: {line[2]}"
            if line
            else ""
        )
        sentence = (
            f"No gradient reaches {told}: the loss does not depend on what was computed from {'it' if len(lost) == 1 else 'them'}{how}."
        )
        why = "item(), numpy(), float() and the like return plain values, through which no gradient flows."
        yield case.finding(
            "gradient-lost",
            "error",
            sentence,
            lost[0][1],
            why,
            "compute the loss from the tensors themselves",
            operands=[case.operand(row) for _, row in lost[:4]],
        )
    if unused:
        sentence = (
            f"{several(unused)} {'was' if len(unused) == 1 else 'were'} used by no op, so "
            f"{'it has' if len(unused) == 1 else 'they have'} no gradient."
        )
        why = "A layer that forward() does not call learns nothing, and still costs memory."
        yield case.finding(
            "unused-parameter", "warning", sentence, -1, why, "call it in forward(), or remove it; requires_grad_(False) where it is meant",
            site=site,
        )  # fmt: skip


def _aside(case: Case) -> set[int]:
    """Parameters of models in which no parameter received a gradient, while another model did."""
    models = [list(model.parameters()) for model in case.models]
    learning = {id(p) for own in models if any(_received(case, p) for p in own) for p in own}
    return {id(p) for own in models for p in own if learning and id(p) not in learning}


def _elsewhere(case: Case, aside: set[int]) -> set[int]:
    """Those of the parameters `aside` that are not to learn from these passes, such as a GAN's generator in the discriminator's step.

    No optimizer that has them has taken a step, nor has any that also has parameters with a gradient.
    """
    given = [[p for group in one.param_groups for p in group["params"]] for one in case.optimizers]
    together = {id(p) for own in given if any(_received(case, p) for p in own) for p in own}
    return {at for at in aside if at not in together and at not in case.witness.given} if given else set()


def _made_at(case: Case, p: Any) -> Site | None:
    """The line of the user's module that creates the parameter or its layer."""
    for held in case.r.modules:
        module = held()
        for one in module.modules() if module is not None else ():
            for name, child in one._modules.items():
                if child is not None and any(p is q for q in child.parameters()) and (site := case.site_of_attribute(one, name)):
                    return site
            if any(p is q for q in one._parameters.values()):
                name = next(name for name, q in one._parameters.items() if p is q)
                return case.site_of_attribute(one, name)
    return None


def _leaves_the_graph(case: Case, row: int) -> tuple[str, int, str] | None:
    """File, line and text where values that depend on the row leave the graph, if the source code shows it."""
    r, reached = case.r, {row}
    for at in range(row + 1, r.count):
        if any(s in reached for s, _ in r.inputs(at)):
            reached.add(at)
    names = {r.names[at] for at in reached if r.names.get(at, "").isidentifier()}
    own = {(code, line_of(code, r.lasti[at])) for at in reached if (code := r.code[at]) is not None}
    codes = list(dict.fromkeys(code for code in r.code if code is not None))
    for leaving in _LEAVING:
        for code in codes:
            lines = sorted({line for _, _, line in code.co_lines() if line})
            texts = source.text_of(code.co_filename).splitlines()
            for number in lines:
                text = texts[number - 1].strip() if number <= len(texts) else ""
                known = (code, number) in own or any(re.search(rf"\b{name}\b", text) for name in names)
                if known and leaving.search(text) and "print(" not in text:
                    return code.co_filename, number, text
    return None


def _frozen(case: Case) -> Iterator[Finding]:
    """Frozen parameters next to the loss, with learning ones before them, that an optimizer was given."""
    rows = {p: row_of(case, p) if p.requires_grad else case.r.find(p) for _, p in parameters(case)}
    used = [(row, name, p) for name, p in parameters(case) if (row := rows[p]) >= 0]
    learning = max((row for row, _, p in used if p.requires_grad), default=-1)
    frozen = [(row, name) for row, name, p in used if row > learning >= 0 and case.updates(p)]
    if frozen:
        told = several([case.r.names.get(row) or name for row, name in frozen])
        sentence = f"{told} {'is' if len(frozen) == 1 else 'are'} frozen (requires_grad=False), while earlier layers learn."
        why = "The optimizer has them but does not change them. In fine-tuning, it is usually the new last layer that learns."
        fix = "freeze the other part; or leave these out of the optimizer, where it is meant"
        operands = [case.operand(row) for row, _ in frozen[:4]]
        yield case.finding("frozen-output", "note", sentence, frozen[0][0], why, fix, operands=operands)


def _not_updated(case: Case) -> Iterator[Finding]:
    if not case.witness.updates:
        return
    forgotten = [(name, row_of(case, p)) for name, p in parameters(case) if p.requires_grad and _received(case, p) and not case.updates(p)]
    if not forgotten:
        return
    strangers = [one for one in case.optimizers if all(row_of(case, p) < 0 for group in one.param_groups for p in group["params"])]
    where = case.witness.updates[-1].where
    told = several([name for name, _ in forgotten])
    operands = [case.operand(row) for _, row in forgotten[:4] if row >= 0]
    if strangers:
        name = type(strangers[0]).__name__
        sentence = f"{name} updates parameters that were not used in the loss; those that were, {told}, are in no optimizer."
        why = (
            "The model was made again (its cell was run once more, or it was copied) after the optimizer, which "
            "still holds the old parameters."
        )
        yield case.finding(
            "optimizer-of-another-model",
            "error",
            sentence,
            forgotten[0][1],
            why,
            f"make the optimizer after the model: {name}(model.parameters(), ...)",
            site=case.site_of(where),
            operands=operands,
        )
    else:
        sentence = f"{told} received a gradient, and no optimizer updates {'it' if len(forgotten) == 1 else 'them'}."
        why = "They keep their first values for ever."
        fix = "give all to the optimizer: model.parameters(), or add_param_group(); requires_grad_(False) where it is meant"
        given = [p for one in case.optimizers for group in one.param_groups for p in group["params"]]
        idle = sum(row_of(case, p) < 0 for p in given)
        if idle:
            why += f" The optimizer holds {idle} that no op used: a layer was put in place of another after the optimizer was made."
            fix = "make the optimizer when the model is complete: after the last layer is replaced"
        yield case.finding("not-in-optimizer", "warning", sentence, forgotten[0][1], why, fix, site=case.site_of(where), operands=operands)
