"""Ops that put tensors together, take them apart, repeat and pad them."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy

from .. import devices, dtypes
from ..devices import namespace
from ..errors import Refused
from ..op import Linear, composite
from ..tensor import Tensor
from .index import getitem
from .shape import expand, permute, reshape, unsqueeze, wrap_dim


class Join(Linear):
    """Takes a sequence of tensors and promotes their dtypes."""
    variadic, inputs, types, exact, method = True, ("tensors",), "promote", True, False

    @classmethod
    def prepare(cls, arrays):
        if not arrays:
            raise Refused(*cls.nothing)
        for i, a in enumerate(arrays):
            if not hasattr(a, "dtype"):
                raise Refused(f"expected Tensor as element {i} in argument 0, but got {type(a).__name__}", TypeError)
        first = arrays[0].dtype
        if all(getattr(a, "dtype", None) is first for a in arrays):
            return arrays, devices.common(arrays, cls.name)
        return super().prepare(arrays)


class cat(Join):
    """The tensors one after the other along a dimension; in the others their sizes must agree."""
    aliases, nothing = ("concat", "concatenate"), ("expected a non-empty list of Tensors", ValueError)
    examples = ((((2, 3), (4, 3)), {}), (((2,), (3,), (1,)), {}), (((2, 3), (2, 1)), {"dim": -1}))
    def forward(xp, tensors, dim=0): return xp.concatenate(joinable(tensors, dim), axis=dim)
    def d_tensors(xp, g, shapes, dim): return [g[part] for part in parts(shapes, dim)]


class stack(Join):
    """The tensors, all of one shape, along a new dimension."""
    nothing = ("stack expects a non-empty TensorList",)
    examples = ((((2, 3), (2, 3)), {}), (((2, 3), (2, 3)), {"dim": -1}), (((), (), ()), {}))
    def forward(xp, tensors, dim=0): return xp.stack(alike(tensors), axis=dim)
    def d_tensors(xp, g, shapes, dim): return [g[(slice(None),) * (dim % g.ndim) + (i,)] for i in range(len(shapes))]


class tile(Linear):
    """The tensor repeated `dims[i]` times along each dimension."""
    inputs, varargs, exact = ("input",), True, True
    examples = ((((2, 3),), {"dims": (2, 2)}), (((2, 3),), {"dims": (2,)}), (((3,),), {"dims": (2, 1, 2)}))
    def forward(xp, input, dims): return xp.tile(input, dims)
    def d_input(xp, g, shape, dims): return untiled(xp, g, shape, dims)


class constant_pad(Linear):
    """A number added around the tensor: `pad` holds (before, after) from the last dimension on; negative sizes cut off."""
    home, inputs, exact = "", ("input",), True
    examples = ((((3, 4),), {"pad": (1, 2)}), (((3, 4),), {"pad": (1, -1, 0, 2), "value": 2.5}))
    def forward(xp, input, pad, value=0): return xp.constant_pad(input, pad, value)
    def d_input(xp, g, pad): return xp.constant_pad(g, tuple(-n for n in pad))
    @classmethod
    def push(cls, node, tangents, xp, recorded): return xp.constant_pad(tangents[0], node.attrs["pad"]) if recorded else cls.forward(namespace(tangents[0]), tangents[0], node.attrs["pad"])


# -- what the ops check and compute ------------------------------------------------------------------------------------------


def joinable(tensors: Sequence, dim: int) -> list:
    """The arrays that `cat` joins: PyTorch lets an empty 1-d tensor stand beside any shape."""
    for i, t in enumerate(tensors):
        if t is None:
            raise Refused(f"expected Tensor as element {i} in argument 0, but got NoneType", TypeError)
    kept = [t for t in tensors if tuple(t.shape) != (0,)] or list(tensors[:1])
    first = kept[0].shape
    for i, t in enumerate(tensors):
        if t.ndim == 0:
            raise Refused(f"zero-dimensional tensor (at position {i}) cannot be concatenated")
    d = wrap_dim(dim, len(first))
    for t in kept:
        if t.ndim != len(first):
            raise Refused(f"Tensors must have same number of dimensions: got {len(first)} and {t.ndim}")
        if t.shape[:d] != first[:d] or t.shape[d + 1 :] != first[d + 1 :]:
            at = next(i for i, (a, b) in enumerate(zip(first, t.shape, strict=True)) if i != d and a != b)
            where = next(i for i, other in enumerate(tensors) if other is t)
            raise Refused(f"Sizes of tensors must match except in dimension {d}. Expected size {first[at]} but got size {t.shape[at]} for tensor number {where} in the list.")
    return kept


def parts(shapes: Sequence, dim: int) -> list:
    """Where each of the tensors joined along `dim` lies in the result."""
    ndim = max(map(len, shapes))
    lead, at, found = (slice(None),) * (dim % ndim), 0, []
    for shape in shapes:
        n = shape[dim] if len(shape) == ndim else 0
        found.append((*lead, slice(at, at + n)) if len(shape) == ndim else (slice(0, 0),) * ndim)
        at += n
    return found


def alike(tensors: Sequence) -> Sequence:
    for i, t in enumerate(tensors):
        if t.shape != tensors[0].shape:
            raise Refused(f"stack expects each tensor to be equal size, but got {list(tensors[0].shape)} at entry 0 and {list(t.shape)} at entry {i}")
    return tensors


def untiled(xp: Any, g: Any, shape: tuple, dims: Any) -> Any:
    """The gradient of the copies summed: each dimension is split into (copies, size) and summed over the copies."""
    dims = (dims,) if isinstance(dims, int) else tuple(dims)
    n = max(len(dims), len(shape))
    dims, sizes = (1,) * (n - len(dims)) + dims, (1,) * (n - len(shape)) + tuple(shape)
    split = xp.reshape(g, tuple(itertools.chain.from_iterable(zip(dims, sizes, strict=True))))
    return xp.reshape(xp.sum(split, axis=tuple(range(0, 2 * n, 2))), tuple(shape))


# -- apart: views ------------------------------------------------------------------------------------------------------------


@composite(method=True)
def select(input: Tensor, dim: int, index: int) -> Tensor:
    """The slice at one index of a dimension, without that dimension; a view."""
    if input.ndim == 0:
        raise IndexError("select() cannot be applied to a 0-dim tensor.")
    d, n = wrap_dim(dim, input.ndim), input.array.shape
    if not -n[d] <= index < n[d]:
        raise IndexError(f"select(): index {index} out of range for tensor of size {list(n)} at dimension {d}")
    return input[(slice(None),) * d + (int(index),)]


@composite(method=True)
def narrow(input: Tensor, dim: int, start: int, length: int) -> Tensor:
    """`length` slices of a dimension from `start` on; a view."""
    if input.ndim == 0:
        raise RuntimeError("narrow() cannot be applied to a 0-dim tensor.")
    d = wrap_dim(dim, input.ndim)
    if isinstance(start, Tensor) and (start.ndim or start.dtype.rank != dtypes.INT):
        raise RuntimeError("start must be an 0-dim integral Tensor.")
    n, start = input.array.shape[d], int(start)
    if length < 0:
        raise RuntimeError("narrow(): length must be non-negative.")
    if not -n <= start <= n:
        raise IndexError(f"start out of range (expected to be in range of [{-n}, {n}], but got {start})")
    start = start + n if start < 0 else start
    if start + length > n:
        raise RuntimeError(f"start ({start}) + length ({length}) exceeds dimension size ({n}).")
    return input[(slice(None),) * d + (slice(start, start + length),)]


@composite(method=True)
def split(tensor: Tensor, split_size_or_sections: Any, dim: int = 0) -> tuple[Tensor, ...]:
    """Views of pieces along a dimension: of one size, the last perhaps smaller, or of the sizes in a list."""
    d = wrap_dim(dim, tensor.ndim)
    if tensor.ndim == 0:
        raise RuntimeError("split expects at least a 1-dimensional tensor")
    n, size = tensor.array.shape[d], split_size_or_sections
    if isinstance(size, int):
        if size < 0 or size == 0 and n:
            raise RuntimeError(f"split expects split_size be non-negative, but got split_size={size}" if size < 0 else f"split_size can only be 0 if dimension size is 0, but got dimension size of {n}")
        sizes = [size] * (n // size) + [n % size] * (n % size > 0) if n else [0]
    else:
        sizes = [int(s) for s in size]
        if sum(sizes) != n or min(sizes, default=0) < 0:
            raise RuntimeError(f"split_with_sizes expects split_sizes to sum exactly to {n} (input tensor's size at dimension {dim}), but got split_sizes={sizes}")
    ends = list(itertools.accumulate(sizes))
    return tuple(tensor[(slice(None),) * d + (slice(end - s, end),)] for end, s in zip(ends, sizes, strict=True))


Tensor.split_with_sizes = split


@composite(method=True)
def chunk(input: Tensor, chunks: int, dim: int = 0) -> tuple[Tensor, ...]:
    """Views of at most `chunks` pieces along a dimension, all of one size but perhaps the last."""
    if chunks <= 0:
        raise RuntimeError(f"chunk expects `chunks` to be greater than 0, got: {chunks}")
    n = input.shape[wrap_dim(dim, input.ndim)] if input.ndim else 0
    return split(input, -(-n // chunks), dim) if n else split(input, [0] * chunks, dim)


@composite(method=True)
def tensor_split(input: Tensor, indices_or_sections: Any, dim: int = 0) -> tuple[Tensor, ...]:
    """Views of pieces along a dimension: so many of nearly one size, or cut at the indices."""
    d = wrap_dim(dim, input.ndim)
    if input.ndim == 0:
        raise RuntimeError("tensor_split expected at least a 1-D tensor, but got 0-D")
    n, cuts = input.array.shape[d], indices_or_sections
    cuts = cuts.tolist() if isinstance(cuts, Tensor) else cuts
    if isinstance(cuts, int):
        if cuts <= 0:
            raise RuntimeError(f"number of sections must be larger than 0, got {cuts}")
        cuts = [(n // cuts) * i + min(i, n % cuts) for i in range(1, cuts)]
    edges = [0, *cuts, n]
    return tuple(input[(slice(None),) * d + (slice(a, b),)] for a, b in itertools.pairwise(edges))


@composite(method=True)
def hsplit(input: Tensor, indices_or_sections: Any) -> tuple[Tensor, ...]:
    """Pieces along the second dimension, of a 1-d tensor along the first."""
    return tensor_split(input, indices_or_sections, 0 if input.ndim == 1 else 1)


@composite(method=True)
def vsplit(input: Tensor, indices_or_sections: Any) -> tuple[Tensor, ...]:
    """Pieces along the first dimension."""
    return tensor_split(input, indices_or_sections, 0)


@composite(method=True)
def unbind(input: Tensor, dim: int = 0) -> tuple[Tensor, ...]:
    """Views of all slices along a dimension, without that dimension."""
    if input.ndim == 0:
        raise IndexError(f"Dimension specified as {dim} but tensor has no dimensions")
    lead = (slice(None),) * wrap_dim(dim, input.ndim)
    return tuple(input[(*lead, i)] for i in range(input.array.shape[len(lead)]))


# -- together ------------------------------------------------------------------------------------------------------------------


def _each(fn: Any, tensors: tuple) -> Any:
    if len(tensors) == 1 and isinstance(tensors[0], (tuple, list)):
        return tuple(fn(t) for t in tensors[0])
    found = tuple(fn(t) for t in tensors)
    return found[0] if len(found) == 1 else found


@composite
def atleast_1d(*tensors: Any) -> Any:
    """0-d tensors as 1-d ones; the others as they are."""
    return _each(lambda t: t if t.ndim else reshape(t, (1,)), tensors)


@composite
def atleast_2d(*tensors: Any) -> Any:
    """Tensors with fewer dimensions with new leading ones."""
    return _each(lambda t: t if t.ndim > 1 else reshape(t, (1, t.numel())), tensors)


@composite
def atleast_3d(*tensors: Any) -> Any:
    """Tensors with fewer dimensions with new ones: (n,) becomes (1, n, 1), (n, m) becomes (n, m, 1)."""
    return _each(lambda t: t if t.ndim > 2 else unsqueeze(t, -1) if t.ndim == 2 else reshape(t, (1, t.numel(), 1)), tensors)


def _some(tensors: Sequence[Tensor], name: str) -> Sequence[Tensor]:
    if not len(tensors):
        raise RuntimeError(f"{name} expects a non-empty TensorList")
    return tensors


@composite
def hstack(tensors: Sequence[Tensor]) -> Tensor:
    """Joined along the second dimension, 1-d tensors along the first."""
    whole = [atleast_1d(t) for t in _some(tensors, "hstack")]
    return cat(whole, 0 if whole[0].ndim == 1 else 1)


@composite(aliases=("row_stack",))
def vstack(tensors: Sequence[Tensor]) -> Tensor:
    """Joined along the first dimension; 1-d tensors are rows."""
    return cat([atleast_2d(t) for t in _some(tensors, "vstack")], 0)


@composite
def dstack(tensors: Sequence[Tensor]) -> Tensor:
    """Joined along the third dimension."""
    return cat([atleast_3d(t) for t in _some(tensors, "dstack")], 2)


@composite
def column_stack(tensors: Sequence[Tensor]) -> Tensor:
    """Joined along the second dimension; 1-d tensors are columns."""
    return cat([t if t.ndim > 1 else reshape(t, (t.numel(), 1)) for t in tensors], 1)


@composite(home="Tensor", method=True)
def repeat(self: Tensor, *sizes: Any) -> Tensor:
    """The tensor repeated along each dimension; more sizes than dimensions add leading ones."""
    sizes = tuple(sizes[0]) if len(sizes) == 1 and not hasattr(sizes[0], "__index__") else sizes
    if len(sizes) < self.ndim:
        raise RuntimeError("Number of dimensions of repeat dims can not be smaller than number of dimensions of tensor")
    return tile(self, sizes)


@composite(method=True)
def repeat_interleave(input: Tensor, repeats: Any, dim: int | None = None, *, output_size: int | None = None) -> Tensor:
    """Each slice repeated `repeats` times, a number or one number for each; without `dim` the elements of the flattened tensor."""
    if dim is None:
        input, dim = reshape(input, (input.numel(),)), 0
    n = input.shape[wrap_dim(dim, input.ndim)]
    counts = numpy.asarray(repeats._host() if isinstance(repeats, Tensor) else repeats)
    if counts.ndim > 1 or counts.size not in (1, n):
        raise RuntimeError(f"repeats must have the same size as input along dim, but got repeats.size(0) = {counts.size} and input.size({dim}) = {n}")
    if counts.size and counts.min() < 0:
        raise RuntimeError("repeats can not be negative")
    places = numpy.repeat(numpy.arange(n), counts)
    return getitem(input, (slice(None),) * wrap_dim(dim, input.ndim) + (namespace(input.array).asarray(places),))


@composite
def meshgrid(*tensors: Any, indexing: str = "ij") -> tuple[Tensor, ...]:
    """Grids of coordinates from 0-d or 1-d tensors: with "ij" the first varies along the first dimension, with "xy" along the second."""
    if len(tensors) == 1 and isinstance(tensors[0], (tuple, list)):
        tensors = tuple(tensors[0])
    if indexing not in ("ij", "xy"):
        raise RuntimeError(f'meshgrid: indexing must be one of "xy" or "ij", but received: {indexing}')
    if any(t.ndim > 1 for t in tensors):
        raise RuntimeError("meshgrid: Expected 0D or 1D tensor in the tensor list")
    shape, n = tuple(t.numel() for t in tensors), len(tensors)
    grids = [expand(reshape(t, (1,) * i + (t.numel(),) + (1,) * (n - i - 1)), shape) for i, t in enumerate(tensors)]
    return tuple(grids if indexing == "ij" or n < 2 else [permute(g, (1, 0, *range(2, n))) for g in grids])


@composite
def cartesian_prod(*tensors: Tensor) -> Tensor:
    """All combinations of one element from each 1-d tensor, as rows."""
    if len(tensors) == 1:
        return tensors[0]
    return stack([reshape(g, (g.numel(),)) for g in meshgrid(*tensors)], 1)


@composite
def combinations(input: Tensor, r: int = 2, with_replacement: bool = False) -> Tensor:
    """All combinations of `r` elements of a 1-d tensor, as rows."""
    if input.ndim != 1:
        raise RuntimeError(f"Expect a 1D vector, but got shape {list(input.shape)}")
    choose = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    rows = numpy.array(list(choose(range(input.numel()), r)), numpy.int64).reshape(-1, r)
    return input[Tensor(rows)] if rows.size or r else input.new_zeros(0)


@composite
def block_diag(*tensors: Tensor) -> Tensor:
    """A matrix with the given matrices, vectors (as rows) and numbers along its diagonal."""
    blocks = [atleast_2d(t) for t in tensors]
    width, at, rows = sum(b.shape[1] for b in blocks), 0, []
    for b in blocks:
        rows.append(constant_pad(b, (at, width - at - b.shape[1])))
        at += b.shape[1]
    return cat(rows, 0)


# -- padding and rearranging pixels --------------------------------------------------------------------------------------------------


@composite(home="nn.functional")
def pad(input: Tensor, pad: Sequence[int], mode: str = "constant", value: float | None = None) -> Tensor:
    """The tensor with borders: `pad` holds (before, after) for the last dimension, then for the one before it, and so on.

    `mode` is "constant" (filled with `value`, 0 by default; negative sizes cut off), "reflect", "replicate" or "circular".
    """
    widths = tuple(int(n) for n in pad)
    if len(widths) % 2:
        raise RuntimeError("Padding length must be divisible by 2")
    if len(widths) // 2 > input.ndim:
        raise RuntimeError(f"Padding length should be less than or equal to two times the input dimension but got padding length {len(widths)} and input of dimension {input.ndim}")
    if mode == "constant":
        return constant_pad(input, widths, 0 if value is None else value)
    names = {"reflect": "reflect", "replicate": "edge", "circular": "wrap"}
    if mode not in names:
        raise NotImplementedError(f"Unrecognised padding mode {mode}")
    if value is not None:
        raise ValueError(f'Padding mode "{mode}" doesn\'t take in value argument')
    for i in range(len(widths) // 2):
        input = _bordered(input, input.ndim - 1 - i, widths[2 * i], widths[2 * i + 1], mode, names[mode])
    return input


def _bordered(x: Tensor, dim: int, before: int, after: int, mode: str, numpy_mode: Any) -> Tensor:
    n = x.shape[dim]
    most = n - 1 if mode == "reflect" else n
    if mode != "replicate" and max(before, after) > most:
        raise RuntimeError(f"Padding size should be less than {'the corresponding input dimension' if mode == 'reflect' else 'or equal to the input size'}, "
                           f"but got: padding ({before}, {after}) at dimension {dim} of input {list(x.shape)}")  # fmt: skip
    places = numpy.arange(n)
    if mode == "circular":  # what is cut off does not come back at the other end
        places, before, after = places[max(-before, 0) : n - max(-after, 0)], max(before, 0), max(after, 0)
    places = numpy.pad(places, (max(before, 0), max(after, 0)), numpy_mode)[max(-before, 0) :]
    places = places[: len(places) - max(-after, 0)]
    return x if len(places) == n and (before, after) == (0, 0) else getitem(x, (slice(None),) * dim + (namespace(x.array).asarray(places),))


@composite(home="nn.functional")
def pixel_shuffle(input: Tensor, upscale_factor: int) -> Tensor:
    """Channels turned into pixels: (*, C r^2, H, W) becomes (*, C, H r, W r)."""
    *lead, c, h, w = input.shape
    r = upscale_factor
    if c % (r * r):
        raise RuntimeError(f"pixel_shuffle expects its input's 'channel' dimension to be divisible by the square of upscale_factor, but input.size(-3)={c} is not divisible by {r * r}")
    n = len(lead)
    split_up = reshape(input, (*lead, c // (r * r), r, r, h, w))
    return reshape(permute(split_up, (*range(n), n, n + 3, n + 1, n + 4, n + 2)), (*lead, c // (r * r), h * r, w * r))


@composite(home="nn.functional")
def pixel_unshuffle(input: Tensor, downscale_factor: int) -> Tensor:
    """Pixels turned into channels, the inverse of `pixel_shuffle`: (*, C, H r, W r) becomes (*, C r^2, H, W)."""
    *lead, c, h, w = input.shape
    r = downscale_factor
    if h % r or w % r:
        raise RuntimeError(f"pixel_unshuffle expects height and width to be divisible by downscale_factor, but they are {h} and {w}, with downscale_factor={r}")
    n = len(lead)
    split_up = reshape(input, (*lead, c, h // r, r, w // r, r))
    return reshape(permute(split_up, (*range(n), n, n + 2, n + 4, n + 1, n + 3)), (*lead, c * r * r, h // r, w // r))


@composite(home="nn.functional")
def channel_shuffle(input: Tensor, groups: int) -> Tensor:
    """The channels of `groups` groups interleaved: channel j of group i moves to place j * groups + i."""
    n, c, *rest = input.shape
    if c % groups:
        raise RuntimeError(f"Number of channels must be divisible by groups. Got {c} channels and {groups} groups.")
    split_up = reshape(input, (n, groups, c // groups, *rest))
    return reshape(permute(split_up, (0, 2, 1, *range(3, 3 + len(rest)))), (n, c, *rest))


@composite(home="nn.functional")
def one_hot(tensor: Tensor, num_classes: int = -1) -> Tensor:
    """Int64 vectors with a one at each class index and zeros elsewhere, as a new last dimension."""
    if tensor.dtype is not dtypes.int64:
        raise RuntimeError(f"one_hot is only applicable to index tensor of type LongTensor, got {tensor.dtype.name}.")
    array = tensor.array
    if array.size == 0 and num_classes <= 0:
        raise RuntimeError("Can not infer total number of classes from empty tensor.")
    if array.size and int(array.min()) < 0:
        raise RuntimeError("Class values must be non-negative.")
    n = int(array.max()) + 1 if num_classes == -1 else num_classes
    if array.size and int(array.max()) >= n:
        raise RuntimeError("Class values must be smaller than num_classes.")
    xp = namespace(array)
    return Tensor._wrap((array[..., None] == xp.arange(n)).astype(array.dtype))
