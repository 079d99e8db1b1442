"""Circular and hyperbolic functions, and the parts of complex numbers."""

import math

from ..core.op import Elementwise, Linear, Op, composite
from ..core.tensor import Tensor, define
from .cast import complex_
from .front import Refusing, front, must_be_tensor
from .math import UNARY, is_complex

INSIDE = (-0.9, 0.9)  # the domain of the inverse functions


class sin(Elementwise):
    """Sine of each element, in radians."""
    types, samples = "float", UNARY
    def forward(xp, input): return xp.sin(input)
    def d_input(xp, g, input): return g * xp.cos(input)


class cos(Elementwise):
    """Cosine of each element, in radians."""
    types, samples = "float", UNARY
    def forward(xp, input): return xp.cos(input)
    def d_input(xp, g, input): return -g * xp.sin(input)


class tan(Elementwise):
    """Tangent of each element, in radians."""
    types, samples = "float", UNARY
    def forward(xp, input): return xp.tan(input)
    def d_input(xp, g, out): return g * (1 + out * out)


class asin(Elementwise):
    """Inverse sine of each element, in radians; nan outside [-1, 1]."""
    aliases, types, samples, domain = ("arcsin",), "float", UNARY, INSIDE
    def forward(xp, input): return xp.arcsin(input)
    def d_input(xp, g, input): return g / xp.sqrt(1 - input * input)


class acos(Elementwise):
    """Inverse cosine of each element, in radians; nan outside [-1, 1]."""
    aliases, types, samples, domain = ("arccos",), "float", UNARY, INSIDE
    def forward(xp, input): return xp.arccos(input)
    def d_input(xp, g, input): return -g / xp.sqrt(1 - input * input)


class atan(Elementwise):
    """Inverse tangent of each element, in radians."""
    aliases, types, samples = ("arctan",), "float", UNARY
    def forward(xp, input): return xp.arctan(input)
    def d_input(xp, g, input): return g / (1 + input * input)


class atan2(Refusing, Elementwise):
    """Angle of the point (`other`, `input`) in radians; at the origin the gradient is 0 and a tangent nan."""
    tensors = True
    aliases, types, refuses = ("arctan2",), "float", "c"
    def forward(xp, input, other): return xp.arctan2(input, other)
    def d_input(xp, g, input, other): return g * (other / _square_of_radius(xp, input, other))
    def d_other(xp, g, input, other): return g * (-input / _square_of_radius(xp, input, other))
    def t_input(xp, t, input, other): return t * (other / (input * input + other * other))
    def t_other(xp, t, input, other): return t * (-input / (input * input + other * other))


def _square_of_radius(xp, y, x):
    square = y * y + x * x
    return xp.where(square == 0, 1, square)


class sinh(Elementwise):
    """Hyperbolic sine of each element."""
    types, samples = "float", UNARY
    def forward(xp, input): return xp.sinh(input)
    def d_input(xp, g, input): return g * xp.cosh(input)


class cosh(Elementwise):
    """Hyperbolic cosine of each element."""
    types, samples = "float", UNARY
    def forward(xp, input): return xp.cosh(input)
    def d_input(xp, g, input): return g * xp.sinh(input)


class tanh(Elementwise):
    """Hyperbolic tangent of each element."""
    types, samples = "float", UNARY
    def forward(xp, input): return xp.tanh(input)
    def d_input(xp, g, out): return g * (1 - out * out)


class asinh(Elementwise):
    """Inverse hyperbolic sine of each element."""
    aliases, types, samples = ("arcsinh",), "float", UNARY
    def forward(xp, input): return xp.arcsinh(input)
    def d_input(xp, g, input): return g / xp.sqrt(input * input + 1)


class acosh(Elementwise):
    """Inverse hyperbolic cosine of each element; nan below 1."""
    aliases, types, samples, domain = ("arccosh",), "float", UNARY, (1.5, 2.5)
    def forward(xp, input): return xp.arccosh(input)
    def d_input(xp, g, input): return g / (xp.sqrt(input - 1) * xp.sqrt(input + 1) if is_complex(input) else xp.sqrt(input * input - 1))


