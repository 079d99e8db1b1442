"""Ops that rearrange elements: views that share storage, and reordered copies. Joins and repeats are in `join`, pieces in `split`."""

from __future__ import annotations

import math
from operator import index
from typing import Any

from numpy.exceptions import AxisError

from ..base import dtypes
from ..base.errors import Refused
from ..base.layout import contiguous_format, memory_format, preserve_format
from ..core import inplace, tape
from ..core.op import RULES_ONLY, Linear, Op, composite, functions
from ..core.rules import sum_to
from ..core.tensor import Size, Tensor, define
from .front import outward


class View(Linear):
    """Base of ops that return the input's memory under another shape whenever NumPy can express it."""
    view, inputs = True, ("input",)


class reshape(View):
    """Reshape to the given sizes, one of which may be -1: a view if the strides allow it, else a copy."""
    varargs = True
    examples = ((((2, 3),), {"shape": (3, 2)}), (((2, 3, 4),), {"shape": (4, -1)}), (((),), {"shape": (1, 1)}))
    def forward(xp, input, shape):
        if shape and (low := min(shape)) < -1: raise Refused(f"invalid shape dimension {low} at index {list(shape).index(low)} of shape {list(shape)}")
        return xp.reshape(input, shape)
    def d_input(xp, g, shape): return xp.reshape(g, shape)

    @classmethod
    def explain(cls, error, inputs, attrs):
        if isinstance(error, ValueError) and "into shape" in str(error):
            error = Refused(f"shape '{list(attrs['shape'])}' is invalid for input of size {inputs[0].numel()}")
        return super().explain(error, inputs, attrs)


class view(reshape):
    """View of the same memory with another shape; one size may be -1. Raises RuntimeError if the strides do not allow it."""
    home, inputs = "", ("input",)
    exempt = {"noncontiguous": "It is there to refuse strides that reshape would copy; tests/engine/test_inplace.py has the refusal."}
    def forward(xp, input, shape): return xp.view(input, shape)
    def d_input(xp, g, shape): return xp.reshape(g, shape)


class view_as_dtype(View):
    """View of the same bytes as another dtype; the last dimension grows or shrinks with the element size."""
    home = ""
    examples = ((([1, 2, 3, 4],), {"dtype": dtypes.float64}), (([1, 2, 3, 4],), {"dtype": dtypes.int32}))
    exempt = {"noncontiguous": "It is there to refuse strides under which bytes cannot be read in another width."}
    def forward(xp, input, dtype): return xp.view(input, dtype=dtypes.as_numpy(dtype))


class squeeze(View):
    """Remove dimensions of size 1: all of them, or those of `dim` that have size 1."""
    examples = ((((2, 1, 3, 1),), {}), (((2, 1, 3, 1),), {"dim": 1}), (((2, 1, 3, 1),), {"dim": (1, -1)}), (((2, 3),), {"dim": 0}))
    @classmethod
    def bind(cls, args, kwargs): return super().bind((args[0], args[1:]) if len(args) > 2 else args, kwargs)  # x.squeeze(0, 2)
    def forward(xp, input, dim=None): return xp.reshape(input, without_ones(input.shape, dim))
    def d_input(xp, g, shape): return xp.reshape(g, shape)


class unsqueeze(View):
    """Insert a dimension of size 1 at `dim`."""
    examples = ((((2, 3),), {"dim": 1}), (((2, 3),), {"dim": -1}), (((),), {"dim": 0}))
    def forward(xp, input, dim): return xp.expand_dims(input, index(dim))
    def d_input(xp, g, shape): return xp.reshape(g, shape)


class transpose(View):
    """Swap two dimensions."""
    aliases, examples = ("swapaxes", "swapdims"), ((((2, 3, 4),), {"dim0": 0, "dim1": -1}), (((2, 3),), {"dim0": 1, "dim1": 0}))
    def forward(xp, input, dim0, dim1): return xp.swapaxes(input, dim0, dim1)
    def d_input(xp, g, dim0, dim1): return xp.swapaxes(g, dim0, dim1)


