"""Shapes, numbers and tensors in words."""

from __future__ import annotations

import math
from typing import Any

import numpy

from ..protocol import Summary

FEW = 6  # so many elements are shown as numbers


def shape_text(shape: Any) -> str:
    """4×3, or "scalar"."""
    return "×".join(map(str, shape)) if len(shape) else "scalar"


def number_text(x: Any) -> str:
    """Four significant digits, as a reader wants them."""
    if x is None:
        return "–"
    if isinstance(x, (bool, str)):
        return str(x)
    return f"{x:.4g}".replace("-", "−")


def bytes_text(n: int) -> str:
    """1.5 kB: decimal units."""
    for unit in ("B", "kB", "MB", "GB"):
        if abs(n) < 1000 or unit == "GB":
            return f"{n:.0f} {unit}" if unit == "B" else f"{n:.3g} {unit}"
        n /= 1000  # type: ignore[assignment]
    raise AssertionError


def count_text(n: int, noun: str) -> str:
    """1 element, 1,000 elements."""
    return f"{n:,} {noun}{'' if n == 1 else 's'}"


def ordinal(n: int) -> str:
    """2nd, 11th, 32nd."""
    return f"{n}{'th' if n % 100 in (11, 12, 13) else {1: 'st', 2: 'nd', 3: 'rd'}.get(n % 10, 'th')}"


def plain_values(data: numpy.ndarray) -> list:
    """The elements as JSON can carry them: what is not finite becomes text."""

    def one(x: Any) -> Any:
        if isinstance(x, complex):
            return f"{x.real:.4g}{x.imag:+.4g}i"
        return str(x) if isinstance(x, float) and not math.isfinite(x) else x

    return [one(x) for x in data.reshape(-1).tolist()]


def sentence(s: Summary) -> str:
    """The tensor in one line."""
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
