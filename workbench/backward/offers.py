"""Backward passes that the code has not run: where one could begin, and running it without changing `.grad` or freeing the graph."""

from __future__ import annotations

from typing import Any

from engine.core import tape

from ..graph.graph import Graph
from ..recording.recording import Recording
from .stepper import PassEnded, Stepper

GONE = "The program has freed this tensor, so its backward pass can no longer run. Run the cell again."


def roots(recording: Recording) -> list[int]:
    """The rows of unused scalars with an intact graph, from which a backward pass could begin; the newest first."""
    if recording.live:
        return []
    used = {source for row in range(recording.count) if recording.grad[row] for source, _ in recording.inputs(row)}
    return [row for row in range(recording.count - 1, -1, -1) if row not in used and _could_begin(recording, row)]


def _could_begin(recording: Recording, row: int) -> bool:
    if recording.kind[row] != "op" or not recording.grad[row]:
        return False
    tensor = _tensor(recording, row)
    if tensor is None or not tensor.requires_grad or tensor.numel() != 1 or not tensor.is_floating_point():
        return False
    if recording.foreign is not None:  # only PyTorch's own engine knows whether the graph was freed
        return recording.row_of(tensor.grad_fn) == row
    known = all(recording.row_of(node) >= 0 and not _freed(node) for node in tape.plan([tensor.node]))
    return known and recording.row_of(tensor.node) == row


def _tensor(recording: Recording, row: int) -> Any:
    return recording.tensor(row) if recording.foreign is None else recording.foreign.its(row)


def _freed(node: Any) -> bool:
    return node.op is not None and node.saved is tape.FREED


def begin(recording: Recording, graph: Graph, row: int) -> Stepper:
    """Run the pass from a row's tensor once and return to its start, so that it can be stepped through whatever happens later.

    Raises PassEnded if it cannot begin.
    """
    tensor = _tensor(recording, row)
    if tensor is None:
        raise PassEnded(GONE)
    if not tensor.requires_grad:
        raise PassEnded("No gradient goes through this tensor: it does not require grad.")
    try:
        if recording.foreign is None:
            stepper = Stepper.of(recording, graph, tensor, accumulate=False)
            stepper.prepare()
            return stepper
        return recording.foreign.begin(recording, graph, tensor)
    except RuntimeError as error:
        raise PassEnded(str(error)) from error
