"""PyTorch's private module of collectives that return new tensors, as far as libraries import it."""

from __future__ import annotations

from typing import Any, NoReturn

from ..core.tensor import Tensor


def wait_tensor(tensor: Tensor) -> Tensor:
    """Return the tensor: collectives here complete before they return."""
    return tensor


def all_to_all_single_autograd(*args: Any, **kwargs: Any) -> NoReturn:
    """Raise NotImplementedError: use `torch.distributed.nn` for collectives with gradients."""
    raise NotImplementedError("all_to_all_single_autograd: collectives have no gradients in this engine")
