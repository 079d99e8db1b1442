"""Every elementwise op as CUDA text, with the numbers that the CPU gives for it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any, NamedTuple

import ml_dtypes
import numpy

import cases
from engine.backends import cpu
from engine.backends.gpu import launch
from engine.backends.gpu.printer import Printed, backward_of, forward_of
from engine.base.dtypes import LOW
from engine.base.errors import Refused
from engine.core.op import Elementwise, registry

DTYPES = {name: numpy.dtype(name) for name in ("float32", "float64", "float16", "int64", "int32", "uint8", "bool", "complex64")}
DTYPES["bfloat16"] = numpy.dtype(ml_dtypes.bfloat16)
N = 1037  # elements of the contiguous case: not a multiple of a block, nor of what a thread computes


class Pass(NamedTuple):
    """One printed function with operands and the results expected of it."""

    what: str
    printed: Printed
    arrays: list[numpy.ndarray]
    numbers: list
    expected: list[numpy.ndarray]


def pointwise() -> list[Any]:
    return [op for op in registry.values() if issubclass(op, Elementwise)]


def up(x: Any) -> Any:
    return x.astype("float32") if getattr(x, "dtype", None) in LOW else x


def drawn(case: cases.Case, dtype: numpy.dtype, n: int | None) -> list:
    """The inputs of a case in a dtype; of `n` elements each, or of the case's own shapes."""
    rng = cases.rng_of(case)
    xs = []
    for x in cases.draw(case):
        if isinstance(x, numpy.ndarray):
            if n is not None:
                x = rng.uniform(*case.op.domain, size=n) if x.dtype.kind == "f" else rng.choice(x.ravel(), n)
            if x.dtype.kind == "f":
                if dtype.kind in "iu":
                    x = rng.integers(0, 9, x.shape)
                elif dtype.kind == "c" and x.ndim:
                    x = x + 0.5j * x[..., ::-1]
                x = numpy.asarray(x > 1 if dtype.kind == "b" else x).astype(dtype)
        xs.append(x)
    return xs


def operand(x: Any) -> Any:
    return x.dtype if isinstance(x, numpy.ndarray) else x


def numbers_of(*values: Any) -> list:
    """The numbers that are parameters of a kernel."""
    plain = [x.item() if isinstance(x, numpy.generic) else x for x in values]
    return [x for x in plain if type(x) in (int, float)]


def passes(case: cases.Case, dtype: numpy.dtype, n: int | None, name: str) -> Iterator[Pass]:
    """The forward pass of a case and the backward pass of all its inputs that have a derivative.

    Raises Unprintable where there is no kernel, and what the op itself raises for a dtype that it refuses.
    """
    op, attrs = case.op, {**case.op.defaults, **case.attrs}
    given = drawn(case, dtype, n)
    given += [op.optional[name] for name in op.inputs[len(given) :]]
    arrays, _ = op.prepare(given)
    low = next((a.dtype for a in arrays if getattr(a, "dtype", None) in LOW), None)
    with numpy.errstate(all="ignore"):
        result = numpy.asarray(op.forward(cpu, *map(up, arrays), **attrs))
        result = result.astype(low) if low is not None and result.dtype == numpy.float32 else result
    operands = [operand(x) for x in arrays]
    numbers = numbers_of(*operands, *attrs.values())
    reals = [x for x in arrays if isinstance(x, numpy.ndarray)]
    printed = forward_of(op, operands, attrs, f"{name}_forward")
    yield Pass("forward", printed, reals, [] if printed.spelled else numbers, [result])
    if result.dtype.kind not in "fc" and result.dtype not in LOW:
        return
    g = cases.rng_of(case).normal(size=result.shape).astype(result.dtype)
    slots: list[Any] = [*arrays, result]
    slopes = {}
    for i, rule in enumerate(op.rules):
        if rule is not None and _differentiable(arrays[i]):
            with contextlib.suppress(NotImplementedError), numpy.errstate(all="ignore"):  # a rule that only says that there is none
                slopes[i] = rule(cpu, up(g), tuple(map(up, slots)), attrs, result.shape)
    if not slopes:
        return
    kept = frozenset().union(*[op.rules[i].keeps for i in slopes])
    saved = [x if k in kept else None for k, x in enumerate(slots)]
    wanted = [arrays[i].dtype for i in slopes]
    expected = [
        numpy.broadcast_to(_real(numpy.asarray(s), d), result.shape).astype(d) for s, d in zip(slopes.values(), wanted, strict=True)
    ]
    operands = [g.dtype, *map(operand, saved)]
    numbers = numbers_of(*operands, *attrs.values())
    printed = backward_of(op, tuple(slopes), operands, wanted, attrs, f"{name}_backward")
    reals = [g, *[x for x in saved if isinstance(x, numpy.ndarray)]]
    yield Pass("backward", printed, reals, [] if printed.spelled else numbers, expected)


def _differentiable(x: Any) -> bool:
    return isinstance(x, numpy.ndarray) and (x.dtype.kind in "fc" or x.dtype in LOW)


def _real(x: numpy.ndarray, dtype: numpy.dtype) -> numpy.ndarray:
    return x.real if x.dtype.kind == "c" and dtype.kind != "c" else x


REFUSALS = (Refused, RuntimeError, TypeError, ValueError, NotImplementedError, OverflowError, KeyError)
FORMS = ("vector", "strided", "far")


def text_of(printed: list[Printed]) -> str:
    """One CUDA text with all forms of several kernels."""
    return launch.source("special.cuh" if any("special::" in p.function for p in printed) else "common.cuh") + "".join(
        p.function + "".join(p.kernel(form) for form in FORMS) for p in printed
    )
