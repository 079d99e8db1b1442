"""Checkpoints in parts: each process writes a share of the tensors in a safetensors file, and process 0 a manifest in JSON.

They are written to a folder with a temporary name, which is renamed once all is on disk. Nothing is unpickled.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..core.tensor import Tensor
from ..serialize import safetensors
from ..serialize.errors import CheckpointError
from ..serialize.source import opened
from . import world
from .objects import all_gather_object

_FORMAT = "engine.distributed checkpoint 1"
_NAME = "step-" + "[0-9]" * 10


def structure(data: bytes) -> Any:
    """Return what `safetensors.save` has written."""
    with opened(io.BytesIO(data), False) as source:
        return safetensors.read(source)


def write(folder: str | os.PathLike, state: dict, random_state: Tensor, info: dict) -> str:
    """Write the state, equal in all processes, the random state of each, and `info`. Returns the checkpoint's path.

    Raises OSError in all processes if one of them can't write.
    """
    group = world.resolve()
    rank, size = group.rank(), group.size()
    final = Path(folder, f"step-{state['steps']:010d}")
    part, old = final.with_name(final.name + ".part"), final.with_name(final.name + ".old")

    def begin() -> None:
        if rank == 0:
            shutil.rmtree(part, ignore_errors=True)
            part.mkdir(parents=True)

    def put_part() -> dict[str, Any]:
        mine = {key: value for key, value in state.items() if key not in ("model", "optimizer")}
        mine["model"] = dict(list(state["model"].items())[rank::size])
        mine["optimizer"] = {**state["optimizer"], "state": dict(list(state["optimizer"]["state"].items())[rank::size])}
        memory = io.BytesIO()
        safetensors.save({"state": mine, "random": random_state}, memory)
        data = memory.getvalue()
        _put(part / _file(rank), data)
        return {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}

    def complete() -> None:
        if rank == 0:
            manifest = {"format": _FORMAT, "step": state["steps"], "epoch": state["epoch"], **info, "files": files}
            _put(part / "manifest.json", json.dumps(manifest, indent=1).encode())
            _sync(part)
            if final.exists():
                final.rename(old)
            part.rename(final)
            _sync(final.parent)
            for path in (old, *[path for path in sorted(Path(folder).glob(_NAME)) if path < final][:-1]):
                shutil.rmtree(path, ignore_errors=True)

    _in_all(begin)
    files = _in_all(put_part)
    _in_all(complete)
    return str(final)


def _in_all(action: Callable[[], Any]) -> list:
    """Do something in all processes, and return their results. Raises OSError in all if one does."""
    try:
        mine: tuple[Any, str | None] = action(), None
    except OSError as error:
        mine = None, f"rank {world.get_rank()}: {error}"
    found: list = [None] * world.get_world_size()
    all_gather_object(found, mine)
    if failed := next((error for _, error in found if error), None):
        raise OSError(failed)
    return [result for result, _ in found]


def _file(rank: int) -> str:
    return f"rank-{rank:05d}.safetensors"


def _put(path: Path, data: bytes) -> None:
    with open(path, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _sync(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def read(folder: str | os.PathLike, step: int | None = None) -> tuple[dict, list[Tensor], dict]:
    """Return the state, the random states by rank and the manifest of the latest checkpoint, or that of a step.

    Raises CheckpointError if it is missing, incomplete or damaged; the message names the latest earlier one that is complete.
    """
    found = sorted(Path(folder).glob(_NAME))
    if not found:
        raise CheckpointError(f"there is no checkpoint in {folder}")
    chosen = found[-1] if step is None else Path(folder, f"step-{step:010d}")
    try:
        return _whole(chosen)
    except CheckpointError as error:
        for path in reversed([path for path in found if path < chosen]):
            try:
                _whole(path)
            except CheckpointError:
                continue
            good = int(path.name[5:])
            raise CheckpointError(f"{error}; the one of step {good} is complete: load it with step={good}") from error
        raise


def _whole(path: Path) -> tuple[dict, list[Tensor], dict]:
    try:
        manifest = json.loads((path / "manifest.json").read_bytes())
        if manifest["format"] != _FORMAT:
            raise CheckpointError(f"manifest.json is not of the format {_FORMAT!r}")
        parts = [structure(_got(path / _file(rank), entry)) for rank, entry in enumerate(manifest["files"])]
        state = parts[0]["state"]
        for part in parts[1:]:
            state["model"].update(part["state"]["model"])
            state["optimizer"]["state"].update(part["state"]["optimizer"]["state"])
        return state, [part["random"] for part in parts], manifest
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RuntimeError) as error:
        raise CheckpointError(f"{path} is not a complete checkpoint: {error}") from error


def _got(path: Path, entry: dict) -> bytes:
    data = path.read_bytes()
    if len(data) != entry["bytes"]:
        raise CheckpointError(f"{path.name} has {len(data)} bytes, expected {entry['bytes']}")
    if hashlib.sha256(data).hexdigest() != entry["sha256"]:
        raise CheckpointError(f"{path.name} has changed since it was written")
    return data
