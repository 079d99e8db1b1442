"""Where the program made the host wait for a GPU: how often and how long, by line and by iteration of the training loop."""

from __future__ import annotations

from array import array
from types import CodeType, FrameType
from typing import Any

from engine.base import errors

from ..base.frames import HIDDEN


class Wait:
    """The waits of one call at one place in the user's code. The columns have an entry for each iteration in which it waited."""

    def __init__(self, code: CodeType, lasti: int, call: str, what: str, row: int) -> None:
        self.code, self.lasti = code, lasti
        self.call = call  # the engine's function or op that the line called: "item", "__bool__", "nonzero"
        self.what = what  # the engine's word for the wait: "get", "int", "synchronize", "copy"
        self.row = row  # the number of rows when it first waited
        self.turns, self.counts, self.seconds = array("q"), array("q"), array("d")

    def add(self, turn: int, seconds: float) -> None:
        """Add a wait in an iteration."""
        if self.turns and self.turns[-1] == turn:
            self.counts[-1] += 1
            self.seconds[-1] += seconds
        else:
            self.turns.append(turn)
            self.counts.append(1)
            self.seconds.append(seconds)


class Waits:
    """All waits of a recording."""

    def __init__(self) -> None:
        self.found: dict[tuple, Wait] = {}
        self.turned = array("d")  # when each iteration ended, by `time.perf_counter()`

    def add(self, frame: FrameType | None, user: Any, what: str, seconds: float, turn: int, row: int) -> None:
        """Add a wait, which the function of `frame` made; `user` tells of a code object whether it is the user's although it is hidden.

        The workbench's own waits are left out.
        """
        inside = []
        while frame is not None and errors.hides(frame.f_code) and not user(frame.f_code):
            if frame.f_code.co_filename.startswith(HIDDEN[1]):
                return
            inside.append(frame)
            frame = frame.f_back
        if frame is None:
            return
        key = id(frame.f_code), frame.f_lasti, what
        wait = self.found.get(key)
        if wait is None:
            wait = self.found[key] = Wait(frame.f_code, frame.f_lasti, _called(inside), what, row)
        wait.add(turn, seconds)


def _called(frames: list[FrameType]) -> str:
    """The name of the op, or of the engine's function, that the user's line called; the last frame is the outermost."""
    for frame in reversed(frames):
        op, code = frame.f_locals.get("op"), frame.f_code
        if isinstance(op, type) and hasattr(op, "forward"):
            return op.name  # type: ignore[attr-defined]
        if "<locals>" not in code.co_qualname:
            return code.co_name
    return ""
