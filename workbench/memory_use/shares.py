"""Memory by op, by line and by module, and the memory that each node of the tape keeps for backward."""

from __future__ import annotations

from typing import Any

import numpy

from .. import protocol
from . import words
from .log import CATEGORIES, GRADIENT, OPTIMIZER, Log

MOST = 60  # rows per table
_WITHOUT_LINE = [f"{category}, from outside" for category in CATEGORIES]
_WITHOUT_LINE[OPTIMIZER] = "optimizer"


class Shares:
    """Sums of a log's blocks by label."""

    def __init__(self, log: Log, graph: Any) -> None:
        self.log, self.graph = log, graph
        self._at_peak = numpy.zeros(len(log.numbers), bool)
        if log.count:
            self._at_peak[log.alive_after(log.peak_event)] = True
        self._saved = log.saved_from < log.saved_to
        self._backward = log.where[log.born] < 0
        self._users: dict[int, int] = {}  # row -> the first op that used it
        for source, target in zip(log.recording.source, log.recording.target, strict=False):
            self._users.setdefault(source, target)
        if log.rows:
            graph.site(log.rows - 1)  # fills graph.sites

    def ops(self) -> list[protocol.Share]:
        """Shares by the op that made the memory; gradients count for the backward step that made them."""
        r = self.log.recording
        backward = self._steps()

        def label(at: int, row: int) -> str:
            if self.log.category[at] == OPTIMIZER:
                return "optimizer"
            if self._backward[at]:
                return backward[at]
            return r.op_name(row) or r.kind[row] if row >= 0 else "?"

        return self._added(label, by_line=False)

    def lines(self) -> list[protocol.Share]:
        """Shares by line of code; a gradient counts for the line of its op, and a block without a line for its category."""
        sites = self.graph.sites

        def label(at: int, row: int) -> Any:
            site = self._line_of(at, row)
            return site if site >= 0 else _WITHOUT_LINE[self.log.category[at]]

        found = self._added(label, by_line=True)
        return [s if s.site < 0 else _renamed(s, _line(sites[s.site])) for s in found]

    def modules(self) -> list[protocol.Share]:
        """Shares by the innermost module that ran the op; empty if no module ran."""
        r, names = self.log.recording, self.graph.scope_names
        inside: dict[int, str] = {-1: ""}
        for number, scope in enumerate(r.scopes):
            inside[number] = names.get(number, scope.name) or scope.label if scope.kind == "module" else inside[scope.parent]
        if not any(inside.values()):
            return []
        found = self._added(lambda at, row: inside.get(r.scope[row], "") or "outside modules" if row >= 0 else "outside modules", False)
        return found

    def savers(self) -> tuple[list[protocol.Saver], int]:
        """The nodes that keep most for backward, and how many nodes keep something. A block that a node saves twice counts once."""
        log = self.log
        found: dict[int, dict[int, list[int]]] = {}
        held: dict[int, bool] = {}
        for use, (row, block) in enumerate(zip(log.use_row.tolist(), log.use_block.tolist(), strict=True)):
            if row >= 0:
                found.setdefault(row, {}).setdefault(block, []).append(int(log.use_place[use]))
                held[row] = bool(log.use_to[use] > log.count) or held.get(row, False)
        size = {row: int(log.bytes[list(blocks)].sum()) for row, blocks in found.items()}
        largest = sorted(found, key=lambda row: (-size[row], row))[:MOST]
        return [protocol.Saver(row, size[row], self._what(row, found[row]), held[row]) for row in largest], len(found)

    def _what(self, row: int, blocks: dict[int, list[int]]) -> str:
        log, r = self.log, self.log.recording
        parts = []
        for block, places in blocks.items():
            own = int(log.row[block])
            name = "its result" if own == row and log.category[block] >= 2 and r.bytes[row] == log.bytes[block] else words.called(r, own)
            slots = list(dict.fromkeys(slot for place in places if (slot := words.for_which(r.ops[row], place))))
            parts.append(name + (f" for {' and '.join(slots)}" if slots else ""))
        return ", ".join(parts)

    def _steps(self) -> dict[int, str]:
        """Map each block made in a backward pass to its label, such as "mul, backward"."""
        log = self.log
        rows = log.rows_of_events()[log.born]
        return {
            at: f"{log.recording.op_name(int(rows[at])) or 'leaf'}, backward" if rows[at] >= 0 else "backward"
            for at in numpy.flatnonzero(self._backward).tolist()
        }

    def _line_of(self, at: int, row: int) -> int:
        if row < 0 or self.log.category[at] == OPTIMIZER:
            return -1
        if self.log.category[at] == GRADIENT and self.log.recording.kind[row] != "op":
            row = self._users.get(row, row)  # a leaf's gradient comes from the op that used it
        return self.graph.site(row)

    def _added(self, label: Any, by_line: bool) -> list[protocol.Share]:
        log = self.log
        found: dict[Any, list[int]] = {}
        for at, row in enumerate(log.row.tolist()):
            found.setdefault(label(at, row if row < log.rows else -1), []).append(at)
        shares = []
        for key, blocks in found.items():
            at = numpy.array(blocks)
            size = log.bytes[at]
            row = int(log.row[at[0]])
            site = key if by_line and isinstance(key, int) else -1
            shares.append(
                protocol.Share(
                    str(key),
                    row if 0 <= row < log.rows else -1,
                    site,
                    len(blocks),
                    int(size.sum()),
                    int(size[self._at_peak[at]].sum()),
                    int(size[self._saved[at]].sum()),
                )  # fmt: skip
            )
        shares.sort(key=lambda share: (-share.peak, -share.made))
        return shares[:MOST]


def _renamed(share: protocol.Share, label: str) -> protocol.Share:
    return protocol.Share(label, share.node, share.site, share.blocks, share.made, share.peak, share.saved)


def _line(site: protocol.Site) -> str:
    return f"{site.cell or site.file}, line {site.line}"
