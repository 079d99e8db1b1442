"""Factories of tensors of a given size (`zeros`, `full_like`, `x.new_ones`, ...), and functions about types and dtypes.

Every factory takes `dtype`, `device`, `requires_grad`, `layout`, which must be `torch.strided`, and `pin_memory`, ignored without a GPU.
Without `dtype`, floats get the default float dtype.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy

from ..backends.batch import Batched
from ..backends.coo import Coo
from ..base import dtypes, errors
from ..base.layout import blank, common_axes, memory_format, preserve_format, strided, strides_of, told_strides
from . import devices
from .call import into
from .tensor import Tensor, define

__all__ = [
    "can_cast",
    "empty",
    "empty_like",
    "empty_permuted",
    "empty_strided",
    "full",
    "full_like",
    "get_default_dtype",
    "is_complex",
    "is_floating_point",
    "is_tensor",
    "numel",
    "ones",
    "ones_like",
    "promote_types",
    "result_type",
    "set_default_dtype",
    "typename",
    "zeros",
    "zeros_like",
]


def made(array: Any, device: Any = None, requires_grad: bool = False) -> Tensor:
    """Wrap a new array as a tensor, on the given or the default device."""
    device = devices.default if device is None else device
    out = Tensor._wrap(array if device is None else devices.move(array, devices.device(device)))
    return out.requires_grad_() if requires_grad else out


def _new(name: str, device: Any, *args: Any) -> Any:
    """Make an array by the function `name` of a namespace: in a GPU's own memory for a GPU, else where `making` says."""
    place = devices.get_default_device() if device is None else devices.device(device)
    if place.type != "cuda":
        return getattr(devices.making(place), name)(*args)
    gpu = devices.cuda()
    with gpu.device(place.index):
        return getattr(gpu, name)(*args)


def _shape(size: tuple) -> tuple:
    if not size:
        raise TypeError("the size is missing; use () for a scalar")
    if len(size) == 1 and not hasattr(size[0], "__index__") and hasattr(size[0], "__iter__"):
        size = tuple(size[0])
    try:
        shape = tuple([n.__index__() for n in size])
    except AttributeError:
        raise TypeError(f"expected sizes as integers, got {size!r}") from None
    if shape and min(shape) < 0:
        raise RuntimeError(f"Trying to create tensor with negative dimension {min(shape)}: {list(shape)}")
    return shape


def as_wanted(dtype: Any) -> numpy.dtype:
    """The NumPy dtype of a `dtype` argument; None is the default dtype."""
    if dtype is None:
        return dtypes.default.numpy
    if isinstance(dtype, str):
        raise TypeError(f"argument 'dtype' must be torch.dtype, not str: {dtype!r}")
    return dtypes.as_numpy(dtype)


def factory(make: Any) -> Any:
    """Add the arguments of all PyTorch factories to a function that makes tensors.

    `out`: a tensor to write the result to, whose dtype is the default for `dtype`. `layout`: strided only. `size`
    may be given by name.
    """

    @functools.wraps(make)
    def call(*args: Any, **kwargs: Any) -> Tensor:
        if kwargs:
            if "layout" in kwargs:
                kind = kwargs.pop("layout")
                if kind is not None and kind is not strided:
                    raise NotImplementedError(f"{make.__name__}: tensors are strided here, got layout={kind!r}")
            if kwargs.pop("pin_memory", False) and devices.cuda_available():
                return call(*args, **kwargs).pin_memory()
            if "size" in kwargs and not args and make.__code__.co_flags & 4:
                args = (kwargs.pop("size"),)
            if "out" in kwargs:
                out = kwargs.pop("out")
                if out is not None:
                    said = {"dtype": out.dtype} if "dtype" in (make.__kwdefaults__ or ()) else {}
                    return into(call, args, {**said, **kwargs, "out": out})
        try:
            return make(*args, **kwargs)
        except MemoryError as error:
            errors.out_of_memory(make.__name__, error)

    call.name, call.call = make.__name__, call  # type: ignore[attr-defined]
    return call


# -- filled --------------------------------------------------------------------------------------------------------------


