"""Autocast and GradScaler beside PyTorch: dtypes of the whole table of cases, trainings, scales with infinite gradients."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

import numpy
import pytest
import torch

import engine

sys.path[:0] = [str(Path(__file__).parent.parent / folder) for folder in ("engine", "torch")]
import autocast_calls  # noqa: E402
from table import checks  # noqa: E402
from table.answer import Asked, compiled  # noqa: E402

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]
FAMILIES = ("linalg", "losses", "reductions", "nn_functional", "modules", "mathematics")
PART = 6  # of the table, one check in so many
# PyTorch casts inside of these, where the engine has one op
KNOWN = ("linalg.pinv", "sparse_coo_tensor")
NO_KERNEL = ("not implemented", "at least 32 bits")  # the engine says so of empty matrices too


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


class Cast(Asked):
    """A check with its floats in another dtype, run under autocast; what is told is the dtypes of the results."""

    given, lower = "float32", "bfloat16"

    def made(self, name, value):
        x = super().made(name, value)
        return x.detach().to(getattr(self.lib, self.given)) if isinstance(x, self.lib.Tensor) and x.is_floating_point() else x

    def answer(self):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.lib.manual_seed(1)
            try:
                self.prepare()
                body, value = compiled(self.check.program)
                with self.lib.autocast("cpu", dtype=getattr(self.lib, self.lower)):
                    exec(body, self.env)
                    return self.dtypes(eval(value, self.env))
            except Exception as error:
                return f"{type(error).__name__}: {error}"

    def dtypes(self, x):
        if isinstance(x, self.lib.Tensor):
            return str(x.dtype)
        return [self.dtypes(e) for e in x] if isinstance(x, (tuple, list)) else type(x).__name__


@pytest.mark.parametrize("lower", ["bfloat16", "float16"])
@pytest.mark.parametrize("given", ["float32", "bfloat16"])
def test_results_have_pytorchs_dtypes(given, lower, monkeypatch):
    monkeypatch.setattr(Cast, "given", given)
    monkeypatch.setattr(Cast, "lower", lower)
    told, asked = [], 0
    chosen = [check for check in checks() if check.case.family in FAMILIES and check.case.mode != "fails"][::PART]
    for check in chosen:
        theirs = Cast(torch, check).answer()
        if isinstance(theirs, str) and not theirs.startswith("torch."):
            continue  # PyTorch has no kernel, or refuses the dtypes
        ours, asked = Cast(engine, check).answer(), asked + 1
        excused = any(w in check.program for w in KNOWN) or any(w in str(ours) for w in NO_KERNEL)
        if ours != theirs and not excused:
            told.append(f"{check.program}\n  {theirs}\n  {ours}")
    assert asked > 300 and not told, "\n".join(told)


def test_stored_dtypes_are_todays():
    import json

    stored = json.loads(autocast_calls.EXPECTED.read_text(encoding="utf-8"))
    for call in autocast_calls.calls():
        assert [autocast_calls.answer(torch, call, *way) for way in autocast_calls.WAYS] == stored[call], call


MODELS = {
    "mlp": ("(6,)", "nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 3))"),
    "cnn": (
        "(2, 8, 8)",
        "nn.Sequential(nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(36, 3))",
    ),
    "transformer": ("(5, 8)", "nn.Sequential(nn.TransformerEncoderLayer(8, 2, 16, 0.0, batch_first=True), nn.Flatten(), nn.Linear(40, 3))"),
}


def training(lib, name, lower, scaled, steps=12):
    """Losses of a small training; the weights and data are the same in both libraries."""
    shape, text = MODELS[name]
    rng = numpy.random.default_rng(3)
    model = eval(text, {"nn": lib.nn})
    with lib.no_grad():
        for p in model.parameters():
            p.copy_(lib.tensor(rng.normal(0, 0.3, tuple(p.shape)).astype("float32")) + (1.0 if p.ndim == 1 else 0.0))
    x = lib.tensor(rng.normal(size=(16, *eval(shape))).astype("float32"))
    y = lib.tensor(rng.integers(0, 3, 16))
    optimizer = lib.optim.SGD(model.parameters(), lr=0.05, momentum=0.5)
    scaler = lib.amp.GradScaler("cpu", enabled=scaled, init_scale=2.0**14, growth_interval=4)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        with lib.autocast("cpu", dtype=getattr(lib, lower)):
            loss = lib.nn.functional.cross_entropy(model(x), y)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        lib.nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss.item())
    return losses, scaler.get_scale(), {str(p.grad.dtype) for p in model.parameters()}


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize(("lower", "scaled"), [("bfloat16", False), ("float16", True)])
def test_trainings_agree(name, lower, scaled):
    (ours, scale, kinds), (theirs, their_scale, their_kinds) = (training(lib, name, lower, scaled) for lib in (engine, torch))
    numpy.testing.assert_allclose(ours, theirs, rtol=0.02 if lower == "bfloat16" else 0.004)
    assert scale == their_scale and kinds == their_kinds == {"torch.float32"} and ours[-1] < ours[0]


@pytest.mark.parametrize("seed", range(4))
def test_scales_move_as_pytorchs(seed):
    rng = numpy.random.default_rng(seed)
    factors = numpy.where(rng.random(60) < 0.25, rng.choice([numpy.inf, numpy.nan, -numpy.inf], 60), rng.normal(size=60))
    options = {"init_scale": float(rng.choice([3.0, 2.0**16, 1e30])), "growth_factor": float(rng.choice([2.0, 1.7])), "backoff_factor": 0.3}

    def run(lib):
        ws = [lib.nn.Parameter(lib.ones(3)) for _ in range(2)]
        optimizers = [lib.optim.SGD([ws[0]], lr=0.1), lib.optim.Adam([ws[1]], lr=0.1)]
        scaler, seen = lib.amp.GradScaler("cpu", growth_interval=3, **options), []
        for i, factor in enumerate(factors):
            for w, optimizer in zip(ws, optimizers, strict=True):
                optimizer.zero_grad()
                scaler.scale((w * float(factor if w is ws[i % 2] else 1.0)).sum()).backward()
                if i % 3 == 0:
                    scaler.unscale_(optimizer)
                scaler.step(optimizer)
            scaler.update()
            seen.append((scaler.get_scale(), scaler._get_growth_tracker(), *(v for w in ws for v in w.tolist())))
        return numpy.array(seen), scaler.state_dict()

    (ours, state), (theirs, their_state) = run(engine), run(torch)
    numpy.testing.assert_array_equal(ours[:, :2], theirs[:, :2])
    numpy.testing.assert_allclose(ours, theirs, rtol=1e-5)
    assert state == their_state


def test_states_are_exchanged():
    ours, theirs = (lib.amp.GradScaler("cpu", init_scale=8.0) for lib in (engine, torch))
    theirs.scale(torch.ones(1))
    ours.load_state_dict(theirs.state_dict())
    theirs.load_state_dict(ours.state_dict())
    assert ours.state_dict() == theirs.state_dict()
