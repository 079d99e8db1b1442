"""Checks of the error that ended the code: failed ops and failed backward passes, with their cause."""

from __future__ import annotations

import re

from .. import inspector
from ..protocol import Site
from ..protocol.checks import Finding
from ..recording.sites import line_of
from .case import Case, place


def check(case: Case) -> list[Finding]:
    """Return the finding about the error that ended the code, if its cause is known."""
    found = _operation(case) if case.r.failure >= 0 else []
    if not found and case.witness.ended is not None:
        found = _ending(case)
    return found


def _operation(case: Case) -> list[Finding]:
    r, row = case.r, case.r.failure
    op, text = r.op_name(row), r.note[row]
    operands = [case.operand(s) for s, _ in r.inputs(row)]
    says = (text.partition(": ")[2] or text).partition("; ")[0]
    if "same device" in text:
        sentence = f"{op} failed{case.at(row)}: its operands are on different devices."
        return [
            case.finding(
                "device-mismatch",
                "error",
                sentence,
                row,
                "An op runs on one device; nothing is moved silently.",
                "model.to(device) and x = x.to(device) before the loop",
                operands=operands,
            )
        ]
    if "same dtype" in text or "one dtype" in text or "expected scalar type" in text:
        sentence = f"{op} failed{case.at(row)}: {says}."
        why = "NumPy makes float64 where nothing is said, and parameters are float32."
        return [case.finding("dtype-mismatch", "error", sentence, row, why, "x = x.float()  (or model.double())", operands=operands)]
    if "out of bounds" in text or "index out of range" in text:
        return _labels(case, op)
    if op in ("cross_entropy", "nll_loss") and "target dtype" in text or "can't be cast" in text:
        whole = op in ("cross_entropy", "nll_loss")
        sentence = (
            f"{op} failed{case.at(row)}: its targets are {r.dtype[case.input(row, 1)]}, and it takes "
            f"{'integers, the class indices' if whole else 'floats'}."
        )
        why = "Classes are counted, so they are int64; targets of other losses are compared with floats."
        return [
            case.finding("target-dtype", "error", sentence, row, why, "target.long()" if whole else "target.float()", operands=operands)
        ]
    if "between 0 and 1" in text:
        sentence = f"{op} failed{case.at(row)}: its input is no probability."
        return [
            case.finding(
                "not-a-probability",
                "error",
                sentence,
                row,
                "It takes the log of the input.",
                "F.binary_cross_entropy_with_logits(logits, target), without a sigmoid before it",
                operands=operands,
            )
        ]
    return []


def _labels(case: Case, op: str) -> list[Finding]:
    r, row = case.r, case.r.failure
    scores, labels = (case.input(row, 0), case.input(row, 1)) if op != "embedding" else (case.input(row, 1), case.input(row, 0))
    if scores < 0 or labels < 0:
        return []
    dims = r.shape[scores]
    classes = dims[0] if op == "embedding" or len(dims) == 1 else dims[1]
    array = r.value(labels)
    span = f"from {int(array.min())} to {int(array.max())}" if array is not None and array.size else "out of range"
    operands = [case.operand(scores, [0 if op == "embedding" or len(dims) == 1 else 1]), case.operand(labels, (), span)]
    rows = "rows" if op == "embedding" else "classes"
    sentence = f"{op} failed{case.at(row)}: {case.called(labels)} goes {span}, and there are {classes} {rows}, 0 to {classes - 1}."
    most = int(array.max()) if array is not None and array.size else 0
    lowest = int(array.min()) if array is not None and array.size else 0
    fix = (
        f"{case.called(labels)} - 1"
        if lowest >= 1 and most == classes
        else f"give the last layer {most + 1} outputs"
        if op != "embedding"
        else f"nn.Embedding({most + 1}, ...)"
    )
    return [case.finding("labels-out-of-range", "error", sentence, row, "Classes are counted from 0.", fix, operands=operands)]


