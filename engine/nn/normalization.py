"""Normalization layers: batch, instance, layer, group, root-mean-square and local response."""

from __future__ import annotations

from typing import Any, ClassVar

from ..base import dtypes
from ..core.create import ones, zeros
from ..core.tensor import Tensor
from ..ops.join import cat
from . import functional as F
from . import init
from .lazy import LazyModuleMixin
from .module import Module, sizes
from .parameter import Parameter, UninitializedBuffer, UninitializedParameter, blank


class _Norm(Module):
    """Base of normalizations: optional parameters `weight`, initially 1, and `bias`, initially 0."""

    weight: Parameter | None

    def _register(self, shape: tuple, device: Any, dtype: Any, **wanted: bool) -> None:
        for name, there in wanted.items():
            self.register_parameter(name, blank(*shape, device=device, dtype=dtype) if there else None)

    def reset_parameters(self) -> None:
        """Reset the weight to 1 and the bias to 0."""
        for name, param in self._parameters.items():
            if param is not None:
                init.constant_(param, 1.0 if name == "weight" else 0.0)


class _NormBase(_Norm):
    """(x - mean) / sqrt(var + eps) * weight + bias, with running statistics for evaluation.

    running = (1 - momentum) * running + momentum * observed, with the unbiased variance; `momentum=None` averages over all batches.
    """

    _version = 2
    dims: ClassVar[tuple[int, ...]]  # allowed numbers of input dimensions
    bias: Parameter | None
    running_mean: Tensor | None
    running_var: Tensor | None
    num_batches_tracked: Tensor | None

    def __init__(
        self, num_features: int, eps: float = 1e-5, momentum: float | None = 0.1, affine: bool = True, track_running_stats: bool = True,
        device: Any = None, dtype: Any = None, *, bias: bool = True,
    ):  # fmt: skip
        super().__init__()
        self.num_features, self.eps, self.momentum = num_features, eps, momentum
        self.affine, self.track_running_stats = affine, track_running_stats
        self._register((num_features,), device, dtype, weight=affine, bias=affine and bias)
        self.register_buffer("running_mean", zeros(num_features, device=device, dtype=dtype) if track_running_stats else None)
        self.register_buffer("running_var", ones(num_features, device=device, dtype=dtype) if track_running_stats else None)
        self.register_buffer("num_batches_tracked", zeros((), device=device, dtype=dtypes.int64) if track_running_stats else None)
        self.reset_parameters()

    def reset_running_stats(self) -> None:
        """Reset the running mean to 0 and the running variance to 1."""
        for buffer, value in ((self.running_mean, 0), (self.running_var, 1), (self.num_batches_tracked, 0)):
            if buffer is not None:
                init.constant_(buffer, value)

    def reset_parameters(self) -> None:
        """Reset the weight to 1, the bias to 0, and the running statistics."""
        self.reset_running_stats()
        super().reset_parameters()

    def _check_input_dim(self, input: Tensor) -> None:
        if input.ndim not in self.dims:
            raise ValueError(f"expected {' or '.join(f'{n}D' for n in self.dims)} input (got {input.ndim}D input)")

    def _channels_at(self, input: Tensor) -> int:
        return 1

    def _load_from_state_dict(self, state_dict: dict, prefix: str, local_metadata: dict, *args: Any, **kwargs: Any) -> None:
        key = f"{prefix}num_batches_tracked"
        if local_metadata.get("version") in (None, 1) and self.track_running_stats and key not in state_dict:
            state_dict[key] = self.num_batches_tracked  # version 1, and files without versions, had no counter
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *args, **kwargs)

    def extra_repr(self) -> str:
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, affine={self.affine}, "
            f"bias={self.bias is not None}, track_running_stats={self.track_running_stats}"
        )


class _BatchNorm(_NormBase):
    def forward(self, input: Tensor) -> Tensor:
        self._check_input_dim(input)
        momentum = 0.0 if self.momentum is None else self.momentum
        if self.training and self.track_running_stats and self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(1)
            if self.momentum is None:
                momentum = 1.0 / self.num_batches_tracked.item()
        use_batch = self.training or (self.running_mean is None and self.running_var is None)
        keep = not self.training or self.track_running_stats
        return F.batch_norm(
            input,
            self.running_mean if keep else None,
            self.running_var if keep else None,
            self.weight,
            self.bias,
            use_batch,
            momentum,
            self.eps,
        )


class BatchNorm1d(_BatchNorm):
    """Batch normalization of each channel of `(N, C)` or `(N, C, L)` (Ioffe & Szegedy 2015).

    y = (x - mean) / sqrt(var + eps) * weight + bias, with the biased variance of the batch in training and running statistics in
    evaluation.
    """

    dims = (2, 3)


