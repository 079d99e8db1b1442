"""Forms of ops and of their derivative rules that are faster on NumPy's arrays than the ops' own text: compiled, or with fewer temporaries.

The text of an op remains the truth: it runs everywhere else, and the tests compare these forms with it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy

from . import fused, kernels_loss, kernels_norm, loops
from .fused import LEAST, each, each_row
from .indexing import masked
from .reduction import in_pieces, mean, sum
from .workers import share

# (op, "forward" or a rule) -> a function of the arrays and attributes that it names; None where the op's text must run
FORMS: dict[tuple[str, str], Callable] = {
    ("relu", "d_input"): lambda g, out: each("relu_input", g, out),
    ("tanh", "d_input"): lambda g, out: each("tanh_input", g, out),
    ("sigmoid", "d_input"): lambda g, out: each("sigmoid_input", g, out),
    ("silu", "d_input"): lambda g, input: each("silu_input", g, input),
    ("gelu", "d_input"): lambda g, input, approximate: each("gelu_tanh_input" if approximate == "tanh" else "gelu_input", g, input),
    ("softplus", "d_input"): lambda g, input, beta, threshold: each("softplus_input", g, input, numbers=(beta, threshold)),
    ("elu", "forward"): lambda input, alpha: each("elu", input, numbers=(alpha,)),
    ("elu", "d_input"): lambda g, input, alpha: each("elu_input", g, input, numbers=(alpha,)),
    ("leaky_relu", "forward"): lambda input, negative_slope: each("leaky_relu", input, numbers=(negative_slope,)),
    ("leaky_relu", "d_input"): lambda g, input, negative_slope: each("leaky_relu_input", g, input, numbers=(negative_slope,)),
    ("erf", "d_input"): lambda g, input: each("erf_input", g, input),
}

_shared = functools.partial(functools.partial, loops.over)
# the same, only for arrays of at least loops.LARGE elements: several threads share them
LARGE_FORMS: dict[tuple[str, str], Callable] = {
    ("add", "forward"): _shared(numpy.add),
    ("sub", "forward"): _shared(numpy.subtract),
    ("sub", "d_other"): _shared(numpy.negative),
    ("mul", "forward"): _shared(numpy.multiply),
    ("mul", "d_input"): _shared(numpy.multiply),
    ("mul", "d_other"): _shared(numpy.multiply),
    ("div", "forward"): _shared(numpy.divide),
    ("div", "d_input"): _shared(numpy.divide),
    ("div", "d_other"): lambda g, input, other: each("div_other", g, input, other),
    ("neg", "forward"): _shared(numpy.negative),
    ("neg", "d_input"): _shared(numpy.negative),
    ("relu", "forward"): lambda input: loops.over(numpy.maximum, input, 0),
    ("abs", "forward"): _shared(numpy.absolute),
    ("abs", "d_input"): lambda g, input: each("abs_input", g, input),
    ("pow", "forward"): lambda input, exponent: loops.over(numpy.multiply, input, input) if _is_two(exponent) else None,
    ("pow", "d_input"): lambda g, input, exponent: each("square_input", g, input) if _is_two(exponent) else None,
    ("square", "forward"): lambda input: loops.over(numpy.multiply, input, input),
    ("square", "d_input"): lambda g, input: each("square_input", g, input),
    ("sqrt", "forward"): _shared(numpy.sqrt),
    ("sqrt", "d_input"): lambda g, out: each("sqrt_input", g, out),
    ("exp", "d_input"): _shared(numpy.multiply),
    ("log", "forward"): _shared(numpy.log),
    ("log", "d_input"): _shared(numpy.divide),
    ("tanh", "forward"): _shared(numpy.tanh),
    ("maximum", "forward"): _shared(numpy.maximum),
    ("minimum", "forward"): _shared(numpy.minimum),
    ("clone", "forward"): lambda input, memory_format=None: loops.copied(input) if memory_format is None else None,
}


def _is_two(exponent: Any) -> bool:
    return exponent.__class__ in (int, float) and exponent == 2


def form(op: str, part: str) -> Callable[[Callable], Callable]:
    """Decorate the form of a part of an op."""

    def add(fn: Callable) -> Callable:
        FORMS[op, part] = fn
        return fn

    return add


def _large(*arrays: Any) -> bool:
    """Whether these are large arrays of NumPy's, of one shape and floating-point dtype, in row-major order."""
    first = arrays[0]
    return first.size >= LEAST and all(
        a.__class__ is numpy.ndarray and a.dtype == first.dtype and a.dtype.kind == "f" and a.shape == first.shape and a.flags.c_contiguous
        for a in arrays
    )


