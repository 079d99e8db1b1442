"""GoogLeNet (Inception v1, Szegedy et al. 2014): parallel branches with different kernels."""

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

GoogLeNetOutputs = namedtuple("GoogLeNetOutputs", ["logits", "aux_logits2", "aux_logits1"])


_STATISTICS = ((0.485, 0.229), (0.456, 0.224), (0.406, 0.225))


def as_trained(x: Tensor) -> Tensor:
    """Convert from ImageNet's normalization to mean 0.5 and deviation 0.5, with which the weights were trained."""
    channels = [x[:, i : i + 1] * (std / 0.5) + (mean - 0.5) / 0.5 for i, (mean, std) in enumerate(_STATISTICS)]
    return engine.cat(channels, 1)


class BasicConv2d(nn.Module):
    """Convolution, batch norm and relu."""

    def __init__(self, in_channels: int, out_channels: int, **kwargs: Any):
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, bias=False, **kwargs)
        self.bn = nn.BatchNorm2d(out_channels, eps=0.001)

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.bn(self.conv(x)), inplace=True)


class Inception(nn.Module):
    """Concatenate 1 x 1; 1 x 1 and 3 x 3; the same with fewer channels (5 x 5 in the paper); and pooling with 1 x 1."""

    def __init__(
        self,
        in_channels: int,
        ch1x1: int,
        ch3x3red: int,
        ch3x3: int,
        ch5x5red: int,
        ch5x5: int,
        pool_proj: int,
        conv_block: Callable[..., nn.Module] | None = None,
    ):
        super().__init__()
        conv = conv_block or BasicConv2d
        self.branch1 = conv(in_channels, ch1x1, kernel_size=1)
        self.branch2 = nn.Sequential(conv(in_channels, ch3x3red, kernel_size=1), conv(ch3x3red, ch3x3, kernel_size=3, padding=1))
        self.branch3 = nn.Sequential(conv(in_channels, ch5x5red, kernel_size=1), conv(ch5x5red, ch5x5, kernel_size=3, padding=1))
        self.branch4 = nn.Sequential(
            nn.MaxPool2d(kernel_size=3, stride=1, padding=1, ceil_mode=True), conv(in_channels, pool_proj, kernel_size=1)
        )

    def forward(self, x: Tensor) -> Tensor:
        return engine.cat([self.branch1(x), self.branch2(x), self.branch3(x), self.branch4(x)], 1)


class InceptionAux(nn.Module):
    """An auxiliary classifier in the middle of the network, for training."""

    def __init__(self, in_channels: int, num_classes: int, conv_block: Callable[..., nn.Module] | None = None, dropout: float = 0.7):
        super().__init__()
        self.conv = (conv_block or BasicConv2d)(in_channels, 128, kernel_size=1)
        self.fc1 = nn.Linear(2048, 1024)
        self.fc2 = nn.Linear(1024, num_classes)
        self.dropout = nn.Dropout(p=dropout)

    def forward(self, x: Tensor) -> Tensor:
        x = engine.flatten(self.conv(F.adaptive_avg_pool2d(x, (4, 4))), 1)
        return self.fc2(self.dropout(F.relu(self.fc1(x), inplace=True)))


