"""Elementwise arithmetic, powers, exponentials and logarithms."""

import functools
import math

import numpy

from ..base import dtypes
from ..base.errors import Refused
from ..core import devices, rules
from ..core.create import number
from ..core.from_data import tensor
from ..core.inplace import write
from ..core.op import RULES_ONLY, Elementwise, replacing
from ..core.tensor import Tensor, define
from .front import Refusing, front, must_be_tensor, numbered

UNARY = (((2, 3),), ((),))


def is_complex(x):
    """Return whether an array or a Tensor has a complex dtype."""
    return getattr(x.dtype, "kind", "") == "c" or getattr(x.dtype, "is_complex", False)


class Arithmetic(Elementwise):
    """Base of the arithmetic ops, the only ones that accept two Python scalars: `add(1, 2)` is a tensor."""

    @classmethod
    def prepare(cls, arrays):
        if all(isinstance(a, (bool, int, float, complex)) for a in arrays):
            arrays = [numpy.asarray(arrays[0], dtypes.of_scalar(arrays[0]).numpy), *arrays[1:]]
        return super().prepare(arrays)


class Scaled(Arithmetic):
    """Base of `add` and `sub`: `alpha` scales `other` first, at no cost when it is not given."""

    @staticmethod
    def refuse_bools(operands): pass

    @classmethod
    def bind(cls, args, kwargs):
        if len(args) == 3:
            args, kwargs = numbered(cls.name, args, kwargs, ("alpha",))
            if len(args) == 3 and not isinstance(args[1], Tensor): args, kwargs = args[::2], {"alpha": args[1], **kwargs}  # `x.add(1, 2)`
        if "alpha" not in kwargs: return super().bind(args, kwargs)
        alpha = (kwargs := dict(kwargs)).pop("alpha")
        (input, other), attrs = super().bind(args, kwargs)
        cls.refuse_bools((input, other))
        alpha = scale(cls.name, alpha, "alpha", input, other)
        if alpha != 1 and isinstance(other, Tensor) and getattr(input, "dtype", None) is not other.dtype:
            other = other.to(dtypes.result((getattr(input, "array", input), other.array)))  # may hold values that `other`'s own dtype cannot
        return (input, other if alpha == 1 else other * alpha), attrs


def scale(function, factor, name, *operands):
    """Return a factor such as `alpha`. Raises RuntimeError if the operands' result dtype cannot represent its kind of number."""
    factor = number(factor, function, name)
    rank = max([dtypes.of_scalar(x).rank if isinstance(x, numpy.generic) or not hasattr(x, "dtype") else x.dtype.rank for x in operands])
    if isinstance(factor, bool) and rank != dtypes.BOOL: raise RuntimeError(f"Boolean {name} only supported for Boolean results.")
    if isinstance(factor, float) and rank < dtypes.FLOAT: raise RuntimeError(f"For integral input tensors, argument {name} must not be a floating point number.")
    if isinstance(factor, complex) and rank < dtypes.COMPLEX: raise RuntimeError(f"For non-complex input tensors, argument {name} must not be a complex number.")
    return bool(factor) if rank == dtypes.BOOL else factor


class add(Scaled):
    """Elementwise sum: `input + alpha * other`."""
    operator = "add"
    def forward(xp, input, other): return input + other
    def d_input(xp, g): return g
    def d_other(xp, g): return g


class sub(Scaled):
    """Elementwise difference: `input - alpha * other`. Raises RuntimeError for bool operands."""
    operator, aliases = "sub", ("subtract",)
    def forward(xp, input, other): return input - other
    def d_input(xp, g): return g
    def d_other(xp, g): return -g

    @classmethod
    def prepare(cls, arrays):
        cls.refuse_bools(arrays)
        return super().prepare(arrays)

    @staticmethod
    def refuse_bools(operands):
        bools = sum(isinstance(a, bool) or getattr(a, "dtype", None) in (numpy.bool_, dtypes.bool_) for a in operands)
        if bools == 2: raise RuntimeError("Subtraction, the `-` operator, with two bool tensors is not supported. Use the `^` or `logical_xor()` operator instead.")
        if bools: raise RuntimeError(f"Subtraction, the `-` operator, with a bool tensor is not supported. {_INVERT}")


