"""Messages about one tensor: health, histogram, heat map, image, tokens, memory layout."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Literal

from .base import Buffer, Fact, Rules, ToKernel, ToView


@dataclass(frozen=True)
class Summary:
    """A tensor's health in one line. Counts are exact. None: the value is not defined (empty, or not finite)."""

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
    norm: float | None  # L2; None if it contains NaN or Inf
    values: list[float | int | bool | str] | None  # all elements if there are at most 6, with "nan", "inf", "-inf" as text
    text: str  # one line for a screen reader


@dataclass(frozen=True)
class Histogram:
    low: float
    high: float
    counts: list[int]
    sampled: bool  # True: from a sample of the finite elements; counts in Summary are exact all the same


@dataclass(frozen=True)
class Heat:
    """Heat maps of two axes, side by side along a third; at most 128 x 128 cells each and 64 KiB in total. A cell pools a block."""

    axes: list[int]  # shown side by side, as rows, as columns; -1: none
    index: list[int]  # along every axis of the tensor; 0 along those shown
    facets: int  # size of the axis shown side by side; the pictures are its indices from `first` on
    first: int
    rows: int  # elements, before pooling
    cols: int
    block: list[int]  # rows and columns of elements in one cell
    pool: Literal["mean", "absmax"]  # of the finite elements of a block
    values: Buffer  # float32 (pictures, r, c); the elements themselves, NaN and Inf among them, where a block is 1 by 1
    marks: Buffer | None  # uint8, where blocks are larger: bit 0 NaN, bit 1 +Inf, bit 2 -Inf somewhere in the block


@dataclass(frozen=True)
class ImageGrid:
    """The tensor as images, one per element of a batch."""

    layout: str  # "C, H, W": the meaning of each axis
    layouts: list[str]  # all possible layouts
    count: int  # images in the batch; those from `first` on are shown
    first: int
    height: int  # pixels, before subsampling
    width: int
    rule: str  # how values became brightness, and what was left out
    pixels: Buffer  # uint8 (images, h, w, channels); 1 channel: gray, 3: RGB, 4: RGB and opacity


@dataclass(frozen=True)
class Tokens:
    """The first ids of the tensor as tokens."""

    rows: int
    cols: int
    ids: list[list[int]]
    texts: list[list[str]]  # "" for ids that are not in the vocabulary
    unknown: int  # the number of those


@dataclass(frozen=True)
class Sharer:
    """Another tensor that shares the memory."""

    node: int  # -1: not in the graph
    name: str
    shape: list[int]
    how: str  # "the same elements", "overlapping elements", "other elements of it"


@dataclass(frozen=True)
class MemoryLayout:
    """The layout of a tensor in its memory. Offsets and strides are in elements."""

    elements: int  # of the memory
    offset: int
    strides: list[int]
    order: list[int]  # for a small memory, the flat index of the tensor's element at each position; -1: none
    shares: list[float]  # for a larger memory, the fraction of each of its equal pieces that belongs to the tensor
    words: str
    sharers: list[Sharer]


@dataclass(frozen=True)
class Inspected(ToView):
    kind: ClassVar[str] = "inspected"
    re: int | None
    recording: str
    node: int
    what: Literal["value", "grad"]
    name: str
    accessor: str  # the Python expression for this tensor, such as "model.layers[0].weight"; "" if there is none
    facts: list[Fact]
    summary: Summary | None  # None: no such tensor; `missing` says why
    histogram: Histogram | None
    heat: Heat | None
    image: ImageGrid | None  # replaces the heat map on request
    layouts: list[str]  # possible layouts as an image
    tokens: Tokens | None
    labels: list[str]  # tokens along both axes of attention weights
    note: str  # what was recognized: attention weights
    storage: MemoryLayout | None
    earlier: str  # the title of the previous recording with a tensor of the same name; "": none
    forward: Rules | None  # the op that made it
    missing: str  # why the gradient or the value is missing; "" if it is there


@dataclass(frozen=True)
class Inspect(ToKernel):
    """Request the value or gradient of a tensor. For axes, -2 lets the kernel choose and -1 means none."""

    kind: ClassVar[str] = "inspect"
    id: int
    node: int
    what: Literal["value", "grad"] = "value"
    facet: int = -2  # the axis shown side by side
    rows: int = -2
    cols: int = -2
    index: list[int] = field(default_factory=list)  # along every axis; also the first picture and the first image
    pool: Literal["mean", "absmax"] = "mean"
    image: str = ""  # the layout of an image, instead of a heat map
    exact: bool = False  # False: the histogram may be sampled


@dataclass(frozen=True)
class TensorElement(ToView):
    """The exact value of one element."""

    kind: ClassVar[str] = "element"
    re: int | None
    recording: str
    node: int
    what: Literal["value", "grad"]
    index: list[int]
    text: str
    path: str  # the expression for it, such as "hidden[3, 17]"; "" if the tensor has none


@dataclass(frozen=True)
class AskElement(ToKernel):
    kind: ClassVar[str] = "ask_element"
    id: int
    node: int
    what: Literal["value", "grad"]
    index: list[int]
