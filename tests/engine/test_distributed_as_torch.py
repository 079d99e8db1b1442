"""engine.distributed beside PyTorch's gloo: the expected numbers are those of torch 2.13 with two processes."""

from __future__ import annotations

import sys
from datetime import timedelta

import pytest
from processes import together

import engine
import engine.distributed as dist
from engine import nn
from engine.distributed.optim import ZeroRedundancyOptimizer
from engine.nn.parallel import DistributedDataParallel

pytestmark = [pytest.mark.skipif(sys.platform == "win32", reason="POSIX processes")]


def line():
    """One weight, 1."""
    layer = nn.Linear(1, 1, bias=False)
    layer.weight.data.fill_(1.0)
    return layer


def calls(rank, world):
    if rank == 0:
        dist.send(engine.tensor([1.0]), 1)
        dist.send(engine.tensor([2.0]), 1)
    else:
        a, b = engine.zeros(1), engine.zeros(1)
        first, second = dist.irecv(a, 0), dist.irecv(b, 0)
        second.wait(), first.wait()
        assert (a.item(), b.item()) == (1, 2)  # in the order in which they were asked for
    work = dist.all_reduce(engine.ones(2), async_op=True)
    assert work.get_future().then(lambda f: f.value()[0] / 2).wait().tolist() == [1, 1]
    assert work.wait() and work.result()[0].tolist() == [2, 2]
    with pytest.raises(RuntimeError):
        dist.all_gather([engine.ones(1)], engine.ones(1))
    with pytest.raises(ValueError):
        dist.all_gather([engine.ones(1).int()] * 2, engine.ones(1))
    own, groups = dist.new_subgroups_by_enumeration([[0], [1]])
    assert dist.get_process_group_ranks(own) == [rank] and len(groups) == 2 and dist.get_pg_count() == 2
    assert dist.is_backend_available("gloo") and not dist.is_backend_available("pigeon")
    assert dist.supports_complex(dist.ReduceOp.SUM) and not dist.supports_complex(dist.ReduceOp.MAX)
    dist.barrier()
    if rank == 0:
        with pytest.raises(RuntimeError, match="timed out after 0.1 s|timed out after 0.09"):
            dist.barrier(timeout=timedelta(seconds=0.1))
        dist.send(engine.ones(1), 1)
    else:
        dist.recv(engine.ones(1), 0)


def test_calls(tmp_path):
    together(calls, 2, tmp_path)


def parallel(rank, world):
    norm = nn.BatchNorm1d(1)
    ddp = DistributedDataParallel(norm)
    ddp(engine.tensor([[1.0], [2.0]]) * (rank + 1)).sum().backward()
    ddp.eval()
    seen = []
    for _ in range(2):
        with engine.no_grad():
            ddp(engine.ones(2, 1))
        seen.append(norm.running_mean.item())
        norm.running_mean.fill_(rank + 5.0)
    assert seen == pytest.approx([0.15, 5.0 + rank])  # buffers are given once after a training pass
    layer = line()
    ddp = DistributedDataParallel(layer)
    loss = ddp(engine.ones(1, 1) * (rank + 1)).sum()
    loss.backward(retain_graph=True)
    first = layer.weight.grad.item()
    loss.backward()
    assert (first, layer.weight.grad.item()) == (1.5, 2.5 + rank)  # the second pass stays in this process


def test_data_parallel(tmp_path):
    together(parallel, 2, tmp_path)


def joins(rank, world):
    layer = line()
    ddp, seen = DistributedDataParallel(layer), []
    with ddp.join():
        for _ in range(1 + rank):
            layer.weight.grad = None
            ddp(engine.ones(1, 1) * (rank + 1)).sum().backward()
            seen.append(layer.weight.grad.item())
    assert seen == [1.5, 1.0][: 1 + rank]
    net = nn.Sequential(nn.Linear(2, 1, bias=False), nn.BatchNorm1d(1))
    net[0].weight.data.fill_(1.0)
    ddp, seen = DistributedDataParallel(net, find_unused_parameters=True), []
    steps = engine.arange(3.0)[:, None]
    with ddp.join(divide_by_initial_world_size=False):
        for _ in range(3 - 2 * rank):
            net.zero_grad()
            (ddp(engine.ones(3, 2) * (rank + 1) * steps) * steps).sum().backward()
            seen.append([net[1].weight.grad.item(), net[1].bias.grad.item()])
            net[0].weight.data.add_(1.0)
    assert len(seen) == 3 - 2 * rank and all(s == pytest.approx([2.4495, 3.0], abs=1e-4) for s in seen)
    assert net[0].weight.tolist() == [[4, 4]] and net[1].running_mean.item() == pytest.approx(1.121999979)


def test_processes_with_unequal_batches_train_one_model(tmp_path):
    together(joins, 2, tmp_path)


def parts(rank, world):
    engine.manual_seed(0)
    a, b = nn.Linear(2, 1), nn.Linear(1, 1)
    optimizer = ZeroRedundancyOptimizer(a.parameters(), engine.optim.SGD, lr=0.5)
    optimizer.add_param_group({"params": list(b.parameters()), "lr": 0.25})
    b(a(engine.ones(1, 2))).sum().backward()
    optimizer.step()
    found = [v for p in (*a.parameters(), *b.parameters()) for v in p.detach().flatten().tolist()]
    assert found == pytest.approx([0.3626755177974701, 0.7472923994064331, -0.21401125192642212, -0.6839510798454285, -0.6351543664932251])
    group = ZeroRedundancyOptimizer(a.parameters(), engine.optim.Adam).param_groups[0]
    assert group["lr"] == 1e-3 and group["betas"] == (0.9, 0.999)


def test_an_optimizer_in_parts_has_its_defaults_and_takes_more_parameters(tmp_path):
    together(parts, 2, tmp_path)


def test_a_job_that_could_not_start_leaves_nothing():
    with pytest.raises(dist.DistStoreError):
        dist.init_process_group("gloo", store=dist.HashStore(), rank=1, world_size=2, timeout=timedelta(seconds=0.1))
    assert not dist.is_initialized()
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    dist.destroy_process_group()
