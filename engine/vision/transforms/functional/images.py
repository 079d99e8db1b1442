"""Helpers of the transforms: kind, size and value range of a Pillow image or tensor (..., C, H, W)."""

from __future__ import annotations

import warnings
from enum import Enum
from typing import Any

import engine
from engine import Tensor


class InterpolationMode(Enum):
    """Interpolation modes. "box", "hamming" and "lanczos" are for Pillow images only."""

    NEAREST = "nearest"
    NEAREST_EXACT = "nearest-exact"
    BILINEAR = "bilinear"
    BICUBIC = "bicubic"
    BOX = "box"
    HAMMING = "hamming"
    LANCZOS = "lanczos"


# Pillow's codes; its "nearest" is PyTorch's "nearest-exact"
pil_modes_mapping = {
    InterpolationMode.NEAREST: 0,
    InterpolationMode.BILINEAR: 2,
    InterpolationMode.BICUBIC: 3,
    InterpolationMode.NEAREST_EXACT: 0,
    InterpolationMode.BOX: 4,
    InterpolationMode.HAMMING: 5,
    InterpolationMode.LANCZOS: 1,
}
_BY_NUMBER = {0: "NEAREST", 2: "BILINEAR", 3: "BICUBIC", 4: "BOX", 5: "HAMMING", 1: "LANCZOS"}
_LARGEST = {"uint8": 255, "int8": 127, "int16": 32767, "uint16": 65535, "int32": 2**31 - 1, "int64": 2**63 - 1}


def interpolation_of(mode: Any) -> InterpolationMode:
    """Return the mode, given itself or Pillow's code. Raises TypeError for anything else."""
    if isinstance(mode, InterpolationMode):
        return mode
    if isinstance(mode, int) and int(mode) in _BY_NUMBER:
        return InterpolationMode[_BY_NUMBER[int(mode)]]
    raise TypeError(f"Argument interpolation should be a InterpolationMode or a corresponding Pillow integer constant, got {mode!r}")


def is_pil(img: Any) -> bool:
    """Return whether `img` is a Pillow image."""
    from PIL import Image

    return isinstance(img, Image.Image)


def checked(img: Any) -> bool:
    """Return True for a tensor and False for a Pillow image. Raises TypeError for anything else, and for tensors below 2-D."""
    if isinstance(img, Tensor):
        if img.ndim < 2:
            raise TypeError(f"Tensor is not a torch image: it should have shape (..., H, W), got {tuple(img.shape)}")
        return True
    if is_pil(img):
        return False
    raise TypeError(f"img should be PIL Image or Tensor. Got {type(img)}")


def get_dimensions(img: Any) -> list[int]:
    """Return [channels, height, width]."""
    if checked(img):
        return [1 if img.ndim == 2 else img.shape[-3], *img.shape[-2:]]
    return [len(img.getbands()), img.height, img.width]


def get_image_size(img: Any) -> list[int]:
    """Return [width, height]."""
    return get_dimensions(img)[:0:-1]


def get_image_num_channels(img: Any) -> int:
    """Return the number of channels."""
    return get_dimensions(img)[0]


def check_channels(img: Tensor, permitted: tuple[int, ...] = (1, 3), least: int = 2) -> None:
    """Raise TypeError unless the tensor has at least `least` dimensions and a permitted number of channels."""
    if img.ndim < least:
        raise TypeError(f"Input image tensor should have at least {least} dimensions, but found {img.ndim}")
    if get_image_num_channels(img) not in permitted:
        raise TypeError(f"Input image tensor permitted channel values are {list(permitted)}, but found {get_image_num_channels(img)}")


def largest(dtype: Any) -> int:
    """Return the value of full brightness: the maximum of an integer dtype, 1 for floats."""
    return _LARGEST.get(str(dtype).removeprefix("torch."), 1)


def in_floats(img: Tensor, kinds: tuple[Any, ...], work: Any) -> Tensor:
    """Apply `work` to the image as a batch (N, C, H, W), cast to `kinds[0]` unless its dtype is in `kinds`, and convert back.

    Integer results are rounded half to even.
    """
    batch = img if img.ndim >= 4 else img[None] if img.ndim == 3 else img[None, None]
    cast = img.dtype not in kinds
    done = work(batch.to(kinds[0]) if cast else batch)
    if cast:
        done = (done if img.dtype.is_floating_point else done.round()).to(img.dtype)
    return done if img.ndim >= 4 else done[0] if img.ndim == 3 else done[0, 0]


def float_like(img: Tensor) -> Any:
    """Return the dtype for computations: the image's own if floating point, else float32."""
    return img.dtype if img.is_floating_point() else engine.float32


def pil_fill(fill: Any, img: Any) -> Any:
    """Return the color of new pixels in a Pillow image; a scalar is used for all bands. Raises ValueError if the lengths differ."""
    if isinstance(fill, str):
        return fill  # a color name
    bands = len(img.getbands())
    given = list(fill) if isinstance(fill, (list, tuple)) else [0 if fill is None else fill]
    if len(given) not in (1, bands):
        raise ValueError(f"The number of elements in 'fill' does not match the number of channels of the image ({len(given)} != {bands})")
    colour = tuple(one if img.mode == "F" else int(one) for one in given) * (bands // len(given))
    return colour[0] if bands == 1 else colour


def deprecated(text: str) -> None:
    """Emit a warning at the line that called the caller, as torchvision does."""
    warnings.warn(text, stacklevel=3)
