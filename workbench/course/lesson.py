"""What a lesson says about itself: its title, its goals, its parts and their times, its questions, its exercises and their answers."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from .editions import Notebook, with_notes
from .shipped import Refusal

_ITEM = re.compile(r"(\d+)[.)]\s+|[-*]\s+")
_ROW = re.compile(r"^\|([^|]+)\|\s*(\d+)([^|]*)\|\s*$", re.MULTILINE)  # of the table of parts and minutes
_HEADING = re.compile(r"[\s>]*(?:#+ .*|\*\*[^*]*\*\*[.:]?)[\s>]*")
_TIME = re.compile(r"(\d+)(?:\s*(?:-|–|to)\s*(\d+))?\s*(?:minutes|min)\b", re.IGNORECASE)
# The head of the answer to one exercise: "2. ...", "**Exercise 2.**", "### 2 · ...", "# exercise 2" in code.
_NUMBERED = re.compile(r"[\s#>*_-]*(?:(?:exercise|answer|solution)\s+(?:to\s+)?(?:exercise\s+)?)?(\d+)(?=[.):*_\s·]|$)", re.IGNORECASE)


@dataclass(frozen=True)
class Lesson:
    """A lesson with the instructor's notes on it, as JSON of nbformat 4."""

    name: str  # of the file, without its ending
    notebook: Notebook
    notes: Notebook | None

    @cached_property
    def number(self) -> int:
        return int(self.name[:2])

    @property
    def edition(self) -> Notebook:
        """The instructor's edition; the lesson itself if there are no notes."""
        return self.notebook if self.notes is None else with_notes(self.notebook, self.notes)

    def text(self, id: str) -> str:
        """The source of a cell; "" if there is no such cell."""
        return next((source(cell) for cell in self.notebook["cells"] if cell["id"] == id), "")

    @cached_property
    def title(self) -> str:
        head = re.search(r"^#\s+(.*)$", self.text("title"), re.MULTILINE)
        return self.name[3:].replace("_", " ").capitalize() if head is None else head[1].split("·", 1)[-1].strip()

    @cached_property
    def question(self) -> str:
        """The question that it answers: that in its title cell's metadata, else the first one in bold there, else the first one; or ""."""
        cell = next((cell for cell in self.notebook["cells"] if cell["id"] == "title"), {"metadata": {}})
        text = " ".join(self.text("title").partition("\n")[2].split())
        found = re.search(r"(?<=\*\*)[^*]*\?(?=\*\*)", text) or re.search(r"(?:^|(?<=[.!?:] ))[^.!?:]*\?", text)
        return cell["metadata"].get("question") or ("" if found is None else found[0].strip("*_ "))

    @cached_property
    def minutes(self) -> tuple[int, int] | None:
        """The shortest and longest time in minutes that the lesson states, in words or as the sum of its parts; None if it states none."""
        found = _TIME.search(self.text("title"))
        if found is not None:
            return int(found[1]), int(found[2] or found[1])
        rows = _ROW.findall(self.text("title"))
        total = sum(int(count) for _, count, _ in rows)
        return (total, total) if rows and not any(rest.strip() for _, _, rest in rows) else None

    @cached_property
    def goals(self) -> list[str]:
        """The points of the first list in the title cell: what a student can do afterwards."""
        items = listed(self.text("title"))
        again = next((at for at, (number, _) in enumerate(items) if at and number == 1), len(items))
        return [text for _, text in items[:again]]

    @cached_property
    def before(self) -> str:
        """What the lesson builds on, in its own words: "lessons 1 and 2"; "" if it says nothing."""
        found = re.search(r"^You need (.+?)\.(?:\s|$)", self.text("title"), re.MULTILINE)
        return "" if found is None else found[1]

    @cached_property
    def parts(self) -> list[str]:
        """The parts, with their minutes where the title cell has a table of them; else the headings of the numbered parts."""
        rows = [
            f"{part.strip()} ({count} minutes{' each' if 'each' in rest else ''})" for part, count, rest in _ROW.findall(self.text("title"))
        ]
        heads = [re.findall(r"^##\s+(\d+\s*·.*)$", source(cell), re.MULTILINE) for cell in self.notebook["cells"] if is_text(cell)]
        return rows or [one.strip() for found in heads for one in found]

    @cached_property
    def exercises(self) -> list[str]:
        """The exercises, in order."""
        return [text for number, text in listed(self.text("exercises")) if number]

    @cached_property
    def solutions(self) -> list[list[Notebook]]:
        """The instructor's answers: for each exercise the cells of the notes, whose sources are cut where the next answer begins."""
        found: list[list[Notebook]] = [[] for _ in self.exercises]
        at = -1
        for cell in [] if self.notes is None or not found else self.notes["cells"]:
            if cell["metadata"].get("after") != "exercises":
                continue
            lines: list[str] = []
            pieces: list[tuple[int, list[str]]] = [(at, lines)]
            for number, line in enumerate(source(cell).splitlines()):
                head = _NUMBERED.match(line) if is_text(cell) or number == 0 and line.startswith("#") else None
                if head is not None and int(head[1]) == at + 2 <= len(found):
                    at, lines = at + 1, []
                    pieces.append((at, lines))
                lines.append(line)
            for owner, kept in pieces:
                text = "\n".join(kept).strip()
                if text and not (owner < 0 and is_text(cell) and _HEADING.fullmatch(text)):  # not the heading above all answers
                    found[max(owner, 0)].append({**cell, "source": text})
        return found


def source(cell: Notebook) -> str:
    """The source of a cell as one text: files have it in lines."""
    return "".join(cell["source"])


def is_text(cell: Notebook) -> bool:
    return cell["cell_type"] == "markdown"


def listed(text: str) -> list[tuple[int, str]]:
    """The items of the lists in a Markdown text, each with its number (0 for a bullet), continued lines joined."""
    items: list[tuple[int, str]] = []
    inside = False
    for line in text.splitlines():
        head = _ITEM.match(line)
        if head is not None:
            items.append((int(head[1] or 0), line[head.end() :].strip()))
            inside = True
        elif inside and line.startswith(" ") and line.strip():
            items[-1] = (items[-1][0], f"{items[-1][1]} {line.strip()}")
        elif line.strip():
            inside = False
    return items


def lessons_in(folder: Path, chosen: list[int] | None = None) -> list[Lesson]:
    """The lessons of a folder in order, or those with the chosen numbers. Raises Refusal for a number that no lesson has."""
    found = [_read(path) for path in sorted(folder.glob("[0-9][0-9]_*.ipynb"))]
    if not found:
        raise Refusal(f"there is no lesson in {folder}; install gradient-workbench again")
    missing = sorted(set(chosen or ()) - {one.number for one in found})
    if missing:
        there = ", ".join(str(one.number) for one in found)
        raise Refusal(f"there is no lesson {missing[0]}; there are {there}")
    return [one for one in found if chosen is None or one.number in chosen]


def _read(path: Path) -> Lesson:
    beside = path.parent / "instructor" / path.name
    return Lesson(path.stem, _json(path), _json(beside) if beside.exists() else None)


def _json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise Refusal(f"{path} cannot be read: {error}") from error


def written(notebook: Notebook) -> bytes:
    """A notebook as the bytes of its file."""
    return (json.dumps(notebook, indent=1, ensure_ascii=False) + "\n").encode()
