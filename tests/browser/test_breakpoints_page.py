"""Breakpoints in a real notebook: by mouse and by keys, on conditions, in a cell that is paused inside backward()."""

from __future__ import annotations

from playwright.sync_api import expect

SETUP = """%load_ext workbench
import engine as torch
from engine import nn
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))
x, y = torch.randn(5, 4), torch.randn(5, 2)"""
TWO_PASSES = """%%watch --steps
out = model(x)
loss = ((out - y) ** 2).mean()
loss.backward(retain_graph=True)
loss2 = (out * 5000.0).sum()
loss2.backward()"""
PAUSED = """torch_w = torch.tensor([1.0, 2.0, 2.0]).requires_grad_()
with wb.step():
    for scale in (1.0, 2.0, 3000.0):
        (torch_w * scale).tanh().sum().backward()
        torch_w.grad = None
        (torch_w * scale).sum().backward()
print("went on", torch_w.grad.tolist())"""


def view_of(lab, index: int):
    view = lab.cell(index).locator(".gradient-workbench")
    expect(view.get_by_test_id("wb-scrub")).to_be_visible()
    return view


def at(view, step: int) -> None:
    expect(view.locator(".stepper")).to_have_attribute("data-index", str(step))


def test_breakpoints_by_mouse_and_keys_conditions_and_passes(lab):
    lab.open(SETUP, TWO_PASSES)
    lab.run_all()
    view = view_of(lab, 1)
    press = lab.page.keyboard.press
    passes = view.get_by_test_id("wb-pass")
    expect(passes.locator("option")).to_have_text(["pass 1 of 2: loss", "pass 2 of 2: loss2"])
    expect(view.get_by_test_id("wb-grad-was")).to_be_visible()  # the last step adds to what the first pass left
    passes.select_option(label="pass 1 of 2: loss")
    expect(view.get_by_test_id("wb-grad-was")).to_have_text(".grad was None before this step.")

    # by keys: b at the selected node, F9 to it, Alt+F9 back
    graph = view.get_by_test_id("wb-graph")
    graph.focus()
    press("Home")
    at(view, 0)
    view.locator('.wb-box.op:has-text("tanh") > .title').click()
    press("b")
    expect(view.locator('.wb-box.op:has-text("tanh") .flag[data-glyph="●"]')).to_be_visible()
    graph.focus()
    press("F9")
    expect(view.get_by_test_id("wb-stopped")).to_contain_text("Stopped at a breakpoint")
    expect(view.get_by_test_id("wb-sentence")).to_contain_text("tanh")
    press("F10")
    expect(view.get_by_test_id("wb-stopped")).to_be_hidden()
    press("Alt+F9")
    expect(view.get_by_test_id("wb-stopped")).to_be_visible()

    # by mouse: the gutter takes it away again
    view.locator('.wb-box.op:has-text("tanh") > .gutter').click()
    expect(view.locator('.flag[data-glyph="●"]')).to_have_count(0)

    # a condition: the second pass hands on 5000s, the first nothing like it
    graph.focus()
    press("Shift+B")
    when = view.get_by_test_id("wb-break-when")
    expect(when).to_be_focused()
    view.get_by_test_id("wb-break-where").select_option("any")
    when.fill("norm >")
    when.press("Enter")
    expect(view.get_by_test_id("wb-break-problem")).to_contain_text("cannot be read as a condition")
    when.fill("norm > 1e3")
    when.press("Enter")
    expect(view.get_by_test_id("wb-break")).to_have_count(1)
    when.press("Escape")
    expect(view.get_by_test_id("wb-breakpoints")).to_be_hidden()
    view.get_by_test_id("wb-first").click()
    at(view, 0)
    view.get_by_test_id("wb-run").click()
    expect(view.get_by_test_id("wb-next")).to_have_attribute("aria-disabled", "true")  # to the end: nothing stopped it
    passes.select_option(label="pass 2 of 2: loss2")
    expect(view.get_by_test_id("wb-grad-was")).to_be_visible()
    view.get_by_test_id("wb-first").click()
    at(view, 0)
    view.get_by_test_id("wb-run").click()
    expect(view.get_by_test_id("wb-stopped")).to_contain_text("norm > 1e3")

    # by module, with the keys of a debugger; outside the view they are JupyterLab's
    view.get_by_test_id("wb-first").click()
    at(view, 0)
    view.get_by_test_id("wb-by").select_option("module")
    graph.focus()
    press("F10")
    expect(view.get_by_test_id("wb-sentence")).to_contain_text("mul")  # what is outside of all modules is one step
    at_now = view.locator(".stepper").get_attribute("data-index")
    lab.cell(0).locator(".cm-content").click()
    press("F10")
    press("F9")
    expect(view.locator(".stepper")).to_have_attribute("data-index", at_now)


def test_a_paused_cell_stops_at_the_condition_only(lab):
    """Five of its six passes run by; the sixth stops where 3000·√3 is handed on, and the cell goes on from there."""
    lab.open(SETUP, 'wb.break_at("norm > 5000")\n' + PAUSED)
    lab.run_all(wait=False)
    view = view_of(lab, 1)
    expect(view.get_by_test_id("wb-paused")).to_have_text("cell waits")
    view.get_by_test_id("wb-graph").focus()
    lab.page.keyboard.press("F9")
    expect(view.get_by_test_id("wb-stopped")).to_contain_text("norm > 5000: what mul hands to torch_w has norm 5196")
    expect(view.get_by_test_id("wb-pass").locator("option")).to_have_count(6)
    expect(view.get_by_test_id("wb-paused")).to_be_visible()
    assert "went on" not in lab.text(1)
    lab.page.keyboard.press("ArrowLeft")
    expect(view.get_by_test_id("wb-stopped")).to_be_hidden()
    lab.page.keyboard.press("End")
    lab.wait_idle()
    assert "went on [3000.0, 3000.0, 3000.0]" in lab.text(1)
