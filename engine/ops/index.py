"""Indexing: `x[...]`, `x[...] = y`, and in-place copies and fills.

An index of integers, slices, None and Ellipsis gives a view; masks, lists and integer tensors give a copy, by NumPy's rules. As in PyTorch,
integers beside index tensors select first: `x[0, :, [1, 2]]` is `x[0][:, [1, 2]]`.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy

from ..backends import cpu
from ..backends.batch import Batched
from ..backends.indexing import in_memory_order, write
from ..backends.meta import Meta
from ..base import dtypes, errors, observe
from ..base.errors import Refused, warn
from ..base.layout import as_indexed
from ..core import devices, inplace, rules, tape, versions
from ..core.devices import common, known_later, look, namespace
from ..core.op import RULES_ONLY, Linear, Op
from ..core.tensor import Tensor, define
from .cast import cast
from .shape import reshape

_PLAIN = frozenset((int, slice, type(None), type(Ellipsis)))
_ENDS = frozenset((int, type(None), numpy.int64))


def _kept(s: slice) -> bool:
    """Whether a slice can be kept as it is: it has no step, and its ends are not tensors or arrays, which may be written later."""
    return s.step is None and s.start.__class__ in _ENDS and s.stop.__class__ in _ENDS


class getitem(Linear):
    """Elements at an index of integers, slices, None, Ellipsis, masks and index tensors."""
    operator, view, inputs, home, row_major = "getitem", True, ("input",), "", True
    examples = (
        (((2, 3, 4),), {"index": (1, slice(None, None, 2))}), (((2, 3),), {"index": (Ellipsis, None, 0)}),
        (((3, 2),), {"index": (numpy.array([0, 2, 0]),)}), (((2, 3),), {"index": (numpy.array([[True, False, True], [False, True, True]]),)}),
    )  # fmt: skip
    def forward(xp, input, index): return input[index]
    def d_input(xp, g, shape, index): return xp.put_zeros(g, shape, index)

    @staticmethod
    def operate(input, index):
        """`x[index]`, with integers and slices written out as a fast path: loops over rows run it more often than most ops."""
        array, kind = input.array, index.__class__
        if kind is tuple:
            for item in index:
                if item.__class__ not in _PLAIN or item.__class__ is slice and not _kept(item):
                    return _read(input, index)
        elif kind is Tensor and index.array.dtype is dtypes.I64 and index.array.ndim and array.ndim and index.array.__class__ is array.__class__:
            return _picked(input, (index.array,))
        elif kind not in _PLAIN or kind is slice and not _kept(index):
            return _read(input, index)
        if array.__class__ is not numpy.ndarray:
            return _read(input, index)
        watcher = observe.current
        if watcher is not None:
            watcher.begins()
        try:
            data = array[index]
        except IndexError:
            return _read(input, index)
        if data.__class__ is not numpy.ndarray:
            index = (*index, Ellipsis) if kind is tuple else (index, Ellipsis)
            data = array[index]
        out = _new(Tensor)
        out.array, attrs, source = data, {"index": index}, input.node
        if source is not None and tape.mode.grad and ((d := array.dtype) is dtypes.F32 or d.kind in "fcV"):
            out.node = node = _new_node(tape.Node)
            node.op, node.inputs, node.attrs, node.saved, node.hooks = getitem, (source,), attrs, (), None
            node.shape, node.dtype, node.time = data.shape, d, tape.tick()
        else:
            out.node = None
        inplace.mark_view(out, input, getitem, attrs)
        if watcher is not None:
            watcher.op(getitem, (input,), attrs, out)
        return out

    @classmethod
    def explain(cls, error, inputs, attrs):
        if isinstance(error, IndexError):
            error = Refused(str(error).replace("for axis", "for dimension"), IndexError)
        return super().explain(error, inputs, attrs)


_new, _new_node = object.__new__, tape.Node.__new__


class put_zeros(Linear):
    """Zeros of the given shape with the input added at an index."""
    exempt = RULES_ONLY
    home, inputs, exact = "", ("input",), True
    examples = ((((2,),), {"shape": (2, 3), "index": (slice(None), 1)}), (((3, 2),), {"shape": (4, 2), "index": (numpy.array([0, 2, 0]),)}))
    def forward(xp, input, shape, index): return xp.put_zeros(input, shape, index)
    def d_input(xp, g, index): return g[index]


def _read(input: Tensor, index: Any) -> Tensor:
    basic, advanced = _understood("getitem", input, index)
    if advanced is None:
        return getitem(input, basic)
    return _picked(input if basic is None else getitem(input, basic), advanced)


def _picked(input: Tensor, index: tuple) -> Tensor:
    """Elements that index arrays select, in PyTorch's memory layout."""
    out, array = getitem(input, index), input.array
    if not isinstance(array, numpy.ndarray):
        look(array, index)
    elif not array.flags.c_contiguous and out.array.size:
        out.array = as_indexed(out.array, array, index)
    return out


