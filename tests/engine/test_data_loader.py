"""DataLoader in one process: batches, orders, options, warnings; orders are those of torch 2.13 with the same seeds."""

from __future__ import annotations

import pytest
from small_datasets import Squares, Stream, shown

import engine
from engine.utils.data import (
    DataLoader,
    Dataset,
    Sampler,
    StackDataset,
    Subset,
)

pytestmark = pytest.mark.filterwarnings("ignore:This DataLoader will create")  # PyTorch warns of more workers than processors


def double(batch):
    return [2 * x for x in batch]


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


class DrawsAtOnce(Sampler):
    """Draws its order when it is asked for it, and not with the first index."""

    def __len__(self):
        return 5

    def __iter__(self):
        return iter(engine.randperm(5).tolist())


@pytest.mark.parametrize("workers", [0, 1])
def test_samplers_that_draw_at_once_draw_as_with_torch(workers):
    engine.manual_seed(1)
    assert list(DataLoader(range(5), batch_size=None, sampler=DrawsAtOnce(), num_workers=workers)) == EXPECTED["at_once"][workers][0]
    assert engine.rand(1).item() == EXPECTED["at_once"][workers][1]


def test_options_that_only_workers_heed_are_not_ignored():
    with pytest.raises(AssertionError, match="requires timeout == 0, got 3"):
        iter(DataLoader(Squares(), timeout=3))
    with pytest.raises(AssertionError, match="prefetch_factor must be greater than 0"):
        iter(DataLoader(Squares(), num_workers=1, prefetch_factor=0))
    with pytest.raises(ValueError, match="multiprocessing_context can only be used with"):
        DataLoader(Squares()).multiprocessing_context = "spawn"
    with pytest.raises(ValueError, match="should specify a valid start method"):
        DataLoader(Squares(), num_workers=1).multiprocessing_context = "pigeon"


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


def test_many_at_once():
    class Rows(Dataset):
        def __len__(self):
            return 4

        def __getitem__(self, i):
            raise AssertionError("one by one")

        def __getitems__(self, indices):
            return [10 * i for i in indices]

    assert shown(DataLoader(Subset(Rows(), [3, 1]), batch_size=2)) == [[30, 10]]
    assert [[c.tolist() for c in b] for b in DataLoader(StackDataset(Rows(), range(4)), batch_size=2)] == [
        [[0, 10], [0, 1]],
        [[20, 30], [2, 3]],
    ]


def test_warnings_and_fixed_attributes():
    with pytest.warns(UserWarning, match="'pin_memory' argument is set as true but no accelerator is found"):
        list(DataLoader(Squares(2), pin_memory=True))
    with pytest.warns(UserWarning, match="no accelerator is found") as told:
        list(DataLoader(Squares(2), pin_memory=True, num_workers=1))
    assert told[0].filename == __file__  # the program's line, not the loader's
    with pytest.warns(UserWarning, match="This DataLoader will create 4000 worker processes in total"):
        DataLoader(Squares(2), num_workers=4000)
    loader = DataLoader(Squares(2))
    for name in ("batch_size", "dataset", "sampler", "drop_last", "batch_sampler", "persistent_workers"):
        with pytest.raises(ValueError, match=f"{name} attribute should not be set after DataLoader is initialized"):
            setattr(loader, name, 3)

    class Short(Stream):
        def __len__(self):
            return 2

    loader = DataLoader(Short(3))
    assert len(loader) == 2
    with pytest.warns(UserWarning, match=r"was reported to be 2 \(when accessing len\(dataloader\)\), but 3 samples have been fetched"):
        list(loader)
    for options, kind in (
        ({"num_workers": 0, "multiprocessing_context": "spawn"}, ValueError),
        ({"num_workers": 1, "multiprocessing_context": "x"}, ValueError),
        ({"num_workers": 1, "multiprocessing_context": 3}, TypeError),
    ):
        with pytest.raises(kind, match="multiprocessing_context"):
            DataLoader(Squares(2), **options)
    with pytest.raises(ValueError, match="num_samples should be a positive integer value, but got num_samples=0"):
        DataLoader([], shuffle=True)


# from torch 2.13: torch.manual_seed(3), then the same call
EXPECTED = {
    "at_once": [([0, 4, 2, 3, 1], 0.3971373438835144), ([1, 2, 4, 3, 0], 0.6386804580688477)],
    "shuffled_twice": [[[36, 4, 0], [1, 64, 9], [25, 16, 49], [81]], [[9, 16, 0], [81, 36, 49], [1, 4, 25], [64]]],
    "rand_after_a_pass": [0.2858424782752991, 0.026954829692840576],
}  # fmt: skip
