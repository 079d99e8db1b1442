"""Losses."""

from __future__ import annotations

import itertools

import numpy as np
import scipy.special

from .conv import transpose_of


def _reduced(each, reduction="mean"):
    return {"mean": np.mean, "sum": np.sum, "none": np.asarray}[reduction](each)


def _huber(input, target, reduction="mean", delta=1.0):
    d = np.abs(input - target)
    return _reduced(np.where(d < delta, d * d / 2, delta * (d - delta / 2)), reduction)


def _picked(input, target, weight=None, ignore_index=-100):
    """input[n, target[n], ...] * weight[target[n]], 0 where the target is ignored."""
    out = np.zeros(target.shape)
    for n, *at in np.ndindex(*target.shape):
        c = target[(n, *at)]
        if c != ignore_index:
            out[(n, *at)] = input[(n, c, *at)] * (1 if weight is None else weight[c])
    return out


def _spread(input, target, weight=None, size=(), ignore_index=-100):
    return transpose_of(lambda x: _picked(x, target, weight, ignore_index), size, input)


def _nll(input, target, weight=None, ignore_index=-100, reduction="mean"):
    each = -_picked(input, target, weight, ignore_index)
    return (
        each.sum() / _picked(np.ones_like(input), target, weight, ignore_index).sum() if reduction == "mean" else _reduced(each, reduction)
    )


def _cross_entropy(input, target, weight=None, ignore_index=-100, reduction="mean", label_smoothing=0.0):
    logs = scipy.special.log_softmax(input, 1)
    each = -_picked(logs, target, weight, ignore_index)
    w = np.ones(input.shape[1]) if weight is None else weight
    all_classes = -(logs * w.reshape(-1, *(1,) * (input.ndim - 2))).sum(1) * (target != ignore_index)
    each = (1 - label_smoothing) * each + label_smoothing / input.shape[1] * all_classes
    return (
        each.sum() / _picked(np.ones_like(input), target, weight, ignore_index).sum() if reduction == "mean" else _reduced(each, reduction)
    )


def _bce(input, target, weight=None, reduction="mean"):
    each = -(target * np.log(input) + (1 - target) * np.log(1 - input))
    return _reduced(each if weight is None else each * weight, reduction)


def _bce_logits(input, target, weight=None, pos_weight=None, reduction="mean"):
    p = scipy.special.expit(input)
    each = -((1 if pos_weight is None else pos_weight) * target * np.log(p) + (1 - target) * np.log(1 - p))
    return _reduced(each if weight is None else each * weight, reduction)


def _ctc(log_probs, targets, input_lengths, target_lengths, blank=0):
    """Every path is tried."""
    out = []
    for n, (steps, length) in enumerate(zip(input_lengths, target_lengths, strict=True)):
        total = 0.0
        for path in itertools.product(range(log_probs.shape[2]), repeat=int(steps)):
            shown = [c for i, c in enumerate(path) if c != blank and (i == 0 or path[i - 1] != c)]
            if shown == list(targets[n, :length]):
                total += np.exp(sum(log_probs[t, n, c] for t, c in enumerate(path)))
        out.append(-np.log(total))
    return np.array(out)


LOSS = {
    "mse_loss": lambda input, target, reduction="mean": _reduced((input - target) ** 2, reduction),
    "l1_loss": lambda input, target, reduction="mean": _reduced(np.abs(input - target), reduction),
    "huber_loss": _huber,
    "smooth_l1_loss": lambda input, target, reduction="mean", beta=1.0: _huber(input, target, reduction, beta) / beta,
    "class_pick": _picked,
    "class_spread": _spread,
    "nll_loss": _nll,
    "cross_entropy": _cross_entropy,
    "binary_cross_entropy": _bce,
    "binary_cross_entropy_with_logits": _bce_logits,
    "ctc": _ctc,
}
