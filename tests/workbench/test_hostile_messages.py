"""Whatever a view may send: an answer or a sentence comes back, as JSON, soon, and nothing of it is executed."""

from __future__ import annotations

import dataclasses
import json
import random
import time
import typing
from collections.abc import Callable
from pathlib import Path

import numpy
import pytest

import engine
import workbench as wb
from engine import nn
from engine.nn import functional as F
from workbench import protocol
from workbench.backward import breakpoints
from workbench.backward.stepper import Stepper
from workbench.protocol.pack import pack
from workbench.session.session import LONGEST, Session
from workbench.tensors.pins import BOARD

pytestmark = pytest.mark.slow

SOON = 20.0  # seconds: then a view says that the kernel is silent
TEXTS = [
    "", "x", "mean", "time", "gradient", "\ud800", "a\0b", "\u202e", "<img src=x onerror=alert(1)>", "\\href{javascript:alert(1)}{x}", "x" * 100_000,
    "9**9**9", "2**100000", "1e5**1e5", "x*10**400", "1 << 10**9", "5" * 5000, "[0]*10**9", "(" * 5000, "-" * 5000 + "1", "x." * 3000,
    "tanh(" * 900 + "x" + ")" * 900, "norm > 1e3 or " * 2000 + "nan > 0", "/(a+)+$/", "(a+)+$", "1//0", "x%0", "x[10**30]", "x@x",
    "eval('1')", "lambda: 1", "[i for i in range(10**9)]", "x.__class__.__mro__", "x := 3", "f'{x}'", "eye(10**6)", "zeros(10**9)",
    "ones(100000, 100000)", "1e999", "nan", "inf", "1_000", "٣", "1j", "...", "# c", "x\\", "\n\t\n x",
]  # fmt: skip
WHOLE = [-1, 0, 1, 2, 3, 5, 10, -5, 2**31, -(2**31), 2**63, -(2**63) - 1, 10**30, 10**400, 99999]
REAL = [0.0, -0.0, 1.5, 1e308, -1e308, 5e-324, float("nan"), float("inf"), -float("inf")]


@pytest.fixture(autouse=True)
def nothing_is_left_behind(fresh_sheet):
    yield
    BOARD.clear()
    breakpoints.kept.clear()


def network() -> Session:
    engine.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3))
    with wb.record("network") as session:
        loss = F.cross_entropy(model(engine.randn(16, 4)), engine.arange(16) % 3)
    session.step_through(Stepper.of(session.recording, session.graph, loss))
    session.kept = model, loss
    return session


def scalars() -> Session:
    with wb.record("scalars") as session:
        a, b = engine.tensor(2.0, requires_grad=True), engine.tensor(-3.0, requires_grad=True)
        loss = ((a * b).tanh() + a * a + b) ** 2
    session.step_through(Stepper.of(session.recording, session.graph, loss))
    session.kept = a, b, loss
    return session


def extremes() -> Session:
    """Nothing in a tensor, numbers that float32 does not have, whole numbers, an op that failed."""
    with wb.record("extremes") as session:
        none = engine.zeros(0, 3, requires_grad=True)
        large = engine.tensor([1e308, float("nan"), float("inf")], dtype=engine.float64, requires_grad=True)
        session.kept = none, (none * 2).sum(), large, (large * 10).sum(), engine.arange(5) > 2
        with pytest.raises(RuntimeError):
            engine.ones(2, 3).matmul(engine.ones(2, 3))
    return session


def lesson() -> Session:
    a = engine.tensor(2.0, requires_grad=True)
    product = a * 3
    loss = product.tanh()
    pages = [wb.teach.say("Here", at="mul"), wb.teach.quiz("What is it?", lambda: product, id="x"), wb.teach.quiz("True?", True, id="mean")]
    session = wb.teach.lesson(loss, pages)
    session.kept = a, product, loss
    return session


def nothing() -> Session:
    with wb.record("nothing") as session:
        pass
    return session


