"""Symbols: an op's own code runs on them and writes the body of a CUDA kernel.

A `Symbol` is one element of an array, by the name of a variable in the kernel's text. `space` is the array namespace of symbols: each
elementwise primitive adds a line to the text, `const float t3 = exp(t2);`, and returns the symbol of its result. Dtypes follow NumPy's
promotion, as on the CPU; half precision is computed in float32.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy

from ...base.dtypes import LOW
from ...base.errors import Refused
from . import plain
from .launch import TYPES as C

BOOL, FLOAT, DOUBLE = numpy.dtype(bool), numpy.dtype("float32"), numpy.dtype("float64")
PARTS = {"complex64": FLOAT, "complex128": DOUBLE}


class Unprintable(Exception):
    """The code does something that has no text for one element, such as indexing; the op runs on CuPy instead."""


class Decision(Unprintable):
    """The code depends on the value of a number: the kernel has to be printed with the number in its text."""


class Text:
    """The lines of a kernel's body. An expression that occurs twice is computed once."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._names: dict[tuple[str, numpy.dtype], str] = {}

    def put(self, expression: str, dtype: numpy.dtype) -> Symbol:
        name = self._names.get((expression, dtype))
        if name is None:
            name = self._names[expression, dtype] = f"t{len(self._names)}"
            self.lines.append(f"const {C[dtype.name]} {name} = {expression};")
        return Symbol(self, name, dtype)


class Symbol:
    """An element of an array in a kernel's text. `weak`: int or float for a parameter that does not take part in promotion."""

    __slots__ = ("dtype", "name", "text", "weak")
    __array_ufunc__ = None  # NumPy leaves operators to this class
    shape, ndim, size = ("n",), 1, 0

    def __init__(self, text: Text, name: str, dtype: Any, weak: type | None = None) -> None:
        self.text, self.name, self.dtype, self.weak = text, name, numpy.dtype(dtype), weak

    def __bool__(self) -> bool:
        raise Decision(f"depends on the value of {self.name}")

    __index__ = __int__ = __float__ = __complex__ = __bool__  # type: ignore[assignment]

    def __getitem__(self, index: Any) -> Symbol:
        if index in (Ellipsis, (Ellipsis, slice(None, 1))):
            return self
        raise Unprintable("indexes an array")

    def astype(self, dtype: Any, copy: bool = True) -> Symbol:
        return cast(self, numpy.dtype(dtype))

    def conj(self) -> Symbol:
        return space.conj(self)

    @property
    def real(self) -> Symbol:
        return space.real(self)

    @property
    def imag(self) -> Symbol:
        return space.imag(self)

    def __pos__(self) -> Symbol:
        return self

    def __neg__(self) -> Symbol:
        if self.dtype == BOOL:
            raise Unprintable("negates a bool")
        return _put(_narrow(f"-{self.name}", self.dtype), self.dtype, self)

    def __invert__(self) -> Symbol:
        _integers(self)
        return self.text.put(f"!{self.name}" if self.dtype == BOOL else _narrow(f"~{self.name}", self.dtype), self.dtype)

    def __abs__(self) -> Symbol:
        return space.abs(self)


def literal(value: Any, dtype: numpy.dtype) -> str:
    """A number as C text of a dtype."""
    name = C[dtype.name]
    if dtype.kind == "b":
        return "true" if value else "false"
    if dtype.kind in "iu":
        return f"({name}){int(value)}{'ULL' if dtype.kind == 'u' else 'LL'}" if int(value) != -(1 << 63) else "(-9223372036854775807LL - 1)"
    if dtype.kind == "c":
        part = PARTS[dtype.name]
        return f"{name}({literal(complex(value).real, part)}, {literal(complex(value).imag, part)})"
    value = float(value)
    if value != value:
        return f"({name})NAN"
    if math.isinf(value):
        return f"({name}){'-' if value < 0 else ''}INFINITY"
    return f"{float(numpy.float32(value))!r}f" if dtype == FLOAT else repr(value)


def promoted(*xs: Any) -> numpy.dtype:
    """NumPy's promotion; Python's numbers are weak, also those that are parameters of the kernel."""
    return numpy.result_type(*[x if not isinstance(x, Symbol) else x.weak(1) if x.weak else x.dtype for x in xs])


def cast(x: Symbol, dtype: numpy.dtype) -> Symbol:
    """Convert to a dtype; the real part of a complex number for a real one."""
    if x.dtype == dtype and not x.weak:
        return x
    if x.dtype.kind == "c" and dtype.kind != "c":
        return cast(space.real(x), dtype)
    if dtype in LOW:
        raise Unprintable("rounds to half precision in between")
    return x.text.put(f"{x.name} != 0" if dtype == BOOL else f"({C[dtype.name]}){x.name}", dtype)


