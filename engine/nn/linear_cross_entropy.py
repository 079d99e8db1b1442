"""`LinearCrossEntropyLoss`: a linear layer and the cross-entropy of its output, in one module."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Any

from ..base import dtypes
from ..core.tensor import Tensor
from . import functional as F
from .linear import Linear
from .loss import _WeightedLoss


@dataclass(frozen=True)
class LinearCrossEntropyOptions:
    """PyTorch's options for chunking the batch to save memory: validated here, without effect on results."""

    allow_retain_graph: bool = False
    batch_chunk_size: int | None = None
    chunking_method: str | None = "auto"
    acc_policy: str = "auto"
    acc_dtype: dtypes.dtype | None = None

    def __post_init__(self) -> None:
        size, method = self.batch_chunk_size, self.chunking_method
        if size is not None and (not isinstance(size, int) or size <= 0):
            raise ValueError(f"batch_chunk_size must be positive int or None, got {size}")
        if method not in (None, "auto", "aspect_ratio") and not re.fullmatch(r"aspect_ratio:[1-9]\d*", str(method)):
            raise ValueError(f"invalid chunking_method: {method!r}")
        if self.acc_policy not in ("accurate", "balanced", "compact", "auto"):
            raise ValueError(f"invalid acc_policy: {self.acc_policy!r}")


class LinearCrossEntropyLoss(_WeightedLoss):
    """Linear layer followed by cross-entropy: input `(in_features,)` or `(N, in_features)`, target classes `(N,)`.

    `out_features` adds output dimensions, one loss each: targets are `(N, *out_features)`, or probabilities `(N, num_classes,
    *out_features)`. `options` does not change results.
    """

    def __init__(
        self, in_features: int, num_classes: int, *, out_features: tuple[int, ...] = (), bias: bool = False, device: Any = None,
        dtype: Any = None, reduction: str = "mean", weight: Tensor | None = None, ignore_index: int | None = None,
        label_smoothing: float = 0.0, options: LinearCrossEntropyOptions | None = None,
    ):  # fmt: skip
        if weight is not None and tuple(weight.shape) != (num_classes,):
            raise RuntimeError(f"expected weight shape to be {(num_classes,)}, got {tuple(weight.shape)}")
        if not 0 <= label_smoothing <= 1:
            raise RuntimeError(f"expected label_smoothing to be in range [0, 1], got {label_smoothing}")
        super().__init__(weight, reduction=reduction)
        self.linear = Linear(in_features, num_classes * math.prod(out_features), bias=bias, device=device, dtype=dtype)
        self.num_classes, self.out_features, self.ignore_index = num_classes, tuple(out_features), ignore_index
        self.label_smoothing, self.options = label_smoothing, options

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        shape, bias = (self.num_classes, *self.out_features), self.linear.bias
        return F.linear_cross_entropy(
            input, self.linear.weight.reshape(*shape, self.linear.in_features), target,
            linear_bias=None if bias is None else bias.reshape(shape), weight=self.weight, reduction=self.reduction,
            ignore_index=self.ignore_index, label_smoothing=self.label_smoothing, options=self.options,
        )  # fmt: skip

    def extra_repr(self) -> str:
        return (
            f"in_features={self.linear.in_features}, num_classes={self.num_classes}, out_features={self.out_features}, "
            f"bias={self.linear.bias is not None}, reduction={self.reduction}, ignore_index={self.ignore_index}, "
            f"label_smoothing={self.label_smoothing}, options={self.options}"
        )
