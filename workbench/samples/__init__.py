"""Small real data sets for lessons and experiments that come with the workbench. LICENSES.md says whose they are."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy

import engine
from engine import Tensor

__all__ = ["CLOTHES", "PHOTOS", "fashion_mnist", "names", "photo", "shakespeare"]

HERE = Path(__file__).parent
CLOTHES = ("T-shirt", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "ankle boot")
PHOTOS = ("china", "flower")


def fashion_mnist(train: bool = True) -> tuple[Tensor, Tensor]:
    """Images of clothing and their labels, of ten classes: 10,000 for training or 2,000 for testing, a part of Fashion-MNIST.

    The images are float32 (N, 1, 28, 28), from 0 (background) to 1. The labels are int64 (N,), indices of `CLOTHES`, in turn: image i has
    label i % 10. The whole set is `engine.vision.datasets.FashionMNIST`.
    """
    from PIL import Image

    sheet = numpy.asarray(Image.open(HERE / "fashion_mnist.webp"))[..., 0]  # 12 rows of 100 images for each class
    images = sheet.reshape(10, 12, 28, 100, 28).transpose(1, 3, 0, 2, 4)  # row, column, class
    images = (images[:10] if train else images[10:]).reshape(-1, 1, 28, 28)
    return engine.from_numpy(images.astype(numpy.float32) / 255), engine.arange(10).repeat(len(images) // 10)


def names() -> list[str]:
    """5,163 first names in lower case, from the commonest to the rarest in the United States in 1990."""
    return (HERE / "names.txt").read_text(encoding="ascii").split()


def shakespeare() -> str:
    """Eight plays by Shakespeare, a million characters of ASCII."""
    return gzip.decompress((HERE / "shakespeare.txt.gz").read_bytes()).decode("ascii")


def photo(name: str) -> Tensor:
    """A color photograph of `PHOTOS`: float32 (3, 213, 320), from 0 to 1."""
    from PIL import Image

    if name not in PHOTOS:
        raise ValueError(f"photo: expected one of {', '.join(PHOTOS)}, got {name!r}")
    pixels = numpy.asarray(Image.open(HERE / f"{name}.jpg"), numpy.float32) / 255
    return engine.from_numpy(pixels.transpose(2, 0, 1).copy())
