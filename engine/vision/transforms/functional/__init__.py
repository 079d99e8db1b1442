"""`torchvision.transforms.functional`: deterministic transforms of Pillow images and tensors (..., C, H, W)."""

from .color import (
    adjust_brightness,
    adjust_contrast,
    adjust_gamma,
    adjust_hue,
    adjust_saturation,
    adjust_sharpness,
    autocontrast,
    equalize,
    gaussian_blur,
    invert,
    posterize,
    rgb_to_grayscale,
    solarize,
    to_grayscale,
)
from .convert import convert_image_dtype, erase, normalize, pil_to_tensor, to_pil_image, to_tensor
from .geometry import center_crop, crop, five_crop, hflip, pad, resize, resized_crop, ten_crop, vflip
from .images import InterpolationMode, get_dimensions, get_image_num_channels, get_image_size, pil_modes_mapping
from .warp import affine, elastic_transform, perspective, rotate
