"""Functional conversions between Pillow images, arrays and tensors, between dtypes, and normalization."""

from __future__ import annotations

from typing import Any

import numpy

import engine
from engine import Tensor

from .images import checked, is_pil, largest

_OF_MODE = {"I": numpy.int32, "I;16": numpy.int16, "F": numpy.float32}  # other modes are read as bytes
_ONE_BAND = {"uint8": "L", "int16": "I;16", "uint16": "I;16", "int32": "I", "float32": "F"}
_BANDS = {2: ("LA",), 3: ("RGB", "YCbCr", "HSV"), 4: ("RGBA", "CMYK", "RGBX")}


def to_tensor(pic: Any) -> Tensor:
    """Convert a Pillow image or an array (H, W) or (H, W, C) to a tensor (C, H, W).

    Bytes become floats in [0, 1] of the default dtype; other types keep their values (int32, int16 or float32).
    """
    if not (is_pil(pic) or isinstance(pic, numpy.ndarray)):
        raise TypeError(f"pic should be PIL Image or ndarray. Got {type(pic)}")
    if isinstance(pic, numpy.ndarray):
        if pic.ndim not in (2, 3):
            raise ValueError(f"pic should be 2/3 dimensional. Got {pic.ndim} dimensions.")
        img = _channels_first(pic).contiguous()
        return _scaled(img) if img.dtype == engine.uint8 else img
    img = _channels_first(_array(pic)).contiguous()
    if pic.mode == "1":
        img = img * 255
    return _scaled(img) if img.dtype == engine.uint8 else img


def pil_to_tensor(pic: Any) -> Tensor:
    """Convert a Pillow image to a tensor (C, H, W) without scaling; as in torchvision, its memory is in the image's order (H, W, C)."""
    if not is_pil(pic):
        raise TypeError(f"pic should be PIL Image. Got {type(pic)}")
    return _channels_first(numpy.asarray(pic).astype(numpy.uint8) if pic.mode == "1" else numpy.array(pic, copy=True))


def _array(pic: Any) -> numpy.ndarray:
    return numpy.array(pic, _OF_MODE.get(pic.mode, numpy.uint8), copy=True)


def _channels_first(array: numpy.ndarray) -> Tensor:
    array = array[:, :, None] if array.ndim == 2 else array
    return engine.from_numpy(array).permute(2, 0, 1)


def _scaled(img: Tensor) -> Tensor:
    return img.to(dtype=engine.get_default_dtype()).div(255)