@factory
def zeros(*size: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """Return a tensor of zeros; the size is given as integers or as one sequence."""
    return made(_new("zeros", device, _shape(size), as_wanted(dtype)), device, requires_grad)


@factory
def ones(*size: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """Return a tensor of ones; the size is given as integers or as one sequence."""
    return made(_new("ones", device, _shape(size), as_wanted(dtype)), device, requires_grad)


@factory
def empty(
    *size: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False, memory_format: memory_format | None = None
) -> Tensor:
    """Return an uninitialized tensor in the given memory format; the size is given as integers or as one sequence."""
    if memory_format is preserve_format:
        raise RuntimeError("unsupported memory format Preserve")
    shape, d, new = _shape(size), as_wanted(dtype), functools.partial(_new, "empty", device)
    return made(new(shape, d) if memory_format is None else blank(new, shape, d, memory_format), device, requires_grad)


@factory
def empty_strided(size: Any, stride: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """Return an uninitialized tensor with the given strides (in elements), in the smallest storage that holds it."""
    shape, stride, d = _shape((size,)), tuple(stride), as_wanted(dtype)
    if len(shape) != len(stride):
        raise RuntimeError(f"dimensionality of sizes ({len(shape)}) must match dimensionality of strides ({len(stride)})")
    if any(s < 0 for s in stride):
        raise RuntimeError(f"Storage size calculation overflowed with sizes={list(shape)} and strides={list(stride)}")
    reach = 0 if 0 in shape else sum((n - 1) * s for n, s in zip(shape, stride, strict=True)) + 1
    xp = devices.making(device)
    return made(xp.strided(xp.empty(reach, d), shape, tuple(s * d.itemsize for s in stride)), device, requires_grad)


@factory
def empty_permuted(size: Any, physical_layout: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """Return an uninitialized dense tensor whose dimensions are in the order `physical_layout` in memory, outermost first."""
    shape, axes = _shape((size,)), tuple(physical_layout)
    if len(shape) != len(axes):
        raise RuntimeError(
            "Number of dimensions in size does not match the length of the physical_layout; i.e. "
            f"len(size) = {len(shape)} is not equal to len(physical_layout) = {len(axes)}"
        )
    if any(not 0 <= a < len(shape) for a in axes):
        raise RuntimeError(f"Dimension out of range (expected to be between 0 and {len(shape) - 1}, but got {list(axes)})")
    if len(set(axes)) < len(axes):
        raise RuntimeError("Duplicate dim not allowed")
    return empty_strided(shape, strides_of(shape, axes), dtype=dtype, device=device, requires_grad=requires_grad)


@factory
def full(size: Any, fill_value: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """Return a tensor filled with `fill_value`. Without `dtype`, the value's type gives it: bool, int64, default float or complex."""
    if hasattr(size, "__index__"):
        raise TypeError(f"full(): argument 'size' (position 1) must be tuple of ints, not {type(size).__name__}")
    fill_value = number(fill_value, "full", "fill_value", 2)
    d = dtypes.of_scalar(fill_value) if dtype is None else dtypes.as_dtype(dtype)
    return made(_new("full", device, _shape((size,)), dtypes.fitting(fill_value, d), d.numpy), device, requires_grad)


def number(value: Any, function: str, argument: str, position: int = 0, kind: str = "Number") -> Any:
    """Return a number that a function was given. A 0-d tensor that does not require grad is one; else raises TypeError.

    Args:
        value: what was given.
        function: the function's name, for the message.
        argument: the argument's name, likewise.
        position: its position from 1; 0 for one that is given by name only.
        kind: "Number", or "float" for a real one.
    """
    if isinstance(value, Tensor) and value.node is None and not value.array.ndim:
        value = value.item()
    if not isinstance(value, (int, float, numpy.generic) if kind == "float" else (int, float, complex, numpy.generic)):
        place = f" (position {position})" if position else ""
        raise TypeError(f"{function}(): argument {argument!r}{place} must be {kind}, not {type(value).__name__}")
    return value.item() if isinstance(value, numpy.generic) else value


def _like(input: Tensor, fill: Any, dtype: Any, device: Any, requires_grad: bool, format: memory_format | tuple | None) -> Tensor:
    if not isinstance(input, Tensor):
        raise TypeError(f"argument 'input' (position 1) must be Tensor, not {type(input).__name__}")
    if device is None and devices.several and (place := devices.elsewhere((input,))) is not None:
        with place:
            return _like(input, fill, dtype, device, requires_grad, format)
    d = input.array.dtype if dtype is None else as_wanted(dtype)
    if input.array.__class__ is Coo:
        if fill:
            raise NotImplementedError("a sparse tensor cannot be filled with a number that is not 0; use to_dense() first")
        none: Any = input.detach().clone().zero_()
        return none.to(dtype=dtypes.FROM_NUMPY[d], device=device).requires_grad_(requires_grad)
    like = input.array if device is None else devices.pattern(input.array, device)
    xp = devices.namespace(like)
    if format in (None, preserve_format) and isinstance(like, numpy.ndarray) and 0 in like.strides:
        format = common_axes(like.shape, [told_strides(like)])  # an expanded dimension has no order in memory
    if format is None or format is preserve_format:
        array = xp.empty_like(like, dtype=d) if fill is None else xp.full_like(like, fill, dtype=d)
    else:
        array = blank(xp.empty, like.shape, d, format)
        if fill is not None:
            array[...] = fill
    return made(array, devices.of(array) if device is None else device, requires_grad)


@factory
def zeros_like(
    input: Tensor, *, dtype: Any = None, device: Any = None, requires_grad: bool = False, memory_format: memory_format | tuple | None = None
) -> Tensor:
    """Return zeros with the shape of `input`, and by default its dtype, device and memory layout."""
    return _like(input, 0, dtype, device, requires_grad, memory_format)


@factory
def ones_like(
    input: Tensor, *, dtype: Any = None, device: Any = None, requires_grad: bool = False, memory_format: memory_format | None = None
) -> Tensor:
    """Return ones with the shape of `input`, and by default its dtype, device and memory layout."""
    return _like(input, 1, dtype, device, requires_grad, memory_format)


@factory
def full_like(
    input: Tensor,
    fill_value: Any,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    memory_format: memory_format | None = None,
) -> Tensor:
    """Return `fill_value` everywhere in the shape of `input`, by default with its dtype, device and memory layout."""
    d = dtypes.as_dtype(input.dtype if dtype is None else dtype)
    return _like(input, dtypes.fitting(number(fill_value, "full_like", "fill_value", 2), d), dtype, device, requires_grad, memory_format)


@factory
def empty_like(
    input: Tensor, *, dtype: Any = None, device: Any = None, requires_grad: bool = False, memory_format: memory_format | None = None
) -> Tensor:
    """Return an uninitialized tensor with the shape of `input`, and by default its dtype, device and memory layout."""
    return _like(input, None, dtype, device, requires_grad, memory_format)


# -- methods of a tensor: x.new_zeros(...) --------------------------------------------------------------------------------


def _beside(make: Any, doc: str) -> Any:
    def new(self: Tensor, *size: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False, **kwargs: Any) -> Tensor:
        out = make(*size, dtype=dtype or self.dtype, device=device or self.device, **kwargs)
        if self.array.__class__ is Batched:
            out.array = self.array.own(out.array)
        return out.requires_grad_() if requires_grad else out

    new.__name__ = new.__qualname__ = f"new_{make.__name__}"
    new.__doc__ = doc
    return new


define("new_zeros", _beside(zeros, "Return zeros of a size, by default with this tensor's dtype and device."))
define("new_ones", _beside(ones, "Return ones of a size, by default with this tensor's dtype and device."))
define("new_empty", _beside(empty, "Return an uninitialized tensor of a size, by default with this tensor's dtype and device."))
define("new_full", _beside(full, "Return a tensor filled with a value, by default with this tensor's dtype and device."))
define(
    "new_empty_strided",
    _beside(empty_strided, "Return an uninitialized tensor with any strides, by default with this tensor's dtype and device."),
)


# -- types and dtypes ----------------------------------------------------------------------------------------------------


def _tensor(input: Any, name: str) -> Tensor:
    if not isinstance(input, Tensor):
        raise TypeError(f"{name}(): argument 'input' (position 1) must be Tensor, not {type(input).__name__}")
    return input


def is_tensor(obj: Any) -> bool:
    """Whether an object is a Tensor."""
    return isinstance(obj, Tensor)


def typename(obj: Any) -> str:
    """Return the name of an object's type: for a tensor such as "torch.FloatTensor", else with its module."""
    if isinstance(obj, Tensor):
        return obj.type()
    kind = obj if hasattr(obj, "__qualname__") else type(obj)
    module = getattr(kind, "__module__", None)
    return kind.__qualname__ if module in (None, "builtins") else f"{module}.{kind.__qualname__}"


def numel(input: Tensor) -> int:
    """Return the number of elements of a tensor."""
    return _tensor(input, "numel").array.size


def is_floating_point(input: Tensor) -> bool:
    """Whether a tensor has a floating-point dtype."""
    return _tensor(input, "is_floating_point").dtype.is_floating_point


def is_complex(input: Tensor) -> bool:
    """Whether a tensor has a complex dtype."""
    return _tensor(input, "is_complex").dtype.is_complex


def result_type(tensor: Any, other: Any) -> dtypes.dtype:
    """Return the dtype of an arithmetic op on two tensors or numbers."""
    return dtypes.result(tuple(x.array if isinstance(x, Tensor) else x for x in (tensor, other)))


def promote_types(type1: dtypes.dtype, type2: dtypes.dtype) -> dtypes.dtype:
    """Return the smallest dtype to which both can be cast. Raises RuntimeError for pairs that PyTorch does not promote."""
    return dtypes.promote(dtypes.as_dtype(type1), dtypes.as_dtype(type2))


def can_cast(from_: dtypes.dtype, to: dtypes.dtype) -> bool:
    """Whether a result of one dtype may be stored in another: not complex in real, float in integer, nor anything but bool in bool."""
    return dtypes.as_dtype(from_).rank <= dtypes.as_dtype(to).rank


def get_default_dtype() -> dtypes.dtype:
    """Return the dtype of tensors made from Python floats."""
    return dtypes.default


def set_default_dtype(d: dtypes.dtype) -> None:
    """Set the dtype of tensors made from Python floats. Raises TypeError if it is not a floating-point dtype."""
    dtypes.set_default(dtypes.as_dtype(d))
