"""Losses between predictions and targets, reduced to a scalar or per element."""

from __future__ import annotations

import math
from typing import Any

from ..base import dtypes
from ..base.errors import Refused, warn
from ..core.arguments import parsed
from ..core.devices import require
from ..core.from_data import tensor
from ..core.op import Linear, Op, composite, functions
from ..core.tensor import Tensor
from .front import refuse_gradients

_INNER = {"promotion": "only other ops use it.", "zero_size": "PyTorch has no function of this name; nll_loss has the test."}


def reduced(xp, loss, reduction):
    """Reduce the elements' losses as `reduction` says: "none", "mean" or "sum"."""
    if reduction == "mean":
        if getattr(loss.dtype, "kind", "f") in "biu": raise Refused(f"mean(): could not infer output dtype. Input dtype must be either a floating point or complex dtype. Got: {loss.dtype}")
        return xp.mean(loss)
    if reduction == "sum": return xp.sum(loss if getattr(loss.dtype, "kind", "f") != "u" else xp.astype(loss, dtypes.int64.numpy))
    if reduction == "none": return loss
    raise Refused(f"{reduction} is not a valid value for reduction", ValueError)


def shared(g, slope, reduction):
    """Gradient of each element's loss: `g`, divided by the number of elements of `slope` for "mean"."""
    return g / max(math.prod(slope.shape), 1) if reduction == "mean" else g


class Difference(Op):
    """Base of losses of the difference of input and target; the rules use the derivative of one element's loss."""
    home, inputs, types, method, checks = "nn.functional", ("input", "target"), "promote", False, True
    samples = (((3, 4), (3, 4)), ((5,), (5,)))

    @classmethod
    def prepare(cls, arrays):
        a, b = arrays
        for x in arrays:
            if not hasattr(x, "shape"): raise Refused(f"'{type(x).__name__}' object has no attribute 'size': input and target must be tensors", AttributeError)
        if a.shape != b.shape:
            warn(
                f"Using a target size (torch.Size({list(b.shape)})) that is different to the input size (torch.Size({list(a.shape)})). "
                "This will likely lead to incorrect results due to broadcasting. Please ensure they have the same size.")  # fmt: skip
            most = max(a.ndim, b.ndim)  # a 0-d operand is repeated into a tensor, and its dtype counts in promotion
            arrays = [x if x.ndim else x.reshape((1,) * most) for x in arrays]
        return super().prepare(arrays)


def _rank(x):
    """Return the rank of an operand's dtype: bool, integer, float or complex."""
    return dtypes.result((x,)).rank


class mse_loss(Difference):
    """Squared difference, averaged by default."""
    def forward(xp, input, target, reduction="mean"):
        d = input - target
        return reduced(xp, d * d, reduction)
    def d_input(xp, g, input, target, reduction):
        d = input - target
        return shared(g, d, reduction) * 2 * d
    def d_target(xp, g, input, target, reduction):
        d = target - input
        return shared(g, d, reduction) * 2 * d


class l1_loss(Difference):
    """Absolute difference, averaged by default."""
    @classmethod
    def prepare(cls, arrays):
        if any(_rank(a) == dtypes.BOOL for a in arrays): raise Refused("Subtraction, the `-` operator, with a bool tensor is not supported.")
        return super().prepare(arrays)
    def forward(xp, input, target, reduction="mean"): return reduced(xp, xp.abs(input - target), reduction)
    def d_input(xp, g, input, target, reduction):
        d = input - target
        return shared(g, d, reduction) * xp.conj(xp.sgn(d))
    def d_target(xp, g, input, target, reduction):
        d = target - input
        return shared(g, d, reduction) * xp.conj(xp.sgn(d))


def cut(xp, d, bound):
    """The difference clipped to [-bound, bound]; the derivative is 0 at and beyond the bounds, and at nan."""
    return xp.where(xp.abs(d) < bound, d, xp.clip(2 * d, -bound, bound))


def smooth(xp, d, beta):
    """Derivative of the smooth L1 loss: the difference divided by `beta`, clipped to [-1, 1]."""
    return xp.sign(d) if beta == 0 else cut(xp, d, beta) / beta


