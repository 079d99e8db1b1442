"""The public functions of `wb.teach`."""

from __future__ import annotations

import html
import os
import textwrap
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from engine.autograd import reverse
from engine.base import observe
from engine.core import tape
from engine.core.tensor import Tensor

from .. import caller
from ..backward.stepper import Stepper
from ..graph.graph import Graph
from ..protocol import QuestionKind
from ..recording.recompute import unwatched
from ..recording.recorder import Recorder
from ..recording.recording import Recording, recent
from ..session import levels
from ..session.session import recent as sessions
from ..session.surface import ShownSession, latest, opened
from . import sheet
from .jacobian import Jacobian, jacobian_of, names_of, report
from .lessons import Lesson, Say, pages_in
from .questions import Question


def _card(text: str) -> str:
    """A text as an SVG picture, for pages without a graph."""
    lines = [part for line in text.splitlines() for part in textwrap.wrap(line, 88) or [""]]
    spans = "".join(f'<tspan x="12" dy="20">{html.escape(line)}</tspan>' for line in lines)
    height = 20 * len(lines) + 20
    frame = f'<rect x="0.5" y="0.5" width="699" height="{height - 1}" rx="8" fill="#ffffff" stroke="#b4bdc9"/>'
    look = 'font-family="system-ui, sans-serif" font-size="14" fill="#1c2430"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" width="700" height="{height}">{frame}<text y="4" {look}>{spans}</text></svg>'


class LessonSession(ShownSession):
    """A session that opens on its lesson, and prints the page in a terminal."""

    def turn(self, to: int) -> str:
        """Turn to another page and return its text."""
        with self.lock:
            self.lesson.turn(to)
            self.lesson.tell()
            return self.lesson.text()

    def next(self) -> str:
        """Turn to the next page."""
        return self.turn(self.lesson.at + 1)

    def previous(self) -> str:
        """Turn to the previous page."""
        return self.turn(self.lesson.at - 1)

    def stills(self) -> dict[str, str]:
        return {"image/svg+xml": _card(self.lesson.text()), **super().stills(), "text/plain": self.lesson.text()}

    def headline(self) -> str:
        return self.lesson.text()

    def __repr__(self) -> str:
        return self.lesson.text()


def _session(about: Any, names: Mapping[str, Any]) -> LessonSession:
    """A session on the graph behind a tensor, on a recording, or on nothing."""
    if about is None:
        recording = Recording("Questions", keep=0)
        recent.forget(recording)
    elif isinstance(about, Recording):
        recording = about
    else:
        recording = opened(about, names).recording
    session = LessonSession(recording, Graph(recording))
    session.graph.view = "lesson"
    if not recording.live:
        session.graph.finish(names)
    return session


def lesson(subject: Any, steps: Sequence[Say | Question] | str | os.PathLike, title: str = "") -> Any:
    """Create a narrated lesson about a loss or a recording: `wb.teach.lesson(loss, [say("...", at="mul"), quiz(...), ...])`.

    `steps` may also be a Markdown file, see docs/teaching.md. Raises ValueError for a place that is not in the graph.
    """
    names = caller.names()
    recorded = getattr(getattr(subject, "session", subject), "recording", subject)
    if not isinstance(recorded, (Recording, Tensor)):
        raise TypeError(f"A lesson is about a loss or a recording (`with wb.record() as r: ...`), not about {type(subject).__name__}")
    if isinstance(steps, (str, os.PathLike)):
        pages = pages_in(Path(steps).read_text(encoding="utf-8"), sheet.current.questions)
    else:
        pages = [steps] if isinstance(steps, (Say, Question)) else list(steps)
    strange = next((one for one in pages if not isinstance(one, (Say, Question))), None)
    if strange is not None:
        raise TypeError(f"The steps of a lesson are wb.teach.say(...) and wb.teach.quiz(...), not {type(strange).__name__}")
    if not pages:
        raise ValueError("A lesson has at least one step: wb.teach.say(...) or wb.teach.quiz(...)")
    session = _session(recorded, names)
    if isinstance(recorded, Tensor) and recorded.node is not None and recorded.requires_grad:
        session.stepper = Stepper.of(session.recording, session.graph, recorded)
        session.stepper.prepare()  # a later cell may overwrite what the tape saved
    session.lesson = Lesson(session, pages, title)
    session.lesson.turn(0)
    return caller.shown(session)


class AskedQuestion(Question):
    """A question that displays itself: in a notebook as a view, with the graph that it is about."""

    about: Any = None

    def __init__(self, *asked: Any, **options: Any) -> None:
        super().__init__(*asked, **options)
        self.variables = caller.frame().f_globals  # it is displayed by IPython, whose variables are not the user's

    def session(self) -> LessonSession:
        """A session with this question alone."""
        walk = getattr(self.about, "session", None)
        if walk is None:
            about = self.about() if callable(self.about) and not isinstance(self.about, Tensor) else self.about
            session = _session(about, {**self.variables, **caller.names()})
        else:  # another view's pass
            session = LessonSession(walk.recording, walk.graph)
            session.stepper = walk.stepper
        session.lesson = Lesson(session, [self])
        return session

    def _place(self) -> Any:
        if self.where is None:
            self.session()
        return super()._place()

    def _ipython_display_(self) -> None:
        caller.display(self.session())


