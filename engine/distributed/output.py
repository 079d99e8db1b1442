"""Output of the processes started by `run`: to the terminal, to files, or both."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any, TextIO

STREAMS = ("stdout", "stderr")


def chosen(text: str, local: int, option: str) -> list[set[str]]:
    """Parse "0" (none), "1" (stdout), "2" (stderr), "3" (both) or "0:3,1:1" by rank; return the streams of each local process."""

    def streams(digit: str) -> set[str]:
        if digit not in ("0", "1", "2", "3"):
            raise ValueError(f'--{option}: expected 0, 1, 2 or 3, or a list such as "0:3,1:1", got {text!r}')
        return {name for bit, name in enumerate(STREAMS, 1) if int(digit) & bit}

    if ":" not in text:
        return [streams(text)] * local
    found: list[set[str]] = [set() for _ in range(local)]
    for part in text.split(","):
        rank, _, digit = part.partition(":")
        if not rank.isdigit() or int(rank) >= local:
            raise ValueError(f"--{option}: expected local ranks below {local}, got {rank!r} in {text!r}")
        found[int(rank)] = streams(digit)
    return found


class Output:
    """Implements `--redirects` (files only), `--tee` (files, and here with a prefix for each line) and `--log_dir`.

    Files are `<log_dir>/<job name>/attempt_<n>/<local rank>/stdout.log` and `stderr.log`.
    """

    def __init__(self, redirects: str, tee: str, log_dir: str | None, job: str, local: int) -> None:
        self._tees = chosen(tee, local, "tee")
        self._files = [a | b for a, b in zip(chosen(redirects, local, "redirects"), self._tees, strict=True)]
        self._root: Path | None = None
        if any(self._files):
            if log_dir is None:
                log_dir = tempfile.mkdtemp(prefix="engine-run-")
                print(f"engine.distributed.run: what the processes print is in {log_dir}", file=sys.stderr)
            self._root = Path(log_dir) / job
        self._open: list[Any] = []
        self._threads: list[threading.Thread] = []

    def of(self, i: int, attempt: int) -> dict[str, Any]:
        """Return the `stdout` and `stderr` arguments of Popen for local process i."""
        asked: dict[str, Any] = {}
        for name in self._files[i]:
            assert self._root is not None
            path = self._root / f"attempt_{attempt}" / str(i) / f"{name}.log"
            path.parent.mkdir(parents=True, exist_ok=True)
            if name in self._tees[i]:
                asked[name] = subprocess.PIPE
            else:
                asked[name] = path.open("wb")
                self._open.append(asked[name])
        return asked

    def follow(self, process: subprocess.Popen, i: int, attempt: int, label: str) -> None:
        """Copy the output of a started process to its file and here."""
        for name in self._tees[i]:
            assert self._root is not None
            path = self._root / f"attempt_{attempt}" / str(i) / f"{name}.log"
            thread = threading.Thread(target=_copy, args=(getattr(process, name), path, getattr(sys, name), label), daemon=True)
            thread.start()
            self._threads.append(thread)

    def close(self) -> None:
        """Wait for the copying threads after the processes have ended, but not for output of grandchildren."""
        for thread in self._threads:
            thread.join(5.0)
        for file in self._open:
            file.close()
        self._threads, self._open = [], []


def _copy(source: Any, path: Path, here: TextIO, label: str) -> None:
    with source, path.open("wb") as file:
        for line in source:
            file.write(line)
            file.flush()
            here.write(f"{label}{line.decode(errors='replace')}")
            here.flush()
