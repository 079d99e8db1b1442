"""Format profiler events as PyTorch's text table."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

_WIDTH, _GAP = 12, "  "
_FLOPS = ("FLOPs", "KFLOPs", "MFLOPs", "GFLOPs", "TFLOPs", "PFLOPs")
_UNITS = {"s": 1e6, "ms": 1e3, "us": 1.0}


def time_text(us: float, unit: str | None = None) -> str:
    """Format microseconds, as in "2.500ms", in the given unit or the largest that fits."""
    unit = unit or ("s" if us >= 1e6 else "ms" if us >= 1e3 else "us")
    return f"{us / _UNITS[unit]:.3f}{unit}"


def memory_text(nbytes: int) -> str:
    """Format bytes, as in "1.33 KB" or "-400 B"."""
    for unit, size in (("GB", 1 << 30), ("MB", 1 << 20), ("KB", 1 << 10)):
        if abs(nbytes) >= size:
            return f"{nbytes / size:.2f} {unit}"
    return f"{nbytes} B"


def share_text(part: float, whole: float) -> str:
    """Format a fraction as a percentage, as in "12.50%"."""
    return f"{part * 100 / whole:.2f}%" if whole else "NaN"


class _Column(NamedTuple):
    header: str
    cell: Callable[[Any], str]
    width: int = _WIDTH
    left: bool = False

    def shown(self, text: str) -> str:
        return text.ljust(self.width) if self.left else text.rjust(self.width)


def table(
    events: list,
    row_limit: int,
    widths: tuple[int | None, int | None, int | None],
    header: str | None,
    top_level_only: bool,
    unit: str | None,
    device: str | None,
    memory: bool,
    flops: bool,
) -> str:
    """Format the events; `widths` limits the name, shape and source columns. Returns an empty string if there are no events."""
    if not events:
        return ""
    if unit is not None and unit not in _UNITS:
        raise ValueError(f'time_unit should be "s", "ms" or "us", but got {unit!r}')
    columns = _columns(events, widths, unit, device, memory, flops)
    line = "".join("-" * column.width + _GAP for column in columns)
    out = []
    if header is not None:
        out += ["=" * (len(line) - len(_GAP)), header]
    if top_level_only:
        out += ["=" * (len(line) - len(_GAP)), "This report only display top-level ops statistics"]
    out += [line, _row(columns, [column.header for column in columns]), line]
    shown = [event for event in events if not top_level_only or event.cpu_parent is None]
    places = columns[-1] if columns[-1].left else columns[-2] if len(columns) > 1 and columns[-2].left else None
    for event in shown if row_limit < 0 else shown[:row_limit]:
        out.append(_row(columns, [column.cell(event) for column in columns]))
        if places is not None:
            for place in [*event.stack[1:], ""]:
                out.append(_row(columns, [_end(place, c.width) if c is places else "" for c in columns]))
    out += [line, f"Self CPU time total: {time_text(sum(e.self_cpu_time_total for e in events), unit)}"]
    if device and any(e.self_device_time_total > 0 for e in events):
        out.append(f"Self {device.upper()} time total: {time_text(sum(e.self_device_time_total for e in events), unit)}")
    return "\n".join(out) + "\n"


def _row(columns: list[_Column], cells: list[str]) -> str:
    return "".join(column.shown(cell) + _GAP for column, cell in zip(columns, cells, strict=True))


def _end(text: str, width: int) -> str:
    return text if len(text) <= width else "..." + text[len(text) - width + 3 :]


def _fitting(lengths: Any, most: int | None) -> int:
    width = max(lengths) + 4
    return width if most is None else min(width, most)


def _columns(
    events: list, widths: tuple[int | None, int | None, int | None], unit: str | None, device: str | None, memory: bool, flops: bool
) -> list[_Column]:
    names, shapes, places = widths
    cpu, gpu = (sum(getattr(e, f"self_{kind}_time_total") for e in events) for kind in ("cpu", "device"))

    def name(e: Any) -> str:
        return e.key if names is None or len(e.key) < names - 3 else e.key[: names - 3] + "..."

    columns = [
        _Column("Name", name, _fitting((len(e.key) for e in events), names)),
        _Column("Self CPU %", lambda e: share_text(e.self_cpu_time_total, cpu)),
        _Column("Self CPU", lambda e: time_text(e.self_cpu_time_total, unit)),
        _Column("CPU total %", lambda e: share_text(e.cpu_time_total, cpu)),
        _Column("CPU total", lambda e: time_text(e.cpu_time_total, unit)),
        _Column("CPU time avg", lambda e: time_text(e.cpu_time, unit)),
    ]
    if device and gpu > 0:
        columns += [
            _Column(f"Self {device.upper()}", lambda e: time_text(e.self_device_time_total, unit)),
            _Column(f"Self {device.upper()} %", lambda e: share_text(e.self_device_time_total, gpu)),
            _Column(f"{device.upper()} total", lambda e: time_text(e.device_time_total, unit)),
            _Column(f"{device.upper()} time avg", lambda e: time_text(e.device_time, unit)),
        ]
    if memory:
        columns += [
            _Column("CPU Mem", lambda e: memory_text(e.cpu_memory_usage)),
            _Column("Self CPU Mem", lambda e: memory_text(e.self_cpu_memory_usage)),
        ]
        if device and any(e.self_device_memory_usage > 0 for e in events):
            columns += [
                _Column(f"{device.upper()} Mem", lambda e: memory_text(e.device_memory_usage)),
                _Column(f"Self {device.upper()} Mem", lambda e: memory_text(e.self_device_memory_usage)),
            ]
    columns.append(_Column("# of Calls", lambda e: str(e.count)))
    if any(e.input_shapes for e in events):
        width = _fitting((len(str(e.input_shapes)) for e in events), shapes)
        columns.append(_Column("Input Shapes", lambda e: str(e.input_shapes)[:width], width))
    if any(e.stack for e in events):
        width_of_places = _fitting((len(line) for e in events for line in e.stack), places)
        columns.append(
            _Column("Source Location", lambda e: _end(e.stack[0], width_of_places) if e.stack else "", width_of_places, True)
        )  # fmt: skip
    counted = [e.flops for e in events if e.flops > 0]
    if flops and counted:
        step = min(int(math.log10(min(counted)) / 3), len(_FLOPS) - 1)
        columns.append(_Column(f"Total {_FLOPS[step]}", lambda e: f"{e.flops / 10 ** (3 * step):8.3f}" if e.flops > 0 else "--"))
    return columns
