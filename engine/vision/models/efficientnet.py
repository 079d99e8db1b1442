"""EfficientNet (Tan and Le 2019): depth, width and image size are scaled together."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import engine
from engine import Tensor, nn
from engine.nn import init

from ..ops.depth import StochasticDepth
from ..ops.misc import Conv2dNormActivation, SqueezeExcitation
from ..transforms.functional.images import InterpolationMode
from ._api import builder, imagenet
from ._init import divisible, kaiming


@dataclass
class MBConvConfig:
    """Configuration of a stage: expansion, kernel, first stride, channels in and out, number of blocks, and scaling factors."""

    expand_ratio: float
    kernel: int
    stride: int
    input_channels: int
    out_channels: int
    num_layers: int
    width_mult: float = 1.0
    depth_mult: float = 1.0

    def __post_init__(self) -> None:
        self.input_channels = self.adjust_channels(self.input_channels, self.width_mult)
        self.out_channels = self.adjust_channels(self.out_channels, self.width_mult)
        self.num_layers = math.ceil(self.num_layers * self.depth_mult)

    @staticmethod
    def adjust_channels(channels: int, width_mult: float, min_value: int | None = None) -> int:
        """Scale the channels, rounded to a multiple of 8."""
        return divisible(channels * width_mult, 8, min_value)


class MBConv(nn.Module):
    """A block: expansion, depthwise convolution, squeeze and excitation, and projection, with a residual if shapes match."""

    def __init__(
        self,
        cnf: MBConvConfig,
        stochastic_depth_prob: float,
        norm_layer: Callable[..., nn.Module],
        se_layer: Callable[..., nn.Module] = SqueezeExcitation,
    ):
        super().__init__()
        if not 1 <= cnf.stride <= 2:
            raise ValueError("illegal stride value")
        self.use_res_connect = cnf.stride == 1 and cnf.input_channels == cnf.out_channels
        layer = partial(Conv2dNormActivation, norm_layer=norm_layer, activation_layer=nn.SiLU)
        inside = cnf.adjust_channels(cnf.input_channels, cnf.expand_ratio)
        expand = [layer(cnf.input_channels, inside, kernel_size=1)] if inside != cnf.input_channels else []
        depthwise = layer(inside, inside, kernel_size=cnf.kernel, stride=cnf.stride, groups=inside)
        squeeze = se_layer(inside, max(1, cnf.input_channels // 4), activation=partial(nn.SiLU, inplace=True))
        project = Conv2dNormActivation(inside, cnf.out_channels, kernel_size=1, norm_layer=norm_layer, activation_layer=None)
        self.block = nn.Sequential(*expand, depthwise, squeeze, project)
        self.stochastic_depth = StochasticDepth(stochastic_depth_prob, "row")
        self.out_channels = cnf.out_channels

    def forward(self, input: Tensor) -> Tensor:
        result = self.block(input)
        if self.use_res_connect:
            result = self.stochastic_depth(result)
            result += input
        return result


class EfficientNet(nn.Module):
    """Stages of blocks, with stochastic depth increasing up to `stochastic_depth_prob`."""

    def __init__(
        self,
        inverted_residual_setting: Sequence[MBConvConfig],
        dropout: float,
        stochastic_depth_prob: float = 0.2,
        num_classes: int = 1000,
        norm_layer: Callable[..., nn.Module] | None = None,
        last_channel: int | None = None,
    ):
        super().__init__()
        if not inverted_residual_setting:
            raise ValueError("The inverted_residual_setting should not be empty")
        if not all(isinstance(s, MBConvConfig) for s in inverted_residual_setting):
            raise TypeError("The inverted_residual_setting should be List[MBConvConfig]")
        norm_layer = norm_layer or nn.BatchNorm2d
        layer = partial(Conv2dNormActivation, norm_layer=norm_layer, activation_layer=nn.SiLU)
        layers: list[nn.Module] = [layer(3, inverted_residual_setting[0].input_channels, kernel_size=3, stride=2)]
        total, done = sum(cnf.num_layers for cnf in inverted_residual_setting), 0
        for cnf in inverted_residual_setting:
            stage, block = [], copy.copy(cnf)
            for _ in range(cnf.num_layers):
                stage.append(MBConv(block, stochastic_depth_prob * done / total, norm_layer))
                block.input_channels, block.stride = block.out_channels, 1
                done += 1
            layers.append(nn.Sequential(*stage))
        channels = inverted_residual_setting[-1].out_channels
        last = 4 * channels if last_channel is None else last_channel
        self.features = nn.Sequential(*layers, layer(channels, last, kernel_size=1))
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.classifier = nn.Sequential(nn.Dropout(p=dropout, inplace=True), nn.Linear(last, num_classes))
        kaiming(self, lambda m: init.uniform_(m.weight, -1.0 / math.sqrt(m.out_features), 1.0 / math.sqrt(m.out_features)))

    def forward(self, x: Tensor) -> Tensor:
        return self.classifier(engine.flatten(self.avgpool(self.features(x)), 1))


_STAGES = [
    (1, 3, 1, 32, 16, 1),
    (6, 3, 2, 16, 24, 2),
    (6, 5, 2, 24, 40, 2),
    (6, 3, 2, 40, 80, 3),
    (6, 5, 1, 80, 112, 3),
    (6, 5, 2, 112, 192, 4),
    (6, 3, 1, 192, 320, 1),
]


def _model(width: float, depth: float, dropout: float, **kwargs: Any) -> EfficientNet:
    return EfficientNet([MBConvConfig(*stage, width_mult=width, depth_mult=depth) for stage in _STAGES], dropout, **kwargs)


def _cubic(crop: int, resize: int) -> dict[str, Any]:
    return {"crop_size": crop, "resize_size": resize, "interpolation": InterpolationMode.BICUBIC}


EfficientNet_B0_Weights = imagenet(
    "EfficientNet_B0_Weights", 5288548, IMAGENET1K_V1=("efficientnet_b0_rwightman-7f5810bc.pth", _cubic(224, 256))
)
EfficientNet_B1_Weights = imagenet(
    "EfficientNet_B1_Weights",
    7794184,
    IMAGENET1K_V1=("efficientnet_b1_rwightman-bac287d4.pth", _cubic(240, 256)),
    IMAGENET1K_V2=("efficientnet_b1-c27df63c.pth", {"crop_size": 240, "resize_size": 255}),
)
EfficientNet_B2_Weights = imagenet(
    "EfficientNet_B2_Weights", 9109994, IMAGENET1K_V1=("efficientnet_b2_rwightman-c35c1473.pth", _cubic(288, 288))
)
EfficientNet_B3_Weights = imagenet(
    "EfficientNet_B3_Weights", 12233232, IMAGENET1K_V1=("efficientnet_b3_rwightman-b3899882.pth", _cubic(300, 320))
)
EfficientNet_B4_Weights = imagenet(
    "EfficientNet_B4_Weights", 19341616, IMAGENET1K_V1=("efficientnet_b4_rwightman-23ab8bcd.pth", _cubic(380, 384))
)


@builder(EfficientNet_B0_Weights)
def efficientnet_b0(**kwargs: Any) -> EfficientNet:
    """EfficientNet-B0: 5.3 million parameters, 224 x 224 images."""
    return _model(1.0, 1.0, **{"dropout": 0.2, **kwargs})


@builder(EfficientNet_B1_Weights)
def efficientnet_b1(**kwargs: Any) -> EfficientNet:
    """EfficientNet-B1: 7.8 million parameters, 240 x 240 images."""
    return _model(1.0, 1.1, **{"dropout": 0.2, **kwargs})


@builder(EfficientNet_B2_Weights)
def efficientnet_b2(**kwargs: Any) -> EfficientNet:
    """EfficientNet-B2: 9.1 million parameters, 288 x 288 images."""
    return _model(1.1, 1.2, **{"dropout": 0.3, **kwargs})


@builder(EfficientNet_B3_Weights)
def efficientnet_b3(**kwargs: Any) -> EfficientNet:
    """EfficientNet-B3: 12.2 million parameters, 300 x 300 images."""
    return _model(1.2, 1.4, **{"dropout": 0.3, **kwargs})


@builder(EfficientNet_B4_Weights)
def efficientnet_b4(**kwargs: Any) -> EfficientNet:
    """EfficientNet-B4: 19.3 million parameters, 380 x 380 images."""
    return _model(1.4, 1.8, **{"dropout": 0.4, **kwargs})
