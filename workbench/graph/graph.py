"""Build the graph that the view draws from a recording: nodes, edges, sites, and groups by cell, module, loop and fold."""

from __future__ import annotations

import functools
from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping
from types import CodeType
from typing import Any

from .. import protocol
from ..base.readable import readable
from ..recording import source
from ..recording.recording import Recording
from ..recording.sites import line_of, positions

NOTE = 2000  # characters of a failed op's message
FOLD = 3  # this many equal neighbors are folded into one box
_BASE, _PRIME = 1_000_003, (1 << 61) - 1


class Box:
    """A group while the graph is being arranged; `items` are rows and boxes in order of creation."""

    __slots__ = ("kind", "name", "label", "count", "items", "token", "alike", "subject", "code", "lasti", "loop")

    def __init__(
        self, kind: str, name: str, label: str, items: list, count: int = 1, subject: int = 0, code: Any = None, lasti: int = 0
    ) -> None:
        self.kind, self.name, self.label, self.items, self.count = kind, name, label, items, count
        self.subject, self.code, self.lasti = subject, code, lasti
        self.token: Any = None  # equal for two runs of the same code
        self.alike: Any = None  # equal for two boxes of the same structure
        self.loop: tuple[int, int, str] | None = None  # for a loop, where the user wrote it


class Graph:
    """Convert a recording to messages, whole or only the rows since the last one. Groups are arranged when the recording has ended."""

    def __init__(self, recording: Recording, sources: source.Sources | None = None) -> None:
        self.recording = recording
        self.sources = sources or source.Sources()
        self.sites: list[protocol.Site] = []
        self._site_of: dict[tuple[int, int], int] = {}
        self._places: dict[tuple[str, int], int] = {}  # file and line -> index in `sites`
        self._site: list[int] = []  # by row
        self._groups: list[protocol.Group] | None = None  # None while the recording runs
        self._group: list[int] = []  # by row
        self._told: tuple[tuple, dict[str, Any]] | None = None  # the state of the recording, and its JSON
        self.scope_names: dict[int, str] = {}
        self.accessors: dict[int, str] = {}  # row -> the Python expression for its tensor, if the user holds it
        self.optimizers: list[Any] = []  # weak references to those among the user's variables
        self.view: protocol.View = "graph"  # what the view opens on

    def finish(self, namespace: Mapping[str, Any] | None = None) -> None:
        """Name rows, find loops and fold equal neighbors once the code has ended."""
        self.name(namespace)
        self.scope_names = source.name_scopes(self.recording, namespace)
        self.accessors = source.accessors(self.recording, namespace)
        self.optimizers = source.optimizers(namespace)
        self._groups, self._group = arrange(self.recording, self.sources, self.scope_names)

    @property
    def finished(self) -> bool:
        return self._groups is not None

    def arranged(self) -> tuple[list[protocol.Group], list[int]]:
        """All groups and the innermost one of each row, loops included. While the code still runs, each call takes linear time."""
        if self._groups is not None:
            return self._groups, self._group
        return arrange(self.recording, self.sources, self.scope_names)

    def name(self, namespace: Mapping[str, Any] | None) -> None:
        """Apply the user's names to rows, as far as they are known now."""
        self._told = None
        source.name_rows(self.recording, namespace, self.sources)

    def site(self, row: int) -> int:
        """The row's index in `sites`; -1 if it is unknown."""
        self._locate(row + 1)
        return self._site[row]

    def _locate(self, end: int) -> None:
        r = self.recording
        for row in range(len(self._site), end):
            code = r.code[row]
            if code is None:
                self._site.append(-1)
                continue
            key = (id(code), r.lasti[row])  # the recording holds the code object, so the id stays unique
            at = self._site_of.get(key)
            if at is None:
                site = self.sources.site(code, r.lasti[row])
                at = self._site_of[key] = self._places.setdefault((code.co_filename, site.line), len(self.sites))
                if at == len(self.sites):
                    self.sites.append(site)
            self._site.append(at)

    def whole(self) -> dict[str, Any]:
        """The whole graph as JSON, which callers must not change: for a recording that has ended it is made once and cached."""
        r = self.recording
        stamp = (r.name, r.count, r.root, r.title, r.dropped, self.view)
        if self._told is not None and self._told[0] == stamp:
            return self._told[1]
        told = self.message().to_json()
        if self.finished:
            self._told = stamp, told
        return told

    def message(self, start: int = 0, first_edge: int = 0, first_site: int = 0, first_group: int = 0) -> protocol.Graph:
        """All rows from `start` on. Rows that a running cell is still adding are left out."""
        r = self.recording
        end = r.count
        self._locate(end)
        last_edge = r.edge_end[end - 1] if end else 0
        if self._groups is not None and len(self._group) < end:  # a PyTorch recording was extended after its end
            self._groups, self._group = arrange(r, self.sources, self.scope_names)
        live = self._groups is None
        groups = scope_groups(r, first_group) if self._groups is None else self._groups[first_group:]
        names = r.names
        nodes = protocol.Nodes(
            op=[readable(r.op_name(row)) for row in range(start, end)],
            kind=r.kind[start:end],  # type: ignore[arg-type]
            name=[readable(names[row]) if row in names else "" for row in range(start, end)],
            group=r.scope[start:end] if live else self._group[start:end],
            shape=[list(shape) for shape in r.shape[start:end]],
            dtype=[dtype_name(d) for d in r.dtype[start:end]],
            device=[r.device(row) for row in range(start, end)],
            bytes=r.bytes[start:end],
            saved=r.saved[start:end],
            grad=r.grad[start:end],
            site=self._site[start:end],
            note=[readable(note, NOTE) if note else "" for note in r.note[start:end]],
        )
        edges = protocol.Edges(r.source[first_edge:last_edge], r.target[first_edge:last_edge], r.slot[first_edge:last_edge])
        return protocol.Graph(
            r.name,
            r.title,
            start,
            first_edge,
            first_site,
            first_group,
            nodes,
            edges,
            self.sites[first_site:],
            groups,
            live,
            r.dropped,
            r.left_out(),
            r.root,
            self.view,
        )


