"""Record the training of a program that says nothing of it: `workbench run --flight`."""

from __future__ import annotations

import contextlib
import itertools
import sys
from collections import deque
from collections.abc import Callable, Iterator
from os import PathLike
from types import FrameType
from typing import Any

import engine
from engine.core.tensor import Tensor
from engine.data import DataLoader
from engine.nn import Module

from ..base.frames import is_installed
from ..base.frames import variables as variables_in
from ..torch_models.loaded import is_loader, is_module, is_tensor, torch
from . import state, values, variables
from .loops import TURNS
from .recorder import Flight, replaced

AUTOMATIC, AS_TORCH = "automatic", "automatic, as torch"
LARGE = 1 << 20  # bytes from which on an object of the program's is not kept

Turns = Callable[..., Any]


@contextlib.contextmanager
def automatic(path: str | PathLike[str], **options: Any) -> Iterator[Turns]:
    """In the block, record loops over a DataLoader, and those that go through the function that it gives, if a model and its optimizer are
    among the variables of their function or of its `self`. A loop that trains other ones is recorded anew.

    `options` are those of `wb.flight`. A program that has a block `with wb.flight(...)` of its own is left to it.
    """
    with contextlib.ExitStack() as stack:
        begun: list[Flight] = []

        def begin(frame: FrameType | None, call: str) -> bool:
            if frame is None or Flight.entered > sum(one.is_open for one in begun):
                return False
            if begun and (begun[-1].runs or (optimizers := _optimizers(_found(frame))) and not begun[-1].lacks(optimizers)):
                return True
            subjects = _subjects(frame)
            if call != TURNS and not any(hasattr(x, "param_groups") for x in subjects):  # a loop over data that trains nothing
                return False
            if not subjects or begun and not begun[-1].lacks(subjects):
                return bool(begun)
            if begun:
                begun[-1].__exit__(None, None, None)
            how = AS_TORCH if engine.__name__ == "torch" else AUTOMATIC
            begun.append(Flight(subjects, frame, path, started=how, call=call, **options))
            stack.push(begun[-1].__exit__)
            begun[-1].__enter__()
            return True

        def iterated(original: Any, loader: Any) -> Any:
            was_open = bool(begun) and begun[-1].is_open
            if not was_open and begin(variables.users(sys._getframe(2)), "flight"):
                return iter(loader)
            return original(loader)

        def turns(*given: Any) -> Any:
            iterable = given[0] if given else itertools.repeat(None)
            return begun[-1](iterable) if begin(sys._getframe(1), TURNS) else iterable

        lib = torch()
        for one in (DataLoader, *([lib.utils.data.DataLoader] if lib is not None else [])):
            stack.enter_context(replaced(one, "__iter__", iterated))
        yield turns
    if not begun:
        print("wb.flight: no loop was seen that trains a model with an optimizer, so nothing was recorded.", file=sys.stderr)


@contextlib.contextmanager
def started(how: str) -> Iterator[Turns | None]:
    """Run a program again as it was started: `how` is in its file. Gives the function for its loops, None if they are as they are."""
    with contextlib.ExitStack() as stack:
        if how == AS_TORCH:
            stack.enter_context(engine.install_as_torch())
        yield stack.enter_context(automatic("")) if how in (AS_TORCH, AUTOMATIC) else None


def _subjects(frame: FrameType) -> list[Any]:
    """What the steps of a loop may change: optimizers, models, tensors, deques, and small objects of the program's own classes.

    They are among the frame's variables, or attributes of `self` and of other objects of the program. Empty without anything to train.
    """
    found = _found(frame)
    optimizers = _optimizers(found)
    trained = {id(p) for optimizer in optimizers for p in state.parameters(optimizer)}
    shapes = {tuple(p.shape) for optimizer in optimizers for p in state.parameters(optimizer)}
    modules = [x for x in found if isinstance(x, Module) or is_module(x)]
    kept = [x for x in modules if any(id(p) in trained or p.requires_grad or tuple(p.shape) in shapes for p in x.parameters())]
    parts = {id(part) for x in kept for part in x.modules() if part is not x}
    known = trained | {id(p) for x in modules for p in x.parameters()}
    loose = [x for x in found if (isinstance(x, Tensor) or is_tensor(x)) and x.requires_grad and x.is_leaf and id(x) not in known]
    if not (loose or optimizers or any(p.requires_grad for x in kept for p in x.parameters())):
        return []
    others = [x for x in found if type(x) is deque or _is_own(x) and _is_small(x)]
    return [*(x for x in kept if id(x) not in parts), *optimizers, *loose, *others]


def _found(frame: FrameType) -> list[Any]:
    """The frame's variables and the attributes of those that are objects of the program's own classes, each once."""
    names = {**frame.f_globals, **dict(variables_in(frame))}
    named = [x for name, x in sorted(names.items()) if not name.startswith("_")]
    inner = [x for one in named if _is_own(one) for _, x in sorted(vars(one).items())]
    return list({id(x): x for x in (*named, *inner)}.values())


def _optimizers(found: list[Any]) -> list[Any]:
    return [x for x in found if hasattr(x, "param_groups") and hasattr(x, "step") and not isinstance(x, type)]


def _is_own(x: Any) -> bool:
    """Whether it is an object of one of the program's own classes that could change from step to step."""
    if isinstance(x, type | Module | DataLoader) or is_module(x) or is_loader(x) or type(getattr(x, "__dict__", None)) is not dict:
        return False
    file = getattr(sys.modules.get(type(x).__module__), "__file__", None)
    return bool(file) and not is_installed(file)


def _is_small(x: Any) -> bool:
    copy = values.copied(dict(vars(x)), lambda path, value: None, shared=True)
    return values.bytes_in(copy) < LARGE
