"""Messages about breakpoints of the backward pass."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from .base import ToKernel, ToView


@dataclass(frozen=True)
class Breakpoint:
    """A place where the pass stops; with `when`, only if that condition holds."""

    number: int
    where: Literal["node", "op", "name", "module", "any"]
    what: str  # "mul", "layers.*.weight"; for a node, its description; "" for any
    when: str  # "norm > 1e3"; "" for always
    on: bool
    places: int  # number of matching nodes in this graph; -1: anywhere


@dataclass(frozen=True)
class Breakpoints(ToView):
    """All breakpoints of the kernel. Those that match only a few nodes are also flagged there."""

    kind: ClassVar[str] = "breakpoints"
    re: int | None
    recording: str
    breakpoints: list[Breakpoint]


@dataclass(frozen=True)
class Break(ToKernel):
    """Add, remove, enable or disable breakpoints. The answer lists all of them."""

    kind: ClassVar[str] = "break"
    id: int
    do: Literal["list", "toggle", "add", "remove", "on", "off", "clear"]
    number: int = -1  # the breakpoint for remove, on and off; the node for toggle, and for add with where "node"
    where: Literal["node", "op", "name", "module", "any"] = "any"
    what: str = ""
    when: str = ""
