"""`embedding_bag`: rows of a table, reduced in groups."""

from __future__ import annotations

from typing import Any

import numpy

from ..devices import namespace
from ..op import composite, functions
from ..tensor import Tensor


@composite(home="nn.functional")
def embedding_bag(
    input: Tensor, weight: Tensor, offsets: Tensor | None = None, max_norm: float | None = None, norm_type: float = 2.0,
    scale_grad_by_freq: bool = False, mode: str = "mean", sparse: bool = False, per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False, padding_idx: int | None = None,
) -> Tensor:  # fmt: skip
    """The sum, mean or maximum of each bag of rows of `weight`.

    Bags are the rows of a matrix of indices `(B, N)`, or pieces of a vector that start at `offsets`. Indices equal to `padding_idx`
    do not count; an empty bag gives zeros. `per_sample_weights`, of the input's shape, scale the rows; only with mode "sum".
    """
    if mode not in ("sum", "mean", "max"):
        raise ValueError("mode has to be one of sum, mean or max")
    if per_sample_weights is not None:
        if mode != "sum":
            raise NotImplementedError(f"embedding_bag: per_sample_weights was not None. per_sample_weights is only supported for mode='sum' (got mode='{mode}').")
        if tuple(per_sample_weights.shape) != tuple(input.shape):
            raise ValueError(f"embedding_bag: If per_sample_weights ({list(per_sample_weights.shape)}) is not None, then it must have the same shape as the input ({list(input.shape)})")
    bags, count = _bags(input, offsets, include_last_offset)
    rows = functions["nn.functional.embedding"](input.reshape(-1), weight, padding_idx, max_norm, norm_type, scale_grad_by_freq, sparse)
    if per_sample_weights is not None:
        rows = rows * per_sample_weights.reshape(-1, 1)
    if padding_idx is not None:
        counted = input._host().reshape(-1) != padding_idx % weight.shape[0]
        rows, bags = rows[_beside(rows, numpy.nonzero(counted)[0])], bags[counted]
    if mode == "max":
        return _maxima(rows, bags, count)
    total = rows.new_zeros((count, weight.shape[1])).index_add(0, _beside(rows, bags), rows)
    if mode == "sum":
        return total
    sizes = numpy.maximum(numpy.bincount(bags, minlength=count), 1).astype(rows.array.dtype)
    return total / _beside(rows, sizes[:, None])


def _beside(x: Tensor, array: numpy.ndarray) -> Tensor:
    return Tensor._wrap(namespace(x.array).asarray(array))


def _bags(input: Tensor, offsets: Any, include_last_offset: bool) -> tuple[numpy.ndarray, int]:
    """The bag that each index belongs to, and how many bags there are."""
    if input.ndim == 2:
        if offsets is not None:
            raise ValueError("if input is 2D, then offsets has to be None, as input is treated is a mini-batch of fixed length sequences. However, found offsets of type " + type(offsets).__name__)
        return numpy.repeat(numpy.arange(input.shape[0]), input.shape[1]), input.shape[0]
    if input.ndim != 1:
        raise ValueError(f"input has to be 1D or 2D Tensor, but got Tensor of dimension {input.ndim}")
    if offsets is None:
        raise ValueError("offsets has to be a 1D Tensor but got None")
    if offsets.ndim != 1:
        raise ValueError("offsets has to be a 1D Tensor")
    starts, n = offsets._host(), input.shape[0]
    if starts.size and starts[0] != 0:
        raise RuntimeError(f"offsets[0] has to be 0, i.e., the first sequence in the mini-batch has to start from position 0. However, got {starts[0]}")
    if starts.size and starts[-1] > n:
        raise RuntimeError(f"offsets[-1] can not be greater than input's length({n}), but got offsets[-1] of {starts[-1]}")
    ends = numpy.append(starts[1:], n)
    if include_last_offset:
        starts, ends = starts[:-1], starts[1:]
    return numpy.repeat(numpy.arange(starts.size), ends - starts), starts.size


def _maxima(rows: Tensor, bags: numpy.ndarray, count: int) -> Tensor:
    """The maximum of each bag: bags are laid side by side, short ones filled with -inf."""
    sizes = numpy.bincount(bags, minlength=count)
    places = numpy.full((count, max(int(sizes.max(initial=0)), 1)), bags.size)
    places[bags, numpy.arange(bags.size) - (numpy.cumsum(sizes) - sizes)[bags]] = numpy.arange(bags.size)
    filled = functions["cat"]([rows, rows.new_full((1, rows.shape[1]), -numpy.inf)])[_beside(rows, places)]
    return functions["where"](_beside(rows, (sizes == 0)[:, None]), 0.0, filled.max(1)[0])
