"""What goes wrong in a classroom: reloads, restarts, hostile names, broken shapes. Each ends in a sentence, and the next cell works."""

from __future__ import annotations

from playwright.sync_api import expect
from test_lesson import PAUSED, position, view_of

SETUP = """%load_ext workbench
import engine, workbench as wb
from engine import nn
w = engine.tensor([0.4, 0.9], requires_grad=True)
x = engine.tensor([1.5, -0.5])
loss = ((w * x).sum().tanh() - 1.0) ** 2"""
COUNT = "() => window.jupyterapp.shell.currentWidget.content.widgets.map((c) => c.model.sharedModel.getSource())"


def test_reload_in_mid_step_finds_the_pass_where_it_was(lab):
    lab.open(SETUP, "wb.step(loss)", "print(w.grad)")
    lab.run_all()
    view = view_of(lab, 1)
    for _ in range(3):
        view.get_by_test_id("wb-next").click()
    expect(view.get_by_test_id("wb-scrub")).to_have_value("3")
    sources = lab.page.evaluate(COUNT)
    lab.command("docmanager:save")
    lab.wait_idle()

    lab.reload()
    view = view_of(lab, 1)
    expect(view.get_by_test_id("wb-scrub")).to_have_value("3")
    view.get_by_test_id("wb-next").click()
    expect(view.get_by_test_id("wb-scrub")).to_have_value("4")
    assert lab.page.evaluate(COUNT) == sources


def test_reload_while_the_cell_is_paused(lab):
    lab.open(SETUP, PAUSED, "1 + 1")
    lab.run_all(wait=False)
    view = view_of(lab, 1)
    expect(view.get_by_test_id("wb-next")).to_be_enabled()
    view.get_by_test_id("wb-next").click()
    expect(view.get_by_test_id("wb-scrub")).to_have_value("1")
    lab.page.evaluate("() => window.jupyterapp.commands.execute('docmanager:save')")

    lab.reload()
    view = view_of(lab, 1)
    expect(view.get_by_test_id("wb-scrub")).to_have_value("1")
    view.get_by_test_id("wb-last").click()
    _, total = position(view)
    expect(view.get_by_test_id("wb-scrub")).to_have_value(str(total))
    lab.page.wait_for_function("() => window.jupyterapp.shell.currentWidget.sessionContext.session?.kernel?.status === 'idle'")


def test_kernel_restart_in_mid_step_says_so_and_the_next_run_works(lab):
    lab.open(SETUP, "wb.step(loss)", "print('alive')")
    lab.run_all()
    view = view_of(lab, 1)
    view.get_by_test_id("wb-next").click()
    expect(view.get_by_test_id("wb-scrub")).to_have_value("1")
    sources = lab.page.evaluate(COUNT)
    lab.page.evaluate("() => window.jupyterapp.shell.currentWidget.sessionContext.session.kernel.restart()")
    expect(view.get_by_text("run the cell again", exact=False).first).to_be_visible()
    assert lab.page.evaluate(COUNT) == sources
    lab.run_all()
    assert lab.text(2).strip() == "alive"
    view = view_of(lab, 1)
    view.get_by_test_id("wb-next").click()
    expect(view.get_by_test_id("wb-scrub")).to_have_value("1")


def test_hostile_names_are_text(lab):
    hostile = "<script>alert(1)</script><img src=x onerror=alert(2)>"
    dialogs = []
    lab.page.on("dialog", lambda dialog: (dialogs.append(dialog.message), dialog.dismiss()))
    named = f"%%watch\nwith wb.scope({hostile!r}):\n    loss = (w * x).sum()"
    keyed = "model = nn.ModuleDict({'<b>bold</b>': nn.Linear(2, 1)})\n" + "wb.show(model['<b>bold</b>'](x).sum())"
    lab.open(SETUP, named, keyed)
    lab.run_all()
    view = view_of(lab, 1)
    expect(view.locator('[role=treeitem][aria-label*="<script>alert(1)</script>"]').first).to_be_attached()
    expect(view.get_by_text("<script>alert", exact=False).first).to_be_attached()  # on the picture a long name is cut
    view_of(lab, 2)
    assert dialogs == []
    assert lab.page.evaluate("() => document.querySelectorAll('img[src=x]').length") == 0


def test_a_shape_error_shows_the_graph_up_to_it(lab):
    lab.open(SETUP, "%%watch\nh = (w * x).tanh()\nbad = h @ engine.ones(3, 2)\nnever = 1", "print('goes on')")
    lab.run_all()
    lab.page.evaluate("() => { window.jupyterapp.shell.currentWidget.content.activeCellIndex = 2; }")
    lab.command("notebook:run-cell")
    lab.wait_idle()
    assert "goes on" in lab.text(2)
    outputs = lab.outputs(1)
    error = next(o for o in outputs if o["output_type"] == "error")
    assert error["ename"] == "RuntimeError"
    for part in ("matmul", "(2,)", "(3, 2)", "line 3"):
        assert part in error["evalue"], f"{part!r} is not in {error['evalue']!r}"
    view = view_of(lab, 1)
    expect(view.get_by_test_id("wb-node").filter(has_text="tanh").first).to_be_attached()
    expect(view.get_by_test_id("wb-node").filter(has_text="matmul").first).to_be_attached()
