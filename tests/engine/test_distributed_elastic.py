"""ElasticJob: the survivors of kills, stops and exceptions train on as one process would; checkpoints fit any number of processes."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from elastic_training import BATCH, EPOCHS, SAMPLES, checked, difference, ended, expected, loss_of, prepared, started, train
from processes import together

import engine
import engine.distributed as dist
from engine.data import DataLoader, DistributedSampler
from engine.distributed.elastic import job as elastic_job
from engine.serialize.errors import CheckpointError

pytestmark = [pytest.mark.slow, pytest.mark.skipif(sys.platform == "win32", reason="POSIX processes")]


def test_kills(tmp_path):
    """Four processes, of which two are killed at random, before, inside or after a collective."""
    draw = random.Random(14)
    first, second = draw.sample(range(4), 2)
    places = "before", "inside", "after"
    failures = [(who, draw.randrange(a, a + 10), "kill", draw.choice(places)) for who, a in ((first, 0), (second, 10))]
    results = train(tmp_path, 4, failures=failures, keep_every=3)
    assert results.keys() == {0, 1, 2, 3} - {first, second}
    assert all((r["ranks"], r["recoveries"], r["error"]) == (2, 2, None) for r in results.values())
    assert checked(tmp_path, results) < 1e-12


def test_a_hung_process_and_an_exception(tmp_path, capfd):
    failures = [(2, 3, "raise", "after"), (0, 9, "stop", "inside")]
    results = train(tmp_path, 4, failures=failures, seconds=4.0, on_error="continue")
    assert results.keys() == {1, 3} and all((r["ranks"], r["error"]) == (2, None) for r in results.values())
    assert checked(tmp_path, results) < 1e-12
    told = capfd.readouterr().err
    assert "KeyError: 'as expected'" in told
    assert "3 of 4 processes go on from step 4: rank 2 failed with KeyError: 'as expected'" in told
    assert "2 of 3 processes go on from step 9: rank 0 did not respond and was killed" in told


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="the state of a process is read in /proc")
def test_a_process_that_stops_while_all_shrink(tmp_path):
    results = train(tmp_path, 3, failures=[(0, 2, "kill", "inside"), (1, 2, "stop", "shrinking")], seconds=3.0)
    assert results.keys() == {2} and (results[2]["ranks"], results[2]["recoveries"], results[2]["error"]) == (1, 1, None)
    assert checked(tmp_path, results) < 1e-12


def test_an_exception_stops_all(tmp_path, capfd):
    results = train(tmp_path, 3, failures=[(1, 2, "raise", "inside")])
    assert results.keys() == {0, 2}  # it has none itself
    assert all(r["error"] == "stopped because rank 1 failed with KeyError: 'as expected'" and r["steps"] == 2 for r in results.values())
    assert "KeyError: 'as expected'" in capfd.readouterr().err


def test_too_few_are_left(tmp_path):
    saved = tmp_path / "saved"
    results = train(tmp_path, 3, failures=[(0, 5, "kill", "before"), (1, 6, "kill", "inside")], min_ranks=2, checkpoint=str(saved))
    assert results.keys() == {2}
    assert results[2]["error"] == f"1 of at least 2 processes are left; the state after step 6 is in {saved}/step-0000000006"
    results = train(tmp_path, 2, load=True)
    assert results[0]["error"] is None
    assert difference(results, expected([(3, 5), (2, 1), (2, results[0]["steps"] - 6)])[1]) < 1e-12


def test_a_process_that_comes_back_too_late(tmp_path, monkeypatch):
    """One on a machine where none of the others is can't be killed: they stop, and so does it when it goes on."""
    monkeypatch.setattr(elastic_job, "_DEATH", 0.2)
    processes = started(tmp_path, 2, failures=[(1, 2, "stop", "before")], seconds=2.0, reach=False)
    processes[0].join(30)
    assert not (tmp_path / "result1").exists()
    os.kill(processes[1].pid, signal.SIGCONT)
    results = ended(tmp_path, processes)
    assert "processes hang that can't be ended from here: rank 1 is process" in results[0]["error"]
    assert "this process has not responded in time" in results[1]["error"]
    assert results[0]["steps"] == results[1]["steps"] == 2