def _as(x: Any, dtype: numpy.dtype) -> str:
    """An operand as C text of a dtype."""
    return cast(x, dtype).name if isinstance(x, Symbol) else literal(x.item() if isinstance(x, numpy.generic) else x, dtype)


def _put(expression: str, dtype: numpy.dtype, *xs: Any) -> Symbol:
    """Write an expression of operands. What is made of numbers alone is a number as well, and weak in promotion."""
    found = next(x.text for x in xs if isinstance(x, Symbol)).put(expression, dtype)
    if dtype.kind in "fi" and all(x.weak if isinstance(x, Symbol) else isinstance(x, (int, float)) for x in xs):
        found.weak = float if dtype.kind == "f" else int
    return found


def _narrow(expression: str, dtype: numpy.dtype) -> str:
    """C computes small integers as int; the result is converted back."""
    return f"({C[dtype.name]})({expression})" if dtype.kind in "iu" and dtype.itemsize < 4 else expression


def _is_real(*xs: Any) -> bool:
    return promoted(*xs).kind != "c"


# -- functions by their C names ----------------------------------------------------------------------------------------------


def _call(name: str) -> Callable:
    """A function of floating-point numbers; integers become float64, as in NumPy."""

    def call(*xs: Any) -> Symbol:
        dtype = promoted(*xs)
        if dtype.kind == "c":
            raise Unprintable(f"{name} of complex numbers")
        dtype = dtype if dtype.kind == "f" else DOUBLE
        return _put(f"{name}({', '.join(_as(x, dtype) for x in xs)})", dtype, *xs)

    return call


def _template(name: str) -> Callable:
    """A function template of `common.cuh` or a member of one, in the operands' promoted dtype."""

    def call(*xs: Any) -> Symbol:
        dtype = promoted(*xs)
        return _put(f"{name.format(C[dtype.name])}({', '.join(_as(x, dtype) for x in xs)})", dtype, *xs)

    return call


def _infix(sign: str, of_bools: str | None = None) -> Callable:
    """An operator whose result has the operands' promoted dtype. `of_bools`: the sign for bools, if they can be operands."""

    def call(x: Any, y: Any) -> Symbol:
        dtype = promoted(x, y)
        if dtype == BOOL and of_bools is None:
            raise Unprintable(f"{sign} of bools")
        own = of_bools if dtype == BOOL else sign
        return _put(_narrow(f"{_as(x, dtype)} {own} {_as(y, dtype)}", dtype), dtype, x, y)

    return call


def _comparison(sign: str, dtype: numpy.dtype | None = None) -> Callable:
    def call(x: Any, y: Any) -> Symbol:
        common = dtype or promoted(x, y)
        return _put(f"{_as(x, common)} {sign} {_as(y, common)}", BOOL, x, y)

    return call


def _test(expression: str, of_integers: str = "false", of_parts: str | None = None) -> Callable:
    """A condition on a number. `of_parts`: the sign that joins the conditions on a complex number's parts."""

    def call(x: Symbol) -> Symbol:
        if x.dtype.kind != "c":
            return x.text.put((expression if x.dtype.kind == "f" else of_integers).format(x.name), BOOL)
        if of_parts is None:
            raise Unprintable("a condition on complex numbers")
        return x.text.put(f"{expression.format(f'{x.name}.re')} {of_parts} {expression.format(f'{x.name}.im')}", BOOL)

    return call


def _rounding(name: str) -> Callable:
    return lambda x: x if x.dtype.kind in "biu" else x.text.put(f"{name}({x.name})", x.dtype)


def divide(x: Any, y: Any) -> Symbol:
    """True division: integers become float64."""
    dtype = promoted(x, y)
    dtype = dtype if dtype.kind in "fc" else DOUBLE
    return _put(f"{_as(x, dtype)} / {_as(y, dtype)}", dtype, x, y)


def power(x: Any, y: Any) -> Any:
    """`x ** y`, with the exact products and roots of the CPU's version for some exponents."""
    if isinstance(y, Symbol) and y.weak:
        raise Decision("a power")
    dtype = promoted(x, y)
    if isinstance(x, Symbol) and x.dtype == BOOL and not x.weak:
        return space.logical_or(x, space.logical_not(y) if isinstance(y, Symbol) else not y)
    if dtype.kind == "c":
        raise Unprintable("a power of complex numbers")
    if isinstance(y, (int, float)):
        if y in (2, 3):
            square = space.multiply(x, x)
            return square if y == 2 else space.multiply(square, x)
        if abs(y) == 0.5 and dtype.kind == "f":
            return space.sqrt(x) if y > 0 else 1 / space.sqrt(x)
    name = "pow" if dtype.kind == "f" else f"integer_power<{C[dtype.name]}>"
    return _put(f"{name}({_as(x, dtype)}, {_as(y, dtype)})", dtype, x, y)


