"""Stop at the very op, forward or backward, that makes a NaN or an infinity."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from engine import errors, observe
from engine.tensor import Tensor

from ..inspector import number_text
from . import values
from .not_finite import because, because_backward, opposite, rule_text


class NotFiniteError(FloatingPointError, RuntimeError):
    """An op made what is not finite; the sentence says which element, and what its operands had there. A RuntimeError, as PyTorch's is."""


@contextmanager
def guard(nan: bool = True, inf: bool = True) -> Iterator[None]:
    """Inside the block the first op that makes NaN, or (`inf`) an infinity of finite numbers, raises NotFiniteError."""
    with observe.observing(Guard(_wanted(nan, inf), observe.current)):
        yield


def _wanted(nan: bool, inf: bool) -> frozenset[str]:
    return frozenset((*(("NaN",) if nan else ()), *(("+Inf", "−Inf") if inf else ())))


class Guard(observe.Observer):
    """Looks at every result and every gradient, and tells everything on to who watched before."""

    def __init__(self, wanted: frozenset[str], inner: observe.Observer | None) -> None:
        self.wanted, self.inner = wanted, inner
        if inner is not None:  # what it does not look at itself goes there straight
            self.begins, self.failed = inner.begins, inner.failed
            self.enter, self.leave = inner.enter, inner.leave
            self.backward_begins, self.step_begins, self.updated = inner.backward_begins, inner.step_begins, inner.updated

    def op(self, op: Any, inputs: tuple, attrs: dict, output: Any) -> None:
        if self.inner is not None:
            self.inner.op(op, inputs, attrs, output)
        for out in output if isinstance(output, (tuple, list)) else (output,):
            if isinstance(out, Tensor) and not values.finite(out.array):
                self._forward(op, inputs, attrs, out.array)

    def wrote(self, op: Any, target: Any, inputs: tuple, attrs: dict) -> None:
        if self.inner is not None:
            self.inner.wrote(op, target, inputs, attrs)
        if not values.finite(target.array):
            self._forward(op, inputs, attrs, target.array)

    def backward(self, node: Any, grad: Any, input_grads: tuple) -> None:
        if self.inner is not None:
            self.inner.backward(node, grad, input_grads)
        for slot, gradient in enumerate(input_grads):
            array = gradient.array if isinstance(gradient, Tensor) else gradient
            if array is not None and not values.finite(array):
                self._backward(node, grad, slot, array)

    def _forward(self, op: Any, inputs: tuple, attrs: dict, result: Any) -> None:
        given = [_array(x) for x in inputs]
        before = {kind for x in (*given, *attrs.values()) for kind in _kinds_of(x)}
        for kind in values.kinds(result):
            # infinities that were put there, as in a mask, are meant
            if kind not in self.wanted or kind != "NaN" and before:
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
                f"{op.name} {verb} {kind}{errors.at_user_line()}: {values.indexed('result', index)}; {'; '.join(told)}. {cause} Try: {fix}."
            )

    def _backward(self, node: Any, grad: Any, slot: int, array: Any) -> None:
        arrived = grad if isinstance(grad, list) else [grad]
        if not all(values.finite(_array(g)) for g in arrived if g is not None):
            return
        for kind in values.kinds(array):
            if kind in self.wanted:
                op = node.op
                name = op.inputs[slot] if slot < len(op.inputs) else f"input {slot}"
                rule = rule_text(op, slot)
                index = values.first(array, kind)
                cause, fix = because_backward(op.name, [])
                upstream = "; ".join(_told("upstream gradient g", _array(g), None) for g in arrived if g is not None)
                by = f", by its rule d_{name} = {rule}" if rule else ""
                raise NotFiniteError(
                    f"The backward step of {op.name} made {kind}{errors.at_user_line()}: the gradient of "
                    f"{values.indexed(name, index)}{by}; {upstream}. {cause} Try: {fix}."
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
