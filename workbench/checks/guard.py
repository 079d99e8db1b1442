"""Stop a program at the op, forward or backward, that makes a NaN or an infinity."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from engine.base import errors, observe
from engine.core.tensor import Tensor

from ..base.frames import at_user_line
from ..inspector import number_text, values
from .not_finite import because, because_backward, opposite, rule_text


class NotFiniteError(FloatingPointError, RuntimeError):
    """Raised by `guard` when an op makes a NaN or an infinity; the message names the element and the operands' values there.

    It is also a RuntimeError, as in PyTorch's anomaly mode.
    """


class Guard(observe.Observer):
    """An observer that checks every result and every gradient, and forwards all events to the previous observer."""

    def __init__(self, wanted: frozenset[str], inner: observe.Observer | None) -> None:
        self.wanted, self.inner = wanted, inner
        self.lines: dict[int, str] = {}  # time of a node -> the user's line that made it
        if inner is not None:  # other events go directly to the previous observer
            self.begins, self.failed = inner.begins, inner.failed
            self.enter, self.leave = inner.enter, inner.leave
            self.backward_begins, self.step_begins, self.updated = inner.backward_begins, inner.step_begins, inner.updated

    def op(self, op: Any, inputs: tuple, attrs: dict, output: Any) -> None:
        if self.inner is not None:
            self.inner.op(op, inputs, attrs, output)
        for out in output if isinstance(output, (tuple, list)) else (output,):
            if isinstance(out, Tensor):
                if not values.finite(out.array):
                    check(op, inputs, attrs.values(), out.array, self.wanted)
                if out.node is not None:
                    self.lines[out.node.time] = at_user_line()

    def wrote(self, op: Any, target: Any, inputs: tuple, attrs: dict) -> None:
        if self.inner is not None:
            self.inner.wrote(op, target, inputs, attrs)
        if not values.finite(target.array):
            check(op, inputs, attrs.values(), target.array, self.wanted)
        if target.node is not None:
            self.lines[target.node.time] = at_user_line()

    def backward(self, node: Any, grad: Any, input_grads: tuple) -> None:
        if self.inner is not None:
            self.inner.backward(node, grad, input_grads)
        arrived = grad if isinstance(grad, list) else [grad]
        check_backward(node.op, arrived, input_grads, self.lines.pop(node.time, ""), self.wanted)


def check(op: Any, given: Iterable[Any], settings: Iterable[Any], result: Any, wanted: frozenset[str]) -> None:
    """Raise NotFiniteError if the op's result has one of the `wanted` kinds: any NaN, or infinities from finite operands and settings."""
    given = [_array(x) for x in given]
    before = {kind for x in (*given, *settings) for kind in _kinds_of(x)}
    for kind in values.kinds(result):
        # existing infinities, as in a mask, are intended
        if kind not in wanted or kind != "NaN" and before:
            continue
        index = values.first(result, kind)
        places = [opposite(op, x, result, index) for x in given]
        names = op.inputs if not op.variadic else [f"{op.inputs[0]}[{i}]" for i in range(len(given))]
        told = [_told(name, x, at) for name, x, at in zip(names, given, places, strict=False) if x is not None]
        points = [
            values.element(x, at) if at is not None and hasattr(x, "shape") else x if not hasattr(x, "shape") else None
            for x, at in zip(given, places, strict=True)
        ]
        cause, fix = because(op.name, kind, points, bool(before))
        verb = "made" if kind not in before else "was given, and hands on,"
        raise NotFiniteError(
            f"{op.name} {verb} {kind}{at_user_line()}: {values.indexed('result', index)}; {'; '.join(told)}. {cause} Try: {fix}."
        )


def check_backward(op: Any, arrived: Iterable[Any], gradients: Iterable[Any], line: str, wanted: frozenset[str]) -> None:
    """Raise NotFiniteError if a backward step made one of the `wanted` kinds from finite gradients; `line` is where its op ran."""
    upstream = [_array(g) for g in arrived if g is not None]
    if not all(map(values.finite, upstream)):
        return
    for slot, gradient in enumerate(gradients):
        array = _array(gradient)
        if array is None or values.finite(array):
            continue
        for kind in values.kinds(array):
            if kind in wanted:
                name = op.inputs[slot] if slot < len(op.inputs) else f"input {slot}"
                rule = rule_text(op, slot)
                cause, fix = because_backward(op.name, [])
                came = "; ".join(_told("upstream gradient g", g, None) for g in upstream)
                by = f", by its rule d_{name} = {rule}" if rule else ""
                raise NotFiniteError(
                    f"The backward step of {op.name} made {kind}{line or at_user_line()}: the gradient of "
                    f"{values.indexed(name, values.first(array, kind))}{by}; {came}. {cause} Try: {fix}."
                )


def _array(x: Any) -> Any:
    return x.array if isinstance(x, Tensor) else x


def _kinds_of(x: Any) -> list[str]:
    if hasattr(x, "dtype"):
        return values.kinds(x)
    if isinstance(x, float) and x - x != 0:
        return ["NaN" if x != x else "+Inf" if x > 0 else "−Inf"]
    return []


def _told(name: str, x: Any, at: tuple[int, ...] | None) -> str:
    if not hasattr(x, "dtype"):
        return f"{name} is {number_text(x) if isinstance(x, (int, float)) else errors.describe(x)}"
    point = f", {values.indexed(name, at)} = {number_text(values.element(x, at))}" if at is not None and x.size else ""
    return f"{name} is {errors.describe(x)}, {values.health(x)}{point}"
