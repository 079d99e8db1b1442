"""Pooling and resampling: maxima and means over windows, and resized images."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy

from ..backends.windows import each
from ..base import dtypes
from ..base.errors import Refused, warn
from ..base.layout import as_channels
from ..core.arguments import parsed
from ..core.devices import known
from ..core.op import Linear, Op, composite, functions
from ..core.tensor import Tensor
from .antialias import antialiased
from .front import refuse_whole_numbers

_INNER = {"promotion": "only rules and composites use it, on floats.", "zero_size": "PyTorch has no function of this name; max_pool2d and avg_pool2d have the test."}
_FLOATS = {"promotion": "integer and bool kernels exist in PyTorch for some of these dtypes only."}


class tap_scatter(Linear):
    """Put each element at the tap of its window, with zeros elsewhere."""
    home, inputs, exempt, halves = "", ("input", "taps"), _INNER, True
    examples = ((((1, 2, 2, 2), [[[[0, 3], [1, 2]], [[1, 1], [0, 0]]]]), {"size": (1, 2, 5, 4), "kernel": (2, 2)}),)
    formula = "scatter(input, taps)"
    def forward(xp, input, taps, size, kernel, stride=None, padding=0, dilation=1, ceil_mode=False): return xp.tap_scatter(input, taps, size, kernel, stride, padding, dilation, ceil_mode)
    def d_input(xp, g, taps, kernel, stride, padding, dilation, ceil_mode): return xp.tap_gather(g, taps, kernel, stride, padding, dilation, ceil_mode)


class tap_gather(Linear):
    """The element at the tap of each window."""
    home, inputs, exempt, halves = "", ("input", "taps"), _INNER, True
    examples = ((((1, 2, 5, 4), [[[[0, 3], [1, 2]], [[1, 1], [0, 0]]]]), {"kernel": (2, 2)}),)
    formula = "gather(input, taps)"
    def forward(xp, input, taps, kernel, stride=None, padding=0, dilation=1, ceil_mode=False): return xp.tap_gather(input, taps, kernel, stride, padding, dilation, ceil_mode)
    def d_input(xp, g, taps, shape, kernel, stride, padding, dilation, ceil_mode): return xp.tap_scatter(g, taps, shape, kernel, stride, padding, dilation, ceil_mode)


class MaxPool(Op):
    """Base of the max pools, with their rule; it needs only the tap of each maximum."""
    home, inputs, method, aux, exempt, halves = "nn.functional", ("input",), False, ("taps",), _FLOATS, True
    laid = staticmethod(as_channels)
    formula = "max over windows of input"


class max_pool1d(MaxPool):
    """The largest element of each window of signals (N, C, L)."""
    examples = ((((2, 3, 8),), {"kernel_size": 2}), (((3, 9),), {"kernel_size": 3, "stride": 2, "padding": 1, "ceil_mode": True}))
    def forward(xp, input, kernel_size: int | Sequence[int], stride: int | Sequence[int] | None = None, padding: int | Sequence[int] = 0, dilation: int | Sequence[int] = 1, ceil_mode: bool = False): return xp.max_pool(input, 1, kernel_size, stride, padding, dilation, ceil_mode)
    def d_input(xp, g, taps, shape, kernel_size, stride, padding, dilation, ceil_mode): return xp.tap_scatter(g, taps, shape, each(kernel_size, 1, "kernel_size"), stride, padding, dilation, ceil_mode)


class max_pool2d(MaxPool):
    """The largest element of each window of images (N, C, H, W)."""
    examples = ((((2, 3, 6, 4),), {"kernel_size": 2}), (((3, 7, 6),), {"kernel_size": (3, 2), "stride": (2, 1), "padding": 1, "ceil_mode": True}), (((1, 2, 6, 7),), {"kernel_size": 2, "stride": 1, "dilation": 2}))
    def forward(xp, input, kernel_size: int | Sequence[int], stride: int | Sequence[int] | None = None, padding: int | Sequence[int] = 0, dilation: int | Sequence[int] = 1, ceil_mode: bool = False): return xp.max_pool(input, 2, kernel_size, stride, padding, dilation, ceil_mode)
    def d_input(xp, g, taps, shape, kernel_size, stride, padding, dilation, ceil_mode): return xp.tap_scatter(g, taps, shape, each(kernel_size, 2, "kernel_size"), stride, padding, dilation, ceil_mode)


class max_pool3d(MaxPool):
    """The largest element of each window of volumes (N, C, D, H, W)."""
    examples = ((((2, 2, 4, 5, 4),), {"kernel_size": 2}), (((2, 4, 5, 4),), {"kernel_size": 3, "stride": 2, "padding": 1}))
    def forward(xp, input, kernel_size: int | Sequence[int], stride: int | Sequence[int] | None = None, padding: int | Sequence[int] = 0, dilation: int | Sequence[int] = 1, ceil_mode: bool = False): return xp.max_pool(input, 3, kernel_size, stride, padding, dilation, ceil_mode)
    def d_input(xp, g, taps, shape, kernel_size, stride, padding, dilation, ceil_mode): return xp.tap_scatter(g, taps, shape, each(kernel_size, 3, "kernel_size"), stride, padding, dilation, ceil_mode)


class max_pool_with_indices(Op):
    """The largest element of each window, and its flat index over the pooled dimensions."""
    home, inputs, outputs, differentiable, aux, exempt, halves = "", ("input",), ("out", "indices"), ("out",), ("taps",), _INNER, True
    laid = staticmethod(as_channels)
    examples = ((((2, 3, 6, 4),), {"n": 2, "kernel_size": 2}), (((3, 7, 6),), {"n": 2, "kernel_size": (3, 2), "stride": (2, 1), "padding": 1, "ceil_mode": True}))
    formula = "max over windows of input"
    def forward(xp, input, n, kernel_size: int | Sequence[int], stride: int | Sequence[int] | None = None, padding: int | Sequence[int] = 0, dilation: int | Sequence[int] = 1, ceil_mode: bool = False):
        out, taps = xp.max_pool(input, n, kernel_size, stride, padding, dilation, ceil_mode)
        return out, xp.tap_places(taps, input.shape[-n:], kernel_size, stride, padding, dilation, ceil_mode), taps
    def d_input(xp, g, taps, shape, n, kernel_size, stride, padding, dilation, ceil_mode): return xp.tap_scatter(g, taps, shape, each(kernel_size, n, "kernel_size"), stride, padding, dilation, ceil_mode)


def _max_pool(n):
    only_values = functions[f"nn.functional.max_pool{n}d"]

    @parsed
    def max_pool(input, kernel_size: int | Sequence[int], stride: int | Sequence[int] | None = None, padding: int | Sequence[int] = 0, dilation: int | Sequence[int] = 1, ceil_mode: bool = False, return_indices=False):
        if return_indices: return tuple(max_pool_with_indices(input, n, kernel_size, stride, padding, dilation, ceil_mode))
        return only_values(input, kernel_size, stride, padding, dilation, ceil_mode)

    max_pool.__name__, max_pool.__doc__ = f"max_pool{n}d", only_values.__doc__ + " With `return_indices` a tuple: the maxima, and their flat indices."
    functions[f"max_pool{n}d"], functions[f"nn.functional.max_pool{n}d"] = only_values, max_pool


for _n in (1, 2, 3): _max_pool(_n)


class avg_pool(Linear):
    """The mean of each window over the last dimensions."""
    home, inputs, exempt, halves = "", ("input",), _INNER, True
    laid = staticmethod(as_channels)
    examples = ((((2, 3, 5, 4),), {"kernel_size": (2, 2)}), (((3, 7, 6),), {"kernel_size": (3, 2), "stride": (2, 1), "padding": (1, 0), "ceil_mode": True, "count_include_pad": False}))
    formula = "mean over windows of input"

    @classmethod
    def prepare(cls, arrays):
        d = getattr(arrays[0], "dtype", None)
        if getattr(d, "kind", "f") in "biu" and d != dtypes.int64.numpy: raise Refused(f"not implemented for {d}; convert the input with .float()", NotImplementedError)
        return super().prepare(arrays)

    def forward(xp, input, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True, divisor_override=None): return xp.avg_pool(input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)
    def d_input(xp, g, shape, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override): return xp.avg_pool_back(g, shape, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)


class avg_pool_back(Linear):
    """The transpose of a mean over windows: spread each element over its window, in a result of shape `size`."""
    home, inputs, exempt, halves = "", ("input",), _INNER, True
    examples = ((((2, 3, 2, 2),), {"size": (2, 3, 5, 4), "kernel_size": (2, 2)}),)
    formula = "spread of input over windows"
    def forward(xp, input, size, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True, divisor_override=None): return xp.avg_pool_back(input, size, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)
    def d_input(xp, g, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override): return xp.avg_pool(g, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)


def _mean(input, n, kernel_size, *settings):
    if n == 2 and input.ndim < 3: raise IndexError(f"avg_pool2d: dimension out of range: expected images (N, C, H, W) or (C, H, W), but got {list(input.shape)}")
    if input.ndim not in (n + 1, n + 2): raise RuntimeError(f"avg_pool{n}d: Expected {n + 1}D or {n + 2}D (batch mode) tensor, but got input of size: {list(input.shape)}")
    if settings[-1] == 0: raise RuntimeError(f"avg_pool{n}d: divisor must be not zero")
    sides = sizes(kernel_size, n, "kernel_size")
    if n == 3 and any(m < k for m, k in zip(input.shape[-3:], sides, strict=True)):  # as in PyTorch, for any padding and for volumes only
        raise RuntimeError(f"avg_pool3d: expected an input of at least the kernel's size {list(sides)}, but got {list(input.shape[-3:])}")
    return avg_pool(input, sides, *settings)


def sizes(value, n, name):
    """Return one value for each of n dimensions. Raises RuntimeError for a sequence of another length."""
    try:
        return each(value, n, name)
    except Refused as refused:
        raise RuntimeError(str(refused)) from None


@composite(home="nn.functional")
@parsed
def avg_pool1d(input: Tensor, kernel_size: int | Sequence[int], stride: int | Sequence[int] | None = None, padding: int | Sequence[int] = 0, ceil_mode: bool = False, count_include_pad: bool = True):
    """The mean of each window of signals (N, C, L) or (C, L)."""
    return _mean(input, 1, kernel_size, stride, padding, ceil_mode, count_include_pad, None)


@composite(home="nn.functional")
@parsed
def avg_pool2d(input: Tensor, kernel_size: int | Sequence[int], stride: int | Sequence[int] | None = None, padding: int | Sequence[int] = 0, ceil_mode: bool = False, count_include_pad: bool = True, divisor_override: int | None = None):
    """The mean of each window of images (N, C, H, W) or (C, H, W); `divisor_override` replaces the number of elements."""
    return _mean(input, 2, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)


@composite(home="nn.functional")
@parsed
def avg_pool3d(input: Tensor, kernel_size: int | Sequence[int], stride: int | Sequence[int] | None = None, padding: int | Sequence[int] = 0, ceil_mode: bool = False, count_include_pad: bool = True, divisor_override: int | None = None):
    """The mean of each window of volumes (N, C, D, H, W) or (C, D, H, W)."""
    return _mean(input, 3, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)


def _lp(input, n, norm_type, kernel_size, stride, ceil_mode):
    sides = sizes(kernel_size, n, "kernel_size")
    mean = functions[f"nn.functional.avg_pool{n}d"](input**norm_type, sides, stride, 0, ceil_mode)
    return (mean.sign() * mean.abs().relu() * math.prod(sides)) ** (1.0 / norm_type)


@composite(home="nn.functional")
def lp_pool1d(input, norm_type, kernel_size, stride=None, ceil_mode=False):
    """The `norm_type`-norm of each window of signals: (sum of x^p)^(1/p)."""
    return _lp(input, 1, norm_type, kernel_size, stride, ceil_mode)


@composite(home="nn.functional")
def lp_pool2d(input, norm_type, kernel_size, stride=None, ceil_mode=False):
    """The `norm_type`-norm of each window of images: (sum of x^p)^(1/p)."""
    return _lp(input, 2, norm_type, kernel_size, stride, ceil_mode)


@composite(home="nn.functional")
def lp_pool3d(input, norm_type, kernel_size, stride=None, ceil_mode=False):
    """The `norm_type`-norm of each window of volumes: (sum of x^p)^(1/p)."""
    return _lp(input, 3, norm_type, kernel_size, stride, ceil_mode)


# -- resampling and adaptive pooling ---------------------------------------------------------------------------------------


class resample(Linear):
    """Resize the last dimensions to `size`; each element is a weighted sum of neighbors in the input."""
    home, inputs, exempt = "", ("input",), _INNER
    laid = staticmethod(as_channels)
    examples = ((((2, 3, 5, 4),), {"size": (3, 7), "mode": "linear"}), (((2, 5, 4),), {"size": (3, 3), "mode": "mean"}), (((2, 1, 5),), {"size": (8,), "mode": "cubic", "align": True}))
    formula = "resample(input)"
    def forward(xp, input, size, mode, align=False, scales=()): return xp.resample(input, size, mode, align, scales)
    def d_input(xp, g, shape, size, mode, align, scales): return xp.resample_back(g, tuple(shape[-len(size):]), mode, align, scales)


class resample_back(Linear):
    """The transpose of `resample`: spread each element over the neighbors it was computed from."""
    home, inputs, exempt = "", ("input",), _INNER
    examples = ((((2, 3, 3, 7),), {"size": (5, 4), "mode": "linear"}),)
    formula = "spread of input over neighbours"
    def forward(xp, input, size, mode, align=False, scales=()): return xp.resample_back(input, size, mode, align, scales)
    def d_input(xp, g, shape, size, mode, align, scales): return xp.resample(g, tuple(shape[-len(size):]), mode, align, scales)


class adaptive_max(Op):
    """The largest element of each of `output_size` nearly equal parts, and its flat index."""
    home, inputs, outputs, differentiable, exempt = "", ("input",), ("out", "indices"), ("out",), _INNER
    aux = ("places",)
    laid = staticmethod(as_channels)
    examples = ((((2, 3, 5, 4),), {"output_size": (3, 2)}), (((2, 7),), {"output_size": (3,)}))
    formula = "max over parts of input"
    def forward(xp, input, output_size):
        out, places = xp.adaptive_max(input, output_size)
        return out, places, places
    def d_input(xp, g, places, shape, output_size): return xp.flat_scatter(g, places, tuple(shape[-len(output_size):]))


class flat_scatter(Linear):
    """Add the elements at flat indices over the last dimensions, with zeros elsewhere."""
    home, inputs, exempt = "", ("input", "index"), _INNER
    examples = ((((2, 3), [[0, 5, 5], [3, 1, 0]]), {"size": (7,)}),)
    formula = "scatter(input, index)"
    def forward(xp, input, index, size): return xp.flat_scatter(input, index, size)
    def d_input(xp, g, index, shape, size): return xp.flat_gather(g, index, shape, len(size))


class flat_gather(Linear):
    """The elements at flat indices over the last `n` dimensions."""
    home, inputs, exempt = "", ("input", "index"), _INNER
    examples = ((((2, 7), [[0, 5, 5], [3, 1, 0]]), {"size": (2, 3), "n": 1}),)
    formula = "gather(input, index)"
    def forward(xp, input, index, size, n): return xp.flat_gather(input, index, size, n)
    def d_input(xp, g, index, shape, n): return xp.flat_scatter(g, index, tuple(shape[-n:]))


def _target(input, n, output_size):
    """Return the output size of an adaptive pool; None keeps a dimension."""
    if n > 1 and input.ndim <= n and hasattr(output_size, "__iter__"): raise ValueError(f"adaptive_pool{n}d: Input dimension should be at least {n + 1}, but it is {input.ndim}")
    if input.ndim not in (n + 1, n + 2): raise RuntimeError(f"adaptive_pool{n}d: Expected {n + 1}D or {n + 2}D tensor, but got {list(input.shape)}")
    given = tuple(output_size) if hasattr(output_size, "__iter__") else (output_size,) * n
    if len(given) != n: raise RuntimeError(f"adaptive_pool{n}d: output_size must have {n} elements, but got {list(given)}")
    if min([0, *(k for k in given if k is not None)]) < 0: raise RuntimeError(f"adaptive_pool{n}d: elements of output_size must be greater than or equal to 0, but got {list(given)}")
    return tuple(m if k is None else int(k) for k, m in zip(given, input.shape[-n:], strict=True))


def _nothing(input, want):
    """Return an empty tensor that is still connected to the graph."""
    return input.reshape(-1)[:0].reshape((*input.shape[: -len(want)], *want))


def _adaptive_mean(input, n, output_size):
    want, have = _target(input, n, output_size), tuple(input.shape[-n:])
    if all(k == 1 for k in want): return input.mean(tuple(range(-n, 0)), keepdim=True)
    if 0 in (*want, *input.shape[:-n]): return _nothing(input, want)
    refuse_whole_numbers(f"adaptive_avg_pool{n}d", input)
    if all(k and m % k == 0 for k, m in zip(want, have, strict=True)): return avg_pool(input, tuple(m // k for k, m in zip(want, have, strict=True)))
    return resample(input, want, "mean")


def _adaptive_max(input, n, output_size, return_indices):
    want = _target(input, n, output_size)
    if 0 in want: return (_nothing(input, want), _nothing(input, want).long()) if return_indices else _nothing(input, want)
    found = adaptive_max(input, want)
    return tuple(found) if return_indices else found.out


@composite(home="nn.functional")
@parsed
def adaptive_avg_pool1d(input: Tensor, output_size: int | Sequence[int]):
    """The means of `output_size` nearly equal parts of signals (N, C, L)."""
    return _adaptive_mean(input, 1, output_size)


@composite(home="nn.functional")
def adaptive_avg_pool2d(input, output_size):
    """The means of `output_size` (rows, columns) nearly equal parts of images (N, C, H, W); None keeps a dimension."""
    return _adaptive_mean(input, 2, output_size)


@composite(home="nn.functional")
def adaptive_avg_pool3d(input, output_size):
    """The means of `output_size` nearly equal parts of volumes (N, C, D, H, W)."""
    return _adaptive_mean(input, 3, output_size)


@composite(home="nn.functional")
@parsed
def adaptive_max_pool1d(input: Tensor, output_size: int | Sequence[int], return_indices=False):
    """The maxima of `output_size` nearly equal parts of signals (N, C, L)."""
    return _adaptive_max(input, 1, output_size, return_indices)


@composite(home="nn.functional")
def adaptive_max_pool2d(input, output_size, return_indices=False):
    """The maxima of `output_size` (rows, columns) nearly equal parts of images (N, C, H, W); None keeps a dimension."""
    return _adaptive_max(input, 2, output_size, return_indices)


@composite(home="nn.functional")
def adaptive_max_pool3d(input, output_size, return_indices=False):
    """The maxima of `output_size` nearly equal parts of volumes (N, C, D, H, W)."""
    return _adaptive_max(input, 3, output_size, return_indices)


def _unpool(input, n, indices, kernel_size, stride, padding, output_size):
    sides, pads = _each(kernel_size, n), _each(padding, n)
    steps = sides if stride is None else _each(stride, n)
    size = tuple((input.shape[d - len(sides)] - 1) * steps[d] - 2 * pads[d] + sides[d] for d in range(len(sides)))
    if output_size is not None:
        usual, size = size, tuple(output_size)[2:] if len(output_size) == len(size) + 2 else tuple(output_size)
        if len(size) != len(usual): raise ValueError(f"output_size should be a sequence containing {len(usual)} or {len(usual) + 2} elements, but it has a length of {len(output_size)}")
        for d, (k, u) in enumerate(zip(size, usual, strict=True)):
            if not u - steps[d] < k < u + steps[d]: raise ValueError(f"invalid output_size {list(size)}: each size must lie within one stride {list(steps)} of {list(usual)}")
    if not isinstance(indices, Tensor): raise TypeError(f"max_unpool{n}d(): argument 'indices' (position 2) must be Tensor, not {type(indices).__name__}")
    if indices.dtype != dtypes.int64: raise RuntimeError(f"elements in indices should be type int64, but got {indices.dtype.name}")
    if len(size) != n or input.ndim not in (n + 1, n + 2): raise RuntimeError(f"max_unpool{n}d: expected {n} sizes and an input of {n + 1} or {n + 2} dimensions, but got {list(size)} and {list(input.shape)}")
    if tuple(indices.shape) != tuple(input.shape): raise RuntimeError(f"Expected shape of indices to be same as that of the input tensor ({list(input.shape)}), but got indices tensor with shape: {list(indices.shape)}")
    lead, places = tuple(input.shape[:-n]), math.prod(size)
    if indices.numel() and not indices.is_cuda and known((indices.min() < 0) | (indices.max() >= places)): raise RuntimeError(f"Found an invalid max index among {indices.tolist()}: the output has {places} places, {list(size)}")
    rows = functions["scatter"](input.new_zeros((*lead, places)), -1, indices.flatten(-n), input.flatten(-n))
    return rows.reshape(*lead, *size)


def _each(value, n):
    """Return a sequence as a tuple, or repeat a scalar for each dimension."""
    return tuple(value) if hasattr(value, "__iter__") else (value,) * n


@composite(home="nn.functional")
def max_unpool1d(input, indices, kernel_size, stride=None, padding=0, output_size=None):
    """Partial inverse of `max_pool1d`: each element at its flat index, zeros elsewhere."""
    return _unpool(input, 1, indices, kernel_size, stride, padding, output_size)


@composite(home="nn.functional")
def max_unpool2d(input, indices, kernel_size, stride=None, padding=0, output_size=None):
    """Partial inverse of `max_pool2d`: each element at its flat index, zeros elsewhere."""
    return _unpool(input, 2, indices, kernel_size, stride, padding, output_size)


@composite(home="nn.functional")
def max_unpool3d(input, indices, kernel_size, stride=None, padding=0, output_size=None):
    """Partial inverse of `max_pool3d`: each element at its flat index, zeros elsewhere."""
    return _unpool(input, 3, indices, kernel_size, stride, padding, output_size)


_MODES = {"nearest": "nearest", "nearest-exact": "nearest-exact", "linear": "linear", "bilinear": "linear", "trilinear": "linear", "bicubic": "cubic", "area": "mean"}
_ONLY = {"linear": 1, "bilinear": 2, "bicubic": 2, "trilinear": 3}  # the number of dimensions that a mode requires


@composite(home="nn.functional")
def interpolate(input, size=None, scale_factor=None, mode="nearest", align_corners=None, recompute_scale_factor=None, antialias=False):
    """Resize signals (N, C, L), images (N, C, H, W) or volumes (N, C, D, H, W) to `size`, or by `scale_factor`.

    `align_corners` keeps the centers of the corner elements in place (linear and cubic modes only). `antialias` widens the filter of
    "bilinear" and "bicubic" when an image shrinks.
    """
    n = input.ndim - 2
    size = size.item() if not getattr(size, "ndim", 1) else size
    if align_corners is not None and mode in ("nearest", "area", "nearest-exact"): raise ValueError("align_corners option can only be set with the interpolating modes: linear | bilinear | bicubic | trilinear")
    if (size is None) == (scale_factor is None): raise ValueError("either size or scale_factor should be defined" if size is None else "only one of size or scale_factor should be defined")
    for name, given in (("output size", size), ("scale_factor", scale_factor)):
        if isinstance(given, (tuple, list)) and len(given) != n: raise ValueError(f"Input and output must have the same number of spatial dimensions, but got input with spatial dimensions of {list(input.shape[2:])} and {name} of {given}")
    if size is not None and not all(isinstance(k, (int, numpy.integer, Tensor)) for k in (size if isinstance(size, (tuple, list)) else (size,))): raise TypeError(f"expected size to be one of int or Tuple[int] or Tuple[int, int] or Tuple[int, int, int], but got {size}")
    if recompute_scale_factor and size is not None: raise ValueError("recompute_scale_factor is not meaningful with an explicit size.")
    if antialias and not (mode in ("bilinear", "bicubic") and n == 2): raise ValueError("Anti-alias option is restricted to bilinear and bicubic modes and requires a 4-D tensor as input")
    if not isinstance(mode, str) or mode not in _MODES or not 1 <= n <= 3 or n != _ONLY.get(mode, n): raise NotImplementedError(f"Input Error: Only 3D, 4D and 5D input Tensors supported (got {input.ndim}D) for the modes: {' | '.join(_MODES)} (got {mode})")
    if not isinstance(align_corners, (bool, type(None))): raise TypeError(f"interpolate(): argument 'align_corners' must be bool, not {type(align_corners).__name__}")
    lengths, scales = tuple(input.shape[-n:]), ()
    if size is not None:
        want = sizes(size, n, "size")
    else:
        factors = tuple(map(float, scale_factor)) if hasattr(scale_factor, "__iter__") else (float(scale_factor),) * n
        if not all(map(math.isfinite, factors)): raise RuntimeError(f"interpolate: expected finite scale factors, but got {factors}")
        want = tuple(math.floor(m * f) for m, f in zip(lengths, factors, strict=True))
        if not recompute_scale_factor and mode != "area": scales = factors
    if min(want) <= 0: raise RuntimeError(f"Input and output sizes should be greater than 0, but got input ({', '.join(map(str, lengths))}) and output ({', '.join(map(str, want))})")
    refuse_whole_numbers("interpolate", input, ("uint8",) if mode in ("nearest", "nearest-exact", "bilinear", "bicubic") else ())
    if antialias: return antialiased(input, want, mode, bool(align_corners), scales)
    return resample(input, want, _MODES[mode], bool(align_corners), scales)


@composite(home="nn.functional")
def upsample(input, size=None, scale_factor=None, mode="nearest", align_corners=None):
    """Old name of `interpolate`."""
    warn("`nn.functional.upsample` is deprecated. Use `nn.functional.interpolate` instead.")
    return interpolate(input, size, scale_factor, mode, align_corners)


functions.update({name: functions[f"nn.functional.{name}"] for name in ("adaptive_avg_pool1d", "avg_pool1d")})
