"""Classification losses: gather and scatter at target classes, the fused gradient of cross-entropy, and CTC.

Inputs are (N, C, *places), or (C); targets hold class indices and lack the class dimension. An ignored target has weight 0.
"""

from __future__ import annotations

from typing import Any

import numpy

from ..base.errors import Refused
from . import fused
from .reference import _through_host, module_of
from .workers import share


def fitting_classes(shape: tuple[int, ...], target: Any, weight: Any) -> None:
    """Check the shape and the dtype of the target and the weight of a class loss by PyTorch's rules; Refused if they do not fit."""
    if target.dtype not in (numpy.int64, numpy.uint8):
        raise Refused(f"expected target dtype to be int64 or uint8, but got {target.dtype.name}")
    classes = shape[min(1, len(shape) - 1)]
    wanted = shape[:1] + shape[2:] if len(shape) > 1 else ()
    if tuple(target.shape) != wanted:
        if target.ndim and len(shape) > 1 and target.shape[0] != shape[0]:
            raise Refused(f"Expected input batch_size ({shape[0]}) to match target batch_size ({target.shape[0]}).", ValueError)
        raise Refused(f"Expected target size {list(wanted)}, got {list(target.shape)}")
    if weight is not None and tuple(weight.shape) != (classes,):
        raise Refused(
            f"weight tensor should be defined either for all {classes} classes or no classes "
            f"but got weight tensor of shape: {list(weight.shape)}"
        )


def _check(shape: tuple[int, ...], target: Any, weight: Any, ignore: int) -> None:
    """The same, and the target's values."""
    fitting_classes(shape, target, weight)
    classes = shape[min(1, len(shape) - 1)]
    if target.size and (int(target.min()) < 0 or int(target.max()) >= classes):
        wrong = target[((target < 0) | (target >= classes)) & (target != ignore)]
        if wrong.size:
            raise Refused(f"Target {int(wrong.reshape(-1)[0])} is out of bounds.", IndexError)


def _index(target: Any, ignore: int) -> tuple:
    """Return the index into the input of each place's target class; ignored targets select class 0, with weight 0."""
    xp, n = module_of(target), target.ndim
    classes = target.astype(numpy.int64, copy=False)
    if xp is not numpy or target.size and int(target.min()) <= ignore <= int(target.max()):
        classes = xp.where(target == ignore, 0, classes)
    places = [xp.arange(m).reshape(-1, *(1,) * (n - 1 - i)) for i, m in enumerate(target.shape)]
    return (*places[:1], classes, *places[1:])


def class_weights(target: Any, weight: Any, ignore: int, dtype: Any) -> Any:
    """Return the weight of each target's class; 0 for an ignored target."""
    xp, kept = module_of(target), target != ignore
    if weight is None:
        return kept.astype(dtype)
    return xp.where(kept, weight[xp.where(kept, target, 0)], weight.dtype.type(0)).astype(dtype, copy=False)


def class_pick(x: Any, target: Any, weight: Any = None, ignore: int = -100) -> Any:
    """Return each place's element at its target class, times the weight of that class; 0 for an ignored target."""
    _check(x.shape, target, weight, ignore)
    found = x[_index(target, ignore)]
    if weight is not None:
        found = found * class_weights(target, weight, ignore, x.dtype)
    return module_of(x).where(target == ignore, x.dtype.type(0), found)


def class_spread(g: Any, target: Any, weight: Any, size: tuple, ignore: int = -100) -> Any:
    """The transpose of `class_pick`: zeros of shape `size` with each element of `g`, times its class's weight, at its target class."""
    out = module_of(g).zeros(size, g.dtype)
    weighted = g * class_weights(target, weight, ignore, g.dtype)
    out[_index(target, ignore)] = module_of(g).where(target == ignore, g.dtype.type(0), weighted)  # 0 even where g is nan
    return out


def log_sum_exp(x: Any) -> Any:
    """log(sum(exp(x))) over the class dimension, which is kept with size 1."""
    xp, axis = module_of(x), min(x.ndim - 1, 1)
    if x.ndim == 2 and (run := fused.kernel("log_sum_exp", x)) is not None:
        total = numpy.empty((len(x), 1), x.dtype)
        share(run, (x,), last=(total.reshape(-1),))
        return total
    most = x.max(axis, None, True)
    shifted = x - most
    return xp.log(xp.add.reduce(xp.exp(shifted, out=shifted), axis, keepdims=True)) + most


def softmax_scaled(x: Any, lse: Any, scale: Any) -> Any:
    """Return scale * softmax(x), from the logarithms of the sums of exponentials; both are numbers or beside the rows of x."""
    if x.ndim == 2 and (run := fused.kernel("softmax_scaled", x, lse)) is not None:
        out, each = numpy.empty_like(x), numpy.empty(len(x), x.dtype)
        each[...] = scale if not getattr(scale, "ndim", 0) else scale.reshape(-1)
        share(run, (x, lse.reshape(-1), each), last=(out,))
        return out
    out = x - lse
    module_of(x).exp(out, out=out)
    out *= scale
    return out


