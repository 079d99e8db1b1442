"""engine.distributed when something goes wrong: what is refused, who has gone, who is silent, who calls something else."""

from __future__ import annotations

import os
import socket
import sys
import threading
import time
from datetime import timedelta

import numpy
import pytest
from processes import together

import engine
import engine.distributed as dist
from engine import nn
from engine.distributed.links import _BYE, _HEADER, Links
from engine.nn.parallel import DistributedDataParallel

pytestmark = [pytest.mark.slow, pytest.mark.skipif(sys.platform == "win32", reason="POSIX processes")]
R = dist.ReduceOp


def one(fn):
    """In a job of this process alone."""
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        fn()
    finally:
        dist.destroy_process_group()


def test_refusals():
    with pytest.raises(ValueError, match="Default process group has not been initialized"):
        dist.all_reduce(engine.ones(1))
    with pytest.raises(ValueError, match="Default process group has not been initialized"):
        dist.get_rank()
    with pytest.raises(AssertionError, match="Process group cannot be None"):
        dist.destroy_process_group()
    with pytest.raises(ValueError, match="Invalid backend: 'pigeon'"):
        dist.init_process_group("pigeon")
    assert not dist.is_initialized() and dist.is_available()

    def inside():
        assert dist.is_initialized() and dist.get_backend() == "gloo" and dist.get_rank() == 0 and dist.group.WORLD.size() == 1
        with pytest.raises(ValueError, match="trying to initialize the default process group twice"):
            dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        with pytest.raises(TypeError, match="Expected parameter `tensor` of type torch.Tensor"):
            dist.all_reduce([1])
        with pytest.raises(RuntimeError, match="Cannot use ReduceOp.BAND with non-integral dtype"):
            dist.all_reduce(engine.ones(1), R.BAND)
        with pytest.raises(ValueError, match="does not support ReduceOp.MAX on complex"):
            dist.all_reduce(engine.ones(1, dtype=engine.complex64), R.MAX)
        with pytest.raises(RuntimeError, match="invalid root rank"):
            dist.broadcast(engine.ones(1), 3)
        with pytest.raises(ValueError, match="source rank should not be the same"):
            dist.recv(engine.ones(1), 0)
        with pytest.raises(ValueError, match="must be specified on source rank"):
            dist.scatter(engine.ones(1))
        with pytest.raises(RuntimeError, match=r"allgather: invalid tensor size at index 0 \(expected \(1,\), got \(2,\)\)"):
            dist.all_gather([engine.ones(2)], engine.ones(1))
        with pytest.raises(RuntimeError, match="DistributedDataParallel is not needed"):
            DistributedDataParallel(nn.ReLU())
        with pytest.raises(ValueError, match="only work with single-device"):
            DistributedDataParallel(nn.Linear(2, 2), device_ids=[0])

    one(inside)


def test_env_must_be_set(monkeypatch):
    for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(ValueError, match="environment variable RANK expected, but not set"):
        dist.init_process_group("gloo")


def dies(rank, world, seen):
    if rank == 1:
        os._exit(0)  # with another exit code the parent would end the others
    start = time.monotonic()
    with pytest.raises(RuntimeError, match=r"all_reduce: rank 1 has ended or raised"):
        dist.all_reduce(engine.ones(4))
    assert time.monotonic() - start < 100
    seen[rank] = 1
    os._exit(0)  # without goodbye: who hears of this first must still know of rank 1


@pytest.mark.parametrize("world", [2, 3])
def test_a_dead_process_is_named(world, tmp_path):
    seen = engine.zeros(world).share_memory_()
    together(dies, world, tmp_path, seen, seconds=30)
    assert seen.tolist() == [1, 0, 1][:world]


def survives(rank, world, seen):
    if rank == 1:
        return  # leaves, well
    with pytest.raises(RuntimeError, match=r"all_reduce: rank 1 has left the process group \(destroy_process_group\) early"):
        dist.all_reduce(engine.ones(4))
    seen[rank] = 1


def test_who_leaves_early_is_named(tmp_path):
    seen = engine.zeros(3).share_memory_()
    together(survives, 3, tmp_path, seen)
    assert seen.tolist() == [1, 0, 1]


