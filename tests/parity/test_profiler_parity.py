"""The profiler beside PyTorch's: tables of the same events to the letter, names and counts of the same program, schedules."""

from __future__ import annotations

import random
import warnings

import pytest
import torch
from torch.autograd import profiler_util as theirs

import engine
from engine.profiler import events as ours

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]
NAMES = ["aten::mm", "aten::tanh", "a" * 60, "ProfilerStep#3", "outer", "x"]


def drawn(seed: int, shapes: bool, stack: bool) -> list[dict]:
    """Events as plain data: number, name, begin and end in microseconds, parent and more; children lie inside their parents."""
    rng, found = random.Random(seed), []
    for _ in range(6):
        begin, length = rng.uniform(0, 1e5), rng.choice([12.0, 3.4e3, 5.6e6])
        top = len(found)
        found.append({"name": rng.choice(NAMES), "begin": begin, "end": begin + length, "parent": None})
        for part in range(rng.randrange(3)):
            found.append(
                {"name": rng.choice(NAMES), "begin": begin + part * length / 3, "end": begin + (part + 1) * length / 3, "parent": top}
            )
    for event in found:
        event["shapes"] = rng.choice([[], [[2, 3]], [[5, 10], [20, 10], [20]]]) if shapes else []
        event["stack"] = [f"{'d' * rng.randrange(90)}.py({k}): f" for k in range(rng.randrange(4))] if stack else []
        event["memory"], event["flops"] = rng.choice([0, 12, -400, 5 << 10, 3 << 20, 2 << 30]), rng.choice([0, 700, 2 * 10**6])
    return found


def build(module, data, **options):
    made = []
    for number, event in enumerate(data):
        if module is theirs:
            one = theirs.FunctionEvent(
                id=number, name=event["name"], thread=1, start_us=event["begin"], end_us=event["end"], input_shapes=event["shapes"],
                stack=event["stack"], flops=event["flops"], cpu_memory_usage=event["memory"],
            )  # fmt: skip
        else:
            interval = ours.Interval(event["begin"], event["end"])
            one = ours.FunctionEvent(
                number, event["name"], interval, 1, input_shapes=event["shapes"], stack=event["stack"], flops=event["flops"]
            )
        if event["parent"] is not None:
            one.cpu_parent = made[event["parent"]]
            made[event["parent"]].cpu_children.append(one)
        made.append(one)
    if module is ours:  # PyTorch's events know the memory with what is inside
        for one, event in zip(made, data, strict=True):
            one.self_cpu_memory_usage = event["memory"] - sum(data[child.id]["memory"] for child in one.cpu_children)
    found = module.EventList(made, **options)
    found._tree_built = True
    return found


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("shapes", [False, True])
@pytest.mark.parametrize("stack", [False, True])
def test_tables_are_the_same_text(seed, shapes, stack):
    data = drawn(seed, shapes, stack)
    for options in (
        {},
        {"profile_memory": True},
        {"profile_memory": True, "with_flops": not stack},
    ):  # with both, PyTorch swaps the two columns
        a, b = (build(module, data, **options) for module in (ours, theirs))
        lists = [(a, b), (a.key_averages(), b.key_averages())]
        lists += [(a.key_averages(True), b.key_averages(True)), (a.key_averages(False, 2), b.key_averages(False, 2))]
        for one, other in lists:
            for told in (
                {}, {"sort_by": "self_cpu_time_total"}, {"sort_by": "count", "row_limit": 3}, {"row_limit": -1, "header": "words"},
                {"max_name_column_width": 20, "max_shapes_column_width": 15, "max_src_column_width": 30}, {"time_unit": "ms"},
                {"max_name_column_width": None, "sort_by": "cpu_memory_usage"},
            ):  # fmt: skip
                assert one.table(**told) == other.table(**told), told
        assert a.table(top_level_events_only=True) == b.table(top_level_events_only=True)
        assert a.self_cpu_time_total == pytest.approx(b.self_cpu_time_total)


