"""The README: its pictures are there and small, its table is whole, and its ten lines are those of the saved notebook, with their pictures."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import nbformat
from PIL import Image

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "docs"))
from make_ten_lines import SAVED, cells  # noqa: E402

from test_docs import program_of  # noqa: E402

README = (ROOT / "README.md").read_text("utf-8")
VIEW = "application/vnd.jupyter.widget-view+json"


def test_the_pictures_are_there_and_small():
    html = re.findall(r'\b(?:src|srcset)="([^":]+)"', README)
    shown = {ROOT / name for name in html + re.findall(r"!\[[^]]+\]\(([^):]+)\)", README)}
    assert len(html) == 2 and shown == set((ROOT / "docs" / "readme").iterdir())
    for path in shown:
        with Image.open(path) as picture:
            moves = getattr(picture, "is_animated", False)
            assert moves == (path.suffix == ".webp") and picture.width >= 1000
            assert path.stat().st_size <= (2_000_000 if moves else 120_000), path.name


def test_every_row_of_the_table_has_a_cell_for_every_tool():
    table = re.findall(r"^\|.*\|$", README.partition("## Beside other tools")[2].partition("\n## ")[0], re.MULTILINE)
    assert len(table) > 12
    for row in table:
        found = [cell.strip() for cell in row.strip("|").split("|")]
        assert len(found) == 7 and all(found[1:]), row


def test_the_ten_lines_run():
    names: dict = {"__name__": "__main__"}
    for source in cells():
        exec(program_of(source), names)
    assert all(parameter.grad is not None for parameter in names["model"].parameters())


def test_the_saved_notebook_has_the_ten_lines_and_a_picture_of_each_view():
    notebook = nbformat.read(SAVED, as_version=4)
    nbformat.validate(notebook)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [cell.source for cell in code] == cells(), "python docs/make_ten_lines.py makes it anew"
    assert (
        "widgets" not in notebook.metadata
    )  # with their state there, a page without JupyterLab would show nothing in place of the picture
    views = [output["data"] for cell in code for output in cell.outputs if VIEW in output.get("data", {})]
    assert len(views) == 5
    for data in views:
        assert data["image/svg+xml"].startswith("<svg") and len(str(data)) <= 200_000
