"""Parameters, activations, samples and series against NumPy in float64 and finite differences."""

from __future__ import annotations

import math

import numpy
import pytest
from asking import asked, recorded

import engine
import workbench as wb
from engine import nn, optim
from engine.base import observe
from workbench.protocol import ParameterRow
from workbench.recording import activations
from workbench.recording.recorder import Recorder
from workbench.session.passes import PassWatcher
from workbench.session.session import Session
from workbench.training import parameters, per_sample, series
from workbench.training.parameters import Parameter

F = nn.functional


def rows_of(session):
    return {row["name"]: row for row in asked(session, type="ask_model")[0]["parameters"]}


def stepped(loss, **names):
    """A session on the finished backward pass of the loss."""
    stepper = wb.step(loss)
    stepper.finish()
    stepper.graph.finish(names)
    session = wb.show(loss)
    session.recording, session.graph, session.stepper = stepper.recording, stepper.graph, stepper
    return session


def node(session, tensor):
    return session.recording.row_of(tensor.node)


# -- parameters ----------------------------------------------------------------------------------------------------------------


def test_gradients_of_all_parameters_in_the_order_of_use():
    engine.manual_seed(0)

    def run():
        late, early = nn.Linear(8, 2), nn.Linear(4, 8)
        loss = late(early(engine.ones(5, 4)).relu()).pow(2).sum()
        loss.backward()
        return {"late": late, "early": early, "loss": loss}

    session = recorded(run)
    rows = list(rows_of(session).values())
    used = [p for layer in (session.names["early"], session.names["late"]) for p in (layer.weight, layer.bias)]
    assert [row["name"] for row in rows] == ["early.weight", "early.bias", "late.weight", "late.bias"]
    for row, p in zip(rows, used, strict=True):
        g, w = (t.array.astype(numpy.float64) for t in (p.grad, p))
        assert row["shape"] == list(p.shape) and row["flag"] == ""
        assert row["grad_norm"] == pytest.approx(numpy.linalg.norm(g), rel=1e-6)
        assert row["grad_mean"] == pytest.approx(numpy.abs(g).mean(), rel=1e-6)
        assert row["grad_max"] == pytest.approx(numpy.abs(g).max(), rel=1e-6)
        assert row["norm"] == pytest.approx(numpy.linalg.norm(w), rel=1e-6)


def test_flags_of_what_is_wrong():
    shapes = [("weight", 1e-9, "vanishing"), ("weight", 1e6, "exploding"), ("weight", math.nan, "NaN"), ("weight", math.inf, "Inf"),
              ("weight", 0.0, "all zero")]  # fmt: skip
    for name, scale, flag in shapes:
        (row,) = parameters.described([Parameter(0, name, None, (3,), numpy.full(3, scale, numpy.float32), "")], [])
        assert row.flag == flag
    assert parameters.described([Parameter(0, "w", None, (3,), None, "Backward has not run yet.")], [])[0].flag == "no gradient"
    facts = parameters.totals(
        [
            ParameterRow(0, "w", [2, 3], 1.0, 3.0, 1, 1, "", "", None, ""),
            ParameterRow(1, "b", [3], 1.0, 4.0, 1, 1, "NaN", "", None, ""),
        ]
    )
    assert [(f.label, f.text) for f in facts] == [("parameters", "9 in 2 tensors"), ("gradient norm", "5"), ("flags", "1 NaN")]


def test_what_the_pass_has_not_come_to_is_not_yet_there_and_not_missing():
    engine.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))
    stepper = wb.step(model(engine.ones(5, 4)).pow(2).sum())
    stepper.graph.finish({"model": model})
    session = wb.show(model[0].weight)
    session.recording, session.graph, session.stepper = stepper.recording, stepper.graph, stepper
    while not any(s.op == "linear" for s in [stepper.step(stepper.index)] if s):
        stepper.next()
    rows = rows_of(session)
    assert {name: row["flag"] for name, row in rows.items()} == {"0.weight": "not yet", "0.bias": "not yet", "2.weight": "", "2.bias": ""}
    assert "step on" in rows["0.weight"]["why"]
    assert "flags" not in [fact["label"] for fact in asked(session, type="ask_model")[0]["totals"]]
    stepper.finish()
    assert {row["flag"] for row in rows_of(session).values()} == {""}


