"""Rerun the recorded program with another value of a parameter or an input: its loss and gradients beside the old ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy

from engine.core import tape

from ..inspector import host, number_text
from ..recording.recompute import Cannot, Recomputed, differs, unwatched
from ..recording.recording import Recording
from .expression import Expression, edited
from .forks import norm_of, relative_difference


@dataclass(frozen=True)
class Change:
    """A new value for a tensor that no op made: `text` is an expression in `x`; with an `index`, it replaces that one element."""

    row: int
    text: str
    index: tuple[int, ...] | None = None

    def on(self, array: Any) -> Any:
        """The changed value, as a new array."""
        return Expression(self.text, "x").on(array) if self.index is None else edited(array, list(self.index), self.text, "x")

    def __str__(self) -> str:
        at = "" if self.index is None else f"[{', '.join(map(str, self.index))}]"
        return f"x{at} = {self.text}"


@dataclass
class Rerun:
    """The result of `wb.whatif.rerun`: a program with changed values beside the unchanged one.

    Rows are numbers of tensors in the recording. The gradients are empty if the result is not a scalar.

    Attributes:
        recording: the recording of the program.
        changes: the changes, by row.
        base: the result without the changes.
        loss: the result with them.
        base_gradients: the gradients of the leaves without the changes, by row.
        gradients: the gradients of the leaves with them.
        notes: sentences on what the recomputation assumes.
    """

    recording: Recording
    changes: list[Change]
    base: Any
    loss: Any
    base_gradients: dict[int, Any]
    gradients: dict[int, Any]
    notes: list[str] = field(default_factory=list)

    def difference(self, row: int) -> float | None:
        """‖new − old‖ / ‖old‖ of a leaf's gradient; None if there is none."""
        return relative_difference(self.gradients.get(row), self.base_gradients.get(row))

    def __repr__(self) -> str:
        r = self.recording
        what = ", ".join(f"{r.called(c.row)}: {c}" for c in self.changes)
        lines = [f"Re-run with {what}", f"  result {text_of(self.base)} → {text_of(self.loss)}"]
        for row, g in self.base_gradients.items():
            lines.append(f"  {r.called(row)}: ‖∇‖ {norm_of(g):.4g} → {norm_of(self.gradients.get(row)):.4g}")
        return "\n".join([*lines, *[f"  {note}" for note in self.notes]])


def rerun(recording: Recording, root: int, changes: list[Change], nodes: Mapping[int, Any] | None = None, seed: Any = None) -> Rerun:
    """Compute `root` and its gradients from the recording, with and without the changes. Raises Cannot if they cannot be recomputed."""
    if not changes:
        raise Cannot("Nothing is changed yet.")
    arrays = {}
    for change in changes:
        arrays[change.row] = change.on(arrays.get(change.row, value_of(recording, change.row)))
    reachable = recording.reachable(root)
    for row in arrays:
        if row not in reachable:
            raise Cannot(f"{recording.called(root)} does not depend on {recording.called(row)}, so nothing would change.")
    before, after = Recomputed(recording, root, nodes=nodes), Recomputed(recording, root, arrays, nodes)
    notes = list(before.notes)
    recorded = None if recording.overwritten(root) else recording.value(root)
    if recorded is not None and differs(before.output.array, recorded):
        notes.append(
            f"Without a change it gives {text_of(before.output.array)} now, and {text_of(recorded)} when it was recorded: "
            "something that the recording does not hold has changed since. Both columns are of now."
        )
    return Rerun(recording, changes, before.output.array, after.output.array, _gradients(before, seed), _gradients(after, seed), notes)


def value_of(recording: Recording, row: int) -> Any:
    """The value of a row that can be changed: a parameter, an input or a scalar."""
    if not 0 <= row < recording.count:
        raise Cannot(f"There is no node {row} in this graph; it has {recording.count}.")
    if recording.ops[row] is not None:
        raise Cannot(
            f"{recording.called(row)} is the result of {recording.op_name(row)}: its value follows from its inputs. Change one of those, "
            "a parameter or an input."
        )
    value = recording.kept.get(row) if recording.kind[row] == "constant" else recording.value(row)
    if value is None:
        raise Cannot(f"The value of {recording.called(row)} no longer exists: the program freed it, and the recording had no room for it.")
    array = numpy.asarray(value) if not hasattr(value, "dtype") else value
    if array.dtype.kind not in "fiubc" and array.dtype.name != "bfloat16":
        raise Cannot(f"{recording.called(row)} is not a number, so it cannot be changed.")
    return array


def _gradients(again: Recomputed, seed: Any) -> dict[int, Any]:
    """The gradients of the leaves, by row."""
    output = again.output
    if output.node is None or seed is None and output.array.size != 1:
        return {}
    given = numpy.ones_like(output.array) if seed is None else seed
    captured = {t.node: None for t in again.leaves.values()}
    with unwatched(grad=False):
        tape.backward([(output.node, given)], numpy, True, captured, accumulate=False)
    return {row: g for row, t in again.leaves.items() if (g := captured[t.node]) is not None}


def text_of(array: Any) -> str:
    """A scalar's value, or a tensor's norm, as text."""
    return number_text(host(array).item()) if array.size == 1 else f"norm {number_text(norm_of(array))}"