def test_checkpoints_fit_any_number_of_processes(tmp_path):
    worlds, sizes, before = (3, 2, 1, 3), [], 0
    for i, world in enumerate(worlds):
        until = None if i == len(worlds) - 1 else 5 * (i + 1)
        results = train(tmp_path, world, load=i > 0, until=until, saves=[until])
        assert results.keys() == {*range(world)} and all(r["error"] is None for r in results.values())
        sizes.append((world, results[0]["steps"] - before))
        before = results[0]["steps"]
    assert difference(results, expected(sizes)[1]) < 1e-12


def test_a_kill_while_a_checkpoint_is_written(tmp_path):
    results = train(tmp_path, 3, failures=[(0, 4, "kill", "saving")], saves=[4, 6, 8])
    assert results.keys() == {1, 2} and all((r["ranks"], r["recoveries"], r["error"]) == (2, 1, None) for r in results.values())
    assert checked(tmp_path, results) < 1e-12
    assert sorted(path.name for path in (tmp_path / "saved").iterdir()) == ["step-0000000006", "step-0000000008"]


def test_the_program_of_the_docs(tmp_path):
    root = Path(__file__).resolve().parents[2]
    how = [sys.executable, "-m", "engine.distributed.run", "--nproc_per_node=2", str(root / "docs" / "cluster" / "elastic.py")]
    done = subprocess.run(how, cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(root)}, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0 and "after 171 steps, with 2 ranks at the end" in done.stdout, done.stderr
    assert sorted(path.name for path in (tmp_path / "checkpoints").iterdir()) == ["step-0000000100", "step-0000000150"]


@pytest.fixture
def alone():
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def steps(job, model, optimizer, loader, folder, n=3):
    for batch in job.batches(loader, EPOCHS):
        with job.step():
            optimizer.zero_grad()
            loss_of(model, batch.tolist()).backward()
            optimizer.step()
        job.save(folder)
        if job.steps % n == 0:
            return


