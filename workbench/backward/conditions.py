"""Conditions on a gradient's health, as a user writes them: `nan > 0 or norm > 1e3 or norm < 1e-8 or zero > 0.99`.

They are parsed by Python's parser and checked against a short list of allowed syntax; nothing is ever executed as code.
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy

from engine.core import devices

from ..inspector import host, whole
from ..inspector.numbers import real
from ..protocol import Refused, Summary

# The names that a condition may use. Except for `nan` and `inf`, only finite elements are measured.
NAMES = {
    "nan": "how many elements are NaN",
    "inf": "how many are infinite",
    "zero": "the share of elements that are exactly 0, from 0 to 1",
    "norm": "the L2 norm; NaN where an element is NaN, infinite where one is infinite",
    "min": "the smallest finite element",
    "max": "the largest finite element",
    "mean": "their mean",
    "std": "their standard deviation (n - 1)",
    "size": "how many elements there are",
}

_COMPARE: Mapping[type, Callable[[Any, Any], bool]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}
_LONGEST = 400  # characters

Health = Mapping[str, float]


class BadCondition(Refused, ValueError):
    """The text is not a valid condition; the message says where and what is allowed."""


class Condition:
    """A predicate on a gradient. `names` are the measures that it needs; `holds` evaluates it."""

    def __init__(self, text: str) -> None:
        self.text = text.strip()
        if not self.text:
            raise BadCondition(f"A condition is empty. Write one such as norm > 1e3; it may speak of {', '.join(NAMES)}.")
        if len(self.text) > _LONGEST:
            raise BadCondition(f"A condition has at most {_LONGEST} characters; this one has {len(self.text)}.")
        try:
            tree = ast.parse(self.text, mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            at = getattr(error, "offset", None)
            where = f" at character {at}" if at else ""
            raise BadCondition(f"“{self.text}” cannot be read as a condition{where}. Write one such as nan > 0 or norm > 1e3.") from None
        self.names: set[str] = set()
        self._test = self._truth(tree)

    def holds(self, health: Health) -> bool:
        """Whether the condition holds for this health. A comparison with a measure that does not exist (NaN) is false."""
        return self._test(health)

    def __repr__(self) -> str:
        return f"Condition({self.text!r})"

    # -- parsing ----------------------------------------------------------------------------------------------------------------

    def _truth(self, node: ast.AST) -> Callable[[Health], bool]:
        if isinstance(node, ast.BoolOp):
            tests = [self._truth(part) for part in node.values]
            every = isinstance(node.op, ast.And)
            return lambda health: all(t(health) for t in tests) if every else any(t(health) for t in tests)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            test = self._truth(node.operand)
            return lambda health: not test(health)
        if isinstance(node, ast.Compare):
            sides = [self._number(part) for part in (node.left, *node.comparators)]
            signs = []
            for sign in node.ops:
                if type(sign) not in _COMPARE:
                    raise self._refused("compares with <, <=, >, >=, == and != only")
                signs.append(_COMPARE[type(sign)])

            def compare(health: Health) -> bool:
                values = [side(health) for side in sides]
                return all(sign(a, b) for sign, a, b in zip(signs, values, values[1:], strict=False))

            return compare
        if isinstance(node, ast.Name) and node.id in NAMES:
            raise self._refused(f"compares {node.id} with nothing: write {node.id} > 0 or the like")
        raise self._refused(f"has {ast.unparse(node)} where a comparison such as norm > 1e3 is expected")

    def _number(self, node: ast.AST) -> Callable[[Health], float]:
        if isinstance(node, ast.Constant) and type(node.value) in (int, float):
            value = float(node.value) if abs(node.value) < 1e300 else math.copysign(math.inf, node.value)
            return lambda health: value
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.UAdd)):
            inner, sign = self._number(node.operand), -1.0 if isinstance(node.op, ast.USub) else 1.0
            return lambda health: sign * inner(health)
        if isinstance(node, ast.Name):
            name = node.id
            if name not in NAMES:
                raise self._refused(f"speaks of {name}; it may speak of {', '.join(NAMES)}")
            self.names.add(name)
            return lambda health: health[name]
        raise self._refused(f"has {ast.unparse(node)} where a number or one of {', '.join(NAMES)} is expected")

    def _refused(self, why: str) -> BadCondition:
        return BadCondition(f"The condition “{self.text}” {why}.")


# -- measuring -----------------------------------------------------------------------------------------------------------------


def measure(array: Any, names: set[str]) -> list[Any]:
    """Compute the measures in the order of `sorted(names)`, on the array's device: on a GPU they are 0-d arrays that stay there."""
    array = whole(array)
    xp = devices.namespace(array)
    data = real(xp.asarray(array))
    floats = data.dtype.kind == "f"
    wide = data.astype(numpy.float64) if names & {"norm", "mean", "std"} else data
    finite = xp.isfinite(data) if floats and names & {"min", "max", "mean", "std"} else None
    count = data.size if finite is None else finite.sum()

    def only(values: Any, otherwise: float) -> Any:
        """Replace values that are not finite by `otherwise`."""
        return values if finite is None else xp.where(finite, values, otherwise)

    def one(name: str) -> Any:
        if name == "size":
            return data.size
        if name in ("nan", "inf"):
            return (xp.isnan if name == "nan" else xp.isinf)(data).sum() if floats else 0
        if not data.size:
            return 0.0 if name == "norm" else math.nan
        if name == "zero":
            return (data == 0).sum() / data.size
        if name == "norm":
            return xp.sqrt((wide * wide).sum())
        if name in ("min", "max"):
            return only(data, math.inf).min() if name == "min" else only(data, -math.inf).max()
        mean = only(wide, 0.0).sum() / count
        if name == "mean":
            return mean
        gap = only(wide - mean, 0.0)
        return xp.where(xp.asarray(count) > 1, xp.sqrt((gap * gap).sum() / (count - 1)), math.nan)

    with numpy.errstate(all="ignore"):
        return [one(name) for name in sorted(names)]


def fetched(measured: Sequence[tuple[set[str], list[Any]]]) -> list[Health]:
    """Convert results of `measure` to Python floats; everything on a device comes in one transfer."""
    flat = [value for _, values in measured for value in values]
    there = [i for i, value in enumerate(flat) if not isinstance(value, (int, float, numpy.generic, numpy.ndarray))]
    if there:
        xp = devices.namespace(flat[there[0]])
        came = host(xp.stack([flat[i].astype(numpy.float64) for i in there])).tolist()
        for i, number in zip(there, came, strict=True):
            flat[i] = number
    numbers = iter(flat)
    return [_exists({name: float(next(numbers)) for name in sorted(names)}) for names, _ in measured]


def _exists(health: dict[str, float]) -> Health:
    """Replace the infinite `min` and `max` of a gradient without finite elements by NaN."""
    for name, edge in (("min", math.inf), ("max", -math.inf)):
        if health.get(name) == edge:
            health[name] = math.nan
    return health


def health_of(s: Summary) -> Health:
    """The same measures, read from a summary after its array is freed."""
    infinite = s.pos_inf + s.neg_inf
    norm = s.norm if s.norm is not None else math.nan if s.nan else math.inf
    there = {"min": s.min, "max": s.max, "mean": s.mean, "std": s.std}
    return {
        "nan": s.nan, "inf": infinite, "zero": s.zero / s.size if s.size else math.nan, "norm": norm, "size": s.size,
        **{name: math.nan if value is None else value for name, value in there.items()},
    }  # fmt: skip
