"""Host synchronizations: where the host waits for the GPU, and which op's code made it wait."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

ENGINE = f"{Path(__file__).resolve().parents[2] / 'engine'}/"


WRAPPER = f"{ENGINE}backends/gpu/waiting.py"  # around every call that waits


class Sync(NamedTuple):
    """A place at which the host waited."""

    what: str  # the call that waits: "bool", "get", "boolean mask", ...
    op: str  # the op whose forward or derivative rule was running; "" outside of any
    caller: str  # the engine's function that the program called: the outermost, such as "Tensor.item"
    primitive: str  # the outermost function of the array interface around the call; "" if there is none
    backward: bool  # whether a derivative rule was running


found: list[Sync] = []  # what has been recorded; tests clear it
listeners: list[Callable[[str], None]] = []  # called for each wait; they raise where the host cannot wait
_inside = 0  # above 0 while a call that has been recorded is running
_name = ""  # in a `called` block, the name of the waits


def record(what: str) -> None:
    """Note that the host waits here."""
    what = _name or what
    if not _inside:
        for listener in listeners:
            listener(what)
        found.append(Sync(what, *_cause()))


class as_one:
    """`with as_one(what):` records one synchronization for all of those inside."""

    def __init__(self, what: str) -> None:
        self.what = what

    def __enter__(self) -> None:
        global _inside
        record(self.what)
        _inside += 1

    def __exit__(self, *error: object) -> None:
        global _inside
        _inside -= 1


@contextlib.contextmanager
def called(name: str) -> Iterator[None]:
    """Record the waits of a block under this name."""
    global _name
    _name = name
    try:
        yield
    finally:
        _name = ""


def _cause() -> tuple[str, str, str, bool]:
    """Walk the stack outwards: to the op, and on to the program."""
    from engine.backends.primitives import PRIMITIVES
    from engine.core.op import OpType

    op = caller = primitive = ""
    backward, frame = False, sys._getframe(2)
    while frame is not None:
        code, names = frame.f_code, frame.f_locals
        folder = code.co_filename.rpartition("/")[0]
        if code.co_filename == WRAPPER:
            pass
        elif ENGINE in code.co_filename:
            caller = caller if "<locals>" in code.co_qualname and caller else code.co_qualname
        elif caller and "/site-packages/" not in code.co_filename and not code.co_filename.startswith("<"):
            break
        if folder.startswith(f"{ENGINE}backends") and not op:
            function = names["fn"].__name__ if code.co_name == "call" and "fn" in names else code.co_name
            primitive = function if function in PRIMITIVES else primitive
        if folder == f"{ENGINE}core" and not op:
            node = names.get("node")
            backward = code.co_name in ("specialised", "pull") and node is not None
            running = node.op if backward else names.get("op")
            op = running.name if isinstance(running, OpType) else ""
        frame = frame.f_back
    return op, caller, primitive, backward
