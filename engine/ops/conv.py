"""Convolutions, transposed convolutions, and unfolding of windows."""

from __future__ import annotations

from collections.abc import Sequence

from ..backends.windows import each
from ..base.errors import Refused
from ..base.layout import as_channels
from ..core.op import Linear, Op, composite, functions
from .front import Refusing

_INNER = {"promotion": "only rules use it, on gradients of one dtype.", "zero_size": "PyTorch has no function of this name; conv2d has the test."}
_MIXED = {"zero_size": "PyTorch gives no channels and kernels without taps shapes of their own; tests/engine/test_conventions.py has the empty batch."}


class convolution(Linear):
    """Convolution in as many dimensions as the weight has."""
    home, inputs, types, exempt, halves = "", ("input", "weight"), "same", _INNER, True
    examples = ((((2, 4, 5, 4), (6, 2, 3, 2)), {"stride": (2, 1), "padding": (1, 1), "groups": 2}), (((3, 7), (2, 3, 3)), {"dilation": 2}))
    formula = "input ⋆ weight"
    def forward(xp, input, weight, stride=1, padding=0, dilation=1, groups=1): return xp.convolution(input, weight, stride, padding, dilation, groups)
    def d_input(xp, g, weight, shape, stride, padding, dilation, groups): return xp.convolution_input(g, weight, shape, stride, padding, dilation, groups)
    def d_weight(xp, g, input, shape, stride, padding, dilation, groups): return xp.convolution_weight(g, input, shape, stride, padding, dilation, groups)


class convolution_input(Linear):
    """The transpose of a convolution in its input: the gradient of an input of shape `size`."""
    home, inputs, types, exempt, halves, row_major = "", ("grad", "weight"), "same", _INNER, True, True
    examples = ((((2, 6, 3, 4), (6, 2, 3, 2)), {"size": (2, 4, 6, 4), "stride": (2, 1), "padding": (1, 1), "groups": 2, "dilation": (1, 2)}),)
    formula = "grad ⋆ᵀ weight"
    def forward(xp, grad, weight, size, stride=1, padding=0, dilation=1, groups=1): return xp.convolution_input(grad, weight, size, stride, padding, dilation, groups)
    def d_grad(xp, g, weight, shape, stride, padding, dilation, groups): return cropped(xp.convolution(g, weight, stride, padding, dilation, groups), shape)
    def d_weight(xp, g, grad, shape, stride, padding, dilation, groups): return xp.convolution_weight(grad, g, shape, stride, padding, dilation, groups)


class convolution_weight(Linear):
    """The transpose of a convolution in its weight: the gradient of a weight of shape `size`."""
    home, inputs, types, exempt, halves = "", ("grad", "input"), "same", _INNER, True
    examples = ((((2, 6, 3, 5), (2, 4, 5, 4)), {"size": (6, 2, 3, 2), "stride": (2, 1), "padding": (1, 1), "groups": 2}),)
    formula = "grad ⋆ᵀ input"
    def forward(xp, grad, input, size, stride=1, padding=0, dilation=1, groups=1): return xp.convolution_weight(grad, input, size, stride, padding, dilation, groups)
    def d_grad(xp, g, input, shape, stride, padding, dilation, groups): return cropped(xp.convolution(input, g, stride, padding, dilation, groups), shape)
    def d_input(xp, g, grad, shape, stride, padding, dilation, groups): return xp.convolution_input(grad, g, shape, stride, padding, dilation, groups)


def cropped(x, shape):
    """Crop `x` to this shape from the front: a convolution may produce more windows than the gradient has."""
    return x if tuple(x.shape) == tuple(shape) else x[tuple(slice(n) for n in shape)]


