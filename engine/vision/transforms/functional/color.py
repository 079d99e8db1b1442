"""Functional color transforms: brightness, contrast, color, histograms, sharpness and blur."""

from __future__ import annotations

from typing import Any

import numpy

import engine
from engine import Tensor
from engine.nn import functional as F

from .convert import convert_image_dtype, pil_to_tensor, to_pil_image
from .images import check_channels, checked, float_like, get_image_num_channels, in_floats, largest


def _blend(img: Tensor, other: Tensor, ratio: float) -> Tensor:
    """Blend `ratio` of an image with the rest of another, clamped to the valid range."""
    return (float(ratio) * img + (1.0 - float(ratio)) * other).clamp(0, largest(img.dtype)).to(img.dtype)


def _enhanced(img: Any, kind: str, factor: float) -> Any:
    from PIL import ImageEnhance

    return getattr(ImageEnhance, kind)(img).enhance(factor)


def _not_negative(name: str, factor: float) -> None:
    if factor < 0:
        raise ValueError(f"{name} ({factor}) is not non-negative.")


def rgb_to_grayscale(img: Any, num_output_channels: int = 1) -> Any:
    """Convert to luma, 0.2989 red + 0.587 green + 0.114 blue, with one channel or three equal ones."""
    if num_output_channels not in (1, 3):
        raise ValueError("num_output_channels should be either 1 or 3")
    if not checked(img):
        return to_grayscale(img, num_output_channels)
    check_channels(img, least=3)
    if img.shape[-3] == 3:
        red, green, blue = img.unbind(dim=-3)
        grey = (0.2989 * red + 0.587 * green + 0.114 * blue).to(img.dtype).unsqueeze(dim=-3)
    else:
        grey = img.clone()
    return grey.expand(*grey.shape[:-3], 3, *grey.shape[-2:]) if num_output_channels == 3 else grey


def to_grayscale(img: Any, num_output_channels: int = 1) -> Any:
    """Convert a Pillow image to mode "L", or to "RGB" with three equal channels. Raises TypeError for tensors; see `rgb_to_grayscale`."""
    from PIL import Image

    if isinstance(img, Tensor) or checked(img):
        raise TypeError("Input should be PIL Image")
    if num_output_channels not in (1, 3):
        raise ValueError("num_output_channels should be either 1 or 3")
    grey = img.convert("L")
    return grey if num_output_channels == 1 else Image.merge("RGB", (grey, grey, grey))


def adjust_brightness(img: Any, brightness_factor: float) -> Any:
    """Scale brightness: 0 gives black, 1 the image, 2 twice the brightness."""
    if not checked(img):
        return _enhanced(img, "Brightness", brightness_factor)
    _not_negative("brightness_factor", brightness_factor)
    check_channels(img)
    return _blend(img, engine.zeros_like(img), brightness_factor)


def adjust_contrast(img: Any, contrast_factor: float) -> Any:
    """Scale contrast: 0 gives the mean gray, 1 the image."""
    if not checked(img):
        return _enhanced(img, "Contrast", contrast_factor)
    _not_negative("contrast_factor", contrast_factor)
    check_channels(img)
    grey = rgb_to_grayscale(img) if get_image_num_channels(img) == 3 else img
    return _blend(img, grey.to(float_like(img)).mean(dim=(-3, -2, -1) if img.ndim > 2 else (-2, -1), keepdim=True), contrast_factor)


def adjust_saturation(img: Any, saturation_factor: float) -> Any:
    """Scale saturation: 0 gives gray, 1 the image."""
    if not checked(img):
        return _enhanced(img, "Color", saturation_factor)
    _not_negative("saturation_factor", saturation_factor)
    check_channels(img)
    return img if get_image_num_channels(img) == 1 else _blend(img, rgb_to_grayscale(img), saturation_factor)


def adjust_hue(img: Any, hue_factor: float) -> Any:
    """Shift hues by a fraction of the color circle, between -0.5 and 0.5."""
    from PIL import Image

    if not -0.5 <= hue_factor <= 0.5:
        raise ValueError(f"hue_factor ({hue_factor}) is not in [-0.5, 0.5].")
    if not checked(img):
        if img.mode in ("L", "1", "I", "F"):
            return img
        hue, saturation, value = img.convert("HSV").split()
        turned = numpy.array(hue, dtype=numpy.uint8) + numpy.int32(hue_factor * 255).astype(numpy.uint8)  # wraps around
        return Image.merge("HSV", (Image.fromarray(turned), saturation, value)).convert(img.mode)
    check_channels(img)
    if get_image_num_channels(img) == 1:
        return img
    h, s, v = _hsv(convert_image_dtype(img, engine.float32))
    return convert_image_dtype(_rgb((h + hue_factor) % 1.0, s, v), img.dtype)


