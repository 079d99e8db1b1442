"""Several passes: each is listed and can be walked through, what they add to, passes of passes, and gradients that were not kept."""

from __future__ import annotations

import numpy
import pytest
from meta import PROGRAMS, values
from walked import bits, classifier, convolution, leaf, recurrent, tanh_layer, unrolled

import engine
from engine import autograd, nn
from engine.base import observe
from engine.core import tape
from engine.utils.checkpoint import checkpoint
from workbench import protocol
from workbench.backward.stepper import Stepper
from workbench.graph.graph import Graph
from workbench.recording.recorder import Recorder
from workbench.recording.retrace import retrace
from workbench.session.passes import PassWatcher
from workbench.session.session import Session


def watched(cell, names=None) -> Session:
    """What `%%watch --steps` does, without Jupyter."""
    recorder = Recorder()
    session = Session(recorder.recording)
    watcher = PassWatcher(session, recorder, None, lambda: names or {})
    with observe.observing(watcher):
        cell()
    watcher.close()
    recorder.stop()
    session.finish(names or {})
    return session


def ask(session, **data):
    return [m for m, _ in session.handle({"v": protocol.VERSION, "id": 1, **data})]


def norm(array) -> float:
    return float(numpy.linalg.norm(numpy.asarray(array, numpy.float64)))


# -- all passes -------------------------------------------------------------------------------------------------------------------


def test_every_pass_of_a_cell_is_listed_and_can_be_walked_through():
    w, x = leaf(3, 2), leaf(4, 3, seed=1).detach()
    held = {"w": w}

    def cell():
        out = (x @ w).tanh()
        held["loss"] = out.sum()
        held["loss"].backward(retain_graph=True)
        held["loss"].backward(retain_graph=True)
        held["loss2"] = (out * out).sum()
        held["loss2"].backward()

    session = watched(cell, held)
    assert [one.label() for one in session.passes] == ["loss", "loss", "loss2"]
    assert ask(session, type="ready")[1]["passes"] == ["loss", "loss", "loss2"] and ask(session, type="ready")[1]["number"] == 2
    g = 1 - numpy.tanh(x.numpy() @ w.detach().numpy()) ** 2
    single = norm(x.numpy().T @ g)
    after = w.grad.numpy().copy()
    for number, (was, now) in enumerate([(None, single), (single, 2 * single), (2 * single, norm(after))]):
        (answer,) = ask(session, type="step", do="pass", to=number)
        assert answer["total"] == session.passes[number].total
        assert ask(session, type="step", do="first")[0]["index"] == 0
        (step,) = [s for s in answer["steps"] if s["op"] == "accumulate"]
        assert (step["before"] and step["before"]["norm"]) == (was if was is None else pytest.approx(was, rel=1e-5))
        assert step["after"]["norm"] == pytest.approx(now, rel=1e-5)
        assert ("is stored in w.grad" if was is None else "is added to w.grad, which was norm") in step["sentence"]
    assert (w.grad.numpy() == after).all()  # records: looking changes nothing
    (problem,) = ask(session, type="step", do="pass", to=3)
    assert "There is no pass 4; this code has run 3" in problem["sentence"]


def test_accumulation_over_micro_batches_shows_what_was_there_before():
    """The gradient of a sum over rows is linear in the batch: after each micro-batch .grad is the gradient of all rows so far."""
    w = leaf(3)
    x = values(6, 3, seed=2).astype(numpy.float32)

    def cell():
        for part in range(3):
            batch = engine.tensor(x[2 * part : 2 * part + 2])
            (batch @ w).sum().backward()

    session = watched(cell, {"w": w})
    assert len(session.passes) == 3
    for k, one in enumerate(session.passes):
        one.to(one.total)
        step = one.step(one.total)
        assert step is not None and step.after is not None
        assert step.after.norm == pytest.approx(norm(x[: 2 * k + 2].sum(0)), rel=1e-5)
        assert step.upstream.norm == pytest.approx(norm(x[2 * k : 2 * k + 2].sum(0)), rel=1e-5)
        if k:
            assert step.before is not None and step.before.norm == pytest.approx(norm(x[: 2 * k].sum(0)), rel=1e-5)


def test_a_live_pass_shows_what_it_adds_to():
    w = leaf(3)
    w.grad = engine.tensor([1.0, 2.0, 2.0])
    loss = (w * 3.0).sum()
    r = retrace([loss.node], [loss])
    graph = Graph(r)
    graph.finish({"w": w})
    stepper = Stepper.of(r, graph, loss)
    stepper.finish()
    step = stepper.step(stepper.total)
    assert step is not None and step.before is not None and step.after is not None
    assert step.before.norm == 3.0 and step.after.norm == pytest.approx(norm([4.0, 5.0, 5.0]))


