"""The graph as a still picture, for a page without a kernel: groups closed until at most 60 boxes are left, drawn in layers."""

from __future__ import annotations

from html import escape

from . import protocol
from .inspector import number_text, shape_text

BOXES = 60
_HEIGHT, _GAP, _LAYER, _MARGIN = 34, 14, 30, 8
_FILL = {
    "op": "#ffffff",
    "parameter": "#e3ecff",
    "leaf": "#e3ecff",
    "input": "#e6f4e6",
    "constant": "#f1f1f1",
    "group": "#fff3d6",
    "failed": "#ffd9d6",
}


class _Box:
    def __init__(self, key: tuple, first: int, title: str, detail: str, kind: str) -> None:
        self.key, self.first, self.title, self.detail, self.kind = key, first, title, detail, kind
        self.width = max(54.0, 7.2 * max(len(title), 0.85 * len(detail)) + 14)
        self.layer = 0
        self.x = self.y = 0.0


def picture(graph: protocol.Graph) -> str:
    """An SVG of a whole graph message. Every name in it is text."""
    boxes, home = _boxes(graph)
    edges = _edges(graph, boxes, home)
    _place(boxes, edges)
    at = {box.key: box for box in boxes}
    width = max((b.x + b.width for b in boxes), default=0) + _MARGIN
    height = max((b.y + _HEIGHT for b in boxes), default=0) + _MARGIN
    title = f"Graph with {sum(k == 'op' for k in graph.nodes.kind)} ops"
    size = f'viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" height="{height:.0f}"'
    style = f'role="img" aria-label="{title}" font-family="sans-serif" font-size="12"'
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" {size} {style}><title>{title}</title>']
    for source, target in edges:
        a, b = at[source], at[target]
        x0, y0, x1, y1 = a.x + a.width / 2, a.y + _HEIGHT, b.x + b.width / 2, b.y
        bend = max(14.0, abs(y1 - y0) / 2)
        curve = f"M{x0:.1f} {y0:.1f}C{x0:.1f} {y0 + bend:.1f} {x1:.1f} {y1 - bend:.1f} {x1:.1f} {y1:.1f}"
        out.append(f'<path d="{curve}" fill="none" stroke="#8a8f98"/>')
    for box in boxes:
        middle = f'x="{box.x + box.width / 2:.1f}" text-anchor="middle"'
        dash = ' stroke-dasharray="4 2"' if box.kind == "group" else ""
        frame = f'x="{box.x:.1f}" y="{box.y:.1f}" width="{box.width:.1f}" height="{_HEIGHT}"'
        out.append(f'<rect {frame} rx="5" fill="{_FILL[box.kind]}" stroke="#5f6570"{dash}/>')
        out.append(f'<text {middle} y="{box.y + 14:.1f}" fill="#15181d">{escape(box.title)}</text>')
        out.append(f'<text {middle} y="{box.y + 28:.1f}" font-size="10" fill="#4a505a">{escape(box.detail)}</text>')
    out.append("</svg>")
    return "".join(out)


def distribution(name: str, summary: protocol.Summary, histogram: protocol.Histogram | None) -> str:
    """An SVG of a tensor: its summary in a line, its histogram as bars."""
    width, height, top = 480, 120, 24
    title = escape(f"{name + ': ' if name else ''}{summary.text}")
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img" '
        f'aria-label="{title}" font-family="sans-serif" font-size="12"><title>{title}</title>',
        f'<text x="{_MARGIN}" y="15" fill="#4a505a">{escape(_clip(f"{name} {summary.text}".strip(), 76))}</text>',
    ]
    if histogram is not None:
        floor, most = height - 18, max(histogram.counts) or 1
        step = (width - 2 * _MARGIN) / len(histogram.counts)
        for i, count in enumerate(histogram.counts):
            if count:
                bar = max(1.0, (floor - top) * count / most)
                frame = f'x="{_MARGIN + i * step:.1f}" y="{floor - bar:.1f}" width="{step * 0.9:.1f}" height="{bar:.1f}"'
                out.append(f'<rect {frame} fill="#2f6fbf"/>')
        ends = ((_MARGIN, "start", histogram.low), (width - _MARGIN, "end", histogram.high))
        out += [
            f'<text x="{x}" y="{height - 4}" text-anchor="{a}" font-size="10" fill="#4a505a">{number_text(v)}</text>' for x, a, v in ends
        ]
    out.append("</svg>")
    return "".join(out)


