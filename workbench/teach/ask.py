"""The public functions of `wb.teach`."""

from __future__ import annotations

import html
import os
import textwrap
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.autograd import reverse
from engine.base import observe
from engine.core import tape
from engine.core.tensor import Tensor

from .. import caller
from ..backward.stepper import Stepper
from ..graph.graph import Graph
from ..protocol import LevelName, QuestionKind
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

if TYPE_CHECKING:
    from ..jupyter.widget import View


def _card(text: str) -> str:
    """A text as an SVG picture, for pages without a graph."""
    lines = [part for line in text.splitlines() for part in textwrap.wrap(line, 88) or [""]]
    spans = "".join(f'<tspan x="12" dy="20">{html.escape(line)}</tspan>' for line in lines)
    height = 20 * len(lines) + 20
    frame = f'<rect x="0.5" y="0.5" width="699" height="{height - 1}" rx="8" fill="#ffffff" stroke="#b4bdc9"/>'
    look = 'font-family="system-ui, sans-serif" font-size="14" fill="#1c2430"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" width="700" height="{height}">{frame}<text y="4" {look}>{spans}</text></svg>'


class LessonSession(ShownSession):
    """The result of `wb.teach.lesson` outside a notebook: prints its page."""

    def turn(self, to: int) -> str:
        """Turn to page `to`, counted from 0, and return its text."""
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


def lesson(subject: Tensor | ShownSession, steps: Sequence[Say | Question] | str | os.PathLike, title: str = "") -> View | LessonSession:
    """Create a narrated lesson about a loss or a recording: pages of text, each at a place of the graph, and questions.

    Args:
        subject: a loss, or the `r` of `with wb.record() as r`.
        steps: the pages, made with `wb.teach.say` and `wb.teach.quiz`; or the path of a Markdown file, whose format is in the guide.
        title: a title.

    Returns:
        In a notebook a view, elsewhere an object that prints the page.

    Raises:
        ValueError: a place is not in the graph, or there is no page.
        TypeError: `subject` or a page is something else.

    Example::

        >>> w = engine.tensor(3.0, requires_grad=True)
        >>> loss = (w - 1) ** 2
        >>> lesson = wb.teach.lesson(loss, [wb.teach.say("A square.", at="pow"), wb.teach.quiz.gradient(w, loss)])
        >>> lesson
        Lesson: page 1 of 2
        <BLANKLINE>
        A square.
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
    """A question. In a notebook it displays itself, with the graph that it is about.

    Attributes:
        right: whether the latest answer is right.
        feedback: the sentence about the latest answer.
    """

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
    """Create a question: shown in a notebook, a page of a lesson, or answered with `.answer(...)`.

    `wb.teach.quiz.gradient`, `.shape` and `.next_node` write the question themselves.
    """

    def __call__(
        self, prompt: str, answer: Any, kind: QuestionKind = "value", *, id: str = "", choices: Sequence[str] = (), tolerance: float = 1e-3,
        points: float = 1.0, why: str = "", about: Any = latest, at: Any = None, step: Any = None,
    ) -> AskedQuestion:  # fmt: skip
        """Create a question: shown in a notebook, a page of a lesson, or answered with `.answer(...)`.

        Args:
            prompt: the question, in Markdown.
            answer: the right answer, or a function that returns it when an answer is judged: a tensor or numbers for kind "value", a shape
                or a tensor for "shape", one of `choices` or its index for "choice", a name, an op or a tensor for "node", accepted texts
                for "text".
            kind: "value", "shape", "choice", "node" or "text".
            id: the name under which answers are stored and graded; by default, made from the prompt.
            choices: the choices, at least two, for kind "choice".
            tolerance: for kind "value", the error allowed, relative to the largest value.
            points: the points for the right answer.
            why: a text shown with the right answer.
            about: the tensor whose graph is shown. By default, the graph of the newest recording; None for no graph.
            at: in a lesson, the place in the graph, as for `wb.teach.say`.
            step: in a lesson, where the pass goes, as for `wb.teach.say`; "start" takes gradients off the graph.

        Returns:
            The question.

        Raises:
            ValueError: the kind is unknown, or `answer`, `choices`, `tolerance` or `points` do not fit.

        Example::

            >>> question = wb.teach.quiz("What is the derivative of x * x at 3?", 6.0)
            >>> question.answer("5")
            'Too small in magnitude.'
            >>> question.answer("6")
            'Right.'
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
        """Ask for the gradient of a tensor.

        Args:
            tensor: a tensor that requires grad.
            loss: the gradient is computed from its graph when needed; without it, the answer is `tensor.grad`.
            id: as for `wb.teach.quiz`, like the next two.
            tolerance: the error allowed, relative to the largest value.
            points: the points for the right answer.

        Returns:
            The question.

        Raises:
            ValueError: the tensor does not require grad.
            TypeError: it is not a tensor of the engine.

        Example::

            >>> w = engine.tensor(3.0, requires_grad=True)
            >>> question = wb.teach.quiz.gradient(w, loss=(w - 1) ** 2)
            >>> question.answer("4")
            'Right.'
        """
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
        """Ask for the shape of a tensor.

        Args:
            tensor: a tensor.
            id: as for `wb.teach.quiz`.
            points: the points for the right answer.

        Returns:
            The question.

        Raises:
            TypeError: it is not a tensor of the engine.
        """
        called = _called(tensor, "this tensor")
        question = AskedQuestion(f"What is the shape of `{called}`?", lambda: tensor, "shape", id=id or f"shape-{called}", points=points)
        return question  # without a graph, which would show the shape

    def next_node(self, walk: Any, *, id: str = "", points: float = 1.0) -> AskedQuestion:
        """Ask which node the backward pass reaches next.

        Args:
            walk: a loss, with its pass at the start, or what `wb.step(loss)` returned.
            id: as for `wb.teach.quiz`.
            points: the points for the right answer.

        Returns:
            The question.

        Raises:
            ValueError: the pass is finished, or the tensor has none.
            TypeError: `walk` is something else.
        """
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
        """Answer from code.

        Args:
            id: the question's id.
            answer: the answer, as typed in the view, or a value.

        Returns:
            The sentence that the view would show.

        Raises:
            KeyError: no question has this id.
        """
        return self._asked(id).answer(answer)

    def reveal(self, id: str) -> str:
        """Show the right answer of a question. Later answers do not count.

        Args:
            id: the question's id.

        Returns:
            The right answer as text.

        Raises:
            KeyError: no question has this id.
            ValueError: there has been no answer yet.
        """
        return self._asked(id).reveal()

    def save(self, file: str | os.PathLike = "answers.json") -> None:
        """Save the answers in a JSON file, now and after each answer. Answers that are already in the file are loaded.

        Args:
            file: the path.
        """
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
    """Broadcast a view of a lesson or a pass to a class: write its page and step into a file from now on.

    Args:
        view: what `wb.teach.lesson` or `wb.step` returned.
        file: the path, in a folder that everyone can read.

    Raises:
        OSError: the file cannot be written.
        TypeError: `view` is something else.

    Example::

        >>> w = engine.tensor(3.0, requires_grad=True)
        >>> lesson = wb.teach.lesson(w * w, [wb.teach.say("A product.", at="mul"), wb.teach.say("Its end.", step="end")])
        >>> wb.teach.present(lesson, "place.json")
    """
    _lesson_of(view).present(file)


