"""`ReduceOp`: the reductions of collectives."""

from __future__ import annotations

import enum
from typing import Any

import numpy


class ReduceOp(enum.Enum):
    """SUM, AVG (the sum divided by the number of processes), PRODUCT, MIN and MAX; BAND, BOR and BXOR for integers and bools."""

    SUM = 0
    AVG = 1
    PRODUCT = 2
    MIN = 3
    MAX = 4
    BAND = 5
    BOR = 6
    BXOR = 7

    __hash__ = object.__hash__  # that of Enum is slower

    def __repr__(self) -> str:
        return f"<RedOpType.{self.name}: {self.value}>"

    def __str__(self) -> str:
        return f"RedOpType.{self.name}"


ReduceOp.RedOpType = ReduceOp  # type: ignore[attr-defined]  PyTorch's name of the inner enumeration

_FUNCTIONS: dict[ReduceOp, Any] = {
    ReduceOp.SUM: numpy.add,
    ReduceOp.AVG: numpy.add,
    ReduceOp.PRODUCT: numpy.multiply,
    ReduceOp.MIN: numpy.minimum,
    ReduceOp.MAX: numpy.maximum,
    ReduceOp.BAND: numpy.bitwise_and,
    ReduceOp.BOR: numpy.bitwise_or,
    ReduceOp.BXOR: numpy.bitwise_xor,
}
_BITWISE = {ReduceOp.BAND, ReduceOp.BOR, ReduceOp.BXOR}
AVG = ReduceOp.AVG  # quicker to read than a member of the class


def supports_complex(reduceOp: ReduceOp) -> bool:
    """Return whether the reduction supports complex values: they have no order, and PyTorch does not multiply them."""
    return reduceOp in (ReduceOp.SUM, ReduceOp.AVG)


def check(op: Any, dtype: Any, name: str) -> None:
    """Raise an error for unsupported dtypes: bitwise ops on floats, order or products of complex values, means of integers."""
    if not isinstance(op, ReduceOp):
        raise TypeError(f"{name}: op must be a ReduceOp such as ReduceOp.SUM, got {op!r}")
    kind = dtype.kind
    if op in _BITWISE and kind not in "iubc":
        raise RuntimeError(f"Cannot use ReduceOp.{op.name} with non-integral dtype")
    if kind == "c" and not supports_complex(op):
        raise ValueError(f"{name} does not support ReduceOp.{op.name} on complex tensors")
    if op is AVG and kind in "iub":
        raise RuntimeError(f"{name}: ReduceOp.AVG needs a floating-point or complex tensor, got {dtype}")


def reduce_rows(rows: Any, op: ReduceOp, out: Any) -> None:
    """Reduce the rows in rank order, so that every process gets bitwise equal results."""
    fn = _FUNCTIONS[op]
    first, *rest = rows
    if not rest:
        out[...] = first
    for row in rest:
        fn(first, row, out=out)
        first = out
    if op is AVG:
        numpy.divide(out, len(rows), out=out, casting="unsafe")
