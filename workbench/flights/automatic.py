"""Record the training of a program that says nothing of it: `workbench run --flight`."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from types import FrameType
from typing import Any

import engine
from engine.data import DataLoader
from engine.nn import Module

from ..base.frames import variables as variables_in
from ..torch_models.loaded import is_module, torch
from . import state, variables
from .recorder import Flight, replaced

AUTOMATIC, AS_TORCH = "automatic", "automatic, as torch"


@contextlib.contextmanager
def automatic(path: str | os.PathLike[str], **options: Any) -> Iterator[None]:
    """In the block, record the first loop over a DataLoader whose function or `self` has a model and its optimizer.

    `options` are those of `wb.flight`. A program that has a block `with wb.flight(...)` of its own is left to it.
    """
    with contextlib.ExitStack() as stack:
        begun: list[Flight] = []

        def iterated(original: Any, loader: Any) -> Any:
            frame = variables.users(sys._getframe(2))
            if not begun and not Flight.entered and frame is not None and (subjects := _subjects(frame)):
                how = AS_TORCH if engine.__name__ == "torch" else AUTOMATIC
                begun.append(stack.enter_context(Flight(subjects, frame, path, started=how, **options)))
                return iter(loader)
            return original(loader)

        lib = torch()
        for one in (DataLoader, *([lib.utils.data.DataLoader] if lib is not None else [])):
            stack.enter_context(replaced(one, "__iter__", iterated))
        yield
    if not begun:
        print("wb.flight: no loop over a DataLoader with a model and an optimizer was seen, so nothing was recorded.", file=sys.stderr)


@contextlib.contextmanager
def started(how: str) -> Iterator[None]:
    """Run a program again as it was started: `how` is in its file."""
    with contextlib.ExitStack() as stack:
        if how == AS_TORCH:
            stack.enter_context(engine.install_as_torch())
        if how in (AS_TORCH, AUTOMATIC):
            stack.enter_context(automatic(""))
        yield


def _subjects(frame: FrameType) -> list[Any]:
    """The models and optimizers among the frame's variables and the attributes of its `self`: those that belong together."""
    names = {**frame.f_globals, **dict(variables_in(frame))}
    names |= vars(names["self"]) if hasattr(names.get("self"), "__dict__") else {}
    found = {id(x): x for _, x in sorted(names.items())}.values()
    optimizers = [x for x in found if hasattr(x, "param_groups") and hasattr(x, "step") and not isinstance(x, type)]
    trained = {id(p) for optimizer in optimizers for p in state.parameters(optimizer)}
    modules = [x for x in found if (isinstance(x, Module) or is_module(x)) and any(id(p) in trained for p in x.parameters())]
    inner = {id(part) for x in modules for part in x.modules() if part is not x}
    return [*(x for x in modules if id(x) not in inner), *optimizers]
