"""The graph as a plain-text tree, for pages without pictures, terminals and screen readers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .. import protocol
from ..inspector import bytes_text, number_text, shape_text, summaries
from .outline import Box, Outline, on

MEASURED = 100_000  # elements; larger gradients are not summarized, because this text is part of every cell's output


def tree(graph: protocol.Graph, gradients: Mapping[int, str] | None = None) -> str:
    """Return one line per box of the drawing in execution order, indented by groups, with counts for closed groups.

    `gradients` maps rows to descriptions of their gradients, such as "gradient norm 0.13".
    """
    outlined = Outline(graph)
    writer = _Writer(graph, outlined, gradients or {})
    return "\n".join([headline(graph), *writer.lines(-1, "  ")])


def gradient_texts(arrays: Sequence[Any]) -> list[str]:
    """Describe gradients in a few words each."""
    told = iter(summaries([array for array in arrays if array.size <= MEASURED]))
    return ["has a gradient" if array.size > MEASURED else _gradient_text(next(told)) for array in arrays]


def _gradient_text(known: protocol.Summary) -> str:
    if known.values is not None and known.size == 1:
        return f"gradient {number_text(known.values[0])}"
    return f"gradient norm {number_text(known.norm)}" if known.norm is not None else "gradient with NaN or Inf"


class _Writer:
    def __init__(self, graph: protocol.Graph, outlined: Outline, gradients: Mapping[int, str]) -> None:
        self.graph, self.outlined, self.gradients = graph, outlined, gradients
        self.sources: dict[int, list[int]] = {}
        for source, target in zip(graph.edges.source, graph.edges.target, strict=True):
            self.sources.setdefault(target, []).append(source)
        self.riders: dict[int, list[int]] = {}
        for row, user in outlined.host.items():
            self.riders.setdefault(user, []).append(row)
        self.items: dict[int, list[tuple[int, Box | int]]] = {}  # group -> its boxes and open groups, by their first rows
        firsts: dict[int, int] = {}
        for box in outlined.boxes:
            around = outlined.chain(box.key)
            self.items.setdefault(around[0], []).append((box.first, box))
            for group in around[:-1]:
                firsts[group] = min(firsts.get(group, box.first), box.first)
        for group, first in firsts.items():
            self.items.setdefault(outlined.outer(group), []).append((first, group))

    def lines(self, group: int, pad: str) -> list[str]:
        """The lines of a group's content."""
        found = []
        for _, item in sorted(self.items.get(group, ()), key=lambda one: one[0]):
            if isinstance(item, Box):
                found += self._box(item, pad)
            else:
                found += [f"{pad}{self.outlined.label(item)}:", *self.lines(item, pad + "  ")]
        return found

    def _box(self, box: Box, pad: str) -> list[str]:
        if box.key[0] != "n":
            like = " like it" if box.key[0] == "rest" else ""
            title = self.outlined.label(box.key[1]) if box.key[0] == "g" else box.title
            return [f"{pad}{title}{like}: {box.detail}"]
        return [self._node(box.key[1], pad), *(self._node(row, pad + "  ") for row in self.riders.get(box.key[1], ()))]

    def _node(self, row: int, pad: str) -> str:
        nodes = self.graph.nodes
        failed = nodes.kind[row] == "op" and not nodes.dtype[row]
        what = f"failed: {nodes.note[row]}" if failed else f"{nodes.dtype[row]} {shape_text(nodes.shape[row])}{on(nodes, row)}"
        name = f" {nodes.name[row]}" if nodes.name[row] else ""
        alone = self.outlined.alone(row)
        inputs = f", from {', '.join(f'#{source}' for source in self.sources[row])}" if row in self.sources else ""
        gradient = f", {self.gradients[row]}" if row in self.gradients else ""
        return f"{pad}#{row} {nodes.op[row] or nodes.kind[row]}{name}{f' in {alone}' if alone else ''}: {what}{inputs}{gradient}"


def headline(graph: protocol.Graph) -> str:
    """Summarize the size of the graph in a sentence."""
    nodes = graph.nodes
    ops = sum(kind == "op" for kind in nodes.kind)
    parameters = [row for row, kind in enumerate(nodes.kind) if kind == "parameter"]
    leaves = sum(kind == "leaf" for kind in nodes.kind)
    parts = [f"{ops} op{'s' * (ops != 1)}"]
    if parameters:
        parts.append(f"{len(parameters)} parameter{'s' * (len(parameters) != 1)}")
    if leaves:
        parts.append(f"{leaves} other lea{'ves' if leaves != 1 else 'f'}")
    parts.append(f"{bytes_text(sum(nodes.saved))} saved for backward")
    title = f"{graph.title}: " if graph.title else ""
    left_out = f" {graph.left_out}" if graph.left_out else ""
    return f"{title}{', '.join(parts)}.{left_out}"
