"""Convolution and transposed convolution layers in one to three dimensions, and their lazy forms."""

from __future__ import annotations

import math
from typing import Any, ClassVar

from ..core.tensor import Tensor
from . import functional as F
from . import init
from .lazy import LazyModuleMixin
from .module import Module, sizes
from .parameter import Parameter, UninitializedParameter, blank


class _ConvNd(Module):
    """Base of all convolutions: `(N, C_in, *)` to `(N, C_out, *)`; the batch dimension is optional.

    `weight` and `bias` are initialized from U(-k, k) with k = 1 / sqrt(fan_in), and fan_in = weight.shape[1] * prod(kernel_size).
    """

    dims: ClassVar[int]
    transposed: ClassVar[bool] = False
    weight: Parameter
    bias: Parameter | None

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: Any, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1,
        bias: bool = True, padding_mode: str = "zeros", device: Any = None, dtype: Any = None, output_padding: Any = 0,
    ):  # fmt: skip
        super().__init__()
        n = self.dims
        if groups <= 0:
            raise ValueError("groups must be a positive integer")
        if in_channels % groups != 0:
            raise ValueError("in_channels must be divisible by groups")
        if out_channels % groups != 0:
            raise ValueError("out_channels must be divisible by groups")
        modes = {"zeros"} if self.transposed else {"zeros", "reflect", "replicate", "circular"}
        if padding_mode not in modes:
            if self.transposed:
                raise ValueError(f'Only "zeros" padding mode is supported for {type(self).__name__}')
            raise ValueError(f"padding_mode must be one of {modes}, but got padding_mode='{padding_mode}'")
        self.in_channels, self.out_channels, self.groups, self.padding_mode = in_channels, out_channels, groups, padding_mode
        self.kernel_size, self.stride, self.dilation = sizes(kernel_size, n), sizes(stride, n), sizes(dilation, n)
        self.output_padding = sizes(output_padding, n)
        if isinstance(padding, str):
            if padding not in ("same", "valid"):
                raise ValueError(f"Invalid padding string '{padding}', should be one of {{'valid', 'same'}}")
            if padding == "same" and any(s != 1 for s in self.stride):
                raise ValueError("padding='same' is not supported for strided convolutions")
            self.padding: Any = padding
        else:
            self.padding = sizes(padding, n)
        self._reversed_padding_repeated_twice = self._borders()
        shape = self._weight_shape()
        self.weight = blank(*shape, device=device, dtype=dtype)
        self.register_parameter("bias", blank(out_channels, device=device, dtype=dtype) if bias else None)
        self.reset_parameters()

    def _weight_shape(self) -> tuple:
        first, second = (self.in_channels, self.out_channels) if self.transposed else (self.out_channels, self.in_channels)
        return (first, second // self.groups, *self.kernel_size)

    def reset_parameters(self) -> None:
        """Reinitialize weight and bias."""
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            fan_in, _ = init.fans(self.weight)
            if fan_in != 0:
                bound = 1 / math.sqrt(fan_in)
                init.uniform_(self.bias, -bound, bound)

    def _borders(self) -> list[int]:
        """Return the padding of each side, last dimension first, in the order of `F.pad`."""
        if isinstance(self.padding, tuple):
            return [p for size in reversed(self.padding) for p in (size, size)]
        totals = [d * (k - 1) if self.padding == "same" else 0 for d, k in zip(self.dilation, self.kernel_size, strict=True)]
        return [p for total in reversed(totals) for p in (total // 2, total - total // 2)]

    def extra_repr(self) -> str:
        zero, one = (0,) * self.dims, (1,) * self.dims
        return "".join(
            (
                f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, stride={self.stride}",
                "" if self.padding == zero else f", padding={self.padding}",
                "" if self.dilation == one else f", dilation={self.dilation}",
                "" if self.output_padding == zero else f", output_padding={self.output_padding}",
                "" if self.groups == 1 else f", groups={self.groups}",
                "" if self.bias is not None else ", bias=False",
                "" if self.padding_mode == "zeros" else f", padding_mode={self.padding_mode}",
            )
        )


class _PlainConv(_ConvNd):
    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: Any, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1,
        bias: bool = True, padding_mode: str = "zeros", device: Any = None, dtype: Any = None,
    ):  # fmt: skip
        super().__init__(in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias, padding_mode, device, dtype)

    def forward(self, input: Tensor) -> Tensor:
        return self._conv_forward(input, self.weight, self.bias)

    def _conv_forward(self, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        """Apply the convolution with the given weight and bias; a PyTorch method that subclasses may override."""
        raise NotImplementedError(f"{type(self).__name__} has no _conv_forward")

    def _convolved(self, conv: Any, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        if self.padding_mode == "zeros":
            return conv(input, weight, bias, self.stride, self.padding, self.dilation, self.groups)
        padded = F.pad(input, self._reversed_padding_repeated_twice, mode=self.padding_mode)
        return conv(padded, weight, bias, self.stride, (0,) * self.dims, self.dilation, self.groups)


class Conv1d(_PlainConv):
    """1D cross-correlation: `(N, C_in, L)` to `(N, C_out, L_out)`, with `weight` `(C_out, C_in / groups, k)`.

    L_out = (L + 2 padding - dilation (k - 1) - 1) // stride + 1.
    """

    dims = 1

    def _conv_forward(self, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        return self._convolved(F.conv1d, input, weight, bias)


class Conv2d(_PlainConv):
    """2D cross-correlation: `(N, C_in, H, W)` to `(N, C_out, H_out, W_out)`, with `weight` `(C_out, C_in / groups, kH, kW)`.

    H_out = (H + 2 padding - dilation (kH - 1) - 1) // stride + 1, and W_out alike.
    """

    dims = 2

    def _conv_forward(self, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        return self._convolved(F.conv2d, input, weight, bias)


class Conv3d(_PlainConv):
    """3D cross-correlation: `(N, C_in, D, H, W)` to `(N, C_out, *out)`, with `weight` `(C_out, C_in / groups, kD, kH, kW)`.

    Each output size is (size + 2 padding - dilation (k - 1) - 1) // stride + 1.
    """

    dims = 3

    def _conv_forward(self, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        return self._convolved(F.conv3d, input, weight, bias)


class _ConvTransposeNd(_ConvNd):
    transposed = True

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: Any, stride: Any = 1, padding: Any = 0, output_padding: Any = 0,
        groups: int = 1, bias: bool = True, dilation: Any = 1, padding_mode: str = "zeros", device: Any = None, dtype: Any = None,
    ):  # fmt: skip
        super().__init__(
            in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias, padding_mode, device, dtype, output_padding
        )

    def _spread(self, conv: Any, input: Tensor, output_size: Any) -> Tensor:
        extra = self._output_padding(input, output_size, self.stride, self.padding, self.kernel_size, self.dims, self.dilation)
        return conv(input, self.weight, self.bias, self.stride, self.padding, extra, self.groups, self.dilation)

    def _output_padding(
        self, input: Tensor, output_size: Any, stride: Any, padding: Any, kernel_size: Any, num_spatial_dims: int, dilation: Any = None
    ) -> tuple:
        """Return the output padding that yields `output_size`; a stride above 1 makes several sizes possible."""
        if output_size is None:
            return sizes(self.output_padding, num_spatial_dims)
        n, output_size = num_spatial_dims, list(output_size)
        if len(output_size) in (n + 1, n + 2) and len(output_size) == input.ndim:
            output_size = output_size[-n:]
        if len(output_size) != n:
            raise ValueError(
                f"ConvTranspose{n}D: for {input.ndim}D input, output_size must have {n} or {input.ndim} elements (got {len(output_size)})"
            )
        least = [
            (size - 1) * s - 2 * p + d * (k - 1) + 1
            for size, s, p, d, k in zip(input.shape[-n:], stride, padding, dilation or (1,) * n, kernel_size, strict=True)
        ]
        most = [low + s - 1 for low, s in zip(least, stride, strict=True)]
        if any(not low <= size <= high for low, size, high in zip(least, output_size, most, strict=True)):
            raise ValueError(
                f"requested an output size of {output_size}, but valid sizes range from {least} to {most} "
                f"(for an input of {list(input.shape[-n:])})"
            )
        return tuple(size - low for size, low in zip(output_size, least, strict=True))


class ConvTranspose1d(_ConvTransposeNd):
    """1D transposed convolution: the gradient of `Conv1d` with respect to its input; `weight` is `(C_in, C_out / groups, k)`.

    L_out = (L - 1) stride - 2 padding + dilation (k - 1) + output_padding + 1; `forward(input, output_size)` chooses the output padding.
    """

    dims = 1

    def forward(self, input: Tensor, output_size: Any = None) -> Tensor:
        return self._spread(F.conv_transpose1d, input, output_size)


class ConvTranspose2d(_ConvTransposeNd):
    """2D transposed convolution: the gradient of `Conv2d` with respect to its input; `weight` is `(C_in, C_out / groups, kH, kW)`.

    H_out = (H - 1) stride - 2 padding + dilation (kH - 1) + output_padding + 1; `forward(input, output_size)` chooses the output padding.
    """

    dims = 2

    def forward(self, input: Tensor, output_size: Any = None) -> Tensor:
        return self._spread(F.conv_transpose2d, input, output_size)


class ConvTranspose3d(_ConvTransposeNd):
    """3D transposed convolution: the gradient of `Conv3d` with respect to its input; `weight` is `(C_in, C_out / groups, kD, kH, kW)`.

    Output sizes are as in `ConvTranspose2d`.
    """

    dims = 3

    def forward(self, input: Tensor, output_size: Any = None) -> Tensor:
        return self._spread(F.conv_transpose3d, input, output_size)


class _LazyConvNd(LazyModuleMixin, _ConvNd):
    """Base of convolutions that infer `in_channels` from their first input."""

    def _wait(self, out_channels: int, bias: bool, device: Any, dtype: Any) -> None:
        self.out_channels = out_channels
        self.weight = UninitializedParameter(device=device, dtype=dtype)
        if bias:
            self.bias = UninitializedParameter(device=device, dtype=dtype)

    def initialize_parameters(self, input: Tensor, *args: Any, **kwargs: Any) -> None:
        """Infer `in_channels` from the input and initialize the weights."""
        if input.ndim not in (self.dims + 1, self.dims + 2):
            raise RuntimeError(
                f"Expected {self.dims + 1}D (unbatched) or {self.dims + 2}D (batched) input to {type(self).__name__}, "
                f"but got input of size: {tuple(input.shape)}"
            )
        self.in_channels = input.shape[-self.dims - 1]
        if self.in_channels % self.groups != 0:
            raise ValueError("in_channels must be divisible by groups")
        self._give_shapes(weight=self._weight_shape(), bias=(self.out_channels,))


class _LazyPlainConv(_LazyConvNd):
    def __init__(
        self, out_channels: int, kernel_size: Any, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1, bias: bool = True,
        padding_mode: str = "zeros", device: Any = None, dtype: Any = None,
    ):  # fmt: skip
        super().__init__(0, 0, kernel_size, stride, padding, dilation, groups, False, padding_mode, device, dtype)
        self._wait(out_channels, bias, device, dtype)


class _LazyConvTranspose(_LazyConvNd):
    def __init__(
        self, out_channels: int, kernel_size: Any, stride: Any = 1, padding: Any = 0, output_padding: Any = 0, groups: int = 1,
        bias: bool = True, dilation: Any = 1, padding_mode: str = "zeros", device: Any = None, dtype: Any = None,
    ):  # fmt: skip
        super().__init__(0, 0, kernel_size, stride, padding, output_padding, groups, False, dilation, padding_mode, device, dtype)
        self._wait(out_channels, bias, device, dtype)


class LazyConv1d(_LazyPlainConv, Conv1d):
    """`Conv1d` that infers `in_channels` from its first input."""

    cls_to_become = Conv1d


class LazyConv2d(_LazyPlainConv, Conv2d):
    """`Conv2d` that infers `in_channels` from its first input."""

    cls_to_become = Conv2d


class LazyConv3d(_LazyPlainConv, Conv3d):
    """`Conv3d` that infers `in_channels` from its first input."""

    cls_to_become = Conv3d


class LazyConvTranspose1d(_LazyConvTranspose, ConvTranspose1d):
    """`ConvTranspose1d` that infers `in_channels` from its first input."""

    cls_to_become = ConvTranspose1d


class LazyConvTranspose2d(_LazyConvTranspose, ConvTranspose2d):
    """`ConvTranspose2d` that infers `in_channels` from its first input."""

    cls_to_become = ConvTranspose2d


class LazyConvTranspose3d(_LazyConvTranspose, ConvTranspose3d):
    """`ConvTranspose3d` that infers `in_channels` from its first input."""

    cls_to_become = ConvTranspose3d
