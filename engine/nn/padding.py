"""Padding layers: constant, zero, reflection, replication and circular, in one to three dimensions."""

from __future__ import annotations

from typing import Any, ClassVar

from ..core.tensor import Tensor
from . import functional as F
from .module import Module, sizes


class _Pad(Module):
    """Pad the last `dims` dimensions; `padding` is one int or (left, right, top, bottom, front, back)."""

    dims: ClassVar[int]
    mode: ClassVar[str] = "constant"
    value: float | None = None

    def __init__(self, padding: Any):
        super().__init__()
        self.padding = sizes(padding, 2 * self.dims)  # a wrong length raises at the first call, as in PyTorch

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
    """Pad the last dimension of `(N, C, W)` or `(C, W)` with a constant; `padding` is an int or (left, right)."""

    dims = 1


class ConstantPad2d(_ConstantPadNd):
    """Pad `(N, C, H, W)` or `(C, H, W)` with a constant; `padding` is an int or (left, right, top, bottom)."""

    dims = 2


class ConstantPad3d(_ConstantPadNd):
    """Pad `(N, C, D, H, W)` or `(C, D, H, W)` with a constant; `padding` is an int or (left, right, top, bottom, front, back)."""

    dims = 3


class ZeroPad1d(_ZeroPad):
    """Pad the last dimension of `(N, C, W)` or `(C, W)` with zeros; `padding` is an int or (left, right)."""

    dims = 1


class ZeroPad2d(_ZeroPad):
    """Pad `(N, C, H, W)` or `(C, H, W)` with zeros; `padding` is an int or (left, right, top, bottom)."""

    dims = 2


class ZeroPad3d(_ZeroPad):
    """Pad `(N, C, D, H, W)` or `(C, D, H, W)` with zeros; `padding` is an int or (left, right, top, bottom, front, back)."""

    dims = 3


class _ReflectionPadNd(_Pad):
    mode = "reflect"


class ReflectionPad1d(_ReflectionPadNd):
    """Pad the last dimension of `(N, C, W)` or `(C, W)` by reflection at the border; `padding` is an int or (left, right)."""

    dims = 1


class ReflectionPad2d(_ReflectionPadNd):
    """Pad `(N, C, H, W)` or `(C, H, W)` by reflection at the border; `padding` is an int or (left, right, top, bottom)."""

    dims = 2


class ReflectionPad3d(_ReflectionPadNd):
    """Pad `(N, C, D, H, W)` or `(C, D, H, W)` by reflection; `padding` is an int or (left, right, top, bottom, front, back)."""

    dims = 3


class _ReplicationPadNd(_Pad):
    mode = "replicate"


class ReplicationPad1d(_ReplicationPadNd):
    """Pad the last dimension of `(N, C, W)` or `(C, W)` with its border values; `padding` is an int or (left, right)."""

    dims = 1


class ReplicationPad2d(_ReplicationPadNd):
    """Pad `(N, C, H, W)` or `(C, H, W)` with its border values; `padding` is an int or (left, right, top, bottom)."""

    dims = 2


class ReplicationPad3d(_ReplicationPadNd):
    """Pad `(N, C, D, H, W)` or `(C, D, H, W)` with its border values; `padding` is an int or (left, right, top, bottom, front, back)."""

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
    """Pad the last dimension of `(N, C, W)` or `(C, W)` with values from the opposite side; `padding` is an int or (left, right)."""

    dims = 1


class CircularPad2d(_CircularPadNd):
    """Pad `(N, C, H, W)` or `(C, H, W)` with values from the opposite side; `padding` is an int or (left, right, top, bottom)."""

    dims = 2


class CircularPad3d(_CircularPadNd):
    """Pad `(N, C, D, H, W)` or `(C, D, H, W)` with values from the opposite side; `padding` is an int or six ints, last dimension first."""

    dims = 3
