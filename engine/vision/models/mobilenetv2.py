"""MobileNetV2 (Sandler et al. 2018): inverted residuals with depthwise convolutions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import engine
from engine import Tensor, nn
from engine.nn import init

from ..ops.misc import Conv2dNormActivation
from ._api import builder, imagenet
from ._init import divisible, kaiming


class InvertedResidual(nn.Module):
    """Expansion, depthwise convolution and projection, with a residual if shapes match."""

    def __init__(self, inp: int, oup: int, stride: int, expand_ratio: int, norm_layer: Callable[..., nn.Module] | None = None):
        super().__init__()
        if stride not in (1, 2):
            raise ValueError(f"stride should be 1 or 2 instead of {stride}")
        norm_layer = norm_layer or nn.BatchNorm2d
        hidden = int(round(inp * expand_ratio))
        layers: list[nn.Module] = []
        if expand_ratio != 1:
            layers.append(Conv2dNormActivation(inp, hidden, kernel_size=1, norm_layer=norm_layer, activation_layer=nn.ReLU6))
        layers.append(Conv2dNormActivation(hidden, hidden, stride=stride, groups=hidden, norm_layer=norm_layer, activation_layer=nn.ReLU6))
        self.conv = nn.Sequential(*layers, nn.Conv2d(hidden, oup, 1, 1, 0, bias=False), norm_layer(oup))
        self.stride, self.use_res_connect = stride, stride == 1 and inp == oup
        self.out_channels, self._is_cn = oup, stride > 1

    def forward(self, x: Tensor) -> Tensor:
        return x + self.conv(x) if self.use_res_connect else self.conv(x)


_SETTING = [  # expansion, channels, blocks, first stride
    [1, 16, 1, 1],
    [6, 24, 2, 2],
    [6, 32, 3, 2],
    [6, 64, 4, 2],
    [6, 96, 3, 1],
    [6, 160, 3, 2],
    [6, 320, 1, 1],
]


class MobileNetV2(nn.Module):
    """MobileNetV2 with channels scaled by `width_mult` and rounded to multiples of `round_nearest`."""

    def __init__(
        self,
        num_classes: int = 1000,
        width_mult: float = 1.0,
        inverted_residual_setting: list[list[int]] | None = None,
        round_nearest: int = 8,
        block: Callable[..., nn.Module] | None = None,
        norm_layer: Callable[..., nn.Module] | None = None,
        dropout: float = 0.2,
    ):
        super().__init__()
        block, norm_layer = block or InvertedResidual, norm_layer or nn.BatchNorm2d
        setting = _SETTING if inverted_residual_setting is None else inverted_residual_setting
        if not setting or len(setting[0]) != 4:
            raise ValueError(f"inverted_residual_setting should be non-empty or a 4-element list, got {setting}")
        channels = divisible(32 * width_mult, round_nearest)
        self.last_channel = divisible(1280 * max(1.0, width_mult), round_nearest)
        features: list[nn.Module] = [Conv2dNormActivation(3, channels, stride=2, norm_layer=norm_layer, activation_layer=nn.ReLU6)]
        for expansion, wide, blocks, stride in setting:
            out = divisible(wide * width_mult, round_nearest)
            for i in range(blocks):
                features.append(block(channels, out, stride if i == 0 else 1, expand_ratio=expansion, norm_layer=norm_layer))
                channels = out
        last = Conv2dNormActivation(channels, self.last_channel, kernel_size=1, norm_layer=norm_layer, activation_layer=nn.ReLU6)
        self.features = nn.Sequential(*features, last)
        self.classifier = nn.Sequential(nn.Dropout(p=dropout), nn.Linear(self.last_channel, num_classes))
        kaiming(self, lambda m: init.normal_(m.weight, 0, 0.01))

    def forward(self, x: Tensor) -> Tensor:
        x = nn.functional.adaptive_avg_pool2d(self.features(x), (1, 1))
        return self.classifier(engine.flatten(x, 1))


MobileNet_V2_Weights = imagenet(
    "MobileNet_V2_Weights",
    3504872,
    IMAGENET1K_V1=("mobilenet_v2-b0353104.pth", {}),
    IMAGENET1K_V2=("mobilenet_v2-7ebf99e0.pth", {"resize_size": 232}),
)


@builder(MobileNet_V2_Weights)
def mobilenet_v2(**kwargs: Any) -> MobileNetV2:
    """MobileNetV2: 3.5 million parameters."""
    return MobileNetV2(**kwargs)