class permute(View):
    """Reorder the dimensions."""
    varargs, examples = True, ((((2, 3, 4),), {"dims": (2, 0, 1)}), (((2, 3),), {"dims": (-1, 0)}))
    def forward(xp, input, dims): return xp.transpose(input, dims)
    def d_input(xp, g, dims): return xp.transpose(g, inverse(dims))

    @classmethod
    def explain(cls, error, inputs, attrs):
        if isinstance(error, ValueError) and len(attrs["dims"]) != inputs[0].ndim:
            n, m = inputs[0].ndim, len(attrs["dims"])
            error = Refused(f"number of dimensions in the tensor input does not match the length of the desired ordering of dimensions i.e. input.dim() = {n} is not equal to len(dims) = {m}")
        return super().explain(error, inputs, attrs)


class movedim(View):
    """Move dimensions to other positions; the rest keep their order."""
    aliases, examples = ("moveaxis",), ((((2, 3, 4),), {"source": 0, "destination": -1}), (((2, 3, 4),), {"source": (0, 1), "destination": (2, 0)}))
    def forward(xp, input, source, destination):
        if hasattr(source, "__index__") != hasattr(destination, "__index__"):
            raise Refused("source and destination must be two ints or two tuples of ints", TypeError)
        if not hasattr(source, "__index__") and len(source) != len(destination):
            raise Refused(f"Invalid source or destination dims: source ({source} dims) should contain the same number of dims as destination ({destination} dims)")
        return xp.moveaxis(input, source, destination)
    def d_input(xp, g, source, destination): return xp.moveaxis(g, destination, source)


class expand(View):
    """Repeat dimensions of size 1, and new leading ones, without copying; -1 keeps a size."""
    @classmethod
    def bind(cls, args, kwargs):
        return super().bind(args, {k: v for k, v in kwargs.items() if k != "implicit"})  # an internal flag of PyTorch's, without effect

    home, varargs, examples = "Tensor", True, ((((2, 1, 3),), {"size": (2, 4, 3)}), (((3,),), {"size": (2, -1)}), (((),), {"size": (2,)}))
    def forward(xp, input, size): return xp.broadcast_to(input, expanded(input.shape, size))
    def d_input(xp, g): return g


class broadcast_to(View):
    """Broadcast to a larger shape without copying."""
    examples = ((((2, 1, 3),), {"size": (5, 2, 4, 3)}), (((),), {"size": (2,)}))
    def forward(xp, input, size): return xp.broadcast_to(input, expanded(input.shape, size))
    def d_input(xp, g): return g


class diagonal(View):
    """Diagonals of the matrices in two dimensions, as the last dimension."""
    examples = ((((3, 3),), {}), (((2, 4),), {"offset": 1}), (((2, 3, 4),), {"offset": -1, "dim1": -1, "dim2": 1}))
    def forward(xp, input, offset=0, dim1=0, dim2=1): return xp.diagonal(input, offset, dim1, dim2)
    def d_input(xp, g, shape, offset, dim1, dim2): return xp.put_diagonal(g, shape, offset, dim1, dim2)

    @classmethod
    def explain(cls, error, inputs, attrs):
        if isinstance(error, ValueError) and hasattr(inputs[0], "ndim"):
            n, dims = max(inputs[0].ndim, 1), [attrs.get("dim1", 0), attrs.get("dim2", 1)]
            wrong = [d for d in dims if not -n <= d < n]
            error = AxisError(wrong[0], n) if wrong else Refused(f"diagonal dimensions cannot be identical {dims[0]}, {dims[1]}")
        return super().explain(error, inputs, attrs)


class put_diagonal(Linear):
    """Zeros of the given shape with the input on a diagonal."""
    exempt = RULES_ONLY
    home, inputs, exact = "", ("input",), True
    examples = ((((2,),), {"shape": (3, 3), "offset": 1}), (((4, 2),), {"shape": (2, 4, 3), "dim1": 0, "dim2": 2}))
    def forward(xp, input, shape, offset=0, dim1=0, dim2=1): return xp.put_diagonal(input, shape, offset, dim1, dim2)
    def d_input(xp, g, offset, dim1, dim2): return xp.diagonal(g, offset, dim1, dim2)


