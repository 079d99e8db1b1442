"""A real JupyterLab and a page of it in a real Chromium, for tests and scripts. Every wait is for a state of page or kernel, never for a time."""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

import nbformat
from playwright.sync_api import FloatRect, Locator, Page, ViewportSize, expect, sync_playwright

from chromium import FLAGS, NO_CHROMIUM, find_chromium
from serving import Server, start
from workbench.cli import QUIET

ACTION_SECONDS = 300  # a busy machine is slow, and a wait that succeeds costs nothing
EXPECT_SECONDS = 120
SIZE: ViewportSize = {"width": 1400, "height": 900}
LOOK = 100  # ms between two looks at the page; by default Playwright looks at every frame, and has the page draw one after the other
expect.set_options(timeout=1000 * EXPECT_SECONDS)

# The notebook that has the focus. `jupyterapp` is there because of expose_app_in_browser.
NOTEBOOK = "window.jupyterapp.shell.currentWidget"
READY = """() => {
  const panel = window.jupyterapp?.shell.currentWidget;
  return panel?.content?.model?.cells && panel.sessionContext.isReady && panel.sessionContext.session?.kernel?.status === "idle";
}"""
# Every view has its graph, and none waits to be loaded.
DRAWN = """[...document.querySelectorAll('.jp-OutputArea [aria-busy="true"], .gradient-workbench')]
  .every((one) => one.shadowRoot && !one.shadowRoot.querySelector('[aria-busy="true"]'))"""
IDLE = f"""() => window.workbenchTestRuns === 0 && {DRAWN}
  && {NOTEBOOK}.sessionContext.session?.kernel?.status === "idle"
  && {NOTEBOOK}.content.widgets.every((cell) => (cell.model.executionState ?? "idle") === "idle")"""
SUBSHELLS = f"""async () => {{
  const kernel = {NOTEBOOK}.sessionContext.session.kernel;
  if (kernel.supportsSubshells) await kernel.requestListSubshell({{}}).done;
}}"""
RUN = f"""([command, at]) => {{
  if (at !== null) {{
    {NOTEBOOK}.content.deselectAll();
    {NOTEBOOK}.content.activeCellIndex = at;
  }}
  window.workbenchTestRuns = (window.workbenchTestRuns ?? 0) + 1;
  void window.jupyterapp.commands.execute(command).finally(() => {{ window.workbenchTestRuns -= 1; }});
}}"""


# Nothing is open, no kernel runs, and what a user can choose is as it was. What is still asked of a kernel that is shut down will have no answer:
# JupyterLab lets that go uncaught.
CLEAR = """async () => {
  const { commands, serviceManager, shell } = window.jupyterapp;
  shell.mode = "multiple-document";
  shell.collapseRight();
  for (const widget of [...shell.widgets("main")]) {
    if (widget.context) widget.context.model.dirty = false;
    widget.dispose();
  }
  await serviceManager.sessions.shutdownAll();
  if (document.body.dataset.jpThemeLight === "false") await commands.execute("apputils:change-theme", { theme: "JupyterLab Light" });
  sessionStorage.clear();
}"""
OPEN = """async (path) => {
  const { commands, shell } = window.jupyterapp;
  await commands.execute("docmanager:open", { path });
  for (const widget of [...shell.widgets("main")]) if (widget !== shell.currentWidget) widget.dispose();  // the launcher
}"""
UNANSWERED = "Canceled future for "

# The hints for a browser's first view, which would stand over it; a test that wants them says so in the page's session.
NO_HINTS = """if (location.protocol.startsWith("http") && !sessionStorage.getItem("hints")) localStorage.setItem("gradient-workbench-hints", "yes");"""


def wait_until(holds: Callable[[], object], told: Callable[[], str], seconds: float = EXPECT_SECONDS) -> None:
    """Asks until the answer is yes, for states that `expect` knows nothing of; `told` says what was not so."""
    end = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > end:
            raise AssertionError(told())
        time.sleep(0.05)


