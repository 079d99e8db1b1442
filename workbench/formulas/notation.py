"""An array namespace with NumPy's names that builds formulas from symbols; also parses formulas from text and prints them as text."""

from __future__ import annotations

import ast
import math
from collections.abc import Callable
from typing import Any

from ..protocol import Formula
from .symbols import ATOM, COMPARE, POWER, PRODUCT, Symbol, Untypesettable, broadcast, call, magnitude, product, symbol, transposed


def reduced(x: Symbol, axis: Any, keepdims: bool) -> tuple | None:
    if x._shape is None:
        return None
    axes = range(x.ndim) if axis is None else [a % max(x.ndim, 1) for a in ((axis,) if isinstance(axis, int) else axis)]
    return tuple(1 if i in axes else n for i, n in enumerate(x.shape) if keepdims or i not in axes)


def dims(axis: Any) -> Formula | None:
    if axis is None or axis == ():
        return None
    dims = (axis,) if isinstance(axis, int) else tuple(axis)
    return ["mtext", f"dim {', '.join(str(d).replace('-', '−') for d in dims)}"]


class Math:
    """NumPy's functions on symbols. Functions without a method here are written name(x, y)."""

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

    abs = staticmethod(magnitude)

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

    matmul = staticmethod(product)

    dot = matmul

    matrix_transpose = staticmethod(transposed)

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
        x, over = symbol(x), dims(axis)
        sign: Formula = ["mo", "∑"]
        return Symbol(["mrow", sign if over is None else ["munder", sign, over], x.within(PRODUCT)], PRODUCT, reduced(x, axis, keepdims))

    @staticmethod
    def prod(x: Any, axis: Any = None, keepdims: bool = False, dtype: Any = None) -> Symbol:
        x, over = symbol(x), dims(axis)
        sign: Formula = ["mo", "∏"]
        return Symbol(["mrow", sign if over is None else ["munder", sign, over], x.within(PRODUCT)], PRODUCT, reduced(x, axis, keepdims))

    @staticmethod
    def mean(x: Any, axis: Any = None, keepdims: bool = False, dtype: Any = None) -> Symbol:
        return call("mean", x, under=dims(axis), shape=reduced(symbol(x), axis, keepdims))

    @staticmethod
    def max(x: Any, axis: Any = None, keepdims: bool = False) -> Symbol:
        return call("max", x, under=dims(axis), shape=reduced(symbol(x), axis, keepdims))

    amax = max

    @staticmethod
    def min(x: Any, axis: Any = None, keepdims: bool = False) -> Symbol:
        return call("min", x, under=dims(axis), shape=reduced(symbol(x), axis, keepdims))

    amin = min

    @staticmethod
    def where(condition: Any, a: Any, b: Any) -> Symbol:
        parts = [symbol(s) for s in (a, b, condition)]
        rows: Formula = ["mtable", ["mtr", ["mtd", parts[0].tree], ["mtd", ["mrow", ["mtext", "if\u00a0"], parts[2].tree]]],
                         ["mtr", ["mtd", parts[1].tree], ["mtd", ["mtext", "otherwise"]]]]  # fmt: skip
        return Symbol(["mrow", ["mo", "{"], rows], COMPARE, broadcast(*parts))

    # the same values in another arrangement: nothing to write
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
    def new_zeros(beside: Any, shape: tuple, dtype: Any = None) -> Symbol:
        return Symbol(["mn", "0"], ATOM, shape)

    # kernels with a well-known notation
    @staticmethod
    def from_parts(real: Any, imag: Any) -> Symbol:
        return symbol(real) + symbol(imag) * 1j

    @staticmethod
    def times_i(x: Any) -> Symbol:
        return symbol(x) * 1j

    @staticmethod
    def sigmoid(x: Any) -> Symbol:
        return call("σ", x, shape=symbol(x)._shape)

    expit = sigmoid

    @staticmethod
    def linear(x: Any, weight: Any, bias: Any = None) -> Symbol:
        product = Math.matmul(x, Math.matrix_transpose(weight))
        return product if bias is None else product + bias

    # elementwise functions: the result has the operands' broadcast shape
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
    """Parse an op's formula text, such as "conv2d(x, w) + b", and substitute the symbols of its operands."""

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
    """Return the formula as one line of text, for screen readers and tables."""
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
        return as_text(parts[0]) + ("\u0302" if parts[1] == ["mo", "^"] else "\u0304")
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