class Views:
    """Requests as a view may send them, most of them with something wrong."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def junk(self) -> typing.Any:
        deep: list = []
        for _ in range(900):
            deep = [deep]
        pick = self.random.choice
        return pick(
            [None, True, pick(WHOLE), pick(REAL), pick(TEXTS), [], {}, [pick(WHOLE)] * 3, [None], {"a": 1}, deep, [0] * 10_000, [2**70]]
        )

    def value(self, hint: typing.Any) -> typing.Any:
        pick, origin, args = self.random.choice, typing.get_origin(hint), typing.get_args(hint)
        if origin is typing.Literal:
            return pick(args)
        if hint is protocol.ToKernel:
            return self.message()
        if origin is list:
            return [self.value(args[0]) for _ in range(self.random.randrange(5))]
        if hint in (int, float, bool, str):
            few: Callable[[], typing.Any] = lambda: self.random.randrange(-1, 11)  # noqa: E731
            return {
                int: few() if self.random.random() < 0.8 else pick(WHOLE),
                float: pick(REAL),
                bool: pick([True, False]),
                str: pick(TEXTS),
            }[hint]
        return self.value(pick([one for one in args if one is not type(None)]))

    def message(self) -> typing.Any:
        kind = self.random.choice(list(protocol.ToKernel.registry))
        hints = typing.get_type_hints(protocol.ToKernel.registry[kind])
        fields = dataclasses.fields(protocol.ToKernel.registry[kind])  # type: ignore[arg-type]
        message = {"type": kind, "v": protocol.VERSION, **{f.name: self.value(hints[f.name]) for f in fields}}
        message["id"] = self.random.randrange(1000)
        wrong = self.random.random()
        if wrong < 0.25:
            message[self.random.choice(list(message))] = self.junk()
        elif wrong < 0.3:
            del message[self.random.choice(list(message))]
        elif wrong < 0.33:
            return self.junk()
        elif wrong < 0.36:
            message[self.random.choice(["__class__", "self", "state"])] = self.junk()
        return message


@pytest.mark.parametrize("seed", [*range(2), *(pytest.param(seed, marks=pytest.mark.long) for seed in range(2, 6))])
def test_whatever_a_view_sends_is_answered(seed, tmp_path, monkeypatch):
    """1,250 messages for each seed, to sessions of every kind, from three views in turn."""
    monkeypatch.chdir(tmp_path)
    executes = "__import__('pathlib').Path('executed').touch()"
    monkeypatch.setattr("test_hostile_messages.TEXTS", [*TEXTS, executes, f"x + {executes}", "open('executed', 'w')"])
    views = Views(seed)
    told: list = []
    session = network()
    clients: list = []
    for number in range(1250):
        if number % 50 == 0:
            session = views.random.choice([network, scalars, extremes, lesson, nothing])()
            clients = [None, *(session.connect(lambda message, buffers: told.append((message, buffers))) for _ in range(2))]
        message = views.message()
        began = time.monotonic()
        answers = session.handle(message, views.random.choice(clients))
        took = time.monotonic() - began
        asked = repr(message)[:300]
        assert took < SOON, asked
        for answer, buffers in (*answers, *told):
            json.dumps(pack(answer, buffers)[0], allow_nan=False).encode()
            for one in answer["messages"] if answer["type"] == "together" else [answer]:
                if one["type"] == "problem":
                    assert len(one["sentence"]) < LONGEST + 10, asked
                    assert "could not answer" not in one["sentence"], (asked, one["sentence"])
        told.clear()
    assert list(Path().iterdir()) == []


def test_two_scalars_are_compared():
    session = scalars()
    for node in (0, 1):
        ((answer, _),) = session.handle({"type": "ask_compare", "v": 1, "id": 1, "do": "pin", "node": node, "what": "value"})
        assert answer["type"] == "compared"
    assert [numpy.float64(pin["difference"]["max_abs"]) for pin in answer["pins"] if pin["difference"]] == [5.0]  # 2 and -3


def test_a_time_must_be_a_number_of_json():
    ((answer, _),) = network().handle({"type": "ask_timing", "v": 1, "id": 1, "begin": float("nan"), "end": 1.0})
    assert answer["type"] == "problem" and "begin cannot be nan" in answer["sentence"]
