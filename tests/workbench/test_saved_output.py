"""How large a notebook gets that is saved with views of large graphs in it, the state of its widgets included: at most 200 kB for each."""

from __future__ import annotations

import nbclient
import nbformat
import pytest

pytestmark = pytest.mark.slow

SETUP = """%load_ext workbench
import engine, workbench as wb
from engine import nn"""
# 501 turns: 8,017 ops and tensors.
LSTM = """%%watch
cell = nn.LSTMCell(8, 8)
h, c, x = engine.zeros(2, 8), engine.zeros(2, 8), engine.ones(2, 8)
for t in range({turns}):
    h, c = cell(x, (h, c))
loss = h.sum()"""
# As micrograd builds it: one node for each product and each sum of two scalars.
SCALARS = """%%watch
w = [engine.tensor(0.5, requires_grad=True) for _ in range(34)]
out = engine.tensor(0.0)
for i in range(1000):
    for v in w:
        out = out + v * 0.1"""
VIEW = "application/vnd.jupyter.widget-state+json"


@pytest.mark.parametrize(("code", "least"), [(LSTM.format(turns=501), 8000), (SCALARS, 68000)], ids=["LSTM", "scalars"])
def test_a_saved_view_of_a_large_graph_is_small(code, least):
    shows = [code, "view = wb.show()\nview", "view.session.recording.count"]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in (SETUP, *shows)])
    nbclient.NotebookClient(notebook, timeout=900, kernel_name="python3", store_widget_state=True).execute()
    assert int(notebook.cells[3].outputs[0]["data"]["text/plain"]) >= least
    states = notebook.metadata["widgets"][VIEW]["state"]
    views = [state for state in states.values() if "_esm" in state["state"]]
    assert len(views) >= 2
    whole = len(nbformat.writes(notebook).encode())
    assert whole / len(views) <= 200_000, f"{whole} bytes with {len(views)} views"
    for cell in notebook.cells[1:3]:
        assert any("image/svg+xml" in output.get("data", {}) for output in cell.outputs)  # and still there is a picture
