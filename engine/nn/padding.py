"""Padding layers: constant, zero, reflection, replication and circular, in one to three dimensions."""

from __future__ import annotations

from typing import Any, ClassVar

from ..tensor import Tensor
from . import functional as F
from .module import Module, sizes


class _Pad(Module):
    """Pads the last `dims` dimensions; `padding` is one number or (left, right, top, bottom, front, back)."""

    dims: ClassVar[int]
    mode: ClassVar[str] = "constant"
    value: float | None = None

    def __init__(self, padding: Any):
        super().__init__()
        self.padding = sizes(padding, 2 * self.dims)
        if len(self.padding) != 2 * self.dims:
            raise ValueError(f"{type(self).__name__}: expected one number or {2 * self.dims} numbers for padding, got {len(self.padding)}")

    def forward(self, input: Tensor) -> Tensor:
        return F.pad(input, self.padding, self.mode, self.value)

    def extra_repr(self) -> str:
        return f"{self.padding}"


class _ConstantPad(_Pad):
    def __init__(self, padding: Any, value: float):
        super().__init__(padding)
        self.value = value

    def extra_repr(self) -> str:
        return f"padding={self.padding}, value={self.value}"


class _ZeroPad(_Pad):
    value = 0.0


class ConstantPad1d(_ConstantPad):
    """Pads with a constant value: `(N, C, W)`."""

    dims = 1


class ConstantPad2d(_ConstantPad):
    """Pads with a constant value: `(N, C, H, W)`."""

    dims = 2


class ConstantPad3d(_ConstantPad):
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


class ReflectionPad1d(_Pad):
    """Pads with the input mirrored at its border: `(N, C, W)`."""

    dims = 1
    mode = "reflect"


class ReflectionPad2d(_Pad):
    """Pads with the input mirrored at its border: `(N, C, H, W)`."""

    dims = 2
    mode = "reflect"


class ReflectionPad3d(_Pad):
    """Pads with the input mirrored at its border: `(N, C, D, H, W)`."""

    dims = 3
    mode = "reflect"


class ReplicationPad1d(_Pad):
    """Pads with the border's values: `(N, C, W)`."""

    dims = 1
    mode = "replicate"


class ReplicationPad2d(_Pad):
    """Pads with the border's values: `(N, C, H, W)`."""

    dims = 2
    mode = "replicate"


class ReplicationPad3d(_Pad):
    """Pads with the border's values: `(N, C, D, H, W)`."""

    dims = 3
    mode = "replicate"


class CircularPad1d(_Pad):
    """Pads with the values of the opposite side: `(N, C, W)`."""

    dims = 1
    mode = "circular"


class CircularPad2d(_Pad):
    """Pads with the values of the opposite side: `(N, C, H, W)`."""

    dims = 2
    mode = "circular"


class CircularPad3d(_Pad):
    """Pads with the values of the opposite side: `(N, C, D, H, W)`."""

    dims = 3
    mode = "circular"
