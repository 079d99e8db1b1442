"""wb.progress in a real JupyterLab: the bar moves while the cell runs, an interrupt leaves the picture as it stands, the next cell works."""

from __future__ import annotations

from playwright.sync_api import expect

LOOP = """import time
import workbench as wb
for i in (t := wb.progress(range(100_000), title="<b>endless</b>")):
    t.report(loss=1 / (i + 1), **{"<i>norm</i>": float("nan") if i % 2 else 1.0})
    time.sleep(0.005)"""
NEXT = """for i in (t := wb.progress(range(3), title="short")):
    t.report(loss=i)"""


def test_the_bar_moves_and_an_interrupt_leaves_it_as_it_stands(lab):
    lab.open(LOOP, NEXT)
    lab.command("notebook:run-cell")
    output = lab.cell(0).locator(".jp-OutputArea-output")
    bar = output.locator("progress")
    expect(output.get_by_text("left")).to_be_visible()
    before = float(bar.get_attribute("value") or 0)
    lab.page.wait_for_function(f"() => document.querySelector('.jp-OutputArea progress').value > {before}")
    expect(bar).to_have_attribute("aria-label", "<b>endless</b>")
    expect(output.get_by_text("<i>norm</i>", exact=False).first).to_be_visible()  # what was named is text, never markup
    expect(output.locator("b", has_text="<b>endless</b>")).to_have_count(1)
    expect(output.locator("i")).to_have_count(0)
    expect(output).to_have_count(1)
    expect(output.get_by_role("img")).to_have_count(2)

    lab.page.evaluate("() => window.jupyterapp.commands.execute('notebook:interrupt-kernel')")
    lab.wait_idle()
    expect(output.get_by_text("stopped after")).to_be_visible()
    assert [one["output_type"] for one in lab.outputs(0)] == ["display_data", "error"]
    (saved, _) = lab.outputs(0)
    assert "stopped after" in saved["data"]["text/plain"] and len(str(saved["data"])) < 10_000

    lab.command("notebook:run-cell", 1)
    lab.wait_idle()
    expect(lab.cell(1).get_by_text("3 of 3, in")).to_be_visible()
