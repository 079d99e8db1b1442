"""Reading and writing at indices: `x[...]`, gather and scatter, masks, sorting, embedding.

An index that is made of integers, slices, None and Ellipsis gives a view; one with masks, lists or integer tensors a copy, by NumPy's
rules. As in PyTorch, integers beside index tensors select first: `x[0, :, [1, 2]]` is `x[0][:, [1, 2]]`.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy

from .. import dtypes, errors, inplace, observe, tape
from ..devices import namespace
from ..errors import Refused
from ..op import RULES_ONLY, Linear, Op, composite
from ..tensor import Tensor
from .cast import cast
from .shape import broadcast_shapes, expand, reshape, wrap_dim

_PLAIN = frozenset((int, slice, type(None), type(Ellipsis)))


class getitem(Linear):
    """The elements at an index: integers, slices, None, Ellipsis, masks, index tensors."""
    operator, view, inputs, home = "getitem", True, ("input",), ""
    examples = (
        (((2, 3, 4),), {"index": (1, slice(None, None, 2))}), (((2, 3),), {"index": (Ellipsis, None, 0)}),
        (((3, 2),), {"index": (numpy.array([0, 2, 0]),)}), (((2, 3),), {"index": (numpy.array([[True, False, True], [False, True, True]]),)}),
    )  # fmt: skip
    def forward(xp, input, index): return input[index]
    def d_input(xp, g, shape, index): return xp.put_zeros(g, shape, index)

    @staticmethod
    def operate(input, index):
        """`x[index]`: the way of integers and slices is written out, for loops over rows run it more often than most ops."""
        array, kind = input.array, index.__class__
        if kind is tuple:
            for item in index:
                if item.__class__ not in _PLAIN or item.__class__ is slice and item.step is not None:
                    return _read(input, index)
        elif kind is not int and (kind is not slice or index.step is not None):
            return _read(input, index)
        if array.__class__ is not numpy.ndarray or observe.current is not None:
            return _read(input, index)
        try:
            data = array[index]
        except IndexError:
            return _read(input, index)
        if data.__class__ is not numpy.ndarray:
            index = (*index, Ellipsis) if kind is tuple else (index, Ellipsis)
            data = array[index]
        out = _new(Tensor)
        out.array, attrs, source = data, {"index": index}, input.node
        if source is not None and tape.mode.grad and array.dtype.kind in "fcV":
            out.node = node = _new_node(tape.Node)
            node.op, node.inputs, node.attrs, node.saved, node.hooks = getitem, (source,), attrs, (), None
            node.shape, node.dtype, node.time = data.shape, data.dtype, tape.tick()
        else:
            out.node = None
        inplace.mark_view(out, input, getitem, attrs)
        return out

    @classmethod
    def explain(cls, error, inputs, attrs):
        if isinstance(error, IndexError):
            error = Refused(str(error).replace("for axis", "for dimension"), IndexError)
        return super().explain(error, inputs, attrs)


_new, _new_node = object.__new__, tape.Node.__new__


class put_zeros(Linear):
    """Zeros of a shape with the input added at an index."""
    exempt = RULES_ONLY
    home, inputs, exact = "", ("input",), True
    examples = ((((2,),), {"shape": (2, 3), "index": (slice(None), 1)}), (((3, 2),), {"shape": (4, 2), "index": (numpy.array([0, 2, 0]),)}))
    def forward(xp, input, shape, index): return xp.put_zeros(input, shape, index)
    def d_input(xp, g, index): return g[index]


def _read(input: Tensor, index: Any) -> Tensor:
    basic, advanced = _understood("getitem", input, index)
    if advanced is None:
        return getitem(input, basic)
    seen = input if basic is None else getitem(input, basic)
    return getitem(seen, advanced)


# -- what an index means --------------------------------------------------------------------------------------------------


def _understood(name: str, input: Tensor, index: Any) -> tuple[tuple | None, tuple | None]:
    """`_parsed`; what it refuses is told with the tensor's shape and the user's line."""
    try:
        return _parsed(input, index)
    except (IndexError, TypeError, ValueError) as error:
        line = errors.user_line()
        told = type(error)(f"{name}: {error}; input is {errors.describe(input)}{f' ({line})' if line else ''}")
        if observe.current is not None:
            observe.current.failed(getitem, (input,), {"index": index}, told)
        raise told from None


def _parsed(input: Tensor, index: Any) -> tuple[tuple | None, tuple | None]:
    """An index as a basic one, to be applied first, and an advanced one of slices and arrays; None: nothing to do."""
    items = list(index) if isinstance(index, tuple) else [index]
    array, shape = input.array, input.array.shape
    used = sum(_consumed(i) for i in items)
    if used > array.ndim:
        if array.ndim == 0:
            raise IndexError("invalid index of a 0-dim tensor. Use `tensor.item()` in Python or `tensor.item<T>()` in C++ to convert a 0-dim tensor to a number")
        raise IndexError(f"too many indices for tensor of dimension {array.ndim}")
    dots = [i for i, item in enumerate(items) if item is Ellipsis]
    if len(dots) > 1:
        raise IndexError("an index can only have a single ellipsis ('...')")
    fill = [slice(None)] * (array.ndim - used)
    if dots:
        items[dots[0] : dots[0] + 1] = fill
    else:
        items += fill
    basic: list[Any] = []
    advanced: list[Any] = []
    dim, arrays = 0, 0
    for place, item in enumerate(items):
        if isinstance(item, (bool, numpy.bool_)) or _is_flag(item):
            basic.append(None)
            advanced.append(namespace(array).asarray([0] if bool(item) else [], dtype=numpy.int64))
            arrays += 1
        elif item is None:
            basic.append(None)
            advanced.append(slice(None))
        elif isinstance(item, slice):
            basic.append(_slice(item))
            advanced.append(slice(None))
            dim += 1
        elif _is_whole(item):
            i, n = int(item), shape[dim]
            if not -n <= i < n:
                raise IndexError(f"index {i} is out of bounds for dimension {dim} with size {n}")
            basic.append(i)
            dim += 1
        else:
            found = _index_array(item, array)
            arrays += 1
            if found.dtype == bool:
                if found.shape != shape[dim : dim + found.ndim]:
                    d = next(d for d, n in enumerate(found.shape) if n != shape[dim + d])
                    raise IndexError(f"The shape of the mask {list(found.shape)} at index {d} does not match the shape of the indexed tensor {list(shape)} at index {dim + d}")
                advanced.append(found)
                basic += [slice(None)] * found.ndim
                dim += found.ndim
            else:
                _check_range(found, dim, shape[dim])
                advanced.append(found)
                basic.append(slice(None))
                dim += 1
    if not arrays:
        return (*basic, Ellipsis), None
    plain = all(isinstance(i, slice) and i == slice(None) for i in basic)
    while advanced and isinstance(advanced[-1], slice):
        advanced.pop()
    if arrays > 1:
        _check_joint(advanced)
    return None if plain else tuple(basic), tuple(advanced)


def _consumed(item: Any) -> int:
    """How many dimensions of the tensor an item of an index stands for."""
    if item is None or item is Ellipsis or isinstance(item, (bool, numpy.bool_)) or _is_flag(item):
        return 0
    if isinstance(item, Tensor) and item.dtype in (dtypes.bool_, dtypes.uint8) or isinstance(item, numpy.ndarray) and item.dtype == bool:
        return item.ndim or 1
    return numpy.ndim(item) or 1 if isinstance(item, list) and _holds_bools(item) else 1


def _holds_bools(items: Any) -> bool:
    while isinstance(items, list) and items:
        items = items[0]
    return isinstance(items, (bool, numpy.bool_))


def _is_flag(item: Any) -> bool:
    return isinstance(item, (Tensor, numpy.ndarray)) and item.ndim == 0 and (item.array if isinstance(item, Tensor) else item).dtype == bool


def _is_whole(item: Any) -> bool:
    """An integer, or a 0-d tensor that holds one: it selects."""
    if isinstance(item, (int, numpy.integer)):
        return True
    if isinstance(item, Tensor):
        return item.array.ndim == 0 and item.dtype.rank == dtypes.INT
    return hasattr(item, "__index__") and not hasattr(item, "dtype")


def _slice(s: slice) -> slice:
    start, stop, step = (i if i is None else i.__index__() for i in (s.start, s.stop, s.step))
    if step is not None and step <= 0:
        raise ValueError("step must be greater than zero")
    return slice(start, stop, step)


def _index_array(item: Any, beside: Any) -> Any:
    """A list, array or tensor as an array of int64 or bool on the device of the array that it indexes."""
    if isinstance(item, Tensor):
        found = item.array
    elif isinstance(item, (list, range, numpy.ndarray, tuple)):
        found = numpy.asarray([i._host() if isinstance(i, Tensor) else i for i in item] if not isinstance(item, numpy.ndarray) else item)
        found = found.astype(numpy.int64) if found.size == 0 and found.dtype.kind == "f" else found
    else:
        raise IndexError(f"only integers, slices (`:`), ellipsis (`...`), None and long or byte Variables are valid indices (got {type(item).__name__})")
    if found.dtype == numpy.uint8 and isinstance(item, Tensor):
        warnings.warn("indexing with dtype engine.uint8 is now deprecated, please use a dtype engine.bool instead.", UserWarning, stacklevel=5)
        found = found.astype(bool)
    if isinstance(item, (list, range, tuple)) and found.dtype.kind == "i":
        found = found.astype(numpy.int64, copy=False)
    if found.dtype not in (numpy.int64, numpy.int32, numpy.bool_):
        raise IndexError("tensors used as indices must be long, int, byte or bool tensors")
    here, there = namespace(found), namespace(beside)
    return found if here is there else there.asarray(found)


def _check_range(index: Any, dim: int, n: int) -> None:
    if index.size and isinstance(index, numpy.ndarray):
        low, high = int(index.min()), int(index.max())
        if low < -n or high >= n:
            raise IndexError(f"index {low if low < -n else high} is out of bounds for dimension {dim} with size {n}")


def _check_joint(items: list) -> None:
    shapes = [i.shape if i.dtype != bool else (int(i.sum()),) for i in items if not isinstance(i, slice)]
    try:
        numpy.broadcast_shapes(*shapes)
    except ValueError:
        raise IndexError(f"shape mismatch: indexing tensors could not be broadcast together with shapes {', '.join(str(list(s)) for s in shapes)}") from None


# -- writing -----------------------------------------------------------------------------------------------------------------


def assign(target: Tensor, index: Any, value: Any) -> None:
    """`target[index] = value`, with gradients for what stays of the target and for the value."""
    if index.__class__ is int or index.__class__ is slice and index.step is None:
        basic, advanced = (index, Ellipsis) if target.array.ndim else _understood("setitem", target, index)[0], None
    else:
        basic, advanced = _understood("setitem", target, index)
    dtype = target.dtype
    if isinstance(value, Tensor):
        value = cast(value, dtype) if value.dtype is not dtype else value
        if value.is_cuda != target.is_cuda:
            value = value.to(target.device)
    elif isinstance(value, (list, tuple, numpy.ndarray)):
        value = Tensor(value, dtype, target.device)
    elif isinstance(value, complex) and dtype.rank < dtypes.COMPLEX:
        raise RuntimeError(f"value cannot be converted to type {dtype.name} without overflow")
    elif dtype.rank == dtypes.INT and not isinstance(value, int):
        value = int(value)
    recorded = tape.mode.grad and (target.node is not None or getattr(value, "node", None) is not None or getattr(target._base, "node", None) is not None)
    if recorded or observe.current is not None:
        seen = target if basic is None else getitem(target, basic)
        if advanced is None:
            inplace.write(copy, seen, (_without_leading_ones(value, seen),), {})
        else:
            inplace.write(index_put, seen, (value,), {"indices": advanced, "accumulate": False})
        return
    inplace.refuse_leaf(target, "setitem")
    array = target.array
    try:
        (array if basic is None else array[basic])[Ellipsis if advanced is None else advanced] = value.array if isinstance(value, Tensor) else value
    except (ValueError, IndexError) as error:
        raise _refused_write(target, index, value, error) from None
    inplace.note_write(array, "setitem")


def _refused_write(target: Tensor, index: Any, value: Any, error: Exception) -> Exception:
    if isinstance(error, IndexError):
        return IndexError(str(error).replace("for axis", "for dimension"))
    if isinstance(value, Tensor) and "broadcast" in str(error):
        return RuntimeError(f"shape mismatch: value tensor of shape {list(value.shape)} cannot be broadcast to indexing result of shape {list(target[index].shape)}")
    if "read-only" in str(error):
        error = ValueError("more than one element of the written-to tensor refers to a single memory location. Please clone() the tensor first.")
    return RuntimeError(f"setitem: {error}")


def _without_leading_ones(value: Any, seen: Tensor) -> Any:
    if isinstance(value, Tensor) and value.ndim > seen.ndim and all(n == 1 for n in value.shape[: value.ndim - seen.ndim]):
        return reshape(value, tuple(value.shape)[value.ndim - seen.ndim :])
    return value


class copy(Op):
    """The second tensor's numbers in the first one's shape and dtype: what `copy_` writes."""
    exempt = RULES_ONLY
    home, exact, inputs, samples = "", True, ("input", "src"), (((2, 3), (2, 3)), ((2, 3), (3,)), ((2,), ()))
    def forward(xp, input, src): return xp.copied(input, src)
    def d_input(xp, g): return xp.zeros_like(g)
    def d_src(xp, g): return g


class fill(Op):
    """One number everywhere: what `fill_` writes."""
    inplace, exact, inputs, samples = True, True, ("input", "value"), (((2, 3), ()),)
    def forward(xp, input, value): return xp.copied(input, value)
    def d_input(xp, g): return xp.zeros_like(g)
    def d_value(xp, g): return g


def _copy_(self: Tensor, src: Tensor, non_blocking: bool = False) -> Tensor:
    """Write another tensor's numbers into this one, broadcast and cast as needed."""
    if not isinstance(src, Tensor):
        raise TypeError(f"copy_(): argument 'other' (position 1) must be Tensor, not {type(src).__name__}")
    src = src.to(self.device)
    return inplace.write(copy, self, (cast(src, self.dtype) if src.dtype is not self.dtype else src,), {})