_INVERT = "If you are trying to invert a mask, use the `~` or `logical_not()` operator instead."


@front("rsub")
def _rsub(input, other, alpha=1):
    """Reversed subtraction: `other - alpha * input`."""
    must_be_tensor("rsub", "input", input)
    return sub(other, input, alpha=alpha)


class mul(Arithmetic):
    """Elementwise product of two tensors."""
    operator, aliases = "mul", ("multiply",)
    def forward(xp, input, other): return input * other
    def d_input(xp, g, other): return g * other
    def d_other(xp, g, input): return g * input


class div(Arithmetic):
    """Elementwise true division; `rounding_mode="floor"` or `"trunc"` rounds the quotient down or towards zero."""
    operator, aliases, types = "truediv", ("divide", "true_divide"), "float"
    def forward(xp, input, other): return input / other
    def d_input(xp, g, other): return g / other
    def d_other(xp, g, input, other): return -g * ((input / other) / other)
    def t_other(xp, t, input, other): return -(t * (input / other)) / other

    @classmethod
    def push(cls, node, tangents, xp, recorded):
        t, s = tangents
        if t is not None and s is not None:  # one division: by 0, both tangents could be infinite and their sum nan
            input, other, *_ = rules.retied(cls, node, xp) if recorded else node.saved
            tangents = [t - s * (input / other), None]
        return super().push(node, tangents, xp, recorded)


class floor_divide(Refusing, Arithmetic):
    """Elementwise quotient, rounded down; its gradient is 0. Raises RuntimeError for integer division by 0."""
    operator, refuses = "floordiv", "bc"
    exempt = {"specials": "PyTorch refuses to differentiate it, where this is 0 as for div(rounding_mode='floor')."}
    def forward(xp, input, other): return xp.floor_divide(input, other)
    def d_input(xp, g): return xp.zeros_like(g)
    def d_other(xp, g): return xp.zeros_like(g)


class trunc_divide(Refusing, Arithmetic):
    """Elementwise quotient, rounded towards zero; its gradient is 0. Raises RuntimeError for integer division by 0."""
    exempt = RULES_ONLY
    home, refuses = "", "bc"
    def forward(xp, input, other): return xp.trunc_divide(input, other)
    def d_input(xp, g): return xp.zeros_like(g)
    def d_other(xp, g): return xp.zeros_like(g)


def _rounded(mode):
    try:
        return {None: div, "floor": floor_divide, "trunc": trunc_divide}[mode]
    except KeyError:
        raise RuntimeError(f"div expected rounding_mode to be one of None, 'trunc', or 'floor' but found {mode!r}") from None


@front("div", "divide")
def _div(*args, rounding_mode=None, **kwargs): return _rounded(rounding_mode).call(*args, **kwargs)


@front("div_", "divide_", function=False)
def _div_(self, other, *, rounding_mode=None): return write(_rounded(rounding_mode), self, (other,), {})


_div.__doc__ = div.__doc__
_div_.__doc__ = f"In-place form of `div`: {div.__doc__}"


class remainder(Refusing, Elementwise):
    """Elementwise remainder with the sign of `other`, as Python's `%`. Raises RuntimeError for integer division by 0."""
    operator, refuses = "mod", "bc"
    def forward(xp, input, other): return xp.remainder(input, other)
    def d_input(xp, g): return g
    def d_other(xp, g, input, other): return -g * xp.floor_divide(input, other)


class fmod(Refusing, Elementwise):
    """Elementwise remainder with the sign of `input`, as C's `fmod`. Raises RuntimeError for integer division by 0."""
    refuses = "bc"
    def forward(xp, input, other): return xp.fmod(input, other)
    def d_input(xp, g): return g
    def d_other(xp, g, input, other): return -g * xp.trunc_divide(input, other)


class neg(Refusing, Elementwise):
    """Negative of each element. Raises RuntimeError for a bool tensor."""
    operator, aliases, samples, refuses = "neg", ("negative",), UNARY, "b"
    refusal = RuntimeError, f"Negation, the `-` operator, on a bool tensor is not supported. {_INVERT}"
    def forward(xp, input): return -input
    def d_input(xp, g): return -g


