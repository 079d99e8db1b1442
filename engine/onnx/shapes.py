"""Translations of ops that move elements: reshapes, concatenation, indexing and padding."""

from __future__ import annotations

from typing import Any

import numpy

from ..base import dtypes
from .errors import OnnxExporterError
from .graph import Graph
from .record import Value
from .sizes import Dim
from .table import translates

_END = (1 << 63) - 1


@translates("reshape", "view")
def _reshape(g: Graph, x: str, shape: Any) -> str:
    shape = list(shape) if isinstance(shape, (tuple, list)) else [shape]
    following = [i for i, n in enumerate(shape) if isinstance(n, Dim)]
    following = [i for i in following if not shape[i].input] or following  # prefer to leave sizes without a rule to ONNX
    if len(following) == 1 and -1 not in shape and 0 not in shape:
        shape[following[0]] = -1
    return g("Reshape", x, g.ints(shape), allowzero=1 if 0 in shape else None)


@translates("expand", "broadcast_to")
def _expand(g: Graph, x: str, size: Any) -> str:
    seen = g.shape_of(0)
    own = [1] * (len(size) - len(seen)) + list(seen)
    return g("Expand", x, g.ints([n if s == -1 else s for s, n in zip(size, own, strict=True)]))


@translates("squeeze")
def _squeeze(g: Graph, x: str, dim: Any) -> str:
    shape = g.shape_of(0)
    dims = range(len(shape)) if dim is None else dim if isinstance(dim, (tuple, list)) else (dim,)
    axes = [int(d) % max(len(shape), 1) for d in dims if shape and shape[d] == 1 and not isinstance(shape[d], Dim)]
    return g("Squeeze", x, g.constant(axes, numpy.int64)) if axes else g("Identity", x)


@translates("unsqueeze")
def _unsqueeze(g: Graph, x: str, dim: int) -> str:
    return g("Unsqueeze", x, g.constant([int(dim)], numpy.int64))


def permuted(g: Graph, x: str, order: list[int]) -> str:
    return x if order == list(range(len(order))) else g("Transpose", x, perm=order)


@translates("transpose")
def _transpose(g: Graph, x: str, dim0: int, dim1: int) -> str:
    order = list(range(len(g.shape_of(0))))
    if order:
        order[dim0], order[dim1] = order[dim1], order[dim0]
    return permuted(g, x, order)


@translates("permute")
def _permute(g: Graph, x: str, dims: Any) -> str:
    n = len(g.shape_of(0))
    return permuted(g, x, [int(d) % n for d in dims])


@translates("movedim")
def _movedim(g: Graph, x: str, source: Any, destination: Any) -> str:
    n = len(g.shape_of(0))
    moved = numpy.moveaxis(numpy.empty((1,) * n), source, destination)  # raises for invalid dims
    order = [d for d in range(n) if d not in [int(s) % n for s in numpy.atleast_1d(source)]]
    for to, at in sorted(zip(numpy.atleast_1d(destination) % moved.ndim, numpy.atleast_1d(source) % n, strict=True)):
        order.insert(int(to), int(at))
    return permuted(g, x, order)


@translates("cat")
def _cat(g: Graph, *tensors: str, dim: int) -> str:
    d = g.event.outputs[0].array.dtype
    shapes = [v.array.shape for v in g.event.inputs]
    kept = [
        t if v.array.dtype == d else g.cast(t, d)
        for t, v, s in zip(tensors, g.event.inputs, shapes, strict=True)
        if s != (0,) or all(s == (0,) for s in shapes)
    ]
    return g("Concat", *kept, axis=int(dim))


@translates("stack")
def _stack(g: Graph, *tensors: str, dim: int) -> str:
    return g("Concat", *[g("Unsqueeze", t, g.constant([int(dim)], numpy.int64)) for t in tensors], axis=int(dim))


@translates("tile")
def _tile(g: Graph, x: str, dims: Any) -> str:
    missing = len(dims) - len(g.shape_of(0))
    if missing > 0:
        x = g("Unsqueeze", x, g.constant(list(range(missing)), numpy.int64))
    return g("Tile", x, g.ints([1] * max(0, -missing) + list(dims)))


