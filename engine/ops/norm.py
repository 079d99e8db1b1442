"""Normalization over batches, layers, groups and instances, by the root mean square, and to unit length."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ..base import dtypes
from ..base.dtypes import F32, FLOAT, FROM_NUMPY, LOW
from ..base.errors import Refused
from ..base.layout import as_channels
from ..core import casting, devices, inplace
from ..core.arguments import parsed
from ..core.call import into
from ..core.op import Op, composite, functions
from ..core.tensor import Tensor
from .front import front, refuse_gradients

_NORM = {"promotion": "PyTorch mixes dtypes for its weights alone, and in mixed-precision kernels only."}


def layer_shape(normalized_shape):
    """Return the sizes to normalize over. Raises RuntimeError if there are none."""
    if not hasattr(normalized_shape, "__iter__"): raise Refused(f"argument 'normalized_shape' must be tuple of ints, not {type(normalized_shape).__name__}", TypeError)
    if not len(normalized_shape): raise Refused("Expected normalized_shape to be at least 1-dimensional, i.e., containing at least one element, but got normalized_shape = []")
    return tuple(normalized_shape)


def layer_axes(shape, normalized_shape):
    """Return the dimensions to normalize over, counted from the front. Raises RuntimeError unless they end the input's shape."""
    want = layer_shape(normalized_shape)
    n = len(want)
    if len(shape) < n or tuple(shape[len(shape) - n:]) != want:
        raise Refused(f"Given normalized_shape={list(want)}, expected input with shape [*, {', '.join(map(str, want))}], but got input of size {list(shape)}")
    return tuple(range(len(shape) - n, len(shape)))


def fitting(name, x, shape):
    """Raise RuntimeError unless a weight or bias has the normalized shape."""
    if x is not None and tuple(x.shape) != tuple(shape): raise Refused(f"Expected {name} to be of same shape as normalized_shape, but got {name} of shape {list(x.shape)} and normalized_shape = {list(shape)}")


def refuse_integers(array):
    """Raise NotImplementedError for integers and bools, which have no mean and variance of their own dtype."""
    d = FROM_NUMPY.get(getattr(array, "dtype", None))
    if d is not None and d.rank < FLOAT: raise Refused(f"not implemented for {d.name}; convert the input with .float()", NotImplementedError)


class Mixed:
    """Base of ops that also take float32 weights with a half-precision input, since they compute in float32 anyway."""

    @classmethod
    def prepare(cls, arrays):
        if getattr(arrays[0], "dtype", None) in LOW and all(getattr(a, "dtype", F32) == F32 for a in arrays[1:]):
            return arrays, devices.common(arrays, cls.name)
        found = super().prepare(arrays)  # type: ignore[misc]
        refuse_integers(arrays[0])
        return found


def mixed(input, *weights):
    """Return whether the input is in half precision and its weights or statistics are in float32."""
    return input.array.dtype in LOW and any(w is not None and w.array.dtype == F32 for w in weights)


class layer_norm(Mixed, Op):
    """Normalize to zero mean and unit variance over the last dimensions, of shape `normalized_shape`; then apply weight and bias."""
    home, inputs, aux, types, method, exempt = "nn.functional", ("input", "weight", "bias"), ("mean", "rstd"), "same", False, _NORM
    halves, order = True, ("input", "normalized_shape", "weight", "bias", "eps")
    examples = ((((4, 5), (5,), (5,)), {"normalized_shape": (5,)}), (((2, 3, 4), (3, 4), None), {"normalized_shape": (3, 4), "eps": 1e-3}), (((3, 6), None, None), {"normalized_shape": (6,)}))
    formula = "(input - mean) / sqrt(var + eps) * weight + bias"
    def forward(xp, input, weight=None, bias=None, *, normalized_shape: Sequence[int], eps: float = 1e-5):
        axes = layer_axes(input.shape, normalized_shape)
        fitting("weight", weight, input.shape[axes[0]:])
        fitting("bias", bias, input.shape[axes[0]:])
        return xp.normalize(input, axes, eps, weight, bias)
    def d_input(xp, g, input, weight, mean, rstd, normalized_shape): return xp.normalize_input(g, input, mean, rstd, layer_axes(g.shape, normalized_shape), weight)
    def d_weight(xp, g, input, mean, rstd, normalized_shape): return xp.normalize_weight(g, input, mean, rstd, tuple(range(layer_axes(g.shape, normalized_shape)[0])))
    def d_bias(xp, g): return g
    def t_input(xp, t, input, weight, mean, rstd, normalized_shape):
        along = xp.normalize_input(t, input, mean, rstd, layer_axes(t.shape, normalized_shape))
        return along if weight is None else along * weight
    def t_weight(xp, t, input, mean, rstd): return t * ((input - mean) * rstd)
    def t_bias(xp, t): return t


