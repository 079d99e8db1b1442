"""engine.distributed: collectives between real processes over loopback, messages, objects, groups."""

from __future__ import annotations

import subprocess
import sys
from datetime import timedelta

import numpy
import pytest
from processes import equal, together, values

import engine
import engine.distributed as dist
from engine.distributed.grad_bucket import GradBucket

pytestmark = [pytest.mark.skipif(sys.platform == "win32", reason="POSIX processes")]
R = dist.ReduceOp


def reductions(rank, world):
    combine = {R.SUM: numpy.sum, R.PRODUCT: numpy.prod, R.MIN: numpy.min, R.MAX: numpy.max, R.AVG: numpy.mean}
    for n in (0, 1, 5, 40_001):  # nothing, fewer than processes, small, large
        for op, fn in combine.items():
            for dtype in ("float64", "int64", "complex128"):
                kind = numpy.dtype(dtype).kind
                if (kind == "i" and op is R.AVG) or (kind == "c" and op in (R.MIN, R.MAX, R.PRODUCT)):
                    continue
                if n > 5 and (op is R.PRODUCT and kind == "i"):
                    continue
                x = engine.tensor(values(rank, n, dtype))
                assert dist.all_reduce(x, op=op) is None
                equal(x, fn(numpy.stack([values(r, n, dtype) for r in range(world)]), axis=0), 1e-12)
    for op, fn in {R.BAND: numpy.bitwise_and, R.BOR: numpy.bitwise_or, R.BXOR: numpy.bitwise_xor}.items():
        for dtype in ("int32", "uint8", "bool"):
            x = engine.tensor(values(rank, 9, dtype))
            dist.all_reduce(x, op)
            equal(x, fn.reduce([values(r, 9, dtype) for r in range(world)]))
    whole = engine.arange(12.0).reshape(3, 4)
    dist.all_reduce(whole.t()[1])  # a view that is not contiguous: only it changes
    expected = numpy.arange(12.0).reshape(3, 4)
    expected[:, 1] *= world
    equal(whole, expected)
    half = engine.full((3,), 1.5, dtype=engine.bfloat16)
    dist.all_reduce(half)
    assert half.tolist() == [1.5 * world] * 3 and half.dtype is engine.bfloat16
    many = [engine.ones(2) * rank, engine.ones(2, 2)]
    dist.all_reduce_coalesced(many)
    assert many[0].tolist() == [sum(range(world))] * 2 and many[1].tolist() == [[world] * 2] * 2


@pytest.mark.parametrize("world", [1, 2, 3])
def test_all_reduce(world, tmp_path):
    together(reductions, world, tmp_path)


