"""A training loop in a real notebook: it waits, goes turn by turn, plays, pauses, and goes back to its start."""

from __future__ import annotations

import re

from playwright.sync_api import expect

SETUP = """%load_ext workbench
import engine as torch
from engine import nn
torch.manual_seed(0)
model = nn.Linear(3, 1)
optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
data = [(torch.randn(8, 3), torch.randn(8, 1)) for _ in range(400)]
losses = []"""
LOOP = """start = model.weight.detach().clone()
for x, y in wb.loop(data, model, optimizer):
    loss = ((model(x) - y) ** 2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
print("turns", len(losses), "again", losses[:2] == losses[2:4])"""
AFTER = "print('back', bool((model.weight == start).all()), optimizer.state_dict()['state'])"


def test_training_is_played_paused_stepped_and_put_back(lab):
    lab.open(SETUP, LOOP, AFTER)
    lab.run_all(wait=False)
    view = lab.cell(1).locator(".gradient-workbench")
    label = view.get_by_test_id("wb-train-label")
    expect(label).to_have_text("turn 0 of 400, waits")
    expect(view).to_contain_text("The loop waits before its first turn.")
    view.get_by_test_id("wb-train-step").click()
    expect(label).to_have_text("turn 1 of 400, waits")
    loss = view.locator('.wb-box.op:has-text("loss")')
    expect(loss).to_have_text(re.compile(r"\d\.\d+"))
    first = loss.text_content()
    view.get_by_test_id("wb-train-step").click()
    expect(loss).not_to_have_text(first)  # the box has the loss of this turn
    expect(loss).to_have_text(re.compile(r"\d\.\d+"))
    expect(label).to_have_text("turn 2 of 400, waits")

    # the turn's graph and its backward pass can be looked at while the loop waits
    expect(view.locator('.wb-box.op:has-text("linear")')).to_be_visible()
    scrub = view.get_by_test_id("wb-scrub")
    total = scrub.get_attribute("max")
    view.get_by_test_id("wb-first").click()
    expect(scrub).to_have_value("0")
    view.get_by_test_id("wb-next").click()
    expect(view.get_by_test_id("wb-sentence")).to_contain_text(f"Step 1 of {total}")

    view.get_by_test_id("wb-train-reset").click()
    expect(label).to_have_text("turn 0 of 400, waits")
    for turn in (1, 2):
        view.get_by_test_id("wb-train-step").click()
        expect(label).to_have_text(f"turn {turn} of 400, waits")
    view.get_by_test_id("wb-train-play").click()
    lab.wait_idle()
    expect(label).to_have_text("turn 400 of 400, has ended")
    assert lab.text(1).endswith("turns 402 again True\n")
    assert "linear" in "".join(lab.outputs(1)[0]["data"]["image/svg+xml"])  # the saved notebook shows the last turn
    assert lab.text(2).startswith("back False")

    view.get_by_test_id("wb-train-reset").click()
    expect(label).to_have_text("turn 0 of 400, has ended")
    lab.command("notebook:run-cell", 2)
    lab.wait_idle()
    assert lab.text(2) == "back True {}\n"