class batch_normalize(Mixed, Op):
    """Normalize each channel to zero mean and unit variance over the batch and all positions; also return means and (biased) variances."""
    home, inputs, types, halves = "", ("input", "weight", "bias"), "same", True
    outputs, differentiable, aux = ("out", "mean", "var"), ("out",), ("center", "rstd")
    laid = staticmethod(as_channels)
    exempt = {"promotion": "PyTorch has no function of this name; batch_norm is the composite around it.", "zero_size": "PyTorch has no function of this name; batch_norm is the composite around it."}
    examples = ((((4, 3, 5), (3,), (3,)), {}), (((6, 2), None, None), {"eps": 1e-3}))
    formula = "(input - mean) / sqrt(var + eps) * weight + bias"
    def forward(xp, input, weight=None, bias=None, eps=1e-5):
        axes = channel_axes(input.ndim)
        out, mean, rstd = xp.normalize(input, axes, eps, beside(xp, weight, input), beside(xp, bias, input))
        found, kind = (xp.reshape(mean, (-1,)), xp.reshape(1 / (rstd * rstd) - eps, (-1,))), (input if weight is None else weight).dtype
        return out, *(found if mean.dtype == kind else [xp.astype(x, kind) for x in found]), mean, rstd
    def d_input(xp, g, input, weight, center, rstd): return xp.normalize_input(g, input, center, rstd, channel_axes(g.ndim), beside(xp, weight, g))
    def d_weight(xp, g, input, center, rstd): return xp.normalize_weight(g, input, center, rstd, channel_axes(g.ndim))
    def d_bias(xp, g): return xp.sum(g, axis=channel_axes(g.ndim))


def channel_axes(ndim):
    """All dimensions except the channels, the second one."""
    return (0, *range(2, ndim))


def beside(xp, weight, input):
    """Reshape a weight per channel to broadcast against (N, C, ...)."""
    return None if weight is None else xp.reshape(weight, (1, -1) + (1,) * (input.ndim - 2))


@composite(home="nn.functional")
@parsed
def batch_norm(input, running_mean: Tensor | None, running_var: Tensor | None, weight: Tensor | None = None, bias: Tensor | None = None, training: bool = False, momentum: float | None = 0.1, eps: float = 1e-5):
    """Normalize each channel of (N, C, ...) to zero mean and unit variance, then apply weight and bias.

    In training the batch's own statistics are used, and `running_mean` and `running_var` (unbiased) move towards them in place; otherwise
    these two are used.
    """
    if training:
        if eps <= 0: raise ValueError(f"batch_norm eps must be positive during training, but got {eps}")
        several(input.shape)
    return normalized(input, running_mean, running_var, weight, bias, training, momentum, eps)


def several(shape):
    """Raise ValueError if each channel has a single value, the deviation of which is 0."""
    if math.prod((shape[0], *shape[2:])) == 1: raise ValueError(f"Expected more than 1 value per channel when training, got input size {shape}")


