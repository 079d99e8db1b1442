"""Split a gradient into the contributions of the paths from the loss.

Reverse mode is linear in the incoming gradient, so a gradient is the sum over all paths from the loss of the product of the local Jacobians
along the path. A path's share is ⟨contribution, gradient⟩ / ⟨gradient, gradient⟩: shares add up to one; a share is negative if the path
pulls against the rest.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Any

import numpy

from ..backward.telling import joined
from ..inspector import host
from ..inspector.numbers import norm, wide
from ..recording.recompute import Cannot, unwatched
from ..recording.recording import Recording
from .ground import Ground, Kept

MOST = 12  # default number of entries listed
PRODUCTS = 20_000  # maximum number of vector-Jacobian products for one answer


@dataclass
class Path:
    """One path, or all paths with the same ending: `rows` from the head (the loss, for a single path) to the target."""

    rows: list[int]
    slots: list[int]  # the input by which each row was entered, if it takes the same tensor twice; else -1
    paths: int  # how many paths it represents
    contribution: Any
    share: float
    norm: float

    def names(self, recording: Recording) -> list[str]:
        """The user's names for the rows, with the input's number if an op takes one tensor twice."""
        return [
            recording.called(row) + (f" (input {slot + 1})" if slot >= 0 else "") for row, slot in zip(self.rows, self.slots, strict=True)
        ]


@dataclass
class Paths:
    """The result of `wb.whatif.paths`: a gradient as a sum over paths, largest contribution first.

    Attributes:
        recording: the recording that the paths lead through.
        row: the row of the tensor in it.
        gradient: the gradient, the sum of all contributions.
        count: the number of all paths.
        listed: the paths, or groups of paths with the same ending.
        note: a sentence on what was left out; "" if nothing was.
        sentence: the number of paths, and the share of the largest.
    """

    recording: Recording
    row: int
    gradient: Any
    count: int
    listed: list[Path]
    note: str = ""

    @property
    def sentence(self) -> str:
        """The number of paths, and the share of the largest."""
        r = self.recording
        if not self.listed:
            return f"No path leads from the loss to {r.called(self.row)}."
        if self.count == 1:
            return f"One path leads from the loss to {r.called(self.row)}, {via(r, self.listed[0])}."
        first, many = self.listed[0], f"{self.count:,}" if self.count < 10**7 else f"{self.count:.2e}"
        share = f"the largest part, {first.share:.1%} of its gradient, comes {via(r, first)}"
        return f"{many} paths lead from the loss to {r.called(self.row)}; {share}."

    def __repr__(self) -> str:
        lines = [self.sentence]
        for p in self.listed:
            alike = f" ({p.paths:,} paths)" if p.paths > 1 else ""
            lines.append(f"  {p.share:8.2%}  ‖·‖ {p.norm:.4g}  {' → '.join(p.names(self.recording))}{alike}")
        return "\n".join([*lines, *([f"  {self.note}"] if self.note else [])])


def via(recording: Recording, path: Path) -> str:
    """A path in a few words: the nodes between its ends; for a group, how its paths end."""
    between = [recording.called(row) for row in path.rows[path.paths == 1 : -1]]
    if path.paths > 1:
        return f"through {between[0]}" + (f" and then {between[-1]}" if len(between) > 1 else "")
    if not between:
        return "directly"
    return "through " + (", ".join(between) if len(between) <= 4 else f"{between[0]}, {between[1]}, … {between[-1]}")


class _Edge:
    """A consumer's input, and the gradient that it passed on."""

    __slots__ = ("consumer", "slot", "given")

    def __init__(self, consumer: Any, slot: int, given: Any) -> None:
        self.consumer, self.slot, self.given = consumer, slot, given


def paths(ground: Ground, row: int, most: int = MOST, place: int = 0) -> Paths:
    """The paths from the loss to a row: the largest by themselves, the rest in groups with the same ending. Exact: nothing is left out.

    The search starts with one group for each consumer of the target and splits the one with the largest contribution until there are about
    `most` entries.
    """
    target = ground.node(row, place)
    edges: dict[Any, list[_Edge]] = defaultdict(list)  # for each node, what came from its consumers
    arrived: dict[Any, Any] = {}
    with unwatched(grad=False), Kept(ground.nodes):
        for node, upstream, gradients in ground.steps():
            if node.op is not None and node.op.picks:
                continue
            if node is target and isinstance(upstream, list) and sum(g is not None for g in upstream) > 1:
                raise Cannot(f"Gradients arrive at several results of {ground.recording.called(row)}; paths are told to one tensor.")
            arrived[node] = joined(upstream)
            for slot, g in enumerate(gradients):
                if g is not None:
                    edges[_step(node.inputs[slot])].append(_Edge(node, slot, g))
        if target not in arrived:
            raise Cannot(f"No gradient arrives at {ground.recording.called(row)}.")
        return _search(ground, target, row, edges, arrived[target], most)


