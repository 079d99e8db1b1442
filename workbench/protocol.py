"""Every message between kernel and view, as a frozen dataclass. `python -m workbench.protocol` prints the TypeScript.

A message is plain JSON with the keys of its dataclass plus `type` (the class's `kind`) and `v` (VERSION). Arrays of numbers that
would be large travel beside the JSON as binary buffers; a `Buffer` says which one, its dtype and its shape. Every text is data:
the view puts it into text nodes, never into markup. Formulas are trees of MathML tags for the same reason.
"""

from __future__ import annotations

import dataclasses
import typing
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

VERSION = 1

# A formula is a tree of MathML: ["mrow", ["mi", "x"], ["mo", "+"], ["mn", "1"]]; children are trees or text.
Formula = list[Any]


class Message:
    """What every message can do: turn into the JSON object that travels."""

    kind: ClassVar[str]

    def to_json(self) -> dict[str, Any]:
        return {"type": self.kind, "v": VERSION, **_plain(self)}


def _plain(value: Any) -> Any:
    """What `dataclasses.asdict` gives, without a copy of every number in every column."""
    if dataclasses.is_dataclass(value):
        return {f.name: _plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, list) and value and dataclasses.is_dataclass(value[0]):
        return [_plain(v) for v in value]
    return value


# -- parts of messages -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Buffer:
    """Which of the message's binary buffers, and how to read it (C order, little-endian)."""

    index: int
    dtype: Literal["float32", "float64", "int32", "uint8"]
    shape: list[int]


@dataclass(frozen=True)
class Site:
    """Where in the user's code something happened."""

    cell: str | None  # "In [3]", or None for code outside a notebook
    cell_id: str | None  # the notebook's own id of that cell, to jump to it
    file: str  # a file name without its folder; "" in a cell
    line: int  # 1-based, within the cell or file
    text: str  # the line of code, stripped


@dataclass(frozen=True)
class Group:
    """A box that holds nodes and other groups. A fold holds adjacent siblings of equal structure."""

    id: int
    parent: int  # -1: the top
    kind: Literal["module", "loop", "iteration", "cell", "scope", "function", "fold"]
    name: str  # "layers.0", "t", "In [3]"
    label: str  # what the box says when closed: "Linear", "Block x12, same weights"
    count: int = 1  # how many siblings a fold stands for, or iterations a loop has


@dataclass(frozen=True)
class Nodes:
    """The graph's nodes, one list per column. A node's id is its row number; inputs always have smaller ids."""

    op: list[str]  # "matmul"; "" for a tensor that no recorded op made
    kind: list[Literal["op", "parameter", "leaf", "input", "constant"]]  # leaf: a tensor with requires_grad that is no Parameter
    name: list[str]  # the user's name for the result ("hidden", "layers.0.weight") or ""
    group: list[int]  # innermost group; -1: none
    shape: list[list[int]]
    dtype: list[str]
    bytes: list[int]  # of the result
    saved: list[int]  # bytes that the tape keeps for this node's backward
    grad: list[bool]  # the result requires grad
    site: list[int]  # row in `sites`; -1: unknown
    note: list[str]  # "in place", "view of #3", an error's sentence for the op that failed; else ""


@dataclass(frozen=True)
class Edges:
    """Data flow: `source`'s result is input number `slot` of `target`."""

    source: list[int]
    target: list[int]
    slot: list[int]


@dataclass(frozen=True)
class Summary:
    """A tensor's health in one line. Counts are exact. None: the number does not exist (empty, or not finite)."""

    shape: list[int]
    dtype: str
    size: int
    nan: int
    pos_inf: int
    neg_inf: int
    negative: int
    zero: int
    positive: int
    min: float | None  # min, max, mean, std over the finite elements
    max: float | None
    mean: float | None
    std: float | None
    norm: float | None  # L2; None when NaN or Inf are in it
    values: list[float | int | bool | str] | None  # all elements when there are at most 6, "nan", "inf", "-inf" as text
    text: str  # one line for a screen reader


@dataclass(frozen=True)
class Rules:
    """One formula at three depths. `numbers` is None when the operands have more than 6 elements."""

    symbols: Formula
    shapes: Formula
    numbers: Formula | None


@dataclass(frozen=True)
class Contribution:
    """What one backward step handed to one of the node's inputs."""

    target: int  # node id of that input
    input: str  # the op's name for it: "input", "weight"
    gradient: Summary  # this contribution, after unbroadcasting
    total: Summary  # the input's gradient so far, this contribution included
    addends: int  # how many contributions `total` is the sum of, this one included
    unbroadcast: list[int]  # axes summed because the input was broadcast there
    rule: Rules


