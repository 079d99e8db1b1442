"""`save` and `load`: detect a file's format, and read or write its pickles and storages."""

from __future__ import annotations

import io
import os
import pathlib
import pickle
import struct
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO, Literal

import numpy

from ..base import dtypes
from . import safetensors
from .allowed import Allowed
from .archive import Archive, ArchiveWriter
from .errors import CheckpointError, EmptyFileError, told
from .machine import Machine
from .source import Source, opened, whole
from .storage import UNTYPED, Storage, check, placing, swap
from .write import Writer, flat_bytes

_MAGIC, _PROTOCOL = 0x1950A86A20F9469CFC6C, 1001  # of PyTorch's format before 1.6
_KNOWN_ARGS = {"encoding", "errors", "fix_imports"}  # of pickle.load, to which PyTorch forwards them


# -- saving ---------------------------------------------------------------------------------------------------------------------


def save(
    obj: Any,
    f: str | os.PathLike | BinaryIO,
    pickle_module: Any = None,
    pickle_protocol: int = 2,
    _use_new_zipfile_serialization: bool = True,
    _disable_byteorder_record: bool = False,
) -> None:
    """Save an object to a path or an open binary file that both `torch.load` and `load` can read.

    `torch.load(weights_only=True)` reads state dicts, tensors, parameters, numbers, strings and containers of them. Whole modules, and
    anything else that can be pickled, can be read by this engine's `load(weights_only=False)` in a program that defines the same classes.
    Tensors that share storage still share it after loading. As in PyTorch, saving a view writes its whole storage (save a `clone()` to
    write only the view). A path ending in ".safetensors" selects that format. Files at a path are written atomically.
    """
    if pickle_module is not None and pickle_module is not pickle:
        raise ValueError(f"save: pickle_module must be Python's pickle, got {pickle_module!r}: the engine writes its pickles itself")
    if not isinstance(pickle_protocol, int) or not 2 <= pickle_protocol <= 5:
        raise ValueError(f"save: pickle_protocol must be one of 2, 3, 4 and 5, got {pickle_protocol!r}")
    path = os.fspath(f) if isinstance(f, (str, os.PathLike)) else None
    if path is not None and path.endswith(".safetensors"):
        safetensors.save(obj, path)
        return
    if path is not None and not os.path.isdir(folder := os.path.dirname(path) or "."):
        raise RuntimeError(f"Parent directory {folder} does not exist.")
    if path is None and not hasattr(f, "write"):
        raise AttributeError(f"save: f must be a path or a file object with `write`, got a {type(f).__name__}")
    writer = Writer(pickle_protocol, legacy=not _use_new_zipfile_serialization)
    text = writer.run(obj)
    with whole(path) if path is not None else _given(f) as file:
        if _use_new_zipfile_serialization:
            name = pathlib.PurePath(path).stem if path is not None else "archive"
            _write_zip(file, name or "archive", text, writer.storages, not _disable_byteorder_record)
        else:
            _write_legacy(file, text, writer.storages, pickle_protocol)


@contextmanager
def _given(f: Any) -> Iterator[Any]:
    """Yield the open file, or a buffer written to it at the end if it cannot seek or is not at its start: archive offsets count from 0."""
    beginning = hasattr(f, "seekable") and f.seekable() and f.tell() == 0 and hasattr(f, "read")
    if beginning:
        yield f
        return
    memory = io.BytesIO()
    yield memory
    f.write(memory.getvalue())


def _write_zip(file: BinaryIO, name: str, text: bytes, storages: list, order: bool) -> None:
    archive = ArchiveWriter(file, name)
    archive.write("data.pkl", text)
    archive.write(".format_version", b"1")
    archive.write(".storage_alignment", b"64")
    if order:
        archive.write("byteorder", sys.byteorder.encode())
    for key, (owner, _) in enumerate(storages):
        archive.write(f"data/{key}", flat_bytes(owner))
    archive.write("version", b"3\n")
    archive.close()


def _write_legacy(file: BinaryIO, text: bytes, storages: list, protocol: int) -> None:
    sizes = {"short": 2, "int": 4, "long": 4}
    about = {"protocol_version": _PROTOCOL, "little_endian": sys.byteorder == "little", "type_sizes": sizes}
    for part in (_MAGIC, _PROTOCOL, about):
        file.write(pickle.dumps(part, protocol))
    file.write(text)
    file.write(pickle.dumps([str(key) for key in range(len(storages))], protocol))
    for owner, n in storages:
        file.write(struct.pack("=q", n))
        file.write(memoryview(flat_bytes(owner)))


