"""Passes over a DataLoader: the iterators that `iter(loader)` returns."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

from ..base import observe
from ..base.errors import warn
from . import pin
from .fetch import _DatasetKind
from .stream import draw_seed
from .team import Team

if TYPE_CHECKING:
    from .loader import DataLoader

_REPLICAS = (
    "For multiprocessing data-loading, this could be caused by not properly configuring the IterableDataset replica at each worker. "
    "Please see https://pytorch.org/docs/stable/data.html#torch.utils.data.IterableDataset for examples."
)


class Pass:
    """Iterator over a loader's batches; `len()` is that of the loader's index sampler.

    It reads the loader through PyTorch's private attribute names, so that it also works with other libraries' loaders.
    """

    def __init__(self, loader: DataLoader) -> None:
        self._loader, self._num_yielded, self._index_sampler = loader, 0, loader._index_sampler
        self._pins = bool(loader.pin_memory) and pin.possible()

    def __iter__(self) -> Pass:
        return self

    def __len__(self) -> int:
        return len(self._index_sampler)

    def _next_data(self) -> Any:
        raise NotImplementedError

    def __next__(self) -> Any:
        with observe.scope("DataLoader", "loading", self):
            batch = self._next_data()
        self._num_yielded += 1
        told = self._loader._IterableDataset_len_called
        if told is not None and self._num_yielded > told:
            text = (
                f"Length of IterableDataset {self._loader.dataset} was reported to be {told} (when accessing len(dataloader)), but "
                f"{self._num_yielded} samples have been fetched. "
            )
            warn(text + (_REPLICAS if self._loader.num_workers else ""))
        return pin.pinned(batch) if self._pins else batch


class Here(Pass):
    """A pass in this process."""

    def __init__(self, loader: DataLoader) -> None:
        super().__init__(loader)
        self._sampler_iter = iter(self._index_sampler)
        self._base_seed = draw_seed(loader.generator)  # unused, but drawn, as in PyTorch
        self._dataset_fetcher = _DatasetKind.create_fetcher(
            loader._dataset_kind, loader.dataset, loader._auto_collation, loader.collate_fn, loader.drop_last
        )

    def _next_data(self) -> Any:
        return self._dataset_fetcher.fetch(next(self._sampler_iter))


class Workers(Pass):
    """A pass with worker processes, which end with it unless they are persistent."""

    def __init__(self, loader: DataLoader, team: Team | None = None) -> None:
        super().__init__(loader)
        if team is None:
            iter(self._index_sampler)  # as in PyTorch: a sampler that draws in `__iter__` draws before the seed, and again for the pass
            team = Team(loader, draw_seed(loader.generator))
        self._team: Team | None = team
        self._stays = loader.persistent_workers
        self._end = weakref.finalize(loader if self._stays else self, team.stop)  # unlike __del__, runs before the pipes are collected
        team.current = weakref.ref(self)
        team.begin(iter(self._index_sampler))

    def _next_data(self) -> Any:
        team = self._team
        if team is None or team.current() is not self:
            raise StopIteration  # finished, or the same workers have begun another pass
        try:
            return team.next()
        except StopIteration:
            if not self._stays:
                self._shutdown_workers()
            raise
        except BaseException:
            if team.broken or not team.failed:
                self._shutdown_workers()
            raise

    def _shutdown_workers(self) -> None:
        """Stop the worker processes."""
        self._team = None
        self._end()
