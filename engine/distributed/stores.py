"""Stores: key-value tables through which processes find each other."""

from __future__ import annotations

import contextlib
import os
import random
import socket
import stat
import struct
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

from .errors import DistNetworkError, DistStoreError

DEFAULT_TIMEOUT = timedelta(seconds=300)


def _bytes(value: Any) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode()


class Store:
    """A key-value store shared by all processes of a job. Subclasses implement `_change`, `_look` and `list_keys`."""

    def __init__(self) -> None:
        self.timeout = DEFAULT_TIMEOUT

    def _change(self, key: str, fn: Callable[[bytes | None], bytes | None]) -> Any:
        """Atomically replace a key's value by `fn` of it, where None means missing, and return the new value."""
        raise NotImplementedError

    def _look(self, keys: Sequence[str], timeout: float) -> list[bytes] | None:
        """Return the values once all keys exist, or None after `timeout` seconds."""
        raise NotImplementedError

    def set_timeout(self, timeout: timedelta) -> None:
        """Set the timeout of `get` and `wait`."""
        self.timeout = timeout

    def set(self, key: str, value: Any) -> None:
        """Set a key to a string or bytes."""
        self._change(key, lambda _: _bytes(value))

    def get(self, key: str) -> bytes:
        """Wait for a key and return its value. Raises DistStoreError on timeout."""
        return self._awaited([key], self.timeout)[0]

    def add(self, key: str, amount: int) -> int:
        """Add to the counter under a key, which starts at 0, and return the sum."""
        return int(self._change(key, lambda old: str(int(old or 0) + int(amount)).encode()))

    def append(self, key: str, value: Any) -> None:
        """Append to a key's value."""
        self._change(key, lambda old: (old or b"") + _bytes(value))

    def compare_set(self, key: str, expected_value: Any, desired_value: Any) -> bytes:
        """Set a key if it has the expected value, or is missing and "" is expected. Returns the resulting value."""
        want, new = _bytes(expected_value), _bytes(desired_value)
        found = self._change(key, lambda old: new if old == want or (old is None and not want) else old)
        return want if found is None else found

    def check(self, keys: Sequence[str]) -> bool:
        """Return whether all keys exist."""
        return self._look(keys, 0.0) is not None

    def wait(self, keys: Sequence[str], timeout: timedelta | None = None) -> None:
        """Wait until all keys exist. Raises DistStoreError on timeout."""
        self._awaited(keys, self.timeout if timeout is None else timeout)

    def _awaited(self, keys: Sequence[str], timeout: timedelta) -> list[bytes]:
        found = self._look(keys, timeout.total_seconds())
        if found is None:
            raise DistStoreError(f"wait timeout after {timeout.total_seconds() * 1000:.0f}ms, keys: {', '.join(keys)}")
        return found

    def delete_key(self, key: str) -> bool:
        """Delete a key and return whether it existed."""
        had = []

        def gone(old: bytes | None) -> None:
            had.append(old is not None)

        self._change(key, gone)
        return had[0]

    def multi_get(self, keys: Sequence[str]) -> list[bytes]:
        """Wait for several keys and return their values."""
        return self._awaited(keys, self.timeout)

    def multi_set(self, keys: Sequence[str], values: Sequence[Any]) -> None:
        """Set several keys."""
        for key, value in zip(keys, values, strict=True):
            self.set(key, value)

    def has_extended_api(self) -> bool:
        """Return True: `append`, `multi_get` and `multi_set` are always supported."""
        return True

    def num_keys(self) -> int:
        """Return the number of keys."""
        return len(self.list_keys())

    def list_keys(self) -> list[str]:
        """Return the keys."""
        raise NotImplementedError