# -- parsing an index -----------------------------------------------------------------------------------------------------


def _understood(name: str, input: Tensor, index: Any) -> tuple[tuple | None, tuple | None]:
    """`_parsed`, with the tensor's shape and the user's line added to its errors."""
    try:
        return _parsed(input, index)
    except (IndexError, TypeError, ValueError) as error:
        line = errors.user_line()
        told = type(error)(f"{name}: {error}; input is {errors.describe(input)}{f' ({line})' if line else ''}")
        if observe.current is not None:
            observe.current.failed(getitem, (input,), {"index": index}, told)
        try:
            raise told from None
        finally:
            del told  # breaks the cycle between the error and this frame, which holds the input


def _parsed(input: Tensor, index: Any) -> tuple[tuple | None, tuple | None]:
    """Split an index into a basic one, applied first, and an advanced one of slices and arrays; None if there is nothing to apply."""
    items = list(index) if isinstance(index, tuple) or isinstance(index, (list, range)) and _stands_for_tuple(index) else [index]
    if devices.gpu_array is not None:  # of a derivative rule, as NumPy's arrays are on the CPU
        items = [Tensor._wrap(i) if i.__class__ is devices.gpu_array else i for i in items]
    array, shape = input.array, input.array.shape
    used = sum(_consumed(i) for i in items)
    if used > array.ndim:
        if array.ndim == 0:
            raise IndexError("invalid index of a 0-dim tensor. Use `tensor.item()` in Python or `tensor.item<T>()` in C++ to convert a 0-dim tensor to a number")
        raise IndexError(f"too many indices for tensor of dimension {array.ndim}")
    fill = [slice(None)] * (array.ndim - used)
    first = next((i for i, item in enumerate(items) if item is Ellipsis), len(items))
    rest = items[first + 1 :]
    again = next((i for i, item in enumerate(rest) if item is Ellipsis), len(rest))
    if fill and any(i is not Ellipsis and not (isinstance(i, slice) and i == slice(None)) for i in rest[again:]):
        raise IndexError(f"Dimension out of range (expected to be in range of [{-array.ndim}, {array.ndim - 1}], but got {array.ndim})")
    items = items[:first] + fill + [i for i in rest if i is not Ellipsis]
    basic: list[Any] = []
    advanced: list[Any] = []
    dim, arrays = 0, 0
    for item in items:
        if isinstance(item, bool) or _is_flag(item):
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
    if array.size == 0 or not array[tuple(basic)].size:  # PyTorch does not check indices when nothing is read
        advanced = [i * 0 if not isinstance(i, slice) and i.dtype.kind == "i" else i for i in advanced]
    return None if plain else tuple(basic), tuple(advanced)


def _stands_for_tuple(items: Any) -> bool:
    """Whether a list stands for a tuple of indices, which PyTorch still accepts with a warning: fewer than 32 items, not all integers."""
    if len(items) >= 32 or not any(i is None or i is Ellipsis or isinstance(i, (slice, Tensor, list, tuple, range, numpy.ndarray)) for i in items):
        return False
    warn(_NOT_A_TUPLE)
    return True


