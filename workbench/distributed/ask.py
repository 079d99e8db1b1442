"""The implementation of `wb.ranks`."""

from __future__ import annotations

import itertools
import threading
import zlib
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Protocol
from weakref import ref

import numpy

from engine.distributed import world
from engine.distributed.monitor import Monitor

from ..inspector import host
from . import picture
from .board import Board

EVERY, SILENT = 0.6, 0.35  # seconds between two drawings; until a rank counts as silent: together less than 1
LINES = 4  # drawings for each new time line, which takes most of their time


class Screen(Protocol):
    """Where a board is drawn."""

    def draw(self, html: str, text: str) -> None:
        """Replace what was drawn before."""
        ...


class Ranks:
    """What `wb.ranks` returns: the board of all ranks, as it is when it is printed, and the controls of a pause."""

    def __init__(self, model: Any = None, every: int = 10, screen: Screen | None = None) -> None:
        if every < 1:
            raise ValueError(f"wb.ranks: every is a number of steps of at least 1, got {every}")
        self._monitor: Monitor = world.monitor()
        if model is not None:
            if not hasattr(model, "named_parameters"):
                raise TypeError(f"wb.ranks takes an nn.Module, got {type(model).__name__}")
            self._monitor.fingerprint(every, _hash_of(model))
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None
        if screen is not None and self._monitor.group.rank() == 0:
            board = self.board()
            screen.draw(picture.html(board), repr(board))  # here, since the running cell is known to this thread only
            self._thread = threading.Thread(target=self._draws, args=(screen,), daemon=True, name="ranks")
            self._thread.start()

    def board(self) -> Board:
        """Ask all ranks now, and return what they are doing. A rank that is silent for 0.35 s is shown as such."""
        group, control = self._monitor.group, self._monitor.group.control
        states = self._monitor.states(SILENT)
        if threading.current_thread() is threading.main_thread():
            states[group.ranks[group.rank()]]["at"] = "here"
        gone = {} if control is None else {rank: one.how for rank, one in control.gone.items()}
        return Board(group.ranks, states, gone, {} if control is None else dict(control.paused))

    def pause(self) -> int:
        """Have all ranks pause after the same step of their optimizer, and return its number; returns at once. Time-outs stand still."""
        return self._monitor.pause()

    def resume(self) -> None:
        """Have all ranks go on."""
        self._monitor.resume()

    def alone(self) -> AbstractContextManager[None]:
        """In this block, only this rank goes on, for as long as it takes: the others wait where they need it, and do not time out.

        For `wb.step` on one rank, and for a debugger.
        """
        return self._monitor.alone("in a block of wb.ranks().alone()")

    def close(self) -> None:
        """Stop drawing."""
        self._ended.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()

    def _draws(self, screen: Screen) -> None:
        line = ""
        for number in itertools.count():
            if self._ended.wait(EVERY) or not world.is_initialized() or world.monitor() is not self._monitor:
                return
            board = self.board()
            if number % LINES == 0:
                line = picture.time_line(board.calls)
            screen.draw(picture.html(board, line), repr(board))

    def __repr__(self) -> str:
        return repr(self.board())

    def _repr_html_(self) -> str:
        return picture.html(self.board())


def _hash_of(model: Any) -> Callable[[], int]:
    """A function that returns a hash of the model's parameters; 0 once the model is gone."""
    held = ref(model)

    def found() -> int:
        module, code = held(), 0
        for p in () if module is None else module.parameters():
            code = zlib.crc32(numpy.ascontiguousarray(host(p.array)).view(numpy.uint8), code)
        return code

    return found
