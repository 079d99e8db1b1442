"""Layers shared by models: convolution with norm and activation, squeeze and excitation, MLP, and frozen batch norm."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import engine
from engine import Tensor, nn


class FrozenBatchNorm2d(nn.Module):
    """Batch norm with fixed statistics and affine parameters, which are buffers."""

    def __init__(self, num_features: int, eps: float = 1e-5):
        super().__init__()
        self.eps = eps
        self.register_buffer("weight", engine.ones(num_features))
        self.register_buffer("bias", engine.zeros(num_features))
        self.register_buffer("running_mean", engine.zeros(num_features))
        self.register_buffer("running_var", engine.ones(num_features))

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *args: Any, **kwargs: Any) -> None:
        state_dict.pop(f"{prefix}num_batches_tracked", None)
        super()._load_from_state_dict(state_dict, prefix, *args, **kwargs)

    def forward(self, x: Tensor) -> Tensor:
        scale = self.weight * (self.running_var + self.eps).rsqrt()
        shift = self.bias - self.running_mean * scale
        return x * scale.reshape(1, -1, 1, 1) + shift.reshape(1, -1, 1, 1)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.weight.shape[0]}, eps={self.eps})"


class ConvNormActivation(nn.Sequential):
    """Convolution (size-preserving at stride 1), norm and activation; None omits the norm or activation."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any = 3,
        stride: Any = 1,
        padding: Any = None,
        groups: int = 1,
        norm_layer: Callable[..., nn.Module] | None = nn.BatchNorm2d,
        activation_layer: Callable[..., nn.Module] | None = nn.ReLU,
        dilation: Any = 1,
        inplace: bool | None = True,
        bias: bool | None = None,
        conv_layer: Callable[..., nn.Module] = nn.Conv2d,
    ):
        if padding is None and isinstance(kernel_size, int) and isinstance(dilation, int):
            padding = (kernel_size - 1) // 2 * dilation
        elif padding is None:
            n = len(kernel_size) if isinstance(kernel_size, Sequence) else len(dilation)
            sides = kernel_size if isinstance(kernel_size, Sequence) else (kernel_size,) * n
            steps = dilation if isinstance(dilation, Sequence) else (dilation,) * n
            padding = tuple((side - 1) // 2 * step for side, step in zip(sides, steps, strict=True))
        bias = norm_layer is None if bias is None else bias
        layers = [conv_layer(in_channels, out_channels, kernel_size, stride, padding, dilation=dilation, groups=groups, bias=bias)]
        if norm_layer is not None:
            layers.append(norm_layer(out_channels))
        if activation_layer is not None:
            layers.append(activation_layer(**({} if inplace is None else {"inplace": inplace})))
        super().__init__(*layers)
        self.out_channels = out_channels


class Conv2dNormActivation(ConvNormActivation):
    """`Conv2d`, by default with `BatchNorm2d` and `ReLU`."""


class Conv3dNormActivation(ConvNormActivation):
    """`Conv3d`, by default with `BatchNorm3d` and `ReLU`."""

    def __init__(self, in_channels: int, out_channels: int, *args: Any, **kwargs: Any):
        if len(args) < 5:
            kwargs.setdefault("norm_layer", nn.BatchNorm3d)
        super().__init__(in_channels, out_channels, *args, **kwargs, conv_layer=nn.Conv3d)


class SqueezeExcitation(nn.Module):
    """Scale channels by factors computed from their means by two 1 x 1 convolutions (Hu et al. 2018)."""

    def __init__(
        self,
        input_channels: int,
        squeeze_channels: int,
        activation: Callable[..., nn.Module] = nn.ReLU,
        scale_activation: Callable[..., nn.Module] = nn.Sigmoid,
    ):
        super().__init__()
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.fc1 = nn.Conv2d(input_channels, squeeze_channels, 1)
        self.fc2 = nn.Conv2d(squeeze_channels, input_channels, 1)
        self.activation = activation()
        self.scale_activation = scale_activation()

    def forward(self, input: Tensor) -> Tensor:
        return self.scale_activation(self.fc2(self.activation(self.fc1(self.avgpool(input))))) * input


class MLP(nn.Sequential):
    """Linear layers with norm, activation and dropout between them, and dropout after the last."""

    def __init__(
        self,
        in_channels: int,
        hidden_channels: list[int],
        norm_layer: Callable[..., nn.Module] | None = None,
        activation_layer: Callable[..., nn.Module] | None = nn.ReLU,
        inplace: bool | None = None,
        bias: bool = True,
        dropout: float = 0.0,
    ):
        settings = {} if inplace is None else {"inplace": inplace}
        layers: list[nn.Module] = []
        for width in hidden_channels[:-1]:
            layers.append(nn.Linear(in_channels, width, bias=bias))
            if norm_layer is not None:
                layers.append(norm_layer(width))
            if activation_layer is not None:
                layers.append(activation_layer(**settings))
            layers.append(nn.Dropout(dropout, **settings))
            in_channels = width
        super().__init__(*layers, nn.Linear(in_channels, hidden_channels[-1], bias=bias), nn.Dropout(dropout, **settings))


class Permute(nn.Module):
    """Permute the dimensions."""

    def __init__(self, dims: list[int]):
        super().__init__()
        self.dims = dims

    def forward(self, x: Tensor) -> Tensor:
        return x.permute(self.dims)
