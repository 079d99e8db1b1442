"""The dtypes, and PyTorch's type promotion rules as a table."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy


class dtype:
    """An element type, such as `engine.float32`. There is one object per type, so `is` and `==` agree.

    It prints under PyTorch's name, such as `torch.float32`, so that a program's output is the same as with PyTorch.
    """

    __slots__ = ("name", "numpy", "rank", "is_floating_point", "is_complex", "is_signed", "itemsize")
    __module__ = "torch"  # the module in its repr

    def __init__(self, name: str, np_type: Any, rank: int):
        self.name, self.numpy, self.rank = name, numpy.dtype(np_type), rank
        self.is_floating_point, self.is_complex = rank == FLOAT, rank == COMPLEX
        self.is_signed = name != "bool" and not name.startswith("uint")
        self.itemsize = self.numpy.itemsize

    def __repr__(self) -> str:
        return f"torch.{self.name}"

    def __reduce__(self) -> Any:
        return _named, (self.name,)

    def to_real(self) -> dtype:
        """Return the dtype of the real and imaginary parts: complex64 -> float32; any other dtype returns itself."""
        return {"complex64": float32, "complex128": float64}.get(self.name, self)

    def to_complex(self) -> dtype:
        """Return the complex dtype of the same precision: float64 -> complex128; complex64 is the smallest.

        Raises RuntimeError for a bool or integer dtype.
        """
        if self.rank < FLOAT:
            raise RuntimeError(f"Unknown Complex ScalarType for {self.name}")
        return complex128 if self.name in ("float64", "complex128") else complex64


BOOL, INT, FLOAT, COMPLEX = 0, 1, 2, 3  # the ranks of dtypes: a result has the highest rank of its operands

bool_ = dtype("bool", numpy.bool_, BOOL)
uint8, uint16, uint32, uint64 = (dtype(f"uint{n}", f"uint{n}", INT) for n in (8, 16, 32, 64))
int8, int16, int32, int64 = (dtype(f"int{n}", f"int{n}", INT) for n in (8, 16, 32, 64))
float16, float32, float64 = (dtype(f"float{n}", f"float{n}", FLOAT) for n in (16, 32, 64))
bfloat16 = dtype("bfloat16", ml_dtypes.bfloat16, FLOAT)
complex64, complex128 = (dtype(f"complex{n}", f"complex{n}", COMPLEX) for n in (64, 128))

ALL = (
    bool_, uint8, int8, int16, int32, int64, uint16, uint32, uint64,
    float16, bfloat16, float32, float64, complex64, complex128,
)  # fmt: skip
BY_NAME = {d.name: d for d in ALL} | {
    "half": float16, "float": float32, "double": float64, "short": int16, "int": int32, "long": int64,
    "cfloat": complex64, "cdouble": complex128,
}  # fmt: skip
FROM_NUMPY = {d.numpy: d for d in ALL}
LOW = frozenset((float16.numpy, bfloat16.numpy))  # computed in float32 and rounded once, as PyTorch does

F32, F64, I64, BOOL_NP = float32.numpy, float64.numpy, int64.numpy, bool_.numpy


def _named(name: str) -> dtype:
    return BY_NAME[name]


# torch.promote_types as a table. Rows and columns in the order of ALL; b: bool, u/a: uint8/int8, s i l: int16 int32 int64, U V W: uint16
# uint32 uint64, h g f d: float16 bfloat16 float32 float64, c z: complex64 complex128, "-": PyTorch raises.
_LETTERS = "buasilUVWhgfdcz"
_TABLE = (
    "buasil---hgfdcz",
    "uussil---hgfdcz",
    "asasil---hgfdcz",
    "ssssil---hgfdcz",
    "iiiiil---hgfdcz",
    "llllll---hgfdcz",
    "------U--hgfd--",
    "-------V-hgfd--",
    "--------Whgfd--",
    "hhhhhhhhhhffdcz",
    "gggggggggfgfdcz",
    "ffffffffffffdcz",
    "dddddddddddddzz",
    "cccccc---ccczcz",
    "zzzzzz---zzzzzz",
)
_PROMOTE = {
    (a, b): ALL[_LETTERS.index(letter)]
    for a, row in zip(ALL, _TABLE, strict=True)
    for b, letter in zip(ALL, row, strict=True)
    if letter != "-"
}

default = float32


def set_default(d: dtype) -> None:
    global default
    if not d.is_floating_point:
        raise TypeError(f"set_default_dtype: only floating-point types can be the default, {d!r} is not one")
    default = d


def promote(a: dtype, b: dtype) -> dtype:
    """Return the smallest dtype to which both can be cast, by PyTorch's table (`torch.promote_types`).

    Raises RuntimeError for pairs that PyTorch does not promote, such as uint16 and int32.
    """
    try:
        return _PROMOTE[a, b]
    except KeyError:
        raise RuntimeError(
            f"Promotion for uint16, uint32, uint64 types is not supported, attempted to promote {a.name} and {b.name}"
        ) from None


def of_scalar(x: complex | float | int | bool) -> dtype:
    """Return the dtype of a Python number alone: bool, int64, the default float, or the complex dtype of its precision."""
    if isinstance(x, (bool, numpy.bool_)):
        return bool_
    if isinstance(x, (int, numpy.integer)):
        return int64
    return default if isinstance(x, (float, numpy.floating)) else default.to_complex()


def result(operands: tuple) -> dtype:
    """Return the dtype of a result (`torch.result_type`) of arrays and Python numbers.

    Arrays with dimensions have priority over 0-d arrays, and those over Python numbers; an operand of lower priority counts only if its
    rank (bool < int < float < complex) is higher. Source: "Tensor Attributes", type promotion, in PyTorch's documentation.
    """
    levels: list[dtype | None] = [None, None, None]
    for x in operands:
        if x is None:
            continue
        dt = getattr(x, "dtype", None)
        if dt is None or isinstance(x, numpy.generic):
            level, d = 2, of_scalar(x)
        else:
            level, d = (0 if x.ndim else 1), FROM_NUMPY[dt]
        seen = levels[level]
        levels[level] = d if seen is None else promote(seen, d)
    chosen = None
    for d in levels:
        if d is None:
            continue
        if chosen is None:
            chosen = d
        elif d.rank > chosen.rank:
            # a complex number with a float tensor: the tensor's precision is kept
            chosen = chosen.to_complex() if d.is_complex and chosen.is_floating_point else promote(chosen, d) if chosen is bool_ else d
    assert chosen is not None
    return chosen


def fitting(value: Any, d: dtype) -> Any:
    """Convert a number to a value of a dtype: floats are truncated for integers, and negative integers wrap around for unsigned ones.

    Raises RuntimeError if the dtype cannot hold it.
    """
    if isinstance(value, numpy.generic):
        value = value.item()
    if d.rank == BOOL:
        return bool(value)
    real = value.real if isinstance(value, complex) else value
    refused = isinstance(value, complex) and d.rank < COMPLEX and value.imag != 0
    if d.rank == INT:
        limits = numpy.iinfo(d.numpy)
        wraps = not d.is_signed and not isinstance(real, (float, numpy.floating))
        if refused or real != real or not (-limits.max if wraps else limits.min) <= real <= limits.max:
            raise RuntimeError(f"value cannot be converted to type {d.name} without overflow")
        return numpy.array(int(real)).astype(d.numpy) if real < 0 and not d.is_signed else int(real)
    if refused or d.name in _LARGEST and math.isfinite(real) and abs(real) > _LARGEST[d.name]:
        raise RuntimeError(f"value cannot be converted to type {d.name} without overflow")
    return value if d.rank == COMPLEX else real


_LARGEST = {"float16": 65504.0, "bfloat16": 3.3895313892515355e38}
_LARGEST |= dict.fromkeys(("float32", "complex64"), float(numpy.finfo(numpy.float32).max))


def as_numpy(d: Any) -> numpy.dtype:
    """Return the NumPy dtype of an engine dtype, a Python type (`float`, `int`, `bool`, `complex`) or a NumPy dtype."""
    return as_dtype(d).numpy


def as_dtype(d: Any) -> dtype:
    """Return the engine dtype of an engine dtype, a Python type or a NumPy dtype. Raises TypeError for anything else."""
    if isinstance(d, dtype):
        return d
    try:
        return FROM_NUMPY[numpy.dtype(d)]
    except (TypeError, KeyError):
        raise TypeError(f"expected a dtype such as engine.float32, got {d!r}") from None


class finfo:
    """The limits of a floating-point dtype, like `torch.finfo`. Raises TypeError for other dtypes."""

    __module__ = "torch"  # the module in its repr

    def __init__(self, type: dtype | None = None):
        d = as_dtype(type or default)
        if d.rank < FLOAT:
            raise TypeError(f"finfo is for floating-point types, got {d!r}; use iinfo for integers")
        d = d.to_real()
        info = ml_dtypes.finfo(getattr(ml_dtypes, d.name, None) or d.numpy)
        self.dtype, self.bits = d.name, int(info.bits)
        self.eps, self.max, self.min = float(info.eps), float(info.max), float(info.min)
        self.tiny = self.smallest_normal = float(info.smallest_normal)
        self.resolution = float(f"1e-{int(-math.log10(self.eps))}")

    def __repr__(self) -> str:
        names = ("resolution", "min", "max", "eps", "smallest_normal", "tiny", "dtype")
        return f"finfo({', '.join(f'{n}={getattr(self, n):g}' if n != 'dtype' else f'{n}={self.dtype}' for n in names)})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, finfo) and self.dtype == other.dtype

    def __hash__(self) -> int:
        return hash(self.dtype)


class iinfo:
    """The limits of an integer dtype, like `torch.iinfo`. Raises TypeError for other dtypes."""

    __module__ = "torch"  # the module in its repr

    def __init__(self, type: dtype):
        d = as_dtype(type)
        if d.rank != INT:
            raise TypeError(f"iinfo is for integer types, got {d!r}; use finfo for floats")
        info = numpy.iinfo(d.numpy)
        self.dtype, self.bits, self.max, self.min = d.name, int(info.bits), int(info.max), int(info.min)

    def __repr__(self) -> str:
        return f"iinfo(min={self.min:g}, max={self.max:g}, dtype={self.dtype})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, iinfo) and self.dtype == other.dtype

    def __hash__(self) -> int:
        return hash(self.dtype)
