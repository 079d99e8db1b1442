"""ResNet (He et al. 2015), ResNeXt (Xie et al. 2016) and wide ResNet (Zagoruyko and Komodakis 2016)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import engine
from engine import Tensor, nn
from engine.nn import init

from ._api import builder, imagenet
from ._init import kaiming

Norm = Callable[..., nn.Module]


def conv3x3(in_planes: int, out_planes: int, stride: int = 1, groups: int = 1, dilation: int = 1) -> nn.Conv2d:
    """3 x 3 convolution without bias; keeps the size at stride 1."""
    return nn.Conv2d(in_planes, out_planes, 3, stride, padding=dilation, dilation=dilation, groups=groups, bias=False)


def conv1x1(in_planes: int, out_planes: int, stride: int = 1) -> nn.Conv2d:
    """1 x 1 convolution without bias."""
    return nn.Conv2d(in_planes, out_planes, 1, stride, bias=False)


class BasicBlock(nn.Module):
    """Two 3 x 3 convolutions with a residual connection."""

    expansion = 1

    def __init__(
        self,
        inplanes: int,
        planes: int,
        stride: int = 1,
        downsample: nn.Module | None = None,
        groups: int = 1,
        base_width: int = 64,
        dilation: int = 1,
        norm_layer: Norm | None = None,
    ):
        super().__init__()
        norm_layer = norm_layer or nn.BatchNorm2d
        if groups != 1 or base_width != 64:
            raise ValueError("BasicBlock only supports groups=1 and base_width=64")
        if dilation > 1:
            raise NotImplementedError("Dilation > 1 not supported in BasicBlock")
        self.conv1 = conv3x3(inplanes, planes, stride)
        self.bn1 = norm_layer(planes)
        self.relu = nn.ReLU(inplace=True)
        self.conv2 = conv3x3(planes, planes)
        self.bn2 = norm_layer(planes)
        self.downsample = downsample
        self.stride = stride

    def forward(self, x: Tensor) -> Tensor:
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        out += x if self.downsample is None else self.downsample(x)
        return self.relu(out)


class Bottleneck(nn.Module):
    """1 x 1, 3 x 3 (with the stride, as in "ResNet V1.5") and 1 x 1 to four times the channels, with a residual connection."""

    expansion = 4

    def __init__(
        self,
        inplanes: int,
        planes: int,
        stride: int = 1,
        downsample: nn.Module | None = None,
        groups: int = 1,
        base_width: int = 64,
        dilation: int = 1,
        norm_layer: Norm | None = None,
    ):
        super().__init__()
        norm_layer = norm_layer or nn.BatchNorm2d
        width = int(planes * (base_width / 64.0)) * groups
        self.conv1 = conv1x1(inplanes, width)
        self.bn1 = norm_layer(width)
        self.conv2 = conv3x3(width, width, stride, groups, dilation)
        self.bn2 = norm_layer(width)
        self.conv3 = conv1x1(width, planes * self.expansion)
        self.bn3 = norm_layer(planes * self.expansion)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = downsample
        self.stride = stride

    def forward(self, x: Tensor) -> Tensor:
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.relu(self.bn2(self.conv2(out)))
        out = self.bn3(self.conv3(out))
        out += x if self.downsample is None else self.downsample(x)
        return self.relu(out)


class ResNet(nn.Module):
    """Four stages of residual blocks. `replace_stride_with_dilation` dilates any of the last three stages to keep their size."""

    def __init__(
        self,
        block: type[BasicBlock] | type[Bottleneck],
        layers: list[int],
        num_classes: int = 1000,
        zero_init_residual: bool = False,
        groups: int = 1,
        width_per_group: int = 64,
        replace_stride_with_dilation: list[bool] | None = None,
        norm_layer: Norm | None = None,
    ):
        super().__init__()
        self._norm_layer = norm_layer or nn.BatchNorm2d
        self.inplanes, self.dilation = 64, 1
        self.groups, self.base_width = groups, width_per_group
        dilated = replace_stride_with_dilation or [False, False, False]
        if len(dilated) != 3:
            raise ValueError(f"replace_stride_with_dilation should be None or a 3-element tuple, got {replace_stride_with_dilation}")
        self.conv1 = nn.Conv2d(3, self.inplanes, kernel_size=7, stride=2, padding=3, bias=False)
        self.bn1 = self._norm_layer(self.inplanes)
        self.relu = nn.ReLU(inplace=True)
        self.maxpool = nn.MaxPool2d(kernel_size=3, stride=2, padding=1)
        self.layer1 = self._make_layer(block, 64, layers[0])
        self.layer2 = self._make_layer(block, 128, layers[1], stride=2, dilate=dilated[0])
        self.layer3 = self._make_layer(block, 256, layers[2], stride=2, dilate=dilated[1])
        self.layer4 = self._make_layer(block, 512, layers[3], stride=2, dilate=dilated[2])
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.fc = nn.Linear(512 * block.expansion, num_classes)
        kaiming(self, nonlinearity="relu")
        if zero_init_residual:  # each block starts as the identity
            for m in self.modules():
                if isinstance(m, (BasicBlock, Bottleneck)):
                    init.zeros_((m.bn3 if isinstance(m, Bottleneck) else m.bn2).weight)

    def _make_layer(self, block: Any, planes: int, blocks: int, stride: int = 1, dilate: bool = False) -> nn.Sequential:
        before, downsample = self.dilation, None
        if dilate:
            self.dilation, stride = self.dilation * stride, 1
        if stride != 1 or self.inplanes != planes * block.expansion:
            downsample = nn.Sequential(conv1x1(self.inplanes, planes * block.expansion, stride), self._norm_layer(planes * block.expansion))
        shared = {"groups": self.groups, "base_width": self.base_width, "norm_layer": self._norm_layer}
        layers = [block(self.inplanes, planes, stride, downsample, dilation=before, **shared)]
        self.inplanes = planes * block.expansion
        layers += [block(self.inplanes, planes, dilation=self.dilation, **shared) for _ in range(1, blocks)]
        return nn.Sequential(*layers)

    def forward(self, x: Tensor) -> Tensor:
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(engine.flatten(self.avgpool(x), 1))


_V2 = {"resize_size": 232}
ResNet18_Weights = imagenet("ResNet18_Weights", 11689512, IMAGENET1K_V1=("resnet18-f37072fd.pth", {}))
ResNet34_Weights = imagenet("ResNet34_Weights", 21797672, IMAGENET1K_V1=("resnet34-b627a593.pth", {}))
ResNet50_Weights = imagenet(
    "ResNet50_Weights", 25557032, IMAGENET1K_V1=("resnet50-0676ba61.pth", {}), IMAGENET1K_V2=("resnet50-11ad3fa6.pth", _V2)
)
ResNet101_Weights = imagenet(
    "ResNet101_Weights", 44549160, IMAGENET1K_V1=("resnet101-63fe2227.pth", {}), IMAGENET1K_V2=("resnet101-cd907fc2.pth", _V2)
)
ResNet152_Weights = imagenet(
    "ResNet152_Weights", 60192808, IMAGENET1K_V1=("resnet152-394f9c45.pth", {}), IMAGENET1K_V2=("resnet152-f82ba261.pth", _V2)
)
ResNeXt50_32X4D_Weights = imagenet(
    "ResNeXt50_32X4D_Weights",
    25028904,
    IMAGENET1K_V1=("resnext50_32x4d-7cdf4587.pth", {}),
    IMAGENET1K_V2=("resnext50_32x4d-1a0047aa.pth", _V2),
)
ResNeXt101_32X8D_Weights = imagenet(
    "ResNeXt101_32X8D_Weights",
    88791336,
    IMAGENET1K_V1=("resnext101_32x8d-8ba56ff5.pth", {}),
    IMAGENET1K_V2=("resnext101_32x8d-110c445d.pth", _V2),
)
Wide_ResNet50_2_Weights = imagenet(
    "Wide_ResNet50_2_Weights",
    68883240,
    IMAGENET1K_V1=("wide_resnet50_2-95faca4d.pth", {}),
    IMAGENET1K_V2=("wide_resnet50_2-9ba9bcbe.pth", _V2),
)
Wide_ResNet101_2_Weights = imagenet(
    "Wide_ResNet101_2_Weights",
    126886696,
    IMAGENET1K_V1=("wide_resnet101_2-32ee1156.pth", {}),
    IMAGENET1K_V2=("wide_resnet101_2-d733dc28.pth", _V2),
)


@builder(ResNet18_Weights)
def resnet18(**kwargs: Any) -> ResNet:
    """ResNet-18: 11.7 million parameters."""
    return ResNet(BasicBlock, [2, 2, 2, 2], **kwargs)


@builder(ResNet34_Weights)
def resnet34(**kwargs: Any) -> ResNet:
    """ResNet-34: 21.8 million parameters."""
    return ResNet(BasicBlock, [3, 4, 6, 3], **kwargs)


@builder(ResNet50_Weights)
def resnet50(**kwargs: Any) -> ResNet:
    """ResNet-50: 25.6 million parameters."""
    return ResNet(Bottleneck, [3, 4, 6, 3], **kwargs)


@builder(ResNet101_Weights)
def resnet101(**kwargs: Any) -> ResNet:
    """ResNet-101: 44.5 million parameters."""
    return ResNet(Bottleneck, [3, 4, 23, 3], **kwargs)


@builder(ResNet152_Weights)
def resnet152(**kwargs: Any) -> ResNet:
    """ResNet-152: 60.2 million parameters."""
    return ResNet(Bottleneck, [3, 8, 36, 3], **kwargs)


@builder(ResNeXt50_32X4D_Weights, always={"groups": 32, "width_per_group": 4})
def resnext50_32x4d(**kwargs: Any) -> ResNet:
    """ResNeXt-50 with 32 groups of width 4: 25.0 million parameters."""
    return ResNet(Bottleneck, [3, 4, 6, 3], **kwargs)


@builder(ResNeXt101_32X8D_Weights, always={"groups": 32, "width_per_group": 8})
def resnext101_32x8d(**kwargs: Any) -> ResNet:
    """ResNeXt-101 with 32 groups of width 8: 88.8 million parameters."""
    return ResNet(Bottleneck, [3, 4, 23, 3], **kwargs)


@builder(Wide_ResNet50_2_Weights, always={"width_per_group": 128})
def wide_resnet50_2(**kwargs: Any) -> ResNet:
    """ResNet-50 with blocks of twice the inner width: 68.9 million parameters."""
    return ResNet(Bottleneck, [3, 4, 6, 3], **kwargs)


@builder(Wide_ResNet101_2_Weights, always={"width_per_group": 128})
def wide_resnet101_2(**kwargs: Any) -> ResNet:
    """ResNet-101 with blocks of twice the inner width: 126.9 million parameters."""
    return ResNet(Bottleneck, [3, 4, 23, 3], **kwargs)
