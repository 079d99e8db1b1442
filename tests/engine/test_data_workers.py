"""DataLoader with worker processes: orders, seeds, shared memory, and how they end; numbers from torch 2.13 with the same seeds."""

from __future__ import annotations

import collections
import gc
import multiprocessing
import os
import random as python_random
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path

import numpy
import pytest
from small_datasets import Big, Squares, Stream, shown

import engine
from engine import Tensor
from engine.utils.data import (
    DataLoader,
    Dataset,
    StackDataset,
    default_collate,
    get_worker_info,
)

# PyTorch warns of more workers than processors
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore:This DataLoader will create")]


class Draws(Squares):
    def __getitem__(self, i):
        return float(engine.rand(()).item()), numpy.random.random(), get_worker_info().id


def init_worker(worker):
    engine.manual_seed(1000 + worker)


def fail_to_start(worker):
    raise ValueError("no licence")


Pair = collections.namedtuple("Pair", ["x", "y"])


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_workers_keep_the_order(workers):
    assert shown(DataLoader(Squares(11), batch_size=2, num_workers=workers)) == shown(DataLoader(Squares(11), batch_size=2))


def test_workers_shuffle_as_one_process():
    engine.manual_seed(3)
    loader = DataLoader(Squares(10), 3, shuffle=True, num_workers=2)
    assert [shown(loader), shown(loader)] == EXPECTED["shuffled_twice"]


def test_streams_are_shared_by_the_workers():
    seen = [x for batch in DataLoader(Stream(11), batch_size=2, num_workers=3) for x in batch.tolist()]
    assert sorted(seen) == list(range(11))


def test_workers_are_seeded():
    def draw():
        engine.manual_seed(7)
        return [row.tolist() for batch in DataLoader(Draws(4), batch_size=1, num_workers=2) for row in batch]

    first = draw()
    assert first == draw()
    assert len({row[0] for row in first[0::3]}) == 4  # no two workers draw the same numbers
    assert [row[0] for row in first[2::3]] == [0, 1, 0, 1]


def test_worker_init_and_persistence():
    loader = DataLoader(Draws(4), batch_size=1, num_workers=2, worker_init_fn=init_worker, persistent_workers=True)
    first = [b[0].item() for b in loader]
    engine.manual_seed(1000)
    expected = [engine.rand(()).item() for _ in range(4)]  # worker 0 goes on where it was in the second pass
    assert first[0::2] == pytest.approx(expected[:2])
    processes = loader._iterator._team.processes
    assert [b[0].item() for b in loader][0::2] == pytest.approx(expected[2:])
    assert loader._iterator._team.processes is processes
    del loader


def test_persistent_streams_start_again():
    loader = DataLoader(Stream(5), batch_size=2, num_workers=2, persistent_workers=True)
    assert [sorted(x for b in loader for x in b.tolist()) for _ in range(2)] == [list(range(5))] * 2


def test_large_batches_and_leaving_early():
    loader = DataLoader(Big(12), batch_size=2, num_workers=2)
    for i, batch in enumerate(loader):
        assert batch.shape == (2, 256, 1024) and batch[0, 0, 0].item() == 2 * i
        if i == 2:
            break
    assert i == 2


def test_an_exception_comes_with_its_traceback():
    loader = DataLoader(Squares(6, bad=3), batch_size=2, num_workers=2)
    batches = iter(loader)
    assert next(batches).tolist() == [0, 1]
    with pytest.raises(KeyError, match=r"Caught KeyError in DataLoader worker process 1.\nOriginal Traceback[\s\S]*sample 3 is broken"):
        next(batches)


def test_a_worker_that_cannot_start():
    with pytest.raises(ValueError, match=r"Caught ValueError in DataLoader worker process 0[\s\S]*no licence"):
        list(DataLoader(Squares(4), num_workers=1, worker_init_fn=fail_to_start))


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_a_killed_worker_is_reported():
    with pytest.raises(RuntimeError, match=r"DataLoader worker \(pid\(s\) \d+\) exited unexpectedly with exit code -9"):
        list(DataLoader(Squares(8, kills=4), batch_size=2, num_workers=2))


def test_timeout():
    start = time.monotonic()
    with pytest.raises(RuntimeError, match="DataLoader timed out after 1 seconds"):
        list(DataLoader(Squares(4, sleeps=0), num_workers=1, timeout=1))
    assert time.monotonic() - start < 15


def test_a_loop_that_is_left_leaves_no_process():
    """At once, and not when the collector of cycles comes by."""
    before = set(multiprocessing.active_children())
    gc.disable()
    try:
        for _ in DataLoader(Squares(8), num_workers=2):
            break
        assert not set(multiprocessing.active_children()) - before
    finally:
        gc.enable()


class Coded(Exception):
    """Takes a number, and fails with a text."""

    def __init__(self, code):
        super().__init__({7: "seven"}[code])


