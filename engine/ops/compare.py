"""Comparisons, logical and bitwise ops; results are bool or integer and carry no gradient."""

import functools

from ..backends.batch import Batched, Unbatchable
from ..backends.meta import Meta
from ..base import dtypes
from ..base.errors import Refused
from ..core import tape
from ..core.op import Elementwise, functions, replacing
from ..core.tensor import Tensor, define
from .front import Refusing, front
from .math import UNARY

TWO = ([[5, 3, 6], [1, 0, 7]], [[3, 5, 2], [1, 1, 4]])  # integer inputs for bitwise ops


class Comparison(Refusing, Elementwise):
    inplace, refuses = False, "c"


class eq(Elementwise):
    """True where two tensors are equal."""
    operator, inplace = "eq", False
    def forward(xp, input, other): return xp.equal(input, other)


class ne(Elementwise):
    """True where two tensors differ."""
    operator, aliases, inplace = "ne", ("not_equal",), False
    def forward(xp, input, other): return xp.not_equal(input, other)


class lt(Comparison):
    """True where `input` is less than `other`."""
    operator, aliases = "lt", ("less",)
    def forward(xp, input, other): return xp.less(input, other)


class le(Comparison):
    """True where `input` is at most `other`."""
    operator, aliases = "le", ("less_equal",)
    def forward(xp, input, other): return xp.less_equal(input, other)


class gt(Comparison):
    """True where `input` is greater than `other`."""
    operator, aliases = "gt", ("greater",)
    def forward(xp, input, other): return xp.greater(input, other)


class ge(Comparison):
    """True where `input` is at least `other`."""
    operator, aliases = "ge", ("greater_equal",)
    def forward(xp, input, other): return xp.greater_equal(input, other)


def _written(op):
    """Return the function of the values that `lt_` and the like write; as in PyTorch, the gradient of both operands is 0."""
    def compare(x, other):
        out = op.call(x, other)
        for given in (x, other):
            if getattr(given, "node", None) is not None: out = out + functions["fill"](given.to(x.dtype), 0)
        return out
    compare.__doc__ = op.__doc__
    return compare


for _op in (eq, ne, lt, le, gt, ge):
    for _name in (_op.name, *_op.aliases):
        define(f"{_name}_", replacing(_name, _written(_op)))


class isclose(Refusing, Elementwise):
    """True where |input - other| <= atol + rtol |other|; equal infinities are close, nans only with `equal_nan`."""
    types, inplace, inputs = "same", False, ("input", "other")
    def forward(xp, input, other, rtol=1e-5, atol=1e-8, equal_nan=False):
        for name, least in (("rtol", rtol), ("atol", atol)):
            if not least >= 0: raise Refused(f"{name} must be greater than or equal to zero, but got {least}")
        return xp.isclose(input, other, rtol, atol, equal_nan)


@front("allclose")
def _allclose(input, other, rtol=1e-5, atol=1e-8, equal_nan=False) -> bool:
    """Return whether all elements of two tensors are close; see `isclose`."""
    if not isinstance(other, Tensor): raise TypeError(f"allclose(): argument 'other' must be Tensor, not {type(other).__name__}")
    return _all("allclose", isclose(input, other, rtol, atol, equal_nan).array)


@front("equal")
def _equal(input, other) -> bool:
    """Return whether two tensors have the same shape and the same elements."""
    if not isinstance(other, Tensor): raise TypeError(f"equal(): argument 'other' must be Tensor, not {type(other).__name__}")
    return input.array.shape == other.array.shape and _all("equal", eq(input, other).array)


def _all(name, array) -> bool:
    if isinstance(array, Batched): raise Unbatchable(f"vmap: {name} answers with one bool, but samples may differ; all() of the elements answers for each")
    if array.__class__ is Meta: raise NotImplementedError(f"{name} answers with one bool, and a meta tensor has no data to tell it from")
    return bool(array.all())


class isnan(Elementwise):
    """True where elements are nan."""
    samples, inplace = UNARY, False
    def forward(xp, input): return xp.isnan(input)


