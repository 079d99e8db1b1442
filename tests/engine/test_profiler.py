"""The profiler: what it times and counts, schedules, tables, traces, and that others can watch besides."""

from __future__ import annotations

import gzip
import json
import math
import threading
import time
from types import SimpleNamespace

import pytest

import engine
from engine import nn, optim
from engine.base import observe
from engine.core import devices
from engine.profiler import (
    ProfilerAction,
    ProfilerActivity,
    profile,
    record_function,
    schedule,
    supported_activities,
    tensorboard_trace_handler,
)
from engine.profiler import autograd as older

CPU = [ProfilerActivity.CPU]


@pytest.fixture(autouse=True)
def nobody_watches_afterwards():
    yield
    assert observe.current is None


def named(prof, **options):
    return {event.key: event for event in prof.key_averages(**options)}


def model():
    return nn.Sequential(nn.Linear(10, 20), nn.ReLU(), nn.Linear(20, 2))


def test_calls_are_counted_and_nested():
    net, x = model(), engine.randn(5, 10)
    with profile(activities=CPU, record_shapes=True, with_flops=True) as prof, record_function("forward"):
        loss = net(x).sum()
    with profile(activities=CPU, with_flops=True) as back:
        loss.backward()
    found = named(prof)
    assert {name: event.count for name, event in found.items()} == {
        "forward": 1, "aten::linear": 2, "aten::addmm": 2, "aten::relu": 1, "aten::sum": 1,
    }  # fmt: skip
    assert found["aten::addmm"].flops == 2 * 5 * 10 * 20 + 2 * 5 * 20 * 2 and found["aten::linear"].flops == 0
    events = prof.events()
    assert [event.name for event in events[0].cpu_children] == ["aten::linear", "aten::relu", "aten::linear", "aten::sum"]
    assert events[0].is_user_annotation and events[1].cpu_parent is events[0]
    assert events[1].input_shapes == [[5, 10], [20, 10], [20]]
    shaped = prof.key_averages(group_by_input_shape=True)
    assert [e.input_shapes for e in shaped if e.key == "aten::linear"] == [[[5, 10], [20, 10], [20]], [[5, 20], [2, 20], [2]]]
    names = [event.name for event in back.events()]
    assert names[:2] == ["autograd::engine::evaluate_function: SumBackward0", "SumBackward0"]
    assert names.count("AddmmBackward0") == 2 and names.count("torch::autograd::AccumulateGrad") == 4
    assert all(e.cpu_parent is not None for e in back.events() if not e.name.startswith("autograd::engine"))


def test_backward_steps_count_the_products_they_make():
    net, x = model(), engine.randn(5, 10)
    with profile(activities=CPU, with_flops=True) as prof:
        net(x).sum().backward()
    assert named(prof)["AddmmBackward0"].flops == 2 * 5 * 20 * 10 + 2 * (2 * 5 * 20 * 2)  # x needs no gradient


@pytest.mark.parametrize(
    ("program", "kernels"),
    [
        (lambda: engine.ones(3) @ engine.ones(3), {"aten::matmul", "aten::dot"}),
        (lambda: engine.ones(2, 3) @ engine.ones(3), {"aten::matmul", "aten::mv"}),
        (lambda: engine.ones(2, 3) @ engine.ones(3, 2), {"aten::matmul", "aten::mm"}),
        (lambda: engine.ones(4, 2, 3) @ engine.ones(4, 3, 2), {"aten::matmul", "aten::bmm"}),
        (lambda: engine.mm(engine.ones(2, 2), engine.ones(2, 2)), {"aten::mm"}),
        (lambda: engine.addmm(engine.ones(2, 2), engine.ones(2, 2), engine.ones(2, 2)), {"aten::addmm"}),
        (lambda: nn.functional.conv2d(engine.ones(1, 1, 3, 3), engine.ones(1, 1, 2, 2)), {"aten::conv2d", "aten::convolution"}),
        (lambda: engine.ones(2, 2).add_(1), {"aten::add_"}),
        (lambda: engine.linalg.qr(engine.eye(2)), {"aten::linalg_qr"}),
        (lambda: engine.arange(4)[1:], {"aten::slice"}),
    ],
)
def test_names_are_those_of_pytorchs_kernels(program, kernels):
    with profile(activities=CPU) as prof:
        program()
    assert set(named(prof)) >= kernels and not {k for k in named(prof) if "mm" in k} - kernels


