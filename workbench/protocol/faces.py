"""Messages about what a node's box shows besides op and shape: a scalar's value, health, saved tensors, shared memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from .base import ToKernel, ToView


@dataclass(frozen=True)
class AskFaces(ToKernel):
    """Request the faces of these nodes: those that the view draws and has not received yet."""

    kind: ClassVar[str] = "ask_faces"
    id: int
    nodes: list[int]


@dataclass(frozen=True)
class NodeFace:
    """What the box of one node shows. Nothing here is computed by running an op."""

    node: int
    value: int | float | bool | str | None  # of a scalar; "nan", "inf", "-inf"; None: not a scalar, or its value is gone
    health: list[int]  # counts of NaN, infinite, negative, zero and positive elements; empty: unknown
    saves: list[str]  # what the tape saves for this op's backward: "x (input 0)", "out (the result)"
    kept_inputs: list[int]  # the slots of the saved inputs
    kept_result: bool  # whether the result is saved
    base: int  # the node of which this is a view; -1: it owns its memory
    version: int  # how many times that memory had been written in place


@dataclass(frozen=True)
class Faces(ToView):
    kind: ClassVar[str] = "faces"
    re: int | None
    recording: str
    faces: list[NodeFace]
