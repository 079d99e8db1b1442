"""Make a running cell wait for the view, for `with wb.step():` and `wb.loop(...)`, while the kernel keeps handling its messages.

There are two ways from the view to a kernel with a waiting main thread. JupyterLab >= 4.4 with ipykernel 7 sends comm messages to a
subshell, another thread. All others send them to the main shell, so the waiting thread reads that socket itself: it answers comms and
kernel info requests, and defers all else, such as the next cell, until the cell ends.
"""

from __future__ import annotations

import inspect
import json
import sys
from collections.abc import Callable, Iterable, Sequence
from time import monotonic
from typing import Any, Literal

import zmq
from IPython.core.getipython import get_ipython
from IPython.display import display

from engine.base import observe

from ..backward.breakpoints import Breakpoint
from ..recording.recorder import Recorder
from ..recording.recording import Recording
from ..session.passes import GLANCE, Followed, PassWatcher
from ..session.session import Session
from ..training.loop import Loop
from . import cells, comm
from .bell import Bell
from .widget import View

PATIENCE = 20.0  # seconds within which a view must open; without one, nothing could resume the cell
TICK = 100  # milliseconds between two checks of the time
SERVED = {"comm_open", "comm_msg", "comm_close", "comm_info_request", "kernel_info_request"}


class Pause:
    """Inside the block, every backward pass waits at each step, and is moved by the view in the cell's output."""

    def __init__(self, patience: float = PATIENCE, until: Sequence[Breakpoint] = ()) -> None:
        self.patience, self.until = patience, list(until)
        self._alone = False  # there is no view
        self._observing: Any = None
        self._watcher: PassWatcher | None = None
        self._view: View | None = None
        self._shown: Any = None

    def __enter__(self) -> Session:
        inner = observe.current
        session = comm.latest() if isinstance(inner, Recorder) else None
        if session is None or not isinstance(inner, Recorder) or session.recording is not inner.recording:
            session = Session(Recording(cells.title()))
            self._view = View(session)
            self._shown = display(self._view, display_id=True)
        shell = get_ipython()
        names: Callable[[], dict] = lambda: shell.user_ns if shell is not None else {}  # noqa: E731
        self.session = session
        session.until = self.until
        self._watcher = PassWatcher(session, inner, self._wait, names, glance, bool(self.until))
        self._observing = observe.observing(self._watcher)
        self._observing.__enter__()
        return session

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        self._observing.__exit__(None, None, None)
        assert self._watcher is not None
        self._watcher.close(error)
        self.session.until = []
        if self._shown is not None:
            self._shown.update(self._view)  # the stills in the saved notebook show the graph that was stepped through

    def _wait(self, stepper: Followed) -> None:
        """Wait until the view lets the pass continue. A KeyboardInterrupt propagates and ends backward()."""
        if not self._alone and unattended():
            self._alone = True
            print("wb.step(): nobody can press a button here, so the backward pass continues.")
        elif not self._alone and not attend(self.session, "pass", lambda: stepper.held, self.patience):
            self._alone = True
            print(
                f"wb.step(): no view has opened within {self.patience:.0f} s, so the backward pass continues without it.",
                file=sys.stderr,
            )
        if self._alone:
            stepper.wanted = stepper.total


class Gate:
    """Makes the cell wait before each iteration of a `wb.loop`, as long as the view wants it to."""

    def __init__(self, patience: float = PATIENCE) -> None:
        self.patience = patience
        self._due = 0.0

    def __call__(self, loop: Loop) -> None:
        if not loop.held and monotonic() > self._due:
            glance()
            self._due = monotonic() + GLANCE
        if not loop.held:
            return
        loop.session.tell_training()
        if unattended():
            print("wb.loop(): nobody can press a button here, so the loop plays.")
            loop.wish("play")
        elif not attend(loop.session, "loop", lambda: loop.held, self.patience):
            print(f"wb.loop(): no view has opened within {self.patience:.0f} s, so the loop runs without it.", file=sys.stderr)
            loop.wish("play")


def controlled(iterable: Iterable, subjects: tuple) -> Loop:
    """Create a loop controlled by a view, which is displayed in the output of the running cell."""
    session = Session(Recording(cells.title()))
    session.graph.finish()  # there is nothing yet, and nothing is being recorded
    shell = get_ipython()
    view = View(session)
    loop = Loop(iterable, subjects, session, Gate(), lambda: shell.user_ns if shell is not None else {}, lambda: shown.update(view))
    shown: Any = display(view, display_id=True)
    return loop


def unattended() -> bool:
    """Whether a program such as nbconvert runs this cell. Front ends with a person at them allow `input()`; such programs do not."""
    kernel = getattr(get_ipython(), "kernel", None)
    request = {} if kernel is None else kernel.get_parent("shell")
    return request.get("content", {}).get("allow_stdin") is False


