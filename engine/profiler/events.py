"""Profiler results in PyTorch's form: events for single calls, averages by name, and lists of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import Enum
from typing import Any

from .table import table, time_text

__all__ = ["DeviceType", "EventList", "FunctionEvent", "FunctionEventAvg", "Interval"]


class DeviceType(Enum):
    """The device that launched the work; GPU times belong to the launching ops."""

    CPU = 0
    CUDA = 1


class Interval:
    """The time from `start` to `end`, in microseconds since the profiler started."""

    def __init__(self, start: float, end: float) -> None:
        self.start, self.end = start, end

    def elapsed_us(self) -> float:
        """Return the duration in microseconds."""
        return self.end - self.start

    def __repr__(self) -> str:
        return f"Interval(start={self.start}, end={self.end})"


class _Timed:
    """Times common to events and averages, in microseconds, per call and as text. `cuda_` is an alias for `device_`."""

    count: int
    cpu_time_total: float
    device_time_total: float
    self_cpu_time_total: float
    self_device_time_total: float
    use_device: str | None
    node_id, is_async, is_remote, is_legacy, device_type, device_index, overload_name = -1, False, False, False, DeviceType.CPU, 0, ""

    @property
    def cpu_time(self) -> float:
        """CPU time per call."""
        return self.cpu_time_total / self.count if self.count else 0.0

    @property
    def device_time(self) -> float:
        """GPU time per call."""
        return self.device_time_total / self.count if self.count else 0.0

    def __getattr__(self, name: str) -> Any:
        if name.endswith("_str") and "time" in name:
            return time_text(getattr(self, name[:-4]))
        if "cuda" in name and not name.startswith("__"):
            return getattr(self, name.replace("cuda", "device"))
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")


class FunctionEvent(_Timed):
    """One call of an op, a backward step or a user-defined scope."""

    def __init__(self, number: int, name: str, time_range: Interval, thread: int, **more: Any) -> None:
        self.id, self.name, self.time_range, self.thread, self.fwd_thread = number, name, time_range, thread, thread
        self.trace_name = more.pop("trace_name", name)
        self.count, self.use_device = 1, more.pop("use_device", None)
        self.cpu_parent: FunctionEvent | None = None
        self.cpu_children: list[FunctionEvent] = []
        self.input_shapes: list = more.pop("input_shapes", [])
        self.input_types: list[str] = more.pop("input_types", [])
        self.stack: list[str] = more.pop("stack", [])
        self.scope, self.sequence_nr, self.flops = more.pop("scope", 0), more.pop("sequence_nr", -1), more.pop("flops", 0)
        self.self_cpu_memory_usage, self.self_device_memory_usage = more.pop("cpu_memory", 0), more.pop("device_memory", 0)
        self.self_device_time_total = more.pop("device_time", 0.0)
        self.is_user_annotation = self.scope == 7
        self.concrete_inputs: list = []
        self.kwinputs: dict = {}
        self.kernels: list = []

    @property
    def key(self) -> str:
        """The key by which calls are grouped."""
        return self.name

    @property
    def cpu_time_total(self) -> float:  # type: ignore[override]
        """CPU time, including nested calls."""
        return self.time_range.elapsed_us()

    @property
    def self_cpu_time_total(self) -> float:  # type: ignore[override]
        """CPU time, excluding nested calls."""
        return max(0.0, self.cpu_time_total - sum(child.cpu_time_total for child in self.cpu_children))

    @property
    def device_time_total(self) -> float:  # type: ignore[override]
        """GPU time, including nested calls."""
        return self.self_device_time_total + sum(child.device_time_total for child in self.cpu_children)

    @property
    def cpu_memory_usage(self) -> int:
        """Bytes allocated minus bytes freed, including nested calls."""
        return self.self_cpu_memory_usage + sum(child.cpu_memory_usage for child in self.cpu_children)

    @property
    def device_memory_usage(self) -> int:
        """Bytes allocated minus bytes freed on the GPU, including nested calls."""
        return self.self_device_memory_usage + sum(child.device_memory_usage for child in self.cpu_children)

    def __repr__(self) -> str:
        return (
            f"<FunctionEvent id={self.id} name={self.name} cpu_time={self.cpu_time_str} start_us={self.time_range.start:.3f} "
            f"end_us={self.time_range.end:.3f} cpu_children={[child.id for child in self.cpu_children]} thread={self.thread} "
            f"input_shapes={self.input_shapes} cpu_memory_usage={self.cpu_memory_usage} seq_nr={self.sequence_nr}>"
        )


_SUMS = ("cpu_time_total", "self_cpu_time_total", "device_time_total", "self_device_time_total", "cpu_memory_usage", "device_memory_usage")
_SUMS += ("self_cpu_memory_usage", "self_device_memory_usage", "count", "flops")


class FunctionEventAvg(_Timed):
    """The sum of all calls with one key."""

    def __init__(self) -> None:
        self.key: str | None = None
        self.input_shapes: Any = ""
        self.stack: list[str] = []
        self.scope, self.use_device, self.is_user_annotation = None, None, False
        self.cpu_parent: Any = None
        self.cpu_children: list[FunctionEvent] = []
        for name in _SUMS:
            setattr(self, name, 0)

    def add(self, other: Any) -> FunctionEventAvg:
        """Add a call or another average with the same key."""
        if self.key is None:
            self.key, self.scope, self.use_device, self.is_user_annotation = (
                other.key,
                other.scope,
                other.use_device,
                other.is_user_annotation,
            )
            self.input_shapes, self.stack, self.cpu_parent = other.input_shapes, other.stack, other.cpu_parent
        if not isinstance(other, (FunctionEvent, FunctionEventAvg)) or other.key != self.key:
            raise AssertionError(f"expected a call of {self.key!r}, but got {other!r}")
        for name in _SUMS:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        return self

    __iadd__ = add

    def __repr__(self) -> str:
        return (
            f"<FunctionEventAvg key={self.key} self_cpu_time={self.self_cpu_time_total_str} cpu_time={self.cpu_time_str} "
            f" self_cuda_time={self.self_device_time_total_str} cuda_time={self.device_time_str} input_shapes={self.input_shapes} "
            f"cpu_memory_usage={self.cpu_memory_usage} cuda_memory_usage={self.device_memory_usage}>"
        )


class EventList(list):
    """A list of calls in order of their start, or of averages."""

    def __init__(
        self, events: Iterable = (), use_device: str | None = None, profile_memory: bool = False, with_flops: bool = False
    ) -> None:
        super().__init__(events)
        self._use_device, self._profile_memory, self._with_flops = use_device, profile_memory, with_flops
        self.export: Callable[[str], None] | None = None  # writes the trace of these events

    def __str__(self) -> str:
        return self.table()

    @property
    def self_cpu_time_total(self) -> float:
        """Total CPU time in microseconds, without counting nested calls twice."""
        return sum(event.self_cpu_time_total for event in self)

    def table(
        self,
        sort_by: str | None = None,
        row_limit: int = 100,
        max_src_column_width: int | None = 75,
        max_name_column_width: int | None = 55,
        max_shapes_column_width: int | None = 80,
        header: str | None = None,
        top_level_events_only: bool = False,
        time_unit: str | None = None,
    ) -> str:
        """Format the events as PyTorch's table; a `row_limit` of -1 shows all rows.

        `sort_by` sorts in descending order by "cpu_time", "cuda_time", "cpu_time_total", "cuda_time_total", "self_cpu_time_total",
        "self_cuda_time_total", "cpu_memory_usage", "cuda_memory_usage", "self_cpu_memory_usage", "self_cuda_memory_usage" or "count";
        anything else raises AttributeError. `time_unit` ("s", "ms" or "us") sets one unit for all times.
        """
        events = list(self)
        if sort_by is not None:
            events.sort(key=lambda event: getattr(event, sort_by.replace("cuda", "device")), reverse=True)
        widths = (max_name_column_width, max_shapes_column_width, max_src_column_width)
        return table(
            events, row_limit, widths, header, top_level_events_only, time_unit, self._use_device, self._profile_memory, self._with_flops
        )

    def key_averages(
        self, group_by_input_shapes: bool = False, group_by_stack_n: int = 0, group_by_overload_name: bool = False
    ) -> EventList:  # fmt: skip
        """Average the calls by name, and optionally by input shapes or by the innermost `group_by_stack_n` stack frames.

        `group_by_overload_name` has no effect, since ops have no overloads.
        """
        found: dict[tuple, FunctionEventAvg] = {}
        for event in self:
            key = (event.key, event.is_user_annotation, str(event.input_shapes) if group_by_input_shapes else "")
            found.setdefault((*key, *event.stack[:group_by_stack_n]), FunctionEventAvg()).add(event)
        for average in found.values():
            average.stack = average.stack[:group_by_stack_n]
            if not group_by_input_shapes:
                average.input_shapes = ""
        return EventList(found.values(), self._use_device, self._profile_memory, self._with_flops)

    def total_average(self) -> FunctionEventAvg:
        """Return one average over all calls, with the key "Total"."""
        total = FunctionEventAvg()
        for event in self:
            for name in _SUMS:
                setattr(total, name, getattr(total, name) + getattr(event, name))
        total.key = "Total"
        return total

    @property
    def supported_export_stacks_metrics(self) -> list[str]:
        """The metrics that `export_stacks` can write."""
        return ["self_cpu_time_total", "self_cuda_time_total", "self_xpu_time_total", "self_privateuse1_time_total"]

    def export_stacks(self, path: str, metric: str) -> None:
        """Write one line per event for flame graphs: its stack, outermost frame first and separated by ";", and microseconds."""
        if metric not in self.supported_export_stacks_metrics:
            raise ValueError(f"metric should be one of: {self.supported_export_stacks_metrics}")
        blanks = str.maketrans(" ;\t\n", "____")
        with open(path, "w", encoding="utf-8") as file:
            for event in self:
                value = getattr(event, metric.replace("cuda", "device").replace("xpu", "device").replace("privateuse1", "device"))
                if event.stack and int(value) > 0:
                    file.write(";".join(line.translate(blanks) for line in reversed(event.stack)) + f" {int(value)}\n")

    def export_chrome_trace(self, path: str) -> None:
        """Write a trace for chrome://tracing or Perfetto. Raises RuntimeError for averages, which have no timestamps."""
        if self.export is None:
            raise RuntimeError("export_chrome_trace: averages have no trace; take that of the profiler, or its events()")
        self.export(path)