@dataclass(frozen=True)
class Step:
    """One step of the backward pass: node `node` turned its output's gradient into gradients of its inputs."""

    index: int  # 1-based position in the pass
    node: int
    op: str  # "accumulate" where a leaf receives its .grad
    forward: Rules  # what the op computed; at a leaf, what the step does to its .grad
    upstream: Summary  # the gradient that arrived at the node
    contributions: list[Contribution]
    site: int
    sentence: str  # the whole step in one sentence, for the live region


@dataclass(frozen=True)
class Histogram:
    low: float
    high: float
    counts: list[int]
    sampled: bool  # True: from a sample of the finite elements; counts in Summary are exact all the same


@dataclass(frozen=True)
class Heat:
    """A picture of at most 128 x 128 cells of a 2-D slice. Each cell pools a block of elements."""

    rows: int  # of the slice, before pooling
    cols: int
    mean: Buffer  # float32 (r, c), finite elements only
    absmax: Buffer  # float32 (r, c)
    bad: Buffer  # uint8 (r, c): bit 0 NaN, bit 1 +Inf, bit 2 -Inf somewhere in the block


@dataclass(frozen=True)
class Fact:
    """One line of the inspector's header: "strides", "(4, 1)"."""

    label: str
    text: str


@dataclass(frozen=True)
class Holding:
    """One live array in the memory view."""

    node: int  # -1: not in the graph
    name: str
    shape: list[int]
    dtype: str
    bytes: int
    category: Literal["parameter", "gradient", "activation", "saved", "optimizer", "input", "other"]
    why: str  # "saved by mul for d_other; held by the variable h"
    site: int


# -- kernel to view ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Graph(Message):
    """The graph, or its next rows: columns start at node `start`, edges and sites and groups are appended too. `start` 0 replaces all."""

    kind: ClassVar[str] = "graph"
    recording: str  # one name per recording; messages of another recording are stale
    title: str
    start: int
    first_edge: int
    first_site: int
    nodes: Nodes
    edges: Edges
    sites: list[Site]
    groups: list[Group]  # always all groups (they are few)
    live: bool  # True while the recorded code still runs
    dropped: int  # ops that were not recorded because the recording was full
    root: int  # the node that was asked about (the loss); -1: none
    view: Literal["graph", "tensor", "memory"] = "graph"  # tensor: about `root` alone, no graph is drawn; memory: opens on that tab


@dataclass(frozen=True)
class Stepper(Message):
    """There is a backward pass to step through: what runs in which order, and how far it is."""

    kind: ClassVar[str] = "stepper"
    recording: str
    mode: Literal["live", "paused"]  # paused: a running cell waits inside backward()
    plan: list[int]  # node ids in the order of the pass; len(plan) steps
    index: int  # steps done
    failed: bool  # an error ended the pass where it stands now; the sentence says which
    sentence: str


@dataclass(frozen=True)
class Stepped(Message):
    """The pass now stands after `index` steps; `steps` are those that the view has not been sent yet."""

    kind: ClassVar[str] = "stepped"
    re: int | None  # the request this answers
    recording: str
    index: int
    total: int
    steps: list[Step]
    done: bool
    failed: bool  # as in Stepper
    sentence: str


@dataclass(frozen=True)
class Inspected(Message):
    kind: ClassVar[str] = "inspected"
    re: int | None
    recording: str
    node: int
    what: Literal["value", "grad"]
    name: str
    facts: list[Fact]
    summary: Summary | None  # None: no such tensor; `missing` says why
    histogram: Histogram | None
    heat: Heat | None
    slice: list[int]  # index of each leading axis that the heat map does not show
    forward: Rules | None  # the op that made it
    missing: str  # "why is grad None?" answered, or why the value is gone; "" when it is there


@dataclass(frozen=True)
class Memory(Message):
    kind: ClassVar[str] = "memory"
    re: int | None
    recording: str
    live: int  # bytes
    peak: int
    peak_node: int  # the node during which the peak was reached; -1: none
    timeline: Buffer  # float64 (n, 2): event number, live bytes after it
    by_category: list[Fact]
    holdings: list[Holding]  # largest first, at most 200


@dataclass(frozen=True)
class Problem(Message):
    """Something went wrong; the sentence says what, and what to do."""

    kind: ClassVar[str] = "problem"
    re: int | None
    sentence: str
    node: int  # where, or -1


# -- view to kernel: each carries `id`, a number that the answer repeats as `re` ------------------------------------------


@dataclass(frozen=True)
class Ready(Message):
    """A view has opened, or reloaded: send everything that it should show."""

    kind: ClassVar[str] = "ready"
    id: int


