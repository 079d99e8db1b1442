"""DistributedSampler: each process's part of the indices."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from typing import Any

from ..core import random
from .sampler import Sampler
from .stream import randperm


class DistributedSampler(Sampler):
    """Every `num_replicas`-th index, from `rank` on, of an order that is the same in all processes.

    The order is filled up with its own beginning until all processes have equally many, or with `drop_last` cut. It is drawn anew from
    `seed + epoch` for each epoch: call `set_epoch(epoch)` before each. Replicas and rank are those of `engine.distributed` unless given.
    """

    def __init__(
        self, dataset: Any, num_replicas: int | None = None, rank: int | None = None, shuffle: bool = True, seed: int = 0,
        drop_last: bool = False,
    ):  # fmt: skip
        if num_replicas is None or rank is None:
            distributed = sys.modules.get("engine.distributed")  # imported by whoever has begun a process group
            if distributed is None:
                raise ValueError("Default process group has not been initialized, please make sure to call init_process_group.")
            num_replicas = int(distributed.get_world_size()) if num_replicas is None else num_replicas
            rank = int(distributed.get_rank()) if rank is None else rank
        if rank >= num_replicas or rank < 0:
            raise ValueError(f"Invalid rank {rank}, rank should be in the interval [0, {num_replicas - 1}]")
        self.dataset, self.num_replicas, self.rank, self.epoch, self.drop_last = dataset, num_replicas, rank, 0, drop_last
        n = len(dataset)
        self.num_samples = n // num_replicas if drop_last else math.ceil(n / num_replicas)
        self.total_size = self.num_samples * num_replicas
        self.shuffle, self.seed = shuffle, seed

    def __iter__(self) -> Iterator[int]:
        n = len(self.dataset)
        order = randperm(n, random.Generator().manual_seed(self.seed + self.epoch)) if self.shuffle else list(range(n))
        if not self.drop_last and n:
            order *= -(-self.total_size // n)
        return iter(order[self.rank : self.total_size : self.num_replicas])

    def __len__(self) -> int:
        return self.num_samples

    def set_epoch(self, epoch: int) -> None:
        """Which order the next pass takes."""
        self.epoch = epoch