def _hsv(img: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return hue, saturation and value, all in [0, 1]."""
    r, g, b = img.unbind(dim=-3)
    high, low = img.amax(dim=-3), img.amin(dim=-3)
    grey, one = high == low, engine.ones_like(high)
    spread = engine.where(grey, one, high - low)  # gray pixels have hue and saturation 0
    red, green, blue = ((high - c) / spread for c in (r, g, b))
    hue = engine.where(high == r, blue - green, engine.where(high == g, 2.0 + red - blue, 4.0 + green - red))
    return engine.fmod(hue / 6.0 + 1.0, 1.0), (high - low) / engine.where(grey, one, high), high


def _rgb(h: Tensor, s: Tensor, v: Tensor) -> Tensor:
    """Return RGB in dimension -3. In each sixth of the circle, channels are among v, p (lowest), q (falling) and t (rising)."""
    sixth = engine.floor(h * 6.0)
    f = h * 6.0 - sixth
    p, q, t = ((v * (1.0 - s * part)).clamp(0.0, 1.0) for part in (1.0, f, 1.0 - f))
    which = (sixth.to(engine.int64) % 6)[None]
    channels = [(v, q, p, p, t, v), (t, v, v, q, p, p), (p, p, t, v, v, q)]
    return engine.stack([engine.gather(engine.stack(six), 0, which)[0] for six in channels], dim=-3)


def adjust_gamma(img: Any, gamma: float, gain: float = 1) -> Any:
    """Gamma correction: 255 * gain * (value / 255) ** gamma."""
    if gamma < 0:
        raise ValueError("Gamma should be a non-negative real number")
    if not checked(img):
        table = [int((255 + 1 - 1e-3) * gain * pow(value / 255.0, gamma)) for value in range(256)] * 3
        return img.convert("RGB").point(table).convert(img.mode)
    check_channels(img)
    floats = img if img.is_floating_point() else convert_image_dtype(img, engine.float32)
    return convert_image_dtype((gain * floats**gamma).clamp(0, 1), img.dtype)


def invert(img: Any) -> Any:
    """Invert colors."""
    if not checked(img):
        from PIL import ImageOps

        return ImageOps.invert(img)
    check_channels(img, least=3)
    return largest(img.dtype) - img


def posterize(img: Any, bits: int) -> Any:
    """Keep the highest `bits` (0 to 8) of each byte."""
    if not 0 <= bits <= 8:
        raise ValueError(f"The number if bits should be between 0 and 8. Got {bits}")
    if not checked(img):
        from PIL import ImageOps

        return ImageOps.posterize(img, bits)
    _bytes(img)
    return img & (256 - 2 ** (8 - bits))


def _bytes(img: Tensor) -> None:
    if img.dtype != engine.uint8:
        raise TypeError(f"Only torch.uint8 image tensors are supported, but found {img.dtype}")
    check_channels(img, least=3)


def solarize(img: Any, threshold: float) -> Any:
    """Invert values at or above the threshold."""
    if not checked(img):
        from PIL import ImageOps

        return ImageOps.solarize(img, threshold)
    check_channels(img, least=3)
    if threshold > largest(img.dtype):
        raise TypeError("Threshold should be less than bound of img.")
    return engine.where(img >= threshold, invert(img), img)


def adjust_sharpness(img: Any, sharpness_factor: float) -> Any:
    """Adjust sharpness: 0 gives a smoothed image, 1 the image, 2 twice the sharpness."""
    if not checked(img):
        return _enhanced(img, "Sharpness", sharpness_factor)
    _not_negative("sharpness_factor", sharpness_factor)
    check_channels(img)
    if min(img.shape[-2:]) <= 2:
        return img
    kernel = engine.ones(3, 3, dtype=float_like(img), device=img.device)
    kernel[1, 1] = 5.0
    smooth = img.clone()
    smooth[..., 1:-1, 1:-1] = in_floats(img, (kernel.dtype,), lambda x: _convolved(x, kernel / kernel.sum()))
    return _blend(img, smooth, sharpness_factor)


def _convolved(x: Tensor, kernel: Tensor) -> Tensor:
    """Convolve each channel of images (..., C, H, W) with one kernel."""
    flat = x.reshape(-1, 1, *x.shape[-2:])
    found = F.conv2d(flat, kernel[None, None])
    return found.reshape(*x.shape[:-2], *found.shape[-2:])


def autocontrast(img: Any) -> Any:
    """Stretch each channel to the full range; constant channels are unchanged."""
    if not checked(img):
        from PIL import ImageOps

        return ImageOps.autocontrast(img)
    check_channels(img, least=3)
    bound, dtype = largest(img.dtype), float_like(img)
    low, high = (end(dim=(-2, -1), keepdim=True).to(dtype) for end in (img.amin, img.amax))
    flat = low == high
    scale = engine.where(flat, engine.ones_like(low), bound / engine.where(flat, engine.ones_like(low), high - low))
    return ((img - engine.where(flat, engine.zeros_like(low), low)) * scale).clamp(0, bound).to(img.dtype)


def equalize(img: Any) -> Any:
    """Equalize the histogram of each channel, as Pillow does, by a lookup table from cumulative counts."""
    if not checked(img):
        from PIL import ImageOps

        return ImageOps.equalize(img)
    if img.dtype != engine.uint8:
        raise TypeError(f"Only torch.uint8 image tensors are supported, but found {img.dtype}")
    if not 3 <= img.ndim <= 4:
        raise TypeError(f"Input image tensor should have 3 or 4 dimensions, but found {img.ndim}")
    check_channels(img)
    planes = img.reshape(-1, img.shape[-2] * img.shape[-1])
    return engine.stack([_equalized(plane) for plane in planes]).reshape(img.shape)


def _equalized(plane: Tensor) -> Tensor:
    counts = engine.bincount(plane, minlength=256)
    present = counts[counts != 0]
    step = int(present[:-1].sum()) // 255
    if step == 0:
        return plane
    table = (engine.cumsum(counts, 0) + step // 2) // step
    return F.pad(table, [1, 0])[:-1].clamp(0, 255)[plane.to(engine.int64)].to(engine.uint8)


def gaussian_blur(img: Any, kernel_size: Any, sigma: Any = None) -> Any:
    """Blur with a Gaussian kernel of odd `kernel_size` (x, y); `sigma` (x, y) defaults to 0.15 size + 0.35."""
    if not isinstance(kernel_size, (int, list, tuple)):
        raise TypeError(f"kernel_size should be int or a sequence of integers. Got {type(kernel_size)}")
    sizes = [kernel_size] * 2 if isinstance(kernel_size, int) else list(kernel_size)
    if len(sizes) != 2:
        raise ValueError(f"If kernel_size is a sequence its length should be 2. Got {len(sizes)}")
    if any(size % 2 == 0 or size < 0 for size in sizes):
        raise ValueError(f"kernel_size should have odd and positive integers. Got {sizes}")
    if sigma is None:
        sigma = [size * 0.15 + 0.35 for size in sizes]
    if not isinstance(sigma, (list, tuple, int, float)):
        raise TypeError(f"sigma should be either float or sequence of floats. Got {type(sigma)}")
    sigmas = [float(sigma)] * 2 if isinstance(sigma, (int, float)) else list(sigma) * (2 // max(len(sigma), 1))
    if len(sigmas) != 2:
        raise ValueError(f"If sigma is a sequence, its length should be 2. Got {len(sigma)}")
    if any(one <= 0.0 for one in sigmas):
        raise ValueError(f"sigma should have positive values. Got {sigmas}")
    tensor = checked(img)
    x = img if tensor else pil_to_tensor(img)
    columns, rows = (_gaussian(size, one, x) for size, one in zip(sizes, sigmas, strict=True))
    half = [sizes[0] // 2, sizes[0] // 2, sizes[1] // 2, sizes[1] // 2]

    def work(batch: Tensor) -> Tensor:
        lead = batch.shape[:-3]
        padded = F.pad(batch.reshape(-1, *batch.shape[-3:]), half, mode="reflect")
        return _convolved(padded, engine.outer(rows, columns)).reshape(*lead, *batch.shape[-3:])

    smooth = in_floats(x, (columns.dtype,), work)
    return smooth if tensor else to_pil_image(smooth, mode=img.mode)


def _gaussian(size: int, sigma: float, img: Tensor) -> Tensor:
    half = (size - 1) * 0.5
    x = engine.linspace(-half, half, size, dtype=float_like(img), device=img.device)
    weights = engine.exp(-0.5 * (x / sigma) ** 2)
    return weights / weights.sum()
