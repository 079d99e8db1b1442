"""A compiled training step in a real notebook: its phases, a fusion, an instruction, and what each tab says of a program."""

from __future__ import annotations

import pytest
from playwright.sync_api import Locator, expect
from test_lab import run_cell
from test_lesson import view_of

pytest.importorskip("jax")

SETUP = """%load_ext workbench
import engine, workbench as wb
from engine import nn, optim
engine.manual_seed(0)
model = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 1))
optimizer = optim.SGD(model.parameters(), lr=0.1)
@engine.compile
def step(x):
    optimizer.zero_grad()
    loss = model(x).square().mean()
    loss.backward()
    optimizer.step()
    return loss.detach()
for _ in range(2):
    step(engine.ones(4, 6))"""


def box(view: Locator, label: str) -> Locator:
    return view.locator(f'[data-testid="wb-node"][aria-label^="{label}"]').first


def test_a_compiled_step_is_shown_with_its_fusions(lab):
    lab.open(SETUP, "wb.show(step)")
    for at in (0, 1):
        run_cell(lab, at)
    view = view_of(lab, 1)
    panel = view.get_by_role("tabpanel")
    for phase in ("forward", "backward", "SGD update"):
        expect(box(view, f"scope {phase}")).to_have_attribute("aria-expanded", "false")
    expect(panel).to_contain_text("The program that XLA runs for step(x: float32 4×6)")
    expect(panel).not_to_contain_text("wb.step(loss)")

    # What each tab says; nothing of it is an error.
    said = {"grad": "Click a parameter", "model": "the next SGD step", "memory": "of temporary arrays", "time": "step.explain"}
    for tab, words in said.items():
        view.get_by_test_id(f"wb-tab-{tab}").click()
        expect(panel).to_contain_text(words)
    expect(view.get_by_test_id("wb-alert")).to_be_hidden()
    expect(view.get_by_label("What boxes and edges show").locator("option")).to_have_text(["bytes", "time", "no overlay"])

    # A phase opens into parts, a fusion into instructions.
    view.get_by_test_id("wb-tab-value").click()
    box(view, "scope forward").dblclick()
    view.get_by_test_id("wb-fit").click()
    box(view, "scope linear, tanh").dblclick()
    tanh = box(view, "tanh")
    tanh.click()
    for words in ("tanh, line 10 of the cell", "fusion: linear, tanh", "floating-point operations", "%%watch"):
        expect(panel).to_contain_text(words)
    view.get_by_test_id("wb-tab-grad").click()
    expect(view.get_by_test_id("wb-missing").last).to_contain_text("a part of this program")