@translates("flip")
def _flip(g: Graph, x: str, dims: Any) -> str:
    axes = [int(d) for d in (dims if isinstance(dims, (tuple, list)) else (dims,))]
    return sliced(g, x, [-1] * len(axes), [-_END] * len(axes), axes, [-1] * len(axes))


@translates("roll")
def _roll(g: Graph, x: str, shifts: Any, dims: Any) -> str:
    shifts, dims = (list(v) if isinstance(v, (tuple, list)) else [v] for v in (shifts, dims if dims is not None else ()))
    if not dims or dims == [None]:
        raise OnnxExporterError("roll: name its dims; a roll of all elements is not translated")
    for shift, dim in zip(shifts, dims, strict=True):
        ends = sliced(g, x, [-int(shift)], [_END], [int(dim)], [1]), sliced(g, x, [0], [-int(shift)], [int(dim)], [1])
        x = g("Concat", *ends, axis=int(dim)) if shift else x
    return x


@translates("tril", "triu")
def _trilu(g: Graph, x: str, diagonal: int) -> str:
    return g("Trilu", x, g.constant(int(diagonal), numpy.int64), upper=int(g.event.op == "triu"))


def sliced(g: Graph, x: str, starts: list, ends: list, axes: list[int], steps: list[int]) -> str:
    return g("Slice", x, g.ints(starts), g.ints(ends), g.constant(axes, numpy.int64), g.constant(steps, numpy.int64))


