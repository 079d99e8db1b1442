"""Messages and their buffers as one compressed block of bytes, each told apart from what is there already."""

from __future__ import annotations

import base64
import json
import zlib
from hashlib import sha256
from typing import Any

from .privacy import without_paths

Sent = tuple[dict[str, Any], list[bytes]]


FLUSH = 64 << 10  # bytes after which the compressor has to say how long they have become


class Pack:
    """Grows by messages. What comes twice is kept once.

    The block is a gzip stream of the messages, each its JSON followed by its buffers; then of an index as JSON; then of the index's
    length in bytes, 4 of them, little-endian. The index's `messages` has `[offset, length of the JSON, length of each buffer, ...]`.
    """

    def __init__(self, paths: bool = False) -> None:
        self.paths = paths  # absolute paths may stay
        self.messages: list[list[int]] = []
        self._known: dict[bytes, int] = {}
        self._stream = zlib.compressobj(6, zlib.DEFLATED, 31)
        self._parts: list[bytes] = []
        self._length = 0
        self._size = self._waiting = 0

    @property
    def size(self) -> int:
        """Bytes in the file so far, as base64. What the compressor still has is taken for a third of what it was given."""
        return (self._size + self._waiting // 3) * 4 // 3

    def add(self, sent: Sent) -> int:
        """The number of the message in the block. What it answered is left out: whoever plays it back asks by other numbers."""
        message, buffers = sent
        if "re" in message:
            message = {**message, "re": None}
        head = text({**message} if self.paths else without_paths(message)).encode("utf-8", "replace")
        digest = sha256(head)
        for buffer in buffers:
            digest.update(buffer)
        known = self._known.get(digest.digest())
        if known is not None:
            return known
        number = self._known[digest.digest()] = len(self.messages)
        self.messages.append([self._length, len(head), *map(len, buffers)])
        for part in (head, *buffers):
            self._write(part)
        return number

    def closed(self, index: dict[str, Any]) -> str:
        """The whole block as base64, with the index."""
        head = text({**index, "messages": self.messages}).encode("utf-8", "replace")
        self._write(head + len(head).to_bytes(4, "little"))
        self._parts.append(self._stream.flush())
        return base64.b64encode(b"".join(self._parts)).decode()

    def _write(self, part: bytes) -> None:
        found = self._stream.compress(part)
        self._length += len(part)
        self._waiting += len(part)
        if self._waiting > FLUSH:
            found += self._stream.flush(zlib.Z_SYNC_FLUSH)
            self._waiting = 0
        self._size += len(found)
        self._parts.append(found)


def text(value: Any) -> str:
    """JSON as JavaScript's `JSON.parse` takes it. ValueError for NaN and infinities, which it does not know."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def key(request: dict[str, Any]) -> str:
    """What tells requests of one kind apart, written as the view writes it: sorted, and whole numbers without a point."""
    asked = {name: _whole(value) for name, value in request.items() if name not in ("type", "v", "id")}
    return json.dumps(asked, separators=(",", ":"), ensure_ascii=False, sort_keys=True)


def _whole(value: Any) -> Any:
    return int(value) if isinstance(value, float) and value.is_integer() else value
