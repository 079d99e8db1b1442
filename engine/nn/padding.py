"""Padding layers: constant, zero, reflection, replication and circular, in one to three dimensions."""

from __future__ import annotations

from typing import Any, ClassVar

from ..core.tensor import Tensor
from . import functional as F
from .module import Module, sizes


class _Pad(Module):
    """Pads the last `dims` dimensions; `padding` is one number or (left, right, top, bottom, front, back)."""

    dims: ClassVar[int]
    mode: ClassVar[str] = "constant"
    value: float | None = None

    def __init__(self, padding: Any):
        super().__init__()
        self.padding = sizes(padding, 2 * self.dims)  # a wrong number of them is refused by the first call, as in PyTorch

    def forward(self, input: Tensor) -> Tensor:
        return F.pad(input, self.padding, self.mode, self.value)

    def extra_repr(self) -> str:
        return f"{self.padding}"


class _ConstantPadNd(_Pad):
    def __init__(self, padding: Any, value: float):
        super().__init__(padding)
        self.value = value

    def extra_repr(self) -> str:
        return f"padding={self.padding}, value={self.value}"


class _ZeroPad(_Pad):
    value = 0.0


class ConstantPad1d(_ConstantPadNd):
    """Pads with a constant value: `(N, C, W)`."""

    dims = 1


class ConstantPad2d(_ConstantPadNd):
    """Pads with a constant value: `(N, C, H, W)`."""

    dims = 2


class ConstantPad3d(_ConstantPadNd):
    """Pads with a constant value: `(N, C, D, H, W)`."""

    dims = 3


class ZeroPad1d(_ZeroPad):
    """Pads with zeros: `(N, C, W)`."""

    dims = 1


class ZeroPad2d(_ZeroPad):
    """Pads with zeros: `(N, C, H, W)`."""

    dims = 2


class ZeroPad3d(_ZeroPad):
    """Pads with zeros: `(N, C, D, H, W)`."""

    dims = 3


class _ReflectionPadNd(_Pad):
    mode = "reflect"


class ReflectionPad1d(_ReflectionPadNd):
    """Pads with the input mirrored at its border: `(N, C, W)`."""

    dims = 1


class ReflectionPad2d(_ReflectionPadNd):
    """Pads with the input mirrored at its border: `(N, C, H, W)`."""

    dims = 2


class ReflectionPad3d(_ReflectionPadNd):
    """Pads with the input mirrored at its border: `(N, C, D, H, W)`."""

    dims = 3


class _ReplicationPadNd(_Pad):
    mode = "replicate"


class ReplicationPad1d(_ReplicationPadNd):
    """Pads with the border's values: `(N, C, W)`."""

    dims = 1


class ReplicationPad2d(_ReplicationPadNd):
    """Pads with the border's values: `(N, C, H, W)`."""

    dims = 2


class ReplicationPad3d(_ReplicationPadNd):
    """Pads with the border's values: `(N, C, D, H, W)`."""

    dims = 3


class _CircularPadNd(_Pad):
    mode = "circular"

    def _check_input_dim(self, input: Tensor) -> None:
        low, high = self.dims + 1, self.dims + 2
        if input.ndim not in (low, high):
            raise ValueError(f"expected {low}D or {high}D input (got {input.ndim}D input)")

    def forward(self, input: Tensor) -> Tensor:
        self._check_input_dim(input)
        return super().forward(input)


class CircularPad1d(_CircularPadNd):
    """Pads with the values of the opposite side: `(N, C, W)`."""

    dims = 1


class CircularPad2d(_CircularPadNd):
    """Pads with the values of the opposite side: `(N, C, H, W)`."""

    dims = 2


class CircularPad3d(_CircularPadNd):
    """Pads with the values of the opposite side: `(N, C, D, H, W)`."""

    dims = 3
