"""Pooling layers: maximum, average, power mean, adaptive, fractional and unpooling."""

from __future__ import annotations

from typing import Any

from ..core.tensor import Tensor
from . import functional as F
from .module import Module, sizes


class _Window(Module):
    """Base of single-window pools, for their repr."""

    kernel_size: Any
    stride: Any
    padding: Any

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class _MaxPoolNd(_Window):
    def __init__(
        self, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1, return_indices: bool = False,
        ceil_mode: bool = False,
    ):  # fmt: skip
        super().__init__()
        self.kernel_size, self.stride = kernel_size, stride if stride is not None else kernel_size
        self.padding, self.dilation, self.return_indices, self.ceil_mode = padding, dilation, return_indices, ceil_mode

    def _pooled(self, pool: Any, input: Tensor) -> Any:
        return pool(
            input, self.kernel_size, self.stride, self.padding, self.dilation, ceil_mode=self.ceil_mode, return_indices=self.return_indices
        )

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, dilation={self.dilation}, ceil_mode={self.ceil_mode}"


class MaxPool1d(_MaxPoolNd):
    """Maximum over each window: `(N, C, L)` or `(C, L)` to `(N, C, L_out)`; `return_indices` adds the maxima's positions."""

    def forward(self, input: Tensor) -> Any:
        return self._pooled(F.max_pool1d, input)


class MaxPool2d(_MaxPoolNd):
    """Maximum over each window: `(N, C, H, W)` or `(C, H, W)` to `(N, C, H_out, W_out)`; `return_indices` adds the maxima's positions.

    H_out = (H + 2 padding - dilation (kernel_size - 1) - 1) // stride + 1, rounded up with `ceil_mode`; `stride` defaults to `kernel_size`.
    """

    def forward(self, input: Tensor) -> Any:
        return self._pooled(F.max_pool2d, input)


class MaxPool3d(_MaxPoolNd):
    """Maximum over each window: `(N, C, D, H, W)` or `(C, D, H, W)`, sizes as in `MaxPool2d`; `return_indices` adds the positions."""

    def forward(self, input: Tensor) -> Any:
        return self._pooled(F.max_pool3d, input)


class _MaxUnpoolNd(_Window):
    dims = 1

    def __init__(self, kernel_size: Any, stride: Any = None, padding: Any = 0):
        super().__init__()
        self.kernel_size, self.padding = sizes(kernel_size, self.dims), sizes(padding, self.dims)
        self.stride = sizes(stride if stride is not None else kernel_size, self.dims)


class MaxUnpool1d(_MaxUnpoolNd):
    """Partial inverse of `MaxPool1d(return_indices=True)`: place maxima at their indices, zeros elsewhere."""

    def forward(self, input: Tensor, indices: Tensor, output_size: Any = None) -> Tensor:
        return F.max_unpool1d(input, indices, self.kernel_size, self.stride, self.padding, output_size)


class MaxUnpool2d(_MaxUnpoolNd):
    """Partial inverse of `MaxPool2d(return_indices=True)`: place maxima at their indices, zeros elsewhere."""

    dims = 2

    def forward(self, input: Tensor, indices: Tensor, output_size: Any = None) -> Tensor:
        return F.max_unpool2d(input, indices, self.kernel_size, self.stride, self.padding, output_size)


class MaxUnpool3d(_MaxUnpoolNd):
    """Partial inverse of `MaxPool3d(return_indices=True)`: place maxima at their indices, zeros elsewhere."""

    dims = 3

    def forward(self, input: Tensor, indices: Tensor, output_size: Any = None) -> Tensor:
        return F.max_unpool3d(input, indices, self.kernel_size, self.stride, self.padding, output_size)


class AvgPool1d(_Window):
    """Mean over each window: `(N, C, L)` or `(C, L)` to `(N, C, L_out)`; `count_include_pad` counts padding as zeros."""

    def __init__(self, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False, count_include_pad: bool = True):
        super().__init__()
        self.kernel_size, self.stride = sizes(kernel_size, 1), sizes(stride if stride is not None else kernel_size, 1)
        self.padding, self.ceil_mode, self.count_include_pad = sizes(padding, 1), ceil_mode, count_include_pad

    def forward(self, input: Tensor) -> Tensor:
        return F.avg_pool1d(input, self.kernel_size, self.stride, self.padding, self.ceil_mode, self.count_include_pad)


class _AvgPoolNd(_Window):
    def __init__(
        self, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False, count_include_pad: bool = True,
        divisor_override: int | None = None,
    ):  # fmt: skip
        super().__init__()
        self.kernel_size, self.stride = kernel_size, stride if stride is not None else kernel_size
        self.padding, self.ceil_mode, self.count_include_pad = padding, ceil_mode, count_include_pad
        self.divisor_override = divisor_override

    def _pooled(self, pool: Any, input: Tensor) -> Tensor:
        return pool(input, self.kernel_size, self.stride, self.padding, self.ceil_mode, self.count_include_pad, self.divisor_override)


class AvgPool2d(_AvgPoolNd):
    """Mean over each window: `(N, C, H, W)` or `(C, H, W)` to `(N, C, H_out, W_out)`; `count_include_pad` counts padding as zeros.

    H_out = (H + 2 padding - kernel_size) // stride + 1, rounded up with `ceil_mode`; `divisor_override` replaces the window size.
    """

    def forward(self, input: Tensor) -> Tensor:
        return self._pooled(F.avg_pool2d, input)


class AvgPool3d(_AvgPoolNd):
    """Mean over each window: `(N, C, D, H, W)` or `(C, D, H, W)`, sizes and options as in `AvgPool2d`."""

    def forward(self, input: Tensor) -> Tensor:
        return self._pooled(F.avg_pool3d, input)


