"""`profile`: measure the time and memory of a whole program or of selected steps."""

from __future__ import annotations

import json
import os
import threading
import time
import warnings
from collections.abc import Callable, Iterable
from contextlib import ContextDecorator
from enum import Enum
from typing import Any

from ..base import observe
from ..core import devices
from . import build, trace
from .events import EventList
from .watch import USER, Watch

__all__ = [
    "ProfilerAction",
    "ProfilerActivity",
    "profile",
    "record_function",
    "schedule",
    "supported_activities",
    "tensorboard_trace_handler",
]


class ProfilerActivity(Enum):
    """Kinds of work to time: `CPU` for the program itself, `CUDA` for the GPU work that it launches."""

    CPU = 0
    XPU = 1
    MTIA = 2
    CUDA = 3


class ProfilerAction(Enum):
    """The profiler's action in one step."""

    NONE = 0
    WARMUP = 1
    RECORD = 2
    RECORD_AND_SAVE = 3


_NONE, _WARMUP, _RECORD, _SAVE = ProfilerAction


def supported_activities() -> set[ProfilerActivity]:
    """Return the activities available on this machine."""
    return {ProfilerActivity.CPU} | ({ProfilerActivity.CUDA} if devices.cuda_available() else set())


class record_function(ContextDecorator):
    """Label a block, or calls of a decorated function, in profiles and recordings: `with record_function("loss"):`."""

    def __init__(self, name: str, args: str | None = None) -> None:
        self.name, self.args = name, args
        self._told: list[observe.Observer | None] = []

    def __enter__(self) -> record_function:
        self._told.append(observe.current)
        if (watcher := observe.current) is not None:
            watcher.enter("scope", self.name, None)
        return self

    def __exit__(self, *exc: object) -> None:
        watcher = self._told.pop()
        if watcher is not None and watcher is observe.current:  # the observer may have changed inside the block
            watcher.leave()


def schedule(
    *, wait: int, warmup: int, active: int, repeat: int = 0, skip_first: int = 0, skip_first_wait: int = 0
) -> Callable[[int], ProfilerAction]:
    """Return a function from step to action: cycles of `wait` idle, `warmup` discarded and `active` recorded steps.

    The cycles start after `skip_first` steps and repeat `repeat` times (0: forever). A non-zero `skip_first_wait` skips the first wait.
    Raises AssertionError if an argument is negative or `active` is 0.
    """
    if not (wait >= 0 and warmup >= 0 and active > 0 and repeat >= 0 and skip_first >= 0):
        raise AssertionError(
            f"Invalid profiler schedule arguments. Got {wait=} (need >= 0), {warmup=} (need >= 0), {active=} (need > 0), "
            f"{repeat=} (need >= 0), {skip_first=} (need >= 0)."
        )
    if not warmup:
        warnings.warn("Profiler won't be using warmup, this can skew profiler results", stacklevel=2)
    cycle = wait + warmup + active

    def action(step: int) -> ProfilerAction:
        if step < 0:
            raise AssertionError(f"Step must be non-negative. Got {step}.")
        if step < skip_first:
            return _NONE
        step -= skip_first
        if skip_first_wait:
            step += wait
        if repeat and step // cycle >= repeat:
            return _NONE
        at = step % cycle
        if at < wait:
            return _NONE
        if at < wait + warmup:
            return _WARMUP
        return _SAVE if at == cycle - 1 else _RECORD

    return action


def tensorboard_trace_handler(
    dir_name: str, worker_name: str | None = None, use_gzip: bool = False, use_python_export: bool = False
) -> Callable[[Any], None]:
    """Return an `on_trace_ready` handler that writes each cycle's trace to a folder for TensorBoard's profiler plug-in.

    `worker_name` defaults to the host name and process ID. `use_python_export` has no effect. The handler raises RuntimeError if the
    folder cannot be created.
    """

    def handle(prof: Any) -> None:
        if not os.path.isdir(dir_name):
            try:
                os.makedirs(dir_name, exist_ok=True)
            except OSError as error:
                raise RuntimeError("Can't create directory: " + dir_name) from error
        name = f"{worker_name or trace.worker()}.{time.time_ns()}.pt.trace.json{'.gz' if use_gzip else ''}"
        prof.export_chrome_trace(os.path.join(dir_name, name))

    return handle


