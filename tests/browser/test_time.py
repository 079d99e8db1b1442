"""The Time tab in a real notebook: where the time went, on a time line that is zoomed and walked, and in tables that lead to the code."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect
from real_lab import box_at_rest

MODEL = """%load_ext workbench
import time
import engine
from engine import nn
from engine.autograd import Function

class Nap(Function):
    @staticmethod
    def forward(ctx, x):
        time.sleep(0.15)
        return x * 1.0
    @staticmethod
    def backward(ctx, g):
        time.sleep(0.3)
        return g

model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1))"""

TRAIN = """%%watch
x = engine.randn(4, 8)
h = model(x)
slow = Nap.apply(h)
loss = slow.square().sum()
loss.backward()"""


def span_of(timeline) -> float:
    begin, end = timeline.get_attribute("data-span").split()
    return float(end) - float(begin)


def seconds(text: str) -> float:
    """ "155 ms" as a number."""
    number, unit = text.split()
    return float(number) * {"s": 1, "ms": 1e-3, "µs": 1e-6}[unit]


def test_where_the_time_went(lab):
    lab.open(MODEL, TRAIN, "wb.profile()")
    lab.run_all()
    lab.page.evaluate("() => window.jupyterapp.shell.currentWidget.content.scrollToItem(2)")  # cells out of sight are not drawn
    view = lab.cell(2).locator(".gradient-workbench")
    timeline = view.get_by_test_id("wb-timeline")
    expect(timeline).to_have_attribute("data-looked", re.compile(r"^\d+$"))  # it is drawn
    expect(view.get_by_test_id("wb-time-cost")).to_contain_text("Recording added about")

    # the slow line leads the table, with most of the time backward, and a click shows its cell
    row = view.locator(".totals tbody tr").first
    expect(row).to_contain_text("slow = Nap.apply(h)")
    forward, backward = (row.locator(f".split .{name}").bounding_box()["width"] for name in ("forward", "backward"))
    row.get_by_test_id("wb-site").click()
    active = "() => window.jupyterapp.shell.currentWidget.content.activeCellIndex"
    lab.page.wait_for_function(f"() => ({active})() === 1")

    # the same by op and by module
    view.get_by_test_id("wb-time-by_op").click()
    expect(view.locator(".totals tbody tr").first).to_contain_text("Nap")
    view.get_by_test_id("wb-time-by_module").click()
    expect(view.locator(".totals")).to_contain_text("outside of modules")

    # who does not see the picture has a table; it says where in the picture the slow step is, and a click there selects it
    view.locator(".twin summary").click()
    slow = view.locator(".twin tbody tr", has_text="Nap")
    expect(slow).to_have_count(2)
    lane, begins, takes = (slow.last.locator("td").nth(k).inner_text() for k in (1, 2, 3))
    assert lane == "backward" and 0.3 <= seconds(takes) < 60
    took = seconds(slow.first.locator("td").nth(3).inner_text())
    assert took >= 0.15 and backward / forward == pytest.approx(seconds(takes) / took, rel=0.15)
    whole = span_of(timeline)
    timeline.scroll_into_view_if_needed()
    middle = (seconds(begins) + seconds(takes) / 2) / whole
    timeline.click(position={"x": box_at_rest(timeline)["width"] * middle, "y": 70})
    readout = view.get_by_test_id("wb-timeline-readout")
    expect(readout).to_contain_text("backward of Nap")
    expect(view.locator(".time .selected")).to_contain_text("slow")
    expect(view.get_by_test_id("wb-tab-time")).to_have_attribute("aria-selected", "true")

    # zoom about the pointer with Ctrl and the wheel; without Ctrl the page has the wheel
    lab.page.keyboard.down("Control")
    lab.page.mouse.wheel(0, -600)
    lab.page.keyboard.up("Control")
    lab.page.wait_for_function("([element, whole]) => { const [a, b] = element.dataset.span.split(' '); return b - a < whole / 2; }",
                               arg=[timeline.element_handle(), whole])  # fmt: skip

    # all of it by keys: back to the whole, to the other lane, along it, and into the graph
    timeline.press("0")
    lab.page.wait_for_function("([element, whole]) => { const [a, b] = element.dataset.span.split(' '); return b - a > 0.99 * whole; }",
                               arg=[timeline.element_handle(), whole])  # fmt: skip
    timeline.press("ArrowUp")
    expect(readout).to_contain_text(re.compile("^Nap"))
    timeline.press("ArrowRight")
    expect(readout).to_contain_text(re.compile("^(square|pow)"))
    timeline.press("Enter")
    expect(view.locator(".time .selected")).to_contain_text("square")