Tensor.copy_ = _copy_


def _zero_(self: Tensor) -> Tensor:
    """Write zeros into the tensor."""
    return self.fill_(0)


Tensor.zero_ = _zero_


class Placing(Op):
    """Elements of one tensor go to places of another: both have one dtype."""

    @classmethod
    def prepare(cls, arrays):
        input, source = arrays[0], arrays[-1]
        if hasattr(source, "dtype") and input.dtype != source.dtype:
            raise Refused(f"expected {cls.inputs[0]} and {cls.inputs[-1]} of one dtype, but got {input.dtype.name} and {source.dtype.name}")
        return super().prepare(arrays)


class index_put(Placing):
    """The tensor with values written, or added with `accumulate`, at the places that a tuple of index tensors names."""
    exact, inputs, order = True, ("input", "values"), ("input", "indices", "values", "accumulate")
    examples = (
        (((3, 2), (2, 2)), {"indices": (numpy.array([0, 2]),)}), (((3, 2), (3,)), {"indices": (numpy.array([0, 2, 0]), numpy.array([1, 0, 1])), "accumulate": True}),
        (((3,), ()), {"indices": (numpy.array([True, False, True]),)}),
    )  # fmt: skip
    def forward(xp, input, values, indices, accumulate=False): return xp.put(input, plain(indices), values, accumulate)
    def d_input(xp, g, indices, accumulate): return g if accumulate else xp.put(g, plain(indices), 0, False)
    def d_values(xp, g, indices): return g[plain(indices)]


