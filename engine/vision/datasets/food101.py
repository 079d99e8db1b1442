"""Food-101, with its official splits."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .folder import default_loader
from .vision import VisionDataset, absent, checked_choice


class Food101(VisionDataset):
    """Photographs of 101 dishes of various sizes, 750 per class for training and 250 for testing.

    Reads images/CLASS/NUMBER.jpg in root/food-101, listed in meta/train.json and meta/test.json.
    """

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
        self.download()
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
        """Raise RuntimeError, naming the expected files, if any is missing. Nothing is downloaded."""
        listed = os.path.join("meta", f"{self._split}.json")
        if not (self._base / listed).is_file() or not (self._base / "images").is_dir():
            raise absent("Food101", self._base, [listed, "images"], "Food-101 (food-101.tar.gz) is published by ETH Zurich.")

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        return self._transformed(self.loader(self._image_files[index]), self._labels[index])

    def __len__(self) -> int:
        return len(self._image_files)

    def extra_repr(self) -> str:
        return f"split={self._split}"
