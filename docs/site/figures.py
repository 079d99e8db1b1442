"""What a lesson's cells have displayed, as HTML of its page: views that replay.js brings to life, and plots."""

from __future__ import annotations

import hashlib
import re
from base64 import b64decode
from html import escape
from io import BytesIO
from pathlib import Path
from typing import Any

from PIL import Image

from workbench.jupyter.capturing import VIEW, Captured

PLOT = "A plot made by the code above."  # for screen readers, where a cell's metadata has no `alt`
LOSSLESS = 250_000  # bytes of a plot; a larger one, such as many photographs, is compressed with small losses


def presented(name: str, cell: Any, found: dict[str, Captured], views: Path) -> None:
    """Prepare a cell for the page: views become figures, code that JupyterLab folds is folded, plots become small files with a text."""
    if cell.cell_type != "code":
        return
    if cell.metadata.get("jupyter", {}).get("source_hidden"):
        cell.metadata["tags"] = [*cell.metadata.get("tags", []), "hide-input"]
    for number, output in enumerate(cell.outputs):
        data = output.get("data", {})
        if VIEW in data:
            view = found.get(data[VIEW]["model_id"])
            if view is None:
                raise RuntimeError(f"{name}, cell {cell.id}: its view was displayed, but no replay of it was made; see the cell's errors.")
            output["data"] = {"text/html": figure(view, views, f"{cell.id}-{number}")}
        elif "image/png" in data:
            size = output["metadata"].get("image/png", {})
            output["data"] = {"text/html": plot(b64decode(data["image/png"]), size, views, cell.metadata.get("alt", PLOT))}


def figure(view: Captured, views: Path, id: str) -> str:
    """The HTML of a view: its saved picture, or its text, in a box that replay.js fills with the live view. Writes its files to `views`."""
    name = hashlib.sha256(view.data).hexdigest()[:16]
    (views / f"{name}.replay").write_bytes(view.data)
    still = f"<pre>{escape(view.text)}</pre>"
    if view.picture:
        (views / f"{name}.svg").write_text(view.picture, encoding="utf-8")
        width, height = re.findall(r'(?:width|height)="(\d+)"', view.picture)[:2]
        alt = escape(view.text.partition("\n")[0])
        still = f'<img src="../views/{name}.svg" alt="{alt}" width="{width}" height="{height}" loading="lazy">'
    facts = {"card": [], "steps": [view.facts], "graph": ["Click a box to see its values."]}[view.kind]
    facts += ["Some details are left out here; the notebook has them all."] if view.left else []
    facts += ["To have your answer judged, run the lesson in a notebook."] if view.asks else []
    caption = f"<figcaption>{escape(' '.join(facts))}</figcaption>" if facts else ""
    return (
        f'<figure class="replay {view.kind}" id="{escape(id)}"><h3 class="unseen">Live view</h3>'
        f'<div class="stage" data-replay="../views/{name}.replay">{still}</div>{caption}</figure>'
    )


def plot(png: bytes, size: dict[str, int], views: Path, alt: str) -> str:
    """The HTML of a plot; its file in `views` is a WebP, which takes less than half of the PNG."""
    image = Image.open(BytesIO(png)).convert("RGBA")
    image = Image.alpha_composite(Image.new("RGBA", image.size, "white"), image).convert("RGB")
    made = BytesIO()
    image.save(made, "WEBP", lossless=True, quality=80)
    if made.tell() > LOSSLESS:
        made = BytesIO()
        image.save(made, "WEBP", quality=90)
    name = f"{hashlib.sha256(made.getvalue()).hexdigest()[:16]}.webp"
    (views / name).write_bytes(made.getvalue())
    width, height = size.get("width", image.width), size.get("height", image.height)
    return f'<img class="plot" src="../views/{name}" alt="{escape(alt)}" width="{width}" height="{height}" loading="lazy">'
