"""A class on one machine: students who arrive together, run lesson 1 and step through it, on the hub of docs/hub.md.

    sudo make hub ARGS="--students 30 [--arrive 60] [--think 5] [--browser] [--json FILE]"

Each student logs in, loads JupyterLab's page with its files, starts a kernel, and runs the lesson cell by cell, thinking a while before
each. Each view that appears is connected as a browser does it, and its backward pass is stepped to the end and back. With `--browser` one
more student does so in a real Chromium, on the same machine. Memory is what a student adds once the lesson is done: the proportional set
sizes of the server and of the kernel.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import pwd
import random
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import nbformat

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), *(str(ROOT / "tests" / name) for name in ("", "hub", "browser"))]

from hubs import PASSWORD, Hub, Student, running_hub, views  # noqa: E402

LESSON = "01_watch_a_network_learn.ipynb"
Times = dict[str, list[float]]


def read() -> nbformat.NotebookNode:
    return nbformat.read(ROOT / "notebooks" / LESSON, as_version=4)


async def lesson(student: Student, arrives: float, think: float, assets: list[str], times: Times) -> None:
    """One student's lesson."""
    await asyncio.sleep(arrives)
    begun, drawn = time.monotonic(), False

    def note(what: str, since: float) -> None:
        times[what].append(time.monotonic() - since)

    await student.log_in()
    await student.open_lab(assets)
    note("login to JupyterLab's page, s", begun)
    await student.start_kernel(LESSON)
    note("login to kernel, s", begun)
    for cell in (one for one in read().cells if one.cell_type == "code"):
        if drawn:
            await asyncio.sleep(random.expovariate(1 / think))
        since = time.monotonic()
        status, published = await student.run(cell.source)
        if status != "ok":
            raise RuntimeError(f"{student.name}, cell {cell.id}: {status}")
        for view in views(published):
            await student.graph(view)
            if not drawn:
                drawn = True
                note("login to the first picture, s", begun)
            elif cell.source.startswith("%%watch"):
                note("a watched cell and its picture, s", since)
        if cell.source.startswith("wb.step"):
            await step_through(student, views(published)[0], think, note)
    note("login to the end of the lesson, s", begun)


async def step_through(student: Student, view: str, think: float, note: Any) -> None:
    """Step a backward pass to its end, and back to its start."""
    for move, ends in (("next", lambda at: at["done"]), ("previous", lambda at: at["index"] == 0)):
        answer = {"done": False, "index": -1}
        while not ends(answer):
            await asyncio.sleep(random.expovariate(5 / think))
            since = time.monotonic()
            answer = await student.ask(view, type="step", do=move)
            note("a step, s", since)


async def in_chromium(hub: Hub, name: str, times: Times, what: str, picture: Path | None = None) -> list[str]:
    """The first picture of a student in Chromium, from the login; returns the paths of the files that the browser loaded."""
    from playwright.async_api import async_playwright
    from real_lab import FLAGS, NO_HINTS, find_chromium

    paths: list[str] = []
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=find_chromium(), args=list(FLAGS))
        page = await browser.new_page(viewport={"width": 1280, "height": 800})
        page.set_default_timeout(600_000)
        await page.add_init_script(NO_HINTS)
        page.on("request", lambda request: paths.append(request.url) if request.method == "GET" else None)
        await page.goto(f"{hub.url}/hub/login")
        await page.locator("#username_input").fill(name)
        await page.locator("#password_input").fill(PASSWORD)
        begun = time.monotonic()
        await page.locator("#login_submit").click()
        await page.locator(".jp-Notebook .jp-CodeCell").first.wait_for()
        await page.locator(".jp-Notebook-ExecutionIndicator[data-status=idle]").first.wait_for()
        await page.locator(".jp-Notebook .jp-MarkdownCell").first.click()
        view = page.locator(".gradient-workbench").first.get_by_test_id("wb-node").first
        while not await view.is_visible():
            if await page.locator(".jp-Notebook-ExecutionIndicator[data-status=idle]").count():
                await page.keyboard.press("Shift+Enter")
            await page.wait_for_timeout(200)
        times[what].append(time.monotonic() - begun)
        if picture:
            await page.wait_for_timeout(1000)
            await page.screenshot(path=picture)
        await browser.close()
    home = f"{hub.url}/user/{name}"
    return sorted({path.removeprefix(home) for path in paths if path.startswith((f"{home}/static/", f"{home}/lab/extensions/"))})


