"""Recompute a recorded program: call every op of a recording again on new tensors, optionally with changed values."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy

from engine.base import observe
from engine.base.dtypes import FLOAT, FROM_NUMPY
from engine.core import tape
from engine.core.batching import Crossing
from engine.core.tensor import Tensor

from .. import protocol
from ..base import generators
from ..base.attributes import Opaque
from ..inspector import host

if TYPE_CHECKING:
    from .recording import Recording


class Cannot(protocol.Refused, RuntimeError):
    """The request cannot be computed; the text says why."""


@contextmanager
def unwatched(grad: bool = True) -> Iterator[None]:
    """Run ops for the workbench: they are not observed, and the random state is restored afterwards."""
    watcher, observe.current = observe.current, None
    before, tape.mode.grad = tape.mode.grad, grad
    inference, tape.mode.inference = tape.mode.inference, False
    drawn = generators.state()
    try:
        yield
    finally:
        generators.restore(drawn)
        tape.mode.grad, tape.mode.inference = before, inference
        observe.current = watcher


def call_again(op: Any, inputs: list, attrs: dict) -> Any:
    """Call the op on these inputs as the user's code did, without repeating its warnings."""
    function = getattr(op, "function", None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if function is not None:  # written by the user
            return function.apply(*inputs)
        if isinstance(op, Crossing):
            return op(*inputs, **attrs)
        if not hasattr(op, "call"):
            raise Cannot(f"{op.name} is an op of PyTorch's that the engine cannot run again.")
        if op.variadic:
            return op.call(tuple(inputs), **attrs)
        named = dict(zip(op.inputs, inputs, strict=False))
        lost = [name for name, x in named.items() if x is None and name not in op.optional]
        if lost:
            raise Cannot(f"The {lost[0]} that {op.name} was called with was not kept: run the cell under %%watch to have it.")
        return op.call(**named, **attrs)


def attributes(recording: Recording, row: int, node: Any = None) -> dict:
    """The attributes with which the op was called. Raises Cannot if neither the tape nor the recording kept them."""
    held = node.attrs if node is not None and node.op is recording.ops[row] else recording.attrs[row]
    hidden = ("shapes",) if recording.ops[row].variadic else ()
    attrs = {k: v for k, v in held.items() if not k.startswith("__") and k not in hidden}
    unknown = getattr(recording.ops[row], "required", frozenset()) - {*attrs, *recording.ops[row].inputs}
    if unknown or any(_opaque(v) for v in attrs.values()):
        raise Cannot(f"{recording.called(row)} was called with arguments that neither the recording nor the tape kept.")
    return attrs


def _opaque(value: Any) -> bool:
    return isinstance(value, Opaque) or isinstance(value, tuple) and any(map(_opaque, value))


class Recomputed:
    """Recomputed values of every row that `root` depends on; `changes` are arrays for rows that no op made.

    `nodes` are the known nodes of the tape by row: they have arguments that a recording does not keep. The user's tensors are not written:
    in-place rows are computed out of place. No Python code is rerun, so branches, loops and values from `.item()` stay as they were.
    `notes` says where the values are not those of the recording.
    """

    def __init__(
        self, recording: Recording, root: int, changes: Mapping[int, Any] | None = None, nodes: Mapping[int, Any] | None = None
    ) -> None:
        self.recording, self.root = recording, root
        self.nodes = nodes or {}
        self.changes = dict(changes or {})
        self.notes: list[str] = []
        self.results: dict[int, Any] = {}  # row -> tensor, scalar, or a tuple of tensors
        self.leaves: dict[int, Tensor] = {}  # rows with a gradient of their own
        self._changed: set[int] = set()  # rows that depend on a changed one
        with unwatched():
            for row in recording.reachable(root):
                if row in self.changes or any(source in self._changed for source, _ in recording.inputs(row)):
                    self._changed.add(row)
                self.results[row] = self._source(row) if recording.ops[row] is None else self._again(row)

    @property
    def output(self) -> Tensor:
        """The result of the root."""
        return self._first(self.root)

    def rows(self) -> dict[Any, int]:
        """The row of each node of the new tape."""
        found: dict[Any, int] = {}
        for row, result in self.results.items():
            for t in result if isinstance(result, tuple) else (result,):
                if isinstance(t, Tensor) and t.node is not None:
                    found.setdefault(t.node, row)
                    if t.node.op is not None and t.node.op.picks:
                        found[t.node.inputs[0]] = row
        return found

    def _first(self, row: int) -> Any:
        result = self.results[row]
        return next(t for t in result if isinstance(t, Tensor)) if isinstance(result, tuple) else result

    def _source(self, row: int) -> Any:
        r = self.recording
        if r.kind[row] == "constant":
            if row in self.changes:
                return self.changes[row].item() if hasattr(self.changes[row], "item") else self.changes[row]
            return r.kept[row]
        array = self.changes.get(row)
        if array is None:
            array = r.value(row)
            if array is None:
                raise Cannot(f"The value of {r.called(row)} no longer exists: the program freed it, and the recording had no room for it.")
            if r.overwritten(row):
                self.notes.append(f"{r.called(row)} was written in place after the recording; its values of now are used.")
        made = Tensor._wrap(array)
        if r.grad[row] and FROM_NUMPY[array.dtype].rank >= FLOAT:
            self.leaves[row] = made.requires_grad_()
        return made

    def _again(self, row: int) -> Any:
        r = self.recording
        try:
            inputs, attrs = self._arguments(row)
        except Cannot:
            if row in self._changed or r.grad[row]:
                raise
            return self._kept(row)
        tape.mode.grad = r.grad[row]
        result = call_again(r.ops[row], inputs, attrs)
        tape.mode.grad = True
        return tuple(result) if isinstance(result, (tuple, list)) else result

    def _kept(self, row: int) -> Any:
        """The recorded value, for a row that cannot and need not be recomputed."""
        array = self.recording.value(row)
        if array is None or self.recording.overwritten(row):
            raise Cannot(f"The value of {self.recording.called(row)} no longer exists, and cannot be recomputed.")
        return Tensor._wrap(array)

    def _arguments(self, row: int) -> tuple[list, dict]:
        r, op, node = self.recording, self.recording.ops[row], self.nodes.get(row)
        note = r.note[row]
        if r.dtype[row] is None:
            raise Cannot(f"{r.called(row)} failed when it was recorded.")
        written = note.startswith("written through") or note.endswith("written in place")
        if written and (node is None or node.op is not op or len([s for s in node.inputs if s is not None]) > 2):
            raise Cannot(f"{r.called(row)} is {note}: its position in the other's memory was not recorded. Use the out-of-place form.")
        attrs = attributes(r, row, node)
        given = {slot: source for source, slot in r.inputs(row)}
        function = getattr(op, "function", None)
        if function is not None and node is not None and len(given) < len(node.attrs.get("__inputs__", given)):
            raise Cannot(f"{op.name} is a custom Function with arguments other than tensors and numbers; they were not recorded.")
        count = max(given, default=-1) + 1 if op.variadic or function is not None else len(op.inputs)
        optional = getattr(op, "optional", {})
        inputs = [
            self.used(given[i], node, i) if i in given else None if op.variadic or function is not None else optional.get(op.inputs[i])
            for i in range(count)
        ]
        return inputs, attrs

    def used(self, source: int, node: Any, slot: int) -> Any:
        """What came from a row to input `slot` of the op at `node`; for an op with several results, the one that was used."""
        result = self.results[source]
        if not isinstance(result, tuple):
            return result
        known = node.inputs[slot] if node is not None and slot < len(node.inputs) else None
        if known is not None:
            if known.op is not None and known.op.picks:
                return result[known.attrs["index"]]
            op = self.recording.ops[source]
            return result[op.outputs.index(op.differentiable[0])]
        without = [t for t in result if isinstance(t, Tensor) and t.node is None]
        if len(without) == 1:
            return without[0]
        raise Cannot(f"{self.recording.called(source)} has several results, and which of them was used was not recorded.")


def differs(found: Any, recorded: Any) -> bool:
    """Whether a recomputed value differs from the recorded one by more than rounding."""
    return not numpy.allclose(host(found), host(recorded), rtol=1e-4, atol=1e-6, equal_nan=True)
