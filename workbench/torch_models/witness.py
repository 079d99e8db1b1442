"""The witness for PyTorch programs: collects passes, updates and modes for the checks, and gives access to PyTorch's tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from weakref import ref

from ..inspector import values
from ..recording.recording import Recording
from ..recording.witness import BadStep, Where, Witness
from . import arrays
from .loaded import is_tensor, torch

if TYPE_CHECKING:
    from .passes import TorchPass
    from .recording import TorchRecording


class TorchWitness(Witness):
    """Events for the checks, reported by the hooks of a TorchRecorder."""

    def runs(self, r: TorchRecording, roots: list, where: Where) -> None:
        """A backward pass from these tensors begins."""
        self._begins(r, r.row_of(roots[0]), [ref(leaf) for leaf in _leaves(roots)], where)

    def ran(self, r: TorchRecording, record: TorchPass) -> None:
        """A backward pass is over. Search its record for the first step that made a NaN or an infinity."""
        if self.bad_step is not None or all(map(_finite, [g for step in record.taken if step.leaf for g in step.upstream])):
            return
        for step in record.taken:
            if step.leaf or not all(map(_finite, step.upstream)) or all(_finite(gain.gradient) for gain in step.gains):
                continue
            slots = dict(r.inputs(step.row))
            given = {slots.get(gain.target, -1): _numbers(gain.gradient) for gain in step.gains}
            gradients = tuple(given.get(slot) for slot in range(max(given) + 1))
            upstream = _numbers(step.upstream[0]) if len(step.upstream) == 1 else None
            self.bad_step = BadStep(step.row, r.ops[step.row], upstream, gradients, len(self.passes))
            return

    # -- access to tensors ------------------------------------------------------------------------------------------------------

    def tracks(self) -> bool:
        return torch().is_grad_enabled()

    def values(self, tensor: Any) -> Any:
        return arrays.numpy_of(tensor)

    def has_gradient(self, tensor: Any) -> bool:
        return tensor.grad is not None

    def gradient(self, tensor: Any) -> Any:
        return None if tensor.grad is None else arrays.numpy_of(tensor.grad)

    def version(self, tensor: Any) -> int:
        return tensor._version

    def row(self, r: Recording, tensor: Any) -> int:
        return r.find(tensor)


def _leaves(roots: list) -> list:
    """The leaves that a pass from these tensors reaches, in breadth-first order."""
    seen, leaves = set(), []
    todo = [root.grad_fn for root in roots if root.grad_fn is not None]
    for node in todo:
        for before, _ in node.next_functions:
            if before is None or before in seen:
                continue
            seen.add(before)
            variable = getattr(before, "variable", None)
            if variable is None:
                todo.append(before)
            else:
                leaves.append(variable)
    return leaves


def _numbers(gradient: Any) -> Any:
    return arrays.numpy_of(gradient) if is_tensor(gradient) else None


def _finite(gradient: Any) -> bool:
    """Whether a gradient of the record is finite; it is a tensor, a Summary, or None, which counts as finite."""
    if gradient is None:
        return True
    if not is_tensor(gradient):
        return not (gradient.nan or gradient.pos_inf or gradient.neg_inf)
    array = _numbers(gradient)
    return array is None or values.finite(array)
