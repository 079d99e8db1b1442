"""Methods that call a Python function for each element or fill a diagonal; in-place methods and view copies as functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy

from ..base.layout import contiguous_format
from ..core import inplace
from ..core.op import composite, functions
from ..core.tensor import Tensor, define
from .front import must_be_tensor
from .shape import clone
from .split import sliced, split


def _by_element(name: str, self: Tensor, others: tuple, callable: Callable) -> Tensor:
    """Replace each element by `callable` of it and of the corresponding elements of the other tensors."""
    if self.is_cuda:
        raise TypeError(f"{name} is only implemented on CPU tensors")
    if self.requires_grad:
        raise RuntimeError(f"Can't call {name}() on Variable that requires grad. Use var.detach().{name}() instead.")
    for x in others:
        if not isinstance(x, Tensor) or x.dtype is not self.dtype:
            raise TypeError(f"{name}(): expected tensors of dtype {self.dtype!r}, got {getattr(x, 'dtype', type(x).__name__)!r}")
    seen = [numpy.broadcast_to(x.array, self.array.shape) for x in others]
    for at in numpy.ndindex(self.array.shape):
        value = callable(*[a[at].item() for a in (self.array, *seen)])
        if not isinstance(value, (bool, int, float, complex, numpy.generic)):
            raise TypeError(f"must be real number, not {type(value).__name__}")
        self.array[at] = value
    inplace.note_write_to(self, name)
    return self


def apply_(self: Tensor, callable: Callable) -> Tensor:
    """Replace each element of a CPU tensor by `callable` of it; slow, for functions without an op."""
    return _by_element("apply_", self, (), callable)


def map_(self: Tensor, tensor: Tensor, callable: Callable) -> Tensor:
    """Replace each element by `callable` of it and of the corresponding element of another tensor, which broadcasts."""
    return _by_element("map_", self, (tensor,), callable)


def map2_(self: Tensor, x: Tensor, y: Tensor, callable: Callable) -> Tensor:
    """Replace each element by `callable` of it and of the corresponding elements of two other tensors, which broadcast."""
    return _by_element("map2_", self, (x, y), callable)


def fill_diagonal_(self: Tensor, fill_value: Any, wrap: bool = False) -> Tensor:
    """Write a scalar to the main diagonal; with `wrap`, a tall matrix has further diagonals below it, each after a row left unchanged."""
    if self.ndim < 2:
        raise RuntimeError("dimensions must larger than 1")
    if self.ndim > 2 and len(set(self.shape)) > 1:
        raise RuntimeError("all dimensions of input must be of equal length")
    side = min(self.shape)
    step, count = sum(self.stride()), side
    offset = self.storage_offset()
    self.as_strided((count,), (step,), offset).fill_(fill_value)
    rows, columns = self.shape[0], self.shape[1]
    if wrap and self.ndim == 2 and rows > columns + 1:
        first = columns + 1
        while first < rows:
            below = self[first : first + columns]
            below.as_strided((min(below.shape),), (step,), below.storage_offset()).fill_(fill_value)
            first += columns + 1
    return self


def as_subclass(self: Tensor, cls: type) -> Any:
    """The same memory and graph history as an instance of a subclass of Tensor."""
    if not (isinstance(cls, type) and issubclass(cls, Tensor)):
        raise TypeError(f"as_subclass: expected a subclass of Tensor, got {cls!r}")
    seen = Tensor.view(self, tuple(self.shape)) if self.requires_grad else self  # a result of a leaf is not a leaf
    out = object.__new__(cls)
    out.array, out.node, out._view = self.array, seen.node, seen._view
    return out


def dequantize(self: Tensor) -> Tensor:
    """Return the tensor in float32: it is not quantized."""
    return self.float()


def _unavailable(name: str, device: str) -> Any:
    def call(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        raise RuntimeError(f"Tensor.{name}: there are no {device} devices here; tensors are on the CPU or on a CUDA device")

    call.__name__ = name
    return call


for _name in ("ipu", "mtia", "xpu"):
    define(_name, _unavailable(_name, _name.upper()))
for _fn in (apply_, map_, map2_, fill_diagonal_, as_subclass, dequantize):
    define(_fn.__name__, _fn)


# -- in-place methods as functions, such as torch.exp_(x) ----------------------------------------------------------------------

_IN_PLACE = ["abs", "acos", "acosh", "addmv", "arccos", "arccosh", "arcsin", "arcsinh", "arctan", "arctanh", "as_strided", "asin", "asinh", "atan", "atanh", "ceil", "celu", "clamp", "clamp_max", "clamp_min", "clip", "conj_physical", "cos", "cosh", "deg2rad", "detach", "erf", "erfc", "exp", "exp2", "expm1", "fill", "fix", "floor", "frac", "gcd", "i0", "index_put", "lcm", "ldexp", "log", "log10", "log1p", "log2", "logit", "nan_to_num", "neg", "negative", "rad2deg", "reciprocal", "relu", "round", "rrelu", "rsqrt", "selu", "sigmoid", "sin", "sinc", "sinh", "sqrt", "square", "tan", "tanh", "threshold", "trunc", "xlogy", "dropout", "alpha_dropout", "feature_alpha_dropout"]


def _as_function(name: str) -> Any:
    """Return `torch.<name>_`: the method, or the `nn.functional` function with `inplace=True`."""
    method, fn = getattr(Tensor, f"{name}_", None), functions.get(f"nn.functional.{name}")

    def call(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        must_be_tensor(f"{name}_", "input", input)
        if method is not None:
            return method(input, *args, **kwargs)
        assert fn is not None
        return fn(input, *args, **kwargs, inplace=True)

    call.__name__ = call.__qualname__ = f"{name}_"
    call.__doc__ = method.__doc__ if method is not None else f"In-place form of `{name}`: {fn.__doc__ if fn else ''}"
    return call


functions |= {f"{name}_": _as_function(name) for name in _IN_PLACE}
functions |= {"detach": Tensor.detach, "dequantize": dequantize}


@composite
def detach_copy(input: Tensor) -> Tensor:
    """Copy of the tensor, detached from the graph."""
    return clone(input.detach(), memory_format=contiguous_format)


@composite
def select_copy(input: Tensor, dim: int, index: int) -> Tensor:
    """Copy of one slice of a dimension."""
    return clone(input.select(dim, index), memory_format=contiguous_format)


@composite
def slice_copy(input: Tensor, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1) -> Tensor:
    """Copy of the slices `start:end:step` of a dimension."""
    return clone(sliced(input, dim, start, end, step), memory_format=contiguous_format)


@composite(method=True)
def unsafe_split_with_sizes(input: Tensor, split_sizes: Any, dim: int = 0) -> tuple:
    """`split_with_sizes` with pieces that can be written in place without autograd tracking; here they are copies."""
    return tuple(clone(piece) for piece in split(input, split_sizes, dim))
