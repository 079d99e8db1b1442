"""Symbols, and the array namespace over them: run an op's own code on these and it writes its formula, as a tree of MathML."""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy

from .protocol import Formula

# How tightly a tree holds together; a looser one inside a tighter one gets parentheses.
LOGIC, COMPARE, SUM, PRODUCT, PREFIX, POWER, ATOM = range(7)


class Untypesettable(Exception):
    """The code asked for something that a symbol does not have; the caller writes function notation instead."""


class Symbol:
    """A part of a formula: its tree, how tightly it binds, and the shape of what it stands for (None: unknown)."""

    __array_ufunc__ = None
    __hash__ = object.__hash__

    def __init__(self, tree: Formula, binds: int = ATOM, shape: tuple | None = (), key: Any = None, dtype: Any = None) -> None:
        self.tree, self.binds, self._shape = tree, binds, shape
        self.key = key if key is not None else repr(tree)  # equal keys stand for the same thing
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
        return Math.matrix_transpose(self)

    @property
    def real(self) -> Symbol:
        return call("Re", self)

    def within(self, binds: int) -> Formula:
        """The tree, in parentheses where a part that binds so tightly needs them."""
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
        return Math.matmul(self, other)

    def __rmatmul__(self, other: Any) -> Symbol:
        return Math.matmul(other, self)

    def __lt__(self, other: Any) -> Symbol:
        return binary("<", self, other, COMPARE, SUM)

    def __le__(self, other: Any) -> Symbol:
        return binary("≤", self, other, COMPARE, SUM)

    def __gt__(self, other: Any) -> Symbol:
        return binary(">", self, other, COMPARE, SUM)

    def __ge__(self, other: Any) -> Symbol:
        return binary("≥", self, other, COMPARE, SUM)

    def __eq__(self, other: Any) -> Any:
        return binary("=", self, other, COMPARE, SUM)

    def __ne__(self, other: Any) -> Any:
        return binary("≠", self, other, COMPARE, SUM)

    def __and__(self, other: Any) -> Symbol:
        return binary("∧", self, other, LOGIC, COMPARE)

    def __or__(self, other: Any) -> Symbol:
        return binary("∨", self, other, LOGIC, COMPARE)

    def __xor__(self, other: Any) -> Symbol:
        return binary("⊻", self, other, LOGIC, COMPARE)

    def __abs__(self) -> Symbol:
        return Math.abs(self)

    def __getitem__(self, index: Any) -> Symbol:
        return Symbol(["msub", self.within(ATOM), ["mrow", ["mo", "["], index_tree(index), ["mo", "]"]]], ATOM, None)

    def __bool__(self) -> bool:
        raise Untypesettable("a decision on a value")

    __iter__ = None  # type: ignore[assignment]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *args, **kwargs: getattr(MATH, name)(self, *args, **kwargs)


def symbol(x: Any) -> Symbol:
    """The symbol for a number, or the symbol itself."""
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
    """The elements of a small array: a number, a row in parentheses, or a matrix in brackets."""
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
    """What stands between the brackets of x[...]."""

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


def reduced(x: Symbol, axis: Any, keepdims: bool) -> tuple | None:
    if x._shape is None:
        return None
    axes = range(x.ndim) if axis is None else [a % max(x.ndim, 1) for a in ((axis,) if isinstance(axis, int) else axis)]
    return tuple(1 if i in axes else n for i, n in enumerate(x.shape) if keepdims or i not in axes)


def _over(axis: Any) -> Formula | None:
    if axis is None or axis == ():
        return None
    dims = (axis,) if isinstance(axis, int) else tuple(axis)
    return ["mtext", f"dim {', '.join(str(d).replace('-', '−') for d in dims)}"]


