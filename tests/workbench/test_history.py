"""wb.history: what a training's weights, gradients, updates and activations were, step by step, against NumPy and PyTorch."""

from __future__ import annotations

import copy
import gc
import math
import weakref

import numpy
import pytest

import engine
import workbench as wb
from engine import nn, optim
from engine.nn import functional as F
from workbench.inspector import gradient_flow
from workbench.training import curve, history
from workbench.training.table import COLUMNS


class Net(nn.Module):
    def __init__(self, lazy: bool = False) -> None:
        super().__init__()
        first = nn.LazyLinear(5) if lazy else nn.Linear(3, 5)
        self.layers = nn.ModuleList([first, nn.Linear(5, 5)])
        self.act = nn.Tanh()
        self.head = nn.Linear(5, 2)

    def forward(self, x):
        for layer in self.layers:
            x = self.act(layer(x))
        return self.head(x)


@pytest.fixture
def data():
    engine.manual_seed(0)
    return engine.randn(16, 3), engine.randint(0, 2, (16,))


def numbers_of(x: numpy.ndarray) -> dict[str, float]:
    """The columns, by NumPy in double precision."""
    wide = x.astype(numpy.float64)
    fine = wide[numpy.isfinite(wide)]
    bad = fine.size < wide.size
    return {
        "size": x.size,
        "nan": numpy.isnan(wide).sum(),
        "pos_inf": (wide == numpy.inf).sum(),
        "neg_inf": (wide == -numpy.inf).sum(),
        "negative": (fine < 0).sum(),
        "zero": (fine == 0).sum(),
        "positive": (fine > 0).sum(),
        "min": fine.min(),
        "max": fine.max(),
        "mean": fine.mean(),
        "std": fine.std(ddof=1),
        "norm": math.nan if bad else numpy.linalg.norm(wide),
        "absmean": numpy.abs(fine).mean(),
        "absmax": numpy.abs(fine).max(),
    }


def check(quantity, row: int, x: numpy.ndarray) -> None:
    """One row of a quantity is what NumPy says of the array, in numbers and in bins."""
    for name, wanted in numbers_of(x).items():
        assert getattr(quantity, name)[row] == pytest.approx(wanted, rel=1e-5, abs=1e-12, nan_ok=True), name
    h = quantity.histogram
    assert (h.low[row], h.high[row]) == (x.min(), x.max())
    counts, _ = numpy.histogram(x.astype(numpy.float64), bins=64, range=(h.low[row], h.high[row]))
    assert numpy.abs(h.counts[row].astype(int) - counts).sum() <= 2  # an element on an edge may fall to either side
    assert h.counts[row].sum() == x.size


def test_every_step_has_weight_gradient_update_and_activations_of_that_step(data):
    x, y = data
    model = Net()
    optimizer = optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    wanted = []
    with wb.history(model, optimizer) as h:
        for _ in range(4):
            optimizer.zero_grad()
            out = model(x)
            F.cross_entropy(out, y).backward()
            before = {n: p.array.copy() for n, p in model.named_parameters()}
            grads = {n: p.grad.array.copy() for n, p in model.named_parameters()}
            optimizer.step()
            after = {n: p.array.copy() for n, p in model.named_parameters()}
            wanted.append((before, grads, after, out.array.copy()))
    assert h.steps.tolist() == [0, 1, 2, 3] and len(h) == 4 and h.seen == 4
    assert list(h.parameters) == [n for n, _ in model.named_parameters()]
    assert list(h.modules) == [n for n, _ in model.named_modules()]
    for i, (before, grads, after, out) in enumerate(wanted):
        for name in before:
            one = h[name]
            check(one.weight, i, before[name])
            check(one.grad, i, grads[name])
            check(one.update, i, after[name] - before[name])
            ratio = numpy.linalg.norm((after[name] - before[name]).astype("f8")) / numpy.linalg.norm(before[name].astype("f8"))
            assert one.ratio[i] == pytest.approx(ratio, rel=1e-5)
        check(h[""].activation, i, out)
        check(h["head"].activation, i, out)
    assert h["act"].calls.tolist() == [2, 2, 2, 2]  # and the first of the two is measured
    first = numpy.tanh(x.array @ wanted[3][0]["layers.0.weight"].T + wanted[3][0]["layers.0.bias"])
    assert h["act"].activation.mean[3] == pytest.approx(first.mean(dtype="f8"), rel=1e-4)


