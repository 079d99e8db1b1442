"""Array functions that NumPy does not have, in plain form: the reference implementations that faster kernels are tested against."""

from __future__ import annotations

import functools
from collections.abc import Callable
from importlib import import_module
from typing import Any

import ml_dtypes
import numpy

from ..base.layout import blank, condensed, overlaps, preserve_format, told_strides
from .pointers import address


def reshape(x: Any, shape: Any) -> Any:
    """Return the elements with another shape; a view where the strides allow it."""
    return x.reshape(shape)


def view(x: Any, shape: Any = None, dtype: Any = None) -> Any:
    """Return the same memory with another shape, or reinterpreted as another dtype; ValueError when the strides do not allow it."""
    if dtype is not None:
        return x.view(dtype)
    out = x.reshape(shape)
    owner = x.base if isinstance(x.base, x.__class__) else x
    if out.base is not owner and x.size:
        raise ValueError(
            "view size is not compatible with input tensor's size and stride "
            "(at least one dimension spans across two contiguous subspaces). Use .reshape(...) instead."
        )
    return out


def swapaxes(x: Any, a: int, b: int) -> Any:
    """Swap two dimensions; a 0-d array is returned as a view."""
    return x.swapaxes(a, b) if x.ndim or not {a, b} <= {0, -1} else x.view()


def moveaxis(x: Any, source: Any, destination: Any) -> Any:
    """Move dimensions to other positions; a 0-d array is returned as a view."""
    if x.ndim or isinstance(source, (tuple, list)) and len(source) != 1:
        return module_of(x).moveaxis(x, source, destination)
    return swapaxes(x, *(d[0] if isinstance(d, (tuple, list)) else d for d in (source, destination)))


def transpose(x: Any, axes: Any) -> Any:
    """Permute the dimensions."""
    return x.transpose(axes)


def matrix_transpose(x: Any) -> Any:
    """Swap the last two dimensions."""
    return x.swapaxes(-1, -2)


def expand_dims(x: Any, axis: Any) -> Any:
    """Insert a new dimension of size 1 at `axis`, as a view; AxisError if `axis` is out of range."""
    if not isinstance(axis, int):
        return numpy.expand_dims(x, axis)
    shape, n = x.shape, x.ndim + 1
    if not -n <= axis < n:
        raise numpy.exceptions.AxisError(axis, n)
    axis %= n
    return x.reshape(shape[:axis] + (1,) + shape[axis:])


def broadcast_to(x: Any, shape: Any) -> Any:
    """Broadcast to a shape without copying: a view with stride 0 along the expanded dimensions; ValueError for incompatible shapes."""
    if x.shape == shape:
        return x[...]
    if not isinstance(x, numpy.ndarray) or x.base is not None and not isinstance(x.base, numpy.ndarray):
        return module_of(x).broadcast_to(x, shape)
    lead = len(shape) - x.ndim
    strides = [0] * lead
    for have, want, stride in zip(x.shape, shape[lead:] if lead >= 0 else (), x.strides, strict=True):
        if have != want and have != 1:
            raise ValueError(f"an array of shape {x.shape} does not broadcast to {tuple(shape)}")
        strides.append(stride if have == want else 0)
    out = strided(x, shape, strides)
    out.flags.writeable = x.flags.writeable
    return out


