"""Programs without a mistake are left in peace."""

from __future__ import annotations

import contextlib
import linecache
import sys
from pathlib import Path
from typing import Any

import numpy
import pytest
import walked
from hypothesis import given
from matplotlib import pyplot
from mistakes import (
    Net,
    Program,
    batch,
    by_hand,
    checked,
    evaluated,
    train,
)

import engine
import engine.data
import engine.nn.functional as F
import workbench as wb
from engine import nn
from engine.base import observe
from engine.optim import SGD, Adam
from lessons.lesson import edition
from workbench.checks.look import look
from workbench.inspector import vocabulary
from workbench.inspector.gradient_flow import EXPLODING
from workbench.recording import source
from workbench.recording.recorder import Recorder

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tests" / "engine"))
import programs  # noqa: E402 # pyright: ignore[reportMissingImports]

# Those that are about PyTorch itself need it.
LESSONS = sorted(path.stem for path in (ROOT / "notebooks").glob("*.ipynb") if '"import torch\\n"' not in path.read_text(encoding="utf-8"))


@pytest.mark.slow
@given(programs.steps)
def test_correct_programs_of_views_and_writes_are_left_in_peace(program: list) -> None:
    rng = numpy.random.default_rng(2)
    x, w = (engine.tensor(rng.normal(size=shape), requires_grad=True) for shape in (programs.SHAPE, (3,)))

    def run() -> Any:
        pool = programs.run(
            program, x, w, lambda v: v.clone(), lambda shape: engine.zeros(shape, dtype=engine.float64), programs.write_tensor
        )
        loss = engine.stack([v.square().mean() for v in pool]).sum()
        loss.backward()
        return pool, loss

    found = [finding.code for finding in checked(run).findings]
    largest = max(float(abs(t.grad.numpy()).max()) for t in (x, w) if t.grad is not None)
    assert found == (["exploding-gradient"] if largest > EXPLODING else [])  # who doubles and squares again and again is told so


@pytest.mark.parametrize("program", walked.PROGRAMS)
def test_programs_that_are_walked_through_are_left_in_peace(program: Any) -> None:
    leaves, run = program()

    def pass_of() -> Any:
        loss = run()
        loss.backward()
        return leaves, loss

    assert [finding.code for finding in checked(pass_of).findings] == []


@pytest.mark.slow
@pytest.mark.parametrize("model", ["mlp", "bn", "conv", "lstm", "attention", "embedding", "gan", "accumulate", "by hand", "lbfgs"])
def test_usual_trainings_are_left_in_peace(model: str) -> None:
    assert [(one.code, one.sentence) for one in checked(USUAL[model]).findings] == []


def fitted(model: nn.Module, data: Any, loss_of: Any = F.cross_entropy, lr: float = 1e-2, steps: int = 5) -> Any:
    return train(model, Adam(model.parameters(), lr), steps=steps, loss_of=loss_of, data=data)


def images() -> tuple[Any, Any]:
    return engine.randn(8, 1, 8, 8), engine.randint(0, 3, (8,))


class Last(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.rnn, self.head = nn.LSTM(4, 8, batch_first=True), nn.Linear(8, 3)

    def forward(self, x: Any) -> Any:
        return self.head(self.rnn(x)[0][:, -1])


def gan() -> Any:
    g, d = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 4)), nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
    of_g, of_d = Adam(g.parameters(), 1e-3), Adam(d.parameters(), 1e-3)
    for _ in range(5):
        fake = g(engine.randn(8, 2))
        of_d.zero_grad()
        real, made = d(engine.randn(8, 4)), d(fake.detach())
        loss = F.binary_cross_entropy_with_logits(real, engine.ones(8, 1)) + F.binary_cross_entropy_with_logits(made, engine.zeros(8, 1))
        loss.backward()
        of_d.step()
        of_g.zero_grad()
        F.binary_cross_entropy_with_logits(d(fake), engine.ones(8, 1)).backward()
        of_g.step()
    return g, d, of_g, of_d


def accumulate() -> Any:
    model = Net()
    optimizer = SGD(model.parameters(), 0.05)
    for _ in range(3):
        optimizer.zero_grad()
        for _ in range(4):
            x, y = batch()
            (F.cross_entropy(model(x), y) / 4).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    return model, optimizer


def with_lbfgs() -> Any:
    model, (x, y) = nn.Linear(4, 1), (engine.randn(8, 4), engine.randn(8, 1))
    optimizer = engine.optim.LBFGS(model.parameters(), lr=0.1, max_iter=4)

    def closure() -> Any:
        optimizer.zero_grad()
        loss = F.mse_loss(model(x), y)
        loss.backward()
        return loss

    for _ in range(3):
        optimizer.step(closure)
    return model, optimizer


def jacobians() -> Any:
    return engine.func.vmap(engine.func.jacrev(nn.Linear(4, 3)))(engine.randn(8, 4))


USUAL: dict[str, Program] = {
    "vmap": jacobians,
    "mlp": lambda: fitted(Net(), batch),
    "bn": lambda: evaluated(True) and fitted(Net(drop=nn.BatchNorm1d(8)), batch),
    "conv": lambda: fitted(
        nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(36, 3)), images
    ),
    "lstm": lambda: fitted(Last(), lambda: (engine.randn(8, 5, 4), engine.randint(0, 3, (8,)))),
    "attention": lambda: fitted(
        nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), lambda: (engine.randn(2, 5, 8), engine.randn(2, 5, 8)), F.mse_loss, 1e-3
    ),
    "embedding": lambda: fitted(
        nn.Sequential(nn.Embedding(10, 6), nn.Flatten(), nn.Linear(18, 3)),
        lambda: (engine.randint(0, 10, (8, 3)), engine.randint(0, 3, (8,))),
    ),
    "gan": gan,
    "accumulate": accumulate,
    "by hand": lambda: by_hand(True),
    "lbfgs": with_lbfgs,
}


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("lesson", LESSONS)
def test_lessons_are_left_in_peace(lesson: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """Cells of a lesson that show a mistake have the tag "mistake"."""
    monkeypatch.chdir(tmp_path)
    request.addfinalizer(lambda: engine.set_default_dtype(engine.float32))  # some lessons set it
    monkeypatch.setattr(vocabulary, "current", None)  # the same
    names: dict[str, Any] = {"wb": wb, "__name__": "lesson"}
    watched: list[Any] = []  # the newest recording of a cell with %%watch, which a notebook keeps for `wb.check()`
    for cell in edition(lesson, fast=True, notes=False)["cells"]:
        text = "".join(line for line in cell["source"].splitlines(keepends=True) if not line.startswith("%"))
        tags = cell["metadata"].get("tags", [])
        if cell["cell_type"] != "code" or not text.strip():
            continue
        fails = pytest.raises(Exception) if "raises-exception" in tags else contextlib.nullcontext()
        file = f"<{lesson}, {cell['id']}>"
        linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)  # names are read from the source
        recorder = Recorder(cell["id"])
        with fails, observe.observing(recorder):
            exec(compile(text, file, "exec"), names)
        recording = recorder.stop()
        if cell["source"].startswith("%%watch"):
            watched[:] = [recording]
        if not {"mistake", "raises-exception"} & set(tags):
            source.name_rows(recording, names, source.Sources())  # groups and loops of the graph, which take longer, are for a view
            assert [(one.code, one.sentence) for one in look(recording, source.optimizers(names), thorough=True).findings] == []
        pyplot.close("all")