def plain(indices: Any) -> tuple:
    """The index tensors as arrays."""
    return tuple(i.array if isinstance(i, Tensor) else i for i in indices)


def _index_put_(self: Tensor, indices: Any, values: Tensor, accumulate: bool = False) -> Tensor:
    """Write values, or add them, at the places that a tuple of index tensors names."""
    return inplace.write(index_put, self, (values,), {"indices": plain(indices), "accumulate": accumulate})


Tensor.index_put_ = _index_put_


# -- along one dimension --------------------------------------------------------------------------------------------------------


class gather(Op):
    """`out[i][j] = input[i][index[i][j]]` for dim 1, and so on: the elements that an index tensor names along a dimension."""
    inputs, order, exact = ("input", "index"), ("input", "dim", "index", "sparse_grad"), True
    examples = ((((3, 3), [[0, 2, 1], [1, 1, 0]]), {"dim": 0}), (((2, 4), [[0, 2, 2], [3, 1, 0]]), {"dim": -1}))
    def forward(xp, input, index, dim, sparse_grad=False): return xp.gather(input, dim, index)
    def d_input(xp, g, index, shape, dim): return xp.scatter_add(xp.zeros(shape, dtype=g.dtype), dim, index, g)


class scatter_add(Placing):
    """The input with the elements of `src` added at the places that an index tensor names along a dimension."""
    inputs, order, exact, inplace = ("input", "index", "src"), ("input", "dim", "index", "src"), True, True
    examples = ((((3, 3), [[0, 2, 1], [0, 1, 0]], (2, 3)), {"dim": 0}), (((2, 4), [[0, 2, 2], [3, 1, 0]], (2, 4)), {"dim": 1}))
    def forward(xp, input, index, src, dim): return xp.scatter_add(input, dim, index, src)
    def d_input(xp, g): return g
    def d_src(xp, g, index, shape, dim): return grown(xp, xp.gather(g, dim, index), shape)


