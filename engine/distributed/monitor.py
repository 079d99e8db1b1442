"""`Monitor`: what a process of a job reports of itself while it trains, and how all processes pause after the same step.

It costs a call for each step of an optimizer. All else happens when another process asks, in the thread of `Control`.
"""

from __future__ import annotations

import math
import os
import socket
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from weakref import ref

from ..base import errors
from ..optim.optimizer import register_optimizer_step_post_hook
from .group import ProcessGroup

RECENT = 40  # collectives that are reported
_HASHES = 8  # fingerprints that are reported
_ENGINE = str(Path(__file__).resolve().parents[1])
_OPS = str(Path(_ENGINE) / "ops")


class Monitor:
    """The report of one process, and its place in a pause of all. A step is one step of the optimizer that made the first."""

    def __init__(self, group: ProcessGroup) -> None:
        self.group, self.step, self.held = group, 0, False
        self._until: float = math.inf  # pause after this step
        self._changed = threading.Event()
        self._optimizer: Callable[[], Any] = lambda: None
        self._hashes: deque[tuple[int, int]] = deque(maxlen=_HASHES)
        self._fingerprint: tuple[int, Callable[[], int]] | None = None
        self._hook = register_optimizer_step_post_hook(self._stepped)
        if group.control is not None:
            group.control.heeds["hold"] = lambda _, until: self._hold(until)

    def close(self) -> None:
        """Stop counting steps, and go on if it is paused."""
        self._hook.remove()
        self._hold(None)

    def fingerprint(self, every: int, of: Callable[[], int]) -> None:
        """Report `of()`, such as a hash of the parameters, after each `every`-th step."""
        self._fingerprint = every, of

    # -- the report --------------------------------------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """Return what this process is doing, as values of JSON."""
        calls = list(self.group.calls)[-RECENT:]
        return {
            "host": socket.gethostname(),
            "pid": os.getpid(),
            "now": time.time(),
            "step": self.step,
            "at": _at(),
            "until": None if self._until == math.inf else self._until,
            "held": self.held,
            "memory": _memory(),
            "hashes": list(self._hashes),
            "recent": [[c.number, c.name, c.op, c.nbytes, c.entered, c.left, c.place] for c in calls],
        }

    def states(self, seconds: float = 0.5) -> dict[int, dict[str, Any]]:
        """Return the reports of all processes by rank. Those that do not answer in time are missing."""
        control, ranks = self.group.control, self.group.ranks
        me = ranks[self.group.rank()]
        found = {me: {"calls": {str(self.group.number): self.group.called()}, "doing": self.group.doing()} | self.state()}
        return found if control is None else found | control.ask(ranks, seconds)

    # -- pauses ------------------------------------------------------------------------------------------------------------------

    def _stepped(self, optimizer: Any, *_: Any) -> None:
        first = self._optimizer()
        if first is None:
            self._optimizer = ref(optimizer)
        elif first is not optimizer:
            return
        self.step += 1
        if self._fingerprint is not None and self.step % self._fingerprint[0] == 0:
            self._hashes.append((self.step, self._fingerprint[1]()))
        if self.step >= self._until:
            with self.alone(f"after step {self.step}"):
                self._wait()

    def _wait(self) -> None:
        self.held = True
        try:
            while self.step >= self._until and not (self.group.control and self.group.control.gone):
                self._changed.wait(0.2)
                self._changed.clear()
        finally:
            self.held = False

    def _hold(self, until: float | None) -> None:
        self._until = math.inf if until is None else until
        self._changed.set()

    def _all_hold(self, until: float | None) -> None:
        self._hold(until)
        if self.group.control is not None:
            self.group.control.tell(hold=until)

    def pause(self, seconds: float = 5.0) -> int:
        """Have all processes pause after the same step, the next that none has passed, and return its number.

        It returns at once; a process pauses when it has finished that step. Time-outs stand still until `resume`. Processes that do not
        answer within `seconds` are left out.
        """
        self._all_hold(0)  # from here on no process that has heard of it passes the end of a step
        end = time.monotonic() + seconds
        while True:
            states, gone = self.states(), self.group.control.gone if self.group.control is not None else {}
            heard = all(state["until"] == 0 for state in states.values()) and {*states, *gone} >= {*self.group.ranks}
            if heard or time.monotonic() > end:
                break
        step = max(state["step"] + (not state["held"]) for state in states.values())
        self._all_hold(step)
        return step

    def resume(self) -> None:
        """Have all processes go on."""
        self._all_hold(None)

    @contextmanager
    def alone(self, where: str) -> Iterator[None]:
        """Stop the clocks of all time-outs while this process is in the block; `where` tells people where it is."""
        control = self.group.control
        if control is None:
            yield
            return
        control.tell(paused=where)
        try:
            yield
        finally:
            control.tell(paused=None)


def _at() -> str:
    """Return where the program is: "matmul at train.py, line 12", or without an op if none is running; "" if a kernel runs no cell."""
    frame = sys._current_frames().get(threading.main_thread().ident or 0)
    op = ""
    while frame is not None and frame.f_code.co_filename.startswith(_ENGINE):
        if not op and frame.f_code.co_filename.startswith(_OPS) and "." in frame.f_code.co_qualname:
            op = frame.f_code.co_qualname.split(".")[0] + " at "
        frame = frame.f_back
    if frame is None or frame.f_globals.get("__name__") == "selectors":  # the loop of a kernel waits for messages
        return ""
    return f"{op}{errors.where(frame.f_code, frame.f_lineno)}"


def _memory() -> int | None:
    """Return the bytes of memory that the process occupies, where the system tells."""
    try:
        return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return None