class HashStore(Store):
    """A store within one process, shared by its threads."""

    def __init__(self) -> None:
        super().__init__()
        self._table: dict[str, bytes] = {}
        self._changed = threading.Condition()

    def _change(self, key: str, fn: Callable[[bytes | None], bytes | None]) -> Any:
        with self._changed:
            new = fn(self._table.get(key))
            if new is None:
                self._table.pop(key, None)
            else:
                self._table[key] = new
            self._changed.notify_all()
            return new

    def _look(self, keys: Sequence[str], timeout: float) -> list[bytes] | None:
        with self._changed:
            there = self._changed.wait_for(lambda: all(k in self._table for k in keys), timeout)
            return [self._table[k] for k in keys] if there else None

    def list_keys(self) -> list[str]:
        with self._changed:
            return list(self._table)


class FileStore(Store):
    """A store in a file that all processes can open and lock (POSIX). The file is kept, so a new job needs a new one."""

    def __init__(self, file_name: str, world_size: int = -1) -> None:
        super().__init__()
        self.path, self.world_size = file_name, world_size
        with open(file_name, "ab"):
            pass

    def _locked(self, use: Callable[[Any, dict[str, bytes]], Any]) -> Any:
        import fcntl

        with open(self.path, "r+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            data, table = file.read(), {}
            at = 0
            while at < len(data):
                key, value = struct.unpack_from("<Iq", data, at)
                name = data[at + 12 : at + 12 + key].decode()
                at += 12 + key
                if value < 0:
                    table.pop(name, None)
                    continue
                table[name] = data[at : at + value]
                at += value
            return use(file, table)

    def _change(self, key: str, fn: Callable[[bytes | None], bytes | None]) -> Any:
        def write(file: Any, table: dict[str, bytes]) -> Any:
            new = fn(table.get(key))
            name = key.encode()
            file.seek(0, os.SEEK_END)
            file.write(struct.pack("<Iq", len(name), -1 if new is None else len(new)) + name + (new or b""))
            return new

        return self._locked(write)

    def _look(self, keys: Sequence[str], timeout: float) -> list[bytes] | None:
        end, pause = time.monotonic() + timeout, 0.001
        while True:
            table = self._locked(lambda _, table: table)
            if all(k in table for k in keys):
                return [table[k] for k in keys]
            if time.monotonic() >= end:
                return None
            time.sleep(pause)
            pause = min(2 * pause, 0.05)

    def list_keys(self) -> list[str]:
        return self._locked(lambda _, table: list(table))


class TCPStore(FileStore):
    """A store kept by the master process for those of this machine: `TCPStore(host, port, world_size, is_master)`.

    No port is opened. The table is a file in a folder that only this user can enter, under the port's number, so it needs POSIX. Port 0
    chooses a free one, available as `port`. The processes of several machines are started by MPI, which needs no store.
    """

    def __init__(
        self, host_name: str, port: int, world_size: int | None = None, is_master: bool = False, timeout: timedelta = DEFAULT_TIMEOUT,
        wait_for_workers: bool = True, multi_tenant: bool = False, master_listen_fd: int | None = None, use_libuv: bool = True,
    ):  # fmt: skip
        if not 0 <= port < 65536:
            raise ValueError(f"TCPStore: expected a port from 0 to 65535, got {port}")
        if not _is_here(host_name):
            raise DistNetworkError(
                f"TCPStore: {host_name!r} is another machine. Start processes on several machines with `workbench cluster`, "
                "`python -m engine.distributed.run --hosts` or mpiexec"
            )
        self._lock: Any = None
        folder = _folder()
        if is_master:
            self._lock, port = _served(folder, port)
        else:
            _await_master(folder / f"{port}.lock", host_name, port, timeout.total_seconds())
        super().__init__(str(folder / f"{port}.store"))
        self.timeout, self.host, self.port, self.world_size = timeout, host_name, port, world_size
        try:
            if wait_for_workers and world_size is not None and world_size > 0:
                self._meet(world_size, is_master)
        except BaseException:
            self.close()
            raise

    def _meet(self, world_size: int, is_master: bool) -> None:
        self.add("_joined", 1)
        end = time.monotonic() + self.timeout.total_seconds()
        while is_master and int(self.get("_joined")) < world_size:
            if time.monotonic() > end:
                raise DistStoreError(f"TCPStore: {self.get('_joined').decode()} of {world_size} processes have come in {self.timeout}")
            time.sleep(0.01)

    def close(self) -> None:
        """Remove the table, if this process is the master."""
        if self._lock is not None:
            Path(self.path).unlink(missing_ok=True)
            Path(self._lock.name).unlink(missing_ok=True)
            self._lock.close()
            self._lock = None


def _folder() -> Path:
    """Return the folder of the stores of this user. Raises DistNetworkError if other users could write there."""
    folder = Path(tempfile.gettempdir(), f"engine-stores-{os.getuid()}")
    folder.mkdir(mode=0o700, exist_ok=True)
    status = folder.lstat()
    if status.st_uid != os.getuid() or status.st_mode & 0o077 or not stat.S_ISDIR(status.st_mode):
        raise DistNetworkError(f"{folder} must be a folder that only this user can enter; remove it")
    return folder


def _is_here(host: str) -> bool:
    """Return whether a name or an address is this machine's."""
    try:
        addresses = {found[4][0] for found in socket.getaddrinfo(host, None)}
    except OSError as error:
        raise DistNetworkError(f"the master's address {host!r} is unknown: {error}") from error
    for address in addresses:
        family = socket.AF_INET6 if ":" in str(address) else socket.AF_INET
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            try:
                probe.bind((address, 0))
            except OSError:
                continue
            return True
    return False


def _served(folder: Path, port: int) -> tuple[Any, int]:
    """Return the locked file that marks this process as the master, and the port."""
    import fcntl

    for number in [port] if port else random.SystemRandom().sample(range(32768, 60999), 100):
        file = open(folder / f"{number}.lock", "ab")  # noqa: SIM115  open as long as the store
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            file.close()
            continue
        (folder / f"{number}.store").unlink(missing_ok=True)
        return file, number
    raise DistNetworkError(f"TCPStore: another process of this user has a store at port {port}")


def _await_master(lock: Path, host: str, port: int, seconds: float) -> None:
    """Return once a process holds the lock, so that the table is not left over from an earlier job."""
    import fcntl

    end, pause = time.monotonic() + seconds, 0.001
    while True:
        with contextlib.suppress(FileNotFoundError), open(lock, "rb") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                if lock.with_suffix(".store").exists():
                    return
        if time.monotonic() >= end:
            raise DistNetworkError(f"no store answers at {host}:{port} in {seconds:g} s")
        time.sleep(pause)
        pause = min(2 * pause, 0.05)


class PrefixStore(Store):
    """A store that adds a prefix to all keys of another."""

    def __init__(self, prefix: str, store: Store) -> None:
        super().__init__()
        self.prefix, self.underlying_store, self.timeout = prefix, store, store.timeout

    def _key(self, key: str) -> str:
        return f"{self.prefix}/{key}"

    def set(self, key: str, value: Any) -> None:
        self.underlying_store.set(self._key(key), value)

    def add(self, key: str, amount: int) -> int:
        return self.underlying_store.add(self._key(key), amount)

    def append(self, key: str, value: Any) -> None:
        self.underlying_store.append(self._key(key), value)

    def compare_set(self, key: str, expected_value: Any, desired_value: Any) -> bytes:
        return self.underlying_store.compare_set(self._key(key), expected_value, desired_value)

    def delete_key(self, key: str) -> bool:
        return self.underlying_store.delete_key(self._key(key))

    def list_keys(self) -> list[str]:
        start = self._key("")
        return [k[len(start) :] for k in self.underlying_store.list_keys() if k.startswith(start)]

    def _look(self, keys: Sequence[str], timeout: float) -> list[bytes] | None:
        return self.underlying_store._look([self._key(k) for k in keys], timeout)