class scatter(Placing):
    """The input with elements of `src`, or a number, written at the places that an index tensor names along a dimension."""
    home, inputs, order, exact = "", ("input", "index", "src"), ("input", "dim", "index", "src"), True
    examples = ((((3, 3), [[0, 2, 1], [1, 1, 0]], (2, 3)), {"dim": 0}), (((2, 4), [[0, 2, 1], [3, 1, 0]], (2, 4)), {"dim": 1}))
    def forward(xp, input, index, src, dim): return xp.scatter(input, dim, index, src)
    def d_input(xp, g, index, dim): return xp.scatter(g, dim, index, 0)
    def d_src(xp, g, index, shape, dim): return grown(xp, xp.gather(g, dim, index), shape)


class scatter_extreme(Placing):
    """The largest or smallest of the input's element and all of `src` that an index tensor sends there."""
    exempt = RULES_ONLY
    home, inputs, order, exact = "", ("input", "index", "src"), ("input", "dim", "index", "src", "reduce"), True
    examples = (
        (((3, 3), [[0, 2, 1], [0, 1, 0]], (2, 3)), {"dim": 0, "reduce": "amax"}), (((2, 4), [[0, 2, 2], [3, 1, 0]], (2, 3)), {"dim": 1, "reduce": "amin"}),
    )  # fmt: skip
    def forward(xp, input, index, src, dim, reduce): return xp.scatter_extreme(input, dim, index, src, reduce)
    def d_input(xp, g, input, index, src, out, dim): return xp.where(input == out, g / ties(xp, input, index, src, out, dim), 0)
    def d_src(xp, g, input, index, src, out, dim):
        won = src == xp.gather(out, dim, index)
        return xp.where(won, xp.gather(g / ties(xp, input, index, src, out, dim), dim, index), 0)