def test_times_are_of_the_clock_and_self_times_add_up():
    with profile(activities=CPU) as prof:
        began = time.perf_counter()
        with record_function("outer"):
            time.sleep(0.02)
            entered = time.perf_counter()
            with record_function("inner"):
                time.sleep(0.03)
            inside = 1e6 * (time.perf_counter() - entered)
        outside = 1e6 * (time.perf_counter() - began) - 30e3
        engine.ones(400, 400) @ engine.ones(400, 400)
    found = named(prof)
    assert 30e3 <= found["inner"].cpu_time_total <= inside and 20e3 <= found["outer"].self_cpu_time_total <= outside
    assert found["outer"].cpu_time_total == pytest.approx(found["outer"].self_cpu_time_total + found["inner"].cpu_time_total)
    total = sum(event.cpu_time_total for event in prof.events() if event.cpu_parent is None)
    assert prof.key_averages().self_cpu_time_total == pytest.approx(total)
    assert prof.key_averages().total_average().self_cpu_time_total == pytest.approx(total)
    starts = [event.time_range.start for event in prof.events()]
    assert starts == sorted(starts) and starts[0] >= 0


def test_record_function_names_calls_of_a_function():
    @record_function("twice")
    def twice(x):
        return x + x

    twice(engine.ones(2))
    with older.profile() as prof:
        twice(engine.ones(2))
        with pytest.raises(ZeroDivisionError), record_function("fails"):
            raise ZeroDivisionError
        twice(engine.ones(2))
    assert named(prof)["twice"].count == 2 and named(prof)["fails"].count == 1
    assert [child.name for child in prof.function_events[0].cpu_children] == ["aten::add"]


def test_modules_steps_of_optimizers_and_loaders():
    net = model()
    optimizer = optim.SGD(net.parameters(), lr=0.1)
    loader = engine.utils.data.DataLoader(engine.utils.data.TensorDataset(engine.randn(4, 10)), batch_size=2)
    with profile(activities=CPU, with_modules=True) as prof:
        for (x,) in loader:
            optimizer.zero_grad()
            net(x).sum().backward()
            optimizer.step()
    found = named(prof)
    assert found["nn.Module: Linear_0"].count == found["nn.Module: Linear_1"].count == found["nn.Module: Sequential_0"].count == 2
    assert found["Optimizer.step#SGD.step"].count == 2
    assert found["enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"].count == 3  # the last one finds the end
    linear = next(event for event in prof.events() if event.name == "aten::linear")
    assert [linear.cpu_parent.name, linear.cpu_parent.cpu_parent.name] == ["nn.Module: Linear_0", "nn.Module: Sequential_0"]


def test_memory_is_counted_when_taken_and_given_back():
    with profile(activities=CPU, profile_memory=True) as prof:
        with record_function("keeps"):
            kept = engine.ones(1000).exp()
        with record_function("drops"):
            engine.ones(1000).sin()
        view = kept[10:]
        del kept, view
    found = named(prof)
    assert found["aten::exp"].self_cpu_memory_usage == found["aten::sin"].cpu_memory_usage == 4000
    assert found["keeps"].cpu_memory_usage == 4000 and found["drops"].cpu_memory_usage == 0
    assert found["drops"].self_cpu_memory_usage == -4000 and found["[memory]"].cpu_memory_usage == -4000
    assert prof.key_averages().total_average().self_cpu_memory_usage == 0
    text = prof.key_averages().table(sort_by="self_cpu_memory_usage")
    assert "3.91 KB" in text and "-3.91 KB" in text and "Self CPU Mem" in text


def test_stacks(tmp_path):
    def innermost():
        return engine.ones(300, 300).exp()

    with profile(activities=CPU, with_stack=True) as prof:
        for _ in range(20):
            innermost()
    event = prof.events()[0]
    assert event.stack[0].endswith("innermost") and "test_profiler.py(" in event.stack[0] and event.stack[1].endswith("test_stacks")
    assert len(prof.key_averages(group_by_stack_n=3)[0].stack) == 3
    assert (
        "innermost" in prof.key_averages(group_by_stack_n=3).table() and "Source Location" in prof.key_averages(group_by_stack_n=3).table()
    )
    prof.export_stacks(str(tmp_path / "stacks"))
    line = (tmp_path / "stacks").read_text().splitlines()[0]
    assert line.rpartition(" ")[0].endswith("innermost") and int(line.rpartition(" ")[2]) > 0
    with pytest.raises(ValueError, match="metric should be one of"):
        prof.export_stacks(str(tmp_path / "stacks"), "count")


