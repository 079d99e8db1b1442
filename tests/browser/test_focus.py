"""The keyboard stays where the user has put it, whichever way a view comes to be: it appears, is drawn anew, connects or is restored."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect
from real_lab import NOTEBOOK, wait_until
from test_lab import panel_of
from test_lesson import view_of

# Whether the keys go to something of ours, in a cell or in a panel.
OURS = "() => document.activeElement?.closest('.gradient-workbench, .gradient-workbench-panel') !== null"
COUNTS = f"() => {NOTEBOOK}.content.widgets.map((cell) => cell.model.executionCount)"
CELLS = (
    "%load_ext workbench\nimport engine, workbench as wb\nfrom engine import nn",
    "model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))\nx = engine.randn(16, 4)",
    "%%watch --steps\nloss = (model(x) ** 2).mean()\nloss.backward()",
    "%%watch\nloss = (model(x) ** 2).mean()",
    "wb.step(loss)",
    "wb.describe(x)",
    "wb.show(loss)",
    "wb.check(loss)",
    "wb.memory()",
    "wb.teach.lesson(loss, [wb.teach.say('One page.', at='mean')], title='A lesson')",
    "%%watch\nmodel(engine.randn(16, 5))",
)


@pytest.mark.own_page
def test_the_keys_stay_in_the_notebook(lab):
    lab.open(*CELLS)
    press = lab.page.keyboard.press

    def run_all_by_keys(first: int) -> None:
        """Shift+Enter cell by cell, as far as the first one whose number is known: each has run before the next key."""
        for at in range(len(CELLS)):
            press("Shift+Enter")
            wait_until(
                lambda at=at: (lab.page.evaluate(COUNTS)[at] or 0) >= first + at,
                lambda at=at: f"cell {at} has not run: the keys went elsewhere",
            )
            lab.wait_idle()
            assert not lab.page.evaluate(OURS), f"cell {at} gave the keys to a view"

    # A panel that is opened by its tab, before there is anything to see, does not wait for its chance.
    lab.page.locator(".lm-TabBar-tab[data-id=gradient-workbench]").click()
    panel = panel_of(lab)
    lab.cell(0).locator(".cm-content").click()
    run_all_by_keys(1)
    expect(panel.get_by_test_id("wb-node").first).to_be_visible()
    view_of(lab, 3).get_by_test_id("wb-node").first.wait_for()

    # Another kernel, whose graph the panel then shows.
    lab.cell(0).locator(".cm-content").click()
    lab.restart_kernel()
    lab.wait_answered()
    run_all_by_keys(1)

    # Put back after a reload, with the panel open, while the user writes.
    lab.command("docmanager:save")
    lab.wait_idle()
    lab.reload()
    expect(lab.page.locator("#gradient-workbench .gradient-workbench")).to_be_visible()
    assert not lab.page.evaluate(OURS)
    lab.cell(0).locator(".cm-content").click()
    expect(panel.get_by_test_id("wb-node").first).to_be_visible()
    press("End")
    lab.page.keyboard.type("  # written")
    expect(lab.cell(0).locator(".cm-content")).to_contain_text("# written")


def test_a_panel_with_the_keys_keeps_them_when_it_is_drawn_anew(lab):
    lab.open(*CELLS[:2])
    lab.run_all()
    lab.page.keyboard.press("Escape")
    lab.command("gradient-workbench:open")
    panel = panel_of(lab)
    wait_until(lambda: lab.page.evaluate(OURS), lambda: "an opened panel has no keys")
    execute = f"(code) => {NOTEBOOK}.sessionContext.session.kernel.requestExecute({{ code }}).done"
    lab.page.evaluate(execute, "with wb.record(): loss = model(x).sum()")
    expect(panel.get_by_test_id("wb-graph")).to_be_focused()
    lab.restart_kernel()
    lab.wait_answered()
    assert lab.page.evaluate(OURS)
