"""With `--cpu-times N`: where a run's time goes, for the N files that took most CPU time. A busy machine changes that little."""

from __future__ import annotations

import os
import time
from collections.abc import Generator
from pathlib import Path

import pytest

BEGUN = pytest.StashKey[tuple[float, float, float]]()
PROC = Path("/proc")  # Linux; elsewhere processes are counted when they have ended


def seconds_of(pid: str) -> float:
    """The CPU time of a process and of those below it, ended ones included."""
    try:
        fields = (PROC / pid / "stat").read_text().rpartition(")")[2].split()
        below = [child for task in (PROC / pid / "task").iterdir() for child in (task / "children").read_text().split()]
    except OSError:  # it has ended meanwhile
        return 0.0
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK") + sum(map(seconds_of, below))


def spent() -> tuple[float, float, float]:
    """Seconds since some moment: on the clock, of this process, and of all that it has started."""
    own = time.process_time()
    if PROC.is_dir():
        return time.perf_counter(), own, seconds_of(str(os.getpid())) - own
    import resource  # not on Windows

    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.perf_counter(), own, ended.ru_utime + ended.ru_stime


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--cpu-times", type=int, default=0, metavar="N", help="show the time of the N files that took most CPU")


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, None, None]:
    if item.config.option.cpu_times:
        item.stash[BEGUN] = spent()
    return (yield)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, None, None]:
    yield
    if begun := item.stash.get(BEGUN, None):
        # What a browser used is lost with it, where its parent does not wait for all of its processes.
        item.user_properties.append(("spent", [max(0.0, after - before) for before, after in zip(begun, spent(), strict=True)]))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    files: dict[str, list[float]] = {}
    for report in [one for kind in terminalreporter.stats.values() for one in kind if getattr(one, "when", "") == "teardown"]:
        file = report.nodeid.partition("::")[0]
        times = dict(report.user_properties).get("spent", [0.0, 0.0, 0.0])
        files[file] = [sum(both) for both in zip(files.get(file, [0.0, 0.0, 0.0]), times, strict=True)]
    most = sorted(files.items(), key=lambda one: -sum(one[1][1:]))[: terminalreporter.config.option.cpu_times]
    for file, (clock, own, started) in most:
        terminalreporter.write_line(
            f"{own + started:8.1f} s of CPU, {started:6.1f} s of them in other processes, {clock:7.1f} s on the clock: {file}"
        )
