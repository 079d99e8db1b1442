"""End tracebacks of cells at the user's line, as in `workbench run`; `%xmode Verbose` shows the engine's lines too."""

from __future__ import annotations

from types import TracebackType
from typing import Any

from ..base.tracebacks import trim
from . import magics


def register(shell: Any) -> None:
    """Hide the lines of the engine and the workbench in errors, unless a custom exception handler is already set."""
    if not shell.custom_exceptions:
        shell.set_custom_exc((BaseException,), _shown)


def _shown(shell: Any, kind: type[BaseException], error: BaseException, trace: Any, tb_offset: int | None = None) -> None:
    if shell.InteractiveTB.mode != "Verbose":
        error.__traceback__, watched = _below_magics(error.__traceback__)
        tb_offset = 0 if watched else tb_offset
        trim(error)
    shell.showtraceback((kind, error, error.__traceback__), tb_offset=tb_offset, running_compiled_code=True)


def _below_magics(trace: TracebackType | None) -> tuple[TracebackType | None, bool]:
    """The part of a traceback below the watch magic, or all of it; and whether it is of a watched cell."""
    place, found = trace, None
    while place is not None:
        if place.tb_frame.f_code is magics.WatchMagics.watch.__code__:
            found = place.tb_next
        place = place.tb_next
    return (trace, False) if found is None else (found, True)
