"""`AdaptiveLogSoftmaxWithLoss`: efficient softmax for large vocabularies with an uneven class frequency."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Sequence
from typing import Any

import numpy

from ..core.tensor import Tensor
from ..ops.join import cat
from . import functional as F
from .container import ModuleList, Sequential
from .linear import Linear
from .module import Module

_ASMoutput = namedtuple("_ASMoutput", ["output", "loss"])


class AdaptiveLogSoftmaxWithLoss(Module):
    """Adaptive softmax: log p(c) = log p(tail) + log p(c | tail) for rare classes (Grave et al. 2016).

    Classes are sorted by frequency and split at `cutoffs` into a head and tails; tail i projects to in_features // div_value^(i+1) hidden
    features. `forward(input (N, in_features), target (N))` returns `(output (N), loss)`: the targets' log-probabilities and their negative
    mean.
    """

    def __init__(
        self, in_features: int, n_classes: int, cutoffs: Sequence[int], div_value: float = 4.0, head_bias: bool = False,
        device: Any = None, dtype: Any = None,
    ):  # fmt: skip
        super().__init__()
        cuts = list(cutoffs)
        if len(cuts) == 0:
            raise ValueError("cutoffs should be a sequence of length larger than 0")
        if (
            cuts != sorted(cuts)
            or min(cuts) <= 0
            or max(cuts) > n_classes - 1
            or len(set(cuts)) != len(cuts)
            or any(int(c) != c for c in cuts)
        ):
            raise ValueError(
                "cutoffs should be a sequence of unique, positive integers sorted in an increasing order, "
                "where each value is between 1 and n_classes-1"
            )
        make = {"device": device, "dtype": dtype}
        self.in_features, self.n_classes, self.cutoffs, self.div_value, self.head_bias = (
            in_features,
            n_classes,
            cuts + [n_classes],
            div_value,
            head_bias,
        )
        self.shortlist_size, self.n_clusters = cuts[0], len(cuts)
        self.head_size = self.shortlist_size + self.n_clusters
        self.head = Linear(in_features, self.head_size, bias=head_bias, **make)
        self.tail = ModuleList()
        for i in range(self.n_clusters):
            hidden = int(in_features // (div_value ** (i + 1)))
            size = self.cutoffs[i + 1] - self.cutoffs[i]
            self.tail.append(Sequential(Linear(in_features, hidden, bias=False, **make), Linear(hidden, size, bias=False, **make)))

    def reset_parameters(self) -> None:
        """Reinitialize all weights."""
        self.head.reset_parameters()
        for down, out in self.tail:
            down.reset_parameters()
            out.reset_parameters()

    def forward(self, input_: Tensor, target_: Tensor) -> Any:
        input, target = input_, target_
        if input.ndim not in (1, 2) or target.ndim != input.ndim - 1:
            raise RuntimeError("1D target tensor expects 2D input tensors, 0D target tensor expects 1D input tensors")
        if input.ndim == 2 and input.shape[0] != target.shape[0]:
            raise RuntimeError("Input and target should have the same size in the batch dimension.")
        x, y = (input, target) if input.ndim == 2 else (input.unsqueeze(0), target.unsqueeze(0))
        labels = y._host()
        if labels.size and (labels.min() < 0 or labels.max() >= self.n_classes):
            raise RuntimeError(
                f"Target values should be in [0, {self.n_classes - 1}], but values in range [{labels.min()}, {labels.max()}] were found. "
            )
        cluster = numpy.searchsorted(self.cutoffs, labels, side="right")
        head = F.log_softmax(self.head(x), 1)
        parts, order = [], []
        for i in [0, *numpy.unique(cluster[cluster > 0]).tolist()]:
            # a tail is computed only for rows whose target is in it; without such rows it gets no gradient
            rows = numpy.flatnonzero(cluster == i)
            part = head[rows, labels[rows] if i == 0 else numpy.full_like(rows, self.shortlist_size + i - 1)]
            if i > 0:
                tail = F.log_softmax(self.tail[i - 1](x[rows]), 1)
                part = part + tail[numpy.arange(rows.size), labels[rows] - self.cutoffs[i - 1]]
            parts.append(part)
            order.append(rows)
        found = cat(parts)[numpy.argsort(numpy.concatenate(order))]
        loss = (-found).mean()
        return _ASMoutput(found if input.ndim == 2 else found.squeeze(0), loss)

    def log_prob(self, input: Tensor) -> Tensor:
        """Return the log-probabilities of all classes, `(N, n_classes)`."""
        head = F.log_softmax(self.head(input), 1)
        parts = [head[:, : self.shortlist_size]]
        for i, tail in enumerate(self.tail):
            at = self.shortlist_size + i
            parts.append(F.log_softmax(tail(input), 1) + head[:, at : at + 1])
        return cat(parts, 1)

    def predict(self, input: Tensor) -> Tensor:
        """Return the most probable class of each row, `(N)`."""
        return self.log_prob(input).argmax(1)
