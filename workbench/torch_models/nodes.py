"""Access to PyTorch's graph: nodes, their saved tensors, and new rows for nodes that a recording lacks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from math import prod
from types import CodeType
from typing import Any

from . import arrays, names
from .loaded import is_tensor
from .recording import Mark, Target, TorchRecording
from .saved import saved, saved_names

# Called for each new node with the node, its mark, and the leaf's tensor if the node accumulates into one (else None).
Hang = Callable[[Any, Mark, Any], None]

_setting_names: dict[type, list[str]] = {}  # type of a node -> those that are settings of the op
_RESULTS = ("result", "out", "total_weight", "indices", "logsumexp", "rng", "philox", "mask")  # made by the op itself, not operands
_LOOKUPS = ("Embedding", "Index")  # nodes with "indices" as an operand
_STATE = ("running_mean", "running_var")  # operands only in eval mode
_SETTINGS = ("dim", "keepdim", "alpha", "exponent", "dims", "p", "stride", "padding", "dilation", "groups", "eps", "kernel_size")


def variable(node: Any) -> Any:
    """The leaf that an AccumulateGrad node accumulates into; None for any other node."""
    return getattr(node, "variable", None) if type(node).__name__ == "AccumulateGrad" else None


def unmarked(recording: TorchRecording, roots: Sequence[Any]) -> list[Any]:
    """The nodes behind `roots` that the recording lacks, inputs before users, without the nodes of leaves; not recursive."""
    key = recording.key
    if len(roots) == 1 and roots[0] is not None and key not in roots[0].metadata:  # fast path: most ops make one node
        before = roots[0].next_functions
        if all(source is None or key in source.metadata or variable(source) is not None for source, _ in before):
            return [] if variable(roots[0]) is not None else [roots[0]]
    order: dict[Any, int] = {}
    users: dict[Any, list] = {}
    missing: dict[Any, int] = {}
    todo = [node for node in roots if node is not None and recording.marked(node) is None and variable(node) is None]
    while todo:
        node = todo.pop()
        if node in order:
            continue
        order[node] = _age(node, len(order))
        missing[node] = 0
        for source, _ in node.next_functions:
            if source is not None and key not in source.metadata and variable(source) is None:
                users.setdefault(source, []).append(node)
                missing[node] += 1
                todo.append(source)
    ready = [(order[node], i, node) for i, node in enumerate(order) if not missing[node]]
    ready.sort(key=lambda entry: entry[:2])
    found, serial = [], len(order)
    while ready:
        _, _, node = heappop(ready)
        found.append(node)
        for user in users.get(node, ()):
            missing[user] -= 1
            if not missing[user]:
                serial += 1
                heappush(ready, (order[user], serial, user))
    return found


def _age(node: Any, otherwise: int) -> int:
    """The sequence number of the node, so that rows are in program order."""
    told = getattr(node, "_sequence_nr", None)
    return otherwise if told is None else told()


def mark_all(recording: TorchRecording, new: Sequence[Any], row: int, hang: Hang | None, scope: int = -1) -> int:
    """Mark all these nodes as parts of the op in this row, and return the bytes that they save for backward."""
    total = 0
    for node in new:
        targets = _targets(recording, node, hang, scope)
        mark = recording.mark(node, row)
        total += recording.saves(mark, [x for _, x in saved(node)[0]])
        _hang(node, mark, targets, hang)
    return total


def _targets(recording: TorchRecording, user: Any, hang: Hang | None, scope: int) -> tuple[Target | None, ...]:
    """The targets of the node's gradients. Leaves among its inputs get a row, and their nodes a mark."""
    found: list[Target | None] = []
    key = recording.key
    for node, result in user.next_functions:
        mark = None if node is None else node.metadata.get(key)
        if mark is None and (leaf := variable(node)) is not None:
            row = recording.find(leaf)
            mark = recording.mark(node, recording.leaf(leaf, scope) if row < 0 else row)
            _hang(node, mark, None, hang, leaf)
        found.append(None if mark is None else (mark.row, mark.number, result))
    return tuple(found)


