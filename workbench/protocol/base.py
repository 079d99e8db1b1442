"""Base classes of all messages, and the parts that several of them share."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

VERSION = 1

# A formula is a tree of MathML: ["mrow", ["mi", "x"], ["mo", "+"], ["mn", "1"]]; children are trees or text.
Formula = list[Any]


class Message:
    """Base class of all messages, with their conversion to JSON. A subclass is registered under its `kind` when it is defined."""

    kind: ClassVar[str]

    def to_json(self) -> dict[str, Any]:
        return {"type": self.kind, "v": VERSION, **_plain(self)}


class ToView(Message):
    """Base class of messages from the kernel to a view. The answer to a request carries the request's `id` as `re`."""

    registry: ClassVar[dict[str, type[ToView]]] = {}

    def __init_subclass__(cls) -> None:
        ToView.registry[cls.kind] = cls


class ToKernel(Message):
    """Base class of requests from a view to the kernel. Each has an `id`, which the answer repeats as `re`."""

    registry: ClassVar[dict[str, type[ToKernel]]] = {}

    def __init_subclass__(cls) -> None:
        ToKernel.registry[cls.kind] = cls


@dataclass(frozen=True)
class Together(ToView):
    """Several messages in one; `buffers` is the number of buffers of each."""

    kind: ClassVar[str] = "together"
    messages: list[ToView]
    buffers: list[int]


def _plain(value: Any) -> Any:
    """Convert as `dataclasses.asdict` does, but without copying every column."""
    if dataclasses.is_dataclass(value):
        return {f.name: _plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, list) and value and dataclasses.is_dataclass(value[0]):
        return [_plain(v) for v in value]
    return value


@dataclass(frozen=True)
class Buffer:
    """A reference to one of the message's binary buffers, with its dtype and shape (C order, little-endian)."""

    index: int
    dtype: Literal["float32", "float64", "int32", "uint8"]
    shape: list[int]


@dataclass(frozen=True)
class Fact:
    """One line of the inspector's header, such as "strides", "(4, 1)"."""

    label: str
    text: str


@dataclass(frozen=True)
class Site:
    """A location in the user's code."""

    cell: str | None  # "In [3]", or None for code outside a notebook
    cell_id: str | None  # the notebook's own id of that cell, to jump to it
    file: str  # a file name without its folder; "" in a cell
    line: int  # 1-based, within the cell or file
    text: str  # the line of code, stripped


@dataclass(frozen=True)
class Rules:
    """One formula with symbols, shapes and numbers. `numbers` is None if a tensor in it has more than 6 elements."""

    symbols: Formula
    shapes: Formula
    numbers: Formula | None
