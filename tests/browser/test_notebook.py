"""Graph and notebook in a real JupyterLab: the line under the caret, stale nodes, the side panel, the tab, the status bar."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect
from real_lab import NOTEBOOK
from test_lab import panel_of, run_cell
from test_lesson import view_of

SETUP = """%load_ext workbench
import engine, workbench as wb
w = engine.tensor([0.4, 0.9], requires_grad=True)
x = engine.tensor([1.5, -0.5])
def square(h):
    return h * h"""
RECORDED = """%%watch --steps
h = (w * x).tanh()
loss = square(h).sum()
loss.backward()"""

TAB_IS_IN = """(data) => data["gradient-workbench:graph"] && JSON.stringify(data["layout-restorer:data"]?.main ?? {}).includes("gradient-workbench:graph")"""


def tab_of(lab):
    return lab.page.locator("#gradient-workbench-graph")


def stale(part, op: str):
    """The sentences of the stale marks at the boxes of an op."""
    return part.get_by_test_id("wb-node").filter(has_text=op).locator("[data-glyph='~'] title")


def test_code_and_graph_point_at_each_other(lab):
    lab.open(SETUP, RECORDED, "1 + 1")
    lab.run_all()
    lab.command("gradient-workbench:open")
    panel, view = panel_of(lab), view_of(lab, 1)
    for part in (view, panel):
        expect(part.locator("[aria-current]")).to_have_count(0)

    # A caret in a line lights what the line made, in the cell's own view and in the side panel; by keys it goes on to the next line.
    lab.cell(1).locator(".cm-line").nth(1).click()
    for part in (view, panel):
        expect(part.locator("[data-node][aria-current=location]")).to_have_count(2)
        labels = part.locator("[data-node][aria-current=location]").evaluate_all("(all) => all.map((n) => n.getAttribute('aria-label'))")
        assert [re.split(r"[ ,]", label)[0] for label in labels] == ["mul", "tanh"]
    lab.page.keyboard.press("ArrowDown")
    for part in (view, panel):
        expect(part.locator('[data-node][aria-current=location][aria-label^="sum"]')).to_have_count(1)
        expect(part.locator("[data-node][aria-current=location]")).to_have_count(1)

    # In the function's own line, in another cell; a line that moves down is still found.
    lab.cell(0).locator(".cm-line").nth(5).click()
    expect(panel.locator('[data-node][aria-current=location][aria-label^="mul"]')).to_have_count(1)
    lab.cell(0).locator(".cm-line").nth(3).click()
    lab.page.keyboard.press("End")
    lab.page.keyboard.press("Enter")
    expect(panel.locator("[aria-current]")).to_have_count(0)
    lab.cell(0).locator(".cm-line").nth(6).click()
    expect(panel.locator('[data-node][aria-current=location][aria-label^="mul"]')).to_have_count(1)
    expect(panel.locator("[data-glyph='~']")).to_have_count(0)  # no line reads otherwise

    # A line that is edited makes its nodes stale; undone, they are not.
    lab.cell(1).locator(".cm-line").nth(2).click()
    lab.page.keyboard.press("End")
    lab.page.keyboard.type(" * 2")
    for part in (view, panel):
        expect(stale(part, "sum")).to_have_text("Stale: its line was changed after In [2] had run; it was: loss = square(h).sum()")
        expect(stale(part, "tanh")).to_have_text("Stale: another line of its cell was changed after In [2] had run")
        expect(part.locator("[data-glyph='≈']")).not_to_have_count(0)  # square's own op: its line is in another cell, its input is stale
    for _ in range(4):
        lab.page.keyboard.press("Backspace")
    for part in (view, panel):
        expect(part.locator("[data-glyph='~'], [data-glyph='≈']")).to_have_count(0)

    # A cell that runs again makes stale what its earlier run has made.
    run_cell(lab, 0)
    for part in (view, panel):
        expect(stale(part, "mul").first).to_have_text("Stale: In [1] has run again since, as In [4]; this was made before")
        expect(stale(part, "sum")).to_have_count(0)
    run_cell(lab, 1)
    expect(panel.locator("[data-glyph='~']")).to_have_count(0)
    expect(panel.get_by_text("In [5]").first).to_be_visible()

    # And back: a node's button leads to its line.
    panel.get_by_test_id("wb-node").filter(has_text="tanh").first.click()
    panel.locator(".site").first.click()
    lab.page.wait_for_function(
        """() => { const { activeCell, activeCellIndex } = window.jupyterapp.shell.currentWidget.content;
        return activeCellIndex === 1 && activeCell.editor?.getSelection().start.line === 1; }"""
    )


WAITING = """%%watch
import pathlib, time
h = engine.ones(3, requires_grad=True) * 2
while not pathlib.Path("go").exists():
    time.sleep(0.01)
