"""The view in a real JupyterLab and Chromium: large recordings shown, opened, panned and zoomed; a step from click to redraw.

    python benchmarks/view.py [--json FILE]          (needs Chromium and the test extra)

Chromium draws without a GPU here, which is the worst case. "shown" is the time from the end of the cell to the last change of the
picture, "blocked" the longest task of the page's main thread in that time; "expand" what a click on a group costs until its boxes are
in the page; a frame is the time between two frames while the mouse drags the graph, or the wheel zooms it.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests"), str(ROOT / "tests" / "browser")]

from playwright.sync_api import Locator, expect  # noqa: E402
from real_lab import Lab, opened_lab  # noqa: E402
from test_lesson import view_of  # noqa: E402

SETUP = """%load_ext workbench
import engine, workbench as wb
from engine import nn
w, u, b = (engine.randn(8, 32) * 0.1).requires_grad_(), (engine.randn(8, 32) * 0.1).requires_grad_(), engine.zeros(32, requires_grad=True)
def cell(x, h, c):
    gates = x @ w + h @ u + b
    i, f, o, g = gates[:, :8].sigmoid(), gates[:, 8:16].sigmoid(), gates[:, 16:24].sigmoid(), gates[:, 24:].tanh()
    c = f * c + i * g
    return o * c.tanh(), c
xs = engine.randn(470, 4, 8)
h = c = engine.zeros(4, 8)
import sys
sys.path.insert(0, MODELS)
from models import gpt2, moons
gpt_run, moons_run = gpt2(48), moons()""".replace("MODELS", repr(str(ROOT / "docs" / "graphs")))
LSTM = """%%watch
for t in range(470):
    h, c = cell(xs[t], h, c)
loss = h.sum()"""
GPT = """%%watch
loss = gpt_run()"""
MOONS = """%%watch
losses = [moons_run() for _ in range(100)]
loss = losses[0]
for one in losses[1:]:
    loss = loss + one"""
STEP = """h, c = engine.zeros(4, 8), engine.zeros(4, 8)
for t in range(5):
    h, c = cell(xs[t], h, c)
wb.step(h.sum())"""
PAUSED = """h, c = engine.zeros(4, 8), engine.zeros(4, 8)
for t in range(5):
    h, c = cell(xs[t], h, c)
loss = h.sum()
with wb.step():
    loss.backward()"""

WATCH_CHANGES = """() => {
  window.wbChanged = performance.now();
  window.wbIdle = null;
  window.wbTasks = [];
  if (window.wbWatched) return;
  window.wbWatched = true;
  new PerformanceObserver((list) => window.wbTasks.push(...list.getEntries().map((one) => [one.startTime, one.duration])))
    .observe({ type: "longtask" });
  const panel = window.jupyterapp.shell.currentWidget;
  panel.sessionContext.statusChanged.connect((_, status) => { if (status === "idle") window.wbIdle = performance.now(); });
  const seen = new WeakSet();
  const look = () => {
    for (const element of document.querySelectorAll(".jp-OutputArea-output *")) {
      if (element.shadowRoot && !seen.has(element.shadowRoot)) {
        seen.add(element.shadowRoot);
        window.wbChanged = performance.now();
        new MutationObserver(() => { window.wbChanged = performance.now(); })
          .observe(element.shadowRoot, { childList: true, subtree: true, attributes: true });
      }
    }
    requestAnimationFrame(look);
  };
  look();
}"""
QUIET = "() => window.wbIdle !== null && performance.now() - Math.max(window.wbChanged, window.wbIdle) > 1500"
FRAMES = """() => {
  window.wbFrames = [];
  let last = performance.now();
  const frame = (now) => { window.wbFrames.push(now - last); last = now; if (window.wbFrames) requestAnimationFrame(frame); };
  requestAnimationFrame(frame);
}"""
CLICK = """([button, scrub]) => new Promise((done) => {
  const wanted = String(Number(scrub.value) + 1);
  const start = performance.now();
  const look = () => (scrub.value === wanted ? requestAnimationFrame(() => done(performance.now() - start)) : requestAnimationFrame(look));
  button.click();
  look();
})"""


def step_latency(lab: Lab, view: Locator, steps: int = 40) -> list[float]:
    """Milliseconds from the click on Next to the frame that shows the step."""
    scrub, button = view.get_by_test_id("wb-scrub").element_handle(), view.get_by_test_id("wb-next").element_handle()
    return [lab.page.evaluate(CLICK, [button, scrub]) for _ in range(steps)]


BUDGETS = {"8,461 ops of an LSTM": 1000, "2,000 nodes of GPT-2 XL": 1000, "65,000 scalars of the moons": 2000}

EXPAND = """(view) => {
  const root = view.getRootNode();
  const taken = [];
  for (let n = 0; n < 12; n++) {
    const toggles = [...root.querySelectorAll(".wb-box.closed [data-toggle]")];
    const toggle = toggles[(n * 7) % Math.max(1, toggles.length)];
    if (!toggle) break;
    const id = toggle.dataset.toggle;
    const began = performance.now();
    toggle.dispatchEvent(new MouseEvent("click", { bubbles: true, composed: true }));
    taken.push(performance.now() - began);
    root.querySelector(`[data-toggle="${id}"]`)?.dispatchEvent(new MouseEvent("click", { bubbles: true, composed: true }));
  }
  return taken;
}"""


def frames(lab: Lab, view: Locator, zoom: bool) -> list[float]:
    """Milliseconds between frames while the graph is dragged to and fro, or zoomed in and out."""
    box = view.get_by_test_id("wb-graph").bounding_box()
    assert box is not None
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] - 12
    mouse = lab.page.mouse
    mouse.move(x, y)
    if zoom:
        lab.page.keyboard.down("Control")
    else:
        mouse.down()
    lab.page.evaluate(FRAMES)
    for i in range(90):
        if zoom:
            mouse.wheel(0, 60 if (i // 10) % 2 else -60)
        else:
            mouse.move(x + 120 * ((i // 15) % 2 * 2 - 1) * (i % 15) / 15, y - 60 * (i % 10) / 10)
    found = lab.page.evaluate("() => { const all = window.wbFrames; window.wbFrames = null; return all; }")
    if zoom:
        lab.page.keyboard.up("Control")
    else:
        mouse.up()
    return found[2:]


def close_up(lab: Lab, view: Locator) -> dict[str, Any]:
    """Frames while the graph is dragged at a size to read it, when headers of open groups stand at the window's edges."""
    box = view.get_by_test_id("wb-graph").bounding_box()
    assert box is not None
    lab.page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    lab.page.keyboard.press("Space")
    lab.page.keyboard.down("Control")
    lab.page.mouse.wheel(0, -1250)  # from 0.04 to 0.9 of life size
    lab.page.keyboard.up("Control")
    expect(view.locator(".header.pinned").first).to_be_attached()
    return {"headers at the edge": view.locator(".header.pinned").count(), "pan, close, ms": middle(frames(lab, view, zoom=False))}


