"""Breakpoints and granularity: what a condition means, where a pass stops, and that it stops at the very step."""

from __future__ import annotations

import math
import re
from pathlib import Path
from types import SimpleNamespace

import ml_dtypes
import numpy
import pytest
from walked import bits, leaf, tanh_layer, unrolled

import engine
import workbench as wb
from engine import nn
from engine.base import observe
from workbench import protocol
from workbench.backward import breakpoints, conditions
from workbench.backward.breakpoints import Breakpoint, Breakpoints
from workbench.backward.conditions import NAMES, BadCondition, Condition, fetched, health_of, measure
from workbench.backward.stepper import Stepper
from workbench.graph.graph import Graph
from workbench.inspector import summary
from workbench.recording.recorder import Recorder
from workbench.recording.retrace import retrace
from workbench.session.passes import PassWatcher
from workbench.session.session import Session


@pytest.fixture(autouse=True)
def none_kept():
    breakpoints.kept.clear()
    yield
    breakpoints.kept.clear()


def recorded(run, names=None) -> Stepper:
    recorder = Recorder()
    with observe.observing(recorder):
        loss = run()
    r = recorder.stop()
    graph = Graph(r)
    graph.finish(names or {})
    return Stepper.of(r, graph, loss)


# -- conditions -----------------------------------------------------------------------------------------------------------------


def by_numpy(a: numpy.ndarray) -> dict[str, float]:
    """The measures, computed with NumPy in float64."""
    wide = numpy.abs(a).astype(numpy.float64) if a.dtype.kind == "c" else a.astype(numpy.float64)
    finite = wide[numpy.isfinite(wide)]
    some = finite.size > 0
    return {
        "nan": numpy.isnan(wide).sum(), "inf": numpy.isinf(wide).sum(), "size": a.size,
        "zero": (wide == 0).sum() / a.size if a.size else math.nan, "norm": numpy.sqrt(numpy.square(wide).sum()),
        "min": finite.min() if some else math.nan, "max": finite.max() if some else math.nan,
        "mean": finite.mean() if some else math.nan, "std": finite.std(ddof=1) if finite.size > 1 else math.nan,
    }  # fmt: skip


@pytest.mark.parametrize(
    "array",
    [
        numpy.random.default_rng(0).normal(size=(4, 5)).astype(numpy.float32),
        numpy.array([1.0, numpy.nan, -2.0, numpy.inf, 0.0]),
        numpy.array([numpy.nan]),
        numpy.array([-numpy.inf, numpy.inf]),
        numpy.zeros((0, 3)),
        numpy.array(3.5, numpy.float16),
        numpy.array([3 + 4j, 0j]),
        numpy.array([1e30, 1e30], numpy.float32),  # its square does not fit into float32
        numpy.array([1.0, numpy.nan, -2.0, numpy.inf], ml_dtypes.bfloat16),
    ],
    ids=["normal", "mixed", "nan", "infinite", "empty", "scalar", "complex", "large", "bfloat16"],
)
def test_measures_are_those_of_numpy_from_the_array_and_from_its_summary(array):
    names = set(NAMES)
    with numpy.errstate(all="ignore"):
        wanted = by_numpy(array)
    (got,) = fetched([(names, measure(array, names))])
    kept = health_of(summary(array))
    for name in NAMES:
        assert got[name] == pytest.approx(wanted[name], rel=1e-6, nan_ok=True), name
        assert kept[name] == pytest.approx(wanted[name], rel=1e-6, nan_ok=True), name


