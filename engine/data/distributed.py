"""DistributedSampler: the share of a dataset's indices that one process visits."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from typing import Any

from ..core import random
from .sampler import Sampler, T_co
from .stream import randperm


class DistributedSampler(Sampler[T_co]):
    """Every `num_replicas`-th index, starting at `rank`, of an order that is the same in all processes.

    So that all processes get the same number, the order is padded with its own beginning, or truncated with `drop_last`. With `shuffle` it
    is drawn from `seed + epoch`: call `set_epoch(epoch)` before each epoch. `num_replicas` and `rank` default to the world size and rank of
    `engine.distributed`; ValueError if there is no process group.
    """

    def __init__(
        self, dataset: Any, num_replicas: int | None = None, rank: int | None = None, shuffle: bool = True, seed: int = 0,
        drop_last: bool = False,
    ):  # fmt: skip
        if num_replicas is None or rank is None:
            distributed = sys.modules.get("engine.distributed")  # already imported if a process group was started
            if distributed is None:
                raise ValueError("Default process group has not been initialized, please make sure to call init_process_group.")
            num_replicas = int(distributed.get_world_size()) if num_replicas is None else num_replicas
            rank = int(distributed.get_rank()) if rank is None else rank
        if rank >= num_replicas or rank < 0:
            raise ValueError(f"Invalid rank {rank}, rank should be in the interval [0, {num_replicas - 1}]")
        self.dataset, self.epoch, self.drop_last = dataset, 0, drop_last
        self.shuffle, self.seed = shuffle, seed
        self.share(num_replicas, rank)

    def share(self, num_replicas: int, rank: int, seen: int = 0) -> None:
        """Divide an epoch among so many processes, from the index on that comes after the first `seen`."""
        self.num_replicas, self.rank, self.seen = num_replicas, rank, seen
        n = max(0, len(self.dataset) - seen)
        self.num_samples = n // num_replicas if self.drop_last else math.ceil(n / num_replicas)
        self.total_size = self.num_samples * num_replicas

    def __iter__(self) -> Iterator[int]:
        n = len(self.dataset)
        order = randperm(n, random.Generator().manual_seed(self.seed + self.epoch)) if self.shuffle else list(range(n))
        order = order[self.seen :]
        if not self.drop_last and order:
            order *= -(-self.total_size // len(order))
        return iter(order[self.rank : self.total_size : self.num_replicas])

    def __len__(self) -> int:
        return self.num_samples

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch, which determines the order of the next pass."""
        self.epoch = epoch