class smooth_l1_loss(Difference):
    """Quadratic where input and target differ by less than `beta`, absolute beyond; averaged by default."""
    examples = tuple((shapes, attrs) for shapes in Difference.samples for attrs in ({}, {"beta": 0.2, "reduction": "sum"}))
    def forward(xp, input, target, reduction="mean", beta=1.0):
        if beta < 0: raise Refused("smooth_l1_loss does not support negative values for beta.")
        a = xp.abs(input - target)
        return reduced(xp, a if beta == 0 else xp.where(a < beta, a * a / (2 * beta), a - beta / 2), reduction)
    def d_input(xp, g, input, target, reduction, beta):
        d = input - target
        return shared(g, d, reduction) * smooth(xp, d, beta)
    def d_target(xp, g, input, target, reduction, beta):
        d = target - input
        return shared(g, d, reduction) * smooth(xp, d, beta)


class huber_loss(Difference):
    """Quadratic where input and target differ by at most `delta`, then absolute with slope `delta`; averaged by default."""
    @classmethod
    def prepare(cls, arrays):
        (a, b), xp = super().prepare(arrays)
        if _rank(arrays[0]) < _rank(arrays[1]): raise Refused(f"result type {a.dtype} can't be cast to the desired output type {arrays[0].dtype}")
        return [xp.astype(a, arrays[0].dtype), xp.astype(b, arrays[0].dtype)], xp  # the result has the input's dtype
    examples = tuple((shapes, attrs) for shapes in Difference.samples for attrs in ({}, {"delta": 0.2, "reduction": "sum"}))
    def forward(xp, input, target, reduction="mean", delta=1.0):
        if not isinstance(delta, (int, float)): raise Refused(f"delta must be a float or int, got: {type(delta)}", TypeError)
        if delta <= 0: raise Refused("huber_loss does not support non-positive values for delta.")
        a = xp.abs(input - target)
        return reduced(xp, xp.where(a <= delta, a * a * 0.5, (a - delta / 2) * delta), reduction)
    def d_input(xp, g, input, target, reduction, delta):
        d = input - target
        return shared(g, d, reduction) * cut(xp, d, delta)
    def d_target(xp, g, input, target, reduction, delta):
        d = target - input
        return shared(g, d, reduction) * cut(xp, d, delta)


# -- classes -------------------------------------------------------------------------------------------------------------


class class_pick(Linear):
    """Each position's element at its target class, times that class's weight."""
    home, inputs, exempt = "", ("input", "target", "weight"), _INNER
    examples = ((((3, 4), [1, 0, 3], [2, 1, 3, 1]), {}), (((2, 3, 2), [[1, 0], [-100, 2]], None), {}))
    formula = "weight[target] * input[target]"
    def forward(xp, input, target, weight=None, ignore_index=-100): return xp.class_pick(input, target, weight, ignore_index)
    def d_input(xp, g, target, weight, shape, ignore_index): return xp.class_spread(g, target, weight, shape, ignore_index)


class class_spread(Linear):
    """The transpose of `class_pick`: each element put at its target class, times that class's weight, with zeros elsewhere."""
    home, inputs, exempt = "", ("input", "target", "weight"), _INNER
    examples = ((((3,), [1, 0, 3], None), {"size": (3, 4)}),)
    formula = "scatter(weight[target] * input, target)"
    def forward(xp, input, target, weight=None, size=(), ignore_index=-100): return xp.class_spread(input, target, weight, size, ignore_index)
    def d_input(xp, g, target, weight, ignore_index): return xp.class_pick(g, target, weight, ignore_index)


class nll_loss(Op):
    """Negative log-probability of each target class, weighted; the weighted mean by default."""
    home, inputs, method = "nn.functional", ("input", "target", "weight"), False
    examples = ((((3, 4), [1, 0, 3], None), {}), (((2, 3, 2), [[1, 0], [-100, 2]], None), {}), (((3, 4), [1, 0, 3], [2, 1, 3, 1]), {}), (((3, 4), [1, 0, 3], None), {"reduction": "none"}))
    formula = "-weight[target] * input[target]"
    def forward(xp, input, target, weight=None, ignore_index=-100, reduction="mean"):
        each = -xp.class_pick(input, target, weight, ignore_index)
        return xp.sum(each) / total(xp, input, target, weight, ignore_index) if reduction == "mean" else reduced(xp, each, reduction)
    def d_input(xp, g, target, weight, shape, ignore_index, reduction):
        g = g / total(xp, g, target, weight, ignore_index) if reduction == "mean" else g
        return -xp.class_spread(xp.broadcast_to(g, target.shape), target, weight, shape, ignore_index)


