"""Messages about the backward pass and its steps."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Literal

from .base import Buffer, Rules, ToKernel, ToView
from .tensor import Summary


@dataclass(frozen=True)
class Contribution:
    """The gradient that one backward step contributed to one of the node's inputs."""

    target: int  # node id of that input
    input: str  # the op's name for it: "input", "weight"
    gradient: Summary  # this contribution, after unbroadcasting
    total: Summary  # the input's gradient so far, this contribution included
    addends: int  # number of contributions summed in `total`, including this one
    unbroadcast: list[int]  # axes summed because the input was broadcast there
    rule: Rules


@dataclass(frozen=True)
class Step:
    """One step of the backward pass: node `node` turned its output's gradient into gradients of its inputs."""

    index: int  # 1-based position in the pass
    node: int
    op: str  # "accumulate" where a leaf receives its .grad
    forward: Rules  # what the op computed; at a leaf, what the step does to its .grad
    upstream: Summary  # the gradient that arrived at the node
    contributions: list[Contribution]
    site: int
    sentence: str  # the whole step in one sentence, for the live region
    before: Summary | None = None  # .grad of the leaf before the step; None: there was none, or the node is not a leaf
    after: Summary | None = None  # .grad after it; None: the node is not a leaf, or its gradient goes to the caller of grad()


@dataclass(frozen=True)
class Stepper(ToView):
    """A backward pass to step through: the order of its nodes, and its current position."""

    kind: ClassVar[str] = "stepper"
    recording: str
    mode: Literal["live", "paused", "record"]  # paused: a running cell waits inside backward(); record: nothing can be recomputed
    plan: list[int]  # node ids in the order of the pass; len(plan) steps
    index: int  # steps done
    failed: bool  # an error ended the pass at this step; the sentence says which
    sentence: str
    stopped: str  # a sentence about the breakpoint that stopped the pass at this step; "" for none
    runs: bool  # a running cell is on its way to the next breakpoint
    number: int  # the index of this pass
    passes: list[str]  # the root of each pass that the code has run: "loss"


@dataclass(frozen=True)
class Offer(ToView):
    """Nodes at which a backward pass can begin, if the code has run none that could be stepped through."""

    kind: ClassVar[str] = "offer"
    recording: str
    roots: list[int]  # scalars, newest first


@dataclass(frozen=True)
class Stepped(ToView):
    """The pass is now at `index` completed steps; `steps` are those that the view has not received yet."""

    kind: ClassVar[str] = "stepped"
    re: int | None  # the request this answers
    recording: str
    index: int
    total: int
    steps: list[Step]
    done: bool
    failed: bool  # as in Stepper
    sentence: str
    stopped: str  # as in Stepper
    runs: bool  # as in Stepper


@dataclass(frozen=True)
class AskNorms(ToKernel):
    """Request the gradient norms of steps that the view has not received, to label boxes and edges."""

    kind: ClassVar[str] = "ask_norms"
    id: int
    first: int  # 1-based, inclusive; at most 1,000 steps are answered
    last: int


@dataclass(frozen=True)
class Norms(ToView):
    """The gradients of a range of steps as one number each: a scalar's value, else the L2 norm. NaN and Inf are sent as such."""

    kind: ClassVar[str] = "norms"
    re: int | None
    recording: str
    number: int  # index of the pass
    first: int
    came: Buffer  # uint8, one per step: 0 no gradient arrived, 1 the number is a norm, 2 it is a scalar's value
    upstream: Buffer  # float32, one for each step
    step: Buffer  # int32: for each contribution, the index of its step
    target: Buffer  # int32: the receiving node
    scalar: Buffer  # uint8: 1 if the numbers are a scalar's value
    gradient: Buffer  # float32: the contribution
    total: Buffer  # float32: the node's gradient so far


@dataclass(frozen=True)
class StepTo(ToKernel):
    """Move the pass. `run` goes to the next breakpoint, `back` to the previous one, `stop` ends such a run, `pass` shows another pass,
    and `begin` begins one at a node that was offered.
    """

    kind: ClassVar[str] = "step"
    id: int
    do: Literal["next", "previous", "first", "last", "index", "node", "into", "out", "run", "back", "stop", "pass", "begin"]
    to: int = -1  # the index, the node or the pass, for those four
    by: Literal["op", "module", "parameter", "iteration"] = "op"  # how far next and previous go
    then: list[ToKernel] = field(default_factory=list)  # further requests, answered in the same message once the pass has moved
