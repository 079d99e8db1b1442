"""Memory as it travels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from .base import Buffer, Fact, ToKernel, ToView


@dataclass(frozen=True)
class Holding:
    """One live array in the memory view."""

    node: int  # -1: not in the graph
    name: str
    shape: list[int]
    dtype: str
    bytes: int
    category: Literal["parameter", "gradient", "activation", "saved", "optimizer", "input", "other"]
    why: str  # "saved by mul for d_other; held by the variable h"
    site: int


@dataclass(frozen=True)
class Memory(ToView):
    kind: ClassVar[str] = "memory"
    re: int | None
    recording: str
    live: int  # bytes
    peak: int
    peak_node: int  # the node during which the peak was reached; -1: none
    timeline: Buffer  # float64 (n, 2): event number, live bytes after it
    by_category: list[Fact]
    holdings: list[Holding]  # largest first, at most 200


@dataclass(frozen=True)
class AskMemory(ToKernel):
    kind: ClassVar[str] = "ask_memory"
    id: int


@dataclass(frozen=True)
class Gpu:
    """The GPU of the kernel at this moment, in bytes and percent."""

    name: str
    index: int
    used: int  # by arrays
    held: int  # by CuPy's pool; what is held and not used is free, but in pieces
    taken: int  # of the device, by all programs
    total: int
    utilisation: int | None  # percent; None: `missing` says why
    missing: str


@dataclass(frozen=True)
class Bytes(ToView):
    """The kernel's memory in a few numbers: cheap enough to be asked for again and again."""

    kind: ClassVar[str] = "bytes"
    re: int | None
    recording: str  # the kernel's newest; "" when nothing was recorded
    live: int  # of the recorded program, now
    peak: int
    running: bool  # it is being recorded
    resident: int  # main memory of the whole process; 0: unknown
    gpu: Gpu | None


@dataclass(frozen=True)
class AskBytes(ToKernel):
    kind: ClassVar[str] = "ask_bytes"
    id: int
