"""A training loop in which the host waits for the GPU, and the workbench's finding about it; on the stand-in, where each wait takes 40 ms."""

from __future__ import annotations

import re
import time

import pytest
import syncs

import engine
import workbench as wb
from engine import nn


@pytest.fixture
def slow(stand_in, monkeypatch):
    """A GPU for which the host waits 40 ms each time."""
    monkeypatch.setattr(syncs, "listeners", [*syncs.listeners, lambda what: time.sleep(0.04)])


def train(each, steps=6, after=lambda losses: None):
    """Train a layer; `each(loss, x)` is called in each iteration."""
    model = nn.Linear(3, 1).to("cuda")
    optimizer = engine.optim.SGD(model.parameters(), 0.01)
    x, losses = engine.ones(4, 3, device="cuda"), []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = (model(x) - 1).square().mean()
        losses.append(loss.detach())
        loss.backward()
        optimizer.step()
        each(loss, x)
    after(losses)


def found(program):
    with wb.record():
        program()
    return [one for one in wb.check().findings if one.code in ("host-sync-in-loop", "pageable-copy-in-loop")]


def line_of(function):
    return function.__code__.co_firstlineno


WAITS = {
    "item()": (lambda loss, x: loss.item(), "into a list"),
    "float()": (lambda loss, x: float(loss), "into a list"),
    "cpu()": (lambda loss, x: loss.detach().cpu(), "into a list"),
    "tolist()": (lambda loss, x: x.tolist(), "into a list"),
    "Printing a tensor": (lambda loss, x: repr(loss), "into a list"),
    "A condition": (lambda loss, x: 1 if loss > 0 else 0, "torch.where"),
    "An index with a mask": (lambda loss, x: x[x > 0], "torch.where"),
    "nonzero()": (lambda loss, x: x.nonzero(), "torch.where"),
    "synchronize()": (lambda loss, x: engine.cuda.synchronize(), "Event"),
}


@pytest.mark.parametrize("called", WAITS)
def test_a_line_that_waits_in_each_iteration_is_found(called, slow):
    each, fix = WAITS[called]
    (one,) = found(lambda: train(each))
    assert one.code == "host-sync-in-loop" and one.severity == "warning"
    assert one.site is not None and one.site.line == line_of(each) and one.site.file == "test_waits_found.py"
    where = rf"{re.escape(called)} at line {line_of(each)} of test_waits_found\.py"
    cost = re.fullmatch(rf"{where} made the host wait for the GPU 6 times: (\d+) ms, \d\d % of the loop\.", one.sentence)
    assert cost is not None and 240 <= int(cost[1]) < 480 and fix in one.fix


@pytest.mark.parametrize("elsewhere, severity", [(0.25, "note"), (1.0, None)])
def test_the_share_is_that_of_the_loop(elsewhere, severity, slow):
    """Each iteration spends time elsewhere too, after an untimed first one, in which kernels are compiled."""
    waited, ended = [], []

    def each(loss, x):
        begun = time.perf_counter()
        loss.item()
        waited.append(time.perf_counter() - begun)
        time.sleep(elsewhere)
        ended.append(time.perf_counter())

    findings = found(lambda: train(each, 4))
    if severity is None:
        assert findings == []
        return
    (one,) = findings
    share = int(one.sentence.split(", ")[1].split(" %")[0])
    assert share == pytest.approx(100 * sum(waited[1:]) / (ended[-1] - ended[0]), abs=2) and one.severity == severity


@pytest.mark.parametrize("steps", [1, 2, 6])
def test_values_read_after_the_loop_are_no_finding(steps, slow):
    assert found(lambda: train(lambda loss, x: None, steps, after=lambda losses: [one.item() for one in losses])) == []


def test_a_value_read_now_and_then_is_no_finding(slow):
    seen = []

    def each(loss, x):
        seen.append(loss)
        if len(seen) in (3, 6):
            loss.item()

    assert found(lambda: train(each)) == []


def test_copies_from_pageable_memory_are_found(stand_in, monkeypatch):
    """The copy itself takes long."""
    array = stand_in.cupy.array
    monkeypatch.setattr(stand_in.cupy, "array", lambda *args, **kwargs: (time.sleep(0.02), array(*args, **kwargs))[1])
    batch = engine.ones(4, 3)

    def each(loss, x):
        batch.to("cuda")

    (one,) = found(lambda: train(each))
    line = line_of(each) + 1
    assert one.code == "pageable-copy-in-loop" and "pin_memory=True" in one.fix and "non_blocking=True" in one.fix
    assert one.sentence.startswith(f"to() at line {line} of test_waits_found.py copied from pageable memory to the GPU 6 times: ")
    pinned = batch.pin_memory()
    assert found(lambda: train(lambda loss, x: pinned.to("cuda", non_blocking=True))) == []


def test_what_the_workbench_reads_itself_is_not_noted(slow):
    with wb.record() as session:
        train(lambda loss, x: None)
    wb.check()
    assert [wait.call for wait in session.recording.waits.found.values() if wait.what != "copy"] == []


def test_loops_without_an_optimizer_have_iterations_too(slow):
    w = engine.ones(3, device="cuda", requires_grad=True)

    def program():
        for _ in range(5):
            loss = (w * w).sum()
            loss.backward()
            loss.item()

    (one,) = found(program)
    assert "5 times" in one.sentence


def test_the_times_name_the_waits(slow):
    with wb.record():
        train(lambda loss, x: loss.item())
    assert "The host waited for a GPU 6 times" in str(wb.profile())
