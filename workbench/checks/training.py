"""Checks of the training loop: accumulated gradients, wrong order of calls, wrong mode, learning rates, repeated data."""

from __future__ import annotations

from collections.abc import Iterator

import numpy

from .. import inspector
from ..inspector import values
from ..inspector.gradient_flow import EXPLODING
from ..protocol.checks import Finding
from ..recording.witness import Mode
from . import registered
from .case import Case, place, several
from .reach import parameters, row_of

LARGE, NONE = 0.1, 1e-9  # limits of |Δw| / |w| for a step
SAME = 3  # iterations with equal batches that are no coincidence
PASSES = 8  # passes examined for equal batches
COLLECTED = 3  # live losses of one line from which they are reported


def check(case: Case, thorough: bool) -> list[Finding]:
    """Return the findings about the training loop."""
    found = [*_piled_up(case), *_order(case), *_modes(case), *_rate(case), *_kept_alive(case), *_collected(case)]
    found += [*_data_with_gradient(case)]
    if thorough:
        found += [*_same_batch(case), *_shuffled_apart(case), *_unused_output(case)]
    return found


def _piled_up(case: Case) -> Iterator[Finding]:
    seen = case.witness.accumulated
    if not seen:
        return
    passes = sorted({one.number for one in seen})
    row = seen[0].row
    site = case.site_of(seen[0].where)
    sentence = (
        f"backward(){f' at {place(site)}' if site else ''} added to gradients with which the parameters had "
        "been updated already: in pass "
        f"{passes[0]}{f' and {len(passes) - 1} more' if len(passes) > 1 else ''}."
    )
    why = (
        "Nothing set .grad back between two updates, so each step goes along the sum of all gradients since "
        "the first: the older the training, the wronger."
    )
    fix = "optimizer.zero_grad() before loss.backward()" if case.witness.updates else "w.grad = None after each update"
    yield case.finding("missing-zero-grad", "error", sentence, row, why, fix, site=site, operands=[case.operand(row)] if row >= 0 else [])


def _order(case: Case) -> Iterator[Finding]:
    before = 0
    told: set[str] = set()
    for update in case.witness.updates:
        passed, before = update.passes > before, update.passes
        code = "zero-grad-before-step" if passed else "step-before-backward"
        if not update.empty or code in told:
            continue
        told.add(code)
        site = case.site_of(update.where)
        at = f" at {place(site)}" if site else ""
        if passed:
            sentence = (
                f"optimizer.step(){at} found no gradient, although backward() had run: something set .grad back in between, "
                "or the loss was not computed from this optimizer's parameters."
            )
            yield case.finding(
                code,
                "error",
                sentence,
                -1,
                "The step does nothing, and nothing is learned.",
                "the order zero_grad(), backward(), step(); no detach() or no_grad() between the parameters and the loss",
                site=site,
            )
        else:
            sentence = f"optimizer.step(){at} ran before any backward(): none of its parameters had a gradient."
            yield case.finding(
                code,
                "error",
                sentence,
                -1,
                "The step does nothing; every later one uses the gradient of the batch before.",
                "the order zero_grad(), backward(), step()",
                site=site,
            )


def _modes(case: Case) -> Iterator[Finding]:
    r, modes = case.r, case.witness.modes
    wrong = [one for one in modes if one.training and not one.recorded]
    if wrong:
        scope = r.scopes[wrong[0].scope]
        names = _with_mode(case, wrong)
        site = case.site_of((scope.code, scope.lasti))
        row = _row_in(case, wrong[0].scope)
        sentence = f"{several(names)} ran under no_grad() in training mode{f' at {place(site)}' if site else ''}."
        why = (
            f"{scope.label} behaves otherwise then: Dropout drops, BatchNorm uses, and learns from, this batch's "
            "statistics. Results are random, and worse."
        )
        yield case.finding(
            "train-mode-in-evaluation", "warning", sentence, row, why, "model.eval() before it, model.train() afterwards", site=site
        )
    right = _trained_in_evaluation(case)
    if right:
        scope = r.scopes[right[0].scope]
        site = case.site_of((scope.code, scope.lasti))
        first = right[0].passes + 1
        since = f"ran in evaluation mode from pass {first} on" if first > 1 else "never ran in training mode"
        at = f" (at {place(site)})" if site else ""
        sentence = f"The model is trained in evaluation mode: {several(_with_mode(case, right))} {since}{at}."
        why = "Dropout does not drop and BatchNorm does not follow the data. eval() of an earlier evaluation is still on."
        yield case.finding(
            "eval-mode-in-training", "warning", sentence, _row_in(case, right[0].scope), why, "model.train() before the loop", site=site
        )