def middle(values: list[float]) -> dict[str, float]:
    ordered = sorted(values)
    return {"median": round(statistics.median(ordered), 1), "p95": round(ordered[int(len(ordered) * 0.95)], 1)}


def run(lab: Lab, index: int) -> None:
    lab.page.evaluate("(i) => { window.jupyterapp.shell.currentWidget.content.activeCellIndex = i; }", index)
    lab.command("notebook:run-cell")
    lab.wait_idle()


def shown(lab: Lab, index: int) -> tuple[Locator, dict[str, Any]]:
    """Runs a recorded cell; its view, and what it took to show it and to open groups of it."""
    lab.page.evaluate(WATCH_CHANGES)
    run(lab, index)
    lab.page.wait_for_function(QUIET)
    took = lab.page.evaluate("() => Math.max(0, window.wbChanged - window.wbIdle)")
    blocked = lab.page.evaluate("() => Math.max(0, ...window.wbTasks.map(([start, length]) => length))")
    view = view_of(lab, index)
    boxes = view.get_by_test_id("wb-node").count()
    expand = view.get_by_test_id("wb-graph").evaluate(EXPAND)
    assert expand, "no closed group is in sight"
    found = {
        "ops": view.get_by_text(" ops", exact=False).first.inner_text(),
        "boxes drawn": boxes,
        "shown after the cell, ms": round(took),
        "main thread blocked at most, ms": round(blocked),
        "expand, ms": {"median": round(statistics.median(expand), 1), "worst": round(max(expand), 1)},
    }
    return view, found


def measure(lab: Lab) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for number, ((name, budget), cell) in enumerate(zip(BUDGETS.items(), (LSTM, GPT, MOONS), strict=True)):
        lab.open(SETUP, cell, name=f"view{number}.ipynb")
        run(lab, 0)
        view, numbers = shown(lab, 1)
        found[name] = {**numbers, "budget of showing, ms": budget}
        if cell is GPT:  # everything of GPT-2 XL opened: near the cap of 2,000 boxes
            graph = view.get_by_test_id("wb-graph")
            graph.locator('[data-group="0"]').dispatch_event("click")  # the model, around everything
            lab.page.keyboard.press("*")
            lab.page.keyboard.press("Space")
            found["frames, all of GPT-2 XL open"] = {
                "boxes": int(graph.get_attribute("data-boxes") or 0),
                "pan, all in sight, ms": middle(frames(lab, view, zoom=False)),
                "zoom, ms": middle(frames(lab, view, zoom=True)),
                **close_up(lab, view),
            }
    lab.open(SETUP, STEP, name="step.ipynb")
    run(lab, 0)
    run(lab, 1)
    stepped = view_of(lab, 1)
    expect(stepped.get_by_test_id("wb-next")).to_be_enabled()
    steps = step_latency(lab, stepped)
    found["step, click to redraw, ms"] = {"median": round(statistics.median(steps), 1), "worst": round(max(steps), 1)}
    found["step of a paused cell, click to redraw, ms"] = paused(lab)
    return found


def paused(lab: Lab) -> dict[str, float]:
    """The same while a running cell waits inside its own `backward()`: each click lets it go on by one step."""
    lab.open(SETUP, PAUSED, name="paused.ipynb")
    run(lab, 0)
    lab.page.evaluate("() => { window.jupyterapp.shell.currentWidget.content.activeCellIndex = 1; }")
    lab.command("notebook:run-cell")
    view = view_of(lab, 1)
    expect(view.get_by_test_id("wb-next")).to_be_enabled()
    steps = step_latency(lab, view)
    view.get_by_test_id("wb-last").click()
    lab.wait_idle()
    return {"median": round(statistics.median(steps), 1), "worst": round(max(steps), 1)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    with opened_lab(1400, 900) as lab:
        found = measure(lab)
    for name, value in found.items():
        print(f"{name}: {value}")
    if args.json:
        args.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
