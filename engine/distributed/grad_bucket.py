"""`GradBucket`: what a communication hook of DistributedDataParallel is given."""

from __future__ import annotations

from ..core.tensor import Tensor


class GradBucket:
    """Gradients that travel in one message: `buffer()` has them in one row, those of the last parameters first."""

    def __init__(self, index: int, is_last: bool, buffer: Tensor, parameters: list[Tensor]) -> None:
        self._index, self._is_last, self._buffer, self._parameters = index, is_last, buffer, parameters

    def index(self) -> int:
        """The bucket's number: 0 for the one that is sent first."""
        return self._index

    def is_last(self) -> bool:
        """Whether no other bucket of this backward pass follows."""
        return self._is_last

    def buffer(self) -> Tensor:
        """The gradients in one row."""
        return self._buffer

    def set_buffer(self, buffer: Tensor) -> None:
        """Replace the row, by a compressed one say."""
        self._buffer = buffer

    def parameters(self) -> list[Tensor]:
        """The parameters, in the order of the row."""
        return list(self._parameters)

    def gradients(self) -> list[Tensor]:
        """The row's pieces in the parameters' shapes; they share its memory."""
        found, at = [], 0
        for param in self._parameters:
            found.append(self._buffer[at : at + param.numel()].view(param.shape))
            at += param.numel()
        return found
