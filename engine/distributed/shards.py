"""Checkpoints in parts: each process writes a share of the tensors in a safetensors file, and process 0 a manifest in JSON.

They are written to a folder with a temporary name, which is renamed once all is on disk. Nothing is unpickled.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
from pathlib import Path
from typing import Any

from ..core.tensor import Tensor
from ..serialize import safetensors
from ..serialize.errors import CheckpointError
from ..serialize.source import opened
from . import collectives, world
from .objects import all_gather_object

_FORMAT = "engine.distributed checkpoint 1"
_KEPT = 2  # checkpoints


def structure(data: bytes) -> Any:
    """Return what `safetensors.save` has written."""
    with opened(io.BytesIO(data), False) as source:
        return safetensors.read(source)


def write(folder: str | os.PathLike, state: dict, random_state: Tensor, info: dict) -> str:
    """Write the state, equal in all processes, and the random state of each. Returns the checkpoint's path."""
    group = world.resolve()
    rank, size = group.rank(), group.size()
    final = Path(folder, f"step-{info['step']:010d}")
    part = final.with_name(final.name + ".part")
    if rank == 0:
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(parents=True)
    collectives.barrier()
    mine = {key: value for key, value in state.items() if key not in ("model", "optimizer")}
    mine["model"] = dict(list(state["model"].items())[rank::size])
    mine["optimizer"] = {**state["optimizer"], "state": dict(list(state["optimizer"]["state"].items())[rank::size])}
    memory = io.BytesIO()
    safetensors.save({"state": mine, "random": random_state}, memory)
    name, data = f"rank-{rank:05d}.safetensors", memory.getvalue()
    _put(part / name, data)
    files: list = [None] * size
    all_gather_object(files, {"name": name, "bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()})
    if rank == 0:
        _put(part / "manifest.json", json.dumps({"format": _FORMAT, "world_size": size, **info, "files": files}, indent=1).encode())
        _sync(part)
        shutil.rmtree(final, ignore_errors=True)
        part.rename(final)
        _sync(final.parent)
        for old in sorted(Path(folder).glob("step-" + "[0-9]" * 10))[:-_KEPT]:
            shutil.rmtree(old)
    collectives.barrier()
    return str(final)


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
    """Return the state, the random states by rank and the manifest of the latest checkpoint, or that of a step."""
    found = sorted(Path(folder).glob("step-" + "[0-9]" * 10))
    if not found:
        raise CheckpointError(f"there is no checkpoint in {folder}")
    chosen = found[-1] if step is None else Path(folder, f"step-{step:010d}")
    try:
        manifest = json.loads((chosen / "manifest.json").read_bytes())
        if not isinstance(manifest, dict) or manifest.get("format") != _FORMAT:
            raise CheckpointError(f"manifest.json is not of the format {_FORMAT!r}")
        parts = [_part(chosen, i, entry) for i, entry in enumerate(manifest["files"])]
        if len(parts) != manifest["world_size"]:
            raise CheckpointError(f"expected {manifest['world_size']} files, got {len(parts)}")
        state = parts[0]["state"]
        for part in parts[1:]:
            state["model"].update(part["state"]["model"])
            state["optimizer"]["state"].update(part["state"]["optimizer"]["state"])
        return state, [part["random"] for part in parts], manifest
    except (OSError, ValueError, KeyError, TypeError, IndexError, CheckpointError) as error:
        others = [int(path.name[5:]) for path in found if path != chosen]
        hint = f"; there is one of step {others[-1]}: load(..., step={others[-1]})" if others else ""
        raise CheckpointError(f"{chosen} is no complete checkpoint: {error}{hint}") from error


def _part(folder: Path, rank: int, entry: dict) -> dict:
    name = f"rank-{rank:05d}.safetensors"
    data = (folder / name).read_bytes()
    if len(data) != entry["bytes"]:
        raise CheckpointError(f"{name} has {len(data)} bytes, expected {entry['bytes']}")
    if hashlib.sha256(data).hexdigest() != entry["sha256"]:
        raise CheckpointError(f"{name} has changed since it was written")
    return structure(data)
