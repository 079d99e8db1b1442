"""`engine.version`: the PyTorch version that the engine follows, and the CUDA version."""

from __future__ import annotations

import importlib

from ..core import devices
from .torch_version import TorchVersion

__version__ = TorchVersion("2.13.0+engine")  # PyTorch's version, and "engine" as the local part
debug = False
git_version = "Unknown"
hip: str | None = None
xpu: str | None = None


def __getattr__(name: str) -> str | None:
    if name == "cuda":  # such as "12.8"; None without a GPU
        return importlib.import_module("engine.backends.gpu.runtime").version() if devices.cuda_available() else None
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
