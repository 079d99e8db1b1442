"""The roots of a search: variables, and objects that Python, the workbench and a notebook keep themselves."""

from __future__ import annotations

import sys
import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from ...base import frames
from ...recording.recording import recent
from .chain import Root

_NOT_THE_USERS = ("In", "Out", "exit", "quit", "get_ipython", "open")

_rooms: list[Callable[[], Iterable[Root]]] = []  # providers of further roots, such as the notebook
_walls: list[Callable[[], Iterable[Any]]] = []  # providers of objects that refer to everything, such as the notebook's shell
_namespace: Callable[[], Mapping[str, Any]] = lambda: vars(sys.modules["__main__"])  # noqa: E731

FEW = 10_000  # objects visited from a module's variable, or from a running library function
FORGET_ERROR = 'wb.release("error")'
FORGOT_ERROR = "frees the local variables of the failed call"


def add_roots(room: Callable[[], Iterable[Root]], wall: Callable[[], Iterable[Any]]) -> None:
    """Register a provider of further roots and one of objects not to traverse. Registering the same `room` twice is a no-op."""
    if room not in _rooms:
        _rooms.append(room)
        _walls.append(wall)


def set_namespace(names: Callable[[], Mapping[str, Any]]) -> None:
    """Set the function that returns the user's variables; called by workbench.jupyter."""
    global _namespace
    _namespace = names


def namespace() -> Mapping[str, Any]:
    """The user's variables: the notebook's, or those of the running script."""
    return _namespace()


def walls() -> set[int]:
    """Identities of the objects that are not traversed."""
    return {id(thing) for wall in _walls for thing in wall()}


def roots(names: Mapping[str, Any], hidden: set[int]) -> Iterator[Root]:
    """Yield every root, the most natural to name first."""
    for name, value in list(names.items()):
        if not name.startswith("_") and name not in _NOT_THE_USERS:
            yield Root(f"the variable {name}", value, f"del {name}", "forgets the variable")
    for room in _rooms:
        yield from room()
    yield from recordings()
    yield from last_errors()
    at_work = list(running(hidden))
    yield from (root for root in at_work if not frames.is_installed(root.thing.f_code.co_filename))
    yield from modules()
    yield from (root._replace(most=FEW) for root in at_work if frames.is_installed(root.thing.f_code.co_filename))


def recordings() -> Iterator[Root]:
    """Yield the arrays that the workbench's recordings keep."""
    for r in recent:
        if r.kept:
            yield Root("the recording", r.kept, "", "", own="recordings")


def last_errors() -> Iterator[Root]:
    """Yield the last uncaught exception, which keeps all local variables of every function that it passed through."""
    for name in ("last_traceback", "last_value", "last_exc"):
        value = getattr(sys, name, None)
        if value is not None:
            yield Root(f"the last error, sys.{name}", value, FORGET_ERROR, FORGOT_ERROR)


def running(hidden: set[int]) -> Iterator[Root]:
    """Yield the running functions of every thread, except the search itself."""
    for frame in list(sys._current_frames().values()):
        at: Any = frame
        while at is not None:
            if frames.is_function(at) and not frames.is_host(at) and id(at) not in hidden:
                where = frames.called(at)
                yield Root(f"{where}, which is running", at, "", f"it ends when {where} returns; a del in there ends it sooner")
            at = at.f_back
    del frame  # may be this function's own, which would keep itself and its callers


def modules() -> Iterator[Root]:
    """Yield the variables of the user's own modules and of the engine's."""
    main = getattr(sys.modules.get("__main__"), "__dict__", None)  # its variables are roots already
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if not isinstance(file, str) or not isinstance(module, types.ModuleType) or vars(module) is main or frames.is_installed(file):
            continue
        for key, value in list(vars(module).items()):
            if not key.startswith("__"):
                called = f"{name}.{key}, a variable of that module,"
                yield Root(called, value, f"import {name}; {name}.{key} = None", "removes it from the module", FEW)
