"""A course's PyTorch notebook with `%torch` in front, in a real JupyterLab: epochs, a pass to step through, kinds of tensors, an error."""

from __future__ import annotations

import re

from playwright.sync_api import expect
from test_inspector_page import select
from test_lesson import view_of

COURSE = """import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, TensorDataset
import matplotlib.pyplot as plt

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(2, 8)
        self.fc2 = nn.Linear(8, 2)

    def forward(self, x):
        return self.fc2(F.relu(self.fc1(x)))

torch.manual_seed(0)
X = torch.randn(40, 2)
train_loader = DataLoader(TensorDataset(X, (X ** 2).sum(1).gt(1.4).long()), batch_size=16, shuffle=True)
model, criterion = Net(), nn.CrossEntropyLoss()
optimizer = optim.Adam(model.parameters(), lr=1e-2)
print(torch.__version__)"""
TRAINING = """%%watch
losses = []
for epoch in range(3):
    for inputs, labels in train_loader:
        optimizer.zero_grad()
        loss = criterion(model(inputs), labels)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
plt.plot(losses)
plt.show()"""
KINDS = """%%watch --steps
def energy(x):
    wide = model.fc1(x).exp()
    return wide.sum()
each = torch.func.vmap(energy)(X[:4])
table = nn.Embedding(6, 3, sparse=True)
hidden = checkpoint(model.fc1, X[:4], use_reentrant=False).tanh()
again = hidden.sum() + table(torch.tensor([1, 2])).sum() + each.sum()
again.backward()
print(again.grad_fn)"""
STEPS = """optimizer.zero_grad()
outputs = model(X[:5])
loss = criterion(outputs, torch.tensor([0, 1, 1, 0, 1]))
wb.step(loss)"""


def test_a_course_notebook_from_its_first_cell_to_its_error(lab):
    wrong = "%%watch\nscores = model(X[:5].T)"
    lab.open("%load_ext workbench\n%torch", COURSE, TRAINING, KINDS, STEPS, "print([p.grad for p in model.parameters()][0])", wrong)
    lab.run_all()
    assert lab.text(0) == "" and lab.text(1).startswith("2.13.0+engine")

    # A training is epochs of batches; what loads them is no part of it. The course's own plot is there.
    view = view_of(lab, 2)
    for name in ("for epoch in range(3) ×3", "for (inputs, labels) in tr"):
        expect(view.get_by_test_id("wb-graph").get_by_text(name).first).to_be_visible()
    expect(view.get_by_text("getitem")).to_have_count(0)
    assert any("image/png" in output.get("data", {}) for output in lab.outputs(2))

    # Inside vmap the samples are an axis; a sparse gradient says what it stores.
    view = view_of(lab, 3)
    view.get_by_test_id("wb-tab-value").click()
    shown = view.locator(".pane:not([hidden])")
    select(view, lab.page, "wide")
    expect(shown).to_contain_text("one for each of the 4 samples, along the first axis")
    expect(shown).to_contain_text("4×8")
    select(view, lab.page, "table.weight")
    view.get_by_test_id("wb-tab-grad").click()
    expect(shown).to_contain_text("sparse, 6 elements stored")
    assert "<AddBackward0 object at" in lab.text(3)

    # The pass is .backward(), and its end is what the course would print.
    view = view_of(lab, 4)
    scrub = view.get_by_test_id("wb-scrub")
    view.get_by_test_id("wb-next").click()
    expect(scrub).to_have_value("1")
    expect(view.locator(".pane:not([hidden])")).to_contain_text("cross_entropy")
    view.get_by_test_id("wb-prev").click()
    expect(scrub).to_have_value("0")
    view.get_by_test_id("wb-last").click()
    expect(view.get_by_test_id("wb-next")).to_be_disabled()
    assert lab.text(5).startswith("None")  # when that cell ran, no step had been taken
    lab.command("notebook:run-cell", 5)
    lab.wait_idle()
    assert re.match(r"tensor\(\[\[", lab.text(5))

    # An error ends at the course's own lines, and the graph says what it was.
    told = re.sub(r"\x1b\[[0-9;]*m", "", lab.text(6))
    assert re.findall(r"-+> \d+ +(.*)", told) == ["scores = model(X[:5].T)", "return self.fc2(F.relu(self.fc1(x)))"]
    assert "mat1 and mat2 shapes cannot be multiplied (2x5 and 2x8)" in told and "engine" not in told
    view = view_of(lab, 6)
    expect(view.get_by_text("mat1 and mat2 shapes cannot be multiplied (2x5 and 2x8)").first).to_be_visible()
