"""What goes wrong in a classroom: reloads, restarts, hostile names, broken shapes. Each ends in a sentence, and the next cell works."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from playwright.sync_api import expect
from real_lab import Lab
from test_lab import panel_of, run_cell
from test_lesson import PAUSED, position, view_of

SETUP = """%load_ext workbench
import engine, workbench as wb
from engine import nn
w = engine.tensor([0.4, 0.9], requires_grad=True)
x = engine.tensor([1.5, -0.5])
loss = ((w * x).sum().tanh() - 1.0) ** 2"""
COUNT = "() => window.jupyterapp.shell.currentWidget.content.widgets.map((c) => c.model.sharedModel.getSource())"


@pytest.mark.own_page
def test_reload_in_mid_step_finds_the_pass_where_it_was(lab):
    lab.open(SETUP, "wb.step(loss)", "print(w.grad)")
    lab.run_all()
    view = view_of(lab, 1)
    for step in (1, 2, 3):  # one step travels at a time; of clicks that come before it is there the last one counts
        view.get_by_test_id("wb-next").click()
        expect(view.get_by_test_id("wb-scrub")).to_have_value(str(step))
    sources = lab.page.evaluate(COUNT)
    lab.command("docmanager:save")
    lab.wait_idle()

    lab.reload()
    view = view_of(lab, 1)
    expect(view.get_by_test_id("wb-scrub")).to_have_value("3")
    view.get_by_test_id("wb-next").click()
    expect(view.get_by_test_id("wb-scrub")).to_have_value("4")
    assert lab.page.evaluate(COUNT) == sources


@pytest.mark.own_page
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


@pytest.mark.own_page
def test_a_cell_that_waits_without_its_view_says_so_after_a_reload(lab):
    lab.open(SETUP, PAUSED, "1 + 1")
    lab.command("docmanager:save")
    lab.wait_idle()
    lab.run_all(wait=False)
    view = view_of(lab, 1)
    view.get_by_test_id("wb-next").click()
    expect(view.get_by_test_id("wb-scrub")).to_have_value("1")
    lab.page.on("dialog", lambda dialog: dialog.accept())  # leave without saving: the output with the view is lost

    lab.reload()
    lab.command("notebook:run-cell", at=2)
    notice = lab.page.locator(".Toastify__toast").filter(has_text="is waiting inside backward()")
    expect(notice).to_be_visible()
    notice.get_by_role("button", name="Show it").click()
    panel = panel_of(lab)
    expect(panel.get_by_test_id("wb-paused")).to_be_visible()
    expect(panel.get_by_test_id("wb-scrub")).to_have_value("1")

    # Where the panel comes back open there is no reason to tell of the cell.
    lab.wait_saved("(data) => data['layout-restorer:data']?.right?.collapsed === false")
    lab.page.evaluate("() => window.jupyterapp.shell.collapseRight()")
    lab.wait_saved("(data) => data['layout-restorer:data']?.right?.collapsed")
    lab.reload()
    notice.get_by_role("button", name="Let it run").click()
    lab.wait_idle()
    lab.command("notebook:run-cell", at=2)
    lab.wait_idle()
    assert lab.text(2) == "2"
    expect(notice).to_have_count(0)


def test_kernel_restart_in_mid_step_says_so_and_the_next_run_works(lab):
    lab.open(SETUP, "wb.step(loss)", "print('alive')")
    lab.run_all()
    view = view_of(lab, 1)
    view.get_by_test_id("wb-next").click()
    expect(view.get_by_test_id("wb-scrub")).to_have_value("1")
    sources = lab.page.evaluate(COUNT)
    lab.restart_kernel()
    expect(view.get_by_text("run the cell again", exact=False).first).to_be_visible()
    assert lab.page.evaluate(COUNT) == sources
    lab.run_all()
    assert lab.text(2).strip() == "alive"
    view = view_of(lab, 1)
    view.get_by_test_id("wb-next").click()
    expect(view.get_by_test_id("wb-scrub")).to_have_value("1")


def test_after_a_restart_no_cell_waits(lab):
    lab.open(SETUP, "with wb.step():\n    loss.backward()", "print('alive')")
    lab.run_all(wait=False)
    view = view_of(lab, 1)
    view.get_by_test_id("wb-next").click()
    expect(view.get_by_test_id("wb-paused")).to_be_visible()
    lab.wait_subshells()
    # Not `restart_kernel`: it is busy and answers nothing else.
    lab.page.evaluate("() => window.jupyterapp.shell.currentWidget.sessionContext.session.kernel.restart()")
    expect(view.get_by_text("run the cell again", exact=False).first).to_be_visible()
    expect(view.get_by_test_id("wb-paused")).to_be_hidden()
    lab.page.wait_for_function("() => window.jupyterapp.shell.currentWidget.sessionContext.session?.kernel?.status === 'idle'")
    lab.command("notebook:run-cell", at=2)
    lab.wait_idle()
    assert lab.text(2).strip() == "alive"


@pytest.mark.own_page
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
    lab.command("notebook:run-cell", 2)
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


def test_a_kernel_that_dies_says_so_and_the_next_cell_works(lab):
    lab.open(SETUP, "wb.step(loss)", "import os; os.kill(os.getpid(), 9)", "print('alive')")
    lab.command("gradient-workbench:open")
    for at in (0, 1):
        run_cell(lab, at)
    view, panel = view_of(lab, 1), panel_of(lab)
    view.get_by_test_id("wb-next").click()
    for part in (view, panel):
        expect(part.get_by_test_id("wb-scrub")).to_have_value("1")
    lab.command("notebook:run-cell", 2)
    expect(view.get_by_test_id("wb-alert")).to_contain_text("run the cell again")
    expect(panel.get_by_test_id("wb-alert")).to_contain_text("The kernel has")
    expect(panel.get_by_test_id("wb-node").first).to_be_visible()  # what was seen is still there
    lab.page.locator(".jp-Dialog").get_by_role("button", name="Ok").click()  # JupyterLab says it too
    view.get_by_test_id("wb-next").click()
    expect(view.get_by_test_id("wb-alert")).to_contain_text("run the cell again")
    lab.wait_idle()
    for at in (0, 1, 3):
        run_cell(lab, at)
    assert lab.text(3).strip() == "alive"
    for part in (view_of(lab, 1), panel):
        expect(part.get_by_test_id("wb-alert")).to_be_hidden()
        expect(part.get_by_test_id("wb-scrub")).to_have_value("0")
    view_of(lab, 1).get_by_test_id("wb-next").click()
    expect(panel.get_by_test_id("wb-scrub")).to_have_value("1")


def test_an_interrupt_ends_a_paused_cell_and_the_next_one_works(lab):
    lab.open(SETUP, PAUSED, "print('alive')")
    lab.run_all(wait=False)
    view = view_of(lab, 1)
    view.get_by_test_id("wb-next").click()
    expect(view.get_by_test_id("wb-scrub")).to_have_value("1")

    lab.command("gradient-workbench:open")  # opened while the cell waits: it shows the pass, and drives it
    panel = panel_of(lab)
    expect(panel.get_by_test_id("wb-scrub")).to_have_value("1")
    panel.get_by_test_id("wb-next").click()
    for part in (view, panel):
        expect(part.get_by_test_id("wb-scrub")).to_have_value("2")

    lab.page.evaluate("() => window.jupyterapp.shell.currentWidget.sessionContext.session.kernel.interrupt()")
    lab.wait_idle()
    assert "KeyboardInterrupt" in lab.text(1)
    for part in (view, panel):
        expect(part.get_by_test_id("wb-paused")).to_be_hidden()
        expect(part.get_by_text(re.compile("interrupt", re.IGNORECASE)).first).to_be_visible()
    assert run_cell(lab, 2).strip() == "alive"


def test_two_notebooks_two_browsers_and_a_view_shown_twice(lab):
    lab.open(SETUP, "view = wb.step(loss)\nview", "view", "wb.step(loss * 2)", name="one.ipynb")
    for at in (0, 1, 2):
        run_cell(lab, at)
    first, again = view_of(lab, 1), view_of(lab, 2)
    first.get_by_test_id("wb-next").click()
    again.get_by_test_id("wb-next").click()
    for view in (first, again):
        expect(view.get_by_test_id("wb-scrub")).to_have_value("2")
    first.get_by_test_id("wb-prev").click()
    expect(again.get_by_test_id("wb-scrub")).to_have_value("1")

    lab.command("docmanager:save")
    lab.wait_idle()
    with second_browser(lab) as other:
        other.open_notebook("one.ipynb")
        there = view_of(other, 1)
        expect(there.get_by_test_id("wb-scrub")).to_have_value("1")
        there.get_by_test_id("wb-next").click()
        for view in (there, first, again):
            expect(view.get_by_test_id("wb-scrub")).to_have_value("2")

        other.open(SETUP.replace("0.4", "0.1"), "wb.show(loss)", name="two.ipynb")
        other.run_all()
        other.command("gradient-workbench:open")
        expect(panel_of(other).get_by_test_id("wb-node").first).to_be_visible()
        expect(panel_of(other).get_by_test_id("wb-scrub")).to_be_hidden()  # nothing is stepped in the second notebook
        assert other.errors == []

    # Its cell runs again while the pass is open: a new one begins, and the old one has put its gradients back.
    run_cell(lab, 1)
    view = view_of(lab, 1)
    expect(view.get_by_test_id("wb-scrub")).to_have_value("0")
    view.get_by_test_id("wb-last").click()
    expect(view.get_by_test_id("wb-scrub")).not_to_have_value("0")
    assert run_cell(lab, 3) is not None
    expect(view_of(lab, 3).get_by_test_id("wb-scrub")).to_have_value("0")


@contextmanager
def second_browser(lab) -> Iterator[Lab]:
    """Another page that shares nothing with the first but the server."""
    context = lab.page.context.browser.new_context(viewport={"width": 1400, "height": 900})
    context.set_default_timeout(60_000)
    other = Lab(lab.server, context.new_page())
    try:
        yield other
    finally:
        context.close()
