"""Where the engine and PyTorch's own samples part ways on purpose, each with the reason."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch

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
ABSENT: dict[str, str] = {}