class Math:
    """NumPy's names over symbols. What has a notation of its own stands here; all else is written name(x, y)."""

    @staticmethod
    def exp(x: Any) -> Symbol:
        x = symbol(x)
        return Symbol(["msup", ["mi", "e"], x.tree], POWER, x._shape)

    @staticmethod
    def sqrt(x: Any) -> Symbol:
        x = symbol(x)
        return Symbol(["msqrt", x.tree], ATOM, x._shape)

    @staticmethod
    def square(x: Any) -> Symbol:
        return symbol(x) ** 2

    @staticmethod
    def reciprocal(x: Any) -> Symbol:
        return 1 / symbol(x)

    @staticmethod
    def abs(x: Any) -> Symbol:
        x = symbol(x)
        return Symbol(["mrow", ["mo", "|"], x.tree, ["mo", "|"]], ATOM, x._shape)

    absolute = abs

    @staticmethod
    def floor(x: Any) -> Symbol:
        x = symbol(x)
        return Symbol(["mrow", ["mo", "⌊"], x.tree, ["mo", "⌋"]], ATOM, x._shape)

    @staticmethod
    def ceil(x: Any) -> Symbol:
        x = symbol(x)
        return Symbol(["mrow", ["mo", "⌈"], x.tree, ["mo", "⌉"]], ATOM, x._shape)

    @staticmethod
    def add(a: Any, b: Any) -> Symbol:
        return symbol(a) + b

    @staticmethod
    def subtract(a: Any, b: Any) -> Symbol:
        return symbol(a) - b

    @staticmethod
    def multiply(a: Any, b: Any) -> Symbol:
        return symbol(a) * b

    @staticmethod
    def divide(a: Any, b: Any) -> Symbol:
        return symbol(a) / b

    true_divide = divide

    @staticmethod
    def floor_divide(a: Any, b: Any) -> Symbol:
        return symbol(a) // b

    @staticmethod
    def power(a: Any, b: Any) -> Symbol:
        return symbol(a) ** b

    @staticmethod
    def negative(x: Any) -> Symbol:
        return -symbol(x)

    @staticmethod
    def equal(a: Any, b: Any) -> Any:
        return symbol(a) == b

    @staticmethod
    def not_equal(a: Any, b: Any) -> Any:
        return symbol(a) != b

    @staticmethod
    def less(a: Any, b: Any) -> Symbol:
        return symbol(a) < b

    @staticmethod
    def less_equal(a: Any, b: Any) -> Symbol:
        return symbol(a) <= b

    @staticmethod
    def greater(a: Any, b: Any) -> Symbol:
        return symbol(a) > b

    @staticmethod
    def greater_equal(a: Any, b: Any) -> Symbol:
        return symbol(a) >= b

    @staticmethod
    def maximum(a: Any, b: Any) -> Symbol:
        return call("max", a, b, shape=broadcast(symbol(a), symbol(b)))

    @staticmethod
    def minimum(a: Any, b: Any) -> Symbol:
        return call("min", a, b, shape=broadcast(symbol(a), symbol(b)))

    @staticmethod
    def sign(x: Any) -> Symbol:
        return call("sgn", x, shape=symbol(x)._shape)

    @staticmethod
    def matmul(a: Any, b: Any) -> Symbol:
        a, b = symbol(a), symbol(b)
        shape = None
        if a._shape and b._shape:
            lead = broadcast(Symbol(["mi", ""], shape=a.shape[:-2]), Symbol(["mi", ""], shape=b.shape[:-2]))
            shape = None if lead is None else (*lead, *a.shape[-2:-1], *(b.shape[-1:] if b.ndim > 1 else ()))
        return Symbol(["mrow", a.within(PRODUCT), ["mspace"], b.within(PREFIX)], PRODUCT, shape)

    dot = matmul

    @staticmethod
    def matrix_transpose(x: Any) -> Symbol:
        x = symbol(x)
        shape = None if x._shape is None or x.ndim < 2 else (*x.shape[:-2], x.shape[-1], x.shape[-2])
        return Symbol(["msup", x.within(ATOM), ["mo", "⊤"]], POWER, shape)

    @staticmethod
    def swapaxes(x: Any, a: int, b: int) -> Symbol:
        x = symbol(x)
        if x._shape is not None and {a % x.ndim, b % x.ndim} == {x.ndim - 1, x.ndim - 2}:
            return Math.matrix_transpose(x)
        return call("transpose", x, a, b)

    @staticmethod
    def transpose(x: Any, axes: Any = None) -> Symbol:
        x = symbol(x)
        if x._shape is None or axes is None and x.ndim != 2:
            return call("permute", x, axes)
        axes = tuple(a % x.ndim for a in axes) if axes is not None else (1, 0)
        if axes == (*range(x.ndim - 2), x.ndim - 1, x.ndim - 2):
            return Math.matrix_transpose(x)
        return call("permute", x, axes, shape=tuple(x.shape[a] for a in axes))

    @staticmethod
    def sum(x: Any, axis: Any = None, keepdims: bool = False, dtype: Any = None) -> Symbol:
        x, over = symbol(x), _over(axis)
        sign: Formula = ["mo", "∑"]
        return Symbol(["mrow", sign if over is None else ["munder", sign, over], x.within(PRODUCT)], PRODUCT, reduced(x, axis, keepdims))

    @staticmethod
    def prod(x: Any, axis: Any = None, keepdims: bool = False, dtype: Any = None) -> Symbol:
        x, over = symbol(x), _over(axis)
        sign: Formula = ["mo", "∏"]
        return Symbol(["mrow", sign if over is None else ["munder", sign, over], x.within(PRODUCT)], PRODUCT, reduced(x, axis, keepdims))

    @staticmethod
    def mean(x: Any, axis: Any = None, keepdims: bool = False, dtype: Any = None) -> Symbol:
        return call("mean", x, under=_over(axis), shape=reduced(symbol(x), axis, keepdims))

    @staticmethod
    def max(x: Any, axis: Any = None, keepdims: bool = False) -> Symbol:
        return call("max", x, under=_over(axis), shape=reduced(symbol(x), axis, keepdims))

    amax = max

    @staticmethod
    def min(x: Any, axis: Any = None, keepdims: bool = False) -> Symbol:
        return call("min", x, under=_over(axis), shape=reduced(symbol(x), axis, keepdims))

    amin = min

    @staticmethod
    def where(condition: Any, a: Any, b: Any) -> Symbol:
        parts = [symbol(s) for s in (a, b, condition)]
        rows: Formula = ["mtable", ["mtr", ["mtd", parts[0].tree], ["mtd", ["mrow", ["mtext", "if "], parts[2].tree]]],
                         ["mtr", ["mtd", parts[1].tree], ["mtd", ["mtext", "otherwise"]]]]  # fmt: skip
        return Symbol(["mrow", ["mo", "{"], rows], COMPARE, broadcast(*parts))

    # the same numbers in another arrangement: nothing to write
    @staticmethod
    def reshape(x: Any, shape: Any, *more: Any) -> Symbol:
        x = symbol(x)
        shape = (shape,) if isinstance(shape, int) else tuple(shape)
        known = x._shape is not None and -1 in shape
        if known:
            shape = tuple(x.size // max(1, -math.prod(shape)) if n == -1 else n for n in shape)
        return Symbol(x.tree, x.binds, shape if -1 not in shape else None, x.key, x._dtype)

    @staticmethod
    def broadcast_to(x: Any, shape: tuple, *more: Any) -> Symbol:
        x = symbol(x)
        return Symbol(x.tree, x.binds, tuple(shape), x.key, x._dtype)

    @staticmethod
    def expand_dims(x: Any, axis: Any) -> Symbol:
        x = symbol(x)
        if x._shape is None or not isinstance(axis, int):
            return Symbol(x.tree, x.binds, None, x.key)
        at = axis % (x.ndim + 1)
        return Symbol(x.tree, x.binds, (*x.shape[:at], 1, *x.shape[at:]), x.key, x._dtype)

    @staticmethod
    def squeeze(x: Any, axis: Any = None) -> Symbol:
        x = symbol(x)
        return Symbol(x.tree, x.binds, None, x.key, x._dtype)

    @staticmethod
    def astype(x: Any, dtype: Any = None, **kwargs: Any) -> Symbol:
        return symbol(x)

    @staticmethod
    def asarray(x: Any, *args: Any, **kwargs: Any) -> Symbol:
        return symbol(x)

    copy = ascontiguousarray = asarray

    @staticmethod
    def zeros_like(x: Any, *args: Any, **kwargs: Any) -> Symbol:
        return Symbol(["mn", "0"], ATOM, symbol(x)._shape)

    @staticmethod
    def ones_like(x: Any, *args: Any, **kwargs: Any) -> Symbol:
        return Symbol(["mn", "1"], ATOM, symbol(x)._shape)

    @staticmethod
    def zeros(shape: Any, *args: Any, **kwargs: Any) -> Symbol:
        return Symbol(["mn", "0"], ATOM, (shape,) if isinstance(shape, int) else tuple(shape))

    @staticmethod
    def ones(shape: Any, *args: Any, **kwargs: Any) -> Symbol:
        return Symbol(["mn", "1"], ATOM, (shape,) if isinstance(shape, int) else tuple(shape))

    # kernels with a notation that everybody knows
    @staticmethod
    def sigmoid(x: Any) -> Symbol:
        return call("σ", x, shape=symbol(x)._shape)

    expit = sigmoid

    @staticmethod
    def linear(x: Any, weight: Any, bias: Any = None) -> Symbol:
        product = Math.matmul(x, Math.matrix_transpose(weight))
        return product if bias is None else product + bias

    # functions of one element each: the result has the operands' common shape
    _PLAIN = frozenset(
        """log log2 log10 log1p expm1 exp2 sin cos tan sinh cosh tanh arcsin arccos arctan arcsinh arccosh arctanh erf erfc lgamma digamma
        conj isnan isinf isfinite rint trunc relu softplus logaddexp arctan2 hypot copysign logical_not clip gelu silu erfinv""".split()  # noqa: SIM905
    )
    _SPELLED = {"log": "ln", "log2": "log₂", "log10": "log₁₀", "rint": "round", "arctan2": "atan2", "lgamma": "ln Γ", "digamma": "ψ"}
    pi, e, inf, nan = math.pi, math.e, math.inf, math.nan
    newaxis = None

    def __getattr__(self, name: str) -> Callable[..., Symbol]:
        if name.startswith("__"):
            raise AttributeError(name)
        plain = name in Math._PLAIN

        def written(*args: Any, **kwargs: Any) -> Symbol:
            shape = broadcast(*[symbol(a) for a in args]) if plain else None
            return call(Math._SPELLED.get(name, name), *args, shape=shape, **{k: v for k, v in kwargs.items() if v is not None})

        return written


MATH = Math()


def parsed(text: str, names: dict[str, Symbol]) -> Symbol:
    """A formula that an op states as text, such as "conv2d(x, w) + b", with the symbols of its operands put in."""

    def read(node: ast.AST) -> Any:
        if isinstance(node, ast.Expression):
            return read(node.body)
        if isinstance(node, ast.Constant):
            return symbol(node.value)
        if isinstance(node, ast.Name):
            return names[node.id] if node.id in names else Symbol(["mi", node.id], ATOM, None)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            return -read(node.operand)
        if isinstance(node, ast.BinOp):
            return _OPERATORS[type(node.op)](read(node.left), read(node.right))
        if isinstance(node, ast.Compare) and len(node.ops) == 1:
            return _OPERATORS[type(node.ops[0])](read(node.left), read(node.comparators[0]))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            if node.func.id in ("sum", "prod", "mean", "max", "min") and len(node.args) > 1:
                return call(node.func.id, *[read(a) for a in node.args])
            keywords = {k.arg: read(k.value) for k in node.keywords if k.arg}
            return getattr(MATH, node.func.id)(*[read(a) for a in node.args], **keywords)
        if isinstance(node, ast.Subscript):
            inner = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
            return read(node.value)[tuple(read(i) for i in inner)]
        raise Untypesettable(ast.dump(node))

    return read(ast.parse(text.strip(), mode="eval"))


_OPERATORS: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: lambda a, b: a + b, ast.Sub: lambda a, b: a - b, ast.Mult: lambda a, b: a * b, ast.Div: lambda a, b: a / b,
    ast.Pow: lambda a, b: a**b, ast.MatMult: lambda a, b: a @ b, ast.Lt: lambda a, b: a < b, ast.Gt: lambda a, b: a > b,
    ast.LtE: lambda a, b: a <= b, ast.GtE: lambda a, b: a >= b, ast.Eq: lambda a, b: a == b, ast.NotEq: lambda a, b: a != b,
    ast.Mod: lambda a, b: a % b, ast.FloorDiv: lambda a, b: a // b,
}  # fmt: skip


