"""A course's notebook in a real kernel: `%torch` and `%%torch` put the engine in PyTorch's place; what is then shown of its cells."""

from __future__ import annotations

import re

import pytest
from kernels import Kernel

pytestmark = pytest.mark.slow

START = "%load_ext workbench\n%torch"
COURSE = """import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(2, 3)

    def forward(self, x):
        return self.fc(x).relu()

torch.manual_seed(0)
model, criterion = Net(), nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = DataLoader(TensorDataset(torch.randn(10, 2), torch.arange(10) % 3), batch_size=4, shuffle=True)"""
TRAINING = """%%watch
for epoch in range(3):
    for inputs, labels in loader:
        optimizer.zero_grad()
        loss = criterion(model(inputs), labels)
        loss.backward()
        optimizer.step()"""


@pytest.fixture
def kernel():
    found = Kernel()
    try:
        found.run("%load_ext workbench")
        yield found
    finally:
        found.close()


@pytest.fixture(scope="module")
def course():
    found = Kernel()
    try:
        assert [error_of(found.run(cell)) for cell in (START, COURSE)] == ["", ""]
        yield found
    finally:
        found.close()


def printed(messages):
    return "".join(m["content"]["text"] for m in messages if m["msg_type"] == "stream")


def shown(messages):
    return [m["content"]["data"]["text/plain"] for m in messages if m["msg_type"] == "execute_result"]


def still(messages):
    """The graph as the saved notebook has it, as text."""
    (last,) = [m["content"]["data"]["text/plain"] for m in messages if m["msg_type"] == "update_display_data"]
    return last


def error_of(messages):
    """The error as it is shown, without colors."""
    text = "\n".join(line for m in messages if m["msg_type"] == "error" for line in m["content"]["traceback"])
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


def test_the_engine_answers_to_torch(kernel):
    messages = kernel.run("%%torch\nimport torch\nx = torch.ones(2, requires_grad=True)\n(x * x).sum().backward()\nx.grad")
    assert shown(messages) == ["tensor([2., 2.])"]
    views = [m for m in messages if m["msg_type"] == "display_data"]
    assert len(views) == 1 and "application/vnd.jupyter.widget-view+json" in views[0]["content"]["data"]
    assert "2 ops" in str([m["content"] for m in messages if m["msg_type"] == "update_display_data"])
    assert shown(kernel.run("import engine, torch.nn.functional as F\n(torch is engine, F is engine.nn.functional)")) == ["(True, True)"]
    assert printed(kernel.run("%torch")) == ""  # again changes nothing
    assert "takes no arguments" in printed(kernel.run("%torch now"))
    (error,) = [m for m in kernel.run("torch.nn.Lienar(1, 2)") if m["msg_type"] == "error"]
    assert error["content"]["evalue"].endswith("did you mean 'Linear'?")


def test_it_is_refused_where_torch_is_there_already(kernel):
    kernel.run("import sys, types\nsys.modules['torch'] = types.ModuleType('torch')")
    told = printed(kernel.run("%torch"))
    assert told.startswith("UsageError: %torch: torch itself has been imported in this process already, and two cannot share one name.")
    assert told.rstrip().endswith("or stay with PyTorch, whose models wb.watch shows.")


def test_a_training_is_epochs_of_batches_and_nothing_else(course):
    told = still(course.run(TRAINING))
    assert told.startswith("In [3]: 27 ops, 2 parameters")
    lines = [re.sub(r" #\d+", "", line) for line in told.splitlines()[1:7]]
    assert lines[:3] == ["  for epoch in range(3) ×3:", "    turn 1:", "      for (inputs, labels) in loader ×3:"]
    assert "getitem" not in told


def test_an_error_ends_at_the_users_line(course):
    told = error_of(course.run("x = torch.ones(2, 5)\nmodel(x)"))
    assert "mat1 and mat2 shapes cannot be multiplied (2x5 and 2x3)" in told
    assert re.findall(r"-+> (.*)", told) == ["2 model(x)", "12         return self.fc(x).relu()"]
    told = error_of(course.run("%%watch\ny = model(torch.ones(2, 5))"))  # neither the magic nor what runs it
    assert re.findall(r"-+> (.*)", told) == ["2 y = model(torch.ones(2, 5))", "12         return self.fc(x).relu()"]
    caught = "try:\n    model(x)\nexcept RuntimeError as error:\n    raise ValueError('mine') from error"
    told = error_of(course.run(caught))  # the engine's own cause is gone, the program's stays
    assert told.count("direct cause") == 1 and "call.py" not in told and told.endswith("ValueError: mine")
    course.run("%xmode Verbose")
    assert "call.py" in error_of(course.run("model(x)"))
    course.run("%xmode Context")


def test_another_hand_on_how_errors_are_shown_stays(kernel):
    mine = "get_ipython().set_custom_exc((ZeroDivisionError,), lambda shell, kind, error, trace, tb_offset=None: print('mine'))"
    kernel.run(f"{mine}\n%reload_ext workbench")
    assert printed(kernel.run("1 / 0")) == "mine\n"
