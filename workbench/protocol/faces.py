"""What stands on a node's box beside op and shape: its value if it is one number, its health, what it saves, whose memory it shares."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from .base import ToKernel, ToView


@dataclass(frozen=True)
class AskFaces(ToKernel):
    """Of these nodes: those that the view draws and does not know yet."""

    kind: ClassVar[str] = "ask_faces"
    id: int
    nodes: list[int]


@dataclass(frozen=True)
class NodeFace:
    """One node. Nothing here is computed by an op."""

    node: int
    value: int | float | bool | str | None  # of a scalar; "nan", "inf", "-inf"; None: no scalar, or its value is gone
    health: list[int]  # how many elements are NaN, infinite, negative, zero, positive; empty: not known
    saves: list[str]  # what the tape keeps of this op for its backward: "x (input 0)", "out (the result)"
    kept_inputs: list[int]  # the slots of the inputs among them
    kept_result: bool  # whether the result is
    base: int  # the node whose memory this one is a view of; -1: memory of its own
    version: int  # how often that memory had been written in place


@dataclass(frozen=True)
class Faces(ToView):
    kind: ClassVar[str] = "faces"
    re: int | None
    recording: str
    faces: list[NodeFace]