class Quiz:
    """`quiz(...)` creates a question; `quiz.gradient(w)`, `.shape(x)` and `.next_node(walk)` write the question themselves."""

    def __call__(
        self, prompt: str, answer: Any, kind: QuestionKind = "value", *, id: str = "", choices: Sequence[str] = (), tolerance: float = 1e-3,
        points: float = 1.0, why: str = "", about: Any = latest, at: Any = None, step: Any = None,
    ) -> AskedQuestion:  # fmt: skip
        """Create a question: shown in a notebook, a page of a lesson, or answered with `.answer(...)`.

        `answer` is the right answer, or a function that returns it when an answer is judged: a tensor or numbers for kind "value" (within
        `tolerance`, relative), a shape or a tensor for "shape", one of `choices` or its index for "choice", a name, an op or a tensor for
        "node", accepted texts for "text". `why` is shown with the right answer, `about` is the tensor whose graph is shown; without it
        that of the newest recording is, with None no graph. In a lesson, `at` is the place in the graph and `step` where the pass goes
        ("start" takes gradients off the graph). Answers are stored and graded under the `id`. Raises ValueError for an unknown kind.
        """
        options: dict[str, Any] = {
            "id": id,
            "choices": choices,
            "tolerance": tolerance,
            "points": points,
            "why": why,
            "at": at,
            "step": step,
        }
        question = AskedQuestion(prompt, answer, kind, **options)
        question.about = about
        return question

    def gradient(
        self, tensor: Tensor, loss: Tensor | None = None, *, id: str = "", tolerance: float = 1e-3, points: float = 1.0
    ) -> AskedQuestion:
        """Ask for the gradient of `tensor`. With `loss` it is computed from the graph when needed; else it is `tensor.grad`."""
        called = _called(tensor, "this tensor")
        if not tensor.requires_grad:
            raise ValueError(f"{called} has no gradient to ask for: it does not require grad")
        of = "" if loss is None else f" of `{_called(loss, 'loss')}`"
        question = AskedQuestion(
            f"What is the gradient{of} with respect to `{called}`?",
            lambda: _gradient(tensor, loss),
            id=id or f"gradient-{called}",
            tolerance=tolerance,
            points=points,
            parts=lambda: _parts(tensor, loss),
            ops=lambda: _ops(tensor, loss),
            step="start",  # the graph would give the answer away
        )
        question.about = latest if loss is None else loss
        return question

    def shape(self, tensor: Tensor, *, id: str = "", points: float = 1.0) -> AskedQuestion:
        """Ask for the shape of `tensor`."""
        called = _called(tensor, "this tensor")
        question = AskedQuestion(f"What is the shape of `{called}`?", lambda: tensor, "shape", id=id or f"shape-{called}", points=points)
        return question  # without a graph, which would show the shape

    def next_node(self, walk: Any, *, id: str = "", points: float = 1.0) -> AskedQuestion:
        """Ask which node the backward pass reaches next. `walk` is a loss, with its pass at the start, or the result of `wb.step(loss)`."""
        if isinstance(walk, Tensor):
            if walk.node is None:
                raise ValueError("This tensor has no backward pass: it does not require grad, and nothing it was computed from does")
            recording = opened(walk, caller.names()).recording
            plan, index = [recording.row_of(node) for node in tape.plan([walk.node])], 0
        else:
            stepper = walk if isinstance(walk, Stepper) else getattr(walk, "stepper", None)
            if not isinstance(stepper, Stepper):
                raise TypeError(f"Expected a loss or what wb.step(loss) gives, got {type(walk).__name__}")
            recording, plan, index = stepper.recording, stepper.plan, stepper.index
        if index >= len(plan):
            raise ValueError("The pass is finished: there is no next node")
        question = AskedQuestion(
            f"{index} of {len(plan)} steps of the backward pass are done. At which node is the next one? Click it, or type its name.",
            lambda: plan[index],
            "node",
            id=id or f"next-node-{index}",
            points=points,
            why="A node's turn comes when everything that consumed it has been.",
        )
        question.about = walk if hasattr(walk, "session") else recording
        return question

    def answer(self, id: str, answer: Any) -> str:
        """Answer from code; returns the sentence that the view would show. Raises KeyError for an unknown id."""
        return self._asked(id).answer(answer)

    def reveal(self, id: str) -> str:
        """Return the right answer. Raises ValueError before the first answer."""
        return self._asked(id).reveal()

    def save(self, file: str | os.PathLike = "answers.json") -> None:
        """Save the answers in a JSON file, now and after each answer; answers already in the file are loaded."""
        sheet.current.save(file)
        for question in sheet.current.questions.values():
            question.restore()

    def clear(self) -> None:
        """Forget all questions and answers of this kernel; a file is kept."""
        sheet.current.clear()

    @staticmethod
    def _asked(id: str) -> Question:
        if id not in sheet.current.questions:
            raise KeyError(f"No question has the id {id!r}; there are {', '.join(sorted(sheet.current.questions)) or 'none'}")
        return sheet.current.questions[id]


