"""SqueezeNet (Iandola et al. 2016): 1 x 1 convolutions reduce the channels before parallel 1 x 1 and 3 x 3 convolutions."""

from __future__ import annotations

from typing import Any

import engine
from engine import Tensor, nn
from engine.nn import init

from ._api import builder, imagenet


class Fire(nn.Module):
    """Squeeze by 1 x 1, then expand by parallel 1 x 1 and 3 x 3 convolutions."""

    def __init__(self, inplanes: int, squeeze_planes: int, expand1x1_planes: int, expand3x3_planes: int):
        super().__init__()
        self.inplanes = inplanes
        self.squeeze = nn.Conv2d(inplanes, squeeze_planes, kernel_size=1)
        self.squeeze_activation = nn.ReLU(inplace=True)
        self.expand1x1 = nn.Conv2d(squeeze_planes, expand1x1_planes, kernel_size=1)
        self.expand1x1_activation = nn.ReLU(inplace=True)
        self.expand3x3 = nn.Conv2d(squeeze_planes, expand3x3_planes, kernel_size=3, padding=1)
        self.expand3x3_activation = nn.ReLU(inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        x = self.squeeze_activation(self.squeeze(x))
        return engine.cat([self.expand1x1_activation(self.expand1x1(x)), self.expand3x3_activation(self.expand3x3(x))], 1)


def _pool() -> nn.MaxPool2d:
    return nn.MaxPool2d(kernel_size=3, stride=2, ceil_mode=True)


# squeezed channels, and channels of each expansion; None halves the size
_FIRES: dict[str, list[Any]] = {
    "1_0": [(16, 64), (16, 64), (32, 128), None, (32, 128), (48, 192), (48, 192), (64, 256), None, (64, 256)],
    "1_1": [(16, 64), (16, 64), None, (32, 128), (32, 128), None, (48, 192), (48, 192), (64, 256), (64, 256)],
}


class SqueezeNet(nn.Module):
    """Version "1_0", or "1_1", which needs 2.4 times fewer operations."""

    def __init__(self, version: str = "1_0", num_classes: int = 1000, dropout: float = 0.5):
        super().__init__()
        self.num_classes = num_classes
        if version not in _FIRES:
            raise ValueError(f"Unsupported SqueezeNet version {version}: 1_0 or 1_1 expected")
        channels = 96 if version == "1_0" else 64
        layers: list[nn.Module] = [nn.Conv2d(3, channels, kernel_size=7 if version == "1_0" else 3, stride=2)]
        layers += [nn.ReLU(inplace=True), _pool()]
        for sizes in _FIRES[version]:
            if sizes is None:
                layers.append(_pool())
            else:
                layers.append(Fire(channels, sizes[0], sizes[1], sizes[1]))
                channels = 2 * sizes[1]
        self.features = nn.Sequential(*layers)
        final = nn.Conv2d(512, num_classes, kernel_size=1)
        self.classifier = nn.Sequential(nn.Dropout(p=dropout), final, nn.ReLU(inplace=True), nn.AdaptiveAvgPool2d((1, 1)))
        for m in self.modules():
            if isinstance(m, nn.Conv2d):
                if m is final:
                    init.normal_(m.weight, mean=0.0, std=0.01)
                else:
                    init.kaiming_uniform_(m.weight)
                if m.bias is not None:
                    init.zeros_(m.bias)

    def forward(self, x: Tensor) -> Tensor:
        return engine.flatten(self.classifier(self.features(x)), 1)


SqueezeNet1_0_Weights = imagenet("SqueezeNet1_0_Weights", 1248424, (21, 21), IMAGENET1K_V1=("squeezenet1_0-b66bff10.pth", {}))
SqueezeNet1_1_Weights = imagenet("SqueezeNet1_1_Weights", 1235496, (17, 17), IMAGENET1K_V1=("squeezenet1_1-b8a52dc0.pth", {}))


@builder(SqueezeNet1_0_Weights)
def squeezenet1_0(**kwargs: Any) -> SqueezeNet:
    """SqueezeNet 1.0: 1.25 million parameters."""
    return SqueezeNet("1_0", **kwargs)


@builder(SqueezeNet1_1_Weights)
def squeezenet1_1(**kwargs: Any) -> SqueezeNet:
    """SqueezeNet 1.1: 1.24 million parameters."""
    return SqueezeNet("1_1", **kwargs)
