"""A notebook that is opened again, when its kernel is another one: the saved drawing stands where the view was, until the cell runs."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

SETUP = "%load_ext workbench\nimport engine\nimport workbench as wb"
WATCHED = "%%watch\nw = engine.tensor([0.4, 0.9], requires_grad=True)\nloss = (w * w).sum()"
SAVED = "() => !window.jupyterapp.shell.currentWidget.context.model.dirty"


def save(lab, *cells: str, name: str) -> None:
    """Runs a notebook and saves it, with its views as they are."""
    lab.open(SETUP, WATCHED, *cells, name=name)
    lab.run_all()
    expect(lab.cell(1).get_by_test_id("wb-root")).to_be_visible()
    lab.command("docmanager:save")
    lab.wait_idle()
    lab.page.wait_for_function(SAVED)


@pytest.mark.own_page
def test_a_notebook_opened_again_shows_what_was_saved(lab):
    save(lab, "wb.step(loss)", name="again.ipynb")
    lab.restart_kernel()
    lab.reload()
    for index in (1, 2):
        lab.page.evaluate("(index) => window.jupyterapp.shell.currentWidget.content.scrollToItem(index, 'start')", index)
        picture = lab.cell(index).get_by_role("img", name="graph with 2 ops")
        expect(picture).to_be_visible()
        expect(picture).not_to_have_js_property("naturalWidth", 0)  # it has been read
        assert picture.evaluate("(img) => img.naturalWidth > 50")
        expect(lab.cell(index)).to_contain_text("Run the cell to have it live again.")
        expect(lab.cell(index)).not_to_contain_text("model not found")
    lab.run_all()
    expect(lab.cell(2).get_by_test_id("wb-root")).to_be_visible()
    expect(lab.cell(2).get_by_role("img", name="graph with 2 ops")).to_have_count(0)


# JupyterLab's widget manager looks for a widget ten times a second and gives up after two seconds without a last look. This makes one
# of its pauses longer than the two seconds, as a page that is busy does.
ONE_LONG_PAUSE = """() => {
  const real = window.setTimeout;
  window.setTimeout = (run, wait, ...rest) => real(run, wait === 100 ? 6000 : wait, ...rest);
}"""


@pytest.mark.own_page
def test_a_view_that_a_busy_page_could_not_find_in_time_is_found_later(lab):
    save(lab, name="found.ipynb")
    lab.page.add_init_script(f"({ONE_LONG_PAUSE})()")
    lab.reload()
    lab.page.evaluate("() => window.jupyterapp.shell.currentWidget.content.scrollToItem(1, 'start')")
    expect(lab.cell(1).get_by_test_id("wb-root")).to_be_visible()
    assert any("model not found" in line for line in lab.console), "the page was not late"


# JupyterLab attaches a cell when it comes into view, which may be after the manager has given up.
GIVES_UP_DETACHED = """async () => {
  const { node } = window.jupyterapp.shell.currentWidget.content.widgets[1];
  const { parentNode, nextSibling } = node;
  node.remove();
  while (!node.textContent.includes("model not found")) await new Promise((tell) => requestAnimationFrame(tell));
  parentNode.insertBefore(node, nextSibling);
}"""


@pytest.mark.own_page
def test_a_view_that_is_lost_before_its_cell_is_attached_shows_what_was_saved(lab):
    save(lab, name="detached.ipynb")
    lab.restart_kernel()
    lab.page.add_init_script(f"({ONE_LONG_PAUSE})()")  # time to detach it
    lab.reload()
    lab.page.evaluate(GIVES_UP_DETACHED)
    expect(lab.cell(1).get_by_role("img", name="graph with 2 ops")).to_be_visible()
