"""Inception v3 (Szegedy et al. 2015): parallel branches, with large kernels factored into small and one-sided ones."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable
from typing import Any

import engine
from engine import Tensor, nn
from engine.base.errors import warn
from engine.nn import functional as F
from engine.nn import init

from ._api import asked, imagenet, register_model
from .googlenet import BasicConv2d, as_trained

InceptionOutputs = namedtuple("InceptionOutputs", ["logits", "aux_logits"])
_ROW, _COLUMN = {"kernel_size": (1, 7), "padding": (0, 3)}, {"kernel_size": (7, 1), "padding": (3, 0)}
_SHORT_ROW, _SHORT_COLUMN = {"kernel_size": (1, 3), "padding": (0, 1)}, {"kernel_size": (3, 1), "padding": (1, 0)}
Block = Callable[..., nn.Module]


class _Branches(nn.Module):
    """Concatenate the results of the branches that `_forward` returns."""

    def _forward(self, x: Tensor) -> list[Tensor]:
        raise NotImplementedError

    def forward(self, x: Tensor) -> Tensor:
        return engine.cat(self._forward(x), 1)


class InceptionA(_Branches):
    """1 x 1; 5 x 5; two times 3 x 3; and average pooling."""

    def __init__(self, in_channels: int, pool_features: int, conv_block: Block | None = None):
        super().__init__()
        conv = conv_block or BasicConv2d
        self.branch1x1 = conv(in_channels, 64, kernel_size=1)
        self.branch5x5_1 = conv(in_channels, 48, kernel_size=1)
        self.branch5x5_2 = conv(48, 64, kernel_size=5, padding=2)
        self.branch3x3dbl_1 = conv(in_channels, 64, kernel_size=1)
        self.branch3x3dbl_2 = conv(64, 96, kernel_size=3, padding=1)
        self.branch3x3dbl_3 = conv(96, 96, kernel_size=3, padding=1)
        self.branch_pool = conv(in_channels, pool_features, kernel_size=1)

    def _forward(self, x: Tensor) -> list[Tensor]:
        double = self.branch3x3dbl_3(self.branch3x3dbl_2(self.branch3x3dbl_1(x)))
        pooled = self.branch_pool(F.avg_pool2d(x, kernel_size=3, stride=1, padding=1))
        return [self.branch1x1(x), self.branch5x5_2(self.branch5x5_1(x)), double, pooled]


class InceptionB(_Branches):
    """Half the height and width by 3 x 3; two times 3 x 3; and max pooling."""

    def __init__(self, in_channels: int, conv_block: Block | None = None):
        super().__init__()
        conv = conv_block or BasicConv2d
        self.branch3x3 = conv(in_channels, 384, kernel_size=3, stride=2)
        self.branch3x3dbl_1 = conv(in_channels, 64, kernel_size=1)
        self.branch3x3dbl_2 = conv(64, 96, kernel_size=3, padding=1)
        self.branch3x3dbl_3 = conv(96, 96, kernel_size=3, stride=2)

    def _forward(self, x: Tensor) -> list[Tensor]:
        double = self.branch3x3dbl_3(self.branch3x3dbl_2(self.branch3x3dbl_1(x)))
        return [self.branch3x3(x), double, F.max_pool2d(x, kernel_size=3, stride=2)]


class InceptionC(_Branches):
    """1 x 1; 7 x 7 and two times 7 x 7, each a row and a column; and average pooling."""

    def __init__(self, in_channels: int, channels_7x7: int, conv_block: Block | None = None):
        super().__init__()
        conv, c7 = conv_block or BasicConv2d, channels_7x7
        self.branch1x1 = conv(in_channels, 192, kernel_size=1)
        self.branch7x7_1 = conv(in_channels, c7, kernel_size=1)
        self.branch7x7_2 = conv(c7, c7, **_ROW)
        self.branch7x7_3 = conv(c7, 192, **_COLUMN)
        self.branch7x7dbl_1 = conv(in_channels, c7, kernel_size=1)
        self.branch7x7dbl_2 = conv(c7, c7, **_COLUMN)
        self.branch7x7dbl_3 = conv(c7, c7, **_ROW)
        self.branch7x7dbl_4 = conv(c7, c7, **_COLUMN)
        self.branch7x7dbl_5 = conv(c7, 192, **_ROW)
        self.branch_pool = conv(in_channels, 192, kernel_size=1)

    def _forward(self, x: Tensor) -> list[Tensor]:
        single = self.branch7x7_3(self.branch7x7_2(self.branch7x7_1(x)))
        double = self.branch7x7dbl_3(self.branch7x7dbl_2(self.branch7x7dbl_1(x)))
        double = self.branch7x7dbl_5(self.branch7x7dbl_4(double))
        pooled = self.branch_pool(F.avg_pool2d(x, kernel_size=3, stride=1, padding=1))
        return [self.branch1x1(x), single, double, pooled]


class InceptionD(_Branches):
    """Half the height and width by 3 x 3; 7 x 7 and 3 x 3; and max pooling."""

    def __init__(self, in_channels: int, conv_block: Block | None = None):
        super().__init__()
        conv = conv_block or BasicConv2d
        self.branch3x3_1 = conv(in_channels, 192, kernel_size=1)
        self.branch3x3_2 = conv(192, 320, kernel_size=3, stride=2)
        self.branch7x7x3_1 = conv(in_channels, 192, kernel_size=1)
        self.branch7x7x3_2 = conv(192, 192, **_ROW)
        self.branch7x7x3_3 = conv(192, 192, **_COLUMN)
        self.branch7x7x3_4 = conv(192, 192, kernel_size=3, stride=2)

    def _forward(self, x: Tensor) -> list[Tensor]:
        large = self.branch7x7x3_4(self.branch7x7x3_3(self.branch7x7x3_2(self.branch7x7x3_1(x))))
        return [self.branch3x3_2(self.branch3x3_1(x)), large, F.max_pool2d(x, kernel_size=3, stride=2)]


class InceptionE(_Branches):
    """1 x 1; 3 x 3 and two times 3 x 3, whose last row and column stand side by side; and average pooling."""

    def __init__(self, in_channels: int, conv_block: Block | None = None):
        super().__init__()
        conv = conv_block or BasicConv2d
        self.branch1x1 = conv(in_channels, 320, kernel_size=1)
        self.branch3x3_1 = conv(in_channels, 384, kernel_size=1)
        self.branch3x3_2a = conv(384, 384, **_SHORT_ROW)
        self.branch3x3_2b = conv(384, 384, **_SHORT_COLUMN)
        self.branch3x3dbl_1 = conv(in_channels, 448, kernel_size=1)
        self.branch3x3dbl_2 = conv(448, 384, kernel_size=3, padding=1)
        self.branch3x3dbl_3a = conv(384, 384, **_SHORT_ROW)
        self.branch3x3dbl_3b = conv(384, 384, **_SHORT_COLUMN)
        self.branch_pool = conv(in_channels, 192, kernel_size=1)

    def _forward(self, x: Tensor) -> list[Tensor]:
        single, double = self.branch3x3_1(x), self.branch3x3dbl_2(self.branch3x3dbl_1(x))
        single = engine.cat([self.branch3x3_2a(single), self.branch3x3_2b(single)], 1)
        double = engine.cat([self.branch3x3dbl_3a(double), self.branch3x3dbl_3b(double)], 1)
        pooled = self.branch_pool(F.avg_pool2d(x, kernel_size=3, stride=1, padding=1))
        return [self.branch1x1(x), single, double, pooled]


class InceptionAux(nn.Module):
    """An auxiliary classifier in the middle of the network, for training."""

    def __init__(self, in_channels: int, num_classes: int, conv_block: Block | None = None):
        super().__init__()
        conv = conv_block or BasicConv2d
        self.conv0 = conv(in_channels, 128, kernel_size=1)
        self.conv1 = conv(128, 768, kernel_size=5)
        self.conv1.stddev = 0.01
        self.fc = nn.Linear(768, num_classes)
        self.fc.stddev = 0.001

    def forward(self, x: Tensor) -> Tensor:
        x = self.conv1(self.conv0(F.avg_pool2d(x, kernel_size=5, stride=3)))
        return self.fc(engine.flatten(F.adaptive_avg_pool2d(x, (1, 1)), 1))


class Inception3(nn.Module):
    """Eleven inception blocks, for pictures of 299 x 299. Returns `InceptionOutputs` in training with `aux_logits`, else the logits."""

    def __init__(
        self,
        num_classes: int = 1000,
        aux_logits: bool = True,
        transform_input: bool = False,
        inception_blocks: list[Block] | None = None,
        init_weights: bool | None = None,
        dropout: float = 0.5,
    ):
        super().__init__()
        blocks = inception_blocks or [BasicConv2d, InceptionA, InceptionB, InceptionC, InceptionD, InceptionE, InceptionAux]
        if len(blocks) != 7:
            raise ValueError(f"length of inception_blocks should be 7 instead of {len(blocks)}")
        if init_weights is None:
            warn(
                "The default weight initialization of inception_v3 will be changed in future releases of torchvision. If you wish to keep "
                "the old behavior (which leads to long initialization times due to scipy/scipy#11299), please set init_weights=True.",
                FutureWarning,
            )
            init_weights = True
        conv, a, b, c, d, e, aux = blocks
        self.aux_logits, self.transform_input = aux_logits, transform_input
        self.Conv2d_1a_3x3 = conv(3, 32, kernel_size=3, stride=2)
        self.Conv2d_2a_3x3 = conv(32, 32, kernel_size=3)
        self.Conv2d_2b_3x3 = conv(32, 64, kernel_size=3, padding=1)
        self.maxpool1 = nn.MaxPool2d(kernel_size=3, stride=2)
        self.Conv2d_3b_1x1 = conv(64, 80, kernel_size=1)
        self.Conv2d_4a_3x3 = conv(80, 192, kernel_size=3)
        self.maxpool2 = nn.MaxPool2d(kernel_size=3, stride=2)
        self.Mixed_5b = a(192, pool_features=32)
        self.Mixed_5c = a(256, pool_features=64)
        self.Mixed_5d = a(288, pool_features=64)
        self.Mixed_6a = b(288)
        self.Mixed_6b = c(768, channels_7x7=128)
        self.Mixed_6c = c(768, channels_7x7=160)
        self.Mixed_6d = c(768, channels_7x7=160)
        self.Mixed_6e = c(768, channels_7x7=192)
        self.AuxLogits = aux(768, num_classes) if aux_logits else None
        self.Mixed_7a = d(768)
        self.Mixed_7b = e(1280)
        self.Mixed_7c = e(2048)
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.dropout = nn.Dropout(p=dropout)
        self.fc = nn.Linear(2048, num_classes)
        for m in self.modules() if init_weights else ():
            if isinstance(m, (nn.Conv2d, nn.Linear)):
                init.trunc_normal_(m.weight, mean=0.0, std=float(getattr(m, "stddev", 0.1)), a=-2, b=2)
            elif isinstance(m, nn.BatchNorm2d):
                init.ones_(m.weight)
                init.zeros_(m.bias)

    def forward(self, x: Tensor) -> Any:
        x = as_trained(x) if self.transform_input else x
        x = self.maxpool1(self.Conv2d_2b_3x3(self.Conv2d_2a_3x3(self.Conv2d_1a_3x3(x))))
        x = self.maxpool2(self.Conv2d_4a_3x3(self.Conv2d_3b_1x1(x)))
        x = self.Mixed_6a(self.Mixed_5d(self.Mixed_5c(self.Mixed_5b(x))))
        x = self.Mixed_6e(self.Mixed_6d(self.Mixed_6c(self.Mixed_6b(x))))
        aux = self.AuxLogits(x) if self.AuxLogits is not None and self.training else None
        x = self.avgpool(self.Mixed_7c(self.Mixed_7b(self.Mixed_7a(x))))
        x = self.fc(engine.flatten(self.dropout(x), 1))
        return InceptionOutputs(x, aux) if self.training and self.aux_logits else x


Inception_V3_Weights = imagenet(
    "Inception_V3_Weights", 27161264, (75, 75), IMAGENET1K_V1=("inception_v3_google-0cc3c7bd.pth", {"crop_size": 299, "resize_size": 342})
)


@register_model()
def inception_v3(*args: Any, weights: Any = None, progress: bool = True, **kwargs: Any) -> Inception3:
    """Inception v3: 27.2 million parameters with the auxiliary classifier, which has pretrained weights too."""
    weights = asked(Inception_V3_Weights, "inception_v3", weights, args, kwargs)
    if weights is None:
        return Inception3(**kwargs)
    for name, value in {"num_classes": 1000, "init_weights": False}.items():
        if kwargs.setdefault(name, value) != value:
            raise ValueError(f"The parameter '{name}' expected value {value} but got {kwargs[name]} instead.")
    with_aux = kwargs.pop("aux_logits", True)
    state = weights.get_state_dict(progress=progress, check_hash=True)
    model = Inception3(aux_logits=True, **{"transform_input": True, **kwargs})
    model.load_state_dict(state)
    if not with_aux:
        model.aux_logits, model.AuxLogits = False, None
    return model


inception_v3.weights_class = Inception_V3_Weights  # type: ignore[attr-defined]