class scatter_prod(Placing):
    """The product of the input's element and all of `src` that an index tensor sends there."""
    exempt = RULES_ONLY
    home, inputs, order, exact = "", ("input", "index", "src"), ("input", "dim", "index", "src"), True
    examples = ((((3, 3), [[0, 2, 1], [0, 1, 0]], (2, 3)), {"dim": 0}), (((2, 4), [[0, 2, 2], [3, 1, 0]], (2, 3)), {"dim": 1}))
    def forward(xp, input, index, src, dim): return xp.scatter_prod(input, dim, index, src)
    def d_input(xp, g, index, src, dim): return g * xp.scatter_prod(xp.ones_like(g), dim, index, src)
    def d_src(xp, g, input, index, src, dim):
        nonzero_product = xp.scatter_prod(xp.where(input == 0, 1, input), dim, index, xp.where(src == 0, 1, src))
        zeros_there = xp.scatter_add(xp.astype(input == 0, g.dtype), dim, index, xp.astype(src == 0, g.dtype))
        others = xp.gather(zeros_there, dim, index) - xp.astype(src == 0, g.dtype)
        return xp.where(others == 0, xp.gather(g * nonzero_product, dim, index) / xp.where(src == 0, 1, src), 0)


class index_add(Placing):
    """The input with slices of `source`, times `alpha`, added at the places that a 1-d index names along a dimension."""
    inputs, order, inplace = ("input", "index", "source"), ("input", "dim", "index", "source", "alpha"), True
    examples = ((((3, 2), [0, 2, 0], (3, 2)), {"dim": 0}), (((2, 4), [3, 1], (2, 2)), {"dim": -1, "alpha": 2}))
    def forward(xp, input, index, source, dim, alpha=1): return xp.index_add(input, dim, index, source, alpha)
    def d_input(xp, g): return g
    def d_source(xp, g, index, dim, alpha): return xp.index_select(g, dim, index) * alpha


class index_copy(Placing):
    """The input with slices of `source` written at the places that a 1-d index names along a dimension."""
    inputs, order, exact, inplace = ("input", "index", "source"), ("input", "dim", "index", "source"), True, True
    examples = ((((3, 2), [0, 2], (2, 2)), {"dim": 0}), (((2, 4), [3, 1], (2, 2)), {"dim": -1}))
    def forward(xp, input, index, source, dim): return xp.index_copy(input, dim, index, source)
    def d_input(xp, g, index, dim): return xp.index_copy(g, dim, index, 0)
    def d_source(xp, g, index, dim): return xp.index_select(g, dim, index)


class index_select(Op):
    """The slices that a 1-d index tensor names along a dimension; a copy."""
    inputs, order, exact = ("input", "index"), ("input", "dim", "index"), True
    examples = ((((3, 2), [0, 2, 0]), {"dim": 0}), (((2, 4), [3, 1]), {"dim": -1}))
    def forward(xp, input, index, dim): return xp.index_select(input, dim, index)
    def d_input(xp, g, index, shape, dim): return xp.index_add(xp.zeros(shape, dtype=g.dtype), dim, index, g)


def grown(xp: Any, g: Any, shape: tuple) -> Any:
    """Zeros behind `g` up to `shape`: PyTorch lets `src` be larger than the index."""
    return g if tuple(g.shape) == tuple(shape) else xp.put_zeros(g, shape, tuple(slice(0, n) for n in g.shape))


def ties(xp: Any, input: Any, index: Any, src: Any, out: Any, dim: int) -> Any:
    """How many elements reached each place's extreme: they share the gradient."""
    d = out.dtype
    return xp.scatter_add(xp.astype(input == out, d), dim, index, xp.astype(src == xp.gather(out, dim, index), d))