def _step(node: Any) -> Any:
    return node.inputs[0] if node.op is not None and node.op.picks else node


def _search(ground: Ground, target: Any, row: int, edges: dict, gradient: Any, most: int) -> Paths:
    head = _step(ground.root)
    counts = _counts(head, target, edges)
    whole = wide(gradient).reshape(-1)
    square = float(numpy.vdot(whole, whole).real)

    def path(suffix: tuple, contribution: Any, alone: bool = False) -> Path:
        mine = host(contribution).reshape(-1)
        share = float(numpy.vdot(whole, mine).real) / square if square else 0.0
        rows = [ground.row(e.consumer) for e in reversed(suffix)] + [row]
        count = counts[suffix[-1].consumer] if suffix and not alone else 1
        slots = [*[_slot(e) for e in reversed(suffix)], -1]
        return Path(rows, slots, count, contribution, share, norm(mine))

    heap: list = []
    done: list[Path] = []
    order = 0
    products = 0

    def add(suffix: tuple, contribution: Any) -> None:
        """Add a group, extended back as long as there is only one way, which leaves its contribution unchanged."""
        nonlocal order
        order += 1
        while suffix[-1].consumer is not head and len(edges[suffix[-1].consumer]) == 1:
            suffix = (*suffix, edges[suffix[-1].consumer][0])
        found = path(suffix, contribution)
        if edges[suffix[-1].consumer]:
            heappush(heap, (-found.norm, order, suffix, found))
        else:
            done.append(found)

    for edge in edges[target]:
        add((edge,), edge.given)
    if target is head:
        done.append(path((), ground.seed))
    while heap and len(done) + len(heap) < most and products <= PRODUCTS:
        _, _, suffix, _ = heappop(heap)
        before = edges[suffix[-1].consumer]
        products += len(before) * len(suffix)
        for edge in before:
            add((*suffix, edge), _pushed(suffix, edge.given, edge))
        if suffix[-1].consumer is head:  # the loss is also used further on: the path that starts here is separate
            done.append(path(suffix, _pushed(suffix, ground.seed, None), alone=True))
    listed = sorted([*done, *[item[3] for item in heap]], key=lambda p: -p.norm)
    total = sum(counts[e.consumer] for e in edges[target]) + (target is head)
    notes = [ground.note] if ground.note else []
    if any(n.hooks is not None and (n.hooks.before or n.hooks.post) for n in ground.nodes):
        notes.append("Hooks change gradients on the way; what they do is part of no path, so the shares may not add up to 100 %.")
    return Paths(ground.recording, row, gradient, total, listed, " ".join(notes))


def _slot(edge: _Edge) -> int:
    inputs = edge.consumer.inputs
    return edge.slot if sum(source is inputs[edge.slot] for source in inputs) > 1 else -1


def _pushed(suffix: tuple, gradient: Any, edge: Any) -> Any:
    """What a gradient at the suffix's head gives at the target: one vector-Jacobian product for each op on the way."""
    g = gradient
    through = edge
    for e in reversed(suffix):
        node = e.consumer
        given = g
        if node.op.multi:
            known = through.consumer.inputs[through.slot] if through is not None else None
            index = known.attrs["index"] if known is not None and known.op is not None and known.op.picks else 0
            given = [g if i == index else None for i in range(node.attrs["__outputs__"])]
        g = node.op.pull(node, given)[e.slot]
        through = e
    return g


def _counts(head: Any, target: Any, edges: dict) -> dict[Any, int]:
    """The number of paths from the loss to each node that the target's gradient came through."""
    counts: dict[Any, int] = {}
    todo = [target]
    while todo:
        node = todo[-1]
        if node in counts:
            todo.pop()
            continue
        missing = [e.consumer for e in edges[node] if e.consumer not in counts]
        if missing:
            todo += missing
            continue
        counts[node] = sum(counts[e.consumer] for e in edges[node]) + (node is head)
        todo.pop()
    return counts
