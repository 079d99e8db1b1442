"""Make a recording afterwards from the tape alone, for a tensor whose computation was not recorded."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any
from weakref import ref

from engine.core import tape, versions
from engine.core.tensor import Tensor

from .recorder import is_parameter
from .recording import KEEP, NUMBER, USE, Recording, Scope, recent


def retrace(roots: Sequence[Any], tensors: Sequence[Tensor] = (), title: str = "", keep: int = KEEP) -> Recording:
    """Record the graph behind some nodes of the tape; `tensors` are tensors at these nodes.

    Values are available if the tape saved them or the user holds them; no result is recomputed. Lines, names and modules are known for
    nodes in a recording that is still in use.
    """
    known = [r for r in recent if r.times]
    recording = Recording(title, keep)
    scopes: dict[tuple[str, int], int] = {(r.name, -1): -1 for r in known}
    nodes = sorted(tape.plan(roots), key=lambda node: node.time)
    arrays: dict[int, int] = {}  # id of a saved input array without a node -> row
    rows = recording.times
    for node in nodes:
        if isinstance(node, tape.Leaf):
            _leaf(recording, node, nodes[-1].time)
            continue
        if node.op.picks:
            rows[node.time] = rows[node.inputs[0].time]
            continue
        values = _saved(node)
        sources = []
        for i, source in enumerate(node.inputs):
            array = values[i] if i < len(values) else None
            if source is not None:
                row = rows[source.time]
                if array is not None and row not in recording.kept and array.shape == recording.shape[row]:
                    _hold(recording, row, array)
                sources.append(row)
            elif array is not None:
                key = id(array)
                if not hasattr(array, "nbytes"):
                    sources.append(recording.constant(array))
                    continue
                if key not in arrays:
                    arrays[key] = recording.append(None, "input", array.shape, array.dtype, array.nbytes, False)
                    _hold(recording, arrays[key], array)
                sources.append(arrays[key])
            else:
                sources.append(-1)
        shape, dtype = (node.shape, node.dtype) if node.shape is not None else node.attrs["__results__"][0]
        out = values[len(node.inputs)] if len(values) > len(node.inputs) and not node.op.multi else None
        seen = next((r for r in known if node.time in r.times), None)
        where: dict[str, Any] = {}
        if seen is not None:
            old = seen.times[node.time]
            where = {"code": seen.code[old], "lasti": seen.lasti[old], "scope": _scope(recording, seen, seen.scope[old], scopes)}
        row = recording.append(
            node.op, "op", shape, dtype, dtype.itemsize * math.prod(shape), True,
            saved=sum(getattr(a, "nbytes", 0) for a in values if a is not None),
            attrs={k: v for k, v in node.attrs.items() if not k.startswith("__")}, sources=sources, **where,
        )  # fmt: skip
        rows[node.time] = row
        if seen is not None:
            recording.cells[row] = seen.title
            if name := seen.names.get(seen.times[node.time]):
                recording.names[row] = name
            if (array := seen.kept.get(seen.times[node.time])) is not None:
                recording.lend(row, array)
        if out is not None:
            _hold(recording, row, out)
        for place, a in enumerate(values):
            if hasattr(a, "nbytes") and hasattr(a, "base"):
                block = _block(recording, row, a)
                recording.uses.frombytes(USE(block[NUMBER], node.time, place, len(recording.events)))
    for tensor in tensors:
        row = rows[tensor.node.time]
        recording.ref[row] = ref(tensor)
        _hold(recording, row, tensor.array)
    recording.root = rows[roots[0].time] if roots else -1
    return recording


def _saved(node: Any) -> tuple:
    if not isinstance(node.saved, tuple) or not node.op.slots:
        return ()
    if node.op.variadic:
        return (*(node.saved[0] or (None,) * len(node.inputs)), *node.saved[1:]) if node.saved else ()
    return node.saved


def _leaf(recording: Recording, node: tape.Leaf, made: int) -> None:
    """Add a leaf. It may have been initialized in place; only a write after the result was `made` counts as an overwrite."""
    tensor = node.tensor()
    kind = "parameter" if tensor is not None and is_parameter(type(tensor)) else "leaf"
    size = node.dtype.itemsize * math.prod(node.shape)
    held = None if tensor is None else ref(tensor)
    row = recording.times[node.time] = recording.append(None, kind, node.shape, node.dtype, size, True, tensor=held)
    write = None if tensor is None else versions.last_write_of(tensor.array)
    if write is not None and write.time <= made:
        recording.versions[row] = write.version


def _hold(recording: Recording, row: int, array: Any) -> None:
    block = _block(recording, row, array)
    if row not in recording.kept:
        if version := versions.version(array):
            recording.versions[row] = version
        recording.hold(row, array, block)


def _block(recording: Recording, row: int, array: Any) -> list:
    owner = versions.storage(array)
    block = recording.blocks.get(id(owner))
    if block is None:
        block = recording.need(id(owner), owner.nbytes, row, 1)
    recording.placed(row, array)
    return block


def _scope(recording: Recording, seen: Recording, scope: int, scopes: dict) -> int:
    key = (seen.name, scope)
    if key not in scopes:
        s = seen.scopes[scope]
        parent = _scope(recording, seen, s.parent, scopes)
        recording.scopes.append(Scope(parent, s.kind, s.name, s.label, s.subject, s.code, s.lasti))
        scopes[key] = len(recording.scopes) - 1
    return scopes[key]