def _clip(text: str, most: int = 26) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def _boxes(graph: protocol.Graph) -> tuple[list[_Box], list[tuple]]:
    nodes, groups = graph.nodes, {g.id: g for g in graph.groups}
    inside: dict[int, list[int]] = {}
    below: dict[int, list[int]] = {}
    for row, group in enumerate(nodes.group):
        inside.setdefault(group, []).append(row)
    for group in graph.groups:
        below.setdefault(group.parent, []).append(group.id)
    opened = {-1}
    count = len(inside.get(-1, ())) + len(below.get(-1, ()))
    todo = list(below.get(-1, ()))
    for group in todo:
        more = len(inside.get(group, ())) + len(below.get(group, ())) - 1
        if count + more <= BOXES:
            count += more
            opened.add(group)
            todo += below.get(group, ())
    users: dict[int, set[int]] = {}
    for source, target in zip(graph.edges.source, graph.edges.target, strict=True):
        users.setdefault(source, set()).add(target)
    # a parameter or number that one op uses is written into that op's box
    host = {row: user for row, (user, *more) in users.items() if nodes.kind[row] in ("parameter", "leaf", "constant") and not more}
    riders: dict[int, list[str]] = {}
    for row, user in host.items():
        riders.setdefault(user, []).append(nodes.name[row] or nodes.kind[row])
    home: list[tuple] = []
    boxes: dict[tuple, _Box] = {}
    for row in range(len(nodes.op)):
        closed, at = None, nodes.group[host.get(row, row)]
        while at != -1:
            if at not in opened:
                closed = at
            at = groups[at].parent
        key = ("n", host.get(row, row)) if closed is None else ("g", closed)
        home.append(key)
        if row in host or key in boxes or len(boxes) > 4 * BOXES:
            continue
        if closed is not None:
            group = groups[closed]
            label = group.label if group.name in group.label else f"{group.name}: {group.label}"
            boxes[key] = _Box(key, row, _clip(label, 34), "", "group")
            continue
        shape = shape_text(nodes.shape[row])
        kind = "failed" if nodes.kind[row] == "op" and not nodes.dtype[row] else nodes.kind[row]
        head = " ".join([nodes.op[row] or nodes.name[row] or nodes.kind[row], *riders.get(row, [])])
        name = nodes.name[row] if nodes.op[row] else ""
        detail = "failed" if kind == "failed" else f"{name + ' ' if name else ''}{shape}"
        boxes[key] = _Box(key, row, _clip(head), _clip(detail), kind)
    for key, box in boxes.items():
        if key[0] == "g":
            box.detail = f"{sum(k == key and nodes.kind[row] == 'op' for row, k in enumerate(home))} ops"
    return list(boxes.values()), home


def _edges(graph: protocol.Graph, boxes: list[_Box], home: list[tuple]) -> list[tuple]:
    drawn = {box.key for box in boxes}
    found = {}
    for source, target in zip(graph.edges.source, graph.edges.target, strict=True):
        pair = (home[source], home[target])
        if pair[0] != pair[1] and pair[0] in drawn and pair[1] in drawn:
            found[pair] = None
    return list(found)


def _place(boxes: list[_Box], edges: list[tuple]) -> None:
    at = {box.key: box for box in boxes}
    # creation order is an order of layers, but for the cycles that closed groups can make: those edges go up
    for source, target in sorted(edges, key=lambda e: at[e[1]].first):
        a, b = at[source], at[target]
        if a.first < b.first:
            b.layer = max(b.layer, a.layer + 1)
    for source, target in sorted(edges, key=lambda e: -at[e[0]].first):
        a, b = at[source], at[target]
        if a.layer == 0 and a.kind in ("parameter", "leaf", "constant") and a.first < b.first:
            a.layer = max(0, b.layer - 1)
    layers: dict[int, list[_Box]] = {}
    for box in boxes:
        layers.setdefault(box.layer, []).append(box)
    parents: dict[tuple, list[_Box]] = {}
    for source, target in edges:
        parents.setdefault(target, []).append(at[source])
    widest = max((sum(b.width + _GAP for b in row) for row in layers.values()), default=0)
    for number in sorted(layers):
        row = layers[number]

        def wanted(box: _Box) -> float:
            above = [p.x + p.width / 2 for p in parents.get(box.key, ()) if p.layer < box.layer]
            return sum(above) / len(above) if above else widest / 2

        row.sort(key=lambda b: (wanted(b), b.first))
        x = max(_MARGIN, sum(wanted(b) for b in row) / len(row) - sum(b.width + _GAP for b in row) / 2)
        for box in row:
            box.x, box.y = x, _MARGIN + number * (_HEIGHT + _LAYER)
            x += box.width + _GAP
