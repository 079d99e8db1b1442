"""Export profiles as JSON for chrome://tracing, Perfetto and TensorBoard's plug-in."""

from __future__ import annotations

import gzip
import json
import os
import socket
from pathlib import Path
from typing import Any

_CATEGORIES = {7: "user_annotation", 8: "python_function"}


def trace(events: list, began_us: float, settings: dict[str, Any], metadata: dict[str, Any]) -> dict[str, Any]:
    """Build the trace, with times in microseconds and arrows from each op to its backward step."""
    pid = os.getpid()
    threads = sorted({event.thread for event in events})
    told: list[dict] = [
        {"ph": "M", "name": "process_name", "ts": began_us, "pid": pid, "tid": 0, "args": {"name": "python"}},
        {"ph": "M", "name": "process_labels", "ts": began_us, "pid": pid, "tid": 0, "args": {"labels": "CPU"}},
        {"ph": "M", "name": "process_sort_index", "ts": began_us, "pid": pid, "tid": 0, "args": {"sort_index": pid}},
    ]
    told += [
        {"ph": "M", "name": "thread_name", "ts": began_us, "pid": pid, "tid": tid, "args": {"name": f"thread {tid} (python)"}}
        for tid in threads
    ]
    forward: dict[int, Any] = {}
    for number, event in enumerate(events):
        start = began_us + event.time_range.start
        if event.name == "[memory]":
            told.append(
                {
                    **{"ph": "i", "s": "t", "cat": "cpu_instant_event", "name": "[memory]", "pid": pid, "tid": event.thread, "ts": start},
                    "args": {"Bytes": event.self_cpu_memory_usage, "Ev Idx": number},
                }
            )
            continue
        args: dict[str, Any] = {"External id": event.id, "Ev Idx": number}
        if event.input_shapes:
            args |= {"Input Dims": event.input_shapes, "Input type": event.input_types}
        if event.sequence_nr >= 0:
            args["Sequence number"] = event.sequence_nr
        if event.flops:
            args["Total Flops"] = event.flops
        if event.stack:
            args["Call stack"] = ";".join(event.stack)
        if event.device_time_total:
            args["Device time (us)"] = event.device_time_total
        place = {"pid": pid, "tid": event.thread}
        category = _CATEGORIES.get(event.scope, "cpu_op")
        told.append({"ph": "X", "cat": category, "name": event.trace_name, **place, "ts": start, "dur": event.cpu_time_total, "args": args})
        if event.scope == 0 and event.sequence_nr >= 0:
            forward[event.sequence_nr] = place, start
        elif event.scope == 1 and event.sequence_nr in forward:
            arrow = {"cat": "fwdbwd", "name": "fwdbwd", "id": event.sequence_nr}
            (source, begun) = forward.pop(event.sequence_nr)
            told += [{"ph": "s", **arrow, **source, "ts": begun}, {"ph": "f", "bp": "e", **arrow, **place, "ts": start}]
    return {"schemaVersion": 1, "deviceProperties": [], **settings, **metadata, "displayTimeUnit": "ms", "traceEvents": told}


def write(path: str, content: dict[str, Any]) -> None:
    """Write the trace as JSON, compressed if the name ends with ".gz"."""
    text = json.dumps({**content, "traceName": str(path)})
    if str(path).endswith(".gz"):
        with gzip.open(path, "wt", encoding="utf-8") as file:
            file.write(text)
    else:
        Path(path).write_text(text, encoding="utf-8")


def worker() -> str:
    """Return the default worker name of this process."""
    return f"{socket.gethostname()}_{os.getpid()}"
