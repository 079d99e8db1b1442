"""Makes docs/stepper.png: lesson 1 in a real JupyterLab, in the middle of its stepped backward pass.

python docs/make_picture.py        (needs Chromium and the test extra)
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests"), str(ROOT / "tests" / "browser")]

from playwright.sync_api import expect  # noqa: E402
from real_lab import opened_lab  # noqa: E402
from test_lesson import lesson_with, position, view_of  # noqa: E402

STEPS = 2  # at the second linear layer: three rules at once


def main() -> None:
    with opened_lab(1280, 800, scale=1.5) as lab:
        cells = lesson_with(lab)
        lab.run_all()
        lab.command("application:toggle-left-area")
        lab.wait_idle()
        view = view_of(lab, cells.index("step"))
        scrub = view.get_by_test_id("wb-scrub")
        for step in range(1, STEPS + 1):
            view.get_by_test_id("wb-next").click()
            expect(scrub).to_have_value(str(step))
        assert position(view)[0] == STEPS
        view.scroll_into_view_if_needed()
        lab.page.mouse.move(5, 5)
        lab.page.wait_for_timeout(600)  # the view's own animations are 200 ms
        lab.page.screenshot(path=ROOT / "docs" / "stepper.png")


if __name__ == "__main__":
    main()