class Fails(Squares):
    def __getitem__(self, i):
        raise Coded(7)


def test_an_exception_that_takes_no_text_becomes_a_runtime_error():
    with pytest.raises(RuntimeError, match=r"Caught Coded in DataLoader worker process 0.\nOriginal Traceback[\s\S]*seven"):
        list(DataLoader(Fails(), num_workers=1))


def test_no_process_is_left():
    loader = DataLoader(Squares(8), batch_size=2, num_workers=2)
    batches = iter(loader)
    next(batches)
    processes = batches._team.processes
    assert len(processes) == 2 and all(p.is_alive() for p in processes)
    batches._shutdown_workers()
    assert not any(p.is_alive() for p in processes)


def test_classes_of_a_notebook_travel_whole(tmp_path):
    """What is defined in __main__, where a worker cannot import it from."""
    code = (
        "from engine.data import DataLoader, Dataset\n"
        "namespace = {'__name__': '__main__', 'Dataset': Dataset}\n"
        "exec('class Cell(Dataset):\\n def __len__(self): return 4\\n def __getitem__(self, i): return factor * i', globals())\n"
        "factor = 3\n"
        "print([b.tolist() for b in DataLoader(Cell(), 2, num_workers=2, collate_fn=lambda b: __import__('engine').tensor(b))])\n"
    )
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, timeout=900)
    assert done.stdout.strip() == "[[0, 3], [6, 9]]", done.stderr


class Pairs(Dataset):
    """Structures of every kind, of which some are large."""

    def __len__(self):
        return 8

    def __getitem__(self, i):
        x = numpy.full((64, 64), i, numpy.float32)
        return {"x": x, "t": Tensor(x[:2]) + 1, "n": Pair(i, str(i)), "half": engine.full((3,), float(i), dtype=engine.bfloat16)}


@pytest.mark.parametrize("method", ["fork", "forkserver", "spawn"])
def test_structures_by_every_start_method(method):
    seen = []
    for batch in DataLoader(Pairs(), batch_size=4, num_workers=1, multiprocessing_context=method):
        assert type(batch["x"]) is Tensor and batch["x"].dtype is engine.float32 and batch["x"].shape == (4, 64, 64)
        assert batch["x"].array.dtype is numpy.dtype("f4") and batch["x"].array.flags.writeable
        assert batch["half"].dtype is engine.bfloat16 and isinstance(batch["n"], Pair)
        seen += [
            list(z)
            for z in zip(batch["x"][:, 1, 1].tolist(), batch["t"][:, 1, 1].tolist(), batch["n"].x.tolist(), batch["n"].y, strict=True)
        ]
    assert seen == [[i, i + 1, i, str(i)] for i in range(8)]


def test_batches_that_are_kept_stay_as_they_are():
    """A slot is used again only when its batch has been let go; who keeps all batches gets the rest through the pipe."""
    kept = list(DataLoader(Big(60), batch_size=1, num_workers=1))
    assert [b[0, 5, 5].item() for b in kept] == list(range(60)) and [b.max().item() for b in kept] == list(range(60))
    parts = [b[0, :2, :2] for b in DataLoader(Big(40), batch_size=1, num_workers=2)]  # views keep their batch
    assert [p.tolist() for p in parts] == [[[i, i], [i, i]] for i in range(40)]
    a, b = next(iter(DataLoader(StackDataset(Big(2), Big(2)), batch_size=2)))
    a, b = next(iter(DataLoader(StackDataset(Big(2), Big(2)), batch_size=2, num_workers=1)))
    saved = (a.requires_grad_() * b).sum()
    a.detach().mul_(3)  # another storage than b's, though they came in one slot
    saved.backward()
    assert a.grad[1, 0, 0].item() == 1


class Growing(Big):
    def __getitem__(self, i):
        return numpy.full((10 * (i + 1), 1024), i, numpy.float32)


def test_batches_of_growing_size():
    for i, batch in enumerate(DataLoader(Growing(30), batch_size=1, num_workers=1)):
        assert batch.shape == (1, 10 * (i + 1), 1024) and batch.min().item() == batch.max().item() == i


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="counts descriptors in /proc")
def test_memory_of_batches_that_grow_is_given_back():
    most = 0
    for batch in DataLoader(Growing(60), batch_size=1, num_workers=1):
        assert batch.shape[0] == 1
        most = max(most, Path("/proc/self/maps").read_text().count("memfd:engine"))
    assert 0 < most <= 2 * 16  # a slot has one map, or two while it grows


class Keeps(Big):
    """A collate_fn that remembers what it gave."""

    def __init__(self, n):
        super().__init__(n)
        self.last = None

    def __call__(self, samples):
        batch = default_collate(samples)
        changed = self.last is not None and self.last[0].max().item() != self.last[1]
        self.last = batch, batch.max().item()
        return batch, changed