def test_parameters_that_the_code_does_not_use_are_listed_last():
    def run():
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.used, self.spare, self.lazy = nn.Linear(2, 2), nn.Linear(2, 2), nn.LazyLinear(2)

            def forward(self, x):
                return self.used(x)

        net = Net()
        net(engine.ones(3, 2)).sum().backward()
        return {"net": net}

    rows = list(rows_of(recorded(run)).values())
    assert [r["name"] for r in rows][:5] == ["used.weight", "used.bias", "spare.weight", "spare.bias", "lazy.weight"]
    assert "given by the first call" in rows[4]["why"]
    assert {r["node"] for r in rows[2:]} == {-1} and rows[2]["flag"] == "no gradient"
    assert rows[2]["why"] == "The recorded code does not use it."


def test_a_parameter_that_was_written_after_its_use_keeps_its_name():
    def run():
        model = nn.Linear(2, 2)
        loss = model(engine.ones(3, 2)).sum()
        loss.backward()
        with engine.no_grad():
            model.weight *= 2
        return {"model": model, "loss": loss}

    session = recorded(run)
    row = rows_of(session)["weight"]
    assert row["norm"] == pytest.approx(numpy.linalg.norm(session.names["model"].weight.array), rel=1e-6) and row["shape"] == [2, 2]


@pytest.mark.parametrize("make", [
    lambda p: optim.SGD(p, lr=0.1), lambda p: optim.SGD(p, lr=0.1, momentum=0.9), lambda p: optim.Adam(p, lr=1e-2),
    lambda p: optim.AdamW(p, lr=1e-2, weight_decay=0.1), lambda p: optim.SGD(p, lr=0.1, maximize=True),
])  # fmt: skip
def test_the_next_update_is_the_one_that_step_makes(make):
    engine.manual_seed(1)
    w = nn.Parameter(engine.randn(3, 4))
    opt = make([w])
    for _ in range(3):  # so that there is state
        opt.zero_grad()
        (w * w).sum().backward()
        opt.step()
    opt.zero_grad()
    (w**3).sum().backward()
    before, state = w.array.copy(), {k: getattr(v, "array", v) for k, v in opt.state[w].items()}
    state = {k: numpy.copy(v) for k, v in state.items()}
    guessed = parameters.update(opt, opt.param_groups[0], w, w.grad.array)
    ratio, told = parameters.ratio_of(w, w.grad.array, float(numpy.linalg.norm(before)), [opt])
    numpy.testing.assert_array_equal(w.array, before)  # nothing has changed
    for key, value in state.items():
        numpy.testing.assert_array_equal(getattr(opt.state[w][key], "array", opt.state[w][key]), value)
    opt.step()
    numpy.testing.assert_array_equal(w.array - before, guessed)
    moved = (w.array - before).astype(numpy.float64)
    assert ratio() == pytest.approx(numpy.linalg.norm(moved) / numpy.linalg.norm(before.astype(numpy.float64)), rel=1e-5)
    assert told == f"the next {type(opt).__name__} step with this gradient"


def test_why_there_is_no_ratio():
    w = nn.Parameter(engine.ones(3))
    ratio = lambda grad, optimizers, weight=1.0: parameters.ratio_of(w, grad, weight, optimizers)  # noqa: E731
    assert "No optimizer" in ratio(w.array, [])[1]
    assert "Without a gradient" in ratio(None, [])[1]
    assert "norm is 0" in ratio(w.array, [optim.SGD([w], lr=0.1)], 0.0)[1]
    assert "no rule" in ratio(w.array, [optim.LBFGS([w])])[1]


def test_the_measured_ratio_of_a_history_comes_first():
    model = nn.Linear(2, 1)
    opt = optim.SGD(model.parameters(), lr=0.5)
    with wb.history(model, opt) as history:
        for _ in range(3):
            opt.zero_grad()
            model(engine.ones(4, 2)).pow(2).sum().backward()
            opt.step()
        ratio, told = parameters.ratio_of(model.weight, model.weight.grad.array, 1.0, [opt])
        assert ratio() == history["weight"].ratio[-1] and told == "measured by wb.history at step 2"


