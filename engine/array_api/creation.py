"""Making arrays: the standard's creation functions."""

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
    """Numbers from `start` to before `stop`; none where `step` leads away from it. Of integers the dtype is int64, else the default one."""
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
    """An array of numbers, nested sequences of them, an array of any library, or what has Python's buffer protocol.

    `copy`: None shares memory where it can, True never does, False is a ValueError where it cannot. Arrays keep their gradients' way.
    """
    if isinstance(obj, Tensor):
        moved = obj.to(dtype=obj.dtype if dtype is None else dtype, device=obj.device if device is None else device, copy=bool(copy))
        if copy is False and moved is not obj:
            raise ValueError("asarray: another dtype or device takes a copy, which copy=False forbids")
        return moved
    if isinstance(obj, (bytes, bytearray, memoryview, numpy.ndarray)) or type(obj).__module__ == "array":
        view = obj if isinstance(obj, numpy.ndarray) else numpy.asarray(memoryview(obj))
        if not view.flags.writeable or not view.dtype.isnative or any(n < 0 for n in view.strides):  # as no tensor's memory is
            if copy is False:
                raise ValueError("asarray: memory that is read-only, backwards or swapped takes a copy, which copy=False forbids")
            view = view.astype(view.dtype.newbyteorder("="), order="C")
        obj = view
    if copy is False and (is_number(obj) or isinstance(obj, (list, tuple))):
        raise ValueError(f"asarray: a {type(obj).__name__} takes a copy, which copy=False forbids")
    return engine.asarray(obj, dtype=dtype, device=device, copy=copy)


def empty(shape: Any, *, dtype: Dtype | None = None, device: Any = None) -> Tensor:
    """An array whose elements have not been set."""
    return engine.empty(_sizes(shape), dtype=dtype, device=device)


def empty_like(x: Tensor, /, *, dtype: Dtype | None = None, device: Any = None) -> Tensor:
    """An array of the same shape, whose elements have not been set."""
    return engine.empty_like(x, dtype=dtype, device=device)


def eye(n_rows: int, n_cols: int | None = None, /, *, k: int = 0, dtype: Dtype | None = None, device: Any = None) -> Tensor:
    """A matrix of zeros with ones on the k-th diagonal, counted upwards."""
    n_cols = n_rows if n_cols is None else n_cols
    rows = engine.arange(n_rows, device=device)[:, None]
    return (rows + k == engine.arange(n_cols, device=device)).to(engine.get_default_dtype() if dtype is None else dtype)


def from_dlpack(x: Any, /, *, device: Any = None, copy: bool | None = None) -> Tensor:
    """An array that shares the memory of any object with `__dlpack__`; on another `device`, or with `copy`, its own."""
    return engine.from_dlpack(x, device=device, copy=copy)


def full(shape: Any, fill_value: complex, *, dtype: Dtype | None = None, device: Any = None) -> Tensor:
    """An array of one number; the dtype is by default that of the number's kind."""
    return engine.full(_sizes(shape), fill_value, dtype=dtype, device=device)


def full_like(x: Tensor, /, fill_value: complex, *, dtype: Dtype | None = None, device: Any = None) -> Tensor:
    """An array of one number, of the shape, dtype and device of `x`."""
    return engine.full_like(x, fill_value, dtype=dtype, device=device)


def linspace(
    start: complex, stop: complex, /, num: int, *, dtype: Dtype | None = None, device: Any = None, endpoint: bool = True
) -> Tensor:  # fmt: skip
    """`num` numbers from `start` to `stop` in equal steps; without the `endpoint`, to one step before it."""
    if dtype is None:
        dtype = max((engine.get_default_dtype(), of_scalar(start), of_scalar(stop)), key=lambda d: d.rank)
    if endpoint or num == 0:
        return engine.linspace(start, stop, num, dtype=dtype, device=device)
    return engine.linspace(start, stop, num + 1, dtype=dtype, device=device)[:-1]


def meshgrid(*arrays: Tensor, indexing: str = "xy") -> tuple[Tensor, ...]:
    """The coordinates of a grid from those along its axes: "xy" with rows second, "ij" in the order of the arguments."""
    if indexing not in ("xy", "ij"):
        raise ValueError(f"meshgrid: indexing must be 'xy' or 'ij', got {indexing!r}")
    return tuple(engine.meshgrid(*arrays, indexing=indexing)) if arrays else ()


def ones(shape: Any, *, dtype: Dtype | None = None, device: Any = None) -> Tensor:
    """An array of ones."""
    return engine.ones(_sizes(shape), dtype=dtype, device=device)


def ones_like(x: Tensor, /, *, dtype: Dtype | None = None, device: Any = None) -> Tensor:
    """An array of ones, of the shape, dtype and device of `x`."""
    return engine.ones_like(x, dtype=dtype, device=device)


def tril(x: Tensor, /, *, k: int = 0) -> Tensor:
    """The matrices with zeros above the k-th diagonal."""
    return engine.tril(x, k)


def triu(x: Tensor, /, *, k: int = 0) -> Tensor:
    """The matrices with zeros below the k-th diagonal."""
    return engine.triu(x, k)


def zeros(shape: Any, *, dtype: Dtype | None = None, device: Any = None) -> Tensor:
    """An array of zeros."""
    return engine.zeros(_sizes(shape), dtype=dtype, device=device)


def zeros_like(x: Tensor, /, *, dtype: Dtype | None = None, device: Any = None) -> Tensor:
    """An array of zeros, of the shape, dtype and device of `x`."""
    return engine.zeros_like(x, dtype=dtype, device=device)
