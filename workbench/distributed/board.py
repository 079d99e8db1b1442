"""The board: a row for each rank with what it is doing, and sentences on who waits for whom."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

from ..graph.timing import seconds_text
from ..inspector import bytes_text
from .calls import Calls

Status = Literal["computes", "idle", "waits", "paused", "silent", "dead"]


@dataclass(frozen=True)
class Row:
    """One rank. Numbers are None if it gives no answer."""

    rank: int
    status: Status
    words: str  # what it is doing: "all_reduce(SUM) 12 for 3.2 s", "matmul at train.py, line 7"
    step: int | None
    collective: int | None  # the number of the last that it called
    waited: float | None  # share of the time of the last collectives
    memory: int | None


class Board:
    """What is known of all ranks at one time: the states of those that have answered, and those that have gone or paused."""

    def __init__(
        self, ranks: list[int], states: Mapping[int, Mapping[str, Any]], gone: Mapping[int, str], paused: Mapping[int, str]
    ) -> None:
        self.ranks, self.states, self.gone, self.paused = ranks, states, gone, paused
        self.calls = Calls.of({rank: state for rank, state in states.items() if rank not in gone})

    @cached_property
    def rows(self) -> list[Row]:
        """A row for each rank."""
        return [self._row(rank) for rank in self.ranks]

    def _row(self, rank: int) -> Row:
        state = self.states.get(rank)
        status, words = self._doing(rank, state)
        if state is None:
            return Row(rank, status, words, None, None, None, None)
        last = state["recent"][-1][0] if state["recent"] else 0
        share = None
        if rank in self.calls.ranks and self.calls.span > 0:
            share = float(self.calls.waited[self.calls.ranks.index(rank)]) / self.calls.span
        return Row(rank, status, words, state["step"], last, share, state["memory"])

    def _doing(self, rank: int, state: Mapping[str, Any] | None) -> tuple[Status, str]:
        if rank in self.gone:
            return "dead", self.gone[rank]
        if rank in self.paused:
            return "paused", self.paused[rank]
        if state is None:
            return "silent", "gives no answer: it is stopped, in one long call, or out of reach"
        pending = self._pending(state)
        if pending is not None:
            return "waits", f"in {_called(pending)} for {seconds_text(max(state['now'] - pending[4], 0))}, from {pending[6]}"
        return ("computes" if state["at"] else "idle"), state["at"]

    @staticmethod
    def _pending(state: Mapping[str, Any]) -> Any:
        return next((call for call in state["recent"] if call[5] is None), None)

    @cached_property
    def sentences(self) -> list[str]:
        """Who waits for whom now, who is slow, and whose parameters differ."""
        return [one for one in (self._stuck(), self._slow(), self._differ()) if one]

    def _stuck(self) -> str:
        pending = {
            rank: call for rank, state in self.states.items() if rank not in self.gone and (call := self._pending(state)) is not None
        }
        if not pending:
            return ""
        number = max(call[0] for call in pending.values())
        waiting = sorted(rank for rank, call in pending.items() if call[0] == number)
        missing = [rank for rank in self.ranks if rank not in self.states or _called_last(self.states[rank]) < number]
        longest = max(self.states[rank]["now"] - pending[rank][4] for rank in waiting)
        if not missing or longest < 0.1:
            return ""
        doing = "; ".join(f"rank {row.rank} {_told(row)}" for row in self.rows if row.rank in missing[:4])
        verb = "waits" if len(waiting) == 1 else "wait"
        return (
            f"{named(waiting)} {verb} for {named(missing).lower()} in {_called(pending[waiting[0]])}, for {seconds_text(longest)}: {doing}."
        )

    def _slow(self) -> str:
        calls = self.calls
        if len(self.ranks) < 2 or len(calls.numbers) < 4:
            return ""
        slow = calls.straggler()
        if slow is None:
            return f"No rank holds the others up in the last {len(calls.numbers)} collectives."
        at = calls.ranks.index(slow)
        last = int((calls.entered.argmax(0) == at).sum())
        between = calls.computed / (len(calls.numbers) - 1)
        others = (between.sum() - between[at]) / (len(between) - 1)
        share = calls.delays[at] / calls.span
        return (
            f"Rank {slow} holds the others up: it was the last to enter {last} of {len(calls.numbers)} collectives, and they waited "
            f"{seconds_text(float(calls.delays[at]))} for it alone, {share:.0%} of the time. Between two collectives it computes for "
            f"{seconds_text(float(between[at]))}, the others for {seconds_text(float(others))}."
        )

    def _differ(self) -> str:
        hashes = {rank: dict(map(tuple, state["hashes"])) for rank, state in self.states.items() if state["hashes"]}
        shared = sorted(set.intersection(*(set(one) for one in hashes.values()))) if len(hashes) > 1 else []
        for step in shared:
            groups: dict[int, list[int]] = {}
            for rank, found in sorted(hashes.items()):
                groups.setdefault(found[step], []).append(rank)
            if len(groups) > 1:
                sides = " against ".join(named(one) if i == 0 else named(one).lower() for i, one in enumerate(groups.values()))
                return f"The parameters differ after step {step}: {sides}. wb.across_ranks(model) says which."
        return f"The parameters are equal on all ranks after step {shared[-1]}." if shared else ""

    def __repr__(self) -> str:
        head = ("rank", "step", "collective", "waited", "memory", "state")
        body = [
            (str(row.rank), *cells(row), f"{row.status}{' ' if row.status == 'waits' else ': ' if row.words else ''}{row.words}")
            for row in self.rows
        ]
        widths = [max(len(line[i]) for line in (head, *body)) for i in range(len(head) - 1)]
        lines = ["  ".join([*(one.rjust(width) for one, width in zip(line, widths, strict=False)), line[-1]]) for line in (head, *body)]
        return "\n".join([*lines, *self.sentences])


def cells(row: Row) -> tuple[str, str, str, str]:
    """Step, collective, waited and memory as text."""
    return (
        "–" if row.step is None else str(row.step),
        "–" if row.collective is None else str(row.collective),
        "–" if row.waited is None else f"{row.waited:.0%}",
        "–" if row.memory is None else bytes_text(row.memory),
    )


def named(ranks: Iterable[int]) -> str:
    """Ranks in words: "Rank 2", "Ranks 0, 1 and 3"."""
    words = [str(rank) for rank in ranks]
    return f"Rank {words[0]}" if len(words) == 1 else f"Ranks {', '.join(words[:-1])} and {words[-1]}"


def _called(call: Any) -> str:
    return f"{call[1]}{f'({call[2]})' if call[2] else ''} {call[0]}"


def _called_last(state: Mapping[str, Any]) -> int:
    return state["recent"][-1][0] if state["recent"] else 0


def _told(row: Row) -> str:
    return {"computes": f"computes {row.words}", "waits": f"waits {row.words}", "paused": f"is paused {row.words}"}.get(
        row.status, row.words
    )