def softmax_minus(x: Any, lse: Any, scale: Any, g: Any, target: Any, ignore: int) -> Any:
    """Return scale * softmax(x) minus `g` at each place's target class: the gradient of cross-entropy."""
    xp, axis = module_of(x), min(x.ndim - 1, 1)
    out = softmax_scaled(x, lse, scale if not scale.ndim else scale.reshape(*scale.shape[:axis], 1, *scale.shape[axis:]))
    out[_index(target, ignore)] -= xp.where(target == ignore, g.dtype.type(0), g)
    return out


@_through_host  # the recursion over time offers a GPU no parallel work
def ctc(log_probs: Any, targets: Any, input_lengths: Any, target_lengths: Any, blank: int) -> tuple:
    """Connectionist temporal classification: return each target's negative log-likelihood (N) and PyTorch's gradient of it (T, N, C).

    Forward and backward recursions over the extended labels (Graves et al., 2006), in log space, for the whole batch at once. The gradient
    is with respect to the logits of a log_softmax: each class's probability minus its posterior, and 0 beyond the input's length. A target
    without any alignment has a loss of inf and a gradient of nan.
    """
    t_max, n, _ = log_probs.shape
    s_max = 2 * int(target_lengths.max(initial=0)) + 1
    labels = numpy.full((n, s_max), blank, numpy.int64)
    labels[:, 1::2] = targets[:, : s_max // 2]
    states = numpy.arange(s_max)[None] < (2 * target_lengths + 1)[:, None]
    skips = numpy.zeros((n, s_max), bool)
    skips[:, 2:] = (labels[:, 2:] != blank) & (labels[:, 2:] != labels[:, :-2])
    lp = numpy.take_along_axis(log_probs.astype(numpy.float64), numpy.broadcast_to(labels[None], (t_max, n, s_max)), 2)
    lp = numpy.where(states[None], lp, -numpy.inf)
    rows = numpy.arange(n)

    def moved(a: Any, by: int) -> Any:
        out = numpy.full_like(a, -numpy.inf)
        if by < a.shape[1]:
            out[:, by:] = a[:, : a.shape[1] - by]
        return out

    def recursion(lp: Any, start: Any, skips: Any) -> Any:
        found = numpy.full((t_max, n, s_max), -numpy.inf)
        if t_max:
            found[0] = numpy.where(start, lp[0], -numpy.inf)
        for t in range(1, t_max):
            a = found[t - 1]
            found[t] = numpy.logaddexp(numpy.logaddexp(a, moved(a, 1)), numpy.where(skips, moved(a, 2), -numpy.inf)) + lp[t]
        return found

    alpha = recursion(lp, numpy.arange(s_max)[None] < 2, skips)
    last = numpy.maximum(input_lengths - 1, 0)
    ends = 2 * target_lengths
    final = alpha[last, rows]
    likelihood = numpy.logaddexp(final[rows, ends], numpy.where(ends > 0, final[rows, numpy.maximum(ends - 1, 0)], -numpy.inf))
    likelihood = numpy.where(input_lengths > 0, likelihood, numpy.where(target_lengths == 0, 0.0, -numpy.inf))
    # the backward recursion is the forward one on reversed time and labels, each sample from its own end
    times = last[None, :] - numpy.arange(t_max)[:, None]
    spots = ends[:, None] - numpy.arange(s_max)[None]
    valid = (times >= 0)[:, :, None] & (spots >= 0)[None]
    where = numpy.maximum(times, 0)[:, :, None], rows[None, :, None], numpy.maximum(spots, 0)[None]
    flipped = numpy.where(valid, lp[where], -numpy.inf)
    back_labels = numpy.where(spots >= 0, labels[rows[:, None], numpy.maximum(spots, 0)], blank)
    back_skips = numpy.zeros((n, s_max), bool)
    back_skips[:, 2:] = (back_labels[:, 2:] != blank) & (back_labels[:, 2:] != back_labels[:, :-2])
    beta = numpy.where(valid, recursion(flipped, numpy.arange(s_max)[None] < 2, back_skips)[where], -numpy.inf)
    with numpy.errstate(invalid="ignore"):
        gamma = numpy.exp(alpha + beta - lp - likelihood[None, :, None])
    within = (numpy.arange(t_max)[:, None] < input_lengths)[:, :, None]
    gamma = numpy.where(numpy.isfinite(lp) & numpy.isfinite(likelihood)[None, :, None] & within, gamma, 0.0)
    posterior = numpy.zeros(log_probs.shape)
    numpy.add.at(posterior, (numpy.arange(t_max)[:, None, None], rows[None, :, None], labels[None]), gamma)
    posterior[:, likelihood == -numpy.inf] = numpy.nan  # an impossible target
    slope = numpy.where(within, numpy.exp(log_probs) - posterior, 0.0)
    return (-likelihood).astype(log_probs.dtype), slope.astype(log_probs.dtype)
