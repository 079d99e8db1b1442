"""Gradients of convolutions with respect to the input or the weight, as functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..autograd import enable_grad, grad
from ..core.create import zeros
from ..core.tensor import Tensor
from . import functional as F


def _gradient(conv: Callable, of: int, shape: Any, other: Tensor, grad_output: Tensor, options: tuple) -> Tensor:
    """Return a convolution's gradient; it is linear in each tensor, so the gradient may be evaluated at zeros."""
    with enable_grad():
        at = zeros(tuple(shape), dtype=other.dtype, device=other.device).requires_grad_()
        out = conv(*((at, other) if of == 0 else (other, at)), None, *options)
    return grad(out, at, grad_output)[0]


def conv1d_input(
    input_size: Any, weight: Tensor, grad_output: Tensor, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1
) -> Tensor:
    """Return the gradient of `conv1d` with respect to its input, of shape `input_size`."""
    return _gradient(F.conv1d, 0, input_size, weight, grad_output, (stride, padding, dilation, groups))


def conv1d_weight(
    input: Tensor, weight_size: Any, grad_output: Tensor, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1
) -> Tensor:
    """Return the gradient of `conv1d` with respect to its weight, of shape `weight_size`."""
    return _gradient(F.conv1d, 1, weight_size, input, grad_output, (stride, padding, dilation, groups))


def conv2d_input(
    input_size: Any, weight: Tensor, grad_output: Tensor, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1
) -> Tensor:
    """Return the gradient of `conv2d` with respect to its input, of shape `input_size`."""
    return _gradient(F.conv2d, 0, input_size, weight, grad_output, (stride, padding, dilation, groups))


def conv2d_weight(
    input: Tensor, weight_size: Any, grad_output: Tensor, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1
) -> Tensor:
    """Return the gradient of `conv2d` with respect to its weight, of shape `weight_size`."""
    return _gradient(F.conv2d, 1, weight_size, input, grad_output, (stride, padding, dilation, groups))


def conv3d_input(
    input_size: Any, weight: Tensor, grad_output: Tensor, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1
) -> Tensor:
    """Return the gradient of `conv3d` with respect to its input, of shape `input_size`."""
    return _gradient(F.conv3d, 0, input_size, weight, grad_output, (stride, padding, dilation, groups))


def conv3d_weight(
    input: Tensor, weight_size: Any, grad_output: Tensor, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1
) -> Tensor:
    """Return the gradient of `conv3d` with respect to its weight, of shape `weight_size`."""
    return _gradient(F.conv3d, 1, weight_size, input, grad_output, (stride, padding, dilation, groups))