def program(lib, seed):
    lib.manual_seed(seed)
    net = lib.nn.Sequential(lib.nn.Linear(6, 8), lib.nn.Tanh(), lib.nn.Linear(8, 3))
    optimizer = lib.optim.SGD(net.parameters(), lr=0.1)
    x, y = lib.randn(4, 6), lib.arange(4) % 3
    with lib.profiler.profile(
        activities=[lib.profiler.ProfilerActivity.CPU], record_shapes=True, with_flops=True, profile_memory=True
    ) as prof:
        with lib.profiler.record_function("forward"):
            loss = lib.nn.functional.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
        lib.mm(x, x.t())
        lib.bmm(x[None], x.t()[None])
        lib.nn.functional.conv2d(lib.ones(1, 2, 5, 5), lib.ones(3, 2, 2, 2))
    return {event.key: event for event in prof.key_averages()}


def test_programs_give_the_same_calls():
    a, b = (program(lib, 3) for lib in (engine, torch))
    for name in (
        "forward", "aten::linear", "aten::addmm", "aten::tanh", "aten::cross_entropy_loss", "AddmmBackward0", "TanhBackward0",
        "autograd::engine::evaluate_function: AddmmBackward0", "torch::autograd::AccumulateGrad", "Optimizer.step#SGD.step", "aten::bmm", "aten::conv2d",
    ):  # fmt: skip
        assert a[name].count == b[name].count, name
    assert a["aten::addmm"].flops == b["aten::addmm"].flops and a["aten::bmm"].flops == b["aten::bmm"].flops
    assert a["aten::conv2d"].flops + a["aten::convolution"].flops == b["aten::conv2d"].flops
    whole = [sum(x[name].flops for name in x if "mm" in name) for x in (a, b)]
    assert whole[0] == whole[1]  # those of backward products too, which PyTorch tells as ops
    assert a["aten::tanh"].cpu_memory_usage == b["aten::tanh"].cpu_memory_usage


@pytest.mark.parametrize("seed", range(20))
def test_schedules_are_the_same(seed):
    rng = random.Random(seed)
    options = {name: rng.randrange(3) for name in ("wait", "warmup", "repeat", "skip_first", "skip_first_wait")} | {
        "active": rng.randrange(1, 4)
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        a, b = (lib.profiler.schedule(**options) for lib in (engine, torch))
    assert [a(i).name for i in range(30)] == [b(i).name for i in range(30)], options


@pytest.mark.parametrize("seed", range(12))
def test_measurements_have_the_same_words(seed):
    import torch.utils.benchmark as other
    from torch.utils.benchmark.utils import common

    from engine.utils import benchmark

    rng = random.Random(seed)
    spread = rng.choice([0.01, 0.15, 0.6])
    times = [rng.choice([1e-6, 1e-3, 1.0]) * 1.0 for _ in range(1)] * rng.randrange(1, 9)
    times = [t * rng.uniform(1 - spread, 1 + spread) for t in times]
    words = {
        "label": rng.choice([None, "l"]),
        "sub_label": rng.choice([None, "s"]),
        "description": rng.choice([None, "d"]),
        "num_threads": rng.choice([1, 4]),
    }
    task = (rng.choice(["x", "x\ny"]), rng.choice(["pass", "z", "z\nw"]))
    a = benchmark.Measurement(100, times, benchmark.TaskSpec(*task, **words))
    b = other.Measurement(100, times, common.TaskSpec(*task, **words))
    assert repr(a).splitlines()[1:] == repr(b).splitlines()[1:]
    assert a.significant_figures == b.significant_figures and a.has_warnings == b.has_warnings and a.as_row_name == b.as_row_name
    assert (a.median, a.mean, a.iqr) == pytest.approx((b.median, b.mean, b.iqr))
    assert benchmark.trim_sigfig(times[0], 3) == pytest.approx(common.trim_sigfig(times[0], 3))
