"""The table of a model's parameters: gradient statistics, warning flags, and the relative size of the next update."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from copy import deepcopy
from typing import Any, NamedTuple

from engine import optim
from engine.core.tensor import Tensor
from engine.optim import Optimizer
from engine.optim.optimizer import library

from .. import inspector
from ..inspector import gradient_flow
from ..inspector.statistics import Measuring, Wanted
from ..protocol import Fact, ParameterRow
from ..recording.reasons import written_over
from ..recording.recording import Recording
from .history import knowing

LARGEST = 20_000_000  # elements; the next update of a larger parameter is not tried on a copy

Gradient = Callable[[int], tuple[Any, str]]  # row -> its gradient and "", or None and the reason why there is none
Ratio = Callable[[], float | None]


class Parameter(NamedTuple):
    """A line of the table before it is measured."""

    row: int
    name: str
    tensor: Tensor | None
    shape: tuple[int, ...]
    grad: Any  # its array; None if it is missing
    missing: str  # why


def parameters(recording: Recording, gradient: Gradient, optimizers: list[Optimizer]) -> list[ParameterRow]:
    """Parameters and other leaves in the order of their use in the forward pass, then the models' unused parameters."""
    found = []
    for row in range(recording.count):
        if recording.kind[row] in ("parameter", "leaf"):
            array, missing = gradient(row)
            tensor, now = recording.tensor(row), row
            if tensor is None and (later := written_over(recording, row)) >= 0:
                tensor, now = recording.tensor(later), later  # it was written in place after its use
            name = recording.names.get(row) or recording.called(now)
            found.append(Parameter(row, name, tensor, recording.shape[row], array, missing))
    for name, tensor in unused(recording):
        if hasattr(tensor, "materialize"):  # lazy
            found.append(Parameter(-1, name, None, (), None, "Its shape is given by the first call of its module."))
            continue
        grad = tensor._grad
        why = "" if grad is not None else "The recorded code does not use it."
        found.append(Parameter(-1, name, tensor, tensor.array.shape, None if grad is None else grad.array, why))
    return described(found, optimizers)


def unused(recording: Recording) -> Iterator[tuple[str, Tensor]]:
    """Yield the parameters of the models that ran which no recorded op used."""
    foreign = recording.foreign
    if foreign is not None:
        yield from foreign.unused()
        return
    seen = {id(tensor) for row in range(recording.count) if (tensor := recording.tensor(row)) is not None}
    for held in recording.modules:
        model = held()
        if model is not None:
            for name, tensor in model.named_parameters():
                if id(tensor) not in seen:
                    seen.add(id(tensor))
                    yield name, tensor


def described(parameters: list[Parameter], optimizers: list[Optimizer]) -> list[ParameterRow]:
    """The table rows of parameters. Of those on a GPU, gradients, weights and updates take one wait each in all."""
    flow = gradient_flow.rows((one.name, tuple(one.shape), one.grad) for one in parameters)
    norms = iter(inspector.summaries([one.tensor.array for one in parameters if one.tensor is not None]))
    weights = [None if one.tensor is None else next(norms).norm for one in parameters]
    ratios = [ratio_of(one.tensor, one.grad, weight, optimizers) for one, weight in zip(parameters, weights, strict=True)]
    found = []
    for one, seen, weight, (ratio, told) in zip(parameters, flow, weights, ratios, strict=True):
        numbers = (_number(seen.norm), _number(seen.mean), _number(seen.max))
        flag = "not yet" if one.missing == inspector.NOT_YET else seen.flag
        found.append(ParameterRow(one.row, one.name, list(one.shape), weight, *numbers, flag, one.missing, ratio(), told))
    return found


def ratio_of(tensor: Tensor | None, grad: Any, weight: float | None, optimizers: list[Optimizer]) -> tuple[Ratio, str]:
    """|update| / |weight| in L2 norms, when called, and the source of the value; or None and the reason why it is unknown.

    It is the last ratio that wb.history measured, else that of the optimizer's next step with this gradient, computed by its own rule
    on copies. About 1e-3 is healthy (Stanford's CS231n, "Ratio of weights:updates").
    """
    if tensor is None:
        return _unknown, "The parameter no longer exists."
    known = knowing(tensor)
    if known is not None:
        history, name = known
        measured = [(int(step), float(x)) for step, x in zip(history.steps, history[name].ratio, strict=True) if math.isfinite(x)]
        if measured:
            return lambda: measured[-1][1], f"measured by wb.history at step {measured[-1][0]}"
    if grad is None:
        return _unknown, "Without a gradient nothing is updated."
    group, optimizer = next(((g, o) for o in optimizers for g in o.param_groups if any(p is tensor for p in g["params"])), (None, None))
    if group is None or optimizer is None:
        return _unknown, "No optimizer among the notebook's variables has this parameter."
    if not weight:
        return _unknown, "The weight's norm is 0 or not finite."
    kind = type(optimizer)
    if kind._update is Optimizer._update or getattr(optim, kind.__name__, None) is not kind:
        return _unknown, f"{kind.__name__} has no rule that could be tried out for one parameter."
    if tensor.array.size > LARGEST:
        return _unknown, f"It has more than {LARGEST:,} elements; wb.history measures the update of a real step."
    moved = Measuring([update(optimizer, group, tensor, grad)], Wanted())
    return lambda: _divided(moved.get()[0].summary.norm, weight), f"the next {kind.__name__} step with this gradient"


def update(optimizer: Optimizer, group: dict, parameter: Tensor, grad: Any) -> Any:
    """The update that `optimizer.step()` would add to the parameter now, without changing anything.

    Do not call while user code runs: the optimizer's scratch arrays are shared.
    """
    before = parameter.array
    after, state = before.copy(), deepcopy(dict(optimizer.state.get(parameter, {})))
    rule = optimizer._update_complex if before.dtype.kind == "c" else optimizer._update
    rule(library(before), after, -grad if group.get("maximize") else grad.copy(), state, group)
    return after - before


def totals(rows: list[ParameterRow]) -> list[Fact]:
    """Summary facts of the model: number of parameters, gradient norm and flags."""
    count = sum(math.prod(row.shape) for row in rows)
    facts = [Fact("parameters", f"{count:,} in {inspector.count_text(len(rows), 'tensor')}")]
    norms = [row.grad_norm for row in rows if row.grad_norm is not None]
    if norms:
        facts.append(Fact("gradient norm", inspector.number_text(math.hypot(*norms))))
    flags = [row.flag for row in rows if row.flag and row.flag != "not yet"]
    if flags:
        facts.append(Fact("flags", ", ".join(f"{flags.count(flag)} {flag}" for flag in dict.fromkeys(flags))))
    return facts


def _unknown() -> None:
    return None


def _divided(norm: float | None, weight: float) -> float | None:
    return None if norm is None else norm / weight


def _number(x: float) -> float | None:
    return x if math.isfinite(x) else None