def memory(students: list[str]) -> Times:
    """Megabytes of each student's server and kernel: proportional set sizes."""
    found: Times = defaultdict(list)
    accounts = {pwd.getpwnam(name).pw_uid for name in students}
    for process in Path("/proc").iterdir():
        if not process.name.isdecimal() or process.stat().st_uid not in accounts:
            continue
        command = (process / "cmdline").read_bytes().decode().replace("\0", " ")
        what = "kernel, MB" if "ipykernel_launcher" in command else "server, MB" if "jupyterhub-singleuser" in command else "other, MB"
        size = next(line for line in (process / "smaps_rollup").read_text().splitlines() if line.startswith("Pss:"))
        found[what].append(int(size.split()[1]) / 1024)
    return found


def available() -> float:
    """Megabytes that the machine has left."""
    return int(next(line for line in Path("/proc/meminfo").read_text().splitlines() if line.startswith("MemAvailable")).split()[1]) / 1024


async def crowd(hub: Hub, names: list[str], options: argparse.Namespace) -> tuple[Times, Times]:
    """Run the class; return its times and its memory."""
    times: Times = defaultdict(list)
    assets: list[str] = []
    if options.browser:
        assets = await in_chromium(hub, "alone", times, "alone in Chromium: login to the first picture, s")
    before = lowest = available()
    students = [Student(hub, name) for name in names]
    arrivals = [options.arrive * i / max(1, len(names) - 1) for i in range(len(names))]
    work = [lesson(one, at, options.think, assets, times) for one, at in zip(students, arrivals)]

    async def watch() -> None:
        nonlocal lowest
        while True:
            lowest = min(lowest, available())
            await asyncio.sleep(1)

    async def among_them() -> None:
        await asyncio.sleep(options.arrive / 2)
        await in_chromium(hub, "among", times, "among them in Chromium: login to the first picture, s", options.picture)

    watching = asyncio.create_task(watch())
    await asyncio.gather(*work, *([among_them()] if options.browser else []))
    watching.cancel()
    used = memory(names)
    used["whole machine at most, MB"] = [before - lowest]
    for one in students:
        await one.close()
    return times, used


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--students", type=int, default=30)
    parser.add_argument("--arrive", type=float, default=60.0, help="seconds within which all of them log in")
    parser.add_argument("--think", type=float, default=5.0, help="seconds before each cell, on average; a fifth of it before each step")
    parser.add_argument("--browser", action="store_true", help="one more student in Chromium")
    parser.add_argument("--picture", type=Path, help="what that student sees")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    if os.geteuid():
        sys.exit("benchmarks/hub.py: run as root, since each student gets a Unix account")
    names = [f"student{i:02d}" for i in range(1, options.students + 1)]
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        with running_hub(Path(folder), [*names, "alone", "among"]) as hub:
            try:
                times, used = asyncio.run(crowd(hub, names, options))
            except BaseException:
                print(hub.log()[-5000:], file=sys.stderr)
                raise
    table = {}
    for what, values in {**times, **used}.items():
        ordered = sorted(values)
        row = {"median": statistics.median(ordered), "p95": ordered[min(len(ordered) - 1, int(0.95 * len(ordered)))], "most": ordered[-1]}
        table[what] = {"n": len(ordered)} | {name: round(value, 3) for name, value in row.items()}
        print(f"{what:55}" + "".join(f"{name} {value:9.2f}  " for name, value in row.items()) + f"n {len(ordered)}")
    if options.json:
        about = {"students": options.students, "arrive": options.arrive, "think": options.think, "cores": os.cpu_count()}
        options.json.write_text(json.dumps({"about": about, "figures": table}, indent=1) + "\n")


if __name__ == "__main__":
    main()
