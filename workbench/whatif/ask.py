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
from .contributions import Paths
from .forks import Edit, Fork, forks_of
from .ground import ground_of_tensor, plan_of
from .local import LocalDerivative
from .rerunning import Rerun
from .rule_check import RuleCheck


def stepper_of(walk: Any) -> Stepper:
    """The pass behind a result of `wb.step(loss)`: a Stepper, or the view of one."""
    found = walk if isinstance(walk, Stepper) else getattr(walk, "stepper", None)
    if not isinstance(found, Stepper):
        raise TypeError(f"Expected what wb.step(loss) gives, got {type(walk).__name__}.")
    return found


def fork(
    walk: Any, expression: str, at: Tensor | int | None = None, slot: int = -1, index: Sequence[int] | None = None, name: str = ""
) -> Fork:
    """Recompute a backward pass with another gradient. The engine recomputes the rest; only `write()` changes `.grad`.

    Args:
        walk: what `wb.step(loss)` returned.
        expression: the new gradient, in terms of `g`, the old one: "g * 2", "g.clip(-1, 1)".
        at: the tensor at which the gradient arrives. By default, the one of the current step.
        slot: replace the gradient that the step passes to this input instead; -1 for the one that arrives.
        index: replace only this element, such as `(0, 2)`.
        name: a name for the fork.

    Returns:
        The new pass beside the old one.

    Raises:
        ValueError: the expression is not allowed, or has the wrong shape.
        RuntimeError: the pass cannot be run again, or has not begun and `at` is not given.
        TypeError: `walk` is not what `wb.step(loss)` returned.

    Example::

        >>> w = engine.tensor([1.0, 2.0], requires_grad=True)
        >>> y = w * w
        >>> loss = y.sum()
        >>> wb.whatif.fork(wb.step(loss), "g * 10", at=y)
        Fork “fork 1”: at y, g = g * 10
          w: ‖∇‖ 4.472 → 44.72, relative difference 9
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


def rerun(loss: Tensor, changes: Mapping[Tensor, str]) -> Rerun:
    """Rerun the program behind a loss with other values, and show the new loss and gradients beside the old.

    The recorded ops are called again, but no Python code: branches stay as they were. The tensors themselves do not change.

    Args:
        loss: the result of the program.
        changes: tensors that no op made, each with its new value in terms of `x`, the old one: `{w: "x * 2"}`.

    Returns:
        Both results, and the gradients of both if they are scalars.

    Raises:
        ValueError: an expression is not allowed, or has the wrong shape.
        RuntimeError: the values cannot be computed again, or the loss does not depend on a changed tensor.
        TypeError: a key of `changes` is not a tensor.

    Example::

        >>> w = engine.tensor([1.0, 2.0], requires_grad=True)
        >>> loss = (w * w).sum()
        >>> wb.whatif.rerun(loss, {w: "x * 2"})
        Re-run with w: x = x * 2
          result 5 → 20
          w: ‖∇‖ 4.472 → 8.944
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
    """Compute the derivative of the op that made a tensor with respect to each of its inputs.

    The result is a scalar, a value for each element, or the full matrix up to 4,096 entries. For a larger Jacobian, its structure and one
    of its rows are computed.

    Args:
        tensor: the op's result.
        row: flat index of the element of the result for which a row is computed, if the matrix is too large.

    Returns:
        One derivative for each differentiable input.

    Raises:
        RuntimeError: no recorded op made the tensor, or the op has no derivative.
        TypeError: it is not a tensor of the engine.

    Example::

        >>> x = engine.tensor([0.0, 1.0], requires_grad=True)
        >>> [of_x] = wb.whatif.local_jacobian(x.exp())
        >>> of_x.kind, of_x.values
        ('elementwise', array([1.      , 2.718282], dtype=float32))
    """
    op = _op_of(tensor, caller.names())
    return [local.local_derivative(op, slot, row) for slot in op.differentiable()]


def paths(loss: Tensor, tensor: Tensor, most: int = contributions.MOST) -> Paths:
    """Split the gradient of a tensor into the contributions of the paths from the loss, which add up to it.

    Args:
        loss: a scalar tensor.
        tensor: the tensor whose gradient is split.
        most: list about as many paths at most; others are put together.

    Returns:
        The contributions, largest first.

    Raises:
        RuntimeError: no gradient arrives at the tensor, or the graph was freed.
        TypeError: one of them is not a tensor of the engine.

    Example::

        >>> x = engine.tensor(2.0, requires_grad=True)
        >>> loss = x.exp() + x * x
        >>> wb.whatif.paths(loss, x)
        3 paths lead from the loss to x; the largest part, 64.9% of its gradient, comes through exp.
            64.88%  ‖·‖ 7.389  loss → exp → x
            17.56%  ‖·‖ 2  loss → mul (input 1) → x
            17.56%  ‖·‖ 2  loss → mul (input 2) → x
    """
    recording = opened(loss, caller.names()).recording
    return contributions.paths(ground_of_tensor(recording, loss), row_of(recording, tensor), most)


def check_rule(tensor: Tensor) -> RuleCheck:
    """Compare the derivative rule of the op that made a tensor with central differences of its own forward in float64.

    Args:
        tensor: the op's result.

    Returns:
        The outcome for each input.

    Raises:
        RuntimeError: no recorded op made the tensor, or the op draws random numbers.
        TypeError: it is not a tensor of the engine.

    Example::

        >>> x = engine.tensor([0.5, 1.0], requires_grad=True)
        >>> wb.whatif.check_rule(x.tanh()).passed
        True
    """
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
