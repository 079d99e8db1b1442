"""One pass over a DataLoader: what `iter(loader)` gives."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

from .. import observe
from ..errors import warn
from . import pin
from .fetch import fetcher
from .stream import draw_seed
from .team import Team

if TYPE_CHECKING:
    from .loader import DataLoader

_REPLICAS = (
    "For multiprocessing data-loading, this could be caused by not properly configuring the IterableDataset replica at each worker. "
    "Please see https://pytorch.org/docs/stable/data.html#torch.utils.data.IterableDataset for examples."
)


class Pass:
    """Batches, one after the other; `len()` is the loader's."""

    def __init__(self, loader: DataLoader) -> None:
        self._loader, self._yielded = loader, 0
        self._pins = bool(loader.pin_memory) and pin.possible()

    def __iter__(self) -> Pass:
        return self

    def __len__(self) -> int:
        return len(self._loader._order())

    def _next(self) -> Any:
        raise NotImplementedError

    def __next__(self) -> Any:
        with observe.scope("DataLoader", "loading", self):
            batch = self._next()
        self._yielded += 1
        told = self._loader._told_length
        if told is not None and self._yielded > told:
            text = (
                f"Length of IterableDataset {self._loader.dataset} was reported to be {told} (when accessing len(dataloader)), but "
                f"{self._yielded} samples have been fetched. "
            )
            warn(text + (_REPLICAS if self._loader.num_workers else ""))
        return pin.pinned(batch) if self._pins else batch


class Here(Pass):
    """A pass in this process."""

    def __init__(self, loader: DataLoader) -> None:
        super().__init__(loader)
        self._indices = iter(loader._order())
        draw_seed(loader.generator)  # as PyTorch does, though nobody uses it
        self._source = fetcher(loader.dataset, loader._streams, loader._batched, loader.collate_fn, loader.drop_last)

    def _next(self) -> Any:
        return self._source.fetch(next(self._indices))


class Workers(Pass):
    """A pass by worker processes; they end with it unless they persist."""

    def __init__(self, loader: DataLoader, team: Team) -> None:
        super().__init__(loader)
        self._team: Team | None = team
        self._stays = loader.persistent_workers
        self._end = weakref.finalize(loader if self._stays else self, team.stop)  # unlike __del__, before the pipes are collected
        team.current = weakref.ref(self)
        team.begin(iter(loader._order()))

    def _next(self) -> Any:
        team = self._team
        if team is None or team.current() is not self:
            raise StopIteration  # over, or another pass of the same workers has begun
        try:
            return team.next()
        except StopIteration:
            if not self._stays:
                self.close()
            raise
        except BaseException:
            if team.broken or not team.failed:
                self.close()
            raise

    def close(self) -> None:
        """End the processes."""
        self._team = None
        self._end()
