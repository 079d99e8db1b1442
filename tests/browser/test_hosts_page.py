"""The widget where there is neither the JupyterLab extension nor a subshell: Notebook 7 with an older ipykernel, a page with a bare model."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest
from playwright.sync_api import Browser, expect
from real_lab import IDLE, READY, Lab

import ipykernels
from serving import Server, start

VIEW_JS = Path(__file__).parents[2] / "workbench" / "jupyter" / "static" / "view.js"
SETUP = """%load_ext workbench
import os, time
import engine, workbench as wb
w = engine.tensor([0.4, 0.9], requires_grad=True)
x = engine.tensor([1.5, -0.5])"""
GROWS = """%%watch
h = x
while not os.path.exists("enough"):
    h = (h * w).tanh()
    time.sleep(0.2)
loss = h.sum()"""


@pytest.fixture(scope="module")
def bare(chromium: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Notebook 7 as others have it: without our extension, with an ipykernel that has no subshells."""
    folder = tmp_path_factory.mktemp("notebook7")
    older = ipykernels.folder_of(ipykernels.OLDER)
    spec = folder / "jupyter_data" / "kernels" / "older"
    spec.mkdir(parents=True)
    argv = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    (spec / "kernel.json").write_text(
        json.dumps({"argv": argv, "display_name": "older", "language": "python", "env": {"PYTHONPATH": older}})
    )
    config = folder / "config" / "labconfig"
    config.mkdir(parents=True)
    off = {"gradient-workbench": True, "@jupyterlab/apputils-extension:announcements": True}
    (config / "page_config.json").write_text(json.dumps({"disabledExtensions": off}))
    command = [sys.executable, "-m", "notebook", "--no-browser"]
    server = start(command, folder, "--JupyterNotebookApp.expose_app_in_browser=True", JUPYTER_CONFIG_PATH=str(config.parent))
    yield server
    server.stop()


def test_notebook_7_without_extension_and_subshells(bare: Server, browser: Browser):
    """A view that fills while its cell runs, steps, and follows the theme."""
    cells = [nbformat.v4.new_code_cell(source) for source in (SETUP, GROWS, "wb.step(loss)", "print(w.grad)")]
    notebook = nbformat.v4.new_notebook(cells=cells)
    notebook.metadata["kernelspec"] = {"name": "older", "display_name": "older", "language": "python"}
    nbformat.write(notebook, bare.root / "test.ipynb")
    context = browser.new_context(viewport={"width": 1400, "height": 900})
    context.set_default_timeout(60_000)
    lab = Lab(bare, context.new_page())
    lab.page.goto(f"{bare.url}/notebooks/test.ipynb?token={bare.token}")
    lab.wait_restored()
    lab.page.wait_for_function(READY)
    assert lab.page.evaluate("() => window.jupyterapp.hasPlugin('gradient-workbench:plugin')") is False

    lab.errors.clear()  # of Notebook 7 itself, before any of our code has run

    lab.run_all(wait=False)
    view = lab.cell(1).get_by_test_id("wb-root")
    expect(view.get_by_test_id("wb-live")).to_be_visible()  # the cell runs
    expect(view.get_by_test_id("wb-node").filter(has_text="tanh").first).to_be_visible()  # and its graph is seen meanwhile
    expect(view.get_by_test_id("wb-side")).to_be_hidden()  # there is no side panel
    (bare.root / "enough").touch()
    lab.page.wait_for_function(IDLE)
    expect(view.get_by_test_id("wb-live")).to_be_hidden()

    lab.page.evaluate("(i) => window.jupyterapp.shell.currentWidget.content.scrollToItem(i, 'center')", 2)
    pass_view = lab.cell(2).get_by_test_id("wb-root")
    pass_view.get_by_test_id("wb-next").click()
    expect(pass_view.get_by_test_id("wb-scrub")).to_have_value("1")
    pass_view.get_by_test_id("wb-last").click()
    expect(pass_view.get_by_test_id("wb-next")).to_have_attribute("aria-disabled", "true")

    host = lab.cell(2).locator(".gradient-workbench")
    for theme in ("Dark", "Light"):
        lab.page.evaluate("(t) => window.jupyterapp.commands.execute('apputils:change-theme', { theme: t })", f"JupyterLab {theme}")
        expect(host).to_have_attribute("data-theme", theme.lower())
    assert lab.errors == []
    bare.shut_down_sessions()
    context.close()


def test_a_bare_page_follows_the_readers_theme_and_says_what_it_waits_for(browser: Browser):
    """Any page that offers anywidget's model: no Jupyter, no kernel that answers."""
    page = browser.new_page(color_scheme="dark")
    page.route("**/view.js", lambda route: route.fulfill(body=VIEW_JS.read_text(), content_type="text/javascript"))
    page.route("**/page.html", lambda route: route.fulfill(body="<!doctype html><div id='view'></div>", content_type="text/html"))
    page.goto("http://workbench.invalid/page.html")
    page.evaluate("""async () => {
      const view = (await import("/view.js")).default;
      window.sent = [];
      window.model = { get: () => undefined, send: (m) => window.sent.push(m), on: (e, f) => { if (e === "msg:custom") window.tell = f; }, off() {} };
      window.close_view = view.render({ model: window.model, el: document.getElementById("view") });
    }""")
    host = page.locator(".gradient-workbench")
    expect(host).to_have_attribute("data-theme", "dark")
    expect(host.get_by_text("Waiting for the kernel.")).to_be_visible()
    page.emulate_media(color_scheme="light")
    expect(host).to_have_attribute("data-theme", "light")
    page.emulate_media(forced_colors="active")  # drawings are not recolored by the browser: the view itself must
    style = "(host) => ['--wb-text', '--wb-card', '--wb-edge'].map((n) => getComputedStyle(host).getPropertyValue(n).trim())"
    assert host.evaluate(style) == ["CanvasText", "Canvas", "CanvasText"]
    page.emulate_media(forced_colors="none")
    assert [message["type"] for message in page.evaluate("() => window.sent")] == ["ready"]
    page.evaluate("() => window.tell({ type: 'graph', v: 99 })")  # a kernel from the future
    expect(host.get_by_text("The kernel speaks version 99 of the protocol", exact=False)).to_be_visible()
    page.evaluate("() => window.close_view()")
    expect(host).to_have_count(0)
    page.close()
