"""The worker process of a DataLoader: receives indices, fetches samples, sends batches."""

from __future__ import annotations

import queue
import random as python_random
import signal
import sys
import threading
import traceback
from multiprocessing import connection, parent_process
from pickle import PicklingError
from pickle import dumps as pickle_dumps
from pickle import loads as pickle_loads
from typing import Any

import numpy

from ..base import observe
from ..core import random
from . import collate
from .fetch import StreamFetcher, _DatasetKind
from .slots import Slots, send_descriptor


class WorkerInfo:
    """Information about a worker: `id`, `num_workers`, `seed`, and its copy of the `dataset`."""

    def __init__(self, **known: Any):
        self.__dict__.update(known)

    def __repr__(self) -> str:
        return f"WorkerInfo({', '.join(f'{k}={v!r}' for k, v in self.__dict__.items())})"


_info: WorkerInfo | None = None


def get_worker_info() -> WorkerInfo | None:
    """Return information about this worker process; None in the main process."""
    return _info


class Failure:
    """An exception in transit to the main process."""

    def __init__(self, error: BaseException, where: str):
        self.kind, self.where = type(error), where
        self.text = "".join(traceback.format_exception(type(error), error, error.__traceback__))

    def reraise(self) -> None:
        """Raise an exception of the same type, or RuntimeError if that cannot be made from a message, containing the worker's traceback."""
        message = f"Caught {self.kind.__name__} {self.where}.\nOriginal {self.text}"
        if self.kind is KeyError:
            raise KeyError(_Text(message))
        try:
            error = self.kind(message)
        except Exception:  # the type needs other arguments
            error = RuntimeError(message)
        raise error


class _Text(str):
    """A string that KeyError shows without quotes."""

    def __repr__(self) -> str:
        return str(self)


class End:
    """Sent instead of a batch when the worker's stream is exhausted."""


AGAIN = "again"  # the message that starts another pass in a persistent worker


def pack(x: Any) -> bytes:
    """Pickle with cloudpickle, which includes the classes and functions defined in a notebook."""
    import cloudpickle

    return cloudpickle.dumps(x)


def pack_task(x: Any) -> bytes:
    """Pickle a task with the standard pickler, the fastest for plain data, or with cloudpickle if that fails."""
    try:
        return pickle_dumps(x, protocol=5)
    except (PicklingError, AttributeError, TypeError):
        return pack(x)


def seed_all(base_seed: int, worker: int) -> int:
    """Seed the engine's, Python's and NumPy's generators as PyTorch does in a worker; returns the seed of the first two."""
    seed = base_seed + worker
    random.manual_seed(seed)
    python_random.seed(seed)
    numpy.random.seed(numpy.random.SeedSequence([worker, base_seed & 0xFFFFFFFF, base_seed >> 32, 0]).generate_state(4))
    return seed


def main(pipe: Any, parts: Any, worker: int, workers: int, base_seed: int) -> None:
    """Serve tasks until the main process closes the pipe or exits.

    `parts` are the arguments of the fetcher and the worker's init function, or a pickle of them.
    """
    global _info
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is handled by the main process, which stops its workers
    observe.current = None  # the main process's observer cannot be notified from here
    outbox: queue.SimpleQueue = queue.SimpleQueue()
    sender = threading.Thread(target=_send, args=(pipe, outbox), daemon=True)
    sender.start()
    slots = Slots(share=True)
    where = f"in DataLoader worker process {worker}"
    broken: Failure | None = None
    try:
        seed = seed_all(base_seed, worker)
        *parts, init_fn = pickle_loads(parts) if isinstance(parts, bytes) else parts
        _info = WorkerInfo(id=worker, num_workers=workers, seed=seed, dataset=parts[1])
        if init_fn is not None:
            init_fn(worker)
    except Exception as error:  # reported to the main process in place of the first requested batch
        broken = Failure(error, where)
    collate.empty = slots.empty
    source = broken or _source(parts, where)
    main_process = parent_process()
    sentinels = [main_process.sentinel] if main_process is not None else []
    while pipe in connection.wait([pipe, *sentinels]):
        try:
            task = pickle_loads(pipe.recv_bytes())
        except (EOFError, ConnectionError):
            return
        if task == AGAIN:
            source = broken or _source(parts, where)
            continue
        number, indices, freed = task
        slots.freed(freed)
        slots.begin()
        result = source if isinstance(source, Failure) else _fetch(source, indices, where)
        try:
            outbox.put(slots.lay(number, result))
        except Exception as error:
            outbox.put(slots.lay(number, Failure(error, where)))
        del result
    outbox.put(None)
    sender.join()


def _source(parts: Any, where: str) -> Any:
    try:
        return _DatasetKind.create_fetcher(*parts)
    except Exception as error:
        return Failure(error, where)


def _fetch(source: Any, indices: Any, where: str) -> Any:
    try:
        return source.fetch(indices)
    except Exception as error:
        if isinstance(error, StopIteration) and isinstance(source, StreamFetcher):
            return End()
        return Failure(error, where)


def _send(pipe: Any, outbox: queue.SimpleQueue) -> None:
    """Send batches; runs in a separate thread, so that a full pipe does not block the next fetch."""
    while (message := outbox.get()) is not None:
        data, segment = message
        del message
        try:
            pipe.send_bytes(data)
            if segment is not None:
                send_descriptor(pipe, segment.fd)
        except (BrokenPipeError, ConnectionError, OSError):
            sys.exit()  # the reader is gone; this ends the thread, and the main loop ends by itself