@pytest.mark.parametrize(
    ("text", "health", "holds"),
    [
        ("nan > 0 or norm > 1e3 or norm < 1e-8 or zero > 0.99", {"nan": 0, "norm": 5.0, "zero": 0.0}, False),
        ("nan > 0 or norm > 1e3 or norm < 1e-8 or zero > 0.99", {"nan": 0, "norm": 5e3, "zero": 0.0}, True),
        ("nan > 0 or norm > 1e3", {"nan": 1, "norm": math.nan}, True),
        ("norm > 1e3", {"norm": math.nan}, False),
        ("not norm <= 1e3", {"norm": math.nan}, True),
        ("1 < norm < 3", {"norm": 2.0}, True),
        ("1 < norm < 3", {"norm": 3.0}, False),
        ("mean > -0.5 and mean < +0.5", {"mean": 0.0}, True),
        ("max > min", {"max": 2.0, "min": 1.0}, True),
        ("inf >= 1 and (size != 1 or std == 0)", {"inf": 1, "size": 1, "std": 0.0}, True),
    ],
)
def test_conditions_mean_what_they_say(text, health, holds):
    assert Condition(text).holds(health) is holds


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "is empty"),
        ("norm", "compares norm with nothing"),
        ("norm >", "cannot be read"),
        ("gradient > 1", "speaks of gradient; it may speak of nan, inf"),
        ("__import__('os').system('true') > 1", "where a number"),
        ("norm.real > 1", "where a number"),
        ("norm in (1, 2)", "where a number"),
        ("norm is 3", "compares with"),
        ("norm ** 99 > 1", "where a number"),
        ("(lambda: 1)() > 0", "where a number"),
        ("norm > True", "where a number"),
        ("norm > 'a'", "where a number"),
        ("norm > 1; nan > 0", "cannot be read"),
        ("((" * 200, "cannot be read"),
        ("norm > 1 or " * 40 + "nan > 0", "at most 400 characters"),
    ],
)
@pytest.mark.filterwarnings("ignore:.*is.*literal:SyntaxWarning")
def test_what_is_no_condition_is_refused_with_a_sentence(text, words):
    with pytest.raises(BadCondition, match="(?s)" + words.replace("(", r"\(").replace(")", r"\)")):
        Condition(text)


# -- stopping -------------------------------------------------------------------------------------------------------------------


def spiking() -> tuple[list, object]:
    """w -> tanh -> ·2000 -> sum: the gradient that mul hands on is 2000 everywhere, its norm 2000·√6 = 4898.98."""
    w = leaf(2, 3)
    return [w], lambda: (engine.tanh(w) * 2000.0).sum()


def norms_handed_on(stepper: Stepper) -> list[float]:
    """The largest norm among what each step hands on, with NumPy; of a leaf what arrives."""
    stepper.finish()
    found = []
    for taken in stepper.taken:
        arrays = [t[0] for t in taken.totals if t is not None] or [taken.upstream]
        found.append(max(float(numpy.linalg.norm(numpy.asarray(a, numpy.float64))) for a in arrays))
    stepper.to(0)
    return found


@pytest.mark.parametrize("program", [tanh_layer, unrolled, spiking])
@pytest.mark.parametrize("threshold", [0.3, 1.0, 2.0, 1e3])
@pytest.mark.parametrize("ahead", [False, True], ids=["exact", "measured on a device"])
def test_a_condition_stops_at_every_step_where_it_holds_and_at_no_other(program, threshold, ahead, monkeypatch):
    """On a device the pass runs ahead and comes back: the steps are the same, and so are the gradients."""
    if ahead:
        monkeypatch.setattr(breakpoints, "_waits", lambda value: True)
        monkeypatch.setattr(breakpoints, "BATCH", 3)
    leaves, run = program()
    run().backward()
    wanted = bits(leaves)
    for x in leaves:
        x.grad = None
    stepper = recorded(run)
    handed = norms_handed_on(stepper)
    expected = [i + 1 for i, norm in enumerate(handed) if norm > threshold]
    stopped = []
    while not stepper.done:
        stepper.run_until(f"norm > {threshold}")
        if stepper.stop is not None:
            assert stepper.index == stepper.stop.index and f"norm > {threshold}" in stepper.stopped
            stopped.append(stepper.index)
    assert stopped == expected
    assert bits(leaves) == wanted
    back = []
    while stepper.index:
        stepper.run_until(f"norm > {threshold}", back=True)
        if stepper.stop is not None:
            back.append(stepper.index)
    assert back == expected[::-1][1:] if expected and expected[-1] == stepper.total else back == expected[::-1]
    assert all(x.grad is None for x in leaves)


def test_on_a_device_there_is_one_transfer_for_many_steps(monkeypatch):
    calls = []
    monkeypatch.setattr(breakpoints, "_waits", lambda value: True)
    monkeypatch.setattr(breakpoints, "fetched", lambda measured: (calls.append(len(measured)), fetched(measured))[1])
    _, run = unrolled()
    stepper = recorded(run)
    stepper.run_until("nan > 0")
    assert stepper.done and stepper.stop is None
    assert len(calls) == math.ceil(stepper.total / breakpoints.BATCH) and sum(calls) >= stepper.total


