"""Street View House Numbers (SVHN): cropped digits, from MATLAB files."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy

from .download import fetch
from .vision import VisionDataset, absent, checked_choice


class SVHN(VisionDataset):
    """SVHN: digits of house numbers, 32 x 32 pixels, RGB, from root/SPLIT_32x32.mat; `split` is "train", "test" or "extra".

    `data` is a uint8 array (N, 3, 32, 32), `labels` an int array; the digit 0, stored as 10 in the files, is 0.
    """

    split_list = {  # address, file, MD5
        split: [f"http://ufldl.stanford.edu/housenumbers/{split}_32x32.mat", f"{split}_32x32.mat", md5]
        for split, md5 in {
            "train": "e26dedcc434d2e4c54c9b2d4a06d8373",
            "test": "eb5a983be6a315427106f1b164d9cef3",
            "extra": "a93ce644f1a588dc4d68dda5feec44a7",
        }.items()
    }

    def __init__(
        self,
        root: str | Path,
        split: str = "train",
        transform: Callable | None = None,
        target_transform: Callable | None = None,
        download: bool = False,
    ):
        super().__init__(root, transform=transform, target_transform=target_transform)
        self.split = checked_choice(split, "split", ("train", "extra", "test"))
        self.filename = f"{split}_32x32.mat"
        if download:
            self.download()
        if not os.path.isfile(os.path.join(self.root, self.filename)):
            raise absent("SVHN", self.root, [self.filename], "SVHN (format 2, cropped digits) is published by Stanford University.")
        self.data, self.labels = self._load()

    def download(self) -> None:
        """Download the split's file if it is missing. Raises RuntimeError if that fails."""
        url, name, md5 = self.split_list[self.split]
        fetch([url], os.path.join(self.root, name), md5)

    def _load(self) -> tuple[numpy.ndarray, numpy.ndarray]:
        from scipy.io import loadmat

        path = os.path.join(self.root, self.filename)
        try:
            found = loadmat(path, variable_names=["X", "y"])
        except Exception as error:  # SciPy raises errors of zlib, struct and others
            raise RuntimeError(f"{path} is damaged: {type(error).__name__}: {error}") from error
        images: Any = found.get("X")
        labels: Any = found.get("y")
        if not (_is_array(images, "u") and images.shape[:-1] == (32, 32, 3) and images.itemsize == 1):
            raise RuntimeError(f"{path}: expected images X (32, 32, 3, N) of bytes, got {_told(images)}")
        if not (_is_array(labels, "uif") and labels.size == images.shape[3]):
            raise RuntimeError(f"{path}: expected {images.shape[3]} labels y, one for each image, got {_told(labels)}")
        labels = labels.astype(numpy.int64).reshape(-1)
        return images.transpose(3, 2, 0, 1), numpy.where(labels == 10, 0, labels)

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        from PIL import Image

        return self._transformed(Image.fromarray(self.data[index].transpose(1, 2, 0)), int(self.labels[index]))

    def __len__(self) -> int:
        return len(self.data)

    def extra_repr(self) -> str:
        return f"Split: {self.split.capitalize()}"


def _is_array(x: Any, kinds: str) -> bool:
    return isinstance(x, numpy.ndarray) and x.dtype.kind in kinds


def _told(x: Any) -> str:
    return "none" if x is None else f"{x.shape} of {x.dtype}" if isinstance(x, numpy.ndarray) else f"a {type(x).__name__}"
