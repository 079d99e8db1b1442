"""Ranges as tensors, rounded as in PyTorch: `arange`, `linspace`, `logspace`, `eye`, and the indices of triangles."""

from __future__ import annotations

import math
import operator
import warnings
from typing import Any

import numpy

from ..base import dtypes
from . import devices
from .create import as_wanted, factory, made
from .tensor import Tensor

__all__ = ["arange", "eye", "linspace", "logspace", "range", "tril_indices", "triu_indices"]


def _known(array: numpy.ndarray, device: Any, requires_grad: bool = False) -> Tensor:
    """Wrap a new array, which is the same in each replay if a CUDA graph is captured."""
    place = devices.get_default_device() if device is None else devices.device(device)
    if place.type == "cuda" and devices.cuda().memory.capturing():
        return made(devices.gpu.copy(devices.gpu.memory.upload(array)), device, requires_grad)
    return made(array, device, requires_grad)


def _number(x: Any) -> Any:
    if isinstance(x, Tensor) and x.node is None and not x.ndim:
        x = x.item()
    if not isinstance(x, (int, float, complex, numpy.number)):
        raise TypeError(f"expected a Number as bound of a range, got {type(x).__name__}: {x!r}")
    return x


def _real(x: Any) -> Any:
    """`_number` for a real number: a complex one with imaginary part 0 is accepted, as in PyTorch."""
    x = _number(x)
    if isinstance(x, complex) and x.imag:
        raise RuntimeError("value cannot be converted to type double without overflow")
    return x.real if isinstance(x, complex) else x


def _added(start: Any, step: Any, i: Any, d: numpy.dtype) -> numpy.ndarray:
    """start + step * i in a float dtype, rounded once, as a fused instruction does."""
    wide = numpy.longdouble if d == dtypes.F64 else numpy.float64
    return (wide(start) + wide(step) * i).astype(d)


def _steps(start: Any, step: Any, n: int, d: numpy.dtype) -> numpy.ndarray:
    """n values from `start` on, `step` apart. PyTorch computes 32 bytes at a time from a rounded base, and the rest one by one."""
    if d not in (dtypes.F32, dtypes.F64):
        return (start + numpy.arange(n) * step).astype(d)
    i, lanes = numpy.arange(n), 32 // d.itemsize
    lane = numpy.where(i < n - n % lanes, i % lanes, 0)
    return _added((numpy.float64(start) + numpy.float64(step) * (i - lane)).astype(d), d.type(step), lane, d)


def _check(start: Any, end: Any, step: Any, name: str) -> None:
    """Raise RuntimeError if `step` does not lead from `start` to `end`."""
    if step == 0:
        raise RuntimeError("step must be nonzero")
    if not all(map(math.isfinite, (start, end, step))):
        raise RuntimeError(f"unsupported range: {start} -> {end}")
    if (end - start) * step < 0:
        raise RuntimeError(f"upper bound and lower bound inconsistent with step sign: {name}({start}, {end}, {step})")


def _whole(start: Any, end: Any, step: Any, name: str) -> tuple[int, int, int]:
    """The integer parts of the three. Raises RuntimeError if that of the step is 0, for which PyTorch crashes."""
    if not int(step):
        raise RuntimeError(f"{name}: a step of {step} between integers is 0")
    return int(start), int(end), int(step)


