"""The references of an object and the Python expressions that lead to them, read without running user code."""

from __future__ import annotations

import functools
import types
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any
from weakref import ref

import numpy

from engine.core.tensor import Tensor

from ...base import frames
from ...recording.recording import Recording

ITEMS = 20_000  # per container at most

_ATOMS = (int, float, complex, bool, str, bytes, type(None), range, slice, type(Ellipsis), numpy.dtype, numpy.generic)
_CLOSED = (
    type, types.CodeType, types.BuiltinFunctionType, types.GetSetDescriptorType, types.MemberDescriptorType, types.WrapperDescriptorType,
)  # fmt: skip
SKIPPED = (*_ATOMS, *_CLOSED, ref, types.ModuleType, Recording)  # not traversed; recordings are roots themselves


def parts(thing: Any, slots: dict[type, list[tuple[str, Any]]]) -> Iterator[tuple[str, Any]]:
    """Yield the objects that `thing` refers to, each with its access path: ".cache", "[3]", "['x']". No user code runs.

    `slots` caches the slots of each class.
    """
    if issubclass(type(thing), Tensor):
        if thing._grad is not None:
            yield ".grad", thing._grad
        if thing._view is not None:
            yield "._base", thing._view[0]
        if thing.node is not None and thing.node.hooks is not None:
            yield " (its hooks)", thing.node.hooks
        return
    if issubclass(type(thing), dict):
        for key, value in list(dict.items(thing))[:ITEMS]:
            if issubclass(type(key), Tensor):
                yield " (a key)", key
            yield f"[{_key(key)}]", value
    elif issubclass(type(thing), (list, tuple, set, frozenset, deque)):
        kind = next(k for k in (list, tuple, set, frozenset, deque) if issubclass(type(thing), k))
        indexed = kind in (list, tuple, deque)
        for at, value in enumerate(list(kind.__iter__(thing))[:ITEMS]):  # type: ignore[attr-defined]
            if not issubclass(type(value), _ATOMS):
                yield (f"[{at}]" if indexed else " (a member)"), value
    elif issubclass(type(thing), types.FunctionType):
        for name, cell in zip(thing.__code__.co_freevars, thing.__closure__ or (), strict=False):
            yield f" (its closure: {name})", _content(cell)
        for at, value in enumerate(thing.__defaults__ or ()):
            yield f".__defaults__[{at}]", value
        yield ".__kwdefaults__", thing.__kwdefaults__
        yield from ((f".{name}", value) for name, value in list(thing.__dict__.items()))
        return
    elif issubclass(type(thing), types.MethodType):
        yield ".__self__", thing.__self__
        yield ".__func__", thing.__func__
        return
    elif issubclass(type(thing), functools.partial):
        yield ".func", thing.func
        yield ".args", thing.args
        yield ".keywords", thing.keywords
    elif issubclass(type(thing), (types.GeneratorType, types.CoroutineType)):
        frame = thing.gi_frame if issubclass(type(thing), types.GeneratorType) else thing.cr_frame
        if frame is not None:
            yield from ((f" ({frames.called(frame)}: {name})", value) for name, value in frames.variables(frame))
        return
    elif issubclass(type(thing), types.TracebackType):
        at: Any = thing
        while at is not None:
            if frames.is_function(at.tb_frame):  # the variables of a cell are roots themselves
                where = f"{frames.called(at.tb_frame)}, line {at.tb_lineno}"
                yield from ((f": {name} in {where}", value) for name, value in frames.variables(at.tb_frame))
            at = at.tb_next
        return
    elif issubclass(type(thing), types.FrameType):
        yield from ((f": {name}", value) for name, value in frames.variables(thing))
        return
    if issubclass(type(thing), BaseException):
        yield ".__traceback__", thing.__traceback__
        yield ".__context__", thing.__context__
        yield ".__cause__", thing.__cause__
        yield ".args", thing.args
    yield from attributes(thing, slots)


def attributes(thing: Any, slots: dict[type, list[tuple[str, Any]]]) -> Iterator[tuple[str, Any]]:
    """Yield the stored attributes, from the instance's dict and slots. Properties are not evaluated."""
    try:
        own = object.__getattribute__(thing, "__dict__")
    except AttributeError:
        own = None
    if issubclass(type(own), dict):
        for name, value in list(dict.items(own))[:ITEMS]:
            if not issubclass(type(value), _ATOMS):
                yield f".{name}", value
    kind = type(thing)
    if kind not in slots:
        slots[kind] = [
            (name, slot) for cls in kind.__mro__ for name, slot in list(cls.__dict__.items())
            if isinstance(slot, types.MemberDescriptorType) and name not in ("__dict__", "__weakref__")
        ]  # fmt: skip
    for name, slot in slots[kind]:
        try:
            value = slot.__get__(thing)
        except (AttributeError, TypeError):  # an empty slot, or a slot of another layout
            continue
        if not issubclass(type(value), _ATOMS):
            yield f".{name}", value


def _key(key: Any) -> str:
    return repr(key) if issubclass(type(key), (str, int, float, bool, type(None))) and len(str(key)) <= 60 else f"a {type(key).__name__}"


def _content(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # empty
        return None


_MODULE_DICTS = ("._modules", "._parameters", "._buffers")


def spelled(labels: Iterable[str]) -> str:
    """The path as a user would write it: `._modules['fc']._parameters['weight']` becomes `.fc.weight`."""
    out: list[str] = []
    inside = False
    for label in labels:
        if label in _MODULE_DICTS:
            inside = True
            continue
        if inside and label.startswith("['"):
            name = label[2:-2]
            out.append(f"[{name}]" if name.isdigit() else f".{name}")
        else:
            out.append(label)
        inside = False
    return "".join(out)