class unfold(View):
    """All windows of `size` elements along a dimension, `step` apart, as a new last dimension."""
    home, examples = "Tensor", ((((7,),), {"dimension": 0, "size": 3, "step": 2}), (((2, 6),), {"dimension": -1, "size": 2, "step": 1}))
    def forward(xp, input, dimension, size, step): return xp.windows(input, dimension, size, step)
    def d_input(xp, g, shape, dimension, size, step): return xp.put_windows(g, shape, dimension, size, step)


class put_windows(Linear):
    """Zeros of the given shape with the windows added where `unfold` reads them."""
    exempt = RULES_ONLY
    home, inputs, exact = "", ("input",), True
    examples = ((((3, 3),), {"shape": (7,), "dimension": 0, "size": 3, "step": 2}), (((2, 5, 2),), {"shape": (2, 6), "dimension": 1, "size": 2, "step": 1}))
    def forward(xp, input, shape, dimension, size, step): return xp.put_windows(input, shape, dimension, size, step)
    def d_input(xp, g, dimension, size, step): return xp.windows(g, dimension, size, step)


# -- copies --------------------------------------------------------------------------------------------------------------


class clone(Linear):
    """Copy with its own memory; the gradient passes through."""
    inputs, exact = ("input",), True
    def forward(xp, input, *, memory_format=None): return xp.copy(input) if memory_format is None else xp.laid_out(input, memory_format)
    def d_input(xp, g): return g


class flip(Linear):
    """Copy with the elements reversed along the given dimensions."""
    inputs, varargs, exact = ("input",), True, True
    examples = ((((2, 3),), {"dims": (0,)}), (((2, 3),), {"dims": (0, -1)}))
    def forward(xp, input, dims): return xp.flip(input, dims)
    def d_input(xp, g, dims): return xp.flip(g, dims)

    @classmethod
    def explain(cls, error, inputs, attrs):
        if None in attrs["dims"]: error = Refused("argument 'dims' must be tuple of ints, not NoneType", TypeError)
        return super().explain(error, inputs, attrs)


class roll(Linear):
    """Shift the elements cyclically along the given dimensions, or along the flattened tensor without `dims`."""
    inputs, exact, row_major = ("input",), True, True
    examples = ((((2, 3),), {"shifts": 1}), (((2, 3),), {"shifts": (1, -2), "dims": (0, 1)}))
    def forward(xp, input, shifts, dims=None): return xp.roll(input, *aligned(shifts, dims))
    def d_input(xp, g, shifts, dims): return xp.roll(g, *aligned(opposite(shifts), dims))


class tril(Linear):
    """Lower triangle of the matrices in the last two dimensions, zeros elsewhere."""
    inputs, inplace, exact, row_major = ("input",), True, True, True
    examples = ((((3, 3),), {}), (((2, 4),), {"diagonal": 1}), (((2, 3, 4),), {"diagonal": -1}))
    def forward(xp, input, diagonal=0): return xp.tril(*matrices(input, "tril", diagonal))
    def d_input(xp, g, diagonal): return xp.tril(g, diagonal)


class triu(Linear):
    """Upper triangle of the matrices in the last two dimensions, zeros elsewhere."""
    inputs, inplace, exact, row_major = ("input",), True, True, True
    examples = ((((3, 3),), {}), (((2, 4),), {"diagonal": 1}), (((2, 3, 4),), {"diagonal": -1}))
    def forward(xp, input, diagonal=0): return xp.triu(*matrices(input, "triu", diagonal))
    def d_input(xp, g, diagonal): return xp.triu(g, diagonal)


# -- writing through a view ----------------------------------------------------------------------------------------------


class write_view(Op):
    """The base of a view after a write to the view: `input` with the part that `path` selects replaced by `other`."""
    exempt = RULES_ONLY
    home, exact = "", True
    examples = ((((3, 4), (2, 6)), {"path": ((permute, {"dims": (1, 0)}), (reshape, {"shape": (2, 6)}))}), (((3, 4), (3,)), {"path": ((diagonal, {}),)}))
    def forward(xp, input, other, path=()): return xp.write_through(input, other, path)
    def d_input(xp, g, path): return xp.write_through(g, 0, path)
    def d_other(xp, g, path): return xp.conj(xp.read_through(xp.conj(g), path))  # rules conjugate complex gradients; a view may be real where the base is complex


