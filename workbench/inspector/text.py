"""Shapes, numbers and tensors formatted as text."""

from __future__ import annotations

import math
from typing import Any

import numpy

from ..protocol import Summary

FEW = 6  # elements at most for their values to be listed
NO_NUMBERS = "On the meta device a tensor has a shape but no values."
NOT_YET = "Its gradient has not been computed yet: step on, or run to this node."


def shape_text(shape: Any) -> str:
    """Format a shape: "4×3", or "scalar" for ()."""
    return "×".join(map(str, shape)) if len(shape) else "scalar"


def number_text(x: Any) -> str:
    """Format a number with four significant digits; "–" for None."""
    if x is None:
        return "–"
    if isinstance(x, (bool, str)):
        return str(x)
    return f"{x:.4g}".replace("-", "−")


def bytes_text(n: int) -> str:
    """Format bytes in decimal units: "1.5 kB"."""
    for unit in ("B", "kB", "MB", "GB"):
        if abs(n) < 1000 or unit == "GB":
            return f"{n:.0f} {unit}" if unit == "B" else f"{n:.3g} {unit}"
        n /= 1000  # type: ignore[assignment]
    raise AssertionError


def count_text(n: int, noun: str) -> str:
    """Format a count with its noun: "1 element", "1,000 elements"."""
    return f"{n:,} {noun}{'' if n == 1 else 's'}"


def ordinal(n: int) -> str:
    """Format an ordinal: "2nd", "11th", "32nd"."""
    return f"{n}{'th' if n % 100 in (11, 12, 13) else {1: 'st', 2: 'nd', 3: 'rd'}.get(n % 10, 'th')}"


def plain_values(data: numpy.ndarray) -> list:
    """The elements as JSON values; complex values and floats that are not finite become text."""

    def one(x: Any) -> Any:
        if isinstance(x, complex):
            return f"{x.real:.4g}{x.imag:+.4g}i"
        return str(x) if isinstance(x, float) and not math.isfinite(x) else x

    return [one(x) for x in data.reshape(-1).tolist()]


def sentence(s: Summary) -> str:
    """Summarize the tensor in one line."""
    parts = [f"{s.dtype} {shape_text(s.shape)}"]
    if s.values is not None and s.size:
        parts.append(f"value{'s' if s.size > 1 else ''} {', '.join(number_text(v) for v in s.values)}")
    elif s.min is not None:
        parts.append(f"from {number_text(s.min)} to {number_text(s.max)}, mean {number_text(s.mean)}, std {number_text(s.std)}")
    elif not s.size:
        parts.append("no elements")
    bad = [f"{count} {name}" for name, count in (("NaN", s.nan), ("+Inf", s.pos_inf), ("−Inf", s.neg_inf)) if count]
    if bad:
        parts.append("with " + " and ".join(bad))
    if s.size > FEW and s.zero == s.size:
        parts.append("all zero")
    return ", ".join(parts)
