"""`SyncBatchNorm`: batch normalization with statistics over the batches of all processes."""

from __future__ import annotations

import sys
from typing import Any

from ..autograd import Function, no_grad
from ..base import dtypes
from ..core.tensor import Tensor
from ..ops.join import cat
from .module import Module
from .normalization import _BatchNorm


class _SumOverProcesses(Function):
    """Sum a tensor over all processes; the gradient is summed too."""

    @staticmethod
    def forward(ctx: Any, input: Tensor, group: Any) -> Tensor:
        ctx.group = group
        return _summed(input, group)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple:
        return _summed(grad, ctx.group), None


def _summed(x: Tensor, group: Any) -> Tensor:
    total = x.detach().clone()
    sys.modules["engine.distributed"].all_reduce(total, group=group)
    return total


def _processes(group: Any) -> int:
    """Return the number of processes that share a batch, 1 without a process group."""
    distributed = sys.modules.get("engine.distributed")
    return distributed.get_world_size(group) if distributed is not None and distributed.is_initialized() else 1


class SyncBatchNorm(_BatchNorm):
    """Batch normalization of each channel of `(N, C, *)`, over the batches of all processes in `process_group`.

    With one process it equals `BatchNorm`. Statistics of half-precision inputs are computed in float32; the result has the input's dtype.
    """

    def __init__(
        self, num_features: int, eps: float = 1e-5, momentum: float | None = 0.1, affine: bool = True, track_running_stats: bool = True,
        process_group: Any = None, device: Any = None, dtype: Any = None, *, bias: bool = True,
    ):  # fmt: skip
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias)
        self.process_group = process_group

    def _check_input_dim(self, input: Tensor) -> None:
        if input.ndim < 2:
            raise ValueError(f"expected at least 2D input (got {input.ndim}D input)")

    def forward(self, input: Tensor) -> Tensor:
        self._check_input_dim(input)
        if not self.training or _processes(self.process_group) == 1:
            return super().forward(input)
        return self._over_all(input)

    def _over_all(self, input: Tensor) -> Tensor:
        if input.shape[1] != self.num_features:
            raise ValueError(f"expected {self.num_features} channels in dimension 1, got input of shape {tuple(input.shape)}")
        dtype = input.dtype
        if dtype in (dtypes.float16, dtypes.bfloat16):  # counts and sums of squares overflow
            input = input.float()
        over = [i for i in range(input.ndim) if i != 1]
        shape = [-1 if i == 1 else 1 for i in range(input.ndim)]
        here = input.numel() // self.num_features
        found = _SumOverProcesses.apply(cat([input.sum(over), input.new_tensor([float(here)])]), self.process_group)
        n = found[-1].detach()
        if n.item() == 1:
            raise ValueError(f"Expected more than 1 value per channel when training, got input size {input.shape}")
        mean = found[:-1] / n
        centred = input - mean.reshape(shape)
        var = _SumOverProcesses.apply((centred * centred).sum(over), self.process_group) / n
        self._remember(mean, var, n.item())
        out = centred * (var + self.eps).rsqrt().reshape(shape)
        out = out if self.weight is None else out * self.weight.reshape(shape)
        return (out if self.bias is None else out + self.bias.reshape(shape)).to(dtype)

    def _remember(self, mean: Tensor, var: Tensor, n: float) -> None:
        """Update the running statistics with those of this batch, using the unbiased variance."""
        if self.running_mean is None or self.running_var is None or self.num_batches_tracked is None:
            return
        with no_grad():
            self.num_batches_tracked.add_(1)
            momentum = 1.0 / self.num_batches_tracked.item() if self.momentum is None else self.momentum
            self.running_mean.lerp_(mean.to(self.running_mean.dtype), momentum)
            self.running_var.lerp_((var * (n / (n - 1))).to(self.running_var.dtype), momentum)

    @classmethod
    def convert_sync_batchnorm(cls, module: Module, process_group: Any = None) -> Module:
        """Replace every `BatchNorm*` in a module with a `SyncBatchNorm` that has its parameters and statistics, and return the module."""
        made = module
        if isinstance(module, _BatchNorm):
            made = cls(module.num_features, module.eps, module.momentum, module.affine, module.track_running_stats, process_group)
            for name in ("weight", "bias"):
                if module.affine:
                    made._parameters[name] = module._parameters[name]
            for name in ("running_mean", "running_var", "num_batches_tracked"):
                made._buffers[name] = module._buffers[name]
            made.training = module.training
        for name, child in module.named_children():
            made.add_module(name, cls.convert_sync_batchnorm(child, process_group))
        return made
