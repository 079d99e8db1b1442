"""The result of a search: chains from roots down to a tensor's memory, as text only, so that a result keeps nothing alive."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

MOST_OBJECTS = 200_000  # visited by a search at most


class Root(NamedTuple):
    """An object at which a search begins."""

    called: str
    thing: Any
    fix: str  # the line of code that releases it; "" if there is none
    advice: str  # what that line does
    most: int = MOST_OBJECTS  # visited from this root at most
    own: str = ""  # for the workbench's own references, the argument of wb.release that drops them


@dataclass(frozen=True)
class Chain:
    """One chain of references that keeps memory alive.

    Attributes:
        links: the links, from the root down to the tensor.
        fix: the line of code that breaks the chain; "" if there is none.
        advice: what that line does.
    """

    links: tuple[str, ...]
    fix: str
    advice: str

    def __str__(self) -> str:
        return " → ".join(self.links)


@dataclass(frozen=True)
class Why:
    """The result of `wb.why_alive`, as text only, so that it keeps nothing alive.

    Attributes:
        what: the tensor in words.
        chains: the chains of references that keep its memory.
        looked_at: the number of objects visited.
        seconds: the duration of the search.
        complete: False if the search stopped at its limit.
        own: arguments for `wb.release` that free the workbench's own references to the memory.
        sentence: sentences that say whether the workbench keeps the memory too, and how far the search went.
    """

    what: str
    chains: tuple[Chain, ...]
    looked_at: int
    seconds: float
    complete: bool
    own: tuple[str, ...] = ()

    @property
    def sentence(self) -> str:
        """Sentences that say whether the workbench keeps the memory too, and how far the search went."""
        words = ", ".join(f'"{word}"' for word in self.own)
        own = f"The workbench keeps it{' too' if self.chains else ''}, to show it: wb.release({words}) frees it. " if words else ""
        bound = "" if self.complete else f" The search ended at its limit of {MOST_OBJECTS:,} objects, so there may be more."
        return f"{own}Searched {self.looked_at:,} objects in {1000 * self.seconds:.0f} ms.{bound}"

    def __repr__(self) -> str:
        count = len(self.chains)
        lines = [f"{self.what} is kept alive by {count} {'chain' if count == 1 else 'chains'}:"]
        if not self.chains:
            lines = [f"{self.what}: nothing {'of yours ' if self.own else ''}was found that keeps it alive, except this call."]
        for chain in self.chains:
            lines.append(f"  {chain}")
            if chain.fix or chain.advice:
                lines.append(f"      {chain.fix}   # {chain.advice}" if chain.fix else f"      {chain.advice}")
        return "\n".join([*lines, f"  {self.sentence}"])
