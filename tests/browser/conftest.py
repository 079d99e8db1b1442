"""The fixtures of the browser tests: one JupyterLab and one Chromium for the session, and a page of it."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser
from real_lab import ACTION_SECONDS, SIZE, Lab, start_lab

import ipykernels
from serving import Server


def pytest_itemcollected(item: pytest.Item) -> None:
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


@pytest.fixture(scope="session")
def kept() -> Iterator[list[Lab]]:
    """The page that tests share, while none of them has it."""
    pages: list[Lab] = []
    yield pages
    for lab in pages:
        lab.page.context.close()


@pytest.fixture
def lab(server: Server, browser: Browser, kept: list[Lab], request: pytest.FixtureRequest) -> Iterator[Lab]:
    """A page with nothing open in it. The test fails if the page had an uncaught error.

    To load JupyterLab takes longer than most tests, so they have one page after the other, and a fresh one after a failure. A test marked
    `own_page` loads it again, listens to it, or changes more of it than `clear` puts back.
    """
    shared, failed = request.node.get_closest_marker("own_page") is None, request.session.testsfailed
    lab = kept.pop() if shared and kept else new_page(server, browser)
    yield lab
    print("The page's console:", *lab.console, sep="\n")  # seen where a test fails
    if keep := shared and request.session.testsfailed == failed:
        lab.clear()
    if keep and lab.errors == []:
        kept.append(lab)
    else:
        lab.page.context.close()
    server.shut_down_sessions()
    assert lab.errors == []


def new_page(server: Server, browser: Browser) -> Lab:
    context = browser.new_context(viewport=SIZE)
    context.set_default_timeout(1000 * ACTION_SECONDS)
    return Lab(server, context.new_page())
