"""A single op of a recording: a node of the tape that can be differentiated alone, and its inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy

from engine.backends import cpu
from engine.backends.batch import Batched
from engine.backends.coo import Coo
from engine.base import errors
from engine.core import devices, rules, versions
from engine.core.batching import Crossing
from engine.core.tensor import Tensor

from ..formulas.typeset import input_names
from ..recording.recompute import Cannot, Recomputed, attributes, call_again, unwatched
from ..recording.recording import Recording

Nodes = Mapping[int, Any]  # the known nodes of the tape by row


@dataclass
class One:
    """An op with what its rules need. `sources` are the rows of its inputs by slot, -1 for none."""

    recording: Recording
    row: int
    node: Any
    sources: list[int]
    result: int = 0  # the index of the selected result, for an op with several

    @property
    def op(self) -> Any:
        return self.node.op

    @property
    def shape(self) -> tuple:
        """The shape of the result."""
        return tuple(self.node.shape if self.node.shape is not None else self.node.attrs["__results__"][self.result][0])

    @property
    def dtype(self) -> Any:
        """NumPy's dtype of the result."""
        return self.node.dtype if self.node.shape is not None else self.node.attrs["__results__"][self.result][1]

    @property
    def names(self) -> list[str]:
        """The op's names of its inputs."""
        return input_names(self.op, len(self.node.inputs))

    def differentiable(self) -> list[int]:
        """The slots of the inputs that get a gradient."""
        ruled = self.op.rules if not self.op.variadic and len(self.op.rules) == len(self.node.inputs) else [True] * len(self.node.inputs)
        return [i for i, (source, rule) in enumerate(zip(self.node.inputs, ruled, strict=True)) if source is not None and rule is not None]

    def seed(self, fill: float = 0.0) -> Any:
        """A gradient of the result filled with `fill`, on the device of the node's arrays."""
        return self.beside(numpy.full(self.shape, fill, self.dtype))

    def beside(self, array: numpy.ndarray) -> Any:
        """An array of the host, on the device of the result."""
        index = self.recording.gpu.get(self.row)
        return array if index is None else devices.gpu.to_device(array, index)

    def pull(self, gradient: Any) -> Sequence[Any]:
        """One vector-Jacobian product: the gradients of all inputs for this gradient of the result, by the op's own rules."""
        return self.op.pull(self.node, self._given(gradient))

    def unfitted(self, gradient: Any, slot: int) -> Any:
        """What the rule of one input gives before its broadcasting and promotion are undone; None for a user-written Function."""
        node, op = self.node, self.op
        if getattr(op, "function", None) is not None:
            return None
        xp = cpu if devices.gpu is None else devices.namespace(gradient)
        given, saved = self._given(gradient), node.saved
        if op.multi:
            given = rules.filled(node, given, xp)
        if str(node.dtype) in ("float16", "bfloat16"):
            given, saved = rules.up(given, xp), tuple(rules.up(s, xp) for s in saved)
        if op.variadic:
            return op.rules[0](xp, given, saved, node.attrs, None)[slot]
        return op.rules[slot](xp, given, saved, node.attrs, node.inputs[slot].shape)

    def _given(self, gradient: Any) -> Any:
        if not self.op.multi:
            return gradient
        return [gradient if i == self.result else None for i in range(self.node.attrs["__outputs__"])]


def one_op(recording: Recording, row: int, nodes: Nodes | None = None) -> One:
    """The op of a row: the tape's node while what it saved is alive and unchanged, else the op called again on the recorded inputs."""
    if not 0 <= row < recording.count:
        raise Cannot(f"There is no node {row} in this graph; it has {recording.count}.")
    op = recording.ops[row]
    if op is None:
        raise Cannot(f"{recording.called(row)} was made by no op, so it has no rule.")
    given = {slot: source for source, slot in recording.inputs(row)}
    node = (nodes or {}).get(row)
    _dense(recording, row, given)
    if node is not None and node.op is op and _usable(node):
        return One(recording, row, node, [given.get(i, -1) for i in range(len(node.inputs))], _first(op))
    if not getattr(op, "ruled", False):
        raise Cannot(f"{op.name} has no derivative: no gradient passes it.")
    return called(recording, row, recorded_inputs(recording, row, nodes), attributes(recording, row, node))