class isinf(Elementwise):
    """True where elements are inf or -inf."""
    samples, inplace = UNARY, False
    def forward(xp, input): return xp.isinf(input)


class isfinite(Elementwise):
    """True where elements are neither nan nor infinite."""
    samples, inplace = UNARY, False
    def forward(xp, input): return xp.isfinite(input)


class isposinf(Comparison):
    """True where elements are inf."""
    samples, refusal = UNARY, (RuntimeError, "does not support {} inputs")
    def forward(xp, input): return xp.isposinf(input)


class isneginf(Comparison):
    """True where elements are -inf."""
    samples, refusal = UNARY, (RuntimeError, "does not support {} inputs")
    def forward(xp, input): return xp.isneginf(input)


class isreal(Elementwise):
    """True where the imaginary part is 0."""
    samples, inplace = UNARY, False
    def forward(xp, input): return xp.isreal(input)


class signbit(Comparison):
    """True where the sign bit is set: negative elements, and -0."""
    samples = UNARY
    def forward(xp, input): return xp.signbit(input)


class logical_and(Elementwise):
    """True where both elements are non-zero."""
    def forward(xp, input, other): return xp.logical_and(input, other)


class logical_or(Elementwise):
    """True where at least one element is non-zero."""
    def forward(xp, input, other): return xp.logical_or(input, other)


class logical_xor(Elementwise):
    """True where exactly one element is non-zero."""
    def forward(xp, input, other): return xp.logical_xor(input, other)


class logical_not(Elementwise):
    """True where elements are 0."""
    samples = UNARY
    def forward(xp, input): return xp.logical_not(input)


def _unfollowed(write):
    """Wrap an in-place method so that autograd ignores it: the tensor keeps its node, and leaves may be written."""
    @functools.wraps(write)
    def call(self, *args, **kwargs):
        recorded, tape.mode.grad = tape.mode.grad, False
        try: return write(self, *args, **kwargs)
        finally: tape.mode.grad = recorded
    return call


for _name in ("logical_and", "logical_or", "logical_xor", "logical_not"):
    define(f"{_name}_", _unfollowed(getattr(Tensor, f"{_name}_")))


class Bits(Refusing, Elementwise):
    refuses, samples = "fc", (TWO, ([[5, 3, 6]], [[3], [1]]), ([[True, False]], [[True, True]]))


class bitwise_and(Bits):
    """Bitwise and of integers; logical and of bools."""
    operator = "and"
    def forward(xp, input, other): return xp.bitwise_and(input, other)


class bitwise_or(Bits):
    """Bitwise or of integers; logical or of bools."""
    operator = "or"
    def forward(xp, input, other): return xp.bitwise_or(input, other)


class bitwise_xor(Bits):
    """Bitwise exclusive or of integers; logical exclusive or of bools."""
    operator = "xor"
    def forward(xp, input, other): return xp.bitwise_xor(input, other)


class bitwise_not(Bits):
    """Bitwise not of integers; logical not of bools. Raises NotImplementedError for floats, for which `~` raises TypeError."""
    samples = TWO[:1], ([True, False],)
    def forward(xp, input): return xp.invert(input)


def _invert(self):
    """Bitwise not, `~x`. Raises TypeError for floating-point and complex tensors."""
    if self.dtype.rank >= dtypes.FLOAT: raise TypeError("~ (operator.invert) is only implemented on integer and Boolean-type tensors")
    return bitwise_not(self)


define("__invert__", _invert)


class bitwise_left_shift(Bits):
    """Bits of each integer shifted left by `other`."""
    operator, refuses, samples = "lshift", "bfc", (TWO, ([[5, 3, 6]], [[3], [1]]))
    def forward(xp, input, other): return xp.left_shift(input, other)


class bitwise_right_shift(Bits):
    """Bits of each integer shifted right by `other`, keeping the sign."""
    operator, refuses, samples = "rshift", "bfc", (TWO, ([[5, 3, 6]], [[3], [1]]))
    def forward(xp, input, other): return xp.right_shift(input, other)
