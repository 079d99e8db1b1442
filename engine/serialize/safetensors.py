"""Read and write the safetensors format: flat dicts with `save_file` and `load_file`, and nested structures.

A file is plain data: an 8-byte length, a JSON header and the tensors' bytes. The nesting of dicts and lists is stored as JSON in the
header's metadata. Nothing in a file is executed, and everything is validated before use.
"""

from __future__ import annotations

import json
import math
import os
import re
import struct
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, BinaryIO

import numpy

from ..base import dtypes
from ..base.errors import describe
from ..core import devices
from ..core.tensor import Size, Tensor
from .errors import CheckpointError
from .source import Source, opened, whole
from .storage import Storage, placing, tensor_of

_NAMES = {
    "BOOL": dtypes.bool_, "U8": dtypes.uint8, "I8": dtypes.int8, "I16": dtypes.int16, "U16": dtypes.uint16, "F16": dtypes.float16,
    "BF16": dtypes.bfloat16, "I32": dtypes.int32, "U32": dtypes.uint32, "F32": dtypes.float32, "F64": dtypes.float64,
    "I64": dtypes.int64, "U64": dtypes.uint64, "C64": dtypes.complex64,
}  # fmt: skip
_CODES = {d: code for code, d in _NAMES.items()}
_KEY = "engine.structure"
_VERSION = 1
_MAX_HEADER = 100_000_000  # the format's own limit
_MAX_DIMS = 64


# -- saving ---------------------------------------------------------------------------------------------------------------------


def save(obj: Any, f: str | os.PathLike | BinaryIO) -> None:
    """Write a tensor, state dict, or nested dicts, lists and tuples of tensors, numbers, strings, None, dtypes and devices.

    Any safetensors reader can read the tensors. A tensor that occurs twice is written once and loaded as one tensor. Raises TypeError,
    naming the location, for anything else (to save a model, save `model.state_dict()`). A file at a path is written atomically.
    """
    arrays: dict[str, numpy.ndarray] = {}
    tree = _describe(obj, "", arrays, {}, set())
    _write(arrays, {"format": "pt", _KEY: json.dumps({"version": _VERSION, "tree": tree}, separators=(",", ":"))}, f)


def _write(arrays: dict[str, numpy.ndarray], metadata: dict[str, str], f: str | os.PathLike | BinaryIO) -> None:
    codes = {name: _stored(a) for name, a in arrays.items()}
    header: dict[str, Any] = {"__metadata__": metadata}
    at = 0
    # widest elements first, as other writers do, so that every tensor is aligned
    order = sorted(arrays, key=lambda name: (-codes[name][0].dtype.itemsize, name))
    for name in order:
        array, code = codes[name]
        header[name] = {"dtype": code, "shape": list(array.shape), "data_offsets": [at, at + array.nbytes]}
        at += array.nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    if len(text) > _MAX_HEADER:
        raise ValueError(f"save: the structure takes {len(text)} bytes, the format allows {_MAX_HEADER}")
    chunks = [
        struct.pack("<Q", len(text)),
        text,
        *(numpy.ascontiguousarray(codes[name][0]).reshape(-1).view(numpy.uint8) for name in order),
    ]
    if not isinstance(f, (str, os.PathLike)):
        for chunk in chunks:
            f.write(memoryview(chunk))
        return
    with whole(os.fspath(f)) as file:
        for chunk in chunks:
            file.write(memoryview(chunk))


def _stored(array: numpy.ndarray) -> tuple[numpy.ndarray, str]:
    """Return the array in a form that the format supports, and the format's dtype code."""
    if array.dtype == numpy.complex128:
        return numpy.ascontiguousarray(array).reshape(*array.shape, 1).view(numpy.float64), "F64"
    return array, _CODES[dtypes.FROM_NUMPY[array.dtype]]


