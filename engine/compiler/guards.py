"""Guards: what a compiled program takes for granted about the objects that the step reads, checked before each call."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from types import CellType
from typing import Any

from ..core.tensor import Tensor
from .discovery import Discovery, is_plain
from .effects import Stored, same

MOST = 1000  # values that are guarded because the code has their names
_MISSING = object()


class Guards:
    """A list of values in dicts and variables that must stay as they were."""

    def __init__(self, found: Discovery, read: list[tuple[Any, Any, Any, str]]) -> None:
        self.entries: list[tuple[Any, Any, Any, str]] = []  # the first has `get`, as a dict
        self.cells: list[tuple[CellType, Any, str]] = []
        self.kinds: list[tuple[dict, Any, type, str]] = []
        self.sizes: list[tuple[Any, int, str]] = []
        self.grads: list[tuple[Any, bool]] = []
        self._add(read)
        for m in found.modules.values():
            name = type(m).__name__
            self._hold(m.__dict__, {k: v for k, v in m.__dict__.items() if is_plain(v) or isinstance(v, Tensor)}, f"of {name}")
            for table in (m._parameters, m._buffers, m._modules):
                self._hold(table, table, f"of {name}")
                self.sizes.append((table, len(table), f"the tensors and modules of {name}"))
        for o in found.optimizers.values():
            name = type(o).__name__
            self.sizes.append((o.param_groups, len(o.param_groups), f"the parameter groups of {name}"))
            for group in o.param_groups:
                self._hold(
                    group, {k: v for k, v in group.items() if is_plain(v) and not (k == "lr" and isinstance(v, float))}, f"of {name}"
                )
                self.sizes.append((group["params"], len(group["params"]), f"the parameters of {name}"))

    def watch(self, read: Iterable[tuple[Any, Any, Any, str]]) -> None:
        """Add values that the step may read, as `Snapshot.read` lists them; at most `MOST`."""
        known = {(id(holder), key) for holder, key, _, _ in self.entries} | {(id(cell), 0) for cell, _, _ in self.cells}
        self._add(islice((one for one in read if (id(one[0]), one[1]) not in known), MOST))

    def _add(self, read: Iterable[tuple[Any, Any, Any, str]]) -> None:
        for holder, key, value, words in read:
            if isinstance(holder, CellType):
                self.cells.append((holder, value, words))
            else:
                self.entries.append((holder, key, value, words))

    def watch_grads(self, leaves: list[Tensor]) -> None:
        """Add that these tensors have a gradient, or have none, as now."""
        self.grads = [(t, t._grad is None) for t in leaves if t.node is not None]

    def release(self, stored: list[Stored]) -> None:
        """Let the values that the step stores change: only their types must stay as they are."""
        released = {(id(one.holder), one.key) for one in stored}
        self.entries = [entry for entry in self.entries if (id(entry[0]), entry[1]) not in released]
        self.kinds = [(one.holder, one.key, type(one.holder.get(one.key)), one.words) for one in stored]

    def _hold(self, holder: dict, values: dict, words: str) -> None:
        self.entries += [(holder, key, value, f"{key!r} {words}") for key, value in values.items()]

    def hold(self) -> bool:
        """Whether everything is as it was."""
        for holder, key, value, _ in self.entries:
            now = holder.get(key, _MISSING)
            if now is not value and not same(now, value):
                return False
        for cell, value, _ in self.cells:
            if cell.cell_contents is not value and not same(cell.cell_contents, value):
                return False
        for holder, key, kind, _ in self.kinds:
            if type(holder.get(key)) is not kind:
                return False
        return all(len(x) == n for x, n, _ in self.sizes) and all((p._grad is None) == none for p, none in self.grads)

    def broken(self) -> str:
        """Name the first thing that is not as it was."""
        for holder, key, value, words in self.entries:
            if not same(holder.get(key, _MISSING), value):
                return words
        for cell, value, words in self.cells:
            if not same(cell.cell_contents, value):
                return words
        for holder, key, kind, words in self.kinds:
            if type(holder.get(key)) is not kind:
                return words
        return next((words for x, n, words in self.sizes if len(x) != n), "which parameters have a gradient")
