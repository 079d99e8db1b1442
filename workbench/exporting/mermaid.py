"""The graph in Mermaid's language, which GitHub and many notebooks draw: groups closed until it is small enough for that."""

from __future__ import annotations

from .. import protocol
from ..drawings.outline import Outline
from .privacy import without_path


def text(message: protocol.Graph, paths: bool = False) -> str:
    """The graph as the text of a Mermaid file."""
    outlined = Outline(message)
    boxes, edges = outlined.boxes, outlined.edges
    number = {box.key: i for i, box in enumerate(boxes)}
    lines = ["flowchart TD"]
    for box in boxes:
        label = f"{box.title}<br>{box.detail}" if box.detail else box.title
        first, last = ("[[", "]]") if box.kind == "group" else ("([", "])") if box.kind in ("parameter", "leaf", "input") else ("[", "]")
        told = "<br>".join(escaped(part if paths else without_path(part)) for part in label.split("<br>"))
        lines.append(f'  b{number[box.key]}{first}"{told}"{last}')
    lines += [f"  b{number[source]} --> b{number[target]}" for source, target in edges]
    return "\n".join(lines) + "\n"


def escaped(text: str) -> str:
    """A text that Mermaid shows as it is: what has a meaning there, or in HTML, by its number."""
    return "".join(char if char.isalnum() or char in " .,:;()×…_-" else f"#{ord(char)};" for char in text)