@pytest.mark.torch
@pytest.mark.parametrize("kind", ["SGD", "Adam"])
def test_gradient_norms_and_update_ratios_are_pytorchs(kind):
    import torch

    torch.manual_seed(0)
    other = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3))
    model = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3))
    model.load_state_dict({n: engine.tensor(p.detach().numpy().copy()) for n, p in other.state_dict().items()})
    x, y = torch.randn(32, 6), torch.randint(0, 3, (32,))
    theirs, ours = (getattr(lib, kind)(m.parameters(), lr=0.05) for lib, m in ((torch.optim, other), (optim, model)))
    h = wb.history(model, ours)
    norms, ratios = {n: [] for n, _ in other.named_parameters()}, {n: [] for n, _ in other.named_parameters()}
    for _ in range(5):
        theirs.zero_grad()
        torch.nn.functional.cross_entropy(other(x), y).backward()
        before = {n: p.detach().clone() for n, p in other.named_parameters()}
        theirs.step()
        for n, p in other.named_parameters():
            norms[n].append(p.grad.norm().item())
            ratios[n].append(((p.detach() - before[n]).norm() / before[n].norm()).item())
        ours.zero_grad()
        F.cross_entropy(model(engine.tensor(x.numpy())), engine.tensor(y.numpy())).backward()
        ours.step()
    for n in norms:
        numpy.testing.assert_allclose(h[n].grad.norm, norms[n], rtol=2e-4)
        numpy.testing.assert_allclose(h[n].ratio, ratios[n], rtol=2e-3)
    h.close()


@pytest.mark.torch
@pytest.mark.parametrize("by", ["optimizer", "backward"])
def test_a_model_of_pytorchs_is_recorded_and_its_view_shows_the_steps(by):
    import torch
    from torch_programs import ask

    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.Tanh(), torch.nn.LazyLinear(2))
    x, y = torch.randn(32, 6), torch.randint(0, 2, (32,))
    model(x)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)

    def step():
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(x), y).backward()
        seen = {n: (p.detach().numpy().copy(), p.grad.numpy().copy()) for n, p in model.named_parameters()}
        with torch.no_grad():
            hidden = torch.tanh(model[0](x)).numpy()
        optimizer.step()
        return seen, hidden, {n: p.detach().numpy().copy() for n, p in model.named_parameters()}

    with wb.watch(model) as alone:
        step()
    with wb.history(model, optimizer if by == "optimizer" else None) as h:
        wanted = [step(), step()]
        with wb.watch(model) as w:
            wanted.append(step())
    assert w.session.recording.count == alone.session.recording.count  # what the history does is not recorded
    row = next(row for row, name in w.session.recording.names.items() if name == "2.weight")
    assert [one["what"] for one in ask(w.session, "ask_series", node=row, what="value")["series"]] == ["value", "gradient", "update"]
    assert h.steps.tolist() == [0, 1, 2]
    for i, (seen, hidden, after) in enumerate(wanted):
        for name, (before, grad) in seen.items():
            check(h[name].weight, i, before)
            check(h[name].grad, i, grad)
            check(h[name].update, i, after[name] - before)
        check(h["1"].activation, i, hidden)


def test_without_an_optimizer_a_step_is_a_backward_pass(data):
    x, y = data
    model = Net()
    grads, before, after = [], [], []
    h = wb.history(model)
    for _ in range(3):
        F.cross_entropy(model(x), y).backward()
        h.log(loss=1.0)
        grads.append(model.head.weight.grad.array.copy())
        before.append(model.head.weight.array.copy())
        with engine.no_grad():
            for p in model.parameters():
                p -= 0.5 * p.grad
        after.append(model.head.weight.array.copy())
        model.zero_grad()
    assert h.steps.tolist() == [0, 1, 2] and h.scalars["loss"].steps.tolist() == [0, 1, 2]
    assert math.isnan(h["head.weight"].ratio[2])  # the next backward, or the end, tells what came of the last one
    h.close()
    for i in range(3):
        check(h["head.weight"].grad, i, grads[i])
        check(h["head.weight"].weight, i, before[i])
        check(h["head.weight"].update, i, after[i] - before[i])


def test_two_backward_passes_of_one_forward_are_two_steps(data):
    x, y = data
    model = Net()
    with wb.history(model) as h:
        loss = F.cross_entropy(model(x), y)
        loss.backward(retain_graph=True)
        once = model.head.bias.grad.array.copy()
        loss.backward()
    assert h.seen == 2
    numpy.testing.assert_allclose(h["head.bias"].grad.norm, numpy.linalg.norm(once.astype("f8")) * numpy.array([1, 2]), rtol=1e-5)


