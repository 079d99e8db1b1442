"""`torchvision.transforms.v2.functional`: v1's functions, and additional names in v2."""

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
    """Return [height, width]."""
    return get_dimensions(inpt)[1:]


def to_image(inpt: Any) -> Tensor:
    """Convert a Pillow image or an array (H, W) or (H, W, C) to a tensor (C, H, W) without scaling; a tensor is unchanged."""
    if isinstance(inpt, numpy.ndarray):
        array = inpt[:, :, None] if inpt.ndim == 2 else inpt
        return engine.from_numpy(numpy.ascontiguousarray(array.transpose(2, 0, 1)))
    if is_pil(inpt):
        return pil_to_tensor(inpt)
    if isinstance(inpt, Tensor):
        return inpt
    raise TypeError(f"Input can either be a pure Tensor, a numpy array, or a PIL image, but got {type(inpt)} instead.")


def to_dtype(inpt: Tensor, dtype: Any = None, scale: bool = False) -> Tensor:
    """Convert a tensor to another dtype (default float32); `scale` maps 255 in uint8 to 1.0."""
    dtype = engine.float32 if dtype is None else dtype
    return convert_image_dtype(inpt, dtype) if scale else inpt.to(dtype)


def normalize(inpt: Tensor, mean: Any, std: Any, inplace: bool = False) -> Tensor:
    """Compute `(inpt - mean) / std` per channel of a float image (..., C, H, W); a single channel broadcasts to the means."""
    mean, std = statistics(inpt, mean, std)
    return (inpt.sub_(mean) if inplace else inpt - mean).div_(std)


def grayscale_to_rgb(inpt: Any) -> Any:
    """Convert a grayscale image to RGB by repeating its channel; color images are unchanged."""
    if is_pil(inpt):
        return inpt.convert("RGB")
    return inpt.repeat_interleave(3, -3) if inpt.shape[-3] == 1 else inpt