_NOT_A_TUPLE = (
    "Using a non-tuple sequence for multidimensional indexing is deprecated and will be changed in pytorch 2.9; use x[tuple(seq)] instead of x[seq]. "
    "In pytorch 2.9 this will be interpreted as tensor index, x[torch.tensor(seq)], which will result either in an error or a different result"
)


def _consumed(item: Any) -> int:
    """How many dimensions of the tensor an index item consumes."""
    if item is None or item is Ellipsis or isinstance(item, bool) or _is_flag(item):
        return 0
    if isinstance(item, (Tensor, numpy.ndarray)) and item.dtype in (dtypes.bool_, dtypes.uint8, numpy.bool_, numpy.uint8):
        return item.ndim or 1
    return numpy.ndim(item) or 1 if isinstance(item, list) and _holds_bools(item) else 1


def _holds_bools(items: Any) -> bool:
    while isinstance(items, list) and items:
        items = items[0]
    return isinstance(items, (bool, numpy.bool_))


def _is_flag(item: Any) -> bool:
    return isinstance(item, (Tensor, numpy.ndarray)) and item.ndim == 0 and (item.array if isinstance(item, Tensor) else item).dtype == bool


def _is_whole(item: Any) -> bool:
    """Whether an item is an integer, or a 0-d tensor that holds one, and so removes a dimension."""
    if isinstance(item, (int, numpy.integer)):
        return True
    if isinstance(item, (Tensor, numpy.ndarray)):
        if isinstance(item, Tensor) and item.array.__class__ is Batched and not item.array.alike:
            return False  # under vmap, an index array with one element per sample
        return item.ndim == 0 and dtypes.as_dtype(item.dtype).rank == dtypes.INT and item.dtype not in (dtypes.uint8, numpy.uint8)
    return hasattr(item, "__index__") and not hasattr(item, "dtype")


def _slice(s: slice) -> slice:
    start, stop, step = (i if i is None else i.__index__() for i in (s.start, s.stop, s.step))
    if step is not None and step <= 0:
        raise ValueError("step must be greater than zero")
    return slice(start, stop, step)


def _index_array(item: Any, beside: Any) -> Any:
    """Convert a list, array or tensor to an int64 or bool array on the device of the indexed array."""
    if isinstance(item, Tensor):
        found = item.array
    elif isinstance(item, (str, bytes)):
        raise TypeError(f"new(): invalid data type '{type(item).__name__}'")
    elif isinstance(item, (list, range, numpy.ndarray, tuple)):
        found = numpy.asarray([i._host() if isinstance(i, Tensor) else i for i in item] if not isinstance(item, numpy.ndarray) else item)
        if found.dtype.kind in "iuf" and found.dtype != numpy.uint8:
            found = found.astype(numpy.int64)
    else:
        raise IndexError(f"only integers, slices (`:`), ellipsis (`...`), None and long or byte Variables are valid indices (got {type(item).__name__})")
    if found.dtype == numpy.uint8:
        warn("indexing with dtype torch.uint8 is now deprecated, please use a dtype torch.bool instead.")
        found = found.astype(bool)
    if found.dtype not in _INDICES:
        raise IndexError("tensors used as indices must be long, int, byte or bool tensors")
    here, there = namespace(found), namespace(beside)
    if beside.__class__ is Meta or known_later(beside): return found  # a mask in memory selects a known number of elements
    if found.__class__ is Meta: raise NotImplementedError("Cannot copy out of meta tensor; no data!")
    return found if here is there or found.__class__ is Batched else there.asarray(found)


def _check_joint(items: list) -> None:
    shapes = [i.shape if i.dtype != bool else (int(i.sum()),) for i in items if not isinstance(i, slice)]
    try:
        numpy.broadcast_shapes(*shapes)
    except ValueError:
        raise IndexError(f"shape mismatch: indexing tensors could not be broadcast together with shapes {', '.join(str(list(s)) for s in shapes)}") from None


