"""The models that are trained beside PyTorch. Each is written once, for a library `E`, and comes with a batch of NumPy arrays."""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Callable
from typing import Any

import numpy


def draw() -> numpy.random.Generator:
    """The same numbers for each library."""
    return numpy.random.default_rng(0)


def pictures(*shape: int, classes: int = 10) -> tuple[numpy.ndarray, numpy.ndarray]:
    """Normal numbers of a shape, and a class for each of the first axis."""
    rng = draw()
    return rng.standard_normal(shape, numpy.float32), rng.integers(0, classes, shape[0])


def mlp(E: Any, batch: int = 128, width: int = 256) -> tuple:
    """784-256-256-10."""
    nn = E.nn
    model = nn.Sequential(nn.Linear(784, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 10))
    return model, *pictures(batch, 784)


def cnn(E: Any, batch: int = 64, channels: int = 16) -> tuple:
    """Two convolutions with pools, two linear layers, on 28 x 28."""
    nn = E.nn
    model = nn.Sequential(
        nn.Conv2d(1, channels, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(channels, 2 * channels, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(2 * channels * 49, 64), nn.ReLU(), nn.Linear(64, 10),
    )  # fmt: skip
    return model, *pictures(batch, 1, 28, 28)


def lstm(E: Any, batch: int = 32, length: int = 32, width: int = 128, layers: int = 1) -> tuple:
    """An LSTM on 64 features, and a linear layer on its last output."""

    class Model(E.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lstm, self.head = E.nn.LSTM(64, width, layers, batch_first=True), E.nn.Linear(width, 10)

        def forward(self, x: Any) -> Any:
            return self.head(self.lstm(x)[0][:, -1])

    return Model(), *pictures(batch, length, 64)


def gpt(
    E: Any, batch: int = 16, length: int = 64, width: int = 128, layers: int = 4, heads: int = 4, vocabulary: int = 65, fused: bool = False
) -> tuple:
    """A decoder as GPT-2's; attention is written out, or one call of `scaled_dot_product_attention` if it is `fused`."""
    nn = E.nn

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
            self.register_buffer("later", E.ones(length, length, dtype=E.bool).triu(1))

        def attention(self, x: Any) -> Any:
            n, t, _ = x.shape
            q, k, v = (part.view(n, t, heads, -1).transpose(1, 2) for part in self.qkv(x).chunk(3, -1))
            if fused:
                mixed = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            else:
                scores = (q @ k.transpose(-2, -1) / math.sqrt(width // heads)).masked_fill(self.later, -math.inf)
                mixed = scores.softmax(-1) @ v
            return self.out(mixed.transpose(1, 2).reshape(n, t, width))

        def forward(self, x: Any) -> Any:
            x = x + self.attention(self.norm1(x))
            return x + self.mlp(self.norm2(x))

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.tokens, self.places = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
            self.blocks = nn.Sequential(*[Block() for _ in range(layers)])
            self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)
            nn.init.normal_(self.tokens.weight, std=0.02)
            self.head.weight = self.tokens.weight

        def forward(self, x: Any) -> Any:
            x = self.tokens(x) + self.places(E.arange(length, device=x.device))
            return self.head(self.norm(self.blocks(x))).flatten(0, 1)

    text = draw().integers(0, vocabulary, (batch, length + 1))
    return Model(), text[:, :-1].copy(), text[:, 1:].reshape(-1)


def _normalized_conv(nn: Any, inputs: int, outputs: int, size: int, stride: int = 1) -> list:
    return [nn.Conv2d(inputs, outputs, size, stride, size // 2, bias=False), nn.BatchNorm2d(outputs)]


def resnet(E: Any, batch: int = 64, side: int = 224, width: int = 64, depths: tuple = (3, 4, 6, 3), classes: int = 1000) -> tuple:
    """A residual network of bottlenecks; ResNet-50 by default."""
    nn = E.nn
    conv = functools.partial(_normalized_conv, nn)

    class Block(nn.Module):
        def __init__(self, inputs: int, width: int, stride: int) -> None:
            super().__init__()
            first, second = conv(inputs, width, 1), conv(width, width, 3, stride)
            self.body = nn.Sequential(*first, nn.ReLU(), *second, nn.ReLU(), *conv(width, 4 * width, 1))
            self.short = nn.Sequential(*(conv(inputs, 4 * width, 1, stride) if inputs != 4 * width else ()))

        def forward(self, x: Any) -> Any:
            return (self.body(x) + self.short(x)).relu()

    parts, channels = [*conv(3, width, 7, 2), nn.ReLU(), nn.MaxPool2d(3, 2, 1)], width
    for stage, depth in enumerate(depths):
        for i in range(depth):
            parts.append(Block(channels, width << stage, 2 if stage and not i else 1))
            channels = 4 * width << stage
    model = nn.Sequential(*parts, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, classes))
    return model, *pictures(batch, 3, side, side, classes=classes)


def resnet18(E: Any, batch: int = 32, side: int = 32, width: int = 64, depths: tuple = (2, 2, 2, 2)) -> tuple:
    """ResNet-18 as it is trained on CIFAR-10: blocks of two 3 x 3 convolutions, and the first one too, on 32 x 32."""
    nn = E.nn
    conv = functools.partial(_normalized_conv, nn)

    class Block(nn.Module):
        def __init__(self, inputs: int, outputs: int, stride: int) -> None:
            super().__init__()
            self.body = nn.Sequential(*conv(inputs, outputs, 3, stride), nn.ReLU(), *conv(outputs, outputs, 3))
            self.short = nn.Sequential(*(conv(inputs, outputs, 1, stride) if inputs != outputs else ()))

        def forward(self, x: Any) -> Any:
            return (self.body(x) + self.short(x)).relu()

    parts, channels = [*conv(3, width, 3), nn.ReLU()], width
    for stage, depth in enumerate(depths):
        for i in range(depth):
            parts.append(Block(channels, width << stage, 2 if stage and not i else 1))
            channels = width << stage
    model = nn.Sequential(*parts, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, 10))
    return model, *pictures(batch, 3, side, side)


def unet(E: Any, batch: int = 8, side: int = 64, width: int = 16, depth: int = 3, classes: int = 4) -> tuple:
    """A U-Net: halved `depth` times and doubled again by transposed convolutions, a class for each pixel."""
    nn = E.nn

    def double(inputs: int, outputs: int) -> Any:
        convs = (nn.Conv2d(inputs, outputs, 3, padding=1), nn.ReLU(), nn.Conv2d(outputs, outputs, 3, padding=1), nn.ReLU())
        return nn.Sequential(*convs)

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            widths = [width << i for i in range(depth + 1)]
            self.down = nn.ModuleList([double(a, b) for a, b in zip([3, *widths], widths, strict=False)])
            self.up = nn.ModuleList([nn.ConvTranspose2d(2 * n, n, 2, 2) for n in widths[:-1]])
            self.merge = nn.ModuleList([double(2 * n, n) for n in widths[:-1]])
            self.head = nn.Conv2d(width, classes, 1)

        def forward(self, x: Any) -> Any:
            kept = []
            for i, block in enumerate(self.down):
                x = block(nn.functional.max_pool2d(x, 2) if i else x)
                kept.append(x)
            for i in reversed(range(depth)):
                x = self.merge[i](E.cat([kept[i], self.up[i](x)], 1))
            return self.head(x)

    x, _ = pictures(batch, 3, side, side)
    return Model(), x, draw().integers(0, classes, (batch, side, side))


def stepper(E: Any, model: Any, x: Any, y: Any, optimizer: Any, casting: Callable = contextlib.nullcontext) -> Callable[[], Any]:
    """One training step, as a function that returns the loss; the forward pass runs inside of `casting()`."""

    def step() -> Any:
        optimizer.zero_grad()
        with casting():
            loss = E.nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    return step
