"""Datasets, samplers, collating and DataLoader; random orders are literal numbers from torch 2.13 with the same seeds."""

from __future__ import annotations

import collections
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy
import pytest

import engine
from engine import Tensor, random
from engine.utils.data import (
    BatchSampler,
    ChainDataset,
    ConcatDataset,
    DataLoader,
    Dataset,
    IterableDataset,
    RandomSampler,
    SequentialSampler,
    StackDataset,
    Subset,
    SubsetRandomSampler,
    TensorDataset,
    WeightedRandomSampler,
    default_collate,
    default_convert,
    get_worker_info,
    random_split,
)


class Squares(Dataset):
    """i -> i²; some samples misbehave on demand."""

    def __init__(self, n=12, bad=None, kills=None, sleeps=None):
        self.n, self.bad, self.kills, self.sleeps = n, bad, kills, sleeps

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        if i == self.bad:
            raise KeyError(f"sample {i} is broken")
        if i == self.kills:
            os.kill(os.getpid(), signal.SIGKILL)
        if i == self.sleeps:
            time.sleep(30)
        return i * i


class Draws(Squares):
    def __getitem__(self, i):
        return float(engine.rand(()).item()), numpy.random.random(), get_worker_info().id


class Stream(IterableDataset):
    def __init__(self, n):
        self.n = n

    def __iter__(self):
        info = get_worker_info()
        return iter(range(self.n) if info is None else range(info.id, self.n, info.num_workers))


class Big(Squares):
    def __getitem__(self, i):
        return numpy.full((256, 1024), i, numpy.float32)


def double(batch):
    return [2 * x for x in batch]


def init_worker(worker):
    engine.manual_seed(1000 + worker)


def fail_to_start(worker):
    raise ValueError("no licence")


# -- datasets -----------------------------------------------------------------------------------------------------------------------


def test_tensor_dataset():
    x, y = engine.arange(12).reshape(4, 3), engine.arange(4)
    data = TensorDataset(x, y)
    assert len(data) == 4
    assert [t.tolist() for t in data[2]] == [[6, 7, 8], 2]
    with pytest.raises(AssertionError, match="Size mismatch between tensors"):
        TensorDataset(x, engine.arange(3))


def test_combined_datasets():
    both = Squares(3) + Squares(2)
    assert isinstance(both, ConcatDataset)
    assert [both[i] for i in range(5)] == [0, 1, 4, 0, 1] and both[-1] == 1 and len(both) == 5
    with pytest.raises(IndexError, match="index 5 is out of range"):
        both[5]
    with pytest.raises(ValueError, match="absolute value of index"):
        both[-6]
    assert list(ChainDataset([Stream(2), Stream(3)])) == [0, 1, 0, 1, 2]
    assert list(Stream(2) + Stream(1)) == [0, 1, 0]
    assert StackDataset(Squares(3), range(3))[2] == (4, 2)
    assert StackDataset(a=Squares(3), b=range(3))[1] == {"a": 1, "b": 1}
    with pytest.raises(ValueError, match="Size mismatch between datasets"):
        StackDataset(Squares(3), Squares(4))
    assert [Subset(Squares(5), [4, 0])[i] for i in range(2)] == [16, 0]


def test_random_split():
    engine.manual_seed(3)
    assert [list(s.indices) for s in random_split(range(10), [3, 7])] == EXPECTED["split_3_7"]
    parts = random_split(range(10), [0.35, 0.65], generator=random.Generator().manual_seed(1))
    assert [list(s.indices) for s in parts] == EXPECTED["split_fractions_seed_1"]
    with pytest.raises(ValueError, match="Sum of input lengths does not equal"):
        random_split(range(10), [3, 3])
    with pytest.warns(UserWarning, match="Length of split at index 1 is 0"):
        random_split(range(1), [0.9, 0.1])


# -- samplers -----------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "make"),
    [
        ("random", lambda: RandomSampler(range(20))),
        ("random_45", lambda: RandomSampler(range(20), num_samples=45)),
        ("replacement_45", lambda: RandomSampler(range(20), replacement=True, num_samples=45)),
        ("generator_4", lambda: RandomSampler(range(20), generator=random.Generator().manual_seed(4))),
        ("subset", lambda: SubsetRandomSampler([5, 6, 7, 8])),
        ("weighted", lambda: WeightedRandomSampler([0.1, 0.2, 0.5, 3], 10)),
        ("weighted_without", lambda: WeightedRandomSampler([0.1, 0.2, 0.5, 3], 3, replacement=False)),
    ],
)
def test_random_samplers_draw_as_torch(name, make):
    engine.manual_seed(3)
    sampler = make()
    assert list(sampler) == EXPECTED[name]
    assert len(sampler) == len(EXPECTED[name])