@form("softmax", "d_input")
def softmax(g: Any, out: Any, dim: int) -> Any:
    found = each_row("softmax_input", dim, g, out)
    if found is None and _large(g, out) and dim in (-1, g.ndim - 1):
        found = g - numpy.vecdot(g, out)[..., None]
        found *= out
    return found


@form("log_softmax", "d_input")
def log_softmax(g: Any, out: Any, dim: int) -> Any:
    found = each_row("log_softmax_input", dim, g, out)
    if found is None and _large(g, out):
        found = numpy.exp(out)
        found *= sum(g, dim, True)
        numpy.subtract(g, found, out=found)
    return found


@form("cross_entropy", "forward")
def cross_entropy(input: Any, target: Any, weight: Any, ignore_index: int, reduction: str, label_smoothing: float) -> Any:
    if not _plain_classes(input, target, weight, ignore_index, reduction, label_smoothing):
        return None
    below = kernels_loss.log_sum_exp(input)
    total = (below.reshape(-1) - input[_counted(len(target)), target]).sum()
    return total / len(target) if reduction == "mean" else total, below


@form("cross_entropy", "d_input")
def cross_entropy_input(
    g: Any, input: Any, target: Any, weight: Any, lse: Any, ignore_index: int, reduction: str, label_smoothing: float
) -> Any:
    if not _plain_classes(input, target, weight, ignore_index, reduction, label_smoothing):
        return None
    scale = g / len(target) if reduction == "mean" else g
    out = kernels_loss.softmax_scaled(input, lse, scale)
    out[_counted(len(target)), target] -= scale
    return out


def _plain_classes(input: Any, target: Any, weight: Any, ignore_index: int, reduction: str, label_smoothing: float) -> bool:
    """Whether this is the usual loss: of rows of floats, without weights, with all targets in range and none ignored."""
    if input.__class__ is not numpy.ndarray or target.__class__ is not numpy.ndarray or input.dtype.kind != "f":
        return False
    if weight is not None or label_smoothing or reduction not in ("mean", "sum") or input.ndim != 2 or not len(input):
        return False
    if target.dtype != numpy.int64 or target.shape != input.shape[:1]:
        return False
    low, high = int(target.min()), int(target.max())
    return low >= 0 and high < input.shape[1] and not low <= ignore_index <= high


@functools.lru_cache(8)
def _counted(n: int) -> numpy.ndarray:
    return numpy.arange(n)


# -- normalization ------------------------------------------------------------------------------------------------------------


@form("group_norm", "forward")
def group_norm(input: Any, weight: Any, bias: Any, num_groups: int, eps: float) -> Any:
    weights = [w for w in (weight, bias) if w is not None]
    if input.ndim < 2 or num_groups <= 0 or input.shape[1] % num_groups or any(w.shape != input.shape[1:2] for w in weights):
        return None
    return kernels_norm.normalize_groups(input, num_groups, eps, weight, bias)


@form("group_norm", "d_input")
def group_norm_input(g: Any, input: Any, weight: Any, mean: Any, rstd: Any, num_groups: int) -> Any:
    found = kernels_norm.normalize_groups_input(g, input, mean, rstd, weight)
    if found is not None or not _large(g, input):
        return found
    if weight is not None:
        g = g * weight.reshape(-1, *(1,) * (g.ndim - 2))
    rows = (len(g), num_groups, -1)
    return kernels_norm.normalize_input(g.reshape(rows), input.reshape(rows), mean, rstd, (2,)).reshape(g.shape)