TABLE = """\
--------------  ------------  ------------  ------------  ------------  ------------  ------------  ------------  ------------  ------------  ------------  
          Name    Self CPU %      Self CPU   CPU total %     CPU total  CPU time avg       CPU Mem  Self CPU Mem    # of Calls  Input Shapes  Total KFLOPs  
--------------  ------------  ------------  ------------  ------------  ------------  ------------  ------------  ------------  ------------  ------------  
    aten::tanh        75.00%       3.000ms        75.00%       3.000ms       1.500ms       2.00 KB       2.00 KB             2      [[4, 4]]         2.500  
         outer        25.00%       1.000ms       100.00%       4.000ms       4.000ms       1.00 KB      -1.00 KB             1            []            --  
--------------  ------------  ------------  ------------  ------------  ------------  ------------  ------------  ------------  ------------  ------------  
Self CPU time total: 4.000ms
"""  # noqa: W291  PyTorch's layout, with blanks at the ends of lines


def test_the_tables_layout():
    from engine.profiler.events import EventList, FunctionEvent, Interval

    outer = FunctionEvent(1, "outer", Interval(0, 4000), 1, cpu_memory=-1024, scope=7)
    for start in (0, 1500):
        inner = FunctionEvent(2, "aten::tanh", Interval(start, start + 1500), 1, input_shapes=[[4, 4]], cpu_memory=1024, flops=1250)
        inner.cpu_parent = outer
        outer.cpu_children.append(inner)
    events = EventList([outer, *outer.cpu_children], None, True, True)
    averages = events.key_averages(group_by_input_shapes=True)
    assert averages.table(sort_by="self_cpu_time_total") == TABLE
    assert str(averages).splitlines()[3].split()[0] == "outer"  # as they began
    assert len(averages.table(row_limit=1).splitlines()) == 6 and len(averages.table(row_limit=-1).splitlines()) == 7
    assert averages.table(header="words").splitlines()[1] == "words"
    assert "3000.000us" in averages.table(time_unit="us") and "0.003s" in averages.table(time_unit="s")
    assert "aten::tanh" not in events.table(top_level_events_only=True) and "top-level" in events.table(top_level_events_only=True)
    assert "..." in averages.table(max_name_column_width=8)
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        averages.table(sort_by="nonsense")
    with pytest.raises(ValueError, match="time_unit"):
        averages.table(time_unit="h")
    assert EventList().table() == ""
    with pytest.raises(RuntimeError, match="averages have no trace"):
        averages.export_chrome_trace("nowhere")


def test_the_trace_is_chromes(tmp_path):
    x = engine.randn(3, 3, requires_grad=True)
    with profile(activities=CPU, record_shapes=True, profile_memory=True) as prof:
        with record_function("mine"):
            y = (x @ x).sum()
        y.backward()
        del y
    prof.add_metadata("who", "me")
    prof.add_metadata_json("sizes", "[1, 2]")
    prof.export_chrome_trace(str(tmp_path / "trace.json"))
    prof.events().export_chrome_trace(str(tmp_path / "trace.json.gz"))
    content = json.loads((tmp_path / "trace.json").read_text())
    with gzip.open(tmp_path / "trace.json.gz", "rt") as file:
        assert len(json.load(file)["traceEvents"]) == len(content["traceEvents"])
    assert content["who"] == "me" and content["sizes"] == [1, 2] and content["record_shapes"] == 1
    spans = {e["name"]: e for e in content["traceEvents"] if e["ph"] == "X"}
    outer, inner = spans["mine"], spans["aten::matmul"]
    assert outer["cat"] == "user_annotation" and inner["cat"] == "cpu_op" and inner["args"]["Input Dims"] == [[3, 3], [3, 3]]
    assert outer["ts"] <= inner["ts"] and inner["ts"] + inner["dur"] <= outer["ts"] + outer["dur"] + 1
    assert abs(outer["ts"] / 1e6 - time.time()) < 60
    arrows = [e for e in content["traceEvents"] if e.get("cat") == "fwdbwd"]
    assert len(arrows) == 4 and {e["ph"] for e in arrows} == {"s", "f"}
    assert any(e["ph"] == "i" and e["args"]["Bytes"] < 0 for e in content["traceEvents"])


