"""Where a search begins: variables, and whatever else Python, the workbench and a notebook hold on their own account."""

from __future__ import annotations

import sys
import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from .. import frames
from ..recording import recent
from .chain import Root

_NOT_THE_USERS = ("In", "Out", "exit", "quit", "get_ipython", "open")

_rooms: list[Callable[[], Iterable[Root]]] = []  # who knows more roots: the notebook
_walls: list[Callable[[], Iterable[Any]]] = []  # who knows objects that hold everything and say nothing: the notebook's shell
_namespace: Callable[[], Mapping[str, Any]] = lambda: vars(sys.modules["__main__"])  # noqa: E731

FEW = 10_000  # objects from a variable of a module, or from a function of a library
FORGET_ERROR = 'wb.release("error")'
FORGOT_ERROR = "lets go of the local variables of the failed call"


def add_roots(room: Callable[[], Iterable[Root]], wall: Callable[[], Iterable[Any]]) -> None:
    """Tell of more roots, and of objects that are not looked into; workbench.jupyter tells of the notebook's. Twice changes nothing."""
    if room not in _rooms:
        _rooms.append(room)
        _walls.append(wall)


def set_namespace(names: Callable[[], Mapping[str, Any]]) -> None:
    """Tell where the user's variables are; workbench.jupyter does."""
    global _namespace
    _namespace = names


def namespace() -> Mapping[str, Any]:
    """The variables that the user can name: the notebook's, or those of the script that runs."""
    return _namespace()


def walls() -> set[int]:
    """Identities of what is not looked into."""
    return {id(thing) for wall in _walls for thing in wall()}


def roots(names: Mapping[str, Any], hidden: set[int]) -> Iterator[Root]:
    """Every root, in the order in which one would name them."""
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
    """The workbench's own: arrays that are kept so that they can be looked at."""
    for r in recent:
        if r.kept:
            yield Root("the recording", r.kept, "", "", own="recordings")


def last_errors() -> Iterator[Root]:
    """The last exception that nobody caught, which keeps every local variable of every function that it went through."""
    for name in ("last_traceback", "last_value", "last_exc"):
        value = getattr(sys, name, None)
        if value is not None:
            yield Root(f"the last error, sys.{name}", value, FORGET_ERROR, FORGOT_ERROR)


def running(hidden: set[int]) -> Iterator[Root]:
    """Functions that run now, in every thread, but the search itself."""
    for frame in list(sys._current_frames().values()):
        at: Any = frame
        while at is not None:
            if frames.is_function(at) and not frames.is_host(at) and id(at) not in hidden:
                where = frames.called(at)
                yield Root(f"{where}, which is running", at, "", f"it ends when {where} returns; a del in there ends it sooner")
            at = at.f_back


def modules() -> Iterator[Root]:
    """Variables of the user's own modules, and of the engine's."""
    main = getattr(sys.modules.get("__main__"), "__dict__", None)  # whose variables are asked about by name
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if not isinstance(file, str) or not isinstance(module, types.ModuleType) or vars(module) is main or frames.is_installed(file):
            continue
        for key, value in list(vars(module).items()):
            if not key.startswith("__"):
                called = f"{name}.{key}, a variable of that module,"
                yield Root(called, value, f"import {name}; {name}.{key} = None", "lets go of it in the module", FEW)