def test_a_pass_of_grad_stores_nothing_and_says_so():
    w = leaf(3)
    session = watched(lambda: engine.autograd.grad((w * w).sum(), w), {"w": w})
    (one,) = session.passes
    one.to(one.total)
    assert "is complete; w.grad stays as it is" in one.sentence() and w.grad is None
    step = one.step(one.total)
    assert step is not None and step.before is None and step.after is None


def test_hundreds_of_passes_are_recorded_at_full_speed_and_the_graph_is_told_once():
    w = leaf(4)
    sent = []
    recorder = Recorder()
    session = Session(recorder.recording)
    session.connect(lambda message, buffers: sent.append(message["type"]))
    watcher = PassWatcher(session, recorder, None, lambda: {})
    with observe.observing(watcher):
        for _ in range(300):
            (w * w).sum().backward()
            w.grad = None
    watcher.close()
    recorder.stop()
    assert sent == []
    session.finish({"w": w})
    assert sent.count("graph") == 1 and len(session.passes) == 200  # the newest
    assert all(one.done and one.is_record for one in session.passes)


def test_a_pass_of_what_was_computed_before_is_told_too():
    """`with wb.watch(): loss.backward()`, the loss from an earlier cell: the graph is made from the tape."""
    w = leaf(4)
    loss = (w * w).sum()
    sent = []
    recorder = Recorder()
    session = Session(recorder.recording)
    session.connect(lambda message, buffers: sent.append(message))
    watcher = PassWatcher(session, recorder, None, lambda: {"w": w})
    with observe.observing(watcher):
        loss.backward()
    watcher.close()
    recorder.stop()
    graph = next(m for m in sent if m["type"] == "graph")
    assert "mul" in graph["nodes"]["op"] and "w" in graph["nodes"]["name"] and not graph["live"]
    assert [m["index"] for m in sent if m["type"] == "stepper"] == [3]


def test_all_passes_together_keep_no_more_than_the_budget(monkeypatch):
    monkeypatch.setattr("workbench.session.passes.KEEP", 4000)
    w = leaf(100)

    def cell():
        for _ in range(10):
            (w * w).sum().backward()

    session = watched(cell, {"w": w})
    assert sum(one.kept_bytes for one in session.passes) <= 4000
    last = session.passes[-1]
    last.to(last.total)
    assert last.step(last.total) is not None and last.step(1) is not None  # the summaries are all there


def test_records_can_be_walked_through_while_the_next_cell_runs():
    w = leaf(3)
    session = watched(lambda: (w * w).sum().backward(), {"w": w})
    session.busy = lambda: True
    (answer,) = ask(session, type="step", do="index", to=1)
    assert answer["index"] == 1


# -- passes of passes -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_double_backward_is_drawn_and_stepped_through_and_right(program):
    """Against central differences in float64, and step by step: what the last pass accumulates is the derivative of all before it."""
    leaves, run = program(engine)
    losses = []

    def cell():
        losses.append(run(leaves))
        losses[0].backward()

    session = watched(cell, dict(zip(("w1", "b1", "w2", "b2"), leaves, strict=True)))
    r = session.recording
    groups, home = session.graph.arranged()
    derivatives = [row for row in range(r.count) if r.note[row].startswith("derivative of ")]
    assert derivatives and all(groups[home[row]].name.startswith("backward") for row in derivatives)
    for row in derivatives:
        op, number = r.note[row].removeprefix("derivative of ").partition(";")[0].split(" #")
        assert r.op_name(int(number)) == op and int(number) < row
    last = session.passes[-1]
    assert len(session.passes) == {"wgan": 2, "meta_learner": 3}[program.__name__]
    assert any(row in derivatives for row in last.plan)  # the pass goes through the pass before it
    last.to(0)
    told = []
    while not last.done:
        last.next()
        told.append(last.sentence())
    assert any(", the derivative of tanh #" in sentence for sentence in told)
    for tensor in leaves:
        flat = tensor.array.reshape(-1)
        numerical = []
        for i in range(flat.size):
            kept, eps = flat[i], 1e-6
            flat[i] = kept + eps
            up = run(leaves).item()
            flat[i] = kept - eps
            numerical.append((up - run(leaves).item()) / (2 * eps))
            flat[i] = kept
        numpy.testing.assert_allclose(tensor.grad.numpy().reshape(-1), numerical, rtol=1e-5, atol=1e-7)
        array, missing = last.gradient(r.find(tensor))
        assert missing == ""
        numpy.testing.assert_allclose(numpy.asarray(array).reshape(-1), numerical, rtol=1e-5, atol=1e-7)


