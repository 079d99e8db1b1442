"""The implementation of `wb.fork`, `wb.rerun`, `wb.local_jacobian`, `wb.paths` and `wb.check_rule`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from engine.core.tensor import Tensor

from ..recording import Recording
from ..stepper import Stepper
from ..surface import opened
from . import check, local, one
from . import paths as path_search
from . import rerun as program
from .fork import Edit, Fork, forks_of
from .ground import ground_of_tensor, plan_of
from .local import LocalDerivative
from .recompute import Cannot


def stepper_of(walk: Any) -> Stepper:
    """The pass behind a result of `wb.step(loss)`: a Stepper, or the view of one."""
    found = walk if isinstance(walk, Stepper) else getattr(walk, "stepper", None)
    if not isinstance(found, Stepper):
        raise TypeError(f"Expected what wb.step(loss) gives, got {type(walk).__name__}.")
    return found


def fork(
    walk: Any, expression: str, at: Tensor | int | None = None, slot: int = -1, index: Sequence[int] | None = None, name: str = ""
) -> Fork:
    """Fork the pass with one gradient changed."""
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


def rerun(loss: Tensor, changes: Mapping[Any, str], names: Mapping[str, Any]) -> program.Rerun:
    """Rerun the program behind `loss` with other values."""
    session = opened(loss, names)
    r = session.recording
    found = []
    for tensor, text in changes.items():
        if not isinstance(tensor, Tensor):
            raise TypeError(f"Expected tensors and expressions, such as {{w: 'x * 2'}}; got {type(tensor).__name__} for a tensor.")
        found.append(program.Change(row_of(r, tensor), text))
    nodes = {} if loss.node is None else plan_of(r, loss.node)
    return program.rerun(r, r.root, found, nodes)


def local_jacobian(tensor: Tensor, names: Mapping[str, Any], chosen: int = 0) -> list[LocalDerivative]:
    """The derivatives of the op that made `tensor`, one for each input that gets a gradient."""
    op = _op_of(tensor, names)
    return [local.local_derivative(op, slot, chosen) for slot in op.differentiable()]


def paths(loss: Tensor, tensor: Tensor, names: Mapping[str, Any], most: int = path_search.MOST) -> path_search.Paths:
    """The gradient of `tensor` as a sum over the paths from `loss`."""
    recording = opened(loss, names).recording
    return path_search.paths(ground_of_tensor(recording, loss), row_of(recording, tensor), most)


def check_rule(tensor: Tensor, names: Mapping[str, Any]) -> check.RuleCheck:
    """Check the rule of the op that made `tensor` against central differences."""
    return check.check_rule(*_made(tensor, names))


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
