"""Connectionist temporal classification: the loss of sequences without an alignment."""

import math

from ..base import dtypes
from ..core.create import full
from ..core.devices import known, known_later
from ..core.from_data import tensor
from ..core.op import Op, composite
from ..core.tensor import Tensor
from .loss import finish
from .select import where


class ctc(Op):
    """Negative log-likelihood of each target sequence, summed over all its alignments with the input."""
    home, inputs, aux = "", ("log_probs", "targets", "input_lengths", "target_lengths"), ("slope",)
    exempt = {"promotion": "the composite ctc_loss decides what it is called with.", "zero_size": "the composite ctc_loss decides what it is called with.",
              "second": "the forward-backward algorithm gives first derivatives only, in PyTorch too.", "forward": "forward mode would need the second derivative, which PyTorch lacks too.", "reverse": "PyTorch's gradient is that of the logits before log_softmax, not of the formula."}  # fmt: skip
    domain = (-3.0, -0.5)
    examples = ((((5, 2, 4), [[1, 2], [3, 3]], [5, 4], [2, 2]), {}),)
    formula = "-log(sum over alignments of exp(sum(log_probs)))"
    def forward(xp, log_probs, targets, input_lengths, target_lengths, blank=0): return xp.ctc(log_probs, targets, input_lengths, target_lengths, blank)
    # naming the inputs saves them: a recorded gradient computes the slope from them again
    # the slope of an impossible target is nan; with zero_infinity g is 0 there
    def d_log_probs(xp, g, log_probs, targets, input_lengths, target_lengths, slope): return xp.where(xp.reshape(g, (1, -1, 1)) == 0, 0.0, xp.reshape(g, (1, -1, 1)) * slope)


@composite(home="nn.functional")
def ctc_loss(log_probs, targets, input_lengths, target_lengths, blank=0, reduction="mean", zero_infinity=False):
    """Connectionist temporal classification loss of log-probabilities (T, N, C) or (T, C), with targets (N, S) or concatenated.

    "mean" divides by target lengths, then averages over the batch. As in PyTorch, the gradient is that of the logits before log_softmax:
    each class's probability less its posterior. log_softmax passes it on unchanged; a leaf of log-probabilities gets it too, although it is
    not the derivative of the formula there.
    """
    lengths = input_lengths, target_lengths
    if not all(isinstance(v, Tensor) for v in lengths) and not all(isinstance(v, (tuple, list)) for v in lengths):
        raise TypeError(f"ctc_loss(): input_lengths and target_lengths must both be Tensor or both tuple of ints, but are {' and '.join(type(v).__name__ for v in lengths)}")
    for v in lengths:
        if isinstance(v, Tensor) and v.dtype.rank != dtypes.INT: raise RuntimeError(f"ctc_loss: lengths must be integral, not {v.dtype.name}")
    lone = log_probs.ndim != 3
    x = log_probs.unsqueeze(1) if lone else log_probs
    if x.dtype not in (dtypes.float32, dtypes.float64): raise NotImplementedError(f"ctc_loss: not implemented for {x.dtype.name}; convert the input with .float()")
    if x.ndim != 3: raise RuntimeError(f"log_probs: expected 2 or 3 dimensions, got {log_probs.ndim}")
    steps, n, classes = x.shape
    targets = targets.to(x.device)
    inputs, lengths = (_lengths(v, n, name).to(x.device) for v, name in ((input_lengths, "input_lengths"), (target_lengths, "target_lengths")))
    if not 0 <= blank < classes: raise RuntimeError("blank must be in label range")
    if any(known((x < 0).any()) for x in (inputs, lengths)): raise RuntimeError(f"ctc_loss: lengths must not be negative, but got {inputs.tolist()} and {lengths.tolist()}")
    if inputs.numel() and known(inputs.max() > steps): raise RuntimeError(f"Expected input_lengths to have value at most {steps}, but got value {int(inputs.max())}")
    if targets.is_floating_point(): raise RuntimeError("targets must be integral")
    longest = 0 if not lengths.numel() or lengths.is_meta or known_later(lengths.array) and targets.ndim == 2 else int(lengths.max())
    if targets.ndim == 1 and not (lone and targets.numel() == longest):
        if targets.numel() != int(lengths.sum()): raise RuntimeError(f"Expected {int(lengths.sum())} targets in a row, the sum of target_lengths, but got {targets.numel()}")
        rows, at = full((n, max(longest, 1)), blank, dtype=dtypes.int64, device=targets.device), 0
        for i, length in enumerate(lengths.tolist()):
            rows.array[i, :length] = targets.array[at : at + length]
            at += length
    else:
        rows = targets.reshape(1, -1) if targets.ndim == 1 else targets
        if rows.shape[1] < longest: raise RuntimeError(f"Expected tensor to have size at least {longest} at dimension 1, but got size {rows.shape[1]} for argument targets")
    each = ctc(x, rows, inputs, lengths, blank)
    if zero_infinity: each = where.call(each == math.inf, 0, each)
    if reduction == "mean": return (each / lengths.clamp(min=1).to(each.dtype)).mean()
    return finish(each.squeeze(0) if lone else each, reduction)


def _lengths(given, n, name):
    found = given.to(dtypes.int64).reshape(-1) if isinstance(given, Tensor) else tensor(list(given), dtype=dtypes.int64)
    if found.numel() != n: raise RuntimeError(f"{name} must be of size batch_size: expected {n}, got {found.numel()}")
    return found
