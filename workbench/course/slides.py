"""The slides of a lesson: its views, figures and code, each with the text before it; as one page of HTML, or as PDF."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..jupyter.capturing import VIEW, Captured, captured
from .deck import page
from .handout import pdf
from .prose import heading, without_heading
from .shipped import Refusal

CELL_SECONDS = 900
CODE_LINES, PRINTED_LINES = 24, 10  # of a cell without a view, at most
LONG = 600  # characters of a text that gets a slide of its own
_COLOR = re.compile(r"\x1b\[[0-9;]*m")


@dataclass(frozen=True)
class Slide:
    """A slide: a text, or a view or a figure with the text before it."""

    title: str
    text: str  # Markdown, without the title
    view: Captured | None = None
    figure: bytes = b""  # PNG


def write_slides(lesson: Path, out: Path, running: Callable[[int, int], None]) -> int:
    """Run a lesson and write its slides; returns how many there are. Raises Refusal, with the reason, if they cannot be made."""
    writers: dict[str, Callable[[str, list[Slide]], bytes]] = {".html": page, ".pdf": pdf}
    write = writers.get(out.suffix.lower())
    if write is None:
        raise Refusal(f"slides are a file that ends in .html or .pdf, not {out.name!r}")
    if not out.parent.is_dir():
        raise Refusal(f"there is no folder {out.parent} to write {out.name} into")
    try:
        notebook, views = captured(lesson.read_text(encoding="utf-8"), lesson.resolve().parent, CELL_SECONDS, running)
    except OSError as error:
        raise Refusal(f"{lesson} cannot be read: {error.strerror or error}") from error
    except (RuntimeError, ValueError) as error:  # a cell that fails; what is no notebook
        raise Refusal(f"{lesson.name}: {error}") from error
    slides = list(slides_of(notebook.cells, views))
    if not any(slide.view or slide.figure for slide in slides):
        raise Refusal(f"{lesson.name} shows neither a view nor a figure")
    try:
        out.write_bytes(write(slides[0].title or lesson.stem, slides))
    except OSError as error:
        raise Refusal(f"{out} cannot be written: {error.strerror or error}") from error
    return len(slides)


def slides_of(cells: list[Any], views: Mapping[str, Captured]) -> Iterator[Slide]:
    """The slides, in the order of the cells: of views and figures, and of texts with the code that follows them.

    A long text has a slide of its own, before that of its view.
    """
    title = ""
    texts: list[str] = []

    def told() -> str:
        text = "\n\n".join(texts)
        texts.clear()
        return text

    for number, cell in enumerate(cells):
        if cell["cell_type"] == "markdown":
            if found := heading(cell["source"]):
                if text := told():
                    yield Slide(title, text)
                title = found
            if text := without_heading(cell["source"]) if found else cell["source"]:
                texts.append(text)
            if number == 0:
                yield Slide(title, told())
            continue
        shown = False
        for output in cell.get("outputs", ()):
            data = output.get("data", {})
            view = views.get(data.get(VIEW, {}).get("model_id", ""))
            figure = base64.b64decode(data["image/png"]) if view is None and "image/png" in data else b""
            if view is None and not figure:
                continue
            shown = True
            text = told()
            if len(re.sub(r"\s+", " ", text)) > LONG:
                yield Slide(title, text)
                text = ""
            yield Slide(title, text, view, figure)
        if not shown and texts and not cell["metadata"].get("jupyter", {}).get("source_hidden"):
            yield Slide(title, f"{told()}\n\n{_code(cell)}")
    if text := told():
        yield Slide(title, text)


def _code(cell: Any) -> str:
    """A cell's code and what it printed, as Markdown."""
    printed = "".join(one.get("text", "") or one.get("data", {}).get("text/plain", "") for one in cell.get("outputs", ()))
    told = [_fenced(cell["source"], CODE_LINES), *([_fenced(_COLOR.sub("", printed), PRINTED_LINES)] if printed.strip() else [])]
    return "\n\n".join(told)


def _fenced(text: str, most: int) -> str:
    lines = text.strip("\n").splitlines()
    kept = lines if len(lines) <= most else [*lines[: most - 1], "…"]
    return "\n".join(["```", *(line.replace("```", "’’’") for line in kept), "```"])
