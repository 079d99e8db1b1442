"""wb.ranks: the board of every rank, and pauses, on real processes."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from pathlib import Path

import numpy
import pytest

import engine
import engine.distributed as dist
import workbench as wb
from engine import nn
from engine.distributed.world import monitor
from engine.nn.parallel import DistributedDataParallel
from workbench.distributed.board import Board
from workbench.distributed.calls import Calls
from workbench.distributed.picture import html

sys.path.append(str(Path(__file__).resolve().parents[1] / "engine"))
from processes import together

T0 = 1_000_000.0


def state(times, host="a", **more):
    """What a rank reports that has entered and left its collectives at these times."""
    recent = [[n + 1, "all_reduce", "SUM", 4000, T0 + a, None if b is None else T0 + b, "t.py:3"] for n, (a, b) in enumerate(times)]
    return {
        "host": host,
        "now": T0 + 10,
        "step": len(times),
        "at": "mm at t.py:2",
        "memory": 5_000_000,
        "hashes": [],
        "recent": recent,
    } | more


def known(ranks, gone=(), paused=()):
    return Board(list(range(max(*ranks, *dict(gone), 0) + 1)), ranks, dict(gone), dict(paused))


FAST = [(n + 0.2, n + 0.6) for n in range(8)]
SLOW = [(n + 0.5, n + 0.6) for n in range(8)]


def test_the_straggler_and_where_the_time_went():
    board = known({0: state(FAST), 1: state(SLOW), 2: state(FAST)})
    calls = board.calls
    numpy.testing.assert_allclose(calls.waited, [2.4, 0, 2.4])
    numpy.testing.assert_allclose(calls.communicated, [0.8] * 3)
    numpy.testing.assert_allclose(calls.computed, [7 * 0.6, 7 * 0.9, 7 * 0.6])
    assert calls.straggler() == 1
    assert "Rank 1 holds the others up: it was the last to enter 8 of 8 collectives, and they waited 2.4 s" in repr(board)
    assert known({0: state(FAST), 1: state(FAST)}).calls.straggler() is None


def test_clocks_of_two_machines_are_set_by_the_collectives():
    apart = [(a + 500, b + 500) for a, b in SLOW]
    calls = Calls.of({0: state(FAST), 1: state(apart, "b")})
    numpy.testing.assert_allclose(calls.waited, [2.4, 0], atol=1e-6)


def test_rows_and_sentences():
    hangs = [*FAST, (8.5, None)]
    board = known({0: state(hangs), 1: state(FAST), 2: state(hangs)}, {3: "was <killed>"}, {1: "after step 8"})
    assert [(row.rank, row.status) for row in board.rows] == [(0, "waits"), (1, "paused"), (2, "waits"), (3, "dead")]
    assert "Ranks 0 and 2 wait for ranks 1 and 3 in all_reduce(SUM) 9, for 1.5 s: rank 1 is paused after step 8" in repr(board)
    assert known({0: state(FAST), 2: state(FAST)}).rows[1].status == "silent"
    page = html(board)
    assert "was &lt;killed&gt;" in page and "<killed>" not in page and page.count("<tr") == 5


def test_parameters_that_differ():
    def told(*hashes):
        return repr(known({rank: state(FAST, hashes=one) for rank, one in enumerate(hashes)}))

    assert "The parameters differ after step 20: Ranks 0 and 2 against rank 1." in told(*[[[10, 5], [20, n]] for n in (1, 2, 1)])
    assert "equal on all ranks after step 20" in told([[10, 5], [20, 1]], [[20, 1], [30, 4]])
    assert "parameters" not in told([[10, 5]], [])


def test_bad_input():
    with pytest.raises(ValueError, match="Default process group has not been initialized"):
        wb.ranks()


def until(true, seconds=10.0):
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end
        time.sleep(0.01)


class Noisy(engine.autograd.Function):
    """An op that is not the same on rank 2."""

    rank = 0

    @staticmethod
    def forward(ctx, x):
        return x + (1e-6 if Noisy.rank == 2 else 0)

    @staticmethod
    def backward(ctx, g):
        return g


LIMIT = 3.0  # seconds that a collective may take


def shown(ranks, statuses):
    """The board once it shows these statuses: on a busy machine a rank may answer late, and is silent on the first one."""
    boards = []
    until(lambda: boards.append(ranks.board()) or [row.status for row in boards[-1].rows] == statuses)
    return boards[-1]


def job(rank, world, folder):
    dist.group.WORLD.timeout = LIMIT  # not earlier: a busy machine may take longer than this to start the processes
    with pytest.raises(TypeError, match=r"takes an nn.Module, got int"):
        wb.ranks(3)
    engine.manual_seed(0)
    net = DistributedDataParallel(nn.Linear(4, 2))
    optimizer = engine.optim.SGD(net.parameters(), 0.1)
    ranks = wb.ranks(net, every=1)

    def step():
        optimizer.zero_grad()
        net(engine.randn(3, 4)).square().mean().backward()
        optimizer.step()

    # pause: all ranks stop after the same step, for longer than the time-out, and go on
    if rank == 0:

        def pauses():
            until(lambda: monitor().step >= 5)
            target = ranks.pause()
            until(lambda: all(s["held"] and s["step"] == target for s in monitor().states().values()))
            board = shown(ranks, ["paused"] * world)
            assert board.rows[1].words == f"after step {target}"
            assert "parameters are equal" in repr(board)
            time.sleep(1.2 * LIMIT)
            assert monitor().step == target
            (folder / "paused").touch()
            ranks.resume()

        thread = threading.Thread(target=pauses)
        thread.start()
    done = engine.zeros(1)
    while not done.item():
        step()
        done = engine.tensor([float(rank == 0 and (folder / "paused").exists())])
        dist.all_reduce(done)
    if rank == 0:
        thread.join()

    # one rank steps through its pass, forward and back, for longer than the time-out
    optimizer.zero_grad()
    loss = net(engine.ones(3, 4) * rank).square().mean()
    if rank == 1:
        with ranks.alone():
            walk = wb.step(loss)
            walk.next()
            walk.next()
            time.sleep(1.2 * LIMIT)
            walk.previous()
            walk.finish()
    else:
        loss.backward()
    optimizer.step()

    # what differs: nothing, then a parameter; of a recording the data, then an op
    report = wb.across_ranks(net)
    assert [row.equal for row in report.rows] == [True] * 4 and "Equal on all ranks" in repr(report)
    with engine.no_grad():
        net.module.bias[0] += 0.5 * (rank == 1)
    row = {row.name: row for row in wb.across_ranks(net).rows}["module.bias"]
    assert not row.equal and abs(row.spread - 0.5) < 1e-6 and row.high >= net.module.bias.max().item()
    net.module.bias.grad = None if rank == 1 else net.module.bias.grad
    row = {row.name: row for row in wb.across_ranks(net).rows}["module.bias.grad"]
    assert numpy.isnan([row.spread, row.norms[1]]).all() and not row.equal
    own = engine.full((2,), float(rank))
    with wb.record():
        made = (own * engine.ones(2).exp()).sum()
    across = wb.across_ranks()
    assert across.diverged is None and "Each rank has its own data: own. Nothing else differs" in repr(across), made
    Noisy.rank = rank
    with wb.record():
        kept = own.sum() * Noisy.apply(engine.ones(4).exp()).sum()
    across = wb.across_ranks()
    assert across.diverged.kind == "op" and across.recording.op_name(across.diverged.row) == "Noisy", repr(across)
    assert "The first op whose result differs is Noisy, line" in repr(across) and "Ranks 0 and 1 against rank 2" in repr(across)
    assert [flag.tone for flag in across.flags["ranks"]].count("error") == 1 and kept is not None
    with wb.record():
        _ = engine.ones(3).exp() if rank else engine.ones(3).log()
    assert "different programs from" in repr(wb.across_ranks())

    # a rank that the system has stopped is silent
    if rank == 1:
        (folder / "pid").write_text(str(os.getpid()))
    dist.barrier()
    if rank == 0:
        pid = int((folder / "pid").read_text())
        os.kill(pid, signal.SIGSTOP)
        try:
            shown(ranks, ["computes", "silent", "waits"])
        finally:
            os.kill(pid, signal.SIGCONT)
        shown(ranks, ["computes", "waits", "waits"])
    dist.barrier()


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="POSIX processes")
def test_real_ranks(tmp_path):
    together(job, 3, tmp_path, tmp_path)