def _dense(recording: Recording, row: int, given: Mapping[int, int]) -> None:
    """Raise Cannot if the op ran for all samples of a vmap at once, or on sparse tensors."""
    values = [recording.value(at) for at in (row, *given.values())]
    if isinstance(recording.ops[row], Crossing) or any(isinstance(value, Batched) for value in values):
        raise Cannot(f"{recording.called(row)} is part of a vmap, which ran it for all samples at once: it has no derivative of its own.")
    if any(isinstance(value, Coo) for value in values):
        raise Cannot(f"{recording.called(row)} has sparse tensors, so its own derivative is not shown.")


def called(recording: Recording, row: int, inputs: list, attrs: dict) -> One:
    """Call the op of a row on these inputs: floating-point arrays become leaves if the recorded input required grad."""
    op = recording.ops[row]
    given = {slot: source for source, slot in recording.inputs(row)}
    tensors = []
    for i, x in enumerate(inputs):
        made = Tensor._wrap(x) if hasattr(x, "ndim") else x
        if isinstance(made, Tensor) and x.dtype.kind in "fc" and recording.grad[given[i]]:
            made.requires_grad_()
        tensors.append(made)
    if not any(isinstance(t, Tensor) and t.node is not None for t in tensors):
        raise Cannot(f"None of the inputs of {recording.called(row)} requires grad.")
    with unwatched():
        result = call_again(op, tensors, attrs)
    results = result if isinstance(result, (tuple, list)) else (result,)
    made = next((t.node for t in results if isinstance(t, Tensor) and t.node is not None), None)
    if made is None:
        raise Cannot(f"{op.name} passes no gradient from these inputs.")
    made = made.inputs[0] if made.op.picks else made
    return One(recording, row, made, [given.get(i, -1) for i in range(len(made.inputs))], _first(op))


def recorded_inputs(recording: Recording, row: int, nodes: Nodes | None = None) -> list:
    """The arrays (and scalars) that the op of a row took, by slot; None for missing ones. Lost values are recomputed.

    Raises Cannot if that is not possible.
    """
    op, nodes = recording.ops[row], nodes or {}
    given = {slot: source for source, slot in recording.inputs(row)}
    _dense(recording, row, given)
    function = getattr(op, "function", None) is not None
    count = max(given, default=-1) + 1 if op.variadic or function else len(op.inputs)
    if function and set(given) != set(range(count)) or function and row in nodes and count != len(nodes[row].attrs["__inputs__"]):
        raise Cannot(f"{op.name} is a custom Function with arguments other than tensors and numbers; they were not recorded.")
    optional = getattr(op, "optional", {})
    free = op.variadic or function
    return [_input(recording, row, given[i], nodes) if i in given else None if free else optional.get(op.inputs[i]) for i in range(count)]


def _input(recording: Recording, row: int, source: int, nodes: Nodes) -> Any:
    if recording.kind[source] == "constant":
        return recording.kept[source]
    array = recording.value(source)
    op = recording.ops[source]
    if array is not None and not recording.overwritten(source) and (op is None or len(op.outputs) == 1):
        return array
    if op is None:
        what = "is gone" if array is None else "was written in place since"
        raise Cannot(f"The value that {recording.called(source)} had {what}, so {recording.called(row)} cannot be computed again.")
    again = Recomputed(recording, source, nodes=nodes)
    return again.used(source, nodes.get(row), next(slot for at, slot in recording.inputs(row) if at == source)).array


def _usable(node: Any) -> bool:
    if not isinstance(node.saved, tuple):
        return False
    if node.saved and versions.last_write > node.time and getattr(node.op, "function", None) is None:
        try:
            versions.check(node)
        except errors.SpoiledError:
            return False
    return True


def _first(op: Any) -> int:
    return op.outputs.index(op.differentiable[0]) if getattr(op, "differentiable", ()) else 0
