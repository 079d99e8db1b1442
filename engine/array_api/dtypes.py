"""Dtypes of the standard: value-independent promotion, dtype kinds, and limits."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import engine

from ..base.dtypes import ALL, BOOL, COMPLEX, FLOAT, INT, dtype, of_scalar, promote
from ..core.tensor import Tensor

# bfloat16 and float16 are not part of the standard
STANDARD = {d.name: d for d in ALL if d.name not in ("bfloat16", "float16")}
KINDS = {
    "bool": lambda d: d.rank == BOOL,
    "signed integer": lambda d: d.rank == INT and d.is_signed,
    "unsigned integer": lambda d: d.rank == INT and not d.is_signed,
    "integral": lambda d: d.rank == INT,
    "real floating": lambda d: d.rank == FLOAT,
    "complex floating": lambda d: d.rank == COMPLEX,
    "numeric": lambda d: d.rank != BOOL,
}
_SIGNED = {1: engine.int8, 2: engine.int16, 4: engine.int32, 8: engine.int64}


def dtype_of(x: Any) -> dtype:
    """Return the dtype of an array, or the dtype itself. Raises TypeError for anything else."""
    d = getattr(x, "dtype", x)
    if not isinstance(d, dtype):
        raise TypeError(f"expected an array or a dtype, got {type(x).__name__}")
    return d


def is_number(x: Any) -> bool:
    """Return whether `x` is a Python scalar, which takes the dtype of the array operand."""
    return isinstance(x, (bool, int, float, complex)) and not hasattr(x, "dtype")


def _pair(a: dtype, b: dtype) -> dtype:
    """Promote as PyTorch does, or as the standard does for uint16, uint32 and uint64 with other integers, which PyTorch refuses."""
    if a is b or a.rank != INT or b.rank != INT:
        return promote(a, b)
    if a.is_signed == b.is_signed:
        return a if a.itemsize >= b.itemsize else b
    unsigned, signed = (b, a) if a.is_signed else (a, b)
    size = max(2 * unsigned.itemsize, signed.itemsize)
    if size not in _SIGNED:
        raise TypeError(f"result_type: no integer type holds all of {a.name} and {b.name}")
    return _SIGNED[size]


def result_type(*arrays_and_dtypes: Any) -> dtype:
    """Return the dtype of an operation on these arrays, dtypes and Python scalars, independent of shapes.

    Raises TypeError for uint64 with a signed integer. For integers with floats, which the standard leaves open, it is the float dtype.
    """
    found = [dtype_of(x) for x in arrays_and_dtypes if not is_number(x)]
    if not found:
        raise ValueError("result_type: at least one array or dtype is needed")
    d = functools.reduce(_pair, found)
    for x in arrays_and_dtypes:
        if is_number(x) and (number := of_scalar(x)).rank > d.rank:
            d = d.to_complex() if d.rank == FLOAT else number
    return d


def can_cast(from_: Any, to: dtype, /) -> bool:
    """Return whether promotion leads from the array's or dtype's type to `to`, so that values are kept."""
    try:
        return _pair(dtype_of(from_), dtype_of(to)) is to
    except (TypeError, RuntimeError):  # no promotion exists, as for uint64 and int8
        return False


def isdtype(dtype: dtype, kind: Any) -> bool:
    """Return whether a dtype is of a kind: a dtype, "bool", "signed integer", "unsigned integer", "integral", "real floating",
    "complex floating", "numeric", or any of a tuple of these. Raises ValueError for other strings."""
    kinds = kind if isinstance(kind, tuple) else (kind,)
    unknown = [k for k in kinds if isinstance(k, str) and k not in KINDS]
    if unknown:
        raise ValueError(f"isdtype: expected a kind among {', '.join(map(repr, KINDS))}, got {unknown[0]!r}")
    return any(KINDS[k](dtype) if isinstance(k, str) else dtype_of(k) is dtype for k in kinds)


def astype(x: Tensor, dtype: dtype, /, *, copy: bool = True, device: Any = None) -> Tensor:
    """Cast an array to a dtype, optionally on `device`. Copies unless `copy=False` and nothing changes."""
    return x.to(dtype=dtype, copy=copy) if device is None else x.to(device, dtype, copy=copy)


class finfo_object(NamedTuple):
    bits: int
    eps: float
    max: float
    min: float
    smallest_normal: float
    dtype: dtype


class iinfo_object(NamedTuple):
    bits: int
    max: int
    min: int
    dtype: dtype


def finfo(type: Any, /) -> finfo_object:
    """Return the limits of a floating-point dtype or array; for complex ones, of the parts. Raises TypeError for others."""
    d = dtype_of(type)
    info = engine.finfo(d)
    return finfo_object(info.bits, info.eps, info.max, info.min, info.smallest_normal, d.to_real())


def iinfo(type: Any, /) -> iinfo_object:
    """Return the limits of an integer dtype or array. Raises TypeError for others."""
    d = dtype_of(type)
    info = engine.iinfo(d)
    return iinfo_object(info.bits, info.max, info.min, d)


def alike(*operands: Any) -> list[Tensor]:
    """Convert the operands to arrays of their promoted dtype. Raises TypeError if none of them is an array."""
    if len({x.dtype if isinstance(x, Tensor) else None for x in operands} | {None}) == 2 and all(isinstance(x, Tensor) for x in operands):
        return list(operands)
    beside = next((x for x in operands if isinstance(x, Tensor)), None)
    wrong = next((x for x in operands if not isinstance(x, Tensor) and not is_number(x)), None)
    if beside is None or wrong is not None:
        told = ", ".join(type(x).__name__ for x in operands)
        raise TypeError(f"expected arrays, and Python numbers beside at least one of them, got {told}")
    d = result_type(*operands)
    return [x.to(d) if isinstance(x, Tensor) else engine.full((), x, dtype=d, device=beside.device) for x in operands]
