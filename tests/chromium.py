"""The Chromium of the tests: where it is, and the fixtures that start one for the session."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser

FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
NO_CHROMIUM = "no Chromium found (install chromium, or name one in $CHROMIUM)"


def find_chromium() -> str | None:
    """The path of a Chromium: the one that $CHROMIUM names, or one on the PATH; one without windows of its own takes a sixth less time."""
    names = (os.environ.get("CHROMIUM"), "chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
    return next((path for name in names if name and (path := shutil.which(name))), None)


@pytest.fixture(scope="session")
def chromium() -> str:
    """The path of a Chromium. Without one the test is skipped, or fails where WORKBENCH_BROWSER=required says so."""
    path = find_chromium()
    if path is None and os.environ.get("WORKBENCH_BROWSER") == "required":
        pytest.fail(NO_CHROMIUM, pytrace=False)
    if path is None:
        pytest.skip(NO_CHROMIUM)
    return path


@pytest.fixture(scope="session")
def browser(chromium: str) -> Iterator[Browser]:
    """One Chromium for the whole session."""
    from playwright.sync_api import sync_playwright  # not in processes without tests of a browser

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=list(FLAGS))
        yield browser
        browser.close()
