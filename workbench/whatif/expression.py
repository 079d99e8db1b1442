"""Evaluate user expressions such as `g.clip(-1, 1)` or `g / norm(g)`: parsed against an allowlist, computed on arrays only."""

from __future__ import annotations

import ast
import operator
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy

from .. import protocol

LONGEST = 400  # characters
_DEEPEST = 40
LARGEST = 1 << 24  # maximum number of elements of intermediate results, unless the tensor itself has more


class BadExpression(protocol.Refused, ValueError):
    """The typed expression cannot be evaluated; the text says why."""


_BINARY: Mapping[type, Callable] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv, ast.Pow: operator.pow,
    ast.Mod: operator.mod, ast.FloorDiv: operator.floordiv, ast.BitAnd: operator.and_, ast.BitOr: operator.or_,
}  # fmt: skip
_UNARY: Mapping[type, Callable] = {ast.USub: operator.neg, ast.UAdd: operator.pos, ast.Invert: operator.invert}
_COMPARE: Mapping[type, Callable] = {
    ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge, ast.Eq: operator.eq, ast.NotEq: operator.ne,
}  # fmt: skip


def _norm(x: Any) -> Any:
    """The Euclidean norm of all elements."""
    return numpy.sqrt(numpy.sum(numpy.abs(x) ** 2))


FUNCTIONS: Mapping[str, Callable] = {
    "norm": _norm,
    **{name: getattr(numpy, name) for name in (
        "abs", "sign", "sqrt", "square", "exp", "log", "log1p", "sin", "cos", "tanh", "floor", "ceil", "round", "clip", "maximum",
        "minimum",
        "where", "isnan", "isinf", "isfinite", "nan_to_num", "zeros_like", "ones_like", "sum", "mean", "std", "min", "max",
        "flip", "roll",
    )},
}  # fmt: skip
METHODS: Mapping[str, Callable] = {name: FUNCTIONS[name] for name in (
    "clip", "sum", "mean", "std", "min", "max", "abs", "round", "norm", "sign", "sqrt", "square", "exp", "log", "tanh",
)}  # fmt: skip
# Maximum number of arguments, for functions that are not ufuncs: the next one would be NumPy's `out`.
_PLACES = {"norm": 1, "nan_to_num": 1, "zeros_like": 1, "ones_like": 1, "clip": 3, "where": 3, "roll": 3}
_OPTIONS = {"axis", "keepdims", "decimals", "min", "max", "a_min", "a_max", "shift", "nan", "posinf", "neginf"}
CONSTANTS = {"pi": numpy.pi, "e": numpy.e, "inf": numpy.inf, "nan": numpy.nan}


class Expression:
    """A typed expression in one array: `Expression("g.clip(-1, 1)", "g").on(array)`. Raises BadExpression, which says what is wrong."""

    def __init__(self, text: str, name: str = "g") -> None:
        self.text, self.name = text.strip(), name
        if not self.text:
            raise BadExpression(f"Type an expression in {name}, such as {name} * 0 or {name}.clip(-1, 1).")
        if len(self.text) > LONGEST:
            raise BadExpression(f"The expression has {len(self.text)} characters; at most {LONGEST} are read.")
        try:
            self.tree = ast.parse(self.text, mode="eval").body
        except (SyntaxError, ValueError) as error:
            at = getattr(error, "offset", None)
            where = f" at character {at}" if at else ""
            raise BadExpression(f"“{self.text}” is not an expression{where}: expected something like {name} * 2.") from None
        except (RecursionError, MemoryError):
            raise BadExpression("The expression is nested too deeply.") from None
        _Reader(name).check(self.tree, 0)

    def on(self, array: Any) -> Any:
        """Evaluate with the name bound to `array`: an array of its shape and dtype. `array` is not modified."""
        with numpy.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # such as for the mean of an empty array
            try:
                found = _Evaluator(self.name, array).value(self.tree)
            except BadExpression:
                raise
            except (ValueError, TypeError, IndexError, ArithmeticError) as error:
                raise BadExpression(f"“{self.text}” could not be computed: {error}.") from None
            return fitted(found, array, f"“{self.text}”")


def fitted(found: Any, like: Any, what: str) -> Any:
    """A copy of `found` in the shape and dtype of `like`. Raises BadExpression if it does not fit."""
    shape = tuple(getattr(found, "shape", ()))
    made = numpy.empty_like(like)
    if numpy.iscomplexobj(found) and made.dtype.kind != "c":
        raise BadExpression(f"{what} is complex, but the tensor is {like.dtype.name}.")
    try:
        made[...] = found
    except OverflowError:
        raise BadExpression(f"{what} is not finite, or too large for {like.dtype.name}.") from None
    except ValueError:
        raise BadExpression(f"{what} has the shape {shape}; it must fit into {tuple(like.shape)}.") from None
    return made


def edited(array: Any, index: list[int], text: str, name: str = "g") -> Any:
    """A copy of `array` with one element changed: `text` is a number, or an expression in which `name` is that element."""
    shape = tuple(array.shape)
    if len(index) != len(shape) or any(not 0 <= i < n for i, n in zip(index, shape, strict=True)):
        raise BadExpression(f"There is no element {list(index)} in a tensor of shape {shape}.")
    made, at = fitted(array, array, name), tuple(index)
    made[at] = Expression(text, name).on(made[at].reshape(()))
    return made


