"""What a public function finds out about its caller: the caller's variables, and whether a view can be displayed."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable
from typing import Any

_SKIPPED = os.path.dirname(os.path.abspath(__file__)) + os.sep, contextlib.__file__


def frame() -> Any:
    """The frame of the code that called the workbench."""
    found = sys._getframe(1)
    while found.f_back is not None and found.f_code.co_filename.startswith(_SKIPPED):
        found = found.f_back
    return found


def names_in(frame: Any) -> dict[str, Any]:
    """The variables that code in the frame can see."""
    return {**frame.f_globals, **frame.f_locals}


def names() -> dict[str, Any]:
    """The variables of the code that called the workbench."""
    return names_in(frame())


def in_kernel() -> bool:
    """Whether this is a Jupyter kernel."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return shell is not None and getattr(shell, "kernel", None) is not None


def has_page() -> bool:
    """Whether a view can be displayed: there is a Jupyter kernel, or this is a marimo notebook, which has no kernel."""
    marimo = sys.modules.get("marimo")
    return in_kernel() or (marimo is not None and marimo.running_in_notebook())


def shown(session: Any, above: str = "") -> Any:
    """A view of the session in a notebook, with a sentence above it; elsewhere the session itself, which prints itself."""
    if not has_page():
        return session
    from .jupyter.widget import View

    return View(session, above)


def displayed(session: Any) -> Callable[[], None]:
    """Display a view of the session in the cell's output now. The returned function updates what the saved notebook shows."""
    if not in_kernel():
        return lambda: None
    from .jupyter.widget import displayed

    return displayed(session)


def display(session: Any) -> None:
    """Display a view of a session in the cell's output; print its text outside Jupyter."""
    if in_kernel():
        displayed(session)
    else:
        print(session)


def button(label: str, tooltip: str, pressed: Callable[[], Any]) -> Callable[[], None]:
    """Display a button in the cell's output. The returned function removes it. Outside Jupyter, there is none."""
    if not in_kernel():
        return lambda: None
    from .jupyter.button import shown

    return shown(label, tooltip, pressed)
