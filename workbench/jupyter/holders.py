"""What a notebook holds besides its variables (outputs, the last error as IPython keeps it, widgets), and how to release it."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from typing import Any

from IPython.core.getipython import get_ipython

from ..memory_use import alive, releasing
from . import comm

ALL_OUTPUTS = 'wb.release("outputs")'


def register() -> None:
    """Register the notebook's roots, and the functions that release them."""
    alive.add_roots(roots, walls)
    releasing.add("outputs", forget_outputs)
    releasing.add("error", forget_error)
    releasing.add("view", comm.forget)
    alive.set_namespace(variables)


def variables() -> Mapping[str, Any]:
    """The variables of the notebook."""
    shell: Any = get_ipython()
    return vars(sys.modules["__main__"]) if shell is None else shell.user_ns


def walls() -> Iterator[Any]:
    """Objects that hold every variable and output of the notebook under internal names."""
    shell: Any = get_ipython()
    if shell is not None:
        yield from (shell, shell.user_ns, shell.user_ns_hidden, shell.displayhook, shell.InteractiveTB, shell.history_manager)
        yield getattr(shell, "kernel", None)


def roots() -> Iterator[alive.Root]:
    """Outputs, the traceback printed last, the result of the last cell, the latest view, and every widget."""
    shell: Any = get_ipython()
    if shell is None:
        return
    yield from _outputs(shell)
    for name in ("etb", "tb"):
        trace = getattr(shell.InteractiveTB, name, None)
        if trace is not None:
            yield alive.Root("the last error, as IPython keeps it", trace, alive.FORGET_ERROR, alive.FORGOT_ERROR)
    result = getattr(shell, "last_execution_result", None)
    if result is not None:
        for error in (result.error_in_exec, result.error_before_exec):
            if error is not None:
                yield alive.Root("the last error, in the result of its cell", error, alive.FORGET_ERROR, alive.FORGOT_ERROR)
        if result.result is not None and all(result.result is not value for value in shell.user_ns.get("_oh", {}).values()):
            yield alive.Root("the result of the last cell", result.result, "", "it goes when another cell has run")
    if comm.latest() is not None:
        yield alive.Root("the view that was opened last", comm.latest(), "", "", own="view")
    yield from _widgets()


def _outputs(shell: Any) -> Iterator[alive.Root]:
    """Out[n] with its other names: each output is also _n, and the last three are _, __ and ___."""
    outputs, hook = shell.user_ns.get("_oh"), shell.displayhook
    latest = {name: getattr(hook, name, None) for name in ("_", "__", "___")}
    told = set()
    for number, value in list(outputs.items()) if isinstance(outputs, dict) else ():
        also = "".join(f", {name}" for name, held in latest.items() if held is value)
        told.add(id(value))
        yield alive.Root(f"Out[{number}] (also _{number}{also})", value, ALL_OUTPUTS, "forgets all outputs, under all their names")
    hidden = {name: value for name, value in list(shell.user_ns_hidden.items()) if name.strip("_").isdigit()}
    for name, value in [*latest.items(), *hidden.items()]:
        if id(value) not in told and not isinstance(value, str) and value is not None:
            yield alive.Root(f"the output {name}", value, ALL_OUTPUTS, "forgets all outputs, under all their names")


def forget_outputs() -> None:
    """Release every output. IPython keeps each under up to five names, some of which `%reset out` does not clear."""
    shell: Any = get_ipython()
    hook, result = shell.displayhook, getattr(shell, "last_execution_result", None)
    shell.user_ns.get("_oh", {}).clear()
    for names in (shell.user_ns, shell.user_ns_hidden):
        for name in [name for name in names if name.startswith("_") and name[1:].isdigit()]:
            del names[name]
        names.update({name: "" for name in ("_", "__", "___") if name in names})
    hook._ = hook.__dict__["__"] = hook.__dict__["___"] = ""
    if result is not None:
        result.result = None


def forget_error() -> None:
    """Release the local variables of the last error's frames, wherever the error is kept."""
    shell: Any = get_ipython()
    errors = [getattr(shell.InteractiveTB, name, None) for name in ("etb", "tb")]
    result = getattr(shell, "last_execution_result", None)
    if result is not None:
        errors += [error.__traceback__ for error in (result.error_in_exec, result.error_before_exec) if error is not None]
    for trace in errors:
        releasing.clear(trace)


def _widgets() -> Iterator[alive.Root]:
    """Living widgets: ipywidgets holds each until it is closed."""
    for module in ("ipywidgets.widgets.widget", "ipywidgets"):
        found = getattr(sys.modules.get(module), "_instances", None)
        if isinstance(found, dict):
            for widget in list(found.values()):
                kind = type(widget).__name__
                advice = "closes all widgets; close() of this one alone is enough"
                yield alive.Root(f"a widget, {kind}", widget, "import ipywidgets; ipywidgets.Widget.close_all()", advice)
            return
