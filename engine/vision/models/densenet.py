"""DenseNet (Huang et al. 2016): each layer receives the outputs of all previous layers in its block."""

from __future__ import annotations

import re
from collections import OrderedDict
from typing import Any

import engine
from engine import Tensor, nn
from engine.nn import functional as F
from engine.nn import init
from engine.utils.checkpoint import checkpoint

from ._api import builder, imagenet


class _DenseLayer(nn.Module):
    def __init__(self, num_input_features: int, growth_rate: int, bn_size: int, drop_rate: float, memory_efficient: bool = False):
        super().__init__()
        self.norm1 = nn.BatchNorm2d(num_input_features)
        self.relu1 = nn.ReLU(inplace=True)
        self.conv1 = nn.Conv2d(num_input_features, bn_size * growth_rate, kernel_size=1, stride=1, bias=False)
        self.norm2 = nn.BatchNorm2d(bn_size * growth_rate)
        self.relu2 = nn.ReLU(inplace=True)
        self.conv2 = nn.Conv2d(bn_size * growth_rate, growth_rate, kernel_size=3, stride=1, padding=1, bias=False)
        self.drop_rate = float(drop_rate)
        self.memory_efficient = memory_efficient

    def bn_function(self, *inputs: Tensor) -> Tensor:
        """Compute the bottleneck output: concatenation, norm, relu and 1 x 1 convolution."""
        return self.conv1(self.relu1(self.norm1(engine.cat(inputs, 1))))

    def forward(self, input: Any) -> Tensor:
        inputs = [input] if isinstance(input, Tensor) else input
        if self.memory_efficient and any(x.requires_grad for x in inputs):
            inner = checkpoint(self.bn_function, *inputs, use_reentrant=False)
        else:
            inner = self.bn_function(*inputs)
        new = self.conv2(self.relu2(self.norm2(inner)))
        return F.dropout(new, p=self.drop_rate, training=self.training) if self.drop_rate > 0 else new


class _DenseBlock(nn.ModuleDict):
    def __init__(
        self, num_layers: int, num_input_features: int, bn_size: int, growth_rate: int, drop_rate: float, memory_efficient: bool = False
    ):
        super().__init__()
        for i in range(num_layers):
            layer = _DenseLayer(num_input_features + i * growth_rate, growth_rate, bn_size, drop_rate, memory_efficient)
            self.add_module(f"denselayer{i + 1}", layer)

    def forward(self, init_features: Tensor) -> Tensor:
        features = [init_features]
        for layer in self.values():
            features.append(layer(features))
        return engine.cat(features, 1)


class _Transition(nn.Sequential):
    def __init__(self, num_input_features: int, num_output_features: int):
        super().__init__()
        self.norm = nn.BatchNorm2d(num_input_features)
        self.relu = nn.ReLU(inplace=True)
        self.conv = nn.Conv2d(num_input_features, num_output_features, kernel_size=1, stride=1, bias=False)
        self.pool = nn.AvgPool2d(kernel_size=2, stride=2)


class DenseNet(nn.Module):
    """Dense blocks, with transitions that halve channels and size. `memory_efficient` recomputes the bottlenecks in backward."""

    def __init__(
        self,
        growth_rate: int = 32,
        block_config: tuple[int, ...] = (6, 12, 24, 16),
        num_init_features: int = 64,
        bn_size: int = 4,
        drop_rate: float = 0,
        num_classes: int = 1000,
        memory_efficient: bool = False,
    ):
        super().__init__()
        layers: OrderedDict[str, nn.Module] = OrderedDict(
            conv0=nn.Conv2d(3, num_init_features, kernel_size=7, stride=2, padding=3, bias=False),
            norm0=nn.BatchNorm2d(num_init_features),
            relu0=nn.ReLU(inplace=True),
            pool0=nn.MaxPool2d(kernel_size=3, stride=2, padding=1),
        )
        self.features = nn.Sequential(layers)
        features = num_init_features
        for i, num_layers in enumerate(block_config):
            self.features.add_module(
                f"denseblock{i + 1}", _DenseBlock(num_layers, features, bn_size, growth_rate, drop_rate, memory_efficient)
            )
            features += num_layers * growth_rate
            if i != len(block_config) - 1:
                self.features.add_module(f"transition{i + 1}", _Transition(features, features // 2))
                features //= 2
        self.features.add_module("norm5", nn.BatchNorm2d(features))
        self.classifier = nn.Linear(features, num_classes)
        for m in self.modules():
            if isinstance(m, nn.Conv2d):
                init.kaiming_normal_(m.weight)
            elif isinstance(m, nn.BatchNorm2d):
                init.ones_(m.weight)
                init.zeros_(m.bias)
            elif isinstance(m, nn.Linear):
                init.zeros_(m.bias)

    def forward(self, x: Tensor) -> Tensor:
        out = F.relu(self.features(x), inplace=True)
        return self.classifier(engine.flatten(F.adaptive_avg_pool2d(out, (1, 1)), 1))


def _renamed(state: dict[str, Any]) -> dict[str, Any]:
    """Update old file names: `denselayer1.norm.1.weight` to `denselayer1.norm1.weight`, since module names cannot contain dots."""
    old = re.compile(r"^(.*denselayer\d+\.(?:norm|relu|conv))\.((?:[12])\.(?:weight|bias|running_mean|running_var))$")
    return {old.sub(r"\1\2", key): value for key, value in state.items()}


DenseNet121_Weights = imagenet("DenseNet121_Weights", 7978856, (29, 29), IMAGENET1K_V1=("densenet121-a639ec97.pth", {}))
DenseNet161_Weights = imagenet("DenseNet161_Weights", 28681000, (29, 29), IMAGENET1K_V1=("densenet161-8d451a50.pth", {}))
DenseNet169_Weights = imagenet("DenseNet169_Weights", 14149480, (29, 29), IMAGENET1K_V1=("densenet169-b2777c0a.pth", {}))
DenseNet201_Weights = imagenet("DenseNet201_Weights", 20013928, (29, 29), IMAGENET1K_V1=("densenet201-c1103571.pth", {}))


@builder(DenseNet121_Weights, renamed=_renamed)
def densenet121(**kwargs: Any) -> DenseNet:
    """DenseNet-121: 8.0 million parameters."""
    return DenseNet(32, (6, 12, 24, 16), 64, **kwargs)


@builder(DenseNet161_Weights, renamed=_renamed)
def densenet161(**kwargs: Any) -> DenseNet:
    """DenseNet-161: 28.7 million parameters."""
    return DenseNet(48, (6, 12, 36, 24), 96, **kwargs)


@builder(DenseNet169_Weights, renamed=_renamed)
def densenet169(**kwargs: Any) -> DenseNet:
    """DenseNet-169: 14.1 million parameters."""
    return DenseNet(32, (6, 12, 32, 32), 64, **kwargs)


@builder(DenseNet201_Weights, renamed=_renamed)
def densenet201(**kwargs: Any) -> DenseNet:
    """DenseNet-201: 20.0 million parameters."""
    return DenseNet(32, (6, 12, 48, 32), 64, **kwargs)
