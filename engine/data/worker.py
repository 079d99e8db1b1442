"""What runs in a DataLoader's worker process: receive indices, fetch, send batches."""

from __future__ import annotations

import queue
import random as python_random
import sys
import threading
import traceback
from multiprocessing import connection, parent_process
from pickle import PicklingError
from pickle import dumps as pickle_dumps
from pickle import loads as pickle_loads
from typing import Any

import numpy

from .. import random
from .fetch import StreamFetcher, fetcher


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
        except TypeError:
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
    try:
        import cloudpickle
    except ImportError:
        return pickle_dumps(x, protocol=5)
    return cloudpickle.dumps(x)


def pack_batch(x: Any) -> bytes:
    """A batch is plain data nearly always, which the standard pickler is fastest at."""
    try:
        return pickle_dumps(x, protocol=5)
    except (PicklingError, AttributeError, TypeError):
        return pack(x)


def main(pipe: Any, blob: bytes, worker: int, workers: int, seed: int) -> None:
    """Serve until the main process says stop, closes the pipe, or is gone."""
    global _info
    outbox: queue.SimpleQueue = queue.SimpleQueue()
    sender = threading.Thread(target=_send, args=(pipe, outbox), daemon=True)
    sender.start()
    where = f"in DataLoader worker process {worker}"
    parts: Any = ()
    broken: Failure | None = None
    try:
        random.manual_seed(seed)
        python_random.seed(seed)
        numpy.random.seed(seed & 0xFFFFFFFF)
        *parts, init_fn = pickle_loads(blob)
        _info = WorkerInfo(id=worker, num_workers=workers, seed=seed, dataset=parts[0])
        if init_fn is not None:
            init_fn(worker)
    except Exception as error:  # told to the main process with the first batch that it asks for
        broken = Failure(error, where)
    source = broken or _source(parts, where)
    main_process = parent_process()
    sentinels = [main_process.sentinel] if main_process is not None else []
    while pipe in connection.wait([pipe, *sentinels]):
        try:
            task = pickle_loads(pipe.recv_bytes())
        except (EOFError, ConnectionError):
            return
        if task is None:
            break
        if task == AGAIN:
            source = broken or _source(parts, where)
            continue
        number, indices = task
        result = source if isinstance(source, Failure) else _fetch(source, indices, where)
        try:
            outbox.put(pack_batch((number, result)))
        except Exception as error:
            outbox.put(pack_batch((number, Failure(error, where))))
    outbox.put(None)
    sender.join()


def _source(parts: Any, where: str) -> Any:
    try:
        return fetcher(*parts)
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
        try:
            pipe.send_bytes(message)
        except (BrokenPipeError, ConnectionError, OSError):
            sys.exit()  # nobody reads any more; this ends the thread, the loop ends by itself