def normalized(input, running_mean, running_var, weight, bias, training, momentum, eps):
    """`batch_norm`, also for a single value per channel."""
    if not input.numel():  # an empty batch has no statistics and updates none
        out = input.clone() if weight is None else input * weight[0]
        return out if bias is None else out + bias[0]
    if mixed(input, running_mean, running_var, weight, bias) and not (training and input.is_cuda and weight is not None):  # its kernels take both
        return normalized(input.float(), running_mean, running_var, weight, bias, training, momentum, eps).to(input.dtype)
    channels = input.shape[1] if input.ndim > 1 else 0
    refuse_statistics(input, channels, running_mean, running_var, weight, bias, training)
    if not training:
        shape = (1, channels) + (1,) * (input.ndim - 2)
        scale = (running_var + eps).rsqrt()
        scale = scale if weight is None else scale * weight
        shift = -running_mean * scale
        shift = shift if bias is None else shift + bias
        return input * scale.reshape(shape) + shift.reshape(shape)
    n = input.numel() // channels
    found = batch_normalize(input, weight, bias, eps)
    if running_mean is not None: _towards(running_mean, found.mean.array, momentum)
    if running_var is not None: _towards(running_var, found.var.array * (n / (n - 1) if n > 1 else math.nan), momentum)
    return found.out


def refuse_statistics(input, channels, running_mean, running_var, weight, bias, training):
    """Raise PyTorch's first error for an input that does not fit its weights and statistics."""
    given, dtype = (running_mean, running_var, weight, bias), dtypes.float32 if mixed(input, running_mean, running_var, weight, bias) else input.dtype
    fits = channels and dtype.rank >= FLOAT and (running_mean is None) == (running_var is None) and (training or running_mean is not None)
    if fits and all(x is None or x.array.shape == (channels,) and x.dtype is dtype and (i > 1 or x.node is None) for i, x in enumerate(given)): return
    for name, x in zip(("running_mean", "running_var", "weight", "bias"), given, strict=True):
        if x is not None and x.numel() != channels: raise RuntimeError(f"{name} should contain {channels} elements not {x.numel()}")
        if x is None and not training and name[0] == "r": raise RuntimeError(f"{name} must be defined in evaluation mode")
    if not input.ndim: raise RuntimeError("batch_norm: expected an input with channels, but got a number")
    input.size(1)
    refuse_gradients("native_batch_norm", running_mean=running_mean, running_var=running_var)
    if (running_mean is None) != (running_var is None): raise ValueError("running_mean and running_var must either both be None or neither be None")
    if dtype.rank < FLOAT: raise NotImplementedError(f"batch_norm: not implemented for {dtype.name}; convert the input with .float()")
    for x in given:
        if x is not None and x.dtype is not dtype: raise RuntimeError(f"batch_norm: expected scalar type {dtype.name} but found {x.dtype.name}")
    if running_mean is not None and not running_mean.ndim == running_var.ndim == 1: raise RuntimeError(f"running_mean and running_var must have one dimension, but have {running_mean.ndim} and {running_var.ndim}")


def _towards(running: Tensor, value, momentum):
    """Move a running statistic towards the batch's, in place; without a momentum, set it to the batch's."""
    array = running.array
    array += (value - array) * (1.0 if momentum is None else momentum)
    inplace.note_write_to(running, "batch_norm")