def test_every_nth_step_and_thinning_out(data):
    x, y = data
    model = Net()
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    h = wb.history(model, optimizer, every=3, keep=4)
    weights = []
    for _ in range(40):
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        weights.append(model.head.weight.array.copy())
        optimizer.step()
        assert len(h) <= 4
    assert h.seen == 40 and h.stride == 12 and h.steps.tolist() == [0, 12, 24, 36]
    assert "40 steps, 4 kept: 1 in 12 (thinned out: at most 4 are kept)" in h.note and h.note in repr(h)
    for i, step in enumerate(h.steps):
        check(h["head.weight"].weight, i, weights[step])
    assert h["head.weight"].grad.numbers.shape == (4, len(COLUMNS)) and h["act"].calls.tolist() == [2] * 4
    assert len(h["head.weight"].weight._rows) == 4 and len(h["act"]._calls) == 4  # what was thinned out is gone
    h.close()


def test_a_parameter_that_no_gradient_reached_has_no_row(data):
    x, y = data
    model = Net()
    model.unused = nn.Parameter(engine.ones(2))
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    with wb.history(model, optimizer) as h:
        F.cross_entropy(model(x), y).backward()
        model.head.bias.grad = engine.tensor([math.nan, math.inf])
        model.layers[0].bias.grad *= 0
        model.layers[0].weight.grad *= 1e-12
        model.layers[1].weight.grad *= 1e9
        optimizer.step()
    assert h["unused"].grad.present.tolist() == [False] and math.isnan(h["unused"].grad.norm[0])
    flags = {row.name: row.flag for row in h.gradients()}
    assert flags == {
        "unused": "no gradient", "layers.0.weight": "vanishing", "layers.0.bias": "all zero", "layers.1.weight": "exploding",
        "layers.1.bias": "", "head.weight": "", "head.bias": "NaN",
    }  # fmt: skip
    assert [row.flag for row in gradient_flow.of_model(model)] == [row.flag for row in h.gradients()]
    assert (h["head.bias"].grad.nan[0], h["head.bias"].grad.pos_inf[0]) == (1, 1)
    assert "exploding" in repr(h) and "no gradient" in repr(h)
    with pytest.raises(IndexError, match="Step 5 is not kept; the history has 1 steps from 0 to 0"):
        h.gradients(5)


def test_logged_numbers_belong_to_the_step_under_way_or_just_ended(data):
    x, y = data
    model = Net()
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    h = wb.history(model, optimizer)
    losses = []
    for i in range(3):
        loss = F.cross_entropy(model(x), y)
        h.log(loss=loss)
        losses.append(loss.item())
        loss.backward()
        optimizer.step()
        h.log(accuracy=i / 4)
    with engine.no_grad():
        model(x)
    h.log(validation=numpy.float32(0.5))
    assert {n: c.steps.tolist() for n, c in h.scalars.items()} == {"loss": [0, 1, 2], "accuracy": [0, 1, 2], "validation": [2]}
    assert h.scalars["loss"].values.tolist() == losses
    with pytest.raises(ValueError, match=r"one number per name, but loss has shape \(16, 2\)"):
        h.log(loss=model(x))
    with pytest.raises(TypeError, match="but loss is of type str"):
        h.log(loss="0.5")
    h.close()


def test_validation_without_gradients_is_not_recorded(data):
    x, y = data
    model = Net()
    optimizer = optim.SGD(model.parameters(), lr=0.0)
    with wb.history(model, optimizer) as h:
        out = model(x)
        F.cross_entropy(out, y).backward()
        with engine.no_grad():
            model(x * 100)
        optimizer.step()
    check(h[""].activation, 0, out.array)


def test_lazy_layers_tied_weights_and_copies(data):
    x, y = data
    model = Net(lazy=True)
    model.layers[1].weight = nn.Parameter(engine.eye(5))
    model.tied = model.layers[1]
    with wb.history(model) as h:
        twin = copy.deepcopy(model)
        for one in (model, twin):
            F.cross_entropy(one(x), y).backward()
    assert h.seen == 1  # the copy's training is not the model's
    assert h["layers.0.weight"].grad.present.tolist() == [True] and h.table("layers.0.weight")["parameters"]["layers.0.weight"][
        "shape"
    ] == [5, 3]
    assert h["tied.weight"] is h["layers.1.weight"] and "tied.weight" in h


