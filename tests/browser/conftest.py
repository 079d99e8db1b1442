"""The fixtures of the browser tests: one JupyterLab and one Chromium for the session, a fresh page for each test."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser
from real_lab import ACTION_SECONDS, Lab, start_lab

import ipykernels
from serving import Server


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker("slow")


@pytest.fixture(scope="session")
def server(chromium: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """The JupyterLab of the Python that runs the tests, one for the whole session."""
    folder = tmp_path_factory.mktemp("jupyter")
    name = ipykernels.name_of(ipykernels.OLDER)
    spec = folder / "jupyter_data" / "kernels" / name.replace(" ", "-")
    spec.mkdir(parents=True)
    argv = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    environment = {"PYTHONPATH": str(Path(sys.prefix) / f"ipykernel-{ipykernels.OLDER}")}
    (spec / "kernel.json").write_text(json.dumps({"argv": argv, "display_name": name, "language": "python", "env": environment}))
    server = start_lab(folder)
    yield server
    server.stop()


@pytest.fixture
def lab(server: Server, browser: Browser) -> Iterator[Lab]:
    """A fresh page. The test fails if the page had an uncaught error."""
    context = browser.new_context(viewport={"width": 1400, "height": 900})
    context.set_default_timeout(1000 * ACTION_SECONDS)
    lab = Lab(server, context.new_page())
    yield lab
    print("The page's console:", *lab.console, sep="\n")  # seen where a test fails
    server.shut_down_sessions()
    context.close()
    assert lab.errors == []