def _hang(node: Any, mark: Mark, targets: tuple[Target | None, ...] | None, hang: Hang | None, leaf: Any = None) -> None:
    mark.name, mark.targets = type(node).__name__, targets
    if hang is not None:
        hang(node, mark, leaf)


def extend(
    recording: TorchRecording,
    roots: Sequence[Any],
    hang: Hang | None = None,
    *,
    scope: int = -1,
    code: CodeType | None = None,
    lasti: int = 0,
) -> None:
    """Append a row for each node behind `roots` that the recording lacks.

    Values are available if PyTorch saved them for backward or the user has the tensor.
    """
    inputs: dict[tuple, int] = {}  # memory, shape and strides of a saved input without a node -> row
    new = unmarked(recording, roots)
    for node in new:
        targets = _targets(recording, node, hang, scope)
        kept, wrong = saved(node)
        sources = [-1 if source is None else recording.row_of(source) for source, _ in node.next_functions]
        for name, tensor in kept:
            idle = name in _STATE and getattr(node, "_saved_training", False)
            if not (tensor.requires_grad or _made_here(node, name) or idle):
                _from_outside(recording, tensor, sources, inputs, scope)
        shape, dtype = _result(node, kept)
        size = 0 if dtype is None else prod(shape) * getattr(dtype, "itemsize", 1)
        weight = next((x for name, x in kept if name == "weight"), None)
        op = names.of_node(type(node).__name__, sources, weight)
        row = recording.append(
            op, "op", shape, dtype, size, True, scope=scope, code=code, lasti=lasti, note=wrong, sources=sources, attrs=_settings(node)
        )
        mark = recording.mark(node, row)
        for name, tensor in kept:
            source = row if _made_here(node, name) else recording.row_of(tensor.grad_fn) if tensor.requires_grad else -1
            if source >= 0 and recording.kind[source] == "op" and arrays.shape_of(tensor) == recording.shape[source]:
                recording.saw(tensor, source)
        recording.saved[row] = recording.saves(mark, [x for _, x in kept])
        _hang(node, mark, targets, hang)


def _made_here(node: Any, name: str) -> bool:
    """Whether a saved value of that name is a result or an intermediate of the op, not an operand."""
    return name.startswith(_RESULTS) and not (name == "indices" and type(node).__name__.startswith(_LOOKUPS))


def _from_outside(recording: TorchRecording, tensor: Any, sources: list[int], inputs: dict[tuple, int], scope: int) -> None:
    """Add a row for a saved tensor that no node made (data, a scalar, a running mean) as the first input without a node."""
    row = recording.find(tensor)
    if row < 0:
        strided = arrays.strided(tensor) and not tensor.is_meta
        key = (tensor.data_ptr(), tensor.shape, tensor.stride()) if strided else (id(tensor),)
        if key not in inputs:
            number = tensor.dim() == 0 and tensor.device.type == "cpu" and strided
            inputs[key] = recording.constant(tensor.item(), scope) if number else recording.leaf(tensor, scope)
        row = inputs[key]
    if -1 in sources:
        sources[sources.index(-1)] = row
    else:
        sources.append(row)


def _result(node: Any, kept: list[tuple[str, Any]]) -> tuple[tuple, Any]:
    """Shape and dtype of the node's first result; ((), None) if unknown."""
    told = getattr(node, "_input_metadata", None)
    if told:
        return tuple(map(int, told[0].shape)), arrays.dtype_of(told[0])
    result = next((x for name, x in kept if _made_here(node, name)), None)
    return ((), None) if result is None else (arrays.shape_of(result), arrays.dtype_of(result))


def _settings(node: Any) -> dict[str, Any]:
    """The op's settings that the node saved, such as an axis or an exponent."""
    found, kind = {}, type(node)
    known = _setting_names.get(kind)
    if known is None:
        there = dict(saved_names.get(kind, ()))
        known = _setting_names[kind] = [name for name in _SETTINGS if f"_saved_{name}" in there]
    for name in known:
        value = getattr(node, f"_saved_{name}")
        if value is not None and not is_tensor(value) and not (name == "alpha" and value == 1):
            found[name] = value - (1 << 64) if isinstance(value, int) and value >= 1 << 63 else value  # an unsigned -1
    return names.plain(found)
