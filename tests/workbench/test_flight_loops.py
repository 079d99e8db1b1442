"""Programs that say nothing of the flight recorder: which of their loops are found, and that their steps are repeated bit for bit."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from workbench.flights.loops import TURNS, compiled

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = Path(__file__).with_name("flight_scripts.py")
PROGRAMS = ("adversarial", "distillation", "dqn", "gan", "linear_regression", "maml", "multi_task", "recommender", "reinforce", "rnn_names",
            "style_transfer", "vgg")  # fmt: skip

# A line with a loop that trains ends in a comment.
SOURCES = {
    "plain": """
for i in range(3):  # step
    loss.backward()
    optimizer.step()
""",
    "epochs": """
for epoch in range(3):
    for x in loader:  # step
        loss.backward()
        optimizer.step()
    for x in loader:
        model(x)
    scheduler.step()
""",
    "accumulation": """
for x in loader:  # step
    for part in x.chunk(2):
        loss.backward()
    optimizer.step()
""",
    "two optimizers": """
for x in loader:  # step
    for _ in range(5):
        critic_loss.backward()
        first.step()
    loss.backward()
    second.step()
""",
    "functions": """
def update(x):
    loss.backward()
    optimizer.step()

class Agent:
    def learn(self):
        return update(self.x)

for episode in range(3):
    while not done:  # step
        env.step(action)
        agent.learn()
""",
    "an epoch as a function": """
def epoch():
    for x in loader:  # step
        loss.backward()
        optimizer.step()

for i in range(3):
    epoch()
""",
    "closure": """
def closure():
    loss.backward()
    return loss

for i in range(3):  # step
    optimizer.step(closure)
""",
    "by hand": """
for i in range(3):
    for x in loader:  # step
        loss.backward()
        for w in weights:
            w -= w.grad
""",
    "episodes": """
for episode in range(3):  # step
    for t in range(9):
        env.step(action)
    loss.backward()
    optimizer.step()
""",
    "a function of that name, and a variable": """
def step(x):
    loss.backward()
    optimizer.step()

for step_ in range(2):  # step
    step(step_)
for backward in range(2):
    x = backward
""",
    "first by hand": """
for step in range(2):
    loss.backward()
for step in range(2):  # step
    loss.backward()
    optimizer.step()
""",
    "no training": """
for x in loader:
    env.step(x)
while True:
    model(x)
""",
}


@pytest.mark.parametrize("name", SOURCES)
def test_the_loop_that_trains_is_found(name):
    text, seen = SOURCES[name], set()
    names = {TURNS: lambda *given: seen.add(sys._getframe(1).f_lineno) or iter(())}

    def anything(name):
        return type(name, (), {"__getattr__": lambda self, _: self, "__call__": lambda self, *_: self, "__iter__": lambda self: iter([1]),
                               "__isub__": lambda self, _: self, "__bool__": lambda self: False})()  # fmt: skip

    for word in [
        "loss",
        "optimizer",
        "loader",
        "model",
        "scheduler",
        "critic_loss",
        "first",
        "second",
        "env",
        "action",
        "agent",
        "done",
        "weights",
        "x",
    ]:
        names[word] = anything(word)
    if name == "no training":
        text = text.replace("while True:", "while done:")
    exec(compiled(text, "program.py"), names)
    for function in ("epoch", "update", "closure"):
        if callable(names.get(function)):
            names[function](*([1] if function == "update" else []))
    assert seen == {i for i, line in enumerate(text.split("\n"), 1) if line.endswith("# step")}


def test_a_loop_with_while_runs_as_before():
    turns = []

    def endless(*given):
        for i in range(100):
            turns.append(i)
            yield i

    text = """
found, n = [], 0
class Both:
    backward = step = lambda self: None
while n < 9:
    n += 1
    if n == 3:
        continue
    Both().backward(), Both().step()
    found.append(n)
    if n == 6:
        break
"""
    names = {TURNS: endless}
    exec(compiled(text, "program.py"), names)
    assert names["found"] == [1, 2, 4, 5, 6] and turns == [0, 1, 2, 3, 4, 5]


def scripts(what, library, folder):
    paths = [str(ROOT / "tests" / "programs" / f"{name}.py") for name in PROGRAMS]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, str(SCRIPTS), what, library, str(folder), *paths]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=900)
    assert done.returncode == 0, done.stderr
    return dict(zip(PROGRAMS, map(json.loads, done.stdout.splitlines()), strict=True))


@pytest.mark.slow
@pytest.mark.parametrize("library", ["engine", pytest.param("torch", marks=pytest.mark.torch)])
def test_steps_of_whole_programs_are_repeated_in_another_process(library, tmp_path):
    recorded = scripts("record", library, tmp_path)
    assert {name: one["not kept"] for name, one in recorded.items()} == dict.fromkeys(PROGRAMS, {})
    assert min(one["steps"] for one in recorded.values()) >= 20
    for name, found in scripts("repeat", library, tmp_path).items():
        assert len(found) == 2 and all("equal to the original bit for bit (losses, " in one for one in found.values()), (name, found)
