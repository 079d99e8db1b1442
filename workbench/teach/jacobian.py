"""Compare forward and reverse mode: the whole Jacobian of a function in both, with every operation counted.

A forward pass pushes one tangent through the graph and gives a column; a reverse pass pulls one gradient back and gives a row. (Griewank
and Walther, Evaluating Derivatives, 2nd ed., chapters 3 and 4: either costs a small constant times the function itself.)
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any, Literal

import numpy

from engine.core import tape
from engine.core.op import Linear, Op
from engine.core.tensor import Tensor

from .. import inspector
from ..inspector.numbers import norm
from ..protocol import Cost, Mode, ModePass, Modes, ModeStep
from ..recording.recording import Recording
from .counting import Tally, counted
from .judge import shown

SHOWN = 8  # passes of each mode that can be stepped through
FEW = 6  # values that are written out
LARGEST = 10_000  # maximum number of inputs and of outputs: each is a pass


class Jacobian:
    """A function's graph, from the elements of `inputs` to those of `output`."""

    def __init__(self, output: Tensor, inputs: Sequence[Tensor], names: Sequence[str], recording: Recording) -> None:
        self.output, self.inputs, self.names, self.recording = output, inputs, names, recording
        self.leaves = [x.node for x in inputs]
        wanted, on_the_way = set(self.leaves), []
        for node in sorted(tape.plan([output.node]), key=lambda node: node.time):
            if node in wanted or any(source in wanted for source in node.inputs):
                wanted.add(node)
                on_the_way.append(node)
        self.order = on_the_way
        self.n = sum(x.numel() for x in inputs)
        self.m = output.numel()

    def forward(self, number: int) -> tuple[ModePass, numpy.ndarray]:
        """Run a forward pass for input element `number`; return it and the resulting column."""
        tally = Tally()
        seeds, name = self._seeds(number)
        tangents: dict[Any, Any] = {node: counted(seed, tally) for node, seed in zip(self.leaves, seeds, strict=True)}
        steps = []
        for node in self.order:
            before = tally.cost()
            if node.op is not None:
                given = [None if source is None else tangents.get(source) for source in node.inputs]
                if all(one is None for one in given):
                    continue
                tangents[node] = self._push(node, given, tally)
            steps.append(self._step(node, tangents[node], before, tally))
        column = numpy.asarray(tangents[self.output.node]).reshape(-1)
        return ModePass(name, steps, f"the column ∂/∂{name} = {_short(column)}"), column

    def reverse(self, number: int) -> tuple[ModePass, numpy.ndarray]:
        """Run a reverse pass for output element `number`; return it and the resulting row."""
        tally = Tally()
        seed = numpy.zeros(tuple(self.output.shape), self.output.array.dtype)
        seed.reshape(-1)[number] = 1
        grads: dict[Any, Any] = {self.output.node: counted(seed, tally)}
        steps, wanted = [], set(self.order)
        for node in reversed(self.order):
            grad = grads.get(node)
            if grad is None:
                continue
            before = tally.cost()
            if node.op is not None:
                with _counting(node, tally, wanted):
                    pulled = node.op.pull(node, counted(grad, tally))
                for source, g in zip(node.inputs, pulled, strict=False):
                    if g is not None and source in wanted:
                        grads[source] = counted(g, tally) if source not in grads else grads[source] + g
            steps.append(self._step(node, grad, before, tally))
        found = [grads.get(leaf, numpy.zeros(tuple(leaf.shape))) for leaf in self.leaves]
        row = numpy.concatenate([numpy.asarray(one).reshape(-1) for one in found])
        name = f"y{_index(number, tuple(self.output.shape))}"
        return ModePass(name, steps, f"the row ∂{name} = {_short(row)}"), row

    @staticmethod
    def _push(node: Any, given: list, tally: Tally) -> Any:
        """The tangent of a node.

        An op without its own forward rule transposes its pull, and is counted as that pull: a linear map and its transpose take the same
        multiplications (Griewank and Walther, section 3.4).
        """
        op = node.op
        pushes = op.push.__func__ is not Op.push.__func__ and not (issubclass(op, Linear) and (op.variadic or op.multi or op.aux))
        if pushes or op.slopes:
            with _counting(node, tally):
                return counted(node.op.push(node, given, numpy, False), tally)
        carrying = {source for source, one in zip(node.inputs, given, strict=True) if one is not None}
        seed = numpy.ones(node.shape, node.dtype) if not node.op.multi else [numpy.ones(*one) for one in node.attrs["__results__"]]
        with _counting(node, tally, carrying):
            node.op.pull(node, [counted(one, tally) for one in seed] if node.op.multi else counted(seed, tally))
        found = node.op.push(node, [None if one is None else numpy.asarray(one) for one in given], numpy, False)
        return [counted(one, tally) for one in found] if node.op.multi else counted(found, tally)

    def _seeds(self, number: int) -> tuple[list[numpy.ndarray], str]:
        seeds, name = [], ""
        for x, called in zip(self.inputs, self.names, strict=True):
            seed = numpy.zeros(tuple(x.shape), x.array.dtype)
            if 0 <= number < x.numel():
                seed.reshape(-1)[number] = 1
                name = f"{called}{_index(number, tuple(x.shape))}"
            number -= x.numel()
            seeds.append(seed)
        return seeds, name

    def _step(self, node: Any, value: Any, before: Cost, tally: Tally) -> ModeStep:
        now = tally.cost()
        cost = Cost(*(getattr(now, key) - getattr(before, key) for key in ("multiplications", "additions", "others", "bytes")))
        row = self.recording.row_of(node)
        name = "" if row < 0 else self.recording.names.get(row, "")
        return ModeStep(
            row,
            name or (node.op.name if node.op is not None else "input"),
            _short(numpy.asarray(value)),
            _badge(numpy.asarray(value)),
            cost,
        )

    def mode(self, name: Literal["forward", "reverse"]) -> Mode:
        """One mode for the whole Jacobian. A pass's cost does not depend on its seed, so only a few passes are run."""
        passes = self.n if name == "forward" else self.m
        run = self.forward if name == "forward" else self.reverse
        walked = [run(number)[0] for number in range(min(passes, SHOWN))]
        costs = [step.cost for step in walked[0].steps]
        each = Cost(*(sum(getattr(one, key) for one in costs) for key in ("multiplications", "additions", "others", "bytes")))
        total = Cost(each.multiplications * passes, each.additions * passes, each.others * passes, each.bytes * passes)
        return Mode(name, passes, each, total, walked)

    def message(self) -> Modes:
        """Both modes, and which is cheaper."""
        forward, reverse = self.mode("forward"), self.mode("reverse")
        return Modes(
            None,
            self.recording.name,
            self.n,
            self.m,
            forward,
            reverse,
            _sentence(self.n, self.m, forward, reverse),
            _turns(forward, reverse),
        )