# -- writing -----------------------------------------------------------------------------------------------------------------


def assign(target: Tensor, index: Any, value: Any) -> None:
    """`target[index] = value`, with gradients for the rest of the target and for the value."""
    if index.__class__ is int or index.__class__ is slice and _kept(index):
        basic, advanced = (index, Ellipsis) if target.array.ndim else _understood("setitem", target, index)[0], None
    else:
        basic, advanced = _understood("setitem", target, index)
    dtype = target.dtype
    if isinstance(value, Tensor):
        fills = advanced is not None and value.array.size == 1 and [i.dtype for i in advanced if not isinstance(i, slice)] == [bool]  # one value for one mask is a fill
        if value.dtype is not dtype:
            if advanced is not None and not fills:
                raise RuntimeError(
                    f"Index put requires the source and destination dtypes match, got {dtype.name} for the destination and {value.dtype.name} for the source."
                )
            value = cast(value, dtype)
        elif fills and versions.storage(value.array) is versions.storage(target.array):
            value = value.clone()
        if value.is_cuda != target.is_cuda or value.is_meta != target.is_meta:
            value = value.to(target.device)
    elif not isinstance(value, (int, float, complex, numpy.integer)):
        raise TypeError(f"can't assign a {type(value).__name__} to a {target.type()}")
    else:
        value = dtypes.fitting(value, dtype)
    recorded = tape.mode.grad and (target.node is not None or getattr(value, "node", None) is not None or getattr(target._base, "node", None) is not None)
    if recorded or observe.current is not None:
        seen = target if basic is None else getitem(target, basic)
        if advanced is None:
            value = _without_leading_ones(value, seen.ndim)
            if isinstance(value, Tensor) and value.array.shape != seen.array.shape and versions.storage(value.array) is versions.storage(seen.array):
                value = value.clone()  # a broadcast value may overlap the target, as in PyTorch
            inplace.write(copy, seen, (value,), {})
        else:
            value = _without_leading_ones(value, _reached(seen.ndim, advanced))
            inplace.write(index_put, seen, (value,), {"indices": advanced, "accumulate": False})
        return
    inplace.refuse_leaf(target, "setitem")
    array = target.array
    try:
        seen = array if basic is None else array[basic]
        if 0 in array.strides and inplace.overlaps(seen):
            raise RuntimeError("setitem: more than one element of the written-to tensor refers to a single memory location. Please clone() the tensor first.")
        if isinstance(value, Tensor) and (advanced is not None or value.array.shape[max(0, value.array.ndim - seen.ndim):] == seen.shape):
            inplace.refuse_shared(seen, value.array, "setitem", advanced is not None)
        if advanced is None:
            seen[...] = value.array if isinstance(value, Tensor) else value
        else:
            if isinstance(value, Tensor) and value.array.ndim > 1:  # NumPy refuses leading ones with a mask
                value = _without_leading_ones(value, _reached(seen.ndim, advanced))
            look(seen, advanced)
            write(seen, *in_memory_order(seen, advanced, value.array if isinstance(value, Tensor) else value))
    except (ValueError, IndexError, TypeError) as error:
        raise _refused_write(target, index, value, error) from None
    inplace.note_write_to(target, "setitem")


def _refused_write(target: Tensor, index: Any, value: Any, error: Exception) -> Exception:
    if isinstance(error, IndexError):
        return IndexError(str(error).replace("for axis", "for dimension"))
    if isinstance(value, Tensor) and ("broadcast" in str(error) or "boolean array indexing" in str(error)):
        return RuntimeError(f"shape mismatch: value tensor of shape {list(value.shape)} cannot be broadcast to indexing result of shape {list(target[index].shape)}")
    return RuntimeError(f"setitem: {error}")


def _reached(ndim: int, advanced: tuple) -> int:
    """How many dimensions an advanced index selects from a tensor of `ndim` dimensions."""
    masks, places = [], []
    for item in advanced:
        if hasattr(item, "dtype"):
            (masks if item.dtype == bool else places).append(item.ndim)
    return ndim - sum(masks) - len(places) + max([*places, *([1] if masks else [])])