def test_what_waits_on_a_device_comes_in_one_transfer(monkeypatch):
    """Numbers of another place, of which only a stack of them can be fetched: what is known here and there stays in order."""
    transfers = []

    class There:
        def __init__(self, *values: float) -> None:
            self.values = values

        def astype(self, dtype) -> There:
            return self

        def get(self) -> numpy.ndarray:
            transfers.append(self.values)
            return numpy.array(self.values)

    stack = SimpleNamespace(stack=lambda parts: There(*[part.values[0] for part in parts]))
    monkeypatch.setattr(conditions.devices, "namespace", lambda array: stack)
    monkeypatch.setattr(conditions, "host", There.get)
    health = fetched([({"norm", "size"}, [There(2.0), 6]), ({"min"}, [There(math.inf)]), ({"nan"}, [0])])
    assert health[0] == {"norm": 2.0, "size": 6.0} and math.isnan(health[1]["min"]) and health[2] == {"nan": 0.0}
    assert transfers == [(2.0, math.inf)]


def test_steps_whose_arrays_were_not_kept_are_judged_by_their_summaries():
    _, run = spiking()
    loss = run()
    r = retrace([loss.node], [loss])
    graph = Graph(r)
    graph.finish({})
    stepper = Stepper.of(r, graph, loss, keep=0)
    assert stepper.run_until("norm > 4898 and norm < 4899") == 2 and stepper.taken[1].upstream is None


def test_the_op_that_makes_nan_is_where_it_stops():
    """d sqrt(x)/dx at 0 is infinite, and 0 · inf is NaN: mul's gradient, not sqrt's, is the first NaN."""
    x = engine.tensor([0.0, 4.0]).requires_grad_()
    zero = engine.tensor([0.0, 1.0])
    stepper = recorded(lambda: (engine.sqrt(x * zero)).sum())
    stepper.run_until("nan > 0 or inf > 0")
    assert stepper.recording.op_name(stepper.plan[stepper.index - 1]) == "sqrt" and "inf 1" in stepper.stopped
    stepper.run_until("nan > 0")
    assert stepper.recording.op_name(stepper.plan[stepper.index - 1]) == "mul" and "nan 1" in stepper.stopped


def small_model():
    engine.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
    x = leaf(5, 3).detach()
    return model, lambda: model(x).square().sum()


@pytest.mark.parametrize(
    ("place", "names"),
    [
        ({"op": "linear"}, ["linear", "linear"]),
        ({"op": "accumulate"}, ["2.weight", "2.bias", "0.weight", "0.bias"]),
        ({"name": "*.weight"}, ["2.weight", "0.weight"]),
        ({"name": "0.*"}, ["0.weight", "0.bias"]),
        ({"name": "weight"}, ["2.weight", "0.weight"]),
        ({"module": "2"}, ["linear", "2.weight", "2.bias"]),
        ({"module": "Tanh"}, ["tanh"]),
        ({"name": "nothing"}, []),
        ({"op": "accumulate", "when": "size > 4"}, ["2.weight", "0.weight"]),
    ],
    ids=str,
)
def test_places(place, names):
    model, run = small_model()
    stepper = recorded(run, {"model": model})
    one = Breakpoint.of(**place)
    found = []
    while True:
        stepper.run([one])
        if stepper.stop is None:
            break
        row = stepper.plan[stepper.index - 1]
        found.append((stepper.recording.names.get(row) or stepper.recording.op_name(row)).removeprefix("model."))
    assert found == names and stepper.done


def test_a_breakpoint_at_a_node_is_found_again_when_its_cell_runs_again():
    def run(extra: int):
        recorder = Recorder()
        with observe.observing(recorder):
            w = leaf(3)
            for _ in range(extra):
                w.detach() * 2
            h = w * w
            for _ in range(3):
                h = h.exp() * 0.1
            loss = h.sum()
        r = recorder.stop()
        graph = Graph(r)
        graph.finish({"w": w, "loss": loss})
        return r, graph, loss

    kept = Breakpoints()
    r, graph, loss = run(0)
    exps = [row for row in range(r.count) if r.op_name(row) == "exp"]
    assert kept.toggle(r, graph, exps[1]) is not None
    r2, graph2, loss2 = run(4)
    again = [row for row in range(r2.count) if r2.op_name(row) == "exp"]
    assert again != exps
    assert breakpoints.rows_of(kept.all[0], r2, graph2) == {again[1]}
    stepper = Stepper.of(r2, graph2, loss2)
    stepper.run(kept.active)
    assert stepper.plan[stepper.index - 1] == again[1]
    assert kept.toggle(r2, graph2, again[1]) is None and kept.all == []
    with pytest.raises(protocol.Refused, match="does not require grad"):
        kept.toggle(r2, graph2, next(row for row in range(r2.count) if not r2.grad[row]))


