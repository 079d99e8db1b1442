"""The memory view: what a program needs when and why, its categories, its peak, and what would change it."""

from __future__ import annotations

import contextlib
import gc
import mmap
import tracemalloc

import numpy
import pytest

import engine
import workbench as wb
from engine import autograd, nn, optim
from engine.base import observe
from engine.utils.checkpoint import checkpoint
from workbench.memory_use import Log, device, predict
from workbench.memory_use.ask import remembered
from workbench.recording.recording import recent


def ask(session, **request):
    """The answer of a session to one request, and its buffers."""
    ((message, buffers),) = session.handle({"v": 1, "id": 1, **request})
    assert message["type"] != "problem", message
    return message, buffers


# -- the machine -----------------------------------------------------------------------------------------------------------


def test_the_process_memory_is_what_the_system_says():
    before = device.resident()
    with mmap.mmap(-1, 64 << 20) as pages:  # new ones, not what malloc has kept
        pages.write(b"x" * (64 << 20))
        assert 60 << 20 <= device.resident() - before <= 140 << 20  # and perhaps the text that was written


def test_the_kernels_bytes_are_of_its_newest_recording_whichever_session_is_asked():
    with wb.record():
        x = engine.ones(1000) * 2
    older = remembered(None, {})
    with wb.record():
        y = engine.ones(10) * 2
        engine.ones(50) * 2
    told, _ = ask(older, type="ask_bytes")
    newest = list(recent)[-1]
    assert told["newest"] == newest.name and told["running"] is False and told["gpus"] == []
    assert told["live"] == newest.now and told["peak"] == newest.peak and told["peak"] >= 2 * 200
    assert told["resident"] > 10 << 20
    del x, y


# -- the log of events -------------------------------------------------------------------------------------------------------


def recorded(run):
    """A session on the recording of `run()`, and what it returned, which keeps its tensors alive."""
    with wb.record() as session:
        kept = run()
    return session, kept


def row_of(session, op, nth=0):
    r = session.recording
    return [row for row in range(r.count) if r.op_name(row) == op][nth]


def test_the_live_bytes_after_every_event_are_those_of_the_arrays_that_there_are():
    """Sizes by hand: 1,000 float32 are 4,000 bytes, and each array comes and goes where the program says."""

    def run():
        x = engine.ones(1000, requires_grad=True)
        a = x * 2  # x comes, a comes; a is not saved by anything
        b = a.exp()  # b comes, and is saved by exp
        del a  # nobody needs a now
        loss = b.sum()  # 4 bytes
        del b  # saved: it stays
        loss.backward()
        return x, loss

    session, (x, loss) = recorded(run)
    log = Log(session.recording)
    # x, a, b, -a, loss | backward: the gradient of b is spread from one number; exp's, saved b goes; mul's; x.grad, and those in flight go
    assert log.live[:5].tolist() == [4000, 8000, 12000, 8000, 8004]
    assert log.now == x.array.nbytes + x.grad.array.nbytes + loss.array.nbytes == 8004
    assert log.peak == log.live.max() == session.recording.peak and log.live[-1] == session.recording.now
    assert (log.bands().sum(1) == log.live).all() and (log.bands() >= 0).all()
    steps = [at for at in range(log.count) if log.where[at] < 0]
    assert steps and min(steps) > 4


def test_each_category_has_the_bytes_of_its_arrays():
    model = nn.Linear(100, 50)
    optimizer = optim.Adam(model.parameters())
    x = engine.ones(20, 100)

    def run():
        loss = model(x).tanh().sum()
        loss.backward()
        optimizer.step()
        with engine.no_grad():
            free = x * 2
        return loss, free

    session, (loss, free) = recorded(run)
    told, _ = ask(session, type="ask_memory")
    now = {total["category"]: total["now"] for total in told["totals"]}
    parameters = sum(p.array.nbytes for p in model.parameters())
    state = sum(s.array.nbytes for states in optimizer.state.values() for s in states.values() if isinstance(s, engine.Tensor))
    room = sum(array.nbytes for arrays in optimizer._scratch.values() for array in arrays)
    assert now == {
        "parameter": parameters, "gradient": parameters, "activation": loss.array.nbytes, "saved": 0, "optimizer": state + room,
        "input": x.array.nbytes, "temporary": free.array.nbytes,
    }  # fmt: skip
    assert sum(now.values()) == told["live"]
    peak = {total["category"]: total["peak"] for total in told["totals"]}
    assert sum(peak.values()) == told["peak"]
    names = {held["name"] for held in told["holdings"]}
    assert {"exp_avg of weight", "exp_avg_sq of bias", "weight.grad"} <= {name.replace("model.", "") for name in names}


