"""The local Jacobian of one op: how each element of its result depends on each element of an input."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

import numpy

from engine.core.op import Elementwise

from ..inspector import host
from ..recording.recompute import Cannot
from ..recording.recording import Recording
from .one import Nodes, One, one_op

EXACT = 4096  # up to this many entries, the whole matrix is computed, one vector-Jacobian product per row
PROBES = 8  # rows sampled to determine the structure of a larger one

STRUCTURES = {
    "zero": "every entry is zero",
    "identity": "the identity: the gradient passes unchanged",
    "diagonal": "diagonal: each result depends on the input at its own place alone",
    "permutation": "a permutation: the elements only change their places",
    "selection": "a selection: each result is one element of the input, and some elements are left out",
    "copy": "copies: each result depends on one element of the input, and one element feeds several results",
    "sums": "sums: each result adds up elements of its own group",
    "blocks": "block diagonal: groups of results depend on groups of inputs",
    "triangular": "triangular: each result depends on the input up to its own place",
    "banded": "banded: each result depends on neighbors in the input",
    "sparse": "sparse: each result depends on few elements of the input",
    "dense": "dense: every result depends on every element of the input",
}


@dataclass
class LocalDerivative:
    """The derivative of one op's result with respect to one of its inputs.

    Attributes:
        slot: the number of the input.
        source: the row of the input in the recording.
        name: the name of the input.
        shape: the shape of the result.
        input_shape: the shape of the input.
        kind: what `values` is: "scalar"; "elementwise", the derivative at each element of the result, of its shape; "matrix", the whole
            Jacobian (elements of the result by elements of the input); "row", the row of result element `chosen`, of the input's shape.
        structure: the structure of the Jacobian, such as "diagonal"; `sentence` says it in words.
        values: the derivative, an array.
        chosen: flat index of the result element for kind "row".
        blocks: the number of blocks, if the structure is block diagonal.
        sampled: whether the structure was determined from a few rows.
    """

    slot: int
    source: int
    name: str
    shape: tuple[int, ...]
    input_shape: tuple[int, ...]
    kind: str
    structure: str  # a key of STRUCTURES
    values: Any
    chosen: int = -1
    blocks: int = 0
    sampled: bool = False

    @property
    def sentence(self) -> str:
        """The structure in words."""
        found = STRUCTURES[self.structure]
        if self.structure == "blocks" and self.blocks:
            found = f"block diagonal, {self.blocks} blocks: groups of results depend on groups of inputs"
        return found + (f" (told from {PROBES} of {prod(self.shape)} rows)" if self.sampled else "")


def local_derivatives(one: One, chosen: int = 0) -> list[LocalDerivative | Cannot]:
    """One for each input that gets a gradient, or a Cannot with the reason why there is no Jacobian to show.

    `chosen` is the flat index of the result element for which the row is computed if the whole Jacobian is too large.
    """
    found: list[LocalDerivative | Cannot] = []
    for slot in one.differentiable():
        try:
            found.append(local_derivative(one, slot, chosen))
        except Cannot as reason:
            found.append(reason)
    return found


def local_derivative(one: One, slot: int, chosen: int = 0) -> LocalDerivative:
    """The local Jacobian with respect to one input. Raises Cannot if there is none, as for functions not complex differentiable."""
    source = one.node.inputs[slot]
    made = LocalDerivative(slot, one.sources[slot], one.names[slot], one.shape, tuple(source.shape), "", "", None)
    rows, cols = prod(one.shape), prod(source.shape)
    if not rows or not cols:
        raise Cannot("There are no elements, so there is nothing to differentiate.")
    if "c" in (one.dtype.kind, source.dtype.kind):
        _require_holomorphic(one, slot)
    if rows == 1 and cols == 1:
        made.kind, made.structure = "scalar", "diagonal"
        made.values = host(one.pull(one.seed(1.0))[slot]).reshape(())
        if made.values == 0:
            made.structure = "zero"
        return made
    values = _elementwise(one, slot)
    if values is not None:
        made.kind, made.values = "elementwise", values
        same = tuple(source.shape) == one.shape
        made.structure = ("identity" if (values == 1).all() else "diagonal") if same else "copy"
        return made
    if rows * cols <= EXACT:
        made.kind, made.values = "matrix", jacobian(one, slot)
        made.structure, made.blocks = structure(made.values)
        return made
    made.kind, made.chosen = "row", min(max(chosen, 0), rows - 1)
    made.values = row_of(one, slot, made.chosen).reshape(source.shape)
    probes = sorted({int(i) for i in numpy.linspace(0, rows - 1, PROBES)})
    made.structure, _ = structure(numpy.stack([row_of(one, slot, i) for i in probes]), probes, rows)
    made.sampled = len(probes) < rows
    return made


def slopes(recording: Recording, nodes: Nodes, most: int = 4000) -> list[tuple[int, int, float]]:
    """`(source, target, ∂target/∂source)` for each edge between scalars, about `most` at most. An op that takes one twice has two."""
    found: list[tuple[int, int, float]] = []
    for row in range(recording.count):
        if recording.ops[row] is None or prod(recording.shape[row]) != 1 or not recording.grad[row]:
            continue
        try:
            op = one_op(recording, row, nodes)
            parts = [local_derivative(op, slot) for slot in op.differentiable() if prod(op.node.inputs[slot].shape) == 1]
        except Cannot:
            continue
        for part in parts:
            if part.source >= 0 and part.kind == "scalar" and part.values.dtype.kind != "c":
                found.append((part.source, row, float(part.values)))
        if len(found) >= most:
            break
    return found


def row_of(one: One, slot: int, at: int) -> numpy.ndarray:
    """The flat row of the Jacobian for result element number `at`, by one vector-Jacobian product."""
    seed = one.seed()
    seed.reshape(-1)[at] = 1
    gradient = one.pull(seed)[slot]
    size = prod(one.node.inputs[slot].shape)
    return numpy.zeros(size) if gradient is None else host(gradient).reshape(-1)


def jacobian(one: One, slot: int) -> numpy.ndarray:
    """The whole Jacobian, (elements of the result, elements of the input), by one product for each row."""
    return numpy.stack([row_of(one, slot, at) for at in range(prod(one.shape))])


def _elementwise(one: One, slot: int) -> numpy.ndarray | None:
    """The derivative at each element of the result, if each depends on one element of the input alone."""
    if not (isinstance(one.op, type) and issubclass(one.op, Elementwise)):
        return None
    raw = one.unfitted(one.seed(1.0), slot)
    if raw is None:
        return None
    try:
        return numpy.broadcast_to(host(raw), one.shape)
    except ValueError:  # a rule that sums by itself
        return None


def _require_holomorphic(one: One, slot: int) -> None:
    """Raise Cannot unless the rule is complex linear, as only then is the Jacobian a matrix of complex numbers."""
    seed = numpy.random.default_rng(0).normal(size=one.shape).astype(one.dtype)
    seed = one.beside(seed)
    if one.dtype.kind == "c" and one.node.inputs[slot].dtype.kind == "c":
        a, b = one.pull(seed)[slot], one.pull(seed * 1j)[slot]
        if a is None or numpy.allclose(host(b), host(a) * 1j, rtol=1e-4, atol=1e-6):
            return
    raise Cannot(
        f"{one.op.name} is not complex differentiable here, so there is no Jacobian of complex numbers: its rule treats the real and the "
        "imaginary part differently."
    )


def structure(matrix: numpy.ndarray, at: list[int] | None = None, rows: int | None = None) -> tuple[str, int]:
    """The structure of the matrix (a key of STRUCTURES), and the number of its blocks. `at`: which of the `rows` were sampled."""
    some = matrix != 0
    places = list(range(len(matrix))) if at is None else at
    m, n = rows or len(matrix), matrix.shape[1]
    if not some.any():
        return "zero", 0
    in_row, in_col = some.sum(1), some.sum(0)
    if m == n and all(not some[i, numpy.arange(n) != place].any() for i, place in enumerate(places)):
        return ("identity" if all(matrix[i, place] == 1 for i, place in enumerate(places)) else "diagonal"), 0
    if in_row.max() <= 1:
        if in_col.max() > 1 or m > n:
            return "copy", 0
        ones = bool((matrix[some] == 1).all()) and bool((in_row == 1).all())
        return ("permutation" if ones and m == n else "selection"), 0
    if some.all():
        return "dense", 0
    ahead = [some[i, place + 1 :].any() for i, place in enumerate(places)]
    if m == n and m > 2 and not any(ahead) and some[:, 0].all():
        return "triangular", 0
    if at is None:
        blocks = _components(some)
        if blocks > 1 and in_col.max() <= 1:
            return "sums", 0
        if blocks > 1:
            return "blocks", blocks
    elif in_col.max() <= 1 and in_row.min() == in_row.max() and m * in_row.max() == n:
        return "sums", 0
    width = max(int(numpy.flatnonzero(row)[-1] - numpy.flatnonzero(row)[0]) + 1 for row in some if row.any())
    if width < n / 2:
        return "banded", 0
    return ("sparse" if some.mean() < 0.5 else "dense"), 0


def _components(some: numpy.ndarray) -> int:
    """The number of connected groups of rows and columns, ignoring those without an entry."""
    rows, left, count = some.copy(), set(numpy.flatnonzero(some.any(1)).tolist()), 0
    while left:
        count += 1
        front = {left.pop()}
        while front:
            cols = rows[list(front)].any(0)
            front = {r for r in left if (rows[r] & cols).any()}
            left -= front
    return count
