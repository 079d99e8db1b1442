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

from workbench.course.editions import with_fast
from workbench.course.lesson import Lesson
from workbench.jupyter.capturing import Limits, captured

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "notebooks"
LIMITS = Limits(1_200_000, most=500_000, least=100_000, part=1 / 3, drawings=False)  # 14 lessons leave 8 MB for everything else
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
class Executed:
    """A lesson, and the folder with its executed notebook and the files of its views."""

    lesson: Lesson
    folder: Path

    @property
    def name(self) -> str:
        return self.lesson.name


def executed(lessons: list[Lesson], fast: bool, cache: Path) -> list[Executed]:
    """Run these lessons, except those in the cache, as many at a time as there are cores, each with one thread."""
    os.environ.update(ONE_THREAD)  # the kernels inherit it
    code = fingerprint()
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(lambda lesson: Executed(lesson, kept(lesson, fast, cache, code)), lessons))


def kept(lesson: Lesson, fast: bool, cache: Path, code: str) -> Path:
    """The folder in the cache with a run of this lesson by this code; runs it if there is none. Raises RuntimeError if a cell fails."""
    needed = missing(lesson.notebook)
    key = hashlib.sha256(f"{code} {fast} {needed} {json.dumps(lesson.notebook)}".encode()).hexdigest()[:16]
    folder = cache / lesson.name / key
    if not folder.exists():
        shutil.rmtree(folder.parent, ignore_errors=True)
        print(f"{lesson.name}: {f'not run, since {needed} is missing' if needed else 'running'}", flush=True)
        with tempfile.TemporaryDirectory() as made:
            run(lesson.name, with_fast(lesson.notebook, fast), Path(made), needed)
            shutil.copytree(made, folder.with_suffix(".part"))
        folder.with_suffix(".part").rename(folder)  # a folder that is there is whole
    return folder


def fingerprint() -> str:
    """A hash of all code that a lesson's output depends on: the engine, the workbench with its data, and what runs and captures it."""
    found = hashlib.sha256()
    files = [path for package in ("engine", "workbench") for path in (ROOT / package).rglob("*") if path.is_file()]
    for path in sorted(files + [Path(__file__), Path(__file__).with_name("figures.py")]):
        if "__pycache__" not in path.parts and "static" not in path.parts:  # the view reads what is captured, and does not change it
            found.update(str(path.relative_to(ROOT)).encode() + path.read_bytes())
    return found.hexdigest()


def missing(notebook: dict[str, Any]) -> str:
    """The packages that a lesson imports and that are not installed, such as PyTorch; "" if it can run."""
    code = "\n".join("".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code")
    names = dict.fromkeys(re.findall(r"^(?:import|from) (\w+)", code, re.MULTILINE))
    return " and ".join(name for name in names if find_spec(name) is None)


def run(name: str, notebook: dict[str, Any], folder: Path, needed: str = "") -> None:
    """Execute a notebook unless it needs a package, and write it to `folder` with the files of its views in `folder/views`."""
    text = json.dumps(notebook)
    try:
        nb, found = (
            (nbformat.reads(text, as_version=4), {}) if needed else captured(text, FOLDER, CELL_SECONDS, lambda at, count: None, LIMITS)
        )
    except RuntimeError as error:
        raise RuntimeError(f"{name}: {error}") from error
    views = folder / "views"
    views.mkdir()
    nb.cells.insert(1, nbformat.v4.new_markdown_cell((UNRUN if needed else NOTE).format(name=name, needed=needed)))
    for cell in nb.cells:
        presented(name, cell, found, views)
    nb.metadata = {"language_info": {"name": "python", "pygments_lexer": "ipython3"}, "hide-toc": True}
    nbformat.write(nb, folder / f"{name}.ipynb")
