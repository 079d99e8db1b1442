"""What runs in a DataLoader's worker process: receive indices, fetch, send batches."""

from __future__ import annotations

import queue
import random as python_random
import signal
import sys
import threading
import traceback
from multiprocessing import connection, parent_process, reduction
from pickle import PicklingError
from pickle import dumps as pickle_dumps
from pickle import loads as pickle_loads
from typing import Any

import numpy

from ..base import observe
from ..core import random
from . import collate
from .fetch import StreamFetcher, _DatasetKind
from .slots import Slots


class WorkerInfo:
    """What a worker knows about itself: `id`, `num_workers`, `seed`, and its copy of the `dataset`."""

    def __init__(self, **known: Any):
        self.__dict__.update(known)

    def __repr__(self) -> str:
        return f"WorkerInfo({', '.join(f'{k}={v!r}' for k, v in self.__dict__.items())})"


_info: WorkerInfo | None = None


def get_worker_info() -> WorkerInfo | None:
    """Which worker this process is; None in the main process."""
    return _info


class Failure:
    """An exception on its way to the main process."""

    def __init__(self, error: BaseException, where: str):
        self.kind, self.where = type(error), where
        self.text = "".join(traceback.format_exception(type(error), error, error.__traceback__))

    def reraise(self) -> None:
        """Raise it again, of the same type where that takes a message, with the worker's traceback in the message."""
        message = f"Caught {self.kind.__name__} {self.where}.\nOriginal {self.text}"
        if self.kind is KeyError:
            raise KeyError(_Text(message))
        try:
            error = self.kind(message)
        except Exception:  # it takes something else than a message
            error = RuntimeError(message)
        raise error


class _Text(str):
    """A message that KeyError does not quote."""

    def __repr__(self) -> str:
        return str(self)


class End:
    """The worker's stream has no more samples."""


AGAIN = "again"  # the message that starts another epoch in a worker that stays


def pack(x: Any) -> bytes:
    """A pickle; classes and functions defined in a notebook travel whole."""
    import cloudpickle

    return cloudpickle.dumps(x)


def pack_task(x: Any) -> bytes:
    """Indices are plain data nearly always, which the standard pickler is fastest at."""
    try:
        return pickle_dumps(x, protocol=5)
    except (PicklingError, AttributeError, TypeError):
        return pack(x)


def seed_all(base_seed: int, worker: int) -> int:
    """Seed the engine's, Python's and NumPy's random numbers as PyTorch does in a worker; the first two seeds are what is returned."""
    seed = base_seed + worker
    random.manual_seed(seed)
    python_random.seed(seed)
    numpy.random.seed(numpy.random.SeedSequence([worker, base_seed & 0xFFFFFFFF, base_seed >> 32, 0]).generate_state(4))
    return seed


def main(pipe: Any, parts: Any, worker: int, workers: int, base_seed: int) -> None:
    """Serve until the main process says stop, closes the pipe, or is gone. `parts`: what to fetch from, or a pickle of it."""
    global _info
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the main process's: it ends its workers
    observe.current = None  # who watched there cannot be told here
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
    except Exception as error:  # told to the main process with the first batch that it asks for
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
    """Send batches from a thread of its own, so that a full pipe does not stop the next fetch."""
    while (message := outbox.get()) is not None:
        data, segment = message
        del message
        try:
            pipe.send_bytes(data)
            if segment is not None:
                reduction.send_handle(pipe, segment.fd, None)  # type: ignore[attr-defined]
        except (BrokenPipeError, ConnectionError, OSError):
            sys.exit()  # nobody reads any more; this ends the thread, the loop ends by itself
