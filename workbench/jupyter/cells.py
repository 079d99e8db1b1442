"""Which notebook cell a code object came from, and whether a cell is running now."""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

from IPython.core.getipython import get_ipython

from .. import source
from ..session import Session

_places: dict[str, tuple[str, str | None]] = {}  # file name of a cell's code -> what the cell is called, the notebook's id of it
_latest: dict[str, str] = {}  # the notebook's id of a cell -> what its latest run is called
_texts: dict[str, str] = {}  # what a run is called -> the cell's text
_current: str | None = None  # the notebook's id of the cell that runs, or ran last
_shown: WeakKeyDictionary[Session, str | None] = WeakKeyDictionary()  # sessions -> the notebook's id of the cell that shows them
_following: Any = None
_running = False


def follow() -> None:
    """Begin to note cells as they run. Asking again does nothing."""
    global _following, _running, _current
    shell: Any = get_ipython()
    if shell is None or shell is _following:
        return
    _following, _running = shell, True  # this very call stands in a cell
    kernel = getattr(shell, "kernel", None)
    if kernel is not None and title() != "In [0]":
        _current = kernel.get_parent("shell").get("metadata", {}).get("cellId")
        note(shell.history_manager.input_hist_raw[-1], number(), _current)
    shell.events.register("pre_run_cell", _begins)
    shell.events.register("post_run_cell", _ended)
    source.set_cells(place, _latest, _texts)


def running() -> bool:
    """Whether a cell runs."""
    return _running


def title() -> str:
    """What the cell that runs now is called: "In [3]"."""
    return "" if get_ipython() is None else f"In [{number()}]"


def number() -> int:
    """The number of the cell that runs now. The shell's own counter is one ahead of it in some versions of IPython."""
    shell: Any = get_ipython()
    return 0 if shell is None else len(shell.history_manager.input_hist_raw) - 1


def shown(session: Session) -> None:
    """The cell that runs shows this session. It hears of cells that run again, until this one does and its output goes."""
    _shown[session] = _current


def _begins(info: Any) -> None:
    global _running, _current
    _running = True
    shell = get_ipython()
    if shell is None or not info.raw_cell:
        return
    _current = cell_id = getattr(info, "cell_id", None)
    again = cell_id in _latest
    # the cell is not in the history yet
    note(info.raw_cell, number() + bool(info.store_history), cell_id)
    if not again:
        return
    for session, cell in list(_shown.items()):
        if cell == cell_id:
            del _shown[session]
        else:
            session.tell_cell_runs()


def _ended(result: Any) -> None:
    global _running
    _running = False


def note(raw_cell: str, count: int, cell_id: str | None) -> None:
    """The cell with this text is In [count] now."""
    _texts[f"In [{count}]"] = raw_cell
    if cell_id is not None:
        _latest[cell_id] = f"In [{count}]"
    name = file_name(raw_cell, count)
    if name is not None:
        _places[name] = (f"In [{count}]", cell_id if cell_id is not None else _places.get(name, ("", None))[1])


def file_name(raw_cell: str, count: int) -> str | None:
    """The file name that the shell compiles such a cell with."""
    shell = get_ipython()
    if shell is None:
        return None
    try:
        return shell.compile.get_code_name(raw_cell, shell.transform_cell(raw_cell), count)
    except SyntaxError:
        return None


def place(file: str) -> tuple[str, str | None] | None:
    """What the cell with this file name is called, and its id in the notebook; None for a real file."""
    found = _places.get(file)
    shell = get_ipython()
    if found is None and shell is not None and file in getattr(shell.compile, "_filename_map", {}):
        found = _places[file] = (f"In [{shell.compile._filename_map[file]}]", None)
    return found
