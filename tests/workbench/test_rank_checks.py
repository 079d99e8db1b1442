"""The checks of training on several ranks: each fires on its mistake, and not on the corrected program."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import engine
import engine.distributed as dist
import workbench as wb
from engine import nn
from engine.data import DataLoader, DistributedSampler, Subset, TensorDataset
from engine.nn.parallel import DistributedDataParallel

sys.path.append(str(Path(__file__).resolve().parents[1] / "engine"))
from processes import together


def found(model, loader, *more, epochs=2, sets=True):
    """The codes of the findings after a short training."""
    optimizer = engine.optim.SGD([*model.parameters(), *more], 0.01)
    with wb.record():
        for epoch in range(epochs):
            if sets and hasattr(loader.sampler, "set_epoch"):
                loader.sampler.set_epoch(epoch)
            for (x,) in loader:
                optimizer.zero_grad()
                loss = model(x).square().mean()
                for p in more:
                    loss = loss * p
                loss.backward()
                optimizer.step()
    return {one.code: one for one in wb.check().findings}


OURS = {"no-set-epoch", "same-data-on-ranks", "parameter-outside-ddp", "batch-norm-not-synchronized", "collectives-differ"}


def job(rank, world):
    engine.manual_seed(0)
    data = TensorDataset(engine.randn(16, 4))
    split = DataLoader(data, 4, sampler=DistributedSampler(data))
    model = DistributedDataParallel(nn.Linear(4, 2))

    def codes(*args, **options):
        return found(*args, **options).keys() & OURS

    assert codes(model, split) == set()
    assert codes(model, split, sets=False) == {"no-set-epoch"}
    assert codes(model, DataLoader(data, 4, sampler=DistributedSampler(data, shuffle=False)), sets=False) == set()
    assert codes(model, DataLoader(data, 8, shuffle=True)) == {"same-data-on-ranks"}
    assert codes(model, DataLoader(Subset(data, range(rank, 16, world)), 4)) == set()
    scale = nn.Parameter(engine.ones(()))
    findings = found(model, split, scale)
    assert findings.keys() & OURS == {"parameter-outside-ddp"}
    assert findings["parameter-outside-ddp"].operands[0].shape == [], findings["parameter-outside-ddp"]
    normed = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4))
    findings = found(DistributedDataParallel(normed), split)
    assert findings.keys() & OURS == {"batch-norm-not-synchronized"}
    assert findings["batch-norm-not-synchronized"].sentence == "BatchNorm1d 1 normalizes each rank's batch by itself."
    assert codes(DistributedDataParallel(nn.SyncBatchNorm.convert_sync_batchnorm(normed)), split) == set()
    with pytest.raises(dist.DistBackendError), wb.record():
        dist.all_reduce(engine.ones(3)) if rank == 0 else dist.all_reduce(engine.ones(4))
    (one,) = [one for one in wb.check().findings if one.code == "collectives-differ"]
    assert one.sentence.count("test_rank_checks.py, line ") >= 2 and "rank 0 called all_reduce(SUM) of 3" in one.sentence
    assert "rank 1 called all_reduce(SUM) of 4" in one.sentence, one.sentence


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="POSIX processes")
def test_findings_on_two_ranks(tmp_path):
    together(job, 2, tmp_path)


def test_nothing_is_said_of_one_process():
    model, data = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4)), TensorDataset(engine.randn(16, 4))
    assert not found(model, DataLoader(data, 4, shuffle=True)).keys() & OURS
