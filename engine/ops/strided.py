"""Views by strides, complex numbers viewed as pairs, copies of views, and tensors with one part replaced."""

from __future__ import annotations

from typing import Any

import numpy

from ..backends.batch import Batched
from ..backends.meta import Meta
from ..base import dtypes
from ..base.errors import Refused
from ..base.layout import contiguous_format
from ..core import inplace, versions
from ..core.devices import namespace
from ..core.op import RULES_ONLY, Linear, composite, functions, replacing
from ..core.storage import resize_as_
from ..core.tensor import Tensor, define
from .shape import View, clone, diag_embed, diagonal, reshape, seen_otherwise
from .split import narrow, sliced, split, unbind


class strided_view(View):
    """View of the input's storage with any size and strides, counted in elements from the storage's start.

    `source` is the size, stride and offset of the input itself, which the gradient needs.
    """

    home, exempt = "", RULES_ONLY | {"noncontiguous": "It reads the storage, which another layout has otherwise."}
    examples = ((((8,),), {"size": (2, 3), "stride": (1, 2), "storage_offset": 1, "source": ((8,), (1,), 0)}),)
    def forward(xp, input, size, stride, storage_offset, source): return xp.strided_view(input, size, stride, storage_offset)
    def d_input(xp, g, size, stride, storage_offset, source): return _shared_out(xp, xp.restride(g, (size, stride, storage_offset), source), source)

    @classmethod
    def push(cls, node, tangents, xp, recorded):
        a, xp = node.attrs, xp if recorded else namespace(tangents[0])  # a tangent has its own storage
        return xp.restride(_shared_out(xp, tangents[0], a["source"]), a["source"], (a["size"], a["stride"], a["storage_offset"]))


def _shared_out(xp, x, source):
    """Divide the value at a memory location equally among the elements that share it, as in an expanded tensor."""
    span = 1
    for step, n in sorted((abs(step), n) for n, step in zip(*source[:2], strict=True) if n > 1):
        if step < span: return x / xp.restride(xp.ones_like(x), source, source)
        span += step * (n - 1)
    return x


class restride(Linear):
    """Write the input to an empty storage at one size, stride and offset (adding overlaps), and read it at another."""

    home, inputs, exact, exempt = "", ("input",), True, RULES_ONLY
    examples = ((((2, 3),), {"source": ((2, 3), (1, 2), 1), "target": ((6,), (1,), 0)}), (((4,),), {"source": ((4,), (1,), 0), "target": ((3, 2), (1, 1), 0)}))
    def forward(xp, input, source, target): return xp.restride(input, source, target)
    def d_input(xp, g, source, target): return xp.restride(g, target, source)


class view_as_real(View):
    """Complex numbers as pairs of real ones, in a new last dimension; a view."""

    examples = ((([1 + 2j, 3 - 1j],), {}), (([[1 + 2j], [0.5j]],), {}))
    def forward(xp, input): return xp.view_as_real(complex_only(input))
    def d_input(xp, g): return xp.conj(xp.view_as_complex(xp.ascontiguousarray(g)))  # undoes the executor's conjugation of the complex side


class view_as_complex(View):
    """Pairs of real numbers in the last dimension as complex ones; a view. Raises RuntimeError unless pairs are adjacent in memory."""

    examples = ((((3, 2),), {}), (((2, 2, 2),), {}))
    exempt = {"noncontiguous": "It refuses pairs that do not lie side by side, as PyTorch does."}
    def forward(xp, input): return xp.view_as_complex(pairs_only(input))
    def d_input(xp, g): return xp.view_as_real(xp.conj(g))


def complex_only(x: Any) -> Any:
    if x.dtype.kind != "c" if isinstance(x.dtype, numpy.dtype) else not x.dtype.is_complex:
        raise Refused("view_as_real is only supported for complex tensors")
    return x


def pairs_only(x: Any) -> Any:
    if x.dtype.kind != "f" if isinstance(x.dtype, numpy.dtype) else not x.dtype.is_floating_point:
        raise Refused("view_as_complex is only supported for half, float and double tensors")
    if x.dtype in (dtypes.float16, dtypes.float16.numpy):
        raise Refused("a half tensor would become complex32, which the engine does not have; cast to float32 first")
    if not x.ndim or x.shape[-1] != 2:
        raise Refused("Tensor must have a last dimension of size 2")
    return x


def _layout(x: Tensor, stride: Any = None, offset: int | None = None) -> tuple:
    return tuple(x.shape), x.stride() if stride is None else tuple(stride), x.storage_offset() if offset is None else offset


@composite(method=True)
def as_strided(input: Tensor, size: Any, stride: Any, storage_offset: int | None = None) -> Tensor:
    """View of the tensor's storage with any size and strides, counted in elements.

    Raises RuntimeError if the view would leave the storage.
    """
    for i, (name, v) in enumerate((("size", size), ("stride", stride)), 2):
        if isinstance(v, int):
            raise TypeError(f"as_strided(): argument '{name}' (position {i}) must be tuple of ints, not int")
    size, stride = tuple(size), tuple(stride)
    if len(size) != len(stride):
        raise RuntimeError(f"mismatch in length of strides and shape: {list(stride)} and {list(size)}")
    if any(n < 0 for n in size):
        raise RuntimeError(f"as_strided: sizes must not be negative, got {list(size)}")
    if any(s < 0 for s in stride):
        raise RuntimeError(f"as_strided: Negative strides are not supported at the moment, got strides: {list(stride)}")
    offset = input.storage_offset() if storage_offset is None else int(storage_offset)
    return strided_view(input, size, stride, offset, _layout(input))


