"""The public functions of `wb.whatif`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from engine.core.tensor import Tensor

from .. import caller
from ..backward.stepper import Stepper
from ..recording.recompute import Cannot
from ..recording.recording import Recording
from ..session.surface import opened
from . import contributions, local, one, rerunning, rule_check
from .forks import Edit, Fork, forks_of
from .ground import ground_of_tensor, plan_of
from .local import LocalDerivative


def stepper_of(walk: Any) -> Stepper:
    """The pass behind a result of `wb.step(loss)`: a Stepper, or the view of one."""
    found = walk if isinstance(walk, Stepper) else getattr(walk, "stepper", None)
    if not isinstance(found, Stepper):
        raise TypeError(f"Expected what wb.step(loss) gives, got {type(walk).__name__}.")
    return found


def fork(
    walk: Any, expression: str, at: Tensor | int | None = None, slot: int = -1, index: Sequence[int] | None = None, name: str = ""
) -> Fork:
    """Recompute the backward pass with another gradient: `wb.whatif.fork(s, "g.clip(-1, 1)")` for `s = wb.step(loss)`.

    The gradient that arrives at tensor `at` (by default, at the current step), or the one that its step passes to input `slot`, is replaced
    by `expression` in `g`; with `index`, only that element. The engine recomputes the rest; only `write()` changes `.grad`. Raises
    ValueError for an expression that is not allowed, RuntimeError if the pass cannot be run again.
    """
    stepper = stepper_of(walk)
    place = 0
    if at is None:
        if not stepper.index:
            raise Cannot("The pass has not begun: take a step, or say at which tensor the gradient is to be changed (at=).")
        place, row = stepper.index, stepper.plan[stepper.index - 1]
    else:
        row = at if isinstance(at, int) else row_of(stepper.recording, at)
    chosen = None if index is None else tuple(index)
    return forks_of(stepper).make(Edit(row, expression, slot, chosen, place), name)


def rerun(loss: Tensor, changes: Mapping[Tensor, str]) -> rerunning.Rerun:
    """Rerun the program behind `loss` with other values: `rerun(loss, {w: "x * 2"})` shows the new loss and gradients beside the old.

    The recorded ops are called again, but no Python code: branches stay as they were. The tensors themselves do not change.
    """
    r = opened(loss, caller.names()).recording
    found = []
    for tensor, text in changes.items():
        if not isinstance(tensor, Tensor):
            raise TypeError(f"Expected tensors and expressions, such as {{w: 'x * 2'}}; got {type(tensor).__name__} for a tensor.")
        found.append(rerunning.Change(row_of(r, tensor), text))
    nodes = {} if loss.node is None else plan_of(r, loss.node)
    return rerunning.rerun(r, r.root, found, nodes)


def local_jacobian(tensor: Tensor, row: int = 0) -> list[LocalDerivative]:
    """Compute the derivative of the op that made `tensor` by each input: a scalar, a diagonal, or the full matrix up to 4,096 entries.

    For a larger Jacobian, its structure and the row of the output element with flat index `row`.
    """
    op = _op_of(tensor, caller.names())
    return [local.local_derivative(op, slot, row) for slot in op.differentiable()]


def paths(loss: Tensor, tensor: Tensor, most: int = contributions.MOST) -> contributions.Paths:
    """Split the gradient of `tensor` into the contributions of paths from `loss`, which add up to it. Lists about `most` at most."""
    recording = opened(loss, caller.names()).recording
    return contributions.paths(ground_of_tensor(recording, loss), row_of(recording, tensor), most)


def check_rule(tensor: Tensor) -> rule_check.RuleCheck:
    """Compare the rule of the op that made `tensor` with central differences of its own forward in float64."""
    return rule_check.check_rule(*_made(tensor, caller.names()))


def row_of(recording: Recording, tensor: Tensor) -> int:
    """The row of a tensor in a recording. Raises Cannot if it is not there."""
    if not isinstance(tensor, Tensor):
        raise TypeError(f"Expected a tensor, got {type(tensor).__name__}.")
    row = -1 if tensor.node is None else recording.row_of(tensor.node)
    row = recording.find(tensor) if row < 0 else row
    if row < 0:
        raise Cannot(f"This tensor of shape {tuple(tensor.shape)} does not occur in the recorded graph.")
    return row


def _made(tensor: Tensor, names: Mapping[str, Any]) -> tuple[Recording, int, dict[int, Any]]:
    if not isinstance(tensor, Tensor):
        raise TypeError(f"Expected a tensor, got {type(tensor).__name__}.")
    recording, node = opened(tensor, names).recording, tensor.node
    row = row_of(recording, tensor)
    if node is None or node.op is None:
        raise Cannot("No recorded op made this tensor, so there is no derivative of one.")
    return recording, row, plan_of(recording, node)


def _op_of(tensor: Tensor, names: Mapping[str, Any]) -> one.One:
    op = one.one_op(*_made(tensor, names))
    if tensor.node is not None and tensor.node.op is not None and tensor.node.op.picks:
        op.result = tensor.node.attrs["index"]
    return op
