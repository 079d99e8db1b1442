"""Where in the user's code something happened: the innermost frame that is neither the engine's nor the workbench's."""

from __future__ import annotations

import sys
from functools import lru_cache
from types import CodeType
from typing import Any

from .frames import HIDDEN


@lru_cache(4096)
def positions(code: CodeType) -> tuple:
    """Of each instruction the lines and columns of its expression."""
    return tuple(code.co_positions())


def line_of(code: CodeType, lasti: int) -> int:
    """The line that the instruction stands on; the code's first where that is not known."""
    found = positions(code)
    line = found[lasti // 2][0] if lasti // 2 < len(found) else None
    return code.co_firstlineno if line is None else line


class Sites:
    """Finds the frame for one recorder; it knows after once which code is whose."""

    def __init__(self) -> None:
        self.hidden: dict[int, bool] = {}  # identity of a code object -> it is not the user's
        self._codes: list[CodeType] = []  # keeps those identities theirs

    def add(self, code: CodeType) -> None:
        """Count this code among the user's, wherever it stands."""
        self.hidden[id(code)] = False
        self._codes.append(code)

    def hides(self, code: CodeType) -> bool:
        """Whether the code, of which nothing is known yet, is the engine's or the workbench's."""
        hidden = self.hidden[id(code)] = code.co_filename.startswith(HIDDEN)
        self._codes.append(code)
        return hidden

    def frame(self, frame: Any) -> Any:
        """The innermost frame from this one on that is the user's; None where there is none."""
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
