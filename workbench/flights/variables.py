"""The variables of the function or cell around a training loop: numbers, small tensors and random generators are part of a step."""

from __future__ import annotations

import dis
import functools
import itertools
import random
import sys
from collections import Counter, deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from types import CodeType, FrameType
from typing import Any
from weakref import ReferenceType, ref

import numpy

from engine.core.tensor import Tensor

from ..base.frames import is_function, is_installed, variables
from ..torch_models.loaded import is_tensor
from . import values

SMALL = 1 << 16  # bytes of a tensor or array
SHORT = 64  # items of a container
_NUMBERS = (type(None), bool, int, float, complex)  # not strings, which may be secrets or paths
_HIDDEN = ("In", "Out", "exit", "quit")

_GLOBALS = "<globals>"
_LOST: dict[str, Any] = {}  # stands for a value without a plain form
_foreign = functools.cache(is_installed)


def users(frame: FrameType | None) -> FrameType | None:
    """The innermost frame of the user's code: not of tqdm, torch, the engine."""
    while frame is not None and _foreign(frame.f_code.co_filename):
        frame = frame.f_back
    return frame


def chain(frame: FrameType | None, last: CodeType) -> list[FrameType]:
    """The frames of the user's code from the innermost one to that of the block, whose code is `last`: a progress bar's, a function's."""
    found = []
    while (frame := users(frame)) is not None:
        found.append(frame)
        if frame.f_code is last:
            break
        frame = frame.f_back
    return found