def test_a_recorded_pass_holds_no_tensor_of_the_graph():
    w = leaf(3)

    def cell():
        (g,) = engine.autograd.grad((w * w * w).sum(), w, create_graph=True)
        g.sum().backward()

    session = watched(cell, {"w": w})
    for one in session.passes:
        for taken in one.taken:
            held = (taken.upstream, *taken.gradients, *[t[0] for t in taken.totals if t is not None])
            assert not any(isinstance(array, engine.Tensor) for array in held)
    assert w.grad.detach().numpy() == pytest.approx(6 * w.detach().numpy(), rel=1e-5)


# -- what was not kept ----------------------------------------------------------------------------------------------------------------


def twice(program) -> tuple[Stepper, Stepper]:
    """The same pass, all of it kept, and nothing of it kept."""
    _, run = program()
    loss = run()
    steppers = []
    for keep in (1 << 30, 0):
        r = retrace([loss.node], [loss])
        graph = Graph(r)
        graph.finish({})
        steppers.append(Stepper.of(r, graph, loss, keep=keep))
    return steppers[0], steppers[1]


@pytest.mark.parametrize("program", [tanh_layer, unrolled, classifier, convolution, recurrent], ids=lambda p: p.__name__)
@pytest.mark.parametrize("every", [2, 64])
def test_what_was_not_kept_is_computed_again_bit_for_bit(program, every, monkeypatch):
    monkeypatch.setattr("workbench.backward.replay.EVERY", every)
    monkeypatch.setattr("workbench.backward.replay.Checkpoints.__init__", _roomy)
    kept, bare = twice(program)
    kept.finish()
    bare.finish()
    grads = [t() and t()._grad for t in bare._watched.values()]
    assert all(taken is None or taken.upstream is None for taken in bare.taken)
    for index in range(kept.total, 0, -1):
        kept.to(index)
        bare.to(index)
        for row in {row for row in kept.plan if row >= 0}:
            wanted, why = kept.gradient(row)
            got, why_not = bare.gradient(row)
            assert (wanted is None) == (got is None), (index, row, why, why_not)
            if wanted is not None:
                assert numpy.asarray(got).tobytes() == numpy.asarray(wanted).tobytes()
    bare.finish()
    assert [t() and t()._grad for t in bare._watched.values()] == grads  # looking back changes no .grad
    assert observe.current is None


def _roomy(self, keep):
    self.room, self.all, self._several = 1 << 20, [], set()


def test_from_a_checkpoint_only_the_rest_is_run(monkeypatch):
    _, run = unrolled()
    loss = run()
    r = retrace([loss.node], [loss])
    stepper = Stepper.of(r, Graph(r), loss, keep=0)
    monkeypatch.setattr("workbench.backward.replay.EVERY", 3)
    stepper._checkpoints.room = 1 << 20
    stepper.finish()
    places = [place for place, _ in stepper._checkpoints.all]
    assert len(places) >= 3
    ran = []
    steps = tape.backward_steps
    monkeypatch.setattr(tape, "backward_steps", lambda *a, **k: (ran.append(1) or one for one in steps(*a, **k)))
    late = places[-1] + 1
    stepper.to(late)
    stepper._again(late)
    assert len(ran) == 1


def test_why_it_cannot_be_computed_again_is_said():
    w = leaf(100)

    def cell(retain):
        def run():
            (w * w).sum().backward(retain_graph=retain)

        return run

    for retain in (False, True):
        session = watched(cell(retain), {"w": w})
        one = session.passes[0]
        keep, one.keep = one.keep, 0
        for taken in one.taken:
            taken.message, taken.upstream, taken.gradients, taken.totals = one._describe(taken), None, (), []
        one.to(2)
        row = one.plan[1]
        array, missing = one.gradient(row)
        if retain:
            assert missing == "" and numpy.asarray(array).tolist() == [1.0] * 100
        else:
            assert array is None and "freed the saved tensors" in missing and "retain_graph=True" in missing
        one.keep = keep
        assert one.gradient(row, compute=False)[1].startswith("It was not kept. It can be computed again when")