def test_optimizers_are_found_among_the_variables():
    def run():
        model = nn.Linear(2, 1)
        opt = optim.SGD(model.parameters(), lr=0.1)
        model(engine.ones(4, 2)).sum().backward()
        return {"model": model, "opt": opt}

    session = recorded(run)
    row = rows_of(session)["weight"]
    model = session.names["model"]
    wanted = 0.1 * numpy.linalg.norm(model.weight.grad.array) / numpy.linalg.norm(model.weight.array)
    assert row["ratio"] == pytest.approx(wanted, rel=1e-5)
    session.busy = lambda: True  # while a cell runs its optimizer is left alone
    assert rows_of(session)["weight"]["ratio"] is None


# -- activations ---------------------------------------------------------------------------------------------------------------


def health(run):
    return {(row["module"], row["op"]): row for row in asked(recorded(run), type="ask_model")[0]["activations"]}


def test_units_that_are_zero_for_every_sample_are_dead():
    x = numpy.array([[1.0, -1.0, -2.0, 0.5], [2.0, -3.0, 1.0, -0.5]] * 16, numpy.float32)

    def run():
        h = engine.tensor(x)
        return {"h": h, "y": h.relu()}

    row = health(run)["", "relu"]
    y = numpy.maximum(x, 0)
    assert (row["units"], row["dead"], row["flag"]) == (4, int((y == 0).all(axis=0).sum()), "dead units")
    assert row["zero"] == pytest.approx((y == 0).mean())

    def one_sample():
        h = engine.tensor(x[:1])
        return {"h": h, "y": h.relu()}

    assert health(one_sample)["", "relu"]["flag"] == ""  # of one sample nothing can be said
    assert (row["samples"], health(one_sample)["", "relu"]["samples"]) == (32, 1)


def test_channels_are_the_units_after_a_convolution_and_features_after_a_linear_layer():
    engine.manual_seed(0)

    def run():
        conv, line = nn.Conv2d(3, 5, 3), nn.Linear(6, 7)
        with engine.no_grad():
            conv.bias[2] = -1e6
            line.bias[3] = -1e6
            line.bias[4] = -1e6
        a = conv(engine.rand(2, 3, 8, 8)).relu()
        b = line(engine.rand(2, 4, 6)).relu()
        return {"conv": conv, "line": line, "a": a, "b": b}

    session = recorded(run)
    rows = asked(session, type="ask_model")[0]["activations"]
    a, b = (session.names[name].array for name in "ab")
    dead = {5: int((a == 0).all(axis=(0, 2, 3)).sum()), 7: int((b == 0).all(axis=(0, 1)).sum())}
    assert {row["units"]: row["dead"] for row in rows} == dead and dead[5] >= 1 and dead[7] >= 2


def test_all_calls_of_one_module_count_together():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.act = nn.ReLU()

        def forward(self, x):
            return self.act(x)

    def run():
        net = Net()
        a = net(engine.tensor([[1.0, -1.0, -1.0]] * 16))
        b = net(engine.tensor([[-1.0, 1.0, -1.0]] * 16))
        return {"net": net, "a": a, "b": b}

    row = health(run)["act", "relu"]
    assert (row["calls"], row["units"], row["dead"], row["flag"]) == (2, 3, 1, "dead units")


@pytest.mark.parametrize(("name", "wanted"), [
    ("tanh", lambda x: numpy.abs(numpy.tanh(x)) > 0.97),
    ("sigmoid", lambda x: (1 / (1 + numpy.exp(-x)) < 0.03) | (1 / (1 + numpy.exp(-x)) > 0.97)),
    ("softsign", lambda x: numpy.abs(x / (1 + numpy.abs(x))) > 0.97),
    ("hardtanh", lambda x: numpy.abs(x) >= 1),
    ("relu6", lambda x: x >= 6),
    ("hardsigmoid", lambda x: numpy.abs(x) >= 3),
])  # fmt: skip
def test_saturation_is_where_the_slope_is_nearly_zero(name, wanted):
    x = numpy.random.default_rng(0).normal(size=(20, 30)) * 6

    def run():
        h = engine.tensor(x)
        y = getattr(F, name)(h) if hasattr(F, name) else getattr(engine, name)(h)
        return {"h": h, "y": y}

    row = health(run)["", name]
    assert row["saturated"] == pytest.approx(wanted(x).mean(), abs=1e-12)
    assert row["limits"] and (row["flag"] == "saturated") == (row["saturated"] > 0.5 and not row["dead"])