@translates("constant_pad")
def _pad(g: Graph, x: str, pad: Any, value: Any) -> str:
    n = len(g.shape_of(0))
    before, after = [0] * n, [0] * n
    for i in range(len(pad) // 2):
        before[n - 1 - i], after[n - 1 - i] = pad[2 * i], pad[2 * i + 1]
    return g("Pad", x, g.ints([*before, *after]), g.constant(value or 0, g.event.outputs[0].array.dtype))


# -- indices --------------------------------------------------------------------------------------------------------------------------


@translates("getitem")
def _getitem(g: Graph, x: str, index: Any) -> str:
    """Index by integers and slices with `Slice`, then by tensors with `Gather` for one and `GatherND` for several."""
    shape = g.shape_of(0)
    items = list(index) if isinstance(index, tuple) else [index]
    width = sum(_dims_of(i) for i in items)
    at = next((k for k, i in enumerate(items) if i is Ellipsis), len(items))
    items[at : at + 1] = [slice(None)] * (len(shape) - width)
    starts, ends, axes, steps, gone, fresh, tensors = [], [], [], [], [], [], []
    axis = out = 0
    for item in items:
        if item is None:
            fresh.append(out)
            out += 1
        elif isinstance(item, Value):
            tensors.append((axis, out, item))
            axis, out = axis + _dims_of(item), out + 1
        elif isinstance(item, slice):
            start, stop, step = item.start, item.stop, item.step or 1
            if (start, stop, step) != (None, None, 1):
                starts, ends = [*starts, 0 if start is None else start], [*ends, _END if stop is None else stop]
                axes, steps = [*axes, axis], [*steps, int(step)]
            axis, out = axis + 1, out + 1
        elif isinstance(item, bool):
            raise OnnxExporterError("getitem: a Python bool as index is not translated")
        else:
            end = _END if item == -1 else item + 1
            starts, ends, axes, steps, gone = [*starts, item], [*ends, end], [*axes, axis], [*steps, 1], [*gone, axis]
            axis += 1
    if axes:
        x = sliced(g, x, starts, ends, axes, steps)
    if tensors:
        if gone and len(tensors) > 1 or len(tensors) > 1 and fresh:
            raise OnnxExporterError("getitem: several index tensors beside integers or None are not translated; index in two steps")
        x = _by_tensors(g, x, [(a, v) for a, _, v in tensors], len(shape))
        if len(tensors) == 1 and tensors[0][2].array.dtype != bool:
            more = tensors[0][2].array.ndim - 1
            where, shift = tensors[0][1], tensors[0][0]
            gone = [a + (more if a > shift else 0) for a in gone]
            fresh = [f + (more if f > where else 0) for f in fresh]
    if gone:
        x = g("Squeeze", x, g.constant(gone, numpy.int64))
    return g("Unsqueeze", x, g.constant(fresh, numpy.int64)) if fresh else x if axes or tensors or gone else g("Identity", x)


def _dims_of(item: Any) -> int:
    if item is None or item is Ellipsis:
        return 0
    return item.array.ndim if isinstance(item, Value) and item.array.dtype == bool else 1


def _by_tensors(g: Graph, x: str, tensors: list[tuple[int, Value]], n: int) -> str:
    if len(tensors) == 1:
        axis, value = tensors[0]
        if value.array.dtype != bool:
            return g("Gather", x, g.of(value), axis=axis)
        if axis:
            raise OnnxExporterError("getitem: a mask behind other indices is not translated")
        return g("GatherND", x, g("Transpose", g("NonZero", g.of(value)), perm=[1, 0]))
    axes = [axis for axis, _ in tensors]
    if any(v.array.dtype == bool for _, v in tensors):
        raise OnnxExporterError("getitem: a mask beside other index tensors is not translated")
    together = axes == list(range(axes[0], axes[0] + len(axes)))
    front = [*axes, *[a for a in range(n) if a not in axes]]
    shape = numpy.broadcast_shapes(*[v.array.shape for _, v in tensors])
    full = g.ints(list(shape))
    limits = [g.shape_of(0)[a] for a in axes]
    parts = []
    for (_, v), limit in zip(tensors, limits, strict=True):
        index = g("Expand", g.cast(g.of(v), dtypes.int64), full)
        index = g("Where", g("Less", index, g.constant(0, numpy.int64)), g("Add", index, g.size(limit)), index)
        parts.append(g("Unsqueeze", index, g.constant([-1], numpy.int64)))
    found = g("GatherND", permuted(g, x, front), g("Concat", *parts, axis=-1))
    if not together or axes[0] == 0:
        return found
    k, lead = len(shape), axes[0]
    order = [*range(k, k + lead), *range(k), *range(k + lead, k + n - len(axes))]
    return permuted(g, found, order)


@translates("gather")
def _gather(g: Graph, x: str, index: str, dim: int, sparse_grad: bool = False) -> str:
    return g("GatherElements", _whole(g, x), index, axis=int(dim))


@translates("scatter")
def _scatter(g: Graph, x: str, index: str, src: str, dim: int) -> str:
    return g("ScatterElements", x, index, _fitting(g, src, index), axis=int(dim))


@translates("scatter_add")
def _scatter_add(g: Graph, x: str, index: str, src: str, dim: int) -> str:
    return _combined(g, x, index, _fitting(g, src, index), dim, "add", 16)


@translates("scatter_prod")
def _scatter_prod(g: Graph, x: str, index: str, src: str, dim: int) -> str:
    return _combined(g, x, index, _fitting(g, src, index), dim, "mul", 16)


@translates("scatter_extreme")
def _scatter_extreme(g: Graph, x: str, index: str, src: str, dim: int, reduce: str) -> str:
    return _combined(g, x, index, _fitting(g, src, index), dim, "max" if "max" in reduce else "min", 18)


def _combined(g: Graph, x: str, index: str, src: str, dim: int, reduction: str, since: int) -> str:
    if g.opset < since:
        raise OnnxExporterError(f"{g.event.op}: ONNX combines what falls on one place since opset {since}, got opset_version {g.opset}")
    return g("ScatterElements", x, index, src, axis=int(dim), reduction=reduction)


def _fitting(g: Graph, src: str, index: str) -> str:
    """Match the values to the index's shape: expand a scalar, or crop a larger source."""
    value = g.event.inputs[2]
    if not isinstance(value, Value) or not value.array.ndim:
        return g("Expand", src, g("Shape", index))
    mine, wanted = g.shape_of(2), g.shape_of(1)
    axes = [a for a in range(len(mine)) if mine[a] != wanted[a]]
    return sliced(g, src, [0] * len(axes), [wanted[a] for a in axes], axes, [1] * len(axes)) if axes else src


@translates("index_add", "index_copy")
def _index_add(g: Graph, x: str, index: str, source: str, dim: int, alpha: float = 1) -> str:
    n = len(g.shape_of(0))
    along = g("Unsqueeze", index, g.constant([a for a in range(n) if a != int(dim) % n], numpy.int64))
    places = g("Expand", along, g("Shape", source))
    if g.event.op == "index_copy":
        return g("ScatterElements", x, places, source, axis=int(dim))
    source = source if alpha == 1 else g("Mul", source, g.constant(alpha, g.event.outputs[0].array.dtype))
    return _combined(g, x, places, source, dim, "add", 16)


@translates("index_put")
def _index_put(g: Graph, x: str, values: str, indices: Any, accumulate: bool = False) -> str:
    """`x[mask] = scalar`, or `x[index] = values` along the first dimension."""
    items = list(indices) if isinstance(indices, (tuple, list)) else [indices]
    if len(items) != 1 or not isinstance(items[0], Value):
        raise OnnxExporterError("index_put: a write is translated at one mask or one index tensor, got several indices")
    (index,), source = items, g.event.inputs[1]
    one = not isinstance(source, Value) or source.array.size == 1
    rank, seen = len(g.shape_of(0)), index.array.ndim
    if index.array.dtype == bool:
        if not one or accumulate:
            raise OnnxExporterError("index_put: a write at a mask is translated for one number; use torch.where for more")
        mask = g.of(index)
        mask = mask if seen == rank else g("Unsqueeze", mask, g.constant(list(range(seen, rank)), numpy.int64))
        return g("Where", mask, g("Reshape", values, g.constant([1] * rank, numpy.int64)), x)
    at = g("Unsqueeze", g.cast(g.of(index), dtypes.int64), g.constant([-1], numpy.int64))
    limit = g.size(g.shape_of(0)[0])
    at = g("Where", g("Less", at, g.constant(0, numpy.int64)), g("Add", at, limit), at)
    ends = g("Slice", g("Shape", x), g.constant([1], numpy.int64), g.constant([_END], numpy.int64))
    source_shape = g("Concat", g("Shape", g.of(index)), ends, axis=0)
    if accumulate and g.opset < 16:
        raise OnnxExporterError(f"index_put: ONNX adds what falls on one place since opset 16, got opset_version {g.opset}")
    return g("ScatterND", x, at, g("Expand", values, source_shape), reduction="add" if accumulate else None)


@translates("index_select")
def _index_select(g: Graph, x: str, index: str, dim: int) -> str:
    return g("Gather", x, index, axis=int(dim))


@translates("embedding")
def _embedding(g: Graph, index: str, weight: str, **_: Any) -> str:
    return g("Gather", weight, index, axis=0)


def _whole(g: Graph, x: str) -> str:
    """Crop dimensions other than `dim` to the index's size for GatherElements; in PyTorch they may be longer."""
    mine, index, dim = g.shape_of(0), g.shape_of(1), int(g.event.attrs["dim"])
    axes = [a for a in range(len(mine)) if a != dim % max(len(mine), 1) and mine[a] != index[a]]
    return sliced(g, x, [0] * len(axes), [index[a] for a in axes], axes, [1] * len(axes)) if axes else x


@translates("write_positions")
def _write_positions(g: Graph, x: str, src: str, positions: Value) -> str:
    flat = g("Reshape", x, g.constant([-1], numpy.int64))
    at, new = (g("Reshape", v, g.constant([-1], numpy.int64)) for v in (g.of(positions), src))
    return g("Reshape", g("ScatterElements", flat, at, new, axis=0), g.constant(g.fixed(g.shape_of(0), "shape"), numpy.int64))


@translates("read_positions")
def _read_positions(g: Graph, x: str, positions: Value) -> str:
    return g("Gather", g("Reshape", x, g.constant([-1], numpy.int64)), g.of(positions), axis=0)