def _called(tensor: Tensor, otherwise: str) -> str:
    if not isinstance(tensor, Tensor):
        raise TypeError(f"Expected a Tensor, got {type(tensor).__name__}")
    return next((name for name, value in caller.names().items() if value is tensor and not name.startswith("_")), otherwise)


def _gradient(tensor: Tensor, loss: Tensor | None) -> Any:
    if loss is None:
        return tensor.grad
    return reverse.grad(loss, [tensor], retain_graph=True)[0]


def _parts(tensor: Tensor, loss: Tensor | None) -> list[Any]:
    """The contributions of each use of the tensor to its gradient: the gradients along its outgoing edges."""
    if loss is None or loss.node is None or tensor.node is None:
        return []
    steps = reverse.start(loss, None, retain_graph=True, accumulate=False, in_place=False)
    return [g for node, _, grads in steps for source, g in zip(node.inputs, grads, strict=False) if source is tensor.node and g is not None]


def _ops(tensor: Tensor, loss: Tensor | None) -> set[str]:
    """The ops between the loss and the tensor; a product with itself counts as a square."""
    if loss is None or loss.node is None or tensor.node is None:
        return set()
    order = tape.plan([loss.node])
    after = {tensor.node}
    for node in reversed(order):
        if any(source in after for source in node.inputs):
            after.add(node)
    squares = {"square" for node in order if node in after and node.op is not None and node.op.name == "mul" and len(set(node.inputs)) == 1}
    return squares | {node.op.name for node in order if node in after and node.op is not None}


def present(view: Any, file: str | os.PathLike) -> None:
    """Broadcast a view of a lesson or a pass to a class: write its page and step into `file`, in a folder that everyone can read."""
    _lesson_of(view).present(file)


def follow(view: Any, file: str | os.PathLike) -> None:
    """Make this view of a lesson or a pass follow the teacher's, for which `wb.teach.present` writes `file`; at most a second later."""
    _lesson_of(view).follow(file)


def _lesson_of(what: Any) -> Lesson:
    session = getattr(what, "session", what)
    if not hasattr(session, "stepper") or not hasattr(session, "lesson"):
        raise TypeError(f"Expected what wb.teach.lesson(...) or wb.step(loss) gives, got {type(what).__name__}")
    if session.lesson is None:
        session.lesson = Lesson(session, [])
        session.lesson.tell()
    return session.lesson


class ModesSession(ShownSession):
    """A session that opens on forward against reverse mode."""

    def stills(self) -> dict[str, str]:
        return {**super().stills(), "text/plain": repr(self)}

    def headline(self) -> str:
        return repr(self)

    def __repr__(self) -> str:
        assert self.modes is not None
        return report(self.modes)


def modes(f: Callable[..., Tensor], *xs: Tensor) -> Any:
    """Compare forward and reverse mode for the whole Jacobian of `f` at `xs`: counts of passes, multiplications, additions and bytes.

    In a notebook, returns a view that steps through the passes; elsewhere a table. `f` takes the tensors and returns one. Raises TypeError
    or ValueError if there is no Jacobian, or if there are more than 10,000 values.
    """
    # recorded, so that the graph has values and lines; unless an observer is already active
    recorder = Recorder(getattr(f, "__name__", type(f).__name__))

    def recorded(*inputs: Tensor) -> Any:
        with observe.observing(recorder) if observe.current is None else nullcontext():
            return f(*inputs)

    try:
        y, inputs = jacobian_of(recorded, xs)
    finally:
        recorder.stop()
    names = names_of(f, len(inputs))
    recording = opened(y, {}).recording
    session = ModesSession(recording, Graph(recording))
    session.graph.view = "lesson"
    session.graph.finish({**caller.names(), **dict(zip(names, inputs, strict=True)), "out" if "y" in names else "y": y})
    with unwatched():  # a cell under %%watch sees the function, not the counting
        session.modes = Jacobian(y, inputs, names, recording).message()
    return caller.shown(session)


def level(name: str) -> None:
    """Set how much all views show: "student" keeps the tabs Step and Value and a simple bar, "full" shows everything.

    The notebook remembers the level. Raises ValueError for any other name.
    """
    levels.choose(name)
    for session in sessions:
        session.show_level()


quiz = Quiz()