class read_view(Linear):
    """The part of the input that a path of views selects."""
    exempt = RULES_ONLY
    home, inputs, exact = "", ("input",), True
    examples = ((((3, 4),), {"path": ((permute, {"dims": (1, 0)}), (reshape, {"shape": (2, 6)}))}), (((3, 4),), {"path": ((diagonal, {}),)}))
    def forward(xp, input, path=()): return xp.read_through(input, path)
    def d_input(xp, g, shape, path):
        zeros = xp.new_zeros(g, shape)
        kinds = [op.name for op, _ in path if op.name in ("real", "view_as_real", "view_as_complex")]
        if kinds: zeros = xp.real(zeros) if kinds[0] == "view_as_complex" else zeros * 1j
        return xp.conj(xp.write_through(zeros, xp.conj(g), path))


# -- shapes and dimensions -------------------------------------------------------------------------------------------------


def wrap_dim(dim: int, ndim: int) -> int:
    """Return a dimension counted from the front. Raises IndexError if it is out of range."""
    n = max(ndim, 1)
    if not -n <= dim < n:
        raise IndexError(f"Dimension out of range (expected to be in range of [{-n}, {n - 1}], but got {dim})")
    return dim % n


def without_ones(shape: tuple, dim: Any) -> tuple:
    if dim is None:
        return tuple(n for n in shape if n != 1)
    chosen = [wrap_dim(d, len(shape)) for d in ((dim,) if isinstance(dim, int) else dim)]
    dims = set(chosen)
    if len(dims) < len(chosen):
        raise Refused(f"dim {next(d for d in chosen if chosen.count(d) > 1)} appears multiple times in the list of dims")
    return tuple(n for i, n in enumerate(shape) if n != 1 or i not in dims)


def expanded(shape: tuple, size: tuple) -> tuple:
    """Return the shape that `expand(size)` gives. Raises RuntimeError if a size other than 1 would change."""
    size = (size,) if isinstance(size, int) else tuple(size)
    wrong = next((n for n in size if not hasattr(n, "__index__")), None)
    if wrong is not None:
        raise Refused(f"the sizes must be ints, but one is {wrong!r}", TypeError)
    lead = len(size) - len(shape)
    if lead < 0:
        raise Refused(f"the number of sizes provided ({len(size)}) must be greater or equal to the number of dimensions in the tensor ({len(shape)})")
    full = (1,) * lead + tuple(shape)
    for i, (have, want) in enumerate(zip(full, size, strict=True)):
        if want == -1 and i < lead:
            raise Refused(f"The expanded size of the tensor (-1) isn't allowed in a leading, non-existing dimension {i}")
        if want not in (-1, have) and have != 1:
            raise Refused(f"The expanded size of the tensor ({want}) must match the existing size ({have}) at non-singleton dimension {i}. Target sizes: {list(size)}. Tensor sizes: {list(shape)}")
    return tuple(have if want == -1 else want for have, want in zip(full, size, strict=True))


def inverse(dims: tuple) -> tuple:
    """Return the permutation that undoes `dims`."""
    n = len(dims)
    places = [0] * n
    for i, d in enumerate(dims):
        places[d % n] = i
    return tuple(places)


def matrices(x: Any, name: str, diagonal: Any) -> tuple:
    """Return the array and the diagonal as an int. Raises RuntimeError for an array of fewer than two dimensions."""
    number = index(diagonal)
    if x.ndim < 2:
        raise Refused(f"{name}: input tensor must have at least 2 dimensions")
    return x, number


def aligned(shifts: Any, dims: Any) -> tuple:
    """Return the shifts and dimensions. Raises RuntimeError unless there is one dimension for each shift."""
    if shifts is None:
        raise Refused("argument 'shifts' must be tuple of ints, not NoneType", TypeError)
    n, m = (1 if isinstance(v, int) else len(v) for v in (shifts, () if dims is None else dims))
    if not n:
        raise Refused("`shifts` required")
    if n != m and (m or n > 1):
        raise Refused(f"shifts and dimensions must align. shifts: {n}, dims:{m}")
    return shifts, dims if m else None