def test_modules_that_return_tuples_and_dicts():
    class Odd(nn.Module):
        def __init__(self):
            super().__init__()
            self.rnn = nn.LSTM(2, 3, batch_first=True)

        def forward(self, x):
            out, _ = self.rnn(x)
            return {"none": None, "out": out}

    engine.manual_seed(0)
    model = Odd()
    with wb.history(model) as h:
        out = model(engine.randn(4, 5, 2))["out"]
        out.sum().backward()
    check(h["rnn"].activation, 0, out.array)
    check(h[""].activation, 0, out.array)


def test_an_optimizer_with_a_closure(data):
    x, y = data
    model = Net()
    optimizer = optim.LBFGS(model.parameters(), max_iter=3)

    def closure():
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        return loss

    before = model.head.weight.array.copy()
    with wb.history(model, optimizer) as h:
        optimizer.step(closure)
    check(h["head.weight"].weight, 0, before)
    check(h["head.weight"].update, 0, model.head.weight.array - before)


@pytest.mark.slow
def test_hooks_go_with_close_and_with_the_history(data):
    x, y = data
    model = Net()
    optimizer = optim.SGD(model.parameters(), lr=0.1)

    def hooks() -> int:
        tables = [t for m in model.modules() if m._hooks for t in (m._hooks.before, m._hooks.after)]
        return sum(map(len, [*tables, optimizer._optimizer_step_pre_hooks, optimizer._optimizer_step_post_hooks]))

    h = wb.history(model, optimizer)
    assert hooks() == 1 + len(list(model.modules())) + 2
    assert h.attach() is h and hooks() == 1 + len(list(model.modules())) + 2
    h.close()
    assert hooks() == 0
    F.cross_entropy(model(x), y).backward()
    optimizer.step()
    assert h.seen == 0
    h.attach()
    gone = weakref.ref(h)
    del h
    gc.collect()
    assert gone() is None and hooks() == 0  # a cell that is run again leaves no second recorder behind


def test_bfloat16_and_complex_parameters():
    class Odd(nn.Module):
        def __init__(self):
            super().__init__()
            self.coarse = nn.Parameter(engine.tensor([1.5, -2.0, 0.25, 3.0, 1.0, -1.0, 2.0]).to(engine.bfloat16))
            self.wave = nn.Parameter(engine.tensor(numpy.array([3 + 4j, 0j, 1j])))

        def forward(self):
            return (self.coarse.float() ** 2).sum() + (self.wave.abs() ** 2).sum()

    with wb.history(Odd()) as h:
        h.model().backward()
    assert h["coarse"].weight.absmean[0] == pytest.approx(10.75 / 7) and h["coarse"].grad.absmax[0] == 6
    assert h["wave"].weight.norm[0] == pytest.approx(math.sqrt(26)) and h["wave"].weight.absmax[0] == 5


def test_the_table_is_plain(data):
    x, y = data
    model = Net()
    with wb.history(model) as h:
        for _ in range(2):
            F.cross_entropy(model(x), y).backward()
        h.log(loss=0.5)
    table = h.table()
    assert set(table) == {"model", "steps", "seen", "stride", "note", "columns", "parameters", "modules", "scalars"}
    assert table["model"] == "Net" and table["columns"] == list(COLUMNS) and table["seen"] == 2
    one = table["parameters"]["head.weight"]
    assert set(one) == {"shape", "weight", "grad", "update", "ratio"} and one["shape"] == [2, 5]
    assert {k: v.shape for k, v in one["grad"].items()} == {
        "present": (2,), "numbers": (2, 14), "low": (2,), "high": (2,), "counts": (2, 64),
    }  # fmt: skip
    assert set(table["modules"]["act"]) == {"type", "calls", "activation"} and table["modules"]["act"]["type"] == "Tanh"
    assert table["scalars"]["loss"]["values"].tolist() == [0.5]
    assert list(h.table("head.weight", "act")["parameters"]) == ["head.weight"] and list(h.table("act")["modules"]) == ["act"]


def test_a_view_finds_the_history_of_a_tensor_or_a_module():
    model = Net()
    older = wb.history(model)
    newer = wb.history(model)
    assert history.knowing(model.head.weight) == (newer, "head.weight") and history.knowing(model.act) == (newer, "act")
    assert history.knowing(engine.ones(2)) is None
    for h in (older, newer):
        h.close()


