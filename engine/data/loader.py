"""DataLoader: batches of a dataset, fetched in this process or by worker processes."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable
from multiprocessing.context import BaseContext
from typing import Any, Generic

from ..base.errors import warn
from .collate import default_collate, default_convert
from .dataset import IterableDataset, T_co
from .fetch import _DatasetKind
from .passes import Here, Pass, Workers
from .sampler import BatchSampler, RandomSampler, SequentialSampler

_FIXED = frozenset({"batch_size", "batch_sampler", "sampler", "drop_last", "dataset", "persistent_workers"})


class _Endless:
    """The sampler of a stream: yields None endlessly, once per requested sample."""

    def __iter__(self) -> Any:
        while True:
            yield None


class DataLoader(Generic[T_co]):
    """Iterates over batches of a dataset: `for batch in DataLoader(dataset, batch_size=32, shuffle=True)`.

    `batch_size=None` turns batching off. With `num_workers` > 0, that many processes prefetch batches and pass large ones in shared memory.
    Batches keep the sampler's order unless `in_order=False`, and equal seeds give equal batches. A worker's exception is re-raised with its
    traceback; a worker that exits unexpectedly raises RuntimeError. `multiprocessing_context` sets how workers start; the default is
    Python's start method ("fork" on Linux before 3.14), with "forkserver" replacing "fork" once a GPU was used. `pin_memory` copies batches
    to pinned memory if a GPU is available; `pin_memory_device` is ignored. The arguments are those of `torch.utils.data.DataLoader`.
    """

    _ready = False
    _IterableDataset_len_called: int | None = None  # the last result of `len()` for a stream, None before

    def __init__(
        self, dataset: Any, batch_size: int | None = 1, shuffle: bool | None = None, sampler: Any = None, batch_sampler: Any = None,
        num_workers: int = 0, collate_fn: Callable | None = None, pin_memory: bool = False, drop_last: bool = False, timeout: float = 0,
        worker_init_fn: Callable[[int], None] | None = None, multiprocessing_context: Any = None, generator: Any = None, *,
        prefetch_factor: int | None = None, persistent_workers: bool = False, pin_memory_device: str = "", in_order: bool = True,
    ):  # fmt: skip
        if num_workers < 0:
            raise ValueError("num_workers option should be non-negative; use num_workers=0 to disable multiprocessing.")
        if timeout < 0:
            raise ValueError("timeout option should be non-negative")
        if num_workers == 0 and prefetch_factor is not None:
            raise ValueError(
                "prefetch_factor option could only be specified in multiprocessing.let num_workers > 0 to enable multiprocessing, "
                "otherwise set prefetch_factor to None."
            )
        if prefetch_factor is not None and prefetch_factor < 0:
            raise ValueError("prefetch_factor option should be non-negative")
        if persistent_workers and num_workers == 0:
            raise ValueError("persistent_workers option needs num_workers > 0")
        self.dataset, self.num_workers, self.timeout, self.worker_init_fn = dataset, num_workers, timeout, worker_init_fn
        self.prefetch_factor = 2 if num_workers and prefetch_factor is None else prefetch_factor
        self.pin_memory, self.pin_memory_device, self.persistent_workers, self.in_order = (
            pin_memory,
            pin_memory_device,
            persistent_workers,
            in_order,
        )
        self.multiprocessing_context, self.generator = multiprocessing_context, generator
        streams = isinstance(dataset, IterableDataset)
        self._dataset_kind = _DatasetKind.Iterable if streams else _DatasetKind.Map
        if streams:
            if shuffle not in (False, None):
                raise ValueError(f"DataLoader with IterableDataset: expected unspecified shuffle option, but got shuffle={shuffle}")
            for name, given in (("sampler", sampler), ("batch_sampler", batch_sampler)):
                if given is not None:
                    raise ValueError(f"DataLoader with IterableDataset: expected unspecified {name} option, but got {name}={given}")
        if sampler is not None and shuffle:
            raise ValueError("sampler option is mutually exclusive with shuffle")
        if batch_sampler is not None:
            if batch_size != 1 or shuffle or sampler is not None or drop_last:
                raise ValueError("batch_sampler option is mutually exclusive with batch_size, shuffle, sampler, and drop_last")
            batch_size, drop_last = None, False
        elif batch_size is None and drop_last:
            raise ValueError("batch_size=None option disables auto-batching and is mutually exclusive with drop_last")
        if sampler is None:
            if streams:
                sampler = _Endless()
            else:
                sampler = RandomSampler(dataset, generator=generator) if shuffle else SequentialSampler(dataset)
        if batch_size is not None and batch_sampler is None:
            batch_sampler = BatchSampler(sampler, batch_size, drop_last)
        self.batch_size, self.drop_last, self.sampler, self.batch_sampler = batch_size, drop_last, sampler, batch_sampler
        self.collate_fn: Any = collate_fn if collate_fn is not None else (default_collate if batch_sampler is not None else default_convert)
        self._iterator: Workers | None = None  # the last pass with persistent workers
        self._ready = True
        self.check_worker_number_rationality()

    def __setattr__(self, name: str, value: Any) -> None:
        if self._ready and name in _FIXED:
            raise ValueError(f"{name} attribute should not be set after {type(self).__name__} is initialized")
        super().__setattr__(name, value)

    @property
    def multiprocessing_context(self) -> Any:
        """How workers start: the name of a start method, a context, or None. Setting anything else raises ValueError or TypeError."""
        return self._context

    @multiprocessing_context.setter
    def multiprocessing_context(self, asked: Any) -> None:
        self._context = _checked_context(asked, self.num_workers)

    @property
    def _auto_collation(self) -> bool:
        return self.batch_sampler is not None

    @property
    def _index_sampler(self) -> Any:
        return self.batch_sampler if self._auto_collation else self.sampler

    def __len__(self) -> int:
        if self._dataset_kind == _DatasetKind.Map:
            return len(self._index_sampler)
        n = self._IterableDataset_len_called = len(self.dataset)
        if self.batch_size is None:
            return n
        n = n // self.batch_size if self.drop_last else -(-n // self.batch_size)
        self._IterableDataset_len_called = n
        return n

    def __iter__(self) -> Pass:
        team = None if self._iterator is None else self._iterator._team
        found = self._get_iterator() if team is None or team.broken else Workers(self, team)
        if self.persistent_workers and isinstance(found, Workers):
            self._iterator = found
        return found

    def _get_iterator(self) -> Pass:
        """Return a new pass, with new worker processes if `num_workers` > 0.

        AssertionError for a timeout without workers, and for a prefetch factor of 0 with them.
        """
        if self.num_workers == 0:
            if self.timeout:
                raise AssertionError(f"DataLoader without worker processes requires timeout == 0, got {self.timeout}")
            return Here(self)
        if self.prefetch_factor == 0:
            raise AssertionError("prefetch_factor must be greater than 0 for a DataLoader with worker processes")
        return Workers(self)

    def check_worker_number_rationality(self) -> None:
        """Give PyTorch's warning if there are more workers than available processors."""
        most = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
        if most is not None and self.num_workers > most:
            warn(
                f"This DataLoader will create {self.num_workers} worker processes in total. Our suggested max number of worker in current "
                f"system is {most}, which is smaller than what this DataLoader is going to create. Please be aware that excessive worker "
                "creation might get DataLoader running slow or even freeze, lower the worker number to avoid potential slowness/freeze if "
                "necessary."
            )


def _checked_context(asked: Any, num_workers: int) -> Any:
    """Validate a `multiprocessing_context`: the name of a start method, a context, or None."""
    if asked is None:
        return None
    if num_workers == 0:
        raise ValueError(f"multiprocessing_context can only be used with multi-process loading (num_workers > 0), but got {num_workers=}")
    methods = multiprocessing.get_all_start_methods()
    if isinstance(asked, str):
        if asked not in methods:
            raise ValueError(
                f"multiprocessing_context option should specify a valid start method in {methods!r}, but got "
                f"multiprocessing_context={asked!r}"
            )
    elif not isinstance(asked, BaseContext):
        raise TypeError(
            "multiprocessing_context option should be a valid context object or a string specifying the start method, but got "
            f"multiprocessing_context={asked}"
        )
    return asked