def diagonal(x: Any, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Any:
    """Return a view of a diagonal, writable if the array is."""
    out = x.diagonal(offset, dim1, dim2)
    if isinstance(out, numpy.ndarray):
        out.flags.writeable = x.flags.writeable
    return out


def put_diagonal(value: Any, shape: tuple, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Any:
    """Return zeros of `shape` with `value` on a diagonal."""
    out = new_zeros(value, shape)
    diagonal(out, offset, dim1, dim2)[...] = value
    return out


def _in_memory_order(owner: numpy.ndarray) -> numpy.ndarray:
    """Transpose the array so that its dimensions are in memory order: C-contiguous if the array is dense."""
    if owner.flags.c_contiguous:
        return owner
    return owner.transpose(sorted(range(owner.ndim), key=lambda dim: -owner.strides[dim]))


def _restrided(view: Any, shape: tuple, strides: tuple) -> Any:
    """Give a view on a GPU other strides. CuPy's `as_strided` makes an array without a `base`, which writes would not be traced to."""
    view._set_shape_and_strides(shape, strides, True, True)
    return view


def strided(x: Any, shape: tuple, strides: tuple, dtype: Any = None) -> Any:
    """Return a view of the array's memory with any shape and strides (in bytes), whose `base` is the array that owns the memory."""
    if not isinstance(x, numpy.ndarray):
        return _restrided(x.view(), shape, strides)
    owner = x.base if isinstance(x.base, numpy.ndarray) else x
    buffer = _in_memory_order(owner)
    at = 0 if owner is x else address(x) - address(owner)
    return x.__class__(shape, dtype or x.dtype, buffer, at, strides)


def strided_view(x: Any, size: tuple, stride: tuple, offset: int) -> Any:
    """Return a view of the array's storage; size, stride and offset are in elements. ValueError if it goes out of bounds."""
    owner = x.base if isinstance(x.base, x.__class__) else x
    buffer, there = _in_memory_order(owner), owner.size * owner.itemsize
    reach = offset + sum((n - 1) * s for n, s in zip(size, stride, strict=True)) if 0 not in size else 0
    if offset < 0 or reach * x.itemsize >= there and 0 not in size:
        told = f"sizes {list(size)}, strides {list(stride)}, storage offset {offset}"
        raise ValueError(f"{told} are out of bounds for storage of size {there // x.itemsize}")
    if not isinstance(x, numpy.ndarray):
        return _restrided(buffer.ravel()[offset:], size, tuple([s * x.itemsize for s in stride]))
    out = x.__class__(size, x.dtype, buffer, min(offset * x.itemsize, there), tuple(s * x.itemsize for s in stride))
    out.flags.writeable = owner.flags.writeable
    return out


def _reach(layout: tuple) -> int:
    """Return the number of elements of the smallest storage that holds a (size, stride, offset) layout."""
    size, stride, offset = layout
    return 0 if 0 in size else 1 + offset + sum((n - 1) * s for n, s in zip(size, stride, strict=True))


def _places(lib: Any, layout: tuple) -> Any:
    """Return the storage index of every element of a (size, stride, offset) layout."""
    size, stride, offset = layout
    at = lib.full((1,) * len(size), offset)
    for d, (n, s) in enumerate(zip(size, stride, strict=True)):
        at = at + (lib.arange(n) * s).reshape((-1,) + (1,) * (len(size) - d - 1))
    return at


def nan_to_num(x: Any, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None) -> Any:
    """Replace nan and the infinities, by default with 0 and the dtype's largest finite values."""
    lib = module_of(x)
    if x.dtype.kind == "c" or x.dtype.itemsize > 2 or x.dtype.kind in "biu":
        return lib.nan_to_num(x, nan=nan, posinf=posinf, neginf=neginf)
    most = float(ml_dtypes.finfo(x.dtype).max)
    wide = lib.nan_to_num(
        x.astype("float32"), nan=nan, posinf=most if posinf is None else posinf, neginf=-most if neginf is None else neginf
    )
    return wide.astype(x.dtype)


def restride(x: Any, source: tuple, target: tuple) -> Any:
    """Add the elements into zeroed storage of layout `source` and read it back as `target`; a layout is (size, stride, offset)."""
    lib = module_of(x)
    storage = lib.zeros(max(_reach(source), _reach(target)), x.dtype)
    accumulate("add", storage, _places(lib, source), x)
    return storage[_places(lib, target)]


def laid_out(x: Any, format: Any) -> Any:
    """Return a copy of the array in a memory format."""
    lib = module_of(x)
    if format is preserve_format:
        return lib.array(x)
    out = blank(lib.empty, x.shape, x.dtype, format)
    out[...] = x
    return out


def view_as_real(x: Any) -> Any:
    """View complex elements as pairs (real, imaginary) in a new last dimension."""
    x = numpy.asarray(x) if isinstance(x, numpy.generic) else x  # NumPy returns a scalar for the conjugate of a 0-d array
    half = x.real
    if not isinstance(x, numpy.ndarray):
        return module_of(x).lib.stride_tricks.as_strided(half, (*x.shape, 2), (*x.strides, half.itemsize))
    return strided(half, (*x.shape, 2), (*x.strides, half.itemsize))


def view_as_complex(x: Any) -> Any:
    """View pairs in the last dimension as complex elements; ValueError if the strides do not allow it."""
    if not x.size:  # the strides of an empty array are meaningless
        return module_of(x).zeros(x.shape[:-1], numpy.result_type(x.dtype, numpy.complex64))
    if x.strides[-1] != x.itemsize:
        raise ValueError("Tensor must have a last dimension with stride 1")
    if any(s % (2 * x.itemsize) for s, n in zip(x.strides, x.shape[:-1], strict=False) if n != 1):
        raise ValueError("Tensor must have a stride divisible by 2 for all but last dimension")
    wide = numpy.result_type(x.dtype, numpy.complex64)
    return strided(x, x.shape[:-1], x.strides[:-1], wide) if isinstance(x, numpy.ndarray) else x.view(wide)[..., 0]


def frexp(x: Any) -> tuple:
    """Decompose into mantissas with magnitude in [0.5, 1) and exponents of 2."""
    return tuple(module_of(x).frexp(x))


def windows(x: Any, dim: int, size: int, step: int) -> Any:
    """View all windows of `size` elements along `dim`, `step` apart, in a new last dimension; ValueError for a bad size or step."""
    dim = _axis(x, dim)
    n = x.shape[dim] if x.ndim else 1
    if size > n:
        raise ValueError(f"maximum size for tensor at dimension {dim} is {n} but size is {size}")
    if size < 0 or step <= 0:
        raise ValueError(f"size is {size} but must be >= 0, step is {step} but must be > 0")
    if not x.ndim:
        return x.reshape(1)[:size]
    shape, strides = list(x.shape), list(x.strides)
    shape[dim], strides[dim] = (n - size) // step + 1, strides[dim] * step
    return strided(x, (*shape, size), (*strides, x.strides[dim]))


def put_windows(value: Any, shape: tuple, dim: int, size: int, step: int) -> Any:
    """Return zeros of `shape` with windows added where `windows` reads them: its transpose."""
    out = new_zeros(value, shape)
    if not shape:
        return value.reshape(-1)[0] + out if size else out
    dim %= len(shape)
    n = value.shape[dim]
    for k in range(size):
        out[(slice(None),) * dim + (slice(k, k + n * step, step),)] += value[..., k]
    return out


def flip(x: Any, axis: Any = None) -> Any:
    """Reverse the elements along the given dimensions; a copy, since other libraries may mishandle negative strides."""
    axis = (axis,) if isinstance(axis, int) else axis
    if axis is not None and len({d % max(x.ndim, 1) for d in axis}) != len(axis):
        raise ValueError(f"dim {axis[-1]} appears multiple times in the list of dims")
    turned = numpy.flip(x, axis if x.ndim else ())
    return condensed(turned, x.dtype, x) if 0 in x.strides and overlaps(x) else turned.copy("K")


def _axis(x: Any, dim: int) -> int:
    n = max(x.ndim, 1)
    if not -n <= dim < n:
        raise numpy.exceptions.AxisError(dim, n)
    return dim % n


def module_of(x: Any) -> Any:
    """Return the array library of an array: NumPy or CuPy, or the functions of traced arrays."""
    if isinstance(x, (numpy.ndarray, numpy.generic)):
        return numpy
    return getattr(x, "library", None) or import_module("cupy")  # a traced array names its own


def _along(fn: Callable) -> Callable:
    """Decorate `fn(x, axis, ...)`, which expects a non-negative axis, to take any valid axis, and a 0-d array as one of length 1."""

    @functools.wraps(fn)
    def call(x: Any, axis: int, *args: Any) -> Any:
        axis = _axis(x, axis)
        if x.ndim:
            return fn(x, axis, *args)
        out = fn(x.reshape(1), 0, *args)
        return tuple(o.reshape(()) for o in out) if isinstance(out, tuple) else out.reshape(())

    return call


def _through_host(fn: Callable) -> Callable:
    """Decorate a function of NumPy arrays to accept GPU arrays, by copying to the host and back."""

    @functools.wraps(fn)
    def call(x: Any, *rest: Any) -> Any:
        lib = module_of(x)
        if lib is numpy:
            return fn(x, *rest)
        found = fn(lib.asnumpy(x), *[lib.asnumpy(a) if isinstance(a, lib.ndarray) else a for a in rest])
        return tuple(map(lib.asarray, found)) if isinstance(found, tuple) else lib.asarray(found)

    return call


_ATOMIC = frozenset("iIlLqQfd")  # CuPy's dtypes for `add.at`, `maximum.at` and `minimum.at`


def accumulate(name: str, out: Any, index: Any, value: Any) -> None:
    """`numpy.<name>.at(out, index, value)` for "add", "maximum" or "minimum", on a GPU for every dtype: narrow ones through wider ones."""
    lib = module_of(out)
    if lib is numpy or out.dtype.char in _ATOMIC or out.dtype.kind == "c" and name != "add":
        getattr(lib, name).at(out, index, value)
    elif out.dtype.kind == "c":
        accumulate(name, out.real, index, value.real)
        accumulate(name, out.imag, index, value.imag)
    else:
        wide = out.astype(numpy.int32 if out.dtype.kind in "biu" else numpy.float32)
        getattr(lib, name).at(wide, index, value)
        out[...] = wide


def new_zeros(beside: Any, shape: tuple, dtype: Any = None) -> Any:
    """Return zeros on the device of `beside`, with its dtype unless another is given."""
    return module_of(beside).zeros(shape, dtype or beside.dtype)


# -- through a path of views -------------------------------------------------------------------------------------------------


def read_through(x: Any, path: tuple) -> Any:
    """Return the view of `x` at the end of a path of view ops, `((op, attrs), ...)`."""
    library = module_of(x)
    backend = {"numpy": "cpu", "cupy": "gpu.namespace"}.get(getattr(library, "__name__", ""))
    xp = library if backend is None else import_module(f"{__package__}.{backend}")
    x = module_of(x).asarray(x)  # a NumPy scalar has no views
    for op, attrs in path:
        if op.name == "strided_view" and (isinstance(x.base, x.__class__) or (x.shape, told_strides(x), 0) != attrs["source"]):
            # `x` has another layout than the path expects, as a gradient may: copy its elements into a storage with the expected one
            storage = module_of(x).zeros(_reach(attrs["source"]), x.dtype)
            storage[_places(module_of(x), attrs["source"])] = x
            x = storage
        try:
            x = op.forward(xp, x, **attrs)
        except ValueError:  # the strides of a gradient may not allow this view
            x = op.forward(xp, module_of(x).ascontiguousarray(x), **attrs)
    return x


def write_through(x: Any, value: Any, path: tuple) -> Any:
    """Return a copy of `x` in which the view at the end of the path holds `value`."""
    for order in "KC":
        out = module_of(x).array(x, order=order)  # also turns a NumPy scalar into a writable array
        seen = read_through(out, path)
        if seen is out or seen.base is out:
            seen[...] = value
            return out
    # a step of the path copies: look up where its elements lie in `x`
    out.reshape(-1)[read_through(module_of(x).arange(x.size).reshape(x.shape), path)] = value
    return out


# -- padding -----------------------------------------------------------------------------------------------------------------


def constant_pad(x: Any, pad: tuple, value: Any = 0) -> Any:
    """Pad with a constant; `pad` holds (before, after) pairs from the last dimension backwards, and negative sizes crop."""
    n = x.ndim
    widths = [(0, 0)] * (n - len(pad) // 2) + [(pad[i], pad[i + 1]) for i in range(len(pad) - 2, -1, -2)]
    shape = tuple(size + a + b for size, (a, b) in zip(x.shape, widths, strict=True))
    kept = (size + min(a, 0) + min(b, 0) for size, (a, b) in zip(x.shape, widths, strict=True))
    if min(shape, default=0) < 0 or min(kept, default=0) < 0:
        raise ValueError(
            f"The input size {list(x.shape)}, plus negative padding {list(pad)}, resulted in a negative output size, which is invalid. "
            "Check dimensions of your input."
        )
    out = module_of(x).full(shape, value, x.dtype) if value else new_zeros(x, shape)
    inner = tuple(slice(max(a, 0), size - max(b, 0)) for size, (a, b) in zip(shape, widths, strict=True))
    taken = tuple(slice(max(-a, 0), size - max(-b, 0)) for size, (a, b) in zip(x.shape, widths, strict=True))
    out[inner] = x[taken]
    return out
