"""The JupyterLab extension as installed: its panel, the link to the kernel of the active notebook, and the jump to a line of code."""

from __future__ import annotations

from playwright.sync_api import expect
from real_lab import wait_until

HEARD_SECONDS = 60
NOT_LOADED = "Run %load_ext workbench in this notebook to see its graph here."

# What the workbench's own comm does as seen from outside, without the workbench: a target that writes down what it is told, and answers
# that there is nothing to show.
TARGET = """
from comm import get_comm_manager
heard, asked = [], []
def opened(comm, message):
    def told(message):
        request = message["content"]["data"]
        (asked if request["type"] == "ask_bytes" else heard).append(request["type"])
        comm.send({"type": "problem", "v": request["v"], "re": request["id"], "sentence": "Nothing.", "node": -1})
    heard.append("open")
    comm.on_msg(told)
    comm.on_close(lambda message: heard.append("close"))
get_comm_manager().register_target("workbench", opened)
"""


LISTEN = """() => {
  window.sentToKernel = [];
  const { kernel } = window.jupyterapp.shell.currentWidget.sessionContext.session;
  kernel.anyMessage.connect((_, { msg, direction }) => { if (direction === "send") window.sentToKernel.push(msg.header.msg_type); });
}"""


def panel_of(lab):
    return lab.page.locator("#gradient-workbench")


def run_cell(lab, index: int) -> str:
    """Runs one cell and returns its text."""
    lab.command("notebook:run-cell", index)
    lab.wait_idle()
    return lab.text(index)


def wait_until_heard(lab, index: int, expected: list[str]) -> None:
    """Runs the cell that shows `heard` until it shows that. The front end sends in its own time, the kernel answers in order."""
    wait_until(lambda: run_cell(lab, index) == repr(expected), lambda: f"the kernel heard {lab.text(index)}, not {expected}", HEARD_SECONDS)


def test_extension_is_active_and_a_cell_runs(lab):
    lab.open("6 * 7", "raise ValueError('seven')")
    assert lab.page.evaluate("() => window.jupyterapp.isPluginActivated('gradient-workbench:plugin')") is True
    lab.run_all()
    assert lab.text(0) == "42"
    assert "ValueError" in lab.text(1)


def test_panel_says_how_to_begin_and_leaves_no_trace(lab):
    lab.open("1 + 1", "1 + 1")
    lab.page.evaluate(LISTEN)
    run_cell(lab, 0)  # this alone reaches the kernel: a notebook that says nothing of the workbench is asked nothing
    assert lab.page.evaluate("() => window.sentToKernel").count("execute_request") == 1
    lab.command("gradient-workbench:open")
    expect(panel_of(lab)).to_have_text(NOT_LOADED)
    lab.run_all()
    assert lab.text(1) == "2"
    assert lab.page.evaluate("() => window.jupyterapp.shell.currentWidget.content.widgets[1].model.executionCount") == 3
    assert "No such comm" not in lab.server.log.read_text()


def test_panel_follows_the_kernel(lab):
    lab.open(TARGET, "heard")
    lab.command("gradient-workbench:open")
    expect(panel_of(lab)).to_have_text(NOT_LOADED)
    run_cell(lab, 0)
    expect(panel_of(lab)).not_to_have_text(NOT_LOADED)
    wait_until_heard(lab, 1, ["open", "ready"])

    lab.command("application:toggle-right-area")  # out of sight: the kernel has nothing to do for it
    wait_until_heard(lab, 1, ["open", "ready", "close", "open"])  # the line that is there now is the status bar's
    lab.command("application:toggle-right-area")
    wait_until_heard(lab, 1, ["open", "ready", "close", "open", "ready"])

    lab.restart_kernel()
    expect(panel_of(lab)).to_have_text(NOT_LOADED)
    lab.run_all()
    wait_until_heard(lab, 1, ["open", "ready"])


def test_tab_and_panel_have_one_line_to_the_kernel(lab):
    lab.open(TARGET, "heard")
    run_cell(lab, 0)
    wait_until_heard(lab, 1, ["open"])  # the status bar's; nobody sees a graph, so none is asked for
    lab.command("gradient-workbench:open-tab")
    tab = lab.page.locator("#gradient-workbench-graph")
    expect(tab).to_be_visible()
    expect(panel_of(lab)).to_be_visible()
    wait_until_heard(lab, 1, ["open", "ready"])
    lab.command("application:toggle-right-area")
    lab.page.locator(".lm-DockPanel-tabBar .lm-TabBar-tab", has_text="Graph").locator(".lm-TabBar-tabCloseIcon").click()
    expect(tab).to_have_count(0)
    wait_until_heard(lab, 1, ["open", "ready", "close", "open"])
    lab.page.keyboard.press("Control+Alt+g")
    expect(panel_of(lab)).to_be_visible()


def test_reveal_selects_the_line(lab):
    lab.open("a = 1", "b = 2\nc = a + b\nd = c", *["pass"] * 40)
    selected = """() => {
      const notebook = window.jupyterapp.shell.currentWidget.content;
      const editor = notebook.activeCell.editor;  // null until a cell that was far off has been drawn
      if (editor === null) return null;
      const { start, end } = editor.getSelection();
      return [notebook.activeCellIndex, start.line, start.column, end.line, end.column];
    }"""
    reveal = """(site) => {
      const notebook = window.jupyterapp.shell.currentWidget.content;  // cells far off may not be in the page yet
      notebook.node.dispatchEvent(new CustomEvent("workbench-reveal", {
        bubbles: true, composed: true, detail: { ...site, cell_id: notebook.widgets[site.index].model.id },
      }));
    }"""
    lab.page.evaluate(reveal, {"index": 41, "line": 1, "cell": "In [42]", "file": "", "text": "pass"})
    lab.page.wait_for_function(f"() => JSON.stringify(({selected})()) === '[41,0,0,0,4]'")
    expect(lab.cell(41)).to_be_in_viewport()
    lab.page.evaluate(reveal, {"index": 1, "line": 2, "cell": "In [2]", "file": "", "text": "c = a + b"})
    lab.page.wait_for_function(f"() => JSON.stringify(({selected})()) === '[1,1,0,1,9]'")
    expect(lab.cell(1)).to_be_in_viewport()
