"""The memory view as text: memory needed now, blocks alive at the peak, and shares by line, op and module."""

from __future__ import annotations

from typing import Any

from .. import protocol
from ..inspector import bytes_text, shape_text
from ..recording.recording import Recording
from .words import called

TOLD = 15


def text(r: Recording, memory: protocol.Memory, peak: protocol.Moment | None, sites: list[protocol.Site]) -> str:
    """Return everything that the view shows as text."""
    lines = [f"{bytes_text(memory.live)} needed now, {bytes_text(memory.peak)} at the peak" + (f" ({peak.text})" if peak else "")]
    lines += _table(
        ["", "now", "at the peak"],
        [[total.category, bytes_text(total.now), bytes_text(total.peak)] for total in memory.totals if total.now or total.peak],
    )
    if memory.devices:
        lines += _table(["", "now", "at its peak"], [[one.device, bytes_text(one.now), bytes_text(one.peak)] for one in memory.devices])
    if memory.alone:
        lines.append(f"and {bytes_text(memory.alone)} that only the recording holds")
    if memory.holdings:
        lines += ["", f"Needed now ({memory.held} in all):"]
        lines += _holdings(r, memory.holdings, lambda h: h.why)
    if peak is not None and peak.holdings:
        lines += ["", f"Alive at the peak ({peak.held} in all):"]
        lines += _holdings(r, peak.holdings, lambda h: "; ".join(filter(None, [h.why, f"freed {h.freed_text}" if h.freed >= 0 else ""])))
    for title, shares in (("By line", memory.lines), ("By op", memory.ops), ("By module", memory.modules)):
        if shares:
            lines += ["", f"{title}:"]
            lines += _table(["", "at the peak", "made in all", "saved"], [_share(share, sites) for share in shares[:TOLD]])
    return "\n".join(lines)


def _holdings(r: Recording, holdings: list[protocol.Holding], why: Any) -> list[str]:
    head = ["", "bytes", "category", "shape", ""]
    rows = []
    for h in holdings[:TOLD]:
        shape = shape_text(h.shape) if h.dtype else ""
        rows.append([(h.name or called(r, h.node))[:40], bytes_text(h.bytes), h.category, shape, why(h)])
    return _table(head, rows, numbers=(1,))


def _share(share: protocol.Share, sites: list[protocol.Site]) -> list[str]:
    code = f"  {sites[share.site].text[:60]}" if share.site >= 0 else ""
    return [share.label + code, bytes_text(share.peak), bytes_text(share.made), bytes_text(share.saved)]


def _table(head: list[str], rows: list[list[str]], numbers: tuple[int, ...] = (1, 2, 3)) -> list[str]:
    widths = [max(len(row[at]) for row in [head, *rows]) for at in range(len(head))]

    def laid(row: list[str]) -> str:
        cells = (cell.rjust(w) if at in numbers else cell.ljust(w) for at, (cell, w) in enumerate(zip(row, widths, strict=True)))
        return ("  " + "  ".join(cells)).rstrip()

    return [laid(row) for row in [head, *rows]]
