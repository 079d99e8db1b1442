"""PyTorch's internal operators behind its functions and rules, reached by `torch.ops.aten` and partly by `torch`."""

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
    """`softmax` with zeros instead of nan where all elements are masked by -inf."""
    found = functions["softmax"](input, dim) if dtype is None else functions["softmax"](input, dim, dtype)
    if found.array.__class__ is numpy.ndarray and (not found.numel() or not numpy.isnan(numpy.atleast_1d(found.array).take(0, dim)).any()):
        return found  # one value per row suffices; on other devices this check would cost more than filling
    empty = (input == -float("inf")).all(dim, keepdim=True)
    return functions["softmax"](input.masked_fill(empty, 0), dim, dtype).masked_fill(empty, 0)  # filled first: nan has no gradient


@front("_softmax_backward_data", method=False)
def _softmax_backward_data(grad_output: Tensor, output: Tensor, dim: int, input_dtype: dtypes.dtype) -> Tensor:
    """Gradient of the input of `softmax` with the result `output`; it keeps its own dtype, whatever the input's."""
    part = grad_output * output
    return part - output * part.sum(dim, keepdim=True)


@front("native_dropout_backward", method=False, home="ops.aten")
def _native_dropout_backward(grad_output: Tensor, mask: Tensor, scale: float) -> Tensor:
    """Gradient of the input of `native_dropout`: that of the kept elements, scaled."""
    return grad_output * mask * scale


@front("_native_batch_norm_legit", method=False, out=True)
def _native_batch_norm_legit(input: Tensor, weight: Any, bias: Any, *rest: Any) -> tuple:
    """`native_batch_norm`; without running statistics, `training`, `momentum` and `eps` follow `bias`."""
    if len(rest) not in (3, 5):
        raise TypeError(f"_native_batch_norm_legit: expected 6 or 8 arguments, but got {3 + len(rest)}")
    return _native_batch_norm(input, weight, bias, *((None, None) if len(rest) == 3 else ()), *rest)


@front("_batch_norm_with_update", method=False, home="ops.aten", out=True)
def _batch_norm_with_update(
    input: Tensor, weight: Any, bias: Any, running_mean: Tensor, running_var: Tensor, momentum: float, eps: float
) -> tuple:
    """`native_batch_norm` in training, and an empty tensor, which on other devices holds data for the derivative."""
    found = _native_batch_norm(input, weight, bias, running_mean, running_var, True, momentum, eps)
    return (*found, input.new_empty(0, dtype=dtypes.uint8))


@front("_chunk_cat", method=False, out=True)
def _chunk_cat(tensors: Any, dim: int, num_chunks: int) -> Tensor:
    """Cut tensors along a dimension into `num_chunks` pieces, padded with zeros; pieces of the same index are concatenated."""
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
    """Clamp the indices to the input's sizes."""
    return tuple(slice(None) if at is None else at.clamp(min=0, max=n - 1) for at, n in zip(indices, input.shape, strict=False))


@front("_unsafe_masked_index", method=False)
def _unsafe_masked_index(input: Tensor, mask: Tensor, indices: Any, fill: Any) -> Tensor:
    """`input[indices]` where `mask` is True, else `fill`; there, indices may be out of range."""
    return input[_inside(input, indices)].masked_fill(~mask, fill)


@front("_unsafe_masked_index_put_accumulate", method=False)
def _unsafe_masked_index_put_accumulate(input: Tensor, mask: Tensor, indices: Any, values: Tensor) -> Tensor:
    """The input with `values` added at the indices where `mask` is True; elsewhere, indices may be out of range."""
    return input.index_put(_inside(input, indices), values.masked_fill(~mask, 0), accumulate=True)


def _rdiv(self: Tensor, other: Any) -> Tensor:
    """Python 2's name of `other / self`; as in PyTorch, `self.reciprocal() * other`, with integers cast to the default dtype first."""
    return self.reciprocal() * other


define("__rdiv__", _rdiv)
