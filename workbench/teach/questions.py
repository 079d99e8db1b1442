"""Questions about live tensors: the right answer is computed when an answer is judged, and shown once it is known or revealed."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Any, Literal, get_args

import numpy

from engine.core.tensor import Tensor

from .. import protocol
from ..protocol import QuestionKind
from ..recording.recording import Recording
from . import judge, sheet
from .markup import blocks, inline, plain

Where = tuple[Recording, Any]  # a recording, and the pass that is shown, or None


class Question:
    """One question. `answer` is the right answer, or a function that returns it when needed."""

    def __init__(
        self, prompt: str, answer: Any, kind: QuestionKind = "value", *, id: str = "", choices: Sequence[str] = (), tolerance: float = 1e-3,
        points: float = 1.0, why: str = "", parts: Callable[[], Sequence[Any]] = tuple, ops: Callable[[], Collection[str]] = tuple,
        at: Any = None, step: Any = None,
    ) -> None:  # fmt: skip
        if kind not in get_args(QuestionKind):
            raise ValueError(f"The kind of a question is one of {', '.join(get_args(QuestionKind))}, not {kind!r}")
        if kind == "choice" and len(choices) < 2:
            raise ValueError("A question of kind 'choice' needs choices=[...], at least two")
        if not tolerance >= 0:
            raise ValueError(f"The tolerance is a share of the largest value and not negative, got {tolerance!r}")
        if not points >= 0:
            raise ValueError(f"Points are not negative, got {points!r}")
        if (
            kind == "choice"
            and not callable(answer)
            and (not isinstance(answer, (str, int)) or answer not in (*choices, *range(len(choices))))
        ):
            raise ValueError(f"The answer {answer!r} is none of the choices {', '.join(map(repr, choices))}, nor the number of one")
        if kind == "value" and (isinstance(answer, Tensor) or not callable(answer)):
            judge.array_of(answer)
        self.prompt, self._answer, self.kind = blocks(prompt), answer, kind
        self.name = id or sheet.invented(prompt)
        self.choices = [str(one) for one in choices]
        self.tolerance, self.points, self.why, self.at = tolerance, points, why, at
        self.step = step  # where a lesson moves the pass for this question; None: it stays
        self._about = judge.About(lambda: [judge.array_of(one) for one in parts()], ops)
        self.where: Callable[[], Where] | None = None  # the recording and the pass of the question
        self.told = self.because = ""  # about the last answer: a sentence, and `why` if it was right
        self.expected = ""
        self.right = False
        sheet.current.add(self)

    @property
    def given(self) -> sheet.Given:
        """The answers given so far."""
        return sheet.current.given(self.name)

    @property
    def feedback(self) -> str:
        """What the last answer was told, as text."""
        return plain(self._feedback())

    def _feedback(self) -> protocol.Formula:
        return ["p", f"{self.told} " if self.because else self.told, *inline(self.because)]

    # -- judging --------------------------------------------------------------------------------------------------------------

    def answer(self, text: Any) -> str:
        """Answer with `text`, or a value; returns a sentence that says whether it is right, and if not, perhaps why. The answer is kept."""
        text = text if isinstance(text, str) else _typed(text)
        if self.given.revealed:
            return "The answer has been revealed; it counts no more."
        if self.right:
            return self.feedback
        try:
            right, told = self.judge(text)
        except judge.Unreadable as error:
            self.told = str(error)
            return self.feedback
        given = sheet.current.given(self.name)
        sheet.current.keep(self.name, sheet.Given(text, given.attempts + 1, False, right=right))
        self._is(right, told)
        return self.feedback

    def reveal(self) -> str:
        """Return the right answer; later answers no longer count. Raises ValueError before the first answer: predict, then reveal."""
        if not self.given.attempts:
            raise ValueError("Answer first: a prediction, even a wrong one, is what one learns from. Then the answer can be revealed.")
        self.expected = self.known()
        self.give_up()
        return self.expected

    def give_up(self) -> None:
        """Count no later answers, unless the right one has been given."""
        if not self.right:
            sheet.current.keep(self.name, replace(self.given, revealed=True))

    def bring_back(self, text: str, attempts: int, revealed: bool) -> None:
        """Restore the notebook's copy from an earlier session, unless this session already has an answer."""
        if self.given.attempts or attempts < 1:
            return
        sheet.current.keep(self.name, sheet.Given(text, attempts, revealed))
        self.restore()

    def restore(self) -> None:
        """Judge again the answer from an earlier session."""
        given = self.given
        if not given.attempts:
            return
        if given.edited:
            self.told = "The answer was edited in the file and counts no more. Answer again."
            return
        try:
            right, told = self.judge(given.answer)
            self._is(right, told)
            if given.right is not right:
                sheet.current.keep(self.name, replace(given, right=right))
        except judge.Unreadable as error:
            self.told = str(error)
        if given.revealed:
            self.right, self.expected = False, self.known()

    def _is(self, right: bool, told: str) -> None:
        self.right = right
        self.told, self.because = told, self.why if right else ""
        self.expected = self.known() if right else ""

    def judge(self, text: str) -> tuple[bool, str]:
        """Whether a text is right, and a sentence. Raises Unreadable if it is not an answer of this kind."""
        if not text.strip():
            raise judge.Unreadable("Type an answer first.")
        expected = self._computed()
        if self.kind == "value":
            return judge.value(text, expected, self.tolerance, self._about)
        if self.kind == "shape":
            return judge.dims(text, expected)
        if self.kind == "node":
            right = self._row(text) in expected
        else:
            right = judge.words(text, expected)
        return right, "Right." if right else "Not right."

    def known(self) -> str:
        """The right answer as text."""
        expected = self._computed()
        if self.kind == "value":
            return judge.shown(expected)
        if self.kind == "shape":
            return str(expected)
        if self.kind == "node":
            return " or ".join(self._called(row) for row in expected)
        return expected[0]

    def _computed(self) -> Any:
        found: Any
        try:
            found = self._answer() if callable(self._answer) and not isinstance(self._answer, Tensor) else self._answer
        except RuntimeError as error:  # such as: the graph was freed
            raise judge.Unreadable(f"The right answer could not be computed: {error}") from error
        if found is None:
            raise judge.Unreadable("The requested value does not exist yet. Has the code before it run, and backward()?")
        if self.kind == "value":
            return judge.array_of(found)
        if self.kind == "shape":
            return tuple(int(n) for n in getattr(found, "shape", found))
        if self.kind == "choice":
            return [self.choices[found] if isinstance(found, int) else str(found)]
        if self.kind == "text":
            return [found] if isinstance(found, str) else [str(one) for one in found]
        return self._rows(found)

    # -- nodes ----------------------------------------------------------------------------------------------------------------

    def _place(self) -> Where:
        if self.where is None:
            raise judge.Unreadable("The question is about a node of a graph, and no graph is shown with it.")
        return self.where()

    def _rows(self, found: Any) -> list[int]:
        rows = find(self._place()[0], found)
        if not rows:
            raise judge.Unreadable("The requested node is not in this graph. Was the cell that makes it run again?")
        return rows

    def _row(self, text: str) -> int:
        text = text.strip()
        recording = self._place()[0]
        if text.startswith("#") and text[1:].isdigit() and int(text[1:]) < recording.count:
            return int(text[1:])
        rows = find(recording, text)
        if not rows:
            raise judge.Unreadable(f"There is no node {text[:40]!r} in this graph. Click one, or type its name or #number.")
        expected = self._computed()
        return next((row for row in rows if row in expected), rows[0])

    def _called(self, row: int) -> str:
        return self._place()[0].called(row)

    # -- messages -------------------------------------------------------------------------------------------------------------

    @property
    def state(self) -> Literal["open", "wrong", "right", "revealed"]:
        given = self.given
        if given.revealed:
            return "revealed"
        return "right" if self.right else "wrong" if given.attempts else "open"

    def message(self) -> protocol.Question:
        """The question for a view, without the right answer until it is known."""
        given, state = self.given, self.state
        expected = self.expected if state in ("right", "revealed") else ""
        return protocol.Question(
            self.name, self.prompt, self.kind, self.choices, given.answer, given.attempts, state, self._feedback(), expected, self.points
        )

    def __repr__(self) -> str:
        lines = [f"[{self.name}] " + "\n".join(map(plain, self.prompt))]
        lines += [f"  ( ) {one}" for one in self.choices]
        if self.given.attempts:
            lines.append(f"  answered: {self.given.answer}. {self.feedback}")
        if self.state == "revealed":
            lines.append(f"  Answer: {self.expected}")
        return "\n".join(lines)


