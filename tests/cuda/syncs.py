"""Host synchronisations: where the host waits for the GPU, and which op's code made it wait."""

from __future__ import annotations

import sys
from typing import Any, NamedTuple


class Sync(NamedTuple):
    """A place at which the host waited."""

    what: str  # the call that waits: "bool", "asnumpy", "boolean mask", ...
    op: str  # the op whose forward or rule was running; "" outside of any
    primitive: str  # the outermost function of the array interface around the call; "" if there is none
    backward: bool  # whether a derivative rule was running


found: list[Sync] = []  # what has been recorded; tests clear it
_inside = 0  # above 0 while a call that has been recorded is running


def record(what: str) -> None:
    """Note that the host waits here."""
    if not _inside:
        found.append(Sync(what, *_cause()))


class as_one:
    """`with as_one(what):` records one synchronisation for all of those inside."""

    def __init__(self, what: str) -> None:
        self.what = what

    def __enter__(self) -> None:
        global _inside
        record(self.what)
        _inside += 1

    def __exit__(self, *error: object) -> None:
        global _inside
        _inside -= 1


def _cause() -> tuple[str, str, bool]:
    """Walk the stack outwards to the op, and remember the last function of the backends on the way."""
    from engine.backends.primitives import PRIMITIVES
    from engine.core.op import OpType

    primitive, frame = "", sys._getframe(2)
    while frame is not None:
        code = frame.f_code
        folder = code.co_filename.rpartition("/")[0]
        if "/engine/backends" in folder:
            name = frame.f_locals["fn"].__name__ if code.co_name == "call" and "fn" in frame.f_locals else code.co_name
            primitive = name if name in PRIMITIVES else primitive
        if folder.endswith("/engine/core"):
            local: Any = frame.f_locals.get("op")
            node = frame.f_locals.get("node")
            backward = node is not None and isinstance(getattr(node, "op", None), OpType) and code.co_name in ("specialised", "pull")
            if backward or isinstance(local, OpType):
                return (node.op if backward else local).name, primitive, backward
        frame = frame.f_back
    return "", primitive, False
