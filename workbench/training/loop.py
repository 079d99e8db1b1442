"""A training loop that can be played, paused, stepped through iteration by iteration, and reset to its initial state."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from time import monotonic
from typing import Any, Literal

from engine.base import observe

from .. import protocol
from ..recording.recorder import Recorder
from ..session.passes import PassWatcher
from ..session.session import Session
from .state import TrainingState

Wish = Literal["play", "pause", "step", "reset", "end"]
SHOW = 0.5  # minimum seconds between two recorded iterations while the loop plays
SHARE = 0.05  # of the time is spent on recording and showing them
TELL = 0.1  # minimum seconds between two progress messages


class Loop:
    """The iterator behind `for batch in wb.loop(loader, model, optimizer)`: it waits before the first iteration for the view's controls.

    A recorded iteration keeps its graph, values and backward passes for inspection until the next one is recorded. While the loop plays,
    at most one iteration in half a second is recorded, and fewer if that would take more than a twentieth of the time; the others run
    unobserved. `gate(loop)` is called before each iteration and blocks until the loop may continue; `names()` returns the user's variables;
    `ended()` is called when the loop is left.
    """

    def __init__(
        self, iterable: Iterable, subjects: tuple, session: Session, gate: Callable[[Loop], None], names: Callable[[], dict],
        ended: Callable[[], None] = lambda: None,
    ) -> None:  # fmt: skip
        self.iterable, self.session, self.gate, self.names, self.ended = iterable, session, gate, names, ended
        self.turn = 0  # completed iterations
        self.total = len(iterable) if hasattr(iterable, "__len__") else -1  # type: ignore[arg-type]
        self.playing = False
        self.over = False
        self._allowed = 0  # iterations that may run before it waits again
        self._reset = self._end = False
        self._start = TrainingState(subjects) if subjects else None
        self._due = self._told = 0.0
        self._usual: float | None = None  # seconds that an unobserved iteration takes
        session.training = self

    # -- controls: called from any thread ----------------------------------------------------------------------------------------

    def wish(self, what: Wish) -> None:
        """Apply a control of the view. Raises `protocol.Refused` if it is not possible now."""
        if what == "reset":
            if self._start is None:
                raise protocol.Refused("wb.loop does not know what to restore: write wb.loop(data, model, optimizer).")
            if self.over:
                if self.session.busy():
                    raise protocol.Refused("The kernel is running a cell. The training can be restored when the cell is done.")
                self._start.restore()
                self.turn = 0
            else:
                self._reset, self.playing, self._allowed = True, False, 0
        elif self.over:
            raise protocol.Refused("The loop has ended. Run its cell again, or put the training back to its start.")
        elif what == "end":
            self._end = True
        else:
            self.playing = what == "play"
            self._allowed = 1 if what == "step" else 0
        self.session.tell_training()

    @property
    def held(self) -> bool:
        """Whether the loop has to wait before its next iteration."""
        return not (self.playing or self._allowed or self._reset or self._end)

    # -- running -------------------------------------------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[Any]:
        try:
            while True:
                self.turn = 0
                batches = iter(self.iterable)
                while True:
                    try:
                        batch = next(batches)
                    except StopIteration:
                        return
                    self.gate(self)
                    if self._reset:
                        assert self._start is not None
                        self._start.restore()
                        self._reset = False
                        break
                    if self._end:
                        return
                    self._allowed = max(0, self._allowed - 1)
                    yield from self._turn(batch)
                    self.turn += 1
                    if monotonic() - self._told > TELL:
                        self._told = monotonic()
                        self.session.tell_training()
        finally:
            self.over, self.playing = True, False
            self.session.tell_training()
            self.ended()

    def _turn(self, batch: Any) -> Iterator[Any]:
        """Run one iteration, recorded if it is due and no other observer is active."""
        begun = monotonic()
        if observe.current is not None or self.playing and begun < self._due:
            yield batch
            self._usual = monotonic() - begun
            return
        recorder = Recorder(f"turn {self.turn + 1}")
        recorder.recording.name = self.session.recording.name  # for the view it is the same graph with other values
        turn = Session(recorder.recording)
        watcher = PassWatcher(turn, recorder, None, self.names)
        before = monotonic()
        try:
            with observe.observing(watcher):
                yield batch
        except GeneratorExit as error:  # the iteration was left by break or by an exception
            watcher.close(error)
            recorder.stop()
            raise
        ran = monotonic() - before
        watcher.close()
        recorder.stop()
        self.session.take_over(turn, self.names())
        ended = monotonic()
        more = ended - begun - (ran if self._usual is None else self._usual)
        self._due = ended + max(SHOW, more / SHARE)

    def message(self, re: int | None = None) -> protocol.Training:
        """The loop's progress and state as a protocol message."""
        state = "ended" if self.over else "runs" if self.playing or self._allowed else "waits"
        return protocol.Training(re, self.session.recording.name, self.turn, self.total, state, self._start is not None)
