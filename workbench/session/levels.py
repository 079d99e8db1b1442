"""How much the views show: everything, or what a student needs to follow a backward pass."""

from __future__ import annotations

from typing import get_args

from ..protocol import LevelName

current: LevelName | None = None  # None: not chosen, and each notebook keeps its own


def choose(level: LevelName) -> None:
    """Set the level of every view. Raises ValueError for an unknown name."""
    global current
    if level not in get_args(LevelName):
        raise ValueError(f"A level is one of {', '.join(map(repr, get_args(LevelName)))}, not {level!r}")
    current = level
