"""Convert the entries of a `Watch` to an `EventList`, with parents, relative times and GPU times."""

from __future__ import annotations

from typing import Any

from ..core import devices
from .events import EventList, FunctionEvent, Interval
from .watch import Entry, Watch


def events(watch: Watch, began: int, thread: int, device: str | None, memory: bool, flops: bool) -> EventList:
    """Return the events of `watch` in order of their start, timed in microseconds since `began` (a clock reading in nanoseconds).

    Synchronizes with the GPU if its work was timed.
    """
    made: dict[int, FunctionEvent] = {}
    kept = {id(entry) for entry in watch.entries}
    for entry in watch.entries:
        event = FunctionEvent(
            len(made) + 1,
            "ProfilerStep*" if entry.name.startswith("ProfilerStep#") else entry.name,  # one key for all steps
            Interval((entry.start - began) / 1e3, (max(entry.end, entry.start) - began) / 1e3),
            thread,
            trace_name=entry.name,
            **_more(entry, device),
        )
        made[id(entry)] = event
    for entry in watch.entries:
        around = entry.parent
        while around is not None and id(around) not in kept:  # skip scopes that are not recorded
            around = around.parent
        if around is not None:
            made[id(entry)].cpu_parent = made[id(around)]
            made[id(around)].cpu_children.append(made[id(entry)])
    return EventList(made.values(), device, memory, flops)


def _more(entry: Entry, device: str | None) -> dict[str, Any]:
    on_gpu = sum(devices.gpu.seconds_between(*marks) for marks in entry.marks) * 1e6
    return {
        "use_device": device, "input_shapes": entry.shapes, "input_types": entry.dtypes, "stack": entry.stack, "scope": entry.scope,
        "sequence_nr": entry.sequence, "flops": entry.flops, "cpu_memory": entry.memory[0], "device_memory": entry.memory[1],
        "device_time": on_gpu,
    }  # fmt: skip