def _with_mode(case: Case, modes: list[Mode]) -> list[str]:
    """The distinct modules of these calls by name, such as "Dropout 3"."""
    scopes = [case.r.scopes[one.scope] for one in modes]
    return list(dict.fromkeys(f"{s.label} {s.name}" if s.name != s.label else s.label for s in scopes))


def _trained_in_evaluation(case: Case) -> list[Mode]:
    """Calls in evaluation mode with gradients, since the pass after which every update came only from such calls."""
    updated = {update.passes for update in case.witness.updates}  # passes that a step followed
    calls: dict[int, list[Mode]] = {}
    for one in case.witness.modes:
        if one.recorded and one.passes + 1 in updated:
            calls.setdefault(one.passes, []).append(one)
    found: list[Mode] = []
    for number in sorted(calls, reverse=True):
        if any(one.training for one in calls[number]):
            break
        found = calls[number] + found
    return found


def _row_in(case: Case, scope: int) -> int:
    return next((row for row in range(case.r.count) if case.r.scope[row] == scope and case.r.kind[row] == "op"), -1)


def _rate(case: Case) -> Iterator[Finding]:
    if case.diverges():
        yield _diverging(case)
        return
    ratios = [ratio for _, ratio in case.witness.ratios]
    if len(ratios) < 2 or any(update.empty for update in case.witness.updates):
        return
    site = case.site_of(case.witness.updates[-1].where) if case.witness.updates else None
    shown = several([inspector.number_text(ratio) for ratio in ratios[-4:]])
    losses = case.losses()
    falls = len(losses) > 1 and all(map(numpy.isfinite, losses)) and losses[-1] < 0.9 * losses[0]
    if min(ratios) > LARGE and not falls:
        sentence = f"A step moves the weights by more than a tenth of their size: |Δw| / |w| was {shown}, and the loss does not fall."
        yield case.finding(
            "learning-rate-too-large",
            "warning",
            sentence,
            -1,
            "About 0.001 is usual; above 0.1 the gradient of a point says little about where the step ends.",
            "a learning rate ten times smaller, and again until the loss falls",
            site=site,
        )
    elif max(ratios) < NONE:
        sentence = f"Steps hardly move the weights: |Δw| / |w| was {shown}."
        yield case.finding(
            "learning-rate-zero",
            "warning",
            sentence,
            -1,
            "Below 6e-8 float32 rounds the change away.",
            "a larger learning rate; check how the scheduler changes it",
            site=site,
        )


def _diverging(case: Case) -> Finding:
    """The finding for gradients that grow over the steps."""
    witness = case.witness
    grown = [(row, size) for row, size in case.gradients if size > EXPLODING]
    row, size = max(grown, key=lambda one: one[1])
    before, after = inspector.number_text(max(witness.earliest.values())), inspector.number_text(size)
    sentence = f"The training diverges: in {len(witness.updates)} steps the largest |gradient| went from {before} to {after}."
    losses = [inspector.number_text(loss) for loss in case.losses()]
    if len(losses) > 1:
        sentence = f"{sentence[:-1]}, and the loss went from {losses[0]} to {losses[-1]}."
    why = "Each step is so long that it ends where the slope is steeper than before."
    fix = "a learning rate ten times smaller, and again until the loss falls; nn.utils.clip_grad_norm_(...) if single batches are to blame"
    operands = [case.operand(row, (), f"largest |gradient| {inspector.number_text(size)}") for row, size in grown[:8]]
    return case.finding("learning-rate-too-large", "warning", sentence, row, why, fix, site=case.site_of(witness.updates[-1].where),
                        operands=operands)  # fmt: skip