def total(xp, like, target, weight, ignore_index):
    """Sum of the targets' weights, the divisor of the weighted mean."""
    return xp.sum(xp.class_weights(target, weight, ignore_index, like.dtype))


class cross_entropy(Op):
    """Negative log of the softmax at each target class, in one pass; the weighted mean by default."""
    home, inputs, aux = "", ("input", "target", "weight"), ("lse",)
    exempt = {"promotion": "the composite of this name decides what it is called with.", "zero_size": "the composite of this name decides what it is called with."}
    examples = ((((3, 4), [1, 0, 3], None), {}), (((2, 3, 2), [[1, 0], [-100, 2]], None), {"label_smoothing": 0.2}), (((3, 4), [1, 0, 3], [2, 1, 3, 1]), {"label_smoothing": 0.1}), (((3, 4), [1, 0, 3], None), {"reduction": "none"}))
    formula = "log(sum(exp(input))) - input[target]"
    def forward(xp, input, target, weight=None, ignore_index=-100, reduction="mean", label_smoothing=0.0):
        lse = xp.log_sum_exp(input)
        axis, each = min(input.ndim - 1, 1), -xp.class_pick(input, target, weight, ignore_index)
        shares = xp.class_weights(target, weight, ignore_index, input.dtype)
        flat = xp.squeeze(lse, axis=axis)
        each = each + shares * flat
        if label_smoothing:
            classes = input.shape[axis]
            if weight is None: even = flat * classes - xp.sum(input, axis=axis)
            else: even = xp.sum((lse - input) * along(xp, weight, input.ndim, axis), axis=axis)
            each = (1 - label_smoothing) * each + label_smoothing / classes * even
        each = xp.where(target == ignore_index, 0, each)  # also if the scores are not finite
        return xp.sum(each) / xp.sum(shares) if reduction == "mean" else reduced(xp, each, reduction), lse
    def d_input(xp, g, input, target, weight, lse, ignore_index, reduction, label_smoothing):
        shares = xp.class_weights(target, weight, ignore_index, input.dtype)
        if reduction == "mean": g = xp.where(target == ignore_index, 0, g / xp.sum(shares))  # if all targets are ignored, the mean is nan but its gradient is 0
        if not label_smoothing:
            g = g * shares
            return xp.softmax_minus(input, lse, g, g, target, ignore_index)
        axis = min(input.ndim - 1, 1)
        classes, kept = input.shape[axis], xp.class_weights(target, None, ignore_index, input.dtype)
        each = label_smoothing / classes * g * kept
        mass = classes if weight is None else xp.sum(weight)
        sure = (1 - label_smoothing) * g * shares
        found = xp.softmax_minus(input, lse, sure + each * mass, sure, target, ignore_index)
        each = xp.expand_dims(each, axis)
        return found - (each if weight is None else each * along(xp, weight, input.ndim, axis))


def along(xp, weight, ndim, axis):
    """Reshape class weights to broadcast against the input."""
    return xp.reshape(weight, tuple(-1 if i == axis else 1 for i in range(ndim)))


@composite(home="nn.functional")
def cross_entropy_(input: Tensor, target: Tensor, weight: Tensor | None = None, size_average=None, ignore_index: int = -100, reduce=None, reduction="mean", label_smoothing=0.0):
    """Cross-entropy of logits (N, C, ...) with target classes (N, ...), or with target probabilities of the input's shape.

    `weight` scales classes, targets equal to `ignore_index` do not count, and `label_smoothing` moves that share of each target to all
    classes evenly. The mean is weighted by the targets' weights; for probabilities it is taken over the batch.
    """
    reduction = reduction_of(size_average, reduce, reduction)
    if not 0 <= label_smoothing <= 1: raise RuntimeError(f"label_smoothing must be between 0.0 and 1.0. Got: {label_smoothing}")
    if reduction not in ("none", "mean", "sum"): raise ValueError(f"{reduction} is not a valid value for reduction")
    if not input.is_floating_point(): raise NotImplementedError(f"cross_entropy: not implemented for {input.dtype.name}; convert the input with .float()")
    if target.shape != input.shape or not target.is_floating_point():
        one_target_each(cross_entropy, input, target)
        same_type(input, weight)
        refuse_gradients("nll_loss_forward", weight=weight)
        return cross_entropy(input, target, weight, ignore_index, reduction, label_smoothing)
    if ignore_index >= 0: raise RuntimeError("ignore_index is not supported for floating point target")
    axis = min(input.ndim - 1, 1)
    if label_smoothing: target = target * (1 - label_smoothing) + label_smoothing / input.shape[axis]
    terms = input.log_softmax(axis) * target
    if weight is not None: terms = terms * weight.reshape(tuple(-1 if i == axis else 1 for i in range(input.ndim)))
    each = -terms.sum(axis)
    return finish(each, reduction)


