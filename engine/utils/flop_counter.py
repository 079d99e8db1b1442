"""`engine.utils.flop_counter`: count floating-point operations of matrix products and convolutions, forward and backward, by module."""

from __future__ import annotations

import warnings
from collections import defaultdict
from typing import Any

from ..profiler.watch import BACKWARD, MODULE, Entry, Watch

__all__ = ["FlopCounterMode"]

_ATTENTION = "_scaled_dot_product_efficient_attention"
_BACKWARD = {"addmm": "mm", "addbmm": "bmm", "baddbmm": "bmm"} | {name: f"{name}_backward" for name in ("convolution", _ATTENTION)}
_COUNTED = frozenset({_ATTENTION, "mm", "addmm", "bmm", "addbmm", "baddbmm", "convolution"})
_SUFFIXES = ("", "K", "M", "B", "T")


class _Counting(Watch):
    """The profiler's observer, with modules named by their paths."""

    def __init__(self) -> None:
        super().__init__(flops=True, modules=True)
        self._inside: list[tuple[Entry, Any]] = []  # running module calls, outermost first

    def enter(self, kind: str, name: str, subject: Any) -> None:
        super().enter(kind, name, subject)
        if kind == "module" and self._own():
            while self._inside and self._inside[-1][0] not in self._open:
                self._inside.pop()
            entry = self._open[-1]
            entry.name = self._path(subject)
            self._inside.append((entry, subject))

    def _path(self, module: Any) -> str:
        for entry, around in reversed(self._inside):
            for name, inner in around.named_modules():
                if inner is module:
                    return f"{entry.name}.{name}" if name else entry.name
        return type(module).__name__


class FlopCounterMode:
    """Count the floating-point operations in a `with` block; a multiply-add counts as two.

    Counts matrix products and convolutions, also inside composites such as attention, and their backward steps; elementwise ops count as
    0. `depth` is the module depth of the table, which is printed on exit if `display` is true. `mods` is accepted with a warning, as in
    PyTorch. Raises RuntimeError for `custom_mapping`, since there are no PyTorch kernels for its formulas.
    """

    def __init__(self, mods: Any = None, depth: int | None = 2, display: bool = True, custom_mapping: dict | None = None) -> None:
        if mods is not None:
            warnings.warn("mods argument is not needed anymore, you can stop passing it", stacklevel=2)
        if custom_mapping:
            raise RuntimeError(
                "FlopCounterMode: custom_mapping gives formulas for PyTorch's kernels; there are none here, so it must be empty"
            )
        self.depth, self.display = depth, display
        self.flop_counts: dict[str, dict[str, int]] = {}
        self._watch: _Counting | None = None

    def __enter__(self) -> FlopCounterMode:
        if self._watch is not None:
            raise RuntimeError("FlopCounterMode is counting already")
        self.flop_counts, self._watch = {}, _Counting()
        self._watch.start()
        return self

    def __exit__(self, *exc: object) -> None:
        watch, self._watch = self._watch, None
        if watch is None:
            raise RuntimeError("FlopCounterMode was left without having been entered")
        watch.stop()
        counts: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
        for entry in watch.entries:
            source = entry.origin if entry.scope == BACKWARD else entry
            kernel = "" if source is None else source.name.removeprefix("aten::")
            if source is None or not entry.flops or kernel not in _COUNTED:
                continue
            key = f"aten.{_BACKWARD.get(kernel, kernel) if entry.scope == BACKWARD else kernel}"
            counts["Global"][key] += entry.flops
            for path in _modules(source):
                counts[path][key] += entry.flops
        self.flop_counts = {name: dict(inside) for name, inside in counts.items()}
        if self.display:
            print(self.get_table(self.depth))

    def get_total_flops(self) -> int:
        """Return the total count."""
        return sum(self.flop_counts.get("Global", {}).values())

    def get_flop_counts(self) -> dict[str, dict[str, int]]:
        """Return counts by module ("Global" for all, else a path starting with the root's class) and kernel, such as "aten.addmm"."""
        return {name: dict(inside) for name, inside in self.flop_counts.items()}

    def get_table(self, depth: int | None = None) -> str:
        """Format the counts as a table of modules down to `depth`, with a "Global" row if ops ran outside of modules."""
        depth, total = (self.depth if depth is None else depth), self.get_total_flops()
        suffix = max(0, min(len(_SUFFIXES) - 1, (len(str(total)) - 2) // 3))
        names = sorted(n for n in self.flop_counts if n != "Global" and (depth is None or n.count(".") < depth))
        whole = any(sum(self.flop_counts[n].values()) >= total for n in names)
        shown = [(n, n.count(".") + (not whole)) for n in names] + ([] if whole or not total else [("Global", 0)])
        shown.sort(key=lambda pair: pair[0] != "Global")
        rows = [("Module", "FLOP", "% Total")]
        for name, indent in shown:
            counts = self.flop_counts[name]
            parts = [(name, sum(counts.values())), *((f" - {kernel}", n) for kernel, n in counts.items())]
            rows += [
                (" " * indent + text, f"{n / 1000**suffix:.3f}{_SUFFIXES[suffix]}", f"{n / total:.2%}" if total else "0%")
                for text, n in parts
            ]
        if not shown:
            rows.append(("Global", "0", "0%"))
        first, second, third = (max(len(rows[0][i]) + 2, *(len(row[i]) for row in rows)) for i in range(3))
        lines = [f"{a:<{first}}  {b:>{second}}  {c:>{third}}" for a, b, c in rows]
        return "\n".join([lines[0], f"{'-' * first}  {'-' * second}  {'-' * third}", *lines[1:]])


def _modules(entry: Entry) -> set[str]:
    """Return the paths of the modules in which an op ran."""
    found, around = set(), entry.parent
    while around is not None:
        if around.scope == MODULE:
            found.add(around.name)
        around = around.parent
    return found
