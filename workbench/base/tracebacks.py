"""Trim tracebacks to the program's own lines, without those of the engine and the workbench."""

from __future__ import annotations

from types import TracebackType

from .frames import HIDDEN, is_installed


def trim(error: BaseException) -> None:
    """Remove internal lines from the traceback of an error and of its causes, and remove causes that are internal altogether."""
    chain, seen = [error], set()
    while chain:
        one = chain.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        if one.__cause__ is not None and _inner(one.__cause__):
            one.__cause__ = None  # also hides the context
        if one.__context__ is not None and _inner(one.__context__):
            one.__context__ = None
        chain += [link for link in (one.__cause__, one.__context__) if link is not None]
        one.__traceback__ = _without_ours(one.__traceback__)


def _inner(error: BaseException) -> bool:
    """Whether it was caught inside the engine, with no line of the user's involved."""
    files = []
    place = error.__traceback__
    while place is not None:
        files.append(place.tb_frame.f_code.co_filename)
        place = place.tb_next
    return bool(files) and files[0].startswith(HIDDEN) and all(map(is_installed, files))


def _without_ours(place: TracebackType | None) -> TracebackType | None:
    kept = []
    while place is not None:
        if not place.tb_frame.f_code.co_filename.startswith(HIDDEN):
            kept.append(place)
        place = place.tb_next
    rest: TracebackType | None = None
    for one in reversed(kept):
        rest = TracebackType(rest, one.tb_frame, one.tb_lasti, one.tb_lineno)
    return rest