seen_otherwise("as_strided", as_strided)


@composite(method=True)
def as_strided_scatter(input: Tensor, src: Tensor, size: Any, stride: Any, storage_offset: int | None = None) -> Tensor:
    """Copy of the input with `src` in the part that `as_strided` would view."""
    size, stride = tuple(size), tuple(stride)
    if len(size) != len(stride):
        raise RuntimeError("mismatch in length of strides and shape")
    if any(s < 0 for s in stride) or storage_offset is not None and storage_offset < 0:
        raise RuntimeError(f"as_strided: strides and the offset must not be negative, got {list(stride)} and {storage_offset}")
    if tuple(src.shape) != size:
        raise RuntimeError(f"expected src to have a size equal to the slice of self. src size = {list(src.shape)}, slice size = {list(size)}")
    return _replaced(input, src, lambda x: as_strided(x, size, stride, storage_offset))


def _with_surroundings(input: Tensor) -> Tensor:
    """Copy the tensor together with the storage around it, as PyTorch does before it writes to a part."""
    owner = versions.storage(input.array)
    size = owner.nbytes // input.itemsize
    if size == input.numel() or input.array.__class__ in (Batched, Meta) or inplace.overlaps(input.array):
        return clone(input)
    around = clone(as_strided(input, (size,), (1,), 0))
    return as_strided(around, input.shape, input.stride(), input.storage_offset())


def _replaced(input: Tensor, src: Tensor, seen: Any) -> Tensor:
    out = _with_surroundings(input)
    part = seen(out)
    if part.shape != src.shape:
        raise RuntimeError(f"expected src to have a size equal to the slice of self. src size = {list(src.shape)}, slice size = {list(part.shape)}")
    part.copy_(src)
    return out


@composite(method=True)
def select_scatter(input: Tensor, src: Tensor, dim: int, index: int) -> Tensor:
    """Copy of the input with `src` in one slice of a dimension."""
    return _replaced(input, src, lambda x: x.select(dim, index))


@composite(method=True)
def slice_scatter(input: Tensor, src: Tensor, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1) -> Tensor:
    """Copy of the input with `src` in the slices `start:end:step` of a dimension."""
    return _replaced(input, src, lambda x: sliced(x, dim, start, end, step))


@composite(method=True)
def diagonal_scatter(input: Tensor, src: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """Copy of the input with `src` on a diagonal."""
    return _replaced(input, src, lambda x: diagonal(x, offset, dim1, dim2))


@composite(method=True)
def diagflat(input: Tensor, offset: int = 0) -> Tensor:
    """Matrix with all elements of the input on a diagonal."""
    return diag_embed(reshape(input, (input.numel(),)), offset)


@composite
def unravel_index(indices: Tensor, shape: Any) -> tuple[Tensor, ...]:
    """Convert flat indices into a shape to one tensor of indices for each dimension."""
    shape = (shape,) if isinstance(shape, int) else tuple(shape)
    if indices.dtype.is_floating_point or indices.dtype.is_complex or indices.array.dtype.kind == "b":
        raise ValueError(f"expected 'indices' to be integer dtype, but got {indices.dtype.name}")
    if any(n < 0 for n in shape):
        raise ValueError(f"'shape' cannot have negative values, but got {shape}")
    xp, rest, found = namespace(indices.array), indices.array, []
    for n in reversed(shape):
        found.append(Tensor._wrap(xp.remainder(rest, n)))
        rest = rest // n
    return tuple(reversed(found))


# -- copies of views -------------------------------------------------------------------------------------------------------------


def _copying(name: str, fn: Any) -> None:
    def call(input: Tensor, *args: Any, **kwargs: Any) -> Any:
        found = fn(input, *args, **kwargs)
        return tuple(clone(x, memory_format=kept) for x in found) if isinstance(found, tuple) else clone(found, memory_format=kept)

    kept = contiguous_format if name.endswith("_copy") else None
    call.__name__, call.__doc__ = name, f"A copy of what `{name.removesuffix('_copy')}` shows."
    composite(call)


def _seen_as(input: Tensor, to: Any) -> Tensor:
    return input.view(to) if isinstance(to, dtypes.dtype) else reshape(input, to)  # a copy follows, so a view is not required


_SEEN = {
    "alias": lambda input: input, "narrow": narrow, "unbind": unbind, "split": split, "split_with_sizes": split, "view": _seen_as, "unfold": Tensor.unfold,
    "expand": Tensor.expand, "as_strided": as_strided, "diagonal": diagonal,
    **{name: functions[name] for name in ("permute", "squeeze", "t", "transpose", "unsqueeze", "view_as_real", "view_as_complex")},
}  # fmt: skip
for _name, _fn in _SEEN.items():
    _copying(f"{_name}_copy", _fn)
define("narrow_copy", functions["narrow_copy"])
for _name, _fn in {"unsafe_split": split, "unsafe_chunk": functions["chunk"]}.items():
    _copying(_name, _fn)
    define(_name, functions[_name])
functions["resolve_neg"] = functions["resolve_conj"]
functions |= {"zero_": Tensor.zero_, "resize_as_": resize_as_}  # type: ignore[attr-defined]
define("resolve_neg", functions["resolve_conj"])
define("conj_physical_", replacing("conj_physical", functions["conj"]))
