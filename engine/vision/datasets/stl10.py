"""STL-10, from its binary files."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy

from .download import fetch_archive
from .vision import VisionDataset, absent, checked_choice

_IMAGE = (3, 96, 96)


class STL10(VisionDataset):
    """STL-10: images of ten classes, 96 x 96 pixels, RGB; 5,000 for training, 8,000 for testing and 100,000 without labels.

    Reads train_X.bin, train_y.bin, test_X.bin, test_y.bin, unlabeled_X.bin and class_names.txt in root/stl10_binary, and fold_indices.txt
    for `folds` (0 to 9), which selects 1,000 images of "train". `split` is "train", "test", "unlabeled" or "train+unlabeled". `data` is a
    uint8 array (N, 3, 96, 96), `labels` an int array with -1 for unlabeled images.
    """

    base_folder = "stl10_binary"
    url = "http://ai.stanford.edu/~acoates/stl10/stl10_binary.tar.gz"
    filename, tgz_md5 = "stl10_binary.tar.gz", "91f7769df0f17e558f3565bffb0c7dfb"
    splits = ("train", "train+unlabeled", "unlabeled", "test")

    def __init__(
        self,
        root: str | Path,
        split: str = "train",
        folds: int | None = None,
        transform: Callable | None = None,
        target_transform: Callable | None = None,
        download: bool = False,
    ):
        super().__init__(root, transform=transform, target_transform=target_transform)
        self.split = checked_choice(split, "split", self.splits)
        if folds is not None and (isinstance(folds, bool) or not isinstance(folds, int) or not 0 <= folds < 10):
            raise ValueError(f"Value for argument folds should be None or an int in the range [0, 10), but got {folds!r}.")
        self.folds = folds if split.startswith("train") else None
        if download:
            self.download()
        if not self._check_integrity():
            where = "STL-10 (stl10_binary.tar.gz) is published by Stanford University."
            raise absent("STL10", os.path.join(self.root, self.base_folder), self._wanted(), where)
        self.data, self.labels = self._part(split.partition("+")[0])
        if "+" in split:
            images, labels = self._part("unlabeled")
            self.data, self.labels = numpy.concatenate([self.data, images]), numpy.concatenate([self.labels, labels])
        self.classes = Path(self._path("class_names.txt")).read_text(encoding="utf-8").split()

    def _path(self, name: str) -> str:
        return os.path.join(self.root, self.base_folder, name)

    def _part(self, name: str) -> tuple[numpy.ndarray, numpy.ndarray]:
        """Return the images of one part, and their labels starting at 0."""
        images = numpy.fromfile(self._path(f"{name}_X.bin"), numpy.uint8)
        if images.size % numpy.prod(_IMAGE):
            raise RuntimeError(f"{self._path(f'{name}_X.bin')} is damaged: {images.size} bytes are no whole number of images {_IMAGE}")
        images = images.reshape(-1, *_IMAGE).transpose(0, 1, 3, 2)  # stored in column-major order
        if name == "unlabeled":
            return images, numpy.full(len(images), -1)
        labels = numpy.fromfile(self._path(f"{name}_y.bin"), numpy.uint8).astype(numpy.int64) - 1
        if len(labels) != len(images):
            raise RuntimeError(f"{self._path(f'{name}_y.bin')}: expected {len(images)} labels, one for each image, got {len(labels)}")
        if name == "train" and self.folds is not None:
            kept = self._fold(len(images))
            images, labels = images[kept], labels[kept]
        return images, labels

    def _fold(self, count: int) -> numpy.ndarray:
        path = self._path("fold_indices.txt")
        lines = Path(path).read_text(encoding="utf-8").splitlines()
        try:
            found = numpy.array([int(word) for word in lines[self.folds or 0].split()])
        except (IndexError, ValueError) as error:
            raise RuntimeError(f"{path} is damaged: expected ten lines of numbers: {error}") from error
        if found.size == 0 or found.min() < 0 or found.max() >= count:
            raise RuntimeError(f"{path} is damaged: line {(self.folds or 0) + 1} should have numbers of images, 0 to {count - 1}")
        return found

    def download(self) -> None:
        """Download the archive if files are missing, and unpack it. Raises RuntimeError if that fails."""
        if not self._check_integrity():
            archive = os.path.join(self.root, self.filename)
            fetch_archive(self.url, archive, self.tgz_md5, os.path.join(self.root, self.base_folder), self.base_folder)

    def _check_integrity(self) -> bool:
        return all(os.path.isfile(self._path(name)) for name in self._wanted())

    def _wanted(self) -> list[str]:
        wanted = [f"{name}_X.bin" for name in self.split.split("+")] + ["class_names.txt"]
        wanted += [] if self.split == "unlabeled" else [f"{self.split.partition('+')[0]}_y.bin"]
        return wanted if self.folds is None else [*wanted, "fold_indices.txt"]

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        from PIL import Image

        image = numpy.ascontiguousarray(self.data[index].transpose(1, 2, 0))
        return self._transformed(Image.fromarray(image), int(self.labels[index]))

    def __len__(self) -> int:
        return len(self.data)

    def extra_repr(self) -> str:
        return f"Split: {self.split}"