def test_batch_sampler():
    batches = BatchSampler(SequentialSampler(range(7)), 3, False)
    assert list(batches) == [[0, 1, 2], [3, 4, 5], [6]] and len(batches) == 3
    batches = BatchSampler(SequentialSampler(range(7)), 3, True)
    assert list(batches) == [[0, 1, 2], [3, 4, 5]] and len(batches) == 2
    with pytest.raises(ValueError, match="batch_size should be a positive integer value, but got batch_size=0"):
        BatchSampler(range(3), 0, False)


# -- collating ----------------------------------------------------------------------------------------------------------------------

Pair = collections.namedtuple("Pair", ["x", "y"])


def test_default_collate():
    assert default_collate([1, 2]).dtype is engine.int64
    assert default_collate([1.0, 2.0]).dtype is engine.float64
    assert default_collate([True, False]).dtype is engine.bool
    assert default_collate(["a", "b"]) == ["a", "b"]
    assert default_collate([numpy.zeros((2,), "f4")] * 3).shape == (3, 2)
    assert default_collate([numpy.float32(1)] * 3).dtype is engine.float32
    assert default_collate([Tensor([1.0]), Tensor([2.0])]).tolist() == [[1.0], [2.0]]
    nested = default_collate([{"a": (1, [2.0, 3.0])}, {"a": (4, [5.0, 6.0])}])
    assert nested["a"][0].tolist() == [1, 4] and [t.tolist() for t in nested["a"][1]] == [[2.0, 5.0], [3.0, 6.0]]
    pair = default_collate([Pair(1, 2), Pair(3, 4)])
    assert isinstance(pair, Pair) and pair.y.tolist() == [2, 4]
    ordered = default_collate([collections.OrderedDict(a=1), collections.OrderedDict(a=2)])
    assert isinstance(ordered, collections.OrderedDict)
    with pytest.raises(TypeError, match="batch must contain tensors, numpy arrays, numbers, dicts or lists; found <class 'object'>"):
        default_collate([object()])
    with pytest.raises(RuntimeError, match="each element in list of batch should be of equal size"):
        default_collate([[1, 2], [3]])


def test_default_convert():
    array = numpy.zeros(3)
    out = default_convert({"a": array, "b": [numpy.int32(2), "text"], "c": Pair(array, 1)})
    array[0] = 7
    assert out["a"].tolist() == [7.0, 0, 0] and out["b"][0].item() == 2 and out["b"][1] == "text"
    assert isinstance(out["c"], Pair) and isinstance(out["c"].x, Tensor)
    assert default_convert((1, "a")) == [1, "a"]  # torch 2.13 too


# -- DataLoader in this process -------------------------------------------------------------------------------------------------------


def shown(loader):
    return [b.tolist() for b in loader]


def test_batches():
    assert shown(DataLoader(Squares(5), batch_size=2)) == [[0, 1], [4, 9], [16]]
    assert shown(DataLoader(Squares(5), batch_size=2, drop_last=True)) == [[0, 1], [4, 9]]
    assert len(DataLoader(Squares(5), batch_size=2)) == 3 and len(DataLoader(Squares(5), 2, drop_last=True)) == 2
    assert list(DataLoader(Squares(3), batch_size=None)) == [0, 1, 4]
    assert shown(DataLoader(Squares(5), sampler=[4, 2, 0], batch_size=2)) == [[16, 4], [0]]
    assert shown(DataLoader(Squares(5), batch_sampler=[[0, 4], [1]])) == [[0, 16], [1]]
    assert list(DataLoader(Squares(3), batch_size=2, collate_fn=double)) == [[0, 2], [8]]
    assert shown(DataLoader(Stream(5), batch_size=2)) == [[0, 1], [2, 3], [4]]
    assert shown(DataLoader(Stream(5), batch_size=2, drop_last=True)) == [[0, 1], [2, 3]]
    assert list(DataLoader(Stream(3), batch_size=None)) == [0, 1, 2]