def test_calls_that_would_take_too_long_are_left_out_and_counted(monkeypatch):
    def run():
        h = engine.ones(100)
        return {"all": [h.relu() for _ in range(5)]}

    session = recorded(run)
    monkeypatch.setattr(activations, "ROOM", 2 * 400)
    told = asked(session, type="ask_model")[0]
    assert told["activations"][0]["calls"] == 2 and told["note"].endswith("the first 3 calls are left out.")


def test_the_unit_axis_without_a_batch():
    def run():
        conv = nn.Conv2d(1, 4, 3)
        y = conv(engine.rand(1, 8, 8)).relu()
        v = engine.rand(5).relu()
        return {"conv": conv, "y": y, "v": v}

    session = recorded(run)
    r = session.recording
    rows = [row for row in range(r.count) if r.op_name(row) == "relu"]
    assert [activations.unit_axis(r, row) for row in rows] == [0, None]


# -- samples -------------------------------------------------------------------------------------------------------------------


def check_samples(session, tensor, wanted):
    told, _ = asked(session, type="ask_sample_gradients", node=node(session, tensor))
    assert told["missing"] == "", told["missing"]
    norms = [numpy.linalg.norm(g) for g in wanted]
    numpy.testing.assert_allclose(told["norms"], norms, rtol=2e-4, atol=1e-6)
    total = sum(wanted)
    assert told["total"] == pytest.approx(numpy.linalg.norm(total), rel=2e-4)
    cosines = [numpy.vdot(total, g).real / numpy.linalg.norm(g) / numpy.linalg.norm(total) for g in wanted]
    numpy.testing.assert_allclose(told["cosine"], cosines, rtol=1e-3, atol=1e-5)
    assert told["largest"] == sorted(range(len(norms)), key=lambda n: -norms[n])[:10]
    return told["how"]


def test_a_linear_layer_by_outer_products():
    generator = numpy.random.default_rng(0)
    x, t = generator.normal(size=(7, 4)), generator.normal(size=(7, 3))
    model = nn.Linear(4, 3).double()
    loss = ((model(engine.tensor(x)) - engine.tensor(t)) ** 2).sum()
    session = stepped(loss, model=model)
    residual = 2 * (x @ model.weight.array.T + model.bias.array - t)  # of ‖xWᵀ + b − t‖²
    assert "outer products" in check_samples(session, model.weight, [numpy.outer(residual[n], x[n]) for n in range(7)])
    check_samples(session, model.bias, [residual[n] for n in range(7)])


def test_shares_of_a_complex_gradient():
    generator = numpy.random.default_rng(2)
    x, w0 = (generator.normal(size=shape) + 1j * generator.normal(size=shape) for shape in ((5, 3), (3, 4)))
    w = engine.tensor(w0, requires_grad=True)
    session = stepped((engine.abs(engine.tensor(x) @ w) ** 2).sum(), w=w)
    check_samples(session, w, [numpy.outer(x[n].conj(), 2 * x[n] @ w0) for n in range(5)])  # of |xw|² by the conjugate of w, twice


def test_places_of_a_sequence_belong_to_their_sample():
    generator = numpy.random.default_rng(1)
    x = generator.normal(size=(5, 6, 4))
    model = nn.Linear(4, 3).double()
    loss = (model(engine.tensor(x)) ** 2).sum()
    session = stepped(loss, model=model)
    g = 2 * (x @ model.weight.array.T + model.bias.array)
    check_samples(session, model.weight, [numpy.einsum("to,ti->oi", g[n], x[n]) for n in range(5)])
    check_samples(session, model.bias, [g[n].sum(0) for n in range(5)])


