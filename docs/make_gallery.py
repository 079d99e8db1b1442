"""Makes the pictures and replays of docs/gallery: runs the programs of each page, and exports `walk` where a picture stands.

python docs/make_gallery.py        (writes only what is out of date)
"""

from __future__ import annotations

import gzip
import json
import linecache
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

import workbench as wb  # noqa: E402
from workbench import protocol  # noqa: E402
from workbench.backward.stepper import Stepper  # noqa: E402
from workbench.exporting.replay import FORMAT, VERSION  # noqa: E402
from workbench.graph import svg  # noqa: E402
from workbench.graph.drawing import draw  # noqa: E402
from workbench.graph.outline import BOXES  # noqa: E402

PAGES = sorted(path for path in (ROOT / "docs" / "gallery").glob("*.md") if path.name != "index.md")
BUDGET = "270 KB"  # of a replay as text; its file has three quarters of that
LARGE = {"resnet": 25}  # boxes of its picture: one block is open
PART = re.compile(r"^```python\n(?P<program>.*?)^```|^!\[[^\]]*\]\((?P<picture>[^)]*)\.svg\)$", re.DOTALL | re.MULTILINE)


def pictures(page: Path) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Run the programs of a page from top to bottom. Yield the path of each picture, and the variables where it stands."""
    names: dict[str, Any] = {"__name__": "__main__"}
    file, code = f"{page.stem}.py", ""
    for part in PART.finditer(page.read_text(encoding="utf-8")):
        if part["picture"]:
            yield page.parent / f"{part['picture']}.svg", names
            continue
        before, code = code.count("\n"), code + part["program"]
        linecache.cache[file] = (len(code), None, code.splitlines(keepends=True), file)
        exec(compile("\n" * before + part["program"], file, "exec"), names)


def is_fresh(picture: Path, walk: Stepper) -> bool:
    """Whether a picture and its replay show this pass as they would if they were made now."""
    data, graph = picture.with_suffix(".replay"), walk.graph.message()
    drawn = svg.written(draw(graph, LARGE.get(picture.stem, BOXES)))
    if not picture.exists() or not data.exists() or picture.read_text(encoding="utf-8") != drawn:
        return False
    index, shown = opening(data)
    made = [index["format"], index["version"], index["protocol"]]
    return made == [FORMAT, VERSION, protocol.VERSION] and shown == {**graph.to_json(), "recording": shown["recording"]}


def opening(data: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """The index of a replay, and its graph."""
    block = gzip.decompress(data.read_bytes())
    end = len(block) - 4
    index = json.loads(block[end - int.from_bytes(block[end:], "little") : end])
    places = [index["messages"][number] for number in index["scenes"][0]["opening"]]
    messages = [json.loads(block[start : start + length]) for start, length, *_ in places]
    return index, next(message for message in messages if message["type"] == "graph")


def main() -> None:
    for page in PAGES:
        for picture, names in pictures(page):
            if not is_fresh(picture, names["walk"]):
                for ending in (".svg", ".replay"):
                    print(wb.export(picture.with_suffix(ending), names["walk"], budget=BUDGET, boxes=LARGE.get(picture.stem, BOXES)))


if __name__ == "__main__":
    main()
