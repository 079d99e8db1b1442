"""Checks for wrong inputs to losses: probabilities instead of logits, shapes that broadcast, a softmax along the wrong axis."""

from __future__ import annotations

from collections.abc import Iterator

from ..base.readable import amid
from ..protocol.checks import Finding
from .case import Case, shape

MOVES = ("view", "reshape", "squeeze", "unsqueeze", "transpose", "permute", "flatten", "getitem", "to_dtype", "clone", "movedim")
MADE_SO = ("unsqueeze", "getitem", "reshape", "view", "expand", "broadcast_to", "transpose", "permute")  # the user chose that shape
MEETS = ("sub", "mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss")
ENDS = ("mean", "sum", *MEETS)


def check(case: Case) -> list[Finding]:
    """Return one finding per kind of mistake and line."""
    found: dict[tuple, Finding] = {}
    for make in (_softmax_twice, _not_log, _log_of_softmax, _sigmoid_twice, _outer_difference, _float_division, _wider_dtype, _axis):
        for one in make(case):
            found.setdefault((one.code, one.site), one)
    return list(found.values())


def _softmax_twice(case: Case) -> Iterator[Finding]:
    for row in case.rows("cross_entropy"):
        before = case.made_by(case.input(row), MOVES)
        if before >= 0 and case.r.op_name(before) in ("softmax", "sigmoid"):
            op = case.r.op_name(before)
            sentence = (
                f"cross_entropy{case.at(row)} is given the result of {op}{case.at(before)}; it takes logits and applies log_softmax itself."
            )
            why = "Normalized twice, scores are between 0 and 1: the loss cannot approach 0, and gradients are small. Learning is slow."
            yield case.finding(
                "softmax-before-cross-entropy",
                "error",
                sentence,
                row,
                why,
                f"F.cross_entropy(logits, target), without the {op}",
                operands=[case.operand(before)],
            )


def _not_log(case: Case) -> Iterator[Finding]:
    for row in case.rows("nll_loss"):
        before = case.made_by(case.input(row), MOVES)
        if before < 0:
            continue
        op = case.r.op_name(before)
        if op in ("softmax", "linear", "matmul", "sigmoid") or op == "add" and case.r.op_name(case.input(before)) == "matmul":
            sentence = f"nll_loss{case.at(row)} takes log-probabilities, and is given the result of {op}{case.at(before)}."
            why = "It returns minus the selected value: with scores the loss falls without bound."
            yield case.finding(
                "nll-without-log-softmax",
                "error",
                sentence,
                row,
                why,
                "F.nll_loss(F.log_softmax(x, dim=1), target), or F.cross_entropy(x, target)",
                operands=[case.operand(before)],
            )


def _axis(case: Case) -> Iterator[Finding]:
    """A softmax along another axis than that of the classes, or than the one over which its result is summed."""
    r = case.r
    for row in case.rows("nll_loss"):
        before = case.input(row)
        if before < 0 or r.op_name(before) != "log_softmax":
            continue
        dims = r.shape[before]
        classes = 0 if len(dims) == 1 else 1
        along = _dim(case, before)
        if along is not None and along != classes:
            sentence = (
                f"log_softmax{case.at(before)} goes along axis {along} (size {dims[along]}), and nll_loss{case.at(row)} looks for the "
                f"classes in axis {classes} (size {dims[classes]})."
            )
            why = "Probabilities of one sample do not add up to 1: the samples compete with each other in place of the classes."
            fix = f"F.log_softmax(x, dim={classes}), or F.cross_entropy(logits, target)"
            yield case.finding("softmax-axis", "error", sentence, before, why, fix, operands=[case.operand(before, [along])])
    for row in case.rows("matmul"):
        for slot in (0, 1):
            source = case.input(row, slot)
            before = -1 if source < 0 else case.made_by(source, ("dropout",))
            if before < 0 or r.op_name(before) != "softmax" or len(dims := r.shape[before]) < 2:
                continue
            summed, along = len(dims) - 1 - slot, _dim(case, before)
            if along is not None and along != summed:
                sentence = (
                    f"softmax{case.at(before)} goes along axis {along} (size {dims[along]}), and matmul{case.at(row)} sums over "
                    f"axis {summed} (size {dims[summed]})."
                )
                why = "The weights of one sum do not add up to 1: the result is no weighted mean. In attention, batches or queries compete."
                fix = f"F.softmax(x, dim={summed - len(dims)})"
                yield case.finding("softmax-axis", "warning", sentence, before, why, fix, operands=[case.operand(before, [along])])


def _dim(case: Case, row: int) -> int | None:
    """The axis of the op, counted from the front; None if it is not known."""
    dim = case.r.attrs[row].get("dim")
    return dim % len(case.r.shape[row]) if isinstance(dim, int) else None


def _log_of_softmax(case: Case) -> Iterator[Finding]:
    for row in case.rows("log"):
        before = case.made_by(case.input(row), MOVES)
        if before >= 0 and case.r.op_name(before) == "softmax":
            sentence = f"log of softmax{case.at(row)}: in two steps small probabilities become 0, and their log −Inf."
            why = "softmax underflows at differences of about 100 in float32; log_softmax never forms the probability."
            yield case.finding("log-of-softmax", "warning", sentence, row, why, "log_softmax(x, dim)", operands=[case.operand(before)])


