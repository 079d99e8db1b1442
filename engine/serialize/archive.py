"""Read and write PyTorch's zip archives: validated on reading, with records aligned to 64 bytes on writing."""

from __future__ import annotations

import struct
import zipfile
import zlib
from typing import Any, BinaryIO

import numpy

from .source import Source

ALIGNMENT = 64
_LOCAL = struct.Struct("<4s5H3I2H")  # the local header before each record
_ZIP64 = (1 << 31) - 1  # zipfile adds a 20-byte field to larger records


class Archive:
    """The records of a zip file, by name relative to its root folder. Nothing is extracted to disk."""

    def __init__(self, source: Source):
        self.source = source
        try:
            entries = _first(source)
        except (zipfile.BadZipFile, NotImplementedError, ValueError, OverflowError, EOFError, struct.error) as error:
            raise source.refuse(f"is not a whole zip archive: {error}") from None
        self.records: dict[str, tuple[int, int, int]] = {}  # name -> offset, size, CRC-32
        roots, end = set(), 0
        for entry in sorted(entries, key=lambda e: e.header_offset):
            root, _, name = entry.filename.partition("/")
            begin = self._place(entry, end)
            end = begin + entry.file_size
            roots.add(root)
            if name in self.records:
                raise source.refuse(f"has the record {name!r} twice")
            self.records[name] = begin, entry.file_size, entry.CRC
        if len(roots) != 1:
            raise source.refuse(f"is a zip archive, but no checkpoint: expected one folder in it, got {sorted(roots)[:5]}")

    def _place(self, entry: zipfile.ZipInfo, after: int) -> int:
        """Return the offset of a record's bytes, after every check that does not read them."""
        refuse, name, at = self.source.refuse, entry.filename, entry.header_offset
        if ".." in name.split("/") or name.startswith("/") or "\\" in name or ":" in name or "\0" in entry.orig_filename:
            raise refuse(f"has a record whose name is a path out of the archive: {name[:80]!r}")
        if entry.flag_bits & 1 or entry.compress_type != zipfile.ZIP_STORED or entry.compress_size != entry.file_size:
            raise refuse(f"has the record {name[:80]!r} compressed or encrypted; PyTorch stores records as they are")
        if at < after or at + _LOCAL.size > self.source.size:
            raise refuse(f"has a record {name[:80]!r} that lies outside of the file or over another one")
        magic, *_, name_length, extra_length = _LOCAL.unpack(self.source.read(at, _LOCAL.size))
        begin = at + _LOCAL.size + name_length + extra_length
        if magic != b"PK\x03\x04" or begin + entry.file_size > self.source.size:
            raise refuse(f"is cut off or damaged at the record {name[:80]!r}")
        if self.source.read(at + _LOCAL.size, name_length) != entry.orig_filename.encode("utf-8" if entry.flag_bits & 0x800 else "cp437"):
            raise refuse(f"calls the record {name[:80]!r} by two names")
        return begin

    def array(self, name: str) -> numpy.ndarray:
        """Return a record's bytes. The checksum is verified unless the file is mapped, since that would read all of it."""
        begin, n, checksum = self._found(name)
        data = self.source.array(begin, n)
        if self.source.mapped is None and zlib.crc32(memoryview(data)) != checksum:
            raise self.source.refuse(
                f"is damaged: the record {name!r} does not have its checksum (a file written without checksums loads with mmap=True)"
            )
        return data

    def read(self, name: str) -> bytes:
        """Return a small record; its checksum is always verified."""
        begin, n, checksum = self._found(name)
        data = self.source.read(begin, n)
        if zlib.crc32(data) != checksum:
            raise self.source.refuse(f"is damaged: the record {name!r} does not have its checksum")
        return data

    def _found(self, name: str) -> tuple[int, int, int]:
        if name not in self.records:
            raise self.source.refuse(f"has no record {name!r}")
        return self.records[name]


def _first(source: Source) -> list[zipfile.ZipInfo]:
    """Return the entries of the first archive in the file: `zipfile` finds the last of several."""
    while True:
        found = zipfile.ZipFile(source.file)
        entries = found.infolist()
        before = min((e.header_offset for e in entries), default=0)
        before = min(before, found.start_dir)  # type: ignore[attr-defined]  decreases every time, so no entry is read twice
        if before <= 0 or not source.copied:
            return entries
        source.file.truncate(before)
        source.end = before


class ArchiveWriter:
    """Writes records as PyTorch does: uncompressed and aligned to 64 bytes, so that they can be mapped."""

    def __init__(self, file: BinaryIO, name: str):
        self.name, self.zip = name, zipfile.ZipFile(file, "w", zipfile.ZIP_STORED)

    def write(self, name: str, data: Any) -> None:
        """Write a record from bytes or a C-contiguous array."""
        data = memoryview(data).cast("B") if len(data) else b""
        info = zipfile.ZipInfo(f"{self.name}/{name}")  # every record is dated 1980, so equal contents make equal files
        long = len(data) > _ZIP64
        begin = self.zip.fp.tell() + _LOCAL.size + len(info.filename.encode()) + (20 if long else 0) + 4  # type: ignore[union-attr]
        padding = -begin % ALIGNMENT
        info.extra = struct.pack("<2sH", b"FB", padding) + b"Z" * padding
        info.file_size = len(data)
        with self.zip.open(info, "w", force_zip64=long) as record:
            record.write(data)

    def close(self) -> None:
        self.zip.close()
