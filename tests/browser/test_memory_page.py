"""The Memory tab in a real notebook: bands, zoom, the peak, why something is alive and the line that frees it, what if."""

from __future__ import annotations

import re

from playwright.sync_api import expect
from real_lab import box_at_rest
from test_lab import run_cell
from test_lesson import view_of

SETUP = """%load_ext workbench
import engine, weakref
from engine import nn, optim
engine.manual_seed(0)
model = nn.Sequential(nn.Linear(64, 128), nn.GELU(), nn.Linear(128, 10))
opt = optim.Adam(model.parameters())
x, y = engine.randn(256, 64), engine.randint(0, 10, (256,))
losses = []"""
TRAIN = """%%watch --keep 0B
for step in range(2):
    opt.zero_grad()
    loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()
    opt.step()
h = model[0](x)
freed = weakref.ref(h.array)
losses.append(h.exp().sum())
del h, loss"""


def test_the_memory_tab_from_the_peak_to_the_line_that_frees(lab):
    lab.open(SETUP, TRAIN, "losses[0] = losses[0].item()", "print(freed() is None)")
    for at in (0, 1):
        run_cell(lab, at)
    view = view_of(lab, 1)
    view.get_by_test_id("wb-tab-memory").click()
    expect(view.get_by_test_id("wb-memory-totals")).to_contain_text("optimizer")
    expect(view.get_by_test_id("wb-machine")).to_contain_text(re.compile(r"the whole process \d+ MB"))

    # bands by category, the axis in seconds, phases below it
    view.get_by_test_id("wb-memory-bands").click()
    expect(view.locator("path.band.of-optimizer")).to_have_count(1)
    view.get_by_test_id("wb-memory-by-time").click()
    expect(view.get_by_test_id("wb-memory-by-time")).to_have_attribute("aria-pressed", "true")
    expect(view.locator(".ribbon.phase .backward")).to_have_count(2)
    view.get_by_test_id("wb-memory-by-event").click()

    # zoom in by keys, and back
    plot = view.get_by_test_id("wb-memory-plot")
    plot.press("+")
    expect(view.get_by_test_id("wb-memory-whole")).to_be_visible()
    plot.press("0")
    expect(view.get_by_test_id("wb-memory-whole")).to_have_count(0)

    # the peak: what was alive, its line of code in one click
    view.get_by_test_id("wb-peak").click()
    expect(view.get_by_test_id("wb-moment")).to_contain_text("The peak: ")
    expect(view.locator("tr.clickable").filter(has_text="saved by exp").first).to_be_visible()
    plot.press("ArrowLeft")
    expect(view.get_by_test_id("wb-moment")).to_contain_text(re.compile(r"Event \d+: "))
    box = box_at_rest(plot)
    plot.click(position={"x": 0.18 * box["width"], "y": 20})  # in the first backward pass
    expect(view.locator("tr.clickable").filter(has_text="freed in the backward step of").first).to_be_visible()

    # what if
    view.get_by_test_id("wb-memory-what-if").click()
    expect(view.get_by_test_id("wb-prediction")).to_be_visible()
    view.get_by_test_id("wb-what-if-half").click()
    expect(view.get_by_test_id("wb-prediction")).to_contain_text("float16")

    # saved for backward, and by line
    view.get_by_test_id("wb-memory-saved").click()
    expect(view.get_by_test_id("wb-memory")).to_contain_text("its result for d_input")
    view.get_by_test_id("wb-memory-lines").click()
    expect(view.get_by_test_id("wb-memory")).to_contain_text("losses.append(h.exp().sum())")

    # why is what exp saved still alive? The list of losses; its line frees it
    view.get_by_test_id("wb-memory-alive").click()
    view.get_by_test_id("wb-memory-now").click()
    row = view.locator("tr.clickable").filter(has_text="saved by exp").first
    row.get_by_test_id("wb-why").click()
    card = view.get_by_test_id("wb-why-card")
    expect(card).to_contain_text("the variable losses[0]")
    expect(card).to_contain_text("its graph")
    expect(card.locator("code.fix").filter(has_text="losses[0] = losses[0].item()")).to_have_count(1)
    run_cell(lab, 2)
    assert run_cell(lab, 3) == "True\n"