def attend(session: Session, waits: Literal["pass", "loop"], held: Callable[[], bool], patience: float) -> bool:
    """Serve the view as long as `held()`; return False if none has opened within `patience` seconds, so none could resume the cell."""
    deadline = monotonic() + patience
    pump = Pump()
    with Bell() as bell:
        before, session.heard = session.heard, bell.ring
        session.waits = waits
        try:
            while held():
                pump.listen(TICK, bell)
                if not session.opened and monotonic() > deadline:
                    return False
        finally:
            session.heard, session.waits = before, ""
    return True


def glance() -> None:
    """Handle the view's pending messages while the cell continues."""
    Pump().listen(0)


_later: list[list[bytes]] = []  # messages deferred until the cell ends
_return_due = False  # the kernel's loop will forward them


class Pump:
    """Reads the main shell's socket while the main thread is busy, and defers other messages to the kernel until the cell ends."""

    def __init__(self) -> None:
        self.kernel: Any = getattr(get_ipython(), "kernel", None)
        self.stream = None if self.kernel is None else _shell_stream(self.kernel)

    def listen(self, milliseconds: int, bell: Bell | None = None) -> None:
        """Serve messages that arrive within this time, or until the bell rings."""
        global _return_due
        if self.stream is None:
            return
        # Before anything is read, as an interrupt may end this anywhere: once polled, a zmq socket notifies its loop of messages only after
        # it was read empty.
        if not _return_due:
            _return_due = True
            self.stream.io_loop.add_callback(_hand_back, self.stream)
        socket, poller = self.stream.socket, zmq.Poller()
        poller.register(socket, zmq.POLLIN)
        if bell is not None:
            poller.register(bell.fileno(), zmq.POLLIN)
        came = dict(poller.poll(milliseconds))
        if bell is not None and bell.fileno() in came:
            bell.hush()
        if socket not in came:
            return
        while True:
            try:
                frames = socket.recv_multipart(zmq.NOBLOCK)  # bytes: a zmq.Frame swallows an interrupt that arrives during its deallocation
            except zmq.Again:
                return
            if _kind(frames) in SERVED:
                self._serve(frames)
            else:
                _later.append(frames)

    def _serve(self, frames: list[bytes]) -> None:
        kernel = self.kernel
        idents, rest = kernel.session.feed_identities(frames)
        message = kernel.session.deserialize(rest)
        cell = kernel.get_parent("shell")
        cell_idents = _idents(kernel)
        kernel.set_parent(idents, message, channel="shell")
        try:
            kernel._publish_status("busy", "shell")
            reply = _reply_stream(kernel, self.stream)
            result = kernel.shell_handlers[message["header"]["msg_type"]](reply, idents, message)
            if inspect.isawaitable(result):
                _run(result)
            kernel._publish_status("idle", "shell")
            if hasattr(reply, "flush"):
                reply.flush(zmq.POLLOUT)
        finally:
            kernel.set_parent(cell_idents, cell, channel="shell")


def _hand_back(stream: Any) -> None:
    """Pass the deferred messages to the kernel after the cell has ended, then those that arrived since."""
    global _return_due
    _return_due = False
    waiting = _later.copy()
    _later.clear()
    for frames in waiting:
        stream._run_callback(stream._recv_callback, [zmq.Frame(frame) for frame in frames])
    stream.flush(zmq.POLLIN)


def _shell_stream(kernel: Any) -> Any:
    """The stream from which the main thread gets messages: that of the shell channel's thread in ipykernel 7, else the shell socket."""
    thread = getattr(kernel, "shell_channel_thread", None)
    if thread is None:
        return kernel.shell_stream
    return thread.manager.get_shell_channel_to_subshell_pair(None).to_stream


def _reply_stream(kernel: Any, stream: Any) -> Any:
    thread = getattr(kernel, "shell_channel_thread", None)
    return stream if thread is None else thread.manager.get_subshell_to_shell_channel_socket(None)


def _idents(kernel: Any) -> Any:
    """The identities of the running cell's request; where they are stored depends on ipykernel's version."""
    read = getattr(kernel, "_get_shell_context_var", None)
    if read is not None:
        return read(kernel._shell_parent_ident)
    return getattr(kernel, "_parent_ident", {}).get("shell", b"")


def _kind(frames: list[bytes]) -> str:
    """The message's type, read without registering its signature, as a deferred message is read again."""
    for i, frame in enumerate(frames):
        if frame == b"<IDS|MSG>" and i + 2 < len(frames):
            return json.loads(frames[i + 2]).get("msg_type", "")
    return ""


def _run(coroutine: Any) -> None:
    """Run a request handler; those served here never actually wait."""
    try:
        coroutine.send(None)
    except StopIteration:
        return
    coroutine.close()
    raise RuntimeError("a kernel request handler waits for something, which it cannot do while a cell is paused")