def opposite(shifts: Any) -> Any:
    return -shifts if isinstance(shifts, int) else tuple(-s for s in shifts)


def _sizes(size: tuple) -> tuple:
    return tuple(size[0]) if len(size) == 1 and not hasattr(size[0], "__index__") else size


# -- composites --------------------------------------------------------------------------------------------------------------


def in_sequence(op: Any, name: str) -> None:
    """Publish the function form of `op`, which takes the sizes as one sequence; only the method also takes them as separate ints."""

    def call(input: Any, *args: Any, **kwargs: Any) -> Any:
        if args and (len(args) > 1 or hasattr(args[0], "__index__")):
            raise TypeError(f"{op.name}(): argument {name!r} (position 2) must be tuple of ints, not {' and '.join(type(a).__name__ for a in args)}")
        return op.call(input, *args, **kwargs)

    call.__name__ = call.__qualname__ = call.name = op.name  # type: ignore[attr-defined]
    call.__doc__, call.__module__, call.__signature__, call.op, call.call = op.__doc__, "engine", op.signature, op, call  # type: ignore[attr-defined]
    functions[op.name] = outward(call)


for _op, _name in ((reshape, "shape"), (permute, "dims"), (flip, "dims")):
    in_sequence(_op, _name)


@composite(home="Tensor", method=True)
def view_(self: Tensor, *shape: Any, dtype: Any = None, size: Any = None) -> Tensor:
    """View of the same memory with another shape or dtype. Raises RuntimeError if the strides do not allow the shape."""
    shape = shape if size is None else (size,)
    sizes = shape[0] if len(shape) == 1 and isinstance(shape[0], (tuple, list)) else shape
    if sizes and sizes[0].__class__ is int and (low := min(sizes)) < -1:
        raise RuntimeError(f"invalid shape dimension {low} at index {sizes.index(low)} of shape {list(sizes)}")
    if dtype is None and len(shape) == 1 and not hasattr(shape[0], "__index__") and not isinstance(shape[0], (tuple, list)):
        dtype = shape[0]
    return view(self, *shape) if dtype is None else view_as_dtype(self, dtypes.as_dtype(dtype))


@composite(home="Tensor", method=True)
def view_as(self: Tensor, other: Tensor) -> Tensor:
    """View of the same memory with the shape of another tensor."""
    if not isinstance(other, Tensor):
        raise TypeError(f"view_as(): argument 'other' (position 1) must be Tensor, not {type(other).__name__}")
    return view(self, tuple(other.shape))


@composite(home="Tensor", method=True)
def reshape_as(self: Tensor, other: Tensor) -> Tensor:
    """Reshape to the shape of another tensor."""
    return reshape(self, tuple(other.shape))


@composite(home="Tensor", method=True)
def expand_as(self: Tensor, other: Tensor) -> Tensor:
    """Expand to the shape of another tensor."""
    return expand(self, tuple(other.shape))


@composite(method=True)
def flatten(input: Tensor, start_dim: int = 0, end_dim: int = -1) -> Tensor:
    """Join the dimensions from `start_dim` to `end_dim` into one; a 0-d tensor becomes 1-d."""
    shape = input.array.shape
    start, end = wrap_dim(start_dim, len(shape)), wrap_dim(end_dim, len(shape))
    if start > end:
        raise RuntimeError("flatten() has invalid args: start_dim cannot come after end_dim")
    if start == end and shape:
        return input
    return reshape(input, (*shape[:start], math.prod(shape[start : end + 1]), *shape[end + 1 :]))