def _without_leading_ones(value: Any, ndim: int) -> Any:
    """Drop leading dimensions of size 1 that exceed `ndim`."""
    more = value.ndim - ndim if isinstance(value, Tensor) else 0
    return reshape(value, tuple(value.shape)[more:]) if more > 0 and all(n == 1 for n in value.shape[:more]) else value


class copy(Op):
    """Values of `src` in the shape and dtype of `input`: what `copy_` writes."""
    exempt = RULES_ONLY
    home, exact, inputs, samples = "", True, ("input", "src"), (((2, 3), (2, 3)), ((2, 3), (3,)), ((2,), ()))
    def forward(xp, input, src):
        if getattr(src, "ndim", 0) > input.ndim: raise Refused(f"output with shape {list(input.shape)} doesn't match the broadcast shape {list(src.shape)}")
        return xp.copied(input, src)
    def d_input(xp, g): return xp.zeros_like(g)
    def d_src(xp, g): return g


class fill(Op):
    """One value everywhere: what `fill_` writes."""
    inplace, exact, reads_first, inputs, samples = True, True, True, ("input", "value"), (((2, 3), ()),)
    def d_input(xp, g): return xp.zeros_like(g)
    def d_value(xp, g): return g

    def forward(xp, input, value):
        if getattr(value, "ndim", 0): raise Refused(f"fill_ only supports 0-dimension value tensor but got tensor with {value.ndim} dimensions.")
        return xp.copied(input, value if hasattr(value, "dtype") else dtypes.fitting(value, dtypes.FROM_NUMPY[input.dtype]))


def _copy_(self: Tensor, src: Tensor, non_blocking: bool = False) -> Tensor:
    """Copy the values of another tensor into this one, broadcast and cast as needed."""
    if isinstance(src, (bool, int, float, complex)):
        src = self._like(numpy.asarray(src, dtypes.of_scalar(src).numpy), None)
    if not isinstance(src, Tensor):
        raise TypeError(f"copy_(): argument 'other' (position 1) must be Tensor, not {type(src).__name__}")
    if src.array.__class__ is not numpy.ndarray or self.array.__class__ is not numpy.ndarray:
        src = src.to(self.device, non_blocking=non_blocking and self.is_cuda)
    return inplace.write(copy, self, (cast(src, self.dtype) if src.dtype is not self.dtype else src,), {})


define("__setitem__", assign)
define("copy_", _copy_)


def _zero_(self: Tensor) -> Tensor:
    """Fill the tensor with zeros."""
    return self.fill_(0)


define("zero_", _zero_)
_fill_everywhere = Tensor.fill_


@functools.wraps(_fill_everywhere)
def _fill_(self: Tensor, value: Any) -> Tensor:
    # a scalar may be written to elements that share memory, as in an expanded tensor, unless a gradient is recorded
    if 0 in self.array.strides and not isinstance(value, Tensor) and (self.node is None or not tape.mode.grad) and inplace.overlaps(self.array):
        one = tuple([slice(0, 1) if stride == 0 else slice(None) for stride in self.array.strides])
        _fill_everywhere(getitem(self, one), value)
        return self
    return _fill_everywhere(self, value)


define("fill_", _fill_)


class _Unlike(Refused):
    """Raised when two tensors have different dtypes."""


