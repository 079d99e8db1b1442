"""The array namespace of traced arrays: the primitives, and NumPy's functions that kernels call, as JAX functions.

A name is looked up among the functions here and in `layers.py`, then in the CPU's texts that need only other functions of the namespace
(`_TEXTS`), then in `jax.numpy` and `jax.scipy.special`. A name found nowhere raises TraceError, so that it can be added here.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from importlib import import_module
from typing import Any

import jax
import jax.numpy as jnp
import numpy
from jax import lax

from ...base.errors import at_user_line
from ..primitives import PRIMITIVES
from .array import Traced, TraceError, blank, cast, raw, wrap

_OWN: dict[str, Callable] = {}

# Of these the CPU's text is used as it is: it calls only ufuncs and methods of arrays, or `module_of` and functions of that.
_TEXTS = frozenset(
    [
        "airy_ai",
        "airy_ai_slope",
        "angle",
        "conj",
        "diagonal",
        "fmod",
        "from_parts",
        "gcd",
        "hardtanh",
        "imag",
        "lcm",
        "lerp",
        "log_sigmoid",
        "logit",
        "polynomial",
        "put_diagonal",
        "put_windows",
        "restride",
        "sgn",
        "sinc",
        "threshold",
        "times_i",
        "trunc_divide",
    ]
)


def rule(fn: Callable) -> Callable:
    """Register a function of JAX values: traced arrays are opened before the call, and its results wrapped."""
    _OWN[fn.__name__.rstrip("_")] = lambda *args, **kwargs: wrap(fn(*map(raw, args), **{k: raw(v) for k, v in kwargs.items()}))
    return fn


def of_arrays(fn: Callable) -> Callable:
    """Register a function of traced arrays themselves, such as one that makes a view."""
    _OWN[fn.__name__.rstrip("_")] = fn
    return fn


class Space:
    """The functions, looked up when first called."""

    pi, inf, nan, e, newaxis, euler_gamma = math.pi, math.inf, math.nan, math.e, None, numpy.euler_gamma
    ndarray = Traced

    def run(self, fn: Callable, args: Any, kwargs: Any) -> Any:
        """Run an op's `forward`, or a rule, on this namespace."""
        return fn(self, *args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        found = self.__dict__[name] = _writing(name, _found(name))
        return found

    def __repr__(self) -> str:
        return "<namespace of traced arrays>"


def _found(name: str) -> Callable:
    if name in _OWN:
        return _OWN[name]
    if name in _TEXTS:
        return getattr(import_module(f"engine.backends.{PRIMITIVES[name].home}"), name)
    for library in (jnp, jax.scipy.special):
        if callable(theirs := getattr(library, name, None)):
            if isinstance(theirs, type):
                return theirs
            return lambda *args, **kwargs: wrap(theirs(*map(raw, args), **{k: raw(v) for k, v in kwargs.items()}))
    raise TraceError(f"compile: the array function {name!r} has no form for XLA{at_user_line()}")


def _writing(name: str, fn: Callable) -> Callable:
    """Add the argument `out`."""

    def call(*args: Any, out: Any = None, **kwargs: Any) -> Any:
        result = fn(*args, **kwargs)
        if out is None:
            return result
        if out.__class__ is not Traced:
            raise TraceError(f"compile: {name} would write into an array from outside of the compiled step{at_user_line()}")
        out[...] = result
        return out

    call.__name__ = call.__qualname__ = name
    return call


space = Space()
Traced.library = space  # type: ignore[attr-defined]  what `reference.module_of` returns


# -- new arrays and casts ----------------------------------------------------------------------------------------------------

for _name in ("zeros", "ones", "full", "empty", "arange", "eye", "zeros_like", "ones_like", "full_like", "empty_like"):

    def _made(*args: Any, _fn: Any = getattr(jnp, _name), **kwargs: Any) -> Any:
        return wrap(_fn(*map(raw, args), **{k: raw(v) for k, v in kwargs.items() if k != "order"}))

    _OWN[_name] = _made


@of_arrays
def asarray(x: Any, dtype: Any = None) -> Any:
    if x.__class__ is not Traced:
        return wrap(jnp.asarray(raw(x), dtype))
    return x if dtype is None else x.astype(dtype, copy=False)


@of_arrays
def array(x: Any, dtype: Any = None, copy: bool = True, order: str = "K") -> Any:
    x = asarray(x, dtype)
    return x.copy() if copy else x


@of_arrays
def ascontiguousarray(x: Any) -> Any:
    return x if x.flags.c_contiguous else x.copy()


@of_arrays
def astype(x: Any, dtype: Any) -> Any:
    return asarray(x).astype(dtype, copy=False)


@of_arrays
def copy(x: Any) -> Any:
    return asarray(x).copy()


@of_arrays
def copyto(out: Any, value: Any, where: Any = True) -> None:
    out[...] = value if where is True else space.where(where, value, out)


@of_arrays
def new_zeros(beside: Any, shape: tuple, dtype: Any = None) -> Any:
    return wrap(jnp.zeros(shape, dtype or beside.dtype))


@of_arrays
def laid_out(x: Any, format: Any) -> Any:
    return asarray(x).copy()


# -- views -------------------------------------------------------------------------------------------------------------------


@of_arrays
def reshape(x: Any, shape: Any) -> Any:
    return asarray(x).reshape(shape)


@of_arrays
def view(x: Any, shape: Any = None, dtype: Any = None) -> Any:
    return import_module("engine.backends.reference").view(x, shape, dtype)


@of_arrays
def transpose(x: Any, axes: Any = None) -> Any:
    return x.transpose(*(() if axes is None else (tuple(axes),)))


permute_dims = _OWN["permute_dims"] = transpose


@of_arrays
def swapaxes(x: Any, a: int, b: int) -> Any:
    return x.swapaxes(a, b) if x.ndim or not {a, b} <= {0, -1} else x[...]


@of_arrays
def matrix_transpose(x: Any) -> Any:
    return x.swapaxes(-1, -2)


@of_arrays
def moveaxis(x: Any, source: Any, destination: Any) -> Any:
    if not x.ndim:
        return x[...]
    source, destination = (numpy.lib.array_utils.normalize_axis_tuple(axes, x.ndim) for axes in (source, destination))
    order = [n for n in range(x.ndim) if n not in source]
    for to, at in sorted(zip(destination, source, strict=True)):
        order.insert(to, at)
    return x.transpose(tuple(order))


@of_arrays
def expand_dims(x: Any, axis: Any) -> Any:
    axes = (axis,) if isinstance(axis, int) else tuple(axis)
    n = x.ndim + len(axes)
    inserted = numpy.lib.array_utils.normalize_axis_tuple(axes, n)
    return x[tuple(None if i in inserted else slice(None) for i in range(n))]


@of_arrays
def squeeze(x: Any, axis: Any = None) -> Any:
    axes = [i for i, n in enumerate(x.shape) if n == 1] if axis is None else numpy.lib.array_utils.normalize_axis_tuple(axis, x.ndim)
    if any(x.shape[i] != 1 for i in axes):
        raise ValueError("cannot select an axis to squeeze out which has size not equal to one")
    return x[tuple(0 if i in axes else slice(None) for i in range(x.ndim))]


@of_arrays
def broadcast_to(x: Any, shape: Any) -> Any:
    return asarray(x).broadcast_to(tuple(shape))


_OWN["spread_to"] = broadcast_to


@of_arrays
def real(x: Any) -> Any:
    return x.real


@of_arrays
def diagonal(x: Any, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Any:
    kept = [n for n in range(x.ndim) if n not in (dim1 % x.ndim, dim2 % x.ndim)]
    flat, last = x.transpose((*kept, dim1 % x.ndim, dim2 % x.ndim)), x.layout.diagonal(offset, dim1, dim2)
    n, k = last.shape[-1], max(offset, 0)
    rows = numpy.arange(n) + max(-offset, 0)
    columns = numpy.arange(n) + k
    return flat._view(lambda v: v[..., rows, columns], lambda v, part: v.at[..., rows, columns].set(part), last)


@of_arrays
def windows(x: Any, dim: int, size: int, step: int) -> Any:
    reference = import_module("engine.backends.reference")
    layout = reference.windows(numpy.lib.stride_tricks.as_strided(numpy.empty(1, x.dtype), x.shape, x.strides), dim, size, step)
    if not x.ndim:
        return wrap(x.value.reshape(1)[:size])
    axis = dim % x.ndim
    at = numpy.arange(layout.shape[axis])[:, None] * step + numpy.arange(size)
    moved = lambda v: jnp.moveaxis(jnp.take(v, at, axis), axis + 1, -1)  # noqa: E731
    return wrap(moved(x.value))


@of_arrays
def strided_view(x: Any, size: tuple, stride: tuple, offset: int) -> Any:
    owner = x.base or x
    if not owner.flags.c_contiguous:
        raise TraceError(f"compile: as_strided of memory that is not contiguous has no form for XLA{at_user_line()}")
    places = numpy.full((1,) * len(size), offset)
    for d, (n, s) in enumerate(zip(size, stride, strict=True)):
        places = places + (numpy.arange(n) * s).reshape((-1,) + (1,) * (len(size) - d - 1))
    if places.size and not 0 <= places.min() <= places.max() < owner.size:
        raise ValueError(
            f"sizes {list(size)}, strides {list(stride)}, storage offset {offset} are out of bounds for storage of size {owner.size}"
        )
    layout = numpy.lib.stride_tricks.as_strided(numpy.empty(1, x.dtype), size, [s * x.itemsize for s in stride])
    whole = owner.shape
    return owner._view(lambda v: v.reshape(-1)[places], lambda v, part: v.reshape(-1).at[places].set(part).reshape(whole), layout)


@of_arrays
def view_as_real(x: Any) -> Any:
    layout = blank((*x.shape, 2), x.real.dtype)
    return x._view(lambda v: jnp.stack([v.real, v.imag], -1), lambda v, part: lax.complex(part[..., 0], part[..., 1]), layout)


@of_arrays
def view_as_complex(x: Any) -> Any:
    import_module("engine.backends.reference").view_as_complex(
        numpy.lib.stride_tricks.as_strided(numpy.empty(2, x.dtype), x.shape, x.strides)
    )
    layout = blank(x.shape[:-1], numpy.result_type(x.dtype, numpy.complex64))
    return x._view(lambda v: lax.complex(v[..., 0], v[..., 1]), lambda v, part: jnp.stack([part.real, part.imag], -1), layout)


@of_arrays
def read_through(x: Any, path: tuple) -> Any:
    x = asarray(x)
    for op, attrs in path:
        try:
            x = op.forward(space, x, **attrs)
        except ValueError:  # the strides of a gradient may not allow this view
            x = op.forward(space, x.copy(), **attrs)
    return x


@of_arrays
def write_through(x: Any, value: Any, path: tuple) -> Any:
    out = asarray(x).copy()
    read_through(out, path)[...] = value
    return out


# -- joins, padding, order ---------------------------------------------------------------------------------------------------


@rule
def constant_pad(x: Any, pad: tuple, value: Any = 0) -> Any:
    pairs = list(zip(pad[0::2], pad[1::2], strict=True))[::-1]
    widths = [(0, 0, 0)] * (x.ndim - len(pairs)) + [(int(a), int(b), 0) for a, b in pairs]
    shape = [n + a + b for n, (a, b, _) in zip(x.shape, widths, strict=True)]
    if min(shape, default=0) < 0 or any(n + min(a, 0) + min(b, 0) < 0 for n, (a, b, _) in zip(x.shape, widths, strict=True)):
        raise ValueError(
            f"The input size {list(x.shape)}, plus negative padding {list(pad)}, resulted in a negative output size, which is invalid. "
            "Check dimensions of your input."
        )
    return lax.pad(x, jnp.asarray(value, x.dtype), widths)


@rule
def flip(x: Any, axis: Any = None) -> Any:
    if axis is not None and not isinstance(axis, int) and len({d % max(x.ndim, 1) for d in axis}) != len(axis):
        raise ValueError(f"dim {axis[-1]} appears multiple times in the list of dims")
    return jnp.flip(x, axis if x.ndim else ())


@rule
def sorted_(x: Any, dim: int, descending: bool, stable: bool) -> Any:
    if not x.ndim:
        return x, jnp.zeros((), numpy.int64)
    order = jnp.argsort(x, axis=dim, stable=True, descending=descending)
    return jnp.take_along_axis(x, order, dim), order.astype(numpy.int64)


@rule
def topk(x: Any, k: int, dim: int, largest: bool) -> Any:
    if not x.ndim:
        return x, jnp.zeros((), numpy.int64)
    order = jnp.take(jnp.argsort(x, axis=dim, stable=True, descending=largest), numpy.arange(k), axis=dim)
    return jnp.take_along_axis(x, order, dim), order.astype(numpy.int64)


# -- reductions --------------------------------------------------------------------------------------------------------------

for _name in ("sum", "mean", "max", "min", "prod", "any", "all", "argmax", "argmin"):

    def _reduced(x: Any, axis: Any = None, keepdims: bool = False, dtype: Any = None, *, _fn: Any = getattr(jnp, _name)) -> Any:
        x = jnp.asarray(raw(x))
        axis = tuple(axis) if isinstance(axis, list) else axis
        if not x.ndim and axis is not None and _fn in (jnp.argmax, jnp.argmin):
            axis = None
        more = {} if dtype is None or _fn not in (jnp.sum, jnp.mean, jnp.prod) else {"dtype": dtype}
        return wrap(_fn(x, axis=axis, keepdims=keepdims, **more))

    _OWN[_name] = _reduced


@rule
def count_nonzero(x: Any, axis: Any = None) -> Any:
    return jnp.sum(x != 0, axis=axis, dtype=numpy.int64)


@rule
def var(x: Any, axis: Any = None, correction: Any = 0, keepdims: bool = False, ddof: Any = None) -> Any:
    correction = correction if ddof is None else ddof
    n = math.prod(x.shape[a] for a in (range(x.ndim) if axis is None else (axis,) if isinstance(axis, int) else axis))
    apart = x - jnp.mean(x, axis, keepdims=True)
    total = jnp.sum((apart * apart.conj()).real if apart.dtype.kind == "c" else apart * apart, axis, keepdims=keepdims)
    return total / (n - correction) if n > max(correction, 0) else jnp.where(total > 0, jnp.inf, jnp.nan).astype(total.dtype)


@of_arrays
def std(x: Any, axis: Any = None, correction: Any = 0, keepdims: bool = False) -> Any:
    return space.sqrt(space.var(x, axis, correction, keepdims))


@rule
def logsumexp(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    return jax.nn.logsumexp(x, axis=axis, keepdims=keepdims)


@rule
def softmax(x: Any, axis: int) -> Any:
    return jax.nn.softmax(x, axis) if x.ndim else jnp.ones_like(x)


@rule
def log_softmax(x: Any, axis: int) -> Any:
    return jax.nn.log_softmax(x, axis) if x.ndim else jnp.zeros_like(x)


@rule
def logcumsumexp(x: Any, axis: int) -> Any:
    return lax.cumlogsumexp(x, axis % x.ndim) if x.ndim else x


@rule
def cumsum(x: Any, axis: int = 0) -> Any:
    return jnp.cumsum(x, axis) if x.ndim else x


@rule
def cumprod(x: Any, axis: int = 0) -> Any:
    return jnp.cumprod(x, axis) if x.ndim else x


@rule
def vector_norm(x: Any, ord: Any = 2.0, axis: Any = None, keepdims: bool = False) -> Any:
    if ord == 2:
        square = jnp.square(jnp.abs(x)) if x.dtype.kind == "c" else x * x
        return jnp.sqrt(jnp.sum(square, axis=axis, keepdims=keepdims))
    return jnp.linalg.vector_norm(x, ord=ord, axis=axis, keepdims=keepdims)


# -- elements ----------------------------------------------------------------------------------------------------------------


@rule
def where(condition: Any, x: Any, y: Any) -> Any:
    return jnp.where(condition, x, y)


@rule
def clip(x: Any, low: Any = None, high: Any = None) -> Any:
    x = x if low is None else jnp.maximum(x, low)
    return x if high is None else jnp.minimum(x, high)


@rule
def power(x: Any, y: Any) -> Any:
    return jnp.sqrt(x) if isinstance(y, float) and y == 0.5 else x**y


@rule
def relu(x: Any) -> Any:
    return jnp.maximum(x, 0)


@rule
def sigmoid(x: Any) -> Any:
    return jax.nn.sigmoid(x)


@rule
def silu(x: Any) -> Any:
    return x * jax.nn.sigmoid(x)


@rule
def softplus(x: Any, beta: float = 1.0, threshold: float = 20.0) -> Any:
    return jnp.where(x * beta > threshold, x, jnp.log1p(jnp.exp(jnp.minimum(x * beta, threshold))) / beta)


@rule
def gelu(x: Any, approximate: str = "none") -> Any:
    return jax.nn.gelu(x, approximate=approximate == "tanh")


@rule
def gelu_slope(x: Any, approximate: str = "none") -> Any:
    if approximate == "none":
        return 0.5 * (1 + lax.erf(x * math.sqrt(0.5))) + x * jnp.exp(-0.5 * x * x) / math.sqrt(2 * math.pi)
    k = math.sqrt(2 / math.pi)
    t = jnp.tanh(k * x * (1 + 0.044715 * x * x))
    return 0.5 * (1 + t) + (0.5 * k) * x * (1 - t * t) * (1 + 0.134145 * x * x)


@rule
def masked_fill(x: Any, mask: Any, value: Any) -> Any:
    return jnp.where(mask, jnp.asarray(value).astype(x.dtype), x)


@rule
def round_(x: Any, decimals: int = 0) -> Any:
    return jnp.round(x, decimals)


@rule
def logaddexp(x: Any, y: Any) -> Any:
    return jnp.logaddexp(x, y)


@rule
def lgamma(x: Any) -> Any:
    return jax.scipy.special.gammaln(x)


@rule
def nan_to_num(x: Any, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None) -> Any:
    return jnp.nan_to_num(x, nan=nan, posinf=posinf, neginf=neginf)


# -- products ----------------------------------------------------------------------------------------------------------------


@rule
def linear(x: Any, weight: Any, bias: Any = None) -> Any:
    y = x @ (weight.T if weight.ndim > 1 else weight)
    return y if bias is None else y + bias


@rule
def contract(operands: Any, equation: str) -> Any:
    return jnp.einsum(equation, *operands)


@rule
def einsum(equation: str, *operands: Any, **kwargs: Any) -> Any:
    return jnp.einsum(equation, *operands)


@rule
def det(x: Any) -> Any:
    return jnp.linalg.det(x)


@rule
def inv(x: Any) -> Any:
    return jnp.linalg.inv(x)


# -- elements at an index ------------------------------------------------------------------------------------------------------


@rule
def rows(weight: Any, index: Any) -> Any:
    return weight[index]


@rule
def read_rows(weight: Any, index: Any, count: int, padding_idx: int | None = None, scale: bool = False) -> Any:
    out = weight[index]
    if scale:
        out = out / _frequency(index, count, out.dtype)
    return out if padding_idx is None else jnp.where((index == padding_idx)[..., None], 0, out)


@rule
def add_rows(value: Any, index: Any, count: int, padding_idx: int | None = None, scale: bool = False) -> Any:
    if scale:
        value = value / _frequency(index, count, value.dtype)
    if padding_idx is not None:
        value = jnp.where((index == padding_idx)[..., None], 0, value)
    d = value.shape[-1]
    return jnp.zeros((count, d), value.dtype).at[index.reshape(-1)].add(value.reshape(-1, d))


def _frequency(index: Any, count: int, dtype: Any) -> Any:
    return jnp.zeros(count, dtype).at[index.reshape(-1)].add(1)[index][..., None]


@rule
def take(x: Any, index: Any, axis: Any = None) -> Any:
    return jnp.take(x, jnp.asarray(index), axis=axis)


@rule
def put(x: Any, index: Any, value: Any, accumulate: bool = False) -> Any:
    return x.at[_known(index)].add(value) if accumulate else x.at[_known(index)].set(value)


@rule
def put_zeros(value: Any, shape: tuple, index: Any) -> Any:
    return jnp.zeros(shape, value.dtype).at[_known(index)].add(value)


def _known(index: Any) -> Any:
    """The index of a write. A single mask of the whole array is handled by JAX; with others its number of True would be needed."""
    return index


@rule
def copied(x: Any, src: Any) -> Any:
    src = jnp.asarray(src)
    return jnp.broadcast_to(cast(src, x.dtype), x.shape)


@rule
def gather(x: Any, dim: int, index: Any) -> Any:
    if not x.ndim:
        return x.reshape(1)[index]
    return x[_grid(x, dim, index)]


def _grid(x: Any, dim: int, index: Any) -> tuple:
    """The full index for an index array along a dimension."""
    n = x.ndim
    places = [numpy.arange(m).reshape((-1,) + (1,) * (n - d - 1)) for d, m in enumerate(index.shape)]
    places[dim % n] = index
    return tuple(places)


def _scattered(name: str) -> Callable:
    def scatter(x: Any, dim: int, index: Any, src: Any) -> Any:
        x, index, src = map(raw, (x, index, src))
        if not x.ndim:
            return wrap(getattr(x.reshape(1).at[jnp.reshape(index, -1)], name)(jnp.reshape(src, -1)).reshape(()))
        if getattr(src, "ndim", 0):
            src = src[tuple(slice(0, n) for n in index.shape)]
        return wrap(getattr(x.at[_grid(x, dim, index)], name)(src))

    return scatter


_OWN |= {"scatter": _scattered("set"), "scatter_add": _scattered("add"), "scatter_prod": _scattered("multiply")}


@of_arrays
def scatter_extreme(x: Any, dim: int, index: Any, src: Any, reduce: str) -> Any:
    return _scattered("max" if reduce == "amax" else "min")(x, dim, index, src)


@rule
def index_select(x: Any, dim: int, index: Any) -> Any:
    return jnp.take(x, index, axis=dim) if x.ndim else jnp.broadcast_to(x, index.shape).reshape(())


@rule
def index_add(x: Any, dim: int, index: Any, source: Any, alpha: Any = 1) -> Any:
    return x.at[(slice(None),) * (dim % max(x.ndim, 1)) + (index,)].add(source if alpha == 1 else source * alpha)


@rule
def index_copy(x: Any, dim: int, index: Any, source: Any) -> Any:
    return x.at[(slice(None),) * (dim % max(x.ndim, 1)) + (index,)].set(source)


@rule
def add_along_axis(x: Any, indices: Any, size: int, axis: int) -> Any:
    axis %= x.ndim
    shape = (*x.shape[:axis], size, *x.shape[axis + 1 :])
    return jnp.zeros(shape, x.dtype).at[_grid(x, axis, indices)].add(x)


@rule
def take_along_axis(x: Any, indices: Any, axis: int = -1) -> Any:
    return jnp.take_along_axis(x, indices, axis)


import_module(f"{__package__}.layers")  # registers its functions
