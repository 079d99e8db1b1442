"""Convolutions of traced arrays: the large ones of a program of this process are computed as in an eager step, the others by XLA."""

from __future__ import annotations

from typing import Any

import jax
from jax import lax

from ...base.dtypes import F32, F64
from .. import dnn
from ..windows import each, place
from .eager import either
from .namespace import rule

LEAST = 1 << 27  # multiplications; with fewer XLA is faster on two threads, since it uses both between the convolutions too

# The gradients are the transposes of a linear function, which JAX derives.


def _convolution(x: Any, weight: Any, stride: Any, padding: Any, dilation: Any, groups: int) -> Any:
    n = weight.ndim - 2
    at = place(tuple(x.shape[2:]), tuple(weight.shape[2:]), stride, padding, dilation)
    data, kernel = "NC" + "DHW"[3 - n :], "OI" + "DHW"[3 - n :]
    return lax.conv_general_dilated(
        x, weight, at.stride, at.pads, rhs_dilation=at.dilation, dimension_numbers=(data, kernel, data), feature_group_count=groups
    )


def _convolution_input(g: Any, weight: Any, size: tuple, *places: Any) -> Any:
    return jax.linear_transpose(lambda x: _convolution(x, weight, *places), jax.ShapeDtypeStruct(size, g.dtype))(g)[0]


def _convolution_weight(g: Any, x: Any, size: tuple, *places: Any) -> Any:
    return jax.linear_transpose(lambda weight: _convolution(x, weight, *places), jax.ShapeDtypeStruct(size, g.dtype))(g)[0]


_FORWARD = either(_convolution, dnn.convolution)
_INPUT = either(_convolution_input, dnn.convolution_input)
_WEIGHT = either(_convolution_weight, dnn.convolution_weight)


def _large(x: Any, weight: tuple) -> bool:
    return dnn.large(x, weight, LEAST)


def _places(n: int, stride: Any, padding: Any, dilation: Any, groups: int) -> tuple:
    """Return the arguments after the shapes, as JAX can compare them."""
    pads = padding if isinstance(padding, str) else each(padding, n, "padding")
    return each(stride, n, "stride"), pads, each(dilation, n, "dilation"), groups


@rule
def convolution(x: Any, weight: Any, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1, bias: Any = None) -> Any:
    if x.ndim == weight.ndim - 1:
        return convolution(x[None], weight, stride, padding, dilation, groups, bias)[0]
    args = _places(weight.ndim - 2, stride, padding, dilation, groups)
    y = _FORWARD(x, weight, args=args, large=_large(x, weight.shape) and dnn.worth((x, weight), weight.shape))
    return y if bias is None else y + bias.reshape((-1,) + (1,) * (weight.ndim - 2))


@rule
def convolution_input(g: Any, weight: Any, size: tuple, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1) -> Any:
    if g.ndim == weight.ndim - 1:
        return convolution_input(g[None], weight, (1, *size), stride, padding, dilation, groups)[0]
    args = (tuple(size), *_places(weight.ndim - 2, stride, padding, dilation, groups))
    return _INPUT(g, weight, args=args, large=_large(g, weight.shape) and dnn.worth((g, weight), weight.shape))


@rule
def convolution_weight(g: Any, x: Any, size: tuple, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1) -> Any:
    if g.ndim == len(size) - 1:
        return convolution_weight(g[None], x[None], size, stride, padding, dilation, groups)
    args = (tuple(size), *_places(len(size) - 2, stride, padding, dilation, groups))
    return _WEIGHT(g, x, args=args, large=_large(g, size) and g.dtype in (F32, F64))  # NumPy's is faster than XLA's too
