"""Dtypes that programs refer to but that cannot hold data here: float8, float4 and complex32.

They can be compared, printed, pickled and queried; creating a tensor of one raises TypeError.
"""

from __future__ import annotations

from typing import Any

from ..base.dtypes import COMPLEX, FLOAT, dtype, float16

__all__ = [
    "chalf",
    "complex32",
    "float4_e2m1fn_x2",
    "float8_e4m3fn",
    "float8_e4m3fnuz",
    "float8_e5m2",
    "float8_e5m2fnuz",
    "float8_e8m0fnu",
]


class _Rare(dtype):
    __slots__ = ()
    __module__ = "torch"

    def __init__(self, name: str, itemsize: int, rank: int, signed: bool = True):
        self.name, self.rank, self.itemsize, self.is_signed = name, rank, itemsize, signed
        self.is_floating_point, self.is_complex = rank == FLOAT, rank == COMPLEX

    @property
    def numpy(self) -> Any:
        raise TypeError(f"{self}: this engine has no such dtype; the nearest ones are float16, bfloat16, complex64 and int8")

    def to_real(self) -> dtype:
        return float16 if self.is_complex else self

    def __reduce__(self) -> Any:
        return _named, (self.name,)


def _named(name: str) -> dtype:
    return globals()[name]


float8_e4m3fn = _Rare("float8_e4m3fn", 1, FLOAT)
float8_e4m3fnuz = _Rare("float8_e4m3fnuz", 1, FLOAT)
float8_e5m2 = _Rare("float8_e5m2", 1, FLOAT)
float8_e5m2fnuz = _Rare("float8_e5m2fnuz", 1, FLOAT)
float8_e8m0fnu = _Rare("float8_e8m0fnu", 1, FLOAT, signed=False)
float4_e2m1fn_x2 = _Rare("float4_e2m1fn_x2", 1, FLOAT)
complex32 = chalf = _Rare("complex32", 4, COMPLEX)
