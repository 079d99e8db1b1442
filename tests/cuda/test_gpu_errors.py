"""Errors on a GPU say what a program needs to know, and it can go on after them: exhausted memory, bad indices, mixed devices, interrupts."""

from __future__ import annotations

import gc
import re

import emulate
import pytest
from on_stand_in import installed

import engine
import workbench as wb
from engine import nn
from workbench.backward.stepper import Stepper

cuda = engine.cuda
TOTAL = 1 << 34


@pytest.fixture
def small(stand_in):
    """A GPU of which the pool may take 64 KiB more than it has; cuBLASLt's workspace is there."""
    engine.ones(2, 2, device="cuda") @ engine.ones(2, 2, device="cuda")
    with wb.record():  # instead of the newest recording of another test, which is kept
        engine.ones(1)
    gc.collect(), gc.collect()  # what other tests left; on Python 3.14 what a finalizer lets go of takes a second time
    cuda.empty_cache()
    cuda.set_per_process_memory_fraction((cuda.memory_reserved() + (64 << 10)) / TOTAL)
    yield stand_in
    cuda.set_per_process_memory_fraction(1.0)


def usable():
    """Whether the GPU computes as before, on the default stream."""
    x = engine.arange(3.0, device="cuda", requires_grad=True)
    (x * x).sum().backward()
    return x.grad.tolist() == [0, 2, 4] and cuda.current_stream() == cuda.default_stream() and not cuda.is_current_stream_capturing()


# -- exhausted memory --------------------------------------------------------------------------------------------------------


def fill():
    held = []
    while True:
        held.append(engine.empty(2048, device="cuda"))  # 8 KiB


def test_after_exhausted_memory_work_goes_on(small):
    before = cuda.memory_allocated()
    for _ in range(3):
        with pytest.raises(cuda.OutOfMemoryError, match=r"Tried to allocate 8.00 KiB") as raised:
            fill()
        told = str(raised.value).splitlines()
        assert re.search(r"Of the allocated memory [\d.]+ MiB is allocated by tensors, and 0 bytes is reserved by the pool", told[0])
        assert told[1:] == ["8.00 KiB: float32 (2048,)"] * 5
        del raised
        assert cuda.memory_allocated() == before and usable()
    assert cuda.memory_stats()["num_ooms"] == 3


def test_memory_that_the_pool_holds_in_other_sizes_is_given_back_first(small):
    """As in PyTorch, where a limit counts what the pool holds free."""
    held = [engine.empty(2048, device="cuda") for _ in range(7)]
    del held
    assert engine.empty(14000, device="cuda").is_cuda and cuda.memory_stats()["num_ooms"] == 0


def test_while_something_records_arrays_have_names_and_lines(small):
    model = nn.Linear(40, 60).to("cuda")  # 9.6 KiB
    with wb.record(keep=0), pytest.raises(cuda.OutOfMemoryError) as raised:
        x = engine.ones(50, 40).to("cuda")  # 8 KiB
        hidden = model(x)  # 12 KiB
        kept = hidden.exp()
        kept = [kept, hidden.tanh()]
        engine.empty(10_000, device="cuda")  # 39 KiB
    told, where = str(raised.value).splitlines(), "in test_gpu_errors.py, line"
    line = test_while_something_records_arrays_have_names_and_lines.__code__.co_firstlineno + 4
    assert (
        set(told[1:4])
        == {
            f"11.72 KiB: float32 (50, 60), hidden, made {where} {line}",
            f"11.72 KiB: float32 (50, 60), kept, made {where} {line + 1}",
            f"11.72 KiB: float32 (50, 60), tanh, made {where} {line + 2}",
        }
        and len(kept) == 2
    )
    assert told[4:] == [
        f"9.38 KiB: float32 (60, 40), weight, used {where} {line}",
        f"7.81 KiB: float32 (50, 40), x, made {where} {line - 1}",
    ]


def test_gradients_are_named_for_their_parameters(small):
    model = nn.Linear(40, 60).to("cuda")
    with wb.record(keep=0), pytest.raises(cuda.OutOfMemoryError) as raised:
        model(engine.ones(2, 40, device="cuda")).sum().backward()
        line = test_gradients_are_named_for_their_parameters.__code__.co_firstlineno + 3
        fill()
    assert f"9.38 KiB: float32 (60, 40), gradient of weight, used in test_gpu_errors.py, line {line}" in str(raised.value)


def test_exhausted_memory_in_a_backward_pass(small):
    x = engine.ones(2048, device="cuda", requires_grad=True)
    big = []

    def hook(grad):
        big.extend(engine.empty(2048, device="cuda") for _ in range(9))

    y = x * 2
    y.register_hook(hook)
    loss = (y * y).sum()
    with pytest.raises(cuda.OutOfMemoryError, match="Tried to allocate"):
        loss.backward()
    assert x.grad is None and big
    big.clear()
    del y, loss
    assert usable()
    (x * 2).sum().backward()
    assert x.grad is not None and x.grad[:2].tolist() == [2, 2]


def test_exhausted_memory_while_the_stepper_holds_a_pass(small):
    stepper, x = stepped(256)
    stepper.next()
    with pytest.raises(cuda.OutOfMemoryError):
        fill()
    stepper.finish()
    assert stepper.done and usable() and x.grad is not None


def test_exhausted_memory_in_a_step_of_the_stepper(small):
    stepper, x = stepped(2048)
    held = engine.empty(1024, device="cuda")  # with it the last steps find far too little
    with pytest.raises(cuda.OutOfMemoryError, match=r"8.00 KiB: float32 \(2048,\), \w+, (made|used) in test_gpu_errors.py"):
        stepper.finish()
    assert not stepper.done and x.grad is None
    del stepper, held
    gc.collect()
    assert usable()
    (x * 2).sum().backward()
    assert x.grad is not None and x.grad[:2].tolist() == [2, 2]


