"""Messages about memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from .base import Buffer, ToKernel, ToView

Category = Literal["parameter", "gradient", "activation", "saved", "optimizer", "input", "temporary"]


@dataclass(frozen=True)
class Holding:
    """One block of memory that is alive, now or after an event."""

    block: int  # its number, for requests about it
    node: int  # -1: not in the graph
    name: str
    shape: list[int]
    dtype: str
    bytes: int
    category: Category
    why: str  # "saved by mul #12 for d_other; held by the variable h"
    site: int
    freed: int  # the event that freed it; -1: still alive
    freed_text: str  # "in the backward step of tanh #5"
    freed_site: int


@dataclass(frozen=True)
class Total:
    """The bytes of one category."""

    category: Category
    now: int
    peak: int  # at the overall peak


@dataclass(frozen=True)
class DeviceBytes:
    """The bytes of the recorded program on one device."""

    device: str  # "cpu", "cuda:0"
    now: int
    peak: int  # its own, which may be reached at another moment than the overall one


@dataclass(frozen=True)
class Span:
    """A range of consecutive events: a phase of the program, or a cell."""

    label: str
    first: int
    last: int  # the event after the last


@dataclass(frozen=True)
class Line:
    """Live bytes after events first..last - 1; for a long range the maximum of each part, so that no peak is lost."""

    first: int
    last: int
    count: int  # of all events
    peak_event: int
    events: Buffer  # float64 (n,)
    seconds: Buffer | None  # float64 (n,): since the recording began; None: not timed
    bands: Buffer  # float64 (n, 7): bytes of each category, in the order of `totals`
    phases: list[Span]
    cells: list[Span]  # empty if there is only one cell


@dataclass(frozen=True)
class Share:
    """The memory used by one op, line or module."""

    label: str
    node: int  # the first of its blocks; -1: none
    site: int
    blocks: int
    made: int  # bytes, all its blocks together, whether or not at the same time
    peak: int  # bytes at the overall peak
    saved: int  # bytes saved for backward


@dataclass(frozen=True)
class Saver:
    """What one node of the tape saves for backward."""

    node: int
    bytes: int
    what: str  # "h for d_input, w for d_other"
    held: bool  # still held


@dataclass(frozen=True)
class Memory(ToView):
    kind: ClassVar[str] = "memory"
    re: int | None
    recording: str
    live: int  # bytes
    peak: int
    peak_node: int  # the node during which the peak was reached; -1: none
    totals: list[Total]
    devices: list[DeviceBytes]  # empty for a program without a GPU
    alone: int  # bytes that only the recording keeps, for viewing
    line: Line
    holdings: list[Holding]  # current ones, largest first, at most 200
    held: int  # their total number
    ops: list[Share]
    lines: list[Share]
    modules: list[Share]
    savers: list[Saver]  # most bytes first
    saving: int  # total number of nodes that save something
    missing: str = ""  # why nothing was recorded


@dataclass(frozen=True)
class AskMemory(ToKernel):
    kind: ClassVar[str] = "ask_memory"
    id: int


@dataclass(frozen=True)
class Window(ToView):
    """The requested part of the timeline."""

    kind: ClassVar[str] = "window"
    re: int | None
    recording: str
    line: Line


@dataclass(frozen=True)
class AskWindow(ToKernel):
    kind: ClassVar[str] = "ask_window"
    id: int
    first: int
    last: int  # the event after the last
    by: Literal["event", "time"] = "event"  # what is evenly spaced if not every event can be sent


@dataclass(frozen=True)
class Moment(ToView):
    """The blocks that were alive after one event."""

    kind: ClassVar[str] = "moment"
    re: int | None
    recording: str
    event: int
    count: int  # of all events
    text: str  # "mul #7 made h"
    node: int
    site: int
    live: int
    holdings: list[Holding]  # largest first, at most 200
    held: int
    rest: int  # bytes of those not listed


@dataclass(frozen=True)
class AskMoment(ToKernel):
    kind: ClassVar[str] = "ask_moment"
    id: int
    event: int  # -1: the peak


@dataclass(frozen=True)
class Chain:
    """One chain of references that keeps a tensor alive, from something the user can name down to the memory."""

    links: list[str]  # "the variable loss", "its graph", "saved by mul #12 for d_other"
    fix: str  # one line of code; "" for none
    advice: str  # what the line does, or what else helps


@dataclass(frozen=True)
class Why(ToView):
    kind: ClassVar[str] = "why"
    re: int | None
    recording: str
    block: int
    node: int
    name: str
    bytes: int
    chains: list[Chain]
    sentence: str  # how far the search went and what it cost, or why there is no answer


@dataclass(frozen=True)
class AskWhy(ToKernel):
    kind: ClassVar[str] = "ask_why"
    id: int
    block: int


@dataclass(frozen=True)
class Prediction:
    """The predicted peak after one change."""

    what: Literal["no_grad", "checkpoint", "half", "batch"]
    label: str  # "checkpoint layers.0"
    node: int  # of the module's first op; -1: the whole program
    peak: int
    ops: int  # that would run a second time
    seconds: float  # that those took; 0: not measured, or none
    note: str


@dataclass(frozen=True)
class Predictions(ToView):
    kind: ClassVar[str] = "predictions"
    re: int | None
    recording: str
    peak: int
    found: list[Prediction]  # the largest gain first


@dataclass(frozen=True)
class AskPredictions(ToKernel):
    kind: ClassVar[str] = "ask_predictions"
    id: int
    node: int = -1  # no_grad and checkpoint around this node's module too


@dataclass(frozen=True)
class Gpu:
    """The current state of one of the kernel's GPUs, in bytes and percent."""

    name: str
    index: int
    used: int  # by arrays
    held: int  # by the pools; what is held and not used is free, but in pieces
    peak: int  # of `used`, since `torch.cuda.reset_peak_memory_stats`; before its first call, the most that was held
    taken: int  # of the device, by all programs
    total: int
    utilisation: int | None  # percent; None: `missing` says why
    missing: str


@dataclass(frozen=True)
class Bytes(ToView):
    """The kernel's memory in a few numbers: cheap enough to be polled."""

    kind: ClassVar[str] = "bytes"
    re: int | None
    newest: str  # the kernel's newest recording; "" if nothing was recorded
    live: int  # of the recorded program, now
    peak: int
    running: bool  # it is being recorded
    resident: int  # main memory of the whole process; 0: unknown
    gpus: list[Gpu]  # the current one first
    waits: Literal["", "pass", "loop"]  # a running cell waits for a view, inside backward() or before a turn of its loop


@dataclass(frozen=True)
class AskBytes(ToKernel):
    kind: ClassVar[str] = "ask_bytes"
    id: int
