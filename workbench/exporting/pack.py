"""Messages and their buffers in one compressed block of bytes, without duplicates."""

from __future__ import annotations

import json
import zlib
from hashlib import sha256
from typing import Any

from .privacy import without_paths

Sent = tuple[dict[str, Any], list[bytes]]


FLUSH = 64 << 10  # input bytes after which the compressor is flushed, so that the compressed size is known


class Pack:
    """A growing block of messages. Duplicates are stored once.

    The block is a gzip stream of the messages, each as JSON followed by its buffers, then an index as JSON, then the index's length in
    bytes as a little-endian 4-byte integer. The index's `messages` has `[offset, length of the JSON, length of each buffer, ...]`.
    """

    def __init__(self, paths: bool = False) -> None:
        self.paths = paths  # whether to keep absolute paths
        self.messages: list[list[int]] = []
        self._known: dict[bytes, int] = {}
        self._stream = zlib.compressobj(6, zlib.DEFLATED, 31)
        self._parts: list[bytes] = []
        self._length = 0
        self._size = self._waiting = 0

    @property
    def size(self) -> int:
        """The base64 size so far in bytes; input pending in the compressor is assumed to shrink to a third."""
        return (self._size + self._waiting // 3) * 4 // 3

    def add(self, sent: Sent) -> int:
        """Add a message and return its number in the block. Its `re` is cleared, since requests have other ids during replay."""
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

    def closed(self, index: dict[str, Any]) -> bytes:
        """Append the index, and return the block."""
        head = text({**index, "messages": self.messages}).encode("utf-8", "replace")
        self._write(head + len(head).to_bytes(4, "little"))
        self._parts.append(self._stream.flush())
        return b"".join(self._parts)

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
    """Serialize to JSON for JavaScript's `JSON.parse`. Raises ValueError for NaN and infinities, which JSON lacks."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def key(request: dict[str, Any]) -> str:
    """The key of a request among those of its kind, formatted like the view's: sorted, and whole numbers without a point."""
    asked = {name: _whole(value) for name, value in request.items() if name not in ("type", "v", "id", "then")}
    return json.dumps(asked, separators=(",", ":"), ensure_ascii=False, sort_keys=True)


def _whole(value: Any) -> Any:
    return int(value) if isinstance(value, float) and value.is_integer() else value
