"""Explain shape errors of a failed op: the axes that clash, and a view of one operand that fits."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy

from engine.core.op import Elementwise

from ..protocol.checks import Finding
from .case import Case, several, shape

Shape = tuple[int, ...]
SAME = ("binary_cross_entropy", "binary_cross_entropy_with_logits", "stack")
LOSSES = ("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "where", "lerp")


class Clash(NamedTuple):
    """The operands' axes that do not fit, and the rule that they break."""

    axes: dict[int, list[int]]  # index of an operand -> its axes
    rule: str


class View(NamedTuple):
    """Another shape for an operand, and the code for it."""

    shape: Shape
    code: str


def clash(op: str, shapes: list[Shape], elementwise: bool = False, attrs: dict | None = None) -> Clash | None:
    """How the shapes break the op's rule; None if they do not, or if the op is not covered here."""
    attrs = attrs or {}
    if op == "matmul" and len(shapes) > 1:
        return _product(shapes[0], shapes[1])
    if op == "linear" and len(shapes) > 1:
        if shapes[0] and shapes[0][-1] == shapes[1][-1]:
            return None
        last = len(shapes[0]) - 1
        features = shapes[0][-1] if shapes[0] else 0
        return Clash(
            {0: [last] if last >= 0 else [], 1: [len(shapes[1]) - 1]},
            f"the last axis of the input is {features}, the layer takes {shapes[1][-1]} features",
        )
    if op in ("conv1d", "conv2d", "conv3d") and len(shapes) > 1:
        return _convolution(int(op[4]), shapes[0], shapes[1], attrs.get("groups", 1))
    if op == "cat":
        return _joined(shapes, attrs.get("dim", 0))
    if op in ("reshape", "view"):
        return _reshaped(shapes[0], attrs.get("shape"))
    if op in ("cross_entropy", "nll_loss") and len(shapes) > 1:
        batch = shapes[0][:1] if len(shapes[0]) > 1 else ()
        if shapes[1] == shapes[0] or (*batch, *shapes[0][2:]) == shapes[1]:
            return None
        if len(shapes[0]) > 1 and shapes[1] and shapes[0][0] != shapes[1][0]:
            return Clash({0: [0], 1: [0]}, f"there are {shapes[0][0]} rows of scores and {shapes[1][0]} targets")
        return Clash(
            {1: list(range(len(batch), len(shapes[1])))},
            f"scores of shape {shape(shapes[0])} take targets of shape {shape((*batch, *shapes[0][2:]))}",
        )
    if op in SAME:
        first = shapes[0]
        for at, other in enumerate(shapes[1:], 1):
            if other != first:
                return Clash(_differing(first, other, at), "both must have the same shape, without broadcasting")
        return None
    return _broadcast(shapes) if elementwise or op in LOSSES else None


def _product(a: Shape, b: Shape) -> Clash | None:
    if not a or not b:
        return Clash({}, "a scalar has no axis to sum over")
    inner = max(0, len(b) - 2)
    if a[-1] != b[inner]:
        return Clash(
            {0: [len(a) - 1], 1: [inner]},
            f"the last axis of the first ({a[-1]}) must equal the {'second to last' if len(b) > 1 else 'only'} "
            f"axis of the second ({b[inner]})",
        )
    found = _broadcast([a[:-2], b[:-2]])
    return found and Clash(found.axes, "the axes before the last two must broadcast: " + found.rule)


def _convolution(n: int, x: Shape, w: Shape, groups: int) -> Clash | None:
    if len(x) not in (n + 1, n + 2):
        return Clash({0: list(range(len(x)))}, f"it takes {n + 1} axes (channels first) or {n + 2} with a batch, and got {len(x)}")
    channel = len(x) - n - 1
    if x[channel] != w[1] * groups:
        return Clash({0: [channel], 1: [1]}, f"the input has {x[channel]} channels (axis {channel}), the layer takes {w[1] * groups}")
    return None


def _joined(shapes: list[Shape], dim: int) -> Clash | None:
    first = shapes[0]
    for at, other in enumerate(shapes[1:], 1):
        if len(other) != len(first):
            return Clash({0: [], at: list(range(len(other)))}, f"all must have as many axes: {len(first)} and {len(other)}")
        axes = [i for i, (n, m) in enumerate(zip(first, other, strict=True)) if n != m and i != dim % len(first)]
        if axes:
            return Clash({0: axes, at: axes}, f"only axis {dim} may differ")
    return None


def _reshaped(old: Shape, new: object) -> Clash | None:
    if not isinstance(new, tuple) or not all(isinstance(n, int) for n in new):
        return None
    known = math.prod(n for n in new if n != -1)
    size = math.prod(old)
    if size == known if -1 not in new else known and size % known == 0:
        return None
    return Clash(
        {0: list(range(len(old)))}, f"it has {size} elements, and {shape(new)} holds {known if -1 not in new else f'a multiple of {known}'}"
    )


def _broadcast(shapes: list[Shape]) -> Clash | None:
    try:
        numpy.broadcast_shapes(*shapes)
    except ValueError:
        a = shapes[0]
        for at, b in enumerate(shapes[1:], 1):
            axes = _differing(a, b, at, ones=True)
            if axes[at]:
                x, y = axes[0][-1], axes[at][-1]
                return Clash(axes, f"counted from the last axis, sizes must be equal or 1: {a[x]} and {b[y]}")
    return None


