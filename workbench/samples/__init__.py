"""Small real data sets for lessons and experiments that come with the workbench. LICENSES.md says whose they are."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy

import engine
from engine import Tensor

__all__ = ["CLOTHES", "PHOTOS", "digits", "fashion_mnist", "names", "photo", "shakespeare"]

HERE = Path(__file__).parent
CLOTHES = ("T-shirt", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "ankle boot")
PHOTOS = ("china", "flower")


def digits() -> tuple[Tensor, Tensor]:
    """Handwritten digits and their labels, those of scikit-learn's `load_digits`, in the same order.

    Returns:
        Images, float32 (1797, 1, 8, 8) from 0 (paper) to 1 (ink); labels, int64 (1797,).

    Example::

        >>> images, labels = wb.samples.digits()
        >>> images.shape, labels[:5]
        (torch.Size([1797, 1, 8, 8]), tensor([0, 1, 2, 3, 4]))
    """
    with numpy.load(HERE / "digits.npz") as stored:
        images, labels = stored["images"], stored["labels"]
    return engine.from_numpy(images[:, None].astype(numpy.float32) / 16), engine.from_numpy(labels.astype(numpy.int64))


def fashion_mnist(train: bool = True) -> tuple[Tensor, Tensor]:
    """Images of clothing and their labels, of ten classes: 10,000 for training or 2,000 for testing, a part of Fashion-MNIST.

    The whole set is `engine.vision.datasets.FashionMNIST`.

    Args:
        train: the images for training; False for those for testing.

    Returns:
        Images, float32 (N, 1, 28, 28) from 0 (background) to 1; labels, int64 (N,), indices of `wb.samples.CLOTHES`. Image i has label
        i % 10.

    Example::

        >>> images, labels = wb.samples.fashion_mnist(train=False)
        >>> images.shape, wb.samples.CLOTHES[labels[0]]
        (torch.Size([2000, 1, 28, 28]), 'T-shirt')
    """
    from PIL import Image

    sheet = numpy.asarray(Image.open(HERE / "fashion_mnist.webp"))[..., 0]  # 12 rows of 100 images for each class
    images = sheet.reshape(10, 12, 28, 100, 28).transpose(1, 3, 0, 2, 4)  # row, column, class
    images = (images[:10] if train else images[10:]).reshape(-1, 1, 28, 28)
    return engine.from_numpy(images.astype(numpy.float32) / 255), engine.arange(10).repeat(len(images) // 10)


def names() -> list[str]:
    """First names in lower case, from the commonest to the rarest in the United States in 1990.

    Returns:
        5,163 names.

    Example::

        >>> wb.samples.names()[:3]
        ['james', 'john', 'robert']
    """
    return (HERE / "names.txt").read_text(encoding="ascii").split()


def shakespeare() -> str:
    """Eight plays by Shakespeare.

    Returns:
        A million characters of ASCII.

    Example::

        >>> wb.samples.shakespeare()[:20]
        'ANTONY AND CLEOPATRA'
    """
    return gzip.decompress((HERE / "shakespeare.txt.gz").read_bytes()).decode("ascii")


def photo(name: str) -> Tensor:
    """A color photograph.

    Args:
        name: one of `wb.samples.PHOTOS`, "china" or "flower".

    Returns:
        A tensor, float32 (3, 213, 320), from 0 to 1.

    Raises:
        ValueError: another name.

    Example::

        >>> wb.samples.photo("flower").shape
        torch.Size([3, 213, 320])
    """
    from PIL import Image

    if name not in PHOTOS:
        raise ValueError(f"photo: expected one of {', '.join(PHOTOS)}, got {name!r}")
    pixels = numpy.asarray(Image.open(HERE / f"{name}.jpg"), numpy.float32) / 255
    return engine.from_numpy(pixels.transpose(2, 0, 1).copy())
