"""Symbols, the stand-ins for arrays on which an op's own code runs to write its formula as a MathML tree."""

from __future__ import annotations

import math
from typing import Any

import numpy

from ..protocol import Formula

# Operator precedence: a tree of lower precedence inside one of higher precedence gets parentheses.
LOGIC, COMPARE, SUM, PRODUCT, PREFIX, POWER, ATOM = range(7)


class Untypesettable(Exception):
    """Raised when code needs something that a symbol lacks; the caller falls back to function notation."""


def _infix(sign: str, binds: int, right: int) -> Any:
    """A method for a binary operator written between its operands."""
    return lambda self, other: binary(sign, self, other, binds, right)


class Symbol:
    """A part of a formula: its tree, its precedence, and the shape of the array that it represents (None if unknown)."""

    __array_ufunc__ = None
    __hash__ = object.__hash__

    def __init__(self, tree: Formula, binds: int = ATOM, shape: tuple | None = (), key: Any = None, dtype: Any = None) -> None:
        self.tree, self.binds, self._shape = tree, binds, shape
        self.key = key if key is not None else repr(tree)  # symbols with equal keys represent the same array
        self._dtype = dtype

    @property
    def shape(self) -> tuple:
        if self._shape is None:
            raise Untypesettable("a shape that is not known")
        return self._shape

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def dtype(self) -> Any:
        return numpy.dtype(numpy.float32) if self._dtype is None else self._dtype

    @property
    def T(self) -> Symbol:
        return transposed(self)

    @property
    def real(self) -> Symbol:
        return call("Re", self)

    def within(self, binds: int) -> Formula:
        """The tree, in parentheses if its precedence is lower than `binds`."""
        return self.tree if self.binds >= binds else parenthesised(self.tree)

    def __add__(self, other: Any) -> Symbol:
        return binary("+", self, other, SUM, SUM)

    def __radd__(self, other: Any) -> Symbol:
        return symbol(other) + self

    def __sub__(self, other: Any) -> Symbol:
        return binary("−", self, other, SUM, PRODUCT)

    def __rsub__(self, other: Any) -> Symbol:
        return symbol(other) - self

    def __neg__(self) -> Symbol:
        return Symbol(["mrow", ["mo", "−"], self.within(PREFIX)], SUM, self._shape)

    def __pos__(self) -> Symbol:
        return self

    def __invert__(self) -> Symbol:
        return Symbol(["mrow", ["mo", "¬"], self.within(ATOM)], PREFIX, self._shape)

    def __mul__(self, other: Any) -> Symbol:
        other = symbol(other)
        if other.key == self.key and self.binds == ATOM:
            return self**2
        if other.tree == ["mn", "1"]:
            return self
        if self.tree == ["mn", "1"]:
            return other
        scalar = self._shape == () or other._shape == ()
        return binary("·" if scalar else "⊙", self, other, PRODUCT, PREFIX)

    def __rmul__(self, other: Any) -> Symbol:
        return symbol(other) * self

    def __truediv__(self, other: Any) -> Symbol:
        other = symbol(other)
        return Symbol(["mfrac", self.tree, other.tree], ATOM, broadcast(self, other))

    def __rtruediv__(self, other: Any) -> Symbol:
        return symbol(other) / self

    def __floordiv__(self, other: Any) -> Symbol:
        inner = self / other
        return Symbol(["mrow", ["mo", "⌊"], inner.tree, ["mo", "⌋"]], ATOM, inner._shape)

    def __mod__(self, other: Any) -> Symbol:
        return binary("mod", self, other, PRODUCT, PREFIX)

    def __pow__(self, other: Any) -> Symbol:
        other = symbol(other)
        return Symbol(["msup", self.within(ATOM), other.tree], POWER, broadcast(self, other))

    def __rpow__(self, other: Any) -> Symbol:
        return symbol(other) ** self

    def __matmul__(self, other: Any) -> Symbol:
        return product(self, other)

    def __rmatmul__(self, other: Any) -> Symbol:
        return product(other, self)

    __lt__ = _infix("<", COMPARE, SUM)
    __le__ = _infix("≤", COMPARE, SUM)
    __gt__ = _infix(">", COMPARE, SUM)
    __ge__ = _infix("≥", COMPARE, SUM)
    __eq__ = _infix("=", COMPARE, SUM)
    __ne__ = _infix("≠", COMPARE, SUM)
    __and__ = _infix("∧", LOGIC, COMPARE)
    __or__ = _infix("∨", LOGIC, COMPARE)
    __xor__ = _infix("⊻", LOGIC, COMPARE)

    def __abs__(self) -> Symbol:
        return magnitude(self)

    def __getitem__(self, index: Any) -> Symbol:
        return Symbol(["msub", self.within(ATOM), ["mrow", ["mo", "["], index_tree(index), ["mo", "]"]]], ATOM, None)

    def __bool__(self) -> bool:
        raise Untypesettable("a decision on a value")

    __iter__ = None  # type: ignore[assignment]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *args, **kwargs: call(name, self, *args, **kwargs)


