"""`PyTorchFileReader`: access to the individual records of a checkpoint."""

from __future__ import annotations

import weakref
from typing import Any

from ..base import dtypes
from ..core.tensor import Tensor
from .archive import Archive
from .source import Source

__all__ = ["PyTorchFileReader"]


class PyTorchFileReader:
    """Read the records of a file written by `save`, given a path or an open binary file. Nothing in them is executed."""

    def __init__(self, source: Any):
        try:
            self._file = source if hasattr(source, "read") else open(source, "rb")  # noqa: SIM115  it is open as long as its reader is
        except OSError as error:
            raise RuntimeError(f"PyTorchFileReader: the file cannot be opened: {error}") from None
        if self._file is not source:
            weakref.finalize(self, self._file.close)
        self._archive = Archive(Source(self._file, str(source) if isinstance(source, str) else "the checkpoint"))

    def get_all_records(self) -> list[str]:
        """Return the names of the records."""
        return list(self._archive.records)

    def has_record(self, name: str) -> bool:
        """Return whether a record exists."""
        return name in self._archive.records

    def get_record(self, name: str) -> bytes:
        """Return a record's bytes. Raises RuntimeError if it is missing or damaged."""
        return self._archive.read(name)

    def get_record_size(self, name: str) -> int:
        """Return a record's size in bytes."""
        return self._archive._found(name)[1]

    def get_record_offset(self, name: str) -> int:
        """Return the file offset of a record's bytes."""
        return self._archive._found(name)[0]

    def get_storage_from_record(self, name: str, numel: int, dtype: Any) -> Tensor:
        """Return a tensor of the first `numel` elements of a record, sharing `_typed_storage()`; uint8 unless `dtype` is a dtype."""
        kind = dtype if isinstance(dtype, dtypes.dtype) else dtypes.uint8
        data = self._archive.array(name)
        if numel * kind.itemsize > data.size:
            raise RuntimeError(f"PyTorchFileReader: the record {name!r} has {data.size} bytes, expected {numel} elements of {kind}")
        return Tensor._wrap(data[: numel * kind.itemsize].view(kind.numpy))

    def serialization_id(self) -> str:
        """Return the ID given to the file when it was written, or an empty string."""
        return self.get_record(".data/serialization_id").decode() if self.has_record(".data/serialization_id") else ""
