"""What axe-core finds in every tab of the view, in both themes; and whether what it checks is there at all."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import expect
from test_lab import panel_of
from test_lesson import view_of

AXE = Path(__file__).parents[2] / "extension" / "node_modules" / "axe-core" / "axe.min.js"
SETUP = """%load_ext workbench
import engine, workbench as wb
from engine import nn
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
x = engine.randn(16, 4)"""
RECORDED = """%%watch --steps
h = model(x)
loss = (h * h).mean()
loss.backward()"""
FIND = """async (selector) => {
  const { violations, passes } = await axe.run({ include: [[selector]] }, { resultTypes: ["violations", "passes"] });
  const told = violations.map(({ id, nodes }) => `${id}: ${nodes.map((n) => n.html.slice(0, 200)).join(" | ")}`);
  return [told, passes.map(({ id }) => id)];
}"""
THEME = "(theme) => window.jupyterapp.commands.execute('apputils:change-theme', { theme })"
MUST = {"color-contrast", "button-name", "aria-required-children", "aria-required-parent", "aria-valid-attr-value", "label", "select-name"}


@pytest.mark.timeout(200)
def test_axe_finds_nothing_in_any_tab_in_both_themes(lab):
    lab.open(SETUP, RECORDED, "wb.inspect(x)")
    lab.run_all()
    lab.page.evaluate(AXE.read_text())
    lab.command("gradient-workbench:open")
    panel = panel_of(lab)
    expect(panel.get_by_test_id("wb-node").first).to_be_visible()
    view_of(lab, 1).get_by_test_id("wb-side").click()
    expect(panel.get_by_test_id("wb-node").filter(has_text="relu")).to_be_visible()
    panel.get_by_test_id("wb-node").filter(has_text="relu").click()

    found: dict[str, list[str]] = {}
    checked: set[str] = set()

    def look(where: str, selector: str) -> None:
        told, passes = lab.page.evaluate(FIND, selector)
        checked.update(passes)
        if told:
            found[where] = told

    for theme in ("JupyterLab Light", "JupyterLab Dark"):
        lab.page.evaluate(THEME, theme)
        expect(lab.page.locator("#gradient-workbench .gradient-workbench")).to_have_attribute("data-theme", theme.split()[1].lower())
        tabs = panel.locator("[role=tab]:visible")
        for at in range(tabs.count()):
            tab = tabs.nth(at)
            tab.click()
            expect(tab).to_have_attribute("aria-selected", "true")
            expect(panel.get_by_text("Asking the kernel…")).to_have_count(0)
            panel.locator("details:visible").evaluate_all("(all) => all.forEach((one) => { one.open = true; })")
            look(f"{theme}, {tab.inner_text()}", "#gradient-workbench")
        panel.get_by_test_id("wb-breaks").click()
        look(f"{theme}, breakpoints", "#gradient-workbench")
        panel.get_by_test_id("wb-breaks").click()
        panel.get_by_test_id("wb-text").click()
        look(f"{theme}, the graph as a table", "#gradient-workbench")
        panel.get_by_test_id("wb-text").click()
        panel.get_by_test_id("wb-help").click()
        look(f"{theme}, keys", "#gradient-workbench")
        lab.page.keyboard.press("Escape")
        expect(panel.get_by_test_id("wb-keys")).to_be_hidden()
        view_of(lab, 2)
        look(f"{theme}, one tensor in a cell", '.jp-Notebook .jp-Cell[data-windowed-list-index="2"] .gradient-workbench')
    assert found == {}
    assert checked >= MUST, f"axe-core did not check {MUST - checked}"