def test_breakpoints_rest_come_back_and_go():
    kept = Breakpoints()
    a, b = kept.add(Breakpoint.of("norm > 1")), kept.add(Breakpoint.of(op="mul"))
    assert kept.add(Breakpoint.of("norm > 1")) is a and len(kept.all) == 2
    kept.switch(a.id, False)
    assert kept.active == [b]
    assert kept.add(Breakpoint.of("norm > 1")) is a and a.on
    kept.remove(b.id)
    assert kept.active == [a]
    with pytest.raises(protocol.Refused, match="not there any more"):
        kept.remove(b.id)
    for wrong in ({}, {"op": "mul", "name": "w"}):
        with pytest.raises(ValueError, match="A breakpoint"):
            Breakpoint.of(**wrong)


@pytest.mark.parametrize(
    "place, told",
    [
        ({"op": "mul", "when": "norm > 2"}, "Breakpoint at every mul when norm > 2"),
        ({"when": "nan > 0"}, "Breakpoint when nan > 0"),
        ({"module": "encoder"}, "Breakpoint at module encoder"),
    ],
)
def test_a_breakpoint_is_printed_as_its_place_and_its_condition(place, told):
    one = Breakpoint.of(**place)
    assert repr(one) == told
    one.on = False
    assert repr(one) == f"{told} (off)"


# -- a running cell ---------------------------------------------------------------------------------------------------------------


def ask(session, **data):
    return [m for m, _ in session.handle({"v": protocol.VERSION, "id": 1, **data})]


def paused(run, script, until=(), names=None) -> tuple[Session, list]:
    """What the pause does, with the waiting done here: each time the pass is held, the script's next wish; where it was held."""
    session = Session(Recorder().recording)
    session.until = [Breakpoint.of(text) for text in until]
    wishes, seen = iter(script), []

    def wait(stepper):
        while stepper.held:
            row = stepper.plan[stepper.index - 1] if stepper.index else -1
            seen.append((len(session.passes), stepper.index, stepper.recording.op_name(row) if row >= 0 else "", stepper.stopped != ""))
            wish = next(wishes)
            if callable(wish):
                wish(session)
            else:
                ask(session, type="step", **wish)

    watcher = PassWatcher(session, None, wait, lambda: names or {}, going=bool(until))
    with observe.observing(watcher):
        run()
    watcher.close()
    return session, seen


def test_a_running_cell_stops_at_the_conditional_breakpoint_and_not_at_every_step():
    leaves, run = spiking()
    run().backward()
    wanted = bits(leaves)
    leaves[0].grad = None
    breakpoints.kept.add(Breakpoint.of("norm > 1e3"))
    run_on = {"do": "run"}

    def cell():
        run().backward()

    session, seen = paused(cell, [run_on, {"do": "previous"}, {"do": "next"}, run_on, run_on, run_on, run_on])
    assert seen[0] == (1, 0, "", False)
    assert seen[1] == (1, 2, "mul", True)  # sum hands on ones: norm 2.4; mul hands on 2000 each
    assert seen[2] == (1, 1, "sum", False) and seen[3][:3] == (1, 2, "mul")
    assert seen[4][:3] == (1, 3, "tanh") and seen[5][1] == 4  # the leaf is the last step: it is held there too
    assert len(seen) == 6 and bits(leaves) == wanted and session.stepper.over


def test_continue_goes_on_through_later_passes_until_one_stops():
    w = leaf(3)

    def cell():
        for scale in (1.0, 1.0, 5000.0, 1.0):
            (w * scale).sum().backward()

    session, seen = paused(cell, [{"do": "run"}, {"do": "last"}, {"do": "run"}, {"do": "last"}], until=["norm > 4000"])
    # 5000·√3 in the third pass, at mul and at w; the first two went by. "last" is no wish for a breakpoint: the next pass is held
    assert seen == [(3, 2, "mul", True), (3, 3, "", True), (4, 0, "", False)]
    assert len(session.passes) == 4
    grads = w.grad.numpy()
    assert grads == pytest.approx(numpy.full(3, 5003.0))


