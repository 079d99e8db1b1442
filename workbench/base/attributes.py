"""Copies of op attributes for a recording, without tensors, which would stay alive."""

from __future__ import annotations

from typing import Any

NUMBERS = (int, float, bool, str, type(None), complex)
PLAIN = frozenset(NUMBERS)  # exact types: a faster lookup
_HARMLESS = PLAIN | {slice, type(Ellipsis)}
_harmless = _HARMLESS.issuperset


def plain(attrs: dict) -> dict:
    """Return the attributes without tensors, which would stay alive."""
    for v in attrs.values():
        kind = type(v)
        if kind not in _HARMLESS and (kind is not tuple or not _harmless(map(type, v))):
            break
    else:
        return attrs
    return {k: v if v.__class__ in _HARMLESS else _without_tensors(v) for k, v in attrs.items() if not k.startswith("__")}


def _without_tensors(value: Any) -> Any:
    if value.__class__ is tuple and len(value) <= 64 and _harmless(map(type, value)):
        return value
    if value.__class__ in _HARMLESS or isinstance(value, NUMBERS):
        return value
    if isinstance(value, (tuple, list)) and len(value) <= 64:
        return tuple(_without_tensors(v) for v in value)
    return Opaque(type(value).__name__)


class Opaque:
    """Placeholder for an attribute that is not kept."""

    def __init__(self, kind: str) -> None:
        self.kind = kind

    def __repr__(self) -> str:
        return self.kind