def stepped(n):
    x = engine.ones(n, device="cuda", requires_grad=True)
    with wb.record() as session:
        loss = (x * x).tanh().sum()
    return Stepper.of(session.recording, session.graph, loss), x


# -- interrupts --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("when", range(0, 60, 7))
def test_an_interrupt_at_any_launch_of_a_step_leaves_everything_usable(when, stand_in, monkeypatch):
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1)).to("cuda")
    optimizer = engine.optim.Adam(model.parameters(), 0.1)
    x, launches, submit = engine.ones(5, 3, device="cuda"), [], emulate.Emulator.submit

    def interrupted(work):
        launches.append(None)
        if len(launches) == when + 1:
            raise KeyboardInterrupt
        return submit(work)

    def step():
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()

    step()
    gc.collect()
    before = cuda.memory_allocated()
    monkeypatch.setattr(emulate.Emulator, "submit", staticmethod(interrupted))
    try:
        step()
    except KeyboardInterrupt:
        assert len(launches) == when + 1
    monkeypatch.undo()
    step()
    assert usable() and abs(cuda.memory_allocated() - before) <= 4096


@pytest.mark.parametrize("when", range(4))
def test_an_interrupt_at_a_launch_ends_a_capture(when, stand_in, monkeypatch):
    x, graph, launches, submit = engine.ones(5, 3, device="cuda"), cuda.CUDAGraph(), [], emulate.Emulator.submit

    def interrupted(work):
        launches.append(None)
        if len(launches) == when + 1:
            raise KeyboardInterrupt
        return submit(work)

    (x.tanh() + x.exp() * x).sum()
    monkeypatch.setattr(emulate.Emulator, "submit", staticmethod(interrupted))
    with pytest.raises(KeyboardInterrupt), cuda.graph(graph):
        (x.tanh() + x.exp() * x).sum()
    monkeypatch.undo()
    assert usable()
    with cuda.graph(graph):
        y = x + 1
    graph.replay()
    assert y.tolist() == [[2] * 3] * 5


# -- devices and indices -----------------------------------------------------------------------------------------------------

MIXED = {
    "add: .*; input is (2,) float32 on cpu, other is (2,) float32 on cuda:0": lambda a, b: a + b,
    "matmul: .*; input is (2,) float32 on cuda:0, other is (2,) float32 on cpu": lambda a, b: b @ a,
    "where: .*; condition is (2,) bool on cpu, input is (2,) float32 on cuda:0, other is (2,) float32 on cuda:0": (
        lambda a, b: engine.where(a > 0, b, b)
    ),
    "cat: .*; tensors[0] is (2,) float32 on cpu, tensors[1] is (2,) float32 on cuda:0": lambda a, b: engine.cat([a, b]),
    "linear: .*; input is (2,) float32 on cpu, weight is (1, 2) float32 on cuda:0": lambda a, b: nn.functional.linear(a, b[None]),
}


@pytest.mark.parametrize("message", MIXED)
def test_operands_on_several_devices_are_named_with_them(message, stand_in):
    with pytest.raises(RuntimeError, match=re.escape(message).replace(r"\.\*", ".*")):
        MIXED[message](engine.ones(2), engine.ones(2, device="cuda"))


def test_operands_on_two_gpus():
    told = r"found at least two devices, cuda:0 and cuda:1!; input .* on cuda:0, other .* on cuda:1"
    with installed(gpus=2), pytest.raises(RuntimeError, match=told):
        engine.ones(2, device="cuda:0") + engine.ones(2, device="cuda:1")


def test_where_devices_agree_they_are_not_named(stand_in):
    with pytest.raises(RuntimeError, match="^add: ") as raised:
        engine.ones(2, device="cuda") + engine.ones(3, device="cuda")
    assert " on c" not in str(raised.value)


READ = {
    "item": lambda x: x.item(),
    "condition": lambda x: bool(x > 0),
    "synchronize": lambda x: cuda.synchronize(),
    "stream": lambda x: cuda.current_stream().synchronize(),
    "nonzero": lambda x: x.nonzero(),
}


@pytest.mark.parametrize("read", READ)
def test_a_bad_index_is_reported_at_the_next_wait_with_its_line(read, stand_in):
    table, x = engine.ones(3, 2, device="cuda"), engine.ones((), device="cuda")
    good, bad = (engine.tensor(places, device="cuda") for places in ([0, 1], [0, 5]))
    with wb.record():
        nn.functional.embedding(good, table)
        nn.functional.embedding(bad, table)
        nn.functional.embedding(good, table)
        with pytest.raises(IndexError) as raised:
            READ[read](x)
        READ[read](x)
    line = test_a_bad_index_is_reported_at_the_next_wait_with_its_line.__code__.co_firstlineno + 6
    told = (
        f"index 5 is out of bounds for a dimension of size 3: embedding on cuda:0, called in test_gpu_errors.py, line {line}, at position 1"
    )
    assert str(raised.value).startswith(told)


def test_without_a_recording_the_line_is_unknown(stand_in):
    engine.ones(3, 2, device="cuda")[engine.tensor([0, 1], device="cuda")]
    nn.functional.embedding(engine.tensor([7], device="cuda"), engine.ones(3, 2, device="cuda"))
    with pytest.raises(IndexError, match="size 3: embedding on cuda:0, at position 0 of the index"):
        cuda.synchronize()