def _typed(x: Any) -> str:
    """An answer given from code, in the form in which it would have been typed."""
    if isinstance(x, (Tensor, numpy.ndarray, numpy.generic)):
        return repr(judge.array_of(x).tolist())
    return repr(x)


def find(recording: Recording, what: Any) -> list[int]:
    """The rows of a tensor, a row number, a name such as "w" or "add, line 3", an op such as "mul", or "mul 2" (its second one)."""
    if isinstance(what, Tensor):
        row = -1 if what.node is None else recording.row_of(what.node)
        row = recording.find(what) if row < 0 else row
        return [row] if row >= 0 else []
    if isinstance(what, int) and not isinstance(what, bool):
        return [what] if 0 <= what < recording.count else []
    if not isinstance(what, str):
        raise TypeError(f"A place in a graph is a tensor, a name, an op or a number; got {type(what).__name__}")
    named = [row for row in range(recording.count) if recording.names.get(row) == what and recording.kind[row] != "constant"]
    if named or ", line " in what:
        return named or [row for row in range(recording.count) if recording.called(row) == what]
    op, _, number = what.rpartition(" ")
    op, number = (op, int(number)) if op and number.isdigit() else (what, 0)
    rows = [row for row in range(recording.count) if recording.ops[row] is not None and recording.ops[row].name == op]
    return rows[number - 1 : number] if number else rows
