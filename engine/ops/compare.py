"""Comparisons, logic and bits: results are bool or integers, and carry no gradient."""

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

TWO = ([[5, 3, 6], [1, 0, 7]], [[3, 5, 2], [1, 1, 4]])  # integers: what bit by bit ops are for


class Comparison(Refusing, Elementwise):
    inplace, refuses = False, "c"


class eq(Elementwise):
    """Where two tensors are equal."""
    operator, inplace = "eq", False
    def forward(xp, input, other): return xp.equal(input, other)


class ne(Elementwise):
    """Where two tensors differ."""
    operator, aliases, inplace = "ne", ("not_equal",), False
    def forward(xp, input, other): return xp.not_equal(input, other)


class lt(Comparison):
    """Where `input` is less than `other`."""
    operator, aliases = "lt", ("less",)
    def forward(xp, input, other): return xp.less(input, other)


class le(Comparison):
    """Where `input` is at most `other`."""
    operator, aliases = "le", ("less_equal",)
    def forward(xp, input, other): return xp.less_equal(input, other)


class gt(Comparison):
    """Where `input` is greater than `other`."""
    operator, aliases = "gt", ("greater",)
    def forward(xp, input, other): return xp.greater(input, other)


class ge(Comparison):
    """Where `input` is at least `other`."""
    operator, aliases = "ge", ("greater_equal",)
    def forward(xp, input, other): return xp.greater_equal(input, other)


def _written(op):
    """The value that `lt_` and the like write. As in PyTorch, the gradient of both operands is 0."""
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
    """Where |input - other| <= atol + rtol |other|; infinities are close to themselves, nans only with `equal_nan`."""
    types, inplace, inputs = "same", False, ("input", "other")
    def forward(xp, input, other, rtol=1e-5, atol=1e-8, equal_nan=False):
        for name, least in (("rtol", rtol), ("atol", atol)):
            if not least >= 0: raise Refused(f"{name} must be greater than or equal to zero, but got {least}")
        return xp.isclose(input, other, rtol, atol, equal_nan)


@front("allclose")
def _allclose(input, other, rtol=1e-5, atol=1e-8, equal_nan=False) -> bool:
    """Whether all elements of two tensors are close: see `isclose`."""
    if not isinstance(other, Tensor): raise TypeError(f"allclose(): argument 'other' must be Tensor, not {type(other).__name__}")
    return _all("allclose", isclose(input, other, rtol, atol, equal_nan).array)


@front("equal")
def _equal(input, other) -> bool:
    """Whether two tensors have the same shape and the same elements."""
    if not isinstance(other, Tensor): raise TypeError(f"equal(): argument 'other' must be Tensor, not {type(other).__name__}")
    return input.array.shape == other.array.shape and _all("equal", eq(input, other).array)


def _all(name, array) -> bool:
    if isinstance(array, Batched): raise Unbatchable(f"vmap: {name} answers with one bool, but samples may differ; all() of the elements answers for each")
    if array.__class__ is Meta: raise NotImplementedError(f"{name} answers with one bool, and a meta tensor has no data to tell it from")
    return bool(array.all())


class isnan(Elementwise):
    """Where elements are nan."""
    samples, inplace = UNARY, False
    def forward(xp, input): return xp.isnan(input)


class isinf(Elementwise):
    """Where elements are inf or -inf."""
    samples, inplace = UNARY, False
    def forward(xp, input): return xp.isinf(input)


class isfinite(Elementwise):
    """Where elements are neither nan nor infinite."""
    samples, inplace = UNARY, False
    def forward(xp, input): return xp.isfinite(input)


class isposinf(Comparison):
    """Where elements are inf."""
    samples, refusal = UNARY, (RuntimeError, "does not support {} inputs")
    def forward(xp, input): return xp.isposinf(input)


class isneginf(Comparison):
    """Where elements are -inf."""
    samples, refusal = UNARY, (RuntimeError, "does not support {} inputs")
    def forward(xp, input): return xp.isneginf(input)


class isreal(Elementwise):
    """Where the imaginary part is 0."""
    samples, inplace = UNARY, False
    def forward(xp, input): return xp.isreal(input)


class signbit(Comparison):
    """Where the sign bit is set: negative elements, and -0."""
    samples = UNARY
    def forward(xp, input): return xp.signbit(input)


class logical_and(Elementwise):
    """Where both are not 0."""
    def forward(xp, input, other): return xp.logical_and(input, other)


class logical_or(Elementwise):
    """Where at least one is not 0."""
    def forward(xp, input, other): return xp.logical_or(input, other)


class logical_xor(Elementwise):
    """Where exactly one is not 0."""
    def forward(xp, input, other): return xp.logical_xor(input, other)


class logical_not(Elementwise):
    """Where elements are 0."""
    samples = UNARY
    def forward(xp, input): return xp.logical_not(input)


def _unfollowed(write):
    """In place, a tensor keeps its place in the graph: autograd follows no logic, and lets it write to leaves too."""
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
    """The bits that both integers have; logical and of bools."""
    operator = "and"
    def forward(xp, input, other): return xp.bitwise_and(input, other)


class bitwise_or(Bits):
    """The bits that at least one integer has; logical or of bools."""
    operator = "or"
    def forward(xp, input, other): return xp.bitwise_or(input, other)


class bitwise_xor(Bits):
    """The bits that exactly one integer has; logical exclusive or of bools."""
    operator = "xor"
    def forward(xp, input, other): return xp.bitwise_xor(input, other)


class bitwise_not(Bits):
    """The bits that an integer has not; logical not of bools. NotImplementedError for floats, of which `~` says TypeError."""
    samples = TWO[:1], ([True, False],)
    def forward(xp, input): return xp.invert(input)


def _invert(self):
    """The tensor's bits inverted, `~x`."""
    if self.dtype.rank >= dtypes.FLOAT: raise TypeError("~ (operator.invert) is only implemented on integer and Boolean-type tensors")
    return bitwise_not(self)


define("__invert__", _invert)


class bitwise_left_shift(Bits):
    """The bits of an integer moved left by `other` places."""
    operator, refuses, samples = "lshift", "bfc", (TWO, ([[5, 3, 6]], [[3], [1]]))
    def forward(xp, input, other): return xp.left_shift(input, other)


class bitwise_right_shift(Bits):
    """The bits of an integer moved right by `other` places; the sign stays."""
    operator, refuses, samples = "rshift", "bfc", (TWO, ([[5, 3, 6]], [[3], [1]]))
    def forward(xp, input, other): return xp.right_shift(input, other)
