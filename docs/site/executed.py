"""Runs the lessons for the site, or takes them from the cache: executed notebooks in which each view is a figure with a replay."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import nbformat
from figures import presented
from nbclient import NotebookClient

from workbench.course.editions import with_fast

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "notebooks"
BUDGET = 1_200_000  # bytes of data of a lesson's views; 14 lessons leave 8 MB of the site for everything else
SECONDS = 15.0  # to compute the data of one view
CELL_SECONDS = 900
ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}  # for each of as many kernels as there are cores
NOTE = """```{{admonition}} About this page
This page is a recorded run of the lesson. Every view in it is live: step through it, click its boxes. To change the code and to have
your answers judged, run the lesson yourself: `workbench lab` opens it in JupyterLab, or
<a href="{name}.ipynb" download>download the notebook</a>.
```"""
UNRUN = """```{{admonition}} About this page
This page has the text and the code of the lesson, but no outputs: it needs {needed}, and was built without.
<a href="{name}.ipynb" download>Download the notebook</a> to run it.
```"""


@dataclass(frozen=True)
class Lesson:
    """A lesson as it is told on the front page, and the folder with its executed notebook and the files of its views."""

    name: str
    title: str
    question: str
    minutes: str  # "" if the lesson does not say
    folder: Path


def lessons(names: list[str], fast: bool, cache: Path) -> list[Lesson]:
    """Run these lessons, except those in the cache, as many at a time as there are cores."""
    code = fingerprint()
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(lambda name: lesson(name, fast, cache, code), names))


def lesson(name: str, fast: bool, cache: Path, code: str) -> Lesson:
    """Run one lesson in a fresh kernel and an empty folder, unless the cache has its run by this code. Raises CellExecutionError."""
    source = (FOLDER / f"{name}.ipynb").read_text(encoding="utf-8")
    notebook = json.loads(source)
    needed = missing(notebook)
    key = hashlib.sha256(f"{code} {fast} {needed} {source}".encode()).hexdigest()[:16]
    folder = cache / name / key
    if not folder.exists():
        shutil.rmtree(folder.parent, ignore_errors=True)
        with tempfile.TemporaryDirectory() as made:
            print(f"{name}: {f'not run, since {needed} is missing' if needed else 'running'}", flush=True)
            run(name, with_fast(notebook, fast), Path(made), needed)
            shutil.copytree(made, folder.with_suffix(".part"))
            folder.with_suffix(".part").rename(folder)  # a folder that is there is whole
    text = "".join(notebook["cells"][0]["source"])
    return Lesson(name, *told(text), folder)


def fingerprint() -> str:
    """A hash of all code that a lesson's output depends on: the engine, the workbench with its data, and what runs and captures it."""
    found = hashlib.sha256()
    files = [path for package in ("engine", "workbench") for path in (ROOT / package).rglob("*") if path.is_file()]
    for path in sorted(files + [Path(__file__), *(Path(__file__).with_name(name) for name in ("capture.py", "figures.py"))]):
        if "__pycache__" not in path.parts and "static" not in path.parts:  # the view reads what is captured, and does not change it
            found.update(str(path.relative_to(ROOT)).encode() + path.read_bytes())
    return found.hexdigest()


def told(text: str) -> tuple[str, str, str]:
    """The title of a lesson, its question and its minutes, from the text of its first cell.

    The question is the first one in bold, else the first one; without any, the first paragraph.
    """
    head, *paragraphs = [" ".join(part.split()) for part in text.split("\n\n")]
    sentence = r"(?:^|(?<=[.!?:] ))[^.!?:]*\?"
    found = (re.search(pattern, part) for pattern in (r"(?<=\*\*)[^*]*\?(?=\*\*)", sentence) for part in paragraphs)
    question = next((one[0] for one in found if one), paragraphs[0]).strip("*_ ")
    parts = [int(number) for number in re.findall(r"^\|.*\| *(\d+) *\|$", text, re.MULTILINE)]
    minutes = re.search(r"(\d+(?:[-–]\d+)?) minutes", text)
    return head.lstrip("# "), question[:1].upper() + question[1:], minutes[1].replace("-", "–") if minutes else str(sum(parts) or "")


def missing(notebook: dict[str, Any]) -> str:
    """The packages that a lesson imports and that are not installed, such as PyTorch; "" if it can run."""
    code = "\n".join("".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code")
    names = dict.fromkeys(re.findall(r"^(?:import|from) (\w+)", code, re.MULTILINE))
    return " and ".join(name for name in names if find_spec(name) is None)


def run(name: str, notebook: dict[str, Any], folder: Path, needed: str = "") -> None:
    """Execute a notebook unless it needs a package, and write it to `folder` with the files of its views in `folder/views`."""
    nb: Any = nbformat.from_dict(notebook)
    views = folder / "views"
    with tempfile.TemporaryDirectory() as here, tempfile.TemporaryDirectory() as captured:
        client = NotebookClient(
            nb, timeout=CELL_SECONDS, kernel_name="python3", resources={"metadata": {"path": here}}, record_timing=False
        )
        paths = [str(ROOT), str(Path(__file__).parent), *filter(None, [os.environ.get("PYTHONPATH")])]
        environment = {**os.environ, **ONE_THREAD, "PYTHONPATH": os.pathsep.join(paths)}
        with client.setup_kernel(env=environment):
            install = f"__import__('capture').install({captured!r}, {BUDGET}, {SECONDS})"
            nb.cells.insert(0, nbformat.v4.new_code_cell(install))
            client.execute_cell(nb.cells[0], 0, store_history=False)
            for index, cell in enumerate([] if needed else nb.cells[1:], start=1):
                client.execute_cell(cell, index, execution_count=client.code_cells_executed)
            del nb.cells[0]
        views.mkdir()
        nb.cells.insert(1, nbformat.v4.new_markdown_cell((UNRUN if needed else NOTE).format(name=name, needed=needed)))
        for cell in nb.cells:
            presented(name, cell, Path(captured), views)
    nb.metadata = {"language_info": {"name": "python", "pygments_lexer": "ipython3"}, "hide-toc": True}
    nbformat.write(nb, folder / f"{name}.ipynb")
