"""Read and write image files as uint8 tensors (C, H, W), with Pillow."""

from __future__ import annotations

import io
from enum import Enum
from pathlib import Path
from typing import Any

import numpy

import engine
from engine import Tensor

from ..transforms.functional import pil_to_tensor, to_pil_image


class ImageReadMode(Enum):
    """The color mode to which an image is converted when read."""

    UNCHANGED = 0
    GRAY = 1
    GRAY_ALPHA = 2
    RGB = 3
    RGB_ALPHA = 4
    RGBA = RGB_ALPHA


_MODES = {"GRAY": "L", "GRAY_ALPHA": "LA", "RGB": "RGB", "RGB_ALPHA": "RGBA"}


def read_file(path: str | Path) -> Tensor:
    """Read a file as a 1-D uint8 tensor."""
    return engine.from_numpy(numpy.frombuffer(Path(path).read_bytes(), numpy.uint8).copy())


def write_file(filename: str | Path, data: Tensor) -> None:
    """Write a 1-D uint8 tensor to a file."""
    if data.dtype != engine.uint8 or data.ndim != 1:
        raise RuntimeError(f"Input tensor must be a uint8 tensor of one dimension, got {data.dtype} of shape {tuple(data.shape)}")
    Path(filename).write_bytes(data.cpu().numpy().tobytes())


def _decoded(data: bytes, mode: Any, rotate: bool, what: str, formats: tuple[str, ...] | None = None) -> Tensor:
    from PIL import Image, ImageOps, UnidentifiedImageError

    if isinstance(mode, str):
        if mode.upper() not in ImageReadMode.__members__:
            raise ValueError(f"Unknown image mode {mode!r}; expected one of {', '.join(ImageReadMode.__members__)}")
        mode = ImageReadMode[mode.upper()]
    try:
        with Image.open(io.BytesIO(data), formats=formats) as file:
            image = ImageOps.exif_transpose(file) if rotate else file
            image.load()
            if mode is not ImageReadMode.UNCHANGED:
                image = image.convert(_MODES[mode.name])
            elif image.mode == "P":
                image = image.convert("RGBA" if "transparency" in image.info else "RGB")
            elif image.mode == "1":
                return pil_to_tensor(image.convert("L"))
            return pil_to_tensor(image)
    except (UnidentifiedImageError, OSError, SyntaxError, ValueError) as error:
        raise RuntimeError(f"{what} cannot be decoded: {error}") from error


def _input(input: Any) -> bytes:
    if not isinstance(input, Tensor) or input.dtype != engine.uint8 or input.ndim != 1 or not input.numel():
        came = f"{input.dtype} of shape {tuple(input.shape)}" if isinstance(input, Tensor) else f"a {type(input).__name__}"
        raise RuntimeError(f"Expected a non empty 1-dimensional tensor of uint8, the bytes of a file, got {came}")
    return input.cpu().numpy().tobytes()


def decode_image(input: Any, mode: Any = ImageReadMode.UNCHANGED, apply_exif_orientation: bool = False) -> Tensor:
    """Decode an image (C, H, W) from the bytes of a file, or from a path."""
    if isinstance(input, (str, Path)):
        return _decoded(Path(input).read_bytes(), mode, apply_exif_orientation, str(input))
    return _decoded(_input(input), mode, apply_exif_orientation, "The image")


def read_image(path: str | Path, mode: Any = ImageReadMode.UNCHANGED, apply_exif_orientation: bool = False) -> Tensor:
    """Read an image (C, H, W) from a file and convert it to `mode`. Raises RuntimeError if it is not an image."""
    path = Path(path)
    if not path.is_file():
        raise RuntimeError(f"[Errno 2] No such file or directory: '{path}'")
    return _decoded(path.read_bytes(), mode, apply_exif_orientation, str(path))


def decode_png(input: Tensor, mode: Any = ImageReadMode.UNCHANGED, apply_exif_orientation: bool = False) -> Tensor:
    """Decode an image (C, H, W) from the bytes of a PNG file."""
    return _decoded(_input(input), mode, apply_exif_orientation, "The PNG image", ("PNG",))


def decode_jpeg(input: Any, mode: Any = ImageReadMode.UNCHANGED, device: Any = "cpu", apply_exif_orientation: bool = False) -> Any:
    """Decode an image (C, H, W) from the bytes of a JPEG file, or a list of images from a list."""
    if isinstance(input, (list, tuple)):
        return [decode_jpeg(one, mode, device, apply_exif_orientation) for one in input]
    return _decoded(_input(input), mode, apply_exif_orientation, "The JPEG image", ("JPEG",)).to(device)


def decode_gif(input: Tensor) -> Tensor:
    """Decode a GIF file, as one image (3, H, W) or several frames (N, 3, H, W)."""
    from PIL import Image, ImageSequence, UnidentifiedImageError

    try:
        with Image.open(io.BytesIO(_input(input)), formats=("GIF",)) as file:
            frames = [pil_to_tensor(frame.convert("RGB")) for frame in ImageSequence.Iterator(file)]
    except (UnidentifiedImageError, OSError, SyntaxError) as error:
        raise RuntimeError(f"The GIF image cannot be decoded: {error}") from error
    return frames[0] if len(frames) == 1 else engine.stack(frames)


def _encoded(input: Tensor, form: str, **settings: Any) -> bytes:
    if not isinstance(input, Tensor) or input.dtype != engine.uint8:
        raise RuntimeError(f"Input tensor dtype should be uint8, got {getattr(input, 'dtype', type(input).__name__)}")
    if input.ndim != 3 or input.shape[0] not in (1, 3):
        raise RuntimeError(f"The number of channels should be 1 or 3, of a tensor (C, H, W), got shape {tuple(input.shape)}")
    out = io.BytesIO()
    to_pil_image(input).save(out, format=form, **settings)
    return out.getvalue()


def encode_png(input: Tensor, compression_level: int = 6) -> Tensor:
    """Encode a uint8 image (1 or 3, H, W) as PNG; `compression_level` is 0 to 9."""
    if not 0 <= compression_level <= 9:
        raise RuntimeError(f"Compression level should be between 0 and 9, got {compression_level}")
    return engine.from_numpy(numpy.frombuffer(_encoded(input, "PNG", compress_level=compression_level), numpy.uint8).copy())


def encode_jpeg(input: Any, quality: int = 75) -> Any:
    """Encode a uint8 image (1 or 3, H, W), or a list of them, as JPEG; `quality` is 1 to 100."""
    if not 1 <= quality <= 100:
        raise ValueError(f"Image quality should be a positive number between 1 and 100, got {quality}")
    if isinstance(input, (list, tuple)):
        return [encode_jpeg(one, quality) for one in input]
    return engine.from_numpy(numpy.frombuffer(_encoded(input, "JPEG", quality=quality), numpy.uint8).copy())


def write_png(input: Tensor, filename: str | Path, compression_level: int = 6) -> None:
    """Write a uint8 image (1 or 3, H, W) as a PNG file."""
    write_file(filename, encode_png(input, compression_level))


def write_jpeg(input: Tensor, filename: str | Path, quality: int = 75) -> None:
    """Write a uint8 image (1 or 3, H, W) as a JPEG file."""
    write_file(filename, encode_jpeg(input, quality))
