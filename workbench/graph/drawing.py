"""The geometry of a still drawing of a graph: boxes in layers, open groups as frames around their boxes, and edges that avoid boxes.

The layout is Sugiyama's (Sugiyama, Tagawa, Toda 1981: layering, crossing reduction, positioning), group by group from the inside. An
edge that leaves a group passes a port at its frame, so it has its own lane in each group that it crosses.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from .. import protocol
from ..inspector import count_text
from .outline import BOXES, DETAIL, Box, Key, Outline, clip

_GAP, _LAYER, _LANE, _PAD, _HEAD, _MARGIN = 16.0, 26.0, 6.0, 12.0, 18.0, 8.0
_SWEEPS = 8

Point = tuple[float, float]


@dataclass
class Frame:
    """The frame of an open group."""

    title: str
    x: float
    y: float
    width: float
    height: float
    depth: int


@dataclass
class Drawing:
    """The geometry of a drawing. A wire is a list of points, joined by curves that start and end vertically."""

    width: float
    height: float
    boxes: list[Box]
    frames: list[Frame]  # outer ones first
    wires: list[list[Point]]
    title: str
    hidden: int = 0  # ops in closed boxes


def draw(graph: protocol.Graph, boxes: int = BOXES) -> Drawing:
    """Lay out a whole graph message, with at most so many boxes if closing groups can achieve it."""
    outlined = Outline(graph, boxes)
    root = _Level(outlined, -1, 0)
    root.arrange()
    root.move(_MARGIN, _MARGIN)
    frames: list[Frame] = []
    wires: list[list[Point]] = []
    for level in root.all():
        if level.group >= 0:
            frames.append(Frame(level.title, level.x, level.y, level.width, level.height, level.depth))
    for source, target in outlined.edges:
        wires.append(_path(outlined, root, source, target))
    ops = sum(kind == "op" for kind in graph.nodes.kind)
    title = f"{graph.title + ': ' if graph.title else ''}graph with {count_text(ops, 'op')}"
    return Drawing(root.width + 2 * _MARGIN, root.height + 2 * _MARGIN, outlined.boxes, frames, wires, title, outlined.hidden)


def _path(outlined: Outline, root: _Level, source: Key, target: Key) -> list[Point]:
    """The points of an edge: out of the source's groups, through the common group, into the target's groups."""
    ups, downs = outlined.chain(source), outlined.chain(target)
    while len(ups) > 1 and len(downs) > 1 and ups[-2] == downs[-2]:
        ups.pop()
        downs.pop()
    points: list[Point] = []
    for group in ups[:-1]:
        points += root.found[group].lane(("out", source))
    points += root.found[ups[-1]].lane(("through", source, target))
    for group in reversed(downs[:-1]):
        points += root.found[group].lane(("in", source, target))
    return points


@dataclass
class _Item:
    """An item of a layer: a box, an open group, a port, or a lane for a long edge."""

    width: float
    height: float
    first: int
    box: Box | None = None
    level: _Level | None = None
    layer: int = 0
    x: float = 0.0  # of its center
    y: float = 0.0
    top: float = 0.0  # of its layer
    bottom: float = 0.0
    above: list[tuple[_Item, float, float]] = field(default_factory=list)  # neighbor, offset of the edge's end there, offset here
    below: list[tuple[_Item, float, float]] = field(default_factory=list)


class _Level:
    """The inside of one open group, or the top level."""

    def __init__(self, outlined: Outline, group: int, depth: int, found: dict[int, _Level] | None = None) -> None:
        self.outlined, self.group, self.depth = outlined, group, depth
        self.title = clip(outlined.label(group), 40) if group >= 0 else ""
        self.found = {} if found is None else found
        self.found[group] = self
        self.x = self.y = self.width = self.height = 0.0
        self.inner = [_Level(outlined, one, depth + 1, self.found) for one in outlined.inside(group)]
        self.layers: list[list[_Item]] = []
        self.lanes: dict[Any, list[tuple[_Item, float]]] = {}  # edge -> the items on its path, with offsets

    def all(self) -> list[_Level]:
        """This level and all levels inside it, outer ones first."""
        return [self, *(one for inner in self.inner for one in inner.all())]

    def lane(self, edge: Any) -> list[Point]:
        """The points of an edge in this level."""
        points = []
        for item, offset in self.lanes[edge]:
            x = item.x + offset
            if item.box is not None or item.level is not None:  # beside a tall neighbor in its layer the wire runs straight
                first = item is self.lanes[edge][0][0]
                ys = (item.y + item.height, item.bottom) if first else (item.top, item.y)
                points += [(x, y) for y in dict.fromkeys(ys)]
            else:
                points += [(x, item.y), (x, item.y + item.height)]
        return points

    # -- layout -----------------------------------------------------------------------------------------------------------------

    def arrange(self) -> None:
        """Position all items relative to this level's corner."""
        for inner in self.inner:
            inner.arrange()
        items = self._items()
        links = self._links(items)
        self._layer(items, links)
        self._lay_lanes(links)
        self._order()
        self._place()

    def _items(self) -> dict[Any, _Item]:
        found: dict[Any, _Item] = {}
        o = self.outlined
        for box in o.boxes:
            if o.parent[box.key] == self.group:
                first = box.first if box.kind in ("op", "failed", "group", "more") else -2  # inputs from outside come first
                found[box.key] = _Item(box.width, box.height, first, box=box)
        for inner in self.inner:
            firsts = [box.first for box in o.boxes if inner.group in o.chain(box.key)]
            if firsts:
                found["level", inner.group] = _Item(inner.width, inner.height, min(firsts), level=inner)
        return found

    def _links(self, items: dict[Any, _Item]) -> dict[Any, tuple[_Item, float, _Item, float]]:
        """Edges of this level: `(source, offset, target, offset)`; edges that enter or leave the level end at a port."""
        o, links = self.outlined, {}
        ports: dict[Any, _Item] = {}
        for source, target in o.edges:
            ups, downs = o.chain(source), o.chain(target)
            if self.group not in ups and self.group not in downs:
                continue
            a, b = self._member(items, source, ups), self._member(items, target, downs)
            if a is not None and b is not None:
                if a is not b:
                    links["through", source, target] = (a, self._out(a, source), b, self._in(b, source, target))
            elif a is not None:
                port = ports.setdefault(("out", source), _Item(_LANE, 0.0, 10**9))
                links["out", source] = (a, self._out(a, source), port, 0.0)
            elif b is not None:
                port = ports.setdefault(("in", source), _Item(_LANE, 0.0, -1))
                links["in", source, target] = (port, 0.0, b, self._in(b, source, target))
        items |= {("port", *key): port for key, port in ports.items()}
        return links

    def _member(self, items: dict[Any, _Item], key: Key, chain: list[int]) -> _Item | None:
        if self.group not in chain:
            return None
        at = chain.index(self.group)
        return items.get(key if at == 0 else ("level", chain[at - 1]))

    def _out(self, item: _Item, source: Key) -> float:
        if item.level is None:
            return 0.0
        port, _ = item.level.lanes["out", source][-1]
        return port.x - item.width / 2

    def _in(self, item: _Item, source: Key, target: Key) -> float:
        if item.level is None:
            return 0.0
        port, _ = item.level.lanes["in", source, target][0]
        return port.x - item.width / 2

    def _layer(self, items: dict[Any, _Item], links: dict[Any, tuple[_Item, float, _Item, float]]) -> None:
        """Assign layers, each item below its inputs. Edges back in time are ignored, since closed groups can depend on each other."""
        into: dict[int, list[_Item]] = {}
        out: dict[int, list[_Item]] = {}
        for a, _, b, _ in links.values():
            if a.first < b.first:
                into.setdefault(id(b), []).append(a)
                out.setdefault(id(a), []).append(b)
        order = sorted(items.values(), key=lambda item: item.first)
        for item in order:
            item.layer = max((one.layer + 1 for one in into.get(id(item), ())), default=0)
        last = max((item.layer for item in order), default=0)
        ends = [item for item in order if item.first == 10**9]
        for item in ends:
            item.layer = last if all(other in ends for other in order if other.layer == last) else last + 1
        for item in reversed(order):  # place inputs next to their first user
            users = out.get(id(item), ())
            if users and not into.get(id(item)) and item.box is not None:
                item.layer = max(0, min(one.layer for one in users) - 1)
        self.layers = [[] for _ in range(max((item.layer for item in order), default=0) + 1)]
        for item in order:
            self.layers[item.layer].append(item)

    def _lay_lanes(self, links: dict[Any, tuple[_Item, float, _Item, float]]) -> None:
        shared: dict[tuple[int, float, int], _Item] = {}  # edges with the same start share lanes
        for edge, (a, leaves, b, arrives) in links.items():
            way: list[tuple[_Item, float]] = [(a, leaves)]
            step = 1 if b.layer > a.layer else -1
            for layer in range(a.layer + step, b.layer, step) if a.layer != b.layer else ():
                known = shared.get((id(a), leaves, layer))
                if known is None:
                    known = shared[id(a), leaves, layer] = _Item(_LANE, 0.0, a.first, layer=layer)
                    self.layers[layer].append(known)
                way.append((known, 0.0))
            way.append((b, arrives))
            self.lanes[edge] = way
            for (upper, out), (lower, into) in zip(way, way[1:], strict=False):
                upper.below.append((lower, into, out))
                lower.above.append((upper, out, into))

    # -- crossings and positions ------------------------------------------------------------------------------------------------

    def _order(self) -> None:
        """Order the layers by neighbors' medians, in sweeps down and up, and keep the order with the fewest crossings."""
        for layer in self.layers:
            layer.sort(key=lambda item: item.first)
        best, fewest = [list(layer) for layer in self.layers], self._crossings()
        for sweep in range(_SWEEPS):
            down = sweep % 2 == 0
            for layer in self.layers[1:] if down else self.layers[-2::-1]:
                for other in self.layers:
                    for number, item in enumerate(other):
                        item.x = float(number)
                middles = {id(item): _middle(item.above if down else item.below, item.x) for item in layer}
                layer.sort(key=lambda item: middles[id(item)])
            crossings = self._crossings()
            if crossings < fewest:
                best, fewest = [list(layer) for layer in self.layers], crossings
        self.layers = best

    def _crossings(self) -> int:
        total = 0
        for layer in self.layers:
            for number, item in enumerate(layer):
                item.x = float(number)
        for layer in self.layers[:-1]:
            ends = [
                (item.x + out * 1e-4, other.x + into * 1e-4)
                for item in layer
                for other, into, out in item.below
                if other.layer > item.layer
            ]
            total += sum((a[0] - b[0]) * (a[1] - b[1]) < 0 for i, a in enumerate(ends) for b in ends[:i])
        return total

    def _place(self) -> None:
        for layer in self.layers:
            spread(layer, [0.0] * len(layer))
        for sweep in range(_SWEEPS):
            for layer in self.layers if sweep % 2 == 0 else self.layers[::-1]:
                spread(layer, [_wanted(item, sweep % 2 == 0 and sweep < _SWEEPS - 2) for item in layer])
        left = min((item.x - item.width / 2 for layer in self.layers for item in layer), default=0.0)
        right = max((item.x + item.width / 2 for layer in self.layers for item in layer), default=0.0)
        pad, y = (_PAD, _HEAD + _PAD / 2) if self.group >= 0 else (0.0, 0.0)
        wide = max(right - left, DETAIL * len(self.title) + 4 if self.title else 0.0)
        heights = [max((item.height for item in layer), default=0.0) for layer in self.layers]
        y -= 0.0 if heights[0] else pad  # ports alone need no margin
        for layer, height in zip(self.layers, heights, strict=True):
            for item in layer:
                item.x += pad - left + (wide - (right - left)) / 2
                item.top, item.bottom = y, y + height
                if item.box is not None or item.level is not None:  # in the middle, but an input next to its users
                    item.y = y + (height - item.height) / (2 if item.above else 1)
                else:
                    item.y, item.height = y, height
            y += height + _LAYER
        self.width, self.height = wide + 2 * pad, y - _LAYER + (pad if heights[-1] else 0.0)
        if self.group >= 0:
            for layer in (self.layers[0], self.layers[-1]):
                for item in layer:
                    if item.first == -1 and item.box is None and item.level is None:
                        item.height, item.y = item.y + item.height, 0.0  # extend a port to the frame
                    elif item.first == 10**9:
                        item.height = self.height - item.y

    def move(self, x: float, y: float) -> None:
        """Shift this level and its content by (x, y)."""
        self.x, self.y = x, y
        for layer in self.layers:
            for item in layer:
                item.x += x
                item.y, item.top, item.bottom = item.y + y, item.top + y, item.bottom + y
                if item.box is not None:
                    item.box.x, item.box.y = item.x - item.width / 2, item.y
                if item.level is not None:
                    item.level.move(item.x - item.width / 2, item.y)