@composite(method=True)
def scatter_(input: Tensor, dim: int, index: Tensor, src: Any = None, *, value: Any = None, reduce: str | None = None) -> Tensor:
    """The input with `src` (a tensor or a number) written, or by `reduce` "add" or "multiply" combined, where an index tensor says."""
    src = value if src is None else src
    if reduce is not None:
        if reduce not in ("add", "multiply"):
            raise RuntimeError("reduce argument must be either add or multiply.")
        src = src if isinstance(src, Tensor) else input.new_full(tuple(index.shape), src)
        return scatter_reduce(input, dim, index, src, "sum" if reduce == "add" else "prod")
    if isinstance(src, Tensor) and src.dtype is not input.dtype:
        raise RuntimeError("scatter(): Expected self.dtype to be equal to src.dtype")
    return scatter(input, dim, index, src)


@composite(method=True)
def scatter_reduce(input: Tensor, dim: int, index: Tensor, src: Tensor, reduce: str, *, include_self: bool = True) -> Tensor:
    """At each place that an index tensor names, the sum, prod, mean, amax or amin of the elements of `src` sent there.

    With `include_self` the input's own element counts too; places that nothing is sent to keep theirs.
    """
    if reduce not in ("sum", "prod", "mean", "amax", "amin"):
        raise RuntimeError(f"reduce argument must be either sum, prod, mean, amax or amin, got {reduce}.")
    if input.ndim and tuple(src.shape) != tuple(index.shape):
        src = src[tuple(slice(0, n) for n in index.shape)]
    if not include_self:
        start = {"sum": 0, "mean": 0, "prod": 1}.get(reduce)
        if start is None:
            bounds = (dtypes.finfo if input.is_floating_point() else dtypes.iinfo)(input.dtype)
            start = (-numpy.inf if reduce == "amax" else numpy.inf) if input.is_floating_point() else (bounds.min if reduce == "amax" else bounds.max)
        input = scatter(input, dim, index, start)
    if reduce in ("amax", "amin"):
        return scatter_extreme(input, dim, index, src, reduce)
    if reduce == "prod":
        return scatter_prod(input, dim, index, src)
    total = scatter_add(input, dim, index, src)
    if reduce == "sum":
        return total
    one = Tensor._wrap(namespace(input.array).ones_like(input.array))
    count = scatter_add(one if include_self else scatter(one, dim, index, 0), dim, index, src.new_ones(tuple(src.shape)))
    return total / count.clamp(min=1) if input.is_floating_point() else total.div(count.clamp(min=1), rounding_mode="floor")


@composite(method=True)
def index_fill(input: Tensor, dim: int, index: Tensor, value: Any) -> Tensor:
    """The input with a number, or a 0-d tensor, written in the slices that a 1-d index names along a dimension."""
    if isinstance(value, Tensor) and value.ndim:
        raise RuntimeError(f"index_fill_ only supports a 0-dimensional value tensor, but got tensor with {value.ndim} dimension(s).")
    xp, d = namespace(input.array), wrap_dim(dim, input.ndim)
    chosen = xp.zeros((input.array.shape or (1,))[d], dtype=bool)
    chosen[index.array] = True
    mask = chosen.reshape((-1,) + (1,) * (input.ndim - d - 1)) if input.ndim else chosen[0]
    return masked_fill(input, Tensor._wrap(mask), value)


@composite(method=True)
def take_along_dim(input: Tensor, indices: Tensor, dim: int | None = None) -> Tensor:
    """`gather` with the other dimensions broadcast; without `dim`, from the flattened tensor."""
    if dim is None:
        return gather(reshape(input, (input.numel(),)), 0, reshape(indices, (indices.numel(),)))
    if input.ndim != indices.ndim:
        raise RuntimeError(f"torch.take_along_dim(): input and indices should have the same number of dimensions, but got {input.ndim} dimensions for input, and {indices.ndim} dimensions for indices")
    d = wrap_dim(dim, input.ndim)
    shape, places = list(input.shape), list(indices.shape)
    shape[d] = places[d] = 1
    both = list(broadcast_shapes(shape, places))
    wide = expand(input, (*both[:d], input.shape[d], *both[d + 1 :]))
    return gather(wide, d, expand(indices, (*both[:d], indices.shape[d], *both[d + 1 :])))


@composite(method=True)
def take(input: Tensor, index: Tensor) -> Tensor:
    """The elements of the flattened tensor at an index tensor's places, in its shape."""
    return reshape(input, (input.numel(),))[index if index.ndim else reshape(index, (1,))].reshape(tuple(index.shape))


@composite(method=True)
def put(input: Tensor, index: Tensor, source: Tensor, accumulate: bool = False) -> Tensor:
    """The input with elements of `source` written, or added, at places of the flattened tensor."""
    flat = index_put(reshape(input, (input.numel(),)), (reshape(index, (index.numel(),)),), reshape(source, (source.numel(),)), accumulate)
    return reshape(flat, tuple(input.shape))


