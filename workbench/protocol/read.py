"""Parse and check messages from a view, with a sentence for each error."""

from __future__ import annotations

import dataclasses
import functools
import sys
import types
import typing
from typing import Any, Literal

from ..base.readable import encodable
from .base import VERSION, ToKernel

_hints_of = functools.cache(typing.get_type_hints)  # it compiles each annotation, which takes longer than all else here
_LARGEST = sys.float_info.max  # JSON has neither NaN nor infinity, though Python reads them


class Refused(Exception):
    """The request cannot be fulfilled; the text is a sentence for the user that says why."""


class Postponed(Exception):
    """The request is answered when the running cell has ended."""


class BadMessage(Refused, ValueError):
    """A message that this version cannot read."""


def read(data: Any) -> ToKernel:
    """Check a message from a view and convert it to a request. Raises BadMessage with a sentence that can be shown."""
    if not isinstance(data, dict) or not isinstance(data.get("type"), str):
        raise BadMessage("The view sent something that is not a message.")
    if data.get("v") != VERSION:
        raise BadMessage(
            f"The view speaks version {data.get('v')!r} of the protocol and the kernel speaks {VERSION}. "
            "Reload the page, or install the same version of gradient-workbench on both sides."
        )
    cls = ToKernel.registry.get(data["type"])
    if cls is None:
        raise BadMessage(f"The kernel does not know messages of type {data['type']!r}.")
    hints = _hints_of(cls)
    values = {}
    for f in dataclasses.fields(cls):  # type: ignore[arg-type]
        if f.name in data:
            if not _fits(data[f.name], hints[f.name]):
                raise BadMessage(f"In a {cls.kind!r} message, {f.name} cannot be {data[f.name]!r}.")
            values[f.name] = data[f.name]
        elif f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING:
            raise BadMessage(f"A {cls.kind!r} message came without {f.name}.")
    return cls(**values)


def _fits(value: Any, hint: Any) -> bool:
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin is Literal:
        return isinstance(value, str) and value in args
    if origin in (typing.Union, types.UnionType):
        return any(_fits(value, one) for one in args)
    if origin is list:
        return isinstance(value, list) and all(_fits(v, args[0]) for v in value)
    if origin is dict:
        return isinstance(value, dict) and all(_fits(v, args[1]) for v in value.values())
    if hint is ToKernel:
        return isinstance(value, dict) and "then" not in value  # read by itself, when it is answered
    if hint is float:
        return isinstance(value, (int, float)) and not isinstance(value, bool) and -_LARGEST <= value <= _LARGEST
    if hint is int:
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, hint) and (hint is not str or value == encodable(value))