def test_a_run_can_be_stopped_and_the_code_can_say_where_to_go():
    leaves, run = unrolled()
    stops = []

    def cell():
        run().backward()

    def begin(session):
        ask(session, type="step", do="run")
        assert session.stepper.runs
        ask(session, type="step", do="stop")
        assert not session.stepper.runs
        stops.append(session.stepper.index)

    session, seen = paused(cell, [begin, {"do": "last"}])
    assert stops == [0] and session.stepper.over
    assert wb.step(run(), until="norm > 1e-9").index == 1
    with pytest.raises(ValueError, match="speaks of size_of"):
        wb.step(run(), until="size_of > 3")


def test_breakpoints_by_messages():
    model, run = small_model()
    stepper = recorded(run, {"model": model})
    session = Session(stepper.recording, stepper.graph)
    session.step_through(stepper)
    sent = []
    session.connect(lambda message, buffers: sent.append(message))
    (told,) = ask(session, type="break", do="add", where="op", what="linear")
    assert told["type"] == "breakpoints", told
    (one,) = told["breakpoints"]
    assert (one["where"], one["what"], one["when"], one["on"], one["places"]) == ("op", "linear", "", True, 2)
    flags = [m for m in sent if m["type"] == "flags"][-1]
    assert flags["origin"] == "breakpoint" and {f["glyph"] for f in flags["flags"]} == {"●"} and len(flags["flags"]) == 2
    (told,) = ask(session, type="break", do="off", number=one["number"])
    assert not told["breakpoints"][0]["on"]
    assert {f["glyph"] for f in [m for m in sent if m["type"] == "flags"][-1]["flags"]} == {"○"}
    (problem,) = ask(session, type="break", do="add", where="any", when="norm >")
    assert problem["type"] == "problem" and "cannot be read" in problem["sentence"]
    (problem,) = ask(session, type="break", do="add", where="name", what=" ")
    assert "needs to know which" in problem["sentence"]
    weight = next(row for row, name in stepper.recording.names.items() if name.endswith("0.weight"))
    (told,) = ask(session, type="break", do="toggle", number=weight)
    assert told["breakpoints"][-1]["where"] == "node"
    (stepped,) = ask(session, type="step", do="run")
    assert stepper.plan[stepped["index"] - 1] == weight and stepped["stopped"].startswith("Stopped at a breakpoint: ")
    (stepped,) = ask(session, type="step", do="run")
    assert stepped["done"] and stepped["stopped"] == ""
    ask(session, type="break", do="clear")
    assert session.breakpoints.all == []


# -- granularity ------------------------------------------------------------------------------------------------------------------


def walk(stepper, by) -> list[int]:
    found = []
    while not stepper.done:
        found.append(stepper.next(by))
    return found


def module_of(stepper: Stepper, step: int) -> str:
    """The innermost module that the step's op ran in, by the recording's own scopes; of a parameter its name says it."""
    r, row = stepper.recording, stepper.plan[step]
    if r.ops[row] is None:
        return r.names[row].removeprefix("model.").rpartition(".")[0]
    return r.scopes[r.scope[row]].name if r.scope[row] >= 0 and r.scopes[r.scope[row]].label != "Sequential" else ""


def test_by_module_a_step_leaves_the_module():
    model, run = small_model()
    stepper = recorded(run, {"model": model})
    modules = [module_of(stepper, i) for i in range(stepper.total)]
    borders = [i for i in range(1, stepper.total) if modules[i] != modules[i - 1]] + [stepper.total]
    assert walk(stepper, "module") == borders and set(modules) == {"", "0", "1", "2"}
    back = []
    while stepper.index:
        back.append(stepper.previous("module"))
    assert back == [0, *borders[:-1]][::-1]


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin, self.act, self.norm = nn.Linear(8, 8), nn.Tanh(), nn.LayerNorm(8)

    def forward(self, x):
        return self.norm(self.act(self.lin(x)) + x)