# -- masks -----------------------------------------------------------------------------------------------------------------------


class masked_fill(Op):
    """The input with a number, or a 0-d tensor, where a mask is True."""
    inputs, exact, inplace = ("input", "mask", "value"), True, True
    samples = (((2, 3), [[True, False, True], [False, True, True]], ()), ((2, 3), [True, False, True], ()))
    def forward(xp, input, mask, value): return xp.masked_fill(input, mask, value)
    def d_input(xp, g, mask): return xp.where(mask, 0, g)
    def d_value(xp, g, mask): return xp.where(mask, g, 0)


@composite(method=True)
def masked_select(input: Tensor, mask: Tensor) -> Tensor:
    """The elements where a mask is True, as a 1-d tensor."""
    if mask.dtype is not dtypes.bool_:
        raise RuntimeError("masked_select: expected BoolTensor for mask")
    shape = broadcast_shapes(tuple(input.shape), tuple(mask.shape))
    return reshape(expand(input, shape)[expand(mask, shape)], (-1,)) if shape else reshape(input, (1,))[reshape(mask, (1,))]


@composite(method=True)
def masked_scatter(input: Tensor, mask: Tensor, source: Tensor) -> Tensor:
    """The input with the elements of `source`, in their order, where a mask is True."""
    if mask.dtype is not dtypes.bool_:
        raise RuntimeError(f"masked_scatter_ only supports boolean masks, but got mask with dtype {mask.dtype.name}")
    shape = broadcast_shapes(tuple(input.shape), tuple(mask.shape))
    where = numpy.broadcast_to(mask._host(), shape).copy()
    n = int(where.sum())
    if source.numel() < n:
        raise RuntimeError("masked_scatter: expected self and source to have same dtypes" if source.dtype is not input.dtype else f"Number of elements of source < number of ones in mask: {source.numel()} < {n}")
    return index_put(expand(input, shape), (namespace(input.array).asarray(where),), reshape(source, (source.numel(),))[:n])


@composite(method=True)
def nonzero(input: Tensor, *, as_tuple: bool = False) -> Any:
    """The indices of the elements that are not zero: a row for each, or a tuple with a tensor for each dimension."""
    array = input.array
    places = namespace(array).nonzero(array if array.ndim or not as_tuple else array.reshape(1)) if array.ndim or as_tuple else None
    if as_tuple:
        return tuple(Tensor._wrap(p) for p in places)
    if places is None:
        return Tensor._wrap(numpy.zeros((int(bool(array)), 0), numpy.int64))
    return Tensor._wrap(namespace(array).stack(places, axis=1))


@composite(method=True)
def argwhere(input: Tensor) -> Tensor:
    """The indices of the elements that are not zero, a row for each."""
    return nonzero(input)


# -- order -----------------------------------------------------------------------------------------------------------------------


class sort(Op):
    """The elements in order along a dimension, and where each was; NaN counts as the largest."""
    inputs, outputs, differentiable = ("input",), ("values", "indices"), ("values",)
    examples = ((((3, 4),), {}), (((3, 4),), {"dim": 0, "descending": True}), (((4,),), {"stable": True}))

    @classmethod
    def prepare(cls, arrays): return super().prepare(ordered(arrays, "c"))

    def forward(xp, input, dim=-1, descending=False, stable=False): return xp.sorted(input, dim, descending, stable)
    def d_input(xp, g, indices, shape, dim): return xp.scatter_add(xp.zeros(shape, dtype=g.dtype), dim, indices, g)


def ordered(arrays: list, refused: str) -> list:
    """The arrays, unless of a kind of dtype ("c": complex, "b": bool) that the op puts in no order."""
    if arrays[0].dtype.kind in refused:
        raise Refused(f"{dtypes.FROM_NUMPY[arrays[0].dtype].name} tensors are not supported", RuntimeError)
    return arrays


class topk(Op):
    """The `k` largest (or smallest) elements along a dimension, in order, and where each was."""
    inputs, outputs, differentiable = ("input",), ("values", "indices"), ("values",)
    examples = ((((2, 5),), {"k": 3}), (((5, 2),), {"k": 2, "dim": 0, "largest": False}))

    @classmethod
    def prepare(cls, arrays): return super().prepare(ordered(arrays, "cb"))

    def forward(xp, input, k, dim=-1, largest=True, sorted=True): return xp.topk(input, k, dim, largest)
    def d_input(xp, g, indices, shape, dim): return xp.scatter_add(xp.zeros(shape, dtype=g.dtype), dim, indices, g)


@composite(method=True)
def argsort(input: Tensor, dim: int = -1, descending: bool = False, stable: bool = False) -> Tensor:
    """The indices that put the elements in order along a dimension."""
    return sort(input.detach(), dim, descending, stable)[1]


