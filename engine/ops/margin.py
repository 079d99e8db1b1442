"""Margin losses of scores and distances."""

from __future__ import annotations

from ..base import dtypes
from ..core.op import composite, functions
from ..core.ranges import arange
from ..core.tensor import Tensor
from .distance import pairwise_distance
from .front import refuse_complex_gradients, refuse_gradients
from .loss import finish, known_reduction, reduction_of
from .shape import broadcast_shapes


@composite(home="nn.functional")
def hinge_embedding_loss(input: Tensor, target: Tensor, margin: float = 1.0, size_average=None, reduce=None, reduction="mean"):
    """The distance where the target is 1; `max(0, margin - distance)` where it is -1."""
    reduction = known_reduction(reduction_of(size_average, reduce, reduction))
    zero = input.new_zeros(())
    lack = (input.new_full(input.shape, margin) - input).clamp_min(0)  # for integers an integer, as in PyTorch
    each = zero.where(target == 1, lack) + zero.where(target == -1, input)
    return finish(each, reduction)


@composite(home="nn.functional")
def margin_ranking_loss(input1, input2, target, margin: float = 0, size_average=None, reduce=None, reduction="mean"):
    """`max(0, -target * (input1 - input2) + margin)` for targets 1 and -1."""
    if not input1.ndim == input2.ndim == target.ndim: raise RuntimeError(f"margin_ranking_loss : All input tensors should have same dimension but got sizes: input1: {input1.shape}, input2: {input2.shape}, target: {target.shape} ")
    return ranked(input1, input2, target, margin, reduction_of(size_average, reduce, reduction))


def ranked(input1, input2, target, margin, reduction):
    """`margin_ranking_loss` for tensors that broadcast."""
    return finish((-target * (input1 - input2) + float(margin)).clamp_min(0), reduction)


@composite(home="nn.functional")
def cosine_embedding_loss(input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0, size_average=None, reduce=None, reduction="mean"):
    """`1 - cosine` for pairs with target 1, `max(0, cosine - margin)` for pairs with target -1."""
    reduction = known_reduction(reduction_of(size_average, reduce, reduction))
    if target.ndim > 1: raise RuntimeError("0D or 1D target tensor expected, multi-target not supported")
    if target.ndim + 1 != input1.ndim or input1.ndim != input2.ndim: raise RuntimeError(f"{target.ndim}D target tensor expects {target.ndim + 1}D input tensors, but found inputs with sizes {list(input1.shape)} and {list(input2.shape)}.")
    dot, tiny = (input1 * input2).sum(-1), 1e-12
    cosine = dot / (((input1 * input1).sum(-1) + tiny) * ((input2 * input2).sum(-1) + tiny)).sqrt()
    zero = cosine.new_zeros(())
    each = (1 - cosine).where(target == 1, zero) + (cosine - float(margin)).clamp_min(0).where(target == -1, zero)
    return finish(each, reduction)


@composite(home="nn.functional")
def triplet_margin_loss(anchor: Tensor, positive: Tensor, negative: Tensor, margin=1.0, p: float = 2, eps: float = 1e-6, swap=False, size_average=None, reduce=None, reduction="mean"):
    """`max(0, d(anchor, positive) - d(anchor, negative) + margin)` for the p-norm distance d."""
    if margin <= 0: raise ValueError(f"margin must be greater than 0, got {margin}")
    return triplet(anchor, positive, negative, margin, p, eps, swap, reduction_of(size_average, reduce, reduction))


def triplet(anchor, positive, negative, margin, p, eps, swap, reduction):
    """`triplet_margin_loss` with any margin."""
    if not anchor.ndim == positive.ndim == negative.ndim: raise RuntimeError(f"The anchor, positive, and negative tensors are expected to have the same number of dimensions, but got: anchor {anchor.ndim}D, positive {positive.ndim}D, and negative {negative.ndim}D inputs")
    near, far = pairwise_distance(anchor, positive, p, eps), pairwise_distance(anchor, negative, p, eps)
    if swap: far = far.minimum(pairwise_distance(positive, negative, p, eps))
    return finish((margin + near - far).clamp_min(0), reduction)


@composite(home="nn.functional")
def triplet_margin_with_distance_loss(anchor, positive, negative, *, distance_function=None, margin=1.0, swap=False, reduction="mean"):
    """`triplet_margin_loss` with any distance function of two batches of vectors."""
    if margin <= 0: raise ValueError(f"margin must be greater than 0, got {margin}")
    distance = distance_function or pairwise_distance
    near, far = distance(anchor, positive), distance(anchor, negative)
    if swap: far = far.minimum(distance(positive, negative))
    return finish((margin + near - far).clamp_min(0), reduction)


