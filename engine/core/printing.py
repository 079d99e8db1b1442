"""`repr` of tensors, with PyTorch's layout, number format and suffixes.

A tensor of more than `threshold` elements is summarized: `edgeitems` elements at each end of every dimension are shown. All floats of one
tensor share one format: fixed with `precision` digits, whole numbers with a bare point, or scientific if the magnitudes differ widely.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy

from ..backends.batch import Batched
from ..base import dtypes
from .tensor import Tensor, define

__all__ = ["set_printoptions"]


@dataclass
class _Options:
    precision: int = 4
    threshold: float = 1000
    edgeitems: int = 3
    linewidth: int = 80
    sci_mode: bool | None = None


options = _Options()
_PROFILES = {"default": _Options(), "short": _Options(precision=2, edgeitems=2), "full": _Options(threshold=math.inf)}


def set_printoptions(
    precision: int | None = None,
    threshold: float | None = None,
    edgeitems: int | None = None,
    linewidth: int | None = None,
    profile: str | None = None,
    sci_mode: bool | None = None,
) -> None:
    """Set how tensors print: digits after the point, elements above which to summarize, elements at each edge, characters per line.

    `profile` ("default", "short", "full") sets all but `sci_mode` first. `sci_mode` True or False forces or forbids the scientific
    format; with None it depends on the values. Raises ValueError for an unknown profile.
    """
    given = {"precision": precision, "threshold": threshold, "edgeitems": edgeitems, "linewidth": linewidth}
    if profile is not None:
        if profile not in _PROFILES:
            raise ValueError(f"profile must be one of {', '.join(_PROFILES)}, got {profile!r}")
        chosen = _PROFILES[profile]
        for name in given:
            setattr(options, name, getattr(chosen, name))
    for name, value in given.items():
        if value is not None:
            setattr(options, name, value)
    options.sci_mode = sci_mode


class _Numbers:
    """The common format of all values of a tensor."""

    def __init__(self, values: numpy.ndarray):
        self.floating, self.width, self.whole, self.scientific = values.dtype.kind == "f", 1, True, False
        flat = values.ravel()
        if not self.floating:
            self.width = max([1, *(len(str(v)) for v in flat.tolist())])
            return
        flat = flat.astype(numpy.float64)
        told = flat[numpy.isfinite(flat) & (flat != 0)]
        if told.size == 0:
            return
        sizes = abs(told)
        low, high = float(sizes.min()), float(sizes.max())
        self.whole = bool((told == numpy.ceil(told)).all())
        wide = high > 1000 * low or high > 1e8 or low < 1e-4
        self.scientific = wide if options.sci_mode is None else options.sci_mode
        self.width = max(1, *(len(self._text(v)) for v in told.tolist()))

    def _text(self, value: Any) -> str:
        if not self.floating:
            return str(value)
        if self.scientific:
            return f"{value:.{options.precision}e}"
        if self.whole:
            return f"{value:.0f}" + ("." if math.isfinite(value) else "")
        return f"{value:.{options.precision}f}"

    def __call__(self, value: Any) -> str:
        return self._text(value).rjust(self.width)


class _Complex:
    """The format of complex values: one for the real and one for the imaginary parts."""

    def __init__(self, values: numpy.ndarray):
        self.real, self.imag = _Numbers(numpy.real(values)), _Numbers(numpy.imag(values))
        self.width = self.real.width + self.imag.width + 1

    def __call__(self, value: complex) -> str:
        imag = (self.imag(value.imag) + "j").lstrip()
        return self.real(value.real) + ("" if imag[0] in "+-" else "+") + imag


def _edges(array: numpy.ndarray) -> numpy.ndarray:
    """The elements that a summary shows."""
    k = options.edgeitems
    for dim, n in enumerate(array.shape):
        if n > 2 * k:
            array = numpy.take(array, [*range(k), *range(n - k, n)], axis=dim)
    return array


def _nested(array: numpy.ndarray, indent: int, short: bool, text: Any) -> str:
    if array.ndim == 0:
        return text(array.item())
    k = options.edgeitems
    cut = short and array.shape[0] > 2 * k
    if array.ndim == 1:
        values = (array[:k].tolist() if k else []) if cut else array.tolist()
        words = [text(v) for v in values]
        if cut:
            words += [" ..." if k else "...", *(text(v) for v in (array[-k:].tolist() if k else []))]
        per_line = max(1, (options.linewidth - indent) // (text.width + 2))
        lines = [", ".join(words[i : i + per_line]) for i in range(0, len(words), per_line)] or [""]
        return "[" + (",\n" + " " * (indent + 1)).join(lines) + "]"
    n = array.shape[0]
    shown = [*range(k), None, *range(n - k, n)] if cut else range(n)
    parts = ["..." if i is None else _nested(array[i], indent + 1, short, text) for i in shown]
    return "[" + ("," + "\n" * (array.ndim - 1) + " " * (indent + 1)).join(parts) + "]"


def _suffixes(tensor: Tensor) -> list[str]:
    dtype, found = tensor.dtype, []
    if tensor.device.type != "cpu":
        found.append(f"device='{tensor.device}'")
    if tensor.is_meta:
        found.append(f"size={tuple(tensor.shape)}")
        usual = {dtypes.default}
    elif tensor.numel() == 0:
        if tensor.ndim != 1:
            found.append(f"size={tuple(tensor.shape)}")
        usual = {dtypes.default}
    else:
        if not options.edgeitems:
            found.append(f"size={tuple(tensor.shape)}")
        usual = {dtypes.default, dtypes.default.to_complex(), dtypes.int64, dtypes.bool_}
    if dtype not in usual:
        found.append(f"dtype={dtype!r}")
    if tensor.grad_fn is not None:
        found.append(f"grad_fn=<{type(tensor.grad_fn).__name__}>")
    elif tensor.requires_grad:
        found.append("requires_grad=True")
    return found


def tensor_text(tensor: Tensor, name: str = "tensor") -> str:
    """Return the text of `repr(tensor)`."""
    indent = len(name) + 1
    return suffixed(f"{name}({elements_text(tensor, indent)}", _suffixes(tensor), indent)


def elements_text(tensor: Tensor, indent: int) -> str:
    """Return the elements in brackets, with lines after the first indented."""
    if tensor.is_meta:
        return "..."
    array = tensor._host()
    if tensor.dtype is dtypes.bfloat16:
        array = array.astype(numpy.float32)
    if array.size == 0:
        return "[]"
    short = array.size > options.threshold
    numbers = (_Complex if array.dtype.kind == "c" else _Numbers)(_edges(array) if short else array)
    return _nested(array, indent, short, numbers)


def suffixed(text: str, suffixes: list[str], indent: int, newline: bool = False) -> str:
    """Append suffixes and the closing bracket, breaking full lines; with `newline` the first suffix starts a new line."""
    parts = [text]
    length = len(text) - text.rfind("\n") + 1
    for suffix in suffixes:
        if newline or length + len(suffix) + 2 > options.linewidth:
            parts.append(",\n" + " " * indent + suffix)
            length, newline = indent + len(suffix), False
        else:
            parts.append(", " + suffix)
            length += len(suffix) + 2
    return "".join(parts) + ")"


def _repr(self: Tensor) -> str:
    name = type(self).__name__ if self._defined_by_a_program else "tensor"
    return tensor_text(self, name) if self.array.__class__ is not Batched else repr(self.array)


define("__repr__", _repr)
