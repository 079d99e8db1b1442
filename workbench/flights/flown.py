"""What can be done with recorded steps: repeat one, search them, go back to one."""

from __future__ import annotations

import bisect
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy

import engine

from .. import caller
from ..recording.recording import KEEP
from ..session.report import Report, TextReport
from ..session.surface import ShownSession
from . import card, state, values
from .log import END, Log, Step
from .prints import Prints, possible
from .replay import Code, Program, Replay
from .state import Moment, Subjects
from .triggers import finite

Inspect = Callable[[ShownSession], Report]  # checks what a session shows, which opens on the findings


def unseen(session: ShownSession) -> Report:
    """No checks."""
    return TextReport("")


class Repeated:
    """A step that was repeated, and how it compares with the original. In a notebook it is a view of the recording.

    Attributes:
        step: the recorded step.
        losses: the losses now.
        error: the exception that it raised now, "" without one.
        differs: what is not as it was, "" if everything is, bit for bit.
        compared: what was compared.
        notes: what is not as it was when the step was recorded, and may be why it differs.
        session: the recording, with its graph, values and backward passes.
    """

    def __init__(self, step: Step, again: Step, session: ShownSession | None, inspect: Inspect, notes: Sequence[str] = ()) -> None:
        self.step, self.losses, self.error, self.session = step, again.losses, again.error, session
        self.differs, self.compared = _difference(step, again)
        self.notes, self._inspect = list(notes), inspect
        if session is not None:
            session.recording.title = f"step {step.number}"

    @property
    def same(self) -> bool:
        """Whether everything that was compared is equal bit for bit."""
        return not self.differs

    @property
    def sentence(self) -> str:
        """How it compares with the original."""
        raised = f" It raised {self.error}." if self.error else ""
        how = f"equal to the original bit for bit ({self.compared})" if self.same else f"not as it was: {self.differs}"
        return " ".join([f"{self.step}, repeated: {how}.{raised}", *([] if self.same else self.notes)])

    def __repr__(self) -> str:
        report = "" if self.session is None else self._inspect(self.session).text
        return f"{self.sentence}\n{report}" if self.session is not None and self.session.findings else self.sentence

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        text = repr(self)  # before there is a view: it opens on the findings
        shown = caller.shown(self.session, self.sentence)
        if shown is self.session:
            return {"text/plain": text}
        data, metadata = shown._repr_mimebundle_(**kwargs)
        return {**data, "text/plain": text}, metadata


def _difference(step: Step, again: Step) -> tuple[str, str]:
    """What differs between a step and its repetition, and what was compared."""
    compared = ["losses"] if step.losses else []
    if step.error.partition(":")[0] != again.error.partition(":")[0]:
        return f"it raised {again.error or 'nothing'}, where the original raised {step.error or 'nothing'}", "errors"
    if len(step.losses) != len(again.losses):
        return f"it had {len(again.losses)} losses, the original {len(step.losses)}", "losses"
    for before, now in zip(step.losses, again.losses, strict=True):
        if not numpy.array_equal(before, now, equal_nan=True):
            return f"the loss is {now!r}, it was {before!r}", "losses"
    if step.sums:
        gradients = sum(name.endswith(".grad") for name in step.sums)
        compared += [f"{gradients} gradients", f"{len(step.sums) - gradients} parameters and buffers"]
        if step.sums.keys() != again.sums.keys():
            name = min(step.sums.keys() ^ again.sums.keys())
            return f"{name} is there in only one of the two", "gradients"
        order = sorted(step.sums, key=lambda name: not name.endswith(".grad"))
        if (name := next((name for name in order if step.sums[name] != again.sums[name]), None)) is not None:
            return f"{state.called(name)} has other values", "tensors"
    return (
        ("", ", ".join(compared)) if compared else ("nothing is known of the original: it had no loss, and is too large for checksums", "")
    )


def _spoilt(subjects: Subjects) -> bool:
    return not all(finite(t) for t in subjects.tensors().values())


def _is_finite(whole: Mapping[str, Any]) -> bool:
    """Whether all parameters and buffers of a snapshot are finite."""
    return all(finite(values.made(copy)) for copy in whole["tensors"].values())


