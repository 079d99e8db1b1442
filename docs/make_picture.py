"""Makes docs/stepper.png: lesson 1 in a real JupyterLab, in the middle of its stepped backward pass.

python docs/make_picture.py        (needs Chromium and the test extra)
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests" / "browser")]

from conftest import FLAGS, Lab, start_lab  # noqa: E402
from playwright.sync_api import sync_playwright  # noqa: E402
from test_lesson import lesson_with, position, view_of  # noqa: E402

STEPS = 2  # at the second linear layer: three rules at once
WINDOW = {"width": 1280, "height": 800}


def main() -> None:
    browser_path = shutil.which("chromium") or shutil.which("google-chrome")
    if browser_path is None:
        sys.exit("no Chromium found")
    with tempfile.TemporaryDirectory() as folder:
        server = start_lab(Path(folder))
        try:
            with sync_playwright() as playwright:
                browser = playwright.chromium.launch(executable_path=browser_path, args=list(FLAGS))
                context = browser.new_context(viewport=WINDOW, device_scale_factor=1.5)
                context.set_default_timeout(60_000)
                lab = Lab(server, context.new_page())
                cells = lesson_with(lab)
                lab.run_all()
                lab.command("application:toggle-left-area")
                lab.wait_idle()
                view = view_of(lab, cells.index("step"))
                for step in range(1, STEPS + 1):
                    view.get_by_test_id("wb-next").click()
                    lab.page.wait_for_function(
                        "([v, n]) => v.value === String(n)", arg=[view.get_by_test_id("wb-scrub").element_handle(), step]
                    )
                assert position(view)[0] == STEPS
                view.scroll_into_view_if_needed()
                lab.page.mouse.move(5, 5)
                lab.page.wait_for_timeout(600)  # the view's own animations are 200 ms
                lab.page.screenshot(path=ROOT / "docs" / "stepper.png")
                browser.close()
        finally:
            server.stop()


if __name__ == "__main__":
    main()
