"""Activation functions; those that PyTorch has only in `nn.functional` are only there."""

from __future__ import annotations

import math
from inspect import Parameter, Signature

import numpy

from ..base.errors import Refused, warn
from ..core import devices
from ..core.arguments import parsed
from ..core.inplace import write
from ..core.op import RULES_ONLY, Elementwise, Op, composite, functions
from ..core.tensor import Tensor
from .front import Along, Refusing, front, real_gradient, refuse_whole_numbers
from .math import UNARY

F = "nn.functional"


class Activation(Refusing, Elementwise):
    """Base of the elementwise activations of floats; tests draw inputs on both sides of 0."""

    inputs, refuses, samples, domain, method, inplace, home = ("input",), "bic", UNARY, (-1.5, 1.5), False, False, F


def real(*numbers):
    """Return the first number as a real one. Raises RuntimeError for a number with an imaginary part, TypeError for a sequence."""
    for number in numbers:
        if isinstance(number, (tuple, list)): raise Refused(f"argument must be Number, not {type(number).__name__}", TypeError)
        if number.__class__ is complex and number.imag: raise Refused("value cannot be converted to type double without overflow")
    return numbers[0].real if numbers[0].__class__ is complex else numbers[0]


class Bounded(Activation):
    """Base of the activations with bounds, which PyTorch also defines for integers; bools raise RuntimeError."""

    refuses = "bc"

    @classmethod
    def prepare(cls, arrays):
        if getattr(arrays[0], "dtype", None) == numpy.bool_: raise Refused(f"Boolean inputs not supported for {cls.name}")
        return super().prepare(arrays)


class relu(Bounded):
    """max(x, 0) of each element x; the gradient at 0 is 0, and nan is kept."""
    home, method, inplace, formula = "engine", True, True, "max(input, 0)"
    def forward(xp, input): return xp.relu(input)
    def d_input(xp, g, out): return xp.where(out <= 0, 0, g)


class leaky_relu(Activation):
    """x where it is positive, else `negative_slope * x`."""
    def forward(xp, input, negative_slope: complex = 0.01): return xp.where(input > 0, input, input * real(negative_slope))
    def d_input(xp, g, input, negative_slope): return xp.where(input > 0, g, g * real(negative_slope))


class threshold(Activation):
    """x where it is greater than `threshold`, else `value`."""
    home, inputs, refuses = "engine", ("input",), "bc"
    formula = "input if input > threshold else value"
    examples = (((2, 3),), {"threshold": 0.1, "value": 20.0}), (((),), {"threshold": -0.5, "value": -1.0})
    def forward(xp, input, threshold: complex, value: complex): return xp.threshold(input, threshold, value)
    def d_input(xp, g, input, threshold): return xp.where(input <= threshold, 0, g)


class elu(Activation):
    """x where it is positive, else `alpha * (exp(x) - 1)`."""
    def forward(xp, input, alpha: complex = 1.0): return xp.where(input < 0, real(alpha) * xp.expm1(xp.clip(input, None, 0)), input)
    def d_input(xp, g, input, alpha): return xp.where(input <= 0, g * (real(alpha) * xp.exp(xp.where(input < 0, input, 0))), g)


class celu(Activation):
    """x where it is positive, else `alpha * (exp(x / alpha) - 1)`."""
    home, inplace = "engine", True
    def forward(xp, input, alpha: complex = 1.0):
        alpha = real(alpha)
        if alpha == 0: raise Refused("ZeroDivisionError: alpha cannot be 0 for CELU")
        return xp.where(input < 0, alpha * xp.expm1(xp.clip(input, None, 0) / alpha), input)
    def d_input(xp, g, input, alpha): return xp.where(input <= 0, g * xp.exp(xp.where(input < 0, input, 0) / real(alpha)), g)


class selu(Activation):
    """`scale * elu(x, alpha)` with the constants that keep normalized activations normalized (Klambauer et al., 2017)."""
    home, inplace = "engine", True
    def forward(xp, input): return _SCALE * xp.where(input < 0, _ALPHA * xp.expm1(xp.clip(input, None, 0)), input)
    def d_input(xp, g, input): return xp.where(input <= 0, g * (_SCALE * _ALPHA * xp.exp(xp.where(input < 0, input, 0))), g * _SCALE)