class Flown:
    """Recorded steps of a training.

    Attributes:
        steps: the steps that can be repeated, oldest first.
        why: what made the recorder keep them; "" if nothing did.
        at: the number of the step in which that was; None if nothing did.
        left_out: values that could not be kept, and their types.
        curve: numbers of steps and their losses, as an array of shape (steps, 2).
        fingerprint: the name of the program's file or function, and a digest of its text.
        threads: the number of threads of an op.
    """

    why: str = ""
    fingerprint: Mapping[str, str]
    threads: int
    _log: Log
    at: int | None = None
    left_out: Mapping[str, str]
    _program: Code | None = None
    _inspect: Inspect

    @property
    def steps(self) -> list[Step]:
        return list(self._log.steps)

    @property
    def curve(self) -> numpy.ndarray:
        return numpy.array(self._log.curve, numpy.float64).reshape(-1, 2)

    def _code(self) -> str:
        """The line of code that repeats the step."""
        raise NotImplementedError

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        text = repr(self)
        shown = card.html(text.partition("\n")[0], self.curve, self.steps, self.at, self.left_out, self._code())
        return {"text/plain": text, "text/html": shown}

    def _chosen(self, program: Program | None) -> Any:
        if program is None and self._program is None:
            raise ValueError("Which program? Give the path of the script, or the function that trains: repeat(program='train.py').")
        return self._program if program is None else program

    def _number(self, step: int | Step | None) -> int:
        if not self.steps:
            raise LookupError("No step has been recorded.")
        if step is None:
            return self.steps[-1].number
        number = step.number if isinstance(step, Step) else step
        if isinstance(number, bool) or not isinstance(number, int):
            raise TypeError(f"A step is given by its number, got {type(number).__name__}.")
        return self.steps[number].number if -len(self.steps) <= number < 0 else number

    def repeat(self, step: int | Step | None = None, program: Program | None = None, keep: int = KEEP) -> Repeated:
        """Run one step again, from the same state on the same batch, and record its graph, values and backward passes.

        The program is run up to its loop, which gets the recorded batches from the last snapshot on, and is left behind the step. Variables
        and models of this process are as before afterwards.

        Args:
            step: the number of the step; -2 is the one before the last. By default the last one or, if its loss is not finite, the first
                one that made a parameter so.
            program: the function that trains, called without arguments, or the path of its script. By default, the code of the block.
            keep: bytes of results to keep for viewing.

        Raises:
            LookupError: the step is not kept.
            RuntimeError: the program is another one, or does not get to its loop.
        """
        steps, until = self._log.before(self._number(step)), None
        if step is None and not all(map(math.isfinite, steps[-1].losses)):
            steps, until = self._from_sound(steps), _spoilt
        replay = self._run(program, Replay(steps, self.fingerprint["block"], keep, until=until))
        assert replay.again is not None
        if (found := replay.again.number) != steps[-1].number:  # it spoilt a parameter
            steps = self._log.before(found)
            replay = self._run(program, Replay(steps, self.fingerprint["block"], keep))
            assert replay.again is not None
        if replay.session is not None:
            replay.session.kept = replay.subjects  # a parameter that has been freed would get no gradient as the pass is stepped through
        found = Repeated(steps[-1], replay.again, replay.session, self._inspect, list(self._notes(replay)))
        if not found.same and (where := self._first_op(steps[0], program)):
            found.notes.insert(0, where)
        return found

    def _first_op(self, step: Step, program: Program | None) -> str:
        """The first op of a step with a snapshot that gives another result here, in a sentence; "" if it is not known."""
        if not step.prints or not possible():
            return ""
        prints = Prints(lines=True)
        self._run(program, Replay([step], self.fingerprint["block"], prints=prints))
        where = prints.differs(step.prints)
        return f"In step {step.number}, {where}." if where else ""

    def _notes(self, replay: Replay) -> Iterator[str]:
        if replay.program is not None and replay.program.fingerprint()["sha256"] != self.fingerprint["sha256"]:
            yield "The code around its loop has changed."
        if (here := engine.get_num_threads()) != self.threads:
            yield f"It was recorded with {self.threads} threads, and there are {here} now: sums are in another order."

    def _from_sound(self, steps: list[Step]) -> list[Step]:
        """The same steps, and those before them if a parameter was not finite already when they began."""
        while (number := steps[0].number) > self.steps[0].number and not _is_finite(steps[0].whole or {}):
            steps = [*self._log.before(number - 1), *steps]
        return steps

    def resume(self, step: int | Step | None = None, into: Sequence[Any] | None = None, program: Program | None = None) -> Step:
        """Put everything back as it was before a step: parameters, optimizers, schedulers, random states. Training can go on from there.

        Args:
            step: the number of the step, by default the last one.
            into: the model, the optimizer, ... in the order in which `wb.flight` got them. By default, those of the block.
            program: as in `repeat`, for a step that was recorded without a snapshot.

        Returns:
            The step. `batches(step)` has its batch and those that followed.

        Raises:
            LookupError: the step is not kept.
            RuntimeError: the model or the optimizer is another one.
        """
        steps = self._log.before(self._number(step))
        subjects = self._here() if into is None else Subjects(into, caller.names())
        if subjects is None:
            raise ValueError("Into which model and optimizer? Give them in the order in which wb.flight got them: into=(model, optimizer).")
        self._moment(steps, program).put(subjects)
        return steps[-1]

    def batches(self, step: int | Step | None = None) -> Iterator[Any]:
        """Make the recorded batches again: what the loop got.

        Args:
            step: the number of the first step, by default of the last one.

        Returns:
            An iterator over the batches of that step and those that followed. If the program fetches ahead of what it trains on, it begins
            with what had been fetched.
        """
        steps = [one for one in self.steps if one.number >= self._number(step)]
        items = [*steps[0].ahead, *(item for one in steps for item in (*(one.missed if one is not steps[0] else ()), one.item))]
        return (values.made(item) for item in items if item != END)

    def bisect(self, holds: Callable[[Any], Any], program: Program | None = None) -> Step | None:
        """Find the first step before which a condition holds, by bisection: from then on it must hold.

        Args:
            holds: called with the model as it was before a step; true or false.
            program: as in `repeat`.

        Returns:
            The step; None if it holds before none of them. The step before it made it so.
        """
        steps = list(self.steps)
        at = bisect.bisect_left(steps, True, key=lambda step: self._visited(step, holds, program))
        return steps[at] if at < len(steps) else None

    def _visited(self, step: Step, holds: Callable[[Any], Any], program: Program | None) -> bool:
        steps, found, here = self._log.before(step.number), [], self._here()

        def look(subjects: Subjects) -> None:
            found.append(bool(holds(next(iter(subjects.modules.values()), None))))

        if here is not None and len(steps) == 1:
            before = Moment.of(here, same=True)
            try:
                self._moment(steps, program).put(here)
                look(here)
            finally:
                before.put(here)
        else:
            self._look(steps, program, look)
        return found[0]

    def _moment(self, steps: Sequence[Step], program: Program | None) -> Moment:
        """The state before the last of the steps, which begin with a snapshot."""
        step = steps[-1]
        if len(steps) == 1:
            return Moment(step.whole or {}, step.small, step.gradients, step.random)
        found: list[Moment] = []
        self._look(steps, program, lambda subjects: found.append(Moment.of(subjects)))
        return found[0]

    def _look(self, steps: Sequence[Step], program: Program | None, look: Callable[[Subjects], None]) -> None:
        """Run the program up to the last of the steps, and look at its model, optimizer, ... as they were before it."""

        def before(step: Step, subjects: Subjects) -> bool:
            if step is steps[-1]:
                look(subjects)
            return step is steps[-1]

        self._run(program, Replay(steps, self.fingerprint["block"], before=before))

    def _run(self, program: Program | None, replay: Replay) -> Replay:
        found, here = self._chosen(program), self._here()
        before, chance = None if here is None else Moment.of(here, same=True), state.random_state()
        try:
            replay.run(found)
        finally:
            if before is not None and here is not None:
                before.put(here)
            state.put_random_state(chance)
        return replay

    def _here(self) -> Subjects | None:
        """The subjects in this process; None for a file."""
        return None
