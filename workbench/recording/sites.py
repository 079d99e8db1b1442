"""Find the user's code behind an event: the innermost frame outside the engine and the workbench."""

from __future__ import annotations

import sys
from functools import lru_cache
from types import CodeType
from typing import Any

from ..base.frames import HIDDEN


@lru_cache(4096)
def positions(code: CodeType) -> tuple:
    """For each instruction, the lines and columns of its expression."""
    return tuple(code.co_positions())


def line_of(code: CodeType, lasti: int) -> int:
    """The line of the instruction; the code's first line if unknown."""
    found = positions(code)
    line = found[lasti // 2][0] if lasti // 2 < len(found) else None
    return code.co_firstlineno if line is None else line


class Sites:
    """Finds the user's frame for one recorder, and caches which code objects are hidden."""

    def __init__(self) -> None:
        self.hidden: dict[int, bool] = {}  # id of a code object -> whether it is not the user's
        self._codes: list[CodeType] = []  # keeps these ids valid

    def add(self, code: CodeType) -> None:
        """Treat this code as the user's, wherever it is defined."""
        self.hidden[id(code)] = False
        self._codes.append(code)

    def added(self, code: CodeType) -> bool:
        """Whether this code was declared the user's."""
        return self.hidden.get(id(code)) is False

    def hides(self, code: CodeType) -> bool:
        """Whether code that is not cached yet belongs to the engine or the workbench."""
        hidden = self.hidden[id(code)] = code.co_filename.startswith(HIDDEN)
        self._codes.append(code)
        return hidden

    def frame(self, frame: Any) -> Any:
        """The innermost user frame, starting at this one; None if there is none."""
        known = self.hidden
        while frame is not None:
            code = frame.f_code
            hidden = known.get(id(code))
            if not (self.hides(code) if hidden is None else hidden):
                break
            frame = frame.f_back
        return frame

    def site(self, deep: int = 3) -> tuple[CodeType | None, int]:
        frame = self.frame(sys._getframe(deep))  # below are the observer's method and the engine's
        return (None, 0) if frame is None else (frame.f_code, frame.f_lasti)