@front("positive", "__pos__")
def _positive(input):
    """Return the tensor itself. Raises RuntimeError for a bool tensor."""
    if input.array.dtype == bool: raise RuntimeError("The `+` operator, on a bool tensor is not supported.")
    return input


class abs_(Refusing, Elementwise):
    """Absolute value of each element, the modulus for complex elements; the gradient at 0 is 0."""
    name, operator, aliases, samples, refuses, domain = "abs", "abs", ("absolute",), UNARY, "b", (-1.5, 1.5)
    def forward(xp, input): return xp.abs(input)
    def d_input(xp, g, input): return g * xp.conj(xp.sgn(input))


class sign(Refusing, Elementwise):
    """Sign of each element: -1, 0 or 1."""
    samples, refuses = UNARY, "c"
    refusal = NotImplementedError, "sign is not for complex numbers; use sgn"
    def forward(xp, input): return xp.sign(input)
    def d_input(xp, g): return xp.zeros_like(g)


class sgn(Elementwise):
    """Each element divided by its absolute value, or 0 for 0; the sign for real elements."""
    samples = UNARY
    def forward(xp, input): return xp.sgn(input)
    def d_input(xp, g, input, out): return _turned(xp, g, input, out)
    def t_input(xp, t, input, out): return _turned(xp, t, input, xp.conj(out))


def _turned(xp, g, x, way):
    """Derivative of x / |x| (with value `way`), applied to a gradient, or to a tangent if `way` is conjugated."""
    if not is_complex(x): return xp.zeros_like(g)
    return xp.where(way == 0, 0, (g - xp.conj(way) * xp.real(way * g)) / xp.where(way == 0, 1, xp.abs(x)))


# -- powers --------------------------------------------------------------------------------------------------------------------


def held(arrays):
    """Raise RuntimeError for a Python integer that the dtype of an integer tensor cannot represent."""
    d = dtypes.FROM_NUMPY.get(getattr(arrays[0], "dtype", None))
    if arrays[1].__class__ is int and d is not None and d.rank == dtypes.INT: dtypes.fitting(arrays[1], d)


class pow_(Elementwise):
    """Elementwise `input` to the power `exponent`; either may be a scalar.

    The gradient of the base is 0 where the exponent is 0; the gradient of the exponent is 0 where the base is 0 and the exponent is not
    negative. Raises RuntimeError for an integer tensor to a negative integer scalar.
    """
    name, operator = "pow", "pow"

    @classmethod
    def prepare(cls, arrays):
        prepared = super().prepare(arrays)
        if arrays[1].__class__ is int and arrays[1] < 0 and getattr(getattr(arrays[0], "dtype", None), "kind", "") in ("b", "i", "u"):
            raise Refused("Integers to negative integer powers are not allowed.")
        held(arrays)
        return prepared

    def forward(xp, input, exponent): return xp.power(input, exponent)
    def d_input(xp, g, input, exponent): return _slope_by_base(xp, g, input, exponent)
    def d_exponent(xp, g, input, exponent, out): return g * xp.where((input == 0) & (exponent == xp.abs(exponent)), 0, out * xp.log(input))


def _slope_by_base(xp, g, x, n):
    slope = n * xp.power(x, n - 1)
    if isinstance(n, (int, float, complex, numpy.generic)): return g * slope if n != 0 else xp.zeros_like(g)
    return xp.where(n == 0, 0, g * slope)


@front("float_power", out=True)
def _float_power(input, exponent):
    """Elementwise `input` to the power `exponent`, computed in float64, or complex128 for complex operands."""
    def wide(x):
        if not isinstance(x, Tensor): return x
        return x.to(dtypes.complex128 if x.dtype.is_complex else dtypes.float64)
    base = wide(input)
    return pow_(base if isinstance(base, Tensor) else tensor(base, dtype=dtypes.complex128 if isinstance(base, complex) else dtypes.float64), wide(exponent))