def as_text(tree: Any) -> str:
    """The formula as one line of text, for screen readers and tables."""
    if isinstance(tree, str):
        return tree
    tag, *parts = tree
    if tag == "mfrac":
        return (
            f"({as_text(parts[0])})/({as_text(parts[1])})"
            if len(as_text(parts[0])) + len(as_text(parts[1])) > 2
            else "/".join(map(as_text, parts))
        )
    if tag == "msup":
        power = as_text(parts[1])
        return as_text(parts[0]) + (power if power == "⊤" else f"^{power}" if len(power) == 1 else f"^({power})")
    if tag in ("msub", "munder"):
        return f"{as_text(parts[0])}_{as_text(parts[1])}"
    if tag == "mover":
        return as_text(parts[0]) + "\u0304"
    if tag == "msqrt":
        return f"√({as_text(parts[0])})"
    if tag == "mspace":
        return " "
    if tag == "mrow" and parts and parts[0] == ["mo", "−"]:
        return "−" + "".join(map(as_text, parts[1:]))
    if tag == "mtr":
        return ", ".join(map(as_text, parts))
    if tag == "mtable":
        return "; ".join(map(as_text, parts))
    if tag == "mo" and parts and parts[0] not in ("(", ")", "[", "]", "|", "{", "¯", "⊤", "∑", "∏", "⌊", "⌋", "⌈", "⌉", "¬"):
        return f"{parts[0]} " if parts[0] in (",", ";") else f" {parts[0]} "
    return "".join(map(as_text, parts))


def sequence(parts: Sequence[Symbol]) -> Symbol:
    """x₁, x₂, ... as one operand."""
    return symbol(tuple(parts))
