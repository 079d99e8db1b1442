"""Export of op timings in Chrome's trace format, for chrome://tracing and ui.perfetto.dev."""

from __future__ import annotations

import json
from typing import Any

from ..graph.graph import Graph
from ..graph.timing import BACKWARD, NOT_TIMED, Times
from ..inspector import shape_text
from ..recording.recording import Recording
from .privacy import without_paths

_THREADS = {0: "forward", 1: "backward"}


def text(recording: Recording, graph: Graph, paths: bool = False) -> str:
    """Return a trace as JSON, with one complete event per op and per backward step. Raises RuntimeError if nothing was timed."""
    times = Times(recording)
    if not len(times):
        raise RuntimeError(NOT_TIMED)
    events: list[dict[str, Any]] = [
        {"ph": "M", "name": "process_name", "pid": 1, "args": {"name": recording.title or "Gradient Workbench"}},
        *({"ph": "M", "name": "thread_name", "pid": 1, "tid": tid, "args": {"name": name}} for tid, name in _THREADS.items()),
    ]
    for at in range(len(times)):
        row, back = int(times.row[at]), bool(times.lane[at] == BACKWARD)
        events.append(
            {
                "ph": "X", "pid": 1, "tid": int(back), "cat": _THREADS[int(back)], "name": times.op[at] + (" backward" if back else ""),
                "ts": round(float(times.begun[at]) * 1e6, 3), "dur": round(float(times.took[at]) * 1e6, 3),
                "args": _about(recording, graph, row),
            }
        )  # fmt: skip
    whole = {"displayTimeUnit": "ms", "traceEvents": events}
    return json.dumps(whole if paths else without_paths(whole), ensure_ascii=False, allow_nan=False) + "\n"


def _about(r: Recording, graph: Graph, row: int) -> dict[str, Any]:
    if row < 0:
        return {}
    site = graph.site(row)
    at = None if site < 0 else graph.sites[site]
    line = {} if at is None else {"line": f"{at.cell or at.file}:{at.line}", "code": at.text}
    return {"node": row, "name": r.names.get(row, ""), "shape": shape_text(list(r.shape[row])), "bytes": r.bytes[row], **line}
