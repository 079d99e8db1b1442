"""What happens to a notebook with views in it: cells go and come back, files move, lines are cut, kernels end, and somebody clicks about."""

from __future__ import annotations

import random

import pytest
from playwright.sync_api import Error, expect
from real_lab import NOTEBOOK, READY, wait_until
from test_faults import SETUP
from test_lab import panel_of, run_cell
from test_lesson import view_of

KERNEL = f"{NOTEBOOK}.sessionContext.session?.kernel"
WAITS = "with wb.step():\n    (((w * x).sum().tanh() - 1.0) ** 2).backward()"
# A line that loses what the kernel says, and can be cut: sockets are known, and none opens any more until the page is told so. One that does
# not open says nothing: a try of JupyterLab's own that failed would come to an end at any time, and cut the line that was healed meanwhile.
CUT = """(() => {
  const Real = window.WebSocket, open = new Set();
  let cut = false, losing = false;
  window.WebSocket = class extends Real {
    constructor(url, protocols) { super(cut ? "ws://127.0.0.1:2/" : url, protocols); this.silent = cut; open.add(this); }
    get onclose() { return super.onclose; }
    set onclose(heard) { super.onclose = this.silent ? null : heard; }
    get onerror() { return super.onerror; }
    set onerror(heard) { super.onerror = this.silent ? null : heard; }
    get onmessage() { return super.onmessage; }
    set onmessage(heard) { super.onmessage = (event) => { if (losing) window.lost += 1; else heard?.(event); }; }
  };
  window.lost = 0;
  window.loseAnswers = () => { losing = true; };
  window.cutLine = () => { cut = true; losing = false; open.forEach((socket) => socket.close()); open.clear(); };
  window.healLine = () => { cut = false; };
})()"""


def cut_line(lab) -> None:
    lab.page.evaluate("() => window.cutLine()")
    lab.page.wait_for_function(f"() => {KERNEL}.connectionStatus !== 'connected'")


def heal_line(lab) -> None:
    lab.page.evaluate(f"async () => {{ window.healLine(); await {KERNEL}.reconnect(); }}")
    lab.wait_answered()


def stands_at(step: int, *views) -> None:
    for view in views:
        expect(view.get_by_test_id("wb-scrub")).to_have_value(str(step))


def test_a_pass_outlives_its_output_its_cell_and_the_name_of_its_file(lab):
    lab.open(SETUP, "wb.step(loss)", "print('alive')", name="one.ipynb")
    lab.command("gradient-workbench:open")
    for at in (0, 1):
        run_cell(lab, at)
    panel = panel_of(lab)
    view_of(lab, 1).get_by_test_id("wb-next").click()
    stands_at(1, panel)

    lab.command("notebook:clear-cell-output", 1)
    expect(lab.cell(1).get_by_test_id("wb-root")).to_have_count(0)
    panel.get_by_test_id("wb-next").click()
    stands_at(2, panel)

    run_cell(lab, 1)
    view_of(lab, 1).get_by_test_id("wb-next").click()
    stands_at(1, panel)
    lab.command("notebook:delete-cell", 1)
    lab.wait_idle()
    panel.get_by_test_id("wb-next").click()
    stands_at(2, panel)
    lab.command("notebook:undo-cell-action")
    lab.wait_idle()
    view = view_of(lab, 1)
    view.get_by_test_id("wb-next").click()
    stands_at(3, view, panel)

    lab.page.evaluate(f"async () => {{ await {NOTEBOOK}.context.save(); await {NOTEBOOK}.context.rename('renamed.ipynb'); }}")
    view.get_by_test_id("wb-next").click()
    stands_at(4, view, panel)
    lab.page.evaluate(f"async () => {{ await {NOTEBOOK}.context.save(); {NOTEBOOK}.close(); }}")
    expect(panel.get_by_text("Open a notebook to see its graph here.")).to_be_visible()
    lab.page.evaluate("() => window.jupyterapp.commands.execute('docmanager:open', { path: 'renamed.ipynb' })")
    lab.page.wait_for_function(READY)
    stands_at(4, view_of(lab, 1), panel)

    lab.page.evaluate("() => { window.jupyterapp.shell.mode = 'single-document'; }")
    view = view_of(lab, 1)
    view.get_by_test_id("wb-prev").click()
    stands_at(3, view, panel)
    assert run_cell(lab, 2).strip() == "alive"
    # JupyterLab may still ask for the checkpoints of the file under its old name, which its server answers with an error
    lab.errors[:] = [error for error in lab.errors if "listCheckpoints" not in error]


