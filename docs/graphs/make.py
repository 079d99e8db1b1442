"""The view's drawings beside Graphviz's, drawn and counted anew.

python docs/graphs/make.py [NAME ...]          (needs node, and Graphviz's `dot` for the comparison)
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path[:0] = [str(ROOT), str(HERE), str(ROOT / "tests"), str(ROOT / "tests" / "browser")]

from models import MODELS  # noqa: E402
from playwright.sync_api import sync_playwright  # noqa: E402

import engine  # noqa: E402
import workbench as wb  # noqa: E402
from chromium import FLAGS, find_chromium  # noqa: E402

WIDTH, HEIGHT = 760, 900  # of one drawing in the picture


def recorded(name: str) -> dict[str, Any]:
    """The graph message of one model's forward pass."""
    engine.manual_seed(0)
    run = MODELS[name]()
    with wb.record(name) as session:
        loss = run()
    assert loss.requires_grad
    return session.graph.message().to_json()


def compare(name: str, folder: Path, direction: str = "down") -> dict[str, Any]:
    """Both drawings into `folder`, and the counts of both."""
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(recorded(name), file)
        file.flush()
        command = ["node", str(HERE / "compare.mjs"), file.name, str(folder), name, direction]
        return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def picture(name: str, folder: Path, to: Path) -> None:
    """Both drawings side by side, each as wide as half the picture; of a long one the beginning."""
    sides = [f"{name}.svg", f"{name}-graphviz.svg"]
    svgs = [text[text.index("<svg") :] for side in sides if (folder / side).exists() and (text := (folder / side).read_text())]
    sized = [re.sub(r'width="[\d.]+(pt)?" height="[\d.]+(pt)?"', f'width="{WIDTH}"', svg, count=1) for svg in svgs]
    style = "body { margin: 0; display: flex; gap: 16px; background: #fff } div { overflow: hidden; "
    style += f"width: {WIDTH}px; max-height: {HEIGHT}px }}"
    page_text = f"<style>{style}</style>" + "".join(f"<div>{svg}</div>" for svg in sized)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_chromium(), args=list(FLAGS))
        page = browser.new_page(viewport={"width": WIDTH * len(sized) + 16 * (len(sized) - 1), "height": HEIGHT})
        page.set_content(page_text)
        page.locator("body").screenshot(path=to / f"{name}.png")
        browser.close()


def line(r: dict[str, Any]) -> str:
    """One row of the table."""
    ours, other = r["ours"], r.get("graphviz")
    cells = [r["title"], r["boxes"], r["edges"]]
    for key in ("crossings", "through", "overlaps", "bends"):
        cells += [ours[key], "–" if other is None else other[key]]
    ms = "–" if other is None else round(r["graphvizMs"])
    return "| " + " | ".join(str(cell) for cell in [*cells, round(ours["ms"]), ms]) + " |"


TITLES = {
    "mlp": "MLP, 3 layers",
    "resnet18": "ResNet-18",
    "lstm20": "LSTM, 20 steps, all unrolled",
    "gpt2": "GPT-2 small, 12 blocks, all open",
    "moons": "micrograd's moons net, one sample, all scalars",
    "moons-small": "the same with 4 neurons a layer",
}


def readme(rows: list[dict[str, Any]]) -> str:
    pictures = "\n\n".join(f"## {r['title']}\n\n![{r['title']}: ours left, Graphviz right]({r['name']}.png)" for r in rows)
    table = "\n".join(line(r) for r in rows)
    return f"""# The graph view beside Graphviz

The same grouped graphs, every group open, drawn by the view's own layout (`extension/src/view/graph/`) and by Graphviz's `dot`, which gets
the same boxes in the same sizes, the same clusters and the same edges. Made by `python docs/graphs/make.py`; needs node, and `dot` for the
right half (without it the script says so and draws ours alone).

| graph | boxes | edges | crossings | Graphviz | through a box | Graphviz | overlaps | Graphviz | bends | Graphviz | ms | Graphviz |
|---|---|---|---|---|---|---|---|---|---|---|---|---|
{table}

A crossing is a point where the lines of two results cross. Lines of one result that lie on each other are one line to the eye and count
once, in both drawings: ours lead what fans out along a common track, and where that is so a line stands for several edges. A bend is
where a line leaves its course. "Through a box" counts edges that run through a box which is neither their beginning nor their end. Times
are of one layout in node, and of one run of `dot`; the machine was shared.

{pictures}
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=list(MODELS))
    parser.add_argument("--to", type=Path, default=HERE, help="where pictures and README.md go")
    args = parser.parse_args()
    if shutil.which("dot") is None:
        print("Graphviz is missing: `dot` is not on the PATH, so only our own drawings are made and nothing is compared.", file=sys.stderr)
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for name in args.names:
            rows.append({**compare(name, Path(folder)), "title": TITLES[name]})
            print(line(rows[-1]))
            picture(name, Path(folder), args.to)
    if args.names == list(MODELS):
        (args.to / "README.md").write_text(readme(rows))


if __name__ == "__main__":
    main()