@composite(home="nn.functional")
def multi_margin_loss(input: Tensor, target: Tensor, p=1, margin: float = 1.0, weight: Tensor | None = None, size_average=None, reduce=None, reduction="mean"):
    """`max(0, margin - target score + score)**p` (p is 1 or 2), summed over the wrong classes and divided by the number of classes."""
    if p not in (1, 2): raise ValueError("only p == 1 and p == 2 supported")
    if weight is not None and weight.ndim != 1: raise ValueError("weight must be one-dimensional")
    refuse_gradients("multi_margin_loss", weight=weight)
    reduction = known_reduction(reduction_of(size_average, reduce, reduction))
    rows, at = (input if input.ndim == 2 else input.reshape(1, input.numel())), target.reshape(-1)
    if rows.ndim != 2 or at.numel() != rows.shape[0] or target.ndim > 1: raise RuntimeError(f"inconsistent target size, expected {rows.shape[0]} but got {list(target.shape)}")
    _classes(at)
    at = at.unsqueeze(1)
    each = (margin - rows.gather(1, at) + rows).relu()  # the gradient at the margin itself is 0
    each = each * each if p == 2 else each
    if weight is not None: each = each * weight[at]
    each = each.masked_fill(_one_hot(at, rows.shape[1]), 0).sum(1) / rows.shape[1]
    return finish(each if input.ndim == 2 or target.ndim else each.squeeze(0), reduction).to(input.dtype)


def _classes(target):
    if target.dtype is not dtypes.int64: raise RuntimeError(f"expected scalar type Long but found {target.type().rpartition('.')[2].removesuffix('Tensor')}")


def _one_hot(at, classes):
    """Mask (N, classes) of the classes that each row of indices (N, k) contains."""
    return (at.unsqueeze(-1) == arange(classes, device=at.device)).any(1)


@composite(home="nn.functional")
def multilabel_margin_loss(input: Tensor, target: Tensor, size_average=None, reduce=None, reduction="mean"):
    """`max(0, 1 - score inside + score outside)` for each class inside and outside the target; target classes end at the first -1."""
    reduction = known_reduction(reduction_of(size_average, reduce, reduction))
    if tuple(input.shape) != tuple(target.shape): raise RuntimeError(f"inconsistent target size: {list(target.shape)} for input of size: {list(input.shape)}")
    rows, at = (input, target) if input.ndim == 2 else (input.reshape(1, input.numel()), target.reshape(1, target.numel()))
    _classes(at)
    live = (at < 0).cumsum(1) == 0
    safe = at.masked_fill(live.logical_not(), 0)
    inside = ((safe.unsqueeze(-1) == arange(rows.shape[1], device=at.device)) & live.unsqueeze(-1)).any(1)
    gaps = (1 - rows.gather(1, safe).unsqueeze(2) + rows.unsqueeze(1)).relu()
    each = gaps.masked_fill((live.unsqueeze(2) & inside.logical_not().unsqueeze(1)).logical_not(), 0).sum((1, 2)) / rows.shape[1]
    return finish(each if input.ndim == 2 else each.squeeze(0), reduction)


@composite(home="nn.functional")
def multilabel_soft_margin_loss(input, target, weight=None, size_average=None, reduce=None, reduction="mean"):
    """Binary cross-entropy with logits of every class, averaged over the classes."""
    sigmoid_log = functions["nn.functional.logsigmoid"]
    each = -(target * sigmoid_log(input) + (1 - target) * sigmoid_log(-input))
    each = each if weight is None else each * weight
    return finish(each.sum(-1) / input.shape[-1], reduction_of(size_average, reduce, reduction))


@composite(home="nn.functional")
def soft_margin_loss(input: Tensor, target: Tensor, size_average=None, reduce=None, reduction="mean"):
    """log(1 + exp(-target * input)) for targets 1 and -1."""
    reduction = known_reduction(reduction_of(size_average, reduce, reduction))
    if broadcast_shapes(input.shape, target.shape) != input.shape: raise RuntimeError(f"output with shape {list(input.shape)} doesn't match the broadcast shape of a target {list(target.shape)}")
    if target.dtype.rank > input.dtype.rank: raise RuntimeError(f"result type {target.dtype.name} can't be cast to the desired output type {input.dtype.name}")
    refuse_gradients("soft_margin_loss", target=target)
    refuse_complex_gradients("soft_margin_loss", input)
    return finish((-target.to(input.dtype) * input).exp().log1p(), reduction)