@composite(home="nn.functional")
def linear_cross_entropy(input, linear_weight, target, *, linear_bias=None, weight=None, reduction="mean", ignore_index=None, label_smoothing=0.0, options=None):
    """Cross-entropy of a linear layer's output: input (in) or (N, in), linear_weight (C, in) or (C, *dims, in), target (N, *dims).

    Targets are classes, or probabilities (N, C, *dims). `options` control how PyTorch saves memory; they do not change the result.
    """
    if linear_weight.ndim < 2: raise RuntimeError(f"expected linear_weight with dimensionality at least 2, got {linear_weight.ndim}")
    if input.ndim not in (1, 2): raise RuntimeError(f"expected input with dimensionality 1 or 2, got {input.ndim}")
    *out, width = linear_weight.shape
    if input.shape[-1] != width:
        raise RuntimeError(f"expected equal input and linear_weight last dimensions (in_features), got {input.shape[-1]} and {width}, respectively")
    if len(out) > 1 and input.ndim == 1:
        raise RuntimeError(f"K-dimensional loss defined by linear_weight shape {tuple(linear_weight.shape)} requires batched input, (N, {width}), got unbatched input with shape {tuple(input.shape)}")
    if linear_bias is not None and tuple(linear_bias.shape) != tuple(out): raise RuntimeError(f"expected linear_bias shape {tuple(out)}, got {tuple(linear_bias.shape)}")
    probable = tuple(target.shape[input.ndim - 1 :]) == tuple(out)
    if probable and not target.is_floating_point(): raise RuntimeError(f"Expected floating point type for target with class probabilities, got {target.dtype.name}")
    if input.ndim == 2 and target.ndim and target.shape[0] != input.shape[0]:
        raise ValueError(f"Expected input batch_size ({input.shape[0]}) to match target batch_size ({target.shape[0]}).")
    if probable and ignore_index is not None: raise RuntimeError("ignore_index cannot be specified when target contains probabilities")
    flat = functions["nn.functional.linear"](input, linear_weight.reshape(-1, width), None if linear_bias is None else linear_bias.reshape(-1))
    scores = flat.reshape(*input.shape[:-1], *out)
    return cross_entropy_(scores, target, weight, None, -100 if ignore_index is None else ignore_index, None, reduction, label_smoothing)


def is_real(x):
    """Return whether a tensor is floating point or complex."""
    return x.dtype.rank > dtypes.INT


def one_target_each(op, input, target):
    """Raise ValueError, through the op, unless there is one target class for each sample."""
    given, wanted = input.shape, target.shape
    if not given: op.refuse((input, target), "Expected 1 or more dimensions (got 0)", ValueError)
    n = wanted[0] if wanted else 0
    if len(given) > 1 and n != given[0]: op.refuse((input, target), f"Expected input batch_size ({given[0]}) to match target batch_size ({n}).", ValueError)
    if len(given) == len(wanted) == 1 != n: op.refuse((input, target), f"For 1D input, 1D target must have size 1, but got target size: {n}", ValueError)


def same_type(input, weight):
    """Raise RuntimeError if the class weights have another dtype than the input."""
    if weight is not None and weight.dtype != input.dtype: raise RuntimeError(f"expected scalar type {input.dtype.name} but found {weight.dtype.name}, the dtype of weight")


def reduction_of(size_average, reduce, reduction):
    """Return the reduction that PyTorch's deprecated flags, or its old name of the mean, stand for."""
    if size_average is None and reduce is None:
        if reduction != "elementwise_mean": return reduction
        warn("reduction='elementwise_mean' is deprecated. Please use reduction='mean' instead.")
        return "mean"
    warn(f"size_average and reduce args will be deprecated, please use reduction='{flagged(size_average, reduce)}' instead.")
    return flagged(size_average, reduce)