def test_by_module_a_block_is_one_step_and_inside_it_its_layers_are():
    engine.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), Block(), Block(), nn.Linear(8, 3))
    stepper = recorded(lambda: nn.functional.cross_entropy(model(engine.randn(5, 4)), engine.randint(0, 3, (5,))), {"model": model})
    modules = [module_of(stepper, i) for i in range(stepper.total)]
    outer = [name.partition(".")[0] for name in modules]
    borders = [i for i in range(1, stepper.total) if outer[i] != outer[i - 1]] + [stepper.total]
    assert walk(stepper, "module") == borders and len(borders) == 6
    back = []
    while stepper.index:
        back.append(stepper.previous("module"))
    assert back == [0, *borders[:-1]][::-1]
    inside = borders[1] + 1  # one op into the block
    stepper.to(inside)
    assert modules[inside - 1] == modules[inside] == "3.norm"
    stops = [stepper.next("module") for _ in range(4)]
    assert [modules[at - 1] for at in stops] == ["3.norm", "3", "3.act", "3.lin"] and stops[-1] == borders[2]


def test_into_and_out_of_a_module():
    model, run = small_model()
    stepper = recorded(run, {"model": model})
    names = [stepper.recording.op_name(row) for row in stepper.plan]
    stepper.to(names.index("linear") + 1)
    inside = stepper.index
    assert stepper.places.out(inside) == inside + 2  # its weight and bias, and out
    stepper.to(stepper.places.out(inside))
    assert stepper.places.out(stepper.index) == stepper.total  # then the whole Sequential
    session = Session(stepper.recording, stepper.graph)
    session.step_through(stepper)
    stepper.to(0)
    assert ask(session, type="step", do="into", by="module")[0]["index"] == 1


def test_by_parameter_each_step_ends_where_a_grad_has_come():
    model, run = small_model()
    stepper = recorded(run, {"model": model})
    steps = walk(stepper, "parameter")
    leaves = [i + 1 for i, row in enumerate(stepper.plan) if stepper.recording.kind[row] == "parameter"]
    assert steps == leaves + ([stepper.total] if leaves[-1] != stepper.total else [])
    assert len(leaves) == 4
    for at in reversed([0, *leaves[:-1]]):
        assert stepper.previous("parameter") == at


def test_by_iteration_a_step_is_a_turn_of_the_loop():
    _, run = unrolled()
    stepper = recorded(run)
    stops = walk(stepper, "iteration")
    tanhs = [i for i, row in enumerate(stepper.plan) if stepper.recording.op_name(row) == "tanh"]
    assert len(tanhs) == 4
    for one, following in zip(tanhs, tanhs[1:], strict=False):
        assert sum(one < stop <= following for stop in stops) == 1  # one border between two turns
    assert stepper.done


def test_what_has_no_modules_says_so():
    _, run = tanh_layer()
    stepper = recorded(run)
    with pytest.raises(protocol.Refused, match="step by op instead"):
        stepper.next("module")
    with pytest.raises(protocol.Refused, match="no loop"):
        stepper.next("iteration")
    assert stepper.index == 0


def test_loops_are_known_while_the_cell_still_runs():
    """A paused cell: the graph is not arranged yet."""
    _, run = unrolled()
    recorder = Recorder()
    with observe.observing(recorder):
        loss = run()
        stepper = Stepper.of(recorder.recording, Graph(recorder.recording), loss)
        first = stepper.next("iteration")
        second = stepper.next("iteration")
    recorder.stop()
    assert 0 < first < second < stepper.total


def test_nothing_of_a_condition_is_executed():
    touched = SimpleNamespace(hit=False)
    with pytest.raises(BadCondition):
        Condition("[setattr(touched, 'hit', True)] > 0")
    assert not touched.hit and conditions.Condition("norm>1").names == {"norm"}


def test_the_examples_of_the_documentation_run():
    text = (Path(__file__).resolve().parents[2] / "docs" / "stepping.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    names: dict = {}
    for block in blocks[:2]:
        exec(block, names)
    # d(3000·w) of tanh is 0 in float32 at 3000 and beyond; mul by 2 hands on 2 for each element: 2·√3 = 3.46 is the first beyond 3
    assert names["s"].done and names["w"].grad.tolist() == [2.0, 2.0, 2.0]
    assert [str(one) for one in breakpoints.kept.all] == [
        "nan > 0 or norm > 1e3 or norm < 1e-8 or zero > 0.99",
        "layers.*.weight",
        "every relu when zero > 0.9",
    ]
