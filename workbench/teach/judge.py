"""Judge whether an answer is right, and recognize common mistakes in a wrong one."""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy

from engine.core.tensor import Tensor

from .. import inspector

_SIGNS: dict[Any, Callable[..., Any]] = {
    **{ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv},
    **{ast.USub: operator.neg, ast.UAdd: operator.pos},
}
LONGEST = 10_000  # characters of an answer
_NAMES = {"nan": math.nan, "inf": math.inf}


class Unreadable(ValueError):
    """The typed text is not an answer of this kind; the message says what is expected."""


def literal(text: str) -> Any:
    """Parse Python literals: numbers, nan and inf, lists and tuples, with + - * / between numbers. No code is ever run.

    Raises Unreadable for anything else.
    """
    text = text.strip().replace("−", "-")
    if len(text) > LONGEST:
        raise Unreadable(f"An answer has at most {LONGEST:,} characters; this one has {len(text):,}.")
    try:
        return _worked_out(ast.parse(text, mode="eval").body)
    except ZeroDivisionError as error:
        raise Unreadable("A division by zero has no value.") from error
    except (ValueError, SyntaxError, TypeError, OverflowError, MemoryError, RecursionError) as error:
        raise Unreadable("Expected a number or a list of numbers, such as 0.5, -3/4 or [0.5, -1.0].") from error


def _worked_out(tree: ast.expr) -> Any:
    """Evaluate a literal. Raises ValueError for a name, a call or anything else that would have to be run."""
    if isinstance(tree, (ast.List, ast.Tuple)):
        made = [_worked_out(one) for one in tree.elts]
        return made if isinstance(tree, ast.List) else tuple(made)
    if isinstance(tree, ast.Constant):
        return tree.value
    if isinstance(tree, ast.Name) and tree.id.lower() in _NAMES:
        return _NAMES[tree.id.lower()]
    parts = [tree.left, tree.right] if isinstance(tree, ast.BinOp) else [tree.operand] if isinstance(tree, ast.UnaryOp) else []
    sign = _SIGNS.get(type(getattr(tree, "op", None)))
    numbers = [_worked_out(part) for part in parts]
    if sign is None or not all(type(number) in (int, float) for number in numbers):
        raise ValueError("no number")
    return sign(*numbers)


def numbers(text: str) -> numpy.ndarray:
    """Parse a typed text as an array of float64. Raises Unreadable if it is not one."""
    try:
        array = numpy.asarray(literal(text), dtype=numpy.float64)
    except (ValueError, TypeError, OverflowError) as error:
        if isinstance(error, Unreadable):
            raise
        raise Unreadable("Expected numbers, in lists of equal length where there are several.") from error
    return array


def shape(text: str) -> tuple[int, ...]:
    """Parse a typed shape: (2, 3), [2, 3], 2×3, or 5 for (5,). Raises Unreadable if it is not one."""
    plain = text.strip().replace("×", ",").replace("x", ",").replace("*", ",")
    try:
        found = () if plain.lower() in ("scalar", "") else literal(plain)
    except Unreadable:
        found = None
    found = (found,) if isinstance(found, int) and not isinstance(found, bool) else found
    if not isinstance(found, (tuple, list)) or not all(type(n) is int and n >= 0 for n in found):
        raise Unreadable("Expected a shape, such as (2, 3); () for a scalar.")
    return tuple(found)


def array_of(x: Any) -> numpy.ndarray:
    """An author's answer as an array. Raises TypeError if it is not one."""
    if isinstance(x, Tensor):
        x = x.array
    found = numpy.asarray(inspector.host(x) if hasattr(x, "__array__") else x)
    if found.dtype.kind not in "biuf":
        raise TypeError(f"The answer to a question for a value must be a tensor or numbers, got {type(x).__name__}")
    return found.astype(numpy.float64)


def shown(x: numpy.ndarray) -> str:
    """Format values for reading: at most 64 of them."""
    if x.size > 64:
        return f"an array of shape {x.shape}"
    if x.ndim == 0:
        return inspector.number_text(float(x))
    return f"[{', '.join(shown(one) for one in x)}]"


def close(a: numpy.ndarray, b: numpy.ndarray, tolerance: float) -> bool:
    """Equal shapes, and no element further apart than `tolerance` times the largest magnitude of `b`; NaN equals NaN."""
    if a.shape != b.shape:
        return False
    finite = b[numpy.isfinite(b)]
    scale = float(abs(finite).max()) if finite.size else 0.0
    return bool(numpy.allclose(a, b, rtol=tolerance, atol=tolerance * scale if scale else tolerance, equal_nan=True))


@dataclass(frozen=True)
class About:
    """Facts about the expected value, computed only when a wrong answer has to be explained."""

    parts: Callable[[], Sequence[numpy.ndarray]] = tuple  # for a gradient, the contribution of each path
    ops: Callable[[], Collection[str]] = tuple  # the ops between it and the loss


