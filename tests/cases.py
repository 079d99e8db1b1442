"""What the generic tests call each op with, read off the op itself: its `samples` or `examples`, drawn from its `domain`."""

from __future__ import annotations

import zlib
from typing import Any, NamedTuple

import numpy
import pytest

import engine
from engine import Tensor
from engine.core.op import Op, registry
from grouping import grouped


class Case(NamedTuple):
    """One call of an op: a specification of each input (see docs/add-an-op.md) and the attributes."""

    op: type[Op]
    inputs: tuple
    attrs: dict

    def __str__(self) -> str:
        shown = [
            "x".join(map(str, spec)) or "scalar" if isinstance(spec, tuple) else "none" if spec is None else "values"
            if isinstance(spec, list) else str(spec) for spec in self.inputs
        ]  # fmt: skip
        return " ".join([self.op.name, *shown, *(f"{k}={v!r}"[:24] for k, v in self.attrs.items())])

    @property
    def key(self) -> str:
        """The call in words that change when it does: what stored answers are filed under."""
        shown = {k: list(v.shape) if isinstance(v, (Tensor, numpy.ndarray)) else v for k, v in self.attrs.items()}
        return f"{self.inputs} {shown} {self.op.domain}"


def of(op: type[Op]) -> list[Case]:
    """Every call that the op declares."""
    pairs = op.examples or tuple((inputs, {}) for inputs in op.samples)
    return [Case(op, tuple(inputs), attrs) for inputs, attrs in pairs]


def ops() -> list[type[Op]]:
    return list(registry.values())


def each(test: str, wanted: Any = lambda op: True, first: bool = False) -> pytest.MarkDecorator:
    """Asks a test of every call of every op that is wanted and has no written reason to be left out, or of the first call only."""
    params = [
        pytest.param(case, id=f"{i}-{case}".replace(" ", "-"))
        for op in ops() if wanted(op) and test not in op.exempt for i, case in enumerate(of(op)[:1] if first else of(op))
    ]  # fmt: skip
    return grouped("case", params, by=lambda case: family(case.op))


def each_op(wanted: Any = lambda op: True) -> pytest.MarkDecorator:
    """Asks a test of every op that is wanted."""
    return grouped("op", [pytest.param(op, id=op.name) for op in ops() if wanted(op)], by=family)


def family(op: type[Op]) -> str:
    """The module in which an op stands."""
    return op.__module__.removeprefix("engine.")


def rng_of(case: Case) -> numpy.random.Generator:
    return numpy.random.default_rng(zlib.crc32(str(case).encode()))


def draw(case: Case) -> list:
    """The inputs of a call: float64 arrays for shapes, the values themselves for lists, None and numbers as they are."""
    rng = rng_of(case)

    def one(spec: Any) -> Any:
        if isinstance(spec, tuple):
            return numpy.asarray(rng.uniform(*case.op.domain, size=spec))
        return numpy.array(spec) if isinstance(spec, list) else spec

    return [one(spec) for spec in case.inputs]


def floating(x: Any) -> bool:
    return isinstance(x, numpy.ndarray) and x.dtype.kind in "fc"


def leaves(xs: list) -> list:
    """Arrays as tensors; those of floats ask for their gradient."""
    return [engine.tensor(x, requires_grad=floating(x)) if isinstance(x, numpy.ndarray) else x for x in xs]


def call(case: Case, inputs: list) -> tuple:
    """Run the op and return its results, always as a tuple. Random ops start from one seed each time."""
    engine.manual_seed(7)
    if case.op.variadic:
        found = case.op(tuple(inputs), **case.attrs)
    else:
        named = {name: x for name, x in zip(case.op.inputs[1:], inputs[1:], strict=False) if x is not None}
        found = case.op(*inputs[:1], **named, **case.attrs)
    return found if isinstance(found, tuple) else (found,)


def smooth(case: Case, results: tuple) -> list[Tensor]:
    """The results that can carry a gradient."""
    kept = [r for name, r in zip(case.op.outputs, results, strict=True) if name in case.op.differentiable]
    return [r for r in kept if r.is_floating_point() or r.is_complex()]


def normal_like(x: numpy.ndarray, rng: numpy.random.Generator) -> numpy.ndarray:
    t = numpy.asarray(rng.normal(size=x.shape))
    return t + 1j * rng.normal(size=x.shape) if x.dtype.kind == "c" else t


def inner(a: Any, b: Any) -> float:
    """The real inner product, under which PyTorch's gradient of a complex tensor is a gradient."""
    return float(numpy.real(numpy.conj(a) * b).sum())
