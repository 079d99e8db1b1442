"""PyTorch's private address of collectives that give new tensors; libraries import two of them."""

from __future__ import annotations

from typing import Any, NoReturn

from ..core.tensor import Tensor


def wait_tensor(tensor: Tensor) -> Tensor:
    """The tensor: what a collective gives here is there when it is given."""
    return tensor


def all_to_all_single_autograd(*args: Any, **kwargs: Any) -> NoReturn:
    """NotImplementedError: collectives here have no gradients."""
    raise NotImplementedError("all_to_all_single_autograd: collectives have no gradients in this engine")
