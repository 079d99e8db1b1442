"""`VisionDataset`: the base class of image datasets, with a root folder and transforms."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from engine.data.dataset import Dataset


class VisionDataset(Dataset):
    """Base class with `transform` for images and `target_transform` for targets, or `transforms` for both together."""

    _repr_indent = 4

    def __init__(
        self,
        root: Any = None,
        transforms: Callable | None = None,
        transform: Callable | None = None,
        target_transform: Callable | None = None,
    ):
        self.root = os.path.expanduser(root) if isinstance(root, (str, os.PathLike)) else root
        if transforms is not None and (transform is not None or target_transform is not None):
            raise ValueError("Only transforms or transform/target_transform can be passed as argument")
        self.transform, self.target_transform = transform, target_transform
        if transform is not None or target_transform is not None:
            transforms = StandardTransform(transform, target_transform)
        self.transforms = transforms

    def _transformed(self, image: Any, target: Any) -> tuple[Any, Any]:
        """Apply the current transform attributes, which a program may change, to image and target."""
        if self.transform is None and self.target_transform is None and self.transforms is not None:
            return self.transforms(image, target)
        if self.transform is not None:
            image = self.transform(image)
        if self.target_transform is not None:
            target = self.target_transform(target)
        return image, target

    def __getitem__(self, index: int) -> Any:
        raise NotImplementedError

    def __len__(self) -> int:
        raise NotImplementedError

    def extra_repr(self) -> str:
        """Return extra lines for `repr`."""
        return ""

    def __repr__(self) -> str:
        body = [f"Number of datapoints: {len(self)}"]
        body += [f"Root location: {self.root}"] if self.root is not None else []
        body += self.extra_repr().splitlines()
        body += [repr(self.transforms)] if self.transforms is not None else []
        return "\n".join([f"Dataset {type(self).__name__}", *(" " * self._repr_indent + line for line in body)])


class StandardTransform:
    """Combine one transform for the image and one for the target."""

    def __init__(self, transform: Callable | None = None, target_transform: Callable | None = None):
        self.transform, self.target_transform = transform, target_transform

    def __call__(self, input: Any, target: Any) -> tuple[Any, Any]:
        if self.transform is not None:
            input = self.transform(input)
        if self.target_transform is not None:
            target = self.target_transform(target)
        return input, target

    def __repr__(self) -> str:
        lines = ["StandardTransform"]
        for head, transform in (("Transform: ", self.transform), ("Target transform: ", self.target_transform)):
            if transform is not None:
                first, *rest = repr(transform).splitlines()
                lines += [head + first, *(" " * len(head) + line for line in rest)]
        return "\n".join(lines)


def checked_choice(value: Any, name: str, choices: Sequence[str]) -> str:
    """Return the value if it is one of the choices. Raises ValueError otherwise."""
    if value not in choices:
        raise ValueError(f"Unknown value {value!r} for argument {name}. Valid values are {list(choices)}.")
    return value


def absent(dataset: str, folder: str | Path, missing: Sequence[str], where: str) -> RuntimeError:
    """Return the error for missing files: which files, their folder, and where the data is available."""
    return RuntimeError(
        f"Dataset not found. {dataset} reads {', '.join(missing)} in {os.path.abspath(folder)}; download=True downloads them. {where}"
    )