class Convolution(Op):
    """Base of the convolutions of one, two and three dimensions, with their rules."""
    home, inputs, types, method, exempt, halves = "nn.functional", ("input", "weight", "bias"), "same", False, _MIXED, True
    formula = "input ⋆ weight + bias"
    laid = staticmethod(as_channels)
    def d_input(xp, g, weight, shape, stride, padding, dilation, groups): return xp.convolution_input(g, weight, shape, stride, padding, dilation, groups)
    def d_weight(xp, g, input, shape, stride, padding, dilation, groups): return xp.convolution_weight(g, input, shape, stride, padding, dilation, groups)
    def d_bias(xp, g, weight): return xp.sum(g, axis=places(g, weight))


def places(g, weight):
    """The axes of a convolution's result over which its bias is broadcast."""
    return tuple(i for i in range(g.ndim) if i != g.ndim - weight.ndim + 1)


def convolve(xp, n, input, weight, bias, stride, padding, dilation, groups):
    if weight.ndim != n + 2: raise Refused(f"expected a weight of {n + 2} dimensions (out channels, in channels / groups, kernel) for conv{n}d, but got {list(weight.shape)}")
    return xp.convolution(input, weight, stride, padding, dilation, groups, bias)


class conv1d(Convolution):
    """Convolution of signals (N, C, L) with a weight (out channels, C / groups, kernel)."""
    examples = ((((2, 3, 8), (4, 3, 3), (4,)), {}), (((2, 4, 8), (6, 2, 3), None), {"stride": 2, "padding": 1, "groups": 2}), (((3, 7), (2, 3, 2), (2,)), {"padding": "same", "dilation": 2}))
    def forward(xp, input, weight, bias=None, stride: int | Sequence[int] = 1, padding: str | int | Sequence[int] = 0, dilation: int | Sequence[int] = 1, groups: int = 1): return convolve(xp, 1, input, weight, bias, stride, padding, dilation, groups)


class conv2d(Convolution):
    """Convolution of images (N, C, H, W) with a weight (out channels, C / groups, kernel height, kernel width)."""
    examples = ((((2, 3, 5, 6), (4, 3, 3, 2), (4,)), {}), (((2, 4, 7, 6), (8, 1, 3, 3), (8,)), {"stride": (2, 1), "padding": (1, 0), "groups": 4}),
                (((3, 5, 5), (2, 3, 3, 3), None), {"padding": "same"}), (((2, 3, 4, 5), (4, 3, 1, 1), (4,)), {}), (((1, 2, 7, 7), (2, 2, 3, 3), None), {"dilation": 2}))  # fmt: skip
    def forward(xp, input, weight, bias=None, stride: int | Sequence[int] = 1, padding: str | int | Sequence[int] = 0, dilation: int | Sequence[int] = 1, groups: int = 1): return convolve(xp, 2, input, weight, bias, stride, padding, dilation, groups)


class conv3d(Convolution):
    """Convolution of volumes (N, C, D, H, W) with a weight (out channels, C / groups, *kernel)."""
    laid = None  # row-major, also for channels-last volumes, as in PyTorch
    examples = ((((2, 2, 4, 5, 3), (3, 2, 2, 3, 2), (3,)), {"stride": (1, 2, 1), "padding": (0, 1, 1)}),)
    def forward(xp, input, weight, bias=None, stride: int | Sequence[int] = 1, padding: str | int | Sequence[int] = 0, dilation: int | Sequence[int] = 1, groups: int = 1): return convolve(xp, 3, input, weight, bias, stride, padding, dilation, groups)


class Transposed(Op):
    """Base of the transposed convolutions, with their rules: a convolution's gradient used as a forward op."""
    home, inputs, types, method, exempt, halves, row_major = "nn.functional", ("input", "weight", "bias"), "same", False, _MIXED, True, True
    formula = "input ⋆ᵀ weight + bias"
    laid = staticmethod(as_channels)
    def d_input(xp, g, weight, shape, stride, padding, dilation, groups): return cropped(xp.convolution(g, weight, stride, padding, dilation, groups), shape)
    def d_weight(xp, g, input, shape, stride, padding, dilation, groups): return xp.convolution_weight(input, g, shape, stride, padding, dilation, groups)
    def d_bias(xp, g, weight): return xp.sum(g, axis=places(g, weight))