def test_gradients_in_flight_count_until_their_step_is_done():
    """In a chain of elementwise ops there are two of them at once: the one that came in and the one that goes out."""
    x = engine.ones(1000, requires_grad=True)

    def run():
        h = x
        for _ in range(20):
            h = h * 1.5  # a rule with a number saves nothing
        h.backward(engine.ones(1000))
        return h

    session, h = recorded(run)
    log = Log(session.recording)
    bands = log.bands()[:, 1]
    assert bands.max() == 2 * 4000 and bands[-1] == x.grad.array.nbytes


def test_addends_of_a_gradient_and_their_sum_are_there_together():
    x = engine.ones(1000, requires_grad=True)

    def run():
        a = x * 1
        loss = (a * 2 + a * 3).sum()
        loss.backward()
        return loss

    session, _ = recorded(run)
    assert Log(session.recording).bands()[:, 1].max() >= 3 * 4000


def test_an_in_flight_gradient_is_let_go_when_a_pass_fails():
    x = engine.ones(1000, requires_grad=True)

    def run():
        y = x.exp()
        loss = (y * 2).sum()
        y.add_(1)
        with pytest.raises(RuntimeError):
            loss.backward()
        engine.ones(3, requires_grad=True).sum().backward()  # another pass: the first is over
        return loss

    session, _ = recorded(run)
    log = Log(session.recording)
    alive = log.alive_after(log.count)
    assert not log.flowing[alive].any()