class BatchNorm2d(_BatchNorm):
    """Batch normalization of each channel of `(N, C, H, W)`, over N, H and W (Ioffe & Szegedy 2015).

    y = (x - mean) / sqrt(var + eps) * weight + bias, with the biased variance of the batch in training and running statistics in
    evaluation.
    """

    dims = (4,)


class BatchNorm3d(_BatchNorm):
    """Batch normalization of each channel of `(N, C, D, H, W)`, over N, D, H and W (Ioffe & Szegedy 2015).

    y = (x - mean) / sqrt(var + eps) * weight + bias, with the biased variance of the batch in training and running statistics in
    evaluation.
    """

    dims = (5,)


class _InstanceNorm(_NormBase):
    def __init__(
        self, num_features: int, eps: float = 1e-5, momentum: float = 0.1, affine: bool = False, track_running_stats: bool = False,
        device: Any = None, dtype: Any = None, *, bias: bool = True,
    ):  # fmt: skip
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias)

    def _channels_at(self, input: Tensor) -> int:
        return 0 if input.ndim == min(self.dims) else 1

    def forward(self, input: Tensor) -> Tensor:
        self._check_input_dim(input)
        at = self._channels_at(input)
        if input.shape[at] != self.num_features and self.affine:
            raise ValueError(f"expected input's size at dim={at} to match num_features ({self.num_features}), but got: {input.shape[at]}.")
        unbatched = at == 0
        use_input = self.training or not self.track_running_stats
        momentum = 0.0 if self.momentum is None else self.momentum
        rows = input.unsqueeze(0) if unbatched else input
        out = F.instance_norm(rows, self.running_mean, self.running_var, self.weight, self.bias, use_input, momentum, self.eps)
        return out.squeeze(0) if unbatched else out


class InstanceNorm1d(_InstanceNorm):
    """Instance normalization: normalize each channel of each sample of `(N, C, L)` or `(C, L)` (Ulyanov et al. 2016)."""

    dims = (2, 3)


class InstanceNorm2d(_InstanceNorm):
    """Instance normalization: normalize each channel of each sample of `(N, C, H, W)` or `(C, H, W)` (Ulyanov et al. 2016)."""

    dims = (3, 4)


class InstanceNorm3d(_InstanceNorm):
    """Instance normalization: normalize each channel of each sample of `(N, C, D, H, W)` or `(C, D, H, W)` (Ulyanov et al. 2016)."""

    dims = (4, 5)


class _LazyNorm(LazyModuleMixin, _NormBase):
    """Base of normalizations that infer `num_features` from their first input."""

    def __init__(
        self, eps: float = 1e-5, momentum: float | None = 0.1, affine: bool = True, track_running_stats: bool = True,
        device: Any = None, dtype: Any = None, *, bias: bool = True,
    ):  # fmt: skip
        super().__init__(0, eps, momentum, False, False, device, dtype)
        self.affine, self.track_running_stats = affine, track_running_stats
        if affine:
            self.weight = UninitializedParameter(device=device, dtype=dtype)
            if bias:
                self.bias = UninitializedParameter(device=device, dtype=dtype)
        if self.track_running_stats:
            self.running_mean = UninitializedBuffer(device=device, dtype=dtype)
            self.running_var = UninitializedBuffer(device=device, dtype=dtype)
            self.num_batches_tracked = zeros((), device=device, dtype=dtypes.int64)

    def initialize_parameters(self, input: Tensor) -> None:
        """Infer `num_features` from the input and initialize the tensors."""
        self._check_input_dim(input)
        self.num_features = n = input.shape[self._channels_at(input)]
        self._give_shapes(weight=(n,), bias=(n,), running_mean=(n,), running_var=(n,))


class LazyBatchNorm1d(_LazyNorm, BatchNorm1d):
    """`BatchNorm1d` that infers `num_features` from its first input."""

    cls_to_become = BatchNorm1d


class LazyBatchNorm2d(_LazyNorm, BatchNorm2d):
    """`BatchNorm2d` that infers `num_features` from its first input."""

    cls_to_become = BatchNorm2d


class LazyBatchNorm3d(_LazyNorm, BatchNorm3d):
    """`BatchNorm3d` that infers `num_features` from its first input."""

    cls_to_become = BatchNorm3d


class LazyInstanceNorm1d(_LazyNorm, InstanceNorm1d):
    """`InstanceNorm1d` that infers `num_features` from its first input."""

    cls_to_become = InstanceNorm1d