def _sigmoid_twice(case: Case) -> Iterator[Finding]:
    for row in case.rows("binary_cross_entropy_with_logits"):
        before = case.made_by(case.input(row), MOVES)
        if before >= 0 and case.r.op_name(before) in ("sigmoid", "softmax"):
            op = case.r.op_name(before)
            sentence = (
                f"binary_cross_entropy_with_logits{case.at(row)} is given the result of {op}{case.at(before)}; it applies sigmoid itself."
            )
            why = "Squashed twice, no probability can go below 0.5: the loss cannot come near 0."
            yield case.finding(
                "sigmoid-twice",
                "error",
                sentence,
                row,
                why,
                f"F.binary_cross_entropy_with_logits(logits, target), without the {op}",
                operands=[case.operand(before)],
            )
    for row in case.rows("binary_cross_entropy"):
        before = case.made_by(case.input(row), MOVES)
        if before >= 0 and case.r.op_name(before) == "sigmoid":
            sentence = (
                f"sigmoid{case.at(before)} and then binary_cross_entropy{case.at(row)}: where sigmoid rounds to 0 or 1 "
                "the gradient is wrong."
            )
            why = "In one step the logarithm never sees a rounded 0: logits beyond ±17 keep their gradient in float32."
            yield case.finding(
                "sigmoid-then-bce",
                "note",
                sentence,
                row,
                why,
                "F.binary_cross_entropy_with_logits(logits, target)",
                operands=[case.operand(before)],
            )


def _outer_difference(case: Case) -> Iterator[Finding]:
    """(N, 1) against (N,) broadcasts to (N, N), so that every prediction is compared with every target."""
    r = case.r
    for row in case.rows(*MEETS):
        inputs = [s for s, slot in r.inputs(row) if slot < 2]
        if len(inputs) != 2:
            continue
        a, b = sorted(inputs, key=lambda s: -len(r.shape[s]))
        wide, flat = tuple(r.shape[a]), tuple(r.shape[b])
        n = flat[0] if len(flat) == 1 else 0
        if n < 2 or wide != (n, 1) or r.grad[a] == r.grad[b] or r.op_name(a) in MADE_SO and _same_line(case, a, row):
            continue
        if r.op_name(row) == "sub" and not _is_summed(case, row):
            continue
        sentence = (
            f"{r.op_name(row)}{case.at(row)} compares {amid(case.called(a))} of shape {shape(wide)} with "
            f"{amid(case.called(b))} of shape {shape(flat)}: broadcasting makes {n}×{n} differences of {n}."
        )
        why = (
            "Every prediction is held against every target, so the best answer is the mean of the targets: the "
            "loss looks plausible and the model learns nothing else."
        )
        fix = f"{r.names.get(a) or 'prediction'}.squeeze(-1)" if r.grad[a] else f"{r.names.get(b) or 'target'}.unsqueeze(-1)"
        yield case.finding("broadcast-in-loss", "error", sentence, row, why, fix, operands=[case.operand(a, [1]), case.operand(b, [0])])


def _same_line(case: Case, row: int, other: int) -> bool:
    return case.site(row) == case.site(other)


def _is_summed(case: Case, row: int) -> bool:
    """Whether the result is reduced to a scalar within a few ops."""
    at = [row]
    for _ in range(4):
        at = [c for s in at for c in case.consumers.get(s, ())]
        if any(case.r.op_name(c) in ENDS and not case.r.shape[c] for c in at):
            return True
    return False


def _float_division(case: Case) -> Iterator[Finding]:
    r = case.r
    for row in case.rows("floor_divide", "trunc_divide", "round", "floor", "ceil", "sign"):
        source = case.input(row)
        if source >= 0 and r.grad[source] and _reaches_a_loss(case, row):
            op = r.op_name(row)
            sentence = f"{op}{case.at(row)} is flat: its derivative is 0 wherever it has one, and no gradient comes through."
            why = "Everything before it gets a gradient of zeros from this path, or none."
            yield case.finding(
                "flat-op",
                "warning",
                sentence,
                row,
                why,
                "/ instead of // ; leave rounding out of the loss, or add the straight-through form x + (x.round() - x).detach()",
                operands=[case.operand(source)],
            )


def _reaches_a_loss(case: Case, row: int) -> bool:
    roots = {p.root for p in case.witness.passes}
    seen, todo = {row}, [row]
    while todo and len(seen) < 200:
        at = todo.pop()
        if at in roots:
            return True
        fresh = [c for c in case.consumers.get(at, ()) if c not in seen]
        seen.update(fresh)
        todo += fresh
    return False


def _wider_dtype(case: Case) -> Iterator[Finding]:
    """A float64 loss with float32 parameters, caused by float64 data."""
    r = case.r
    for one in case.witness.passes[-1:]:
        if one.root < 0 or getattr(r.dtype[one.root], "name", "") != "float64":
            continue
        kinds = {getattr(r.dtype[row], "name", "") for row in range(min(r.count, 512)) if r.kind[row] in ("parameter", "leaf")}
        if kinds == {"float32"}:
            wide = next(
                (row for row in range(r.count) if r.kind[row] == "input" and getattr(r.dtype[row], "name", "") == "float64"), one.root
            )
            sentence = (
                f"The loss is float64 although every parameter is float32: {case.called(wide)} is float64 and makes what meets it so."
            )
            why = "Half the speed and twice the memory, for no gain; NumPy's default dtype is the usual reason."
            yield case.finding("float64-loss", "note", sentence, wide, why, f"{case.called(wide)}.float()", operands=[case.operand(wide)])