def _middle(ends: list[tuple[_Item, float, float]], else_: float) -> float:
    places = sorted(item.x + at * 1e-4 for item, at, _ in ends)
    return (places[(len(places) - 1) // 2] + places[len(places) // 2]) / 2 if places else else_


def _wanted(item: _Item, down: bool) -> float:
    ends = (item.above if down else item.below) or item.above or item.below
    return sum(other.x + there - here for other, there, here in ends) / len(ends) if ends else item.x


def spread(layer: Sequence[Any], wanted: Sequence[float]) -> None:
    """Set the centers as close to `wanted` as the widths allow, keeping the order: least squares by pooling adjacent violators."""
    blocks: list[list[float]] = []  # [sum of wanted centers minus offsets, count]
    offsets, at = [], 0.0
    for i, item in enumerate(layer):
        if i:
            before = layer[i - 1]
            thin = before.width <= _LANE and item.width <= _LANE
            at += (before.width + item.width) / 2 + (_LANE if thin else _GAP)
        offsets.append(at)
        blocks.append([wanted[i] - at, 1.0])
        while len(blocks) > 1 and blocks[-2][0] / blocks[-2][1] > blocks[-1][0] / blocks[-1][1]:
            total, count = blocks.pop()
            blocks[-1][0] += total
            blocks[-1][1] += count
    i = 0
    for total, count in blocks:
        for _ in range(int(count)):
            layer[i].x = total / count + offsets[i]
            i += 1
