"""Functional transforms of geometry: flips, crops, padding and resizing."""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from typing import Any

import numpy

import engine
from engine import Tensor
from engine.nn import functional as F

from .images import InterpolationMode, checked, get_dimensions, in_floats, interpolation_of, pil_fill, pil_modes_mapping

_FLOATS = (engine.float32, engine.float64)
_PADDING = {"constant": "constant", "edge": "replicate", "reflect": "reflect", "symmetric": "symmetric"}


def hflip(img: Any) -> Any:
    """Flip horizontally."""
    return img.flip(-1) if checked(img) else img.transpose(0)  # Image.Transpose.FLIP_LEFT_RIGHT


def vflip(img: Any) -> Any:
    """Flip vertically."""
    return img.flip(-2) if checked(img) else img.transpose(1)  # Image.Transpose.FLIP_TOP_BOTTOM


def crop(img: Any, top: int, left: int, height: int, width: int) -> Any:
    """Crop the rectangle with the given upper left corner; pixels outside the image are 0."""
    if not checked(img):
        return img.crop((left, top, left + width, top + height))
    h, w = img.shape[-2:]
    bottom, right = top + height, left + width
    part = img[..., max(top, 0) : max(bottom, 0), max(left, 0) : max(right, 0)]
    if left >= 0 and top >= 0 and right <= w and bottom <= h:
        return part
    around = [max(min(right, 0) - left, 0), max(min(bottom, 0) - top, 0), max(right - max(w, left), 0), max(bottom - max(h, top), 0)]
    return pad(part, around)


def pad(img: Any, padding: Any, fill: Any = 0, padding_mode: str = "constant") -> Any:
    """Pad all sides, (left and right, top and bottom), or (left, top, right, bottom); negative values crop.

    `padding_mode` is "constant" (`fill`), "edge" (repeats the border pixel), "reflect" (mirrors without the border pixel) or "symmetric"
    (mirrors with it).
    """
    tensor = checked(img)
    if not isinstance(padding, (numbers.Number, tuple, list)):
        raise TypeError("Got inappropriate padding arg")
    if not isinstance(fill, (numbers.Number, str, tuple, list, type(None))):
        raise TypeError("Got inappropriate fill arg")
    if not isinstance(padding_mode, str):
        raise TypeError("Got inappropriate padding_mode arg")
    if padding_mode not in _PADDING:
        raise ValueError("Padding mode should be either constant, edge, reflect or symmetric")
    sides = _sides(padding)
    if not tensor:
        return _pad_pil(img, sides, fill, padding_mode)
    if isinstance(fill, (tuple, list)) and len(fill) == 1:
        fill = fill[0]
    if not isinstance(fill, (int, float, type(None))):
        raise TypeError("Got inappropriate fill arg: a tensor is filled with a number")
    left, top, right, bottom = sides
    if padding_mode == "symmetric":
        return _symmetric(img, left, top, right, bottom)
    kinds = (img.dtype,) if padding_mode == "constant" else _FLOATS
    value = None if padding_mode != "constant" else fill or 0
    return in_floats(img, kinds, lambda x: F.pad(x, (left, right, top, bottom), _PADDING[padding_mode], value))


