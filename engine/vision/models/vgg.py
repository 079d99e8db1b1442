"""VGG (Simonyan and Zisserman 2014): 3 x 3 convolutions, with or without batch norm."""

from __future__ import annotations

from typing import Any

import engine
from engine import Tensor, nn
from engine.nn import init

from ._api import builder, imagenet
from ._init import kaiming

# channels of the convolutions; M halves the size
cfgs: dict[str, list[Any]] = {
    "A": [64, "M", 128, "M", 256, 256, "M", 512, 512, "M", 512, 512, "M"],
    "B": [64, 64, "M", 128, 128, "M", 256, 256, "M", 512, 512, "M", 512, 512, "M"],
    "D": [64, 64, "M", 128, 128, "M", *[256] * 3, "M", *[512] * 3, "M", *[512] * 3, "M"],
    "E": [64, 64, "M", 128, 128, "M", *[256] * 4, "M", *[512] * 4, "M", *[512] * 4, "M"],
}


class VGG(nn.Module):
    """Convolutions, then three linear layers on 7 x 7 features."""

    def __init__(self, features: nn.Module, num_classes: int = 1000, init_weights: bool = True, dropout: float = 0.5):
        super().__init__()
        self.features = features
        self.avgpool = nn.AdaptiveAvgPool2d((7, 7))
        self.classifier = nn.Sequential(
            nn.Linear(512 * 7 * 7, 4096),
            nn.ReLU(True),
            nn.Dropout(p=dropout),
            nn.Linear(4096, 4096),
            nn.ReLU(True),
            nn.Dropout(p=dropout),
            nn.Linear(4096, num_classes),
        )
        if init_weights:
            kaiming(self, lambda m: init.normal_(m.weight, 0, 0.01), nonlinearity="relu")

    def forward(self, x: Tensor) -> Tensor:
        return self.classifier(engine.flatten(self.avgpool(self.features(x)), 1))


def make_layers(cfg: list[Any], batch_norm: bool = False) -> nn.Sequential:
    """Build the convolutions from a list of channels."""
    layers: list[nn.Module] = []
    channels = 3
    for v in cfg:
        if v == "M":
            layers.append(nn.MaxPool2d(kernel_size=2, stride=2))
        else:
            norm = [nn.BatchNorm2d(v)] if batch_norm else []
            layers += [nn.Conv2d(channels, v, kernel_size=3, padding=1), *norm, nn.ReLU(inplace=True)]
            channels = v
    return nn.Sequential(*layers)


def _fixed(weights: Any) -> dict[str, Any]:
    return {"init_weights": False}  # the weights are loaded anyway


VGG11_Weights = imagenet("VGG11_Weights", 132863336, (32, 32), IMAGENET1K_V1=("vgg11-8a719046.pth", {}))
VGG11_BN_Weights = imagenet("VGG11_BN_Weights", 132868840, (32, 32), IMAGENET1K_V1=("vgg11_bn-6002323d.pth", {}))
VGG13_Weights = imagenet("VGG13_Weights", 133047848, (32, 32), IMAGENET1K_V1=("vgg13-19584684.pth", {}))
VGG13_BN_Weights = imagenet("VGG13_BN_Weights", 133053736, (32, 32), IMAGENET1K_V1=("vgg13_bn-abd245e5.pth", {}))
VGG16_Weights = imagenet("VGG16_Weights", 138357544, (32, 32), IMAGENET1K_V1=("vgg16-397923af.pth", {}))
VGG16_BN_Weights = imagenet("VGG16_BN_Weights", 138365992, (32, 32), IMAGENET1K_V1=("vgg16_bn-6c64b313.pth", {}))
VGG19_Weights = imagenet("VGG19_Weights", 143667240, (32, 32), IMAGENET1K_V1=("vgg19-dcbb9e9d.pth", {}))
VGG19_BN_Weights = imagenet("VGG19_BN_Weights", 143678248, (32, 32), IMAGENET1K_V1=("vgg19_bn-c79401a0.pth", {}))


@builder(VGG11_Weights, _fixed)
def vgg11(**kwargs: Any) -> VGG:
    """VGG-11: 132.9 million parameters."""
    return VGG(make_layers(cfgs["A"]), **kwargs)


@builder(VGG11_BN_Weights, _fixed)
def vgg11_bn(**kwargs: Any) -> VGG:
    """VGG-11 with batch norm."""
    return VGG(make_layers(cfgs["A"], batch_norm=True), **kwargs)


@builder(VGG13_Weights, _fixed)
def vgg13(**kwargs: Any) -> VGG:
    """VGG-13: 133.0 million parameters."""
    return VGG(make_layers(cfgs["B"]), **kwargs)


@builder(VGG13_BN_Weights, _fixed)
def vgg13_bn(**kwargs: Any) -> VGG:
    """VGG-13 with batch norm."""
    return VGG(make_layers(cfgs["B"], batch_norm=True), **kwargs)


@builder(VGG16_Weights, _fixed)
def vgg16(**kwargs: Any) -> VGG:
    """VGG-16: 138.4 million parameters."""
    return VGG(make_layers(cfgs["D"]), **kwargs)


@builder(VGG16_BN_Weights, _fixed)
def vgg16_bn(**kwargs: Any) -> VGG:
    """VGG-16 with batch norm."""
    return VGG(make_layers(cfgs["D"], batch_norm=True), **kwargs)


@builder(VGG19_Weights, _fixed)
def vgg19(**kwargs: Any) -> VGG:
    """VGG-19: 143.7 million parameters."""
    return VGG(make_layers(cfgs["E"]), **kwargs)


@builder(VGG19_BN_Weights, _fixed)
def vgg19_bn(**kwargs: Any) -> VGG:
    """VGG-19 with batch norm."""
    return VGG(make_layers(cfgs["E"], batch_norm=True), **kwargs)
