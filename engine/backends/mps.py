"""`engine.backends.mps`: Apple's GPUs, which are not used here."""

from __future__ import annotations


def is_available() -> bool:
    """False: tensors live on the CPU or on NVIDIA's GPUs."""
    return False


def is_built() -> bool:
    """False."""
    return False


def is_macos_or_newer(major: int, minor: int) -> bool:
    """False, as wherever Metal is not used."""
    return False


def is_macos13_or_newer(minor: int = 0) -> bool:
    """False, as wherever Metal is not used."""
    return False
