"""Map code objects to notebook cells, and track whether a cell is running."""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

from IPython.core.getipython import get_ipython

from ..recording import source
from ..session.session import Session

_places: dict[str, tuple[str, str | None]] = {}  # file name of a cell's code -> the cell's label, the notebook's id of it
_latest: dict[str, str] = {}  # the notebook's id of a cell -> the label of its latest run
_texts: dict[str, str] = {}  # label of a run -> the cell's text
_current: str | None = None  # the notebook's id of the cell that runs, or ran last
_shown: WeakKeyDictionary[Session, str | None] = WeakKeyDictionary()  # sessions -> the notebook's id of the cell that shows them
_following: Any = None
_running = False


def follow() -> None:
    """Begin to track cells as they run. A no-op if already active."""
    global _following, _running, _current
    shell: Any = get_ipython()
    if shell is None or shell is _following:
        return
    _following, _running = shell, True  # this call itself runs in a cell
    kernel = getattr(shell, "kernel", None)
    if kernel is not None and number():
        _current = kernel.get_parent("shell").get("metadata", {}).get("cellId")
        note(shell.history_manager.input_hist_raw[-1], number(), _current)
    shell.events.register("pre_run_cell", _begins)
    shell.events.register("post_run_cell", _ended)
    source.set_cells(place, _latest, _texts)


def running() -> bool:
    """Whether a cell is running."""
    return _running


def title() -> str:
    """The label of the running cell, such as "In [3]"; "" outside IPython."""
    return "" if get_ipython() is None else label(number())


def on_engine() -> bool:
    """Whether this kernel is an engine of ipyparallel, whose cells begin with `%%px` in a notebook of another kernel."""
    return type(getattr(get_ipython(), "kernel", None)).__module__.startswith("ipyparallel.")


def label(count: int) -> str:
    """The label of a cell by its number, such as "In [3]"."""
    return f"{'%%px' if on_engine() else 'In'} [{count}]"


def number() -> int:
    """The number of the running cell. The shell's own counter is one ahead in some versions of IPython."""
    shell: Any = get_ipython()
    return 0 if shell is None else len(shell.history_manager.input_hist_raw) - 1


def shown(session: Session) -> None:
    """Note that the running cell shows this session, which is notified of rerun cells until this cell reruns and its output is cleared."""
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
    for session in list(_shown):
        session.cell_ended()


def note(raw_cell: str, count: int, cell_id: str | None) -> None:
    """Note that the cell with this text is now In [count]."""
    _texts[label(count)] = raw_cell
    if cell_id is not None:
        _latest[cell_id] = label(count)
    name = file_name(raw_cell, count)
    if name is not None:
        _places[name] = (label(count), cell_id if cell_id is not None else _places.get(name, ("", None))[1])


def file_name(raw_cell: str, count: int) -> str | None:
    """The file name with which the shell compiles such a cell."""
    shell = get_ipython()
    if shell is None:
        return None
    try:
        return shell.compile.get_code_name(raw_cell, shell.transform_cell(raw_cell), count)
    except SyntaxError:
        return None


def place(file: str) -> tuple[str, str | None] | None:
    """The label of the cell with this file name, and its id in the notebook; None for a real file."""
    found = _places.get(file)
    shell = get_ipython()
    if found is None and shell is not None and file in getattr(shell.compile, "_filename_map", {}):
        found = _places[file] = (label(shell.compile._filename_map[file]), None)
    return found