def _kept_alive(case: Case) -> Iterator[Finding]:
    """`total += loss` with losses that already had their backward pass, which keeps their graphs alive."""
    r = case.r
    roots = {one.root for one in case.witness.passes}
    if len(roots) < 2:
        return
    sums: dict[tuple, list[int]] = {}
    for row in case.rows("add"):
        inputs = [s for s, _ in r.inputs(row)]
        if r.grad[row] and any(s in roots for s in inputs) and row not in roots:
            sums.setdefault((id(r.code[row]), r.lasti[row]), []).append(row)
    for rows in sums.values():
        if len(rows) < 2:
            continue
        row = rows[-1]
        name = r.names.get(row, "") or "total"
        sentence = f"{name} adds up losses with their graphs{case.at(row)}: {len(rows)} losses that have had their backward pass."
        why = "Every graph that it came from stays in memory as long as the sum does."
        fix = f"{name} += loss.item(); or after each turn {name} = {name}.detach()"
        yield case.finding("loss-without-item", "warning", sentence, row, why, fix, operands=[case.operand(row)])


def _collected(case: Case) -> Iterator[Finding]:
    """`losses.append(loss)`: unused scalar results of one line that are still alive, with their graphs."""
    r = case.r
    roots = {one.root for one in case.witness.passes}
    alive: dict[tuple, list[int]] = {}
    for row in range(r.count):
        if r.kind[row] == "op" and r.grad[row] and not r.shape[row] and r.tensor(row) is not None and not case.consumers.get(row):
            alive.setdefault((id(r.code[row]), r.lasti[row]), []).append(row)
    for rows in alive.values():
        if len(rows) < COLLECTED:
            continue
        row, free = rows[-1], all(one in roots for one in rows)
        sentence = f"{len(rows)} results of {r.op_name(row)}{case.at(row)} are still alive, each with the graph that it came from."
        why = (
            "What the tape saved for them was freed by backward(); tensors and nodes stay, more with each turn."
            if free
            else "No backward() has freed what the tape saved for them: memory grows with each turn, by all activations of the model."
        )
        fix = "keep the value: losses.append(loss.item()); for an evaluation: with no_grad(): ..."
        yield case.finding("loss-without-item", "note" if free else "warning", sentence, row, why, fix, operands=[case.operand(row)])


def _data_with_gradient(case: Case) -> Iterator[Finding]:
    r = case.r
    if not case.witness.updates or not r.gradients:
        return
    own = {row_of(case, p) for one in case.optimizers for group in one.param_groups for p in group["params"]}
    own |= {row_of(case, p) for held in case.witness.given.values() if (p := held()) is not None}
    own |= {row_of(case, p) for _, p in parameters(case)} | {case.r.find(one.held) for one in registered.tensors(case)}
    strange = [row for row in r.gradients if r.kind[row] == "leaf" and row not in own]
    if strange and any(r.kind[row] == "parameter" for row in r.gradients):
        told = several([case.called(row) for row in strange])
        sentence = f"{told} {'is' if len(strange) == 1 else 'are'} neither parameters nor in an optimizer, but received a gradient."
        why = "The gradient of data costs time and memory, and piles up from pass to pass."
        yield case.finding(
            "data-requires-grad",
            "note",
            sentence,
            strange[0],
            why,
            "requires_grad=False for data",
            operands=[case.operand(row) for row in strange[:4]],
        )


# -- thorough -----------------------------------------------------------------------------------------------------------------


def _same_batch(case: Case) -> Iterator[Finding]:
    """Batches that are new tensors in each pass, but have equal values in all."""
    r, passes = case.r, case.witness.passes[:PASSES]
    if len(passes) < SAME:
        return
    entering: dict[tuple, dict[int, None]] = {}
    for source, target, slot in zip(r.source, r.target, r.slot, strict=True):
        if r.grad[target] and not r.grad[source] and r.kind[source] != "constant" and target < passes[-1].rows:
            entering.setdefault((id(r.code[target]), r.lasti[target], r.ops[target], slot), {})[source] = None
    places = [list(rows) for rows in entering.values()]
    fresh = [rows for rows in places if len(rows) >= len(passes)]
    data = [rows for rows in fresh if _is_data(r.value(rows[0]))]
    if not data or any(len(rows) == 1 and _is_data(r.value(rows[0])) for rows in places):
        return
    if not all(_alike([r.value(row) for row in rows]) for rows in fresh):
        return
    row = data[0][-1]
    sentence = f"The same batch came in each of {len(passes)} passes: {case.called(row)} was made anew every time, with equal values."
    why = (
        "The model learns one batch by heart. next(iter(loader)) begins again each time, and so does a loader that is made inside the loop."
    )
    fix = "for x, y in loader: ...  (all data in one batch: make it once, before the loop)"
    yield case.finding("same-batch", "note", sentence, row, why, fix, operands=[case.operand(row)])


