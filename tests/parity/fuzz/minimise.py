"""The shortest program that still shows a difference."""

from __future__ import annotations

import re

import torch
from fuzz.session import NAMED, Difference, Session
from fuzz.writer import source


def replay(lines: list[str]) -> tuple[Session, list[Difference]]:
    """A program run anew: its end, and what differed on the way."""
    session = Session()
    found: list[Difference] = []
    for line in lines:
        if session.alike and (told := session.step(line)):
            found.append(told)
    return session, found


def minimised(lines: list[str], wanted: Difference) -> list[str]:
    """The program without the lines that the difference does not need, its tensors written down where that is shorter than how they are made."""
    last = next((i for i, line in enumerate(lines) if line == wanted.line), len(lines) - 1)
    lines = lines[: last + 1]

    def shows(candidate: list[str]) -> bool:
        return any(told.kind == wanted.kind and told.line == candidate[-1] for told in replay(candidate)[1])

    if not shows(lines):
        return lines  # what it needs is not in its lines: a race, or a state of the library
    changed = True
    while changed:
        changed = False
        for i in reversed(range(len(lines) - 1)):
            for candidate in _without(lines, i):
                if shows(candidate):
                    lines, changed = candidate, True
                    break
    return _renamed(lines)


def _without(lines: list[str], i: int) -> list[list[str]]:
    """Candidates that lack line `i`: the line dropped, or the value that it makes in place of how it is made."""
    found = [lines[:i] + lines[i + 1 :]]
    name = re.match(r"(v\d+) = (?!T\.(?:tensor|zeros)\()", lines[i])
    if name and (x := replay(lines[: i + 1])[0].theirs.get(name[1])) is not None and isinstance(x, torch.Tensor) and (text := source(x)):
        asks = ".requires_grad_()" if x.requires_grad else ""
        found.append([*lines[:i], f"{name[1]} = {text}{asks}", *lines[i + 1 :]])
    return found


def _renamed(lines: list[str]) -> list[str]:
    """The variables numbered from zero."""
    order = {name: f"v{i}" for i, name in enumerate(dict.fromkeys(NAMED.findall("\n".join(lines))))}
    return [NAMED.sub(lambda m: order[m[0]], line) for line in lines]
