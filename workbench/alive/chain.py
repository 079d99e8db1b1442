"""The answer: chains from roots down to a tensor's memory, as texts alone, so that an answer keeps nothing alive."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

MOST_OBJECTS = 200_000  # that a search looks at


class Root(NamedTuple):
    """Where a search begins."""

    called: str
    thing: Any
    fix: str  # the line that lets go of it; "" for none
    advice: str  # what that line does
    most: int = MOST_OBJECTS  # that are looked at from there
    own: str = ""  # of what the workbench keeps to show it: the word that wb.release takes


@dataclass(frozen=True)
class Chain:
    """One way in which the memory is kept: links from the root down, and the line of code that cuts it."""

    links: tuple[str, ...]
    fix: str
    advice: str

    def __str__(self) -> str:
        return " → ".join(self.links)


@dataclass(frozen=True)
class Why:
    """The answer of `wb.why`: texts alone, so that it keeps nothing alive."""

    what: str
    chains: tuple[Chain, ...]
    looked_at: int  # objects
    seconds: float
    complete: bool  # False: the search ended at its limit
    own: tuple[str, ...] = ()  # what the workbench keeps it in, to show it, as wb.release calls that

    @property
    def sentence(self) -> str:
        """Whether the workbench keeps it as well, and how far was looked."""
        words = ", ".join(f'"{word}"' for word in self.own)
        own = f"The workbench keeps it{' too' if self.chains else ''}, to show it: wb.release({words}) lets go of it. " if words else ""
        bound = "" if self.complete else f" The search ended at its limit of {MOST_OBJECTS:,} objects, so there may be more."
        return f"{own}Looked at {self.looked_at:,} objects in {1000 * self.seconds:.0f} ms.{bound}"

    def __repr__(self) -> str:
        count = len(self.chains)
        lines = [f"{self.what} is kept alive by {count} {'chain' if count == 1 else 'chains'}:"]
        if not self.chains:
            lines = [f"{self.what}: nothing {'of yours ' if self.own else ''}was found that keeps it alive, but what was asked with."]
        for chain in self.chains:
            lines.append(f"  {chain}")
            if chain.fix or chain.advice:
                lines.append(f"      {chain.fix}   # {chain.advice}" if chain.fix else f"      {chain.advice}")
        return "\n".join([*lines, f"  {self.sentence}"])