@factory
def arange(
    start: Any = None, end: Any = None, step: Any = 1, *, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """Return the values from `start` (by default 0) up to but not including `end`, `step` apart; int64 if all three are integers.

    Raises RuntimeError for a step of 0 or of the wrong sign, and for bounds that are not finite.
    """
    if end is None and start is None:
        raise TypeError("arange() received no bounds, but expected arange(end) or arange(start, end, step=1)")
    start, end = (0, start) if end is None else (0 if start is None else start, end)
    start, end, step = map(_real, (start, end, step))
    whole = all(isinstance(x, (int, numpy.integer)) for x in (start, end, step))
    d = as_wanted(dtype) if dtype is not None or not whole else dtypes.I64
    if d.kind in "bc":
        raise NotImplementedError(f'"arange_cpu" not implemented for {dtypes.FROM_NUMPY[d].name!r}')
    _check(start, end, step, "arange")
    if d == dtypes.I64:
        start, end, step, whole = *_whole(start, end, step, "arange"), True  # also for floats
    n = -((start - end) // step) if whole else math.ceil((end - start) / step)
    if d.kind in "iu":
        return _known((int(start) + numpy.arange(n, dtype=numpy.int64) * int(step)).astype(d), device, requires_grad)
    return _known(_steps(start, step, n, d), device, requires_grad)


@factory
def range(start: Any, end: Any = None, step: Any = 1, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """Return the values from `start` to `end`, both included, `step` apart. Deprecated, with a warning, as in PyTorch: use `arange`."""
    warnings.warn(
        "torch.range is deprecated and will be removed in a future release because its behavior is inconsistent with Python's range "
        "builtin. Instead, use torch.arange, which produces values in [start, end).",
        UserWarning,
        stacklevel=3,
    )
    if end is None:
        raise TypeError('range() missing 1 required positional arguments: "end"')
    d = as_wanted(dtype)
    if d.kind in "bc" or d.kind == "u" and d.itemsize > 1:
        raise NotImplementedError(f'"range_cpu" not implemented for {dtypes.FROM_NUMPY[d].name!r}')
    start, end, step = map(_real, (start, end, step))
    _check(start, end, step, "range")
    if d.kind in "iu":
        start, end, step = _whole(start, end, step, "range")
    n = int((end - start) / step) + 1
    return _known((start + numpy.arange(n) * step).astype(d), device, requires_grad)


def evenly(start: Any, end: Any, steps: int, d: numpy.dtype) -> numpy.ndarray:
    """`steps` evenly spaced values, each computed from the nearer bound; with an integer dtype between the bounds' integer parts."""
    if not isinstance(steps, (int, numpy.integer)):
        if not isinstance(steps, Tensor) or steps.ndim or steps.dtype.is_floating_point:
            raise TypeError(f"linspace(): argument 'steps' must be int, not {type(steps).__name__}")
        steps = operator.index(steps)
    if steps < 0:
        raise RuntimeError("number of steps must be non-negative")
    if d.kind in "iu" and steps:
        start, end = (int(dtypes.fitting(x, dtypes.FROM_NUMPY[d])) for x in (start, end))
    if steps == 0 or steps == 1:
        return numpy.full(steps, start).astype(d)
    if d.kind == "b":
        raise NotImplementedError("linspace: not implemented for bool")
    i, real = numpy.arange(steps), d if d in (dtypes.F32, dtypes.F64) else dtypes.F64 if d.kind in "iu" else dtypes.F32
    if d.kind == "c":
        return (start + (end - start) / (steps - 1) * i).astype(d)
    start, end = real.type(start), real.type(end)
    step = ((end - start) / real.type(steps - 1)).astype(real if d.kind in "iu" else d)
    return numpy.where(i < steps // 2, _added(start, step, i, real), _added(end, -step, steps - 1 - i, real)).astype(d)


def _dtype(name: str, start: Any, end: Any, dtype: Any) -> numpy.dtype:
    complex_ = any(isinstance(x, complex) for x in (start, end))
    d = dtypes.default.to_complex().numpy if complex_ and dtype is None else as_wanted(dtype)
    if complex_ and d.kind != "c":
        raise RuntimeError(f"torch.{name}(): inferred dtype complex can't be safely cast to passed dtype {dtypes.FROM_NUMPY[d].name}")
    return d


def _scalars(name: str, *given: Any) -> list:
    for x in given:
        if isinstance(x, Tensor) and x.ndim:
            raise RuntimeError(f"{name} only supports 0-dimensional start and end tensors, but got one with {x.ndim} dimension(s).")
    return [x.item() if isinstance(x, Tensor) else _number(x) for x in given]


@factory
def linspace(start: Any, end: Any, steps: int, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """Return `steps` evenly spaced values from `start` to `end`, both included."""
    start, end = _scalars("linspace", start, end)
    return _known(evenly(start, end, steps, _dtype("linspace", start, end, dtype)), device, requires_grad)


@factory
def logspace(
    start: Any, end: Any, steps: int, base: float = 10.0, *, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """Return `base` to the power of `steps` evenly spaced values from `start` to `end`."""
    start, end = _scalars("logspace", start, end)
    d = _dtype("logspace", start, end, dtype)
    if d.kind in "iu":
        start, end = (start, end) if steps == 1 else (int(start), int(end))
        powers = start + (end - start) / max(steps - 1, 1) * numpy.arange(steps) if steps >= 0 else evenly(start, end, steps, d)
        return _known(numpy.power(float(base), powers).astype(d), device, requires_grad)
    powers = evenly(start, end, steps, d).astype(dtypes.F64 if d.kind == "f" or d.kind == "V" else numpy.complex128)
    return _known(numpy.power(float(base), powers).astype(d), device, requires_grad)


@factory
def eye(n: int, m: int | None = None, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """Return the n by n identity matrix, or n by m with ones on the diagonal."""
    for name, size in (("n", n), ("m", m)):
        if size is not None and size < 0:
            raise RuntimeError(f"{name} must be greater or equal to 0, got {size}")
    return _known(numpy.eye(n, m, dtype=as_wanted(dtype)), device, requires_grad)


def _triangle(name: str, find: Any, row: int, col: int, offset: int, dtype: Any, device: Any) -> Tensor:
    for side, n in (("row", row), ("col", col)):
        if n < 0:
            raise RuntimeError(f"{side} must be non-negative, got{n}")
    d = as_wanted(dtypes.int64 if dtype is None else dtype)
    if d.kind not in "i":
        raise NotImplementedError(f'"{name}" not implemented for {dtypes.FROM_NUMPY[d].name!r}')
    return _known(numpy.stack(find(row, offset, col)).astype(d), device)


@factory
def tril_indices(row: int, col: int, offset: int = 0, *, dtype: Any = dtypes.int64, device: Any = None) -> Tensor:
    """Return the row and column indices of the elements on and below a diagonal of a (row, col) matrix, as a (2, n) tensor."""
    return _triangle("tril_indices", numpy.tril_indices, row, col, offset, dtype, device)


@factory
def triu_indices(row: int, col: int, offset: int = 0, *, dtype: Any = dtypes.int64, device: Any = None) -> Tensor:
    """Return the row and column indices of the elements on and above a diagonal of a (row, col) matrix, as a (2, n) tensor."""
    return _triangle("triu_indices", numpy.triu_indices, row, col, offset, dtype, device)
