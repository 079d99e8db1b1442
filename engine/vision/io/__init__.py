"""`torchvision.io`: read and write image files as uint8 tensors (C, H, W), with Pillow."""

from .image import (
    ImageReadMode,
    decode_gif,
    decode_image,
    decode_jpeg,
    decode_png,
    encode_jpeg,
    encode_png,
    read_file,
    read_image,
    write_file,
    write_jpeg,
    write_png,
)
