"""Padding, and pixels rearranged into channels and back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy

from ..base.layout import as_channels, contiguous_format
from ..core import casting
from ..core.arguments import parsed
from ..core.devices import namespace
from ..core.op import Op, composite
from ..core.tensor import Tensor
from .index import getitem
from .shape import clone, permute, reshape


class constant_pad(Op):
    """Pad with a scalar: `pad` holds (before, after) from the last dimension on, and negative sizes crop."""
    home, inputs, exact = "", ("input",), True
    laid = staticmethod(as_channels)
    examples = ((((3, 4),), {"pad": (1, 2)}), (((3, 4),), {"pad": (1, -1, 0, 2), "value": 2.5}))
    def forward(xp, input, pad, value=0): return xp.constant_pad(input, pad, value)
    def d_input(xp, g, pad): return xp.constant_pad(g, tuple(-n for n in pad))


@composite(home="nn.functional")
@parsed
def pad(input: Tensor, pad: Sequence[int], mode: str = "constant", value: float | None = None) -> Tensor:
    """Pad the tensor: `pad` holds (before, after) for the last dimension, then for the one before it, and so on.

    `mode` is "constant" (filled with `value`, 0 by default; negative sizes crop), "reflect", "replicate" or "circular". The last three pad
    the last n = 1, 2 or 3 dimensions of a tensor of n + 1 or n + 2 dimensions, and raise NotImplementedError for any other.
    """
    widths = tuple(int(n) for n in pad)
    if len(widths) % 2:
        raise RuntimeError("Padding length must be divisible by 2")
    if len(widths) // 2 > input.ndim:
        raise RuntimeError(f"Padding length should be less than or equal to two times the input dimension but got padding length {len(widths)} and input of dimension {input.ndim}")
    if mode == "constant":
        return constant_pad(input, widths, 0 if value is None else value)
    names = {"reflect": "reflect", "replicate": "edge", "circular": "wrap"}
    if mode not in names:
        raise NotImplementedError(f"Unrecognised padding mode {mode}")
    if value:  # 0 counts as no value
        raise RuntimeError(f'Padding mode "{mode}" doesn\'t take in value argument')
    padded = len(widths) // 2
    if not (1 <= padded <= 3 and input.ndim in (padded + 1, padded + 2)):
        raise NotImplementedError(f'Padding mode "{mode}" pads the last 1 to 3 dimensions of a tensor that has one or two more, '
                                  f"but got padding length {len(widths)} and input of dimension {input.ndim}")  # fmt: skip
    if mode != "circular" and 0 in input.shape[-padded - 1 :]:
        raise RuntimeError(f"Expected {padded + 1}D or {padded + 2}D (batch mode) tensor with possibly 0 batch size and other non-zero dimensions for input, but got: {list(input.shape)}")
    sizes = [n + widths[2 * i] + widths[2 * i + 1] for i, n in enumerate(reversed(input.shape[-padded:]))]
    if min(sizes) < (0 if mode == "circular" else 1):
        raise RuntimeError(f"input {list(input.shape)} is too small for a padding of {list(widths)}: calculated output sizes {sizes[::-1]}")
    bordered = casting.listed(f"{mode} pad{padded}d", _bordered)
    return bordered(input, widths, mode, names[mode])


def _bordered(input: Tensor, widths: tuple[int, ...], mode: str, numpy_mode: Any) -> Tensor:
    x = input
    for i in range(len(widths) // 2):
        x = _along(x, x.ndim - 1 - i, widths[2 * i], widths[2 * i + 1], mode, numpy_mode)
    if mode != "circular" and isinstance(input.array, numpy.ndarray):
        x.array = as_channels(x.array, input.array)
    return x


def _along(x: Tensor, dim: int, before: int, after: int, mode: str, numpy_mode: Any) -> Tensor:
    n = x.shape[dim]
    most = n - 1 if mode == "reflect" else n
    if mode != "replicate" and max(before, after) > most:
        raise RuntimeError(f"Padding size should be less than {'the corresponding input dimension' if mode == 'reflect' else 'or equal to the input size'}, "
                           f"but got: padding ({before}, {after}) at dimension {dim} of input {list(x.shape)}")  # fmt: skip
    places = numpy.arange(n)
    if mode == "circular":  # cropped elements do not reappear at the other end
        places, before, after = places[max(-before, 0) : max(n - max(-after, 0), 0)], max(before, 0), max(after, 0)
        if not places.size and max(before, after):
            raise RuntimeError(f"Padding leaves nothing of dimension {dim} of input {list(x.shape)}, and circular padding needs something to repeat")
    places = numpy.pad(places, (max(before, 0), max(after, 0)), numpy_mode)[max(-before, 0) :]
    places = places[: len(places) - max(-after, 0)]
    return x if len(places) == n and (before, after) == (0, 0) else getitem(x, (slice(None),) * dim + (namespace(x.array).asarray(places),))


def _image(input: Tensor, name: str) -> tuple[int, ...]:
    if input.ndim < 3:
        raise RuntimeError(f"{name} expects input to have at least 3 dimensions, but got input with {input.ndim} dimension(s)")
    return tuple(input.shape)


@composite(home="nn.functional")
@parsed
def pixel_shuffle(input: Tensor, upscale_factor: int) -> Tensor:
    """Rearrange channels into pixels: (*, C r^2, H, W) becomes (*, C, H r, W r)."""
    *lead, c, h, w = _image(input, "pixel_shuffle")
    r = upscale_factor
    if r <= 0:
        raise RuntimeError(f"pixel_shuffle expects a positive upscale_factor, but got {r}")
    if c % (r * r):
        raise RuntimeError(f"pixel_shuffle expects its input's 'channel' dimension to be divisible by the square of upscale_factor, but input.size(-3)={c} is not divisible by {r * r}")
    n = len(lead)
    split_up = reshape(input, (*lead, c // (r * r), r, r, h, w))
    return _rearranged(split_up, (*range(n), n, n + 3, n + 1, n + 4, n + 2), (*lead, c // (r * r), h * r, w * r))


def _rearranged(x: Tensor, axes: tuple, shape: tuple) -> Tensor:
    """Permute the axes and join them, always in new memory."""
    return reshape(clone(permute(x, axes), memory_format=contiguous_format), shape)


@composite(home="nn.functional")
@parsed
def pixel_unshuffle(input: Tensor, downscale_factor: int) -> Tensor:
    """Rearrange pixels into channels, the inverse of `pixel_shuffle`: (*, C, H r, W r) becomes (*, C r^2, H, W)."""
    *lead, c, h, w = _image(input, "pixel_unshuffle")
    r = downscale_factor
    if r <= 0:
        raise RuntimeError(f"pixel_unshuffle expects a positive downscale_factor, but got {r}")
    if h % r or w % r:
        raise RuntimeError(f"pixel_unshuffle expects height and width to be divisible by downscale_factor, but they are {h} and {w}, with downscale_factor={r}")
    n = len(lead)
    split_up = reshape(input, (*lead, c, h // r, r, w // r, r))
    return _rearranged(split_up, (*range(n), n, n + 2, n + 4, n + 1, n + 3), (*lead, c * r * r, h // r, w // r))


@composite(home="nn.functional")
@parsed
def channel_shuffle(input: Tensor, groups: int) -> Tensor:
    """Interleave the channels of `groups` groups: channel j of group i moves to index j * groups + i."""
    if input.ndim < 3:
        raise RuntimeError(f"channel_shuffle expects input with > 2 dims, but got input with sizes {list(input.shape)}")
    if groups <= 0:
        raise RuntimeError(f"Number of groups to divide channels in must be positive. Value of groups:{groups}")
    n, c, *rest = input.shape
    if c % groups:
        raise RuntimeError(f"Number of channels must be divisible by groups. Got {c} channels and {groups} groups.")
    split_up = reshape(input, (n, groups, c // groups, *rest))
    return _rearranged(split_up, (0, 2, 1, *range(3, 3 + len(rest))), (n, c, *rest))
