"""The worker processes of a DataLoader: starts and stops them, assigns tasks, and receives batches."""

from __future__ import annotations

import multiprocessing
import os
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import connection
from pickle import loads
from typing import Any

from ..core import devices
from . import worker as workers
from .slots import Leases


def default_method() -> str:
    """Return Python's start method, but "forkserver" instead of "fork" once a GPU was used: such a process cannot be forked."""
    method = multiprocessing.get_start_method()
    return "forkserver" if method == "fork" and devices.gpu is not None else method


def context_for(asked: Any) -> Any:
    """Return the multiprocessing context for the name of a start method, a context, or None."""
    if asked is not None and not isinstance(asked, str):
        return asked
    context = multiprocessing.get_context(asked or default_method())
    if context.get_start_method() == "forkserver":
        context.set_forkserver_preload(["engine.data.worker"])
    return context


@contextmanager
def _untold() -> Iterator[None]:
    """Suppress the warning of Python 3.12 and later for a fork of a process with threads, such as a notebook's.

    Not with `catch_warnings`, which resets Python's record of the warnings already shown: each epoch would show them again.
    """
    filters: Any = warnings.filters
    quiet = ("ignore", None, DeprecationWarning, None, 0)
    filters.insert(0, quiet)
    try:
        yield
    finally:
        if quiet in filters:
            filters.remove(quiet)


class Team:
    """The worker processes of one pass or, if they are persistent, of all passes."""

    def __init__(self, loader: Any, base_seed: int) -> None:
        context = context_for(loader.multiprocessing_context)
        parts: Any = (
            loader._dataset_kind,
            loader.dataset,
            loader._auto_collation,
            loader.collate_fn,
            loader.drop_last,
            loader.worker_init_fn,
        )
        if context.get_start_method() != "fork":
            parts = workers.pack(parts)
        self.timeout, self.ahead, self.in_order = loader.timeout, loader.prefetch_factor or 2, loader.in_order
        self._pid = os.getpid()
        self.pipes: list[Any] = []
        self.processes: list[Any] = []
        self.leases = [Leases() for _ in range(loader.num_workers)]
        self.given = 0  # number of tasks sent, in all passes
        self.current: Any = None  # weak reference to the active pass
        self.broken = self.failed = False  # unusable; the last error came from fetching, so later batches are available
        self._arrived: dict[int, Any] = {}
        try:
            for i in range(loader.num_workers):
                mine, theirs = context.Pipe()
                self.pipes.append(mine)
                process = context.Process(target=workers.main, args=(theirs, parts, i, loader.num_workers, base_seed), daemon=True)
                with _untold():
                    process.start()
                theirs.close()
                self.processes.append(process)
        except BaseException:
            self.stop()
            raise

    def begin(self, tasks: Iterator[Any]) -> None:
        """Begin a pass over `tasks` and send every worker its first tasks."""
        if self.given:
            for i in range(len(self.pipes)):
                self._send(i, workers.AGAIN)
        self._tasks, self._turn, self._more = tasks, 0, True
        self._first = self._wanted = self.given  # results with a lower number belong to an abandoned pass
        self._where: dict[int, int] = {}  # task -> the worker that has it
        self._arrived.clear()
        self._ended = [False] * len(self.pipes)
        self._give()

    def _give(self) -> None:
        """Send tasks, each to the next worker in turn that still has samples, until `ahead` per worker are pending."""
        n = len(self.pipes)
        while self._more and not all(self._ended) and len(self._where) < self.ahead * n:
            try:
                indices = next(self._tasks)
            except StopIteration:
                self._more = False
                return
            while self._ended[self._turn]:
                self._turn = (self._turn + 1) % n
            self._send(self._turn, (self.given, indices, self.leases[self._turn].returned()))
            self._where[self.given] = self._turn
            self.given, self._turn = self.given + 1, (self._turn + 1) % n

    def next(self) -> Any:
        """Return the batch of the next task or, without `in_order`, of any task. StopIteration when there are no more."""
        self.failed = False
        while self._where:
            wanted = self._wanted if self.in_order else next(iter(self._arrived), -1)
            while wanted not in self._arrived:
                number, result = self._receive()
                if number < self._first:
                    continue
                if isinstance(result, workers.End):
                    self._ended[self._where[number]] = True
                self._arrived[number] = result
                wanted = self._wanted if self.in_order else number
            result = self._arrived.pop(wanted)
            del self._where[wanted]
            self._wanted += 1
            self._give()
            self.failed = isinstance(result, workers.Failure)
            if self.failed:
                result.reraise()
            if not isinstance(result, workers.End):
                return result
        raise StopIteration

    def _send(self, i: int, task: Any) -> None:
        try:
            self.pipes[i].send_bytes(workers.pack_task(task))
        except (BrokenPipeError, ConnectionError):
            raise self._death(i) from None

    def _receive(self) -> Any:
        waited_for = sorted({i for number, i in self._where.items() if number not in self._arrived})
        deadline = time.monotonic() + self.timeout if self.timeout else None
        watched = [self.pipes[i] for i in waited_for]
        sentinels = {self.processes[i].sentinel: i for i in waited_for}
        ready = connection.wait([*watched, *sentinels], None if deadline is None else max(0.0, deadline - time.monotonic()))
        if not ready:
            raise RuntimeError(f"DataLoader timed out after {self.timeout} seconds")
        speaks = next((r for r in ready if r in watched), None)
        if speaks is None:
            raise self._death(sentinels[ready[0]])  # type: ignore[index]
        i = self.pipes.index(speaks)
        try:
            return self.leases[i].read(loads(self.pipes[i].recv_bytes()), self.pipes[i])
        except (EOFError, ConnectionError):
            raise self._death(i) from None

    def _death(self, i: int) -> RuntimeError:
        process = self.processes[i]
        process.join(1.0)
        code = process.exitcode
        hint = ""
        if code == 1:
            hint = ' Its own message stands above; a script that uses workers needs `if __name__ == "__main__":` around its main part.'
        elif code is not None and code < 0:
            hint = f" It was killed by signal {-code}; when that is 9, the machine may have run out of memory."
        return RuntimeError(f"DataLoader worker (pid(s) {process.pid}) exited unexpectedly with exit code {code}.{hint}")

    def stop(self) -> None:
        """Stop the processes: close the pipes, then terminate, then kill those still running."""
        if self._pid != os.getpid():
            return  # a forked child's copy
        self.broken = True
        for pipe in self.pipes:
            pipe.close()
        for patience, ask_again in ((0.2, "terminate"), (2.0, "kill")):  # seconds, for all processes together
            end = time.monotonic() + patience
            for process in self.processes:
                process.join(max(0.0, end - time.monotonic()))
            for process in self.processes:
                if process.is_alive():
                    getattr(process, ask_again)()
        for process in self.processes:
            process.join()
        self.pipes, self.processes = [], []