class _counting:
    """Makes a node's saved tensors count while its rule runs; of its inputs, only those in `wanted` get a gradient."""

    def __init__(self, node: Any, tally: Tally, wanted: set | None = None) -> None:
        self.node, self.saved, self.inputs, self.tally, self.wanted = node, node.saved, node.inputs, tally, wanted

    def __enter__(self) -> None:
        if isinstance(self.saved, tuple):
            arrays = [counted(x, self.tally) if isinstance(x, numpy.ndarray) and x.dtype.kind == "f" else x for x in self.saved]
            self.node.saved = tuple(arrays)
        if self.wanted is not None:
            self.node.inputs = tuple(source if source in self.wanted else None for source in self.inputs)

    def __exit__(self, *error: object) -> None:
        self.node.saved, self.node.inputs = self.saved, self.inputs


def operations(cost: Cost) -> int:
    """The total number of operations."""
    return cost.multiplications + cost.additions + cost.others


def _sentence(n: int, m: int, forward: Mode, reverse: Mode) -> str:
    ahead, behind = sorted((forward, reverse), key=lambda mode: operations(mode.total))
    a, b = operations(ahead.total), operations(behind.total)
    what = f"From {n} number{'s' * (n > 1)} to {m}: "
    if a == b:
        return f"{what}both modes take {a:,} operations."
    times = f"{b / a:.2g} times as many" if a else "more"
    return (
        f"{what}{ahead.name} mode takes {ahead.passes:,} pass{'es' * (ahead.passes > 1)} and {a:,} operations for the whole Jacobian; "
        f"{behind.name} mode takes {behind.passes:,} pass{'es' * (behind.passes > 1)} and {times}."
    )