# -- loading ----------------------------------------------------------------------------------------------------------------------


def load(
    f: str | os.PathLike | BinaryIO,
    map_location: Any = None,
    pickle_module: Any = None,
    *,
    weights_only: bool | None = True,
    mmap: bool | None = None,
    **pickle_load_args: Any,
) -> Any:
    """Read a checkpoint: PyTorch's (both formats), the engine's own, or safetensors, from a path or an open binary file.

    `map_location` is None (each tensor's own device), a device, a dict of locations, or a function `(storage, location)`.
    `weights_only=True` builds tensors, plain containers and whatever `add_safe_globals` allows; `weights_only=False` also builds modules
    and objects of classes that the running program defines (see `engine.serialize.trusted`). Nothing else named in a file is executed.
    `mmap=True` maps the file instead of reading it (only a path, in the zip or safetensors format) and skips checksum verification.
    An open file is left at the end of the checkpoint, so that several consecutive checkpoints can be read.

    Raises CheckpointError (a RuntimeError and a pickle.UnpicklingError) if the file is damaged or needs more than is allowed.
    """
    if pickle_module is not None and (weights_only or pickle_module is not pickle):
        raise RuntimeError("Can not safely load weights when explicit pickle_module is specified; the engine reads pickles itself")
    if unknown := set(pickle_load_args) - _KNOWN_ARGS:
        raise TypeError(f"load() got an unexpected keyword argument {sorted(unknown)[0]!r}")
    encoding = pickle_load_args.get("encoding", "utf-8")
    place = placing(map_location)
    policy = Allowed if weights_only or weights_only is None else _trusted()
    with opened(f, bool(mmap)) as source:
        start = source.read(0, min(source.size, 10))
        if source.name.endswith(".safetensors") or start[8:9] == b"{":
            return safetensors.read(source, map_location)
        if start[:4] == b"PK\x03\x04":
            return _Zip(source, place, policy, encoding).read()
        if start[:1] == b"\x80":
            if mmap:
                raise RuntimeError("mmap can only be used with files saved with `torch.save(_use_new_zipfile_serialization=True)`")
            return _Legacy(source, place, policy, encoding).read()
        if not start:
            raise EmptyFileError(f"load: {source.name} is empty")
        raise source.refuse(f"is not a checkpoint: it begins with {start!r}")


def _trusted() -> type[Allowed]:
    from .trusted import Trusted  # imported lazily: it imports many modules, and few programs load whole objects

    return Trusted


def _of_engine(module: str, name: str) -> Any:
    from .trusted import of_engine

    return of_engine(module, name)


Allowed.of_engine = staticmethod(_of_engine)


class _Zip:
    """A checkpoint of PyTorch 1.6 or later: a zip archive of a pickle and one record per storage."""

    def __init__(self, source: Source, place: Callable, policy: type[Allowed], encoding: str):
        self.archive, self.place = Archive(source), place
        self.policy, self.encoding = policy, encoding
        self.storages: dict[tuple, Storage] = {}
        self.size_of: dict[str, int] = {}

    def read(self) -> Any:
        archive = self.archive
        if "constants.pkl" in archive.records:
            raise archive.source.refuse("is a TorchScript archive: it holds a program. Save the model's state_dict() and load that")
        if "data.pkl" not in archive.records:
            raise archive.source.refuse("is a zip archive, but no checkpoint: it has no data.pkl")
        order = archive.read("byteorder") if "byteorder" in archive.records else b"little"
        if order not in (b"little", b"big"):
            raise archive.source.refuse(f"has an unknown order of bytes {order[:20]!r}")
        self.swapped = order.decode() != sys.byteorder
        return Machine(archive.read("data.pkl"), self.policy(self.storage, archive.source.size), self.encoding).run()

    def storage(self, pid: Any) -> Storage:
        """Return the storage that `("storage", class, key, location, size)` refers to."""
        _, d, key, location, n = _storage_id(pid, 5)
        made = self.storages.get((key, d))
        if made is None:
            data = self.archive.array(f"data/{key}")
            if n * (1 if d is None else d.itemsize) != data.size:
                raise CheckpointError(f"load: the storage {key!r} should have {n} elements of {_word(d)}, its record has {data.size} bytes")
            if any(known == key for known, _ in self.storages):
                raise CheckpointError(f"load: the storage {key!r} is of two types")
            if self.swapped and d is not None:
                data = swap(data, d)
            check(data, d)
            made = self.storages[key, d] = self.place(Storage(data, d), location)
        return made


