"""Layers that rearrange channels: `PixelShuffle`, `PixelUnshuffle` and `ChannelShuffle`."""

from __future__ import annotations

from ..core.tensor import Tensor
from . import functional as F
from .module import Module


class PixelShuffle(Module):
    """Rearrange channels into pixels: `(*, C r², H, W)` to `(*, C, H r, W r)`, r the upscale factor (Shi et al. 2016)."""

    def __init__(self, upscale_factor: int):
        super().__init__()
        self.upscale_factor = upscale_factor

    def forward(self, input: Tensor) -> Tensor:
        return F.pixel_shuffle(input, self.upscale_factor)

    def extra_repr(self) -> str:
        return f"upscale_factor={self.upscale_factor}"


class PixelUnshuffle(Module):
    """Rearrange pixels into channels, the inverse of `PixelShuffle`: `(*, C, H r, W r)` to `(*, C r², H, W)`."""

    def __init__(self, downscale_factor: int):
        super().__init__()
        self.downscale_factor = downscale_factor

    def forward(self, input: Tensor) -> Tensor:
        return F.pixel_unshuffle(input, self.downscale_factor)

    def extra_repr(self) -> str:
        return f"downscale_factor={self.downscale_factor}"


class ChannelShuffle(Module):
    """Interleave the channels of `groups` groups; the shape `(N, C, *)` is unchanged (Zhang et al. 2018)."""

    def __init__(self, groups: int):
        super().__init__()
        self.groups = groups

    def forward(self, input: Tensor) -> Tensor:
        return F.channel_shuffle(input, self.groups)

    def extra_repr(self) -> str:
        return f"groups={self.groups}"
