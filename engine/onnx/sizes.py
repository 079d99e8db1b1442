"""Dynamic sizes: infer how the integers of a recording depend on input sizes from runs with several sizes."""

from __future__ import annotations

from typing import Any

import numpy

from .errors import OnnxExporterError
from .record import Event, Recording, Value


class Dim(int):
    """A size equal to `factor * input.shape[axis] // divisor + offset`, with the example's value; unknown without an input."""

    input: str
    axis: int
    factor: int
    divisor: int
    offset: int
    seen: tuple[int, ...]  # its value in every run
    where: str

    def __new__(
        cls, seen: tuple[int, ...], where: str, input: str = "", axis: int = 0, factor: int = 1, divisor: int = 1, offset: int = 0
    ) -> Dim:
        self = int.__new__(cls, seen[0])
        self.input, self.axis, self.factor, self.divisor, self.offset = input, axis, factor, divisor, offset
        self.seen, self.where = seen, where
        return self


class Sizes:
    """The dynamic sizes: (input, axis) -> its size in every run."""

    def __init__(self, changing: dict[tuple[str, int], tuple[int, ...]]):
        self.changing = changing

    def solve(self, sizes: tuple[int, ...], where: str) -> int:
        """Return an integer with the value `sizes[r]` in run r, as a `Dim` if it varies."""
        if len(set(sizes)) == 1:
            return sizes[0]
        rules = [rule for (name, axis), seen in self.changing.items() for rule in self._rules(sizes, seen, name, axis, where)]
        return min(rules, key=lambda d: (d.offset != 0, d.divisor, abs(d.offset), d.factor)) if rules else Dim(sizes, where)

    @staticmethod
    def _rules(sizes: tuple[int, ...], seen: tuple[int, ...], name: str, axis: int, where: str) -> list[Dim]:
        found = []
        change, step = sizes[1] - sizes[0], seen[1] - seen[0]
        if step and change % step == 0:
            factor = change // step
            found.append((factor, 1, sizes[0] - factor * seen[0]))
        found += [(1, d, 0) for d in range(2, 65)]
        return [
            Dim(sizes, where, name, axis, *rule)
            for rule in found
            if all(rule[0] * n // rule[1] + rule[2] == size for n, size in zip(seen, sizes, strict=True))
        ]


def merge(runs: list[Recording], sizes: Sizes) -> list[Event]:
    """Return the first run's events with `Dim`s for dynamic sizes. Raises OnnxExporterError if the runs took different paths."""
    first = runs[0].events
    for other in runs[1:]:
        for a, b in zip(first, other.events, strict=False):
            if a.op != b.op:
                raise OnnxExporterError(f"the model takes another way for other inputs: {a.op} {a.where} was {b.op} in a second run")
        if len(first) != len(other.events):
            raise OnnxExporterError(f"the model takes another way for other inputs: {len(first)} and {len(other.events)} ops were run")
    for events in zip(*[run.events for run in runs], strict=True):
        main = events[0]
        main.inputs = _same([e.inputs for e in events], sizes, f"of {main.op} {main.where}")
        main.attrs = _same([e.attrs for e in events], sizes, f"of {main.op} {main.where}")
        for values in zip(*[e.outputs for e in events], strict=True):
            _compare(values)
    for values in zip(*[run.results for run in runs], strict=True):
        _compare(values)
    return first


def _same(xs: list[Any], sizes: Sizes, where: str) -> Any:
    x = xs[0]
    if isinstance(x, Value):
        _compare(tuple(xs))
        return x
    if isinstance(x, dict):
        return {k: _same([other[k] for other in xs], sizes, where) for k in x}
    if isinstance(x, (list, tuple)):
        if len({len(other) for other in xs}) > 1:
            raise OnnxExporterError(f"an argument {where} has another length for other inputs")
        return type(x)(_same(list(parts), sizes, where) for parts in zip(*xs, strict=True)) if type(x) in (list, tuple) else x
    if isinstance(x, slice):
        return slice(*[_same([getattr(s, part) for s in xs], sizes, where) for part in ("start", "stop", "step")])
    if type(x) is int:
        return sizes.solve(tuple(xs), where)
    if any(other is not x and other != x and not (other != other and x != x) for other in xs):
        raise OnnxExporterError(f"the number {x} {where} depends on the values of the inputs: it was {xs[1]} in a second run")
    return x


def _compare(values: tuple[Value, ...]) -> None:
    """Collect shapes and differing data of a value over the runs; a result with varying data is computed in the graph."""
    main = values[0]
    main.shapes = [v.array.shape for v in values]
    if main.data is None or main.kind in ("parameter", "input"):
        return
    if any(
        v.data is None or v.data.shape != main.data.shape or not numpy.array_equal(v.data, main.data, main.data.dtype.kind in "fc")
        for v in values
    ):
        main.others = [v.data for v in values[1:]]
        if main.kind == "result":
            main.data = None