class Placing(Op):
    """Base of ops that put elements of one tensor into another of the same dtype."""

    scatters, memory_first = True, False  # memory_first: in place, PyTorch checks the memory before the indices

    @classmethod
    def explain(cls, error, inputs, attrs):
        return super().explain(cls.misplaced(inputs, attrs) or error if isinstance(error, _Unlike) else error, inputs, attrs)

    @classmethod
    def misplaced(cls, inputs, attrs):
        """Return the IndexError, if any, that the shapes cause for any indices: PyTorch raises it before the error about dtypes."""
        nothing = lambda x: numpy.zeros(x.shape, getattr(x, "array", x).dtype)
        input, *indices, source = map(nothing, inputs)
        if "indices" in attrs: attrs = {**attrs, "indices": tuple(map(nothing, plain(attrs["indices"])))}
        try: cls.forward(cpu, input, *indices, source.astype(input.dtype), **attrs)
        except IndexError as error: return error
        except Exception: return None  # has the type of the dtype error, which is raised instead
        return None

    @classmethod
    def prepare(cls, arrays):
        input, source = arrays[0], arrays[-1]
        if hasattr(source, "dtype") and input.dtype != source.dtype:
            raise _Unlike(f"expected {cls.inputs[0]} and {cls.inputs[-1]} of one dtype, but got {input.dtype.name} and {source.dtype.name}")
        return super().prepare(arrays)


class Overwriting(Placing):
    """Base of ops that overwrite elements: if several go to one position, the last one and its tangent win."""

    @classmethod
    def push(cls, node, tangents, xp, recorded):
        if tangents[-1] is None: return super().push(node, tangents, xp, recorded)
        names = xp if recorded else common([t for t in tangents if t is not None], cls.name)
        base = names.new_zeros(tangents[-1], node.shape) if tangents[0] is None else tangents[0]
        indices = (rules.retied(cls, node, xp) if recorded else node.saved)[1:len(cls.inputs) - 1]
        attrs = {k: v for k, v in node.attrs.items() if not k.startswith("__")}
        return rules.at_work(names, functools.partial(cls.forward, **attrs))(names, base, *indices, tangents[-1])


class index_put(Overwriting):
    """The input with `values` written, or added with `accumulate`, at the positions that a tuple of index tensors gives."""
    exact, inputs, order = True, ("input", "values"), ("input", "indices", "values", "accumulate")
    examples = (
        (((3, 2), (2, 2)), {"indices": (numpy.array([0, 2]),)}), (((3, 2), (3,)), {"indices": (numpy.array([0, 2, 0]), numpy.array([1, 0, 1])), "accumulate": True}),
        (((3,), ()), {"indices": (numpy.array([True, False, True]),)}),
    )  # fmt: skip
    def forward(xp, input, values, indices, accumulate=False): return xp.put(input, _fitting(input, values, plain(indices)), values, accumulate)
    def d_input(xp, g, indices, accumulate): return g if accumulate else xp.put(g, plain(indices), 0, False)
    def d_values(xp, g, indices): return g[plain(indices)]


def plain(indices: Any) -> tuple:
    """Return the index tensors as arrays of integers or bools; uint8 counts as a mask, which PyTorch still accepts."""
    found = [i.array if isinstance(i, Tensor) else numpy.asarray(i) if isinstance(i, int) else i for i in indices]
    for n, array in enumerate(found):
        d = getattr(array, "dtype", None)
        if d == numpy.uint8: found[n] = array.astype(bool)
        elif d is not None and d not in _INDICES: raise IndexError("tensors used as indices must be long, int, byte or bool tensors")
    return tuple(found)


_INDICES = (numpy.int64, numpy.int32, numpy.bool_)


def _fitting(input: Any, values: Any, indices: tuple) -> tuple:
    """Return the indices. Raises RuntimeError if the values have more dimensions than the selection."""
    if (n := getattr(values, "ndim", 0)) > 1 and n > _reached(input.ndim, indices):
        raise Refused(f"shape mismatch: value tensor of shape {list(values.shape)} cannot be broadcast to indexing result of shape {list(input[indices].shape)}")
    return indices


def _index_put_(self: Tensor, indices: Any, values: Tensor, accumulate: bool = False) -> Tensor:
    """Write values, or add them with `accumulate`, at the positions that a tuple of index tensors gives."""
    inplace.refuse_leaf(self, "index_put_")
    return inplace.write(index_put, self, (values,), {"indices": plain(indices), "accumulate": accumulate})


define("index_put_", _index_put_)