class GoogLeNet(nn.Module):
    """Nine inception blocks. Returns `GoogLeNetOutputs` in training with `aux_logits`, else the logits."""

    def __init__(
        self,
        num_classes: int = 1000,
        aux_logits: bool = True,
        transform_input: bool = False,
        init_weights: bool | None = None,
        blocks: list[Callable[..., nn.Module]] | None = None,
        dropout: float = 0.2,
        dropout_aux: float = 0.7,
    ):
        super().__init__()
        conv, inception, aux = blocks or [BasicConv2d, Inception, InceptionAux]
        if init_weights is None:
            warn(
                "The default weight initialization of GoogleNet will be changed in future releases of torchvision. If you wish to keep "
                "the old behavior, please set init_weights=True.",
                FutureWarning,
            )
            init_weights = True
        self.aux_logits, self.transform_input = aux_logits, transform_input
        self.conv1 = conv(3, 64, kernel_size=7, stride=2, padding=3)
        self.maxpool1 = nn.MaxPool2d(3, stride=2, ceil_mode=True)
        self.conv2 = conv(64, 64, kernel_size=1)
        self.conv3 = conv(64, 192, kernel_size=3, padding=1)
        self.maxpool2 = nn.MaxPool2d(3, stride=2, ceil_mode=True)
        self.inception3a = inception(192, 64, 96, 128, 16, 32, 32)
        self.inception3b = inception(256, 128, 128, 192, 32, 96, 64)
        self.maxpool3 = nn.MaxPool2d(3, stride=2, ceil_mode=True)
        self.inception4a = inception(480, 192, 96, 208, 16, 48, 64)
        self.inception4b = inception(512, 160, 112, 224, 24, 64, 64)
        self.inception4c = inception(512, 128, 128, 256, 24, 64, 64)
        self.inception4d = inception(512, 112, 144, 288, 32, 64, 64)
        self.inception4e = inception(528, 256, 160, 320, 32, 128, 128)
        self.maxpool4 = nn.MaxPool2d(2, stride=2, ceil_mode=True)
        self.inception5a = inception(832, 256, 160, 320, 32, 128, 128)
        self.inception5b = inception(832, 384, 192, 384, 48, 128, 128)
        self.aux1 = aux(512, num_classes, dropout=dropout_aux) if aux_logits else None
        self.aux2 = aux(528, num_classes, dropout=dropout_aux) if aux_logits else None
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.dropout = nn.Dropout(p=dropout)
        self.fc = nn.Linear(1024, num_classes)
        for m in self.modules() if init_weights else ():
            if isinstance(m, (nn.Conv2d, nn.Linear)):
                init.trunc_normal_(m.weight, mean=0.0, std=0.01, a=-2, b=2)
            elif isinstance(m, nn.BatchNorm2d):
                init.ones_(m.weight)
                init.zeros_(m.bias)

    def forward(self, x: Tensor) -> Any:
        x = as_trained(x) if self.transform_input else x
        x = self.maxpool2(self.conv3(self.conv2(self.maxpool1(self.conv1(x)))))
        x = self.inception4a(self.maxpool3(self.inception3b(self.inception3a(x))))
        aux1 = self.aux1(x) if self.aux1 is not None and self.training else None
        x = self.inception4d(self.inception4c(self.inception4b(x)))
        aux2 = self.aux2(x) if self.aux2 is not None and self.training else None
        x = self.inception5b(self.inception5a(self.maxpool4(self.inception4e(x))))
        x = self.fc(self.dropout(engine.flatten(self.avgpool(x), 1)))
        return GoogLeNetOutputs(x, aux2, aux1) if self.training and self.aux_logits else x


GoogLeNet_Weights = imagenet("GoogLeNet_Weights", 6624904, (15, 15), IMAGENET1K_V1=("googlenet-1378be20.pth", {}))


@register_model()
def googlenet(*args: Any, weights: Any = None, progress: bool = True, **kwargs: Any) -> GoogLeNet:
    """GoogLeNet: 6.6 million parameters, 13.0 million with the auxiliary classifiers, which have no pretrained weights."""
    weights = asked(GoogLeNet_Weights, "googlenet", weights, args, kwargs)
    if weights is None:
        return GoogLeNet(**kwargs)
    with_aux = kwargs.pop("aux_logits", False)
    if kwargs.setdefault("num_classes", 1000) != 1000:
        raise ValueError(f"The parameter 'num_classes' expected value 1000 but got {kwargs['num_classes']} instead.")
    if with_aux:
        warn("auxiliary heads in the pretrained googlenet model are NOT pretrained, so make sure to train them")
    state = weights.get_state_dict(progress=progress, check_hash=True)
    model = GoogLeNet(aux_logits=True, init_weights=False, **{"transform_input": True, **kwargs})
    model.load_state_dict(state)
    if not with_aux:
        model.aux_logits, model.aux1, model.aux2 = False, None, None
    return model


googlenet.weights_class = GoogLeNet_Weights  # type: ignore[attr-defined]
