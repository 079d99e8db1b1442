"""Export of the graph as a Mermaid flowchart, which GitHub and many notebooks render; groups are closed to keep it small."""

from __future__ import annotations

from .. import protocol
from ..graph.outline import Outline
from .privacy import without_path


def text(message: protocol.Graph, paths: bool = False) -> str:
    """Return the graph as Mermaid text."""
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
    """Escape a text so that Mermaid shows it literally: special characters become numeric entities."""
    return "".join(char if char.isalnum() or char in " .,:;()×…_-" else f"#{ord(char)};" for char in text)
