"""engine.distributed.nn: collectives that gradients go back through, between real processes."""

from __future__ import annotations

import sys
from datetime import timedelta

import pytest

import engine
import engine.distributed as dist
from engine import multiprocessing as mp
from engine.distributed import nn as collectives

pytestmark = [pytest.mark.skipif(sys.platform == "win32", reason="POSIX processes")]


def differentiated(rank, path):
    """Each process squares its numbers and weighs what comes back by its rank + 1: the derivatives are a sum over both processes."""
    dist.init_process_group("gloo", f"file://{path}", timedelta(seconds=20), 2, rank)
    x = engine.tensor([1.0 + rank, 3.0 + rank]).requires_grad_()
    weight = rank + 1

    def grad(y):
        found = engine.autograd.grad((y * weight).sum(), x)[0].tolist()
        return found

    total = collectives.all_reduce(x * x)
    assert total.tolist() == [5, 25] and grad(total) == [6 * x[0].item(), 6 * x[1].item()]  # (1 + 2) * 2x
    assert x.tolist() == [1 + rank, 3 + rank]
    parts = collectives.all_gather(x * x)
    assert isinstance(parts, tuple) and [p.tolist() for p in parts] == [[1, 9], [4, 16]]
    assert grad(parts[0] + 10 * parts[1]) == [3 * 2 * v * (10 if rank else 1) for v in x.tolist()]
    sent = collectives.broadcast(x * x, 1)
    assert sent.tolist() == [4, 16] and grad(sent) == ([12, 24] if rank == 1 else [0, 0])
    met = collectives.reduce(x * x, 0)
    assert (met.tolist() == [5, 25] or rank == 1) and grad(met) == [2 * v for v in x.tolist()]  # the weight of process 0 is 1
    second = engine.autograd.grad(collectives.all_reduce(x * x).sum(), x, create_graph=True)[0]
    assert second.tolist() == [4 * v for v in x.tolist()]
    assert engine.autograd.grad(second.sum(), x)[0].tolist() == [4, 4]
    dist.destroy_process_group()


def test_gradients_go_back_through_collectives(tmp_path):
    mp.start_processes(differentiated, (str(tmp_path / "met"),), nprocs=2, start_method="fork")


def dealt(rank, path):
    """Process r has a = r + 1 and b = r + 3 and weighs what comes to it by r + 1."""
    dist.init_process_group("gloo", f"file://{path}", timedelta(seconds=20), 2, rank)
    weight = rank + 1
    a, b = (engine.tensor([v + rank, 10 * (v + rank)]).requires_grad_() for v in (1.0, 3.0))

    def grads(y):
        return [[] if g is None else g.tolist() for g in engine.autograd.grad((y * weight).sum(), (a, b), allow_unused=True)]

    got = collectives.scatter([a * a, b * b], src=1)  # of process 1: a = 2, b = 4
    assert got.tolist() == ([4, 400] if rank == 0 else [16, 1600])
    assert grads(got) == ([[4, 40], [16, 160]] if rank == 1 else [[0, 0], [0, 0]])  # a went to weight 1, b to weight 2
    parts = collectives.gather(a * a, dst=1)
    assert [p.tolist() for p in parts] == ([[1, 100], [4, 400]] if rank == 1 else [[0, 0], [0, 0]])
    assert grads(parts[0] + 3 * parts[1])[0] == ([4, 40] if rank == 0 else [24, 240])  # 2a * 2, and three times that
    out = engine.zeros(2)
    got = collectives.reduce_scatter(out, [a * a, b * b])
    assert got.tolist() == out.tolist() == ([5, 500] if rank == 0 else [25, 2500])
    assert grads(got) == [[2 * v for v in a.tolist()], [4 * v for v in b.tolist()]]
    got = collectives.all_to_all([engine.zeros(2), engine.zeros(2)], [a * a, b * b])
    assert [g.tolist() for g in got] == ([[1, 100], [4, 400]] if rank == 0 else [[9, 900], [16, 1600]])
    assert grads(got[0] + got[1]) == [[2 * v for v in a.tolist()], [4 * v for v in b.tolist()]]
    lengths = [1, 3] if rank == 0 else [3, 1]  # process 0 sends 1 and 3 values and gets 1 and 3
    got = collectives.all_to_all_single(engine.zeros(4), engine.cat([a, b]) ** 2, lengths, lengths)
    assert got.tolist() == ([1, 4, 400, 16] if rank == 0 else [100, 9, 900, 1600])
    ahead = [1, 2, 2, 2] if rank == 0 else [1, 1, 1, 2]
    found = grads(got)
    assert found[0] + found[1] == [w * 2 * v for w, v in zip(ahead, a.tolist() + b.tolist(), strict=True)]
    second = engine.autograd.grad(collectives.all_to_all_single(engine.zeros(2), a**3).sum(), a, create_graph=True)[0]
    assert engine.autograd.grad(second.sum(), a)[0].tolist() == [6 * v for v in a.tolist()]
    dist.destroy_process_group()


def test_gradients_go_back_to_whom_the_values_came_from(tmp_path):
    mp.start_processes(dealt, (str(tmp_path / "met"),), nprocs=2, start_method="fork")