def test_shuffled_as_torch():
    engine.manual_seed(3)
    loader = DataLoader(Squares(10), 3, shuffle=True)
    assert [shown(loader), shown(loader)] == EXPECTED["shuffled_twice"]
    engine.manual_seed(3)
    shown(DataLoader(Squares(4), 2))
    assert engine.rand(2).tolist() == pytest.approx(EXPECTED["rand_after_a_pass"])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_workers": -1}, "num_workers option should be non-negative"),
        ({"timeout": -1}, "timeout option should be non-negative"),
        ({"prefetch_factor": 2}, "prefetch_factor option could only be specified"),
        ({"persistent_workers": True}, "persistent_workers option needs num_workers > 0"),
        ({"sampler": [1], "shuffle": True}, "sampler option is mutually exclusive with shuffle"),
        ({"batch_sampler": [[1]], "batch_size": 2}, "batch_sampler option is mutually exclusive"),
        ({"batch_size": None, "drop_last": True}, "batch_size=None option disables auto-batching"),
        ({"batch_size": 0}, "batch_size should be a positive integer"),
    ],
)
def test_bad_options(options, message):
    with pytest.raises(ValueError, match=message):
        DataLoader(Squares(), **options)


def test_stream_takes_no_order():
    with pytest.raises(ValueError, match="IterableDataset: expected unspecified shuffle option"):
        DataLoader(Stream(3), shuffle=True)
    with pytest.raises(ValueError, match="IterableDataset: expected unspecified sampler option"):
        DataLoader(Stream(3), sampler=[1])


# -- worker processes -------------------------------------------------------------------------------------------------------------------


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
    processes = loader._team.processes
    assert [b[0].item() for b in loader][0::2] == pytest.approx(expected[2:])
    assert loader._team.processes is processes
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


def test_no_process_is_left():
    loader = DataLoader(Squares(8), batch_size=2, num_workers=2)
    batches = iter(loader)
    next(batches)
    processes = batches.gi_frame.f_locals["team"].processes
    assert len(processes) == 2 and all(p.is_alive() for p in processes)
    batches.close()
    assert not any(p.is_alive() for p in processes)


def test_classes_of_a_notebook_travel_whole(tmp_path):
    """What is defined in __main__, where a worker cannot import it from."""
    code = (
        "from engine.data import DataLoader, Dataset\n"
        "namespace = {'__name__': '__main__', 'Dataset': Dataset}\n"
        "exec('class Cell(Dataset):\\n def __len__(self): return 4\\n def __getitem__(self, i): return factor * i', globals())\n"
        "factor = 3\n"
        "print([b.tolist() for b in DataLoader(Cell(), 2, num_workers=2, collate_fn=lambda b: __import__('engine').Tensor(b))])\n"
    )
    pytest.importorskip("cloudpickle")
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "[[0, 3], [6, 9]]", done.stderr


# from torch 2.13: torch.manual_seed(3), then the same call
EXPECTED = {
    "split_3_7": [[6, 0, 3], [7, 8, 5, 1, 9, 2, 4]],
    "split_fractions_seed_1": [[5, 6, 1, 2], [0, 8, 9, 3, 7, 4]],
    "random": [7, 9, 17, 5, 6, 16, 10, 15, 0, 12, 18, 2, 3, 11, 13, 19, 4, 8, 1, 14],
    "random_45": [7, 9, 17, 5, 6, 16, 10, 15, 0, 12, 18, 2, 3, 11, 13, 19, 4, 8, 1, 14, 4, 11, 12, 13, 5, 3, 0, 19, 2, 9, 1, 18, 15,
        17, 6, 14, 16, 10, 8, 7, 0, 16, 14, 9, 3],
    "replacement_45": [7, 8, 15, 11, 18, 6, 12, 2, 3, 19, 18, 16, 12, 5, 5, 14, 2, 5, 8, 4, 11, 18, 15, 1, 3, 11, 7, 4, 2, 1, 11, 15,
        3, 3, 7, 4, 3, 16, 0, 9, 14, 10, 17, 15, 15],
    "generator_4": [10, 14, 15, 2, 5, 16, 3, 4, 1, 0, 18, 19, 11, 6, 9, 17, 12, 8, 13, 7],
    "subset": [7, 8, 6, 5],
    "weighted": [1, 3, 3, 2, 3, 3, 2, 3, 3, 3],
    "weighted_without": [3, 0, 1],
    "shuffled_twice": [[[36, 4, 0], [1, 64, 9], [25, 16, 49], [81]], [[9, 16, 0], [81, 36, 49], [1, 4, 25], [64]]],
    "rand_after_a_pass": [0.2858424782752991, 0.026954829692840576],
}  # fmt: skip
