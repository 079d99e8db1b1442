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


def _numbers(sample: Any) -> bool:
    return len(sample.args) == 1 and any(type(x) is int for x in (sample.input, *sample.args))


DEVIATIONS = [
    Deviation("nn.functional.scaled_dot_product_attention", "Dropout draws its own random numbers.", _drops),
    Deviation("nn.functional.multi_head_attention_forward", "Dropout draws its own random numbers.", lambda s: s.kwargs.get("training") and s.args[9] > 0),
    Deviation(
        "nn.functional.ctc_loss",
        "The gradient here is that of the formula; PyTorch's leaves out what the log_softmax before it takes away, so that of the logits agrees.",
        tests=("gradients", "forward"),
    ),
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
        tests=("gradients", "second"),
    ),
    Deviation(
        "cholesky_(solve|inverse)", "PyTorch gives a gradient to the triangle that it does not read; finite differences there say 0.",
        tests=("gradients", "second"),
    ),
    Deviation("istft", "PyTorch takes the window for a constant; here it has its gradient.", lambda s: s.kwargs.get("window") is not None, ("gradients", "second")),
    Deviation(
        "matrix_exp", "In half precision PyTorch's powers overflow to nan; here they are computed in float32.",
        lambda s: s.input.dtype in (torch.float16, torch.bfloat16),
    ),
    Deviation("narrow_copy", "A wrong dimension is an IndexError here, as it is in PyTorch's narrow.", tests=("errors",)),
    Deviation(".*", "An `out=` that overlaps an input, or of another dtype, is written after the result is complete, and refused only where it loses.",
              lambda s: "out" in s.kwargs, ("errors",)),
    Deviation(".*", "A Python number may stand for either operand of any op here.", _numbers, ("errors",)),
]  # fmt: skip
_INSIDE = "A function inside PyTorch that programs do not call; those made of it are here."
_MASKED = "torch.masked is a prototype with tensors of its own."
_SPARSE = "The engine has no sparse or nested layouts."
_POLYNOMIAL = "A prototype without gradients, of orthogonal polynomials; SciPy has them."
_LAPACK = "A raw LAPACK factorisation without a gradient in PyTorch; SciPy has it."
ABSENT: dict[str, str] = {
    **dict.fromkeys(
        (
            "__rdiv__", "_batch_norm_with_update", "_chunk_cat", "_native_batch_norm_legit", "_segment_reduce", "_softmax_backward_data", "_unsafe_masked_index",
            "_unsafe_masked_index_put_accumulate", "_upsample_bilinear2d_aa", "grid_sampler_2d", "grid_sampler_3d", "hash_tensor",
            "max_pool2d_with_indices_backward", "native_batch_norm", "native_dropout_backward", "native_group_norm", "native_layer_norm",
            "slice", "torch._scaled_mm", "torch._scaled_mm_v2", "torch.ops.aten._efficient_attention_forward",
            "torch.ops.aten._flash_attention_forward", "torch.ops.aten._safe_softmax.default",
        ), _INSIDE,
    ),
    **dict.fromkeys(("jiterator_2inputs_2outputs", "jiterator_4inputs_with_extra_args", "jiterator_binary", "jiterator_binary_return_by_ref", "jiterator_unary"), "Kernels compiled for a GPU from a string of C++."),
    **dict.fromkeys([op for op in NAMES if op.startswith("masked.")], _MASKED),
    **dict.fromkeys(("sparse.mm", "sparse.sampled_addmm", "to_sparse"), _SPARSE),
    **dict.fromkeys([op for op in NAMES if op.startswith("special.") and "_polynomial_" in op], _POLYNOMIAL),
    **dict.fromkeys(("geqrf", "ormqr", "linalg.ldl_factor", "linalg.ldl_factor_ex", "linalg.ldl_solve"), _LAPACK),
    "special.airy_ai": "A prototype without a gradient, and CuPy lacks it.",
    "chalf": "The engine has no complex32, which NumPy lacks.",
    "histogramdd": "NumPy's histogramdd on x.numpy() is the same function.",
    "nn.functional.linear_cross_entropy": "A fused kernel that PyTorch calls experimental; linear and cross_entropy give its result.",
    "nonzero_static": "It exists for compilers that cannot have sizes that depend on data.",
    "pca_lowrank": "An approximation drawn at random, from another generator than PyTorch's.",
    "svd_lowrank": "An approximation drawn at random, from another generator than PyTorch's.",
}  # fmt: skip
