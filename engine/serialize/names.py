"""List the globals that a checkpoint refers to, without building anything."""

from __future__ import annotations

import io
import os
import pickletools
from typing import Any, BinaryIO

from .allowed import Allowed
from .archive import Archive
from .errors import CheckpointError
from .source import opened


def get_unsafe_globals_in_checkpoint(f: str | os.PathLike | BinaryIO) -> list[str]:
    """Return the `module.name` of each global in a zip checkpoint that `load(weights_only=True)` would refuse. Nothing is loaded."""
    with opened(f, False) as source:
        if source.read(0, min(source.size, 4)) != b"PK\x03\x04":
            raise ValueError("Expected input to be a checkpoint returned by torch.save")
        text = Archive(source).read("data.pkl")
    policy, unsafe = Allowed(lambda pid: None), []
    try:
        names = sorted(_names(text))
    except (ValueError, IndexError, KeyError) as error:
        raise CheckpointError(f"the pickle of the checkpoint is damaged: {error}") from None
    for module, name in names:
        try:
            policy.resolve(module, name)
        except CheckpointError:
            unsafe.append(f"{module}.{name}")
    return unsafe


def _names(text: bytes) -> set[tuple[str, str]]:
    """Return every (module, name) pair in a pickle."""
    found: set[tuple[str, str]] = set()
    memo: dict[int, Any] = {}
    said: list[Any] = []  # strings in the order they are pushed; STACK_GLOBAL takes the last two
    for op, arg, _ in pickletools.genops(io.BytesIO(text)):
        if op.name == "GLOBAL":
            module, _, name = str(arg).partition(" ")
            found.add((module, name))
        elif op.name == "STACK_GLOBAL":
            found.add((said[-2], said[-1]))
        elif op.name in ("MEMOIZE", "PUT", "BINPUT", "LONG_BINPUT"):
            memo[len(memo) if op.name == "MEMOIZE" else arg] = said[-1] if said else None
        elif op.name in ("GET", "BINGET", "LONG_BINGET"):
            said.append(memo.get(arg))
        elif isinstance(arg, str):
            said.append(arg)
    return found
