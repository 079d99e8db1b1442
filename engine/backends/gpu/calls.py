"""Calls whose errors come later: a number that a kernel carries, and the user's line for it while something observes the program."""

from __future__ import annotations

import itertools
from types import CodeType

from ...base import errors, observe

_BITS = 12  # of the number, for the kind of error; 19 are left for the call
_REMEMBERED = 10_000  # calls of which the line is known
_calls = itertools.count()
_lines: dict[int, tuple[CodeType, int]] = {}  # the number of a call -> its line


def numbered(kind: int) -> int:
    """Return a number of 31 bits for an error of a kind, from 0 to 4095, that this call may turn out to have."""
    frame = None if observe.watcher() is None else errors.user_frame()
    if frame is None:
        return kind
    call = 1 + next(_calls) % ((1 << 31 - _BITS) - 1)
    _lines.pop(call, None)
    _lines[call] = frame.f_code, frame.f_lineno
    if len(_lines) > _REMEMBERED:
        del _lines[next(iter(_lines))]
    return kind | call << _BITS


def found(number: int) -> tuple[int, str]:
    """Return the kind of error that a number stands for, and the end of a phrase about the call, ", called in train.py, line 12", or ""."""
    call, kind = number >> _BITS, number & (1 << _BITS) - 1
    return kind, f", called in {errors.where(*_lines[call])}" if call in _lines else ""
