"""Observe the backward passes that the user's code runs: each becomes a pass to look at, and can be paused at every step."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from threading import get_ident
from time import monotonic
from typing import Any

from engine.base import observe
from engine.core.tensor import Tensor

from ..backward.breakpoints import Breakpoint, Lookout, Stop, kept
from ..backward.granularity import By
from ..backward.stepper import Stepper, said
from ..base.frames import passes_around
from ..graph.graph import Graph
from ..recording.recorder import Recorder
from ..recording.recording import KEEP, Recording
from ..recording.retrace import retrace
from .session import Session

PASSES = 200  # the records of this many passes, the newest, are kept
GLANCE = 0.05  # seconds


class Followed(Stepper):
    """A pass run by a `backward()` call, followed step by step through an observer, which can pause that backward.

    While the pass runs, stepping back and forth in what has run changes `.grad` as in any Stepper; the engine continues only from the last
    step taken. After it has ended, it is a record: stepping back no longer changes anything.
    """

    mode = "paused"

    def __init__(self, recording: Recording, graph: Graph, roots: tuple, plan: list, keep: int = KEEP) -> None:
        super().__init__(recording, graph, roots, plan, None, keep)
        self.wanted = 0  # run until this many steps are done
        self.over = False
        self.around = 1  # passes running where it began, itself included: more than 1 if a step of another began it
        self.lookout: Lookout | None = None  # set while it runs to a breakpoint
        self.going = False  # to one in a later pass if this pass has none
        self._lingers = False  # a breakpoint stopped it at its last step: it ends with the next command
        self._prepared = self._before()

    @staticmethod
    def _restorable(grad: Any) -> Any:
        """Copy the gradient that is there: the user's own backward() adds into it, so going back needs its old value."""
        return None if grad is None else Tensor._wrap(grad.array.copy())

    @property
    def done(self) -> bool:
        return self.index == self.total and not self._lingers

    def to(self, index: int) -> int:
        """Go there as far as the engine has come; `wanted` is how far it should run."""
        self._alive()
        underway = self._underway
        self.halt()
        self._lingers = False
        index = max(0, min(index, self.total))
        if not underway:  # nothing is restored while the engine runs
            super().to(min(index, len(self.taken)))
        if not self.over:
            self.wanted = max(index, len(self.taken))
        return self.index

    def previous(self, by: By = "op") -> int:
        if self._underway:
            return self.to(len(self.taken))
        return super().previous(by)

    @property
    def _underway(self) -> bool:
        return not self.over and self.wanted > len(self.taken)

    def next(self, by: By = "op") -> int:
        if by != "op" or self.index < len(self.taken):
            return super().next(by)
        return self.to(self.index + 1)

    def run(self, breakpoints: Iterable[Breakpoint] | None = None, back: bool = False) -> int:
        """Run within the steps taken as in any Stepper; past them, the engine runs until a breakpoint stops it."""
        self.halt()
        self._lingers = False
        if back or self.over:
            return super().run(breakpoints, back)
        self.going, self.stop = True, None
        lookout = Lookout(self, kept.active if breakpoints is None else breakpoints)
        found: Stop | None = None
        while found is None and self.index < len(self.taken):
            super().next()
            found = lookout.look(self.index)
        found = found or lookout.flush()
        if found is not None:
            self._stopped(found)
        else:
            self.lookout, self.wanted = lookout, self.total
        return self.index

    @property
    def runs(self) -> bool:
        return self.lookout is not None and not self.over

    def halt(self) -> None:
        self.going = False
        if self.runs:
            self.lookout, self.wanted = None, len(self.taken)

    def _stopped(self, at: Stop) -> None:
        self.going, self.lookout, self.stop = False, None, at
        self.wanted = len(self.taken)
        self._lingers = at.index == self.total
        super().to(at.index)

    def begins_inside(self, plan: list) -> None:
        """Note that the engine's current step begins a pass of its own."""
        self.note_inside(plan, self._prepared)

    def follow(self, node: Any, upstream: Any, gradients: Any) -> None:
        """Record the step that the engine has just taken."""
        self._took(node, upstream, gradients, self._prepared)
        self._prepared = self._before()
        if self.lookout is not None:
            last = len(self.taken) == self.total
            found = self.lookout.look(len(self.taken)) or (self.lookout.flush() if last else None)
            if found is not None:
                self._stopped(found)

    @property
    def held(self) -> bool:
        """Whether the engine should wait: for a command, or at its last step because a breakpoint stopped the pass there or before."""
        if self.over or self.wanted > len(self.taken):
            return False
        return len(self.taken) < self.total or self._lingers or self.index < self.total and not self.going

    def end(self, error: BaseException | None = None) -> None:
        """End the pass: complete, or stopped by `error`. `.grad` is what the engine left."""
        if self.over:
            return
        super().to(len(self.taken))
        if error is None:
            self._ended()
        else:
            self.failure = "it was interrupted." if isinstance(error, KeyboardInterrupt) else said(error)
        self.over, self.mode, self.is_record = True, "live", True
        for taken in self.taken:  # no step is redone any more: the gradients need not be held for it
            if taken is not None:
                taken.changed = [(held, before, None) for held, before, _ in taken.changed]

    def close(self) -> None:
        self.closed = True

    def _undo(self) -> None:
        if self.over:
            self.index -= 1
        else:
            super()._undo()

    def _redo(self) -> None:
        if self.over:
            self.index += 1
        else:
            super()._redo()