def _is_data(array: object) -> bool:
    return values.floating(array) and array.size > 3 and len(numpy.unique(inspector.host(array).reshape(-1)[:64])) > 2  # type: ignore[attr-defined]


def _alike(arrays: list) -> bool:
    if any(array is None for array in arrays):
        return False
    first = inspector.host(arrays[0])
    return all(array.shape == first.shape and bool((inspector.host(array) == first).all()) for array in arrays[1:])


def _shuffled_apart(case: Case) -> Iterator[Finding]:
    """Targets that are permuted while the inputs are not."""
    r = case.r
    for row in case.rows("getitem", "index_select"):
        source = case.input(row)
        if source < 0 or r.kind[source] != "input" or r.shape[row] != r.shape[source] or not r.shape[row] or r.shape[row][0] < 4:
            continue
        before, after = r.value(source), r.value(row)
        if before is None or after is None or (before is after) or bool((inspector.host(before) == inspector.host(after)).all()):
            continue
        if not numpy.array_equal(numpy.sort(inspector.host(before), axis=0), numpy.sort(inspector.host(after), axis=0)):
            continue
        n = r.shape[row][0]
        users = [r.op_name(at) for at in case.consumers.get(row, ())]
        if not any("loss" in name or name in ("cross_entropy", "sub") or name.startswith("binary") for name in users):
            continue
        whole = [
            at
            for at in range(r.count)
            if r.kind[at] == "input"
            and at != source
            and getattr(r.dtype[at], "kind", "") == "f"
            and r.shape[at][:1] == (n,)
            and case.consumers.get(at)
            and not any(r.op_name(c) in ("getitem", "index_select") for c in case.consumers[at])
        ]
        if whole:
            sentence = (
                f"Only the targets are shuffled{case.at(row)}: {case.called(source)} is permuted, "
                f"{case.called(whole[0])} with as many rows is not."
            )
            why = "Rows and targets do not belong together any more: nothing can be learned but the mean."
            yield case.finding(
                "targets-shuffled-alone",
                "error",
                sentence,
                row,
                why,
                "one permutation for both, x[p] and y[p]; or take that of the targets back: y[p.argsort()]",
                operands=[case.operand(source), case.operand(whole[0])],
            )
            return


def _unused_output(case: Case) -> Iterator[Finding]:
    """A module that ran with gradients, but on which no loss depends."""
    r, passes = case.r, case.witness.passes
    if not passes:
        return
    needed: set[int] = set()
    for one in passes[-4:]:
        if one.root >= 0:
            needed.update(r.reachable(one.root))
    first, last = passes[max(0, len(passes) - 5)].rows if len(passes) > 4 else 0, passes[-1].rows
    rows: dict[int, list[int]] = {}
    for row in range(first, last):
        scope = r.scope[row]
        if scope >= 0 and r.kind[row] == "op" and r.grad[row]:
            rows.setdefault(scope, []).append(row)
    used_subjects = {r.scopes[scope].subject for scope, own in rows.items() if any(row in needed for row in own)}
    for scope, own in rows.items():
        entered = r.scopes[scope]
        if entered.kind != "module" or entered.subject in used_subjects or any(row in needed for row in own):
            continue
        if case.consumers.get(own[-1]) or own[-1] in case.reasons.detached.values():
            continue  # its result was used, and the check applies to the consumer instead
        sentence = f"{entered.name} ran{case.at(own[-1])}, and no loss depends on its result."
        yield case.finding(
            "unused-output",
            "note",
            sentence,
            own[-1],
            "It costs time, and its parameters do not learn.",
            "use its result, or do not call it",
            operands=[case.operand(own[-1])],
        )
        return