class group_norm(Mixed, Op):
    """Normalize each of `num_groups` groups of channels of every sample to zero mean and unit variance; then apply weight and bias."""
    home, inputs, aux, types, method, exempt = "nn.functional", ("input", "weight", "bias"), ("mean", "rstd"), "same", False, _NORM
    order = ("input", "num_groups", "weight", "bias", "eps")
    laid = staticmethod(as_channels)
    examples = ((((2, 4, 3), (4,), (4,)), {"num_groups": 2}), (((3, 6), None, None), {"num_groups": 3, "eps": 1e-3}))
    formula = "(input - mean) / sqrt(var + eps) * weight + bias"
    def forward(xp, input, weight=None, bias=None, *, num_groups: int, eps: float = 1e-5):
        if input.ndim < 2: raise Refused(f"Expected at least 2 dimensions for input tensor but received {input.ndim}")
        if num_groups <= 0: raise Refused(f"Expected num groups to be greater than 0, got {num_groups}")
        if input.shape[1] % num_groups: raise Refused(f"Expected number of channels in input to be divisible by num_groups, but got input of shape {list(input.shape)} and num_groups={num_groups}")
        for name, x in (("weight", weight), ("bias", bias)):
            if x is not None and tuple(x.shape) != (input.shape[1],): raise Refused(f"Expected {name} to be a vector of size equal to the number of channels in input, but got {name} of shape {list(x.shape)} and input of shape {list(input.shape)}")
        out, mean, rstd = xp.normalize(grouped(xp, input, num_groups), (2,), eps)
        out = xp.reshape(out, input.shape)
        out = out if weight is None else out * beside(xp, weight, input)
        return out if bias is None else out + beside(xp, bias, input), mean, rstd
    def d_input(xp, g, input, weight, mean, rstd, num_groups):
        g = g if weight is None else g * beside(xp, weight, g)
        return xp.reshape(xp.normalize_input(grouped(xp, g, num_groups), grouped(xp, input, num_groups), mean, rstd, (2,)), input.shape)
    def d_weight(xp, g, input, mean, rstd, num_groups): return xp.sum(g * xp.reshape((grouped(xp, input, num_groups) - mean) * rstd, input.shape), axis=channel_axes(g.ndim))
    def d_bias(xp, g): return xp.sum(g, axis=channel_axes(g.ndim))


@front("group_norm", home="nn.functional", method=False)
def _group_norm(input, num_groups, weight=None, bias=None, eps=1e-5):
    if input.ndim > 1 and input.shape[0] * input.shape[1] // num_groups * math.prod(input.shape[2:]) == 1:  # 0 groups: ZeroDivisionError, as in PyTorch
        raise ValueError(f"Expected more than 1 value per channel when training, got input size {input.shape}")
    return group_norm.call(input, num_groups, weight, bias, eps)


_group_norm.__doc__ = group_norm.__doc__


def grouped(xp, x, num_groups):
    """Reshape (N, C, ...) to (N, groups, rest)."""
    return xp.reshape(x, (x.shape[0], num_groups, -1 if 0 not in x.shape else 0))


@composite(home="nn.functional")
def instance_norm(input, running_mean: Tensor | None = None, running_var: Tensor | None = None, weight: Tensor | None = None, bias: Tensor | None = None, use_input_stats: bool = True, momentum: float = 0.1, eps: float = 1e-5):
    """Normalize each channel of each sample of (N, C, ...) to zero mean and unit variance, then apply weight and bias.

    Running statistics, if given, move towards the mean of the samples' own; with `use_input_stats=False` they are used instead.
    """
    if use_input_stats and math.prod(input.shape[2:]) == 1: raise ValueError(f"Expected more than 1 spatial element when training, got input size {input.shape}")
    return of_samples(input, running_mean, running_var, weight, bias, use_input_stats, momentum, eps)


def of_samples(input, running_mean, running_var, weight, bias, use_input_stats, momentum, eps):
    """`instance_norm`, also for a single value per channel: `batch_norm` of one sample with the channels of all samples."""
    if not use_input_stats and (running_mean is None or running_var is None): raise RuntimeError("Expected running_mean and running_var to be defined when use_input_stats is false")
    n, c = input.shape[:2] if input.ndim > 1 else (input.size(0), input.size(1))
    affine = all(x is None or x.array.shape == (c,) and x.dtype is input.dtype for x in (weight, bias))  # else `normalized` raises
    whole, shape = input.reshape((1, n * c, *input.shape[2:])), (1, c) + (1,) * (input.ndim - 2)
    each = [x if x is None else x.repeat(n) for x in (running_mean, running_var, *((None, None) if affine else (weight, bias)))]
    if affine and running_mean is running_var is None and input.numel():
        out = batch_normalize(whole, None, None, eps).out
    else:
        out = normalized(whole, *each, use_input_stats, momentum, eps)
    out = out.reshape(input.shape)
    if affine and weight is not None: out = out * weight.reshape(shape)
    if affine and bias is not None: out = out + bias.reshape(shape)
    for running, moved in zip((running_mean, running_var), each, strict=False):  # last, since they may also be the weight or the bias
        if running is not None and use_input_stats: running.copy_(moved.reshape((n, c)).mean(0))
    return out


