"""Run a PyTorch backward pass for stepping: it changes no `.grad` and retains the graph."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ..graph.graph import Graph
from .loaded import torch
from .nodes import extend, variable
from .passes import PassRecorder, TorchPass
from .recording import TorchRecording

FREED = (
    "The graph was freed by an earlier backward(), so there is nothing left to step through. Compute the tensor again, or call "
    "backward(retain_graph=True) the first time."
)
_AGAIN = "backward through the graph a second time"  # from PyTorch's error for a freed graph
_NO_GRAD = "compatible with .grad()"  # from the error of torch.utils.checkpoint with use_reentrant=True


@contextmanager
def recorder_of(recording: TorchRecording, graph: Graph, tensor: Any, room: Callable[[], int]) -> Iterator[PassRecorder]:
    """The recorder of passes through the graph behind a tensor: that of an active watch, else a new one for the block.

    Nodes that the recording lacks, such as a loss outside a watched module, are added to it.
    """
    marks = [(node, mark) for node in behind(tensor.grad_fn) if (mark := recording.marked(node)) is not None]
    live = next((found for _, mark in marks if mark.number in recording.hooks and (found := mark.told()) is not None), None)
    passes = live if isinstance(live, PassRecorder) else PassRecorder(recording, graph, lambda record: None, room)
    if passes is not live:
        for node, mark in marks:
            passes.hang(node, mark, variable(node))
    extend(recording, [tensor.grad_fn], passes.hang)
    try:
        yield passes
    finally:
        if passes is not live:
            passes.remove()


def run(passes: PassRecorder, tensor: Any, gradient: Any = None) -> TorchPass:
    """Run a pass from `tensor` and return its record, positioned at its start. A failed pass ends at the failed step.

    If an earlier pass has freed the graph, return the record of that pass. Raises RuntimeError if no pass could begin.
    """
    made: list[TorchPass] = []
    told, passes.passed = passes.passed, made.append
    leaves = [leaf for node in behind(tensor.grad_fn) if (leaf := variable(node)) is not None]
    try:
        with passes.during(retained=True):
            torch().autograd.grad(tensor, leaves, gradient, retain_graph=True, allow_unused=True)
    except RuntimeError as error:
        if _NO_GRAD in str(error):
            made.clear()
            with _put_back(leaves), passes.during(retained=True):
                torch().autograd.backward(tensor, gradient, retain_graph=True)
        elif _AGAIN in str(error):
            earlier = _earlier(passes.recording, tensor)
            if earlier is None:
                raise RuntimeError(FREED) from error
            record = copy.copy(earlier)  # so that the position in its view does not change
            record.to(0)
            return record
        elif not made:
            raise
    finally:
        passes.passed = told
    told(made[-1])
    made[-1].to(0)
    return made[-1]


def _earlier(recording: TorchRecording, tensor: Any) -> TorchPass | None:
    """The newest complete record of a pass that began at this tensor; None if there is none."""
    row = recording.row_of(tensor.grad_fn)
    known = [record for held in recording.records if (record := held()) is not None and record.plan[:1] == [row] and not record.failure]
    return known[-1] if known else None


def begin(recording: TorchRecording, graph: Graph, tensor: Any) -> TorchPass:
    """Run a pass that the code has not run, and return its record."""
    with recorder_of(recording, graph, tensor, lambda: recording.keep) as passes:
        return run(passes, tensor)


@contextmanager
def _put_back(leaves: list[Any]) -> Iterator[None]:
    before = [leaf.grad for leaf in leaves]
    for leaf in leaves:
        leaf.grad = None
    try:
        yield
    finally:
        for leaf, grad in zip(leaves, before, strict=True):
            leaf.grad = grad


def behind(root: Any) -> Iterator[Any]:
    """Yield the nodes of a graph, each once."""
    seen, todo = {root}, [root]
    while todo:
        node = todo.pop()
        yield node
        for source, _ in node.next_functions:
            if source is not None and source not in seen:
                seen.add(source)
                todo.append(source)
