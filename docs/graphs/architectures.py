"""Ten models as the workbench first shows them, beside torchview's and Netron's pictures of the same models.

python docs/graphs/architectures.py [TITLE ...]     (needs Chromium and the test extra)

The other tools' pictures need a Python with torch, torchview, netron, onnx and onnxscript, named by --python, and Graphviz's `dot`.
Without it our own pictures alone are made.
"""

from __future__ import annotations

import argparse
import base64
import io
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests"), str(ROOT / "tests" / "browser")]

from PIL import Image  # noqa: E402
from playwright.sync_api import Page  # noqa: E402
from real_lab import Lab, opened_lab  # noqa: E402

import engine  # noqa: E402

with engine.install_as_torch():
    sys.path.insert(0, str(HERE))
    from ten import TEN

WINDOW = 1440, 900
OTHERS = 420, 640  # of a picture of another tool
SETUP = f"""%load_ext workbench
%torch
import sys; sys.path.insert(0, {str(HERE)!r})
import torch
from ten import *
_ = torch.manual_seed(0)"""
PORT = 8089  # of Netron


def file_of(title: str) -> str:
    return title.split()[0].lower()


def ours(lab: Lab, titles: list[str], folder: Path) -> None:
    """The views as `%%watch` opens them."""
    lab.open(SETUP, *[cell for title in titles for cell in (TEN[title][0], "%%watch\n" + TEN[title][1])])
    lab.command("application:toggle-left-area")
    lab.run_all()
    for number, title in enumerate(titles):
        at = 2 + 2 * number
        scroll = (
            "(at) => { const { content } = window.jupyterapp.shell.currentWidget; content.activeCellIndex = at; content.scrollToItem(at); }"
        )
        lab.page.evaluate(scroll, at)
        view = lab.cell(at).locator(".gradient-workbench")
        view.wait_for()
        lab.page.mouse.move(5, 5)
        lab.page.wait_for_timeout(600)  # the view's own animations are 200 ms
        view.locator(".stage").screenshot(path=folder / f"{file_of(title)}-ours.png")
    assert lab.errors == [], lab.errors


@contextmanager
def netron(python: str, file: Path) -> Iterator[str]:
    """Netron's server for one file; its address."""
    code = f"import netron, time; netron.start({str(file)!r}, address=('127.0.0.1', {PORT}), browse=False); time.sleep(600)"
    server = subprocess.Popen([python, "-c", code], stdout=subprocess.DEVNULL)
    try:
        yield f"http://127.0.0.1:{PORT}"
    finally:
        server.kill()
        server.wait()


def theirs(python: str, page: Page, titles: list[str], folder: Path) -> None:
    """torchview's drawing as a file, Netron's as it opens."""
    subprocess.run([python, str(HERE / "others.py"), str(folder), *titles], check=True)
    page.set_viewport_size({"width": OTHERS[0], "height": OTHERS[1]})
    for title in titles:
        with netron(python, folder / f"{file_of(title)}.onnx") as address:
            for _ in range(50):  # until the server answers
                try:
                    page.goto(address)
                    break
                except Exception as error:
                    if "ERR_CONNECTION_REFUSED" not in str(error):
                        raise
                    page.wait_for_timeout(200)
            page.wait_for_timeout(1500)
            accept = page.get_by_role("button", name="Accept")
            if accept.is_visible():  # what it asks when it is opened for the first time
                accept.click()
            page.locator("body.default").wait_for(timeout=120_000)
            page.wait_for_timeout(1000)  # it fades in
            page.screenshot(path=folder / f"{file_of(title)}-netron.png")


def beside(page: Page, title: str, folder: Path, to: Path) -> None:
    """One picture: ours, torchview's, Netron's; each whole, as large as its part has room for."""
    parts = [("ours", "Gradient Workbench"), ("", "torchview"), ("netron", "Netron")]
    figures = ""
    for suffix, name in parts:
        path = folder / f"{file_of(title)}{'-' if suffix else ''}{suffix}.png"
        if path.exists():
            source = base64.b64encode(path.read_bytes()).decode()
            figures += f'<figure class="{suffix}"><figcaption>{name}</figcaption><img src="data:image/png;base64,{source}"></figure>'
    style = f"""body {{ margin: 0; display: inline-flex; gap: 24px; background: #fff; font: 15px sans-serif }} figure {{ margin: 0 }}
figcaption {{ padding: 6px 0; color: #56606e }} img {{ max-width: {OTHERS[0]}px; max-height: {OTHERS[1]}px }}
.ours img {{ max-width: none }}"""
    page.set_viewport_size({"width": 1900, "height": OTHERS[1] + 60})
    page.set_content(f"<style>{style}</style>{figures}")
    page.wait_for_function("() => [...document.images].every((one) => one.complete)")
    image = Image.open(io.BytesIO(page.locator("body").screenshot()))
    image.convert("RGB").quantize(128).save(to / f"{file_of(title)}.png", optimize=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("titles", nargs="*", default=list(TEN))
    parser.add_argument("--python", help="a Python that has torch, torchview, netron, onnx and onnxscript")
    parser.add_argument("--to", type=Path, default=HERE / "architectures", help="where the pictures go")
    args = parser.parse_args()
    args.to.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as name, opened_lab(*WINDOW) as lab:
        folder = Path(name)
        ours(lab, args.titles, folder)
        browser = lab.page.context.browser
        assert browser is not None
        if args.python:
            theirs(args.python, browser.new_page(), args.titles, folder)
        page = browser.new_page()
        for title in args.titles:
            beside(page, title, folder, args.to)
            print(title)


if __name__ == "__main__":
    main()
