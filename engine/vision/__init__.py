"""`engine.vision`: torchvision's names, on Pillow: transforms, datasets that read local files, models, operators, pictures."""

from __future__ import annotations

from typing import Any

from engine.base import addresses

__version__ = "0.28.0+engine"  # torchvision's for PyTorch 2.13, and who answers
_LATER = frozenset({"datasets", "io", "models", "ops", "transforms", "utils"})
_image_backend = "PIL"


def set_image_backend(backend: str) -> None:
    """Only "PIL" is here; ValueError for anything else."""
    if backend != "PIL":
        raise ValueError(f"Invalid backend '{backend}'. This engine reads images with Pillow: the option is 'PIL'")


def get_image_backend() -> str:
    """ "PIL"."""
    return _image_backend


def disable_beta_transforms_warning() -> None:
    """Nothing: no warning is given."""


def __getattr__(name: str) -> Any:
    __tracebackhide__ = True
    return addresses.attribute(__name__, name, 2)