_ALPHA, _SCALE = 1.6732632423543772848170429916717, 1.0507009873554804934193349852946


class gelu(Activation):
    """x times the standard normal distribution function at x; `approximate="tanh"` replaces it by a tanh formula."""
    formula = "input * normal_cdf(input)"
    def forward(xp, input, approximate: str = "none"): return xp.gelu(input, approximate)
    def d_input(xp, g, input, approximate): return g * xp.gelu_slope(input, approximate)


class gelu_slope(Activation):
    """The derivative of gelu."""
    exempt = RULES_ONLY
    home, formula = "", "normal_cdf(input) + input * normal_density(input)"
    def forward(xp, input, approximate="none"): return xp.gelu_slope(input, approximate)
    def d_input(xp, g, input, approximate): return g * (_gelu_curve if approximate == "none" else _gelu_tanh_curve)(xp, input)


def _gelu_curve(xp, x): return (2 - x * x) * xp.exp(-0.5 * (x * x)) / math.sqrt(2 * math.pi)


def _gelu_tanh_curve(xp, x):
    """Second derivative of 0.5 x (1 + tanh(u)) with u = c (x + k x^3)."""
    c, k = math.sqrt(2 / math.pi), 0.044715
    t, du, ddu = xp.tanh(c * (x + k * (x * x * x))), c * (1 + 3 * k * (x * x)), 6 * c * k * x
    return (1 - t * t) * (du + 0.5 * x * (ddu - 2 * t * (du * du)))


class silu(Activation):
    """x * sigmoid(x)."""
    formula, refuses = "input / (1 + exp(-input))", "bi"
    def forward(xp, input): return xp.silu(input)
    def d_input(xp, g, input): return _silu_slope(xp, g, input, xp.sigmoid(input))


def _silu_slope(xp, g, x, s): return g * (s * (1 + x * (1 - s)))


class mish(Activation):
    """x * tanh(softplus(x))."""
    def forward(xp, input): return input * xp.tanh(xp.softplus(input))
    def d_input(xp, g, input): return _mish_slope(xp, g, input, xp.tanh(xp.softplus(input)))


def _mish_slope(xp, g, x, t): return g * (t + x * (1 - t * t) * xp.sigmoid(x))


class hardtanh(Bounded):
    """x clipped to [`min_val`, `max_val`]; the gradient is 0 at and beyond both bounds."""
    formula = "min(max(input, min_val), max_val)"
    def forward(xp, input, min_val: complex = -1.0, max_val: complex = 1.0):
        if min_val > max_val: raise Refused("min_val cannot be greater than max_val", ValueError)
        return xp.hardtanh(input, min_val, max_val)
    def d_input(xp, g, input, min_val, max_val): return xp.where((input <= min_val) | (input >= max_val), 0, g)


class relu6(Bounded):
    """x clipped to [0, 6]."""
    def forward(xp, input): return xp.clip(input, 0, 6)
    def d_input(xp, g, input): return xp.where((input <= 0) | (input >= 6), 0, g)


class hardsigmoid(Activation):
    """x / 6 + 1 / 2, clipped to [0, 1]."""
    exempt = {"specials": "PyTorch rounds its slope 1 / 6 to float32, in float64 too."}
    def forward(xp, input): return xp.clip(input + 3, 0, 6) / 6
    def d_input(xp, g, input): return xp.where((input > -3) & (input < 3), g / 6, 0)


class hardswish(Activation):
    """x * hardsigmoid(x)."""
    def forward(xp, input): return input * xp.clip(input + 3, 0, 6) / 6
    def d_input(xp, g, input): return xp.where(input <= -3, 0, xp.where(input < 3, g * (input / 3 + 0.5), g))


class softplus(Activation):
    """log(1 + exp(beta x)) / beta, or x where beta x is greater than `threshold`."""
    def forward(xp, input, beta: complex = 1.0, threshold: complex = 20.0):
        real(beta, threshold)
        return xp.softplus(input, beta, threshold)
    def d_input(xp, g, input, beta, threshold): return xp.where(input * beta > threshold, g, g * xp.sigmoid(input * beta))


class softsign(Activation):
    """x / (1 + |x|)."""
    types, refuses = "float", ""
    def forward(xp, input): return input / (1 + xp.abs(input))
    def d_input(xp, g, input): return _softsign_slope(xp, g, input, xp.abs(input))
    def t_input(xp, t, input): return _softsign_slope(xp, t, xp.conj(input), xp.abs(input))


