"""Fetchers: read samples from a dataset, by index or as a stream, and collate them."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any


class MapFetcher:
    """Fetches samples of a dataset by index."""

    def __init__(self, dataset: Any, batched: bool, collate_fn: Callable, drop_last: bool):
        self.dataset, self.batched, self.collate_fn = dataset, batched, collate_fn

    def fetch(self, indices: Any) -> Any:
        """Return the batch at these indices or, if not batched, the sample at this index."""
        if not self.batched:
            return self.collate_fn(self.dataset[indices])
        many = getattr(self.dataset, "__getitems__", None)
        return self.collate_fn(many(indices) if many else [self.dataset[i] for i in indices])


class StreamFetcher:
    """Fetches samples of a stream, as many as indices are given."""

    def __init__(self, dataset: Any, batched: bool, collate_fn: Callable, drop_last: bool):
        self.stream, self.batched, self.collate_fn, self.drop_last = iter(dataset), batched, collate_fn, drop_last

    def fetch(self, indices: Any) -> Any:
        """Return the next batch or, if not batched, the next sample; StopIteration at the end."""
        if not self.batched:
            return self.collate_fn(next(self.stream))
        samples = list(itertools.islice(self.stream, len(indices)))
        if not samples or (self.drop_last and len(samples) < len(indices)):
            raise StopIteration
        return self.collate_fn(samples)


class _DatasetKind:
    """How a dataset is read: by index or as a stream. It has PyTorch's name because other libraries' loaders use it."""

    Map, Iterable = 0, 1

    @staticmethod
    def create_fetcher(kind: int, dataset: Any, auto_collation: bool, collate_fn: Callable, drop_last: bool) -> Any:
        """Create the fetcher for a dataset."""
        return (MapFetcher if kind == _DatasetKind.Map else StreamFetcher)(dataset, auto_collation, collate_fn, drop_last)
