"""Arrays from Python data: numbers, nested lists, tensors and arrays."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy

from ..base import dtypes
from ..base.dtypes import FROM_NUMPY
from . import devices
from .tensor import Tensor


def to_array(data: Any, dtype: Any = None, device: Any = None) -> Any:
    """Return a new array from numbers, nested lists (which may contain tensors) or arrays. It shares no memory with them.

    Python floats become the default dtype, ints int64. Raises ValueError for ragged lists, TypeError for an unsupported dtype and
    RuntimeError for values that the dtype cannot hold.
    """
    d = None if dtype is None else dtypes.as_numpy(dtype)
    if isinstance(data, Tensor):
        array = data.array.copy()
    elif isinstance(data, numpy.ndarray):
        if any(s < 0 for s in data.strides):
            raise ValueError(
                "At least one stride in the given numpy array is negative, and tensors with negative strides are not currently supported. "
                "(You can probably work around this by making a copy of your array  with array.copy().) "
            )
        if not data.dtype.isnative:
            raise ValueError(
                "given numpy array has byte order different from the native byte order. "
                "Conversion between byte orders is currently not supported."
            )
        array = numpy.array(data, order="C")  # never a subclass: a masked array or a matrix has other semantics
    elif hasattr(data, "__cuda_array_interface__"):
        array = devices.cuda().copy(devices.cuda().asarray(data))
    elif hasattr(data, "__dlpack__") and not isinstance(data, numpy.generic) and hasattr(data, "shape"):
        array = numpy.array(data)
    else:
        array = _from_nested(data, d is None)
        if d is not None:
            _check_fits(array, d)
    if d is not None and array.dtype != d:
        array = devices.namespace(array).astype(array, d)
    if array.dtype not in FROM_NUMPY:
        native = array.dtype.newbyteorder("=") if array.dtype.kind in "iufc" else array.dtype
        if native not in FROM_NUMPY:
            raise TypeError(f"can't make a tensor of {array.dtype} data; the supported dtypes are {', '.join(x.name for x in dtypes.ALL)}")
        array = array.astype(native)
    elif array.dtype is not FROM_NUMPY[array.dtype].numpy:
        array = array.astype(FROM_NUMPY[array.dtype].numpy)  # one dtype object per type: the call path compares by identity
    return array if device is None else devices.move(array, devices.device(device))


def _check_fits(array: numpy.ndarray, d: numpy.dtype) -> None:
    """Raise for values that a dtype cannot hold; negative values wrap around in unsigned integers."""
    if array.dtype.kind == "c" and d.kind != "c" and d.kind in "iufV":
        raise TypeError("must be real number, not complex")
    if d.kind not in "iu" or array.dtype.kind not in "iuf" or not array.size:
        return
    limits = numpy.iinfo(d)
    low = limits.min if d.kind == "i" else -limits.max
    if array.dtype.kind == "f" and not numpy.isfinite(array).all() or array.min() < low or array.max() > limits.max:
        raise RuntimeError(f"value cannot be converted to type {d.name} without overflow")


def _uneven(nested: list) -> Exception:
    """The error for ragged lists: it names the first element that differs in length or depth from the first elements."""
    sizes, first = [], nested
    while isinstance(first, list):
        sizes.append(len(first))
        first = first[0] if first else None

    def look(x: Any, dim: int) -> Exception | None:
        if dim == len(sizes):
            return TypeError(f"{type(x).__name__!r} object cannot be interpreted as a number") if isinstance(x, list) else None
        if not isinstance(x, list):
            return TypeError(f"not a sequence at dim {dim}, where a sequence of length {sizes[dim]} is expected, but {x!r}")
        if len(x) != sizes[dim]:
            return ValueError(f"expected sequence of length {sizes[dim]} at dim {dim} (got {len(x)})")
        return next((wrong for v in x if (wrong := look(v, dim + 1)) is not None), None)

    return look(nested, 0) or ValueError("expected a nested list with rows of equal length")


def _from_nested(data: Any, by_default: bool) -> numpy.ndarray:
    seen: dict[Any, Any] = {}  # one example of each number type and each array dtype in the data

    def plain(x: Any) -> Any:
        if isinstance(x, (list, tuple, range)) or isinstance(x, Sequence) and not isinstance(x, (str, bytes)):
            kinds = dict(zip(map(type, x), x, strict=True))
            if kinds.keys() <= {bool, int, float, complex}:  # without a call for each number
                seen.update(kinds | seen)
                return list(x)
            return [plain(v) for v in x]
        if hasattr(x, "dtype"):
            if isinstance(x, Tensor):
                if x is not data and x.array.size != 1:
                    raise ValueError("only one element tensors can be converted to Python scalars")
                x = x._host().reshape(())
            x = numpy.asarray(x)
            seen.setdefault(x.dtype, x)
        else:
            seen.setdefault(x.__class__, x)
        return x

    nested = plain(data)
    try:
        array = numpy.array(nested)
    except ValueError:
        raise _uneven(nested) from None
    if by_default and int in seen and array.dtype != dtypes.I64 and seen.keys() <= {bool, int}:
        raise ValueError("Overflow when unpacking long long")
    if array.dtype.kind == "f" and seen.keys() <= {bool, int}:  # NumPy makes floats of integers beyond int64 mixed with others
        try:
            array = numpy.array(nested, numpy.uint64)
        except OverflowError as error:
            raise RuntimeError(f"value cannot be converted to an integer type without overflow: {error}") from None
    if array.dtype.kind in "OUSM":
        wrong = next(t for t in seen if t not in (bool, int, float, complex))
        first = data
        while isinstance(first, (list, tuple)) and first:
            first = first[0]
        if wrong is str and first is not data and isinstance(first, str):
            raise ValueError("too many dimensions 'str'")
        if wrong in (str, bytes):
            raise TypeError(f"new(): invalid data type {wrong.__name__!r}")
        kind = RuntimeError if isinstance(wrong, type) else TypeError
        raise kind(f"Could not infer dtype of {getattr(wrong, '__name__', wrong)}")
    found = [FROM_NUMPY.get(x.dtype) if hasattr(x, "dtype") else dtypes.of_scalar(x) for x in seen.values()] or [dtypes.default]
    if not by_default or None in found:
        return array
    return array.astype(functools.reduce(dtypes.promote, found).numpy, copy=False)
