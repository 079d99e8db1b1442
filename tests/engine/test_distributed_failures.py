"""engine.distributed when something goes wrong: what is refused, who has gone, who is silent, who calls something else."""

from __future__ import annotations

import os
import sys
import time
from datetime import timedelta

import pytest
from processes import together

import engine
import engine.distributed as dist
from engine import multiprocessing as mp
from engine import nn
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


def raises(rank, world, seen):
    if rank == 1:
        raise KeyError("as expected")
    try:
        dist.all_reduce(engine.ones(4))
    except dist.DistBackendError as error:
        seen[rank] = str(error).startswith("all_reduce: rank 1 failed with KeyError: 'as expected'")
    os._exit(0)


def test_who_raises_is_named_with_the_error(tmp_path):
    seen = engine.zeros(3).share_memory_()
    with pytest.raises(mp.ProcessRaisedException, match="as expected"):
        together(raises, 3, tmp_path, seen)
    assert seen.tolist() == [1, 0, 1]


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
        with pytest.raises(dist.DistBackendError, match=r"recv: rank \d has ended .*"):
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
    x = engine.ones(2)
    with pytest.raises(
        dist.DistBackendError, match=r"different collectives: rank 0 called all_reduce\(SUM\) .*; rank 1 called broadcast of 2"
    ):
        dist.all_reduce(x) if rank == 0 else dist.broadcast(x, 0)
    with pytest.raises(
        dist.DistBackendError, match=r"rank 0 called all_reduce\(SUM\) of 2 .*; rank 1 called all_reduce\(MAX\) of 2"
    ) as error:
        dist.all_reduce(x, [R.SUM, R.MAX][rank])
    assert str(error.value).count("test_distributed_failures.py, line ") == 2  # the lines of both
    for n in (2, 50_000):  # of which the second would not travel in the frame
        with pytest.raises(dist.DistBackendError, match=rf"rank 0 called .* of {n} float32 .*; rank 1 called .* of {n + 1} float32"):
            dist.all_reduce(engine.ones(n + rank))
        with pytest.raises(dist.DistBackendError, match=rf"of {n} float64 values at .* of {n} int64 values at "):
            dist.all_reduce(engine.ones(n, dtype=[engine.float64, engine.int64][rank]))
    with pytest.raises(dist.DistBackendError, match=r"all_to_all: rank 0 sent 1 float32 values where rank 1 expected 2"):
        dist.all_to_all(
            [engine.ones(1 + (rank == 1 and i == 0)) for i in range(2)], [engine.ones(1 + (rank == 1 and i == 1)) for i in range(2)]
        )
    if rank == 0:
        dist.send(engine.ones(3), 1)
    else:
        with pytest.raises(dist.DistBackendError, match="recv: rank 0 sent 3 float32 values where rank 1 expected 2 float64"):
            dist.recv(engine.ones(2, dtype=engine.float64), 0)
    assert x.tolist() == [1, 1]  # nothing has been written
    dist.all_reduce(x)
    assert x.tolist() == [2, 2]  # and the group goes on
    if rank == 0:
        with pytest.raises(RuntimeError, match="Rank 1 failed to pass monitoredBarrier in 200 ms"):
            dist.monitored_barrier(timeout=timedelta(seconds=0.2))
        told[0] = 1
    while not told[0]:  # until then rank 1 is silent
        time.sleep(0.02)


def test_processes_that_disagree(tmp_path):
    together(disagree, 2, tmp_path, engine.zeros(1).share_memory_())


def expires(rank, world):
    if rank == 1:
        got = dist.irecv(engine.zeros(2), 0)
        with pytest.raises(dist.DistBackendError, match=r"send or recv: rank 1 timed out after 0.2 s, waiting for rank 0"):
            got.wait(timedelta(seconds=0.2))
        impatient = dist.new_group(timeout=timedelta(seconds=0.2))
        with pytest.raises(dist.DistBackendError, match=r"send or recv: rank 1 timed out after 0.2 s"):
            dist.recv(engine.zeros(2), 0, group=impatient)
        dist.barrier()
        x = engine.zeros(2)
        assert dist.recv(x, 0, group=impatient) == 0 and x.tolist() == [3, 3]  # the message does not go to the receive that has expired
        assert got.wait()  # without an error of its own, it goes on
    else:
        impatient = dist.new_group(timeout=timedelta(seconds=0.2))
        dist.barrier()
        sent = dist.isend(engine.ones(2) * 3, 1, group=impatient)
        dist.send(engine.ones(2), 1)
        assert sent.wait()
    child = mp.get_context("fork").Process(target=forked, args=(rank,))
    child.start()
    child.join()
    assert child.exitcode == 0
    dist.barrier()


def forked(rank):
    assert dist.get_rank() == rank  # as datasets ask in a worker
    with pytest.raises(RuntimeError, match="a forked process, such as a worker of a DataLoader, can't call collectives"):
        dist.barrier()


def test_what_has_expired_and_what_is_forked(tmp_path):
    together(expires, 2, tmp_path)


def comes_not(rank, world, path):
    if rank == 0:
        os._exit(0)
    with pytest.raises(dist.DistError, match=r"rank 1: (no connection from rank\(s\) \[0\]|rank 0 has ended before)"):
        dist.init_process_group("gloo", f"file://{path}", timedelta(seconds=0.5), world, rank)


def test_a_process_that_does_not_come_is_named(tmp_path):
    mp.start_processes(comes_not, (2, str(tmp_path / "met")), nprocs=2, start_method="fork")


def gives_up(rank, world, path):
    if rank == 2:
        os._exit(0)
    told = ("rank 0: the job has not started, because of " if rank == 0 else "") + "rank 1: the job has not started in 0.5 s"
    with pytest.raises(dist.DistNetworkError, match=f"^{told}$"):
        dist.init_process_group("gloo", f"file://{path}", timedelta(seconds=200 if rank == 0 else 0.5), world, rank)


def test_all_give_up_when_one_does(tmp_path):
    mp.start_processes(gives_up, (3, str(tmp_path / "met")), nprocs=3, start_method="fork")
