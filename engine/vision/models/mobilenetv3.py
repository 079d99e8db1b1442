"""MobileNetV3 (Howard et al. 2019): inverted residuals with squeeze and excitation and hard swish."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import engine
from engine import Tensor, nn
from engine.nn import init

from ..ops.misc import Conv2dNormActivation, SqueezeExcitation
from ._api import builder, imagenet
from ._init import divisible, kaiming


class InvertedResidualConfig:
    """Configuration of a block: input, kernel, expanded and output channels, squeeze and excitation, "RE" or "HS", stride, dilation."""

    def __init__(
        self,
        input_channels: int,
        kernel: int,
        expanded_channels: int,
        out_channels: int,
        use_se: bool,
        activation: str,
        stride: int,
        dilation: int,
        width_mult: float,
    ):
        self.input_channels = self.adjust_channels(input_channels, width_mult)
        self.kernel = kernel
        self.expanded_channels = self.adjust_channels(expanded_channels, width_mult)
        self.out_channels = self.adjust_channels(out_channels, width_mult)
        self.use_se, self.use_hs = use_se, activation == "HS"
        self.stride, self.dilation = stride, dilation

    @staticmethod
    def adjust_channels(channels: int, width_mult: float) -> int:
        """Scale the channels, rounded to a multiple of 8."""
        return divisible(channels * width_mult, 8)


_SQUEEZE = partial(SqueezeExcitation, scale_activation=nn.Hardsigmoid)


class InvertedResidual(nn.Module):
    """An inverted residual block."""

    def __init__(
        self,
        cnf: InvertedResidualConfig,
        norm_layer: Callable[..., nn.Module],
        se_layer: Callable[..., nn.Module] = _SQUEEZE,
    ):
        super().__init__()
        if not 1 <= cnf.stride <= 2:
            raise ValueError("illegal stride value")
        self.use_res_connect = cnf.stride == 1 and cnf.input_channels == cnf.out_channels
        layer = partial(Conv2dNormActivation, norm_layer=norm_layer)
        active, inside = nn.Hardswish if cnf.use_hs else nn.ReLU, cnf.expanded_channels
        layers: list[nn.Module] = []
        if inside != cnf.input_channels:
            layers.append(layer(cnf.input_channels, inside, kernel_size=1, activation_layer=active))
        stride = 1 if cnf.dilation > 1 else cnf.stride
        layers.append(
            layer(inside, inside, kernel_size=cnf.kernel, stride=stride, dilation=cnf.dilation, groups=inside, activation_layer=active)
        )
        if cnf.use_se:
            layers.append(se_layer(inside, divisible(inside // 4, 8)))
        layers.append(layer(inside, cnf.out_channels, kernel_size=1, activation_layer=None))
        self.block = nn.Sequential(*layers)
        self.out_channels, self._is_cn = cnf.out_channels, cnf.stride > 1

    def forward(self, input: Tensor) -> Tensor:
        result = self.block(input)
        if self.use_res_connect:
            result += input
        return result


class MobileNetV3(nn.Module):
    """Blocks, a final convolution to six times the channels, and two linear layers."""

    def __init__(
        self,
        inverted_residual_setting: list[InvertedResidualConfig],
        last_channel: int,
        num_classes: int = 1000,
        block: Callable[..., nn.Module] | None = None,
        norm_layer: Callable[..., nn.Module] | None = None,
        dropout: float = 0.2,
    ):
        super().__init__()
        if not inverted_residual_setting:
            raise ValueError("The inverted_residual_setting should not be empty")
        if not isinstance(inverted_residual_setting, Sequence) or not all(
            isinstance(s, InvertedResidualConfig) for s in inverted_residual_setting
        ):
            raise TypeError("The inverted_residual_setting should be List[InvertedResidualConfig]")
        norm_layer = norm_layer or partial(nn.BatchNorm2d, eps=0.001, momentum=0.01)
        layer = partial(Conv2dNormActivation, norm_layer=norm_layer, activation_layer=nn.Hardswish)
        first = layer(3, inverted_residual_setting[0].input_channels, kernel_size=3, stride=2)
        blocks = [(block or InvertedResidual)(cnf, norm_layer) for cnf in inverted_residual_setting]
        channels = inverted_residual_setting[-1].out_channels
        self.features = nn.Sequential(first, *blocks, layer(channels, 6 * channels, kernel_size=1))
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.classifier = nn.Sequential(
            nn.Linear(6 * channels, last_channel),
            nn.Hardswish(inplace=True),
            nn.Dropout(p=dropout, inplace=True),
            nn.Linear(last_channel, num_classes),
        )
        kaiming(self, lambda m: init.normal_(m.weight, 0, 0.01))

    def forward(self, x: Tensor) -> Tensor:
        return self.classifier(engine.flatten(self.avgpool(self.features(x)), 1))


# input, kernel, expanded, output, squeeze and excitation, activation, stride
_LARGE = """16 3 16 16 0 RE 1; 16 3 64 24 0 RE 2; 24 3 72 24 0 RE 1; 24 5 72 40 1 RE 2; 40 5 120 40 1 RE 1; 40 5 120 40 1 RE 1;
    40 3 240 80 0 HS 2; 80 3 200 80 0 HS 1; 80 3 184 80 0 HS 1; 80 3 184 80 0 HS 1; 80 3 480 112 1 HS 1; 112 3 672 112 1 HS 1;
    112 5 672 160 1 HS 2; 160 5 960 160 1 HS 1; 160 5 960 160 1 HS 1"""
_SMALL = """16 3 16 16 1 RE 2; 16 3 72 24 0 RE 2; 24 3 88 24 0 RE 1; 24 5 96 40 1 HS 2; 40 5 240 40 1 HS 1; 40 5 240 40 1 HS 1;
    40 5 120 48 1 HS 1; 48 5 144 48 1 HS 1; 48 5 288 96 1 HS 2; 96 5 576 96 1 HS 1; 96 5 576 96 1 HS 1"""


def _model(text: str, last: int, width_mult: float = 1.0, reduced_tail: bool = False, dilated: bool = False, **kwargs: Any) -> MobileNetV3:
    """Build a model; `reduced_tail` halves the channels of the last three blocks, `dilated` replaces their strides by dilation."""
    setting, rows = [], [row.split() for row in text.split(";")]
    for i, row in enumerate(rows):
        a, kernel, inside, out, se, stride = (int(row[k]) for k in (0, 1, 2, 3, 4, 6))
        tail, shrink = i >= len(rows) - 3, 2 if reduced_tail else 1
        if tail:
            out, a, inside = out // shrink, a if i == len(rows) - 3 else a // shrink, inside if i == len(rows) - 3 else inside // shrink
        setting.append(InvertedResidualConfig(a, kernel, inside, out, bool(se), row[5], stride, 2 if tail and dilated else 1, width_mult))
    return MobileNetV3(setting, divisible(last // (2 if reduced_tail else 1) * width_mult, 8), **kwargs)


def _arguments(kwargs: dict[str, Any]) -> dict[str, Any]:
    return {name[1:] if name in ("_width_mult", "_reduced_tail", "_dilated") else name: value for name, value in kwargs.items()}


MobileNet_V3_Large_Weights = imagenet(
    "MobileNet_V3_Large_Weights",
    5483032,
    IMAGENET1K_V1=("mobilenet_v3_large-8738ca79.pth", {}),
    IMAGENET1K_V2=("mobilenet_v3_large-5c1a4163.pth", {"resize_size": 232}),
)
MobileNet_V3_Small_Weights = imagenet("MobileNet_V3_Small_Weights", 2542856, IMAGENET1K_V1=("mobilenet_v3_small-047dcff4.pth", {}))


@builder(MobileNet_V3_Large_Weights)
def mobilenet_v3_large(**kwargs: Any) -> MobileNetV3:
    """MobileNetV3 large: 5.5 million parameters."""
    return _model(_LARGE, 1280, **_arguments(kwargs))


@builder(MobileNet_V3_Small_Weights)
def mobilenet_v3_small(**kwargs: Any) -> MobileNetV3:
    """MobileNetV3 small: 2.5 million parameters."""
    return _model(_SMALL, 1024, **_arguments(kwargs))