class Inside(autograd.Function):
    """Its backward is a pass of its own, as a reentrant checkpoint's is; it tells at which events that began and ended."""

    @staticmethod
    def forward(ctx, x, fails, events):
        ctx.fails, ctx.events = fails, events
        return x * 1

    @staticmethod
    def backward(ctx, g):
        events = list(recent)[-1].events
        ctx.events.append(len(events) // 3)
        with engine.enable_grad():
            inner = engine.ones(1000, requires_grad=True) * 1.5
            if ctx.fails:
                inner.register_hook(lambda g: 1 / 0)
            with pytest.raises(ZeroDivisionError) if ctx.fails else contextlib.nullcontext():
                (inner * 2).backward(g)
        ctx.events.append(len(events) // 3)
        return g, None, None


@pytest.mark.parametrize("fails", [False, True])
def test_gradients_that_wait_in_a_pass_stay_while_a_step_runs_another(fails):
    """One of 4,000 bytes waits for the very step that runs the other pass, one for a step after it."""
    x, w, events = engine.ones(1000, requires_grad=True), engine.ones(1000, requires_grad=True), []

    def run():
        a, b = w * 1, Inside.apply(x * 1, fails, events)
        (a + b * 2).backward(engine.ones(1000))
        return a, b

    session, _ = recorded(run)
    log = Log(session.recording)
    flowing = numpy.cumsum(numpy.where(log.flowing[log.block], log.delta, 0))
    begins, ends = events
    assert flowing[begins:ends].min() >= 8000 and flowing[begins:ends].max() > 8000  # and those of the other pass
    assert flowing[-1] == 0


def test_a_recording_without_watching_costs_an_optimizer_nothing_and_tells_nobody():
    seen = []

    class Watcher(observe.Observer):
        def updated(self, optimizer):
            seen.append(optimizer)

    p = engine.ones(3, requires_grad=True)
    p.sum().backward()
    opt = optim.SGD([p], lr=0.1)
    opt.step()
    with observe.observing(Watcher()):
        opt.step()
    assert seen == [opt]


# -- windows ---------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def long():
    """A long recording: 40,000 ops in which one large array comes and goes."""

    def run():
        x = engine.ones(4, requires_grad=True)
        for at in range(20_000):
            y = (x * 2).tanh()
            if at == 12_345:
                engine.ones(1000) * 2
        return y

    return recorded(run)[0]


def numbers(buffer, buffers):
    return numpy.frombuffer(buffers[buffer["index"]], "<f8").reshape(buffer["shape"])


@pytest.mark.slow
def test_a_long_time_line_keeps_its_peak_and_a_window_shows_every_event(long):
    told, buffers = ask(long, type="ask_memory")
    line = told["line"]
    assert line["count"] > 40_000 and line["bands"]["shape"][0] <= 1200
    bands = numbers(line["bands"], buffers)
    assert bands.sum(1).max() == told["peak"] >= 2 * 4000
    at = line["peak_event"]
    near, buffers = ask(long, type="ask_window", first=at - 50, last=at + 50)
    events, sums = numbers(near["line"]["events"], buffers), numbers(near["line"]["bands"], buffers).sum(1)
    log = Log(long.recording)
    assert events.tolist() == list(range(at - 50, at + 50)) and (sums == log.live[at - 50 : at + 50]).all()


def test_by_time_the_parts_are_even_in_seconds_and_time_never_goes_back(long):
    told, buffers = ask(long, type="ask_window", first=0, last=40_000, by="time")
    seconds, events = numbers(told["line"]["seconds"], buffers), numbers(told["line"]["events"], buffers)
    assert (numpy.diff(seconds) >= 0).all() and (numpy.diff(events) > 0).all()
    took = long.recording.ended - long.recording.began
    assert 0 < seconds[-1] <= took


def test_a_window_that_there_is_not_is_refused_in_a_sentence(long):
    ((answer, _),) = long.handle({"v": 1, "id": 1, "type": "ask_window", "first": 5, "last": 10**9})
    assert answer["type"] == "problem" and "There are no events 5 to 1000000000" in answer["sentence"]
    ((answer, _),) = long.handle({"v": 1, "id": 1, "type": "ask_moment", "event": 10**9})
    assert answer["type"] == "problem" and "There is no event 1000000000 in this recording" in answer["sentence"]


def test_phases_and_the_cells_of_the_axis():
    first, second = (compile(f"y = x{power}\n", f"{name}.py", "exec") for power, name in (("* 2", "one"), ("* 3", "two")))
    x = engine.ones(3, requires_grad=True)

    def run():
        names = {"x": x}
        exec(first, names)
        a = names["y"]
        exec(second, names)
        (a + names["y"]).sum().backward()
        return a, names

    session, _ = recorded(run)
    told, _ = ask(session, type="ask_memory")
    assert [span["label"] for span in told["line"]["phases"]][:2] == ["forward", "backward"]
    assert [span["label"] for span in told["line"]["cells"]][:3] == ["one.py", "two.py", "test_memory.py"]


# -- the live set ------------------------------------------------------------------------------------------------------------


def test_the_peak_tells_the_live_set_with_line_saver_and_when_it_went():
    def run():
        x = engine.ones(1000, requires_grad=True)
        h = x.exp()
        loss = h.sum()
        del h
        loss.backward()
        return x, loss

    session, _ = recorded(run)
    graph, _ = ask(session, type="ready")
    told, _ = ask(session, type="ask_moment", event=-1)
    log = Log(session.recording)
    assert told["event"] == log.peak_event and told["live"] == log.peak == sum(held["bytes"] for held in told["holdings"])
    exp = row_of(session, "exp")
    held = next(held for held in told["holdings"] if held["node"] == exp and held["category"] == "saved")
    assert held["why"] == "saved by exp, which made h, for d_input"
    assert graph["sites"][held["site"]]["text"] == "h = x.exp()"
    assert held["freed"] > told["event"] and held["freed_text"] == "in the backward step of exp, which made h"
    assert graph["sites"][held["freed_site"]]["text"] == "h = x.exp()"
    after, _ = ask(session, type="ask_moment", event=held["freed"])
    assert held["block"] not in {other["block"] for other in after["holdings"]}
    before, _ = ask(session, type="ask_moment", event=held["freed"] - 1)
    assert held["block"] in {other["block"] for other in before["holdings"]}


@pytest.mark.slow
def test_every_event_has_a_sentence_and_a_live_set_of_its_bytes():
    model = nn.Linear(5, 3)
    optimizer = optim.Adam(model.parameters())

    def run():
        loss = model(engine.ones(2, 5)).sum()
        loss.backward()
        optimizer.step()
        return loss

    session, _ = recorded(run)
    log = Log(session.recording)
    texts = []
    for event in range(log.count):
        told, _ = ask(session, type="ask_moment", event=event)
        assert sum(held["bytes"] for held in told["holdings"]) == told["live"] == log.live[event]
        texts.append(told["text"])
    assert any(text.endswith("parameter, was first used") for text in texts)
    assert any(text.startswith("linear, line ") for text in texts)
    assert any("the gradient on its way to" in text and "came in the backward step of" in text for text in texts)
    assert any(text.startswith("the optimizer began to keep exp_avg of") for text in texts)
    assert any("was freed" in text for text in texts)


# -- whose it is -------------------------------------------------------------------------------------------------------------


def test_shares_by_op_line_and_module_add_up_to_the_whole():
    net = nn.Sequential(nn.Linear(10, 20), nn.Tanh(), nn.Linear(20, 5))

    def run():
        loss = net(engine.ones(8, 10)).sum()
        loss.backward()
        return loss

    session, _ = recorded(run)
    told, _ = ask(session, type="ask_memory")
    for table in ("ops", "lines", "modules"):
        assert sum(share["peak"] for share in told[table]) == told["peak"], table
    made = int(Log(session.recording).bytes.sum())
    assert sum(share["made"] for share in told["ops"]) == made
    ops = {share["label"]: share for share in told["ops"]}
    assert ops["tanh"]["made"] == ops["tanh"]["saved"] == 8 * 20 * 4
    assert ops["parameter"]["made"] == sum(p.array.nbytes for p in net.parameters())
    lines = {share["label"] for share in told["lines"]}
    assert any(line.startswith("test_memory.py, line ") for line in lines) and "parameter, from outside" in lines
    assert {share["label"].split(".")[-1] for share in told["modules"]} >= {"0", "1", "2"}


def test_what_each_node_saves_is_what_its_rule_names():
    def run():
        x = engine.ones(100, requires_grad=True)
        w = engine.ones(100, requires_grad=True)
        return x, w, (x * w).tanh().sum()

    session, _ = recorded(run)
    told, _ = ask(session, type="ask_memory")
    savers = {session.recording.op_name(saver["node"]): saver for saver in told["savers"]}
    assert savers["mul"]["bytes"] == 2 * 400 and savers["tanh"]["bytes"] == 400  # both factors; tanh' = 1 - tanh^2 needs the result
    assert "for d_other" in savers["mul"]["what"] and savers["tanh"]["what"] == "its result for d_input"
    assert all(saver["held"] for saver in told["savers"]) and told["saving"] == len(told["savers"])


def test_the_report_has_everything_without_a_browser():
    with wb.record():
        x = engine.ones(1000, requires_grad=True)
        h = x.exp()
        loss = h.sum()
        loss.backward()
    text = repr(wb.memory())
    for part in (
        "needed now",
        "at the peak",
        "parameter",
        "gradient",
        "Needed now (",
        "Alive at the peak (",
        "By line:",
        "By op:",
        "h = x.exp()",
    ):
        assert part in text, part
    assert "freed in the backward step of" in text or "saved by exp" in text
    assert loss.item() > 0 and h.shape


# -- what if ---------------------------------------------------------------------------------------------------------------


class Net(nn.Module):
    """Six blocks and a head; some of the blocks are recomputed."""

    def __init__(self, checkpointed):
        super().__init__()
        self.checkpointed = checkpointed
        self.blocks = nn.ModuleList([nn.Sequential(nn.Linear(64, 64), nn.GELU(), nn.Linear(64, 64), nn.Tanh()) for _ in range(6)])
        self.head = nn.Linear(64, 10)

    def forward(self, x):
        for at, block in enumerate(self.blocks):
            x = checkpoint(block, x, use_reentrant=False) if at in self.checkpointed else block(x)
        return self.head(x)


def program(checkpointed=(), dtype=None, batch=256, no_grad=False):
    """A recorded step of a network, and what it keeps."""
    engine.manual_seed(0)
    net = Net(checkpointed)
    x, y = engine.randn(batch, 64), engine.randint(0, 10, (batch,))
    if dtype is not None:
        net, x = net.to(dtype), x.to(dtype)

    def run():
        loss = nn.functional.cross_entropy(net(x), y)
        if not no_grad:
            loss.backward()
        return loss

    with engine.set_grad_enabled(not no_grad):
        session, loss = recorded(run)
    return session, (loss, net)


@pytest.fixture(scope="module")
def predicted():
    session, kept = program()
    return session, {found["label"]: found for found in ask(session, type="ask_predictions")[0]["found"]}, kept


def really(session) -> int:
    return Log(session[0].recording).peak


def test_the_predicted_peak_under_no_grad_is_what_it_then_is(predicted):
    assert predicted[1]["no_grad everywhere"]["peak"] == pytest.approx(really(program(no_grad=True)), rel=0.01)


def test_the_predicted_peak_in_half_precision_is_what_it_then_is(predicted):
    assert predicted[1]["half precision"]["peak"] == pytest.approx(really(program(dtype=engine.float16)), rel=0.01)


def test_the_predicted_peak_of_half_the_batch_is_what_it_then_is(predicted):
    assert predicted[1]["batch of 128"]["peak"] == pytest.approx(really(program(batch=128)), rel=0.01)


def of_checkpoints(session, which):
    """What is predicted for checkpoints of these blocks."""
    asked = predict.Program(Log(session.recording), session.graph)
    calls = predict._module_calls(asked)
    return asked.checkpoint(sorted(scope for at in which for scope in calls[f"blocks.{at}"]))


@pytest.mark.parametrize("which", [(0,), (3,), (0, 1, 2)])
def test_the_predicted_peak_with_checkpoints_is_what_it_then_is(predicted, which):
    peak, ops, seconds = of_checkpoints(predicted[0], which)
    assert ops == 4 * len(which) and seconds > 0
    assert peak == pytest.approx(really(program(checkpointed=which)), rel=0.01)


def traced(which, batch):
    """The most bytes that Python and NumPy had allocated at once in a step, with the collector at rest."""
    engine.manual_seed(0)
    net, x, y = Net(which), engine.randn(batch, 64), engine.randint(0, 10, (batch,))
    gc.collect()
    gc.disable()
    tracemalloc.start()
    try:
        nn.functional.cross_entropy(net(x), y).backward()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
        gc.enable()


@pytest.mark.slow
def test_what_checkpoints_are_predicted_to_gain_is_what_numpy_then_allocates_less():
    """Where all blocks are computed again the peak is in another op, which needs less room to compute in: less than one activation less."""
    batch = 1024
    session, _kept = program(batch=batch)
    traced((0,), batch)  # what is made once is there then
    plain, peak = traced((), batch), Log(session.recording).peak
    for which in ((0,), (3,), (0, 1, 2)):
        assert of_checkpoints(session, which)[0] == pytest.approx(peak - plain + traced(which, batch), rel=0.01)
    assert 0 <= of_checkpoints(session, range(6))[0] - (peak - plain + traced(range(6), batch)) < batch * 64 * 4


def test_numbered_modules_are_offered_together_and_the_largest_gain_comes_first(predicted):
    found = list(predicted[1].values())
    assert [option["peak"] for option in found] == sorted(option["peak"] for option in found)
    assert any(option["label"].startswith("checkpoint every") and option["ops"] == 24 for option in found)


def test_no_grad_in_one_module_keeps_what_comes_after(predicted):
    session = predicted[0]
    row = row_of(session, "gelu", 2)
    told, _ = ask(session, type="ask_predictions", node=row)
    inside = next(option for option in told["found"] if option["label"].startswith("no_grad in"))
    everywhere = next(option for option in told["found"] if option["label"] == "no_grad everywhere")
    assert everywhere["peak"] < inside["peak"] < told["peak"] and inside["node"] == row