class profile:
    """Profile the ops, backward steps, scopes and steps of the current thread: `with profile() as prof: ...`.

    * `activities`: members of ProfilerActivity, by default all available ones. CUDA adds GPU times.
    * `schedule`: selects the steps to record, with `step()` called after each training step; see `schedule()`.
    * `on_trace_ready(prof)`: called at the end of each recorded cycle.
    * `record_shapes`, `profile_memory` (bytes allocated and freed), `with_stack` (call stacks), `with_flops` (of products, convolutions
      and elementwise add and mul), `with_modules` (module calls, as "nn.Module: Linear_0").
    * `acc_events`: keep the events of earlier cycles. `custom_trace_id_callback`: returns the trace ID.

    An observer that is already active, such as a recording of the workbench, still receives all events. `experimental_config` and
    `execution_trace_observer` raise RuntimeError; `post_processing_timeout_s` is ignored.
    """

    def __init__(
        self,
        *,
        activities: Iterable[ProfilerActivity] | None = None,
        schedule: Callable[[int], ProfilerAction] | None = None,
        on_trace_ready: Callable[..., Any] | None = None,
        record_shapes: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        with_flops: bool = False,
        with_modules: bool = False,
        experimental_config: Any = None,
        execution_trace_observer: Any = None,
        acc_events: bool = False,
        use_cuda: bool | None = None,
        custom_trace_id_callback: Callable[[], str] | None = None,
        post_processing_timeout_s: float | None = None,
    ) -> None:
        for name, value in (("experimental_config", experimental_config), ("execution_trace_observer", execution_trace_observer)):
            if value is not None:
                raise RuntimeError(f"profile: {name} configures PyTorch's own tracer; there is none here, so it must be None")
        self.activities = set(activities) if activities is not None else supported_activities()
        if use_cuda is not None:
            warnings.warn("`use_cuda` is deprecated, use `activities` argument instead", FutureWarning, stacklevel=2)
            (self.activities.add if use_cuda else self.activities.discard)(ProfilerActivity.CUDA)
        if not self.activities:
            raise AssertionError("No valid profiler activities found")
        for activity in self.activities:
            if not isinstance(activity, ProfilerActivity):
                raise TypeError(f"profile: activities should be of ProfilerActivity, but got {activity!r}")
        if ProfilerActivity.CUDA in self.activities and not devices.cuda_available():
            warnings.warn("CUDA is not available, disabling CUDA profiling", stacklevel=2)
            self.activities.discard(ProfilerActivity.CUDA)
        self.schedule, self.record_steps = schedule or (lambda step: _RECORD), schedule is not None
        self.on_trace_ready, self.acc_events, self.custom_trace_id_callback = on_trace_ready, acc_events, custom_trace_id_callback
        self.record_shapes, self.profile_memory, self.with_stack = record_shapes, profile_memory, with_stack
        self.with_flops, self.with_modules = with_flops, with_modules
        self.use_device = "cuda" if ProfilerActivity.CUDA in self.activities else None
        self.step_num, self.current_action = 0, self.schedule(0)
        self._metadata: dict[str, Any] = {}
        self._watch: Watch | None = None
        self._events: EventList | None = None
        self._step: record_function | None = None
        self._trace_id = ""

    # -- life cycle --------------------------------------------------------------------------------------------------------------

    def __enter__(self) -> profile:
        self.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.stop()

    def start(self) -> None:
        """Start profiling, with the action for step 0."""
        self._turn(None, self.current_action)
        self._begin_step()

    def stop(self) -> None:
        """Stop profiling, keep what is being recorded and call `on_trace_ready`."""
        self._end_step()
        self._turn(self.current_action, None)

    def step(self) -> None:
        """Mark the end of a step and the start of the next."""
        self._end_step()
        before = self.current_action
        self.step_num += 1
        self.current_action = self.schedule(self.step_num)
        self._turn(before, self.current_action)
        self._begin_step()

    def set_custom_trace_id_callback(self, callback: Callable[[], str] | None) -> None:
        """Set the callback that returns the trace ID."""
        self.custom_trace_id_callback = callback

    def get_trace_id(self) -> str:
        """Return the ID of the current trace."""
        return self._trace_id

    def _turn(self, before: ProfilerAction | None, now: ProfilerAction | None) -> None:
        """Change from one step's action to the next one's; None means not started yet, or stopped."""
        if before is _RECORD and now in (_NONE, _WARMUP):
            warnings.warn("Incorrect schedule: RECORD followed by NONE or WARMUP", stacklevel=3)
        recording = before in (_RECORD, _SAVE)
        if recording and (before is _SAVE or now not in (_RECORD, _SAVE)):
            self._end()
            if (before is _SAVE or now is None) and self.on_trace_ready is not None:
                try:
                    self.on_trace_ready(self)
                except BaseException:
                    self.current_action = _NONE  # recording has ended, and leaving the block must not end it again
                    raise
            recording = False
        if now in (_RECORD, _SAVE) and not recording:
            self._begin()

    def _begin(self) -> None:
        if self._watch is not None:  # restarted
            self._watch.stop()
        self._trace_id = self.custom_trace_id_callback() if self.custom_trace_id_callback else f"{time.time_ns():032X}"
        cuda = self.use_device is not None
        self._watch = Watch(cuda, self.record_shapes, self.profile_memory, self.with_stack, self.with_flops, self.with_modules)
        self._thread = threading.get_native_id()
        if self._events is None or not self.acc_events:
            self._began, self._began_us = time.perf_counter_ns(), time.time_ns() / 1e3
            self._events = None
        self._watch.start()

    def _end(self) -> None:
        watch, self._watch = self._watch, None
        if watch is None:
            raise RuntimeError("profile: it was stopped without having been started")
        watch.stop()
        found = build.events(watch, self._began, self._thread, self.use_device, self.profile_memory, self.with_flops)
        if self._events is None:
            self._events = found
            found.export = self.export_chrome_trace
        else:
            self._events.extend(found)

    def _begin_step(self) -> None:
        if self.record_steps and self._watch is not None:
            self._watch.opens(f"ProfilerStep#{self.step_num}", USER)

    def _end_step(self) -> None:
        if self.record_steps and self._watch is not None:
            self._watch.closes(f"ProfilerStep#{self.step_num}")

    # -- results -------------------------------------------------------------------------------------------------------------------

    def events(self) -> EventList:
        """Return all calls in order of their start. Raises AssertionError until a recording is complete."""
        if self._events is None:
            raise AssertionError(
                "the profiler has recorded nothing yet: it has to be started and stopped, or a cycle of its schedule to end"
            )
        return self._events

    def key_averages(
        self, group_by_input_shape: bool = False, group_by_stack_n: int = 0, group_by_overload_name: bool = False
    ) -> EventList:
        """Average the calls by name, and optionally by input shapes or stack. See `EventList.key_averages`."""
        return self.events().key_averages(group_by_input_shape, group_by_stack_n, group_by_overload_name)

    def export_chrome_trace(self, path: str) -> None:
        """Write a trace for chrome://tracing or Perfetto, compressed if the name ends with ".gz"."""
        names = ("profile_memory", "record_shapes", "with_stack", "with_modules", "with_flops")
        settings = {name: int(getattr(self, name)) for name in names} | {"trace_id": self._trace_id}
        trace.write(path, trace.trace(self.events(), self._began_us, settings, self._metadata))

    def export_stacks(self, path: str, metric: str = "self_cpu_time_total") -> None:
        """Write the call stacks with their times, for flame graphs. Requires `with_stack=True`."""
        self.events().export_stacks(path, metric)

    def add_metadata(self, key: str, value: str) -> None:
        """Add a string to the trace's metadata."""
        self._metadata[key] = value

    def add_metadata_json(self, key: str, value: str) -> None:
        """Add a JSON value to the trace's metadata. Raises ValueError if `value` is not valid JSON."""
        self._metadata[key] = json.loads(value)

    preset_metadata_json = add_metadata_json
