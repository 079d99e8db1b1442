"""The collectives that all ranks have called, on one clock: who entered last, who waited, and what is left for computing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy

SHARE, MOST = 0.05, 0.5  # a straggler costs this share of the time, and is last in this share of the collectives


@dataclass(frozen=True)
class Calls:
    """Times of collectives: rows are ranks, columns are the collectives that have ended on all of them."""

    ranks: list[int]
    numbers: list[int]
    names: list[str]
    nbytes: list[int]
    places: list[str]  # file and line, of the first rank
    entered: numpy.ndarray
    left: numpy.ndarray

    @classmethod
    def of(cls, states: Mapping[int, Mapping[str, Any]]) -> Calls:
        """Take them from the states of ranks. Clocks of different machines are set so that they leave collectives at the same time."""
        ranks = sorted(states)
        ended = {rank: {call[0]: call for call in states[rank]["recent"] if call[5] is not None} for rank in ranks}
        numbers = sorted(set.intersection(*(set(calls) for calls in ended.values()))) if ranks else []
        first = [ended[ranks[0]][number] for number in numbers]
        times = numpy.array([[ended[rank][number][4:6] for number in numbers] for rank in ranks], float).reshape(len(ranks), -1, 2)
        if numbers:
            hosts = [states[rank]["host"] for rank in ranks]
            for host in set(hosts) - {hosts[0]}:
                own = [i for i, one in enumerate(hosts) if one == host]
                times[own] -= numpy.median(times[own, :, 1] - times[0, :, 1])
        named = [f"{call[1]}({call[2]})" if call[2] else call[1] for call in first]
        return cls(ranks, numbers, named, [call[3] for call in first], [call[6] for call in first], times[..., 0], times[..., 1])

    @cached_property
    def span(self) -> float:
        """Seconds from the first entry to the last exit."""
        return float(self.left.max() - self.entered.min()) if self.numbers else 0.0

    @cached_property
    def all_there(self) -> numpy.ndarray:
        """When the last rank entered each collective; on a rank that had left before, then."""
        return numpy.minimum(self.entered.max(0), self.left)

    @cached_property
    def waited(self) -> numpy.ndarray:
        """Seconds that each rank waited in collectives for ranks that had not entered."""
        return numpy.clip(self.all_there - self.entered, 0, None).sum(1)

    @cached_property
    def communicated(self) -> numpy.ndarray:
        """Seconds that each rank spent in collectives after all had entered."""
        return numpy.clip(self.left - self.all_there, 0, None).sum(1)

    @cached_property
    def computed(self) -> numpy.ndarray:
        """Seconds that each rank was in no collective."""
        within = numpy.maximum.accumulate(self.left, 1)
        return numpy.clip(self.entered[:, 1:] - within[:, :-1], 0, None).sum(1)

    @cached_property
    def delays(self) -> numpy.ndarray:
        """Seconds for which each rank alone was missing."""
        found = numpy.zeros(len(self.ranks))
        if len(self.ranks) > 1 and self.numbers:
            order = numpy.sort(self.entered, 0)
            numpy.add.at(found, self.entered.argmax(0), order[-1] - order[-2])
        return found

    def straggler(self) -> int | None:
        """The rank for which the others wait, or None: it delays them by 5 % of the time, and is last in half of the collectives."""
        if len(self.ranks) < 2 or len(self.numbers) < 4:
            return None
        at = int(self.delays.argmax())
        last = int((self.entered.argmax(0) == at).sum())
        return self.ranks[at] if self.delays[at] >= SHARE * self.span and last >= MOST * len(self.numbers) else None