def flagged(size_average, reduce):
    """Return the reduction that the flags stand for."""
    return "none" if reduce is False else "sum" if size_average is False else "mean"


# -- probabilities -------------------------------------------------------------------------------------------------------


class Binary(Op):
    """Base of losses with one probability for each element."""
    home, types, method = "nn.functional", "promote", False
    @staticmethod
    def why(*shapes):
        return f"Using a target size ({list(shapes[1])}) that is different to the input size ({list(shapes[0])}) is deprecated. Please ensure they have the same size."


def alike(input, target, rule):
    if tuple(input.shape) != tuple(target.shape): raise Refused(rule.format(list(target.shape), list(input.shape)), ValueError)


class binary_cross_entropy(Binary):
    """Negative log-likelihood of targets between 0 and 1, given probabilities; logarithms are at least -100."""
    inputs, domain, types = ("input", "target", "weight"), (0.1, 0.9), "same"
    samples = (((3, 4), (3, 4)), ((3, 4), (3, 4), (4,)))
    formula = "-weight * (target * log(input) + (1 - target) * log(1 - input))"
    def forward(xp, input, target, weight=None, reduction="mean"):
        alike(input, target, "Using a target size ({}) that is different to the input size ({}) is deprecated. Please ensure they have the same size.")
        require((input >= 0) & (input <= 1), Refused, "all elements of input should be between 0 and 1")
        each = surprise(xp, input, target)
        return reduced(xp, each if weight is None else each * weight, reduction)
    def d_input(xp, g, input, target, weight, reduction):
        g = shared(g, input, reduction) * (input - target) / xp.maximum(input * (1 - input), 1e-12)
        return g if weight is None else g * weight
    def d_target(xp, g, input, weight, reduction):
        g = shared(g, input, reduction) * (xp.log1p(-input) - xp.log(input))  # PyTorch clips the logarithms in the forward pass only
        return g if weight is None else g * weight
    def d_weight(xp, g, input, target, reduction): return shared(g, input, reduction) * surprise(xp, input, target)


def surprise(xp, p, target): return -(target * xp.maximum(xp.log(p), -100.0) + (1 - target) * xp.maximum(xp.log1p(-p), -100.0))


class binary_cross_entropy_with_logits(Binary):
    """Negative log-likelihood of targets between 0 and 1, given logits; `pos_weight` scales the positive class."""
    inputs = ("input", "target", "weight", "pos_weight")
    order = ("input", "target", "weight", "reduction", "pos_weight")
    samples = (((3, 4), (3, 4)), ((3, 4), (3, 4), (4,), (4,)))
    @classmethod
    def prepare(cls, arrays):
        given, xp = super().prepare(arrays)
        if _rank(arrays[0]) > _rank(arrays[1]): raise Refused(f"result type {given[0].dtype} can't be cast to the desired output type {arrays[1].dtype}")
        return [a if a is None else xp.astype(a, arrays[1].dtype) for a in given], xp  # the result has the target's dtype
    formula = "(1 - target) * input + (1 + (pos_weight - 1) * target) * log(1 + exp(-input))"
    def forward(xp, input, target, weight=None, pos_weight=None, reduction="mean"):
        alike(input, target, "Target size ({}) must be the same as input size ({})")
        each = surprise_of_logits(xp, input, target, pos_weight)
        return reduced(xp, each if weight is None else each * weight, reduction)
    def d_input(xp, g, input, target, weight, pos_weight, reduction):
        p = xp.sigmoid(input)
        g = shared(g, input, reduction) * (p - target if pos_weight is None else (1 - target) - (1 + (pos_weight - 1) * target) * (1 - p))
        return g if weight is None else g * weight
    def d_target(xp, g, input, weight, pos_weight, reduction):
        slope = -input if pos_weight is None else (pos_weight - 1) * (xp.log1p(xp.exp(-xp.abs(input))) + xp.maximum(-input, 0.0)) - input
        g = shared(g, input, reduction) * slope
        return g if weight is None else g * weight
    def d_weight(xp, g, input, target, pos_weight, reduction): return shared(g, input, reduction) * surprise_of_logits(xp, input, target, pos_weight)
    def d_pos_weight(xp, g, input, target, weight, reduction):
        g = shared(g, input, reduction) * target * (xp.log1p(xp.exp(-xp.abs(input))) + xp.maximum(-input, 0.0))
        return g if weight is None else g * weight