def _float_power_(self: Tensor, exponent):
    """In-place form of `float_power`. Raises RuntimeError unless the tensor already has the dtype of the result."""
    complex_ = any(isinstance(x, complex) or isinstance(x, Tensor) and x.dtype.is_complex for x in (self, exponent))
    wide = dtypes.complex128 if complex_ else dtypes.float64
    if self.dtype is not wide:
        raise RuntimeError(f"the base given to float_power_ has dtype {self.dtype.name} but the operation's result requires dtype {wide.name}")
    return _replaced(self, exponent)


_replaced = replacing("float_power", _float_power)
define("float_power_", _float_power_)


class sqrt(Elementwise):
    """Square root of each element; nan for negative elements."""
    types, samples = "float", UNARY
    def forward(xp, input): return xp.sqrt(input)
    def d_input(xp, g, out): return g / (2 * out)


class rsqrt(Elementwise):
    """Reciprocal of the square root of each element."""
    types, samples = "float", UNARY
    def forward(xp, input): return 1 / xp.sqrt(input)
    def d_input(xp, g, out): return -0.5 * g * (out * out * out)


class square(Elementwise):
    """Square of each element."""
    samples = UNARY
    def forward(xp, input): return input * input
    def d_input(xp, g, input): return g * (2 * input)

    @classmethod
    def prepare(cls, arrays): return super().prepare([a.astype("int64") if a.dtype == bool else a for a in arrays])


class reciprocal(Elementwise):
    """Reciprocal of each element."""
    types, samples = "float", UNARY
    def forward(xp, input): return 1 / input
    def d_input(xp, g, out): return -g * (out * out)


class hypot(Refusing, Elementwise):
    """Elementwise `sqrt(input**2 + other**2)`, without overflow in the squares."""
    tensors = True
    refuses = "bic"
    def forward(xp, input, other): return xp.hypot(input, other)
    def d_input(xp, g, input, out): return g * (input / out)
    def d_other(xp, g, other, out): return g * (other / out)


# -- exponentials and logarithms -----------------------------------------------------------------------------------------------


class exp(Elementwise):
    """e to the power of each element."""
    types, samples = "float", UNARY
    def forward(xp, input): return xp.exp(input)
    def d_input(xp, g, out): return g * out


class exp2(Elementwise):
    """2 to the power of each element."""
    types, samples = "float", UNARY
    def forward(xp, input): return xp.exp2(input)
    def d_input(xp, g, out): return g * (out * math.log(2))


class expm1(Elementwise):
    """e to the power of each element, minus 1; accurate near 0."""
    types, samples = "float", UNARY
    def forward(xp, input): return xp.expm1(input)
    def d_input(xp, g, out): return g * (out + 1)


class log(Elementwise):
    """Natural logarithm of each element: -inf at 0, nan for negative elements."""
    types, samples = "float", UNARY
    def forward(xp, input): return xp.log(input)
    def d_input(xp, g, input): return g / input


class log2(Elementwise):
    """Logarithm to base 2 of each element."""
    types, samples = "float", UNARY
    def forward(xp, input): return xp.log2(input)
    def d_input(xp, g, input): return g / (input * math.log(2))


class log10(Elementwise):
    """Logarithm to base 10 of each element."""
    types, samples = "float", UNARY
    def forward(xp, input): return xp.log10(input)
    def d_input(xp, g, input): return g / (input * math.log(10))


class log1p(Elementwise):
    """Natural logarithm of 1 plus each element; accurate near 0."""
    types, samples = "float", UNARY
    def forward(xp, input): return xp.log1p(input)
    def d_input(xp, g, input): return g / (input + 1)


class logaddexp(Refusing, Elementwise):
    """log(exp(input) + exp(other)), without overflow."""
    tensors = True
    refuses = "bi"
    def forward(xp, input, other): return xp.logaddexp(input, other)
    def d_input(xp, g, input, other): return g / (1 + xp.exp(other - input))
    def d_other(xp, g, input, other): return g / (1 + xp.exp(input - other))


class logaddexp2(Refusing, Elementwise):
    """log2(2 ** input + 2 ** other), without overflow."""
    tensors = True
    refuses = "bic"
    def forward(xp, input, other): return xp.logaddexp2(input, other)
    def d_input(xp, g, input, other): return g / (1 + xp.exp2(other - input))
    def d_other(xp, g, input, other): return g / (1 + xp.exp2(input - other))