def test_damaged_checkpoints_are_refused(alone, tmp_path):
    job, inner, *rest = prepared()
    with pytest.raises(CheckpointError, match="there is no checkpoint in"):
        job.load(tmp_path)
    steps(job, *rest, tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["step-0000000002", "step-0000000003"]  # the last two
    last = tmp_path / "step-0000000003"
    kept = {path.name: path.read_bytes() for path in last.iterdir()}
    state = [p.detach().clone() for p in inner.parameters()]
    good = "the one of step 2 is complete: load it with step=2"
    changed = bytearray(kept["rank-00000.safetensors"])
    changed[-1] ^= 1
    for name, data, told in (
        ("rank-00000.safetensors", bytes(changed), "rank-00000.safetensors has changed since it was written"),
        ("rank-00000.safetensors", kept["rank-00000.safetensors"][:-9], "bytes, expected"),
        ("rank-00000.safetensors", None, "No such file"),
        ("manifest.json", None, "No such file"),
        ("manifest.json", kept["manifest.json"][:50], "is not a complete checkpoint"),
        ("manifest.json", b"[" * 100_000, "is not a complete checkpoint"),
        ("manifest.json", b'{"format": "engine.distributed checkpoint 1", "files": [{}]}', "'bytes'"),
        ("manifest.json", b'{"format": "engine.distributed checkpoint 1", "files": []}', "list index out of range"),
        ("manifest.json", b'{"format": "other"}', "manifest.json is not of the format"),
    ):
        (last / name).unlink() if data is None else (last / name).write_bytes(data)
        with pytest.raises(CheckpointError, match=told) as caught:
            job.load(tmp_path)
        assert str(last) in str(caught.value) and good in str(caught.value)
        (last / name).write_bytes(kept[name])
    assert all(engine.equal(a, b) for a, b in zip(inner.parameters(), state, strict=True))
    job.load(tmp_path, step=2)
    assert job.steps == 2 and not engine.equal(state[0], next(inner.parameters()))
    shutil.rmtree(last)
    (tmp_path / "step-0000000003.part").mkdir()  # of a process that was killed while it wrote
    steps(job, *rest, tmp_path)
    job.load(tmp_path)
    assert job.steps == 3 and all(engine.equal(a, b) for a, b in zip(inner.parameters(), state, strict=True))


def test_a_scheduler_and_random_numbers_are_kept(alone, tmp_path):
    job, _, model, optimizer, loader = prepared()
    scheduler = engine.optim.lr_scheduler.StepLR(optimizer, 1)
    job = dist.ElasticJob(model, optimizer, job.sampler, [scheduler])
    for batch in job.batches(loader, 1):
        with job.step():
            loss_of(model, batch.tolist()).backward()
            optimizer.step()
            scheduler.step()
        job.save(tmp_path)
        break
    drawn, rate = engine.rand(3), optimizer.param_groups[0]["lr"]
    scheduler.step()
    job.load(tmp_path)
    assert engine.equal(engine.rand(3), drawn) and (scheduler.last_epoch, optimizer.param_groups[0]["lr"]) == (1, rate)


def test_refusals(alone, tmp_path):
    job, _, model, optimizer, loader = prepared()
    sampler = job.sampler
    with pytest.raises(ValueError, match="min_ranks must be between 1 and the world size 1, got 2"):
        dist.ElasticJob(model, optimizer, sampler, min_ranks=2)
    with pytest.raises(ValueError, match='on_error must be "raise" or "continue", got \'ignore\''):
        dist.ElasticJob(model, optimizer, sampler, on_error="ignore")
    with pytest.raises(ValueError, match="keep_every must be at least 1, got 0"):
        dist.ElasticJob(model, optimizer, sampler, keep_every=0)
    with pytest.raises(TypeError, match="sampler must be a DistributedSampler, got int"):
        dist.ElasticJob(model, optimizer, 3)
    with pytest.raises(ValueError, match="expected a DataLoader with a batch_size and the sampler of the job"):
        next(job.batches(DataLoader(range(SAMPLES), batch_size=BATCH), 1))
    with pytest.raises(RuntimeError, match="the batch was not used in `with job.step"):
        list(job.batches(loader, 1))
    batches = job.batches(loader, 1)
    next(batches)
    with pytest.raises(RuntimeError, match="expected a call outside of `with job.step"), job.step():
        job.save(tmp_path)
    with pytest.raises(RuntimeError, match="expected one step for each batch"), job.step():
        pass
    next(batches := job.batches(loader, 1))
    with pytest.raises(ZeroDivisionError), job.step():
        raise ZeroDivisionError
    job.save(tmp_path)
    other = dist.ElasticJob(model, optimizer, DistributedSampler(range(SAMPLES), seed=2))
    with pytest.raises(ValueError, match="was made with another sampler: expected .*'seed': 2.*, got .*'seed': 1"):
        other.load(tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match="rank 0: .*Not a directory"):
        job.save(tmp_path / "file")


def disagree(rank, world):
    """Errors that come again are raised, also if no process is lost."""
    job, _, model, optimizer, loader = prepared()
    with pytest.raises(dist.DistBackendError, match="all_reduce"):
        for _ in job.batches(loader, 1):
            with job.step():
                dist.all_reduce(engine.ones(2), dist.ReduceOp.MAX if rank else dist.ReduceOp.SUM)
    assert job.recoveries == 1 and job.steps == 0


def test_an_error_that_comes_again_is_raised(tmp_path):
    together(disagree, 2, tmp_path)
