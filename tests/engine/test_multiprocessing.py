"""engine.multiprocessing: tensors in shared memory, through queues and pipes, and processes that train one model."""

from __future__ import annotations

import gc
import os
import signal
import sys
import time

import numpy
import pytest

import engine
from engine import multiprocessing as mp
from engine import nn

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform == "win32", reason="descriptors are passed over Unix sockets"),
]


def answer(inbox, outbox):
    """Double in place whatever tensor comes, and send it back."""
    while (x := inbox.get()) is not None:
        x.mul_(2)
        outbox.put(x)
        inbox.get()  # the sender of a tensor must live until it has been received


def echo(pipe):
    pipe.send([pipe.recv(), "text"])
    pipe.recv()


def store(index, target, values):
    target[index] = values[index]


def fails(index):
    if index == 1:
        raise KeyError("sample 7")
    time.sleep(60)


def is_killed(index):
    if index == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(60)


def leaves(index):
    sys.exit(5)


def ignores_terminate(index, ready):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if index == 0:
        while not ready[1]:
            time.sleep(0.01)
        raise ValueError("x")
    ready[1] = 1
    time.sleep(60)


def hogwild(index, model, x, y, rounds):
    optimizer = engine.optim.SGD(model.parameters(), lr=0.05)
    for i in range(index, rounds, 2):
        optimizer.zero_grad()
        nn.functional.mse_loss(model(x[i % 4]), y[i % 4]).backward()
        optimizer.step()


# -- shared memory ----------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [engine.float32, engine.float64, engine.int64, engine.bool, engine.bfloat16, engine.complex64])
def test_share_memory_keeps_the_numbers(dtype):
    x = engine.arange(6).reshape(2, 3).to(dtype)
    values = x.tolist()
    assert not x.is_shared()
    assert x.share_memory_() is x and x.is_shared() and x.tolist() == values and x.dtype is dtype
    address = x.data_ptr()
    assert x.share_memory_().data_ptr() == address  # once is enough


def test_views_move_with_their_base():
    x = engine.zeros(4, 6)
    row, corner = x[1], x.t()[2:, 1:]
    corner.share_memory_()
    assert all(t.is_shared() for t in (x, row, corner))
    x.fill_(3)
    row[2] = 5
    assert row.tolist() == [3, 3, 5, 3, 3, 3] and corner[0, 0].item() == 5 and x[1, 2].item() == 5


def test_strides_and_the_rest_stay():
    x = engine.arange(6.0).reshape(2, 3).t()
    y = engine.Tensor._wrap(numpy.asfortranarray(numpy.arange(6.0).reshape(2, 3))).share_memory_()
    assert y.stride() == (1, 2) and y.tolist() == [[0, 1, 2], [3, 4, 5]]
    assert engine.zeros(0, 3).share_memory_().shape == (0, 3) and engine.tensor(2.5).share_memory_().item() == 2.5
    assert x.share_memory_().tolist() == [[0, 3], [1, 4], [2, 5]]
    w = nn.Parameter(engine.ones(3))
    w.data.share_memory_()
    (w.share_memory_() * 2).sum().backward()
    assert w.is_shared() and w.requires_grad and w.is_leaf and w.grad.tolist() == [2, 2, 2]


def descriptors():
    gc.collect()
    return len(os.listdir("/proc/self/fd"))


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="counts descriptors in /proc")
def test_no_descriptor_is_left():
    before = descriptors()
    tensors = [engine.zeros(100).share_memory_() for _ in range(10)]
    assert descriptors() > before
    del tensors
    assert descriptors() == before


def test_without_memfd(monkeypatch):
    monkeypatch.delattr(os, "memfd_create", raising=False)
    assert engine.arange(5).share_memory_().tolist() == [0, 1, 2, 3, 4]


def test_a_module_is_shared_and_stays_itself():
    net = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4))
    before = list(net.parameters())
    values = [t.tolist() for t in net.state_dict().values()]
    assert net.share_memory() is net
    assert all(t.is_shared() for t in net.state_dict().values())
    assert [t.tolist() for t in net.state_dict().values()] == values
    assert all(p is q and p.is_leaf and p.requires_grad for p, q in zip(before, net.parameters(), strict=True))


# -- to another process ---------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("queue", ["Queue", "SimpleQueue", "JoinableQueue"])
def test_queues_pass_memory(queue):
    context = mp.get_context("fork")
    there, back = getattr(context, queue)(), getattr(context, queue)()
    process = context.Process(target=answer, args=(there, back))
    process.start()
    x = engine.arange(8.0)
    there.put(x[2:5])  # a view: its base is shared from now on
    y = back.get()
    assert y.tolist() == [4, 6, 8] and x.tolist() == [0, 1, 4, 6, 8, 5, 6, 7] and y.dtype is engine.float32
    assert y.array.dtype is numpy.dtype("f4")
    y.zero_()
    assert x.tolist() == [0, 1, 0, 0, 0, 5, 6, 7]
    there.put(0)
    there.put(None)
    process.join(10)
    assert process.exitcode == 0


