"""Splitting tensors: views of slices and of pieces along a dimension."""

from __future__ import annotations

import itertools
from typing import Any

from ..base import dtypes
from ..core.inplace import together
from ..core.op import composite
from ..core.tensor import Tensor, define
from .front import renamed
from .shape import wrap_dim


@composite(method=True)
def select(input: Tensor, dim: int, index: int) -> Tensor:
    """Slice at one index of a dimension, without that dimension; a view."""
    if input.ndim == 0:
        raise IndexError("select() cannot be applied to a 0-dim tensor.")
    d, n = wrap_dim(dim, input.ndim), input.array.shape
    if not -n[d] <= index < n[d]:
        raise IndexError(f"select(): index {index} out of range for tensor of size {list(n)} at dimension {d}")
    return input[(slice(None),) * d + (int(index),)]


@composite(method=True)
def narrow(input: Tensor, dim: int, start: int | Tensor, length: int) -> Tensor:
    """Slices `start` to `start + length` of a dimension; a view."""
    if isinstance(start, Tensor) and (start.ndim or start.dtype.rank != dtypes.INT):
        raise RuntimeError("start must be an 0-dim integral Tensor.")
    if input.ndim == 0:
        raise RuntimeError("narrow() cannot be applied to a 0-dim tensor.")
    if length < 0:
        raise RuntimeError("narrow(): length must be non-negative.")
    d = wrap_dim(dim, input.ndim)
    n, start = input.array.shape[d], int(start)
    if not -n <= start <= n:
        raise IndexError(f"start out of range (expected to be in range of [{-n}, {n}], but got {start})")
    start = start + n if start < 0 else start
    if start + length > n:
        raise RuntimeError(f"start ({start}) + length ({length}) exceeds dimension size ({n}).")
    return input[(slice(None),) * d + (slice(start, start + length),)]


