"""The search: forward from the roots through strong references, with the garbage collector's referrers as a fallback."""

from __future__ import annotations

import gc
import types
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

from engine.core import tape, versions
from engine.core.tensor import Tensor
from engine.nn.parameter import is_lazy

from . import roots
from .chain import MOST_OBJECTS, Chain, Root, Why
from .objects import SKIPPED, parts, spelled
from .words import saves, told

MOST_CHAINS = 20
MOST_WAYS = 500  # paths traced back from one hit at most
DEPTH = 30
REFERRERS = 4  # levels up from the memory in the fallback
COLLECT = "import gc; gc.collect()"
_PLAIN = (dict, list, tuple, set, types.CellType, Tensor, tape.Node)  # too generic to report: the search continues upwards


@dataclass
class _Seen:
    """A visited object and how it was reached."""

    thing: Any
    parent: int
    label: str
    depth: int
    also: list[tuple[int, str]] = field(default_factory=list)  # other references to it


class Search:
    """A search for references to the memory of the array `owner`."""

    def __init__(self, owner: Any, names: Mapping[str, Any], hide: Iterable[Any] = (), asked: Any = None) -> None:
        self.owner, self.asked = owner, asked  # the caller's own argument is not a result
        self.names = names
        self._hidden = {id(self), id(self.__dict__), id(names), *map(id, hide), *roots.walls()}
        self._slots: dict[type, list[tuple[str, Any]]] = {}
        self._seen: list[_Seen] = []
        self._place: dict[int, int] = {}
        self._hits: dict[int, None] = {}  # indices in `_seen` of tensors, arrays and nodes that hold the memory
        self._keeps: dict[int, bool] = {}  # identity of a node of the tape -> whether its graph saves the memory
        self._nodes: list[Any] = []  # keeps the nodes alive, so that their identities stay unique during the search
        self._roots: list[Root] = []

    # -- the search -----------------------------------------------------------------------------------------------------------

    def run(self, what: str) -> Why:
        """Run the search and return the chains found."""
        begun = perf_counter()
        complete = self._look()
        chains, own = self._chains()
        if not chains and not own:
            chains = list(_different(self._referrers()))
        looked = len(self._seen)
        self._seen.clear()
        self._place.clear()
        self._nodes.clear()
        self._roots.clear()
        return Why(what, tuple(chains[:MOST_CHAINS]), looked, perf_counter() - begun, complete, own)

    def _look(self) -> bool:
        for root in roots.roots(self.names, self._hidden):
            self._roots.append(root)
            place = self._come(root.thing, ~(len(self._roots) - 1), "", 0)
            last = min(MOST_OBJECTS, len(self._seen) + root.most)
            if place is not None and len(self._seen) < MOST_OBJECTS:
                todo = deque([place])
                while todo and len(self._seen) < last:
                    at = todo.popleft()
                    seen = self._seen[at]
                    if seen.depth >= DEPTH:
                        continue
                    for label, thing in parts(seen.thing, self._slots):
                        found = self._come(thing, at, label, seen.depth + 1)
                        if found is not None:
                            todo.append(found)
                    if len(self._seen) >= MOST_OBJECTS:
                        return False
        return len(self._seen) < MOST_OBJECTS

    def _come(self, thing: Any, parent: int, label: str, depth: int) -> int | None:
        """Record an object. Returns its index if it has to be traversed, else None."""
        if issubclass(type(thing), SKIPPED) or id(thing) in self._hidden:
            return None
        known = self._place.get(id(thing))
        if known is not None:
            if len(self._seen[known].also) < 4:
                self._seen[known].also.append((parent, label))
            return None
        place = len(self._seen)
        self._seen.append(_Seen(thing, parent, label, depth))
        self._place[id(thing)] = place
        if self._holds(thing):
            self._hits[place] = None
        if issubclass(type(thing), (tape.Node, tape.Leaf)):
            return None  # `_graph_keeps` traverses the tape
        return place

    def _holds(self, thing: Any) -> bool:
        if issubclass(type(thing), Tensor):
            if is_lazy(thing):
                return False  # no memory allocated yet
            return versions.storage(thing.array) is self.owner or (thing.node is not None and self._graph_keeps(thing.node))
        if issubclass(type(thing), tape.Node):
            return self._graph_keeps(thing)
        return issubclass(type(thing), self.owner.__class__) and versions.storage(thing) is self.owner

    def _graph_keeps(self, node: Any) -> bool:
        """Whether the node or one of its ancestors saves the memory. Each node is checked once."""
        known = self._keeps
        if id(node) in known:
            return known[id(node)]
        order, todo = [], [node]
        while todo:
            at = todo.pop()
            if id(at) not in known:
                known[id(at)] = saves(at, self.owner) is not None
                self._nodes.append(at)
                order.append(at)
                todo += [source for source in at.inputs if source is not None]
        for at in sorted(order, key=lambda n: n.time):  # inputs are older
            known[id(at)] = known[id(at)] or any(known[id(source)] for source in at.inputs if source is not None)
        return known[id(node)]

    # -- chains ---------------------------------------------------------------------------------------------------------------

    def _chains(self) -> tuple[list[Chain], tuple[str, ...]]:
        """The user's chains, and the workbench's own references as arguments of wb.release."""
        chains: list[Chain] = []
        own: dict[str, None] = {}
        for place in self._hits:
            for at, labels in self._ways(place):
                root = self._roots[at]
                if root.own:
                    own[root.own] = None
                else:
                    chains.append(told(root, spelled(reversed(labels)), self._seen[place].thing, self.owner))
        return list(_different(chains)), tuple(own)

    def _ways(self, place: int) -> Iterator[tuple[int, list[str]]]:
        """Yield the roots that lead to a hit, each once, with the labels of the path from the bottom up.

        All roots are needed: `del model` is not enough while `best = model`. Paths through another hit are left to that hit.
        """
        told: set[int] = set()
        todo: deque[tuple[int, list[str], frozenset[int]]] = deque([(place, [], frozenset())])
        for _ in range(MOST_WAYS):
            if not todo:
                return
            at, labels, passed = todo.popleft()
            seen = self._seen[at]
            if type(seen.thing).__module__.startswith("workbench."):
                labels = [f" (the workbench's {type(seen.thing).__name__})"]
            for parent, label in [(seen.parent, seen.label), *seen.also]:
                if parent >= 0:
                    if parent not in self._hits and parent not in passed:
                        todo.append((parent, [*labels, label], passed | {at}))
                elif parent not in told:
                    told.add(parent)
                    yield ~parent, [*labels, label]

    # -- the last resort -------------------------------------------------------------------------------------------------------

    def _referrers(self) -> list[Chain]:
        """Chains from the garbage collector's referrers, up to the first object of a type not in `_PLAIN`. Used if no root leads there."""
        known = {id(self.__dict__), id(self._seen), id(self.asked), id(self.owner), *self._hidden}
        level, below, chains = [self.owner], ["the memory"], []
        for _ in range(REFERRERS):
            found: list[Any] = []
            texts: list[str] = []
            known |= {id(level), id(found), id(chains)}
            for at in range(len(level)):
                for holder in gc.get_referrers(level[at]):
                    if id(holder) in known or isinstance(holder, types.FrameType):
                        continue
                    known.add(id(holder))
                    kind = type(holder)
                    if kind in _PLAIN:
                        found.append(holder)
                        texts.append(f"a {kind.__name__} → {below[at]}")
                    else:
                        link = f"an object of {kind.__module__}.{kind.__qualname__} that no name leads to"
                        chains.append(Chain((link, below[at]), COLLECT, "frees it if only a reference cycle keeps it"))
            if not found:
                if not chains and level[0] is not self.owner:
                    chains = [Chain((f"{text}, and no name leads there",), COLLECT, "frees it if only a cycle keeps it") for text in below]
                break
            level, below = found, texts
        return chains


def _different(chains: Iterable[Chain]) -> Iterator[Chain]:
    """Yield the first of the chains that the same line of code breaks."""
    seen = set()
    for chain in chains:
        key = chain.fix or chain
        if key not in seen:
            seen.add(key)
            yield chain
