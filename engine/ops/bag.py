"""`embedding_bag`: rows of a table, reduced in groups."""

from __future__ import annotations

from typing import Any

import numpy

from ..base.dtypes import int64
from ..base.errors import warn
from ..core.devices import namespace
from ..core.op import composite, functions
from ..core.tensor import Tensor


@composite(home="nn.functional")
def embedding_bag(
    input: Any, weight: Any, offsets: Any = None, max_norm: float | None = None, norm_type: float = 2.0,
    scale_grad_by_freq: bool = False, mode: Any = "mean", sparse: bool = False, per_sample_weights: Any = None,
    include_last_offset: bool = False, padding_idx: int | None = None,
) -> Tensor:  # fmt: skip
    """Sum, mean or maximum of each bag of rows of `weight`.

    Bags are the rows of an index matrix `(B, N)`, or pieces of an index vector that start at `offsets`. Indices equal to `padding_idx` do
    not count; an empty bag gives zeros. `per_sample_weights`, of the input's shape, scale the rows; only with mode "sum".
    """
    if weight.dtype is int64 and input.is_floating_point():
        warn("Argument order of nn.functional.embedding_bag was changed. Usage `embedding_bag(weight, input, ...)` is deprecated, and should now be `embedding_bag(input, weight, ...)`.")
        input, weight = weight, input
    if per_sample_weights is not None:
        if tuple(per_sample_weights.shape) != tuple(input.shape):
            raise ValueError(f"embedding_bag: If per_sample_weights ({list(per_sample_weights.shape)}) is not None, then it must have the same shape as the input ({list(input.shape)})")
    if weight.ndim != 2:
        raise ValueError(f"weight has to be a 2D Tensor, but got Tensor of dimension {weight.ndim}")
    _refuse_layout(input, offsets)
    if mode not in ("sum", "mean", "max"):
        raise ValueError("mode has to be one of sum, mean or max")
    if mode == "max" and (scale_grad_by_freq or sparse):
        raise ValueError("max mode does not support scaling the gradient by the frequency, nor sparse weights")
    if per_sample_weights is not None and mode != "sum":
        raise NotImplementedError(f"embedding_bag: per_sample_weights was not None. per_sample_weights is only supported for mode='sum' (got mode='{mode}').")
    bags, count = _bags(input, offsets, include_last_offset)
    input = input.reshape(-1)[: bags.size]  # indices outside all bags are not read
    rows = functions["nn.functional.embedding"](input, weight, padding_idx, max_norm, norm_type, scale_grad_by_freq, sparse)
    shares = None if per_sample_weights is None else per_sample_weights.reshape(-1, 1)
    if padding_idx is not None:
        counted = input._steering() != padding_idx % weight.shape[0]
        kept = _beside(rows, numpy.nonzero(counted)[0])
        rows, bags, shares = rows[kept], bags[counted], shares if shares is None else shares[kept]
    if shares is not None:
        rows = rows * shares
    if mode == "max":
        return _maxima(rows, bags, count)
    total = rows.new_zeros((count, weight.shape[1])).index_add(0, _beside(rows, bags), rows)
    if mode == "sum":
        return total
    sizes = numpy.maximum(numpy.bincount(bags, minlength=count), 1).astype(rows.array.dtype)
    return total / _beside(rows, sizes[:, None])


def _beside(x: Tensor, array: numpy.ndarray) -> Tensor:
    return Tensor._wrap(namespace(x.array).asarray(array))


def _refuse_layout(input: Tensor, offsets: Any) -> None:
    """Raise ValueError for indices and offsets that do not form bags."""
    if input.ndim == 2 and offsets is not None:
        raise ValueError("if input is 2D, then offsets has to be None, as input is treated is a mini-batch of fixed length sequences. However, found offsets of type " + type(offsets).__name__)
    if input.ndim not in (1, 2):
        raise ValueError(f"input has to be 1D or 2D Tensor, but got Tensor of dimension {input.ndim}")
    if input.ndim == 1 and offsets is None:
        raise ValueError("offsets has to be a 1D Tensor but got None")
    if input.ndim == 1 and offsets.ndim != 1:
        raise ValueError("offsets has to be a 1D Tensor")


def _bags(input: Tensor, offsets: Any, include_last_offset: bool) -> tuple[numpy.ndarray, int]:
    """Return the bag of each index, and the number of bags."""
    if input.ndim == 2:
        return numpy.repeat(numpy.arange(input.shape[0]), input.shape[1]), input.shape[0]
    starts, n = offsets._steering(), input.shape[0]
    if starts.size and starts[0] != 0:
        raise RuntimeError(f"offsets[0] has to be 0, i.e., the first sequence in the mini-batch has to start from position 0. However, got {starts[0]}")
    if starts.size and starts[-1] > n:
        raise RuntimeError(f"offsets[-1] can not be greater than input's length({n}), but got offsets[-1] of {starts[-1]}")
    if include_last_offset:
        if not starts.size:
            raise RuntimeError("include_last_offset: number of offset should be at least 1")
        lengths = numpy.diff(starts)
    else:
        lengths = numpy.diff(starts, append=n)
    if int(lengths.min(initial=0)) < 0:
        raise RuntimeError(f"offsets must not fall from one bag to the next, but got {offsets.tolist()}")
    return numpy.repeat(numpy.arange(lengths.size), lengths), lengths.size


def _maxima(rows: Tensor, bags: numpy.ndarray, count: int) -> Tensor:
    """Maximum of each bag; 0 for an empty one."""
    filled, empty, _ = _side_by_side(rows, bags, count)
    return functions["where"](empty, 0.0, filled.gather(1, _first_largest(filled))[:, 0])


def _first_largest(filled: Tensor) -> Tensor:
    """Index of the maximum in each bag, `(count, 1, columns)`; as in PyTorch, a nan counts only if it is first."""
    known = filled.detach()
    lost = known.isnan()
    lost[:, :1] = False
    return known.masked_fill(lost, -numpy.inf).argmax(1, keepdim=True)


def _side_by_side(rows: Tensor, bags: numpy.ndarray, count: int) -> tuple[Tensor, Tensor, Tensor]:
    """Pad the bags with -inf to one tensor.

    Also returns which bags are empty, `(count, 1)`, and the indices taken from `rows`.
    """
    sizes = numpy.bincount(bags, minlength=count)
    places = numpy.full((count, max(int(sizes.max(initial=0)), 1)), bags.size)
    places[bags, numpy.arange(bags.size) - (numpy.cumsum(sizes) - sizes)[bags]] = numpy.arange(bags.size)
    taken = _beside(rows, places)
    return functions["cat"]([rows, rows.new_full((1, rows.shape[1]), -numpy.inf)])[taken], _beside(rows, (sizes == 0)[:, None]), taken


def of_each(indices: Tensor, offsets: Tensor, include_last_offset: bool) -> Tensor:
    """Return the bag of each index in a vector."""
    return _beside(indices, _bags(indices, offsets, include_last_offset)[0]).to(offsets.dtype)


def largest(weight: Tensor, indices: Tensor, bags: Tensor, count: int) -> Tensor:
    """Row of `weight` that the maximum of each bag comes from, `(count, columns)`; 0 for an empty bag."""
    filled, empty, taken = _side_by_side(weight.detach()[indices], bags._host(), count)
    at = taken.gather(1, _first_largest(filled)[:, 0])
    return functions["where"](empty, 0, functions["cat"]([indices, indices.new_zeros((1,))])[at])
