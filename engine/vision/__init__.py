"""`engine.vision`: torchvision's transforms, datasets (from local files), models, operators and utilities, on Pillow."""

from __future__ import annotations

from typing import Any

from engine.base import addresses

__version__ = "0.28.0+engine"  # the torchvision version for PyTorch 2.13, with a local part
_LATER = frozenset({"datasets", "io", "models", "ops", "transforms", "utils"})
_image_backend = "PIL"


def set_image_backend(backend: str) -> None:
    """Set the image backend; raises ValueError unless it is "PIL"."""
    if backend != "PIL":
        raise ValueError(f"Invalid backend '{backend}'. This engine reads images with Pillow: the option is 'PIL'")


def get_image_backend() -> str:
    """Return "PIL"."""
    return _image_backend


def disable_beta_transforms_warning() -> None:
    """Do nothing: there is no such warning."""


def __getattr__(name: str) -> Any:
    __tracebackhide__ = True
    return addresses.attribute(__name__, name, 2)