def _differing(a: Shape, b: Shape, at: int, ones: bool = False) -> dict[int, list[int]]:
    """The axes that differ, aligned at the last axis; with `ones`, only those where neither size is 1."""
    pairs = [
        (i, j)
        for i, j in zip(range(len(a) - 1, -1, -1), range(len(b) - 1, -1, -1), strict=False)
        if a[i] != b[j] and not (ones and 1 in (a[i], b[j]))
    ]
    found = {0: sorted(i for i, _ in pairs), at: sorted(j for _, j in pairs)}
    if not ones and len(a) != len(b):
        found[0 if len(a) > len(b) else at] = sorted({*found[0 if len(a) > len(b) else at], *range(abs(len(a) - len(b)))})
    return found


def views(a: Shape, fitting: Callable[[Shape], bool], other: Shape) -> Iterator[View]:
    """Yield views of an operand that fit, the simplest first."""
    candidates: list[View] = []
    n = len(a)
    if n > 1:
        candidates.append(View((*a[:-2], a[-1], a[-2]), "x.T" if n == 2 else "x.transpose(-2, -1)"))
    candidates += [View(a[:i] + a[i + 1 :], f"x.squeeze({i if i < n - 1 else -1})") for i in range(n) if a[i] == 1]
    candidates += [View((*a[:i], 1, *a[i:]), f"x.unsqueeze({i if i < n else -1})") for i in (*range(1, n + 1), 0)]
    if n > 2:
        candidates.append(View((a[0], math.prod(a[1:])), "x.flatten(1)"))
        candidates.append(
            View((a[0], a[-1], *a[1:-1]), f"x.movedim(-1, 1)  # channels first: {shape(a)} → {shape((a[0], a[-1], *a[1:-1]))}")
        )
        candidates.append(View((a[-1], *a[:-1]), "x.movedim(-1, 0)"))
    if math.prod(a) == math.prod(other) and a != other:
        candidates.append(View(other, f"x.reshape({', '.join(map(str, other))})"))
    return (view for view in candidates if fitting(view.shape))


def fix(op: str, shapes: list[Shape], names: list[str], elementwise: bool, attrs: dict, *, parameters: tuple[int, ...] = ()) -> str:
    """A line of code that makes the operands fit; "" if no view of one of them does."""
    for at in range(min(2, len(shapes))):
        at = 1 - at if op not in ("linear", "conv1d", "conv2d", "conv3d", "matmul") and len(shapes) > 1 else at
        if at in parameters or at == 0 and op in ("cross_entropy", "nll_loss"):
            continue

        def fits(new: Shape, at: int = at) -> bool:
            changed = [*shapes[:at], new, *shapes[at + 1 :]]
            if clash(op, changed, elementwise, attrs) is not None:
                return False
            return not elementwise or numpy.broadcast_shapes(*changed) in shapes  # an outer sum is seldom intended

        other = shapes[1 - at] if len(shapes) > 1 else ()
        for view in views(shapes[at], fits, other):
            code = view.code.replace("x.", f"{names[at]}.", 1) if names[at].isidentifier() else view.code
            return code if names[at].isidentifier() else f"{names[at]}: {code}"
    if op == "matmul" and len(shapes) > 1 and shapes[1] and len(shapes[1]) == 2 and clash(op, [shapes[0], shapes[1][::-1]]) is None:
        return f"{names[1]}.T" if names[1].isidentifier() else "transpose the second: y.T"
    return ""


def check(case: Case) -> list[Finding]:
    """Return the finding for the failed op if its operands' shapes are the cause."""
    r, row = case.r, case.r.failure
    if row < 0:
        return []
    op, attrs = r.op_name(row), r.attrs[row]
    rows = [s for s, _ in r.inputs(row)]
    shapes = [tuple(r.shape[s]) for s in rows]
    elementwise = isinstance(r.ops[row], type) and issubclass(r.ops[row], Elementwise)
    found = clash(op, shapes, elementwise, attrs) if shapes else None
    if found is None:
        return []
    names = [case.called(s) for s in rows]
    parameters = tuple(at for at, s in enumerate(rows) if r.kind[s] == "parameter")
    mended = fix(op, shapes, names, elementwise, attrs, parameters=parameters)
    for s, name in zip(rows, names, strict=True):
        if mended.startswith(name) and mended.endswith((".T", ".transpose(-2, -1)")) and r.op_name(s) in ("permute", "transpose"):
            mended = f"{case.called(case.input(s))}, without the transpose"
    if not mended and op == "linear":
        mended = f"nn.Linear({shapes[0][-1] if shapes[0] else 1}, {shapes[1][0]}), or bring the input to {shapes[1][-1]} features"
    elif not mended and op.startswith("conv") and parameters:
        mended = f"nn.{op.capitalize()[:4]}{op[4]}d({shapes[0][found.axes[0][0]] if found.axes[0] else 1}, {shapes[1][0]}, ...)"
    elif not mended and op in ("reshape", "view"):
        mended = "let one axis be found: x.reshape(x.shape[0], -1)"
    told = several([f"{name} is {shape(s)}" for name, s in zip(names, shapes, strict=True)])
    axes = "; ".join(f"axis {_listed(found.axes[at])} of {names[at]}" for at in sorted(found.axes) if found.axes[at])
    sentence = f"{op} failed{case.at(row)}: {found.rule}. {told}{f' (look at {axes})' if axes else ''}."
    operands = [case.operand(s, found.axes.get(at, ())) for at, s in enumerate(rows)]
    why = "Nothing after this line has run; the graph ends here."
    return [
        case.finding(
            "shape-mismatch",
            "error",
            sentence,
            row,
            why,
            mended or "print the shapes before this line and compare them with what was meant",
            operands=operands,
        )
    ]


def _listed(axes: list[int]) -> str:
    return several([str(i) for i in axes])
