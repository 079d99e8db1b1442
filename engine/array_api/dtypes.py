"""The element types of the standard: promotion that looks at types alone, kinds of types, and their limits as objects."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import engine

from ..base.dtypes import ALL, BOOL, COMPLEX, FLOAT, INT, dtype, of_scalar, promote
from ..core.tensor import Tensor

# bfloat16 and float16 are the engine's, not the standard's
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
    """The dtype of an array, or the dtype itself; TypeError for anything else."""
    d = getattr(x, "dtype", x)
    if not isinstance(d, dtype):
        raise TypeError(f"expected an array or a dtype, got {type(x).__name__}")
    return d


def is_number(x: Any) -> bool:
    """Whether it is one of Python's own numbers, which take the dtype of the array beside them."""
    return isinstance(x, (bool, int, float, complex)) and not hasattr(x, "dtype")


def _pair(a: dtype, b: dtype) -> dtype:
    """PyTorch's table, and the standard's where that refuses: uint16, uint32 and uint64 beside other integers."""
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
    """The dtype that an operation on these arrays, dtypes and Python numbers gives; shapes do not matter.

    TypeError for uint64 beside a signed integer. Of kinds that the standard leaves open, integers beside floats, the float's is taken.
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
    """Whether promotion leads from the array's or dtype's type to `to`: what is cast so keeps its value."""
    try:
        return _pair(dtype_of(from_), dtype_of(to)) is to
    except (TypeError, RuntimeError):  # no promotion at all: uint64 and int8
        return False


def isdtype(dtype: dtype, kind: Any) -> bool:
    """Whether a dtype is of a kind: a dtype, "bool", "signed integer", "unsigned integer", "integral", "real floating",
    "complex floating", "numeric", or a tuple of these, of which one suffices. ValueError for another word."""
    kinds = kind if isinstance(kind, tuple) else (kind,)
    unknown = [k for k in kinds if isinstance(k, str) and k not in KINDS]
    if unknown:
        raise ValueError(f"isdtype: expected a kind among {', '.join(map(repr, KINDS))}, got {unknown[0]!r}")
    return any(KINDS[k](dtype) if isinstance(k, str) else dtype_of(k) is dtype for k in kinds)


def astype(x: Tensor, dtype: dtype, /, *, copy: bool = True, device: Any = None) -> Tensor:
    """The array in another dtype, and on `device` if that is given. A copy, unless `copy=False` and nothing changes."""
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
    """Limits of a floating-point dtype, or of an array's; of a complex one, those of its parts. TypeError for others."""
    d = dtype_of(type)
    info = engine.finfo(d)
    return finfo_object(info.bits, info.eps, info.max, info.min, info.smallest_normal, d.to_real())


def iinfo(type: Any, /) -> iinfo_object:
    """Limits of an integer dtype, or of an array's. TypeError for others."""
    d = dtype_of(type)
    info = engine.iinfo(d)
    return iinfo_object(info.bits, info.max, info.min, d)


def alike(*operands: Any) -> list[Tensor]:
    """The operands as arrays of the one dtype that they promote to. TypeError when none of them is an array."""
    if len({x.dtype if isinstance(x, Tensor) else None for x in operands} | {None}) == 2 and all(isinstance(x, Tensor) for x in operands):
        return list(operands)
    beside = next((x for x in operands if isinstance(x, Tensor)), None)
    wrong = next((x for x in operands if not isinstance(x, Tensor) and not is_number(x)), None)
    if beside is None or wrong is not None:
        told = ", ".join(type(x).__name__ for x in operands)
        raise TypeError(f"expected arrays, and Python numbers beside at least one of them, got {told}")
    d = result_type(*operands)
    return [x.to(d) if isinstance(x, Tensor) else engine.full((), x, dtype=d, device=beside.device) for x in operands]