def dtype_name(dtype: Any) -> str:
    """The dtype's name, such as "float32"; "" for a result that was never produced."""
    return "" if dtype is None else dtype if isinstance(dtype, str) else dtype.name


def scope_groups(recording: Recording, first: int) -> list[protocol.Group]:
    """One group for each scope from `first` on, for the view of code that still runs."""
    scopes = recording.scopes[first:]
    return [protocol.Group(i, s.parent, s.kind, readable(s.name), readable(s.label)) for i, s in enumerate(scopes, first)]  # type: ignore[arg-type]


# -- arranging -----------------------------------------------------------------------------------------------------------------


def arrange(recording: Recording, sources: source.Sources, scope_names: Mapping[int, str]) -> tuple[list[protocol.Group], list[int]]:
    """All groups of a finished recording, and the innermost one of each row. Linear in the number of rows."""
    r = recording
    tops: list = []
    inside: dict[int, list] = {}
    boxes: dict[int, Box] = {}
    for row in range(r.count):
        if r.kind[row] != "op":
            continue
        scope, item = r.scope[row], row
        while scope >= 0:
            seen = scope in boxes
            if not seen:
                s = r.scopes[scope]
                boxes[scope] = Box(
                    s.kind, scope_names.get(scope, s.name), s.label, inside.setdefault(scope, []), 1, s.subject, s.code, s.lasti
                )
            inside[scope].append(item)
            if seen:
                break
            item, scope = boxes[scope], r.scopes[scope].parent
        else:
            tops.append(item)
    interned: dict[Any, int] = {}

    def intern(key: Any) -> int:
        return interned.setdefault(key, len(interned))

    for scope in sorted(boxes, reverse=True):  # inner scopes have larger numbers than outer ones
        box = boxes[scope]
        # repetition inside a composite op is not a loop of the user's
        box.items[:] = _folded(box.items) if box.kind == "function" else _tidied(r, box.items, sources, intern, box)
        _seal(r, box, intern)
    tops = _tidied(r, tops, sources, intern)
    if len(set(r.cells.values())) > 1:
        tops = _by_cell(r, tops)
    return numbered(r, tops)


