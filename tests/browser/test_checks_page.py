"""The checks in a real notebook: findings come with the cell, lead to their node and line, and wb.check() looks at everything."""

from __future__ import annotations

from playwright.sync_api import expect

SETUP = """%load_ext workbench
import engine as torch
import engine.nn.functional as F
from engine import nn
from engine.optim import SGD
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3))
optimizer = SGD(model.parameters(), 0.01)"""
RIGHT = """%%watch
x, y = torch.randn(5, 4), torch.tensor([0, 1, 2, 0, 1])
F.cross_entropy(model(x), y).backward()
optimizer.step()
optimizer.zero_grad()"""
NAN = """%%watch
p = model(x)
score = (p - 50).log()
loss = F.nll_loss(score, y)
loss.backward()
model.zero_grad()"""
SHAPE = """%%watch
w = torch.randn(8, 3)
h = model[0](x)
z = h @ w.T"""
LOOP = """%%watch
for step in range(3):
    loss = F.cross_entropy(model(torch.randn(8, 4)).softmax(1), torch.randint(0, 3, (8,)))
    loss.backward()
    optimizer.step()"""


def run(lab, index: int):
    """Runs one cell; the view in its output."""
    lab.command("notebook:run-cell", index)
    lab.wait_idle()
    return lab.cell(index).locator(".gradient-workbench")


def test_findings_come_with_the_cell_and_lead_to_node_and_line(lab):
    lab.open(SETUP, RIGHT, NAN, SHAPE, LOOP, "wb.check()")
    run(lab, 0)
    right = run(lab, 1)
    expect(right.locator(".wb-box.op").first).to_be_visible()
    expect(right.get_by_test_id("wb-tab-checks")).to_be_hidden()  # nothing found, no tab

    # the first NaN, on its node and in the tab; a click selects the node, the line is In [3]'s
    view = run(lab, 2)
    expect(view.locator('.wb-box.op:has-text("log") .flag[data-glyph="✕"]').first).to_be_visible()
    tab = view.get_by_test_id("wb-tab-checks")
    expect(tab).to_have_text("Checks 1")
    tab.click()
    card = view.get_by_test_id("wb-finding")
    expect(card).to_have_attribute("data-code", "nan-forward")
    expect(card).to_contain_text("log made the first NaN at line 3 of In [3]: score[0, 0] and 14 more.")
    expect(card.locator(".operands")).to_contain_text("[0, 0] = −")
    expect(card.get_by_test_id("wb-site")).to_contain_text("score = (p - 50).log()")
    card.locator("button.say").click()
    expect(view.locator(".wb-box.selected")).to_contain_text("log")
    view.get_by_test_id("wb-checks-nan").click()
    expect(card).to_have_count(0)
    expect(view.get_by_test_id("wb-checks")).to_contain_text("1 finding not shown.")

    # a shape error: the graph up to it, the axes that do not fit, and the line that mends it
    view = run(lab, 3)
    expect(view.locator(".wb-box.failed")).to_contain_text("matmul")
    tab = view.get_by_test_id("wb-tab-checks")
    tab.focus()
    lab.page.keyboard.press("Enter")
    card = view.get_by_test_id("wb-finding")
    expect(card.locator(".dim.bad")).to_have_text(["8 (does not fit)", "3 (does not fit)"])
    expect(card.locator(".fix")).to_contain_text("w, without the transpose")

    # a loop with two mistakes, and the whole look at it from code
    view = run(lab, 4)
    expect(view.get_by_test_id("wb-tab-checks")).to_have_text("Checks 2")
    view = run(lab, 5)
    expect(view.get_by_test_id("wb-tab-checks")).to_have_attribute("aria-selected", "true")
    expect(view.get_by_test_id("wb-finding")).to_have_count(2)
    codes = [one.get_attribute("data-code") for one in view.get_by_test_id("wb-finding").all()]
    assert sorted(codes) == ["missing-zero-grad", "softmax-before-cross-entropy"]
    expect(view.get_by_test_id("wb-checks-thorough")).to_have_count(0)
    assert "missing-zero-grad" in lab.text(5) and "optimizer.zero_grad() before loss.backward()" in lab.text(5)