def linked(world):
    """The links of all processes of a job, each made in a thread of this one."""
    store, made = dist.HashStore(), {}
    threads = [threading.Thread(target=lambda i=i: made.update({i: Links(i, world, store, 10.0, "127.0.0.1")})) for i in range(world)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    return [made[i] for i in range(world)]


@pytest.mark.parametrize("says_goodbye", [True, False])
def test_who_went_first_is_named_though_others_are_heard_of_before(says_goodbye):
    """Rank 1 goes, and its word reaches only rank 0, which goes because of that; 2 hears of 0, 3 of 2."""
    links = linked(4)
    word = links[1]._sockets[0]
    if says_goodbye:
        word.sendall(_HEADER.pack(_BYE, 0, 0, 0, 0))
    word.shutdown(socket.SHUT_WR)
    first = "rank 1 has left the process group" if says_goodbye else "rank 1 has ended or raised an error"
    with pytest.raises(dist.DistBackendError, match=f"all_reduce: {first}(?!.*and after it)"):
        links[0].receive([1], 0, 5, 10.0, "all_reduce")
    links[0].close()
    with pytest.raises(dist.DistBackendError, match=f"gather: {first}.*; and after it, rank 0 has left"):
        links[2].receive([0], 0, 5, 10.0, "gather")
    links[2].close()
    with pytest.raises(dist.DistBackendError, match=f"scatter: {first}.*; and after it, rank 2 has left"):
        links[3].receive([2], 0, 5, 10.0, "scatter")
    links[1].close(), links[3].close()


def test_a_send_that_fails_tells_how_the_other_went():
    """The system refuses the send before the thread that reads has come to the goodbye."""
    links = linked(2)
    told = []

    def send():
        with pytest.raises(dist.DistBackendError) as error:
            links[0].send(1, 0, 5, 0, 0, b"x", 10.0, "broadcast")
        told.append(str(error.value))

    failed = threading.Thread(target=send)
    with links[0]._arrived:  # what is read can't be noted yet
        links[1].close()
        links[0]._sockets[1].shutdown(socket.SHUT_WR)
        failed.start()
        time.sleep(0.2)
    failed.join(10)
    assert told == ["broadcast: rank 1 has left the process group (destroy_process_group) early"]
    links[0].close()


def ends(rank, world, done):
    """Each does its part and ends, as programs do that know nothing of destroy_process_group."""
    x = engine.ones(1) * (rank + 1)
    found = [engine.zeros(1) for _ in range(world)] if rank == 0 else None
    if rank == 2:
        time.sleep(0.5)  # process 1 has ended by then
    dist.gather(x, found, dst=0)
    if rank == 2:
        time.sleep(0.5)
        dist.send(x, 0)
    if rank == 0:
        assert [f.item() for f in found] == [1, 2, 3]
        assert dist.recv(x) == 2 and x.item() == 3  # from any of those that are still there
        with pytest.raises(dist.DistBackendError, match=r"send: rank \d has ended .*"):
            dist.recv(x)
    done[rank] = 1
    os._exit(0)


def test_who_has_done_his_part_may_end(tmp_path):
    done = engine.zeros(3).share_memory_()
    together(ends, 3, tmp_path, done)
    assert done.tolist() == [1, 1, 1]


def waits(rank, world):
    impatient = dist.new_group(timeout=timedelta(seconds=0.3))
    if rank == 0:
        with pytest.raises(RuntimeError, match=r"rank 0 timed out after 0.3 s, waiting for rank 1"):
            dist.all_reduce(engine.ones(2), group=impatient)
    dist.barrier()  # until then rank 1 is silent


def test_a_silent_process_is_named(tmp_path):
    together(waits, 2, tmp_path)


def disagree(rank, world, told):
    with pytest.raises(RuntimeError, match="rank 1 called broadcast while rank 0 called all_reduce"):
        if rank == 0:
            dist.all_reduce(engine.ones(2))
        else:
            dist.broadcast(engine.ones(2), 0)
    dist.barrier()
    with pytest.raises(RuntimeError, match=r"sent \d float32 values where rank \d expected \d"):
        dist.all_reduce(engine.ones(2 + rank))
    dist.barrier()
    late = timedelta(seconds=0.2)
    if rank == 0:
        with pytest.raises(RuntimeError, match="Rank 1 failed to pass monitoredBarrier in 200 ms"):
            dist.monitored_barrier(timeout=late)
        told[0] = 1
    while not told[0]:  # until then rank 1 is silent
        time.sleep(0.02)


def test_processes_that_disagree(tmp_path):
    together(disagree, 2, tmp_path, engine.zeros(1).share_memory_())


def test_strangers_are_not_let_in(tmp_path):
    """Whoever does not know the job's secret is turned away, and the job starts all the same."""
    store, made = dist.HashStore(), {}
    first = threading.Thread(target=lambda: made.update(a=Links(0, 2, store, 10.0, "127.0.0.1")))
    first.start()
    host, port = store.get("address/0").decode().split()
    with socket.create_connection((host, int(port)), 5) as stranger:
        stranger.sendall(b"0" * 32 + b"\x01\0\0\0")
        assert stranger.recv(1) == b""
    made["b"] = Links(1, 2, store, 10.0, "127.0.0.1")
    first.join(10)
    made["b"].send(0, 0, 5, 0, 0, numpy.arange(3, dtype=numpy.uint8), 5.0)
    assert made["a"].receive([1], 0, 5, 5.0, "send")[3].tolist() == [0, 1, 2]
    made["a"].close(), made["b"].close()
