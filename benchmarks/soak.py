"""A long training with the workbench watching: how much of its speed is left, and whether memory stays flat.

    python benchmarks/soak.py [--minutes 10] [--json FILE]          (needs Chromium and the test extra)

A real JupyterLab with the panel open; a cell under `%%watch` trains for so many minutes with its graph live. The recorder sees 8 seconds
of training, then is taken off for 4, and so on: their speeds are compared, so that the machine's noise meets both alike. Time counts from
when the recording is full. What the kernel and the page hold after the first minute is compared with what they hold at the end.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests"), str(ROOT / "tests" / "browser")]

from real_lab import Lab, opened_lab, wait_until  # noqa: E402

TRAINING = """%load_ext workbench
import json, time
from pathlib import Path
import engine, workbench as wb, workbench.recording.recorder
from engine import nn
from engine.base import observe
from engine.nn import functional as F
engine.manual_seed(0)
model = nn.Sequential(nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(),
                      nn.Flatten(), nn.Linear(32 * 16, 10))
optimizer = engine.optim.Adam(model.parameters())
x, y = engine.randn(128, 1, 8, 8), engine.randint(0, 10, (128,))

workbench.recording.recorder.PLENTY = 5000  # rows; then a recording is full, and soon on a busy machine too

def turn():
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()

def train(seconds):
    recorder, watched = observe.current, True
    while not recorder.resting:
        turn()
    Path("full").touch()
    noted, rates, begun = [], {True: [], False: []}, time.perf_counter()
    while time.perf_counter() - begun < seconds:
        steps, start = 0, time.perf_counter()
        observe.current = recorder if watched else None
        while (took := time.perf_counter() - start) < (8 if watched else 4):
            turn()
            steps += 1
        rates[watched].append(steps / took)
        watched = not watched
        status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
        noted.append(dict(seconds=time.perf_counter() - begun, kernel=int(status["VmRSS"].split()[0]) * 1024))
    observe.current = recorder
    Path("soak.json").write_text(json.dumps(dict(watched=rates[True], alone=rates[False], noted=noted)))"""
WATCHED = "%%watch\ntrain({seconds})"


def page_bytes(session: Any) -> dict[str, float]:
    """The page's JavaScript heap in bytes, and its DOM nodes."""
    session.send("HeapProfiler.collectGarbage")  # what is left is what is held
    metrics = {metric["name"]: metric["value"] for metric in session.send("Performance.getMetrics")["metrics"]}
    return {"heap": metrics["JSHeapUsedSize"], "nodes": metrics["Nodes"]}


def measured(lab: Lab, seconds: float) -> dict[str, Any]:
    """Trains for so many seconds with the page open; what was left of the speed, and what kernel and page held early and late."""
    first = min(60.0, seconds / 2)  # until then the page draws what came last
    lab.open(TRAINING, WATCHED.format(seconds=seconds))
    lab.page.evaluate("() => window.jupyterapp.commands.execute('gradient-workbench:open')")
    devtools = lab.page.context.new_cdp_session(lab.page)
    devtools.send("Performance.enable")
    lab.run_all(wait=False)
    file, page = lab.server.root / "soak.json", []
    wait_until((lab.server.root / "full").exists, lambda: f"the recording is not full: {lab.text(0)} {lab.text(1)}", 600)
    began = time.monotonic()
    while not file.exists():
        if time.monotonic() - began > seconds + 180:
            raise TimeoutError(f"the training has not ended: {lab.text(0)} {lab.text(1)}")
        page.append({"seconds": time.monotonic() - began, **page_bytes(devtools)})
        lab.page.wait_for_timeout(5000)
    lab.wait_idle(120)
    found = json.loads(file.read_text())
    speed = {name: statistics.median(found[name]) for name in ("watched", "alone")}
    kernel = [row["kernel"] for row in found["noted"] if row["seconds"] >= first]
    later = [row for row in page if row["seconds"] >= first]
    third = max(1, len(later) // 3)

    def least(rows: list[dict[str, float]], what: str) -> float:
        return min(row[what] for row in rows)  # what is left after a collection

    return {
        "minutes": seconds / 60,
        "steps_per_second": speed,
        "share_of_speed": speed["watched"] / speed["alone"],
        "kernel_bytes": {"after_first_minute": kernel[0], "end": kernel[-1]},
        "page_heap_bytes": {"first_third": least(later[:third], "heap"), "last_third": least(later[-third:], "heap")},
        "page_dom_nodes": {"first_third": least(later[:third], "nodes"), "last_third": least(later[-third:], "nodes")},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    with opened_lab(1440, 900) as lab:
        results = measured(lab, options.minutes * 60)
    print(json.dumps(results, indent=2))
    if options.json:
        options.json.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
