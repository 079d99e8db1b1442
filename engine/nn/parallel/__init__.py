"""Modules on several devices or in several processes, under PyTorch's names."""

from typing import Any

from ...compat import missing
from ..data_parallel import DataParallel, data_parallel
from .parallel_apply import parallel_apply
from .replicate import replicate
from .scatter_gather import gather, scatter, scatter_kwargs

__all__ = [
    "DataParallel", "DistributedDataParallel", "data_parallel", "gather", "parallel_apply", "replicate", "scatter", "scatter_kwargs",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name == "DistributedDataParallel":
        from importlib import import_module

        return getattr(import_module("engine.distributed"), name)
    return missing.attribute(__name__, name, 2)