def where(condition: Any, x: Any, y: Any) -> Symbol:
    dtype = promoted(x, y)
    return _put(f"{_as(condition, BOOL)} ? {_as(x, dtype)} : {_as(y, dtype)}", dtype, condition, x, y)


def absolute(x: Symbol) -> Symbol:
    if x.dtype.kind in "bu":
        return x
    if x.dtype.kind == "c":
        return x.text.put(f"magnitude({x.name})", PARTS[x.dtype.name])
    return _put(f"fabs({x.name})" if x.dtype.kind == "f" else _narrow(f"{x.name} < 0 ? -{x.name} : {x.name}", x.dtype), x.dtype, x)


def sign(x: Symbol) -> Symbol:
    if x.dtype == BOOL:
        return x
    if x.dtype.kind == "c":
        return x.text.put(f"sign({x.name})", x.dtype)
    return x.text.put(f"({C[x.dtype.name]})(({x.name} > 0) - ({x.name} < 0))", x.dtype)


def real(x: Symbol) -> Symbol:
    return x if x.dtype.kind != "c" else x.text.put(f"{x.name}.re", PARTS[x.dtype.name])


def imag(x: Symbol) -> Symbol:
    if x.dtype.kind != "c":
        raise Unprintable("the imaginary part of a real number")
    return x.text.put(f"{x.name}.im", PARTS[x.dtype.name])


def conj(x: Symbol) -> Symbol:
    return x if x.dtype.kind != "c" else x.text.put(f"conj({x.name})", x.dtype)


def from_parts(real: Symbol, imag: Symbol) -> Symbol:
    part = promoted(real, imag)
    dtype = numpy.result_type(part, numpy.complex64)
    return _put(f"{C[dtype.name]}({_as(real, part)}, {_as(imag, part)})", dtype, real, imag)


def full_like(x: Symbol, value: Any, dtype: Any = None) -> Symbol:
    own = numpy.dtype(dtype or x.dtype)
    return x.text.put(literal(value, own), own)


def clip(x: Symbol, low: Any = None, high: Any = None) -> Symbol:
    if low is None and high is None:
        raise Refused("At least one of 'min' or 'max' must not be None")
    x = x if low is None else space.maximum(x, low)
    return x if high is None else space.minimum(x, high)


def _integers(*xs: Any) -> None:
    """Raise Unprintable unless all are integers or bools."""
    if promoted(*xs).kind not in "bui":
        raise Unprintable("the bits of floats")


def _of_integers(function: Callable) -> Callable:
    def call(x: Any, y: Any) -> Symbol:
        _integers(x, y)
        return function(x, y)

    return call


def polygamma(x: Symbol, n: Any) -> Any:
    if isinstance(n, Symbol):
        raise Decision("the order of a derivative")
    return space.digamma(x) if n == 0 else (-1) ** (n + 1) * math.factorial(n) * space.zeta(n + 1.0, x)


def lgamma(x: Symbol) -> Symbol:
    """Logarithm of the absolute value of the gamma function; infinite at -inf, where C's is nan or 0."""
    return where(x == -math.inf, math.inf, _call("lgamma")(x))


def polynomial(x: Any, n: Any, family: str, order: int = 0) -> Symbol:
    raise Unprintable("a recurrence as long as the largest degree")


def ldexp(x: Symbol, y: Symbol) -> Symbol:
    if x.dtype.kind != "f":
        raise Unprintable("ldexp of integers")
    return x.text.put(f"ldexp({x.name}, (int){y.name})", x.dtype)


