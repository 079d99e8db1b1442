"""The recorder: what it writes down, what it never keeps, and how much it costs."""

from __future__ import annotations

import gc
import random
import threading
import weakref

import numpy
import pytest
from walked import PROGRAMS, leaf

import engine
import workbench as wb
from engine import autograd, nn
from engine.base import observe
from engine.core import tape, versions
from engine.data import DataLoader, Dataset
from workbench.recording.recorder import Recorder
from workbench.recording.recording import Recording


def recorded(fn, **options) -> tuple[Recorder, object]:
    recorder = Recorder(**options)
    with observe.observing(recorder):
        result = fn()
    recorder.stop()
    return recorder, result


def test_one_row_for_each_op_and_each_tensor_from_outside():
    x, w = leaf(2, 4).detach(), leaf(4, 3)
    recorder, _ = recorded(lambda: engine.tanh(x @ w).sum())
    r = recorder.recording
    assert [r.op_name(i) or r.kind[i] for i in range(r.count)] == ["input", "leaf", "matmul", "tanh", "sum"]
    assert r.shape[: r.count] == [(2, 4), (4, 3), (2, 3), (2, 3), ()]
    assert [r.inputs(i) for i in range(r.count)] == [[], [], [(0, 0), (1, 1)], [(2, 0)], [(3, 0)]]
    assert r.grad == [False, True, True, True, True]
    assert r.bytes == [32, 48, 24, 24, 4]


def test_a_number_is_a_constant_and_none_is_nothing():
    x = leaf(2)
    recorder, _ = recorded(lambda: (2.5 * x, nn.functional.linear(leaf(1, 2), leaf(3, 2))))
    r = recorder.recording
    assert [r.names[i] for i in range(r.count) if r.kind[i] == "constant"] == ["2.5"]
    linear = next(i for i in range(r.count) if r.op_name(i) == "linear")
    assert [slot for _, slot in r.inputs(linear)] == [0, 1]


def test_parameters_leaves_and_inputs_are_told_apart():
    layer = nn.Linear(2, 2)
    recorder, _ = recorded(lambda: layer(leaf(1, 2)) + engine.ones(2))
    kinds = [k for k in recorder.recording.kind if k != "op"]
    assert sorted(kinds) == ["input", "leaf", "parameter", "parameter"]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_every_node_of_the_tape_has_a_row(program):
    _, run = program()
    recorder, loss = recorded(run)
    r = recorder.recording
    assert all(r.row_of(node) >= 0 for node in tape.plan([loss.node]))
    assert r.ops[r.row_of(loss.node)] is loss.node.op
    assert all(source < target for source, target in zip(r.source, r.target, strict=True))


def test_the_line_is_the_users_not_the_engines():
    layer = nn.Linear(2, 2)
    recorder, _ = recorded(lambda: layer(leaf(1, 2)).relu())
    codes = {code.co_filename for code in recorder.recording.code if code is not None}
    assert codes == {__file__}


