"""A tensor as an image or a grid of images: detection of the channel axis, and the mapping of values to brightness with its rule."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy

from ..protocol import Buffer, ImageGrid
from .heat_map import CELLS, ROOM
from .numbers import library, real
from .text import count_text, number_text, ordinal

LEAST = 4  # rows and columns of an image at least
CHANNELS = (1, 3, 4)  # gray, red-green-blue, and with opacity
MOST = 16  # images shown at a time
NOT_A_NUMBER, INFINITE = (214, 0, 108), (122, 0, 184)  # the view's colors for NaN and Inf


@dataclass(frozen=True)
class Layout:
    """The axes of an image layout; None for an axis that it lacks."""

    name: str  # "H, W", "C, H, W", "N, H, W, C"
    batch: int | None
    channel: int | None
    height: int
    width: int


def layouts(shape: Sequence[int]) -> list[Layout]:
    """The layouts in which a tensor of this shape can be an image, channels first before channels last; empty if there are none."""
    n = len(shape)
    found = []
    if n == 2:
        found.append(Layout("H, W", None, None, 0, 1))
    elif n in (3, 4):
        batch = 0 if n == 4 else None
        lead = "N, " if n == 4 else ""
        if shape[n - 3] in CHANNELS:
            found.append(Layout(f"{lead}C, H, W", batch, n - 3, n - 2, n - 1))
        if shape[n - 1] in CHANNELS:
            found.append(Layout(f"{lead}H, W, C", batch, n - 1, n - 3, n - 2))
        if n == 3:
            found.append(Layout("N, H, W", 0, None, 1, 2))
    return [f for f in found if min(shape[f.height], shape[f.width]) >= LEAST and (f.batch is None or shape[f.batch])]


def image(array: Any, name: str, first: int = 0) -> tuple[ImageGrid, list[bytes]]:
    """Return the tensor as images in the named layout, from index `first` of the batch. Raises ValueError if the layout does not fit."""
    layout = next((one for one in layouts(numpy.shape(array)) if one.name == name), None)
    if layout is None:
        raise ValueError(f"A tensor of shape {tuple(numpy.shape(array))} cannot be seen as an image of {name!r}.")
    count = 1 if layout.batch is None else array.shape[layout.batch]
    shown = min(count, MOST)
    first = max(0, min(first, count - shown))
    axes = [axis for axis in (layout.batch, layout.height, layout.width, layout.channel) if axis is not None]
    pixels = array.transpose(tuple(axes))
    pixels = pixels[None] if layout.batch is None else pixels[first : first + shown]
    pixels = pixels[..., None] if layout.channel is None else pixels
    _, height, width, channels = pixels.shape
    scale, rule = _range(pixels)
    step = 1
    while (-(-height // step)) * (-(-width // step)) * channels * shown > ROOM or max(height, width) > CELLS * step:
        step += 1
    found = library(pixels)
    small = pixels[:, ::step, ::step]  # subsampled, because averages could hide a NaN
    values = real(small).astype(numpy.float64)
    values = values.get() if found is not numpy else values
    drawn = numpy.clip(numpy.nan_to_num(scale(values), nan=0.0, posinf=255.0, neginf=0.0), 0, 255).round().astype(numpy.uint8)
    drawn = _marked(drawn, values)
    if drawn.shape[-1] != channels:
        rule += " Pixels with NaN are magenta, with Inf violet."
    if step > 1:
        rule += f" Every {ordinal(step)} row and column is drawn."
    told = ImageGrid(
        layout.name, [one.name for one in layouts(array.shape)], count, first, height, width, rule, Buffer(0, "uint8", list(drawn.shape))
    )
    return told, [drawn.tobytes()]


def _marked(drawn: numpy.ndarray, values: numpy.ndarray) -> numpy.ndarray:
    """The pixels, with those that are not finite in color."""
    if numpy.isfinite(values).all():
        return drawn
    if drawn.shape[-1] == 1:
        drawn = numpy.repeat(drawn, 3, axis=-1)
    drawn = drawn.copy()
    drawn[numpy.isinf(values).any(-1), :3] = INFINITE
    drawn[numpy.isnan(values).any(-1), :3] = NOT_A_NUMBER
    return drawn


def _range(pixels: Any) -> tuple[Any, str]:
    """The function that maps values to brightness from 0 to 255, and the sentence that states the rule."""
    if pixels.dtype.kind == "b":
        return (lambda x: x * 255), "False is black, True is white."
    data = real(pixels)
    xp = library(data)
    fine = data[xp.isfinite(data)] if data.dtype.kind == "f" else data
    if not fine.size:
        return (lambda x: x), "No pixel is finite."
    low, high = float(fine.min()), float(fine.max())
    if data.dtype.kind in "iu" and low >= 0 and high <= 255:
        return (lambda x: x), "0 is black, 255 is white."
    if low >= 0 and high <= 1:
        return (lambda x: x * 255), "0 is black, 1 is white."
    if low >= -1 and high <= 1:
        return (lambda x: (x + 1) * 127.5), "−1 is black, 1 is white."
    if low == high:
        return (lambda x: x * 0 + 127.5), f"Every pixel is {number_text(low)}."
    rule = f"Stretched: the least, {number_text(low)}, is black, the largest, {number_text(high)}, is white"
    return (lambda x: (x - low) * (255 / (high - low))), f"{rule} (over the {count_text(len(pixels), 'image')} shown)."
