"""Watching the backward passes that the user's own code runs: each becomes a pass to look at, and can be held up at every step."""

from __future__ import annotations

from collections.abc import Callable
from threading import get_ident
from typing import Any

from engine import observe
from engine.tensor import Tensor

from .graph import Graph
from .recorder import Recorder
from .recording import KEEP, Recording
from .retrace import retrace
from .session import Session
from .stepper import Stepper, said


class Followed(Stepper):
    """A pass that somebody's `backward()` runs, told step by step by an observer. It can hold that backward up.

    While the pass runs, going back and forth in what has run changes `.grad` as in any Stepper; the engine goes on only from the last
    step taken. When it is over, what remains is a record: looking back in it changes nothing any more.
    """

    mode = "paused"

    def __init__(self, recording: Recording, graph: Graph, roots: tuple, plan: list, keep: int = KEEP) -> None:
        super().__init__(recording, graph, roots, plan, None, keep)
        self.wanted = 0  # run until so many steps are done
        self.over = False
        self._prepared = self._before()

    @staticmethod
    def _restorable(grad: Any) -> Any:
        """The user's own backward() adds into the gradient that is there, so going back needs a copy of what it was."""
        return None if grad is None else Tensor._wrap(grad.array.copy())

    def to(self, index: int) -> int:
        """Go there as far as the engine has come; `wanted` says how far it shall go."""
        self._alive()
        index = max(0, min(index, self.total))
        super().to(min(index, len(self.taken)))
        if index > len(self.taken) and not self.over:
            self.wanted = index
        return self.index

    def next(self) -> int:
        if self.index < len(self.taken):
            return super().next()
        return self.to(self.index + 1)

    def follow(self, node: Any, upstream: Any, gradients: Any) -> None:
        """The engine has just taken this step."""
        self._took(node, upstream, gradients, self._prepared)
        self._prepared = self._before()

    @property
    def held(self) -> bool:
        """Whether the engine shall wait."""
        return not self.over and self.wanted <= len(self.taken) < self.total

    def end(self, error: BaseException | None = None) -> None:
        """The pass is over: complete, or stopped by `error`. `.grad` is what the engine left."""
        if self.over:
            return
        super().to(len(self.taken))
        if error is None:
            self._ended()
        else:
            self.failure = "it was interrupted." if isinstance(error, KeyboardInterrupt) else said(error)
        self.over, self.mode = True, "live"

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
    """Tells everything on to `inner`, and makes of each backward pass a `Followed` in `session`.

    `wait(stepper)` is called wherever the pass may be held up: before its first step, and after each. It returns when the pass shall go on.
    """

    def __init__(
        self, session: Session, inner: observe.Observer | None, wait: Callable[[Followed], None] | None, names: Callable[[], dict]
    ) -> None:
        self.session, self.inner, self.wait, self.names = session, inner, wait, names
        self.stepper: Followed | None = None
        self._thread = get_ident()

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
        if get_ident() != self._thread or not plan:
            return
        if self.stepper is not None:
            self.stepper.end(RuntimeError("another backward pass began"))
        recorded = self.inner.recording if isinstance(self.inner, Recorder) else None
        if recorded is not None and all(recorded.row_of(node) >= 0 for node in plan):
            recording, graph = recorded, self.session.graph if self.session.recording is recorded else Graph(recorded)
            recording.root = recording.row_of(roots[0])
        else:
            recording = retrace(roots, title=self.session.recording.title)
            graph = Graph(recording)
        graph.name(self.names())
        if recording is not recorded:
            graph.finish(self.names())
        self.stepper = Followed(recording, graph, roots, plan)
        if self.wait is None:
            self.stepper.wanted = self.stepper.total
        self.session.show(recording, graph, self.stepper)
        if self.wait is not None and self.stepper.held:
            self.wait(self.stepper)

    def backward(self, node: Any, grad: Any, input_grads: tuple) -> None:
        if self.inner is not None:
            self.inner.backward(node, grad, input_grads)
        stepper = self.stepper
        if get_ident() != self._thread or stepper is None or stepper.over:
            return
        with self.session.lock:
            stepper.follow(node, grad, input_grads)
            complete = len(stepper.taken) == stepper.total
            if complete:
                stepper.end()
        if complete:
            self.session.arrived()
        elif self.wait is not None and stepper.held:
            self.session.arrived()
            self.wait(stepper)

    def close(self, error: BaseException | None = None) -> None:
        """The watched code has ended, perhaps by `error`. What a pass had not reached got no gradient."""
        if self.stepper is not None and not self.stepper.over:
            with self.session.lock:
                self.stepper.end(error)
            self.session.arrived()