def test_a_value_written_in_place_since_is_said_to_stand_in_the_way():
    x = leaf(3)
    y = x.exp()
    loss = (y * 2).sum()
    r = retrace([loss.node], [loss])
    stepper = Stepper.of(r, Graph(r), loss, keep=0)
    stepper.prepare()
    stepper.finish()
    with engine.no_grad():
        y.mul_(3)
    array, missing = stepper.gradient(r.find(x))
    assert array is None and "cannot be computed again" in missing and "modified by an inplace operation" in missing
    assert stepper.step(stepper.total) is not None  # its summary is there all the same


def test_hooks_are_not_run_again():
    x, calls = leaf(3), []
    h = x * 2
    h.register_hook(lambda g: calls.append(1))
    loss = h.sum()
    r = retrace([loss.node], [loss])
    stepper = Stepper.of(r, Graph(r), loss, keep=0)
    stepper.finish()
    array, missing = stepper.gradient(r.find(x))
    assert array is None and "a hook would run a second time" in missing and calls == [1]


def test_kept_gradients_of_intermediates_stay_as_they_are_when_a_pass_is_run_again():
    x = leaf(3)
    h = x * 2
    h.retain_grad()
    loss = (h * h).sum()
    r = retrace([loss.node], [loss])
    stepper = Stepper.of(r, Graph(r), loss, keep=0)
    stepper.finish()
    before = h.grad
    array, missing = stepper.gradient(r.find(x))
    assert missing == "" and numpy.asarray(array).tobytes() == x.grad.numpy().tobytes()
    assert h.grad is before


def test_bits_of_a_watched_training_step_are_those_of_an_unwatched_one():
    def train(watch: bool) -> list:
        engine.manual_seed(3)
        model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1))
        optimizer = engine.optim.Adam(model.parameters(), lr=0.01)
        x = engine.tensor(values(8, 3, seed=4).astype(numpy.float32))

        def cell():
            for _ in range(3):
                optimizer.zero_grad()
                model(x).square().mean().backward()
                optimizer.step()

        watched(cell) if watch else cell()
        return [p.detach().numpy().tobytes() for p in model.parameters()] + bits(list(model.parameters()))

    assert train(True) == train(False)


# -- long passes ------------------------------------------------------------------------------------------------------------------


def columns(session, first, last) -> dict:
    ((message, buffers),) = session.handle({"v": protocol.VERSION, "id": 1, "type": "ask_norms", "first": first, "last": last})
    assert message["type"] == "norms" and message["first"] == first
    names = ("came", "upstream", "step", "target", "scalar", "gradient", "total")
    return {name: numpy.frombuffer(buffers[message[name]["index"]], message[name]["dtype"]) for name in names}


@pytest.mark.parametrize("keep", [1 << 20, 0])
def test_a_jump_is_answered_with_few_steps_and_the_norms_of_the_others_are_asked_for(keep):
    _, run = unrolled()
    loss = run()
    r = retrace([loss.node], [loss])
    graph = Graph(r)
    graph.finish({})
    stepper = Stepper.of(r, graph, loss, keep=keep)
    session = Session(r, graph)
    session.step_through(stepper)
    answer = ask(session, type="step", do="last")[0]
    assert len(answer["steps"]) <= 16 and answer["steps"][-1]["index"] == stepper.total
    found = columns(session, 1, stepper.total)
    assert found["came"].tolist() == [2 if len(stepper.recording.shape[row]) == 0 else 1 for row in stepper.plan]
    each = 0
    for index in range(1, stepper.total + 1):
        step = stepper.step(index)
        assert step is not None
        wanted = step.upstream.values[0] if not step.upstream.shape and step.upstream.values else step.upstream.norm
        assert found["upstream"][index - 1] == pytest.approx(wanted, rel=1e-6)
        for c in step.contributions:
            assert (found["step"][each], found["target"][each]) == (index, c.target)
            sizes = [s.values[0] if not s.shape and s.values else s.norm for s in (c.gradient, c.total)]
            assert [found["gradient"][each], found["total"][each]] == pytest.approx(sizes, rel=1e-6)
            each += 1
    assert each == len(found["step"])


def test_norms_say_nan_and_inf():
    x = engine.tensor([0.0, 4.0]).requires_grad_()
    loss = engine.sqrt(x * engine.tensor([0.0, 1.0])).sum()
    r = retrace([loss.node], [loss])
    graph = Graph(r)
    stepper = Stepper.of(r, graph, loss)
    session = Session(r, graph)
    session.step_through(stepper)
    stepper.finish()
    found = columns(session, 1, stepper.total)
    assert numpy.isinf(found["gradient"][1]) and numpy.isnan(found["gradient"][2])


