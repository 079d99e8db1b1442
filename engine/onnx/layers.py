"""Translations of layers: products, convolutions, pooling, normalization, resizing and recurrent networks."""

from __future__ import annotations

from typing import Any

import numpy

from .errors import OnnxExporterError
from .graph import Graph
from .shapes import permuted, sliced
from .table import number, reduce, translates


@translates("linear")
def _linear(g: Graph, x: str, weight: str, bias: str | None) -> str:
    """x W^T + b."""
    if len(g.shape_of(0)) == 2 and bias is not None:
        return g("Gemm", x, weight, bias, transB=1)
    n = len(g.shape_of(1))
    product = g("MatMul", x, g("Transpose", weight, perm=[1, 0]) if n == 2 else weight)
    return product if bias is None else g("Add", product, bias)


@translates("contract")
def _contract(g: Graph, *operands: str, equation: str) -> str:
    return g("Einsum", *operands, equation=equation)


def _each(x: Any, n: int) -> list[int]:
    return [int(v) for v in x] if isinstance(x, (tuple, list)) and len(x) == n else [int(x[0] if isinstance(x, (tuple, list)) else x)] * n


@translates("conv1d", "conv2d", "conv3d")
def _conv(g: Graph, x: str, weight: str, bias: str | None, stride: Any, padding: Any, dilation: Any, groups: int) -> str:
    n = int(g.event.op[4])
    kernel = list(g.event.inputs[1].array.shape[2:])
    dilation = _each(dilation, n)
    if padding == "same":
        total = [d * (k - 1) for d, k in zip(dilation, kernel, strict=True)]
        pads = [t // 2 for t in total] + [t - t // 2 for t in total]
    else:
        pads = [0] * 2 * n if padding == "valid" else _each(padding, n) * 2
    batched = len(g.shape_of(0)) == n + 2
    x = x if batched else g("Unsqueeze", x, g.constant([0], numpy.int64))
    out = g("Conv", x, weight, bias, kernel_shape=kernel, strides=_each(stride, n), pads=pads, dilations=dilation, group=int(groups))
    return out if batched else g("Squeeze", out, g.constant([0], numpy.int64))


@translates("conv_transpose1d", "conv_transpose2d", "conv_transpose3d")
def _conv_transpose(
    g: Graph, x: str, weight: str, bias: str | None, stride: Any, padding: Any, output_padding: Any, groups: int, dilation: Any
) -> str:
    n = int(g.event.op[14])
    batched = len(g.shape_of(0)) == n + 2
    x = x if batched else g("Unsqueeze", x, g.constant([0], numpy.int64))
    options = {"strides": _each(stride, n), "pads": _each(padding, n) * 2, "dilations": _each(dilation, n), "group": int(groups)}
    kernel = list(g.event.inputs[1].array.shape[2:])
    out = g("ConvTranspose", x, weight, bias, kernel_shape=kernel, output_padding=_each(output_padding, n), **options)
    return out if batched else g("Squeeze", out, g.constant([0], numpy.int64))


def _pooled(g: Graph, x: str, n: int, make: Any) -> str:
    """Apply a pooling op, adding a batch dimension if needed: ONNX pools only batches."""
    if len(g.shape_of(0)) == n + 2:
        return make(x)
    return g("Squeeze", make(g("Unsqueeze", x, g.constant([0], numpy.int64))), g.constant([0], numpy.int64))


@translates("im2col")
def _im2col(g: Graph, x: str, kernel_size: Any, dilation: Any, padding: Any, stride: Any) -> str:
    """Extract windows as columns by a convolution with unit kernels."""
    channels, kernel = int(g.shape_of(0)[-3]), _each(kernel_size, 2)
    n = channels * kernel[0] * kernel[1]
    units = g.constant(numpy.eye(n).reshape(n, channels, *kernel), g.event.outputs[0].array.dtype)
    options = {"kernel_shape": kernel, "strides": _each(stride, 2), "pads": _each(padding, 2) * 2, "dilations": _each(dilation, 2)}
    windows = _pooled(g, x, 2, lambda v: g("Conv", v, units, **options))
    return g("Reshape", windows, g.constant([*[0] * (len(g.shape_of(0)) - 3), n, -1], numpy.int64))


@translates("max_pool1d", "max_pool2d", "max_pool3d")
def _max_pool(g: Graph, x: str, kernel_size: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool) -> str:
    n = int(g.event.op[8])
    g.fixed(kernel_size if isinstance(kernel_size, (tuple, list)) else [kernel_size], "window")
    kernel = _each(kernel_size, n)
    strides = kernel if stride is None or stride == () else _each(stride, n)
    options = {
        "kernel_shape": kernel,
        "strides": strides,
        "pads": _each(padding, n) * 2,
        "dilations": _each(dilation, n),
    }
    return _pooled(g, x, n, lambda v: g("MaxPool", v, ceil_mode=int(ceil_mode), **options))


@translates("adaptive_max")
def _adaptive_max(g: Graph, x: str, output_size: Any) -> str:
    """Translate the values; the indices are not supported."""
    lengths = g.fixed(g.shape_of(0)[-len(output_size) :], "size of the input of adaptive pooling")
    size = [int(s) for s in output_size]
    if any(length % s for length, s in zip(lengths, size, strict=True)):
        raise OnnxExporterError(f"adaptive_max_pool: ONNX needs windows of one length, {tuple(lengths)} does not divide into {tuple(size)}")
    window = [length // s for length, s in zip(lengths, size, strict=True)]
    return _pooled(g, x, len(size), lambda v: g("MaxPool", v, kernel_shape=window, strides=window))


@translates("avg_pool")
def _avg_pool(
    g: Graph, x: str, kernel_size: Any, stride: Any, padding: Any, ceil_mode: bool, count_include_pad: bool, divisor_override: Any
) -> str:
    n = len(kernel_size)
    shape = g.shape_of(0)
    if (
        [getattr(k, "seen", k) for k in kernel_size] == [getattr(s, "seen", s) for s in shape[-n:]]
        and not any(_each(padding, n))
        and divisor_override is None
    ):
        return reduce(g, "ReduceMean", x, list(range(-n, 0)), True)  # also for dynamic sizes
    kernel = g.fixed(kernel_size, "window")
    if divisor_override is not None:
        raise OnnxExporterError("avg_pool: divisor_override is not translated")
    strides = kernel if stride is None or stride == () else _each(stride, n)
    options = {
        "kernel_shape": kernel, "strides": strides, "pads": _each(padding, n) * 2, "ceil_mode": int(ceil_mode),
        "count_include_pad": int(count_include_pad),
    }  # fmt: skip
    return _pooled(g, x, n, lambda v: g("AveragePool", v, **options))


@translates("resample")
def _resample(g: Graph, x: str, size: Any, mode: str, align: bool, scales: Any) -> str:
    n = len(size)
    shape = g.shape_of(0)
    if mode == "mean":  # adaptive pooling
        lengths = g.fixed(shape[-n:], "size of the input of adaptive pooling")
        if any(length % int(s) for length, s in zip(lengths, size, strict=True)):
            return _windows_of_unlike_length(g, x, lengths, [int(s) for s in size])
        window = [length // int(s) for length, s in zip(lengths, size, strict=True)]
        return _pooled(g, x, n, lambda v: g("AveragePool", v, kernel_shape=window, strides=window))
    if mode not in ("nearest", "linear", "cubic", "nearest-exact"):
        raise OnnxExporterError(f"interpolate: the mode {mode!r} is not translated")
    nearest = mode.startswith("nearest")
    place = "align_corners" if align else "asymmetric" if mode == "nearest" else "half_pixel" if nearest else "pytorch_half_pixel"
    options = {"nearest_mode": "floor" if mode == "nearest" else "round_prefer_ceil"} if nearest else {"cubic_coeff_a": -0.75}
    mode = "nearest" if nearest else mode
    if scales and all(s is not None for s in scales):
        factors = g.constant([1.0, 1.0, *map(float, scales)], numpy.float32)
        return g("Resize", x, None, factors, mode=mode, coordinate_transformation_mode=place, **options)
    return g("Resize", x, None, None, g.ints([*shape[:-n], *size]), mode=mode, coordinate_transformation_mode=place, **options)


def _windows_of_unlike_length(g: Graph, x: str, lengths: list[int], size: list[int]) -> str:
    """Average over windows from floor(i n / m) to ceil((i + 1) n / m), one dimension at a time, by products with weight matrices."""
    rank = len(g.shape_of(0))
    for axis, (n, m) in enumerate(zip(lengths, size, strict=True), rank - len(size)):
        weights = numpy.zeros((n, m))
        for i in range(m):
            begin, end = i * n // m, -(-(i + 1) * n // m)
            weights[begin:end, i] = 1 / (end - begin)
        order = [*[a for a in range(rank) if a != axis], axis]
        product = g("MatMul", permuted(g, x, order), g.constant(weights, g.event.outputs[0].array.dtype))
        x = permuted(g, product, [order.index(a) for a in range(rank)])
    return x


@translates("layer_norm")
def _layer_norm(g: Graph, x: str, weight: str | None, bias: str | None, normalized_shape: Any, eps: float) -> str:
    shape, d = list(normalized_shape), g.event.outputs[0].array.dtype
    if g.opset < 17:
        axes = list(range(-len(shape), 0))
        off = g("Sub", x, reduce(g, "ReduceMean", x, axes, True))
        spread = g("Sqrt", g("Add", reduce(g, "ReduceMean", g("Mul", off, off), axes, True), number(g, eps)))
        out = g("Div", off, spread)
        out = out if weight is None else g("Mul", out, weight)
        return out if bias is None else g("Add", out, bias)
    if weight is None:
        weight = g.constant(numpy.ones(shape), d)
    return g("LayerNormalization", x, weight, bias, axis=-len(shape), epsilon=float(eps))


@translates("rms_norm")
def _rms_norm(g: Graph, x: str, weight: str | None, normalized_shape: Any, eps: float | None) -> str:
    d = g.event.outputs[0].array.dtype
    eps = float(numpy.finfo(d).eps) if eps is None else eps
    mean = reduce(g, "ReduceMean", g("Mul", x, x), list(range(-len(normalized_shape), 0)), True)
    out = g("Div", x, g("Sqrt", g("Add", mean, number(g, eps))))
    return out if weight is None else g("Mul", out, weight)


@translates("group_norm")
def _group_norm(g: Graph, x: str, weight: str | None, bias: str | None, num_groups: int, eps: float) -> str:
    """Instance normalization of the groups, then scale and shift of the channels."""
    shape, d = g.shape_of(0), g.event.outputs[0].array.dtype
    ones, zeros = (g.constant(numpy.full(int(num_groups), v), d) for v in (1, 0))
    grouped = g("Reshape", x, g.constant([0, int(num_groups), -1], numpy.int64))
    out = g("Reshape", g("InstanceNormalization", grouped, ones, zeros, epsilon=float(eps)), g("Shape", x))
    ends = g.constant([int(shape[1]), *[1] * (len(shape) - 2)], numpy.int64)
    out = out if weight is None else g("Mul", out, g("Reshape", weight, ends))
    return out if bias is None else g("Add", out, g("Reshape", bias, ends))


@translates("batch_normalize")
def _batch_normalize(g: Graph, x: str, weight: str | None, bias: str | None, eps: float) -> tuple:
    """Normalize by the batch's mean and variance, which are also returned."""
    n = len(g.shape_of(0))
    axes = [0, *range(2, n)]
    mean = reduce(g, "ReduceMean", x, axes, True)
    off = g("Sub", x, mean)
    var = reduce(g, "ReduceMean", g("Mul", off, off), axes, True)
    out = g("Div", off, g("Sqrt", g("Add", var, number(g, eps))))
    ends = g.constant([-1, *[1] * (n - 2)], numpy.int64)
    out = out if weight is None else g("Mul", out, g("Reshape", weight, ends))
    out = out if bias is None else g("Add", out, g("Reshape", bias, ends))
    flat = g.constant([-1], numpy.int64)
    return out, g("Reshape", mean, flat), g("Reshape", var, flat)


# -- recurrent networks ---------------------------------------------------------------------------------------------------------------

_ORDER = {"LSTM": (0, 3, 1, 2), "GRU": (1, 0, 2)}  # PyTorch's gates in ONNX's order: i o f c of i f g o, z r h of r z n


@translates("recurrent")
def _recurrent(
    g: Graph, x: str, *rest: str, mode: str, layers: int, directions: int, bias: bool, batch_first: bool, hidden: int
) -> tuple:  # fmt: skip
    if len(g.shape_of(0)) == 2:  # unbatched: ONNX requires a batch
        one = g.constant([1], numpy.int64)
        states = [g("Unsqueeze", s, one) for s in rest[: len(rest) - layers * directions * (4 if bias else 2)]]
        return tuple(
            g("Squeeze", out, one)
            for out in _sequences(g, g("Unsqueeze", x, one), [*states, *rest[len(states) :]], mode, layers, directions, bias, hidden)
        )
    x = g("Transpose", x, perm=[1, 0, 2]) if batch_first else x
    out, *last = _sequences(g, x, list(rest), mode, layers, directions, bias, hidden)
    return g("Transpose", out, perm=[1, 0, 2]) if batch_first else out, *last


def _sequences(g: Graph, x: str, rest: list[str], mode: str, layers: int, directions: int, bias: bool, hidden: int) -> tuple:
    """Return the outputs and last states of batched sequences (time, batch, features)."""
    kind = mode if mode in _ORDER else "RNN"
    several = 2 if kind == "LSTM" else 1
    each = 4 if bias else 2
    states, weights = rest[: len(rest) - layers * directions * each], rest[len(rest) - layers * directions * each :]
    options: dict[str, Any] = {"hidden_size": int(hidden), "direction": "bidirectional" if directions == 2 else "forward"}
    if kind == "GRU":
        options["linear_before_reset"] = 1
    if kind == "RNN":
        options["activations"] = ["Relu" if mode == "RNN_RELU" else "Tanh"] * directions
    last: list[list[str]] = [[] for _ in range(several)]
    for layer in range(layers):
        parts = [weights[(layer * directions + d) * each : (layer * directions + d + 1) * each] for d in range(directions)]
        stacked = [_joined(g, [_gates(g, p[i], kind, hidden) for p in parts]) for i in range(each)]
        both = g("Concat", stacked[2], stacked[3], axis=1) if bias else None
        first = [sliced(g, s, [layer * directions], [(layer + 1) * directions], [0], [1]) for s in states]
        out, *ends = g(kind, x, stacked[0], stacked[1], both, None, *first, outputs=1 + several, **options)
        x = g("Reshape", g("Transpose", out, perm=[0, 2, 1, 3]), g.constant([0, 0, -1], numpy.int64))
        for kept, end in zip(last, ends, strict=True):
            kept.append(end)
    return x, *[g("Concat", *ends, axis=0) if layers > 1 else ends[0] for ends in last]


def _joined(g: Graph, names: list[str]) -> str:
    fresh = [g("Unsqueeze", name, g.constant([0], numpy.int64)) for name in names]
    return fresh[0] if len(fresh) == 1 else g("Concat", *fresh, axis=0)


def _gates(g: Graph, name: str, kind: str, hidden: int) -> str:
    """Reorder the gates of a weight to ONNX's order."""
    if kind == "RNN":
        return name
    parts = g("Split", name, g.constant([int(hidden)] * len(_ORDER[kind]), numpy.int64), axis=0, outputs=len(_ORDER[kind]))
    return g("Concat", *[parts[i] for i in _ORDER[kind]], axis=0)