@composite(method=True)
def unflatten(input: Tensor, dim: int, sizes: Any) -> Tensor:
    """Split one dimension into the given sizes, the product of which is its size; one may be -1."""
    if not isinstance(sizes, (tuple, list)):
        raise TypeError(f"unflatten(): argument 'sizes' must be tuple of ints, not {type(sizes).__name__}")
    if not sizes:
        raise RuntimeError("unflatten: sizes must be non-empty")
    shape = tuple(input.shape)
    d = wrap_dim(dim, len(shape))
    if not shape:
        raise RuntimeError("unflatten cannot be applied to a 0-dim tensor")
    sizes, n = tuple(sizes), shape[d]
    known = math.prod(s for s in sizes if s != -1)
    whole = tuple(n // known if s == -1 and known else s for s in sizes)
    if math.prod(whole) != n or sizes.count(-1) > 1:
        raise RuntimeError(f"unflatten: Provided sizes {list(sizes)} don't multiply up to the size of dim {d} ({n}) in the input tensor")
    return reshape(input, (*shape[:d], *whole, *shape[d + 1 :]))


@composite(method=True)
def ravel(input: Tensor) -> Tensor:
    """Flatten to one dimension; a view of a contiguous tensor, else a copy."""
    return reshape(contiguous(input), (-1,) if input.numel() else (0,))


@composite(home="Tensor", method=True)
def contiguous(self: Tensor, memory_format: memory_format = contiguous_format) -> Tensor:
    """Return the tensor in row-major order or another memory format: itself if it already is, else a copy."""
    if memory_format is preserve_format:
        if self.is_contiguous():
            return self
        raise RuntimeError("preserve memory format is unsupported by the contiguous operator")
    return self if self.is_contiguous(memory_format=memory_format) else clone(self, memory_format=memory_format)


@composite(method=True)
def t(input: Tensor) -> Tensor:
    """Transpose of a matrix; tensors of fewer dimensions are unchanged. Raises RuntimeError for more than two dimensions."""
    if input.ndim > 2:
        raise RuntimeError(f"t() expects a tensor with <= 2 dimensions, but self is {input.ndim}D")
    return permute(input, tuple(range(input.ndim))[::-1])


@composite(method=True)
def adjoint(input: Tensor) -> Tensor:
    """Conjugate transpose of the matrices in the last two dimensions."""
    if input.ndim == 1:
        raise RuntimeError("tensor.adjoint() is only supported on matrices or batches of matrices. Got 1-D tensor.")
    swapped = transpose(input, -2, -1) if input.ndim else input
    return swapped.conj() if input.is_complex() else swapped


def _matrices(x: Tensor, name: str) -> Tensor:
    if x.ndim == 1:
        raise RuntimeError(f"tensor.{name} is only supported on matrices or batches of matrices. Got 1-D tensor.")
    return transpose(x, -2, -1) if x.ndim else x


def _h(x: Tensor) -> Tensor:
    if x.ndim not in (0, 2):
        raise RuntimeError(f"tensor.H is only supported on matrices (2-D tensors). Got {x.ndim}-D tensor.")
    return adjoint(x)


define("T", property(lambda x: permute(x, tuple(range(x.ndim))[::-1]), doc="The tensor with its dimensions in reverse order."))
define("mT", property(lambda x: _matrices(x, "mT"), doc="The transpose of the matrices in the last two dimensions."))
define("H", property(_h, doc="The conjugate transpose of a matrix."))
define("mH", property(lambda x: adjoint(x) if x.ndim != 1 else _matrices(x, "mH"), doc="The conjugate transpose of the matrices in the last two dimensions."))


@composite
def broadcast_tensors(*tensors: Tensor) -> tuple[Tensor, ...]:
    """Expand the tensors to their broadcast shape."""
    for i, t in enumerate(tensors):
        if not isinstance(t, Tensor):
            raise TypeError(f"broadcast_tensors(): expected Tensor as element {i} in argument 0, but got {type(t).__name__}")
    shape = broadcast_shapes(*[tuple(t.shape) for t in tensors])
    return tuple(t if tuple(t.shape) == shape else expand(t, shape) for t in tensors)


@composite
def broadcast_shapes(*shapes: Any) -> Size:
    """Return the shape that the given shapes broadcast to. Raises RuntimeError if they are incompatible."""
    out: list[int] = []
    for shape in shapes:
        shape = (shape,) if isinstance(shape, int) else tuple(shape)
        out[:0] = [1] * (len(shape) - len(out))
        for i, n in enumerate(reversed(shape), 1):
            if n != 1 and out[-i] not in (1, n):
                raise RuntimeError(f"Shape mismatch: objects cannot be broadcast to a single shape: {' and '.join(map(str, shapes))}")
            if n < 0:
                raise ValueError(f"Attempting to broadcast a dimension with negative length! Got {shape}")
            out[-i] = n if out[-i] == 1 else out[-i]
    return Size(out)


@composite(home="Tensor", method=True)
def sum_to_size(self: Tensor, *size: Any) -> Tensor:
    """Sum over the dimensions along which a tensor of this size broadcasts to the input's shape."""
    from ..core import xp

    shape = _sizes(size)
    try:
        fits = broadcast_shapes(shape, tuple(self.shape)) == tuple(self.shape)
    except (RuntimeError, ValueError):
        fits = False
    if not fits:
        raise RuntimeError(f"size {{{list(shape)}}} is not expandable to size {{{list(self.shape)}}}.")
    if shape == ():
        return xp.sum(self)
    return self if shape == tuple(self.shape) else sum_to(xp, self, shape)


@composite(method=True)
def rot90(input: Tensor, k: int = 1, dims: tuple[int, int] = (0, 1)) -> Tensor:
    """Rotate by `k` quarter turns in the plane of two dimensions, from the first towards the second; a copy."""
    if len(dims) != 2:
        raise RuntimeError(f"expected total rotation dims == 2, but got dims = {len(dims)}")
    if input.ndim < 2:
        raise RuntimeError(f"expected total dims >= 2, but got total dims = {input.ndim}")
    a, b = (wrap_dim(d, input.ndim) for d in dims)
    if a == b:
        raise RuntimeError(f"expected rotation dims to be different, but got dim0 = {dims[0]} and dim1 = {dims[1]}")
    turned = (lambda x: clone(x), lambda x: transpose(flip(x, b), a, b), lambda x: flip(x, (a, b)), lambda x: transpose(flip(x, a), a, b))
    return turned[k % 4](input)


@composite(method=True)
def fliplr(input: Tensor) -> Tensor:
    """Reverse the second dimension; a copy."""
    if input.ndim < 2:
        raise RuntimeError("Input must be >= 2-d.")
    return flip(input, 1)


@composite(method=True)
def flipud(input: Tensor) -> Tensor:
    """Reverse the first dimension; a copy."""
    if input.ndim < 1:
        raise RuntimeError("Input must be >= 1-d.")
    return flip(input, 0)


@composite(method=True)
def diag_embed(input: Tensor, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """Matrices with the last dimension of the input on a diagonal and zeros elsewhere."""
    n = input.ndim + 1
    a, b = wrap_dim(dim1, n), wrap_dim(dim2, n)
    if a == b:
        raise RuntimeError(f"diagonal dimensions cannot be identical {dim1}, {dim2}")
    size = input.shape[-1] + abs(offset)
    rest = iter(input.shape[:-1])
    shape = tuple(size if i in (a, b) else next(rest) for i in range(n))
    return put_diagonal(input, shape, offset, a, b)


@composite(method=True)
def diag(input: Tensor, diagonal: int = 0) -> Tensor:
    """Matrix with a vector on its diagonal; for a matrix, a copy of its diagonal."""
    if input.ndim not in (1, 2):
        raise RuntimeError(f"diag(): Supports 1D or 2D tensors. Got {input.ndim}D")
    return diag_embed(input, diagonal) if input.ndim == 1 else clone(Tensor.diagonal(input, diagonal))


# -- in-place changes of shape ---------------------------------------------------------------------------------------------------


def seen_otherwise(name: str, fn: Any) -> None:
    """Define the in-place method that changes how a tensor object views its memory."""

    def call(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        inplace.refuse_leaf(self, f"{name}_")
        seen = inplace.reshape_in_place(self, lambda x: fn(x, *args, **kwargs))
        inplace.note_write_to(self, f"{name}_", kept=self if tape.mode.grad else None)  # the new node leads to the old one
        return seen

    call.__name__ = call.__qualname__ = f"{name}_"
    call.__doc__ = f"In-place form of `{name}`: {fn.__doc__}"
    define(f"{name}_", call)


for _name, _fn in {"squeeze": squeeze, "unsqueeze": unsqueeze, "transpose": transpose, "swapaxes": transpose, "swapdims": transpose, "t": t}.items():
    seen_otherwise(_name, _fn)

