"""Find the first op that made a NaN or an infinity, forward or backward, and describe its operands there."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import numpy

from ..inspector import host, number_text, values
from ..protocol.checks import Finding, Operand, Severity
from ..recording.not_finite import SMALL, SOFTMAXES, BadRow, BadStep, among, element, opposite, value_of
from ..recording.recording import Recording
from .case import Case

CODES = {"NaN": "nan", "+Inf": "inf", "−Inf": "inf"}


def sinks(case: Case) -> Iterator[int]:
    """Yield at most 64 rows that no other row uses, the last first: losses and outputs."""
    r = case.r
    used = bytearray(r.count)
    for source in r.source:
        used[source] = 1
    some = 0
    for row in range(r.count - 1, -1, -1):
        if not used[row] and r.kind[row] == "op" and r.dtype[row] is not None:
            yield row
            some += 1
            if some == 64:
                return


# -- telling -----------------------------------------------------------------------------------------------------------------


def check(case: Case, thorough: bool) -> list[Finding]:
    """Report NaN and infinities that the recorder noticed, else those in results (without `thorough`, in small ones only)."""
    r, witness = case.r, case.witness
    found = witness.bad_rows
    if not found and witness.bad_step is None:
        for row in sinks(case):
            array = value_of(r, row)
            if array is not None and not values.finite(array) and (thorough or array.nbytes <= SMALL):
                found = among(r, 0, row + 1, row)
                break
    findings = [_forward(case, *cause) for cause in _causes(r, found)]
    step = witness.bad_step
    if step is not None and not any(bad.number <= step.number for bad in found.values()):  # otherwise a forward value caused it
        findings += _backward(case, step)
    if thorough and not findings:
        findings += _hidden(case)
    return sorted(findings, key=lambda one: (one.severity != "error", one.node))


def _causes(r: Recording, found: dict[str, BadRow]) -> Iterator[tuple[str, BadRow, BadRow | None, Severity]]:
    """Yield the root causes among the findings: kind, row, the NaN that it led to, and severity."""
    nan = found.get("NaN")
    others = sorted((kind for kind in found if kind != "NaN"), key=lambda kind: found[kind].row)
    made = nan is not None and any(_infinite(array) for _, array in nan.operands)  # then the op that made the infinities is the cause
    before: list[int] = []
    for kind in others:
        bad = found[kind]
        way = set(r.reachable(bad.row))
        if not any(row in way for row in before):  # otherwise an earlier one caused it
            yield kind, bad, nan if made else None, "error" if made or nan is None else "warning"
        before.append(bad.row)
    if nan is not None and not (made and others):
        yield "NaN", nan, None, "error"


def _infinite(array: Any) -> bool:
    return hasattr(array, "dtype") and any(kind != "NaN" for kind in values.kinds(array))


def _forward(case: Case, kind: str, bad: BadRow, nan: BadRow | None, severity: Severity) -> Finding:
    """The finding for a forward op: the op, the element, and its operands there. `nan` is the NaN that it led to."""
    r, row = case.r, bad.row
    index = values.first(bad.value, kind)
    count = int(numpy.count_nonzero(values.KINDS[kind](numpy.real(host(bad.value)))))
    many = f" and {count - 1} more" if count > 1 else ""
    where = values.indexed(case.called(row), index) if case.r.names.get(row) or r.ops[row] is None else f"at {list(index)}"
    turn = f" in pass {bad.number}" if bad.number > 1 else ""
    if r.ops[row] is None:
        sentence = f"{case.called(row)} came with {kind}{turn}: {where}{many}."
        why = "Nothing that is recorded made it; every result that depends on this element has it too."
        fix = "assert isfinite(x).all() where the data is made; clean it there" if r.kind[row] == "input" else _RESET
        if r.passed_over:
            why += f" {r.passed_over} turns of the loop were not recorded; it may have been made in one of them."
            fix = "with wb.guard(): ... stops the loop at the very op"
        return case.finding(f"{CODES[kind]}-input", "error", sentence, row, why, fix, operands=[_operand(case, row, bad.value, index)])
    op = r.op_name(row)
    operands = [_operand(case, s, array, opposite(r.ops[row], array, bad.value, index)) for s, array in bad.operands]
    cause, fix = _because(case, kind, bad)
    sentence = f"{op} made the first {kind}{turn}{case.at(row)}: {where}{many}."
    if not bad.exact:
        sentence = f"{op} is the first op known to have {kind}{turn}{case.at(row)}: {where}{many}; earlier values were freed."
    if nan is not None:
        cause += f" From it {r.op_name(nan.row)}{case.at(nan.row)} made the first NaN: {_because(case, 'NaN', nan)[0]}"
    return case.finding(f"{CODES[kind]}-forward", severity, sentence, row, cause, fix, operands=operands)


def _because(case: Case, kind: str, bad: BadRow) -> tuple[str, str]:
    """Why the op gave that result for these operands, and a fix."""
    op, index = case.r.ops[bad.row], values.first(bad.value, kind)
    points = [element(array, opposite(op, array, bad.value, index)) for _, array in bad.operands]
    return because(case.r.op_name(bad.row), kind, points, any(_infinite(array) for _, array in bad.operands))


_RESET = "make the model and its optimizer anew (or load the last good checkpoint), with a smaller learning rate"


def _backward(case: Case, bad: BadStep) -> list[Finding]:
    r, found = case.r, []
    if bad.op is None:
        return [_received(case, bad)]
    for slot, gradient in enumerate(bad.gradients):
        for kind in values.kinds(gradient):
            index = values.first(gradient, kind)
            target = next((s for s, at in r.inputs(bad.row) if at == slot), -1) if bad.row >= 0 else -1
            name = case.called(target) if target >= 0 else f"input {slot}"
            made = f"d_{bad.op.inputs[slot]}" if slot < len(bad.op.inputs) else f"d_{slot}"
            rule = rule_text(bad.op, slot)
            turn = f" of pass {bad.number}" if bad.number > 1 else ""
            sentence = (
                f"The backward step of {bad.op.name}{turn} made the first {kind}{case.at(bad.row)}: the gradient of "
                f"{values.indexed(name, index)}"
            )
            sentence += f", by its rule {made} = {rule}." if rule else "."
            operands, point = [], []
            if bad.upstream is not None:
                operands.append(_upstream(bad, values.opposite(bad.upstream, gradient, index)))
            for s, _ in r.inputs(bad.row) if bad.row >= 0 else ():
                array = value_of(r, s)
                place = values.opposite(array, gradient, index) if hasattr(array, "shape") else ()
                point.append(element(array, place))
                if array is not None:
                    operands.append(_operand(case, s, array, place))
            cause, fix = because_backward(bad.op.name, point)
            found.append(case.finding(f"{CODES[kind]}-backward", "error", sentence, bad.row, cause, fix, operands=operands))
        if found:
            break
    return found


def _hidden(case: Case) -> list[Finding]:
    """NaN that where() hides from the loss, but not from the gradient."""
    r = case.r
    for row in case.rows("where"):
        for source, slot in r.inputs(row):
            array = value_of(r, source)
            if slot and r.grad[source] and array is not None and "NaN" in values.kinds(array):
                sentence = f"where{case.at(row)} throws away NaN of {case.called(source)}, which requires a gradient."
                why = "The gradient of unselected values is 0, and 0 times the infinite slope that made the NaN is NaN in backward too."
                fix = "make the input harmless first: x_safe = where(mask, x, 1.0), then log(x_safe)"
                return [
                    case.finding(
                        "nan-hidden",
                        "warning",
                        sentence,
                        row,
                        why,
                        fix,
                        operands=[_operand(case, source, array, values.first(array, "NaN"))],
                    )
                ]
    return []


def _operand(case: Case, row: int, array: Any, at: tuple[int, ...] | None) -> Operand:
    value = element(array, at)
    name = case.called(row)
    words = "" if case.r.kind[row] == "constant" or array is None else values.health(array)
    told = f"{values.indexed(name, at)} = {number_text(value)}" if at is not None and value is not None and hasattr(array, "shape") else ""
    return case.operand(row, (), words if array is not None else "its value was freed", told)


def _received(case: Case, bad: BadStep) -> Finding:
    """The finding for a leaf with a bad gradient, if the pass could not be rerun to find the step."""
    kind = values.kinds(bad.upstream)[0]
    name = case.called(bad.row)
    turn = f" in pass {bad.number}" if bad.number > 1 else ""
    sentence = (
        f"The gradient of {values.indexed(name, values.first(bad.upstream, kind))} is {kind}{turn}; which step made it so is not known, "
        "since the pass cannot be computed again from what was kept."
    )
    fix = "with wb.guard(): ... stops at the very step"
    operand = case.operand(bad.row, (), f"gradient: {values.health(bad.upstream)}")
    return case.finding(f"{CODES[kind]}-backward", "error", sentence, bad.row, _SPOILS, fix, operands=[operand])


_SPOILS = "An optimizer that uses it makes the parameter NaN too, and then everything that is computed with it."


def _upstream(bad: BadStep, at: tuple[int, ...] | None) -> Operand:
    g = bad.upstream
    value = f"{values.indexed('g', at)} = {number_text(values.element(g, at))}" if at is not None else ""
    return Operand("g", bad.row, g.dtype.name, list(g.shape), [], f"upstream gradient, {values.health(g)}", value)


def rule_text(op: Any, slot: int) -> str:
    """The source of the op's derivative rule for an input if it is a single expression, else ""."""
    if not isinstance(op, type) or slot >= len(op.inputs):
        return ""
    rule: Callable | None = getattr(op, f"d_{op.inputs[slot]}", None)
    if rule is None:
        return ""
    try:
        text = inspect.getsource(rule)
    except (OSError, TypeError):
        return ""
    _, found, body = text.rpartition("return ")
    return body.split("#")[0].strip() if found and text.count("return ") == 1 and body.count("\n") <= 1 and len(body) < 90 else ""


