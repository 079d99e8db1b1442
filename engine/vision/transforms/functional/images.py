"""What all transforms ask of an image, a Pillow image or a tensor (..., C, H, W): its kind, its size, its largest value."""

from __future__ import annotations

import warnings
from enum import Enum
from typing import Any

import engine
from engine import Tensor


class InterpolationMode(Enum):
    """How values between pixels are found. "box", "hamming" and "lanczos" are for Pillow images only."""

    NEAREST = "nearest"
    NEAREST_EXACT = "nearest-exact"
    BILINEAR = "bilinear"
    BICUBIC = "bicubic"
    BOX = "box"
    HAMMING = "hamming"
    LANCZOS = "lanczos"


# Pillow's numbers; its "nearest" is what PyTorch calls "nearest-exact"
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
    """The mode; Pillow's numbers are taken too. TypeError for anything else."""
    if isinstance(mode, InterpolationMode):
        return mode
    if isinstance(mode, int) and int(mode) in _BY_NUMBER:
        return InterpolationMode[_BY_NUMBER[int(mode)]]
    raise TypeError(f"Argument interpolation should be a InterpolationMode or a corresponding Pillow integer constant, got {mode!r}")


def is_pil(img: Any) -> bool:
    """Whether this is a Pillow image."""
    from PIL import Image

    return isinstance(img, Image.Image)


def checked(img: Any) -> bool:
    """Whether this is a tensor (True) or a Pillow image (False). TypeError for anything else, and for tensors below two dimensions."""
    if isinstance(img, Tensor):
        if img.ndim < 2:
            raise TypeError(f"Tensor is not a torch image: it should have shape (..., H, W), got {tuple(img.shape)}")
        return True
    if is_pil(img):
        return False
    raise TypeError(f"img should be PIL Image or Tensor. Got {type(img)}")


def get_dimensions(img: Any) -> list[int]:
    """[channels, height, width]."""
    if checked(img):
        return [1 if img.ndim == 2 else img.shape[-3], *img.shape[-2:]]
    return [len(img.getbands()), img.height, img.width]


def get_image_size(img: Any) -> list[int]:
    """[width, height]."""
    return get_dimensions(img)[:0:-1]


def get_image_num_channels(img: Any) -> int:
    """How many channels the image has."""
    return get_dimensions(img)[0]


def check_channels(img: Tensor, permitted: tuple[int, ...] = (1, 3), least: int = 2) -> None:
    """TypeError unless the tensor has `least` dimensions and as many channels as is permitted."""
    if img.ndim < least:
        raise TypeError(f"Input image tensor should have at least {least} dimensions, but found {img.ndim}")
    if get_image_num_channels(img) not in permitted:
        raise TypeError(f"Input image tensor permitted channel values are {list(permitted)}, but found {get_image_num_channels(img)}")


def largest(dtype: Any) -> int:
    """The value that stands for full brightness: an integer type's largest, 1 for floats."""
    return _LARGEST.get(str(dtype).removeprefix("torch."), 1)


def in_floats(img: Tensor, kinds: tuple[Any, ...], work: Any) -> Tensor:
    """`work` on the image as a batch (N, C, H, W) of the first of `kinds`, unless it is of one of them; the result as the image was.

    Integers are rounded, half to even.
    """
    batch = img if img.ndim >= 4 else img[None] if img.ndim == 3 else img[None, None]
    cast = img.dtype not in kinds
    done = work(batch.to(kinds[0]) if cast else batch)
    if cast:
        done = (done if img.dtype.is_floating_point else done.round()).to(img.dtype)
    return done if img.ndim >= 4 else done[0] if img.ndim == 3 else done[0, 0]


def float_like(img: Tensor) -> Any:
    """The type that an image is worked on in: its own when that is a float, else float32."""
    return img.dtype if img.is_floating_point() else engine.float32


def pil_fill(fill: Any, img: Any) -> Any:
    """The colour for a Pillow image's new pixels: a number stands for all bands. ValueError when the numbers do not match the bands."""
    if isinstance(fill, str):
        return fill  # the name of a colour
    bands = len(img.getbands())
    given = list(fill) if isinstance(fill, (list, tuple)) else [0 if fill is None else fill]
    if len(given) not in (1, bands):
        raise ValueError(f"The number of elements in 'fill' does not match the number of channels of the image ({len(given)} != {bands})")
    colour = tuple(one if img.mode == "F" else int(one) for one in given) * (bands // len(given))
    return colour[0] if bands == 1 else colour


def deprecated(text: str) -> None:
    """A warning, as torchvision's, at the line of the program that called the caller."""
    warnings.warn(text, stacklevel=3)
