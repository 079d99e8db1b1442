"""`engine.compile` through XLA: programs have the effects and results of the eager call, and what cannot be compiled is named."""

from __future__ import annotations

import gc
import math
import os
import threading
import weakref
from contextvars import ContextVar

import numpy
import pytest

import engine
from engine import nn, optim
from engine.base import observe

pytest.importorskip("jax")

from engine.backends.xla import TraceError

F = nn.functional


def make(build, dtype=engine.float64):
    """The same model twice, with its optimizer: `build()` returns (model, optimizer, arguments, loss)."""
    engine.set_default_dtype(dtype)
    try:
        twins = []
        for _ in range(2):
            engine.manual_seed(0)
            twins.append(build())
        return twins
    finally:
        engine.set_default_dtype(engine.float32)


def step_of(model, optimizer, loss):
    def step(x, y):
        optimizer.zero_grad()
        found = loss(model(x), y)
        found.backward()
        optimizer.step()
        return found

    return step


def programs(compiled):
    return [plan for plans in compiled.plans.values() for _, plan in plans]


# -- models ----------------------------------------------------------------------------------------------------------------------


def mlp():
    model = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 3))
    return model, optim.Adam(model.parameters(), lr=1e-2), (engine.randn(8, 6), engine.randint(0, 3, (8,))), F.cross_entropy


def cnn():
    model = nn.Sequential(
        nn.Conv2d(1, 4, 3, padding=1, bias=False), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(4, 6, 3, stride=2, groups=2),
        nn.GELU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(6, 3),
    )  # fmt: skip
    given = engine.randn(4, 1, 10, 10), engine.randint(0, 3, (4,))
    return model, optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-3), given, F.cross_entropy


class Gpt(nn.Module):
    def __init__(self, words=11, width=8, length=6):
        super().__init__()
        self.token, self.place = nn.Embedding(words, width), nn.Embedding(length, width)
        self.norm, self.qkv, self.out = nn.LayerNorm(width), nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.drop, self.head = nn.Dropout(0.2), nn.Linear(width, words, bias=False)
        self.head.weight = self.token.weight
        self.register_buffer("mask", engine.tril(engine.ones(length, length)) == 0)

    def forward(self, ids):
        x = self.token(ids) + self.place(engine.arange(ids.shape[1]))
        q, k, v = self.qkv(self.norm(x)).chunk(3, -1)
        weights = (q @ k.mT / math.sqrt(q.shape[-1])).masked_fill(self.mask, -math.inf).softmax(-1)
        return self.head(x + self.drop(self.out(self.drop(weights) @ v)))


def gpt():
    model, ids = Gpt(), engine.randint(0, 11, (3, 7))
    given = ids[:, :-1].contiguous(), ids[:, 1:].contiguous()
    return model, optim.AdamW(model.parameters(), lr=1e-2), given, lambda out, y: F.cross_entropy(out.reshape(-1, 11), y.reshape(-1))


