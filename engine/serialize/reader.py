"""`PyTorchFileReader`: the records of a checkpoint as bytes and as memory, for programs that read one piece by piece."""

from __future__ import annotations

import weakref
from typing import Any

from ..base import dtypes
from ..core.tensor import Tensor
from .archive import Archive
from .source import Source

__all__ = ["PyTorchFileReader"]


class PyTorchFileReader:
    """The records of a file that `save` wrote, from a path or an open binary file. Nothing in them is executed."""

    def __init__(self, source: Any):
        try:
            self._file = source if hasattr(source, "read") else open(source, "rb")  # noqa: SIM115  it is open as long as its reader is
        except OSError as error:
            raise RuntimeError(f"PyTorchFileReader: the file cannot be opened: {error}") from None
        if self._file is not source:
            weakref.finalize(self, self._file.close)
        self._archive = Archive(Source(self._file, str(source) if isinstance(source, str) else "the checkpoint"))

    def get_all_records(self) -> list[str]:
        """The names of the records."""
        return list(self._archive.records)

    def has_record(self, name: str) -> bool:
        """Whether there is a record of this name."""
        return name in self._archive.records

    def get_record(self, name: str) -> bytes:
        """The bytes of a record. RuntimeError if there is none, or if they are damaged."""
        return self._archive.read(name)

    def get_record_size(self, name: str) -> int:
        """How many bytes a record has."""
        return self._archive._found(name)[1]

    def get_record_offset(self, name: str) -> int:
        """Where in the file the bytes of a record start."""
        return self._archive._found(name)[0]

    def get_storage_from_record(self, name: str, numel: int, dtype: Any) -> Tensor:
        """The first `numel` elements of a record as a tensor, whose `_typed_storage()` is their memory; bytes for `UntypedStorage`."""
        kind = dtype if isinstance(dtype, dtypes.dtype) else dtypes.uint8
        data = self._archive.array(name)
        if numel * kind.itemsize > data.size:
            raise RuntimeError(f"PyTorchFileReader: the record {name!r} has {data.size} bytes, expected {numel} elements of {kind}")
        return Tensor._wrap(data[: numel * kind.itemsize].view(kind.numpy))

    def serialization_id(self) -> str:
        """The file's number, made when it was written; empty if it has none."""
        return self.get_record(".data/serialization_id").decode() if self.has_record(".data/serialization_id") else ""
