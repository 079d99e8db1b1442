"""What every check looks at: a recording that has ended, with its lines, names and operands in words."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cached_property
from math import nan
from types import CodeType
from typing import Any
from weakref import ref

from .. import inspector, protocol, source
from ..inspector.reasons import Reasons
from ..model_health import activations
from ..model_health.gradient_flow import EXPLODING
from ..protocol.checks import Finding, Operand, Severity
from ..recording import Recording
from .witness import Witness

MOST = 32  # calls of one op that a check looks at, the last ones


class Case:
    """A recording under examination, and weak references to the optimizers among the user's variables."""

    def __init__(self, recording: Recording, optimizers: Iterable[ref] = ()) -> None:
        self.r, self._optimizers = recording, list(optimizers)
        self.sources = source.Sources()

    @property
    def witness(self) -> Witness:
        return self.r.witness

    @cached_property
    def reasons(self) -> Reasons:
        """Why gradients are missing."""
        return Reasons(self.r)

    @cached_property
    def optimizers(self) -> list[Any]:
        """Those that took a step while it was recorded, and those among the user's variables."""
        held = [*self.witness.optimizers.values(), *self._optimizers]
        return list({id(one): one for weak in held if (one := weak()) is not None}.values())

    @cached_property
    def models(self) -> list[Any]:
        """The outermost modules that ran and are still there."""
        return [module for held in self.r.modules if (module := held()) is not None]

    def updates(self, p: Any) -> bool:
        """Whether an optimizer was given the parameter, also one that is gone: a training is often a function."""
        known = self.witness.given.get(id(p))
        return known is not None and known() is p or any(p is q for one in self.optimizers for g in one.param_groups for q in g["params"])

    @cached_property
    def by_op(self) -> dict[str, list[int]]:
        """Rows by the name of their op."""
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
        """The last rows of these ops that did not fail."""
        found = [row for op in ops for row in self.by_op.get(op, ())[-MOST:]]
        return [row for row in sorted(found) if self.r.dtype[row] is not None]

    @cached_property
    def consumers(self) -> dict[int, list[int]]:
        """Row -> the rows that use it."""
        found: dict[int, list[int]] = {}
        for source_row, target in zip(self.r.source, self.r.target, strict=True):
            found.setdefault(source_row, []).append(target)
        return found

    def came_to_loss(self, row: int) -> bool:
        """Whether the loss of one of the last passes was computed from the row."""
        return row in self._before_losses

    @cached_property
    def _before_losses(self) -> set[int]:
        return set().union(*(self.r.reachable(one.root) for one in self.witness.passes[-MOST:] if one.root >= 0))

    def input(self, row: int, slot: int = 0) -> int:
        """The row of input number `slot`; -1 for none."""
        return next((s for s, at in self.r.inputs(row) if at == slot), -1)

    def made_by(self, row: int, through: Iterable[str] = ()) -> int:
        """The op that made the row's values, passing by ops of these names, which only move elements."""
        passed = frozenset(through)
        for _ in range(8):
            if self.r.op_name(row) not in passed:
                break
            row = self.input(row)
        return row

    def losses(self) -> list[float]:
        """Of each pass the value of its loss, where that is known."""
        found = []
        for one in self.witness.passes:
            array = self.r.value(one.root) if one.root >= 0 else None
            if array is not None and array.size == 1 and array.dtype.kind == "f":
                found.append(float(inspector.host(array).reshape(-1)[0]))
        return found

    def loss(self) -> float:
        """Of the last pass; NaN where it is not known."""
        return (self.losses() or [nan])[-1]

    @cached_property
    def gradients(self) -> list[tuple[int, float]]:
        """Row and largest |gradient| of each leaf that has one, as it is now or was when an optimizer last used it, in order of use."""
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
        """Whether gradients that explode were of a usual size when the training began: then its steps are too long."""
        at_first = self.witness.earliest.values()
        grown = any(size > EXPLODING for _, size in self.gradients)
        return grown and len(self.witness.updates) > 1 and bool(at_first) and max(at_first) <= EXPLODING

    # -- words ------------------------------------------------------------------------------------------------------------------

    def called(self, row: int) -> str:
        """What the user calls the row: "hidden", "layers.0.weight", or "matmul, line 7"."""
        return self.r.called(row)

    def at(self, row: int) -> str:
        """Such as " at line 3 of In [2]"; "" where it is not known."""
        site = self.site(row)
        return f" at {place(site)}" if site is not None else ""

    def site(self, row: int) -> protocol.Site | None:
        return None if row < 0 else self.site_of((self.r.code[row], self.r.lasti[row]))

    def site_of(self, where: tuple[Any, int] | None) -> protocol.Site | None:
        """The line of a code object's instruction."""
        return None if where is None or where[0] is None else self.sources.site(*where)

    def site_of_use(self, row: int) -> protocol.Site | None:
        """The line that first uses a parameter for something else than to write into it."""
        for user in self.consumers.get(row, ()):
            site = self.site_of_use(user) if self.r.note[user].startswith("in place") else self.site(user)
            if site is not None:
                return site
        return None

    def site_at(self, code: CodeType, line: int) -> protocol.Site | None:
        """A line of a code object of which no instruction is known."""
        lasti = next((2 * i for i, (at, *_) in enumerate(code.co_positions()) if at == line), None)
        return None if lasti is None else self.sources.site(code, lasti)

    def site_of_attribute(self, module: Any, name: str) -> protocol.Site | None:
        """The line of a module's `__init__` that gives it this attribute."""
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
    """line 3 of In [2]"""
    return f"line {site.line} of {site.cell or site.file}"


def shape(dims: Iterable[int]) -> str:
    return inspector.shape_text(tuple(dims))


def several(words: list[str], most: int = 4) -> str:
    """a, b and c; of many the first, and how many more."""
    if len(words) > most:
        words = [*words[: most - 1], f"{len(words) - most + 1} more"]
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
