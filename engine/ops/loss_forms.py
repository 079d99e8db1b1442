"""`nn.functional` forms of the elementwise losses, with PyTorch's older flags and a weight for each element."""

from __future__ import annotations

from ..base.dtypes import promote
from ..core.arguments import parsed
from ..core.tensor import Tensor
from .front import front, refuse_gradients
from .loss import (
    binary_cross_entropy,
    binary_cross_entropy_with_logits,
    finish,
    huber_loss,
    known_reduction,
    l1_loss,
    mse_loss,
    nll_loss,
    one_target_each,
    reduction_of,
    same_type,
    smooth_l1_loss,
)
from .shape import broadcast_shapes

F = "nn.functional"


def weighted(op, input, target, weight, reduction, by_weights, **attrs):
    """Loss of each element times its weight; the mean divides by the sum of the weights, or without `by_weights` by their number."""
    if tuple(weight.shape) != tuple(input.shape): raise ValueError(f"Weights and input must have the same size, but got {list(weight.shape)} and {list(input.shape)}.")
    each = op.call(input, target, reduction="none", **attrs) * weight
    return each.sum() / weight.sum() if known_reduction(reduction) == "mean" and by_weights else finish(each, reduction)


def _weighable(op):
    def call(input, target, size_average=None, reduce=None, reduction="mean", weight=None):
        if size_average is not None or reduce is not None or reduction == "elementwise_mean": reduction = reduction_of(size_average, reduce, reduction)
        return op.call(input, target, reduction) if weight is None else weighted(op, input, target, weight, reduction, True)
    call.__doc__ = f"{op.__doc__} `weight` scales the loss of each element; the mean is then one by weights."
    front(op.name, home=F, method=False)(call)


_weighable(mse_loss)
_weighable(l1_loss)


@front("huber_loss", home=F, method=False)
def _huber_loss(input, target, reduction="mean", delta=1.0, weight=None):
    reduction = reduction_of(None, None, reduction)
    return huber_loss.call(input, target, reduction, delta) if weight is None else weighted(huber_loss, input, target, weight, reduction, False, delta=delta)


_huber_loss.__doc__ = f"{huber_loss.__doc__} `weight` scales the loss of each element."


@front("smooth_l1_loss", home=F, method=False)
def _smooth_l1_loss(input, target, size_average=None, reduce=None, reduction="mean", beta=1.0):
    return smooth_l1_loss.call(input, target, reduction_of(size_average, reduce, reduction), beta)


@front("nll_loss", home=F, method=False)
@parsed
def _nll_loss(input: Tensor, target: Tensor, weight: Tensor | None = None, size_average=None, ignore_index: int = -100, reduce=None, reduction="mean"):
    reduction = known_reduction(reduction_of(size_average, reduce, reduction))
    one_target_each(nll_loss, input, target)
    if input.ndim == target.ndim == 1: target = target.reshape(())
    if weight is not None:
        same_type(input, weight)
        refuse_gradients("nll_loss_forward", weight=weight)
    return nll_loss.call(input, target, weight, ignore_index, reduction)


def same_size(op, input, target, rule):
    """Raise ValueError, through the op, unless targets have the input's shape; AttributeError for operands that are no tensors."""
    if input.size() != target.size(): op.refuse((input, target), rule.format(target.size(), input.size()), ValueError)


@front("binary_cross_entropy", home=F, method=False)
def _binary_cross_entropy(input, target, weight=None, size_average=None, reduce=None, reduction="mean"):
    reduction = known_reduction(reduction_of(size_average, reduce, reduction))
    same_size(binary_cross_entropy, input, target, "Using a target size ({}) that is different to the input size ({}) is deprecated. Please ensure they have the same size.")
    if weight is not None:
        refuse_gradients("binary_cross_entropy", weight=weight)
        if broadcast_shapes(weight.shape, input.shape) != input.shape: raise RuntimeError(f"output with shape {list(input.shape)} doesn't match the broadcast shape of a weight {list(weight.shape)}")
        if weight.dtype.rank < input.dtype.rank: weight = weight.to(input.dtype)
    return binary_cross_entropy.call(input, target, weight, reduction)


@front("binary_cross_entropy_with_logits", home=F, method=False)
def _binary_cross_entropy_with_logits(input, target, weight=None, size_average=None, reduce=None, reduction="mean", pos_weight=None):
    reduction = known_reduction(reduction_of(size_average, reduce, reduction))
    same_size(binary_cross_entropy_with_logits, input, target, "Target size ({}) must be the same as input size ({})")
    refuse_gradients("binary_cross_entropy_with_logits", weight=weight, pos_weight=pos_weight)
    if input.dtype != target.dtype and input.is_floating_point() and target.is_floating_point():  # the result has the target's dtype
        wide = promote(input.dtype, target.dtype)
        return binary_cross_entropy_with_logits.call(input.to(wide), target.to(wide), weight, reduction, pos_weight).to(target.dtype)
    return binary_cross_entropy_with_logits.call(input, target, weight, reduction, pos_weight)


_smooth_l1_loss.__doc__, _nll_loss.__doc__ = smooth_l1_loss.__doc__, nll_loss.__doc__
_binary_cross_entropy.__doc__, _binary_cross_entropy_with_logits.__doc__ = binary_cross_entropy.__doc__, binary_cross_entropy_with_logits.__doc__