class Copies:
    """Copies of tensors, each used again until its tensor is written to."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[ReferenceType, int, Any]] = {}

    def of(self, value: Any) -> Any:
        """A copy of a value, for good."""
        if not (isinstance(value, Tensor) or is_tensor(value)):
            return values.copied(value, _nothing)
        held, version, copy = self._known.get(id(value), (None, 0, None))
        if held is None or held() is not value or version != value._version:
            copy = values.copied(value, _nothing)
            self._known = {i: one for i, one in self._known.items() if one[0]() is not None}
            self._known[id(value)] = ref(value), value._version, copy
        return copy


def kept(frames: Sequence[FrameType], skipped: Collection[int], copies: Copies) -> dict[str, dict[str, Any]]:
    """Copies of numbers, small tensors and arrays, and random generators, by function: no others, and none whose id is in `skipped`.

    What the loop is about to set is left out, such as `i` and `x` of `for i, x in enumerate(data)`.
    """
    found: dict[str, dict[str, Any]] = {}
    if is_function(frames[-1]):
        shared = frames[-1].f_globals
        found[_GLOBALS] = {name: x for name, x in shared.items() if type(x) in _NUMBERS and not name.startswith("_")}
    for frame in reversed(frames):  # the innermost of several calls of a function
        known = targets(frame)
        shown = [(name, x) for name, x in variables(frame) if not name.startswith("_") and name not in _HIDDEN and name not in known]
        small = {name: copies.of(x) for name, x in shown if is_small(x, skipped)}
        found[frame.f_code.co_qualname] = {name: copy for name, copy in small.items() if copy is not _LOST}
    return found


def numbers(frames: Sequence[tuple[FrameType, Collection[str]]]) -> dict[str, dict[str, Any]]:
    """The variables with the names that come with each frame, if they are numbers, by function."""
    return {
        frame.f_code.co_qualname: {name: value for name, value in variables(frame) if name in names and type(value) in _NUMBERS}
        for frame, names in reversed(frames)
    }


def is_small(value: Any, skipped: Collection[int]) -> bool:
    """Whether a value is a number, a small tensor or array, a random generator, or a short container of these; not if its id is skipped."""
    if id(value) in skipped:
        return False
    if type(value) in _NUMBERS or isinstance(value, (random.Random, numpy.random.Generator)) or values.is_generator(value):
        return True
    if isinstance(value, Tensor) or is_tensor(value):
        return value.nbytes <= SMALL
    if isinstance(value, numpy.ndarray | numpy.generic):
        return value.nbytes <= SMALL and value.dtype.kind in "biufc"
    if type(value) in (list, tuple, deque, dict):
        inner = value.values() if isinstance(value, dict) else value
        return len(value) <= SHORT and all(is_small(x, skipped) for x in inner)
    return False


def targets(frame: FrameType) -> frozenset[str]:
    """The variables that are set as soon as what the frame waits for is there: `i` and `x` of `for i, x in enumerate(data)`."""
    return _targets(frame.f_code, frame.f_lasti)[0]


def counters(frame: FrameType) -> frozenset[str]:
    """The targets of a `for` loop that its body does not set: at the end of a turn they are what they were at its beginning."""
    return _targets(frame.f_code, frame.f_lasti)[1]


@functools.cache
def _targets(code: CodeType, at: int) -> tuple[frozenset[str], frozenset[str], int]:
    """The targets, the counters, and where they have been set. Read from the bytecode, as there may be no source."""
    after = [one for one in dis.get_instructions(code) if one.offset > at]
    here = next((one for one in dis.get_instructions(code) if one.offset == at), None)
    first = list(itertools.takewhile(lambda one: one.opname.startswith(("STORE_", "UNPACK_", "EXTENDED_ARG")), after))
    names, begin = _stored(first), after[len(first)].offset
    if here is None or here.opname != "FOR_ITER":
        return names, frozenset(), begin
    return names, names - _stored(one for one in after[len(first) :] if one.offset < here.argval), begin


def _stored(instructions: Iterable[dis.Instruction]) -> frozenset[str]:
    """The names that instructions set. From Python 3.13 on, one may set two, or set the first and read the second."""
    stores = [(one.opname, one.argval) for one in instructions if one.opname.startswith("STORE_")]
    pairs = [names if isinstance(names, tuple) else (names,) for _, names in stores]
    found = [pair[:1] if op == "STORE_FAST_LOAD_FAST" else pair for (op, _), pair in zip(stores, pairs, strict=True)]
    return frozenset(name for pair in found for name in pair if isinstance(name, str))


def put(frames: Sequence[FrameType], begun: Mapping[str, Any], ended: Mapping[str, Any]) -> None:
    """Set variables as they were: random generators and parameters now, the others as soon as each frame goes on, counters once it has set
    its targets.

    A debugger changes variables in the same way; one that is active goes on.
    """
    if is_function(frames[-1]):
        frames[-1].f_globals.update(begun.get(_GLOBALS, {}))
    for frame in frames:
        function = frame.f_code.co_qualname
        here, later = dict(variables(frame)), dict(ended.get(function, {}))
        named = Counter(id(x) for x in here.values())
        for name, copy in begun.get(function, {}).items():
            if _in_place(copy, here.get(name)):
                values.put(copy, here[name])
                continue
            found = values.made(copy)
            if type(found) in (list, dict, deque) and type(here.get(name)) is type(found) and named[id(here[name])] == 1:
                values.fill(here[name], found)  # others may know it
            else:
                later[name] = found
        if later:
            names, _, begin = _targets(frame.f_code, frame.f_lasti)
            after = {name: later.pop(name) for name in names & later.keys()}
            frame.f_trace = functools.partial(_set, later, after, begin)
            frame.f_trace_opcodes = True
            sys.settrace(sys.gettrace() or (lambda *_: None))


def _set(now: dict[str, Any], later: dict[str, Any], begin: int, frame: FrameType, event: str, _: Any) -> Any:
    if event not in ("line", "opcode"):
        return frame.f_trace
    reached = frame.f_lasti >= begin
    frame.f_locals.update(now | later if reached else now)
    now.clear()
    if not reached:
        return frame.f_trace
    frame.f_trace, frame.f_trace_opcodes = None, False
    return None


def _in_place(copy: Any, here: Any) -> bool:
    """Whether a value is written into the variable's, as others may know it: a generator, a parameter."""
    if not isinstance(copy, dict):
        return False
    if copy.get("@") in ("random", "generator", "states"):
        return here is not None
    leaf = (isinstance(here, Tensor) or is_tensor(here)) and here.is_leaf and here.requires_grad
    return leaf and bool(copy.get("grad")) and tuple(here.shape) == copy["value"].shape


def _nothing(path: str, value: Any) -> Any:
    return _LOST
