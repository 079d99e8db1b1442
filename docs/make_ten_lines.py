"""Makes docs/ten-lines.ipynb: the ten lines of README.md as a notebook that has run, each line that shows something in a cell of its own.

python docs/make_ten_lines.py
"""

from __future__ import annotations

import re
from pathlib import Path

import nbformat
from nbclient import NotebookClient

ROOT = Path(__file__).resolve().parent.parent
SAVED = ROOT / "docs" / "ten-lines.ipynb"
INTRODUCTION = """The ten lines of the [README](../README.md), saved after a run. Without a kernel, pictures stand for the views.
Run the cells in JupyterLab to have the views themselves."""


def cells() -> list[str]:
    """The programs of the README as the sources of cells."""
    *before, last = re.findall(r"^```python\n(.*?)^```", (ROOT / "README.md").read_text("utf-8"), re.DOTALL | re.MULTILINE)
    return [text.rstrip() for text in before] + last.splitlines()


def main() -> None:
    """Run the cells in a new kernel and save them with their outputs, but without the widgets' state, for which the pictures stand."""
    code = [nbformat.v4.new_code_cell(source, id=f"line-{number}") for number, source in enumerate(cells(), 1)]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_markdown_cell(INTRODUCTION, id="introduction"), *code])
    notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3 (ipykernel)", "language": "python"}
    NotebookClient(notebook, kernel_name="python3", store_widget_state=False, record_timing=False).execute()
    nbformat.write(notebook, SAVED)


if __name__ == "__main__":
    main()