def _turns(forward: Mode, reverse: Mode) -> str:
    f, r = operations(forward.each), operations(reverse.each)
    if not f and not r:
        return "No arithmetic is needed: the function only moves values."
    cost = f"One forward pass takes {f:,} operation{'s' * (f != 1)}, one reverse pass {r:,}."
    if not f or not r:
        return cost
    exact = Fraction(r, f)
    near = _in_small_numbers(exact) if r >= f else 1 / _in_small_numbers(1 / exact)
    about = "" if near == exact else "about "
    outputs = "each output" if near.denominator == 1 else f"every {near.denominator:,} outputs"
    few = "fewer inputs than outputs" if near == 1 else f"fewer than {about}{near.numerator:,} inputs for {outputs}"
    return f"{cost} Forward mode is the cheaper one as long as there are {few}; a loss has one output, so training goes in reverse."


def _in_small_numbers(ratio: Fraction) -> Fraction:
    """A fraction near `ratio`, which is 1 or more; its numerator is about 12 at most, or it is a whole number."""
    return ratio.limit_denominator(max(1, int(12 / ratio)))


def _index(number: int, shape: tuple[int, ...]) -> str:
    return f"[{', '.join(str(int(i)) for i in numpy.unravel_index(number, shape))}]" if shape else ""


def _short(x: numpy.ndarray) -> str:
    if x.size <= FEW:
        return shown(x.astype(numpy.float64))
    return f"{'×'.join(map(str, x.shape))}, norm {inspector.number_text(norm(x))}"


def _badge(x: numpy.ndarray) -> str:
    if x.size == 1:
        return inspector.number_text(float(x.reshape(-1)[0]))
    return f"‖{inspector.number_text(norm(x))}‖"


def jacobian_of(f: Callable, xs: Sequence[Tensor]) -> tuple[Tensor, list[Tensor]]:
    """Call the function on fresh copies of its inputs, with its graph. Raises TypeError or ValueError if there is no Jacobian."""
    if not xs or not all(isinstance(x, Tensor) for x in xs):
        raise TypeError("wb.teach.modes takes a function and the tensors at which to evaluate it: wb.teach.modes(f, x)")
    for x in xs:
        if x.array.dtype.kind != "f" or type(x.array) is not numpy.ndarray:
            raise ValueError(f"wb.teach.modes counts with real floating-point tensors on the CPU, got {x.array.dtype.name} on {x.device}")
    inputs = [x.detach().clone().requires_grad_() for x in xs]
    y = f(*inputs)
    if not isinstance(y, Tensor):
        raise TypeError(f"The function must give one Tensor, got {type(y).__name__}")
    if y.node is None:
        raise ValueError("The function's result does not depend on its inputs by any op that has a derivative")
    for what, count in (("inputs", sum(x.numel() for x in inputs)), ("outputs", y.numel())):
        if not 0 < count <= LARGEST:
            raise ValueError(f"wb.teach.modes takes functions of 1 to {LARGEST:,} {what}; this one has {count:,}")
    return y, inputs


def names_of(f: Callable, count: int) -> list[str]:
    """The function's names for its inputs; x, or x1, x2, ..., if it has none."""
    try:
        parameters = list(inspect.signature(f).parameters.values())
    except (TypeError, ValueError):  # as for a builtin
        parameters = []
    named = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)][:count]
    return named if len(named) == count else ["x"] if count == 1 else [f"x{number}" for number in range(1, count + 1)]


def report(modes: Modes) -> str:
    """Both modes side by side, for a terminal."""
    lines = [modes.sentence, "", f"{'whole Jacobian':<18}{'forward':>14}{'reverse':>14}"]
    lines.append(f"{'passes':<18}{modes.forward.passes:>14,}{modes.reverse.passes:>14,}")
    for label, key in (("multiplications", "multiplications"), ("additions", "additions"), ("others", "others"), ("bytes moved", "bytes")):
        lines.append(f"{label:<18}{getattr(modes.forward.total, key):>14,}{getattr(modes.reverse.total, key):>14,}")
    return "\n".join([*lines, "", modes.crossover])