class _Reader:
    """Rejects everything that is not allowed, before anything is computed."""

    def __init__(self, name: str) -> None:
        self.name = name

    def check(self, node: ast.AST, depth: int) -> None:
        if depth > _DEEPEST:
            raise BadExpression("The expression is nested too deeply.")
        for child in self.parts(node):
            self.check(child, depth + 1)

    def parts(self, node: ast.AST) -> Sequence[ast.AST]:
        """The child nodes of an allowed node."""
        match node:
            case ast.Constant(value=bool() | int() | float() | complex()):
                return []
            case ast.Name(id=name):
                if name == self.name or name in CONSTANTS:
                    return []
                hint = f"{name}(...) is a function" if name in FUNCTIONS else f"only {self.name} and numbers are"
                raise BadExpression(f"“{name}” is not known here: {hint}.")
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
                return [left, right]
            case ast.UnaryOp(op=op, operand=operand) if type(op) in _UNARY:
                return [operand]
            case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in _COMPARE:
                return [left, right]
            case ast.Call(func=func, args=args, keywords=keywords):
                for keyword in keywords:
                    if keyword.arg not in _OPTIONS:
                        raise BadExpression(f"“{keyword.arg or '**'}=” is not an option that is known here.")
                values = [*args, *[k.value for k in keywords]]
                if isinstance(func, ast.Name):
                    if func.id not in FUNCTIONS:
                        raise BadExpression(f"There is no function “{func.id}” here; there are {', '.join(sorted(FUNCTIONS))}.")
                    self.count(func.id, len(args))
                    return values
                if isinstance(func, ast.Attribute):
                    if func.attr not in METHODS:
                        raise BadExpression(f"“.{func.attr}” is no method that is allowed here; there are {', '.join(sorted(METHODS))}.")
                    self.count(func.attr, len(args) + 1)
                    return [func.value, *values]
                raise BadExpression("Only functions by name can be called.")
            case ast.Subscript(value=value, slice=at):
                return [value, *_indices(at)]
            case ast.Tuple(elts=elements):
                return list(elements)
            case ast.Attribute(attr=attr):
                raise BadExpression(f"“.{attr}” is not allowed; {self.name}.clip(-1, 1) and the like are.")
        raise BadExpression(f"“{ast.unparse(node)}” is not allowed: only arithmetic on {self.name}, and functions such as clip and norm.")

    @staticmethod
    def count(name: str, given: int) -> None:
        """Reject more arguments than the function has for values."""
        most = getattr(FUNCTIONS[name], "nin", _PLACES.get(name, 2))
        if given > most:
            raise BadExpression(f"“{name}” takes {most} argument{'s' * (most > 1)} at most, and here it has {given}.")


def _indices(at: ast.AST) -> list[ast.AST]:
    found: list[ast.AST] = []
    for part in at.elts if isinstance(at, ast.Tuple) else [at]:
        if isinstance(part, ast.Slice):
            found += [p for p in (part.lower, part.upper, part.step) if p is not None]
        else:
            found.append(part)
    return found


class _Evaluator:
    """Evaluates expressions that the reader has accepted."""

    def __init__(self, name: str, array: Any) -> None:
        self.names = {**CONSTANTS, name: array}
        self.most = max(LARGEST, array.size)

    def value(self, node: Any) -> Any:
        found = self._value(node)
        if getattr(found, "size", 1) > self.most:
            raise BadExpression(f"“{ast.unparse(node)}” would have more than {self.most:,} elements.")
        return found

    def _value(self, node: Any) -> Any:
        match node:
            case ast.Constant(value=value):
                return value
            case ast.Name(id=name):
                return self.names[name]
            case ast.BinOp(left=left, op=op, right=right):
                return self._binary(_BINARY[type(op)], self.value(left), self.value(right))
            case ast.UnaryOp(op=op, operand=operand):
                return _UNARY[type(op)](self.value(operand))
            case ast.Compare(left=left, ops=[op], comparators=[right]):
                return _COMPARE[type(op)](self.value(left), self.value(right))
            case ast.Subscript(value=value, slice=at):
                parts = tuple(self._index(p) for p in (at.elts if isinstance(at, ast.Tuple) else [at]))
                return self.value(value)[parts]
            case ast.Tuple(elts=elements):
                return tuple(self.value(e) for e in elements)
            case ast.Call(func=func, args=args, keywords=keywords):
                options = {k.arg: self.value(k.value) for k in keywords if k.arg is not None}
                if isinstance(func, ast.Attribute):
                    return METHODS[func.attr](self.value(func.value), *map(self.value, args), **options)
                return FUNCTIONS[ast.unparse(func)](*map(self.value, args), **options)
        raise BadExpression(f"“{ast.unparse(node)}” is not allowed.")

    @staticmethod
    def _binary(fn: Callable, left: Any, right: Any) -> Any:
        if not hasattr(left, "dtype") and not hasattr(right, "dtype"):  # with Python's integers, 9**9**9 would never end
            left = numpy.float64(left) if isinstance(left, int) else left
        return fn(left, right)

    def _index(self, part: Any) -> Any:
        if isinstance(part, ast.Slice):
            return slice(*[None if p is None else self._integer(p) for p in (part.lower, part.upper, part.step)])
        found = self.value(part)
        return int(found) if isinstance(found, (float, numpy.floating)) else found

    def _integer(self, part: Any) -> int:
        return int(self.value(part))
