"""The few names of PyTorch's private `torch._C` that public libraries use."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from ..core import devices
from ..core.batching import running
from ..core.random import Generator
from ..core.tensor import Tensor
from ..core.undispatched import DisableTorchFunctionSubclass
from ..core.undispatched import disabled_torch_function as _disabled_torch_function_impl
from ..nn import moving
from .jit_types import *  # noqa: F403

__all__ = ["DisableTorchFunctionSubclass", "Generator", "Graph", "Node", "ScriptMethod", "Value", "_disabled_torch_function_impl"]

_TensorMeta = type(Tensor)  # the metaclass of tensors, from which programs derive their own


def _get_default_device() -> str:
    """Return the type of the default device."""
    return "cpu" if devices.default is None else devices.default.type


def _parse_to(*args: Any, **kwargs: Any) -> tuple:
    """Parse the arguments of `Module.to(...)`: device, dtype, `non_blocking`, `memory_format`."""
    device, dtype = moving.destination(args, {k: v for k, v in kwargs.items() if k != "memory_format"})
    return device, dtype, bool(kwargs.get("non_blocking", False)), kwargs.get("memory_format")


class Graph:
    """Placeholder for TorchScript graphs, which programs import for annotations; raises NotImplementedError."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise NotImplementedError(f"torch._C.{type(self).__name__}: there is no TorchScript in this engine, and so no graph of its")


class Node(Graph):
    """Placeholder for a node in such a graph."""


class Value(Graph):
    """Placeholder for a value in such a graph."""


class ScriptMethod(Graph):
    """Placeholder for a compiled method of a scripted module, which is the Python method here."""


_nn = SimpleNamespace(_parse_to=_parse_to)


def _log_api_usage_once(event: str) -> None:
    """Do nothing: usage is not logged."""


def _get_tracing_state() -> None:
    """Return None: `torch.jit` never records a trace."""


def _are_functorch_transforms_active() -> bool:
    """Return whether a `vmap` is active in this thread; inside other transforms, values can be read."""
    return bool(running.levels)
