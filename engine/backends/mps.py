"""`engine.backends.mps`: queries about Apple GPUs, which the engine does not use."""

from __future__ import annotations


def is_available() -> bool:
    """Return False: tensors live on the CPU or on NVIDIA GPUs."""
    return False


def is_built() -> bool:
    """Return False: there is no Metal backend."""
    return False


def is_macos_or_newer(major: int, minor: int) -> bool:
    """Return False: there is no Metal backend."""
    return False


def is_macos13_or_newer(minor: int = 0) -> bool:
    """Return False: there is no Metal backend."""
    return False
