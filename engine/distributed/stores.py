"""Stores: key-value tables through which processes find each other."""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import threading
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
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


def read_exactly(sock: socket.socket, size: int) -> bytes:
    """Read `size` bytes from a socket. Raises ConnectionError if the other side closes it first."""
    got = bytearray(size)
    view = memoryview(got)
    while view:
        n = sock.recv_into(view)
        if n == 0:
            raise ConnectionError("Connection closed by peer")
        view = view[n:]
    return bytes(got)


def _say(sock: socket.socket, parts: Sequence[bytes]) -> None:
    sock.sendall(struct.pack("<I", len(parts)) + b"".join(struct.pack("<I", len(p)) + p for p in parts))


def _hear(sock: socket.socket) -> list[bytes]:
    (n,) = struct.unpack("<I", read_exactly(sock, 4))
    if n > 1 << 20:
        raise ConnectionError("not a store's message")
    return [read_exactly(sock, struct.unpack("<I", read_exactly(sock, 4))[0]) for _ in range(n)]


class TCPStore(Store):
    """A store kept by the master process: `TCPStore(host, port, world_size, is_master)`.

    The master listens on `host` only. Port 0 lets the system choose one, available as `port`. There is no access control: use it only
    inside a trusted network.
    """

    def __init__(
        self, host_name: str, port: int, world_size: int | None = None, is_master: bool = False, timeout: timedelta = DEFAULT_TIMEOUT,
        wait_for_workers: bool = True, multi_tenant: bool = False, master_listen_fd: int | None = None, use_libuv: bool = True,
    ):  # fmt: skip
        super().__init__()
        self.timeout, self.host, self.port, self.world_size = timeout, host_name, port, world_size
        self._server = _Server(host_name, port, master_listen_fd) if is_master else None
        if self._server is not None:
            self.port = self._server.port
        self._lock, self._next = threading.Lock(), threading.Lock()
        self._socket: socket.socket | None = None
        try:
            self._socket = _connected(host_name, self.port, timeout.total_seconds())
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

    def _ask(self, *parts: bytes) -> list[bytes]:
        with self._next:  # waiting threads take turns; otherwise the repeated calls of `_look` would starve others
            self._lock.acquire()
        try:
            assert self._socket is not None
            _say(self._socket, parts)
            return _hear(self._socket)
        except OSError as error:
            raise DistNetworkError(f"the store at {self.host}:{self.port} has gone: {error}. Has rank 0 ended?") from error
        finally:
            self._lock.release()

    def set(self, key: str, value: Any) -> None:
        self._ask(b"set", key.encode(), _bytes(value))

    def add(self, key: str, amount: int) -> int:
        return int(self._ask(b"add", key.encode(), str(int(amount)).encode())[0])

    def append(self, key: str, value: Any) -> None:
        self._ask(b"append", key.encode(), _bytes(value))

    def compare_set(self, key: str, expected_value: Any, desired_value: Any) -> bytes:
        return self._ask(b"compare_set", key.encode(), _bytes(expected_value), _bytes(desired_value))[0]

    def delete_key(self, key: str) -> bool:
        return self._ask(b"delete_key", key.encode())[0] == b"True"

    def list_keys(self) -> list[str]:
        return [k.decode() for k in self._ask(b"list_keys")]

    def _look(self, keys: Sequence[str], timeout: float) -> list[bytes] | None:
        end = time.monotonic() + timeout
        while True:  # short waits, so that other threads can use the socket in between
            left = end - time.monotonic()
            found = self._ask(b"look", str(max(0.0, min(left, 0.5))).encode(), *(k.encode() for k in keys))
            if found[0] == b"1":
                return found[1:]
            if left <= 0:
                return None

    def close(self) -> None:
        """Close the connection, and the server if this process runs it."""
        if self._socket is not None:
            self._socket.close()
        if self._server is not None:
            self._server.close()


def _connected(host: str, port: int, timeout: float) -> socket.socket:
    end, pause = time.monotonic() + timeout, 0.01
    while True:
        try:
            sock = socket.create_connection((host, port), max(0.1, end - time.monotonic()))
            break
        except OSError as error:
            if time.monotonic() >= end:
                raise DistNetworkError(f"no store answers at {host}:{port} in {timeout:g} s: {error}") from error
            time.sleep(pause)
            pause = min(2 * pause, 0.5)
    sock.settimeout(None)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return sock


class _Server:
    """The master's server of a TCPStore: a table, and one thread per connection."""

    def __init__(self, host: str, port: int, listen_fd: int | None) -> None:
        self.table = HashStore()
        if listen_fd is not None:
            self.listener = socket.socket(fileno=listen_fd)
        else:
            family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
            try:
                self.listener = socket.create_server((host, port), family=family)
            except OSError as error:
                raise DistNetworkError(f"TCPStore: the server can't listen on {host}:{port}: {error}") from error
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True, name="store").start()

    def close(self) -> None:
        with contextlib.suppress(OSError):  # macOS: not connected
            self.listener.shutdown(socket.SHUT_RDWR)  # wakes the thread in accept
        self.listener.close()

    def _accept(self) -> None:
        while True:
            try:
                sock, _ = self.listener.accept()
            except OSError:
                return  # closed
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=self._serve, args=(sock,), daemon=True, name="store connection").start()

    def _serve(self, sock: socket.socket) -> None:
        with sock:
            try:
                while True:
                    _say(sock, self._answer(*_hear(sock)))
            except (OSError, ValueError):
                return  # the client disconnected or is invalid

    def _answer(self, name: bytes, *args: bytes) -> list[bytes]:
        table, key = self.table, args[0].decode() if args else ""
        if name == b"look":
            found = table._look([k.decode() for k in args[1:]], float(args[0]))
            return [b"0"] if found is None else [b"1", *found]
        if name == b"list_keys":
            return [k.encode() for k in table.list_keys()]
        if name == b"add":
            return [str(table.add(key, int(args[1]))).encode()]
        if name in (b"set", b"append", b"compare_set", b"delete_key"):
            return [_bytes(getattr(table, name.decode())(key, *args[1:]))]
        raise ValueError(f"the store knows no {name!r}")


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
