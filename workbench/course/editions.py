"""Editions of a lesson: as students get it, and with the instructor's notes in it. Notebooks are their JSON, as nbformat 4 has it."""

from __future__ import annotations

import copy
from typing import Any

Notebook = dict[str, Any]


def with_fast(lesson: Notebook, fast: bool = True) -> Notebook:
    """A copy of the lesson that computes less: each cell's source with the replacements that its metadata gives in `fast`.

    Without `fast` they are only checked. Raises ValueError where a text to be replaced is not in the source exactly once.
    """
    made = copy.deepcopy(lesson)
    for cell in made["cells"]:
        source = "".join(cell["source"])
        for old, new in cell["metadata"].get("fast", {}).items():
            if source.count(old) != 1:
                raise ValueError(f"cell {cell['id']}: expected {old!r} once in its source, not {source.count(old)} times")
            source = source.replace(old, new) if fast else source
        cell["source"] = source
    return made


def with_notes(lesson: Notebook, notes: Notebook) -> Notebook:
    """The instructor's edition: a copy of the lesson with each cell of the notes behind the cell that its metadata names in `after`.

    Notes on the same cell keep their order. Raises ValueError where a note names no cell of the lesson.
    """
    merged = copy.deepcopy(lesson)
    behind: dict[str, list[Notebook]] = {}
    for cell in notes["cells"]:
        behind.setdefault(cell["metadata"].get("after", ""), []).append(copy.deepcopy(cell))
    unknown = behind.keys() - {cell["id"] for cell in lesson["cells"]}
    if unknown:
        raise ValueError(f"a note's `after` is the id of a cell of the lesson; there is none of {', '.join(map(repr, sorted(unknown)))}")
    merged["cells"] = [one for cell in merged["cells"] for one in (cell, *behind.get(cell["id"], ()))]
    return merged
