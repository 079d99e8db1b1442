"""The few names of PyTorch's private `torch._C` that public libraries ask for; everything else of it does not exist here."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from ..core import devices
from ..core.batching import running
from ..core.random import Generator
from ..core.subclasses import DisableTorchFunctionSubclass
from ..core.subclasses import disabled_torch_function as _disabled_torch_function_impl
from ..core.tensor import Tensor
from ..nn import moving
from .jit_types import *  # noqa: F403

__all__ = ["DisableTorchFunctionSubclass", "Generator", "Graph", "Node", "Value", "_disabled_torch_function_impl"]

_TensorMeta = type(Tensor)  # what a class of tensors is made by; a metaclass of a program's own derives from it


def _get_default_device() -> str:
    """The type of the device that new tensors go to."""
    return "cpu" if devices.default is None else devices.default.type


def _parse_to(*args: Any, **kwargs: Any) -> tuple:
    """What `Module.to(...)` was told: device, dtype, `non_blocking`, `memory_format`."""
    device, dtype = moving.destination(args, {k: v for k, v in kwargs.items() if k != "memory_format"})
    return device, dtype, bool(kwargs.get("non_blocking", False)), kwargs.get("memory_format")


class Graph:
    """A graph of TorchScript, of which there is none: programs name the class in imports and annotations."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise NotImplementedError(f"torch._C.{type(self).__name__}: there is no TorchScript in this engine, and so no graph of its")


class Node(Graph):
    """A node in such a graph."""


class Value(Graph):
    """A value in such a graph."""


_nn = SimpleNamespace(_parse_to=_parse_to)


def _log_api_usage_once(event: str) -> None:
    """Nothing is counted."""


def _get_tracing_state() -> None:
    """No trace is ever being recorded by `torch.jit`."""


def _are_functorch_transforms_active() -> bool:
    """Whether a `vmap` runs in this thread; of the other transforms values can be read all along."""
    return bool(running.levels)
