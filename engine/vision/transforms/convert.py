"""Conversions between Pillow images, arrays and tensors; normalization, whitening and random erasing."""

from __future__ import annotations

import math
import numbers
import warnings
from collections.abc import Sequence
from typing import Any

import engine
from engine import Tensor, nn

from . import functional as F
from .containers import integer, told, uniform


class ToTensor:
    """Convert a Pillow image or uint8 array (H, W, C) to a float tensor (C, H, W) in [0, 1]; other dtypes keep their values."""

    def __call__(self, pic: Any) -> Tensor:
        return F.to_tensor(pic)

    def __repr__(self) -> str:
        return told(self)


class PILToTensor:
    """Convert a Pillow image to a tensor (C, H, W) without scaling."""

    def __call__(self, pic: Any) -> Tensor:
        return F.pil_to_tensor(pic)

    def __repr__(self) -> str:
        return told(self)


class ConvertImageDtype(nn.Module):
    """Convert a tensor to another dtype, scaling its values: 255 in uint8 becomes 1.0."""

    def __init__(self, dtype: Any):
        super().__init__()
        self.dtype = dtype

    def forward(self, image: Tensor) -> Tensor:
        return F.convert_image_dtype(image, self.dtype)


class ToPILImage:
    """Convert a tensor (C, H, W) or array (H, W, C) to a Pillow image."""

    def __init__(self, mode: str | None = None):
        self.mode = mode

    def __call__(self, pic: Any) -> Any:
        return F.to_pil_image(pic, self.mode)

    def __repr__(self) -> str:
        return told(self) if self.mode is None else told(self, mode=self.mode)


class Normalize(nn.Module):
    """Compute `(image - mean) / std` per channel of a float tensor."""

    def __init__(self, mean: Any, std: Any, inplace: bool = False):
        super().__init__()
        self.mean, self.std, self.inplace = mean, std, inplace

    def forward(self, tensor: Tensor) -> Tensor:
        return F.normalize(tensor, self.mean, self.std, self.inplace)

    def __repr__(self) -> str:
        return told(self, mean=self.mean, std=self.std)


class LinearTransformation(nn.Module):
    """Subtract `mean_vector` from the flattened tensor and multiply by a square matrix (whitening)."""

    def __init__(self, transformation_matrix: Tensor, mean_vector: Tensor):
        super().__init__()
        rows, columns = transformation_matrix.shape
        if rows != columns:
            raise ValueError(f"transformation_matrix should be square. Got {rows} x {columns} rectangular matrix.")
        if mean_vector.shape[0] != rows:
            raise ValueError(
                f"mean_vector should have the same length {mean_vector.shape[0]} as any one of the dimensions of the "
                f"transformation_matrix [{rows} x {columns}]"
            )
        if transformation_matrix.device != mean_vector.device:
            raise ValueError(f"Input tensors should be on the same device. Got {transformation_matrix.device} and {mean_vector.device}")
        if transformation_matrix.dtype != mean_vector.dtype:
            raise ValueError(f"Input tensors should have the same dtype. Got {transformation_matrix.dtype} and {mean_vector.dtype}")
        self.transformation_matrix, self.mean_vector = transformation_matrix, mean_vector

    def forward(self, tensor: Tensor) -> Tensor:
        length = math.prod(tensor.shape[-3:])
        if length != self.transformation_matrix.shape[0]:
            raise ValueError(
                "Input tensor and transformation matrix have incompatible shape. "
                f"[{' x '.join(map(str, tensor.shape[-3:]))}] != {self.transformation_matrix.shape[0]}"
            )
        if tensor.device != self.mean_vector.device:
            raise ValueError(
                f"Input tensor should be on the same device as transformation matrix and mean vector. Got {tensor.device} vs "
                f"{self.mean_vector.device}"
            )
        return ((tensor.reshape(-1, length) - self.mean_vector) @ self.transformation_matrix).reshape(tensor.shape)

    def __repr__(self) -> str:
        return (
            f"LinearTransformation(transformation_matrix={self.transformation_matrix.tolist()}), (mean_vector={self.mean_vector.tolist()})"
        )


class RandomErasing(nn.Module):
    """Fill a rectangle of a tensor with `value`, a scalar, one per channel, or "random" (normal), with probability `p`.

    `scale` is the range of its fraction of the area, `ratio` the range of height / width.
    """

    def __init__(self, p: float = 0.5, scale: Any = (0.02, 0.33), ratio: Any = (0.3, 3.3), value: Any = 0, inplace: bool = False):
        super().__init__()
        if not isinstance(value, (numbers.Number, str, tuple, list)):
            raise TypeError("Argument value should be either a number or str or a sequence")
        if isinstance(value, str) and value != "random":
            raise ValueError("If value is str, it should be 'random'")
        if not isinstance(scale, Sequence):
            raise TypeError("Scale should be a sequence")
        if not isinstance(ratio, Sequence):
            raise TypeError("Ratio should be a sequence")
        if scale[0] > scale[1] or ratio[0] > ratio[1]:
            warnings.warn("Scale and ratio should be of kind (min, max)", stacklevel=2)
        if scale[0] < 0 or scale[1] > 1:
            raise ValueError("Scale should be between 0 and 1")
        if p < 0 or p > 1:
            raise ValueError("Random erasing probability should be between 0 and 1")
        self.p, self.scale, self.ratio, self.value, self.inplace = p, scale, ratio, value, inplace

    @staticmethod
    def get_params(img: Tensor, scale: Any, ratio: Any, value: list[float] | None = None) -> tuple[int, int, int, int, Tensor]:
        """Return (row, column, height, width, values); the unchanged image if ten draws did not fit."""
        channels, height, width = img.shape[-3:]
        low, high = engine.log(engine.tensor(ratio, dtype=engine.float32)).tolist()
        for _ in range(10):
            area = height * width * uniform(scale[0], scale[1])
            aspect = engine.exp(engine.empty(1).uniform_(low, high)).item()
            h, w = round(math.sqrt(area * aspect)), round(math.sqrt(area / aspect))
            if not (h < height and w < width):
                continue
            if value is None:
                v = engine.empty([channels, h, w], dtype=engine.float32).normal_()
            else:
                v = engine.tensor(value)[:, None, None]
            return integer(0, height - h + 1), integer(0, width - w + 1), h, w, v
        return 0, 0, height, width, img

    def forward(self, img: Tensor) -> Tensor:
        if engine.rand(1) >= self.p:
            return img
        value = [float(self.value)] if isinstance(self.value, (int, float)) else None if isinstance(self.value, str) else list(self.value)
        if value is not None and len(value) not in (1, img.shape[-3]):
            raise ValueError(f"If value is a sequence, it should have either a single value or {img.shape[-3]} (number of input channels)")
        i, j, h, w, v = self.get_params(img, self.scale, self.ratio, value)
        return F.erase(img, i, j, h, w, v, self.inplace)

    def __repr__(self) -> str:
        return told(self, p=self.p, scale=self.scale, ratio=self.ratio, value=self.value, inplace=self.inplace)