def test_pipes_pass_parameters_and_strides():
    context = mp.get_context("fork")
    mine, theirs = context.Pipe()
    process = context.Process(target=echo, args=(theirs,))
    process.start()
    w = nn.Parameter(engine.arange(6.0).reshape(2, 3))
    mine.send({"w": w, "t": w.detach().t(), "half": engine.ones(2, dtype=engine.bfloat16), "frozen": engine.ones(0, 2)})
    found, text = mine.recv()
    mine.send(None)
    process.join(10)
    assert text == "text" and isinstance(found["w"], nn.Parameter) and found["w"].requires_grad and found["w"].is_leaf
    assert found["t"].stride() == (1, 3) and found["t"].tolist() == [[0, 3], [1, 4], [2, 5]]
    assert found["half"].dtype is engine.bfloat16 and found["frozen"].shape == (0, 2)
    with engine.no_grad():
        found["w"][0, 0] = 9.0
    assert w[0, 0].item() == 9


def test_graphs_do_not_travel():
    x = engine.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match="Cowardly refusing to serialize non-leaf tensor which requires_grad"):
        mp.SimpleQueue().put(x * 2)


# -- spawn --------------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["spawn", "fork"])
def test_spawn_shares_its_arguments(method):
    target, values = engine.zeros(2), engine.tensor([3.0, 4.0])
    if method == "fork":
        target.share_memory_()
    assert mp.start_processes(store, (target, values), nprocs=2, start_method=method) is None
    assert target.tolist() == [3, 4]


def test_what_a_process_raised_is_raised_here():
    start = time.monotonic()
    with pytest.raises(
        mp.ProcessRaisedException, match=r"Process 1 terminated with the following error:\nTraceback[\s\S]*fails[\s\S]*sample 7"
    ) as told:
        mp.start_processes(fails, nprocs=2, start_method="fork")
    assert told.value.error_index == 1 and told.value.pid > 0 and time.monotonic() - start < 100


def test_killed_and_left_processes_are_told_apart():
    with pytest.raises(mp.ProcessExitedException, match="process 0 terminated with signal SIGKILL") as told:
        mp.start_processes(is_killed, nprocs=2, start_method="fork")
    assert told.value.exit_code == -9 and told.value.signal_name == "SIGKILL" and told.value.error_index == 0
    with pytest.raises(mp.ProcessExitedException, match="process 0 terminated with exit code 5") as told:
        mp.start_processes(leaves, nprocs=1, start_method="fork")
    assert told.value.exit_code == 5 and told.value.signal_name is None


def test_join_false_gives_a_context():
    target = engine.zeros(2).share_memory_()
    context = mp.start_processes(store, (target, [1.0, 2.0]), nprocs=2, join=False, start_method="fork")
    assert isinstance(context, mp.ProcessContext) and len(context.pids()) == 2 and len(context.processes) == 2
    while not context.join(timeout=5):
        pass
    assert target.tolist() == [1, 2] and context.join() is True
    assert not any(os.path.exists(name) for name in context.error_files)


def test_who_ignores_terminate_is_killed():
    ready = engine.zeros(2).share_memory_()
    context = mp.start_processes(ignores_terminate, (ready,), nprocs=2, join=False, start_method="fork")
    with pytest.raises(mp.ProcessRaisedException):
        while not context.join(grace_period=0.3):
            pass
    assert not any(p.is_alive() for p in context.processes)


def test_names_of_python_are_there():
    assert {"Process", "Queue", "SimpleQueue", "Pool", "Manager", "get_context", "set_start_method", "cpu_count"} <= set(mp.__all__)
    assert mp.get_all_sharing_strategies() >= {mp.get_sharing_strategy()}
    mp.set_sharing_strategy("file_descriptor")
    with pytest.raises(AssertionError, match="expected one of"):
        mp.set_sharing_strategy("carrier pigeon")


# -- Hogwild ------------------------------------------------------------------------------------------------------------------------------


def test_two_processes_train_one_model():
    engine.manual_seed(0)
    model = nn.Linear(3, 1)
    with engine.no_grad():
        model.weight.zero_()
    x = engine.randn(4, 16, 3)
    true = engine.tensor([[1.0, -2.0, 0.5]])
    y = x @ true.t() + 0.25
    model.share_memory()
    mp.start_processes(hogwild, (model, x, y, 400), nprocs=2, start_method="fork")
    numpy.testing.assert_allclose(model.weight.detach().numpy(), true.numpy(), atol=1e-2)
    assert model.bias.item() == pytest.approx(0.25, abs=1e-2)
