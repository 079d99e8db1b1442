"""The file that `compiled.export` writes, and `load`, which reads it back: a program of XLA that needs nothing that it was traced from.

It is a zip file of four members, none of them compressed but the text:

    manifest.json        format and versions; names, shapes and dtypes of inputs, state and results
    program.jax          the program, as `jax.export` serializes it: StableHLO with its signature
    program.mlir         the same program as StableHLO text
    state.safetensors    the values of the state by name

The program is `(state, *inputs) -> (results, changes)`: `state` and `changes` are dicts of arrays by name, and `state | changes` is the
state of the next call. `changes` is empty for inference.
"""

from __future__ import annotations

import io
import json
import os
import zipfile
from typing import Any

import numpy

from ..base import tree
from ..core.tensor import Tensor
from ..serialize import safetensors
from ..serialize.errors import CheckpointError

FORMAT, VERSION = "gradient-workbench program", 1
MANIFEST, PROGRAM, TEXT, STATE = "manifest.json", "program.jax", "program.mlir", "state.safetensors"
_LARGEST = 100_000_000  # bytes of a manifest


class Program:
    """An exported program with its state. A call takes tensors or arrays, returns tensors, and updates the state."""

    def __init__(self, exported: Any, manifest: dict, state: dict) -> None:
        import jax

        self.manifest, self.exported = manifest, exported
        self._state, self._call = state, jax.jit(exported.call)

    @property
    def platforms(self) -> tuple[str, ...]:
        """The names of JAX's platforms for which the program was lowered, such as "cpu" and "cuda"."""
        return self.exported.platforms

    def state_dict(self) -> dict[str, Tensor]:
        """Return copies of the state's values by name; those of parameters and buffers are the names in the model's `state_dict()`."""
        return {name: Tensor._wrap(numpy.array(value)) for name, value in self._state.items()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Replace values of the state by tensors or arrays. Raises ValueError for an unknown name, another shape or another dtype."""
        new = {name: _array(value) for name, value in state.items()}
        known = {entry["name"]: entry for entry in self.manifest["state"]}
        for name, value in new.items():
            if name not in known:
                raise ValueError(f"load_state_dict: the program has no state {name!r}; it has {', '.join(known)}")
            _check(value, known[name], {}, "load_state_dict", repr(name))
        self._state = self._state | new

    def __call__(self, *inputs: Any) -> Any:
        """Run the program. Raises TypeError or ValueError for inputs that it is not made for."""
        import jax

        entries = self.manifest["inputs"]
        if len(inputs) != len(entries):
            raise TypeError(f"the program takes {len(entries)} inputs ({', '.join(e['name'] for e in entries)}), got {len(inputs)}")
        arrays, sizes = [_array(x) for x in inputs], {}
        for array, entry in zip(arrays, entries, strict=True):
            _check(array, entry, sizes, "the program", f"input {entry['name']!r}")
        with jax.enable_x64(True):
            results, changes = self._call(self._state, *arrays)
        self._state = self._state | changes
        return tree.mapped(lambda x: Tensor._wrap(numpy.array(x)), results)

    def __repr__(self) -> str:
        inputs = ", ".join(f"{e['name']}: {e['dtype']}{tuple(e['shape'])}" for e in self.manifest["inputs"])
        return f"Program({inputs}; {len(self._state)} tensors of state; {', '.join(self.platforms)})"


def _array(x: Any) -> numpy.ndarray:
    return x._host() if isinstance(x, Tensor) else numpy.asarray(x)


def _check(array: numpy.ndarray, entry: dict, sizes: dict, who: str, what: str) -> None:
    """Compare an array with an entry of the manifest. `sizes` collects the sizes of variable dimensions by name."""
    shape, same = entry["shape"], array.ndim == len(entry["shape"])
    same = same and all(n == (sizes.setdefault(d, n) if isinstance(d, str) else d) for n, d in zip(array.shape, shape, strict=True))
    if not same or str(array.dtype) != entry["dtype"]:
        wanted = f"({', '.join(str(sizes.get(d, d)) for d in shape)}{',' * (len(shape) == 1)})"
        raise ValueError(f"{who}: {what} is {entry['dtype']} of shape {wanted}, got {array.dtype} of shape {array.shape}")


def load(path: str | os.PathLike) -> Program:
    """Read a program written by `compiled.export`. The file is data: it is checked, and nothing in it is executed until it is called.

    Raises ValueError, saying what is wrong, for a file that is damaged, of another kind, or made by a later version.
    """
    try:
        from jax import export
    except ImportError as error:
        raise ModuleNotFoundError(f"load needs the package jax ({error}): pip install gradient-workbench[xla]", name="jax") from error

    def refuse(reason: str) -> ValueError:
        return ValueError(f"load: {os.fspath(path)} {reason}")

    try:
        with zipfile.ZipFile(path) as file:
            manifest = _manifest(file, refuse)
            program, state = _member(file, PROGRAM, refuse), _member(file, STATE, refuse)
    except zipfile.BadZipFile as error:
        raise refuse(f"is no exported program, or damaged: {error}") from None
    lowest, highest = export.minimum_supported_calling_convention_version, export.maximum_supported_calling_convention_version
    if not lowest <= manifest["calling_convention"] <= highest:
        raise refuse(
            f"was exported by jax {manifest['jax']} with calling convention {manifest['calling_convention']}; "
            f"the jax that is installed knows {lowest} to {highest}"
        )
    try:
        exported = export.deserialize(bytearray(program))
    except ImportError as error:
        raise ModuleNotFoundError(f"load needs the package flatbuffers ({error}): pip install gradient-workbench[xla]") from error
    except Exception as error:  # whatever a parser raises for bytes that are no program
        raise refuse(f"has a damaged program: {type(error).__name__}: {error}") from error
    try:
        tensors = safetensors.load_file(io.BytesIO(state))  # type: ignore[arg-type]
    except CheckpointError as error:
        raise refuse(f"has a damaged state: {error}") from error
    values = {name: tensor._host() for name, tensor in tensors.items()}
    _agree(manifest, exported, values, refuse)
    return Program(exported, manifest, values)


def _member(file: zipfile.ZipFile, name: str, refuse: Any) -> bytes:
    try:
        info = file.getinfo(name)
    except KeyError:
        raise refuse(f"is no exported program: it has no member {name}") from None
    if info.compress_type != zipfile.ZIP_STORED:
        raise refuse(f"is no exported program: its member {name} is compressed")
    return file.read(info)


def _manifest(file: zipfile.ZipFile, refuse: Any) -> dict:
    text = _member(file, MANIFEST, refuse)
    try:
        manifest = json.loads(text[:_LARGEST])
    except (ValueError, RecursionError) as error:
        raise refuse(f"has a damaged manifest: {error}") from None
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise refuse(f"is no exported program: its manifest does not say {FORMAT!r}")
    if manifest.get("version") != VERSION:
        raise refuse(f"has version {manifest.get('version')!r} of the format, and this version of the engine reads {VERSION}")
    kinds = {"calling_convention": int, "jax": str, "inputs": list, "state": list, "results": list}
    if wrong := [key for key, kind in kinds.items() if not isinstance(manifest.get(key), kind)]:
        raise refuse(f"has a damaged manifest: {wrong[0]!r} is missing or of the wrong type")
    for entry in (*manifest["inputs"], *manifest["state"], *manifest["results"]):
        if not (isinstance(entry, dict) and isinstance(entry.get("name"), str) and isinstance(entry.get("shape"), list)):
            raise refuse(f"has a damaged manifest: an entry is {str(entry)[:80]}")
    return manifest


def _agree(manifest: dict, exported: Any, state: dict, refuse: Any) -> None:
    """Check that the manifest, the program and the values describe the same inputs and state."""

    def told(entries: list) -> dict:
        return {e["name"]: (tuple(map(str, e["shape"])), e.get("dtype")) for e in entries}

    def found(arrays: dict) -> dict:
        return {name: (tuple(map(str, a.shape)), str(a.dtype)) for name, a in arrays.items()}

    try:
        (avals, *inputs), _ = exported.in_tree.unflatten(exported.in_avals)
        same = found(avals) == told(manifest["state"]) == found(state)
        same = same and list(told(manifest["inputs"]).values()) == list(found(dict(enumerate(inputs))).values())
    except (ValueError, TypeError, AttributeError):
        same = False
    if not same:
        raise refuse("contradicts itself: its manifest, its program and its state name other inputs or tensors")
