"""Export of the graph in Graphviz's DOT language, with a cluster for each group. All names are quoted."""

from __future__ import annotations

from .. import protocol
from ..inspector import shape_text
from .privacy import without_path

_SHAPES = {"op": "box", "parameter": "ellipse", "leaf": "ellipse", "input": "parallelogram", "constant": "plaintext"}
_FILL = {"op": "#ffffff", "parameter": "#e3ecff", "leaf": "#e3ecff", "input": "#e6f4e6", "constant": "#f1f1f1"}


def text(message: protocol.Graph, paths: bool = False) -> str:
    """Return the graph as DOT text."""
    nodes, edges = message.nodes, message.edges
    inside: dict[int, list[int]] = {}
    below: dict[int, list[protocol.Group]] = {}
    for row, group in enumerate(nodes.group):
        inside.setdefault(group, []).append(row)
    for group in message.groups:
        below.setdefault(group.parent, []).append(group)
    title = message.title or "graph"
    lines = [f"digraph {quoted(title)} {{", "  rankdir=TB;", '  node [fontname="sans-serif", style=filled];', '  edge [color="#8a8f98"];']
    open_groups: list[tuple[int, int, bool]] = [(-1, 1, False)]  # group, depth, whether to write its closing brace
    names = {group.id: group for group in message.groups}
    while open_groups:
        group, depth, ends = open_groups.pop()
        pad = "  " * depth
        if ends:
            lines.append("  " * (depth - 1) + "}")
            continue
        if group >= 0:
            one = names[group]
            label = one.label if one.name in one.label else f"{one.name}: {one.label}"
            lines += [f"{'  ' * (depth - 1)}subgraph cluster_{group} {{", f"{pad}label={quoted(label)};", f'{pad}color="#b4bdc9";']
        lines += [pad + _node(nodes, row) for row in inside.get(group, ())]
        if group >= 0:
            open_groups.append((group, depth, True))
        open_groups += [(one.id, depth + 1, False) for one in reversed(below.get(group, ()))]
    for source, target, slot in zip(edges.source, edges.target, edges.slot, strict=True):
        lines.append(f"  n{source} -> n{target} [tooltip={quoted(f'input {slot}')}];")
    lines.append("}")
    whole = "\n".join(lines) + "\n"
    return whole if paths else "\n".join(map(without_path, whole.split("\n")))


def _node(nodes: protocol.Nodes, row: int) -> str:
    kind = nodes.kind[row]
    failed = kind == "op" and not nodes.dtype[row]
    head = " ".join(filter(None, (nodes.op[row] or kind, nodes.name[row])))
    label = f"{head}\nfailed" if failed else f"{head}\n{shape_text(nodes.shape[row])} {nodes.dtype[row]}"
    fill = "#ffd9d6" if failed else _FILL[kind]
    return f'n{row} [label={quoted(label)}, shape={_SHAPES[kind]}, fillcolor="{fill}"];'


def quoted(text: str) -> str:
    """Quote a text as a DOT string that shows it literally. Newlines are escaped, and unprintable characters are dropped."""
    plain = "".join(char for char in text if char == "\n" or char.isprintable() or char == "\u2028")
    return '"' + plain.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'
