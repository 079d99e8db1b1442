"""`GradBucket`: the argument of communication hooks of DistributedDataParallel."""

from __future__ import annotations

from ..core.tensor import Tensor


class GradBucket:
    """Gradients sent in one message; `buffer()` holds them flat, in reverse order of the parameters."""

    def __init__(self, index: int, is_last: bool, buffer: Tensor, parameters: list[Tensor]) -> None:
        self._index, self._is_last, self._buffer, self._parameters = index, is_last, buffer, parameters

    def index(self) -> int:
        """Return the bucket's index in sending order."""
        return self._index

    def is_last(self) -> bool:
        """Return whether this is the last bucket of the backward pass."""
        return self._is_last

    def buffer(self) -> Tensor:
        """Return the flat gradients."""
        return self._buffer

    def set_buffer(self, buffer: Tensor) -> None:
        """Replace the flat gradients, for example by compressed ones."""
        self._buffer = buffer

    def parameters(self) -> list[Tensor]:
        """Return the parameters in the order of the buffer."""
        return list(self._parameters)

    def gradients(self) -> list[Tensor]:
        """Return the gradients as views of the buffer in the parameters' shapes."""
        found, at = [], 0
        for param in self._parameters:
            found.append(self._buffer[at : at + param.numel()].view(param.shape))
            at += param.numel()
        return found
