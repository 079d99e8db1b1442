"""Datasets, samplers and collating; random orders are literal numbers from torch 2.13 with the same seeds."""

from __future__ import annotations

import collections

import numpy
import pytest
from small_datasets import Squares, Stream

import engine
from engine import Tensor
from engine.core import random
from engine.data.collate import collate, default_collate_fn_map
from engine.utils.data import (
    BatchSampler,
    ChainDataset,
    ConcatDataset,
    DataLoader,
    Dataset,
    DistributedSampler,
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
    random_split,
)

pytestmark = pytest.mark.filterwarnings("ignore:This DataLoader will create")  # PyTorch warns of more workers than processors


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
    assert ConcatDataset.cumsum([range(1), range(0), range(2)]) == [1, 1, 3]
    with pytest.raises(TypeError, match="abstract"):
        IterableDataset()
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
    assert default_collate([numpy.bool_(True)]).dtype is engine.bool and default_collate([numpy.int16(1)]).dtype is engine.int16
    with pytest.raises(ValueError, match="byte order"):
        default_collate([numpy.zeros(2, ">i2"), numpy.ones(2, ">i2")])
    assert default_collate([engine.tensor([1.0]), engine.tensor([2.0])]).tolist() == [[1.0], [2.0]]
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


@pytest.mark.parametrize(
    ("batch", "dtype", "values"),
    [
        ([1, 2.5], engine.float32, [1.0, 2.5]),
        ([True, 2.5], engine.float32, [1.0, 2.5]),
        ([True, 2], engine.int64, [1, 2]),
        ([1.5, 2, True], engine.float64, [1.5, 2.0, 1.0]),
        ([1, numpy.float64(2.5)], engine.float64, [1.0, 2.5]),
        ([numpy.float32(1), 2], engine.float32, [1.0, 2.0]),
        ([numpy.int64(1), numpy.float32(2.5)], engine.float32, [1.0, 2.5]),
        ([numpy.float32(1), numpy.float64(2)], engine.float64, [1.0, 2.0]),
    ],
)
def test_numbers_of_several_kinds_as_torch(batch, dtype, values):
    found = default_collate(batch)
    assert found.dtype is dtype and found.tolist() == values


@pytest.mark.parametrize(
    ("batch", "kind"),
    [
        ([1.5, None], TypeError),
        ([1.5, "2"], TypeError),
        ([1, "2"], TypeError),
        ([1.5, 2j], TypeError),
        ([2**70], ValueError),
        ([engine.ones(2), 2], TypeError),
    ],
)
def test_what_is_no_number_is_refused_as_by_torch(batch, kind):
    with pytest.raises(kind):
        default_collate(batch)


def test_convert_refuses_as_torch():
    for data, kind in (
        (numpy.ones(2, numpy.longdouble), TypeError),
        (numpy.ones(2, ">f4"), ValueError),
        (numpy.zeros(2, "i4,f4"), TypeError),
        (numpy.datetime64("2020-01-01"), TypeError),
    ):
        with pytest.raises(kind):
            default_convert(data)


def test_default_convert():
    array = numpy.zeros(3)
    out = default_convert({"a": array, "b": [numpy.int32(2), "text"], "c": Pair(array, 1)})
    array[0] = 7
    assert out["a"].tolist() == [7.0, 0, 0] and out["b"][0].item() == 2 and out["b"][1] == "text"
    assert isinstance(out["c"], Pair) and isinstance(out["c"].x, Tensor)
    assert default_convert((1, "a")) == [1, "a"]  # torch 2.13 too


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("drop_last", [False, True])
def test_distributed_sampler_as_torch(shuffle, drop_last):
    sampler = DistributedSampler(range(11), 3, 1, shuffle, 5, drop_last)
    sampler.set_epoch(2)
    assert list(sampler) == EXPECTED["distributed"][shuffle, drop_last] and len(sampler) == len(EXPECTED["distributed"][shuffle, drop_last])


def test_distributed_sampler_fills_up_and_refuses():
    assert list(DistributedSampler(range(2), 5, 4, False)) == [0]
    with pytest.raises(ValueError, match=r"Invalid rank 3, rank should be in the interval \[0, 1\]"):
        DistributedSampler(range(2), 2, 3)
    with pytest.raises(ValueError, match="Default process group has not been initialized"):
        DistributedSampler(range(2))


def test_collate_by_type():
    class Box:
        def __init__(self, v):
            self.v = v

    def boxes(batch, *, collate_fn_map=None):
        return Box([b.v for b in batch])

    found = collate([(Box(1), 2), (Box(3), 4)], collate_fn_map={Box: boxes, **default_collate_fn_map})
    assert found[0].v == [1, 3] and found[1].tolist() == [2, 4]
    with pytest.raises(TypeError, match="found <class 'NoneType'>"):
        default_collate([None])
    with pytest.raises(RuntimeError, match=r"stack expects each tensor to be equal size"):
        default_collate([engine.zeros(2), engine.zeros(3)])
    w = engine.ones(2, requires_grad=True)
    default_collate([w, w * 2]).sum().backward()
    assert w.grad.tolist() == [3, 3]


def test_addresses_of_torch():
    from engine.utils.data import dataloader, dataset, distributed, sampler

    assert dataloader.DataLoader is DataLoader and dataset.TensorDataset is TensorDataset
    assert distributed.DistributedSampler is DistributedSampler and sampler.RandomSampler is RandomSampler
    from engine.utils.data._utils.worker import WorkerInfo, get_worker_info

    assert isinstance(WorkerInfo, type) and get_worker_info() is None
    assert isinstance(Dataset[int], object) and issubclass(Squares, Dataset)


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
    "distributed": {(False, False): [1, 4, 7, 10], (False, True): [1, 4, 7], (True, False): [0, 5, 10, 6], (True, True): [0, 5, 10]},
}  # fmt: skip