@pytest.mark.slow
def test_what_cannot_be_recorded_is_said():
    model = Net()
    with pytest.raises(TypeError, match=r"wb.history takes an nn.Module, of the engine or of PyTorch, got list"):
        wb.history([model])
    with pytest.raises(TypeError, match=r"optimizer is an optim.Optimizer, of the engine or of PyTorch, got float"):
        wb.history(model, 0.1)
    with pytest.raises(ValueError, match="the optimizer updates no parameter of this Net"):
        wb.history(model, optim.SGD(Net().parameters(), lr=0.1))
    for wrong in ({"every": 0}, {"keep": 1}, {"every": 1.5}):
        with pytest.raises(ValueError, match=f"wb.history: {next(iter(wrong))} is an integer number of steps"):
            wb.history(model, **wrong)
    h = wb.history(model)
    with pytest.raises(KeyError, match=r"no parameter or module named 'head.wieght'; it has, among others, head.weight"):
        h["head.wieght"]
    with pytest.raises(AttributeError, match="There is no column 'nrom'; there are size, nan"):
        _ = h["head.weight"].grad.nrom
    with pytest.raises(RuntimeError, match="The history has no step yet"):
        h.gradients()
    assert h["head.weight"].grad.norm.shape == (0,) and h.note == "0 steps, 0 kept." and "0 steps" in repr(h)
    quantity = h["head.weight"].grad
    del h
    gc.collect()
    with pytest.raises(RuntimeError, match="keep the object that wb.history returned"):
        _ = quantity.norm


def test_a_curve_is_bounded_and_keeps_its_newest_number():
    c = curve.Curve(keep=8)
    assert (len(c), c.steps.tolist()) == (0, []) and math.isnan(c.last)
    for i in range(1000):
        c.add(i * 10, i / 2)
        steps = c.steps.tolist()
        assert len(c) == len(steps) <= 9 and steps[0] == 0 and steps[-1] == i * 10 and c.last == i / 2
        assert steps == sorted(steps)
    assert c.values.tolist() == [step / 20 for step in c.steps.tolist()]
    assert c.stride == 128 and c.steps.tolist() == [*range(0, 9990, 1280), 9990]


def test_recording_changes_nothing_in_the_training(data):
    x, y = data
    models = [Net(), Net()]
    models[1].load_state_dict(models[0].state_dict())
    histories = []
    for i, model in enumerate(models):
        optimizer = optim.Adam(model.parameters(), lr=0.01)
        if i:
            histories.append(wb.history(model, optimizer))
        for _ in range(5):
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            optimizer.step()
    for a, b in zip(models[0].parameters(), models[1].parameters(), strict=True):
        assert a.array.tobytes() == b.array.tobytes()
    histories[0].close()


def test_parameters_that_each_step_makes_anew(data):
    x, y = data
    model = nn.Linear(3, 2)
    wanted = []
    h = wb.history(model)
    for _ in range(4):
        F.cross_entropy(model(x), y).backward()
        wanted.append((model.weight.array.copy(), model.weight.grad.array.copy()))
        model.weight = nn.Parameter((model.weight - 0.1 * model.weight.grad).detach())
        model.bias = nn.Parameter((model.bias - 0.1 * model.bias.grad).detach())
    assert len(h._hooks.handles) == 4  # before and after forward, weight, bias: none of the earlier parameters
    h.close()
    assert h.seen == 4 and h._hooks.handles == {}
    for i, (weight, grad) in enumerate(wanted):
        check(h["weight"].weight, i, weight)
        check(h["weight"].grad, i, grad)
        assert h["weight"].update.norm[i] == pytest.approx(0.1 * numpy.linalg.norm(grad), rel=1e-5)


def test_a_history_is_not_seen_by_a_recording(data):
    x, y = data
    model = Net()
    counts = []
    for attached in (False, True):
        optimizer = optim.SGD(model.parameters(), lr=0.1)
        h = wb.history(model, optimizer) if attached else None
        with wb.record() as recorded:
            F.cross_entropy(model(x), y).backward()
            optimizer.step()
        counts.append(recorded.recording.count)
        if h is not None:
            assert h.seen == 1
            h.close()
    assert counts[0] == counts[1] > 0


def test_no_tensor_is_kept(data):
    x, y = data
    model = Net()
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    h = wb.history(model, optimizer)
    out = model(x)
    F.cross_entropy(out, y).backward()
    optimizer.step()
    array, node = weakref.ref(out.array), weakref.ref(out.node)
    gradient = weakref.ref(model.head.weight.grad.array)
    del out
    optimizer.zero_grad()
    assert array() is None and node() is None and gradient() is None
    assert h._hooks._before == {} and h.seen == 1
    h.close()
