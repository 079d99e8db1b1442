"""A notebook that is opened again, when its kernel is another one: the saved drawing stands where the view was, until the cell runs."""

from __future__ import annotations

from playwright.sync_api import expect

SETUP = "%load_ext workbench\nimport engine\nimport workbench as wb"
WATCHED = "%%watch\nw = engine.tensor([0.4, 0.9], requires_grad=True)\nloss = (w * w).sum()"
SAVED = "() => !window.jupyterapp.shell.currentWidget.context.model.dirty"


def test_a_notebook_opened_again_shows_what_was_saved(lab):
    lab.open(SETUP, WATCHED, "wb.step(loss)", name="again.ipynb")
    lab.run_all()
    expect(lab.cell(1).get_by_test_id("wb-root")).to_be_visible()
    lab.command("docmanager:save")
    lab.wait_idle()
    lab.page.wait_for_function(SAVED)
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