def _describe(x: Any, path: str, arrays: dict, seen: dict, above: set) -> Any:
    """Convert to JSON, moving tensors to `arrays` by path. `seen` maps memory to names, `above` holds the enclosing containers' ids."""
    if isinstance(x, Tensor):
        return _describe_tensor(x, path, arrays, seen)
    if x is None or isinstance(x, (bool, str)):
        return x
    if isinstance(x, (int, numpy.integer)):
        return int(x) if abs(int(x)) < 1 << 53 else {"int": str(int(x))}
    if isinstance(x, (float, numpy.floating)):
        return float(x) if math.isfinite(x) else {"float": str(float(x))}
    if isinstance(x, (complex, numpy.complexfloating)):
        return {"complex": [_describe(float(p), path, arrays, seen, above) for p in (x.real, x.imag)]}
    if isinstance(x, numpy.bool_):
        return bool(x)
    if isinstance(x, dtypes.dtype):
        return {"dtype": x.name}
    if isinstance(x, devices.device):
        return {"device": str(x)}
    if isinstance(x, (bytes, bytearray)):
        return {"bytes": bytes(x).hex()}
    if id(x) in above:
        raise ValueError(f"save: {path or 'the object'} contains itself")
    above = above | {id(x)}
    if isinstance(x, Size):
        return {"size": [int(n) for n in x]}
    if isinstance(x, (list, tuple)):
        if isinstance(x, tuple) and hasattr(x, "_fields"):
            raise TypeError(f"save: {path or 'the object'} is a named tuple {type(x).__name__}; save it as a dict or a tuple")
        items = [_describe(v, f"{path}.{i}" if path else str(i), arrays, seen, above) for i, v in enumerate(x)]
        return {"tuple": items} if isinstance(x, tuple) else items
    if isinstance(x, Mapping):
        pairs = [[_describe_key(k, path), _describe(v, f"{path}.{k}" if path else str(k), arrays, seen, above)] for k, v in x.items()]
        metadata = getattr(x, "_metadata", None)
        if metadata is not None:
            return {"state_dict": pairs, "metadata": _describe(dict(metadata), f"{path}._metadata", arrays, seen, above)}
        return {"ordered": pairs} if isinstance(x, OrderedDict) else {"dict": pairs}
    raise TypeError(
        f"save: {path or 'the object'} is a {type(x).__name__}. A checkpoint holds tensors, numbers, strings, None, lists, tuples "
        "and dicts; of a module or optimizer save its state_dict()"
    )


def _describe_tensor(x: Tensor, path: str, arrays: dict, seen: dict) -> Any:
    array = x.array
    memory = (x.data_ptr(), array.shape, array.strides, str(array.dtype)) if array.size else id(x)
    name = seen.get(memory)
    if name is None:
        name = path or "tensor"
        while name in arrays or name == "__metadata__":
            name += "_"
        seen[memory] = name
        arrays[name] = x._host()
    place: dict[str, Any] = {"tensor": name}
    if array.dtype == numpy.complex128:
        place["as"] = "complex128"
    if x.requires_grad and x.is_leaf:
        place["requires_grad"] = True
    return place


def _describe_key(key: Any, path: str) -> Any:
    if not (key is None or isinstance(key, (str, bool, int, float, tuple))):
        raise TypeError(
            f"save: {path or 'the object'} has a key of type {type(key).__name__}; keys are strings, numbers, None or tuples of them"
        )
    if isinstance(key, tuple):
        return {"tuple": [_describe_key(k, path) for k in key]}
    return _describe(key, path, {}, {}, set())


def save_file(tensors: dict[str, Tensor], filename: str | os.PathLike, metadata: dict[str, str] | None = None) -> None:
    """Write a dict of named tensors, like `safetensors.torch.save_file`. Views are written as copies."""
    if not isinstance(tensors, dict) or not all(isinstance(k, str) and isinstance(v, Tensor) for k, v in tensors.items()):
        raise ValueError(f"save_file: expected a dict of [str, Tensor], got {describe(tensors)}")
    arrays = {name: t._host() for name, t in tensors.items()}
    if bad := [name for name, a in arrays.items() if a.dtype == numpy.complex128]:
        raise ValueError(f"save_file: safetensors has no complex128, which {bad[0]!r} is")
    _write(arrays, {"format": "pt", **(metadata or {})}, filename)


def load_file(filename: str | os.PathLike, device: Any = "cpu") -> dict[str, Tensor]:
    """Return the tensors of a safetensors file by name, like `safetensors.torch.load_file`."""
    with opened(filename, False) as source:
        reader = _Reader(source, placing(device))
        return {name: reader.tensors[name] for name in reader.header()}


# -- loading ----------------------------------------------------------------------------------------------------------------------


def read(source: Source, map_location: Any = None) -> Any:
    """Read a structure written by `save`, or a dict of tensors from any other safetensors file."""
    return _Reader(source, placing(map_location)).read()


