"""`DataParallel` under PyTorch's name: the module runs on a single device."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, Generic, TypeVar

from .. import cuda
from ..core import devices
from ..core.tensor import Tensor
from .module import Module

T = TypeVar("T", bound=Module)  # `DataParallel[Linear]`


def moved(values: Any, device: Any) -> Any:
    """Move the tensors in nested tuples, lists and dicts to a device."""
    if isinstance(values, Tensor):
        return values.to(device)
    if isinstance(values, dict):
        return {k: moved(v, device) for k, v in values.items()}
    if type(values) in (list, tuple):
        return type(values)(moved(v, device) for v in values)
    return values


class DataParallel(Module, Generic[T]):
    """PyTorch's wrapper for several GPUs: the whole batch runs on the first of `device_ids`, or unmoved if there is no GPU.

    Results equal those of one device. PyTorch's differ only for batch norm, which there sees part of the batch on each GPU.
    """

    def __init__(self, module: Module, device_ids: Sequence[Any] | None = None, output_device: Any = None, dim: int = 0):
        super().__init__()
        ids = list(range(cuda.device_count())) if device_ids is None else list(device_ids)
        ids = ids if cuda.is_available() else []
        self.module, self.dim = module, dim
        self.device_ids = [_as_id(d) for d in ids]
        self.output_device = None
        if self.device_ids:
            self.output_device = self.device_ids[0] if output_device is None else _as_id(output_device)
            module.to(f"cuda:{self.device_ids[0]}")
        if len(self.device_ids) > 1:
            warnings.warn(f"DataParallel runs on one GPU here: all of the batch goes to cuda:{self.device_ids[0]}", stacklevel=2)

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        if not self.device_ids:
            return self.module(*inputs, **kwargs)
        first = f"cuda:{self.device_ids[0]}"
        return moved(self.module(*moved(inputs, first), **moved(kwargs, first)), f"cuda:{self.output_device}")


def _as_id(place: Any) -> int:
    """Return a GPU's index."""
    return place if isinstance(place, int) else devices.device(place).index or 0


def data_parallel(
    module: Module, inputs: Any, device_ids: Sequence[Any] | None = None, output_device: Any = None, dim: int = 0, module_kwargs: Any = None
) -> Any:
    """Return `DataParallel(module)(*inputs)`."""
    inputs = inputs if isinstance(inputs, tuple) else (inputs,)
    return DataParallel(module, device_ids, output_device, dim)(*inputs, **(module_kwargs or {}))
