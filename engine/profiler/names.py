"""PyTorch's kernel names for the engine's ops, and their floating-point operation counts."""

from __future__ import annotations

import math
from typing import Any

_HOMES = {"linalg": "linalg_", "fft": "fft_", "special": "special_"}
_OTHERWISE = {
    "attention": "_scaled_dot_product_efficient_attention",
    "batch_normalize": "native_batch_norm",
    "constant_pad": "constant_pad_nd",
    "contract": "bmm",
    "copied": "copy_",
    "cross_entropy": "cross_entropy_loss",
    "fourier": "_fft_c2c",
    "gru_steps": "gru",
    "lstm_steps": "lstm",
    "rnn_steps": "rnn_tanh",
    "to_device": "_to_copy",
    "to_dtype": "_to_copy",
    "vector_norm": "linalg_vector_norm",
}
# composites that are one kernel in PyTorch: their parts are not recorded
KERNELS = frozenset({"mm", "bmm", "mv", "dot", "vdot", "addmm", "addmv", "addbmm", "baddbmm"})
# composites that are Python functions in PyTorch: only their parts are recorded
PYTHON = frozenset(
    {"multi_head_attention_forward", "normalize", "gumbel_softmax", "interpolate", "local_response_norm", "gaussian_nll_loss"}
)


def of(op: Any, output: Any) -> str:
    """Return the name of an op's event, such as "aten::tanh" or "aten::linalg_qr"."""
    name = op.name
    if name == "getitem":
        return "aten::slice" if output._view is not None else "aten::index"
    return f"aten::{_OTHERWISE.get(name) or _HOMES.get(op.home, '') + name}"


def of_function(name: str) -> str:
    """Return the name of a composite's event."""
    return f"aten::{_OTHERWISE.get(name, name)}"


def inside(op: Any, inputs: tuple) -> str | None:
    """Return the kernel that PyTorch's op calls, by which users look it up, or None: a `matmul` is a dot, mv, mm or bmm."""
    if op.name == "matmul":
        a, b = (x.ndim for x in inputs)
        if b > 2:
            return "aten::bmm"
        return {(1, 1): "aten::dot", (2, 1): "aten::mv"}.get((a, b), "aten::mm")  # batch times matrix: the batch is folded into the rows
    if op.name == "linear":
        return "aten::mm" if inputs[2] is None else "aten::addmm"
    return "aten::convolution" if op.name.startswith("conv") and op.home == "nn.functional" else None


def flops(op: Any, inputs: tuple, attrs: dict, output: Any) -> int:
    """Return the floating-point operations of products, convolutions and elementwise add and mul; a multiply-add counts as two."""
    name = op.name
    if name in ("add", "mul"):
        return math.prod(output.shape)
    return products(op, inputs, attrs, output)


def products(op: Any, inputs: tuple, attrs: dict, output: Any) -> int:
    """Return the floating-point operations of matrix products and convolutions; other ops count as 0."""
    name = op.name
    if name == "matmul":
        return 2 * math.prod(output.shape) * inputs[0].shape[-1]
    if name == "linear":
        return 2 * math.prod(output.shape) * inputs[1].shape[-1]
    if name == "attention":
        query, key, value = inputs[:3]
        return 2 * math.prod(query.shape[:-1]) * key.shape[-2] * (key.shape[-1] + value.shape[-1])
    if name == "contract":
        terms = attrs["equation"].partition("->")[0].split(",")
        sizes = {letter: n for x, term in zip(inputs, terms, strict=True) for letter, n in zip(term, x.shape, strict=True)}
        return 2 * math.prod(sizes.values())
    if name.startswith("conv_transpose"):
        return 2 * math.prod(inputs[0].shape) * math.prod(inputs[1].shape[1:])
    if name.startswith("conv") and name[4:5].isdigit():
        return 2 * math.prod(output.shape) * math.prod(inputs[1].shape[1:])
    return 0