@composite(method=True)
def msort(input: Tensor) -> Tensor:
    """The elements in order along the first dimension."""
    return sort(input, 0)[0]


# -- embedding --------------------------------------------------------------------------------------------------------------------


class embedding(Op):
    """The rows of `weight` that the integers in `input` name."""
    home, inputs, exact = "", ("input", "weight"), True
    samples = (([[0, 2], [1, 2]], (4, 3)), ([2], (4, 3)))
    def forward(xp, input, weight, padding_idx=None, scale_grad_by_freq=False): return xp.rows(weight, input)
    def d_weight(xp, g, input, shape, padding_idx, scale_grad_by_freq): return xp.add_rows(g, input, shape[0], padding_idx, scale_grad_by_freq)


class add_rows(Op):
    """A matrix of zeros with rows added where `embedding` reads them."""
    exempt = RULES_ONLY
    home, inputs, exact = "", ("input", "index"), True
    examples = ((((2, 2, 3), [[0, 2], [1, 2]]), {"count": 4}), (((4, 3), [0, 2, 2, 1]), {"count": 4, "padding_idx": 1, "scale": True}))
    def forward(xp, input, index, count, padding_idx=None, scale=False): return xp.add_rows(input, index, count, padding_idx, scale)
    def d_input(xp, g, index, count, padding_idx, scale): return xp.read_rows(g, index, count, padding_idx, scale)


class read_rows(Op):
    """The transpose of `add_rows`: rows read, none for the padding index, divided by how often each index occurs if so scaled."""
    exempt = RULES_ONLY
    home, inputs, exact = "", ("input", "index"), True
    examples = ((((4, 3), [[0, 2], [1, 2]]), {"count": 4}), (((4, 3), [0, 2, 2, 1]), {"count": 4, "padding_idx": 1, "scale": True}))
    def forward(xp, input, index, count, padding_idx=None, scale=False): return xp.read_rows(input, index, count, padding_idx, scale)
    def d_input(xp, g, index, count, padding_idx, scale): return xp.add_rows(g, index, count, padding_idx, scale)


@composite(home="nn.functional")
def embedding_(
    input: Tensor, weight: Tensor, padding_idx: int | None = None, max_norm: float | None = None, norm_type: float = 2.0,
    scale_grad_by_freq: bool = False, sparse: bool = False,
) -> Tensor:
    """The rows of `weight` (n, d) that the integers in `input` (*) name: (*, d). IndexError outside of [0, n).

    `padding_idx` is a row that gets no gradient; `max_norm` first shrinks, in place, rows in use that are longer;
    `scale_grad_by_freq` divides gradients by how often a row is used. `sparse` is accepted and changes nothing.
    """
    if input.dtype.rank != dtypes.INT:
        raise RuntimeError(f"Expected tensor for argument #1 'indices' to have one of the following scalar types: Long, Int; but got {input.dtype.name} instead (while checking arguments for embedding)")
    if padding_idx is not None:
        n = weight.shape[0]
        if not -n <= padding_idx < n:
            raise AssertionError("Padding_idx must be within num_embeddings")
        padding_idx %= n
    if max_norm is not None:
        _renormed(weight, input, max_norm, norm_type)
    return embedding(input, weight, padding_idx, scale_grad_by_freq)


def _renormed(weight: Tensor, index: Tensor, max_norm: float, norm_type: float) -> None:
    """Shrink the rows in use that are longer than `max_norm`, in place."""
    array, xp = weight.array, namespace(weight.array)
    used = xp.unique(index.array)
    rows = array[used]
    norms = (abs(rows) ** norm_type).sum(-1) ** (1 / norm_type) if norm_type != numpy.inf else abs(rows).max(-1)
    scale = xp.where(norms > max_norm, max_norm / (norms + 1e-7), 1)
    array[used] = rows * scale[:, None].astype(array.dtype)
    inplace.note_write(array, "embedding")


# -- in place -----------------------------------------------------------------------------------------------------------------------


def _into(name: str, fn: Any) -> None:
    """`x.<name>_(...)` from a composite that is made of several ops: compute, then put the result into x's memory."""

    def call(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        inplace.refuse_leaf(self, f"{name}_")
        kept = self._like(self.array.copy(), self.node)
        inplace.put(self, fn(kept, *args, **kwargs), f"{name}_")
        return self

    call.__name__ = call.__qualname__ = f"{name}_"
    call.__doc__ = f"In-place form of `{name}`: {fn.__doc__}"
    setattr(Tensor, f"{name}_", call)


for _name, _fn in {"scatter": scatter_, "scatter_reduce": scatter_reduce, "index_fill": index_fill, "put": put, "masked_scatter": masked_scatter}.items():
    _into(_name, _fn)