# Two frames in which it has not moved.
AT_REST = """(one) => new Promise((tell) => requestAnimationFrame(() => {
  const box = () => JSON.stringify(one.getBoundingClientRect()), before = box();
  requestAnimationFrame(() => tell(before === box()));
}))"""


def box_at_rest(one: Locator) -> FloatRect:
    """Where something is on the page, once it does not move any more: for what the mouse does there."""
    wait_until(lambda: one.evaluate(AT_REST), lambda: f"{one} does not come to rest")
    box = one.bounding_box()
    assert box
    return box


def start_lab(folder: Path, python: str = sys.executable) -> Server:
    """The JupyterLab of `python`; `window.jupyterapp` is there for the tests."""
    command = [python, "-m", "jupyterlab", "--no-browser"]
    return start(command, folder, "--LabApp.expose_app_in_browser=True", JUPYTER_CONFIG_PATH=str(QUIET))


@dataclass
class Lab:
    """One page of JupyterLab, and what the tests do with it."""

    server: Server
    page: Page
    errors: list[str] = field(default_factory=list)  # uncaught errors of the page, with their stacks
    console: list[str] = field(default_factory=list)  # errors and warnings that the page wrote there
    is_clear: bool = False  # JupyterLab is there, with nothing open
    workspace: str = field(default_factory=lambda: uuid4().hex)  # another page that stays open saves its layout in its own

    def __post_init__(self) -> None:
        self.page.add_init_script(NO_HINTS)
        self.page.on("pageerror", lambda error: self.errors.append(f"{error}\n{error.stack}"))
        self.page.on("console", lambda said: self.console.append(said.text) if said.type in ("error", "warning") else None)
        # JupyterLab's file browser says on a slow machine that it could not list the folder; a user closes that.
        dialog = self.page.get_by_role("dialog", name="Directory not found")
        self.page.add_locator_handler(dialog, lambda shown: shown.get_by_role("button").last.click())

    def goto(self, path: str = "") -> None:
        """Opens JupyterLab, and a path in it, in the page's own workspace, and waits until it is there."""
        self.page.goto(f"{self.server.url}/lab/workspaces/{self.workspace}{path}?token={self.server.token}&reset")
        self.wait_restored()

    def reload(self) -> None:
        """Reloads the page as a user does, and waits until the notebook has its kernel again."""
        self.page.reload()
        self.wait_restored()
        self.page.wait_for_function(f"() => {NOTEBOOK}?.sessionContext?.isReady", polling=LOOK)

    def wait_restored(self) -> None:
        """Waits until JupyterLab has put back what was open; no command of the tests runs then."""
        self.page.wait_for_function("() => window.jupyterapp?.restored", polling=LOOK)
        self.page.evaluate("() => window.jupyterapp.restored")
        self.page.evaluate("() => { window.workbenchTestRuns = 0; }")

    def wait_saved(self, holds: str) -> None:
        """Returns when JupyterLab has saved a workspace of which `holds`, a predicate in JavaScript, is true; it saves a while after a change."""
        saved = f"async (name) => ({holds})((await window.jupyterapp.serviceManager.workspaces.fetch(name)).data)"
        wait_until(lambda: self.page.evaluate(saved, self.workspace), lambda: f"no workspace is saved of which {holds}")

    def open_notebook(self, path: str) -> None:
        """Opens a notebook of the server's root folder and waits until its kernel is ready."""
        if self.is_clear:
            self.is_clear = False
            self.page.evaluate(OPEN, path)
        else:
            self.goto(f"/tree/{path}")
        self.page.wait_for_function(READY, polling=LOOK)

    def clear(self) -> None:
        """Closes all notebooks and ends their kernels; the next one opens without loading JupyterLab, which takes five seconds."""
        errors = len(self.errors)
        self.page.set_viewport_size(SIZE)
        self.page.evaluate(CLEAR)
        expect(self.page.locator(".gradient-workbench")).to_have_count(0)
        self.errors[errors:] = [error for error in self.errors[errors:] if UNANSWERED not in error]
        self.console.clear()
        self.is_clear = True

    def open(self, *cells: str, name: str = "test.ipynb") -> None:
        """Makes a notebook of code cells and opens it."""
        notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in cells])
        notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
        nbformat.write(notebook, self.server.root / name)
        self.open_notebook(name)

    def command(self, name: str, at: int | None = None) -> None:
        """Starts a command of JupyterLab, for the cell `at` if there is one; `wait_idle` waits for its end.

        The cell is made the active one at the same moment: a view that has the focus and is drawn anew makes its own cell that again.
        """
        self.page.evaluate(RUN, [name, at])

    def run_all(self, wait: bool = True) -> None:
        """Runs every cell; without `wait` returns at once, as a cell that pauses needs it."""
        self.command("notebook:run-all-cells")
        if wait:
            self.wait_idle()

    def wait_idle(self, seconds: float = ACTION_SECONDS) -> None:
        """Returns when every command and every cell has ended and the kernel is idle."""
        self.page.wait_for_function(IDLE, timeout=1000 * seconds, polling=LOOK)

    def wait_answered(self) -> None:
        """Returns when the kernel has answered all that this page has asked it.

        JupyterLab itself asks for kernel_info whenever a line opens, and if the answer is lost or a restart comes first, its kernel
        connection lets an error go uncaught: "Canceled future for kernel_info_request". The kernel answers in order, so another
        question waits for that one.
        """
        self.page.evaluate(f"async () => {{ await {NOTEBOOK}.sessionContext.session.kernel.requestKernelInfo(); }}")
        self.wait_subshells()

    def wait_subshells(self) -> None:
        """Returns when the kernel has made all subshells that this page has asked it for, also while a cell runs.

        Each comm asks for one, and where a restart or a cut line comes before the answer, JupyterLab lets "Canceled future for
        create_subshell_request" go uncaught. Subshells are the control channel's, so a question there waits for them.
        """
        self.page.evaluate(SUBSHELLS)

    def restart_kernel(self) -> None:
        """Restarts the kernel of the notebook; returns when the line to the new one is there."""
        self.wait_answered()
        self.page.evaluate(f"() => {NOTEBOOK}.sessionContext.session.kernel.restart()")

    def cell(self, index: int) -> Locator:
        """The cell on the page. JupyterLab draws cells when they come into view."""
        return self.page.locator(f'.jp-Notebook .jp-Cell[data-windowed-list-index="{index}"]')

    def outputs(self, index: int) -> list[dict[str, Any]]:
        """A code cell's outputs as the notebook file would have them."""
        return self.page.evaluate(f"(index) => {NOTEBOOK}.content.widgets[index].model.outputs.toJSON()", index)

    def text(self, index: int) -> str:
        """What a code cell has printed and returned, and its errors, as plain text."""
        parts = []
        for output in self.outputs(index):
            parts.append(output.get("text") or output.get("data", {}).get("text/plain") or "\n".join(output.get("traceback", [])))
        return "".join("".join(part) for part in parts)


@contextmanager
def opened_lab(width: int, height: int, scale: float = 1) -> Iterator[Lab]:
    """A JupyterLab and a page of it for a script: no fixture, everything ends with the block."""
    path = find_chromium()
    if path is None:
        sys.exit(NO_CHROMIUM)
    with tempfile.TemporaryDirectory() as folder:
        server = start_lab(Path(folder))
        try:
            with sync_playwright() as playwright:
                browser = playwright.chromium.launch(executable_path=path, args=list(FLAGS))
                context = browser.new_context(viewport={"width": width, "height": height}, device_scale_factor=scale)
                context.set_default_timeout(1000 * ACTION_SECONDS)
                yield Lab(server, context.new_page())
                browser.close()
        finally:
            server.stop()