class Broken(autograd.Function):
    forward = staticmethod(lambda ctx, x: x * 1)

    @staticmethod
    def backward(ctx, g):
        raise ValueError("mine")


class Inside(autograd.Function):
    """Its backward runs a pass that fails, and one that does not."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.square()

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        with engine.enable_grad():
            again = x.detach().requires_grad_()
            with pytest.raises(ValueError, match="mine"):
                Broken.apply(again).sum().backward()
            (slope,) = autograd.grad(again.square().sum(), again)
        return slope * g


def test_a_pass_that_a_step_of_another_begins_is_listed_and_leaves_the_other_whole():
    x = leaf(3)

    def cell():
        (Inside.apply(x * 2).sum() * 3).backward()
        (x * x).sum().backward()

    session = watched(cell)
    outer, *inner, last = session.passes
    assert [len(outer.taken), outer.failed, outer.failure] == [outer.total, False, ""]
    assert [one.failed for one in inner] == [True, False]
    assert [type(taken.node.op).__name__ if taken.node.op is None else taken.node.op.name for taken in outer.taken] == [
        "mul", "sum", "Inside", "mul", "NoneType",
    ]  # fmt: skip
    assert session.stepper is last and last.total == 3
    outer.to(outer.total)
    assert numpy.allclose(outer.gradient(outer.recording.find(x))[0], 3 * 2 * 2 * 2 * x.detach().numpy())


def test_a_pass_is_held_up_as_ever_where_its_steps_run_others():
    """As with checkpoint(use_reentrant=True): the pass inside runs through, the one around it waits at every step."""
    x, model = leaf(2, 3), nn.Sequential(nn.Linear(3, 3), nn.Tanh())
    loss = checkpoint(model, x, use_reentrant=True).sum()
    recorder, places = Recorder("In [1]"), []
    session = Session(recorder.recording)

    def wait(stepper):
        places.append((session.stepper is stepper, stepper.total, stepper.index))
        stepper.next()

    watcher = PassWatcher(session, recorder, wait, dict)
    with observe.observing(watcher):
        loss.backward()
    watcher.close()
    recorder.stop()
    assert places == [(True, 3, 0), (True, 3, 1), (True, 3, 2)]
    assert [one.total for one in session.passes] == [3, 5] and not any(one.failed for one in session.passes)


def test_going_back_in_a_held_pass_takes_back_what_passes_inside_its_steps_added():
    """Two reentrant checkpoints share their parameters, which are no leaves of the pass around them."""
    engine.manual_seed(0)
    x, model = leaf(2, 3), nn.Sequential(nn.Linear(3, 3), nn.Tanh())
    leaves = [*model.parameters(), x]

    def gradients():
        return [None if p.grad is None else p.grad.numpy().tobytes() for p in leaves]

    def run():
        return checkpoint(model, checkpoint(model, x, use_reentrant=True), use_reentrant=True).sum()

    run().backward()
    wanted = gradients()
    for p in leaves:
        p.grad = None
    recorder, seen = Recorder("In [1]"), []
    session = Session(recorder.recording)

    def wait(stepper):
        here = len(stepper.taken)
        seen.append(gradients())
        for place in (0, here, *range(here), *range(here, -1, -1)):
            stepper.to(place)
            assert gradients() == seen[place], (here, place)
        stepper.to(here)
        stepper.next()

    watcher, loss = PassWatcher(session, recorder, wait, dict), run()
    with observe.observing(watcher):
        loss.backward()
    watcher.close()
    recorder.stop()
    assert gradients() == wanted and [one is None for one in seen[1]] == [True] * 3
    assert len({tuple(one) for one in [*seen, wanted]}) == 4


def test_a_wish_to_stop_between_two_passes_is_heard():
    """A view's wish comes on a thread of its own, a subshell's: when a pass is over and the next has not begun, too."""
    w, waited = leaf(2), []
    recorder = Recorder()
    session = Session(recorder.recording)

    def wait(stepper):
        waited.append(len(session.passes))
        if len(waited) == 1:
            stepper.run(())  # on through all passes
        else:
            stepper.wanted = stepper.total

    watcher = PassWatcher(session, recorder, wait, dict)
    with observe.observing(watcher):
        w.sum().backward()
        w.sum().backward()
        ask(session, type="step", do="stop", to=-1, by="op")
        w.sum().backward()
    watcher.close()
    recorder.stop()
    assert waited[:2] == [1, 3]
