"""`Join`: train with uneven numbers of batches; processes that finish early mirror the others' collectives."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from typing import Any

from ...core.create import ones, zeros
from .. import collectives
from ..world import get_world_size

__all__ = ["Join", "JoinHook", "Joinable"]
_MANY = 1000  # iterations of mirroring before a process warns


class JoinHook:
    """The actions of a process that has run out of batches, for one `Joinable`."""

    def main_hook(self) -> None:
        """Called repeatedly while other processes train, to mirror the collectives of one iteration."""

    def post_hook(self, is_last_joiner: bool) -> None:
        """Called once when all processes are done; `is_last_joiner` says whether this process was among the last."""


class Joinable(ABC):
    """Base class of participants, which must call `Join.notify_join_context(self)` in each iteration before its collectives."""

    _join: Join | None = None  # the active context

    @abstractmethod
    def join_hook(self, **kwargs: Any) -> JoinHook:
        """Return the hook, given the extra keyword arguments of `Join`."""

    @property
    @abstractmethod
    def join_device(self) -> Any:
        """The device for the collectives that count the active processes."""

    @property
    @abstractmethod
    def join_process_group(self) -> Any:
        """The participating process group."""


class Join:
    """A context for training with uneven numbers of batches.

    After its last batch, a process runs the hooks of `joinables` until all processes are done. With `throw_on_early_termination`, all
    processes raise RuntimeError once one runs out of batches. `enable=False` makes the context a no-op.
    """

    def __init__(self, joinables: list[Joinable], enable: bool = True, throw_on_early_termination: bool = False, **kwargs: Any):
        if not joinables:
            raise ValueError("The join context manager requires at least one joinable")
        for joinable in joinables:
            if not isinstance(joinable, Joinable):
                raise TypeError(f"Join: expected objects of type Joinable, got {type(joinable).__name__}")
        self._joinables, self._enable, self._throw = list(joinables), enable, throw_on_early_termination
        self._hooks = [joinable.join_hook(**kwargs) for joinable in joinables]
        groups, devices = ([getattr(j, name) for j in joinables] for name in ("join_process_group", "join_device"))
        if any(group is not groups[0] for group in groups):
            raise ValueError("Using join context manager with multiple process groups")
        self._group, self._device = groups[0], devices[0]
        self.active = get_world_size(self._group) if enable else 0  # number of processes still training

    def __enter__(self) -> None:
        if self._enable:
            for joinable in self._joinables:
                joinable._join = self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        try:
            if self._enable and kind is None:
                self._mirror()
        finally:
            for joinable in self._joinables:
                joinable._join = None

    def _mirror(self) -> None:
        """Run the hooks until all processes are done."""
        rounds, is_last = 0, True
        while self._count(0):
            if self._throw:
                self._tell(True)
                raise RuntimeError("Detected at least one rank that exhausted inputs. Throwing across all ranks.")
            is_last = False
            rounds += 1
            if rounds == _MANY:
                warnings.warn(f"Detected uneven input skew of greater than {_MANY} iterations, which all processes pay for", stacklevel=3)
            for hook in self._hooks:
                hook.main_hook()
        for hook in self._hooks:
            hook.post_hook(is_last)

    def _count(self, mine: int) -> int:
        """Return the number of processes still training."""
        found = (ones if mine else zeros)(1, device=self._device)
        collectives.all_reduce(found, group=self._group)
        return int(found.item())

    def _tell(self, end: bool) -> bool:
        """Return whether any process requests termination."""
        found = (ones if end else zeros)(1, device=self._device)
        collectives.all_reduce(found, group=self._group)
        return bool(found.item())

    @staticmethod
    def notify_join_context(joinable: Joinable) -> None:
        """Signal to finished processes that this one is still training; each joinable calls it before an iteration's collectives.

        Only the context's first joinable has an effect. Raises RuntimeError if a process has requested termination.
        """
        context = joinable._join
        if context is None or context._joinables[0] is not joinable:
            return
        context.active = context._count(1)
        if context._throw and context.active < get_world_size(context._group) and context._tell(False):
            raise RuntimeError("Detected at least one rank that exhausted inputs. Throwing across all ranks.")
