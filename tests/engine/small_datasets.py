"""Datasets that the tests of loading share."""

from __future__ import annotations

import os
import signal
import time

import numpy

from engine.utils.data import Dataset, IterableDataset, get_worker_info


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


class Stream(IterableDataset):
    def __init__(self, n):
        self.n = n

    def __iter__(self):
        info = get_worker_info()
        return iter(range(self.n) if info is None else range(info.id, self.n, info.num_workers))


class Big(Squares):
    def __getitem__(self, i):
        return numpy.full((256, 1024), i, numpy.float32)


def shown(loader):
    return [b.tolist() for b in loader]