class Reader(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn, self.out = nn.LSTM(5, 7, batch_first=True, bidirectional=True), nn.Linear(14, 2)

    def forward(self, x):
        return self.out(self.rnn(x)[0][:, -1])


def lstm():
    model = Reader()
    return model, optim.RMSprop(model.parameters(), lr=1e-2), (engine.randn(4, 6, 5), engine.randint(0, 2, (4,))), F.cross_entropy


# -- whole steps -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("build", [mlp, cnn, gpt, lstm], ids=lambda build: build.__name__)
def test_a_compiled_step_trains_as_an_eager_one_does(build):
    (model, optimizer, given, loss), (twin, optimizer2, given2, _) = make(build)
    eager, compiled = step_of(model, optimizer, loss), engine.compile(step_of(twin, optimizer2, loss), fullgraph=True)
    schedules = [optim.lr_scheduler.StepLR(o, 4, 0.5) for o in (optimizer, optimizer2)]
    for i in range(12):
        engine.manual_seed(i)
        expected = eager(*given)
        engine.manual_seed(i)
        found = compiled(*given2)
        assert abs(found.item() - expected.item()) <= 1e-12 * abs(expected.item())
        for schedule in schedules:
            schedule.step()
    (program,) = programs(compiled)
    assert program.traces == 2  # one finds out what changes; a learning rate that changes needs no other
    for a, b in zip(model.state_dict().values(), twin.state_dict().values(), strict=True):
        numpy.testing.assert_allclose(b.numpy(), a.numpy(), rtol=1e-9, atol=1e-9)  # Adam divides gradients that should be 0 by their size
    for a, b in zip(model.parameters(), twin.parameters(), strict=True):
        numpy.testing.assert_allclose(b.grad.numpy(), a.grad.numpy(), rtol=1e-8, atol=1e-10)
    for a, b in zip(optimizer.state_dict()["state"].values(), optimizer2.state_dict()["state"].values(), strict=True):
        assert all(engine.allclose(a[k], b[k], rtol=1e-9) for k in a if isinstance(a[k], engine.Tensor))


def test_mixed_precision_with_a_scaler_and_clipping():
    (model, optimizer, (x, y), loss), (twin, optimizer2, _, _) = make(mlp, engine.float32)

    def training(model, optimizer):
        scaler = engine.amp.GradScaler("cpu", init_scale=2.0**14, growth_interval=3)

        def step(x, y):
            optimizer.zero_grad()
            with engine.autocast("cpu", dtype=engine.bfloat16):
                found = loss(model(x), y)
            scaler.scale(found).backward()
            scaler.unscale_(optimizer)
            norm = nn.utils.clip_grad_norm_(model.parameters(), 0.5)
            scaler.step(optimizer)
            scaler.update()
            return found.detach(), norm

        return step, scaler

    (eager, scaler), (function, scaler2) = training(model, optimizer), training(twin, optimizer2)
    compiled = engine.compile(function, fullgraph=True)
    for i in range(9):
        scale = math.inf if i == 6 else 1.0  # this step is skipped, and the loss scale halved
        (expected, norm), (found, norm2) = eager(x * scale, y), compiled(x * scale, y)
        assert found.item() == pytest.approx(expected.item(), rel=1e-3, nan_ok=True) and norm2.item() == pytest.approx(
            norm.item(), rel=1e-3, nan_ok=True
        )
        assert scaler.get_scale() == scaler2.get_scale()
    assert len(programs(compiled)) == 1
    assert all(engine.allclose(a, b, rtol=1e-3, atol=1e-5) for a, b in zip(model.parameters(), twin.parameters(), strict=True))


def test_gradients_accumulate_over_compiled_calls():
    (model, _, (x, y), loss), (twin, _, _, _) = make(mlp)

    def part(model):
        def run(x, y):
            loss(model(x), y).backward()

        return run

    eager, compiled = part(model), engine.compile(part(twin), fullgraph=True)
    for i in range(7):
        eager(x, y)
        compiled(x, y)
        assert all(engine.allclose(p.grad, q.grad) for p, q in zip(model.parameters(), twin.parameters(), strict=True))
        if i == 3:
            model.zero_grad()
            twin.zero_grad()


# -- calls whose backward pass runs outside -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("build", [cnn, gpt], ids=lambda build: build.__name__)
def test_a_compiled_module_in_an_eager_loop(build):
    (model, optimizer, given, loss), (twin, optimizer2, _, _) = make(build)
    compiled = engine.compile(twin, fullgraph=True)
    for i in range(6):
        losses = []
        for f, o in ((model, optimizer), (compiled, optimizer2)):
            engine.manual_seed(i)
            o.zero_grad()
            losses.append(loss(f(given[0]), given[1]))
            losses[-1].backward()
            o.step()
        assert losses[1].item() == pytest.approx(losses[0].item(), rel=1e-12)
    model.eval(), compiled.eval()
    with engine.no_grad():
        for _ in range(3):
            assert engine.allclose(compiled(given[0]), model(given[0]), rtol=1e-12)
    assert compiled._called.eager == {}


def test_gradients_of_inputs_and_of_several_results():
    def f(x, y):
        return {"product": (x * y).sin(), "same": y, "count": len(x)}, x.detach().sum()

    compiled = engine.compile(f, fullgraph=True)
    y = engine.tensor([1.0, 2.0, 3.0], requires_grad=True)
    for _ in range(3):
        x = engine.tensor([0.1, 0.2, 0.3], requires_grad=True)
        found, total = compiled(x * 2, y)
        assert found["same"] is y and found["count"] == 3 and not total.requires_grad and total.item() == pytest.approx(1.2)
        (gx, gy) = engine.autograd.grad(found["product"].sum(), (x, y))
        assert engine.allclose(gx, 2 * y * (2 * x * y).cos()) and engine.allclose(gy, 2 * x * (2 * x * y).cos())
    assert len(programs(compiled)) == 1


def test_a_graph_can_be_used_once_as_always():
    compiled = engine.compile(lambda x: x.exp().sum())
    x = engine.ones(3, requires_grad=True)
    for _ in range(3):
        out = compiled(x)
    out.backward(retain_graph=True)
    out.backward()
    assert x.grad.tolist() == pytest.approx([2 * math.e] * 3)
    with pytest.raises(RuntimeError, match="second time"):
        out.backward()
    with pytest.raises(NotImplementedError, match="second derivative"):
        engine.autograd.grad(compiled(x), x, create_graph=True)


def test_hooks_of_inputs_run_once():
    weight, seen = engine.ones(2, requires_grad=True), []
    weight.register_hook(lambda g: seen.append(g.tolist()) or g * 10)
    compiled = engine.compile(lambda x: (x * weight).sum(), fullgraph=True)
    for _ in range(3):
        weight.grad = None
        compiled(engine.tensor([1.0, 2.0])).backward()
        assert weight.grad.tolist() == [10, 20]
    assert seen == [[1, 2]] * 3


def test_an_input_that_was_overwritten_is_noticed():
    square = engine.compile(lambda x: (x * x).sum())
    x = engine.ones(3, requires_grad=True)
    for _ in range(3):
        out = square(x)
    with engine.no_grad():
        x.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.backward()


# -- state -------------------------------------------------------------------------------------------------------------------------


def test_the_state_stays_in_the_engines_tensors():
    model, optimizer, (x, y), loss = make(mlp)[0]
    before = model.state_dict()  # shares the memory, which therefore stays where it is
    compiled = engine.compile(step_of(model, optimizer, loss), fullgraph=True)
    for _ in range(3):
        compiled(x, y)
    weight = model[0].weight
    assert before["0.weight"].equal(weight) and before["0.weight"].data_ptr() == weight.data_ptr()
    view, saved = weight.detach(), {k: v.clone() for k, v in model.state_dict().items()}
    compiled(x, y)
    assert view.equal(weight) and not weight.equal(saved["0.weight"])
    model.load_state_dict(saved)
    assert compiled(x, y).item() == pytest.approx(loss(_with(saved)(x), y).item(), rel=1e-12)
    with engine.no_grad():
        for p in model.parameters():
            p.zero_()
    assert compiled(x, y).item() == pytest.approx(math.log(3))
    assert weight._version > 0 and len(programs(compiled)) == 1


def _with(state):
    model = make(mlp)[0][0]
    model.load_state_dict(state)
    return model


def test_writes_through_views_and_captured_tensors():
    def run(compiled):
        buffer, scale, seen = engine.zeros(3, 4), engine.ones(4), []

        def f(x):
            buffer[0] += 1
            buffer.view(-1)[5] = 7.0
            buffer.t()[1].mul_(2)
            buffer[:, ::2].add_(x)
            return (buffer * scale).sum(0)

        f = engine.compile(f, fullgraph=True) if compiled else f
        for i in range(5):
            seen.append(f(engine.full((3, 2), float(i))))
            scale.add_(1)
        return engine.stack(seen), buffer

    for a, b in zip(run(False), run(True), strict=True):
        assert a.equal(b)


def test_arguments_that_are_written():
    def f(x, y):
        x[0] = 5.0
        y.mul_(x.sum())
        return x.clone(), y + 1

    compiled = engine.compile(f, fullgraph=True)
    for i in range(4):
        a, b = [engine.full((3,), float(i)), engine.ones(2)], [engine.full((3,), float(i)), engine.ones(2)]
        for p, q in zip((*f(*a), *a), (*compiled(*b), *b), strict=True):
            assert p.equal(q)


def test_a_copy_of_the_state_is_a_copy():
    weight = engine.ones(3)

    def f():
        before = weight.clone()
        weight.mul_(2)
        return before, weight.clone(), weight

    compiled = engine.compile(f, fullgraph=True)
    found = [compiled() for _ in range(5)]
    assert [a[0].item() for a, _, _ in found] == [1, 2, 4, 8, 16] and [b[0].item() for _, b, _ in found] == [2, 4, 8, 16, 32]
    assert all(c is weight for _, _, c in found)


def test_memory_that_is_not_contiguous():
    def run(compiled):
        engine.manual_seed(0)
        layer = nn.Conv2d(2, 4, 3).to(memory_format=engine.channels_last)
        base = engine.arange(12.0).view(3, 4)
        part, x = base[:, 1:3], engine.randn(2, 2, 5, 5)

        def f(x):
            part.mul_(1.5)
            return layer(x).mean() + part.sum()

        f = engine.compile(f, fullgraph=True) if compiled else f
        found = [f(x) for _ in range(4)]
        assert layer.weight.is_contiguous(memory_format=engine.channels_last)
        return engine.stack(found), base

    for a, b in zip(run(False), run(True), strict=True):
        assert engine.allclose(a, b)


def test_nothing_stays_alive():
    model, optimizer, (x, y), loss = make(mlp)[0]
    compiled = engine.compile(step_of(model, optimizer, loss))
    for _ in range(3):
        compiled(x, y)
    seen = [weakref.ref(model), weakref.ref(model[0].weight), weakref.ref(programs(compiled)[0])]
    del model, optimizer, compiled
    gc.collect()
    assert [r() for r in seen] == [None] * 3


# -- guards ------------------------------------------------------------------------------------------------------------------------

factor = 2.0


def test_what_a_program_takes_for_granted_is_guarded():
    global factor
    net = nn.Linear(2, 2)
    net.power, box = 1, [0.5]
    extra = engine.ones(2)

    def f(x):
        return (net(x) * factor) ** net.power + shift + extra

    shift = 1.0
    compiled = engine.compile(f, recompile_limit=20)
    x = engine.ones(1, 2)

    def agrees():
        for _ in range(3):
            assert engine.allclose(compiled(x), f(x))

    agrees()
    factor = 3.0
    agrees()
    shift = -1.0
    agrees()
    net.power = 2
    agrees()
    net.weight = nn.Parameter(engine.ones(2, 2))
    agrees()
    extra = engine.zeros(2)
    agrees()
    net.eval()
    agrees()
    x = engine.ones(3, 2)
    agrees()
    with engine.no_grad():
        agrees()
    with engine.autocast("cpu", dtype=engine.bfloat16):
        agrees()
    assert box and compiled.eager == {}
    factor = 2.0


def test_hyperparameters_are_guarded_but_the_learning_rate_is_an_argument():
    model, optimizer, (x, y), loss = make(mlp)[0]
    compiled = engine.compile(step_of(model, optimizer, loss))
    for _ in range(3):
        compiled(x, y)
    optimizer.param_groups[0]["lr"] = 0.0
    before = [p.clone() for p in model.parameters()]
    compiled(x, y)
    assert all(map(engine.equal, before, model.parameters())) and len(programs(compiled)) == 1
    optimizer.param_groups[0]["weight_decay"] = 0.1
    for _ in range(3):
        compiled(x, y)
    assert len(programs(compiled)) == 2


def test_too_many_programs():
    holder = nn.Identity()
    holder.count = 0

    @engine.compile(recompile_limit=2)
    def f(x):
        return holder(x) + holder.count

    x, seen = engine.zeros(1), []
    with pytest.warns(UserWarning, match="2 programs have been made, the last because 'count' of Identity changed. f runs eagerly"):
        for holder.count in range(8):
            seen += [f(x).item() for _ in range(2)]
    assert seen == [i for i in range(8) for _ in range(2)]


def test_a_function_that_changes_what_it_reads_is_not_compiled():
    holder = nn.Identity()
    holder.count = 0

    @engine.compile
    def f(x):
        holder.count += 1
        return holder(x) + holder.count

    with pytest.warns(UserWarning, match=r"changes '\w+' of Identity \(test_compile.py, line \d+\), which a program would"):
        assert [f(engine.zeros(1)).item() for _ in range(4)] == [1, 2, 3, 4]


# -- what cannot be compiled -------------------------------------------------------------------------------------------------------


kept = ContextVar("kept")


def _decision(x):
    return x if x.sum() > 0 else -x


def _keeps(x):
    kept.set(x * 2)
    return x.sum()


REFUSED = {
    "a decision": (_decision, r"a decision \(if, while, and, or, assert\) needs the value .* \(test_compile.py, line \d+\); use where"),
    "item": (lambda x: x * x.sum().item(), r"\.item\(\) needs the value of a tensor"),
    "int": (lambda x: x * int(x.sum()), r"(int|item)\(\) needs the value"),
    "size": (lambda x: x.reshape(-1, x.sum().long() // 5), "needs the value of a tensor"),
    "mask": (lambda x: x[x > 0].sum(), r"x\[mask\], which has as many elements as the mask has True, needs the value .* use where"),
    "numpy": (lambda x: engine.from_numpy(x.numpy() * 2), "NumPy needs the value of a tensor"),
    "tolist": (lambda x: engine.tensor(x.tolist()), r"needs the value of a tensor"),
    "print": (lambda x: (print(end=""), x)[1], r"print\(\) would run only while the function is traced \(test_compile.py, line \d+\)"),
    "keeps": (_keeps, r"a tensor that the step computed \(mul, test_compile.py, line \d+\) is kept outside of it; return it"),
    "numpy.random": (lambda x: x * numpy.random.rand(), r"draws from numpy\.random \(test_compile.py, line \d+\)"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_has_no_compiled_form_runs_eagerly_with_one_warning(name):
    function, message = REFUSED[name]
    x = engine.tensor([[1.0, 2.0], [3.0, 4.0]])
    compiled = engine.compile(function)
    with pytest.warns(UserWarning, match=message) as warned:
        for _ in range(4):
            numpy.random.seed(0)
            found = compiled(x)
        numpy.random.seed(0)
        assert found.equal(function(x))
    assert len(warned) == 1
    whole = engine.compile(function, fullgraph=True)
    with pytest.raises(TraceError, match=message):
        for _ in range(2):
            whole(x)
    assert not engine.compiler.is_compiling() and engine.is_grad_enabled()
    assert engine.compile(lambda x: x + 1)(x).equal(x + 1)  # nothing of the failed trace is left


def test_a_program_that_fails_fails_as_always():
    compiled = engine.compile(lambda x, y: x @ y)
    for _ in range(3):
        with pytest.raises(RuntimeError, match="matmul"):
            compiled(engine.ones(2, 3), engine.ones(2, 3))


# -- watching ------------------------------------------------------------------------------------------------------------------------


class Ops(observe.Observer):
    def __init__(self):
        self.names = []

    def op(self, op, inputs, attrs, output):
        self.names.append(op.name)


def test_one_tensor_as_two_arguments():
    def use(a, b):
        a.mul_(2)
        (a * b).sum().backward()
        return a + b

    def leaves():
        x, y = engine.randn(3, 4), engine.randn(3, 4, requires_grad=True)
        return x, y, x.clone(), y.detach().clone().requires_grad_()

    compiled = engine.compile(lambda a, b, c: use(a.detach(), b) + (b * c).sum())
    for same in (True, False, True, True, False, False):  # in turns: a program is for one of the two
        x, y, x2, y2 = leaves()
        c, c2 = (y, y2) if same else (engine.ones(3, 4), engine.ones(3, 4))
        found, wanted = compiled(x, y, c), use(x2.detach(), y2) + (y2 * c2).sum()
        assert (
            numpy.allclose(found.detach(), wanted.detach(), rtol=1e-6)
            and numpy.allclose(x, x2)
            and numpy.allclose(y.grad, y2.grad, rtol=1e-6)
        )
        found.sum().backward(), wanted.sum().backward()
        assert numpy.allclose(y.grad, y2.grad, rtol=1e-6)
    written = engine.compile(lambda a, b: a.add_(1) * b)
    for _ in range(4):
        x = engine.ones(2)
        assert written(x, x).tolist() == [4, 4] and x.tolist() == [2, 2]
        assert written(x, engine.ones(2)).tolist() == [3, 3] and x.tolist() == [3, 3]
    model = nn.Linear(5, 5)
    step, x = engine.compile(step_of(model, optim.SGD(model.parameters(), lr=0.1), F.mse_loss)), engine.randn(8, 5)
    losses = [step(x, x).item() for _ in range(5)]
    assert losses == sorted(losses, reverse=True)
    for one in (compiled, written, step):
        assert one.eager == {} and sum(map(len, one.plans.values())) == 2 - (one is step)


@pytest.mark.parametrize("look", [lambda grad: grad, lambda grad: grad.detach(), lambda grad: grad.numpy(), lambda grad: grad.numpy().base])
def test_an_old_gradient_and_a_parameter_that_something_looks_at_stay_as_they_are(look):
    model = nn.Linear(30, 30)
    weight = model.weight.data.numpy()
    step = engine.compile(step_of(model, optim.SGD(model.parameters(), lr=0.1), F.mse_loss))
    x = engine.randn(8, 30)
    for _ in range(3):
        step(x, x)
        kept = look(model.weight.grad)
        before = bytes(memoryview(numpy.asarray(kept)))
        step(x, x)
        assert bytes(memoryview(numpy.asarray(kept))) == before
        assert numpy.array_equal(weight, model.weight.data.numpy())
    assert step.eager == {}


def test_a_call_that_is_watched_runs_op_by_op_on_the_same_state():
    (model, optimizer, (x, y), loss), (twin, optimizer2, _, _) = make(mlp)
    eager, compiled = step_of(model, optimizer, loss), engine.compile(step_of(twin, optimizer2, loss), fullgraph=True)
    for i in range(8):
        expected, watcher = eager(x, y).item(), Ops()
        if i in (4, 5):
            with observe.observing(watcher):
                found = compiled(x, y)
            assert "cross_entropy" in watcher.names
        else:
            found = compiled(x, y)
        assert found.item() == pytest.approx(expected, rel=1e-12)
    assert len(programs(compiled)) == 1


# -- how it is called ----------------------------------------------------------------------------------------------------------------


def test_methods_keywords_nesting_threads_and_reset():
    class Model:
        def __init__(self, factor):
            self.factor = engine.tensor(factor)

        @engine.compile
        def times(self, x, *, twice=False):
            return x * self.factor * (2 if twice else 1)

    two, three, x = Model(2.0), Model(3.0), engine.ones(1)
    for _ in range(3):
        assert [two.times(x).item(), three.times(x).item(), two.times(x, twice=True).item()] == [2, 3, 4]
    assert Model.times.__name__ == "times" and len(programs(Model.times)) == 3

    outer = engine.compile(lambda x: two.times(x) + 1, fullgraph=True)
    assert [outer(x).item() for _ in range(3)] == [3, 3, 3]

    found = []
    threads = [threading.Thread(target=lambda: found.extend(outer(x).item() for _ in range(20))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [3.0] * 60

    engine.compiler.reset()
    assert programs(outer) == [] and outer(x).item() == 3


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_forked_process_runs_eagerly():
    compiled, x = engine.compile(lambda x: x * 2), engine.ones(1)
    for _ in range(3):
        compiled(x)
    reader, writer = os.pipe()
    if not (child := os.fork()):
        os.write(writer, b"%d" % compiled(x).item())
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(reader, 8) == b"2" and compiled(x).item() == 2


def test_another_object_at_the_same_address_is_another_argument():
    class Setting:
        def __init__(self, factor):
            self.factor = factor

    compiled, found = engine.compile(lambda x, setting: x * setting.factor), []
    for factor in (2.0, 3.0, 4.0):
        setting = Setting(factor)  # the one before is freed, and this one may lie in its place
        found += [compiled(engine.ones(1), setting).item() for _ in range(3)]
        del setting
    assert found == [2.0] * 3 + [3.0] * 3 + [4.0] * 3


def test_a_module_is_compiled_in_place():
    net, x = nn.Sequential(nn.Linear(2, 2), nn.Tanh()), engine.ones(1, 2)
    expected = net(x)
    net.compile(fullgraph=True)
    for _ in range(3):
        assert engine.allclose(net(x), expected)
    assert len(programs(net.forward)) == 1 and list(net.state_dict()) == ["0.weight", "0.bias"]


def test_without_jax_one_sentence(monkeypatch):
    from engine import compiler

    compiler._available.cache_clear()
    monkeypatch.setattr(compiler.importlib.util, "find_spec", lambda name: None)
    with pytest.warns(UserWarning, match=r"JAX is not installed, so programs run eagerly. Install gradient-workbench\[xla\]"):
        double = engine.compile(lambda x: x * 2)
    assert double(engine.ones(1)).item() == 2
    assert engine.compile(lambda x: x * 3)(engine.ones(1)).item() == 3  # without a second warning
    compiler._available.cache_clear()
