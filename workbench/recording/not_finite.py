"""Find the first op of a recording, or the first step of a pass, that made a NaN or an infinity."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy

from engine.core import tape
from engine.core.op import Elementwise
from engine.core.tensor import Tensor

from ..inspector import values
from ..protocol import Refused
from .recompute import Recomputed, unwatched

if TYPE_CHECKING:
    from .recording import Recording

SOFTMAXES = ("softmax", "log_softmax")
SMALL = 1 << 20  # bytes up to which an operand is copied, since an update may overwrite it


class BadStep(NamedTuple):
    """A backward step that made a non-finite gradient from finite upstream gradients."""

    row: int
    op: Any  # None if the step is not known; then `row` is the leaf that received `upstream`
    upstream: Any
    gradients: tuple
    number: int  # of the pass


class BadRow(NamedTuple):
    """A row with a non-finite value, and the values of its inputs."""

    row: int
    value: Any
    operands: list[tuple[int, Any]]  # rows and their values; None if unknown
    exact: bool  # whether all values before it are known
    number: int  # of the pass that was about to begin


def among(r: Recording, start: int, stop: int, root: int, number: int = 0) -> dict[str, BadRow]:
    """The first rows from `start` to `stop` with NaN, +Inf and −Inf that `root` depends on, by kind; the search ends at the first NaN.

    Values that are gone are recomputed if the program still has their inputs.
    """
    needed = set(r.reachable(root)) if root >= 0 else set(range(stop))
    rows = [row for row in range(start, stop) if row in needed and r.kind[row] != "constant" and r.dtype[row] is not None]
    known = {row: r.value(row) for row in rows if not r.overwritten(row)}
    missing = [row for row in rows if known.get(row) is None]
    if missing and root >= 0:
        known.update(_again(r, root, set(missing)))
    found: dict[str, BadRow] = {}
    for row in rows:
        array = known.get(row)
        if array is None:
            continue
        for kind in values.kinds(array):
            if kind not in found and not _handed_on(r, row, kind, array, known):
                exact = not any(known.get(before) is None for before in missing if before < row)
                found[kind] = BadRow(row, array, [(s, _kept(r, s, known)) for s, _ in r.inputs(row)], exact, number)
        if "NaN" in found:
            break
    if "NaN" in found:  # keep only infinities among its ancestors
        way = set(r.reachable(found["NaN"].row))
        masked = r.op_name(found["NaN"].row) in SOFTMAXES  # a mask consists of infinities, which its finding mentions
        found = {kind: bad for kind, bad in found.items() if bad.row in way and not (masked and kind == "−Inf" and r.ops[bad.row] is None)}
    return found


def _handed_on(r: Recording, row: int, kind: str, array: Any, known: dict[int, Any]) -> bool:
    """Whether an op only propagates an infinity from an operand, or from a constant such as the value of masked_fill."""
    if kind == "NaN" or r.ops[row] is None:
        return False
    index = values.first(array, kind)
    for source, _ in r.inputs(row):
        value = r.kept.get(source) if r.kind[source] == "constant" else known.get(source)
        at = element(value, opposite(r.ops[row], value, array, index))
        if isinstance(at, (int, float)) and math.isinf(at):
            return True
    return any(isinstance(value, float) and math.isinf(value) for value in r.attrs[row].values())


def value_of(r: Recording, row: int) -> Any:
    """The constant, or the array if it is unchanged since the row was made; None if it is gone."""
    if r.kind[row] == "constant":
        return r.kept.get(row)
    return None if r.overwritten(row) else r.value(row)


def _kept(r: Recording, row: int, known: dict[int, Any]) -> Any:
    if r.kind[row] == "constant":
        return r.kept.get(row)
    array = known.get(row)
    if array is None:
        array = r.value(row)
    if array is not None and r.ops[row] is None and array.nbytes <= SMALL:
        return array.copy()
    return array


def _again(r: Recording, root: int, missing: set[int]) -> dict[int, Any]:
    """Recompute the values of these rows; {} if that is not possible."""
    try:
        again = Recomputed(r, root)
    except Refused:
        return {}
    found = {}
    for row in missing:
        result = again.results.get(row)
        first = result[0] if isinstance(result, tuple) else result
        if isinstance(first, Tensor):
            found[row] = first.array
    return found


def step_among(r: Recording, root: int, number: int) -> BadStep | None:
    """The first step of the pass from a scalar `root` that makes a NaN or an infinity; None if there is none or it cannot be rerun."""
    if root < 0 or r.shape[root] != ():
        return None
    try:
        again = Recomputed(r, root)
    except Refused:
        return None
    output, rows = again.output, again.rows()
    if output.node is None:
        return None
    with unwatched(grad=False):
        seed = [(output.node, numpy.ones_like(output.array))]
        for node, grad, given in tape.backward_steps(seed, numpy, True, None, accumulate=False):
            if node.op is None or node.op.picks or all(values.finite(g) for g in given if g is not None):
                continue
            if all(values.finite(g) for g in (grad if isinstance(grad, list) else [grad]) if g is not None):
                upstream = None if isinstance(grad, list) else grad
                return BadStep(rows.get(node, -1), node.op, upstream, tuple(given), number)
    return None


def opposite(op: Any, array: Any, result: Any, index: tuple[int, ...]) -> tuple[int, ...] | None:
    """The index of the operand's element behind the result's element, for elementwise ops and equal shapes; else None.

    A scalar operand has the index ().
    """
    if not hasattr(array, "shape"):
        return ()
    alike = isinstance(op, type) and issubclass(op, Elementwise) or tuple(array.shape) == tuple(result.shape)
    return values.opposite(array, result, index) if alike else None


def element(array: Any, index: tuple[int, ...] | None) -> Any:
    """The element at an index; a scalar itself; or None."""
    if not hasattr(array, "shape"):
        return array if isinstance(array, (int, float)) else None
    return None if index is None else values.element(array, index)