def test_a_matrix_product_and_one_with_a_transpose():
    generator = numpy.random.default_rng(2)
    x = generator.normal(size=(6, 4))
    for transposed in (False, True):
        w = engine.tensor(generator.normal(size=(3, 4) if transposed else (4, 3)), requires_grad=True)
        loss = ((engine.tensor(x) @ (w.T if transposed else w)) ** 2).sum()
        session = stepped(loss, w=w)
        flat = w.array.T if transposed else w.array
        shares = [numpy.outer(x[n], 2 * (x[n] @ flat)) for n in range(6)]
        check_samples(session, w, [s.T for s in shares] if transposed else shares)


def test_a_parameter_that_two_ops_use():
    generator = numpy.random.default_rng(3)
    x = generator.normal(size=(5, 3))
    w = engine.tensor(generator.normal(size=(3, 3)), requires_grad=True)
    h = engine.tensor(x) @ w
    loss = ((h @ w) ** 2).sum()
    session = stepped(loss, w=w)

    def one(n):  # d/dw ‖x w w‖² of one sample
        g = 2 * (x[n] @ w.array @ w.array)
        return numpy.outer(x[n] @ w.array, g) + numpy.outer(x[n], g @ w.array.T)

    check_samples(session, w, [one(n) for n in range(5)])


def test_a_convolution_by_its_rule_against_finite_differences():
    engine.manual_seed(0)
    conv = nn.Conv2d(1, 2, 2).double()
    x = numpy.random.default_rng(4).normal(size=(3, 1, 4, 4))
    loss = (conv(engine.tensor(x)).relu() ** 2).sum()
    session = stepped(loss, conv=conv)

    def value(weight, n):
        out = numpy.zeros((2, 3, 3))
        for o in range(2):
            for i in range(3):
                for j in range(3):
                    out[o, i, j] = (weight[o, 0] * x[n, 0, i : i + 2, j : j + 2]).sum() + conv.bias.array[o]
        return (numpy.maximum(out, 0) ** 2).sum()

    def slope(n):
        found = numpy.zeros_like(conv.weight.array)
        for at in numpy.ndindex(found.shape):
            step = numpy.zeros_like(found)
            step[at] = 1e-6
            found[at] = (value(conv.weight.array + step, n) - value(conv.weight.array - step, n)) / 2e-6
        return found

    assert "its rule, run with one sample's gradient at a time" in check_samples(session, conv.weight, [slope(n) for n in range(3)])


def test_after_a_backward_that_freed_the_graph():
    generator = numpy.random.default_rng(5)
    x = generator.normal(size=(4, 3))
    w = engine.tensor(generator.normal(size=(3, 2)), requires_grad=True)
    recorder = Recorder()
    session = Session(recorder.recording)
    watcher = PassWatcher(session, recorder, None, lambda: {"w": w})
    with observe.observing(watcher):
        loss = ((engine.tensor(x) @ w) ** 2).sum()
        loss.backward()
    watcher.close()
    recorder.stop()
    session.finish({"w": w, "loss": loss})
    check_samples(session, w, [numpy.outer(x[n], 2 * (x[n] @ w.array)) for n in range(4)])


def test_batch_normalisation_is_mentioned_where_samples_meet_in_it():
    engine.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4)).double()
    x = numpy.random.default_rng(6).normal(size=(5, 3))
    weight = engine.tensor(numpy.random.default_rng(7).normal(size=(5, 4)))
    session = stepped((model(engine.tensor(x)) * weight).sum(), model=model)
    told, _ = asked(session, type="ask_sample_gradients", node=node(session, model[0].weight))
    assert "Batch normalization mixes samples" in told["how"]
    assert told["total"] == pytest.approx(numpy.linalg.norm(model[0].weight.grad.array), rel=1e-6)  # the shares sum to the gradient


def test_why_a_gradient_cannot_be_taken_apart(monkeypatch):
    w = engine.ones(3, requires_grad=True)
    missing = lambda session, t: asked(session, type="ask_sample_gradients", node=node(session, t))[0]["missing"]  # noqa: E731
    loss = (w * w).sum()
    assert "wb.step(loss)" in missing(wb.show(loss), w)
    assert "no tensor that has an axis of 3 samples" in missing(stepped(loss, w=w), w)
    x = engine.ones(4, 3)
    loss = (x * w).sum()
    session = stepped(loss, w=w)
    assert missing(session, w) == ""
    monkeypatch.setattr(per_sample, "SAMPLES", 3)
    assert "The batch has 4 samples; at most 3" in missing(session, w)
    told, _ = asked(session, type="ask_sample_gradients", node=session.recording.root)
    assert "Only the gradients of parameters" in told["missing"]
    session.busy = lambda: True
    assert "running a cell" in asked(session, type="ask_sample_gradients", node=node(session, w))[0]["sentence"]