def _ending(case: Case) -> list[Finding]:
    ended = case.witness.ended
    assert ended is not None
    site, at = case.site_of(ended.where), ""
    if site is not None:
        at = f" at {place(site)}"
    if ended.kind == "SpoiledError" and ended.step >= 0:
        return [_spoiled(case)]
    if "modified by an inplace operation" in ended.text:
        return _spoiled_by_pytorch(case, site, at)
    if "backward through the graph a second time" in ended.text:
        row = ended.step
        first = case.witness.passes[0] if len(case.witness.passes) > 1 else None
        before = case.site_of(first.where) if first is not None else None
        earlier = f" The first pass ran at {place(before)}." if before is not None and before != site else ""
        sentence = (
            f"backward() ran twice through the same graph{at}: {case.called(row) if row >= 0 else 'an op'} had let "
            f"go of what it saved.{earlier}"
        )
        why = (
            "A graph is used once: the first pass frees what the tape kept. A graph built before the loop, or a "
            "hidden state carried over from the last iteration, is the usual reason."
        )
        return [
            case.finding(
                "backward-twice",
                "error",
                sentence,
                row,
                why,
                "recompute the loss before each backward(); detach() tensors carried over; or use retain_graph=True if intended",
                site=site,
            )
        ]
    if "does not require grad" in ended.text and "element 0" in ended.text:
        return [_untracked(case, at, site)]
    if "can be implicitly created only for scalar" in ended.text:
        row = _last(case)
        sentence = (
            f"backward(){at} was called on {case.called(row) if row >= 0 else 'a tensor'} of shape "
            f"{inspector.shape_text(case.r.shape[row]) if row >= 0 else '?'}; it starts from a scalar."
        )
        return [
            case.finding(
                "not-a-scalar",
                "error",
                sentence,
                row,
                "A gradient is that of a scalar with respect to many values.",
                "loss.mean().backward(), or loss.sum().backward()",
                site=site,
            )
        ]
    if "a leaf Variable that requires grad is being used in an in-place" in ended.text:
        sentence = f"A parameter was written in place{at} while ops are recorded."
        return [
            case.finding(
                "leaf-written",
                "error",
                sentence,
                -1,
                "The backward pass would need a value that was overwritten.",
                "with no_grad(): w -= lr * w.grad",
                site=site,
            )
        ]
    if "numpy() on Tensor that requires grad" in ended.text:
        sentence = f"numpy(){at} was called on a tensor that requires a gradient."
        return [
            case.finding(
                "numpy-of-tracked",
                "error",
                sentence,
                -1,
                "Operations on an array are not recorded on the tape.",
                "x.detach().numpy(); where the gradient is wanted, compute with the tensor",
                site=site,
            )
        ]
    if "more than 1 value per channel" in ended.text:
        sentence = f"Batch normalization in training mode got one value for each channel{at}."
        return [
            case.finding(
                "batch-of-one",
                "error",
                sentence,
                -1,
                "The variance of one value is 0: nothing can be normalized by it.",
                "model.eval() for single samples; DataLoader(..., drop_last=True) in training",
                site=site,
            )
        ]
    if re.search(r"must be equal to input_size|size|shape", ended.text) and ended.kind in ("RuntimeError", "ValueError"):
        return [
            case.finding(
                "shape-mismatch",
                "error",
                f"{ended.text.rstrip('.')}{'' if '(' in ended.text[-40:] else at}.",
                _last(case),
                "Nothing after this line has run.",
                "print the shapes before this line and compare them with what was meant",
                site=site,
            )
        ]
    return []


def _last(case: Case) -> int:
    return next((row for row in range(case.r.count - 1, -1, -1) if case.r.kind[row] == "op"), -1)