def _softsign_slope(xp, g, x, size):
    """g / (1 + |x|)^2 for real x; for complex x, the components of g along and across x scale differently."""
    return (g + (size * g - xp.conj(xp.sgn(x)) * xp.real(x * g))) / xp.square(1 + size)


class logsigmoid(Activation):
    """log(1 / (1 + exp(-x))), without overflow."""
    formula, row_major, laid = "-log(1 + exp(-input))", True, None
    def forward(xp, input): return xp.log_sigmoid(input)
    def d_input(xp, g, input): return g * xp.sigmoid(-input)


class tanhshrink(Activation):
    """x - tanh(x)."""
    types, refuses, refusal = "float", "b", (RuntimeError, "Subtraction, the `-` operator, with a {} tensor is not supported")
    def forward(xp, input): return input - xp.tanh(input)
    def d_input(xp, g, input): return g * xp.square(xp.tanh(input))


class softshrink(Activation):
    """x moved towards 0 by `lambd`, and 0 where |x| is at most `lambd`; nan is kept."""
    def forward(xp, input, lambd: complex = 0.5):
        real(lambd)
        if lambd < 0: raise Refused(f"lambda must be in range [0, the largest number of the input dtype], found {lambd}")
        return xp.where(xp.abs(input) <= lambd, 0, input - lambd * xp.sign(input))
    def d_input(xp, g, input, lambd): return xp.where(xp.abs(input) <= lambd, 0, g)


class hardshrink(Activation):
    """x where |x| is greater than `lambd`, else 0; nan is kept."""
    home, method = "engine", True
    def forward(xp, input, lambd: complex = 0.5):
        real(lambd)
        return xp.where(xp.abs(input) <= lambd, 0, input)
    def d_input(xp, g, input, lambd): return xp.where(xp.abs(input) <= lambd, 0, g)


class prelu_kernel(Refusing, Elementwise):
    """x where it is positive, else `weight * x`."""
    exempt = RULES_ONLY
    home, refuses, domain = "", "bic", (-1.5, 1.5)
    def forward(xp, input, weight): return xp.where(input > 0, input, weight * input)
    def d_input(xp, g, input, weight): return xp.where(input > 0, g, weight * g)
    def d_weight(xp, g, input): return xp.where(input >= 0, 0, input * g)
    def t_input(xp, t, input, weight): return xp.where(input >= 0, t, weight * t)


@composite(method=True)
@parsed
def prelu(input: Tensor, weight: Tensor) -> Tensor:
    """x where it is positive, else `weight * x`; `weight` has one element, or one for each channel (dimension 1)."""
    if input.dtype != weight.dtype: raise RuntimeError(f"prelu: Type promoting not supported. Got {input.dtype.name} and {weight.dtype.name}")
    if weight.ndim > 1: raise RuntimeError(f"prelu: Expected `weight` to be a scalar or 1D tensor, but got: ndim = {weight.ndim}")
    channels = input.shape[1] if input.ndim > 1 else 1
    if weight.numel() not in (1, channels):
        raise RuntimeError(f"prelu: Mismatch of parameter numbers and input channel size. Found parameter numbers = {weight.numel()} and channel size = {channels}.")
    if weight.numel() > 1: weight = weight.reshape((channels,) + (1,) * (input.ndim - 2))
    return prelu_kernel.call(input, weight.reshape(()) if weight.numel() == 1 else weight)