class rms_norm(Mixed, Op):
    """Divide by the root mean square over the last dimensions, of shape `normalized_shape`; then apply the weight."""
    home, inputs, aux, types, method, exempt, row_major = "nn.functional", ("input", "weight"), ("rstd",), "same", False, _NORM, True
    order = ("input", "normalized_shape", "weight", "eps")
    examples = ((((4, 5), (5,)), {"normalized_shape": (5,)}), (((2, 3, 4), None), {"normalized_shape": (3, 4), "eps": 1e-3}))
    formula = "input / sqrt(mean(input ** 2) + eps) * weight"

    @classmethod
    def prepare(cls, arrays):
        x, weight = arrays
        if hasattr(x, "dtype") and hasattr(weight, "dtype") and x.dtype != weight.dtype and not (x.dtype in LOW and weight.dtype == F32):
            arrays = [x, devices.namespace(weight).astype(weight, x.dtype)]  # PyTorch gives the result the input's dtype
        return super().prepare(arrays)

    def forward(xp, input, weight=None, *, normalized_shape: Sequence[int], eps: float | None = None):
        want = layer_shape(normalized_shape)
        fitting("weight", weight, want)
        if input.ndim < len(want): raise Refused(f"Input tensor must have at least {len(want)} dimensions, but got {input.ndim}", ValueError)
        axes = layer_axes(input.shape, want)
        rstd = 1 / xp.sqrt(xp.mean(input * input, axis=axes, keepdims=True) + (dtypes.finfo(input.dtype).eps if eps is None else eps))
        return input * rstd if weight is None else input * rstd * weight, rstd
    def d_input(xp, g, input, weight, rstd, normalized_shape):
        g = g if weight is None else g * weight
        return rstd * (g - input * (rstd * rstd * xp.mean(g * input, axis=layer_axes(g.shape, normalized_shape), keepdims=True)))
    def d_weight(xp, g, input, rstd): return g * input * rstd


@composite(home="nn.functional")
def local_response_norm(input, size, alpha=1e-4, beta=0.75, k=1.0):
    """Divide each element by a power of the mean square over `size` neighboring channels."""
    if input.ndim < 3: raise ValueError(f"Expected 3D or higher dimensionality input (got {input.ndim} dimensions)")
    if not input.numel(): return input
    n, c = input.shape[:2]
    squares = functions["nn.functional.pad"]((input * input).reshape(n, 1, c, -1), (0, 0, size // 2, (size - 1) // 2))
    pool = functions["nn.functional.avg_pool2d"]
    pool = pool if input.ndim == 3 else casting.listed("nn.functional.avg_pool3d", pool)  # in PyTorch, a 3-d pool for more dimensions
    mean = pool(squares, (size, 1), 1)
    return input / (mean.reshape(input.shape) * alpha + k) ** beta


@composite(home="nn.functional")
def normalize(input, p=2.0, dim=1, eps=1e-12, out=None):
    """Divide vectors along `dim` by their `p`-norm, or by `eps` if that is larger."""
    if out is not None: return into(normalize, (input, p, dim, eps), {"out": out})
    return input / input.norm(p, dim, keepdim=True).clamp_min(eps)


functions.update({op.name: op.call for op in (layer_norm, group_norm, rms_norm)})
