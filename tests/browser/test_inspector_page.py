"""The tensor inspector in a real notebook: axes, exact elements, images, tokens, memory, time, pins, the model and its samples."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect
from real_lab import box_at_rest

SETUP = """%load_ext workbench
import engine as torch
import numpy
from engine import nn, optim
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(6, 4), nn.ReLU(), nn.Linear(4, 2))
with torch.no_grad():
    model[0].bias[1] = -100.0
opt = optim.SGD(model.parameters(), lr=0.1)
wb.vocabulary(["the", "cat", "sat"])"""
WATCHED = """%%watch --steps
data = torch.rand(40, 6)
out = model(data)
loss = (out ** 2).mean()
loss.backward()
frozen = out.detach()
score = frozen * 2
stack = torch.randn(2, 3, 4, 5) + 0
broken = stack * float("nan")
carry = torch.ones(3)
for t in range(6):
    carry = carry * 2
ids = torch.tensor([0, 2, 1]) + 0
pixels = torch.rand(3, 8, 8) + 0
view = stack[0, 1:] + 0"""
ANSWERS = """x, w1, w2 = data.numpy().astype("f8"), model[0].weight.detach().numpy().astype("f8"), model[2].weight.detach().numpy().astype("f8")
a = numpy.maximum(x @ w1.T + model[0].bias.detach().numpy(), 0)
g = 2 * (a @ w2.T + model[2].bias.detach().numpy()) / (40 * 2)
norms = [numpy.linalg.norm(numpy.outer(g[n], a[n])) for n in range(40)]
print("largest", int(numpy.argmax(norms)), f"{max(norms):.4g}", "element", str(stack.numpy()[1, 2, 3, 4]))"""


def select(view, page, name: str):
    """Finds a node by its name, selects it, and waits until the panel speaks of it."""
    search = view.get_by_test_id("wb-search")
    search.fill(name)
    search.press("Enter")
    expect(view.locator(".hits")).to_have_text(re.compile("^1 of"))
    search.press("Escape")
    expect(view.get_by_test_id("wb-graph")).to_be_focused()
    page.keyboard.press("Enter")
    expect(view.locator(".pane:not([hidden]) h3").first).to_have_text(name)


def test_a_tensor_from_every_side(lab):
    lab.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    lab.open(SETUP, WATCHED, ANSWERS)
    lab.run_all()
    numbers = re.search(r"largest (\d+) (\S+) element (\S+)", lab.text(2))
    assert numbers, lab.text(2)
    worst, norm, element = numbers.groups()
    page, view = lab.page, lab.cell(1).locator(".gradient-workbench")
    view.scroll_into_view_if_needed()
    seen = lambda test: view.locator(f'.pane:not([hidden]) [data-testid="{test}"]')  # noqa: E731

    # any axis can be a slider; the element that is clicked is told exactly, and its path can be copied
    view.get_by_test_id("wb-tab-value").click()
    select(view, page, "stack")
    expect(seen("wb-axis-1")).to_have_value("facet")
    seen("wb-axis-1").select_option("index")
    expect(seen("wb-axis-1")).to_have_value("index")
    for axis, to in ((0, "1"), (1, "2")):
        slider = view.get_by_label(f"Index along axis {axis}")
        slider.fill(to)
    heat = seen("wb-heat")
    heat.focus()
    for key in ["ArrowRight", *["ArrowRight"] * 4, *["ArrowDown"] * 3]:
        heat.press(key)
    expect(view.locator(".pane:not([hidden]) .readout")).to_contain_text("[1, 2, 3, 4]")
    heat.press("Enter")
    expect(seen("wb-element")).to_have_text(f"stack[1, 2, 3, 4] = {element}")
    view.locator(".pane:not([hidden]) .element").get_by_test_id("wb-copy").click()
    expect(view.get_by_test_id("wb-status")).to_have_text("Copied stack[1, 2, 3, 4]")
    assert page.evaluate("navigator.clipboard.readText()") == "stack[1, 2, 3, 4]"
    page.context.clear_permissions()

    # NaN is never hidden, images have a rule, ids are tokens, a loop is a series
    select(view, page, "broken")
    expect(view.locator(".pane:not([hidden]) .noted")).to_contain_text("with NaN (X)")
    expect(seen("wb-summary")).to_contain_text("with 120 NaN")
    select(view, page, "pixels")
    seen("wb-picture").select_option("C, H, W")
    expect(seen("wb-image")).to_contain_text("0 is black, 1 is white.")
    select(view, page, "ids")
    expect(seen("wb-tokens").locator(".token")).to_have_text(["the", "sat", "cat"])
    select(view, page, "carry")
    seen("wb-over-time").locator("summary").first.click()
    expect(seen("wb-series")).to_contain_text("6 turns of a loop")

    # who shares the memory, and why there is no gradient, with the line
    select(view, page, "frozen")
    seen("wb-memory-layout").get_by_text("Layout in memory").click()
    expect(seen("wb-placement").get_by_role("button", name="out", exact=True)).to_be_visible()
    view.get_by_test_id("wb-tab-grad").click()
    expect(seen("wb-missing")).to_have_text(re.compile(r"^It was detached from out at line 6 of In \[2\], so no gradient passes\.$"))

    # pins, by key and by button
    view.get_by_test_id("wb-tab-value").click()
    page.keyboard.press("p")
    view.get_by_test_id("wb-graph").focus()
    page.keyboard.press("p")
    expect(view.get_by_test_id("wb-tab-compare")).to_be_visible()
    select(view, page, "out")
    seen("wb-pin").click()
    view.get_by_test_id("wb-tab-compare").click()
    expect(seen("wb-difference").last).to_have_text("Equal in every element.")

    # the model: flags, dead units, and a gradient taken apart by samples
    view.get_by_test_id("wb-tab-model").click()
    expect(view.get_by_test_id("wb-model").locator(".parameters tbody tr")).to_have_count(4)
    expect(view.get_by_test_id("wb-model")).to_contain_text("† dead units")
    expect(view.get_by_test_id("wb-model")).to_contain_text("the next SGD step with this gradient")
    view.get_by_test_id("wb-model").locator(".parameters").get_by_role("button", name="2.weight").click()
    seen("wb-samples-ask").click()
    first = seen("wb-samples").locator("table").first.locator("tbody tr").first.locator("td")
    expect(first.nth(0)).to_have_text(worst)
    assert float(first.nth(1).inner_text().replace("−", "-")) == pytest.approx(float(norm), rel=1e-3)


def test_rich_looks_and_inspect_in_a_cell(lab):
    lab.open(
        SETUP,
        "model",
        "grid = torch.arange(24.).reshape(4, 6)\npart = grid[1:3, ::2].T\nwb.describe(part)",
        "wb.describe(torch.tensor([[0, 1], [2, 9]]), tokens={0: 'un', 1: 'chat', 2: 'noir'})",
    )
    lab.run_all()
    expect(lab.cell(1).locator(".jp-RenderedHTMLCommon table tr")).to_have_count(5)
    expect(lab.cell(1).locator(".jp-RenderedHTMLCommon")).to_contain_text("38 parameters in 4 tensors")
    card = lab.cell(2).locator(".gradient-workbench")
    card.scroll_into_view_if_needed()
    placement = card.get_by_test_id("wb-placement").first
    expect(placement.locator(".memory-grid .mine")).to_have_count(6)  # a card of a view opens its layout by itself
    expect(placement).to_contain_text("grid 4×6, overlapping elements")
    chips = lab.cell(3).locator(".gradient-workbench")
    chips.scroll_into_view_if_needed()
    expect(chips.locator(".token:visible")).to_have_text(["un", "chat", "noir", "9"])
    expect(chips.get_by_test_id("wb-tokens")).to_contain_text("2 rows of 2 tokens; 1 id is not in the vocabulary")


SMALL = """W = engine.randn(6, 6, requires_grad=True)
x = engine.randn(4, 6)
small = engine.tanh(x @ W).pow(2).mean()
wb.step(small)"""
BY_HAND = """a, w = x.numpy(), W.detach().numpy()
t = engine.tanh(x @ W).detach().numpy()
print((a.T @ (2 * t * (1 - t * t) / t.size))[0, 0])"""
CUT = """(panel) => [...panel.querySelectorAll('td, th, h3, button, .sign, figcaption')]
  .filter((one) => one.checkVisibility() && (one.scrollWidth > one.clientWidth + 1 || one.getBoundingClientRect().right > panel.getBoundingClientRect().right))
  .map((one) => one.outerHTML)"""
OVERLAPS = """(bar) => {
  const boxes = [...bar.querySelectorAll(':scope > :not(.count, .buttons), .count > *, .buttons > *')]
    .filter((one) => one.checkVisibility() && one.getBoundingClientRect().width)
    .map((one) => [one, one.getBoundingClientRect()]);
  return boxes.flatMap(([one, a], at) => boxes.slice(at + 1)
    .filter(([, b]) => Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1 && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 1)
    .map(([other]) => one.outerHTML + other.outerHTML));
}"""


def test_small_matrices_are_numbers_and_nothing_is_cut_on_a_small_screen(lab):
    lab.open("%load_ext workbench\nimport engine, workbench as wb\nengine.manual_seed(0)", SMALL, BY_HAND, name="small.ipynb")
    lab.run_all()
    view = lab.cell(1).get_by_test_id("wb-root")
    expect(view).to_be_visible()
    view.get_by_test_id("wb-last").click()
    view.get_by_test_id("wb-prev").click()
    view.get_by_test_id("wb-depth-numbers").click()
    expect(view.get_by_test_id("wb-rule-numbers").first.get_by_test_id("wb-cells")).to_have_count(3)  # what matmul took and made
    product = view.get_by_test_id("wb-contribution").get_by_test_id("wb-cells")
    expect(product).to_have_count(3)  # xᵀ @ upstream = contribution
    expect(product.last.locator("td")).to_have_count(36)
    exact = float(lab.text(2))
    shown = float(product.last.locator("td").first.inner_text().replace("−", "-"))
    assert abs(shown - exact) <= 0.06 * abs(exact)
    for size in ({"width": 1400, "height": 900}, {"width": 1024, "height": 768}):
        lab.page.set_viewport_size(size)
        box_at_rest(view.locator(".panel"))
        assert view.locator(".panel").evaluate(CUT) == []
        assert view.locator(".toolbar").evaluate(OVERLAPS) == []


NESTED = """from engine import nn
def nested(depth):
    inner = [nested(depth - 1) for _ in range(2)] if depth else [nn.Linear(4, 4), nn.ReLU()]
    return nn.Sequential(nn.Linear(4, 4), *inner, nn.Linear(4, 4))
model = nested(5)
loss = model(engine.randn(2, 4)).sum()
wb.step(loss)"""


def test_the_bar_of_a_model_with_many_levels_has_room_on_a_small_screen(lab):
    lab.page.set_viewport_size({"width": 1024, "height": 768})
    lab.open("%load_ext workbench\nimport engine, workbench as wb", NESTED)
    lab.run_all()
    view = lab.cell(1).get_by_test_id("wb-root")
    expect(view.get_by_test_id("wb-levels")).to_be_visible()
    bar, levels = view.locator(".toolbar"), view.get_by_test_id("wb-levels").get_by_role("button")
    assert levels.count() > 6
    expect(levels.nth(1)).to_have_accessible_name("blocks 1")
    expect(levels.nth(2)).to_have_accessible_name("blocks 2")
    expect(levels.nth(2)).to_have_text("2")  # the word stands once
    for width in (1400, 1024, 900):
        lab.page.set_viewport_size({"width": width, "height": 768})
        frame = box_at_rest(bar)
        last = box_at_rest(view.get_by_test_id("wb-help"))
        assert last["x"] + last["width"] <= frame["x"] + frame["width"]
        assert bar.evaluate(OVERLAPS) == []
