"""The variables of the function or cell around a training loop: numbers, small tensors and random generators are part of a step."""

from __future__ import annotations

import ast
import functools
import linecache
import random
import sys
from collections import deque
from collections.abc import Collection, Mapping
from types import FrameType
from typing import Any

import numpy

from engine.core.tensor import Tensor

from ..base.frames import is_installed, variables
from ..torch_models.loaded import is_tensor
from . import values

SMALL = 1 << 16  # bytes of a tensor or array
SHORT = 64  # items of a container
_NUMBERS = (type(None), bool, int, float, complex)  # not strings, which may be secrets or paths
_HIDDEN = ("In", "Out", "exit", "quit")

_LOST: dict[str, Any] = {}  # stands for a value without a plain form
_foreign = functools.cache(is_installed)


def users(frame: FrameType | None) -> FrameType | None:
    """The innermost frame of the user's code: not of tqdm, torch, the engine."""
    while frame is not None and _foreign(frame.f_code.co_filename):
        frame = frame.f_back
    return frame


def kept(frame: FrameType, skipped: Collection[int]) -> dict[str, Any]:
    """Copies of the frame's numbers, small tensors and arrays, and random generators. Values whose id is in `skipped` are left out."""
    shown = [(name, x) for name, x in variables(frame) if not name.startswith("_") and name not in _HIDDEN and id(x) not in skipped]
    found = {name: values.copied(x, _nothing) for name, x in shown if _is_small(x)}
    return {name: copy for name, copy in found.items() if copy is not _LOST}


def numbers(frame: FrameType, names: Collection[str]) -> dict[str, Any]:
    """The variables with these names that are numbers."""
    return {name: value for name, value in variables(frame) if name in names and type(value) in _NUMBERS}


def targets(frame: FrameType) -> frozenset[str]:
    """The variables that the loop at the frame's line sets: `i` and `x` of `for i, x in enumerate(data)`. Empty without its source."""
    return _targets(frame.f_code.co_filename, frame.f_lineno)


@functools.cache
def _targets(file: str, line: int) -> frozenset[str]:
    try:
        tree = ast.parse("".join(linecache.getlines(file)))
    except SyntaxError:  # a cell with magics
        return frozenset()
    loops = [node for node in ast.walk(tree) if isinstance(node, ast.For) and node.lineno <= line <= (node.iter.end_lineno or node.lineno)]
    names = (name.id for node in loops[-1:] for name in ast.walk(node.target) if isinstance(name, ast.Name))
    return frozenset(names)


def put(frame: FrameType, begun: Mapping[str, Any], ended: Mapping[str, Any]) -> None:
    """Set variables as they were: random generators now, the others at the frame's next line, when the loop has set its own.

    A debugger changes variables in the same way; one that is active gets its trace function back.
    """
    here = dict(variables(frame))
    later = dict(ended)
    for name, copy in begun.items():
        if isinstance(copy, dict) and copy.get("@") in ("random", "generator", "states"):
            if name in here:
                values.put(copy, here[name])
        else:
            later[name] = values.made(copy)
    before = sys.gettrace()

    def trace(at: FrameType, event: str, _: Any) -> Any:
        if event == "line":
            at.f_locals.update(later)
            at.f_trace = None
            sys.settrace(before)
        return None

    frame.f_trace = trace
    sys.settrace(before or (lambda *_: None))


def _is_small(value: Any) -> bool:
    if type(value) in _NUMBERS or isinstance(value, (random.Random, numpy.random.Generator)) or values.is_generator(value):
        return True
    if isinstance(value, Tensor) or is_tensor(value):
        return value.is_leaf and value.nbytes <= SMALL
    if isinstance(value, numpy.ndarray | numpy.generic):
        return value.nbytes <= SMALL and value.dtype.kind in "biufc"
    if type(value) in (list, tuple, deque, dict):
        inner = value.values() if isinstance(value, dict) else value
        return len(value) <= SHORT and all(type(x) in _NUMBERS for x in inner)
    return False


def _nothing(path: str, value: Any) -> Any:
    return _LOST