def convert_image_dtype(image: Tensor, dtype: Any = None) -> Tensor:
    """Convert an image to another dtype (default float32), scaling its values: 255 in uint8 becomes 1.0.

    Raises RuntimeError from float32 to int32 or int64 and from float64 to int64, where floats cannot represent the largest values.
    """
    if not isinstance(image, Tensor):
        raise TypeError(f"Input img should be Tensor Image, got {type(image)}")
    dtype = engine.float32 if dtype is None else dtype
    if image.dtype == dtype:
        return image
    if image.is_floating_point():
        if dtype.is_floating_point:
            return image.to(dtype)
        wide = (engine.int32, engine.int64) if image.dtype == engine.float32 else (engine.int64,) if image.dtype == engine.float64 else ()
        if dtype in wide:
            raise RuntimeError(f"The cast from {image.dtype} to {dtype} cannot be performed safely.")
        # map (nearly) equal intervals to each integer; with a factor of 255, only exactly 1.0 would give 255
        return image.mul(largest(dtype) + 1.0 - 1e-3).to(dtype)
    here, there = largest(image.dtype), largest(dtype)
    if dtype.is_floating_point:
        return image.to(dtype) / float(here)
    if here > there:
        return engine.div(image, (here + 1) // (there + 1), rounding_mode="floor").to(dtype)
    return image.to(dtype) * ((there + 1) // (here + 1))


def to_pil_image(pic: Any, mode: str | None = None) -> Any:
    """Convert a tensor (C, H, W) or array (H, W, C) to a Pillow image. Floats are expected in [0, 1], unless `mode` is "F".

    The default mode follows from the channels and dtype: "L", "I;16", "I", "F", "LA", "RGB" or "RGBA". Raises ValueError for a mode that
    does not match, and TypeError for an unsupported dtype.
    """
    from PIL import Image

    if isinstance(pic, Tensor):
        if pic.ndim not in (2, 3):
            raise ValueError(f"pic should be 2/3 dimensional. Got {pic.ndim} dimensions.")
        pic = pic.detach()
        if pic.is_floating_point() and mode != "F":
            pic = pic.mul(255).to(engine.uint8)
        array = pic.cpu().numpy()
        array = array[:, :, None] if array.ndim == 2 else array.transpose(1, 2, 0)
    elif isinstance(pic, numpy.ndarray):
        if pic.ndim not in (2, 3):
            raise ValueError(f"pic should be 2/3 dimensional. Got {pic.ndim} dimensions.")
        array = pic[:, :, None] if pic.ndim == 2 else pic
    else:
        raise TypeError(f"pic should be Tensor or ndarray. Got {type(pic)}.")
    channels = array.shape[2]
    if channels > 4:
        raise ValueError(f"pic should not have > 4 channels. Got {channels} channels.")
    if channels == 1:
        expected = _ONE_BAND.get(array.dtype.name)
        if mode is not None and mode != expected:
            raise ValueError(f"Incorrect mode ({mode}) supplied for input type {array.dtype}. Should be {expected}")
        mode, array = expected, array[:, :, 0]
    else:
        if mode is not None and mode not in _BANDS[channels]:
            raise ValueError(f"Only modes {list(_BANDS[channels])} are supported for {channels}D inputs")
        if mode is None and array.dtype == numpy.uint8:
            mode = _BANDS[channels][0]
    if mode is None:
        raise TypeError(f"Input type {array.dtype} is not supported")
    return _image(Image, numpy.ascontiguousarray(array), mode)


def _image(Image: Any, array: numpy.ndarray, mode: str) -> Any:
    """`Image.fromarray` with a mode, independent of the Pillow version."""
    found = Image.fromarray(array)
    if found.mode == mode:
        return found
    if mode == "I;16":
        return Image.frombytes("I;16", array.shape[::-1], array.astype("<u2").tobytes())
    return Image.frombytes(mode, (array.shape[1], array.shape[0]), array.tobytes())


def normalize(tensor: Tensor, mean: Any, std: Any, inplace: bool = False) -> Tensor:
    """Compute `(tensor - mean) / std` per channel of a float image (..., C, H, W). Raises RuntimeError for more means than channels."""
    mean, std = statistics(tensor, mean, std)
    found = tensor.sub_(mean) if inplace else tensor - mean
    if found.shape != tensor.shape:
        raise RuntimeError(
            f"normalize: an image of shape {tuple(tensor.shape)} has fewer channels than there are means: "
            f"its shape would become {tuple(found.shape)}"
        )
    return found.div_(std)


def statistics(tensor: Tensor, mean: Any, std: Any) -> tuple[Tensor, Tensor]:
    """Check an image, and return mean and standard deviation (C, 1, 1) in its dtype."""
    if not isinstance(tensor, Tensor):
        raise TypeError(f"img should be Tensor Image. Got {type(tensor)}")
    if not tensor.is_floating_point():
        raise TypeError(f"Input tensor should be a float tensor. Got {tensor.dtype}.")
    if tensor.ndim < 3:
        raise ValueError(f"Expected tensor to be a tensor image of size (..., C, H, W). Got tensor.size() = {tensor.size()}")
    mean = engine.as_tensor(mean, dtype=tensor.dtype, device=tensor.device)
    std = engine.as_tensor(std, dtype=tensor.dtype, device=tensor.device)
    if bool((std == 0).any()):
        raise ValueError(f"std evaluated to zero after conversion to {tensor.dtype}, leading to division by zero.")
    mean = mean.view(-1, 1, 1) if mean.ndim == 1 else mean
    std = std.view(-1, 1, 1) if std.ndim == 1 else std
    return mean, std


def erase(img: Tensor, i: int, j: int, h: int, w: int, v: Tensor, inplace: bool = False) -> Tensor:
    """Return the tensor image with `v` in the rectangle of height h and width w at row i, column j."""
    if not isinstance(img, Tensor):
        raise TypeError(f"img should be Tensor Image. Got {type(img)}")
    checked(img)
    img = img if inplace else img.clone()
    img[..., i : i + h, j : j + w] = v
    return img