def lines_of(r: Recording) -> list[tuple[str, str, int]]:
    """`(op, function, line in it)` of each op, the `def` being line 0."""
    found = []
    for row in range(r.count):
        code = r.code[row]
        if code is not None:
            line = list(code.co_positions())[r.lasti[row] // 2][0]
            found.append((r.op_name(row), code.co_name, line - code.co_firstlineno))
    return found


def test_ops_inside_composites_have_the_line_of_the_call():
    def halved(x):
        return x.t() * 0.5

    def run():
        x = leaf(2, 3)
        for _ in range(2):  # what the recorder has learned in the first round holds in the second
            y = x.view(3, 2)
            z = y.t()
            w = nn.functional.huber_loss(
                halved(z),
                x.exp().t(),
            )
            w.neg()

    recorder, _ = recorded(run)
    found = lines_of(recorder.recording)
    first = found[: len(found) // 2]
    assert found == first * 2
    assert first[:5] == [("view", "run", 3), ("permute", "run", 4), ("permute", "halved", 1), ("mul", "halved", 1), ("exp", "run", 7)]
    assert first[5] == ("permute", "run", 7)
    assert {(function, line) for _, function, line in first[6:-1]} == {("run", 5)}
    assert first[-1] == ("neg", "run", 9)


def test_ops_of_a_users_own_composite_have_its_lines():
    def mine(x):
        y = x.exp()
        return y.t()

    def run():
        for _ in range(2):
            with observe.scope("mine", "function", mine):
                mine(leaf(2, 2))
            with observe.scope("of nothing", "function"):
                leaf(2).neg()

    recorder, _ = recorded(run)
    assert lines_of(recorder.recording) == [("exp", "mine", 1), ("permute", "mine", 2), ("neg", "run", 5)] * 2


def test_scopes_are_modules_composites_and_the_users_own():
    model = nn.Sequential(nn.Linear(2, 2), nn.Sequential(nn.ReLU()))

    def run():
        with observe.scope("head"):
            return model(leaf(1, 2))

    recorder, _ = recorded(run)
    found = [(s.kind, s.name, s.label, s.parent) for s in recorder.recording.scopes]
    assert found[:3] == [("scope", "head", "head", -1), ("module", "Sequential", "Sequential", 0), ("module", "0", "Linear", 1)]
    assert ("module", "1.0", "ReLU", 3) in found


def test_no_tensor_and_no_node_is_kept_alive():
    gc.disable()
    try:
        recorder = Recorder()
        with observe.observing(recorder):
            x = leaf(3)
            y = (x * x).tanh()
            loss = y.sum()
            loss.backward()
        recorder.stop()
        tensors = [weakref.ref(t) for t in (x, y, loss)]
        nodes = [weakref.ref(t.node) for t in (y, loss)]
        array = weakref.ref(y.array)
        del x, y, loss
        assert [t() for t in tensors] == [None] * 3
        assert [n() for n in nodes] == [None] * 2
        assert array() is not None  # under the budget its numbers are held
        recording = weakref.ref(recorder.recording)
        del recorder
        assert recording() is None
        assert array() is None
    finally:
        gc.enable()


def test_after_the_limit_ops_are_only_counted():
    x = leaf(2)

    def run():
        h = x
        for _ in range(50):
            h = h + h
        return h

    recorder, _ = recorded(run, limit=20)
    assert recorder.recording.count == 20
    assert recorder.recording.dropped == 50 - 19


def test_kept_arrays_stay_under_the_budget_and_the_newest_stay():
    x = engine.ones(1000)

    def run():
        h = x
        for _ in range(20):
            h = h + 1
        return None

    recorder, _ = recorded(run, keep=5 * 4000)
    r = recorder.recording
    assert r.kept_bytes <= 5 * 4000
    ops = [i for i in range(r.count) if r.kind[i] == "op"]
    assert [r.value(i) is not None for i in ops] == [False] * 15 + [True] * 5
    numpy.testing.assert_array_equal(r.value(ops[-1]), numpy.full(1000, 21, numpy.float32))


def test_a_view_pays_for_the_memory_that_it_holds():
    recorder, _ = recorded(lambda: [(engine.zeros(1000) + 1)[:2] for _ in range(10)] and None, keep=3 * 4000)
    r = recorder.recording
    assert r.kept_bytes <= 3 * 4000
    owners = {id(a.base if a.base is not None else a) for i, a in r.kept.items() if r.kind[i] == "op"}
    assert len(owners) <= 3


@pytest.mark.parametrize("seed", range(8))
def test_what_is_held_is_counted_once_for_each_storage(seed):
    """Against counting the storages of all held arrays, after every op of a random program of results, views and writes."""
    rng = random.Random(seed)
    recorder = Recorder(keep=6 * 400)
    r = recorder.recording
    with observe.observing(recorder):
        pool = [engine.ones(100) + 1]
        for _ in range(150):
            v = rng.choice(pool)
            kind = rng.choice(["new", "view", "view", "write"])
            if kind == "new":
                pool.append(v.reshape(-1)[:1] + engine.ones(rng.choice([10, 100])))
            elif kind == "view":
                pool.append(v[: rng.randrange(1, len(v) + 1)])
            else:
                v.mul_(0.5)
            del pool[: max(0, len(pool) - rng.randrange(1, 8))]
            held = {id(versions.storage(a)): versions.storage(a).nbytes for row, a in r.kept.items() if r.kind[row] != "constant"}
            assert r.kept_bytes == sum(held.values()) <= r.keep
            alive = {id(versions.storage(t.array)) for t in (held_by() for held_by in r.ref if held_by is not None) if t is not None}
            assert r.held_alone() == sum(size for key, size in held.items() if key not in alive)
    assert r.released > 50


def test_a_later_recording_takes_the_room_of_earlier_ones(monkeypatch):
    monkeypatch.setattr("workbench.recording.recording.KEEP", 1000)
    first, _ = recorded(lambda: engine.ones(500) + 1)
    assert first.recording.kept_bytes > 1000
    Recording()
    assert first.recording.kept_bytes == 0


def test_an_in_place_write_is_seen_and_the_old_value_is_known_to_be_gone():
    x = leaf(3)
    recorder = Recorder()
    with observe.observing(recorder):
        y = x * 2
        y.add_(1)
    r = recorder.recording
    made, wrote = (i for i in range(r.count) if r.op_name(i) in ("mul", "add"))
    assert r.note[wrote] == "in place"
    assert r.overwritten(made) and not r.overwritten(wrote)
    assert r.find(y) == wrote
    y.mul_(3)
    assert r.overwritten(wrote)


def test_a_write_through_a_view_makes_a_row_for_the_base_as_well():
    x = leaf(2, 2)

    def run():
        y = x * 1
        row = y[0]
        row.mul_(5)
        return y.sum()

    recorder, loss = recorded(run)
    r = recorder.recording
    assert any(note.startswith("written through its view") for note in r.note)
    assert all(r.row_of(node) >= 0 for node in tape.plan([loss.node]))


def test_a_failed_op_leaves_its_sentence_in_the_partial_graph():
    recorder = Recorder()
    with observe.observing(recorder), pytest.raises(RuntimeError) as caught:
        leaf(2, 3) @ leaf(2, 3)
    r = recorder.recording
    assert r.op_name(r.failure) == "matmul"
    assert r.note[r.failure] == str(caught.value)
    assert len(r.inputs(r.failure)) == 2


def test_other_threads_are_not_recorded():
    recorder = Recorder()
    with observe.observing(recorder):
        thread = threading.Thread(target=lambda: leaf(2) + 1)
        thread.start()
        thread.join()
    assert recorder.recording.count == 0


def test_ops_of_a_recorded_backward_stand_in_a_group_of_their_own():
    x = leaf(2)
    recorder = Recorder()
    with observe.observing(recorder):
        (x * x * x).sum().backward(create_graph=True)
        y = x + 1
    r = recorder.recording
    inside = [r.op_name(i) for i in range(r.count) if r.scope[i] >= 0 and r.scopes[r.scope[i]].name == "backward" and r.kind[i] == "op"]
    assert "mul" in inside
    assert r.scope[r.find(y)] == -1


def test_a_pass_that_failed_does_not_swallow_what_comes_after():
    x = leaf(2)
    recorder = Recorder()
    with observe.observing(recorder):
        y = x.exp()
        loss = y.sum()
        y.add_(1)
        with pytest.raises(RuntimeError):
            loss.backward()
        z = x + 1
    assert recorder.recording.scope[recorder.recording.find(z)] == -1


def test_memory_goes_back_when_tensors_and_the_tape_go():
    x = leaf(1000)
    recorder = Recorder()
    with observe.observing(recorder):
        y = (x * 2).tanh()
        loss = y.sum()
        before = recorder.recording.now
        loss.backward()
        del y, loss
    r = recorder.recording
    r.settle()
    assert before >= 3 * 4000 - 4000
    assert r.peak >= before
    assert r.now == 2 * 4000  # x and its gradient


class Rows(Dataset):
    """Makes its samples by ops, scopes and a write in place."""

    def __init__(self, made: engine.Tensor) -> None:
        self.made = made

    def __len__(self) -> int:
        return len(self.made)

    def __getitem__(self, i: int) -> engine.Tensor:
        with observe.scope("augment"):
            row = self.made[i] * 2
        return row.add_(1) if not row.requires_grad else row + 1


def test_what_loads_a_batch_is_not_recorded_and_nothing_of_it_is_counted_as_missing():
    x = engine.arange(12.0).reshape(6, 2)
    recorder, out = recorded(lambda: [(batch * batch).sum().item() for batch in DataLoader(Rows(x), batch_size=3)])
    r = recorder.recording
    assert [r.op_name(i) or r.kind[i] for i in range(r.count)] == ["input", "mul", "sum"] * 2 and r.dropped == 0
    assert r.scopes == [] and not recorder.resting
    wanted = (2 * numpy.arange(12.0).reshape(2, 3, 2) + 1) ** 2
    assert out == wanted.sum((1, 2)).tolist()


def test_a_batch_that_depends_on_leaves_is_an_input_with_a_gradient():
    w = leaf(6, 2)
    recorder, _ = recorded(lambda: [batch.sum().backward() for batch in DataLoader(Rows(w), batch_size=3)])
    r = recorder.recording
    assert [r.op_name(i) or r.kind[i] for i in range(r.count) if r.kind[i] in ("op", "input")] == ["input", "sum"] * 2
    assert r.grad[0] and (w.grad.array == 2).all()


def test_an_error_and_a_rest_in_a_loader_leave_the_recording_as_it_was():
    def run() -> None:
        loader = DataLoader(Rows(engine.ones(3)), collate_fn=lambda samples: samples[0] @ engine.ones(2, 2, 2).sum())
        with pytest.raises(RuntimeError):
            next(iter(loader))
        engine.ones(2) * 3

    recorder, _ = recorded(run)
    r = recorder.recording
    assert r.op_name(r.failure) == "matmul"  # what failed is recorded, wherever it was
    assert [r.op_name(i) for i in range(r.count) if r.ops[i] is not None] == ["matmul", "mul"] and not recorder.resting


class Squared(autograd.Function):
    """As a course writes it: its backward runs ops, and a pass of its own."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        with engine.enable_grad():
            again = x.detach().requires_grad_()
            (slope,) = autograd.grad((again * again).sum(), again)
        return slope * g


def test_what_the_programs_own_code_runs_in_a_pass_is_told_to_be_of_it():
    x = engine.randn(3, requires_grad=True)

    def run():
        y = x.exp()
        y.register_hook(lambda g: g * 3)
        x.register_hook(lambda g: g - 1)
        (g,) = autograd.grad(Squared.apply(y).sum(), x, create_graph=True)
        return g.sum()

    with wb.record() as session:
        loss = run()
        after = loss * 2
    r = session.recording
    noted = [(r.op_name(row), r.note[row].partition(" #")[0], r.note[row].count(";")) for row in range(r.count) if r.note[row]]
    assert ("mul", "in the backward of Squared", 0) in noted
    assert ("mul", "in a hook on the gradient of exp", 0) in noted
    assert ("sub", "in a hook on the gradient of", 0) in noted
    assert ("mul", "derivative of exp", 0) in noted  # after all those
    inside = [r.op_name(row) for row in range(r.count) if r.op_name(row) and r.scope[row] >= 0]
    assert inside.count("sub") == 1 and inside.count("sum") == 1  # Squared's own, not the last
    assert r.scope[r.rows[id(loss)]] == r.scope[r.rows[id(after)]] == -1


def test_the_backward_pass_of_a_recurrent_layer_adds_no_op_to_the_graph():
    layer = nn.RNN(2, 3)
    with wb.record() as session:
        loss = layer(engine.randn(4, 1, 2))[0].sum()
        count = session.recording.count
        loss.backward()
    assert session.recording.count == count
    assert layer.weight_ih_l0.grad.abs().min() > 0


def test_a_pass_that_an_exception_ended_in_a_step_is_over():
    class Broken(autograd.Function):
        forward = staticmethod(lambda ctx, x: x * 1)

        @staticmethod
        def backward(ctx, g):
            raise ValueError("mine")

    x = engine.randn(3, requires_grad=True)
    with wb.record() as session:
        for _ in range(2):
            with pytest.raises(ValueError, match="mine"):
                Broken.apply(x.exp()).sum().backward()
        y = x.exp()
    r = session.recording
    assert [scope.parent for scope in r.scopes] == [-1, -1]
    assert r.scope[r.rows[id(y)]] == -1 and r.note[r.rows[id(y)]] == ""
