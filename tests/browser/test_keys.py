"""A whole lesson with the keyboard alone: its cells, the graph, a backward pass, tensors, a breakpoint, and back to the notebook."""

from __future__ import annotations

import re

from playwright.sync_api import expect
from real_lab import wait_until
from test_lab import panel_of
from test_lesson import lesson_with, position

FOCUSED = """() => {
  let at = document.activeElement;
  while (at?.shadowRoot?.activeElement) at = at.shadowRoot.activeElement;
  return at?.getAttribute("role") ?? at?.tagName.toLowerCase() ?? "";
}"""
ACTIVE = """() => {
  const root = document.querySelector("#gradient-workbench .gradient-workbench").shadowRoot;
  const id = root.querySelector("[role=tree]").getAttribute("aria-activedescendant");
  return id && root.getElementById(id)?.getAttribute("aria-label");
}"""


def test_a_whole_lesson_by_keys_alone(lab):
    cells = lesson_with(lab)
    at, press = cells.index("step"), lab.page.keyboard.press
    press("Escape")
    for index in range(at + 1):
        lab.page.wait_for_function("(i) => window.jupyterapp.shell.currentWidget.content.activeCellIndex === i", arg=index)
        press("Shift+Enter")
    lab.wait_idle()

    # The shortcut opens the side panel, and the next keys go to its graph.
    press("Control+Alt+g")
    panel = panel_of(lab)
    expect(panel.get_by_test_id("wb-graph")).to_be_focused()
    scrub, sentence = panel.get_by_test_id("wb-scrub"), panel.get_by_test_id("wb-sentence")
    _, total = position(panel)
    assert total > 5
    expect(sentence.locator("xpath=..")).to_have_attribute("aria-live", "polite")
    heard = set()
    for step in range(1, total + 1):  # each step is one sentence for a screen reader
        press("ArrowRight")
        expect(scrub).to_have_value(str(step))
        expect(sentence).to_have_text(re.compile(rf"^Step {step} of {total}, \S.*\.$"))
        heard.add(sentence.inner_text())
    assert len(heard) == total
    press("ArrowLeft")
    expect(scrub).to_have_value(str(total - 1))
    press("Home")
    expect(scrub).to_have_value("0")

    # Along the edges from the loss to its inputs and back; what has the focus has a name.
    press("ArrowUp")
    first = lab.page.evaluate(ACTIVE)
    assert first
    press("ArrowUp")
    second = lab.page.evaluate(ACTIVE)
    assert second and second != first
    press("ArrowDown")
    assert lab.page.evaluate(ACTIVE)
    assert lab.page.evaluate(FOCUSED) == "tree"

    # Search, select, look at the value in its tab, as a table.
    press("/")
    lab.page.keyboard.type("relu")
    press("Enter")
    press("Escape")
    expect(panel.get_by_test_id("wb-graph")).to_be_focused()
    assert lab.page.evaluate(ACTIVE).startswith("relu")
    press("Enter")
    expect(panel.get_by_test_id("wb-tab-value")).to_have_attribute("aria-selected", "true")
    expect(panel.get_by_text("Made by")).to_be_visible()

    # A breakpoint there; the pass runs to it.
    press("b")
    expect(panel.locator("[data-glyph='●']").first).to_be_attached()
    press("F9")
    expect(panel.get_by_test_id("wb-stopped")).to_be_visible()
    stopped, _ = position(panel)
    assert 0 < stopped < total
    press("b")
    press("End")
    expect(scrub).to_have_value(str(total))

    # The tabs are one stop; arrows go on from one to the next.
    for _ in range(12):
        press("Tab")
        if lab.page.evaluate(FOCUSED) == "tab":
            break
    assert lab.page.evaluate(FOCUSED) == "tab"
    chosen = panel.locator("[role=tab][aria-selected=true]")
    names = [chosen.inner_text()]
    for _ in range(panel.locator("[role=tab]:visible").count() - 1):
        press("ArrowRight")
        expect(chosen).not_to_have_text(names[-1])
        names.append(chosen.inner_text())
    assert {"Step", "Value", "Grad", "Memory", "Time"} <= set(names) and len(names) == len(set(names))

    # The graph as a table, the list of keys, and out again: the next cell runs.
    press("Escape")
    press("t")
    expect(panel.get_by_test_id("wb-table")).to_be_focused()
    press("t")
    press("?")
    expect(panel.get_by_test_id("wb-keys")).to_be_visible()
    press("Escape")
    expect(panel.get_by_test_id("wb-keys")).to_be_hidden()
    expect(panel.get_by_test_id("wb-graph")).to_be_focused()
    press("Escape")
    lab.page.wait_for_function("() => window.jupyterapp.shell.currentWidget.content.node.contains(document.activeElement)")
    for _ in range(2):
        press("Shift+Enter")
    wait_until(lambda: lab.outputs(cells.index("inspect")), lambda: "the next cell did not run")
    lab.wait_idle()