def test_what_a_worker_keeps_is_not_overwritten():
    data = Keeps(30)
    assert [changed for _, changed in DataLoader(data, batch_size=1, num_workers=1, collate_fn=data)] == [False] * 30


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="counts descriptors in /proc")
def test_no_memory_and_no_descriptor_is_left():
    gc.collect()
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(2):
        list(DataLoader(Big(8), batch_size=2, num_workers=2))
    gc.collect()
    assert len(os.listdir("/proc/self/fd")) <= before + 1  # Python's own tracker may have started


def test_a_sample_that_failed_does_not_end_the_pass():
    batches = iter(DataLoader(Squares(6, bad=3), batch_size=2, num_workers=2))
    assert next(batches).tolist() == [0, 1]
    with pytest.raises(KeyError):
        next(batches)
    assert next(batches).tolist() == [16, 25] and list(batches) == []


def test_a_pass_that_was_left_does_not_reach_into_the_next():
    loader = DataLoader(Squares(12), batch_size=2, num_workers=2, persistent_workers=True, shuffle=False)
    first = iter(loader)
    next(first)
    assert shown(loader) == shown(DataLoader(Squares(12), batch_size=2))
    assert list(first) == [] and len(loader) == len(iter(loader)) == 6


def test_nested_loaders():
    inner = DataLoader(Squares(3), num_workers=1)
    pairs = [(a.item(), b.item()) for a in DataLoader(Squares(2), num_workers=1) for b in inner]
    assert pairs == [(a, b) for a in (0, 1) for b in (0, 1, 4)]


class Uneven(Squares):
    def __getitem__(self, i):
        time.sleep(0.5 if i == 0 else 0)
        return i


def test_out_of_order():
    got = [b.item() for b in DataLoader(Uneven(6), num_workers=2, in_order=False)]
    assert sorted(got) == list(range(6)) and got[0] != 0


class Seeds(Squares):
    def __getitem__(self, i):
        return get_worker_info().seed, python_random.random(), numpy.random.random(), engine.rand(()).item()


def test_seeds_are_those_of_torch():
    engine.manual_seed(5)
    for found, expected in zip(DataLoader(Seeds(4), num_workers=2), EXPECTED["seeds"], strict=True):
        assert [x.item() for x in found] == expected
    after = engine.rand(2).tolist()
    assert after == EXPECTED["rand_after_seeds"]


def test_persistent_workers_draw_one_seed():
    loader = DataLoader(Squares(2), num_workers=1, persistent_workers=True)
    list(loader)
    state = engine.get_rng_state().tolist()
    list(loader)
    assert engine.get_rng_state().tolist() == state


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_a_warning_of_the_programs_loop_is_given_once():
    loader = DataLoader(Squares(4), batch_size=4, num_workers=1)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("default")
        for _ in range(3):
            for _ in loader:
                warnings.warn("every step", UserWarning, stacklevel=1)
    assert [str(w.message) for w in told].count("every step") == 1


def test_interrupt_leaves_no_process(tmp_path):
    script = tmp_path / "loop.py"
    script.write_text(
        "import multiprocessing, signal, engine\n"
        "from engine.utils.data import DataLoader\n"
        "multiprocessing.set_start_method('fork')\n"  # with which a script needs no guard; Python's own choice before 3.14
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # what a shell runs in the background inherits that it is ignored
        "batches = iter(DataLoader(list(range(10**6)), num_workers=2))\n"
        "next(batches)\n"
        "print(*[p.pid for p in batches._team.processes], flush=True)\n"
        "for _ in batches: pass\n"
    )
    root = Path(__file__).resolve().parents[2]
    process = subprocess.Popen(
        [sys.executable, str(script)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(root)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )  # unguarded, as scripts are
    with process:
        try:
            pids = list(map(int, process.stdout.readline().split()))
            process.send_signal(signal.SIGINT)
            _, errors = process.communicate(timeout=20)
        finally:
            process.kill()
    assert process.returncode != 0 and errors.count("KeyboardInterrupt") == 1 and len(pids) == 2
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


# from torch 2.13: torch.manual_seed(3), then the same call
EXPECTED = {
    "shuffled_twice": [[[36, 4, 0], [1, 64, 9], [25, 16, 49], [81]], [[9, 16, 0], [81, 36, 49], [1, 4, 25], [64]]],
    "seeds": [[4095051218741643470, 0.9732059885921714, 0.48524966518109036, 0.7106006741523743],
        [4095051218741643471, 0.7347412016282042, 0.08072729909407361, 0.2905186414718628],
        [4095051218741643470, 0.09916814881074121, 0.24756875093656816, 0.34830594062805176],
        [4095051218741643471, 0.421098279900221, 0.9242645271423134, 0.5857152342796326]],
    "rand_after_seeds": [0.9074696898460388, 0.8199270367622375],
}  # fmt: skip
