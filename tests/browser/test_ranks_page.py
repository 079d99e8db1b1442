"""The rank slider of `cluster.show` in a real JupyterLab: each rank answers for its own graph, and the view stays where it is."""

from __future__ import annotations

import importlib.util

import pytest
from playwright.sync_api import expect

pytestmark = pytest.mark.skipif(importlib.util.find_spec("ipyparallel") is None, reason="needs the extra `cluster`")

CLUSTER = "import workbench as wb\ncluster = wb.cluster(2)"
LOSS = """%%px
import engine, engine.distributed as dist
x, w = engine.full((2,), 3.0 + 4.0 * dist.get_rank()), engine.ones(2, requires_grad=True)
loss = (w * x).sum()"""


def test_the_slider_shows_the_graph_of_each_rank(lab):
    lab.open(CLUSTER, LOSS, 'cluster.show("loss")')
    lab.run_all()
    view = lab.cell(2).locator(".gradient-workbench")
    view.scroll_into_view_if_needed()
    slider, label = view.get_by_test_id("wb-rank"), view.get_by_test_id("wb-rank-label")
    expect(label).to_have_text("rank 0 of 2")
    expect(view.get_by_test_id("wb-ranks")).to_contain_text("Each rank has its own data: x.")
    view.locator('[data-node][aria-label^="sum"]').click(position={"x": 14, "y": 10})
    pane = view.locator(".pane:not([hidden])")
    expect(pane).to_contain_text("value 6")
    for key, rank, value in (("ArrowRight", 1, 14), ("ArrowLeft", 0, 6)):
        slider.press(key)
        expect(label).to_have_text(f"rank {rank} of 2")
        expect(pane).to_contain_text(f"value {value}")  # the node is still selected
