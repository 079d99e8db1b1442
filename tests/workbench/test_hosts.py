"""A view where there is no IPython shell, as in marimo: a plain anywidget that answers, shows stills and steps."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import sys, types
marimo = types.ModuleType("marimo")
marimo.running_in_notebook = lambda: True
sys.modules["marimo"] = marimo
import anywidget
import engine, workbench as wb
w = engine.tensor([2.0, 3.0], requires_grad=True)
loss = (w * w).sum()
view = wb.show(loss)
assert isinstance(view, anywidget.AnyWidget), type(view)
sent = []
view.send = lambda content, buffers=None: sent.append((content, buffers))
view._handle_custom_msg({"bundle": view._bundle}, [])
(content, (code,)), = sent
assert content == {"bundle": view._bundle} and b"export" in code
data, _ = view._repr_mimebundle_()
assert "<svg" in data["image/svg+xml"] and "2 ops" in data["text/plain"]
steps = wb.step(loss)
said = []
steps.send = lambda content, buffers=None: said.append(content)
steps._handle_custom_msg({"type": "ready", "v": 1, "id": 1}, [])
assert [m["type"] for m in said][:2] == ["graph", "stepper"], said
steps._handle_custom_msg({"type": "step", "v": 1, "id": 2, "do": "last", "to": -1, "by": "op"}, [])
assert said[-1]["type"] == "stepped" and said[-1]["done"], said[-1]
print(w.grad.tolist())  # d(w²)/dw = 2w
marimo.running_in_notebook = lambda: False
print(type(wb.show(loss)).__name__)
"""


@pytest.mark.slow
def test_a_view_is_a_plain_anywidget_where_there_is_no_shell():
    done = subprocess.run([sys.executable, "-W", "error", "-c", PROGRAM], capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["[4.0, 6.0]", "ShownSession"]


TERMINAL = """
from IPython.testing.globalipapp import start_ipython
shell = start_ipython()
shell.run_line_magic("load_ext", "workbench")
shell.run_cell("import engine; x = engine.ones(3, requires_grad=True)")
shell.run_cell("%%watch\\nloss = (x * 2).sum()")
"""


@pytest.mark.slow
def test_a_terminal_prints_the_finished_graph_once():
    done = subprocess.run([sys.executable, "-c", TERMINAL], capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr
    assert [line for line in done.stdout.splitlines() if " ops, " in line] == ["In [0]: 2 ops, 1 other leaf, 0 B saved for backward."]
