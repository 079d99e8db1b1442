"""Runs a lesson for all tests of its class; those of what the whole training reaches run on request only."""

from __future__ import annotations

import nbformat
import pytest
from nbclient import NotebookClient

pytest.register_assert_rewrite("lesson")

from lesson import Run, answered, edition  # noqa: E402


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves out the tests marked `whole`, unless lessons are run as a whole."""
    if not config.getoption("--whole"):
        left_out = [item for item in items if item.get_closest_marker("whole")]
        items[:] = [item for item in items if item not in left_out]
        config.hook.pytest_deselected(items=left_out)


@pytest.fixture(scope="class")
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """The lesson of a class `Lesson` after all its cells have run, in a fresh kernel and in a folder of its own."""
    name = request.cls.name
    notebook = nbformat.from_dict(edition(name, fast=not request.config.getoption("--whole")))
    notebook.cells.append(nbformat.v4.new_code_cell(answered(request.cls.answers), id="answered"))
    resources = {"metadata": {"path": str(tmp_path_factory.mktemp("lesson"))}}
    NotebookClient(notebook, timeout=900, kernel_name="python3", resources=resources).execute()
    return Run(name, notebook.cells)
