"""Creation functions of the standard."""

from __future__ import annotations

from typing import Any

import numpy

import engine

from ..base.dtypes import dtype as Dtype
from ..base.dtypes import of_scalar
from ..core.tensor import Tensor
from .dtypes import is_number


def _sizes(shape: Any) -> tuple[int, ...]:
    return (shape,) if isinstance(shape, int) else tuple(shape)


def arange(start: float, /, stop: float | None = None, step: float = 1, *, dtype: Dtype | None = None, device: Any = None) -> Tensor:
    """Values from `start` up to but excluding `stop`; empty if `step` has the wrong sign. int64 for integers, else the default dtype."""
    if stop is None:
        start, stop = 0, start
    if step == 0:
        raise ValueError("arange: step must not be 0")
    if dtype is None:
        dtype = engine.int64 if all(isinstance(x, int) for x in (start, stop, step)) else engine.get_default_dtype()
    if (stop - start) / step <= 0:
        return engine.empty((0,), dtype=dtype, device=device)
    return engine.arange(start, stop, step, dtype=dtype, device=device)


def asarray(obj: Any, /, *, dtype: Dtype | None = None, device: Any = None, copy: bool | None = None) -> Tensor:
    """Create an array from scalars, nested sequences, an array of any library, or an object with the buffer protocol.

    `copy=None` shares memory if possible, True always copies, and False raises ValueError if a copy is needed. Gradients are kept.
    """
    if isinstance(obj, Tensor):
        moved = obj.to(dtype=obj.dtype if dtype is None else dtype, device=obj.device if device is None else device, copy=bool(copy))
        if copy is False and moved is not obj:
            raise ValueError("asarray: another dtype or device takes a copy, which copy=False forbids")
        return moved
    if isinstance(obj, (bytes, bytearray, memoryview, numpy.ndarray)) or type(obj).__module__ == "array":
        view = obj if isinstance(obj, numpy.ndarray) else numpy.asarray(memoryview(obj))
        if not view.flags.writeable or not view.dtype.isnative or any(n < 0 for n in view.strides):  # unsupported as tensor memory
            if copy is False:
                raise ValueError("asarray: memory that is read-only, backwards or swapped takes a copy, which copy=False forbids")
            view = view.astype(view.dtype.newbyteorder("="), order="C")
        obj = view
    if copy is False and (is_number(obj) or isinstance(obj, (list, tuple))):
        raise ValueError(f"asarray: a {type(obj).__name__} takes a copy, which copy=False forbids")
    return engine.asarray(obj, dtype=dtype, device=device, copy=copy)


def empty(shape: Any, *, dtype: Dtype | None = None, device: Any = None) -> Tensor:
    """Return an uninitialized array."""
    return engine.empty(_sizes(shape), dtype=dtype, device=device)


def empty_like(x: Tensor, /, *, dtype: Dtype | None = None, device: Any = None) -> Tensor:
    """Return an uninitialized array of the same shape."""
    return engine.empty_like(x, dtype=dtype, device=device)


def eye(n_rows: int, n_cols: int | None = None, /, *, k: int = 0, dtype: Dtype | None = None, device: Any = None) -> Tensor:
    """Return a matrix with ones on the k-th diagonal (upper for k > 0) and zeros elsewhere."""
    n_cols = n_rows if n_cols is None else n_cols
    rows = engine.arange(n_rows, device=device)[:, None]
    k = max(-n_rows, min(k, n_cols))  # any integer is a diagonal, also one of more than 64 bits
    return (rows + k == engine.arange(n_cols, device=device)).to(engine.get_default_dtype() if dtype is None else dtype)


def from_dlpack(x: Any, /, *, device: Any = None, copy: bool | None = None) -> Tensor:
    """Return an array that shares memory with an object with `__dlpack__`; another `device` or `copy` requires a copy."""
    return engine.from_dlpack(x, device=device, copy=copy)


def full(shape: Any, fill_value: complex, *, dtype: Dtype | None = None, device: Any = None) -> Tensor:
    """Return an array filled with a scalar; the default dtype is that of the scalar's kind."""
    return engine.full(_sizes(shape), fill_value, dtype=dtype, device=device)


def full_like(x: Tensor, /, fill_value: complex, *, dtype: Dtype | None = None, device: Any = None) -> Tensor:
    """Return an array filled with a scalar, with the shape, dtype and device of `x`."""
    return engine.full_like(x, fill_value, dtype=dtype, device=device)


def linspace(
    start: complex, stop: complex, /, num: int, *, dtype: Dtype | None = None, device: Any = None, endpoint: bool = True
) -> Tensor:  # fmt: skip
    """Return `num` evenly spaced values from `start` to `stop`, which is excluded if `endpoint` is False."""
    if dtype is None:
        dtype = max((engine.get_default_dtype(), of_scalar(start), of_scalar(stop)), key=lambda d: d.rank)
    if endpoint or num == 0:
        return engine.linspace(start, stop, num, dtype=dtype, device=device)
    return engine.linspace(start, stop, num + 1, dtype=dtype, device=device)[:-1]


def meshgrid(*arrays: Tensor, indexing: str = "xy") -> tuple[Tensor, ...]:
    """Return coordinate grids from 1-D coordinates, with "xy" (Cartesian) or "ij" (matrix) indexing."""
    if indexing not in ("xy", "ij"):
        raise ValueError(f"meshgrid: indexing must be 'xy' or 'ij', got {indexing!r}")
    return tuple(engine.meshgrid(*arrays, indexing=indexing)) if arrays else ()


def ones(shape: Any, *, dtype: Dtype | None = None, device: Any = None) -> Tensor:
    """Return an array of ones."""
    return engine.ones(_sizes(shape), dtype=dtype, device=device)


def ones_like(x: Tensor, /, *, dtype: Dtype | None = None, device: Any = None) -> Tensor:
    """Return an array of ones with the shape, dtype and device of `x`."""
    return engine.ones_like(x, dtype=dtype, device=device)


def tril(x: Tensor, /, *, k: int = 0) -> Tensor:
    """Return the lower triangles: elements above the k-th diagonal are 0."""
    return engine.tril(x, k)


def triu(x: Tensor, /, *, k: int = 0) -> Tensor:
    """Return the upper triangles: elements below the k-th diagonal are 0."""
    return engine.triu(x, k)


def zeros(shape: Any, *, dtype: Dtype | None = None, device: Any = None) -> Tensor:
    """Return an array of zeros."""
    return engine.zeros(_sizes(shape), dtype=dtype, device=device)


def zeros_like(x: Tensor, /, *, dtype: Dtype | None = None, device: Any = None) -> Tensor:
    """Return an array of zeros with the shape, dtype and device of `x`."""
    return engine.zeros_like(x, dtype=dtype, device=device)