def _spoiled(case: Case) -> Finding:
    """The finding for an overwritten saved tensor, with the op that saved it and the line that overwrote it."""
    ended, r = case.witness.ended, case.r
    assert ended is not None
    saved = ended.step
    writer, site = -1, None
    if ended.write is not None:
        code, line = ended.write
        writers = [
            row for row in range(saved + 1, r.count) if r.note[row].startswith(("in place", "written through")) and r.code[row] is code
        ]
        writer = next((row for row in reversed(writers) if line_of(code, r.lasti[row]) == line), -1)
        site = case.site(writer) or case.site_at(code, line)
    slot = re.search(r"saved '?(\w+)'?(\[\d+\])?", ended.text)
    by = re.search(r"and (\S+) overwrote it", ended.text)
    what = slot[1] if slot else "a tensor"
    values = {"out": "its result", "input": "its input", "other": "its second operand"}.get(what, f"'{what}'")
    sentence = (
        f"{by[1] if by else 'An in-place op'}{f' at {place(site)}' if site is not None else ''} overwrote "
        f"what {r.op_name(saved)}{case.at(saved)} had saved for backward: {values}."
    )
    why = f"The backward step of {r.op_name(saved)} needs the original values; with others the gradient would be silently wrong."
    name = by[1] if by else "x.add_(y)"
    fix = (
        f"the out-of-place form: {name.rstrip('_')} instead of {name}"
        if name.endswith("_")
        else "no in-place write between forward and backward"
    )
    operands = [case.operand(saved, (), f"{r.op_name(saved)} saved {values}")]
    if writer >= 0:
        operands.append(case.operand(writer, (), "overwrote it"))
    return case.finding(
        "in-place-overwrite",
        "error",
        sentence,
        writer if writer >= 0 else saved,
        why,
        fix + ", or clone() before it",
        site=site,
        operands=operands,
    )


def _spoiled_by_pytorch(case: Case, site: Site | None, at: str) -> list[Finding]:
    """The same for PyTorch, whose message names the shape and the maker of the overwritten tensor; the recording has the write."""
    ended, r = case.witness.ended, case.r
    assert ended is not None
    said = re.search(r"\[([\d, ]*)\]\], which is output \d+ of (\w+?)(?:Backward\d*)?,", ended.text)
    dims = tuple(map(int, said[1].replace(" ", "").split(","))) if said and said[1] else ()
    maker = said[2].lower() if said else ""
    writes = [row for row in range(r.count) if r.note[row].startswith("in place") and r.inputs(row) and tuple(r.shape[row]) == dims]
    named = [row for row in writes if r.op_name(r.inputs(row)[0][0]).replace("_", "").lower() == maker]
    writer = (named or writes or [-1])[-1]
    why = "The backward step of an op needs the original values; with others the gradient would be silently wrong."
    if writer < 0:
        update = case.witness.updates[-1] if case.witness.updates else None
        wrote = case.site_of(update.where) if update is not None else None
        if update is None or wrote is None:
            return []
        sentence = f"optimizer.step() at {place(wrote)} overwrote parameters that backward(){at} still needed."
        fix = "compute the loss anew after each step(), or call step() when all backward passes are done"
        return [case.finding("in-place-overwrite", "error", sentence, -1, why, fix, site=wrote)]
    before = r.inputs(writer)[0][0]
    op = r.op_name(writer).rstrip("_")
    sentence = (
        f"{op}{case.at(writer)} wrote in place over {case.called(before)}, the result of {r.op_name(before) or r.kind[before]}"
        f"{case.at(before)}, which backward(){at} still needed."
    )
    fix = f"the out-of-place form, x = x.{op}(...) or x = x + y in place of x += y; or clone() before it"
    operands = [case.operand(before, (), "needed for backward"), case.operand(writer, (), "overwrote it")]
    return [case.finding("in-place-overwrite", "error", sentence, writer, why, fix, operands=operands)]


def _untracked(case: Case, at: str, site: Site | None) -> Finding:
    """The finding for backward() on an untracked tensor, with the op that broke the path."""
    r, row = case.r, _last(case)
    sentence, broken = f"backward(){at} was called on a tensor that no gradient reaches.", -1
    if row >= 0:
        broken = case.reasons.broken(row)
        why = case.reasons.untracked(row, r.tensor(row))
        sentence += f" {case.called(row)}: {why}"
    fix = "take the op that has no derivative, detach(), item() or no_grad() out of the way from parameters to loss"
    if broken < 0:
        fix = "set requires_grad=True on the parameters, before they are used"
    why = "Without a path to a parameter there is nothing to compute, and nothing is learned."
    return case.finding(
        "loss-detached", "error", sentence, broken if broken >= 0 else row, why, fix, site=case.site(broken) if broken >= 0 else site
    )