def deconvolve(xp, n, input, weight, bias, stride, padding, output_padding, groups, dilation):
    """Transposed convolution; the size of the result is that from which the convolution gives the size of `input`."""
    if input.ndim not in (n + 1, n + 2): raise Refused(f"Expected {n + 1}D (unbatched) or {n + 2}D (batched) input to conv_transpose{n}d, but got input of size: {list(input.shape)}")
    if weight.ndim != n + 2: raise Refused(f"expected a weight of {n + 2} dimensions (in channels, out channels / groups, kernel) for conv_transpose{n}d, but got {list(weight.shape)}")
    if input.shape[-n - 1] != weight.shape[0]: raise Refused(f"Given transposed=1, weight of size {list(weight.shape)}, expected input{list(input.shape)} to have {weight.shape[0]} channels, but got {input.shape[-n - 1]} channels instead")
    channels = weight.shape[1] * groups
    if bias is not None and bias.shape != (channels,): raise Refused(f"Given transposed=1, weight of size {list(weight.shape)}, expected bias to be 1-dimensional with {channels} elements, but got bias of size {list(bias.shape)} instead")
    strides, pads, extra, steps = each(stride, n, "stride"), each(padding, n, "padding"), each(output_padding, n, "output_padding"), each(dilation, n, "dilation")
    if any(e >= s and e >= d for e, s, d in zip(extra, strides, steps, strict=True)): raise Refused(f"output padding must be smaller than either stride or dilation, but got output_padding={extra}, stride={strides} and dilation={steps}")
    size = tuple((m - 1) * s - 2 * p + d * (k - 1) + e + 1 for m, s, p, d, k, e in zip(input.shape[-n:], strides, pads, steps, weight.shape[2:], extra, strict=True))
    if min(size) <= 0: raise Refused(f"Given input size per channel: {tuple(input.shape[-n:])}. Calculated output size per channel: {size}. Output size is too small")
    out = xp.convolution_input(input, weight, (*input.shape[: -n - 1], channels, *size), stride, padding, dilation, groups)
    return out if bias is None else out + xp.reshape(bias, (channels,) + (1,) * n)


class conv_transpose1d(Transposed):
    """Transposed convolution of signals (N, C, L) with a weight (C, out channels / groups, kernel)."""
    examples = ((((2, 3, 5), (3, 4, 3), (4,)), {"stride": 2, "output_padding": 1}), (((4, 5), (4, 1, 3), None), {"groups": 2, "padding": 1, "dilation": 2}))
    def forward(xp, input, weight, bias=None, stride: int | Sequence[int] = 1, padding: int | Sequence[int] = 0, output_padding: int | Sequence[int] = 0, groups: int = 1, dilation: int | Sequence[int] = 1): return deconvolve(xp, 1, input, weight, bias, stride, padding, output_padding, groups, dilation)


class conv_transpose2d(Transposed):
    """Transposed convolution of images (N, C, H, W) with a weight (C, out channels / groups, kernel height, kernel width)."""
    examples = ((((2, 3, 4, 3), (3, 4, 3, 2), (4,)), {"stride": 2, "padding": 1, "output_padding": (1, 0)}), (((4, 3, 4), (4, 2, 3, 3), None), {"groups": 2}))
    def forward(xp, input, weight, bias=None, stride: int | Sequence[int] = 1, padding: int | Sequence[int] = 0, output_padding: int | Sequence[int] = 0, groups: int = 1, dilation: int | Sequence[int] = 1): return deconvolve(xp, 2, input, weight, bias, stride, padding, output_padding, groups, dilation)


