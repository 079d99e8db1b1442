"""DataLoader: batches of a dataset, fetched in this process or by worker processes."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable, Iterator
from multiprocessing import connection
from typing import Any

from . import worker as workers
from .collate import default_collate, default_convert
from .dataset import IterableDataset
from .fetch import fetcher
from .sampler import BatchSampler, RandomSampler, SequentialSampler
from .stream import draw_seed


class _Endless:
    """The sampler of a stream: it only says that more is wanted."""

    def __iter__(self) -> Iterator[None]:
        while True:
            yield None


class DataLoader:
    """Batches of a dataset: `for batch in DataLoader(dataset, batch_size=32, shuffle=True)`.

    `batch_size=None` turns batching off. With `num_workers` > 0 that many processes fetch ahead; the order of the batches stays that of
    the sampler, and equal seeds give equal batches. A worker's exception is raised here with its traceback; a worker that dies is
    reported. Workers start by "forkserver" unless `multiprocessing_context` says otherwise: scripts need `if __name__ == "__main__":`.
    `pin_memory` is accepted and changes nothing. Arguments as `torch.utils.data.DataLoader`.
    """

    def __init__(
        self, dataset: Any, batch_size: int | None = 1, shuffle: bool | None = None, sampler: Any = None, batch_sampler: Any = None,
        num_workers: int = 0, collate_fn: Callable | None = None, pin_memory: bool = False, drop_last: bool = False, timeout: float = 0,
        worker_init_fn: Callable[[int], None] | None = None, multiprocessing_context: Any = None, generator: Any = None, *,
        prefetch_factor: int | None = None, persistent_workers: bool = False, pin_memory_device: str = "", in_order: bool = True,
    ):  # fmt: skip
        if num_workers < 0:
            raise ValueError("num_workers option should be non-negative; use num_workers=0 to disable multiprocessing.")
        if timeout < 0:
            raise ValueError("timeout option should be non-negative")
        if num_workers == 0 and prefetch_factor is not None:
            raise ValueError("prefetch_factor option could only be specified with worker processes: expected num_workers > 0, got 0")
        if prefetch_factor is not None and prefetch_factor < 0:
            raise ValueError("prefetch_factor option should be non-negative")
        if persistent_workers and num_workers == 0:
            raise ValueError("persistent_workers option needs num_workers > 0")
        self.dataset, self.num_workers, self.timeout, self.worker_init_fn = dataset, num_workers, timeout, worker_init_fn
        self.prefetch_factor = 2 if num_workers and prefetch_factor is None else prefetch_factor
        self.pin_memory, self.pin_memory_device, self.persistent_workers, self.in_order = (
            pin_memory,
            pin_memory_device,
            persistent_workers,
            in_order,
        )
        self.multiprocessing_context, self.generator = multiprocessing_context, generator
        self._streams = isinstance(dataset, IterableDataset)
        if self._streams:
            if shuffle not in (False, None):
                raise ValueError(f"DataLoader with IterableDataset: expected unspecified shuffle option, but got shuffle={shuffle}")
            for name, given in (("sampler", sampler), ("batch_sampler", batch_sampler)):
                if given is not None:
                    raise ValueError(f"DataLoader with IterableDataset: expected unspecified {name} option, but got {name}={given}")
        if sampler is not None and shuffle:
            raise ValueError("sampler option is mutually exclusive with shuffle")
        if batch_sampler is not None:
            if batch_size != 1 or shuffle or sampler is not None or drop_last:
                raise ValueError("batch_sampler option is mutually exclusive with batch_size, shuffle, sampler, and drop_last")
            batch_size, drop_last = None, False
        elif batch_size is None and drop_last:
            raise ValueError("batch_size=None option disables auto-batching and is mutually exclusive with drop_last")
        if sampler is None:
            if self._streams:
                sampler = _Endless()
            else:
                sampler = RandomSampler(dataset, generator=generator) if shuffle else SequentialSampler(dataset)
        if batch_size is not None and batch_sampler is None:
            batch_sampler = BatchSampler(sampler, batch_size, drop_last)
        self.batch_size, self.drop_last, self.sampler, self.batch_sampler = batch_size, drop_last, sampler, batch_sampler
        self.collate_fn = collate_fn if collate_fn is not None else (default_collate if batch_sampler is not None else default_convert)
        self._team: _Team | None = None

    @property
    def _batched(self) -> bool:
        return self.batch_sampler is not None

    def _order(self) -> Any:
        return self.batch_sampler if self._batched else self.sampler

    def __len__(self) -> int:
        if not self._streams:
            return len(self._order())
        n = len(self.dataset)
        if self.batch_size is None:
            return n
        return n // self.batch_size if self.drop_last else -(-n // self.batch_size)

    def __iter__(self) -> Iterator[Any]:
        seed = draw_seed(self.generator)  # drawn first and always, as PyTorch does, whether or not anybody uses it
        if self.num_workers == 0:
            return self._here()
        team, self._team = self._team, None
        if team is not None and team.idle:
            team.again()
        else:
            if team is not None:
                team.stop()
            team = _Team(self, seed)
        team.idle = False
        if self.persistent_workers:
            self._team = team
        return self._from(team)

    def _here(self) -> Iterator[Any]:
        source = fetcher(self.dataset, self._streams, self._batched, self.collate_fn, self.drop_last)
        for indices in self._order():
            try:
                batch = source.fetch(indices)
            except StopIteration:
                if self._streams:
                    return
                raise
            yield batch

    def _from(self, team: _Team) -> Iterator[Any]:
        try:
            yield from team.batches(iter(self._order()))
        finally:
            if not (self.persistent_workers and team.idle):
                team.stop()

    def __del__(self) -> None:
        team = getattr(self, "_team", None)
        if team is not None:
            team.stop()


class _Team:
    """The worker processes of one pass (or, when they persist, of all): who does what, and what has come back."""

    def __init__(self, loader: DataLoader, seed: int) -> None:
        context: Any = loader.multiprocessing_context
        if context is None or isinstance(context, str):
            methods = multiprocessing.get_all_start_methods()
            name = context or ("forkserver" if "forkserver" in methods else "spawn")
            if name not in methods:
                raise ValueError(
                    f"multiprocessing_context option should specify a valid start method in {methods!r}, "
                    f"but got multiprocessing_context={name!r}"
                )
            context = multiprocessing.get_context(name)
            if name == "forkserver":
                context.set_forkserver_preload(["engine.data.worker"])
        blob = workers.pack((loader.dataset, loader._streams, loader._batched, loader.collate_fn, loader.drop_last, loader.worker_init_fn))
        self.timeout, self.ahead, self.idle = loader.timeout, loader.prefetch_factor or 1, True
        self.pipes: list[Any] = []
        self.processes: list[Any] = []
        try:
            for i in range(loader.num_workers):
                mine, theirs = context.Pipe()
                process = context.Process(target=workers.main, args=(theirs, blob, i, loader.num_workers, seed + i), daemon=True)
                process.start()
                theirs.close()
                self.pipes.append(mine)
                self.processes.append(process)
        except BaseException:
            self.stop()
            raise

    def again(self) -> None:
        """Start another pass with the same processes."""
        for i in range(len(self.pipes)):
            self._send(i, workers.AGAIN)

    def batches(self, tasks: Iterator[Any]) -> Iterator[Any]:
        """The batches in the order of the tasks; task n goes to the next worker in turn that still has samples."""
        n = len(self.pipes)
        given, wanted = 0, 0
        where: dict[int, int] = {}  # task -> the worker that has it
        arrived: dict[int, Any] = {}
        ended = [False] * n
        turn, more = 0, True
        while True:
            while more and not all(ended) and given - wanted < self.ahead * n:
                try:
                    indices = next(tasks)
                except StopIteration:
                    more = False
                    break
                while ended[turn]:
                    turn = (turn + 1) % n
                self._send(turn, (given, indices))
                where[given], given, turn = turn, given + 1, (turn + 1) % n
            if wanted == given:
                break
            while wanted not in arrived:
                number, result = self._receive(where)
                if isinstance(result, workers.End):
                    ended[where[number]] = True
                arrived[number] = result
            result = arrived.pop(wanted)
            del where[wanted]
            wanted += 1
            if isinstance(result, workers.Failure):
                result.reraise()
            if not isinstance(result, workers.End):
                yield result
        self.idle = True

    def _send(self, i: int, task: Any) -> None:
        try:
            self.pipes[i].send_bytes(workers.pack(task))
        except (BrokenPipeError, ConnectionError):
            raise self._death(i) from None

    def _receive(self, where: dict[int, int]) -> Any:
        waited_for = sorted(set(where.values()))
        deadline = time.monotonic() + self.timeout if self.timeout else None
        ready = connection.wait([self.pipes[i] for i in waited_for], None if deadline is None else max(0.0, deadline - time.monotonic()))
        if not ready:
            raise RuntimeError(f"DataLoader timed out after {self.timeout} seconds")
        i = self.pipes.index(ready[0])
        try:
            return workers.pickle_loads(self.pipes[i].recv_bytes())
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
        """End the processes: politely, then by force."""
        for pipe in self.pipes:
            pipe.close()
        for process in self.processes:
            process.join(0.2)
            if process.is_alive():
                process.terminate()
                process.join(2.0)
            if process.is_alive():
                process.kill()
                process.join()
        self.pipes, self.processes = [], []
