"""Food-101, with its official splits."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .download import fetch_archive
from .folder import default_loader
from .vision import VisionDataset, absent, checked_choice


class Food101(VisionDataset):
    """Photographs of 101 dishes of various sizes, 750 per class for training and 250 for testing.

    Reads images/CLASS/NUMBER.jpg in root/food-101, listed in meta/train.json and meta/test.json.
    """

    url, md5 = "http://data.vision.ee.ethz.ch/cvl/food-101.tar.gz", "85eeb15f3717b99a5da872d97d918f87"

    def __init__(
        self,
        root: str | Path,
        split: str = "train",
        transform: Callable | None = None,
        target_transform: Callable | None = None,
        download: bool = False,
        loader: Callable[[str], Any] = default_loader,
    ):
        super().__init__(root, transform=transform, target_transform=target_transform)
        self._split = checked_choice(split, "split", ("train", "test"))
        self._base, self.loader = Path(self.root) / "food-101", loader
        if download:
            self.download()
        if not self._check_exists():
            wanted = [os.path.join("meta", f"{self._split}.json"), "images"]
            raise absent("Food101", self._base, wanted, "Food-101 (food-101.tar.gz) is published by ETH Zurich.")
        listed = self._listed()
        self.classes = sorted(listed)
        self.class_to_idx = {name: i for i, name in enumerate(self.classes)}
        pairs = [(self._base / "images" / f"{path}.jpg", self.class_to_idx[name]) for name, paths in listed.items() for path in paths]
        self._image_files, self._labels = [str(path) for path, _ in pairs], [label for _, label in pairs]

    def _listed(self) -> dict[str, list[str]]:
        path = self._base / "meta" / f"{self._split}.json"
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
        except ValueError as error:
            raise RuntimeError(f"{path} is damaged: {error}") from error
        if not isinstance(found, dict) or not all(isinstance(paths, list) for paths in found.values()):
            raise RuntimeError(f"{path}: expected lists of paths by the names of classes")
        return found

    def download(self) -> None:
        """Download the archive (5 GB) if files are missing, and unpack it. Raises RuntimeError if that fails."""
        if not self._check_exists():
            archive = os.path.join(self.root, "food-101.tar.gz")
            fetch_archive(self.url, archive, self.md5, self._base, "food-101")

    def _check_exists(self) -> bool:
        return (self._base / "meta" / f"{self._split}.json").is_file() and (self._base / "images").is_dir()

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        return self._transformed(self.loader(self._image_files[index]), self._labels[index])

    def __len__(self) -> int:
        return len(self._image_files)

    def extra_repr(self) -> str:
        return f"split={self._split}"