class PassWatcher(observe.Observer):
    """Forward everything to `inner`, and make each backward pass a `Followed`, one of `session.passes`.

    `wait(stepper)` is called wherever the pass may be paused: before its first step, and after each one. It returns when the pass should
    continue. Without `wait`, every pass runs at full speed and is a record, as is a pass that a step of another one begins. `glance()` is
    called now and then while a pass runs to a breakpoint, so that a request to stop is handled; with `going`, so does the first pass.
    """

    def __init__(
        self, session: Session, inner: observe.Observer | None, wait: Callable[[Followed], None] | None, names: Callable[[], dict],
        glance: Callable[[], None] = lambda: None, going: bool = False,
    ) -> None:  # fmt: skip
        self.session, self.inner, self.wait, self.names, self.glance = session, inner, wait, names, glance
        self._first_goes, self._due = going, 0.0
        self._latest: Followed | None = None  # the last pass that was paused
        self.stepper: Followed | None = None
        self._outer: list[Followed] = []  # those with a step that began the next one
        self._thread = get_ident()
        if wait is not None and isinstance(inner, Recorder):
            inner.every_turn = True  # a user who steps through by hand wants to see every iteration

    @property
    def _going(self) -> bool:
        """Whether the next pass runs to a breakpoint: the pass before it decides, which may be stopped even after its end."""
        return self._first_goes if self._latest is None else self._latest.going

    def begins(self) -> None:
        if self.inner is not None:
            self.inner.begins()

    def step_begins(self, node: Any) -> None:
        if self.inner is not None:
            self.inner.step_begins(node)

    def updated(self, optimizer: Any) -> None:
        if self.inner is not None:
            self.inner.updated(optimizer)

    def op(self, op: Any, inputs: tuple, attrs: dict, output: Any) -> None:
        if self.inner is not None:
            self.inner.op(op, inputs, attrs, output)

    def failed(self, op: Any, inputs: tuple, attrs: dict, error: Exception) -> None:
        if self.inner is not None:
            self.inner.failed(op, inputs, attrs, error)

    def wrote(self, op: Any, target: Any, inputs: tuple, attrs: dict) -> None:
        if self.inner is not None:
            self.inner.wrote(op, target, inputs, attrs)

    def enter(self, kind: str, name: str, subject: Any) -> None:
        if self.inner is not None:
            self.inner.enter(kind, name, subject)

    def leave(self) -> None:
        if self.inner is not None:
            self.inner.leave()

    def backward_begins(self, roots: tuple, plan: list) -> None:
        if self.inner is not None:
            self.inner.backward_begins(roots, plan)
        if get_ident() != self._thread or not plan or isinstance(self.inner, Recorder) and self.inner.resting:
            return
        around = passes_around(sys._getframe(1))
        self._back_to(around - 1, RuntimeError("another backward pass began"))
        inner = self.stepper is not None and not self.stepper.over
        if inner:
            self._outer.append(self.stepper)
            with self.session.lock:
                for one in self._outer:
                    one.begins_inside(plan)
        recorded = self.inner.recording if isinstance(self.inner, Recorder) else None
        if recorded is not None and all(recorded.row_of(node) >= 0 for node in plan):
            recording, graph = recorded, self.session.graph if self.session.recording is recorded else Graph(recorded)
            recording.root = recording.row_of(roots[0])
        else:
            recording = retrace(roots, title=self.session.recording.title)
            graph = Graph(recording)
        if self.wait is not None or recording is not recorded:
            graph.name(self.names())
        if recording is not recorded:
            graph.finish(self.names())
        session = self.session
        if self.wait is not None and not inner and self._going:
            self.glance()
        room = KEEP - sum(one.kept_bytes for one in session.passes)
        self.stepper = stepper = Followed(recording, graph, roots, plan, max(0, room))
        stepper.around = around
        with session.lock:
            session.passes = [*session.passes, stepper][-PASSES:]
            if inner:
                stepper.wanted = stepper.total
                return
            if self.wait is None:
                stepper.wanted = stepper.total
                session.recording, session.graph, session.stepper = recording, graph, stepper  # sent when the code has ended
            else:
                session.show(recording, graph, stepper)
                if self._going and stepper.held:
                    stepper.run(session.stops)
                self._latest = stepper
        if self.wait is not None and stepper.held:
            self.wait(stepper)

    def _back_to(self, around: int, error: BaseException | None = None) -> None:
        """End passes nested deeper than `around`; unfinished ones were interrupted by `error`, or had nothing left to do."""
        while self.stepper is not None and self.stepper.around > around:
            self.stepper.end(error)
            if not self._outer:
                return
            self.stepper = self._outer.pop()

    def backward(self, node: Any, grad: Any, input_grads: tuple) -> None:
        if self.inner is not None:
            self.inner.backward(node, grad, input_grads)
        if self._outer and get_ident() == self._thread:
            with self.session.lock:
                self._back_to(passes_around(sys._getframe(1)))
        stepper = self.stepper
        if get_ident() != self._thread or stepper is None or stepper.over:
            return
        with self.session.lock:
            stepper.follow(node, grad, input_grads)
        if self.wait is not None and stepper.held:
            self.session.arrived()
            self.wait(stepper)
        elif stepper.runs and monotonic() > self._due:
            self.glance()
            self._due = monotonic() + GLANCE
        if len(stepper.taken) == stepper.total and not self._outer:
            with self.session.lock:
                stepper.end()
            if self.wait is not None:
                self.session.arrived()

    def close(self, error: BaseException | None = None) -> None:
        """End the watched code, perhaps by `error`. Nodes that a pass had not reached got no gradient."""
        session = self.session
        self._back_to(1, error)
        stepper = self.stepper
        if stepper is not None and not stepper.over:
            with session.lock:
                stepper.end(error)
            if self.wait is not None:
                session.arrived()
        recorded = self.inner.recording if isinstance(self.inner, Recorder) else None
        if self.wait is None and stepper is not None and session.recording is not recorded:
            session.show(session.recording, session.graph, session.stepper)  # made by earlier code: it is complete