def test_a_line_is_cut_a_paused_notebook_starts_anew_and_a_kernel_is_shut_down(lab):
    lab.page.add_init_script(CUT)
    lab.open(SETUP, "wb.step(loss)", WAITS, "print('alive')")
    lab.command("gradient-workbench:open")
    for at in (0, 1):
        run_cell(lab, at)
    view, panel = view_of(lab, 1), panel_of(lab)
    stands_at(0, view, panel)

    lab.wait_subshells()
    lab.page.evaluate("() => window.loseAnswers()")
    panel.get_by_test_id("wb-next").click()
    lab.page.wait_for_function("() => window.lost > 0")
    cut_line(lab)
    heal_line(lab)
    stands_at(1, view, panel)  # they ask again

    lab.wait_subshells()
    cut_line(lab)
    view.get_by_test_id("wb-next").click()  # said when the line is there again
    heal_line(lab)
    stands_at(2, view, panel)
    panel.get_by_test_id("wb-next").click()
    stands_at(3, view, panel)

    lab.command("notebook:run-cell", 2)
    paused = view_of(lab, 2)
    paused.get_by_test_id("wb-next").click()
    stands_at(1, paused, panel)
    lab.wait_subshells()
    lab.command("notebook:restart-run-all")
    lab.page.get_by_role("button", name="Confirm Kernel Restart").click()
    expect(view_of(lab, 2).get_by_test_id("wb-paused")).to_be_visible()
    paused = view_of(lab, 2)
    stands_at(0, paused, panel)
    paused.get_by_test_id("wb-last").click()
    lab.page.wait_for_function(f"() => {NOTEBOOK}.content.widgets[3].model.outputs.length > 0")
    assert lab.text(3).strip() == "alive"

    lab.wait_answered()
    lab.page.evaluate(f"() => {NOTEBOOK}.sessionContext.shutdown()")
    expect(lab.page.get_by_role("region", name="Gradient Workbench").get_by_text("has no running kernel")).to_be_visible()
    view = view_of(lab, 1)
    view.get_by_test_id("wb-next").click()
    expect(view.get_by_test_id("wb-alert")).to_contain_text("The kernel that made this view has gone; run the cell again.")
    lab.page.evaluate(f"() => {NOTEBOOK}.sessionContext.changeKernel({{ name: 'python3' }})")
    lab.page.wait_for_function(f"() => {KERNEL}?.status === 'idle'")
    for at in (0, 1):
        run_cell(lab, at)
    view_of(lab, 1).get_by_test_id("wb-next").click()
    stands_at(1, view_of(lab, 1), panel_of(lab))


# What a user can click on in all views, as far as it is in the window.
CONTROLS = """() => {
  const inside = ({ left, right, top, bottom }) => right > left && bottom > top && bottom > 0 && right > 0 && top < innerHeight && left < innerWidth;
  const roots = [...document.querySelectorAll(".gradient-workbench")].map((host) => host.shadowRoot);
  const all = roots.flatMap((root) => [...root.querySelectorAll("button, select, input, summary, [role=tab], [role=treeitem]")]);
  window.controls = all.filter((one) => inside(one.getBoundingClientRect()));
  return window.controls.length;
}"""
# A click as the page gets it: Playwright's own would wait until what covers the control is gone.
USE = """([which, part]) => {
  const one = window.controls[which];
  if (one.tagName === "SELECT") one.selectedIndex = Math.floor(part * one.options.length);
  if (one.type === "range") one.value = String(Number(one.min) + part * (Number(one.max) - Number(one.min)));
  if (one.type === "text" || one.type === "search") one.value = ["tanh", "/x/", "((", "norm > 1", "w * 2", ""][Math.floor(part * 6)];
  if (/^(SELECT|INPUT)$/.test(one.tagName)) for (const type of ["input", "change"]) one.dispatchEvent(new Event(type, { bubbles: true, composed: true }));
  else one.dispatchEvent(new MouseEvent("click", { bubbles: true, composed: true, cancelable: true, detail: part < 0.2 ? 2 : 1 }));
}"""
# Keys are for a view that has the focus; JupyterLab would delete cells.
FOCUS = """(part) => {
  const hosts = [...document.querySelectorAll(".gradient-workbench")], root = hosts[Math.floor(part * hosts.length)]?.shadowRoot;
  root?.querySelector("[data-testid=wb-graph]")?.focus();
  return !!root?.activeElement;
}"""
KEYS = [
    "ArrowRight",
    "ArrowLeft",
    "ArrowUp",
    "ArrowDown",
    "Enter",
    "+",
    "-",
    "*",
    "t",
    "d",
    "p",
    "n",
    "/",
    "Escape",
    "F10",
    "Shift+F10",
    "Home",
    "End",
]


