"""Datasets, samplers, seeds and batches beside PyTorch's, with seeds that change from run to run."""

from __future__ import annotations

import random as python_random
import secrets

import numpy
import pytest

import engine
import engine.utils.data as ours

torch = pytest.importorskip("torch")
import torch.utils.data as theirs  # noqa: E402

pytestmark = [pytest.mark.torch, pytest.mark.timeout(60)]
BOTH = ((engine, ours), (torch, theirs))


@pytest.fixture
def seed():
    return secrets.randbits(62)


@pytest.mark.parametrize(
    "make",
    [
        lambda E, d: d.RandomSampler(range(37)),
        lambda E, d: d.RandomSampler(range(37), num_samples=80),
        lambda E, d: d.RandomSampler(range(37), replacement=True, num_samples=70),
        lambda E, d: d.RandomSampler(range(9), generator=E.Generator().manual_seed(5)),
        lambda E, d: d.SubsetRandomSampler(list(range(3, 30))),
        lambda E, d: d.WeightedRandomSampler([0.1, 0.5, 3, 0.2, 1], 20),
        lambda E, d: d.WeightedRandomSampler([0.1, 0.5, 3, 0.2, 1], 4, replacement=False),
        lambda E, d: d.BatchSampler(d.RandomSampler(range(11)), 4, False),
        lambda E, d: d.DistributedSampler(range(29), 4, 2, seed=7),
        lambda E, d: d.random_split(range(30), [0.3, 0.5, 0.2])[1].indices,
    ],
)
def test_orders(make, seed):
    found = []
    for E, d in BOTH:
        E.manual_seed(seed)
        order = make(E, d)
        found.append([list(order), list(order), len(order), E.rand(2).tolist()])
    assert found[0] == found[1]


@pytest.mark.parametrize(
    "options", [{}, {"num_workers": 2}, {"num_workers": 1, "prefetch_factor": 4}, {"num_workers": 2, "persistent_workers": True}]
)
def test_loaders_shuffle_alike_and_draw_alike(options, seed):
    found = []
    for E, d in BOTH:
        E.manual_seed(seed)
        loader = d.DataLoader(d.TensorDataset(E.arange(23), E.arange(46).reshape(23, 2)), 4, shuffle=True, **options)
        epochs = [[[t.tolist() for t in batch] for batch in loader] for _ in range(3)]
        found.append([epochs, E.rand(2).tolist()])
    assert found[0] == found[1]


@pytest.mark.parametrize("workers", [1, 2])
def test_workers_draw_alike(workers, seed):
    found = []
    for E, d in BOTH:

        class Draws(d.Dataset):
            def __len__(self):
                return 6

            def __getitem__(self, i):
                return d.get_worker_info().seed, python_random.random(), numpy.random.random(), E.rand(()).item()  # noqa: B023

        E.manual_seed(seed)
        found.append([[x.tolist() for x in batch] for batch in d.DataLoader(Draws(), 2, num_workers=workers)])
    assert found[0] == found[1]


BATCHES = [
    lambda E: [E.ones(2, 3), E.zeros(2, 3)],
    lambda E: [numpy.float32(1), numpy.float32(2)],
    lambda E: [numpy.ones(2, "i2")] * 3,
    lambda E: [numpy.bool_(True), numpy.bool_(False)],
    lambda E: [1, 2, 3],
    lambda E: [True, False],
    lambda E: [1.5, 2],
    lambda E: ["a", "b"],
    lambda E: [{"a": 1, "b": [2.0, (3, "x")]}] * 2,
    lambda E: [(E.ones(1), [1, 2])] * 3,
    lambda E: [range(2)] * 2,
    lambda E: [None],
    lambda E: [object()],
    lambda E: [numpy.array("a")],
    lambda E: [[1, 2], [3]],
    lambda E: [{"a": 1}, {"b": 1}],
    lambda E: [E.ones(2), E.ones(3)],
    lambda E: [],
]


def shown(x):
    if hasattr(x, "dtype"):
        return str(x.dtype), x.tolist()
    if isinstance(x, dict):
        return {k: shown(v) for k, v in x.items()}
    return (type(x).__name__, [shown(v) for v in x]) if isinstance(x, (list, tuple)) else x


@pytest.mark.parametrize("make", BATCHES)
@pytest.mark.parametrize("name", ["default_collate", "default_convert"])
def test_collating(make, name):
    found = []
    for E, d in BOTH:
        try:
            found.append(shown(getattr(d, name)(make(E))))
        except Exception as error:
            found.append(type(error))
    if found[1:] and name == "default_convert" and any("object" in str(f) for f in found):
        found = [str(f).partition(" object at")[0] for f in found]
    assert found[0] == found[1]
