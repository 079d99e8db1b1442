"""The subject of every check: a finished recording, with helpers for its rows, source lines, names and operands."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cached_property
from math import nan
from types import CodeType
from typing import Any
from weakref import ref

from .. import inspector, protocol
from ..inspector.gradient_flow import EXPLODING
from ..protocol.checks import Finding, Operand, Severity
from ..recording import activations, source
from ..recording.reasons import Reasons
from ..recording.recording import Recording
from ..recording.witness import Witness

MOST = 32  # a check examines this many of the last calls of an op


class Case:
    """A recording to check, with weak references to the optimizers among the user's variables."""

    def __init__(self, recording: Recording, optimizers: Iterable[ref] = ()) -> None:
        self.r, self._optimizers = recording, list(optimizers)
        self.sources = source.Sources()
        recording.witness.settle()

    @property
    def witness(self) -> Witness:
        return self.r.witness

    @cached_property
    def reasons(self) -> Reasons:
        """Explains missing gradients."""
        return Reasons(self.r)

    @cached_property
    def optimizers(self) -> list[Any]:
        """The optimizers that took a step during recording, and those among the user's variables."""
        held = [*self.witness.optimizers.values(), *self._optimizers]
        return list({id(one): one for weak in held if (one := weak()) is not None}.values())

    @cached_property
    def models(self) -> list[Any]:
        """The outermost modules that ran and are still alive."""
        return [module for held in self.r.modules if (module := held()) is not None]

    def updates(self, p: Any) -> bool:
        """Whether an optimizer was given the parameter, even if it is gone: training often runs inside a function."""
        known = self.witness.given.get(id(p))
        return known is not None and known() is p or any(p is q for one in self.optimizers for g in one.param_groups for q in g["params"])

    @cached_property
    def by_op(self) -> dict[str, list[int]]:
        """Rows by op name."""
        found: dict[Any, list[int]] = {}
        for row, op in enumerate(self.r.ops):
            if op is not None:
                if op in found:
                    found[op].append(row)
                else:
                    found[op] = [row]
        named: dict[str, list[int]] = {}
        for op, rows in found.items():
            named[op.name] = sorted(named[op.name] + rows) if op.name in named else rows
        return named

    def rows(self, *ops: str) -> list[int]:
        """The last rows of these ops, without failed ones."""
        found = [row for op in ops for row in self.by_op.get(op, ())[-MOST:]]
        return [row for row in sorted(found) if self.r.dtype[row] is not None]

    @cached_property
    def consumers(self) -> dict[int, list[int]]:
        """Map each row to the rows that use it."""
        found: dict[int, list[int]] = {}
        for source_row, target in zip(self.r.source, self.r.target, strict=True):
            found.setdefault(source_row, []).append(target)
        return found

    def came_to_loss(self, row: int) -> bool:
        """Whether the loss of one of the last passes depends on the row."""
        return row in self._before_losses

    @cached_property
    def _before_losses(self) -> set[int]:
        return set().union(*(self.r.reachable(one.root) for one in self.witness.passes[-MOST:] if one.root >= 0))

    def input(self, row: int, slot: int = 0) -> int:
        """The row of input `slot`; -1 if there is none."""
        return next((s for s, at in self.r.inputs(row) if at == slot), -1)

    def made_by(self, row: int, through: Iterable[str] = ()) -> int:
        """The row that made the values, skipping ops in `through`, which only move elements."""
        passed = frozenset(through)
        for _ in range(8):
            if self.r.op_name(row) not in passed:
                break
            row = self.input(row)
        return row

    def losses(self) -> list[float]:
        """The loss of each pass for which it is known."""
        found = []
        for one in self.witness.passes:
            array = self.r.value(one.root) if one.root >= 0 else None
            if array is not None and array.size == 1 and array.dtype.kind == "f":
                found.append(float(inspector.host(array).reshape(-1)[0]))
        return found

    def loss(self) -> float:
        """The last known loss; NaN if there is none."""
        return (self.losses() or [nan])[-1]

    @cached_property
    def gradients(self) -> list[tuple[int, float]]:
        """(row, largest |gradient|) of each leaf, now or when an optimizer last used it, in the order of rows."""
        found = []
        for row in sorted({*self.r.gradients, *self.witness.largest}):
            held = self.r.gradients.get(row)
            tensor = held() if held is not None else None
            array = None if tensor is None else self.witness.values(tensor)
            if row >= 0 and array is not None and array.size:
                found.append((row, float(abs(inspector.host(array)).max())))
            elif row in self.witness.largest:
                found.append((row, self.witness.largest[row]))
        return found

    @cached_property
    def activations(self) -> list[protocol.ActivationRow]:
        """The health of each activation function."""
        return activations.activations(self.r)[0]

    def diverges(self) -> bool:
        """Whether gradients explode that were of normal size when training began, which means that the steps are too long."""
        at_first = self.witness.earliest.values()
        grown = any(size > EXPLODING for _, size in self.gradients)
        return grown and len(self.witness.updates) > 1 and bool(at_first) and max(at_first) <= EXPLODING

    # -- words ------------------------------------------------------------------------------------------------------------------

    def called(self, row: int) -> str:
        """The name of the row: "hidden", "layers.0.weight", or "matmul, line 7"."""
        return self.r.called(row)

    def at(self, row: int) -> str:
        """The position of a row as text, such as " at line 3 of In [2]"; "" if it is not known."""
        site = self.site(row)
        return f" at {place(site)}" if site is not None else ""

    def site(self, row: int) -> protocol.Site | None:
        return None if row < 0 else self.site_of((self.r.code[row], self.r.lasti[row]))

    def site_of(self, where: tuple[Any, int] | None) -> protocol.Site | None:
        """The line of a code object's instruction."""
        return None if where is None or where[0] is None else self.sources.site(*where)

    def site_of_use(self, row: int) -> protocol.Site | None:
        """The line that first uses a parameter, ignoring in-place writes to it."""
        for user in self.consumers.get(row, ()):
            site = self.site_of_use(user) if self.r.note[user].startswith("in place") else self.site(user)
            if site is not None:
                return site
        return None

    def site_at(self, code: CodeType, line: int) -> protocol.Site | None:
        """The site of a line of a code object; None if no instruction belongs to it."""
        lasti = next((2 * i for i, (at, *_) in enumerate(code.co_positions()) if at == line), None)
        return None if lasti is None else self.sources.site(code, lasti)

    def site_of_attribute(self, module: Any, name: str) -> protocol.Site | None:
        """The line of a module's `__init__` that sets this attribute."""
        code = getattr(type(module).__init__, "__code__", None)
        if code is None:
            return None
        texts = source.text_of(code.co_filename).splitlines()
        lines = sorted({line for _, _, line in code.co_lines() if line and line <= len(texts)})
        given = re.compile(rf"\bself\.{re.escape(name)}\b[^=]*=[^=]")
        line = next((line for line in lines if given.search(texts[line - 1])), None)
        return None if line is None else self.site_at(code, line)

    def operand(self, row: int, marked: Iterable[int] = (), words: str = "", value: str = "", name: str = "") -> Operand:
        r, dtype = self.r, self.r.dtype[row]
        kind = dtype if isinstance(dtype, str) else "" if dtype is None else dtype.name
        return Operand(name or self.called(row), row, kind, list(r.shape[row]), list(marked), words, value)

    def finding(
        self, code: str, severity: Severity, sentence: str, row: int, why: str, fix: str, *, site: protocol.Site | None = None,
        operands: Iterable[Operand] = (),
    ) -> Finding:  # fmt: skip
        return Finding(code, severity, sentence, row, site or self.site(row), why, fix, list(operands))


def place(site: protocol.Site) -> str:
    """Format a site: "line 3 of In [2]"."""
    return f"line {site.line} of {site.cell or site.file}"


def shape(dims: Iterable[int]) -> str:
    return inspector.shape_text(tuple(dims))


def several(words: list[str], most: int = 4) -> str:
    """Join words: "a, b and c", or "a, b, c and 5 more"."""
    if len(words) > most:
        words = [*words[: most - 1], f"{len(words) - most + 1} more"]
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