def run(steps, **options):
    ready = []
    with profile(activities=CPU, on_trace_ready=lambda p: ready.append((p.step_num, [e.key for e in p.events()])), **options) as prof:
        for _ in range(steps):
            engine.ones(2).exp()
            prof.step()
    return prof, ready


def test_schedules():
    plan = schedule(wait=1, warmup=1, active=2, repeat=2, skip_first=1)
    names = ["NONE", "NONE", "WARMUP", "RECORD", "RECORD_AND_SAVE", "NONE", "WARMUP", "RECORD", "RECORD_AND_SAVE", "NONE", "NONE"]
    assert [plan(i).name for i in range(11)] == names
    prof, ready = run(10, schedule=plan)
    cycle = ["ProfilerStep*", "aten::exp"] * 2
    assert ready == [(5, cycle), (9, cycle)] and prof.step_num == 10
    assert [e.trace_name for e in prof.events()][::2] == ["ProfilerStep#7", "ProfilerStep#8"]
    prof, ready = run(10, schedule=plan, acc_events=True)
    assert len(prof.events()) == 8 and len(ready[-1][1]) == 8
    _, ready = run(3, schedule=schedule(wait=0, warmup=1, active=5))  # ends in the middle of a cycle
    assert ready == [(3, [*cycle, "ProfilerStep*"])]
    _, ready = run(3)
    assert ready == [(3, ["aten::exp"] * 3)]
    assert [schedule(wait=2, warmup=1, active=1, skip_first_wait=1)(i).name for i in range(4)] == [
        "WARMUP",
        "RECORD_AND_SAVE",
        "NONE",
        "NONE",
    ]
    with pytest.warns(UserWarning, match="won't be using warmup"):
        assert schedule(wait=0, warmup=0, active=1)(0) is ProfilerAction.RECORD_AND_SAVE
    with pytest.raises(AssertionError, match="Invalid profiler schedule"):
        schedule(wait=0, warmup=1, active=0)
    with pytest.raises(AssertionError, match="Step must be non-negative. Got -1"):
        plan(-1)
    with pytest.warns(UserWarning, match="RECORD followed by NONE"):
        run(3, schedule=lambda step: ProfilerAction.RECORD if step < 2 else ProfilerAction.NONE)


def test_traces_for_tensorboard(tmp_path):
    handler = tensorboard_trace_handler(str(tmp_path / "runs"), worker_name="w", use_gzip=True)
    run_ = schedule(wait=0, warmup=1, active=1, repeat=2)
    with profile(activities=CPU, schedule=run_, on_trace_ready=handler) as prof:
        for _ in range(5):
            prof.step()
    names = sorted(path.name for path in (tmp_path / "runs").iterdir())
    assert len(names) == 2 and all(n.startswith("w.") and n.endswith(".pt.trace.json.gz") for n in names)
    (tmp_path / "file").write_text("")
    with pytest.raises(RuntimeError, match="Can't create directory"):
        tensorboard_trace_handler(str(tmp_path / "file" / "runs"))(prof)


def test_one_who_watches_already_goes_on_watching():
    class Seen(observe.Observer):
        def __init__(self):
            self.told = []

        def __getattribute__(self, name):
            if name in ("begins", "op", "wrote", "enter", "leave", "backward_begins", "step_begins", "backward", "updated", "failed"):
                self.told.append(name)
            return super().__getattribute__(name)

    def program():
        net = nn.Linear(2, 1)
        net(engine.ones(1, 2)).sum().backward()
        optim.SGD(net.parameters(), lr=0.1).step()
        engine.ones(2).add_(1)
        with pytest.raises(RuntimeError):
            engine.ones(2) @ engine.ones(3)

    with observe.observing(Seen()) as alone:
        program()
    with observe.observing(Seen()) as together, profile(activities=CPU) as prof:
        program()
        assert observe.current is not together
    assert alone.told == together.told and "aten::addmm" in named(prof)


def test_other_threads_are_not_timed():
    with profile(activities=CPU) as prof:
        thread = threading.Thread(target=lambda: engine.ones(2).exp())
        thread.start()
        thread.join()
        engine.ones(2).sin()
    assert set(named(prof)) == {"aten::sin"}