loss = h.sum()"""


# JupyterLab's way to a kernel with a running cell, which the view needs here, comes later than the view.
LATE = f"""() => {{
  const {{ kernel }} = {NOTEBOOK}.sessionContext.session;
  const create = kernel.requestCreateSubshell.bind(kernel);
  kernel.requestCreateSubshell = (content) => ({{ done: new Promise((go) => setTimeout(go, 500)).then(() => create(content).done) }});
}}"""


def test_the_end_of_a_cell_leaves_the_view_as_it_is(lab):
    lab.open(SETUP, WAITING)
    run_cell(lab, 0)
    lab.page.evaluate(LATE)
    lab.command("notebook:run-cell", 1)
    view = view_of(lab, 1)
    search = view.get_by_test_id("wb-search")
    view.get_by_role("button", name="Zoom in").click()
    search.fill("mul")
    view.evaluate("(root) => { root.marked = true; }")
    lab.server.root.joinpath("go").write_text("")
    lab.wait_idle()

    # The output's data has changed, and JupyterLab has rendered it anew.
    expect(view.get_by_test_id("wb-graph").get_by_role("treeitem", name="sum loss, scalar")).to_be_visible()
    expect(view).to_have_js_property("marked", True)
    expect(search).to_be_focused()
    expect(search).to_have_value("mul")
    expect(lab.cell(1).get_by_test_id("wb-root")).to_have_count(1)


@pytest.mark.own_page
def test_graph_in_a_tab_details_beside_it_and_bytes_in_the_status_bar(lab):
    lab.open(SETUP, RECORDED, "%%watch\nother = (w + x).exp()", "alive = 6 * 7\nalive")
    lab.run_all()
    # The status bar tells of this notebook's kernel before anything of ours is open.
    status = lab.page.locator("#gradient-workbench-status button")
    expect(status).to_have_text(re.compile(r"^∇ [\d.]+ \w?B, peak [\d.]+ \w?B$"))
    lab.command("gradient-workbench:open-tab")
    tab, side = tab_of(lab), panel_of(lab)
    expect(tab.get_by_test_id("wb-node").filter(has_text="exp")).to_be_visible()  # the newest recording
    expect(tab.get_by_test_id("wb-memory").get_by_text("live now")).to_be_visible()  # the kernel has answered
    expect(tab.get_by_test_id("wb-tab-value")).to_have_count(0)
    expect(side.get_by_test_id("wb-tab-value")).to_be_visible()
    expect(side.get_by_test_id("wb-graph")).to_have_count(0)

    # An older view of the notebook is put there by its own button; what is chosen in one part is shown in the other.
    view = view_of(lab, 1)
    view.get_by_test_id("wb-side").click()
    node = tab.get_by_test_id("wb-node").filter(has_text="tanh")
    expect(node).to_be_visible()
    node.click()
    expect(side.get_by_text("<TanhBackward0>")).to_be_visible()
    side.get_by_test_id("wb-first").click()
    side.get_by_test_id("wb-next").click()
    expect(side.get_by_test_id("wb-scrub")).to_have_value("1")
    expect(tab.locator(".wb-box.current")).to_have_count(1)
    expect(view.get_by_test_id("wb-scrub")).to_have_value("1")  # the same pass, in the cell too

    status.click()
    expect(side.get_by_test_id("wb-tab-memory")).to_have_attribute("aria-selected", "true")

    # A reload finds both where they were.
    lab.cell(0).locator(".cm-line").first.click()
    lab.command("docmanager:save")
    lab.wait_idle()
    lab.wait_saved(TAB_IS_IN)
    lab.reload()
    expect(tab.get_by_test_id("wb-graph")).to_be_visible()
    expect(side.get_by_test_id("wb-panel")).to_be_visible()
    expect(tab.get_by_test_id("wb-node").first).to_be_visible()

    # The kernel restarts: what is on the screen stays, with a sentence, and the next run is shown.
    lab.restart_kernel()
    for part in (tab, side):
        expect(part.get_by_test_id("wb-alert")).to_contain_text("The kernel has restarted")
    expect(tab.get_by_test_id("wb-node").first).to_be_visible()
    lab.run_all()
    expect(tab.get_by_test_id("wb-alert")).to_be_hidden()
    expect(tab.get_by_test_id("wb-node").filter(has_text="exp")).to_be_visible()
    assert lab.text(3) == "42"

    # Without the tab the side panel has the graph itself.
    lab.page.locator(".lm-TabBar-tab", has_text="Graph").locator(".lm-TabBar-tabCloseIcon").click()
    expect(tab).to_have_count(0)
    expect(side.get_by_test_id("wb-graph")).to_be_visible()
