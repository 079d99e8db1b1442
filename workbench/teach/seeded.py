"""`wb.teach.sabotage`: a seeded bug in a training program, to find and fix; three levels of hints, and a check that runs the fix."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from copy import deepcopy
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import engine
import engine.nn.functional as F
from engine import nn, optim
from engine.core.tensor import Tensor
from engine.nn import Module
from engine.optim import Optimizer

from ..base import generators
from .ask import AskedQuestion
from .bugs import BUGS, Bug, Program, Task, Totalled

CLOSE = 1e-4  # relative difference below which weights count as equal
SHARE = 0.8  # a program learns if its loss falls by at least this share of the drop without the bug


@dataclass(frozen=True)
class Verdict:
    """Whether a bug was named, and whether it was fixed. It is true if either is.

    Attributes:
        found: whether it was named.
        fixed: whether it was fixed.
        sentence: both in words.
    """

    found: bool
    fixed: bool
    sentence: str

    def __bool__(self) -> bool:
        return self.found or self.fixed

    def __repr__(self) -> str:
        return self.sentence


class Exercise:
    """A training program with one bug in it, from `wb.teach.sabotage`. As a context manager it removes the bug on exit.

    Attributes:
        model: the model.
        optimizer: the optimizer.
        loss: the loss function of prediction and target.
        data: the batches.
        question: the question which bug it is. It is graded once it has been asked.
    """

    def __init__(self, bug: Bug, program: Program, id: str) -> None:
        self._bug = bug
        self._sound = deepcopy(Program(program.model, program.optimizer, program.loss, list(program.data)))
        self._program = program
        bug.plant(program)
        self._hints = 0
        self._told = self._revealed = False
        self._fixed = False
        self._id = id

    @cached_property
    def question(self) -> AskedQuestion:
        """The question which bug it is. It is graded once it has been asked."""
        titles = sorted(one.title for one in BUGS.values())
        question = AskedQuestion("Which bug is it?", self._bug.title, "choice", id=self._id, choices=titles, why=self._bug.hints[2])
        if self._revealed:
            question.give_up()
        return question

    @property
    def _named(self) -> bool:
        return "question" in self.__dict__ and self.question.right

    @property
    def model(self) -> Any:
        return self._program.model

    @property
    def optimizer(self) -> Any:
        return self._program.optimizer

    @property
    def loss(self) -> Callable:
        return self._program.loss

    @property
    def data(self) -> Any:
        return self._program.data

    def train(self) -> list[float]:
        """Make one pass over the data with the plain loop; return the losses."""
        return self._program.train()

    def hint(self) -> str:
        """Return the next hint: where to look, then what to look at, then what the bug is."""
        self._hints = min(self._hints + 1, 3)
        self._told |= self._hints == 3
        return f"Hint {self._hints} of 3: {self._bug.hints[self._hints - 1]}"

    def guess(self, what: str) -> str:
        """Name the bug: `what` is its title, its name, or the code of the check that found it. Returns a sentence: right or wrong."""
        known = [one for one in BUGS.values() if what in (one.name, one.title) or what and what == one.finding]
        return self.question.answer(known[0].title if known else what)

    def reveal(self) -> str:
        """Return what the bug is and how to fix it. Later guesses do not count."""
        self._told = self._revealed = True
        if "question" in self.__dict__:
            self.question.give_up()
        return f"{self._bug.title}. {self._bug.hints[2]} {self._bug.repair}"

    def solved(self, train: Callable | None = None) -> Verdict:
        """Tell whether the bug was named, and whether a training loop works around it.

        Args:
            train: `train(model, optimizer, loss, data)` makes one pass over the data. It runs on a fresh copy of the program, bug
                included, and is compared with the plain loop on a copy without the bug. Errors in it propagate.
        """
        if train is not None:
            self._fixed, told = self._checked(train)
        else:
            told = "Fixed." if self._fixed else "Not fixed yet: pass your own train(model, optimizer, loss, data) to solved()."
        found = self._named
        named = f"Found: {self._bug.title}." if found else "Not named yet: answer the question, or call guess(...)."
        return Verdict(found, self._fixed, f"{named} {told}")

    def _checked(self, train: Callable) -> tuple[bool, str]:
        broken = deepcopy(self._sound)
        self._bug.plant(broken)
        sound = deepcopy(self._sound)
        state = generators.state()
        try:
            engine.manual_seed(0)
            sound.train()
            engine.manual_seed(0)
            train(broken.model, broken.optimizer, broken.loss, broken.data)
        finally:
            generators.restore(state)
        if self._bug.learns:
            before, after = _loss_of(self._sound, self._sound.model), _loss_of(self._sound, broken.model)
            plain = _loss_of(self._sound, sound.model)
            fixed = before - after >= SHARE * (before - plain)
            told = f"the loss goes from {before:.4g} to {after:.4g}; without the bug it goes to {plain:.4g}"
        else:
            apart = max(_apart(a, b) for a, b in zip(broken.model.parameters(), sound.model.parameters(), strict=True))
            fixed = apart <= CLOSE
            far = "those" if fixed else f"{apart:.2g} (relative) away from those"
            told = f"after one round the weights are {far} of the program without the bug"
        if isinstance(broken.loss, Totalled) and getattr(broken.loss.total, "requires_grad", False):
            fixed, told = False, "the graphs of all losses are still alive in loss.total"
        return fixed, f"{'Fixed' if fixed else 'Not fixed yet'}: {told}."

    def undo(self) -> None:
        """Remove the bug from the model and the optimizer."""
        self._program.undo()

    def __enter__(self) -> Exercise:
        return self

    def __exit__(self, *error: object) -> None:
        self.undo()

    def __repr__(self) -> str:
        name = f": {self._bug.title}" if self._told or self._named else ""
        return f"A training program with one bug in it{name}. {self._hints} of 3 hints taken."


def _loss_of(program: Program, model: Any) -> float:
    """The true loss of a model, over all the sound data."""
    training = model.training
    nn.Module.eval(model)
    with engine.no_grad():
        losses = [
            program.loss(nn.Sequential.forward(model, x) if isinstance(model, nn.Sequential) else model(x), y).item()
            for x, y in program.data
        ]
    nn.Module.train(model, training)
    return sum(losses) / len(losses)


def _apart(a: Any, b: Any) -> float:
    size = float(b.norm())
    apart = float((a - b).norm())
    return apart / size if size else apart


class Sabotage:
    """Seed a bug into a training program, to be found and fixed; `wb.teach.sabotage.random` seeds one that it does not name.

    Attributes:
        names: the names of all bugs.
    """

    def __init__(self) -> None:
        self._latest: Exercise | None = None

    @property
    def names(self) -> list[str]:
        """The names of all bugs."""
        return list(BUGS)

    def __call__(
        self,
        name: str,
        model: Module | None = None,
        optimizer: Optimizer | None = None,
        loss: Callable[[Tensor, Tensor], Tensor] | None = None,
        data: Iterable[tuple[Tensor, Tensor]] | None = None,
        *,
        id: str = "",
    ) -> Exercise:
        """Seed a bug into a training program, to be found and fixed: the given one, or a small one of its own.

        The objects are changed in place; `undo()`, or the end of a `with` block, changes them back.

        Args:
            name: the bug, one of `wb.teach.sabotage.names`.
            model: the model. With it, the next three are needed too.
            optimizer: the optimizer.
            loss: the loss, a function of prediction and target.
            data: a list of batches, each an input and a target.
            id: the id of the question which bug it is.

        Returns:
            The exercise.

        Raises:
            ValueError: the name is unknown, or the program has no place for the bug.

        Example::

            >>> exercise = wb.teach.sabotage("no_zero_grad")
            >>> print(exercise.hint())
            Hint 1 of 3: Compare .grad from one iteration to the next.
            >>> exercise.undo()
        """
        if name not in BUGS:
            raise ValueError(f"There is no bug {name!r}; there are {', '.join(BUGS)}")
        return self._seed(BUGS[name], model, optimizer, loss, data, id or f"bug-{name}")

    def random(
        self,
        seed: int,
        model: Module | None = None,
        optimizer: Optimizer | None = None,
        loss: Callable[[Tensor, Tensor], Tensor] | None = None,
        data: Iterable[tuple[Tensor, Tensor]] | None = None,
        *,
        id: str = "",
    ) -> Exercise:
        """Seed one bug that fits the program, without naming it.

        Args:
            seed: the same seed gives the same bug.
            model: as for `wb.teach.sabotage`, like the next four.
            optimizer: the optimizer.
            loss: the loss, a function of prediction and target.
            data: a list of batches, each an input and a target.
            id: the id of the question which bug it is.

        Returns:
            The exercise.

        Raises:
            ValueError: no bug fits the program.
        """
        order = list(BUGS.values())
        random.Random(seed).shuffle(order)
        if model is None:
            return self._seed(order[0], None, None, None, None, id or f"bug-{seed}")
        if loss is not F.cross_entropy:
            order = [bug for bug in order if bug.task == "numbers" or bug.name in ("no_zero_grad", "zero_after_backward", "learning_rate")]
        for bug in order:
            try:
                return self._seed(bug, model, optimizer, loss, data, id or f"bug-{seed}")
            except ValueError:
                if bug is order[-1]:
                    raise
        raise AssertionError("there is always a last bug")

    def _seed(self, bug: Bug, model: Any, optimizer: Any, loss: Any, data: Any, id: str) -> Exercise:
        given = (model, optimizer, loss, data)
        if any(one is not None for one in given) and any(one is None for one in given):
            raise ValueError("A program is a model, an optimizer, a loss and data, all four; or none, for a small built-in one")
        program = small(bug.task) if model is None else Program(model, optimizer, loss, list(data))
        self._latest = Exercise(bug, program, id)
        return self._latest

    def solved(self, train: Callable | None = None) -> Verdict:
        """Tell whether the bug seeded last was named and fixed, as `Exercise.solved` does.

        Args:
            train: your training loop, `train(model, optimizer, loss, data)`.

        Raises:
            RuntimeError: no bug has been seeded.
        """
        if self._latest is None:
            raise RuntimeError("No bug has been seeded yet: wb.teach.sabotage.random(seed=3)")
        return self._latest.solved(train)


def small(task: Task, batches: int = 7, size: int = 32) -> Program:
    """A program that learns within one round: three classes of points, or a number from eight others."""
    state = generators.state()
    engine.manual_seed(0)
    try:
        if task == "classes":
            layers = [nn.Linear(8, 32), nn.ReLU(), nn.Dropout(0.1), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 3)]
            centers = 2 * engine.randn(3, 8)
            labels = [engine.randint(0, 3, (size,)) for _ in range(batches)]
            data = [(centers[y] + engine.randn(size, 8), y) for y in labels]
            loss: Callable = F.cross_entropy
        else:
            layers = [nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 1)]
            truth = engine.randn(8, 1)
            inputs = [engine.randn(size, 8) for _ in range(batches)]
            data = [(x, engine.tanh(x @ truth)) for x in inputs]
            loss = squared
        model = nn.Sequential(*layers)
        return Program(model, optim.SGD(model.parameters(), lr=0.1, momentum=0.9), loss, data)
    finally:
        generators.restore(state)


def squared(prediction: Any, target: Any) -> Any:
    """The mean squared error, written out: shapes broadcast silently."""
    return ((prediction - target) ** 2).mean()


sabotage = Sabotage()
