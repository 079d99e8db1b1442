"""Slides as PDF: a page for each text and figure, and for each step or page of a view, drawn with matplotlib. Text stays text."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from io import BytesIO
from typing import TYPE_CHECKING, Any

import numpy

from ..exporting.paper import PLAIN, paint
from ..graph.drawing import Drawing, Frame
from ..graph.outline import Box
from ..graph.svg import QUIET, TEXT
from .prose import Paragraph, paragraphs

if TYPE_CHECKING:
    from ..jupyter.capturing import Moment
    from .slides import Slide

_WIDE, _HIGH, _MARGIN = 13.333, 7.5, 0.5  # inches: a slide of 16:9
_TOP, _BOTTOM = 1.15, 0.55  # inches, for the title and the number of the page
_COLUMN = 5.2  # inches of text beside a picture
_LARGEST, _SMALLEST = 17.0, 9.0  # points
_LINE, _LETTER = 1.4, 0.54  # height of a line and average width of a letter, in sizes of the font
_INCH = 96.0  # pixels of a drawing per inch
_ENLARGED = 1.8  # at most, of a small drawing


@dataclass(frozen=True)
class _Page:
    slide: Slide
    text: list[Paragraph]
    part: str = ""  # "2 of 7": which of the view's pages
    moment: Moment | None = None


def pdf(title: str, slides: list[Slide]) -> bytes:
    """Return the PDF."""
    from matplotlib import rc_context
    from matplotlib.backends.backend_pdf import PdfPages
    from matplotlib.figure import Figure

    pages = [page for slide in slides for page in _pages(slide)]
    file = BytesIO()
    with rc_context(PLAIN), PdfPages(file, metadata={"Title": title, "CreationDate": None}) as book:
        for number, page in enumerate(pages, 1):
            figure = Figure(figsize=(_WIDE, _HIGH), facecolor="#ffffff")
            _draw(figure, page)
            foot = {"fontsize": 9, "color": QUIET, "va": "bottom"}
            figure.text(_MARGIN / _WIDE, 0.25 / _HIGH, title, **foot)
            figure.text(1 - _MARGIN / _WIDE, 0.25 / _HIGH, f"{number} / {len(pages)}", ha="right", **foot)
            book.savefig(figure)
    return file.getvalue()


def _pages(slide: Slide) -> list[_Page]:
    """The pages of a slide: of a view, one for each moment, the first with the text before it."""
    text = paragraphs(slide.text)
    if slide.view is None:
        return [_Page(slide, text)]
    moments = slide.view.moments
    many = len(moments) > 1
    parts = [f"{number} of {len(moments)}" if many else "" for number in range(1, len(moments) + 1)]
    own = [one.text or (slide.view.text if slide.view.drawing is None else "") for one in moments]
    said = [[Paragraph(part) for part in one.split("\n\n") if part] for one in own]
    return [_Page(slide, [*(text if at == 0 else []), *said[at]], parts[at], moment) for at, moment in enumerate(moments)]


def _draw(figure: Any, page: _Page) -> None:
    slide = page.slide
    head = _HIGH - 0.55
    figure.text(_MARGIN / _WIDE, head / _HIGH, slide.title, fontsize=24, weight="bold", color=TEXT, va="center")
    if page.part:
        figure.text(1 - _MARGIN / _WIDE, head / _HIGH, page.part, fontsize=13, color=QUIET, ha="right", va="center")
    picture = bool(slide.figure) or (slide.view is not None and slide.view.drawing is not None)
    beside = bool(page.text) and picture
    left = _MARGIN + (_COLUMN + 0.4 if beside else 0)
    if page.text:
        _write(figure, page.text, _COLUMN if beside else _WIDE - 2 * _MARGIN)
    room = left, _BOTTOM, _WIDE - _MARGIN - left, _HIGH - _TOP - _BOTTOM
    if slide.figure:
        _place_figure(figure, slide.figure, room)
    elif slide.view is not None and slide.view.drawing is not None:
        _place_drawing(figure, slide.view.drawing, page.moment, room)


def _write(figure: Any, texts: list[Paragraph], wide: float) -> None:
    """Write paragraphs at the left, in the largest font in which they fit; what does not fit in the smallest is cut."""
    high = _HIGH - _TOP - _BOTTOM
    size = _LARGEST
    lines = _lines(texts, wide, size)
    while size > _SMALLEST and len(lines) * size * _LINE > high * 72:
        size -= 0.5
        lines = _lines(texts, wide, size)
    most = int(high * 72 / (size * _LINE))
    if len(lines) > most:
        lines = [*lines[: most - 1], Paragraph("…")]
    for number, line in enumerate(lines):
        y = _HIGH - _TOP - (number + 0.8) * size * _LINE / 72
        look = {"fontsize": size * (0.9 if line.code else 1), "family": "monospace" if line.code else "sans-serif", "color": TEXT}
        figure.text(_MARGIN / _WIDE, y / _HIGH, line.text, **look)


def _lines(texts: list[Paragraph], wide: float, size: float) -> list[Paragraph]:
    """The lines of the paragraphs, with an empty one between two of them."""
    letters = int(wide * 72 / (size * _LETTER))
    found: list[Paragraph] = []
    for one in texts:
        for line in one.text.splitlines():
            found += [Paragraph(part, one.code) for part in textwrap.wrap(line, letters, subsequent_indent=_indent(line)) or [""]]
        found.append(Paragraph(""))
    return found[:-1]


def _indent(line: str) -> str:
    """The indentation of the further lines of an item of a list."""
    return "   " if line[:1] in "·○" or line.partition(".")[0].isdecimal() else ""


def _place_figure(figure: Any, png: bytes, room: tuple[float, float, float, float]) -> None:
    from PIL import Image

    x, y, wide, high = room
    picture = numpy.asarray(Image.open(BytesIO(png)).convert("RGB"))
    ratio = picture.shape[1] / picture.shape[0]
    w, h = min(wide, high * ratio), min(high, wide / ratio)
    ax = figure.add_axes(((x + (wide - w) / 2) / _WIDE, (y + (high - h) / 2) / _HIGH, w / _WIDE, h / _HIGH))
    ax.imshow(picture, aspect="auto", interpolation="lanczos")
    ax.axis("off")


def _place_drawing(figure: Any, about: dict[str, Any], moment: Moment | None, room: tuple[float, float, float, float]) -> None:
    x, y, wide, high = room
    drawing = drawing_of(about)
    scale = min(_ENLARGED, wide * _INCH / drawing.width, high * _INCH / drawing.height)
    w, h = drawing.width * scale / _INCH, drawing.height * scale / _INCH
    ax = figure.add_axes(((x + (wide - w) / 2) / _WIDE, (y + (high - h) / 2) / _HIGH, w / _WIDE, h / _HIGH))
    at, done = (None, set()) if moment is None else (_key(moment.at), set(map(_key, moment.done)))
    paint(ax, drawing, scale, at, done)


def _key(key: Any) -> Any:
    return None if key is None else tuple(key)


def drawing_of(about: dict[str, Any]) -> Drawing:
    """A drawing from its JSON."""
    boxes = []
    for one in about["boxes"]:
        size = one["width"], one["height"]
        box = Box(**{**one, "key": tuple(one["key"])})
        box.width, box.height = size
        boxes.append(box)
    frames = [Frame(**one) for one in about["frames"]]
    wires = [[(x, y) for x, y in wire] for wire in about["wires"]]
    return Drawing(about["width"], about["height"], boxes, frames, wires, about["title"])