def value(text: str, expected: numpy.ndarray, tolerance: float, about: About) -> tuple[bool, str]:
    """Whether the answer is right, and a sentence that states only what the answer itself shows, never a guess."""
    given = numbers(text)
    if given.size == expected.size == 1:
        given = given.reshape(expected.shape)
    if close(given, expected, tolerance):
        return True, "Right."
    if given.shape != expected.shape:
        return False, _other_shape(given, expected, tolerance)
    if (strange := numpy.isfinite(given) != numpy.isfinite(expected)).any():
        there = "finite" if numpy.isfinite(expected[strange]).all() else "not finite"
        return False, f"Not right: the true value is {there}."
    if not numpy.isfinite(expected).all():
        return False, "Not right."
    return False, _other_value(given, expected, tolerance, about)


def _other_shape(given: numpy.ndarray, expected: numpy.ndarray, tolerance: float) -> str:
    if given.ndim == expected.ndim > 1 and close(given.T, expected, tolerance):
        return f"The values are right, but transposed: the shape must be {expected.shape}, not {given.shape}."
    if given.size == expected.size and close(given.reshape(expected.shape), expected, tolerance):
        return f"The values are right, but in the shape {given.shape}; it must be {expected.shape}."
    if given.ndim == 0:
        return f"A single number is not enough: the shape must be {expected.shape}. A gradient has the shape of its tensor."
    return f"The shape {given.shape} cannot be right: it must be {expected.shape}. A gradient has the shape of its tensor."


def _other_value(given: numpy.ndarray, expected: numpy.ndarray, tolerance: float, about: About) -> str:
    if close(-given, expected, tolerance):
        return "The magnitude is right, the sign is not."
    paths = list(about.parts())
    if len(paths) > 1 and any(close(given, one, tolerance) for one in paths):
        return f"That is what one path adds. There are {len(paths)} paths to the loss, and the gradient is the sum over all of them."
    if given.ndim > 1 and given.shape[0] == given.shape[1] and close(given.T, expected, tolerance):
        return "The values are right, but transposed."
    if not given.any():
        return "Not zero: the loss does depend on it."
    known = given != 0
    ratio = float(numpy.median(expected[known] / given[known]))
    if ratio and math.isfinite(ratio) and close(given * ratio, expected, tolerance):
        if (told := _other_size(ratio, given.size == 1, tolerance, about)) is not None:
            return told
    if given.size > 1:
        wrong = int((~numpy.isclose(given, expected, rtol=tolerance, atol=tolerance * float(abs(expected).max() or 1))).sum())
        return f"Not right: {wrong} of {given.size} elements differ."
    if abs(float(given) - float(expected)) <= _near(tolerance) * abs(float(expected)):
        return "Nearly: give more digits."
    return "Not right."


def _near(tolerance: float) -> float:
    """The relative distance up to which a wrong answer is called nearly right; a wide tolerance leaves little beyond itself."""
    return min(20 * tolerance, 2 * tolerance + 0.05)


_SQUARES, _MEANS = {"square", "pow", "mse_loss"}, {"mean", "mse_loss", "cross_entropy", "nll_loss"}


def _other_size(ratio: float, alone: bool, tolerance: float, about: About) -> str | None:
    """Describe an answer that is the right one divided by `ratio`. `alone`: it is a scalar, and a factor would give the right one away."""
    if alone and abs(abs(ratio) - 1) <= _near(tolerance):
        return "The sign is not right." if ratio < 0 else None  # nearly
    if ratio < 0:
        return "Neither the sign nor the magnitude is right."
    times, whole = max(ratio, 1 / ratio), round(max(ratio, 1 / ratio))
    counted = whole > 1 and math.isclose(times, whole, rel_tol=tolerance)
    if ratio > 1:
        hint = " A square brings a 2." if counted and whole == 2 and _SQUARES & set(about.ops()) else ""
        if alone:
            return f"Too small in magnitude.{hint}"
        return f"A factor of {whole:d} is missing.{hint}" if counted else f"All elements are too small, by the same factor.{hint}"
    hint = " A mean divides by the count." if counted and _MEANS & set(about.ops()) else ""
    if alone:
        return f"Too large in magnitude.{hint}"
    return f"It is {whole:d} times too large.{hint}" if counted else f"All elements are too large, by the same factor.{hint}"


def dims(text: str, expected: tuple[int, ...]) -> tuple[bool, str]:
    """Whether a shape is right, and a sentence."""
    given = shape(text)
    if given == expected:
        return True, "Right."
    if len(given) > 1 and given == expected[::-1]:
        return False, "Transposed: the sizes are right, their order is not."
    if sorted(given) == sorted(expected):
        return False, "The sizes are right, their order is not."
    if given and given == expected[1:]:
        return False, "The first axis is missing: is it the batch?"
    if math.prod(given) == math.prod(expected):
        return False, "The number of elements is right, the axes are not."
    if len(given) != len(expected):
        return False, f"It has another number of axes than {len(given)}."
    return False, f"{sum(a != b for a, b in zip(given, expected, strict=True))} of {len(given)} sizes are not right."


def words(text: str, accepted: Sequence[str]) -> bool:
    """Whether a text is among the accepted ones, ignoring case and extra whitespace."""

    def bare(one: str) -> str:
        return " ".join(one.casefold().split())

    return bare(text) in map(bare, accepted)
