"""What axe-core finds in every tab of the view, in both themes; and whether what it checks is there at all."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import expect
from real_lab import NOTEBOOK
from test_lab import panel_of
from test_lesson import view_of
from test_replay import opened

import engine
import workbench as wb
from engine import nn

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
# Nodes are told to a screen reader in words ("input, shape 16 by 4"), not by the signs that are drawn on them ("16×4").
# A theme changes colours and nothing else: in the second one only these are asked about.
FIND = """async ([selector, theme]) => {
  const only = /dark/i.test(theme) ? { runOnly: ["color-contrast", "link-in-text-block"] } : {};
  const { violations, passes } = await axe.run({ include: [[selector]] }, { resultTypes: ["violations", "passes"], ...only });
  const drawn = (id, node) => id === "label-content-name-mismatch" && node.html.includes('role="treeitem"');
  const told = violations.flatMap(({ id, nodes }) => nodes.filter((node) => !drawn(id, node)).map((node) => `${id}: ${node.html.slice(0, 200)}`));
  return [told, passes.map(({ id }) => id)];
}"""
THEME = "(theme) => window.jupyterapp.commands.execute('apputils:change-theme', { theme })"
MUST = {"color-contrast", "button-name", "aria-required-children", "aria-required-parent", "aria-valid-attr-value", "label", "select-name"}


@pytest.mark.parametrize("theme", ["JupyterLab Light", pytest.param("JupyterLab Dark", marks=pytest.mark.long)])
def test_axe_finds_nothing_in_any_tab(lab, theme):
    lab.open(SETUP, RECORDED, "wb.describe(x)")
    lab.run_all()
    lab.page.evaluate(AXE.read_text())
    lab.command("gradient-workbench:open")
    panel = panel_of(lab)
    expect(panel.get_by_test_id("wb-node").first).to_be_visible()
    view_of(lab, 1).get_by_test_id("wb-side").click()
    expect(panel.get_by_test_id("wb-node").filter(has_text="relu")).to_be_visible()
    panel.get_by_test_id("wb-node").filter(has_text="relu").click()
    lab.page.evaluate(THEME, theme)
    expect(lab.page.locator("#gradient-workbench .gradient-workbench")).to_have_attribute("data-theme", theme.split()[1].lower())

    found: dict[str, list[str]] = {}
    checked: set[str] = set()

    def look(where: str, selector: str = "#gradient-workbench") -> None:
        told, passes = lab.page.evaluate(FIND, [selector, theme])
        checked.update(passes)
        if told:
            found[where] = told

    tabs = panel.locator("[role=tab]:visible")
    for at in range(tabs.count()):
        tab = tabs.nth(at)
        tab.click()
        expect(tab).to_have_attribute("aria-selected", "true")
        expect(panel.get_by_text("Asking the kernel…")).to_have_count(0)
        panel.locator("details:visible").evaluate_all("(all) => all.forEach((one) => { one.open = true; })")
        expect(panel.get_by_text("Asking the kernel…")).to_have_count(0)  # for what is unfolded
        look(tab.inner_text())
    for button in ("wb-breaks", "wb-text", "wb-help"):
        panel.get_by_test_id(button).click()
        look(button)
        if button == "wb-help":
            lab.page.keyboard.press("Escape")
            expect(panel.get_by_test_id("wb-keys")).to_be_hidden()
        else:
            panel.get_by_test_id(button).click()
    view_of(lab, 2)
    look("one tensor in a cell", '.jp-Notebook .jp-Cell[data-windowed-list-index="2"] .gradient-workbench')
    assert found == {}
    must = {"color-contrast"} if theme == "JupyterLab Dark" else MUST
    assert checked >= must, f"axe-core did not check {must - checked}"


TEACHING = """y = (model(x) * 2).tanh().sum()
wb.teach.lesson(y, [wb.teach.say("# A page\\n\\nAn op multiplies by its **slope**: $y = 2x$, see `tanh`.", at="tanh", depth="numbers", step="end"),
              wb.teach.quiz.gradient(x, y, id="q") if x.requires_grad else wb.teach.quiz("Which?", "a", "choice", choices=["a", "b"], id="q")], title="Slopes")"""
WRONG = "%%watch\nbad = (x - x.mean() * 1e30).exp().log().sum()\nworse = (bad - bad) / (bad - bad)"
COMPARED = """with wb.record() as one: (x @ model[0].weight.T).relu().sum()
with wb.record() as two: (x @ model[0].weight.T).sigmoid().sum()
wb.diff(one, two)"""
LOOP = """for turn in wb.loop(range(3), model, engine.optim.SGD(model.parameters(), lr=0.1)):
    model(x).sum().backward()"""

# Of what is seen in a view: what sticks out of it, and words that are cut without a way to read them whole.
CUT = """(root) => {
  const { left, right } = root.getBoundingClientRect();
  const scrolls = (one) => { for (let at = one; at && at !== root; at = at.parentElement) if (/auto|scroll/.test(getComputedStyle(at).overflowX)) return true; return false; };
  const told = [];
  for (const one of root.querySelectorAll("*:not(svg *, math *, .graph *, option, style)")) {
    if (!one.checkVisibility({ visibilityProperty: true }) || one.closest(".graph, .vh, dialog")) continue;
    const box = one.getBoundingClientRect();
    if (!box.width || !box.height) continue;
    const name = `${one.tagName.toLowerCase()}.${one.className?.baseVal ?? one.className} "${one.textContent.trim().slice(0, 40)}"`;
    if ((box.right > right + 1 || box.left < left - 1) && !scrolls(one)) told.push("outside: " + name);
    const style = getComputedStyle(one);
    const whole = one.title || one.closest("[title]") || one.matches("input, select, textarea");
    if (one.scrollWidth > one.clientWidth + 1 && /hidden|clip/.test(style.overflowX) && one.clientWidth > 1 && !whole && one.textContent.trim()) told.push("cut: " + name);
  }
  return told;
}"""

# How many rows some elements stand in.
MIDDLES = """(all) => new Set([...all].map((one) => { const { top, bottom } = one.getBoundingClientRect(); return Math.round((top + bottom) / 2); })).size"""


def roots_of(lab, at: int):
    lab.page.evaluate(f"(at) => {NOTEBOOK}.content.scrollToItem(at, 'start')", at)
    root = lab.cell(at).get_by_test_id("wb-root").first
    expect(root).to_be_visible()
    return root


@pytest.mark.long
def test_axe_finds_nothing_where_one_learns_and_mends(lab):
    lab.open(SETUP, TEACHING, WRONG, COMPARED, "wb.teach.modes(lambda v: (v * v).tanh(), engine.randn(3))", LOOP)
    lab.run_all(wait=False)
    lab.page.wait_for_function(f"() => {NOTEBOOK}.content.widgets[5].model.outputs.length > 0")
    lab.page.evaluate(AXE.read_text())
    found: dict[str, list[str]] = {}
    seen: set[str] = set()

    def look(where: str, at: int) -> None:
        told, _ = lab.page.evaluate(FIND, [f'.jp-Notebook .jp-Cell[data-windowed-list-index="{at}"] .gradient-workbench', theme])
        if told:
            found[where] = told

    for theme in ("JupyterLab Light", "JupyterLab Dark"):
        lab.page.evaluate(THEME, theme)
        for at in range(1, 6):
            root = roots_of(lab, at)
            if at == 1:
                root.get_by_test_id("wb-tab-value").click()
                root.get_by_test_id("wb-pin").click()
                expect(root.get_by_test_id("wb-tab-compare")).to_be_visible()
            expect(lab.cell(at).locator(".gradient-workbench").first).to_have_attribute("data-theme", theme.split()[1].lower())
            tabs = root.locator("[role=tab]:visible")
            for number in range(tabs.count()):
                tab = tabs.nth(number)
                name = tab.inner_text().split()[0]
                if name in ("Step", "Value", "Grad", "Model", "Memory", "Time"):
                    continue  # in the other test
                tab.click()
                expect(tab).to_have_attribute("aria-selected", "true")
                expect(root.get_by_text("Asking the kernel…")).to_have_count(0)
                seen.add(name)
                look(f"{theme}, cell {at}, {name}", at)
            look(f"{theme}, cell {at}", at)
        lesson = roots_of(lab, 1)
        lesson.get_by_test_id("wb-tab-lesson").click()
        lesson.get_by_test_id("wb-page-next").click()
        expect(lesson.get_by_test_id("wb-page-count")).to_have_text("page 2 of 2")
        look(f"{theme}, a question", 1)
        lesson.get_by_test_id("wb-page-previous").click()
        lesson.get_by_test_id("wb-present").click()
        look(f"{theme}, presenting", 1)
        lesson.get_by_test_id("wb-present").click()
    assert found == {}
    assert seen == {"Lesson", "Checks", "Compare"}
    lab.page.evaluate(f"() => {NOTEBOOK}.sessionContext.session.kernel.interrupt()")


def test_a_panel_of_360_pixels_cuts_nothing(lab):
    lab.open(SETUP, RECORDED, TEACHING)
    lab.run_all()
    lab.command("gradient-workbench:open")
    panel = panel_of(lab)
    cut: dict[str, list[str]] = {}
    for at in (1, 2):
        view_of(lab, at).get_by_test_id("wb-side").click()
        expect(panel.get_by_test_id("wb-tab-lesson")).to_be_visible(visible=at == 2)
        expect(panel.get_by_test_id("wb-node").first).to_be_visible()
        lab.page.evaluate("() => document.querySelector('#gradient-workbench .gradient-workbench').style.width = '360px'")
        root = panel.get_by_test_id("wb-root")
        lab.page.wait_for_function("(root) => root.clientWidth <= 360 && root.classList.contains('narrow')", arg=root.element_handle())
        tabs = root.locator("[role=tab]:visible")
        for number in range(tabs.count()):
            tab = tabs.nth(number)
            tab.click()
            expect(panel.get_by_text("Asking the kernel…")).to_have_count(0)
            panel.locator("details:visible").evaluate_all("(all) => all.forEach((one) => { one.open = true; })")
            if told := root.evaluate(CUT):
                cut[f"{at}, {tab.inner_text()}"] = told
        root.get_by_test_id("wb-breaks").click()
        if told := root.evaluate(CUT):
            cut[f"{at}, breakpoints"] = told
        root.get_by_test_id("wb-breaks").click()
        # A details pane in a cell is narrower yet; its tabs, seven with a lesson, stand in one row there too.
        lab.page.evaluate("() => document.querySelector('#gradient-workbench .gradient-workbench').style.width = '340px'")
        tops = root.locator("[role=tab]:visible").evaluate_all(
            "(all) => [...new Set(all.map((one) => one.getBoundingClientRect().top))].length"
        )
        assert tops == 1
        if at == 1:
            root.get_by_test_id("wb-tab-memory").click()
            switches = root.locator(".memory .choices > *")
            expect(switches).to_have_count(2)
            assert root.evaluate(f"(root) => ({MIDDLES})(root.querySelectorAll('.memory .choices > *'))") == 1
            root.get_by_test_id("wb-tab-time").click()
            expect(root.locator(".time .figures > *")).not_to_have_count(0)
            assert root.evaluate(f"(root) => ({MIDDLES})(root.querySelectorAll('.time .figures > *'))") == 1
    assert cut == {}


# What the browser paints where the reader chooses the colours: the selected tab against another one, and what is drawn against its ground.
PAINTED = """(root) => {
  const colours = (one) => { const { color, backgroundColor, fill, stroke } = getComputedStyle(one); return { color, backgroundColor, fill, stroke }; };
  const find = (selector) => colours(root.querySelector(selector));
  return { on: find("[role=tab][aria-selected=true]"), off: find("[role=tab][aria-selected=false]"), ground: colours(root),
    word: find(".graph text"), wire: find(".graph path.line") };
}"""


def test_axe_finds_nothing_in_a_replay_and_forced_colours_leave_nothing_unseen(browser, tmp_path):
    engine.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
    loss = (model(engine.randn(16, 4)) * 2).sum()
    wb.export(
        tmp_path / "replay.html",
        wb.teach.lesson(loss, [wb.teach.say("One page.", at="mul"), wb.teach.say("Another.", step="end")], title="A lesson"),
    )
    found: dict[str, list[str]] = {}
    for dark in (False, True):
        with opened(browser, tmp_path / "replay.html", dark=dark) as page:
            page.evaluate(AXE.read_text())
            root = page.get_by_test_id("wb-root")
            page.locator("[data-node][aria-label*=' 0.weight,']").first.click()
            tabs = root.locator("[role=tab]:visible")
            names = tabs.evaluate_all("(all) => all.map((one) => one.textContent)")
            assert {"Lesson", "Step", "Value", "Grad", "Model", "Memory", "Time"} <= set(names)
            for number, name in enumerate(names):
                tabs.nth(number).click()
                expect(root.get_by_text("Asking the kernel…")).to_have_count(0)
                told, _ = page.evaluate(FIND, ["html", "dark" if dark else "light"])
                if told:
                    found[f"{'dark' if dark else 'light'}, {name}"] = told
            page.emulate_media(forced_colors="active", color_scheme="dark" if dark else "light")
            painted = root.evaluate(PAINTED)
            assert painted["on"]["backgroundColor"] != painted["off"]["backgroundColor"]
            assert painted["word"]["fill"] != painted["ground"]["backgroundColor"] != painted["wire"]["stroke"]
    assert found == {}
