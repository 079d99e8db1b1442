"""Fuse a convolution or linear layer with the batch norm that follows, for evaluation."""

from __future__ import annotations

import copy
from typing import Any

from ...core.create import ones_like, zeros_like
from ...core.tensor import Tensor
from ..module import Module
from ..parameter import Parameter


def _fused(
    w: Tensor, b: Tensor | None, mean: Tensor, var: Tensor, eps: float, gamma: Any, beta: Any, shape: list
) -> tuple[Parameter, Parameter]:
    base: Any = zeros_like(mean) if b is None else b
    gamma = ones_like(mean) if gamma is None else gamma
    beta = zeros_like(mean) if beta is None else beta
    scale = gamma * (var + eps).rsqrt()
    weight = (w * scale.reshape(shape)).to(dtype=w.dtype)
    bias = ((base - mean) * scale + beta).to(dtype=base.dtype)
    grads = w.requires_grad, base.requires_grad
    return Parameter(weight.detach(), grads[0]), Parameter(bias.detach(), grads[1])


def fuse_conv_bn_weights(
    conv_w: Tensor, conv_b: Tensor | None, bn_rm: Tensor, bn_rv: Tensor, bn_eps: float, bn_w: Tensor | None, bn_b: Tensor | None,
    transpose: bool = False,
) -> tuple[Parameter, Parameter]:  # fmt: skip
    """Return weight and bias of a convolution equivalent to a convolution followed by batch norm."""
    shape = [1, -1] if transpose else [-1, 1]
    return _fused(conv_w, conv_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b, shape + [1] * (conv_w.ndim - 2))


def fuse_linear_bn_weights(
    linear_w: Tensor, linear_b: Tensor | None, bn_rm: Tensor, bn_rv: Tensor, bn_eps: float, bn_w: Tensor, bn_b: Tensor
) -> tuple[Parameter, Parameter]:
    """Return weight and bias of a linear layer equivalent to a linear layer followed by batch norm."""
    return _fused(linear_w, linear_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b, [-1, 1])


def fuse_conv_bn_eval(conv: Any, bn: Any, transpose: bool = False) -> Any:
    """Return a copy of `conv` equivalent to `conv` followed by `bn`; both must be in evaluation mode."""
    if conv.training or bn.training:
        raise AssertionError("Fusion only for eval!")
    made = copy.deepcopy(conv)
    if bn.running_mean is None or bn.running_var is None:
        raise AssertionError("fuse_conv_bn_eval: the batch norm has no running statistics")
    made.weight, made.bias = fuse_conv_bn_weights(
        made.weight, made.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias, transpose
    )
    return made


def fuse_linear_bn_eval(linear: Any, bn: Any) -> Any:
    """Return a copy of `linear` equivalent to `linear` followed by `bn`; both must be in evaluation mode."""
    if linear.training or bn.training:
        raise AssertionError("Fusion only for eval!")
    made: Module = copy.deepcopy(linear)
    if bn.running_mean is None or bn.running_var is None:
        raise AssertionError("fuse_linear_bn_eval: the batch norm has no running statistics")
    if linear.out_features != bn.num_features and bn.num_features != 1:
        raise AssertionError("To fuse, linear.out_features == bn.num_features or bn.num_features == 1")
    made.weight, made.bias = fuse_linear_bn_weights(  # type: ignore[assignment]
        linear.weight, linear.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias
    )
    return made
