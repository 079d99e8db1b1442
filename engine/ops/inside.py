"""Operators inside PyTorch that programs reach by `torch.ops.aten`, some by `torch` too: what its own functions and their rules are made of."""

from __future__ import annotations

from typing import Any

import numpy

from ..base import dtypes
from ..core.op import functions
from ..core.tensor import Tensor, define
from .front import front
from .native import _native_batch_norm
from .pad import pad
from .shape import wrap_dim


@front("slice", method=False, home="ops.aten")
def _slice(input: Tensor, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1) -> Tensor:
    """`input[start:end:step]` along a dimension; a view."""
    if step <= 0:
        raise RuntimeError("slice step must be positive")
    return input[(slice(None),) * wrap_dim(dim, input.ndim) + (slice(start, end, step),)]


@front("_safe_softmax", method=False)
def _safe_softmax(input: Tensor, dim: int, dtype: Any = None) -> Tensor:
    """`softmax`, and zeros in place of nan where all is masked by -inf."""
    found = functions["softmax"](input, dim, dtype)
    if found.array.__class__ is numpy.ndarray and (not found.numel() or not numpy.isnan(numpy.atleast_1d(found.array).take(0, dim)).any()):
        return found  # one number of each row tells; on other devices asking would cost more than filling
    empty = (input == -float("inf")).all(dim, keepdim=True)
    return functions["softmax"](input.masked_fill(empty, 0), dim, dtype).masked_fill(empty, 0)  # filled first: nan is no slope


@front("_softmax_backward_data", method=False)
def _softmax_backward_data(grad_output: Tensor, output: Tensor, dim: int, input_dtype: dtypes.dtype) -> Tensor:
    """The gradient that `softmax`, whose result is `output`, passes on to its input: of its own dtype, whatever the input's."""
    part = grad_output * output
    return part - output * part.sum(dim, keepdim=True)


@front("native_dropout_backward", method=False, home="ops.aten")
def _native_dropout_backward(grad_output: Tensor, mask: Tensor, scale: float) -> Tensor:
    """The gradient that `native_dropout` passes on: that of what was kept, scaled."""
    return grad_output * mask * scale


@front("_native_batch_norm_legit", method=False, out=True)
def _native_batch_norm_legit(input: Tensor, weight: Any, bias: Any, *rest: Any) -> tuple:
    """`native_batch_norm`; without running statistics `training`, `momentum` and `eps` follow at once."""
    if len(rest) not in (3, 5):
        raise TypeError(f"_native_batch_norm_legit: expected 6 or 8 arguments, but got {3 + len(rest)}")
    return _native_batch_norm(input, weight, bias, *((None, None) if len(rest) == 3 else ()), *rest)


@front("_batch_norm_with_update", method=False, home="ops.aten", out=True)
def _batch_norm_with_update(
    input: Tensor, weight: Any, bias: Any, running_mean: Tensor, running_var: Tensor, momentum: float, eps: float
) -> tuple:
    """`native_batch_norm` in training, and an empty tensor, which on other devices holds what the derivative needs."""
    found = _native_batch_norm(input, weight, bias, running_mean, running_var, True, momentum, eps)
    return (*found, input.new_empty(0, dtype=dtypes.uint8))


@front("_chunk_cat", method=False, out=True)
def _chunk_cat(tensors: Any, dim: int, num_chunks: int) -> Tensor:
    """Tensors cut along a dimension into equally many pieces, the last ones filled up with zeros; pieces of one number lie side by side."""
    if num_chunks < 1:
        raise RuntimeError("_chunk_cat expects positive num_chunks")
    if not tensors:
        raise RuntimeError("_chunk_cat expects a non-empty input tensor list")
    if any(t.numel() == 0 for t in tensors):
        raise RuntimeError("_chunk_cat expects non-empty tensor")
    if any(dim >= t.ndim for t in tensors):
        raise RuntimeError("_chunk_cat expects dim < ndim for all input tensors")
    rows = []
    for t in tensors:
        d = wrap_dim(dim, t.ndim)
        lacking = -t.shape[d] % num_chunks
        whole = pad(t, (0, 0) * (t.ndim - d - 1) + (0, lacking)) if lacking else t
        rows.append(whole.reshape((*t.shape[:d], num_chunks, -1)))
    return functions["cat"](rows, -1)


def _inside(input: Tensor, indices: Any) -> tuple:
    """The indices, those beyond the ends moved to them."""
    return tuple(slice(None) if at is None else at.clamp(min=0, max=n - 1) for at, n in zip(indices, input.shape, strict=False))


@front("_unsafe_masked_index", method=False)
def _unsafe_masked_index(input: Tensor, mask: Tensor, indices: Any, fill: Any) -> Tensor:
    """`input[indices]` where `mask` is true, `fill` elsewhere; there indices may lie outside."""
    return input[_inside(input, indices)].masked_fill(~mask, fill)


@front("_unsafe_masked_index_put_accumulate", method=False)
def _unsafe_masked_index_put_accumulate(input: Tensor, mask: Tensor, indices: Any, values: Tensor) -> Tensor:
    """The input with `values` added at the indices where `mask` is true; elsewhere indices may lie outside."""
    return input.index_put(_inside(input, indices), values.masked_fill(~mask, 0), accumulate=True)


def _rdiv(self: Tensor, other: Any) -> Tensor:
    """Python 2's name of `other / self`: PyTorch's `self.reciprocal() * other`, where integers become the default dtype first."""
    return self.reciprocal() * other


define("__rdiv__", _rdiv)
