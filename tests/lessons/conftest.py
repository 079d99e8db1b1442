"""Runs a lesson for all tests of its class; those of what the whole training reaches run on request only."""

from __future__ import annotations

import json
from pathlib import Path

import nbformat
import pytest

from workbench.jupyter.capturing import Limits, captured

pytest.register_assert_rewrite("lesson")

from lesson import FOLDER, Run, answered, edition  # noqa: E402

VIEWS = Limits(1, most=20_000, least=20_000, drawings=False)  # bytes of a view: enough to show it, not all that can be asked of it


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves out the tests marked `whole`, unless lessons are run as a whole."""
    if not config.getoption("--whole"):
        left_out = [item for item in items if item.get_closest_marker("whole")]
        items[:] = [item for item in items if item not in left_out]
        config.hook.pytest_deselected(items=left_out)


@pytest.fixture(scope="session")
def ipython(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """IPython's folder, with a setting that has Matplotlib draw a picture once: to find the picture's edges first takes as long again."""
    profile = tmp_path_factory.mktemp("ipython") / "profile_default"
    profile.mkdir()
    (profile / "ipython_kernel_config.py").write_text('c.InlineBackend.print_figure_kwargs = {"bbox_inches": None}')
    return profile.parent


@pytest.fixture(scope="class")
def run(request: pytest.FixtureRequest, ipython: Path) -> Run:
    """The lesson of a class `Lesson` after all its cells have run, in a fresh kernel and in a folder of its own."""
    name = request.cls.name
    notebook = nbformat.from_dict(edition(name, fast=not request.config.getoption("--whole")))
    notebook.cells.append(nbformat.v4.new_code_cell(answered(request.cls.answers), id="answered"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("IPYTHONDIR", str(ipython))
        notebook, views = captured(json.dumps(notebook), FOLDER, 900, lambda at, of: None, VIEWS)
    return Run(name, notebook.cells, views)