class conv_transpose3d(Transposed):
    """Transposed convolution of volumes (N, C, D, H, W) with a weight (C, out channels / groups, *kernel)."""
    laid = None  # row-major, also for channels-last volumes, as in PyTorch
    examples = ((((2, 2, 2, 3, 2), (2, 3, 2, 2, 2), (3,)), {"stride": (1, 2, 1)}),)
    def forward(xp, input, weight, bias=None, stride: int | Sequence[int] = 1, padding: int | Sequence[int] = 0, output_padding: int | Sequence[int] = 0, groups: int = 1, dilation: int | Sequence[int] = 1): return deconvolve(xp, 3, input, weight, bias, stride, padding, output_padding, groups, dilation)


class _Windows(Refusing):
    refuses, types = "i", "any"


class im2col(_Windows, Linear):
    """Unfold every window of an image into a column: (N, C, H, W) to (N, C * kernel, windows)."""
    home, inputs, exempt = "", ("input",), _INNER
    examples = ((((2, 3, 5, 4),), {"kernel_size": (2, 3), "padding": 1, "stride": (2, 1)}), (((2, 5, 5),), {"kernel_size": 2, "dilation": 2}))
    formula = "unfold(input)"
    def forward(xp, input, kernel_size: int | Sequence[int], dilation: int | Sequence[int] = 1, padding: int | Sequence[int] = 0, stride: int | Sequence[int] = 1): return xp.im2col(input, kernel_size, dilation, padding, stride)
    def d_input(xp, g, shape, kernel_size, dilation, padding, stride): return xp.col2im(g, shape[-2:], kernel_size, dilation, padding, stride)


class col2im(_Windows, Linear):
    """Put columns back at their windows' positions, and add them where windows overlap."""
    home, inputs, exempt = "", ("input",), _INNER
    examples = ((((2, 12, 6),), {"output_size": (3, 4), "kernel_size": 2}), (((2, 18, 9),), {"output_size": (5, 5), "kernel_size": 3, "padding": 1, "stride": 2}))
    formula = "fold(input)"
    def forward(xp, input, output_size, kernel_size, dilation=1, padding=0, stride=1): return xp.col2im(input, output_size, kernel_size, dilation, padding, stride)
    def d_input(xp, g, kernel_size, dilation, padding, stride): return xp.im2col(g, kernel_size, dilation, padding, stride)


def _refuse_single(**sizes):
    """Raise RuntimeError for a sequence that does not have two elements."""
    for name, given in sizes.items():
        if isinstance(given, (tuple, list)) and len(given) != 2: raise RuntimeError(f"It is expected {name} equals to 2, but got size {len(given)}")


@composite(home="nn.functional")
def unfold(input, kernel_size, dilation=1, padding=0, stride=1):
    """Unfold every window of an image into a column: (N, C, H, W) to (N, C * kernel, windows), also without N."""
    _refuse_single(kernel_size=kernel_size, dilation=dilation, padding=padding, stride=stride)
    if input.ndim < 3: raise IndexError(f"unfold: expected images (N, C, H, W) or (C, H, W), but got {list(input.shape)}: dimension out of range")
    if input.ndim > 4: raise RuntimeError(f"unfold: Expected 3D or 4D (batch mode) tensor with possibly 0 batch size and other non-zero dimensions for input, but got: {list(input.shape)}")
    return im2col(input, kernel_size, dilation, padding, stride)


@composite(home="nn.functional")
def fold(input, output_size, kernel_size, dilation=1, padding=0, stride=1):
    """The transpose of `unfold`: put columns back into images of `output_size`, and add them where windows overlap."""
    _refuse_single(output_size=output_size, kernel_size=kernel_size, dilation=dilation, padding=padding, stride=stride)
    return col2im(input, each(output_size, 2, "output_size"), kernel_size, dilation, padding, stride)


functions.update({name: functions[f"nn.functional.{name}"] for name in (*(f"conv{n}d" for n in (1, 2, 3)), *(f"conv_transpose{n}d" for n in (1, 2, 3)))})
