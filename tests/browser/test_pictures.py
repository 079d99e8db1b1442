"""Figures of the user's own cells stay whole while a view is at work beside them."""

from __future__ import annotations

from playwright.sync_api import expect
from real_lab import wait_until
from test_lesson import view_of

SETUP = """%load_ext workbench
import os, time
import engine, workbench as wb
import matplotlib.pyplot as plt
w = engine.tensor([0.4, 0.9], requires_grad=True)
loss = (w * w).sum().tanh()"""

# Between the first picture and the last the test uses the view, and then says that it is enough.
DRAW = """fig, axes = plt.subplots(2, 10, figsize=(10, 2.4))
for ax in axes.flat:
    ax.imshow([[0, 1], [1, 0]])
    while ax is axes[1, 0] and not os.path.exists("enough"):
        open("drawing", "w").close()
        fig.canvas.draw()
        time.sleep(0.01)
plt.show()"""


def pictures(lab, index: int) -> list[str]:
    return [output["data"]["image/png"] for output in lab.outputs(index) if "image/png" in output.get("data", {})]


def test_a_figure_is_whole_though_the_view_is_used_while_it_is_drawn(lab):
    lab.open(SETUP, "wb.step(loss)", DRAW, DRAW)
    enough = lab.server.root / "enough"
    enough.touch()
    lab.run_all()
    (undisturbed,) = pictures(lab, 3)
    enough.unlink()

    view = view_of(lab, 1)
    lab.command("notebook:run-cell", 2)
    wait_until((lab.server.root / "drawing").exists, lambda: "the cell does not draw")  # the page calls it running before the kernel has it
    view.get_by_test_id("wb-next").click()
    expect(view.get_by_text("The kernel is running a cell.", exact=False).first).to_be_visible()
    for op in ("mul", "tanh"):
        view.get_by_test_id("wb-node").filter(has_text=op).first.click()
        expect(view.get_by_role("tabpanel").get_by_text(op).first).to_be_visible()
    assert lab.page.evaluate("() => window.jupyterapp.shell.currentWidget.content.widgets[2].model.executionState") == "running"
    enough.touch()
    lab.wait_idle()
    assert pictures(lab, 2) == [undisturbed]