def symbol(x: Any) -> Symbol:
    """Return `x` if it is a symbol, else the symbol for a number, string, tuple or other Python value."""
    if isinstance(x, Symbol):
        return x
    if isinstance(x, (bool, numpy.bool_)):
        return Symbol(["mi", str(x)])
    if isinstance(x, (int, float, numpy.number)) or isinstance(x, numpy.ndarray) and x.ndim == 0:
        return number(float(x) if not isinstance(x, (int, numpy.integer)) else int(x))
    if isinstance(x, complex):
        return Symbol(["mi", "i"]) if x == 1j else Symbol(["mtext", f"{x:.4g}"])
    if x is None:
        return Symbol(["mi", "∅"])
    if isinstance(x, str):
        return Symbol(["mtext", x])
    if isinstance(x, (tuple, list)):
        parts: Formula = ["mrow", ["mo", "("]]
        for i, part in enumerate(x):
            parts += [["mo", ","]] * (i > 0) + [symbol(part).tree]
        return Symbol([*parts, ["mo", ")"]], ATOM, None)
    return Symbol(["mtext", getattr(x, "__name__", None) or getattr(x, "name", None) or type(x).__name__], ATOM, None)


_PI: Formula = ["mi", "π"]
_NAMED: dict[float, Formula] = {
    math.pi: _PI,
    math.e: ["mi", "e"],
    math.inf: ["mi", "∞"],
    math.sqrt(2): ["msqrt", ["mn", "2"]],
    2 / math.sqrt(math.pi): ["mfrac", ["mn", "2"], ["msqrt", _PI]],
    math.sqrt(2 / math.pi): ["msqrt", ["mfrac", ["mn", "2"], _PI]],
    math.sqrt(2 * math.pi): ["msqrt", ["mrow", ["mn", "2"], _PI]],
    math.log(2): ["mrow", ["mi", "ln"], ["mspace"], ["mn", "2"]],
    math.log(10): ["mrow", ["mi", "ln"], ["mspace"], ["mn", "10"]],
}


def number(x: float | int) -> Symbol:
    """A number with at most four significant digits."""
    if x != x:
        return Symbol(["mi", "NaN"])
    if x < 0:
        return Symbol(["mrow", ["mo", "−"], number(-x).tree], SUM)
    if x in _NAMED and x != 1:
        return Symbol(_NAMED[x])
    text = str(x) if isinstance(x, int) and abs(x) < 10**6 else f"{x:.4g}"
    if "e" in text:
        digits, power = text.split("e")
        ten: Formula = ["msup", ["mn", "10"], ["mn", str(int(power)).replace("-", "−")]]
        return Symbol(ten if digits == "1" else ["mrow", ["mn", digits], ["mo", "·"], ten], POWER if digits == "1" else PRODUCT)
    return Symbol(["mn", text])