@dataclass(frozen=True)
class StepTo(Message):
    kind: ClassVar[str] = "step"
    id: int
    do: Literal["next", "previous", "first", "last", "index", "node"]
    to: int = -1  # the index or the node, for those two


@dataclass(frozen=True)
class Inspect(Message):
    kind: ClassVar[str] = "inspect"
    id: int
    node: int
    what: Literal["value", "grad"] = "value"
    slice: list[int] = field(default_factory=list)
    exact: bool = False  # False: the histogram may be sampled


@dataclass(frozen=True)
class AskMemory(Message):
    kind: ClassVar[str] = "ask_memory"
    id: int


TO_VIEW: tuple[type[Message], ...] = (Graph, Stepper, Stepped, Inspected, Memory, Problem)
TO_KERNEL: tuple[type[Message], ...] = (Ready, StepTo, Inspect, AskMemory)


class BadMessage(ValueError):
    """A message that this version cannot read; its text is a sentence for the user."""


def read(data: Any) -> Message:
    """The request that a view sent, checked. Raises BadMessage with a sentence that can be shown."""
    if not isinstance(data, dict) or not isinstance(data.get("type"), str):
        raise BadMessage("The view sent something that is not a message.")
    if data.get("v") != VERSION:
        raise BadMessage(
            f"The view speaks version {data.get('v')!r} of the protocol and the kernel speaks {VERSION}. "
            "Reload the page, or install the same version of gradient-workbench on both sides."
        )
    for cls in TO_KERNEL:
        if cls.kind == data["type"]:
            hints = typing.get_type_hints(cls)
            values = {}
            for f in dataclasses.fields(cls):  # type: ignore[arg-type]
                if f.name in data:
                    if not _fits(data[f.name], hints[f.name]):
                        raise BadMessage(f"In a {cls.kind!r} message, {f.name} cannot be {data[f.name]!r}.")
                    values[f.name] = data[f.name]
                elif f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING:
                    raise BadMessage(f"A {cls.kind!r} message came without {f.name}.")
            return cls(**values)
    raise BadMessage(f"The kernel does not know messages of type {data['type']!r}.")


def _fits(value: Any, hint: Any) -> bool:
    origin = typing.get_origin(hint)
    if origin is Literal:
        return isinstance(value, str) and value in typing.get_args(hint)
    if origin is list:
        return isinstance(value, list) and all(_fits(v, typing.get_args(hint)[0]) for v in value)
    if hint is int:
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, hint)


# -- TypeScript ---------------------------------------------------------------------------------------------------------

PARTS = (Buffer, Site, Group, Nodes, Edges, Summary, Rules, Contribution, Step, Histogram, Heat, Fact, Holding)


def typescript() -> str:
    """The text of extension/src/view/protocol.ts."""
    lines = [
        "// Generated by `python -m workbench.protocol`; edit workbench/protocol.py instead.",
        "",
        f"export const VERSION = {VERSION};",
        "",
        "/** A tree of MathML: [tag, ...children]; a child is a tree or text. */",
        "export type Formula = [string, ...(Formula | string)[]];",
    ]
    for cls in (*PARTS, *TO_VIEW, *TO_KERNEL):
        hints = typing.get_type_hints(cls)
        doc = " ".join((cls.__doc__ or "").split()) if not (cls.__doc__ or "").startswith(cls.__name__ + "(") else ""
        lines += ["", *([f"/** {doc} */"] if doc else []), f"export interface {cls.__name__} {{"]
        if issubclass(cls, Message):
            lines += [f'  type: "{cls.kind}";', "  v: number;"]
        lines += [f"  {f.name}: {_ts(hints[f.name])};" for f in dataclasses.fields(cls)]
        lines.append("}")
    lines += ["", f"export type ToView = {' | '.join(c.__name__ for c in TO_VIEW)};"]
    lines += [f"export type ToKernel = {' | '.join(c.__name__ for c in TO_KERNEL)};", ""]
    return "\n".join(lines)


def _ts(hint: Any) -> str:
    if hint == Formula:
        return "Formula"
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin is Literal:
        return " | ".join(f'"{a}"' for a in args)
    if origin is list:
        inner = _ts(args[0])
        return f"({inner})[]" if "|" in inner else f"{inner}[]"
    if args:  # a union
        return " | ".join(_ts(a) for a in args)
    names = {int: "number", float: "number", bool: "boolean", str: "string", type(None): "null"}
    return names.get(hint) or hint.__name__


if __name__ == "__main__":
    print(typescript(), end="")
