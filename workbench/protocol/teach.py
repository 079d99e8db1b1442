"""Messages about lessons: narrated pages, questions about live tensors, and the cost of forward against reverse mode."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from .base import Formula, ToKernel, ToView

QuestionKind = Literal["value", "shape", "choice", "node", "text"]


@dataclass(frozen=True)
class Question:
    """A question and its state. The right answer is not included before it is answered or revealed."""

    name: str
    prompt: list[Formula]  # blocks of text: ["p", "plain", ["b", "bold"], ["math", ...]]
    asks: QuestionKind
    choices: list[str]
    answer: str  # the last answer; ""
    attempts: int
    state: Literal["open", "wrong", "right", "revealed"]
    feedback: Formula  # on the last answer, one block
    expected: str  # "" until it is revealed
    points: float


@dataclass(frozen=True)
class Page:
    """One page of a lesson: its text, its place in the graph, and what the panel shows beside it."""

    text: list[Formula]  # blocks, as in a question
    node: int  # -1: nowhere
    depth: Literal["", "symbols", "shapes", "numbers"]  # of the rules; "" leaves it as it is
    overlay: str  # "" leaves it as it is
    rule: bool  # whether the text includes the rule of the current step
    question: Question | None


@dataclass(frozen=True)
class Lesson(ToView):
    """All pages of a lesson, and which one is shown."""

    kind: ClassVar[str] = "lesson"
    re: int | None
    recording: str
    title: str
    pages: list[Page]
    at: int  # the current page
    role: Literal["", "presents", "follows"]  # whether a class follows it, or it follows a teacher's
    trouble: str  # why following does not work; ""


@dataclass(frozen=True)
class TurnPage(ToKernel):
    """Show another page; `follow` says whether this view follows the lesson from now on."""

    kind: ClassVar[str] = "turn_page"
    id: int
    to: int  # -1: the page stays
    follow: bool = True


@dataclass(frozen=True)
class AnswerQuestion(ToKernel):
    """Submit an answer as typed or clicked, or reveal the right one. `keep` restores an answer from an earlier session."""

    kind: ClassVar[str] = "answer_question"
    id: int
    name: str
    do: Literal["answer", "reveal", "keep"]
    text: str = ""
    attempts: int = 0  # of the earlier session
    revealed: bool = False


@dataclass(frozen=True)
class Cost:
    """Operation and byte counts, taken while the rules ran."""

    multiplications: int
    additions: int
    others: int  # divisions, exp, comparisons, ...: one for each element
    bytes: int  # read and written by the array operations


@dataclass(frozen=True)
class ModeStep:
    """One node in one pass of one mode."""

    node: int
    op: str
    value: str  # the tangent or the gradient at the node: values if there are few, else shape and norm
    badge: str  # the same for a box: a scalar, or a norm
    cost: Cost  # of this step


@dataclass(frozen=True)
class ModePass:
    """One pass: the seeded element of the input (forward) or of the output (reverse), and the steps."""

    seed: str  # "x[2]"
    steps: list[ModeStep]
    gives: str  # the column or the row of the Jacobian


@dataclass(frozen=True)
class Mode:
    """Forward or reverse mode for the whole Jacobian."""

    name: Literal["forward", "reverse"]
    passes: int  # needed for the whole Jacobian
    each: Cost  # of one pass: the first one
    total: Cost
    shown: list[ModePass]  # the first ones


@dataclass(frozen=True)
class Modes(ToView):
    """The Jacobian of a function from n to m elements, in both modes."""

    kind: ClassVar[str] = "modes"
    re: int | None
    recording: str
    inputs: int
    outputs: int
    forward: Mode
    reverse: Mode
    sentence: str  # which one is cheaper here, and why
    crossover: str  # where that changes
