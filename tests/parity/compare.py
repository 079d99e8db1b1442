"""How far results of the engine are from PyTorch's, in words; None where they agree."""

from __future__ import annotations

from typing import Any

import numpy
import torch
from deviations import TIES
from samples import KNOWN, Call, flat, number

import engine

TOLERANCE = {torch.float32: 1e-4, torch.complex64: 1e-4, torch.float16: 2e-2, torch.bfloat16: 1e-1}  # the others: 1e-6


def differ(expected: Any, found: Any, scale: float = 1.0) -> str | None:
    """What is different, in words, or None."""
    expected, found = flat(expected), flat(found)
    if len(expected) != len(found):
        return f"{len(found)} results, not {len(expected)}"
    for x, y in zip(expected, found, strict=True):
        if not isinstance(x, torch.Tensor):
            plain = isinstance(x, (bool, int, float, complex))
            if (plain or x is None) and (y is None or isinstance(y, engine.Tensor)) and x is not y:
                return f"{y}, not {x}"
            if plain and not (x == y or abs(x - y) < 1e-6 or x != x and y != y):
                return f"{y}, not {x}"
            continue
        if not isinstance(y, engine.Tensor):
            return f"{type(y).__name__}, not a tensor"
        if tuple(x.shape) != tuple(y.shape):
            return f"shape {tuple(y.shape)}, not {tuple(x.shape)}"
        if x.dtype in KNOWN and KNOWN[x.dtype] is not y.dtype:
            return f"dtype {y.dtype}, not {x.dtype}"
        if wrong := far(x, y, scale):
            return wrong
    return None


def differ_but_ties(call: Call, expected: Any, found: Any) -> str | None:
    """As `differ`; of equal elements an op named in TIES may pick any: its indices must lead to the same elements."""
    if call.op.name not in TIES or (told := differ(expected, found)) is None:
        return told if call.op.name in TIES else differ(expected, found)
    *values, indices = flat(expected)
    at, x = engine_index(flat(found)[-1], indices), call.sample.input
    if values and differ(values, flat(found)[:-1]):
        return told
    for d in range(x.ndim):
        if at.ndim == x.ndim and all(n == m for i, (n, m) in enumerate(zip(at.shape, x.shape, strict=True)) if i != d):
            theirs, mine = x.take_along_dim(indices, d), x.take_along_dim(at, d)
        elif at.ndim == x.ndim - 1 and at.shape == x.shape[:d] + x.shape[d + 1 :]:
            theirs, mine = x.take_along_dim(indices.unsqueeze(d), d), x.take_along_dim(at.unsqueeze(d), d)
        else:
            continue
        if torch.equal(theirs, mine):
            return None
    return told


def engine_index(x: engine.Tensor, like: torch.Tensor) -> torch.Tensor:
    return torch.tensor(x.array, dtype=like.dtype)


def far(x: torch.Tensor, y: engine.Tensor, scale: float = 1.0) -> str | None:
    """Where values are further apart than rounding, in words."""
    tolerance = TOLERANCE.get(x.dtype, 1e-6) * scale
    kind = torch.complex128 if x.is_complex() else torch.float64
    a, b = number(x.to(kind)), y.detach().array.astype(numpy.complex128 if x.is_complex() else numpy.float64)
    finite = numpy.abs(a[numpy.isfinite(a)])
    size = max(1e-2, finite.max()) if finite.size else 1.0
    close = numpy.isclose(b, a, rtol=tolerance, atol=tolerance * size, equal_nan=True)
    if close.all():
        return None
    at = tuple(int(i) for i in numpy.argwhere(~close)[0]) if a.ndim else ()
    return f"{b[at]}, not {a[at]}, at {at} and {int((~close).sum())} of {close.size} places"


def same_gradients(theirs: Any, found: Any, scale: float = 10.0) -> str | None:
    for i, (a, b) in enumerate(zip(theirs, found, strict=True)):
        if a is None or b is None:
            rest = number(a) if a is not None else b.array if b is not None else numpy.zeros(())
            if rest.any():
                return f"gradient of input {i} is {'None' if b is None else 'there'}, PyTorch's is {'None' if a is None else 'not'}"
        elif told := far(a, b, scale):
            return f"gradient of input {i}: {told}"
    return None