class atanh(Elementwise):
    """Inverse hyperbolic tangent of each element; infinite at -1 and 1, nan outside."""
    aliases, types, samples, domain = ("arctanh",), "float", UNARY, INSIDE
    def forward(xp, input): return xp.arctanh(input)
    def d_input(xp, g, input): return g / (1 - input * input)


class sinc(Elementwise):
    """sin(pi x) / (pi x) of each element x, and 1 at 0."""
    types, samples = "float", UNARY
    def forward(xp, input): return xp.sinc(input)
    def d_input(xp, g, input): return xp.where(input == 0, 0, g * (xp.cos(math.pi * input) - xp.sinc(input)) / input)


class deg2rad(Refusing, Elementwise):
    """Convert degrees to radians."""
    types, samples, refuses, refusal = "float", UNARY, "c", (RuntimeError, "not supported for {}")
    def forward(xp, input): return input * (math.pi / 180)
    def d_input(xp, g): return g * (math.pi / 180)


class rad2deg(Refusing, Elementwise):
    """Convert radians to degrees."""
    types, samples, refuses, refusal = "float", UNARY, "c", (RuntimeError, "not supported for {}")
    def forward(xp, input): return input * (180 / math.pi)
    def d_input(xp, g): return g * (180 / math.pi)


# -- complex numbers: rules transpose without conjugating; the executor conjugates gradients of complex tensors ------------------


COMPLEX = ((((2, 3),), {}), (((),), {}), (([[1 + 2j, -1j], [3.0, 0.5 - 1j]],), {}))


class real(Linear):
    """Real part of a complex tensor; a view."""
    view, method, examples = True, False, COMPLEX
    def forward(xp, input): return xp.real(input)
    def d_input(xp, g): return g


class imag(Linear):
    """Imaginary part of a complex tensor; a view. Raises RuntimeError for a real tensor."""
    view, method, examples = True, False, ((([[1 + 2j, -1j], [3.0, 0.5 - 1j]],), {}),)
    def forward(xp, input): return xp.imag(input)
    def d_input(xp, g): return xp.times_i(-g)


@front("real", method=False)
def _real(input):
    """Real part of a complex tensor, as a view; a real tensor itself."""
    must_be_tensor("real", "input", input)
    return real(input) if input.is_complex() else input


define("real", property(_real, lambda self, value: _real(self).__setitem__(..., value), doc=real.__doc__))
define("imag", property(imag.call, lambda self, value: imag.call(self).__setitem__(..., value), doc=imag.__doc__))


class conj(Linear):
    """Complex conjugate of each element."""
    examples = COMPLEX
    def forward(xp, input): return xp.copy(xp.conj(input))
    def d_input(xp, g): return xp.conj(g)


@front("conj")
def _conj(input):
    """Complex conjugate of each element; a real tensor itself."""
    return conj(input) if input.is_complex() else input


@composite(method=True)
def conj_physical(input):
    """Complex conjugate of each element; a real tensor itself."""
    return _conj(input)


class angle(Op):
    """Angle of each complex element in radians; for real elements, pi if negative, else 0."""
    types, examples = "float", COMPLEX
    laid = staticmethod(lambda out, input: out.copy() if input.dtype.kind == "c" else out)  # complex inputs give row-major results
    def forward(xp, input): return xp.angle(input)
    def d_input(xp, g, input): return xp.where(input == 0, 0, g * (-1j / xp.where(input == 0, 1, input))) if is_complex(input) else xp.zeros_like(input)


@composite(method=False)
def polar(abs, angle):
    """Complex numbers from absolute values and angles, two float tensors of one dtype."""
    for name, x in (("abs", abs), ("angle", angle)): must_be_tensor("polar", name, x)
    if not (abs.is_floating_point() and angle.is_floating_point()):
        raise RuntimeError(f"Expected both inputs to be Half, Float or Double tensors but got {abs.dtype.name} and {angle.dtype.name}")
    if abs.dtype is not angle.dtype:
        raise RuntimeError(f"Expected object of scalar type {abs.dtype.name} but got scalar type {angle.dtype.name} for second argument")
    return complex_(abs * cos(angle), abs * sin(angle))


@composite(method=True)
def resolve_conj(input):
    """Return the tensor itself: conjugation is never lazy."""
    return input


@composite(method=True)
def is_conj(input: Tensor) -> bool:
    """Return False: conjugation is never lazy."""
    return False