def resize(lab, width: int, height: int) -> None:
    """Another size of the window; one that fills the screen becomes a window again for it, as the browser's own menu does it.

    The page itself could not: where a view goes away between its request to fill the screen and the answer, Chromium refuses the request
    and leaves its window full screen, with no element in it that `exitFullscreen` would take out.
    """
    line = lab.page.context.new_cdp_session(lab.page)
    window = line.send("Browser.getWindowForTarget")["windowId"]

    def done() -> bool:
        line.send("Browser.setWindowBounds", {"windowId": window, "bounds": {"windowState": "normal"}})
        try:
            lab.page.set_viewport_size({"width": width, "height": height})
        except Error as error:
            if "fullscreen" not in str(error):
                raise
            return False  # a request to fill the screen came between the two
        return True

    wait_until(done, lambda: "the window does not leave the full screen")
    line.detach()


@pytest.mark.long
@pytest.mark.parametrize("seed", [7, 0])
def test_somebody_clicks_about(lab, seed):
    """150 random gestures on three views and the panel, the same in each run: no error on the page, and everything still answers."""
    chance = random.Random(seed)
    said: list[str] = []
    lab.page.on("console", lambda message: said.append(message.text) if message.type == "error" else None)
    watched = "%%watch\nmodel = nn.Linear(2, 2)\nfor i in range(3):\n    model(x).sum().backward()"
    lab.open(SETUP, "wb.step(loss)", watched, "wb.describe(w)", "print('alive')")
    lab.command("gradient-workbench:open")
    for at in range(4):
        run_cell(lab, at)
    expect(panel_of(lab).get_by_test_id("wb-graph")).to_be_visible()
    for number in range(150):
        kind = chance.random()
        if kind < 0.6:
            which, part = chance.random(), chance.random()
            if count := lab.page.evaluate(CONTROLS):
                lab.page.evaluate(USE, [int(which * count), part])
        elif kind < 0.85:
            key = chance.choice(KEYS)
            if lab.page.evaluate(FOCUS, chance.random()):
                lab.page.keyboard.press(key)
        elif kind < 0.92:
            lab.page.mouse.move(chance.randrange(300, 1300), chance.randrange(200, 800))
            lab.page.mouse.down()
            lab.page.mouse.move(chance.randrange(300, 1300), chance.randrange(200, 800), steps=3)
            lab.page.mouse.up()
        elif kind < 0.97:
            resize(lab, chance.choice([800, 1100, 1400]), chance.choice([600, 900]))
        else:
            theme = chance.choice(["JupyterLab Dark", "JupyterLab Light"])
            lab.page.evaluate("(theme) => window.jupyterapp.commands.execute('apputils:change-theme', { theme })", theme)
            # JupyterLab's own splash fails where two follow each other within its fading
            lab.page.wait_for_function("() => !document.getElementById('jupyterlab-splash')")
        assert lab.errors == [] and said == [], f"after gesture {number}"
    resize(lab, 1400, 900)
    for at in (0, 1):
        run_cell(lab, at)
    assert run_cell(lab, 4).strip() == "alive"
    view_of(lab, 1).get_by_test_id("wb-next").click()
    stands_at(1, view_of(lab, 1))