@composite(method=True)
@renamed(split_size="split_size_or_sections", split_sizes="split_size_or_sections")
def split(tensor: Tensor, split_size_or_sections: Any, dim: int = 0) -> tuple[Tensor, ...]:
    """Split along a dimension into views of one size (the last may be smaller), or of the sizes in a list."""
    if tensor.ndim == 0:
        raise RuntimeError("split expects at least a 1-dimensional tensor")
    size = split_size_or_sections
    size = size.__index__() if isinstance(size, Tensor) and not size.ndim else size
    if isinstance(size, int) and size < 0:
        raise RuntimeError(f"split expects split_size be non-negative, but got split_size={size}")
    d = wrap_dim(dim, tensor.ndim)
    n = tensor.array.shape[d]
    if isinstance(size, int):
        if size == 0 and n:
            raise RuntimeError(f"split_size can only be 0 if dimension size is 0, but got dimension size of {n}")
        sizes = [size] * (n // size) + [n % size] * (n % size > 0) if n else [0]
    else:
        wrong = next((s for s in size if not hasattr(s, "__index__")), None) if isinstance(size, (tuple, list)) else size
        if wrong is not None:
            raise TypeError(f"split_with_sizes(): argument 'split_sizes' must be tuple of ints, not {type(wrong).__name__}")
        sizes = [s.__index__() for s in size]
        if sum(sizes) != n or min(sizes, default=0) < 0:
            raise RuntimeError(f"split_with_sizes expects split_sizes to sum exactly to {n} (input tensor's size at dimension {dim}), but got split_sizes={sizes}")
    ends = list(itertools.accumulate(sizes))
    pieces = [tensor[(slice(None),) * d + (slice(end - s, end),)] for end, s in zip(ends, sizes, strict=True)]
    return tuple(together(pieces, tensor, "Split" if isinstance(size, int) else "SplitWithSizes"))


define("split_with_sizes", split)


@composite(method=True)
def chunk(input: Tensor, chunks: int, dim: int = 0) -> tuple[Tensor, ...]:
    """Split along a dimension into at most `chunks` views of equal size; the last may be smaller."""
    if chunks <= 0:
        raise RuntimeError(f"chunk expects `chunks` to be greater than 0, got: {chunks}")
    n = input.shape[wrap_dim(dim, input.ndim)] if input.ndim else 0
    return split(input, -(-n // chunks), dim) if n else split(input, [0] * chunks, dim)


@composite(method=True)
@renamed(sections="indices_or_sections", indices="indices_or_sections", tensor_indices_or_sections="indices_or_sections")
def tensor_split(input: Tensor, indices_or_sections: Any, dim: int = 0) -> tuple[Tensor, ...]:
    """Split along a dimension into a number of views of nearly equal size, or at the given indices."""
    if input.ndim == 0:
        raise RuntimeError("tensor_split expected at least a 1-D tensor, but got 0-D")
    cuts = indices_or_sections
    if isinstance(cuts, Tensor):
        if cuts.dtype is not dtypes.int64 or cuts.ndim > 1:
            raise RuntimeError(f"tensor_split expected indices_or_sections to be a 0-d or 1-d int64 tensor, but got {cuts.ndim} dimensions of {cuts.dtype.name}")
        cuts = cuts.tolist()
    elif not isinstance(cuts, (int, list, tuple)):
        raise TypeError(f"tensor_split(): argument 'indices_or_sections' must be int, tuple of ints or Tensor, not {type(cuts).__name__}")
    d = wrap_dim(dim, input.ndim)
    n = input.array.shape[d]
    if isinstance(cuts, int):
        if cuts <= 0:
            raise RuntimeError(f"number of sections must be larger than 0, got {cuts}")
        cuts = [(n // cuts) * i + min(i, n % cuts) for i in range(1, cuts)]
    edges = [0, *cuts, n]
    return tuple(input[(slice(None),) * d + (slice(a, b),)] for a, b in itertools.pairwise(edges))


def _cut(name: str, input: Tensor, sections: Any, dim: int, least: int) -> tuple[Tensor, ...]:
    """`tensor_split`. Raises RuntimeError for fewer than `least` dimensions, and for pieces of unequal size."""
    if input.ndim < least:
        raise RuntimeError(f"torch.{name} requires a tensor with at least {least} dimension, but got a tensor with {input.ndim} dimensions!")
    n = input.shape[dim]
    if isinstance(sections, int) and (not sections or n % sections):
        raise RuntimeError(f"torch.{name} attempted to split along dimension {dim}, but the size of the dimension {n} is not divisible by the split_size {sections}!")
    return tensor_split(input, sections, dim)


@composite(method=True)
@renamed(sections="indices_or_sections", indices="indices_or_sections")
def hsplit(input: Tensor, indices_or_sections: Any) -> tuple[Tensor, ...]:
    """Split along the second dimension, or the first of a 1-d tensor, into a number of equal pieces, or at the given indices."""
    return _cut("hsplit", input, indices_or_sections, 0 if input.ndim == 1 else 1, 1)


@composite(method=True)
@renamed(sections="indices_or_sections", indices="indices_or_sections")
def vsplit(input: Tensor, indices_or_sections: Any) -> tuple[Tensor, ...]:
    """Split along the first dimension into a number of equal pieces, or at the given indices."""
    return _cut("vsplit", input, indices_or_sections, 0, 2)


@composite(method=True)
@renamed(sections="indices_or_sections", indices="indices_or_sections")
def dsplit(input: Tensor, indices_or_sections: Any) -> tuple[Tensor, ...]:
    """Split along the third dimension into a number of equal pieces, or at the given indices."""
    return _cut("dsplit", input, indices_or_sections, 2, 3)


@composite(method=True)
def unbind(input: Tensor, dim: int = 0) -> tuple[Tensor, ...]:
    """Views of all slices along a dimension, without that dimension."""
    if input.ndim == 0:
        raise IndexError(f"Dimension specified as {dim} but tensor has no dimensions")
    lead = (slice(None),) * wrap_dim(dim, input.ndim)
    return tuple(together([input[(*lead, i)] for i in range(input.array.shape[len(lead)])], input, "Unbind"))


def sliced(input: Tensor, dim: int, start: int | None, end: int | None, step: int) -> Tensor:
    """Slices `start:end:step` of a dimension; a view."""
    d = wrap_dim(dim, input.ndim)
    if input.ndim == 0:
        raise IndexError("slice() cannot be applied to a 0-dim tensor.")
    if step <= 0:
        raise RuntimeError(f"slice step must be positive, got {step}")
    return input[(slice(None),) * d + (slice(start, end, step),)]