def test_one_that_starts_inside_a_module_survives_its_end():
    prof = profile(activities=CPU)

    class Starts(nn.Module):
        def forward(self, x):
            prof.start()
            return x.exp()

    with observe.observing(observe.Observer()):
        Starts()(engine.ones(2))
        engine.ones(2).sin()
        prof.stop()
    assert set(named(prof)) == {"aten::exp", "aten::sin"}


def test_a_gpus_times(monkeypatch):
    """With a stand-in for the GPU's clock: each mark is 1 ms after the one before."""
    marks = iter(range(1000))
    gpu = SimpleNamespace(mark=lambda: next(marks), seconds_between=lambda a, b: (b - a) / 1e3)
    monkeypatch.setattr(devices, "cuda_available", lambda: True)
    assert ProfilerActivity.CUDA in supported_activities()
    prof = profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA])
    monkeypatch.setattr(devices, "gpu", gpu)
    monkeypatch.setattr(engine.Tensor, "is_cuda", property(lambda self: True))
    with prof, record_function("outer"):
        engine.ones(2).exp()
        engine.ones(2, 2) @ engine.ones(2, 2)
    found = named(prof)
    assert found["aten::exp"].self_cuda_time_total == found["aten::mm"].device_time_total == 1000
    assert found["aten::matmul"].self_device_time_total == 0 and found["outer"].cuda_time_total == 2000
    text = prof.key_averages().table(sort_by="cuda_time_total")
    assert "Self CUDA %" in text and "Self CUDA time total: 2.000ms" in text


def test_the_older_profiler():
    with older.profile(enabled=False) as prof:
        engine.ones(2).exp()
    assert prof is None
    with older.profile(record_shapes=True) as prof:
        engine.ones(2).exp()
        with pytest.raises(RuntimeError, match="didn't finish running"):
            prof.key_averages()
        with pytest.raises(RuntimeError, match="not reentrant"):
            prof.__enter__()
    assert prof.total_average().key == "Total" and "aten::exp" in prof.table(sort_by="cpu_time") == prof.table("cpu_time")
    assert math.isclose(prof.self_cpu_time_total, sum(e.self_cpu_time_total for e in prof.function_events))
    for refused in (older.emit_nvtx, older.emit_itt):
        with pytest.raises(RuntimeError, match="do not mark themselves"):
            refused()
    with pytest.raises(RuntimeError, match="use_device"):
        older.profile(use_device="xpu")


def test_what_is_refused():
    with pytest.raises(AssertionError, match="recorded nothing yet"):
        profile(activities=CPU).events()
    with pytest.raises(AssertionError, match="No valid profiler activities"):
        profile(activities=[])
    with pytest.raises(TypeError, match="ProfilerActivity"):
        profile(activities=["cpu"])
    for name in ("experimental_config", "execution_trace_observer"):
        with pytest.raises(RuntimeError, match=name):
            profile(activities=CPU, **{name: object()})
    if not engine.cuda.is_available():
        with pytest.warns(UserWarning, match="CUDA is not available"):
            assert profile(activities=[*CPU, ProfilerActivity.CUDA]).use_device is None
    assert profile(activities=CPU, custom_trace_id_callback=lambda: "mine").get_trace_id() == ""


def test_the_workbench_records_beside_it():
    import workbench

    with workbench.record() as recording, profile(activities=CPU) as prof:
        y = engine.ones(3, 3) @ engine.ones(3, 3)
        z = y.tanh()
    assert z.shape == (3, 3)
    assert "aten::tanh" in named(prof)
    assert [op.name for op in recording.recording.ops if op is not None][-2:] == ["matmul", "tanh"]


def test_an_error_of_on_trace_ready_is_the_one_that_comes():
    def fails(prof):
        raise KeyError("mine")

    with pytest.warns(UserWarning, match="warmup"):
        every = schedule(wait=0, warmup=0, active=1)
    with pytest.raises(KeyError, match="mine"), profile(schedule=every, on_trace_ready=fails) as prof:
        engine.ones(3) + 1
        prof.step()
    assert observe.current is None


def test_started_twice_it_begins_anew():
    prof = profile()
    prof.start()
    engine.ones(3).tanh()
    prof.start()
    engine.ones(3).exp()
    prof.stop()
    assert observe.current is None
    assert [event.name for event in prof.events() if event.name in ("aten::tanh", "aten::exp")] == ["aten::exp"]
