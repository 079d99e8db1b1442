"""The graph as a table of plain text, for a page without pictures and for screen readers."""

from __future__ import annotations

from . import protocol
from .inspector import bytes_text, shape_text

ROWS = 40


def table(graph: protocol.Graph, rows: int = ROWS) -> str:
    """One line for each node, at most `rows` of them; what is left out is said."""
    nodes = graph.nodes
    total = len(nodes.op)
    sources: dict[int, list[int]] = {}
    for source, target in zip(graph.edges.source, graph.edges.target, strict=True):
        sources.setdefault(target, []).append(source)
    groups = {g.id: g for g in graph.groups}

    def place(row: int) -> str:
        parts, at = [], nodes.group[row]
        while at != -1:
            parts.append(groups[at].name)
            at = groups[at].parent
        return " / ".join(reversed(parts))

    lines = [headline(graph)]
    # the end of a long graph is nearer to the loss than its beginning
    shown = range(total) if total <= rows else [*range(rows // 2), *range(total - rows // 2, total)]
    width = max((len(nodes.op[row] or nodes.kind[row]) for row in shown), default=0)
    names = max((len(nodes.name[row]) for row in shown), default=0)
    before = -1
    for row in shown:
        if row != before + 1:
            lines.append(f"  … {row - before - 1} more …")
        before = row
        made = nodes.op[row] or nodes.kind[row]
        inputs = f"({', '.join(f'#{s}' for s in sources.get(row, []))})" if row in sources else ""
        where = place(row)
        failed = nodes.kind[row] == "op" and not nodes.dtype[row]
        what = f"failed: {nodes.note[row]}" if failed else f"{nodes.dtype[row]} {shape_text(nodes.shape[row])}"
        lines.append(
            f"  #{row:<4} {made:<{width}}  {nodes.name[row]:<{names}}  {what}  {inputs}{'  in ' + where if where else ''}".rstrip()
        )
    return "\n".join(lines)


def headline(graph: protocol.Graph) -> str:
    """How large the graph is, in a sentence."""
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