def follow(view: Any, file: str | os.PathLike) -> None:
    """Make a view of a lesson or a pass follow the teacher's, for which `wb.teach.present` writes a file; at most a second later.

    Args:
        view: what `wb.teach.lesson` or `wb.step` returned.
        file: the path of the teacher's file.

    Raises:
        TypeError: `view` is something else.

    Example::

        >>> w = engine.tensor(3.0, requires_grad=True)
        >>> lesson = wb.teach.lesson(w * w, [wb.teach.say("A product.", at="mul")])
        >>> wb.teach.follow(lesson, "place.json")
    """
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


def modes(f: Callable[..., Tensor], *xs: Tensor) -> View | ModesSession:
    """Compare forward and reverse mode for the whole Jacobian of a function: counts of passes, multiplications, additions and bytes.

    Args:
        f: a function that takes the tensors and returns one.
        *xs: real floating-point tensors on the CPU, the place at which the Jacobian is computed; together at most 10,000 values.

    Returns:
        In a notebook a view that steps through the passes, elsewhere an object that prints itself as a table.

    Raises:
        TypeError: `f` does not take or return tensors.
        ValueError: there is no Jacobian, or there are too many values.

    Example::

        >>> wb.teach.modes(lambda x: (x * x).sum(), engine.ones(3))
        From 3 numbers to 1: reverse mode takes 1 pass and 9 operations for the whole Jacobian; forward mode ...
        <BLANKLINE>
        whole Jacobian           forward       reverse
        passes                         3             1
        multiplications               18             6
        additions                     15             3
        others                         0             0
        bytes moved                  372           108
        ...
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


def level(name: LevelName) -> None:
    """Set how much all views show. The notebook remembers it.

    Args:
        name: "student" keeps the tabs Step and Value and a simple bar, "full" shows everything.

    Raises:
        ValueError: another name.

    Example::

        >>> wb.teach.level("full")
    """
    levels.choose(name)
    for session in sessions:
        session.show_level()


quiz = Quiz()