# -- lerp, addcmul, addcdiv ----------------------------------------------------------------------------------------------------


class lerp(Refusing, Elementwise):
    """Linear interpolation: `input + weight * (end - input)`, with a tensor or a scalar as `weight`."""
    types, refuses, formula = "same", "bi", "input + weight * (end - input)"

    @classmethod
    def _no_tensor(cls, inputs, error):
        weight = 0 if isinstance(inputs[2], (bool, int, float, complex)) else inputs[2]
        return super()._no_tensor(inputs[:2] if weight is not inputs[2] else inputs, error)

    @classmethod
    def prepare(cls, arrays):
        kind = dtypes.FROM_NUMPY[arrays[0].dtype]
        if arrays[2].__class__ is complex and kind.rank == dtypes.FLOAT: arrays = [*arrays[:2], dtypes.fitting(arrays[2], kind)]
        if getattr(arrays[2], "shape", None) == () and arrays[0].dtype == arrays[1].dtype:  # a 0-d weight may have any dtype
            d = dtypes.result(tuple(arrays)).numpy
            arrays = [devices.namespace(a).astype(a, d) for a in arrays]
        return super().prepare(arrays)

    samples = (((2, 3),) * 3, ((2, 3), (3,), (2, 1)))
    def forward(xp, input, end, weight): return xp.lerp(input, end, weight)
    def d_input(xp, g, weight): return g * (1 - weight)
    def d_end(xp, g, weight): return g * weight
    def d_weight(xp, g, input, end): return g * (end - input)


class Valued(Elementwise):
    """Base of `addcmul` and `addcdiv`, which also accept PyTorch's older order: `value` before the two factors."""

    @classmethod
    def bind(cls, args, kwargs):
        if len(args) == 4: args, kwargs = numbered(cls.name, args, kwargs, ("value",))
        inputs, attrs = super().bind(args, kwargs)
        value = attrs.get("value", 1)
        if (type(value) is not int or value != 1) and (not isinstance(value, float) or any(x.dtype.rank != dtypes.FLOAT for x in inputs)):
            kind = max(x.dtype.rank for x in inputs)
            result = functools.reduce(dtypes.promote, (x.dtype for x in inputs if x.dtype.rank == kind))
            attrs = {**attrs, "value": dtypes.fitting(value, result)}
        return inputs, attrs


class addcmul(Valued):
    """`input + value * tensor1 * tensor2`."""
    tensors = True

    @classmethod
    def prepare(cls, arrays):
        if all(a.dtype.kind == "b" for a in arrays): raise Refused("not implemented for bool", NotImplementedError)
        return super().prepare(arrays)

    inputs, samples = ("input", "tensor1", "tensor2"), (((2, 3),) * 3, ((2, 3), (3,), (2, 1)))
    def forward(xp, input, tensor1, tensor2, *, value=1): return input + value * tensor1 * tensor2
    def d_input(xp, g): return g
    def d_tensor1(xp, g, tensor2, value): return g * (tensor2 * value)
    def d_tensor2(xp, g, tensor1, value): return g * (tensor1 * value)


class addcdiv(Refusing, Valued):
    """`input + value * tensor1 / tensor2`. Raises RuntimeError for integer tensors."""
    tensors = True
    inputs, samples, refuses = ("input", "tensor1", "tensor2"), (((2, 3),) * 3, ((2, 3), (3,), (2, 1))), "bi"
    refusal = RuntimeError, "Integer division with addcdiv is not supported; divide with div() first"

    @classmethod
    def prepare(cls, arrays):
        if all(a.dtype.kind in "biu" for a in arrays[1:]): raise Refused(cls.refusal[1])
        return super().prepare(arrays)

    def forward(xp, input, tensor1, tensor2, *, value=1): return input + value * tensor1 / tensor2
    def d_input(xp, g): return g
    def d_tensor1(xp, g, tensor2, value): return g * (value / tensor2)
    def d_tensor2(xp, g, tensor1, tensor2, value): return -g * (value * tensor1 / (tensor2 * tensor2))