@form("group_norm", "d_weight")
def group_norm_weight(g: Any, input: Any, mean: Any, rstd: Any, num_groups: int) -> Any:
    found = kernels_norm.normalize_groups_weight(g, input, mean, rstd)
    if found is not None or not _large(g, input):
        return found
    total = numpy.zeros(input.shape[1], g.dtype)
    for slope, x, m, r in zip(g, input, mean, rstd, strict=True):
        unit = x.reshape(num_groups, -1) - m
        unit *= r
        total += numpy.vecdot(slope.reshape(len(total), -1), unit.reshape(len(total), -1))
    return total


@form("rms_norm", "forward")
def rms_norm(input: Any, weight: Any, normalized_shape: Any, eps: float | None) -> Any:
    shape = tuple(normalized_shape) if hasattr(normalized_shape, "__iter__") else ()
    if not shape or input.shape[-len(shape) :] != shape or weight is not None and weight.shape != shape:
        return None
    return kernels_norm.rms_normalize(input, len(shape), float(numpy.finfo(input.dtype).eps) if eps is None else eps, weight)


@form("rms_norm", "d_input")
def rms_norm_input(g: Any, input: Any, weight: Any, rstd: Any, normalized_shape: Any) -> Any:
    return kernels_norm.rms_normalize_input(g, input, len(normalized_shape), rstd, weight)


@form("rms_norm", "d_weight")
def rms_norm_weight(g: Any, input: Any, rstd: Any) -> Any:
    lead = max((i + 1 for i, n in enumerate(rstd.shape) if n > 1), default=0)
    if not lead or not _large(g, input):
        return None
    return kernels_norm.normalize_weight(g, input, numpy.zeros_like(rstd), rstd, tuple(range(lead)))


# -- reductions and losses ----------------------------------------------------------------------------------------------------


@form("var", "d_input")
def var(g: Any, input: Any, dim: Any, correction: float) -> Any:
    n = input.size - correction
    if g.size != 1 or n <= 0 or input.size < LEAST:
        return None
    return each("shifted_scaled", input, numbers=(float(mean(input)), 2 / n * float(g.reshape(())[()])))


@form("logsumexp", "d_input")
def logsumexp(g: Any, input: Any, out: Any, dim: Any) -> Any:
    if dim not in (-1, input.ndim - 1, (-1,), (input.ndim - 1,)) or (run := fused.kernel("softmax_scaled", input, g, out)) is None:
        return None
    found, width = numpy.empty_like(input), input.shape[-1]
    share(run, (input.reshape(-1, width), out.reshape(-1), g.reshape(-1)), last=(found.reshape(-1, width),))
    return found


@form("mse_loss", "forward")
def mse_loss(input: Any, target: Any, reduction: str) -> Any:
    if reduction not in ("mean", "sum") or input.shape != target.shape or (run := fused.kernel("row_distances", input, target)) is None:
        return None
    (one, rest), (two, other) = in_pieces(input), in_pieces(target)
    parts, rest = numpy.empty(len(one), input.dtype), rest - other
    share(run, (one, two), last=(parts,))
    total = numpy.add.reduce(parts) + rest.dot(rest)
    return total / input.size if reduction == "mean" else total


def _difference(g: Any, input: Any, target: Any, reduction: str) -> Any:
    if reduction not in ("mean", "sum") or g.ndim:
        return None
    factor = 2 * float(g) / max(input.size, 1) if reduction == "mean" else 2 * float(g)
    return each("scaled_difference", input, target, numbers=(factor,))


FORMS["mse_loss", "d_input"] = _difference
FORMS["mse_loss", "d_target"] = lambda g, input, target, reduction: _difference(g, target, input, reduction)


@form("masked_fill", "d_input")
def masked_fill(g: Any, mask: Any) -> Any:
    return masked(g, mask, 0.0)
