"""Runs a lesson in a real JupyterLab and takes a picture of each cell that shows something, to be looked at.

    python tests/lessons/walk.py 04_your_own_autograd FOLDER [--fast] [--student] [--dark]

The instructor's notes are in it, unless --student leaves them out.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests"), str(ROOT / "tests" / "browser")]

from lesson import edition  # noqa: E402
from real_lab import DRAWN, IDLE, NOTEBOOK, Lab, opened_lab  # noqa: E402

RUNNING = f"""() => {{
  const {{ content }} = {NOTEBOOK};
  const index = content.widgets.findIndex((cell) => cell.model.executionState === "running");
  if (index >= 0) void content.scrollToItem(index, "start");
}}"""
# Every cell has run, or one has failed that was not meant to. JupyterLab counts a run of all cells as ended at the first error.
ALL_RAN = f"""() => {{
  const cells = {NOTEBOOK}.content.widgets.map((cell) => cell.model).filter((cell) => cell.type === "code");
  const failed = (cell) => cell.outputs.toJSON().some((one) => one.output_type === "error");
  const meant = (cell) => (cell.getMetadata("tags") ?? []).includes("raises-exception");
  return cells.every((cell) => cell.executionCount !== null) || cells.some((cell) => failed(cell) && !meant(cell));
}}"""


def play_loops(lab: Lab) -> None:
    """Wait until all cells have run, and press Play where a `wb.loop` waits for somebody to do so."""
    waiting = lab.page.get_by_test_id("wb-training").filter(has_text="waits")
    while not (lab.page.evaluate(ALL_RAN) and lab.page.evaluate(IDLE)):
        lab.page.evaluate(RUNNING)  # only cells near the visible ones are drawn
        lab.page.wait_for_timeout(500)
        if waiting.count():
            waiting.first.get_by_test_id("wb-train-play").click()


def main() -> None:
    """Take the pictures: FOLDER/03-train.png is that of the cell with index 3 and the id `train`."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("lesson")
    parser.add_argument("folder", type=Path)
    for name in ("--fast", "--student", "--dark"):
        parser.add_argument(name, action="store_true")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    notebook = edition(options.lesson, options.fast, notes=not options.student)
    with opened_lab(1500, 1000) as lab:
        (lab.server.root / f"{options.lesson}.ipynb").write_text(json.dumps(notebook))
        lab.open_notebook(f"{options.lesson}.ipynb")
        if options.dark:
            lab.page.evaluate("() => window.jupyterapp.commands.execute('apputils:change-theme', {theme: 'JupyterLab Dark'})")
        lab.page.evaluate("() => window.jupyterapp.commands.execute('application:toggle-left-area')")
        lab.run_all(wait=False)
        play_loops(lab)
        lab.page.set_viewport_size({"width": 1300, "height": 3000})  # for a whole output
        for index, cell in enumerate(notebook["cells"]):
            lab.page.evaluate(f"(index) => {NOTEBOOK}.content.scrollToItem(index, 'start')", index)
            lab.page.wait_for_function(f"() => {DRAWN}")
            lab.page.wait_for_timeout(300)  # until layouts are at rest
            lab.cell(index).screenshot(path=options.folder / f"{index:02d}-{cell['id']}.png")
        print(*lab.errors, *lab.console, sep="\n")


if __name__ == "__main__":
    main()