_SAME = "copysign cos cosh erf erfc erfcx erfinv exp exp2 expm1 hypot log log10 log1p log2 nextafter sin sinh sqrt tan tanh"
_NAMED = {
    "arccos": "acos", "arccosh": "acosh", "arcsin": "asin", "arcsinh": "asinh", "arctan": "atan", "arctan2": "atan2", "arctanh": "atanh",
    "bessel_j0": "j0", "bessel_j1": "j1", "bessel_y0": "y0", "bessel_y1": "y1", "i0": "cyl_bessel_i0", "i1": "cyl_bessel_i1",
    "ndtr": "normcdf", "ndtri": "normcdfinv",
}  # fmt: skip
_SPECIAL = "airy_ai airy_ai_slope digamma i0e i1e igamma igammac log_ndtr modified_bessel_k0 modified_bessel_k1 "
_SPECIAL += "scaled_modified_bessel_k0 scaled_modified_bessel_k1 zeta"
_TEMPLATES = {
    "floor_divide": "Division<{}>::floored", "fmod": "Division<{}>::c_remainder", "remainder": "Division<{}>::remainder",
    "trunc_divide": "Division<{}>::truncated",
    "maximum": "largest<{}>", "minimum": "smallest<{}>", "fmax": "larger<{}>", "fmin": "smaller<{}>",
}  # fmt: skip
_BITS = {"gcd": "gcd<{}>", "lcm": "lcm<{}>", "left_shift": "shift_left<{}>", "right_shift": "shift_right<{}>"}

space = SimpleNamespace(
    pi=math.pi, inf=math.inf, nan=math.nan,
    abs=absolute, sign=sign, sgn=sign, real=real, imag=imag, conj=conj, from_parts=from_parts, clip=clip, where=where,
    add=_infix("+", "||"), subtract=_infix("-"), multiply=_infix("*", "&&"), divide=divide, power=power, square=lambda x: x * x,
    bitwise_and=_of_integers(_infix("&", "&&")), bitwise_or=_of_integers(_infix("|", "||")),
    bitwise_xor=_of_integers(_infix("^", "!=")), invert=lambda x: ~x, ldexp=ldexp,
    less=_comparison("<"), less_equal=_comparison("<="), greater=_comparison(">"), greater_equal=_comparison(">="),
    equal=_comparison("=="), not_equal=_comparison("!="), logical_and=_comparison("&&", BOOL), logical_or=_comparison("||", BOOL),
    logical_xor=_comparison("!=", BOOL), logical_not=lambda x: x.text.put(f"!{_as(x, BOOL)}", BOOL),
    isnan=_test("isnan({})", of_parts="||"), isinf=_test("isinf({})", of_parts="||"), isfinite=_test("isfinite({})", "true", "&&"),
    isposinf=_test("{} == INFINITY"), isneginf=_test("{} == -INFINITY"), signbit=_test("signbit({})", "{} < 0"),
    isreal=lambda x: x.text.put("true" if x.dtype.kind != "c" else f"{x.name}.im == 0", BOOL),
    floor=_rounding("floor"), ceil=_rounding("ceil"), trunc=_rounding("trunc"), rint=_rounding("rint"),
    polygamma=polygamma, lgamma=lgamma, polynomial=polynomial,
    astype=lambda x, dtype: cast(x, numpy.dtype(dtype)), copy=lambda x: x, ascontiguousarray=lambda x: x, asarray=lambda x, dtype=None: x,
    full_like=full_like, zeros_like=lambda x, dtype=None: full_like(x, 0, dtype), ones_like=lambda x, dtype=None: full_like(x, 1, dtype),
    broadcast_to=lambda x, shape: x, spread_to=lambda x, shape: x,
    **{name: _call(name) for name in _SAME.split()},
    **{name: _call(c) for name, c in _NAMED.items()},
    **{name: _call(f"special::{name}") for name in _SPECIAL.split()},
    **{name: _template(c) for name, c in _TEMPLATES.items()},
    **{name: _of_integers(_template(c)) for name, c in _BITS.items()},
)  # fmt: skip
vars(space).update(plain.bound(space))


def _operator(name: str, function: Callable, reflected: bool = True) -> None:
    setattr(Symbol, f"__{name}__", lambda x, y: function(x, y))
    if reflected:
        setattr(Symbol, f"__r{name}__", lambda x, y: function(y, x))


for _name, _primitive in {"add": "add", "sub": "subtract", "mul": "multiply", "truediv": "divide", "pow": "power", "and": "bitwise_and",
                          "or": "bitwise_or", "xor": "bitwise_xor", "floordiv": "floor_divide", "mod": "remainder"}.items():  # fmt: skip
    _operator(_name, getattr(space, _primitive))
_COMPARISONS = {"lt": "less", "le": "less_equal", "gt": "greater", "ge": "greater_equal", "eq": "equal", "ne": "not_equal"}
for _name, _primitive in _COMPARISONS.items():
    _operator(_name, getattr(space, _primitive), reflected=False)
Symbol.__hash__ = object.__hash__  # type: ignore[method-assign]  `__eq__` is an operator here