# -- series --------------------------------------------------------------------------------------------------------------------


def numbers(series, name, buffers):
    described = series[name]
    kind = {"float64": "<f8", "int32": "<i4"}[described["dtype"]]
    return numpy.frombuffer(buffers[described["index"]], kind).reshape(described["shape"])


def test_the_turns_of_a_loop_are_a_series():
    values = []

    def run():
        h = engine.ones(3, 2)
        for t in range(5):
            h = (h * 2) - t
            values.append(h.array.copy())
        return {"h": h}

    session = recorded(run)
    row = [r for r in range(session.recording.count) if session.recording.op_name(r) == "sub"][2]
    told, buffers = asked(session, type="ask_series", node=row, what="value")
    (found,) = told["series"]
    assert told["unit"] == "iteration" and told["note"] == "5 turns of a loop in this recording."
    numpy.testing.assert_array_equal(numbers(found, "at", buffers), numpy.arange(5))
    for name, of in (("mean", numpy.mean), ("min", numpy.min), ("max", numpy.max), ("norm", numpy.linalg.norm)):
        numpy.testing.assert_allclose(numbers(found, name, buffers), [of(v) for v in values], rtol=1e-6)
    assert numbers(found, "counts", buffers).sum(axis=1).tolist() == [6] * 5


def test_the_steps_of_a_training_are_a_series():
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh())
    opt = optim.SGD(model.parameters(), lr=0.1)
    weights, grads = [], []
    with wb.history(model, opt):
        for _ in range(4):
            opt.zero_grad()
            model(engine.ones(5, 3)).pow(2).sum().backward()
            weights.append(model[0].weight.array.copy())
            grads.append(model[0].weight.grad.array.copy())
            opt.step()
        session = recorded(lambda: {"model": model, "y": model(engine.ones(2, 3))})
        r = session.recording
        row = next(row for row in range(r.count) if r.tensor(row) is model[0].weight)
        told, buffers = asked(session, type="ask_series", node=row, what="value")
        assert told["unit"] == "step" and [s["what"] for s in told["series"]] == ["value", "gradient", "update"]
        value, gradient, _ = told["series"]
        numpy.testing.assert_allclose(numbers(value, "norm", buffers), [numpy.linalg.norm(w) for w in weights], rtol=1e-6)
        numpy.testing.assert_allclose(numbers(gradient, "norm", buffers), [numpy.linalg.norm(g) for g in grads], rtol=1e-6)
        moved = [0.1 * numpy.linalg.norm(g) / numpy.linalg.norm(w) for g, w in zip(grads, weights, strict=True)]
        numpy.testing.assert_allclose(numbers(told["series"][2], "ratio", buffers), moved, rtol=1e-4)
        made = max(row for row in range(r.count) if r.op_name(row) == "tanh")
        assert [s["what"] for s in asked(session, type="ask_series", node=made, what="value")[0]["series"]] == ["activation"]


def test_without_a_loop_or_a_history_it_says_how_to_get_one():
    session = recorded(lambda: {"y": engine.ones(3) + 1})
    told, _ = asked(session, type="ask_series", node=session.recording.count - 1, what="value")
    assert told["series"] == [] and "wb.history(model, optimizer)" in told["missing"]


def test_a_long_loop_is_thinned_evenly(monkeypatch):
    monkeypatch.setattr(series, "MOST", 4)

    def run():
        h = engine.ones(1)
        for _ in range(10):
            h = h + 1
        return {"h": h}

    session = recorded(run)
    told, buffers = asked(session, type="ask_series", node=session.recording.count - 1, what="value")
    assert numbers(told["series"][0], "at", buffers).tolist() == [0, 3, 6, 9]
    assert told["note"] == "10 turns of a loop in this recording, one in 3 shown."
