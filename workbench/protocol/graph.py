"""Messages about the graph (nodes, edges, sites and groups), and the first requests of every view."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from .base import Site, ToKernel, ToView

View = Literal["graph", "tensor", "model", "memory", "time", "difference", "checks", "lesson", "program"]  # what a view opens on


@dataclass(frozen=True)
class Group:
    """A box that contains nodes and other groups. A fold contains adjacent siblings of equal structure."""

    id: int
    parent: int  # -1: the top
    kind: Literal["module", "loop", "iteration", "cell", "scope", "function", "fold"]
    name: str  # "layers.0", "t", "In [3]"
    label: str  # the label of the closed box: "Linear", "Block x12, same weights"
    count: int = 1  # number of siblings in a fold, or of iterations in a loop


@dataclass(frozen=True)
class Nodes:
    """The graph's nodes, one list per column. A node's id is its row number; inputs always have smaller ids."""

    op: list[str]  # "matmul"; "" for a tensor that no recorded op made
    kind: list[Literal["op", "parameter", "leaf", "input", "constant"]]  # leaf: a tensor with requires_grad that is no Parameter
    name: list[str]  # the user's name for the result ("hidden", "layers.0.weight") or ""
    group: list[int]  # innermost group; -1: none
    shape: list[list[int]]
    dtype: list[str]
    device: list[str]  # "cuda:0"; "" for the CPU
    bytes: list[int]  # of the result
    saved: list[int]  # bytes that the tape keeps for this node's backward
    grad: list[bool]  # the result requires grad
    site: list[int]  # row in `sites`; -1: unknown
    note: list[str]  # "in place", "view of #3", the error message of the op that failed; else ""


@dataclass(frozen=True)
class Edges:
    """The data flow, one list per column: the result of `source` is input number `slot` of `target`."""

    source: list[int]
    target: list[int]
    slot: list[int]


@dataclass(frozen=True)
class Graph(ToView):
    """The graph, or its next rows: columns start at node `start`; edges, sites and groups are appended too. `start` 0 replaces all."""

    kind: ClassVar[str] = "graph"
    recording: str  # one name per recording; messages of another recording are stale
    title: str
    start: int
    first_edge: int
    first_site: int
    first_group: int
    nodes: Nodes
    edges: Edges
    sites: list[Site]
    groups: list[Group]
    live: bool  # True while the recorded code still runs
    dropped: int  # ops that were not recorded
    left_out: str  # why, in a sentence; "" when there are none
    root: int  # the node in question (the loss); -1: none
    # tensor: about `root` alone; memory, time, checks: opens there; difference: of 2; program: of XLA, without values
    view: View = "graph"


@dataclass(frozen=True)
class Problem(ToView):
    """An error, with a sentence that says what went wrong and what to do."""

    kind: ClassVar[str] = "problem"
    re: int | None
    sentence: str
    node: int  # where, or -1


LevelName = Literal["student", "full"]


@dataclass(frozen=True)
class Level(ToView):
    """The level of detail that the code requests of all views."""

    kind: ClassVar[str] = "level"
    level: LevelName


@dataclass(frozen=True)
class Ready(ToKernel):
    """A view has opened or reloaded: request everything that it should show."""

    kind: ClassVar[str] = "ready"
    id: int


@dataclass(frozen=True)
class ToSidePanel(ToKernel):
    """Request that the notebook's side panel show this view's session from now on."""

    kind: ClassVar[str] = "to_side_panel"
    id: int


@dataclass(frozen=True)
class InSidePanel(ToView):
    kind: ClassVar[str] = "in_side_panel"
    re: int | None
