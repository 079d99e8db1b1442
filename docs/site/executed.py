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
from html import escape
from pathlib import Path
from typing import Any

import nbformat
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
VIEW = "application/vnd.jupyter.widget-view+json"


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
    key = hashlib.sha256(f"{code} {fast} {source}".encode()).hexdigest()[:16]
    folder = cache / name / key
    if not folder.exists():
        shutil.rmtree(folder.parent, ignore_errors=True)
        with tempfile.TemporaryDirectory() as made:
            print(f"{name}: running", flush=True)
            run(name, with_fast(notebook, fast), Path(made))
            shutil.copytree(made, folder)
    text = "".join(notebook["cells"][0]["source"])
    return Lesson(name, *told(text), folder)


def fingerprint() -> str:
    """A hash of all code that a lesson's output depends on: the engine, the workbench with its data, and what runs and captures it."""
    found = hashlib.sha256()
    files = [path for package in ("engine", "workbench") for path in (ROOT / package).rglob("*") if path.is_file()]
    for path in sorted(files + [Path(__file__), Path(__file__).with_name("capture.py")]):
        if "__pycache__" not in path.parts and "static" not in path.parts:  # the view reads what is captured, and does not change it
            found.update(str(path.relative_to(ROOT)).encode() + path.read_bytes())
    return found.hexdigest()


def told(text: str) -> tuple[str, str, str]:
    """The title of a lesson, the question it asks (else how it begins) and its minutes, from the text of its first cell."""
    head, *paragraphs = [" ".join(part.split()) for part in text.split("\n\n")]
    found = (re.search(r"(?:^|(?<=[.!?:] ))[^.!?:]*\?", paragraph) for paragraph in paragraphs)
    question = next((one[0] for one in found if one), paragraphs[0]).strip("*_ ")
    minutes = re.search(r"(\d+(?:\s*[-–]\s*\d+)?) minutes", text)
    return head.lstrip("# "), question[:1].upper() + question[1:], minutes[1].replace("-", "–") if minutes else ""


def run(name: str, notebook: dict[str, Any], folder: Path) -> None:
    """Execute a notebook, and write it to `folder` with the files of its views in `folder/views`."""
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
            for index, cell in enumerate(nb.cells[1:], start=1):
                client.execute_cell(cell, index, execution_count=client.code_cells_executed)
            del nb.cells[0]
        views.mkdir()
        nb.cells.insert(1, nbformat.v4.new_markdown_cell(NOTE.format(name=name)))
        for cell in nb.cells:
            presented(name, cell, Path(captured), views)
    nb.metadata = {"language_info": {"name": "python", "pygments_lexer": "ipython3"}, "hide-toc": True}
    nbformat.write(nb, folder / f"{name}.ipynb")


def presented(name: str, cell: Any, captured: Path, views: Path) -> None:
    """Prepare a cell for the page: views become figures, code that JupyterLab folds is folded, plots get a text for screen readers."""
    if cell.cell_type != "code":
        return
    if cell.metadata.get("jupyter", {}).get("source_hidden"):
        cell.metadata["tags"] = [*cell.metadata.get("tags", []), "hide-input"]
    cell.metadata["mystnb"] = {"image": {"alt": cell.metadata.get("alt", "A plot made by the code above.")}}
    for number, output in enumerate(cell.outputs):
        data = output.get("data", {})
        if VIEW in data:
            model = data[VIEW]["model_id"]
            if not (captured / f"{model}.replay").exists():
                raise RuntimeError(f"{name}, cell {cell.id}: its view was displayed, but no replay of it was made; see the cell's errors.")
            output["data"] = {"text/html": figure(captured, model, views, f"{cell.id}-{number}")}


def figure(captured: Path, model: str, views: Path, id: str) -> str:
    """The HTML of a view: its saved picture, or its text, in a box that replay.js fills with the live view. Writes its files to `views`."""
    about = json.loads((captured / f"{model}.json").read_text(encoding="utf-8"))
    data = (captured / f"{model}.replay").read_bytes()
    name = hashlib.sha256(data).hexdigest()[:16]
    (views / f"{name}.replay").write_bytes(data)
    text = about["stills"]["text/plain"]
    still = f"<pre>{escape(text)}</pre>"
    if svg := about["stills"].get("image/svg+xml"):
        (views / f"{name}.svg").write_text(svg, encoding="utf-8")
        width, height = re.findall(r'(?:width|height)="(\d+)"', svg)[:2]
        alt = escape(text.partition("\n")[0])
        still = f'<img src="../views/{name}.svg" alt="{alt}" width="{width}" height="{height}" loading="lazy">'
    kind = "card" if about["card"] else "steps" if about["steps"] else "graph"
    facts = [] if about["card"] else [about["facts"]] if about["steps"] else ["Click a box to see its values."]
    facts += [] if about["whole"] else ["Some details are left out here; the notebook has them all."]
    facts += ["To have your answer judged, run the lesson in a notebook."] if about["asks"] else []
    caption = f"<figcaption>{escape(' '.join(facts))}</figcaption>" if facts else ""
    return (
        f'<figure class="replay {kind}" id="{escape(id)}"><h3 class="unseen">Live view</h3>'
        f'<div class="stage" data-replay="../views/{name}.replay">{still}</div>{caption}</figure>'
    )
