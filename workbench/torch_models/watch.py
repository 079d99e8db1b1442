"""Watches for PyTorch: a recording with its graph and passes, connected to the session that shows them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from ..graph.boxes import put_in_boxes
from ..recording.recorder import MAX_ROWS
from ..recording.recording import KEEP
from ..session.passes import PASSES
from ..session.session import Session
from . import nodes, stepping
from .loaded import is_module, torch
from .naming import TorchGraph
from .passes import PassRecorder, TorchPass
from .recorder import TorchRecorder, bookkeeping
from .recording import TorchRecording

Names = Callable[[], Mapping[str, Any]]


class TorchWatch:
    """Records the PyTorch ops in the `with` block, and shows them in `session` from the first op on.

    `names()` returns the user's variables. If `ours` is false, the session keeps its current content until the first PyTorch op.
    """

    def __init__(self, session: Session, names: Names, title: str = "", keep: int = KEEP, limit: int = MAX_ROWS, ours: bool = True) -> None:
        self.session, self.names = session, names
        self.recording = TorchRecording(title, keep)
        self.recording.begin = stepping.begin
        self.graph = TorchGraph(self.recording)
        self.passes = PassRecorder(self.recording, self.graph, self._passed, lambda: room_of(session, keep))
        self.recorder = TorchRecorder(self.recording, self.passes, limit)
        if ours:
            session.show(self.recording, self.graph)
        else:
            self.recorder.first = self._take
        self._inside = False  # whether the watched code is running

    def __enter__(self) -> TorchWatch:
        self._inside = True
        self.recorder.__enter__()
        self.recorder.listener = self.session.update
        return self

    def __exit__(self, *error: Any) -> None:
        self.recorder.__exit__(*error)
        self.passes.remove()
        self._inside = False
        self.finish()

    @contextmanager
    def calls(self) -> Iterator[None]:
        """Record within the block, and afterwards keep reporting backward passes through the recorded graph."""
        self.recorder.listener = self.session.update
        try:
            with self.recorder:
                yield
        finally:
            self.finish()

    def finish(self) -> None:
        """Finish the graph after the code has ended, when names, loops and folds are known."""
        if self.session.recording is self.recording:
            self.session.finish(self.names())
        else:
            self.graph.finish(self.names())

    def _take(self) -> None:
        if not self.session.recording.count:  # otherwise ops of the engine came first
            self.session.show(self.recording, self.graph)

    def _passed(self, record: TorchPass) -> None:
        if record.plan:
            self.recording.root = record.plan[0]
        self.recording.witness.ran(self.recording, record)
        if self.session.recording is self.recording:
            _add(self.session, record)
            if not self._inside:  # otherwise it is shown when the code has ended
                with bookkeeping():
                    self.graph.name(self.names())
                    self.session.show(self.recording, self.graph, record)


class TensorWatch:
    """The graph behind one PyTorch tensor, with a record of each later backward pass through it."""

    def __init__(self, session: Session, tensor: Any, names: Names, title: str = "", keep: int = KEEP) -> None:
        self.session, self.names = session, names
        self.recording = TorchRecording(title, keep)
        self.recording.begin = stepping.begin
        self.graph = TorchGraph(self.recording)
        self.passes = PassRecorder(self.recording, self.graph, self._passed, lambda: room_of(session, keep))
        if tensor.grad_fn is not None:
            nodes.extend(self.recording, [tensor.grad_fn], self.passes.hang)
            self.recording.root = self.recording.row_of(tensor.grad_fn)
            self.recording.stands(tensor, self.recording.root)
            mine = [value for name, value in names().items() if is_module(value) and not name.startswith("_")]
            put_in_boxes(self.recording, mine, torch().nn)
        else:
            self.recording.root = self.recording.leaf(tensor)
        self.recording.title = title or self.recording.op_name(self.recording.root)
        self.graph.finish(names())
        session.show(self.recording, self.graph)

    def close(self) -> None:
        """Remove all hooks from the graph."""
        self.passes.remove()

    def _passed(self, record: TorchPass) -> None:
        if self.session.recording is self.recording:
            _add(self.session, record)
            with bookkeeping():
                self.graph.name(self.names())
                self.session.show(self.recording, self.graph, record)


def _add(session: Session, record: TorchPass) -> None:
    """Add the pass to the session's passes, and show it."""
    with session.lock:
        session.passes = [*session.passes, record][-PASSES:]
        session.stepper = record


def room_of(session: Session, keep: int) -> int:
    """The bytes of gradients that a new record may hold. The oldest records are released until it is at least half of the budget."""
    held = sum(one.kept_bytes for one in session.passes)
    for one in session.passes:
        if keep - held >= keep // 2:
            break
        if isinstance(one, TorchPass) and one.kept_bytes:
            held -= one.kept_bytes
            one.let_go()
    return max(0, keep - held)
