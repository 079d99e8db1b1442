"""Messages about what-ifs and local derivatives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from .base import Buffer, ToKernel, ToView
from .tensor import Summary


@dataclass(frozen=True)
class Picture:
    """A tensor as a small heat map: the last axis as columns, all others as rows. NaN and Inf are preserved, even in a pooled block."""

    label: str
    summary: Summary
    rows: int  # before pooling
    cols: int
    cells: Buffer | None  # float32 (r, c); None: no elements


@dataclass(frozen=True)
class Term:
    """One part of an equation between tensors: the sign before it ("", "∘", "@", "="), then the tensor."""

    sign: str
    picture: Picture


@dataclass(frozen=True)
class SubStep:
    """A change of shape or dtype inside one backward step."""

    kind: Literal["sum", "spread", "cast"]
    sentence: str
    axes: list[int]
    before: Picture
    after: Picture


@dataclass(frozen=True)
class LocalPart:
    """The derivative of one op with respect to one of its inputs."""

    slot: int
    input: str
    target: int  # the input's node; -1: unknown
    kind: Literal["scalar", "elementwise", "matrix", "row", ""]  # "": there is none, `missing` says why
    structure: str  # "diagonal", "dense", ...: what the Jacobian looks like
    sentence: str
    number: float | str | None  # for a scalar
    rows: int  # of the Jacobian
    cols: int
    picture: Picture | None
    chosen: int  # the row shown, if the whole is too large
    equation: list[Term]  # upstream ∘ local = contribution, if the pass has taken this step
    sub_steps: list[SubStep]
    missing: str


@dataclass(frozen=True)
class Local(ToView):
    """The local derivatives of a node."""

    kind: ClassVar[str] = "local"
    re: int | None
    recording: str
    node: int
    place: int  # the step of the pass; 0: none
    shape: list[int]  # of the result
    forward: list[Term]  # the op's inputs and its result, if all are known
    parts: list[LocalPart]
    missing: str


@dataclass(frozen=True)
class AskLocal(ToKernel):
    kind: ClassVar[str] = "ask_local"
    id: int
    node: int
    place: int = 0
    chosen: int = 0  # flat index of the result element for which the row is wanted


@dataclass(frozen=True)
class Slopes(ToView):
    """The local derivative on each edge between scalars, column by column."""

    kind: ClassVar[str] = "slopes"
    re: int | None
    recording: str
    source: list[int]
    target: list[int]
    value: list[float | str]  # ∂target/∂source; an op that takes one scalar twice has two; "nan", "inf" as text
    missing: str


@dataclass(frozen=True)
class AskSlopes(ToKernel):
    kind: ClassVar[str] = "ask_slopes"
    id: int


@dataclass(frozen=True)
class Addend:
    """The gradient that one consumer contributes to a node."""

    consumer: int  # -1: the start of the pass
    name: str
    place: int  # the consumer's step
    state: Literal["arrived", "to come", "none", "let go"]
    picture: Picture | None


@dataclass(frozen=True)
class FanOut(ToView):
    """The gradient of a node as a sum of addends."""

    kind: ClassVar[str] = "fan_out"
    re: int | None
    recording: str
    node: int
    index: int  # the current step of the pass
    addends: list[Addend]
    total: Picture | None
    sentence: str


@dataclass(frozen=True)
class AskFanOut(ToKernel):
    kind: ClassVar[str] = "ask_fan_out"
    id: int
    node: int


@dataclass(frozen=True)
class PathPart:
    """One path from the loss, or all paths that end with these nodes."""

    nodes: list[int]
    inputs: list[int]  # the input by which each node was entered, if it takes the same tensor twice; else -1
    paths: str  # the number of paths, as 12 or 2.66e+95
    share: float | None  # of the gradient; all shares add up to 1
    norm: float | None


@dataclass(frozen=True)
class Paths(ToView):
    """How much of a node's gradient came through each path from the loss."""

    kind: ClassVar[str] = "paths"
    re: int | None
    recording: str
    node: int
    sentence: str
    gradient: Summary
    listed: list[PathPart]  # the largest first
    rest: int  # entries not listed
    rest_share: float
    note: str


@dataclass(frozen=True)
class AskPaths(ToKernel):
    kind: ClassVar[str] = "ask_paths"
    id: int
    node: int
    most: int = 12


@dataclass(frozen=True)
class CheckedInput:
    input: str
    outcome: Literal["agrees", "disagrees", "not told"]
    how: str  # "all 12 elements", "4 random directions"
    absolute: float | None
    relative: float | None
    why: str


@dataclass(frozen=True)
class Checked(ToView):
    """A node's rule checked against central differences of its forward."""

    kind: ClassVar[str] = "checked"
    re: int | None
    recording: str
    node: int
    outcome: Literal["agrees", "disagrees", "not told"]
    sentence: str
    tolerance: str
    inputs: list[CheckedInput]


@dataclass(frozen=True)
class CheckRule(ToKernel):
    kind: ClassVar[str] = "check_rule"
    id: int
    node: int


@dataclass(frozen=True)
class Beside:
    """A gradient in the base run and in another run."""

    node: int
    name: str
    base: Summary | None
    other: Summary | None
    difference: float | str | None  # ‖other − base‖ / ‖base‖; "inf" if only the base is zero


@dataclass(frozen=True)
class ForkPart:
    """A fork of the pass."""

    name: str
    node: int  # where the gradient was changed
    place: int
    edit: str
    written: bool  # its gradients are in .grad now
    parameters: list[Beside]
    here: Beside | None  # the gradient at the node of the current step
    differences: list[float | str | None]  # for each step of the plan


@dataclass(frozen=True)
class Forks(ToView):
    """All forks of the pass."""

    kind: ClassVar[str] = "forks"
    re: int | None
    recording: str
    index: int
    forks: list[ForkPart]
    note: str


@dataclass(frozen=True)
class ForkPass(ToKernel):
    """List the forks, make one, or act on the one with that name."""

    kind: ClassVar[str] = "fork"
    id: int
    do: Literal["list", "make", "delete", "write", "undo"] = "list"
    name: str = ""
    node: int = -1
    place: int = 0
    slot: int = -1  # which input's contribution; -1: the gradient that arrives
    index: list[int] | None = None
    text: str = ""


@dataclass(frozen=True)
class Edited:
    """A tensor that can be edited, with its elements as a picture."""

    node: int
    name: str
    shape: list[int]
    picture: Picture


@dataclass(frozen=True)
class Reran(ToView):
    """The result of re-running the recorded program with other values."""

    kind: ClassVar[str] = "reran"
    re: int | None
    recording: str
    changes: list[str]
    base: Summary
    loss: Summary
    parameters: list[Beside]
    notes: list[str]


@dataclass(frozen=True)
class Rerun(ToKernel):
    kind: ClassVar[str] = "rerun"
    id: int
    node: int
    text: str
    index: list[int] | None = None


@dataclass(frozen=True)
class AskEdit(ToKernel):
    """Request what can be edited at a step: the gradient that arrives, the contribution to an input, or a value."""

    kind: ClassVar[str] = "ask_edit"
    id: int
    node: int
    what: Literal["upstream", "contribution", "value"] = "upstream"
    place: int = 0
    slot: int = -1


@dataclass(frozen=True)
class Editable(ToView):
    kind: ClassVar[str] = "editable"
    re: int | None
    recording: str
    node: int
    what: Literal["upstream", "contribution", "value"]
    slot: int
    edited: Edited | None
    missing: str
