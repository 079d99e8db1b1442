"""Making tensors: from data, from NumPy, filled, ranges; and questions about dtypes.

Everything here takes PyTorch's keywords: `dtype`, `device`, `requires_grad`. Without `dtype`, floats get the default float dtype.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy

from . import devices, dtypes
from .call import into
from .tensor import Tensor, to_array

__all__ = [
    "arange",
    "as_tensor",
    "asarray",
    "can_cast",
    "empty",
    "empty_like",
    "eye",
    "from_dlpack",
    "from_numpy",
    "full",
    "full_like",
    "get_default_dtype",
    "is_complex",
    "is_floating_point",
    "is_tensor",
    "linspace",
    "logspace",
    "numel",
    "ones",
    "ones_like",
    "promote_types",
    "result_type",
    "scalar_tensor",
    "set_default_dtype",
    "tensor",
    "tril_indices",
    "triu_indices",
    "zeros",
    "zeros_like",
]


def made(array: Any, device: Any = None, requires_grad: bool = False) -> Tensor:
    """A new tensor around an array that nobody else holds."""
    out = Tensor._wrap(array if device is None else devices.move(array, devices.device(device)))
    return out.requires_grad_() if requires_grad else out


def _shape(size: tuple) -> tuple:
    if len(size) == 1 and not hasattr(size[0], "__index__") and hasattr(size[0], "__iter__"):
        size = tuple(size[0])
    try:
        shape = tuple(n.__index__() for n in size)
    except AttributeError:
        raise TypeError(f"expected sizes as integers, got {size!r}") from None
    if any(n < 0 for n in shape):
        raise RuntimeError(f"Trying to create tensor with negative dimension {min(shape)}: {list(shape)}")
    return shape


def _numpy(dtype: Any) -> numpy.dtype:
    return dtypes.default.numpy if dtype is None else dtypes.as_numpy(dtype)


def _outward(make: Any) -> Any:
    """The function with `out=` besides, a tensor that takes the result and, unless told otherwise, says its dtype."""

    @functools.wraps(make)
    def call(*args: Any, **kwargs: Any) -> Tensor:
        if kwargs.get("out") is None:
            kwargs.pop("out", None)
            return make(*args, **kwargs)
        return into(call, args, {"dtype": kwargs["out"].dtype, **kwargs})

    call.name, call.call = make.__name__, call  # type: ignore[attr-defined]
    return call


# -- from data -----------------------------------------------------------------------------------------------------------


def tensor(data: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """A tensor with a copy of the data: a number, nested lists of equal length, a NumPy array.

    Python floats become the default dtype, ints int64, bools bool.
    """
    return made(to_array(data, dtype, device), None, requires_grad)


def as_tensor(data: Any, dtype: Any = None, device: Any = None) -> Tensor:
    """The data as a tensor, without a copy when it is a tensor or a NumPy array of that dtype and device already."""
    if isinstance(data, Tensor):
        return data if dtype is None and device is None else data.to(dtype=dtype, device=device)
    if isinstance(data, numpy.ndarray) and data.dtype in dtypes.FROM_NUMPY and data.dtype.isnative:
        return as_tensor(from_numpy(data), dtype, device)
    return tensor(data, dtype=dtype, device=device)


def asarray(obj: Any, *, dtype: Any = None, device: Any = None, copy: bool | None = None, requires_grad: bool = False) -> Tensor:
    """The object as a tensor. `copy` None shares memory where it can, True always copies, False raises ValueError where it must."""
    found = as_tensor(obj, dtype, device)
    shares = found is obj or isinstance(obj, numpy.ndarray) and not found.is_cuda and numpy.may_share_memory(found.array, obj)
    if copy is False and not shares:
        raise ValueError("can't alias arbitrary sequence or a tensor of another dtype or device into a tensor")
    if copy and shares:
        found = found.detach().clone()
    return found.requires_grad_(requires_grad) if requires_grad else found


def from_numpy(ndarray: numpy.ndarray) -> Tensor:
    """A tensor that shares the memory of a NumPy array: a change of one is seen in the other. TypeError for dtypes tensors lack."""
    if not isinstance(ndarray, numpy.ndarray):
        raise TypeError(f"expected np.ndarray (got {type(ndarray).__name__})")
    known = dtypes.FROM_NUMPY.get(ndarray.dtype)
    if known is None or not ndarray.dtype.isnative:
        raise TypeError(
            f"can't convert np.ndarray of type {ndarray.dtype}. The only supported types are: {', '.join(d.name for d in dtypes.ALL)}."
        )
    if any(s < 0 for s in ndarray.strides):
        raise ValueError(
            "At least one stride in the given numpy array is negative, and tensors with negative strides are not supported. Copy it first."
        )
    return Tensor._wrap(ndarray.view(numpy.ndarray) if ndarray.dtype is known.numpy else ndarray.view(known.numpy))


def from_dlpack(ext_tensor: Any) -> Tensor:
    """A tensor that shares the memory of any object with `__dlpack__`."""
    on_gpu = ext_tensor.__dlpack_device__()[0] == 2
    return Tensor._wrap(devices.cuda().from_dlpack(ext_tensor)) if on_gpu else from_numpy(numpy.from_dlpack(ext_tensor))


def scalar_tensor(s: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """A 0-d tensor that holds a number, of the default float dtype unless told otherwise."""
    return made(numpy.array(s, dtype=_numpy(dtype)), device, requires_grad)


# -- filled --------------------------------------------------------------------------------------------------------------


@_outward
def zeros(*size: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """A tensor of zeros; the size is given as integers or as one sequence."""
    return made(numpy.zeros(_shape(size), _numpy(dtype)), device, requires_grad)


@_outward
def ones(*size: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """A tensor of ones."""
    return made(numpy.ones(_shape(size), _numpy(dtype)), device, requires_grad)


def empty(
    *size: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False, memory_format: Any = None, pin_memory: bool = False
) -> Tensor:
    """A tensor whose elements are whatever the memory held."""
    return made(numpy.empty(_shape(size), _numpy(dtype)), device, requires_grad)


@_outward
def full(size: Any, fill_value: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """A tensor with the same number everywhere; the number decides the dtype: bool, int64, the default float, complex."""
    if isinstance(fill_value, Tensor):
        fill_value = fill_value.item()
    d = dtypes.of_scalar(fill_value) if dtype is None else dtypes.as_dtype(dtype)
    return made(numpy.full(_shape((size,)), fill_value, d.numpy), device, requires_grad)


def _like(input: Tensor, fill: Any, dtype: Any, device: Any, requires_grad: bool) -> Tensor:
    d = input.array.dtype if dtype is None else dtypes.as_numpy(dtype)
    xp = devices.namespace(input.array)
    array = xp.empty_like(input.array, dtype=d) if fill is None else xp.full_like(input.array, fill, dtype=d)
    return made(array, device, requires_grad)


def zeros_like(input: Tensor, *, dtype: Any = None, device: Any = None, requires_grad: bool = False, memory_format: Any = None) -> Tensor:
    """Zeros with the shape, and unless told otherwise the dtype and device, of another tensor."""
    return _like(input, 0, dtype, device, requires_grad)


def ones_like(input: Tensor, *, dtype: Any = None, device: Any = None, requires_grad: bool = False, memory_format: Any = None) -> Tensor:
    """Ones, like another tensor."""
    return _like(input, 1, dtype, device, requires_grad)


def full_like(
    input: Tensor, fill_value: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False, memory_format: Any = None
) -> Tensor:
    """One number everywhere, like another tensor."""
    return _like(input, fill_value, dtype, device, requires_grad)


def empty_like(input: Tensor, *, dtype: Any = None, device: Any = None, requires_grad: bool = False, memory_format: Any = None) -> Tensor:
    """A tensor of unset elements, like another tensor."""
    return _like(input, None, dtype, device, requires_grad)


# -- ranges --------------------------------------------------------------------------------------------------------------


@_outward
def arange(start: Any, end: Any = None, step: Any = 1, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """The numbers from `start` (0 when only one is given) up to but without `end`, `step` apart; int64 when all three are integers."""
    start, end = (0, start) if end is None else (start, end)
    start, end, step = (x.item() if isinstance(x, Tensor) else x for x in (start, end, step))
    if step == 0:
        raise RuntimeError("step must be nonzero")
    if (end - start) * step < 0:
        raise RuntimeError(f"upper bound and lower bound inconsistent with step sign: arange({start}, {end}, {step})")
    whole = all(isinstance(x, (int, numpy.integer)) for x in (start, end, step))
    d = _numpy(dtype) if dtype is not None or not whole else dtypes.I64
    if not all(map(math.isfinite, (start, end, step))):
        raise RuntimeError(f"unsupported range: {start} -> {end}")
    if d == dtypes.I64:
        start, end, step, whole = int(start), int(end), int(step), True  # also when they were floats
    n = -((start - end) // step) if whole else math.ceil((end - start) / step)
    steps = numpy.arange(n, dtype=numpy.int64 if whole else numpy.float64)
    if d.kind in "iu":
        start, step = int(start), int(step)
    return made((start + steps * step).astype(d), device, requires_grad)


@_outward
def linspace(start: Any, end: Any, steps: int, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """`steps` numbers from `start` to `end`, both included, evenly apart."""
    start, end = (x.item() if isinstance(x, Tensor) else x for x in (start, end))
    d = _numpy(dtype)
    return made(_evenly(start, end, steps, d).astype(d), device, requires_grad)


def _evenly(start: Any, end: Any, steps: int, d: numpy.dtype) -> numpy.ndarray:
    """Numbers evenly apart; for integers, between the bounds' integer parts and counted from the nearer one, as PyTorch does."""
    if steps < 0:
        raise RuntimeError("number of steps must be non-negative")
    if d.kind not in "iu" or steps < 2:
        return numpy.linspace(start, end, steps)
    start, end, i = int(start), int(end), numpy.arange(steps)
    step = (end - start) / (steps - 1)
    return numpy.where(i < steps // 2, start + step * i, end - step * (steps - 1 - i))


@_outward
def logspace(
    start: Any, end: Any, steps: int, base: float = 10.0, *, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """`base` to the power of `steps` numbers evenly apart from `start` to `end`."""
    start, end = (x.item() if isinstance(x, Tensor) else x for x in (start, end))
    d = _numpy(dtype)
    if d.kind in "iu":
        start, end = int(start), int(end)
        powers = start + (end - start) / max(steps - 1, 1) * numpy.arange(steps) if steps >= 0 else _evenly(start, end, steps, d)
    else:
        powers = _evenly(start, end, steps, d)
    return made(numpy.power(float(base), powers).astype(d), device, requires_grad)


@_outward
def eye(n: int, m: int | None = None, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """The identity matrix, n by n or n by m."""
    for name, size in (("n", n), ("m", m)):
        if size is not None and size < 0:
            raise RuntimeError(f"{name} must be greater or equal to 0, got {size}")
    return made(numpy.eye(n, m, dtype=_numpy(dtype)), device, requires_grad)


def tril_indices(row: int, col: int, offset: int = 0, *, dtype: Any = dtypes.int64, device: Any = None) -> Tensor:
    """Rows and columns, as a (2, n) tensor, of the elements on and below a diagonal of a matrix."""
    return made(numpy.stack(numpy.tril_indices(row, offset, col)).astype(_numpy(dtype)), device)


def triu_indices(row: int, col: int, offset: int = 0, *, dtype: Any = dtypes.int64, device: Any = None) -> Tensor:
    """Rows and columns, as a (2, n) tensor, of the elements on and above a diagonal of a matrix."""
    return made(numpy.stack(numpy.triu_indices(row, offset, col)).astype(_numpy(dtype)), device)


# -- beside a tensor: x.new_zeros(...) ------------------------------------------------------------------------------------


def _beside(make: Any, doc: str) -> Any:
    def new(self: Tensor, *size: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
        return make(*size, dtype=dtype or self.dtype, device=device or self.device, requires_grad=requires_grad)

    new.__name__ = new.__qualname__ = f"new_{make.__name__}"
    new.__doc__ = doc
    return new


def _new_tensor(self: Tensor, data: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """A tensor with a copy of the data, of this tensor's dtype and on its device."""
    return tensor(data, dtype=dtype or self.dtype, device=device or self.device, requires_grad=requires_grad)


Tensor.new_zeros = _beside(zeros, "Zeros of a size, of this tensor's dtype and on its device.")  # type: ignore[attr-defined]
Tensor.new_ones = _beside(ones, "Ones of a size, of this tensor's dtype and on its device.")  # type: ignore[attr-defined]
Tensor.new_empty = _beside(empty, "Unset elements of a size, of this tensor's dtype and on its device.")  # type: ignore[attr-defined]
Tensor.new_full = _beside(full, "One number everywhere, of this tensor's dtype and on its device.")  # type: ignore[attr-defined]
Tensor.new_tensor = _new_tensor  # type: ignore[attr-defined]


# -- questions -----------------------------------------------------------------------------------------------------------


def is_tensor(obj: Any) -> bool:
    """Whether an object is a Tensor."""
    return isinstance(obj, Tensor)


def numel(input: Tensor) -> int:
    """How many elements a tensor has."""
    return input.array.size


def is_floating_point(input: Tensor) -> bool:
    """Whether a tensor holds floats."""
    return input.dtype.is_floating_point


def is_complex(input: Tensor) -> bool:
    """Whether a tensor holds complex numbers."""
    return input.dtype.is_complex


def result_type(tensor1: Any, tensor2: Any) -> dtypes.dtype:
    """The dtype of an arithmetic op on two tensors or numbers."""
    return dtypes.result(tuple(x.array if isinstance(x, Tensor) else x for x in (tensor1, tensor2)))


def promote_types(type1: dtypes.dtype, type2: dtypes.dtype) -> dtypes.dtype:
    """The smallest dtype that both can be turned into."""
    return dtypes.promote(dtypes.as_dtype(type1), dtypes.as_dtype(type2))


def can_cast(from_: dtypes.dtype, to: dtypes.dtype) -> bool:
    """Whether a result of one dtype may be stored in another: not complex in real, float in integers, nor anything but bool in bool."""
    return dtypes.as_dtype(from_).rank <= dtypes.as_dtype(to).rank


def get_default_dtype() -> dtypes.dtype:
    """The dtype that Python floats become."""
    return dtypes.default


def set_default_dtype(d: dtypes.dtype) -> None:
    """Choose the dtype that Python floats become: a floating-point one."""
    dtypes.set_default(dtypes.as_dtype(d))
