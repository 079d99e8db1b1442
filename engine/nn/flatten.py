"""`Flatten` and `Unflatten`: merge several dimensions into one, or split one into several."""

from __future__ import annotations

from typing import Any

from ..core.tensor import Tensor
from .module import Module


class Flatten(Module):
    """Flatten dimensions `start_dim` to `end_dim` into one; by default `(N, C, H, W)` to `(N, C*H*W)`."""

    def __init__(self, start_dim: int = 1, end_dim: int = -1):
        super().__init__()
        self.start_dim, self.end_dim = start_dim, end_dim

    def forward(self, input: Tensor) -> Tensor:
        return input.flatten(self.start_dim, self.end_dim)

    def extra_repr(self) -> str:
        return f"start_dim={self.start_dim}, end_dim={self.end_dim}"


class Unflatten(Module):
    """Split dimension `dim` into dimensions of sizes `unflattened_size`."""

    def __init__(self, dim: int, unflattened_size: Any):
        super().__init__()
        if not isinstance(dim, int):
            raise TypeError(f"unflatten: expected an int for dim, got {type(dim).__name__}")
        if not (isinstance(unflattened_size, (tuple, list)) and all(isinstance(n, int) for n in unflattened_size)):
            raise TypeError(f"unflatten: expected a tuple of ints for unflattened_size, got {unflattened_size!r}")
        self.dim, self.unflattened_size = dim, unflattened_size

    def forward(self, input: Tensor) -> Tensor:
        return input.unflatten(self.dim, self.unflattened_size)

    def extra_repr(self) -> str:
        return f"dim={self.dim}, unflattened_size={self.unflattened_size}"
