"""Where the engine and PyTorch's own samples part ways on purpose, each with the reason."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch.testing._internal.common_methods_invocations import op_db

NAMES = sorted({op.name for op in op_db})

_UNSET = "Its elements are whatever the memory held."
_DRAWN = "Its results are drawn at random, from another generator than PyTorch's; tests/engine/test_random.py tests the distributions."
RANDOM: dict[str, str] = {
    **dict.fromkeys(("empty", "empty_like", "empty_strided", "empty_permuted", "new_empty", "new_empty_strided"), _UNSET),
    **dict.fromkeys(
        (
            "bernoulli", "cauchy", "exponential", "geometric", "log_normal", "multinomial", "normal", "rand_like", "randint", "randint_like", "randn",
            "randn_like", "uniform", "nn.functional.alpha_dropout", "nn.functional.dropout", "nn.functional.dropout2d", "nn.functional.dropout3d",
            "nn.functional.feature_alpha_dropout", "nn.functional.rrelu", "nn.functional.fractional_max_pool2d", "nn.functional.fractional_max_pool3d",
        ), _DRAWN,
    ),
}  # fmt: skip

_ANY = "Of equal elements PyTorch's selection takes whichever it meets; the values are compared, and what stands at the indices."
TIES: dict[str, str] = dict.fromkeys(("topk", "kthvalue", "mode", "sort", "argsort", "msort", "median", "nanmedian"), _ANY)


class Deviation(NamedTuple):
    """An op (a regular expression over names of variants), the samples (None: all), the tests (none: all), and the reason."""

    op: str
    reason: str
    when: Any = None
    tests: tuple[str, ...] = ()


def _drops(sample: Any) -> bool:
    return sample.kwargs.get("dropout_p", 0) > 0


def _falling(sample: Any) -> bool:
    return any(isinstance(edges, torch.Tensor) and bool((edges.diff() < 0).any()) for edges in sample.args[0])


def _numbers(sample: Any) -> bool:
    return len(sample.args) == 1 and any(type(x) is int for x in (sample.input, *sample.args))


def _twice(sample: Any) -> bool:
    """Whether `max_unpool` puts several elements into one place."""
    return any(row.unique().numel() < row.numel() for row in sample.args[0].flatten(0, 1).flatten(1))


DEVIATIONS = [
    Deviation("nn.functional.max_unpool.d", "Of elements that go to one place one stays: PyTorch's tangent is that one's, and its gradient goes to all of them.", _twice, ("forward",)),
    Deviation("nn.functional.scaled_dot_product_attention", "Dropout draws its own random numbers.", _drops),
    Deviation("nn.functional.multi_head_attention_forward", "Dropout draws its own random numbers.", lambda s: s.kwargs.get("training") and s.args[9] > 0),
    Deviation(
        "histc", "PyTorch compares with bounds rounded to half precision; here bins are found in float32.",
        lambda s: s.input.dtype in (torch.float16, torch.bfloat16),
    ),
    Deviation("nn.functional.batch_norm", "PyTorch takes an empty vector for a batch; here an input has two dimensions.", lambda s: s.input.ndim < 2),
    Deviation(
        "linalg.norm.subgradients_at_zero", "At 0 PyTorch's second derivative is nan; here it is that of the slope 0 which both take there.",
        tests=("second",),
    ),
    Deviation(
        "as_strided_scatter", "PyTorch lets the input's gradient pass where src took its place: the sum of (5,) scattered into (1,) has slope 1 in it.",
        tests=("gradients",),
    ),
    Deviation(
        "cholesky_(solve|inverse)", "PyTorch gives a gradient to the triangle that it does not read; finite differences there say 0.",
        tests=("gradients", "second"),
    ),
    Deviation(
        "(linalg\\.)?(cholesky(_ex)?|eigh)", "Of a change that is not symmetric PyTorch's gradient takes the symmetric part and its tangent one triangle of a product; so it is here.",
        tests=("forward",),
    ),
    Deviation("istft", "PyTorch takes the window for a constant; here it has its gradient.", lambda s: s.kwargs.get("window") is not None, ("gradients",)),
    Deviation(
        "matrix_exp", "In half precision PyTorch's powers overflow to nan; here they are computed in float32.",
        lambda s: s.input.dtype in (torch.float16, torch.bfloat16),
    ),
    Deviation(
        "native_layer_norm", "Of one element in half precision PyTorch's scale and shift, rounded apart, leave a rest; here it is 0.",
        lambda s: s.input.dtype in (torch.float16, torch.bfloat16),
    ),
    Deviation(
        "masked.(log_softmax|softmax|softmin|mean|logsumexp|logaddexp)",
        "Where the mask leaves out a whole row the value is nan or infinite, and so is the tangent; reverse mode has no slope there.",
        lambda s: any(v is not None for k, v in s.kwargs.items() if k.endswith("mask")), ("forward",),
    ),
    Deviation("svd_lowrank", "An approximation of a matrix of higher rank depends on the start, which is drawn at random.", lambda s: s.kwargs.get("M") is not None),
    Deviation("nn.functional.linear_cross_entropy.chunked.*", "PyTorch computes the gradient along with the value, and so has no second one.", tests=("second",)),
    Deviation("histogramdd", "Edges that do not rise are refused here; PyTorch searches in them as if they did.", _falling),
    Deviation("histogramdd", "PyTorch's takes no out=, though its table says so.", tests=("out",)),
    Deviation("narrow_copy", "A wrong dimension is an IndexError here, as it is in PyTorch's narrow.", tests=("errors",)),
    Deviation(".*", "An `out=` that overlaps an input, or of another dtype, is written after the result is complete, and refused only where it loses.",
              lambda s: "out" in s.kwargs, ("errors",)),
    Deviation(".*", "A Python number may stand for either operand of any op here.", _numbers, ("errors",)),
]  # fmt: skip
_INSIDE = "A function inside PyTorch that programs do not call; those made of it are here."
ABSENT: dict[str, str] = {
    **dict.fromkeys(
        (
            "_upsample_bilinear2d_aa", "max_pool2d_with_indices_backward", "torch._scaled_mm", "torch._scaled_mm_v2",
            "torch.ops.aten._efficient_attention_forward", "torch.ops.aten._flash_attention_forward",
        ), _INSIDE,
    ),
    **dict.fromkeys(("jiterator_2inputs_2outputs", "jiterator_4inputs_with_extra_args", "jiterator_binary", "jiterator_binary_return_by_ref", "jiterator_unary"), "Kernels compiled for a GPU from a string of C++."),
    "chalf": "The engine has no complex32, which NumPy lacks.",
}  # fmt: skip
