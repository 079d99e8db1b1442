"""The selection of what to draw of a graph: open groups, boxes, and what is only counted, so that the boxes fit on a page."""

from __future__ import annotations

from dataclasses import dataclass

from .. import protocol
from ..inspector import count_text, shape_text

BOXES = 60  # boxes at most; groups stay closed, and the middle of a long sequence is only counted
TITLE, DETAIL = 6.7, 5.7  # average width of a letter in pixels, at font sizes of 12 and 10 pixels

Key = tuple[str, int]


@dataclass
class Box:
    """A node, a closed group, or a placeholder for the middle of a long sequence."""

    key: Key
    first: int  # its first row
    title: str
    detail: str
    kind: str  # of the node, or "group", "failed", "more"
    riders: str = ""  # parameters and constants that only this op uses
    x: float = 0.0
    y: float = 0.0
    width: float = 0.0
    height: float = 0.0

    def __post_init__(self) -> None:
        letters = max(TITLE * len(self.title), DETAIL * max(len(self.detail), len(self.riders)))
        self.width, self.height = max(54.0, letters + 16), 34.0 + 13 * bool(self.riders)


class Outline:
    """The open groups, the boxes, and the edges between boxes."""

    def __init__(self, graph: protocol.Graph, most: int = BOXES) -> None:
        self.graph, self.most = graph, most
        nodes, self.groups = graph.nodes, {g.id: g for g in graph.groups}
        self.below: dict[int, list[int]] = {}
        inside: dict[int, int] = {}
        for group in nodes.group:
            inside[group] = inside.get(group, 0) + 1
        for group in graph.groups:
            self.below.setdefault(group.parent, []).append(group.id)
        users: dict[int, set[int]] = {}
        for source, target in zip(graph.edges.source, graph.edges.target, strict=True):
            users.setdefault(source, set()).add(target)
        self.updates = self._updates(users)
        self.host = self._hosts(users) | self.updates
        self.rest: dict[int, int] = {}  # group that is only counted -> the fold or loop around it
        self.single: set[int] = set()  # open groups with a single box, which get no frame
        self.opened = self._opened(inside)
        self._find_single()
        self.riders: dict[int, list[str]] = {}
        for row, user in self.host.items():
            self.riders.setdefault(user, []).append(nodes.name[row] or nodes.op[row] or nodes.kind[row])
        self.boxes: list[Box] = []
        self.home: list[Key] = []
        self.parent: dict[Key, int] = {}
        self._box()
        drawn = {box.key for box in self.boxes}
        ends = zip(graph.edges.source, graph.edges.target, strict=True)
        pairs = ((self.home[a], self.home[b]) for a, b in ends if a not in self.updates)
        self.edges = list(dict.fromkeys(pair for pair in pairs if pair[0] != pair[1] and set(pair) <= drawn))

    def _updates(self, users: dict[int, set[int]]) -> dict[int, int]:
        """Map each update of a module's state, such as BatchNorm's count of batches, to the module's next op."""
        nodes, found, following = self.graph.nodes, {}, -1
        for row in reversed(range(len(nodes.op))):
            if nodes.kind[row] != "op":
                continue
            group = nodes.group[row]
            in_module = group >= 0 and self.groups[group].kind == "module" and following >= 0 and group in self._around(following)
            if in_module and nodes.note[row] == "in place" and not nodes.grad[row] and users.get(row, set()) <= found.keys():
                found[row] = following
            following = row
        return found

    def _hosts(self, users: dict[int, set[int]]) -> dict[int, int]:
        """Map each parameter, leaf or constant with a single user, and each input of an update, to the user in whose box it is written."""
        kinds = self.graph.nodes.kind
        alone = {row: user for row, (user, *more) in users.items() if not more}
        own = ("parameter", "leaf", "constant")
        return {row: user for row, user in alone.items() if kinds[row] in own or kinds[row] == "input" and user in self.updates}

    def at(self, row: int) -> int:
        """The node in the box of which a node is written: itself, if it has a box."""
        while row in self.host:
            row = self.host[row]
        return row

    def _around(self, row: int) -> list[int]:
        """The groups around a node, innermost first."""
        found, group = [], self.graph.nodes.group[row]
        while group != -1:
            found.append(group)
            group = self.groups[group].parent
        return found

    def _opened(self, inside: dict[int, int]) -> set[int]:
        own = dict(inside)
        for row in self.host:
            own[self.graph.nodes.group[row]] -= 1
        opened, todo = {-1}, list(self.below.get(-1, ()))
        count = own.get(-1, 0) + len(todo)
        for group in todo:
            inner = self.below.get(group, [])
            repeats = self._repeats(group)
            if repeats:
                self.rest |= dict.fromkeys(inner[1:], group)
                inner = inner[:1]
            more = own.get(group, 0) + len(inner) + repeats - 1
            if count + more <= self.most:
                count += more
                opened.add(group)
                todo += inner
        return opened

    def _repeats(self, group: int) -> bool:
        """Whether the group is a fold or loop of more than two repetitions, of which only the first is shown."""
        return self.groups[group].kind in ("fold", "loop") and len(self.below.get(group, ())) > 2

    def _place(self, group: int) -> tuple[Key | None, int]:
        """The box of the closed group around this one (or None), and the open group that contains it."""
        key, holder = None, group
        while group != -1:
            outer = self.groups[group].parent
            if group not in self.opened or group in self.rest:
                key, holder = (("rest", outer) if group in self.rest else ("g", group)), outer
            group = outer
        while holder != -1 and holder in self.single:
            holder = self.groups[holder].parent
        return key, holder

    def _find_single(self) -> None:
        boxes: dict[int, set[Key]] = {}
        for row in range(len(self.graph.nodes.op)):
            at = self.at(row)
            key, group = self._place(self.graph.nodes.group[at])
            if key is None and self.graph.nodes.kind[at] != "op":
                continue  # inputs may be drawn outside
            while group != -1:
                boxes.setdefault(group, set()).add(key or ("n", at))
                group = self.groups[group].parent
        self.single = {group for group, inside in boxes.items() if len(inside) == 1}

    def _box(self) -> None:
        nodes = self.graph.nodes
        members: dict[Key, list[int]] = {}
        places: dict[int, tuple[Key | None, int]] = {}
        for row in range(len(nodes.op)):
            at = self.at(row)
            group = nodes.group[at]
            if group not in places:
                places[group] = self._place(group)
            closed, holder = places[group]
            key = closed or ("n", at)
            self.home.append(key)
            self.parent[key] = holder
            members.setdefault(key, []).append(row)
        self._shorten(members)
        self.hidden = sum(nodes.kind[row] == "op" for key, rows in members.items() if key[0] != "n" for row in rows)  # ops in closed boxes
        for key, rows in members.items():
            self.boxes.append(self._node(key[1]) if key[0] == "n" else self._group(key, rows) if key[0] == "g" else self._more(key, rows))

    def _shorten(self, members: dict[Key, list[int]]) -> None:
        """If there are too many boxes, keep both ends of the top level's sequence; the loss is at its end."""
        top = [key for key in members if self.parent[key] == -1]
        if len(members) <= self.most or len(top) <= 2:
            return
        spare = max(2, self.most - (len(members) - len(top)) - 1)
        middle = top[spare // 2 : len(top) - (spare - spare // 2)]
        if len(middle) < 2:
            return
        key = ("more", middle[0][1])
        rows = [row for one in middle for row in members.pop(one)]
        members[key], self.parent[key] = rows, -1
        for row in rows:
            self.home[row] = key

    def _node(self, row: int) -> Box:
        nodes = self.graph.nodes
        failed = nodes.kind[row] == "op" and not nodes.dtype[row]
        kind = "failed" if failed else nodes.kind[row]
        name = nodes.name[row] if nodes.op[row] else ""
        detail = "failed" if failed else f"{name + '  ' if name else ''}{shape_text(nodes.shape[row])}{on(nodes, row)}"
        riders = ", ".join(self.riders.get(row, []))
        alone = self.alone(row)
        title = f"{nodes.op[row] or nodes.name[row] or kind}{'  · ' + alone if alone else ''}"
        return Box(("n", row), row, clip(title, 34), clip(detail, 40), kind, clip(riders, 40))

    def alone(self, row: int) -> str:
        """The label of the module or group that consists only of this op; "" if there is none."""
        group = self.graph.nodes.group[row]
        while group in self.single and self.groups[group].kind == "function":
            group = self.groups[group].parent
        return self.label(group) if group in self.single and self.graph.nodes.op[row] else ""

    def _group(self, key: Key, rows: list[int]) -> Box:
        return Box(key, min(rows), clip(self.label(key[1]), 34), self._totals(rows), "group")

    def _more(self, key: Key, rows: list[int]) -> Box:
        alike = sum(1 for holder in self.rest.values() if holder == key[1])
        return Box(key, min(rows), f"+{alike} more" if key[0] == "rest" else "… more …", self._totals(rows), "more")

    def label(self, group: int) -> str:
        one = self.groups[group]
        return one.label if one.name in one.label else f"{one.name}: {one.label}"

    def _totals(self, rows: list[int]) -> str:
        nodes = self.graph.nodes
        ops = sum(nodes.kind[row] == "op" for row in rows)
        sizes = [_count(nodes.shape[row]) for row in rows if nodes.kind[row] == "parameter"]
        return count_text(ops, "op") + (f", {count_text(sum(sizes), 'parameter')}" if sizes else "")

    def chain(self, key: Key) -> list[int]:
        """The open groups around a box, innermost first, up to the top level (-1)."""
        found = [self.parent[key]]
        while found[-1] != -1:
            found.append(self.outer(found[-1]))
        return found

    def outer(self, group: int) -> int:
        """The nearest enclosing group with a frame; -1 for the top level."""
        group = self.groups[group].parent
        while group != -1 and group in self.single:
            group = self.groups[group].parent
        return group

    def inside(self, group: int) -> list[int]:
        """The open groups directly inside an open group that have a frame."""
        found = []
        for one in self.below.get(group, ()):
            if one in self.opened and one not in self.rest:
                found += self.inside(one) if one in self.single else [one]
        return found


def _count(shape: list[int]) -> int:
    n = 1
    for size in shape:
        n *= size
    return n


def on(nodes: protocol.Nodes, row: int) -> str:
    """A node's device as the end of a phrase, " cuda:0"; "" for the CPU."""
    return f" {nodes.device[row]}" if nodes.device[row] else ""


def clip(text: str, most: int = 26) -> str:
    """Collapse whitespace, and cut the text to `most` characters with an ellipsis."""
    text = " ".join(text.split())
    return text if len(text) <= most else text[: most - 1] + "…"
