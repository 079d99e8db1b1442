"""`torchvision.transforms.v2.functional`: v1's functions, and the names that v2 has beside them."""

from __future__ import annotations

from typing import Any

import numpy

import engine
from engine import Tensor

from ..functional import *  # type: ignore[assignment]  # noqa: F403
from ..functional import convert_image_dtype, get_dimensions, get_image_num_channels, hflip, pil_to_tensor, vflip
from ..functional.convert import statistics
from ..functional.images import is_pil

horizontal_flip, vertical_flip, get_num_channels = hflip, vflip, get_image_num_channels


def get_size(inpt: Any) -> list[int]:
    """[height, width]."""
    return get_dimensions(inpt)[1:]


def to_image(inpt: Any) -> Tensor:
    """A Pillow image or an array (H, W) or (H, W, C) as a tensor (C, H, W) of its own values; a tensor stays."""
    if isinstance(inpt, numpy.ndarray):
        array = inpt[:, :, None] if inpt.ndim == 2 else inpt
        return engine.from_numpy(numpy.ascontiguousarray(array.transpose(2, 0, 1)))
    if is_pil(inpt):
        return pil_to_tensor(inpt)
    if isinstance(inpt, Tensor):
        return inpt
    raise TypeError(f"Input can either be a pure Tensor, a numpy array, or a PIL image, but got {type(inpt)} instead.")


def to_dtype(inpt: Tensor, dtype: Any = None, scale: bool = False) -> Tensor:
    """The tensor in another dtype (float32 unless given); with `scale` 255 of uint8 is 1 of a float."""
    dtype = engine.float32 if dtype is None else dtype
    return convert_image_dtype(inpt, dtype) if scale else inpt.to(dtype)


def normalize(inpt: Tensor, mean: Any, std: Any, inplace: bool = False) -> Tensor:
    """`(inpt - mean) / std`, by channels, of a float image (..., C, H, W); one channel becomes as many as there are means."""
    mean, std = statistics(inpt, mean, std)
    return (inpt.sub_(mean) if inplace else inpt - mean).div_(std)


def grayscale_to_rgb(inpt: Any) -> Any:
    """An image in grey with its channel three times; one in colour stays."""
    if is_pil(inpt):
        return inpt.convert("RGB")
    return inpt.repeat_interleave(3, -3) if inpt.shape[-3] == 1 else inpt