def _seal(r: Recording, box: Box, intern: Any) -> None:
    box.token = intern((box.kind, box.subject, box.code, box.lasti, tuple(_token(r, i, intern) for i in box.items)))
    box.alike = intern((box.kind, box.label, tuple(_alike(r, i, intern) for i in box.items)))


def _token(r: Recording, item: Any, intern: Any) -> int:
    if isinstance(item, Box):
        return item.token
    # If the code is unknown, the distances to the inputs distinguish ops of one kind.
    reach = [item - source for source, _ in r.inputs(item) if r.kind[source] == "op"] if r.code[item] is None else []
    return intern((r.op_name(item), r.code[item], _place(r.code[item], r.lasti[item]), *reach))


def _place(code: CodeType | None, lasti: int) -> Any:
    """Where the instruction is in the source. CPython 3.11 may execute the same call by either of two instructions."""
    places = () if code is None else positions(code)
    return places[lasti // 2] if lasti // 2 < len(places) else lasti


def _alike(r: Recording, item: Any, intern: Any) -> int:
    return item.alike if isinstance(item, Box) else intern((r.op_name(item), r.shape[item], len(r.inputs(item))))


def _tidied(r: Recording, items: list, sources: source.Sources, intern: Any, holder: Box | None = None) -> list:
    """Find loops, number repeated calls and fold equal neighbors."""
    while True:
        found = _with_loops(r, items, sources, intern, holder)
        if len(found) == len(items):
            break
        items = found
    _number_calls(items)
    return _folded(items)


def _with_loops(r: Recording, items: list, sources: source.Sources, intern: Any, holder: Box | None) -> list:
    """Turn consecutive runs of the same code into loops. Inner loops are found first; the caller repeats this until nothing changes."""
    tokens = [_token(r, item, intern) for item in items]
    out, done = [], 0
    for start, period, count in repeats(tokens):
        body = items[start : start + period]
        if period == 1 and isinstance(body[0], Box):
            continue  # consecutive calls of one module are folded instead
        code, lasti = _where(r, body[0])
        own = holder is not None and (code, lasti) == (holder.code, holder.lasti)
        around = None if own or code is None else _loop_around(r, body, sources)
        if not _is_loop(body, count, code, around, holder):
            continue
        out += items[done:start]
        done = start + period * count
        header = around[2] if around else ""
        epochs = _epochs(r, code, around, [items[k] for k in range(start, done, period)], sources) if around else []
        if own and code is not None and not header:
            each, name, label = "step", "step", f"step ×{count}"  # a loop in a layer's own code, such as an LSTM's loop over time
        elif code is None:
            each, name, label = "turn", "repeated", f"repeated ×{count}"
        else:
            each, name = ("turn", header) if header else ("call", code.co_name)
            if header.startswith("for "):
                name = header.split(" in ")[0].removeprefix("for ")
            label = f"{header or name + '()'} ×{count}"
        if period == 1:
            inner: list = items[start:done]
        else:
            inner = []
            for k in range(count):
                at = start + k * period
                one = Box("iteration", str(k + 1), f"{each} {k + 1}", items[at : at + period])
                _number_calls(one.items)
                one.items[:] = _folded(one.items)
                _seal(r, one, intern)
                inner.append(one)
        # two loops are the same even if their numbers of iterations differ
        token, alike = tuple(tokens[start : start + period]), tuple(_alike(r, i, intern) for i in body)
        loop = functools.partial(_loop, code=code, lasti=lasti, intern=intern)
        if len(epochs) > 1:  # one loop for each pass over the data, inside an outer loop
            ends = [*epochs[1:], count]
            for a, b in zip(epochs, ends, strict=True):
                _renumbered(r, inner[a:b] if period > 1 and b - a > 1 else [], each, intern)
            parts = [loop(name, f"{header} ×{b - a}", inner[a:b], around, token, alike) for a, b in zip(epochs, ends, strict=True)]
            out.append(_outer(r, code, around, parts, loop, sources, intern))
        else:
            out.append(loop(name, label, inner, around, token, alike))
    return out + items[done:]


def _is_loop(body: list, count: int, code: CodeType | None, around: Any, holder: Box | None) -> bool:
    """Whether a repeated piece is a loop of the user's rather than a coincidence."""
    if code is None:  # the line is unknown: the same modules again are enough
        return count >= FOLD and any(isinstance(item, Box) and (item.subject or item.kind == "loop") for item in body)
    return around is not None or code.co_name != "<module>" or holder is not None and holder.kind == "module"


def _renumbered(r: Recording, iterations: list[Box], each: str, intern: Any) -> None:
    for k, one in enumerate(iterations, 1):
        one.name, one.label = str(k), f"{each} {k}"
        _seal(r, one, intern)


def _loop(name: str, label: str, items: list, around: Any, token: Any, alike: Any, *, code: Any, lasti: int, intern: Any) -> Box:
    box = Box("loop", name, label, items, len(items), code=code, lasti=lasti)
    box.loop, box.token, box.alike = around, intern(("loop", token)), intern(("loop", len(items), alike))
    return box


def _epochs(r: Recording, code: CodeType, around: tuple, firsts: list, sources: source.Sources) -> list[int]:
    """The iterations at which a loop over a DataLoader starts over, if the loop's own line iterates the loader."""
    marks = [row for row, own, lasti in r.loadings if own is code and line_of(own, lasti) == around[0]]
    if len(marks) < 2:
        return []
    rows = [_first_row(item) for item in firsts]
    return [0, *(k for k in range(1, len(rows)) if bisect_right(marks, rows[k]) > bisect_right(marks, rows[k - 1]))]


def _first_row(item: Any) -> int:
    while isinstance(item, Box):
        item = item.items[0]
    return item


def _outer(r: Recording, code: CodeType, around: Any, parts: list[Box], loop: Any, sources: source.Sources, intern: Any) -> Box:
    """Wrap consecutive loops in the loop around them, such as that over epochs; without one, in a group of calls of their function."""
    beyond = sources.loops(code, parts[0].lasti)
    outer = next(iter(beyond[beyond.index(around) + 1 :]), None)
    each, name, header = ("turn", outer[2], outer[2]) if outer else ("call", code.co_name, f"{code.co_name}()")
    if outer and name.startswith("for "):
        name = name.split(" in ")[0].removeprefix("for ")
    if all(part.count == 1 for part in parts):
        inner = [item for part in parts for item in part.items]  # one batch in each
    else:
        inner = [Box("iteration", str(k), f"{each} {k}", [part]) for k, part in enumerate(parts, 1)]
        for one in inner:
            _seal(r, one, intern)
    return loop(name, f"{header} ×{len(inner)}", inner, outer, (parts[0].token,), (parts[0].alike,))


def _where(r: Recording, item: Any) -> tuple[CodeType | None, int]:
    """The user's code that the item came from. A scope was entered through contextlib, so its first op is used."""
    while isinstance(item, Box) and item.kind == "scope":
        item = item.items[0]
    return (item.code, item.lasti) if isinstance(item, Box) else (r.code[item], r.lasti[item])


def _loop_around(r: Recording, body: list, sources: source.Sources) -> tuple[int, int, str] | None:
    """The innermost loop that contains all of the repeated piece and is not itself in it; None if repeated calls are in no loop."""
    code, _ = _where(r, body[0])
    found: list | None = None
    inner = set()
    for item in body:
        own, lasti = _where(r, item)
        if own is not code or own is None:
            continue
        if isinstance(item, Box) and item.loop is not None:
            inner.add(item.loop)
        around = sources.loops(own, lasti)
        found = around if found is None else [loop for loop in found if loop in around]
    return next((loop for loop in found or () if loop not in inner), None)


def repeats(tokens: list[int]) -> list[tuple[int, int, int]]:
    """`(start, period, count)` of stretches that consist of equal pieces, from the left and without overlap; linear time."""
    n = len(tokens)
    hashes, powers = [0] * (n + 1), [1] * (n + 1)
    for i, token in enumerate(tokens):
        hashes[i + 1] = (hashes[i] * _BASE + token + 1) % _PRIME
        powers[i + 1] = powers[i] * _BASE % _PRIME
    found = []
    last: dict[int, int] = {}
    i = 0
    while i < n:
        before = last.get(tokens[i])
        if before is not None and (period := i - before) <= n - i:
            piece = (hashes[i] - hashes[before] * powers[period]) % _PRIME
            end, count = i, 1
            while end + period <= n and (hashes[end + period] - hashes[end] * powers[period]) % _PRIME == piece:
                end, count = end + period, count + 1
            if count > 1:
                found.append((before, period, count))
                last.clear()
                i = end
                continue
        last[tokens[i]] = i
        i += 1
    return found


def _number_calls(items: list) -> None:
    calls = [item for item in items if isinstance(item, Box) and item.kind in ("module", "function", "scope")]
    times = Counter((box.kind, box.name) for box in calls)
    seen: Counter = Counter()
    for box in calls:
        key = (box.kind, box.name)
        if times[key] > 1:
            seen[key] += 1
            box.name = f"{box.name}:{seen[key]}"


def _folded(items: list) -> list:
    out: list = []
    i = 0
    while i < len(items):
        box, j = items[i], i + 1
        if isinstance(box, Box) and box.kind in ("module", "function", "scope"):
            while j < len(items) and isinstance(items[j], Box) and items[j].alike == box.alike:
                j += 1
        if j - i < FOLD:
            out += items[i:j]
        else:
            same = box.kind == "module" and box.subject != 0 and all(other.subject == box.subject for other in items[i:j])
            fold = Box(
                "fold", f"{box.name} … {items[j - 1].name}", f"{box.label} ×{j - i}{', same weights' if same else ''}", items[i:j], j - i
            )
            fold.token = ("fold", j - i, box.token)
            fold.alike = ("fold", j - i, box.alike)
            out.append(fold)
        i = j
    return out


def _by_cell(r: Recording, items: list) -> list:
    out: list = []
    for item in items:
        row = item
        while isinstance(row, Box):
            row = row.items[0]
        cell = r.cells.get(row)
        if cell is None:
            out.append(item)
        elif out and isinstance(out[-1], Box) and out[-1].kind == "cell" and out[-1].name == cell:
            out[-1].items.append(item)
        else:
            out.append(Box("cell", cell, cell, [item]))
    return out


def numbered(r: Recording, tops: list) -> tuple[list[protocol.Group], list[int]]:
    """The groups of a tree of boxes and rows, and the innermost group of each row."""
    groups: list[protocol.Group] = []
    depth: list[int] = []
    group = [-1] * r.count
    todo = [(item, -1) for item in reversed(tops)]
    while todo:
        item, parent = todo.pop()
        if isinstance(item, Box):
            me = len(groups)
            groups.append(protocol.Group(me, parent, item.kind, readable(item.name), readable(item.label), item.count))  # type: ignore[arg-type]
            depth.append(depth[parent] + 1 if parent >= 0 else 0)
            todo += [(inner, me) for inner in reversed(item.items)]
        else:
            group[item] = parent

    def common(a: int, b: int) -> int:
        while a != b:
            if b < 0 or a >= 0 and depth[a] >= depth[b]:
                a = groups[a].parent
            else:
                b = groups[b].parent
        return a

    # inputs from outside go into the innermost group that contains all their users
    home: dict[int, int] = {}
    for e, source_row in enumerate(r.source[: r.edge_end[r.count - 1] if r.count else 0]):
        if r.kind[source_row] != "op":
            user = group[r.target[e]]
            home[source_row] = user if source_row not in home else common(home[source_row], user)
    for row, at in home.items():
        group[row] = at
    return groups, group