class _LPPoolNd(Module):
    def __init__(self, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False):
        super().__init__()
        self.norm_type, self.kernel_size, self.stride, self.ceil_mode = norm_type, kernel_size, stride, ceil_mode

    def extra_repr(self) -> str:
        return f"norm_type={self.norm_type}, kernel_size={self.kernel_size}, stride={self.stride}, ceil_mode={self.ceil_mode}"


class LPPool1d(_LPPoolNd):
    """Power-average pooling: (sum x^p)^(1/p) over each window of `(N, C, L)` or `(C, L)`, with p = `norm_type`."""

    def forward(self, input: Tensor) -> Tensor:
        return F.lp_pool1d(input, float(self.norm_type), self.kernel_size, self.stride, self.ceil_mode)


class LPPool2d(_LPPoolNd):
    """Power-average pooling: (sum x^p)^(1/p) over each window of `(N, C, H, W)` or `(C, H, W)`, with p = `norm_type`."""

    def forward(self, input: Tensor) -> Tensor:
        return F.lp_pool2d(input, float(self.norm_type), self.kernel_size, self.stride, self.ceil_mode)


class LPPool3d(_LPPoolNd):
    """Power-average pooling: (sum x^p)^(1/p) over each window of `(N, C, D, H, W)` or `(C, D, H, W)`, with p = `norm_type`."""

    def forward(self, input: Tensor) -> Tensor:
        return F.lp_pool3d(input, float(self.norm_type), self.kernel_size, self.stride, self.ceil_mode)


class _FractionalMaxPool(Module):
    dims = 2

    def __init__(
        self, kernel_size: Any, output_size: Any = None, output_ratio: Any = None, return_indices: bool = False, _random_samples: Any = None
    ):
        super().__init__()
        self.kernel_size, self.return_indices = sizes(kernel_size, self.dims), return_indices
        self.output_size = sizes(output_size, self.dims) if output_size is not None else None
        self.output_ratio = sizes(output_ratio, self.dims) if output_ratio is not None else None
        if (output_size is None) == (output_ratio is None):
            raise ValueError(f"{type(self).__name__} requires specifying either an output size, or a pooling ratio")
        if self.output_ratio is not None and not all(0 < r < 1 for r in self.output_ratio):
            raise ValueError(f"output_ratio must be between 0 and 1 (got {output_ratio})")
        self.register_buffer("_random_samples", _random_samples)


class FractionalMaxPool2d(_FractionalMaxPool):
    """Fractional max pooling: maxima over windows at random steps, `(N, C, H, W)` to `(N, C, *output_size)` (Graham 2014).

    Exactly one of `output_size` and `output_ratio`, between 0 and 1, must be given.
    """

    def forward(self, input: Tensor) -> Any:
        return F.fractional_max_pool2d(
            input, self.kernel_size, self.output_size, self.output_ratio, self.return_indices, _random_samples=self._random_samples
        )


class FractionalMaxPool3d(_FractionalMaxPool):
    """Fractional max pooling: maxima over windows at random steps, `(N, C, D, H, W)` to `(N, C, *output_size)` (Graham 2014).

    Exactly one of `output_size` and `output_ratio`, between 0 and 1, must be given.
    """

    dims = 3

    def forward(self, input: Tensor) -> Any:
        return F.fractional_max_pool3d(
            input, self.kernel_size, self.output_size, self.output_ratio, self.return_indices, _random_samples=self._random_samples
        )


class _AdaptivePool(Module):
    def __init__(self, output_size: Any):
        super().__init__()
        self.output_size = output_size

    def extra_repr(self) -> str:
        return f"output_size={self.output_size}"


class _AdaptiveMaxPoolNd(_AdaptivePool):
    def __init__(self, output_size: Any, return_indices: bool = False):
        super().__init__(output_size)
        self.return_indices = return_indices


class AdaptiveMaxPool1d(_AdaptiveMaxPoolNd):
    """Maximum over windows chosen for the output size: `(N, C, L)` to `(N, C, output_size)`."""

    def forward(self, input: Tensor) -> Any:
        return F.adaptive_max_pool1d(input, self.output_size, self.return_indices)


class AdaptiveMaxPool2d(_AdaptiveMaxPoolNd):
    """Maximum over windows chosen for the output size: `(N, C, H, W)` to `(N, C, *output_size)`; None keeps an input size."""

    def forward(self, input: Tensor) -> Any:
        return F.adaptive_max_pool2d(input, self.output_size, self.return_indices)


class AdaptiveMaxPool3d(_AdaptiveMaxPoolNd):
    """Maximum over windows chosen for the output size: `(N, C, D, H, W)` to `(N, C, *output_size)`; None keeps an input size."""

    def forward(self, input: Tensor) -> Any:
        return F.adaptive_max_pool3d(input, self.output_size, self.return_indices)


class AdaptiveAvgPool1d(_AdaptivePool):
    """Mean over windows chosen for the output size: `(N, C, L)` to `(N, C, output_size)`."""

    def forward(self, input: Tensor) -> Tensor:
        return F.adaptive_avg_pool1d(input, self.output_size)


class AdaptiveAvgPool2d(_AdaptivePool):
    """Mean over windows chosen for the output size: `(N, C, H, W)` to `(N, C, *output_size)`; None keeps an input size."""

    def forward(self, input: Tensor) -> Tensor:
        return F.adaptive_avg_pool2d(input, self.output_size)


class AdaptiveAvgPool3d(_AdaptivePool):
    """Mean over windows chosen for the output size: `(N, C, D, H, W)` to `(N, C, *output_size)`; None keeps an input size."""

    def forward(self, input: Tensor) -> Tensor:
        return F.adaptive_avg_pool3d(input, self.output_size)
