"""Modules on several devices or in several processes, under PyTorch's names."""

from typing import Any

from ...base import addresses
from ..data_parallel import DataParallel, data_parallel
from .parallel_apply import parallel_apply
from .replicate import replicate
from .scatter_gather import gather, scatter, scatter_kwargs

__all__ = [
    "DataParallel", "DistributedDataParallel", "data_parallel", "gather", "parallel_apply", "replicate", "scatter", "scatter_kwargs",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    return addresses.attribute(__name__, name, 2)