class _Reader:
    def __init__(self, source: Source, place: Callable) -> None:
        self.source, self.place, self.size = source, place, source.size
        self.tensors: dict[str, Tensor] = {}
        self.used: set[str] = set()
        self.metadata: dict[str, str] = {}

    def refuse(self, reason: str) -> CheckpointError:
        return self.source.refuse(reason)

    def read(self) -> Any:
        header, metadata = self.header(), self.metadata
        if _KEY not in metadata:
            return {name: self.tensors[name] for name in header}
        structure = self.parse(metadata[_KEY].encode(), "structure")
        if not isinstance(structure, dict) or structure.get("version") != _VERSION or set(structure) != {"version", "tree"}:
            raise self.refuse(f"has a structure of another version than {_VERSION}")
        try:
            result = self.build(structure["tree"])
        except RecursionError:
            raise self.refuse("is nested too deeply") from None
        if self.used != set(self.tensors):
            raise self.refuse(f"holds tensors that its structure does not name: {', '.join(sorted(set(self.tensors) - self.used)[:5])}")
        return result

    def header(self) -> dict:
        """Read and validate the header, and load the tensors that it describes."""
        if self.size < 8:
            raise self.refuse(f"is not a checkpoint: expected at least 8 bytes, got {self.size}")
        (n,) = struct.unpack("<Q", self.source.read(0, 8))
        if n > _MAX_HEADER or n > self.size - 8:
            raise self.refuse(f"is not a checkpoint or is cut off: its header would take {n} bytes, {self.size - 8} are there")
        header = self.parse(self.source.read(8, n), "header")
        if not isinstance(header, dict):
            raise self.refuse("has a header that is not a JSON object")
        self.metadata = header.pop("__metadata__", {})
        if not isinstance(self.metadata, dict) or not all(isinstance(v, str) for v in self.metadata.values()):
            raise self.refuse("has metadata that is not a map from strings to strings")
        self.arrays(header, 8 + n)
        return header

    def parse(self, text: bytes, what: str) -> Any:
        def once(pairs: list) -> dict:
            found = dict(pairs)
            if len(found) != len(pairs):
                raise ValueError("a key stands twice")
            return found

        def no_constant(text: str) -> Any:
            raise ValueError(f"{text} is not JSON")

        try:
            return json.loads(text.decode("utf-8"), object_pairs_hook=once, parse_constant=no_constant)
        except (ValueError, RecursionError) as error:
            raise self.refuse(f"has a damaged {what}: {error}") from None

    def arrays(self, header: dict, start: int) -> None:
        """Load all tensors, after checking that their byte ranges cover the file without gaps or overlaps."""
        places = []
        for name, entry in header.items():
            if not isinstance(entry, dict) or set(entry) != {"dtype", "shape", "data_offsets"}:
                raise self.refuse(f"has a damaged entry for {name!r}")
            d, shape, offsets = _NAMES.get(str(entry["dtype"])), entry["shape"], entry["data_offsets"]
            if d is None:
                raise self.refuse(f"holds {name!r} of dtype {entry['dtype']!r}; known are {', '.join(_NAMES)}")
            if not _counts(shape) or len(shape) > _MAX_DIMS or not _counts(offsets) or len(offsets) != 2:
                raise self.refuse(f"has a damaged shape or place for {name!r}")
            begin, end = offsets
            if end - begin != math.prod(shape) * d.itemsize:
                raise self.refuse(
                    f"gives {name!r} {end - begin} bytes, but {d.name} of shape {tuple(shape)} takes {math.prod(shape) * d.itemsize}"
                )
            places.append((begin, end, name, d, shape))
        at = 0
        for begin, end, name, *_ in sorted(places, key=lambda p: p[:2]):
            if begin != at:
                raise self.refuse(f"has a gap or an overlap before {name!r}: expected byte {at}, got {begin}")
            at = end
        if at != self.size - start:
            raise self.refuse(f"is cut off or has more than it should: its tensors take {at} bytes, {self.size - start} are there")
        for begin, end, name, d, shape in places:
            data = self.source.array(start + begin, end - begin)
            if d is dtypes.bool_ and data.size and data.max() > 1:
                raise self.refuse(f"holds {name!r} of dtype bool with bytes other than 0 and 1")
            self.tensors[name] = tensor_of(self.place(Storage(data, d), "cpu").seen_as(d, 0, shape, _strides(shape)), False)

    def build(self, x: Any) -> Any:
        """Build an object from its JSON; unknown kinds are refused."""
        if x is None or isinstance(x, (bool, int, float, str)):
            return x
        if isinstance(x, list):
            return [self.build(v) for v in x]
        if not isinstance(x, dict) or not x:
            raise self.refuse(f"has a structure with {str(x)[:60]!r} in it")
        if "tensor" in x:
            return self.tensor(x)
        if "state_dict" in x and set(x) == {"state_dict", "metadata"}:
            out = OrderedDict(self.pairs(x["state_dict"]))
            metadata = self.build(x["metadata"])
            if not isinstance(metadata, dict):
                raise self.refuse("has damaged metadata in a state dict")
            out._metadata = OrderedDict(metadata)  # type: ignore[attr-defined]
            return out
        if len(x) != 1:
            raise self.refuse(f"has a structure with {str(x)[:60]!r} in it")
        ((kind, value),) = x.items()
        build = getattr(self, f"build_{kind}", None) if kind in _KINDS else None
        if build is None:
            raise self.refuse(f"has a structure of unknown kind {str(kind)[:40]!r}")
        try:
            return build(value)
        except (ValueError, TypeError, RuntimeError, OverflowError) as error:
            if isinstance(error, (CheckpointError, RecursionError)):
                raise
            raise self.refuse(f"has a damaged {kind}: {error}") from None

    def tensor(self, x: dict) -> Tensor:
        name = x["tensor"]
        if not isinstance(name, str) or name not in self.tensors or not set(x) <= {"tensor", "as", "requires_grad"}:
            raise self.refuse(f"names a tensor that it does not hold: {str(name)[:60]!r}")
        tensor = self.tensors[name]
        if x.get("as", "complex128") != "complex128" or x.get("requires_grad", True) is not True:
            raise self.refuse(f"has a damaged entry for the tensor {name!r}")
        if "as" in x and tensor.dtype is not dtypes.complex128:
            if tensor.dtype is not dtypes.float64 or tensor.ndim == 0 or tensor.shape[-1] != 2 or name in self.used:
                raise self.refuse(f"says that {name!r} is complex, but it holds {tensor.dtype.name} of shape {tuple(tensor.shape)}")
            tensor.array = tensor.array.view(numpy.complex128).reshape(tensor.array.shape[:-1])
        if "requires_grad" in x:
            if not (tensor.dtype.is_floating_point or tensor.dtype.is_complex):
                raise self.refuse(f"says that {name!r} of dtype {tensor.dtype.name} requires grad")
            tensor.requires_grad_()
        self.used.add(name)
        return tensor

    def pairs(self, x: Any) -> list[tuple]:
        if not isinstance(x, list) or not all(isinstance(p, list) and len(p) == 2 for p in x):
            raise self.refuse("has a damaged dict")
        found = [(self.key(k), self.build(v)) for k, v in x]
        if len({k for k, _ in found}) != len(found):
            raise self.refuse("has a dict with a key that stands twice")
        return found

    def key(self, x: Any) -> Any:
        if isinstance(x, dict) and set(x) == {"tuple"} and isinstance(x["tuple"], list):
            return tuple(self.key(k) for k in x["tuple"])
        if isinstance(x, (dict, list)) and not (isinstance(x, dict) and set(x) <= {"float", "int"}):
            raise self.refuse("has a damaged key in a dict")
        return self.build(x)

    def build_dict(self, x: Any) -> dict:
        return dict(self.pairs(x))

    def build_ordered(self, x: Any) -> OrderedDict:
        return OrderedDict(self.pairs(x))

    def build_tuple(self, x: Any) -> tuple:
        if not isinstance(x, list):
            raise ValueError("expected a list")
        return tuple(self.build(v) for v in x)

    def build_size(self, x: Any) -> Size:
        if not _counts(x):
            raise ValueError("expected a list of sizes")
        return Size(x)

    def build_int(self, x: Any) -> int:
        if not isinstance(x, str) or not re.fullmatch(r"-?[0-9]{1,4000}", x):
            raise ValueError("expected an integer")
        return int(x)

    def build_float(self, x: Any) -> float:
        if x not in ("inf", "-inf", "nan"):
            raise ValueError("expected inf, -inf or nan")
        return float(x)

    def build_complex(self, x: Any) -> complex:
        real, imag = (self.build(v) for v in x)
        return complex(real, imag)

    def build_dtype(self, x: Any) -> dtypes.dtype:
        if not isinstance(x, str) or x not in dtypes.BY_NAME:
            raise ValueError(f"{str(x)[:40]!r} is no dtype")
        return dtypes.BY_NAME[x]

    def build_device(self, x: Any) -> devices.device:
        return devices.device(x)

    def build_bytes(self, x: Any) -> bytes:
        return bytes.fromhex(x)


_KINDS = {name.removeprefix("build_") for name in vars(_Reader) if name.startswith("build_")}


def _counts(x: Any) -> bool:
    return isinstance(x, list) and all(isinstance(n, int) and not isinstance(n, bool) and 0 <= n < 1 << 63 for n in x)


def _strides(shape: list) -> tuple:
    """Return the strides of a contiguous tensor, in elements."""
    return tuple(math.prod(shape[i + 1 :]) for i in range(len(shape)))