class LazyInstanceNorm2d(_LazyNorm, InstanceNorm2d):
    """`InstanceNorm2d` that infers `num_features` from its first input."""

    cls_to_become = InstanceNorm2d


class LazyInstanceNorm3d(_LazyNorm, InstanceNorm3d):
    """`InstanceNorm3d` that infers `num_features` from its first input."""

    cls_to_become = InstanceNorm3d


class LayerNorm(_Norm):
    """Layer normalization over the last dimensions, of shape `normalized_shape` (Ba et al. 2016).

    y = (x - mean) / sqrt(var + eps) * weight + bias, with the biased variance; weight and bias have the shape `normalized_shape`.
    """

    bias: Parameter | None

    def __init__(
        self,
        normalized_shape: Any,
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ):
        super().__init__()
        self.normalized_shape = sizes(normalized_shape, 1)
        self.eps, self.elementwise_affine = eps, elementwise_affine
        self._register(self.normalized_shape, device, dtype, weight=elementwise_affine, bias=elementwise_affine and bias)
        self.reset_parameters()

    def forward(self, input: Tensor) -> Tensor:
        return F.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}, bias={self.bias is not None}"


class GroupNorm(_Norm):
    """Group normalization: normalize groups of channels of each sample of `(N, C, *)` (Wu & He 2018).

    y = (x - mean) / sqrt(var + eps) * weight + bias, with weight and bias per channel; `num_channels` must be divisible by `num_groups`.
    """

    bias: Parameter | None

    def __init__(
        self, num_groups: int, num_channels: int, eps: float = 1e-5, affine: bool = True, device: Any = None, dtype: Any = None,
        *, bias: bool = True,
    ):  # fmt: skip
        super().__init__()
        if num_channels % num_groups != 0:
            raise ValueError(f"num_channels ({num_channels}) must be divisible by num_groups ({num_groups})")
        self.num_groups, self.num_channels, self.eps, self.affine = num_groups, num_channels, eps, affine
        self._register((num_channels,), device, dtype, weight=affine, bias=affine and bias)
        self.reset_parameters()

    def forward(self, input: Tensor) -> Tensor:
        return F.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return f"{self.num_groups}, {self.num_channels}, eps={self.eps}, affine={self.affine}, bias={self.bias is not None}"


class RMSNorm(_Norm):
    """Root-mean-square normalization: x / sqrt(mean(x²) + eps) * weight over the last dimensions (Zhang & Sennrich 2019).

    `weight` has the shape `normalized_shape`; `eps=None` uses the machine epsilon of the dtype.
    """

    def __init__(
        self, normalized_shape: Any, eps: float | None = None, elementwise_affine: bool = True, device: Any = None, dtype: Any = None
    ):
        super().__init__()
        self.normalized_shape = sizes(normalized_shape, 1)
        self.eps, self.elementwise_affine = eps, elementwise_affine
        self._register(self.normalized_shape, device, dtype, weight=elementwise_affine)
        self.reset_parameters()

    def forward(self, x: Tensor) -> Tensor:
        return F.rms_norm(x, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self) -> str:
        return f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"


class LocalResponseNorm(Module):
    """Local response normalization: x / (k + alpha / size * sum of x² over `size` neighboring channels)^beta, for `(N, C, *)`."""

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0):
        super().__init__()
        self.size, self.alpha, self.beta, self.k = size, alpha, beta, k

    def forward(self, input: Tensor) -> Tensor:
        return F.local_response_norm(input, self.size, self.alpha, self.beta, self.k)

    def extra_repr(self) -> str:
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"


class CrossMapLRN2d(Module):
    """Legacy `LocalResponseNorm` for `(N, C, H, W)`, with a window of equally many channels on both sides.

    y = x / (k + alpha / size * sum of x² over the window)^beta.
    """

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1):
        super().__init__()
        self.size, self.alpha, self.beta, self.k = size, alpha, beta, k

    def forward(self, input: Tensor) -> Tensor:
        if input.ndim != 4:
            raise ValueError(f"CrossMapLRN2d: Expected input to be 4D, got {input.ndim}D instead.")
        reach, channels = int((self.size - 1) / 2), input.shape[1]
        squares = F.pad(input * input, (0, 0, 0, 0, reach, reach))
        total = squares[:, :channels]
        for offset in range(1, 2 * reach + 1):
            total = total + squares[:, offset : offset + channels]
        first = reach + 1  # from here on, PyTorch keeps the first channel in the window; this matches it
        total = cat([total[:, :first], total[:, first:] + squares[:, reach : reach + 1]], 1)
        return input / (self.k + total * (self.alpha / self.size)) ** self.beta

    def extra_repr(self) -> str:
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"