def the_others(rank, world):
    mine = [engine.tensor([rank, float(i)]) for i in range(world)]
    x = engine.full((2, 3), float(rank))
    dist.broadcast(x, src=world - 1)
    equal(x, numpy.full((2, 3), world - 1.0))
    outs = [engine.zeros(2) for _ in range(world)]
    dist.all_gather(outs, mine[0])
    assert [o.tolist() for o in outs] == [[r, 0] for r in range(world)]
    flat, stacked = engine.zeros(2 * world), engine.zeros(world, 2)
    dist.all_gather_into_tensor(flat, mine[0])
    dist.all_gather_into_tensor(stacked, mine[0])
    assert stacked.tolist() == [[r, 0] for r in range(world)] and flat.tolist() == [v for r in range(world) for v in (r, 0)]
    outs = [engine.zeros(2) for _ in range(world)] if rank == 1 else None
    dist.gather(mine[0], outs, dst=1)
    assert rank != 1 or [o.tolist() for o in outs] == [[r, 0] for r in range(world)]
    x = engine.zeros(2)
    dist.scatter(x, [engine.tensor([9.0, i]) for i in range(world)] if rank == 0 else None, src=0)
    assert x.tolist() == [9, rank]
    x = engine.tensor([1.0, rank])
    dist.reduce(x, dst=0, op=R.MAX)
    assert x.tolist() == ([1, world - 1] if rank == 0 else [1, rank])
    x = engine.zeros(2)
    dist.reduce_scatter(x, mine)
    assert x.tolist() == [sum(range(world)), world * rank]
    x = engine.zeros(1)
    dist.reduce_scatter_tensor(x, engine.arange(float(world)) + rank, op=R.AVG)
    assert x.item() == pytest.approx(rank + (world - 1) / 2)
    outs = [engine.zeros(2) for _ in range(world)]
    dist.all_to_all(outs, mine)
    assert [o.tolist() for o in outs] == [[r, rank] for r in range(world)]
    x = engine.zeros(world, 1)
    dist.all_to_all_single(x, engine.arange(float(world)).reshape(-1, 1) + 10 * rank)
    assert x.flatten().tolist() == [10 * r + rank for r in range(world)]
    x = engine.zeros(world * (rank + 1))  # process r sends i + 1 values to process i
    dist.all_to_all_single(x, engine.full((world * (world + 1) // 2,), float(rank)), [rank + 1] * world, [i + 1 for i in range(world)])
    assert x.tolist() == [r for r in range(world) for _ in range(rank + 1)]
    works = [dist.all_reduce(engine.ones(50_000), async_op=True) for _ in range(3)]
    y = engine.ones(2) * rank
    last = dist.all_reduce(y, async_op=True)
    assert all(w.wait() for w in works) and last.wait(timedelta(seconds=20)) and last.is_completed() and last.is_success()
    assert y.tolist() == [sum(range(world))] * 2 and last.exception() is None
    dist.barrier()
    dist.monitored_barrier(timeout=timedelta(seconds=20))


@pytest.mark.parametrize("world", [2, 3])
def test_the_other_collectives(world, tmp_path):
    together(the_others, world, tmp_path)


def messages(rank, world):
    other = 1 - rank
    x = engine.full((300_000,), float(rank))  # more than MPI buffers: a send waits until the receiver takes it, as PyTorch's does
    sent = dist.isend(x, other)
    y = engine.zeros(300_000)
    assert dist.recv(y, other) == other and y[0].item() == y[-1].item() == other and sent.wait()
    got = dist.irecv(y[:2], src=other, tag=7)
    first = dist.isend(engine.tensor([1.0, 2.0]) + rank, other, tag=3)
    assert dist.isend(engine.tensor([3.0, 4.0]) + rank, other, tag=7).wait()
    assert got.wait() and y[:2].tolist() == [3 + other, 4 + other]
    assert dist.recv(y[:2], tag=3) == other and y[:2].tolist() == [1 + other, 2 + other] and first.wait()  # from any
    z = engine.zeros(2)
    for work in dist.batch_isend_irecv([dist.P2POp(dist.isend, y[:2], other), dist.P2POp(dist.irecv, z, other)]):
        work.wait()
    assert z.tolist() == [1 + rank, 2 + rank]
    objects = [None, None]
    dist.all_gather_object(objects, {"rank": rank, "x": engine.ones(rank + 1)})
    assert [o["rank"] for o in objects] == [0, 1] and objects[1]["x"].tolist() == [1, 1]
    said = ["a", {1: 2}] if rank == 0 else [None, None]
    dist.broadcast_object_list(said, src=0)
    assert said == ["a", {1: 2}]
    found = [None, None] if rank == 0 else None
    dist.gather_object("x" * (rank + 1), found, dst=0)
    assert rank or found == ["x", "xx"]
    out = [None]
    dist.scatter_object_list(out, ["first", "second"] if rank == 0 else None, src=0)
    assert out == [["first", "second"][rank]]
    if rank == 0:
        dist.send_object_list(["over", 3], dst=1)
    else:
        had = [None, None]
        assert dist.recv_object_list(had, src=0) == 0 and had == ["over", 3]


def test_messages_and_objects(tmp_path):
    together(messages, 2, tmp_path)


def groups(rank, world):
    pair = dist.new_group([2, 0])
    rest = dist.new_group([1])
    if rank == 1:
        assert pair == dist.GroupMember.NON_GROUP_MEMBER and dist.get_rank(pair) == -1 and dist.get_world_size(rest) == 1
        with pytest.warns(UserWarning, match="Running all_reduce on global rank 1 which does not belong to the given group"):
            assert dist.all_reduce(engine.ones(1), group=pair) is None
    else:
        assert dist.get_process_group_ranks(pair) == [0, 2] and dist.get_rank(pair) == rank // 2 and dist.get_world_size(pair) == 2
        x = engine.tensor([float(rank)])
        dist.all_reduce(x, group=pair)
        assert x.item() == 2
        dist.broadcast(x.fill_(rank), src=2, group=pair)
        assert x.item() == 2 and dist.get_global_rank(pair, 1) == 2 and dist.get_group_rank(pair, 2) == 1
        with pytest.raises(ValueError, match="src=1 is none of the group's ranks"):
            dist.broadcast(x, src=1, group=pair)
        dist.destroy_process_group(pair)
    x = engine.ones(1)
    dist.all_reduce(x)
    assert x.item() == 3


def test_groups(tmp_path):
    together(groups, 3, tmp_path)


def test_one_process_needs_neither_mpi_nor_posix():
    program = """import asyncio, os, random, sys
for name in ("fcntl", "mpi4py"):
    sys.modules[name] = None
del os.register_at_fork
import engine, engine.distributed as dist
dist.init_process_group(store=dist.HashStore(), rank=0, world_size=1)
x = engine.ones(2)
dist.all_reduce(x)
print(x.tolist())"""
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout == "[1.0, 1.0]\n"


def test_the_pieces_of_a_bucket_are_the_gradients_in_turn():
    bucket = GradBucket(0, True, engine.arange(9.0), [engine.zeros(2), engine.zeros(2, 3), engine.zeros(1)])
    assert [g.tolist() for g in bucket.gradients()] == [[0, 1], [[2, 3, 4], [5, 6, 7]], [8]]
    bucket.gradients()[1].zero_()
    assert bucket.buffer().tolist() == [0, 1, 0, 0, 0, 0, 0, 0, 8]