def _sides(padding: Any) -> list[int]:
    """Return [left, top, right, bottom]."""
    given = [padding] if isinstance(padding, numbers.Number) else list(padding)
    if len(given) not in (1, 2, 4):
        raise ValueError(f"Padding must be an int or a 1, 2, or 4 element tuple, not a {len(given)} element tuple")
    return [int(one) for one in given * (4 // len(given))]


def _symmetric(img: Tensor, left: int, top: int, right: int, bottom: int) -> Tensor:
    if img.ndim not in (3, 4):
        raise RuntimeError("Symmetric padding of N-D tensors are not supported yet")
    h, w = img.shape[-2:]
    img = img[..., max(-top, 0) : h - max(-bottom, 0), max(-left, 0) : w - max(-right, 0)]
    rows, columns = (
        engine.from_numpy(numpy.pad(numpy.arange(size), (max(a, 0), max(b, 0)), "symmetric")).to(img.device)
        for size, a, b in ((img.shape[-2], top, bottom), (img.shape[-1], left, right))
    )
    return img[..., rows[:, None], columns[None, :]]


def _pad_pil(img: Any, sides: list[int], fill: Any, padding_mode: str) -> Any:
    from PIL import Image, ImageOps

    left, top, right, bottom = sides
    if padding_mode == "constant":
        colour = pil_fill(fill, img)
        if img.mode != "P":
            return ImageOps.expand(img, border=tuple(sides), fill=colour)
        padded = ImageOps.expand(img, border=tuple(sides), fill=colour)
        padded.putpalette(img.getpalette())
        return padded
    if min(sides) < 0:
        img = img.crop((max(-left, 0), max(-top, 0), img.width - max(-right, 0), img.height - max(-bottom, 0)))
        left, top, right, bottom = (max(side, 0) for side in sides)
    array = numpy.asarray(img)
    padded = Image.fromarray(numpy.pad(array, ((top, bottom), (left, right)) + ((0, 0),) * (array.ndim - 2), padding_mode))
    if img.mode == "P":
        padded.putpalette(img.getpalette())
    return padded


def size_of(size: Any, message: str) -> Any:
    """Return (height, width) from a scalar or a sequence of one or two values. Raises ValueError with the message otherwise."""
    if isinstance(size, numbers.Number):
        return int(size), int(size)  # type: ignore[call-overload]
    if isinstance(size, Sequence) and len(size) == 1:
        return size[0], size[0]
    if len(size) != 2:
        raise ValueError(message)
    return size


def center_crop(img: Any, output_size: Any) -> Any:
    """Crop the center, padding smaller images with zeros."""
    rows, columns = size_of(output_size, "Please provide only two dimensions (h, w) for size.")
    _, height, width = get_dimensions(img)
    if columns > width or rows > height:
        more, taller = max(columns - width, 0), max(rows - height, 0)
        img = pad(img, [more // 2, taller // 2, (more + 1) // 2, (taller + 1) // 2])
        _, height, width = get_dimensions(img)
        if (rows, columns) == (height, width):
            return img
    return crop(img, round((height - rows) / 2.0), round((width - columns) / 2.0), rows, columns)


def five_crop(img: Any, size: Any) -> tuple[Any, Any, Any, Any, Any]:
    """Crop the corners and the center: upper left, upper right, lower left, lower right, center."""
    rows, columns = size_of(size, "Please provide only two dimensions (h, w) for size.")
    _, height, width = get_dimensions(img)
    if columns > width or rows > height:
        raise ValueError(f"Requested crop size {(rows, columns)} is bigger than input size {(height, width)}")
    corners = [crop(img, top, left, rows, columns) for top in (0, height - rows) for left in (0, width - columns)]
    return corners[0], corners[1], corners[2], corners[3], center_crop(img, [rows, columns])


def ten_crop(img: Any, size: Any, vertical_flip: bool = False) -> tuple[Any, ...]:
    """`five_crop` of the image and of its mirror image (flipped vertically with `vertical_flip`)."""
    size = size_of(size, "Please provide only two dimensions (h, w) for size.")
    return five_crop(img, size) + five_crop(vflip(img) if vertical_flip else hflip(img), size)


def resized(height: int, width: int, size: Any, max_size: int | None = None) -> tuple[int, int]:
    """Return the (height, width) that `resize` produces; a single value is the shorter side, with the longer at most `max_size`."""
    if len(size) == 2:
        return int(size[0]), int(size[1])
    short, long = (width, height) if width <= height else (height, width)
    new_short, new_long = size[0], int(size[0] * long / short)
    if max_size is not None:
        if max_size <= size[0]:
            raise ValueError(f"max_size = {max_size} must be strictly greater than the requested size for the smaller edge size = {size}")
        if new_long > max_size:
            new_short, new_long = int(max_size * new_short / new_long), max_size
    return (new_long, new_short) if width <= height else (new_short, new_long)


def resize(
    img: Any,
    size: Any,
    interpolation: Any = InterpolationMode.BILINEAR,
    max_size: int | None = None,
    antialias: bool | None = True,
) -> Any:
    """Resize to (height, width), or the shorter side to a length.

    `antialias` affects tensors in bilinear and bicubic mode; Pillow always antialiases. Integer tensors are computed in float32 and
    rounded.
    """
    interpolation = interpolation_of(interpolation)
    if isinstance(size, (list, tuple)):
        if len(size) not in (1, 2):
            raise ValueError(f"Size must be an int or a 1 or 2 element tuple/list, not a {len(size)} element tuple/list")
        if max_size is not None and len(size) != 1:
            raise ValueError("max_size should only be passed if size specifies the length of the smaller edge, i.e. size should be an int")
    _, height, width = get_dimensions(img)
    want = resized(height, width, [size] if isinstance(size, int) else size, max_size)
    if want == (height, width):
        return img
    if not checked(img):
        return img.resize(want[::-1], pil_modes_mapping[interpolation])
    mode = interpolation.value
    if mode not in ("nearest", "nearest-exact", "bilinear", "bicubic"):
        raise NotImplementedError(f"resize: tensors know the modes nearest, nearest-exact, bilinear and bicubic, got {mode!r}")
    smooth = mode in ("bilinear", "bicubic")

    def work(x: Tensor) -> Tensor:
        lead, x = x.shape[:-3], x.reshape(-1, *x.shape[-3:])
        x = F.interpolate(x, list(want), mode=mode, align_corners=False if smooth else None, antialias=bool(antialias) and smooth)
        x = x.clamp(0, 255) if mode == "bicubic" and img.dtype == engine.uint8 else x
        return x.reshape(*lead, *x.shape[-3:])

    return in_floats(img, _FLOATS, work)


def resized_crop(
    img: Any,
    top: int,
    left: int,
    height: int,
    width: int,
    size: Any,
    interpolation: Any = InterpolationMode.BILINEAR,
    antialias: bool | None = True,
) -> Any:
    """Apply `crop`, then `resize`."""
    return resize(crop(img, top, left, height, width), size, interpolation, antialias=antialias)
