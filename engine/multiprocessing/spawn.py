"""`spawn`: run a function in several processes, and report their errors."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from multiprocessing import connection
from typing import Any

from .reductions import Portable


class ProcessException(Exception):
    """Base class of errors in a process started by `spawn`."""

    def __init__(self, msg: str, error_index: int, pid: int) -> None:
        super().__init__(msg)
        self.msg, self.error_index, self.pid = msg, error_index, pid

    def __reduce__(self) -> tuple:
        return type(self), (self.msg, self.error_index, self.pid)


class ProcessRaisedException(ProcessException):
    """The function raised in process `error_index`; the message contains that process's traceback."""

    def __init__(self, msg: str, error_index: int, error_pid: int) -> None:
        super().__init__(msg, error_index, error_pid)


class ProcessExitedException(ProcessException):
    """Process `error_index` exited with a non-zero code or was killed by a signal."""

    def __init__(self, msg: str, error_index: int, error_pid: int, exit_code: int, signal_name: str | None = None) -> None:
        super().__init__(msg, error_index, error_pid)
        self.exit_code, self.signal_name = exit_code, signal_name

    def __reduce__(self) -> tuple:
        return type(self), (self.msg, self.error_index, self.pid, self.exit_code, self.signal_name)


def _run(work: Portable, index: int, error_file: str) -> None:
    """Run the function in a child process; if it raises, write the traceback to a file for the parent."""
    fn, args = work.content
    try:
        fn(index, *args)
    except KeyboardInterrupt:
        pass  # the parent gets it, too, and reports it
    except Exception as error:
        with open(error_file, "wb") as file:
            pickle.dump(traceback.format_exc(), file)
        if distributed := sys.modules.get("engine.distributed.world"):
            distributed.tell_failure(error)
        sys.exit(1)


class ProcessContext:
    """The processes started by `spawn(..., join=False)`; `join` waits for them."""

    def __init__(self, processes: list, error_files: list[str]) -> None:
        self.processes, self.error_files = processes, error_files
        self.sentinels = {process.sentinel: i for i, process in enumerate(processes)}

    def pids(self) -> list[int | None]:
        """Return the process IDs."""
        return [process.pid for process in self.processes]

    def join(self, timeout: float | None = None, grace_period: float | None = None) -> bool:
        """Wait for the next process to end. Return True once all have ended successfully, False while some are running.

        If one fails, the others are terminated, and killed if they still run after `grace_period` seconds (default 30). Raises
        ProcessRaisedException or ProcessExitedException, which name the process and the cause.
        """
        if not self.sentinels:
            return True
        ready = connection.wait(list(self.sentinels), timeout)
        failed = None
        for sentinel in ready:
            i = self.sentinels.pop(sentinel)  # type: ignore[arg-type]
            self.processes[i].join()
            if self.processes[i].exitcode != 0 and failed is None:
                failed = i
        if failed is None:
            if not self.sentinels:
                self._forget_files()
                return True
            return False
        self._end_others(30.0 if grace_period is None else grace_period)
        try:
            raise self._error(failed)
        finally:
            self._forget_files()

    def _end_others(self, grace: float) -> None:
        for process in self.processes:
            if process.is_alive():
                process.terminate()
        end = time.monotonic() + grace
        for process in self.processes:
            process.join(max(0.0, end - time.monotonic()))
            if process.is_alive():
                process.kill()
                process.join()

    def _error(self, i: int) -> ProcessException:
        process = self.processes[i]
        if os.path.getsize(self.error_files[i]):
            with open(self.error_files[i], "rb") as file:
                text = pickle.load(file)  # written by our own child to a file that only this user can write
            return ProcessRaisedException(
                f"\n\n-- Process {i} terminated with the following error:\n{text}", error_index=i, error_pid=process.pid
            )
        code = process.exitcode
        if code < 0:
            try:
                name = signal.Signals(-code).name
            except ValueError:
                name = f"<Unknown signal {-code}>"
            message = f"process {i} terminated with signal {name}"
            return ProcessExitedException(message, error_index=i, error_pid=process.pid, exit_code=code, signal_name=name)
        message = f"process {i} terminated with exit code {code}"
        return ProcessExitedException(message, error_index=i, error_pid=process.pid, exit_code=code)

    def _forget_files(self) -> None:
        for name in self.error_files:
            if os.path.exists(name):
                os.unlink(name)


SpawnContext = ProcessContext


def start_processes(
    fn: Callable, args: tuple = (), nprocs: int = 1, join: bool = True, daemon: bool = False, start_method: str = "spawn"
) -> ProcessContext | None:
    """Like `spawn`, with a choice of start method: "fork", "forkserver" or "spawn"."""
    context: Any = multiprocessing.get_context(start_method)
    work = Portable((fn, args))
    processes, files = [], []
    try:
        for i in range(nprocs):
            handle, name = tempfile.mkstemp(prefix="engine-spawn-", suffix=".pickle")
            os.close(handle)
            files.append(name)
            process = context.Process(target=_run, args=(work, i, name), daemon=daemon)
            process.start()
            processes.append(process)
    except BaseException:
        ProcessContext(processes, files)._end_others(5.0)
        for name in files:
            os.unlink(name)
        raise
    started = ProcessContext(processes, files)
    if not join:
        return started
    try:
        while not started.join():
            pass
    except KeyboardInterrupt:
        started._end_others(5.0)
        started._forget_files()
        raise
    return None


def spawn(
    fn: Callable, args: tuple = (), nprocs: int = 1, join: bool = True, daemon: bool = False, start_method: str = "spawn"
) -> ProcessContext | None:
    """Run `fn(i, *args)` in `nprocs` processes, i from 0, and wait for them; `join=False` returns a `ProcessContext` at once.

    If one fails, the others are terminated, and ProcessRaisedException with its traceback is raised (ProcessExitedException if it was
    killed or called `sys.exit`). Tensors in `args` are shared with the processes. Functions defined in a notebook are supported.
    """
    return start_processes(fn, args, nprocs, join, daemon, start_method)
