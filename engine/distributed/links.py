"""Links: a TCP socket between every two processes, each with a reader thread.

Since a thread is always reading, a send never waits for the receiver's program, and no order of sends and receives can deadlock.
"""

from __future__ import annotations

import hmac
import secrets
import socket
import struct
import threading
import time
from collections import deque
from typing import Any

import numpy

from .errors import DistBackendError, DistNetworkError
from .stores import Store, _connected, read_exactly

_HEADER = struct.Struct("<IQBBQ")  # group, tag, call, dtype, bytes
_BYE = 0xFFFFFFFF  # group of a goodbye message: the sender leaves normally
_FIRST = 0xFFFFFFFE  # group of a message with the first process to fail, sent before the sender fails because of it
_SECRET = 32
_PATIENCE = 5.0  # seconds, for messages about failures


class Links:
    """The connections of this process to all others in the job."""

    def __init__(self, rank: int, world_size: int, store: Store, timeout: float, host: str) -> None:
        self.rank, self.world_size = rank, world_size
        self._inbox: dict[tuple[int, int, int], deque] = {}  # (from, group, tag) -> (call, dtype, bytes)
        self._arrived = threading.Condition()
        self._gone: set[int] = set()  # peers with a closed link
        self._left: set[int] = set()  # peers that said goodbye
        self._heard: dict[int, str] = {}  # peer -> how it ended, in the order observed here
        self._told = False  # whether this process has told the others who failed first
        self._sockets: dict[int, socket.socket] = {}
        self._sending = {peer: threading.Lock() for peer in range(world_size)}
        self._closed = False
        try:
            if world_size > 1:
                self._connect(store, timeout, host)
        except BaseException:
            for sock in self._sockets.values():
                sock.close()
            raise

    def _connect(self, store: Store, timeout: float, host: str) -> None:
        family = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM)[0][0]
        with socket.create_server((host, 0), family=family, backlog=self.world_size) as listener:
            if self.rank == 0:
                store.set("secret", secrets.token_hex(_SECRET // 2))
            store.set(f"address/{self.rank}", f"{host} {listener.getsockname()[1]}")
            secret = store.get("secret")
            for peer in range(self.rank):
                where, port = store.get(f"address/{peer}").decode().split()
                sock = _connected(where, int(port), timeout)
                sock.sendall(secret + struct.pack("<I", self.rank))
                self._sockets[peer] = sock
            end = time.monotonic() + timeout
            while len(self._sockets) < self.world_size - 1:
                listener.settimeout(max(0.01, end - time.monotonic()))
                try:
                    sock, _ = listener.accept()
                except TimeoutError:
                    missing = sorted(set(range(self.world_size)) - set(self._sockets) - {self.rank})
                    raise DistNetworkError(f"rank {self.rank}: no connection from rank(s) {missing} in {timeout:g} s") from None
                self._admit(sock, secret, timeout)
        for peer, sock in self._sockets.items():
            sock.settimeout(None)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=self._read, args=(peer, sock), daemon=True, name=f"link to rank {peer}").start()

    def _admit(self, sock: socket.socket, secret: bytes, timeout: float) -> None:
        """Accept a connection only from a process that knows the job's secret."""
        sock.settimeout(timeout)
        try:
            said = read_exactly(sock, _SECRET + 4)
        except OSError:
            sock.close()
            return
        (peer,) = struct.unpack("<I", said[_SECRET:])
        if not hmac.compare_digest(said[:_SECRET], secret) or not self.rank < peer < self.world_size or peer in self._sockets:
            sock.close()
            return
        self._sockets[peer] = sock

    def _read(self, peer: int, sock: socket.socket) -> None:
        try:
            while True:
                group, tag, call, kind, size = _HEADER.unpack(read_exactly(sock, _HEADER.size))
                if group == _BYE:
                    with self._arrived:
                        self._left.add(peer)
                        self._arrived.notify_all()
                    continue
                if group == _FIRST:
                    how = read_exactly(sock, size).decode()
                    with self._arrived:
                        self._heard.setdefault(tag, how)
                    continue
                data = numpy.empty(size, numpy.uint8)
                view = memoryview(data)
                while view:
                    n = sock.recv_into(view)
                    if n == 0:
                        raise ConnectionError("Connection closed by peer")
                    view = view[n:]
                with self._arrived:
                    self._inbox.setdefault((peer, group, tag), deque()).append((call, kind, data))
                    self._arrived.notify_all()
        except OSError as error:
            with self._arrived:
                ended = f"has ended or raised an error ({error}); see its own output"
                self._heard.setdefault(peer, "has left the process group (destroy_process_group) early" if peer in self._left else ended)
                self._gone.add(peer)
                self._arrived.notify_all()
        finally:
            sock.close()

    def send(self, peer: int, group: int, tag: int, call: int, kind: int, data: Any, timeout: float, what: str = "send") -> None:
        """Send an array or bytes-like object; on return the data is in the system's buffers or received."""
        view = memoryview(data).cast("B") if len(data) else b""
        try:
            if peer in self._gone:
                raise self._has_gone(peer, what)
            with self._sending[peer]:
                self._write(peer, timeout, _HEADER.pack(group, tag, call, kind, len(view)), view)
        except BlockingIOError:
            raise DistBackendError(f"{what}: rank {self.rank}: rank {peer} has taken in nothing for {timeout:g} s") from None
        except OSError as error:
            with self._arrived:  # the reader thread may not have seen the goodbye yet
                self._arrived.wait_for(lambda: peer in self._gone, _PATIENCE)
            raise self._has_gone(peer, what) from error

    def _write(self, peer: int, timeout: float, *parts: Any) -> None:
        sock, seconds = self._sockets[peer], int(timeout)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", seconds, int((timeout - seconds) * 1e6) or 1))
        for part in parts:
            sock.sendall(part)

    def arrived(self, key: tuple[int, int, int]) -> bool:
        """Return whether a message is waiting."""
        with self._arrived:
            return bool(self._inbox.get(key))

    def receive(self, peers: list[int], group: int, tag: int, timeout: float, what: str) -> tuple[int, int, int, Any]:
        """Return `(from, call, dtype, bytes)` of the next message from one of `peers`.

        Raises DistBackendError after `timeout` seconds, or if all of `peers` have ended. It is no failure if other processes end, even
        without a goodbye.
        """
        end = time.monotonic() + timeout
        with self._arrived:
            while True:
                for peer in peers:
                    waiting = self._inbox.get((peer, group, tag))
                    if waiting:
                        found = waiting.popleft()
                        if not waiting:
                            del self._inbox[peer, group, tag]
                        return peer, *found
                if peers and self._gone.issuperset(peers):
                    break
                left = end - time.monotonic()
                if left <= 0:
                    who = f"rank {peers[0]}" if len(peers) == 1 else f"any of the ranks {peers}"
                    raise DistBackendError(f"{what}: rank {self.rank} timed out after {timeout:g} s, waiting for {who}")
                self._arrived.wait(left)
        raise self._has_gone(peers[0], what)

    def _has_gone(self, peer: int, what: str) -> DistBackendError:
        """Return the error for a peer that has ended, with the first process to end, which is often the cause.

        This process may end now, too, so it first reports the first failure to all others, on the links on which they will notice its own
        end and therefore never after it.
        """
        with self._arrived:
            self._heard.setdefault(peer, "has ended or raised an error; see its own output")
            (first, how), tells, self._told = next(iter(self._heard.items())), not self._told, True
        for other in set(self._sockets) - self._gone if tells else ():
            self._tell(other, first, how)
        if first == peer:
            return DistBackendError(f"{what}: rank {first} {how}")
        return DistBackendError(f"{what}: rank {first} {how}; and after it, rank {peer} {self._heard[peer]}")

    def _tell(self, peer: int, first: int, how: str) -> None:
        said = how.encode()
        if not self._sending[peer].acquire(timeout=_PATIENCE):
            return  # a message that the peer is not reading is in progress
        try:
            self._write(peer, _PATIENCE, _HEADER.pack(_FIRST, first, 0, 0, len(said)) + said)
        except OSError:
            return  # it has already ended
        finally:
            self._sending[peer].release()

    def close(self) -> None:
        """Say goodbye to all peers and stop sending."""
        if self._closed:
            return
        self._closed = True
        for peer, sock in self._sockets.items():
            with self._sending[peer]:
                try:
                    sock.sendall(_HEADER.pack(_BYE, 0, 0, 0, 0))
                    sock.shutdown(socket.SHUT_WR)  # data already sent stays readable
                except OSError:
                    continue  # it has already ended


def host_for(master: str) -> str:
    """Return this process's address for the others: that of the route to the master, loopback if it is on this machine."""
    try:
        address = socket.getaddrinfo(master, 1, type=socket.SOCK_DGRAM)[0]
    except OSError as error:
        raise DistNetworkError(f"the master's address {master!r} is unknown: {error}") from error
    with socket.socket(address[0], socket.SOCK_DGRAM) as probe:
        probe.connect(address[4])  # sends nothing; only selects the route
        return probe.getsockname()[0]
