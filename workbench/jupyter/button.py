"""A button in the output of a cell that runs: pressing it calls a function in the kernel, also while the cell is busy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from IPython.display import HTML, display

from . import comm


def shown(label: str, tooltip: str, pressed: Callable[[], Any]) -> Callable[[], None]:
    """Display a button. `pressed` is called in another thread if the kernel has subshells, else when the cell has ended.

    Returns:
        A function that removes it.
    """
    from ipywidgets import Button  # takes a tenth of a second

    button = Button(description=label, tooltip=tooltip, icon="save")
    button.on_click(lambda _: pressed())
    comm.direct(button.comm, button._handle_msg)
    handle: Any = display(button, display_id=True)

    def remove() -> None:
        handle.update(HTML(""))  # a saved notebook would say that there is no such widget
        button.close()

    return remove
