"""The view in a real JupyterLab and Chromium: a step from click to redraw, a recording of 8,000 ops shown, opened and panned.

    python benchmarks/view.py [--json FILE]          (needs Chromium and the test extra)

Chromium draws without a GPU here, which is the worst case. "shown" is the time from the end of the cell to the last change of the
picture; a pan frame is the time between two frames while the mouse drags the graph.
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

from conftest import Lab, opened_lab  # noqa: E402
from playwright.sync_api import Locator, expect  # noqa: E402
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
h = c = engine.zeros(4, 8)"""
LONG = """%%watch
for t in range(470):
    h, c = cell(xs[t], h, c)
loss = h.sum()"""
STEP = """h, c = engine.zeros(4, 8), engine.zeros(4, 8)
for t in range(5):
    h, c = cell(xs[t], h, c)
wb.step(h.sum())"""

WATCH_CHANGES = """() => {
  window.wbChanged = performance.now();
  window.wbIdle = null;
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


def pan_frames(lab: Lab, view: Locator) -> list[float]:
    """Milliseconds between frames while the graph is dragged to and fro."""
    box = view.get_by_test_id("wb-graph").bounding_box()
    assert box is not None
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] - 12
    mouse = lab.page.mouse
    mouse.move(x, y)
    mouse.down()
    lab.page.evaluate(FRAMES)
    for i in range(90):
        mouse.move(x + 120 * ((i // 15) % 2 * 2 - 1) * (i % 15) / 15, y - 60 * (i % 10) / 10)
    frames = lab.page.evaluate("() => { const all = window.wbFrames; window.wbFrames = null; return all; }")
    mouse.up()
    return frames[2:]


def run(lab: Lab, index: int) -> None:
    lab.page.evaluate("(i) => { window.jupyterapp.shell.currentWidget.content.activeCellIndex = i; }", index)
    lab.command("notebook:run-cell")
    lab.wait_idle()


def measure(lab: Lab) -> dict[str, Any]:
    lab.open(SETUP, LONG, STEP)
    run(lab, 0)
    lab.page.evaluate(WATCH_CHANGES)
    run(lab, 1)
    lab.page.wait_for_function(QUIET)
    shown = lab.page.evaluate("() => Math.max(0, window.wbChanged - window.wbIdle)")
    view = view_of(lab, 1)
    boxes = view.get_by_test_id("wb-node").count()
    frames = pan_frames(lab, view)
    run(lab, 2)
    stepped = view_of(lab, 2)
    expect(stepped.get_by_test_id("wb-next")).to_be_enabled()
    steps = step_latency(lab, stepped)
    return {
        "ops": view.get_by_text(" ops", exact=False).first.inner_text(),
        "boxes drawn": boxes,
        "shown after the cell, ms": shown,
        "pan frame, ms": {"median": statistics.median(frames), "p95": sorted(frames)[int(len(frames) * 0.95)]},
        "step, click to redraw, ms": {"median": statistics.median(steps), "worst": max(steps)},
    }


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