class _Legacy:
    """A checkpoint from before PyTorch 1.6: consecutive pickles followed by the bytes of the storages.

    The object precedes its storages' bytes, so it is unpickled twice: first to collect the storages, then with their contents.
    """

    def __init__(self, source: Source, place: Callable, policy: type[Allowed], encoding: str):
        self.source, self.place = source, place
        self.machine = Machine(source.read(0, source.size), policy(self.storage, source.size), encoding)
        self.unplaced: dict[str, Storage] = {}
        self.placed: dict[str, Storage] | None = None  # set for the second pass
        self.left = source.size

    def read(self) -> Any:
        machine, source = self.machine, self.source
        run = machine.run
        if run() != _MAGIC:
            raise source.refuse("is a pickle, but no checkpoint of PyTorch (it does not begin with the magic number)")
        if (version := run()) != _PROTOCOL:
            raise source.refuse(f"is of version {told(version)}; expected {_PROTOCOL}")
        about = run()
        if not isinstance(about, dict) or about.get("little_endian") not in (True, False):
            raise source.refuse("has a damaged description of the machine that wrote it")
        begins = machine.at
        run()
        keys = run()
        if not isinstance(keys, list) or not all(isinstance(k, str) for k in keys) or sorted(keys) != sorted(self.unplaced):
            raise source.refuse("does not hold the storages that its tensors name")
        at = machine.at
        for key in keys:
            at = self.fill(self.unplaced[key], key, at, "little" if about["little_endian"] else "big")
        source.end = at
        self.placed, machine.at = {}, begins
        return run()

    def fill(self, storage: Storage, key: str, at: int, order: Literal["little", "big"]) -> int:
        """Read a storage's bytes and return the offset of their end."""
        n = int.from_bytes(self.source.read(at, 8), order, signed=True)
        if n != storage.size():
            raise CheckpointError(f"load: the storage {key!r} should have {storage.size()} elements, the file has {n}")
        data = self.source.array(at + 8, storage.nbytes())
        if order != sys.byteorder and storage.dtype is not None:
            data = swap(data, storage.dtype)
        check(data, storage.dtype)
        storage.data[...] = data
        return at + 8 + data.size

    def storage(self, pid: Any) -> Any:
        """Return what `("storage", class, key, location, size, view)` or `("module", class, file, source)` refers to."""
        if isinstance(pid, tuple) and len(pid) == 4 and pid[0] == "module":
            return pid[1]
        _, d, key, location, n, view = _storage_id(pid, 6)
        width = 1 if d is None else d.itemsize
        made = self.unplaced.get(key)
        if made is None and self.placed is None:
            self.left -= n * width
            if self.left < 0:
                raise CheckpointError(f"load: the storage {key!r} of {n} elements is larger than the file")
            made = self.unplaced[key] = Storage(numpy.zeros(n * width, numpy.uint8), d)
        if made is None or made.dtype is not d or made.size() != n:
            raise CheckpointError(f"load: the storage {key!r} is of two types or sizes")
        if self.placed is not None:
            if key not in self.placed:
                self.placed[key] = self.place(made, location)
            made = self.placed[key]
        if view is None:
            return made
        if not isinstance(view, tuple) or len(view) != 3:
            raise CheckpointError(f"load: a damaged view of the storage {key!r}: {told(view)}")
        _, offset, size = view
        if not (type(offset) is int and type(size) is int and 0 <= offset <= offset + size <= n):
            raise CheckpointError(f"load: a view of the storage {key!r} reaches beyond it")
        return Storage(made.data[offset * width : (offset + size) * width], d)


def _storage_id(pid: Any, n: int) -> tuple:
    if not isinstance(pid, tuple) or len(pid) != n or pid[0] != "storage" or not isinstance(pid[2], str):
        raise CheckpointError(f"load: a reference that is not one to a storage: {told(pid)}")
    if not (isinstance(pid[1], dtypes.dtype) or pid[1] is UNTYPED) or not isinstance(pid[3], str) or type(pid[4]) is not int or pid[4] < 0:
        raise CheckpointError(f"load: a damaged reference to a storage: {told(pid)}")
    return (pid[0], None if isinstance(pid[1], str) else pid[1], *pid[2:])


def _word(d: dtypes.dtype | None) -> str:
    return "uint8" if d is None else d.name