def surprise_of_logits(xp, x, target, pos_weight):
    low = -xp.log_sigmoid(x)
    return (1 - target) * x + (low if pos_weight is None else (1 + (pos_weight - 1) * target) * low)


def known_reduction(reduction):
    if reduction not in ("mean", "sum", "none"): raise ValueError(f"{reduction} is not a valid value for reduction")
    return reduction


def finish(each, reduction):
    """`reduced` for composites."""
    known_reduction(reduction)
    if reduction == "mean": return each.mean()
    if reduction == "sum": return each.sum()
    return each


@composite(home="nn.functional")
@parsed
def kl_div(input: Tensor, target: Tensor, size_average=None, reduce=None, reduction="mean", log_target: bool = False):
    """Kullback-Leibler divergence `target * (log(target) - input)` for log-probabilities `input`, and `target` too with `log_target`.

    "batchmean" is the mathematical divergence, averaged over the batch; "mean" divides by the number of elements, and warns as PyTorch
    does.
    """
    given, reduction = reduction, reduction_of(size_average, reduce, reduction)
    if reduction != "batchmean": known_reduction(reduction)
    if input.is_complex() or target.is_complex(): raise RuntimeError("kl_div: Complex inputs not supported.")
    if not (is_real(input) and is_real(target)): raise RuntimeError(f"kl_div: Integral inputs not supported, but got {input.dtype.name} and {target.dtype.name}")
    if given == "mean" and size_average is None and reduce is None: warn("reduction: 'mean' divides the total loss by both the batch size and the support size. 'batchmean' divides only by the batch size, and aligns with the KL div math definition. 'mean' will be changed to behave the same as 'batchmean' in the next major release.")
    each = target.exp() * (target - input) if log_target else target.xlogy(target) - target * input
    return each.sum() / max(input.shape[0], 1) if reduction == "batchmean" and input.ndim else finish(each, "sum" if reduction == "batchmean" else reduction)


@composite(home="nn.functional")
def gaussian_nll_loss(input: Tensor, target: Tensor, var: Any, full=False, eps=1e-6, reduction="mean"):
    """Negative log-likelihood of targets under normal distributions with means `input` and variances `var`, clamped to at least `eps`."""
    if isinstance(var, float): var = tensor(var, dtype=input.dtype).expand(input.shape)
    if not isinstance(var, Tensor): raise TypeError(f"gaussian_nll_loss(): argument 'var' must be float or Tensor, not {type(var).__name__}")
    if var.is_meta: (var < 0).any().item()  # refused, as in PyTorch
    require(~(var.array < 0), ValueError, "var has negative entry/entries")
    if tuple(var.shape) != tuple(input.shape):
        once = [i for i, (v, n) in enumerate(zip(var.shape, input.shape, strict=False)) if v == 1 and n != 1]  # with one variance for all
        if tuple(input.shape[:-1]) == tuple(var.shape): var = var.unsqueeze(-1)
        elif var.ndim != input.ndim or len(once) != 1 or any(v != n for i, (v, n) in enumerate(zip(var.shape, input.shape, strict=True)) if i not in once):
            raise ValueError(f"var is of incorrect size: expected {tuple(input.shape)}, or 1 in one of its dimensions, got {tuple(var.shape)}")
    if reduction not in ("none", "mean", "sum"): raise ValueError(reduction + " is not valid")
    var = var.clone()
    var.data.clamp_(min=eps)  # clamped outside the graph: the gradient passes through
    each = 0.5 * (var.log() + (input - target) ** 2 / var)
    return finish(each + 0.5 * math.log(2 * math.pi) if full else each, reduction)


@composite(home="nn.functional")
@parsed
def poisson_nll_loss(input: Tensor, target: Tensor, log_input: bool = True, full: bool = False, size_average=None, eps: float = 1e-8, reduce=None, reduction="mean"):
    """Negative log-likelihood of counts under Poisson distributions of (log) rates `input`; `full` adds Stirling's term."""
    reduction = reduction_of(size_average, reduce, reduction)
    if reduction not in ("none", "mean", "sum"): raise ValueError(reduction + " is not a valid value for reduction")
    each = input.exp() - target * input if log_input else input - target * (input + float(eps)).log()
    if full:
        stirling = target * target.log() - target + 0.5 * (2 * math.pi * target).log()
        each = each + stirling.masked_fill(target <= 1, 0).to(each.dtype)
    return finish(each, reduction)
