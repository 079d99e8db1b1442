"""Rich display of tensors and modules in a notebook: a line of facts, a small picture, a small table. Their text is unchanged."""

from __future__ import annotations

from html import escape
from typing import Any

import numpy

from engine.core.tensor import Tensor
from engine.nn import Module

from .. import inspector, programs

STRIP = 24  # maximum rows and columns of the small heat map
ROWS = 24  # maximum number of a module's parameters listed


def register(shell: Any) -> None:
    """Register the HTML formatters for tensors and modules in this shell."""
    formatter = shell.display_formatter.formatters["text/html"]
    formatter.for_type(Tensor, html)
    formatter.for_type(Module, module_html)
    formatter.for_type_by_name("engine.compiler.explain", "Explanation", programs.html)  # its module is not imported without JAX


def html(tensor: Tensor) -> str:
    """The tensor as HTML; its values are in the text form beside it."""
    summary = inspector.summary(tensor.array)
    facts = [f"{summary.dtype} {inspector.shape_text(summary.shape)}", str(tensor.device)]
    if tensor.grad_fn is not None:
        facts.append(f"grad_fn {tensor.grad_fn.name()}")
    elif tensor.requires_grad:
        facts.append("requires_grad")
    head = " · ".join(escape(fact) for fact in facts)
    words = escape(summary.text.partition(", ")[2])
    parts = [
        f'<div style="font-family:monospace;line-height:1.4"><b>{escape(type(tensor).__name__)}</b> <span style="opacity:.75">{head}</span>'
    ]
    if words:
        parts.append(f"<br>{words}")
    drawn = strip(tensor.array)
    if drawn:
        parts.append(f"<br>{drawn}")
    shown = numbers(tensor)
    if shown:
        parts.append(f'<pre style="margin:.2em 0 0">{escape(shown)}</pre>')
    return "".join(parts) + "</div>"


def module_html(module: Module) -> str:
    """The module as HTML: a table of its parameters, shortened in the middle; its structure is in the text form beside it."""
    found = list(module.named_parameters())
    known = [p for _, p in found if not _waits(p)]
    size, nbytes = sum(p.array.size for p in known), sum(p.array.nbytes for p in known)
    buffers = sum(1 for _ in module.named_buffers())
    facts = [
        f"{inspector.count_text(size, 'parameter')} in {inspector.count_text(len(found), 'tensor')}, {inspector.bytes_text(nbytes)}",
        *([inspector.count_text(buffers, "buffer")] if buffers else []),
        "training" if module.training else "evaluating",
    ]
    head = f'<b>{escape(type(module).__name__)}</b> <span style="opacity:.75">{escape(" · ".join(facts))}</span>'
    if not found:
        return f'<div style="font-family:monospace;line-height:1.4">{head}</div>'
    cut = len(found) - ROWS if len(found) > ROWS else 0
    rows = [_parameter_row(name, p) for name, p in found]
    if cut:
        rows[ROWS // 2 : ROWS // 2 + cut] = [f'<tr><td colspan="4" style="opacity:.75;text-align:left">… {cut} more …</td></tr>']
    titles = "".join(f'<th style="text-align:{side}">{title}</th>' for title, side in _COLUMNS)
    body = f'<table style="margin:.3em 0"><thead><tr>{titles}</tr></thead><tbody>{"".join(rows)}</tbody></table>'
    return f'<div style="font-family:monospace;line-height:1.4">{head}{body}</div>'


_COLUMNS = (("parameter", "left"), ("shape", "left"), ("elements", "right"), ("gradient", "left"))


def _waits(parameter: Any) -> bool:
    """Whether it is lazy: its shape is set by the first call."""
    return hasattr(parameter, "materialize")


def _parameter_row(name: str, parameter: Any) -> str:
    if _waits(parameter):
        cells = (name, "given by the first call", "", "")
    else:
        grad = "frozen" if not parameter.requires_grad else "none yet" if parameter._grad is None else "there"
        cells = (name, f"{inspector.shape_text(parameter.array.shape)} {parameter.array.dtype.name}", f"{parameter.array.size:,}", grad)
    return "".join(
        ["<tr>", *(f'<td style="text-align:{side}">{escape(text)}</td>' for text, (_, side) in zip(cells, _COLUMNS, strict=True)), "</tr>"]
    )


def numbers(tensor: Tensor) -> str:
    """The elements as text if they are few enough to read."""
    return "" if tensor.array.size <= inspector.FEW or tensor.array.size > 1000 else repr(tensor)


def strip(array: Any) -> str:
    """A small heat map (2-D) or sparkline (1-D) as SVG: blue below zero, orange above; a heat map marks values that are not finite."""
    data = inspector.host(array)
    if data.ndim not in (1, 2) or data.size <= inspector.FEW or data.dtype.kind not in "fiub":
        return ""
    if data.ndim == 1:
        return _sparkline(data.astype(numpy.float64))
    rows, cols = (numpy.arange(min(n, STRIP)) * n // min(n, STRIP) for n in data.shape)
    small = data[numpy.ix_(rows, cols)].astype(numpy.float64)
    finite = numpy.isfinite(small)
    top = float(numpy.abs(small[finite]).max()) if finite.any() else 0.0
    side = 8
    height, width = small.shape
    cells = []
    for (i, j), value in numpy.ndenumerate(small):
        if numpy.isfinite(value):
            hue, strength = ("#3b6fd4" if value < 0 else "#e07b28"), abs(value) / top if top else 0.0
            cells.append(f'<rect x="{j * side}" y="{i * side}" width="{side}" height="{side}" fill="{hue}" fill-opacity="{strength:.2f}"/>')
        else:
            cells.append(f'<text x="{j * side + 4}" y="{i * side + 7}" font-size="8" text-anchor="middle" fill="#c00">×</text>')
    of = "" if small.size == data.size else f" ({height}×{width} of the elements)"
    size = f'width="{width * side}" height="{height * side}"'
    return f'<svg {size} role="img" aria-label="Heat map{of}" style="border:1px solid #8888">{"".join(cells)}</svg>'


def _sparkline(values: numpy.ndarray) -> str:
    n = len(values)
    shown = values[numpy.arange(min(n, 120)) * n // min(n, 120)]
    finite = numpy.isfinite(shown)
    if not finite.any():
        return ""
    low, high = float(shown[finite].min()), float(shown[finite].max())
    span = (high - low) or 1.0
    step = 240 / max(len(shown) - 1, 1)
    points = " ".join(f"{i * step:.1f},{28 - 24 * (v - low) / span:.1f}" for i, v in enumerate(shown) if numpy.isfinite(v))
    return (
        f'<svg width="240" height="32" role="img" aria-label="Values in order">'
        f'<polyline points="{points}" fill="none" stroke="#3b6fd4" stroke-width="1.2"/></svg>'
    )