@composite(home=F)
@parsed
def glu(input, dim: int = -1) -> Tensor:
    """First half of the input along `dim` times the sigmoid of the second half."""
    if not input.ndim: raise RuntimeError("glu does not support scalars because halving size must be even")
    size = input.size(dim)
    if size % 2: raise RuntimeError(f"glu: Halving dimension must be even, but dimension {dim % input.ndim} is size {size}")
    refuse_whole_numbers("glu", input)
    lead = (slice(None),) * (dim % input.ndim)
    return input[(*lead, slice(None, size // 2))] * input[(*lead, slice(size // 2, None))].sigmoid()


# -- along one dimension -------------------------------------------------------------------------------------------------------


class Shares(Along, Refusing, Op):
    """Base of softmax and log_softmax."""

    types, inputs, refuses, one = "promote", ("input",), "bic", True

    @classmethod
    def prepare(cls, arrays):
        return super().prepare(arrays) if math.prod(arrays[0].shape) else (arrays, devices.common(arrays, cls.name))  # PyTorch accepts any dtype for an empty tensor


class softmax(Shares):
    """exp(x) / sum(exp(x)) along `dim`; `dtype` casts first."""
    formula = "exp(input) / sum(exp(input))"
    examples = ((((2, 3),), {"dim": -1}), (((2, 3, 4),), {"dim": 1}), (((),), {"dim": 0}))
    def forward(xp, input, dim: int, dtype=None):
        if dtype is not None: raise Refused("argument 'dtype' must be torch.dtype", TypeError)  # `bind` has already applied a valid dtype
        return xp.softmax(input, dim)
    def d_input(xp, g, out, dim): return out * (g - xp.sum(g * out, axis=dim, keepdims=True))
    def t_input(xp, t, out, dim): return out * (t - xp.sum(t * out, axis=dim, keepdims=True) / xp.sum(out, axis=dim, keepdims=True))


class log_softmax(Shares):
    """Logarithm of softmax along `dim`, accurate where softmax is tiny; `dtype` casts first."""
    formula = "input - log(sum(exp(input)))"
    examples = ((((2, 3),), {"dim": -1}), (((2, 3, 4),), {"dim": 1}), (((),), {"dim": 0}))
    def forward(xp, input, dim: int, dtype=None):
        if dtype is not None: raise Refused("argument 'dtype' must be torch.dtype", TypeError)  # `bind` has already applied a valid dtype
        return xp.log_softmax(input, dim)
    def d_input(xp, g, out, dim): return g - xp.exp(out) * xp.sum(g, axis=dim, keepdims=True)
    def t_input(xp, t, out, dim): return t - xp.sum(t * xp.exp(out), axis=dim, keepdims=True) / xp.sum(xp.exp(out), axis=dim, keepdims=True)


def _functional(name, op, sign=1):
    def call(input, dim=None, _stacklevel=3, dtype=None):
        if dim is None:
            warn(f"Implicit dimension choice for {name} has been deprecated. Change the call to include dim=X as an argument.")
            dim = 0 if input.ndim in (0, 1, 3) else 1  # the dimension that PyTorch assumes
        along = getattr(input if sign > 0 else -input, op.name)
        return along(dim) if dtype is None else along(dim, dtype)  # the call path is short for integers alone
    call.__doc__ = op.__doc__ if sign > 0 else "softmax of -x along `dim`."
    return call


front("softmax", home=F, method=False)(_functional("softmax", softmax))
front("log_softmax", home=F, method=False)(_functional("log_softmax", log_softmax))
def _special(op):
    def call(input, dim, dtype=None): return op.call(input, dim, dtype)  # without `out`
    call.__doc__ = op.__doc__
    return front(op.name, home="special", method=False)(call)


_special(softmax)
_special(log_softmax)
front("softmin", home=F, method=False)(_functional("softmin", softmax, -1))


# -- forms with `inplace=` -----------------------------------------------------------------------------------------------------


def _with_inplace(op):
    """Return the `nn.functional` form of an activation; its last argument, `inplace=True`, overwrites the input and returns it."""
    most = len(op.params)
    def call(input, *args, **kwargs):
        inplace = kwargs.pop("inplace", False)
        if len(args) >= most: *args, inplace = args
        if not inplace: return op.call(input, *args, **kwargs)
        (input,), attrs = op.bind((input, *args), kwargs)
        return write(op, input, (), attrs)
    call.__doc__ = f"{op.__doc__} `inplace=True` writes over the input."
    parameters = [p.replace(kind=p.POSITIONAL_OR_KEYWORD) for p in op.signature.parameters.values()]
    call.__signature__ = Signature([*parameters, Parameter("inplace", Parameter.POSITIONAL_OR_KEYWORD, default=False)])
    return call


for _op in (relu, leaky_relu, threshold, elu, celu, selu, silu, mish, hardtanh, relu6, hardsigmoid, hardswish):
    front(_op.name, home=F, method=False)(_with_inplace(_op))
front("silu", home=F, method=False)(real_gradient(functions[f"{F}.silu"]))