def values(array: numpy.ndarray) -> Symbol:
    """The elements of a small array: a number for 0-d, a matrix in brackets for 2-d, else one row in parentheses."""
    shape = array.shape
    if array.ndim == 0:
        value = symbol(array.item())
        return Symbol(value.tree, value.binds, ())
    if array.ndim > 2 or array.size == 0:
        array = array.reshape(-1)
    if array.ndim == 1:
        row: Formula = ["mrow", ["mo", "("]]
        for i, x in enumerate(array.tolist()):
            row += [["mo", ","]] * (i > 0) + [symbol(x).tree]
        return Symbol([*row, ["mo", ")"]], ATOM, shape)
    table: Formula = ["mtable", *[["mtr", *[["mtd", symbol(x).tree] for x in line]] for line in array.tolist()]]
    return Symbol(["mrow", ["mo", "["], table, ["mo", "]"]], ATOM, shape)


def parenthesised(tree: Formula) -> Formula:
    return ["mrow", ["mo", "("], tree, ["mo", ")"]]


def broadcast(*parts: Symbol) -> tuple | None:
    if any(p._shape is None for p in parts):
        return None
    try:
        return numpy.broadcast_shapes(*[p.shape for p in parts])
    except ValueError:
        return None


def binary(sign: str, a: Any, b: Any, binds: int, right: int) -> Symbol:
    a, b = symbol(a), symbol(b)
    return Symbol(["mrow", a.within(binds), ["mo", sign], b.within(right)], binds, broadcast(a, b))


def call(name: str, *args: Any, under: Formula | None = None, shape: tuple | None = None, **attrs: Any) -> Symbol:
    """Function notation: name(x, y; dim = 1)."""
    head: Formula = ["mi", name]
    inner: Formula = ["mrow", head if under is None else ["msub", head, under], ["mo", "("]]
    for i, x in enumerate(args):
        inner += [["mo", ","]] * (i > 0) + [symbol(x).tree]
    for i, (key, value) in enumerate(attrs.items()):
        inner += [["mo", ";" if i == 0 and args else ","]] if args or i else []
        inner += [["mtext", key], ["mo", "="], symbol(value).tree]
    return Symbol([*inner, ["mo", ")"]], ATOM, shape)


def index_tree(index: Any) -> Formula:
    """The index between the brackets of x[...]."""

    def one(i: Any) -> Formula:
        if isinstance(i, slice):
            ends = ["" if e is None else str(e) for e in (i.start, i.stop)]
            return ["mtext", ":".join(ends) + ("" if i.step is None else f":{i.step}")]
        if i is Ellipsis:
            return ["mo", "…"]
        if i is None:
            return ["mtext", "None"]
        return symbol(i).tree if isinstance(i, (Symbol, int, numpy.integer)) else ["mtext", _short(i)]

    parts: Formula = ["mrow"]
    for n, i in enumerate(index if isinstance(index, tuple) else (index,)):
        parts += [["mo", ","]] * (n > 0) + [one(i)]
    return parts


def _short(x: Any) -> str:
    shape = getattr(x, "shape", None)
    return f"{type(x).__name__.lower()} {'×'.join(map(str, shape))}" if shape is not None else repr(x)[:24]


def product(a: Any, b: Any) -> Symbol:
    """A matrix product, written by juxtaposition."""
    a, b = symbol(a), symbol(b)
    shape = None
    if a._shape and b._shape:
        lead = broadcast(Symbol(["mi", ""], shape=a.shape[:-2]), Symbol(["mi", ""], shape=b.shape[:-2]))
        shape = None if lead is None else (*lead, *a.shape[-2:-1], *(b.shape[-1:] if b.ndim > 1 else ()))
    return Symbol(["mrow", a.within(PRODUCT), ["mspace"], b.within(PREFIX)], PRODUCT, shape)


def transposed(x: Any) -> Symbol:
    """The transpose: the last two axes swapped."""
    x = symbol(x)
    shape = None if x._shape is None or x.ndim < 2 else (*x.shape[:-2], x.shape[-1], x.shape[-2])
    return Symbol(["msup", x.within(ATOM), ["mo", "⊤"]], POWER, shape)


def magnitude(x: Any) -> Symbol:
    """The absolute value, written between bars."""
    x = symbol(x)
    return Symbol(["mrow", ["mo", "|"], x.tree, ["mo", "|"]], ATOM, x._shape)