# -- causes and fixes --------------------------------------------------------------------------------------------------------


def because(op: str, kind: str, at: list[Any], infinite: bool = False) -> tuple[str, str]:
    """Why the op gives that kind of value for these elements, and a fix. `infinite`: its operands contain infinities."""
    x = at[0] if at else None
    y = at[1] if len(at) > 1 else None
    if op in ("log", "log2", "log10", "log1p"):
        edge = -1 if op == "log1p" else 0
        what = "of a negative number is undefined" if kind == "NaN" else f"of {edge} is −Inf"
        return f"{op} {what}.", f"{op}(x.clamp(min=1e-8)); after softmax: log_softmax(x)"
    if op in ("sqrt", "rsqrt"):
        what = "of a negative number is undefined" if kind == "NaN" else "of 0 is infinite"
        return f"{op} {what}.", f"{op}(x.clamp(min=0) + 1e-8)"
    if op in ("div", "reciprocal"):
        below = y if op == "div" else x
        if kind == "NaN" and below == 0:
            return "0 / 0 is not defined.", "divide by (x + 1e-8), or by x.clamp(min=1e-8)"
        if below == 0:
            return "Dividing by 0 gives an infinity.", "divide by (x + 1e-8), or by x.clamp(min=1e-8)"
        return "The quotient is larger than the dtype can hold, or both are infinite.", "divide by x.clamp(min=1e-8)"
    if op in ("exp", "exp2", "expm1", "cosh", "sinh", "square"):
        return (
            f"{op} of a large number is beyond the largest of the dtype (float32: e^88.7 = 3.4e38).",
            "subtract the largest first: (x - x.max()).exp(); or softmax, logsumexp",
        )
    if op == "pow":
        if kind == "NaN":
            return "A negative number to a non-integer power is undefined.", "x.abs().pow(p), or x.clamp(min=0).pow(p)"
        return "The power is too large for the dtype, or 0 to a negative power.", "x.clamp(min=1e-8, max=1e4).pow(p)"
    if op in ("asin", "acos", "atanh", "logit", "erfinv"):
        return f"{op} is defined between its limits only.", "clamp the input: x.clamp(-1 + 1e-6, 1 - 1e-6) (logit: eps=1e-6)"
    if op in ("sub", "add") and kind == "NaN":
        return "Inf − Inf is not defined.", "find what made the infinities; keep them out by clamp()"
    if op in ("mul", "matmul", "linear", "contract") and kind == "NaN":
        return "0 · Inf, or Inf − Inf in a sum of products, is not defined.", "find what made the infinity; keep it out by clamp()"
    if op in SOFTMAXES and kind == "NaN":
        return (
            "A whole row of −Inf has no softmax (everything is masked), or +Inf is in it.",
            "leave one element of each row unmasked, or mask with -1e9",
        )
    if op in ("sum", "mean", "std", "var", "cumsum") and kind == "NaN" and infinite:
        return f"{op} of +Inf and −Inf together, Inf − Inf, is not defined.", "find what made the infinities; keep them out by clamp()"
    if op in ("mean", "std", "var") and kind == "NaN":
        return "Of no elements (or, corrected, of one) there is none: 0 / 0.", "check that the tensor is not empty; std(unbiased=False)"
    if kind == "NaN":
        return (
            "From here on every result that depends on it is NaN, and so is the loss.",
            "check the operands: clamp values that are out of range",
        )
    return (
        "The result is beyond the largest number of the dtype (float16: 65504, float32: 3.4e38).",
        "smaller values: a smaller learning rate, normalized inputs, or float32 instead of float16",
    )


def because_backward(op: str, at: list[Any]) -> tuple[str, str]:
    """Why the op's derivative is not finite for these elements, and a fix."""
    x = at[0] if at else None
    if op in ("sqrt", "pow", "vector_norm", "std") and (x == 0 or x is None):
        return (
            f"The slope of {op} at 0 is infinite; times an upstream gradient of 0 it is NaN.",
            "add a little inside: (x + 1e-12).sqrt(), (x * x).sum().add(1e-12).sqrt()",
        )
    if op in ("log", "log2", "log10", "reciprocal", "div", "log1p"):
        return f"The slope of {op} grows without limit near 0.", "x.clamp(min=1e-8) before it"
    if op in ("acos", "asin", "atanh"):
        return f"The slope of {op} is infinite at ±1.", "x.clamp(-1 + 1e-6, 1 - 1e-6) before it"
    if op in ("mul", "where", "masked_fill", "matmul", "linear"):
        return "0 · Inf is NaN: an operand, or the gradient that came in, is huge.", "keep infinities out of the forward pass by clamp()"
    return (
        "What it hands on reaches every parameter before it; an optimizer that uses it makes them NaN too.",
        "nn.utils.clip_grad_norm_ does not help here: fix the op's input (clamp, eps)",
    )
