"""`engine.autograd.profiler`: PyTorch's older profiler, without steps or schedules."""

from __future__ import annotations

from typing import Any

from ..core import devices
from . import profiler as newer
from .events import DeviceType, EventList, FunctionEvent
from .profiler import ProfilerActivity, record_function

__all__ = [
    "DeviceType",
    "EventList",
    "FunctionEvent",
    "ProfilerActivity",
    "emit_itt",
    "emit_nvtx",
    "kineto_available",
    "profile",
    "record_function",
]


def kineto_available() -> bool:
    """Return True: `profile` is always available, though it is not built on Kineto."""
    return True


class profile:
    """Time the ops and backward steps in a `with` block; a no-op if `enabled=False`. See `engine.profiler.profile` for the arguments.

    `use_cuda` and `use_device="cuda"` also time GPU work; `use_kineto` and `use_cpu` are ignored. Raises RuntimeError for another device,
    for `experimental_config`, and if results are read before the block has ended.
    """

    def __init__(
        self,
        enabled: bool = True,
        *,
        use_cuda: bool = False,
        use_device: str | None = None,
        record_shapes: bool = False,
        with_flops: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        with_modules: bool = False,
        use_kineto: bool = False,
        use_cpu: bool = True,
        experimental_config: Any = None,
        acc_events: bool = False,
        custom_trace_id_callback: Any = None,
    ) -> None:
        if use_device not in (None, "cuda"):
            raise RuntimeError(f"profile: use_device should be None or 'cuda', but got {use_device!r}")
        activities = [ProfilerActivity.CPU] + ([ProfilerActivity.CUDA] if use_cuda or use_device == "cuda" else [])
        self.enabled, self._running = enabled, False
        self._profile = newer.profile(
            activities=activities, record_shapes=record_shapes, with_flops=with_flops, profile_memory=profile_memory, with_stack=with_stack,
            with_modules=with_modules, experimental_config=experimental_config, acc_events=acc_events,
            custom_trace_id_callback=custom_trace_id_callback,
        )  # fmt: skip
        self.record_shapes, self.with_flops, self.profile_memory = record_shapes, with_flops, profile_memory
        self.with_stack, self.with_modules, self.use_device = with_stack, with_modules, self._profile.use_device

    def __enter__(self) -> profile | None:  # type: ignore[return]
        if not self.enabled:
            return None
        if self._running:
            raise RuntimeError("Profiler context manager is not reentrant")
        self._running = True
        self._profile.start()
        return self

    def __exit__(self, *exc: object) -> bool:
        if self.enabled:
            self._profile.stop()
            self._running = False
        return False

    @property
    def function_events(self) -> EventList:
        """All recorded calls. Raises RuntimeError before the block has ended."""
        if self._running or self._profile._events is None:
            raise RuntimeError("Profiler didn't finish running")
        return self._profile.events()

    @property
    def self_cpu_time_total(self) -> float:
        """Total CPU time in microseconds, without counting nested calls twice."""
        return self.function_events.self_cpu_time_total

    def table(self, sort_by: str | None = None, row_limit: int = 100, **options: Any) -> str:
        """Return `EventList.table` of all calls."""
        return self.function_events.table(sort_by, row_limit, **options)

    def key_averages(
        self, group_by_input_shape: bool = False, group_by_stack_n: int = 0, group_by_overload_name: bool = False
    ) -> EventList:  # fmt: skip
        """Return `EventList.key_averages` of all calls."""
        return self.function_events.key_averages(group_by_input_shape, group_by_stack_n, group_by_overload_name)

    def total_average(self) -> Any:
        """Return one average over all calls."""
        return self.function_events.total_average()

    def export_chrome_trace(self, path: str) -> None:
        """Write a trace for chrome://tracing or Perfetto."""
        self.function_events.export_chrome_trace(path)

    def export_stacks(self, path: str, metric: str = "self_cpu_time_total") -> None:
        """Write the call stacks with their times. Requires `with_stack=True`."""
        self.function_events.export_stacks(path, metric)

    def __str__(self) -> str:
        return (
            str(self.function_events) if self._profile._events is not None and not self._running else "<unfinished torch.autograd.profile>"
        )

    __repr__ = __str__


class _Emitting:
    """Base class of unsupported contexts that would emit a marker for every op to a vendor's profiler."""

    name = ""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        instead = "engine.cuda.nvtx.range around the lines to see" if devices.cuda_available() else "profile"
        raise RuntimeError(f"{self.name}: ops of this engine do not mark themselves in other profilers; use {instead}")


class emit_nvtx(_Emitting):
    """Raises RuntimeError: ops emit no NVTX ranges."""

    name = "emit_nvtx"


class emit_itt(_Emitting):
    """Raises RuntimeError: ops emit no ITT ranges."""

    name = "emit_itt"
