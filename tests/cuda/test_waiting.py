"""Where the host waits for the GPU, the observer is told, and PyTorch's debug mode warns of it or refuses it."""

from __future__ import annotations

import threading

import numpy
import pytest
import syncs
from test_gpu import leaves, on_gpu

import cases
import engine
from engine import Tensor
from engine.base import observe
from workbench.checks.guard import Guard  # noqa: F401  with which the workbench marks its code as a tool's
from workbench.inspector import host


class Told(observe.Observer):
    """What the host waited for, and for how long."""

    def __init__(self):
        self.waits = []

    def waited(self, what, seconds):
        self.waits.append((what, seconds))


@pytest.fixture
def told(stand_in):
    with observe.observing(Told()) as watcher:
        yield watcher


@pytest.fixture
def debug(stand_in):
    yield engine.cuda.set_sync_debug_mode
    engine.cuda.set_sync_debug_mode(0)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_every_wait_of_an_op_is_told_once(told):
    """The stand-in notes each wait independently of the backend."""
    for case in (case for op in cases.ops() for case in cases.of(op)):
        inputs = [on_gpu(x) for x in leaves(case, numpy.float64)]
        syncs.found.clear()
        told.waits.clear()
        found = cases.call(case, inputs)
        live = [r for r in cases.smooth(case, found) if r.requires_grad]
        wanted = [x for x in inputs if isinstance(x, Tensor) and x.requires_grad]
        if live and wanted:
            engine.autograd.grad(live, wanted, [engine.ones_like(r) for r in live], allow_unused=True)
        waits = [what for what, _ in told.waits if what != "copy"]
        assert len(waits) == len(syncs.found), (case, waits, syncs.found)


WAITING = {
    "item": lambda x: x.sum().item(),
    "float": lambda x: float(x[0]),
    "index": lambda x: range(x.long()[1]),
    "condition": lambda x: 1 if x.sum() > 0 else 0,
    "tolist": lambda x: x.tolist(),
    "cpu": lambda x: x.cpu(),
    "to": lambda x: x.to("cpu"),
    "numpy": lambda x: x.numpy(force=True),
    "print": lambda x: repr(x),
    "format": lambda x: f"{x.sum():.3f}",
    "mask": lambda x: x[x > 1],
    "write at a mask": lambda x: x.clone().__setitem__(x > 1, engine.ones(2, device="cuda")),
    "nonzero": lambda x: x.nonzero(),
    "unique": lambda x: x.unique(),
    "allclose": lambda x: engine.allclose(x, x),
    "stream": lambda x: engine.cuda.current_stream().synchronize(),
}
ASKED = {
    "device": lambda x: engine.cuda.synchronize(),
    "event": lambda x: engine.cuda.current_stream().record_event().synchronize(),
    "copy": lambda x: engine.ones(3).to("cuda"),
}
GOES_ON = {
    "product": lambda x: (x @ x, x.sum(), x + 1),
    "index": lambda x: x[x.long() % 2],
    "non-blocking": lambda x: (x.to("cpu", non_blocking=True), engine.ones(3).pin_memory().to("cuda", non_blocking=True)),
    "where": lambda x: engine.where(x > 1, x, 0.0),
    "write a number at a mask": lambda x: x.clone().masked_fill_(x > 1, 3.0),
    "on the CPU": lambda x: (engine.ones(()).item(), bool(engine.ones(())), repr(engine.ones(3)), engine.ones(3).nonzero()),
}


@pytest.mark.parametrize("name", [*WAITING, *ASKED])
def test_a_wait_is_told_with_its_time(name, told, monkeypatch):
    x = engine.arange(4.0, device="cuda")
    told.waits.clear()
    monkeypatch.setattr(syncs, "listeners", [*syncs.listeners, lambda what: threading.Event().wait(0.002)])
    (WAITING | ASKED)[name](x)
    assert told.waits and (name == "copy" or sum(seconds for _, seconds in told.waits) >= 0.002)


@pytest.mark.parametrize("name", GOES_ON)
def test_without_a_wait_nothing_is_told(name, told, debug):
    x = engine.arange(4.0, device="cuda")
    debug("error")
    told.waits.clear()
    GOES_ON[name](x)
    assert told.waits == []


@pytest.mark.parametrize("name", WAITING)
def test_the_debug_mode_warns_and_refuses(name, debug):
    x = engine.arange(4.0, device="cuda")
    debug("warn")
    with pytest.warns(UserWarning, match="called a synchronizing CUDA operation") as found:
        WAITING[name](x)
    assert all(one.filename == __file__ for one in found)  # the user's line
    debug("error")
    with pytest.raises(RuntimeError, match="called a synchronizing CUDA operation"):
        WAITING[name](x)
    debug("default")
    WAITING[name](x)


@pytest.mark.parametrize("name", ASKED)
def test_the_debug_mode_lets_pass_what_a_program_asks_for(name, debug):
    x = engine.arange(4.0, device="cuda")
    debug("error")
    ASKED[name](x)


def test_debug_modes_have_names_and_numbers(debug):
    for number, name in enumerate(("default", "warn", "error")):
        debug(name)
        assert engine.cuda.get_sync_debug_mode() == number
        debug(number)
        assert engine.cuda.get_sync_debug_mode() == number
    for wrong in ("warning", 3, -1):
        with pytest.raises(RuntimeError, match="invalid value of debug_mode, expected one of"):
            debug(wrong)
    assert engine.cuda.get_sync_debug_mode() == 2


def test_a_tool_may_read_values_while_waits_are_refused(debug):
    x = engine.arange(4.0, device="cuda")
    debug("error")
    assert host(x.array).tolist() == [0, 1, 2, 3]


def test_a_refused_wait_leaves_the_next_one_as_it_was(debug, told):
    x = engine.arange(4.0, device="cuda")
    debug("error")
    with pytest.raises(RuntimeError):
        x.tolist()
    debug(0)
    told.waits.clear()
    assert x.tolist() == [0, 1, 2, 3] and [what for what, _ in told.waits] == ["get"]
