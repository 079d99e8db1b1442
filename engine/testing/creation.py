"""`make_tensor`: random tensors for tests."""

from __future__ import annotations

import math
from typing import Any

from ..base import dtypes
from ..core.create import made
from ..core.op import functions
from ..core.tensor import Tensor


def make_tensor(
    *shape: Any,
    dtype: Any,
    device: Any,
    low: float | None = None,
    high: float | None = None,
    requires_grad: bool = False,
    noncontiguous: bool = False,
    exclude_zero: bool = False,
    memory_format: Any = None,
) -> Tensor:
    """Return a tensor of the given shape with values drawn uniformly from [low, high).

    The default range is [-9, 9) for floating-point and complex dtypes, -9 to 9 for signed integers, 0 to 9 for uint8, and both values for
    bool. `noncontiguous` leaves gaps between the elements; `exclude_zero` replaces zeros by the smallest positive normal value (1 for
    integers). Raises ValueError for bounds that are nan or leave an empty range, and if integers require grad.
    """
    d = dtypes.as_dtype(dtype)
    if len(shape) == 1 and isinstance(shape[0], (tuple, list)):
        shape = tuple(shape[0])
    if noncontiguous and memory_format is not None:
        raise ValueError(
            f"The parameters `noncontiguous` and `memory_format` are mutually exclusive, but got {noncontiguous} and {memory_format}"
        )
    if requires_grad and d.rank < dtypes.FLOAT:
        raise ValueError(f"`requires_grad=True` is not supported for boolean and integral dtypes, but got {dtype}")
    low, high = _bounds(d, low, high)
    size = (*shape[:-1], 2 * shape[-1]) if noncontiguous and math.prod(shape) > 1 else shape
    out = _drawn(size, d, low, high)
    if size != shape:
        out = out[..., ::2]
    elif memory_format is not None:
        out = out.clone(memory_format=memory_format)
    if exclude_zero:
        out[out == 0] = 1 if d.rank <= dtypes.INT else dtypes.finfo(d).tiny
    return made(out.array, device, requires_grad)


def _bounds(d: dtypes.dtype, low: float | None, high: float | None) -> tuple[float, float]:
    if d.rank <= dtypes.INT:
        info = dtypes.iinfo(d) if d.rank == dtypes.INT else None
        lowest, highest = (0, 2) if info is None else (info.min, info.max + 1)
        usual = (0, 2) if info is None else (0, 10) if d is dtypes.uint8 or not d.is_signed else (-9, 10)
    else:
        info = dtypes.finfo(d)
        lowest, highest, usual = info.min, info.max, (-9, 9)
    low, high = usual[0] if low is None else low, usual[1] if high is None else high
    for name, value in (("low", low), ("high", high)):
        if math.isnan(value):
            raise ValueError(f"`low` and `high` cannot be NaN, but got {name}={value}")
    if low >= high and not (low == high and d.rank >= dtypes.FLOAT):
        raise ValueError(f"`low` must be less than `high`, but got {low} >= {high}")
    low, high = max(low, lowest), min(high, highest)
    if d.rank <= dtypes.INT:
        low, high = math.ceil(low), math.ceil(high)
    if low > high or low == high and d.rank <= dtypes.INT:
        raise ValueError(f"make_tensor: there is no {d.name} from low={low} up to high={high}")
    return low, high


def _drawn(size: tuple, d: dtypes.dtype, low: float, high: float) -> Tensor:
    if d.rank <= dtypes.INT:
        return functions["randint"](low, high, size, dtype=dtypes.int64).to(d)
    if d.is_complex:
        part = d.to_real()
        return functions["complex"](_drawn(size, part, low, high), _drawn(size, part, low, high))
    half = d in (dtypes.float16, dtypes.bfloat16)
    drawn = functions["rand"](size, dtype=dtypes.float64) * 1.0
    return (low * (1 - drawn) + high * drawn).to(dtypes.float32 if half else d).to(d)
