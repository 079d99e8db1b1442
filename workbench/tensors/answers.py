"""One tensor: its value, its gradient, or the reason why there is none; in numbers, pictures and words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy

from .. import inspector, protocol
from ..base.requests import answers
from ..inspector import vocabulary
from ..inspector.statistics import Wanted, statistics
from ..inspector.vocabulary import LABELS, Vocabulary
from ..recording.recording import Recording
from . import pins

if TYPE_CHECKING:
    from ..session.session import Client, Sent, Session


@answers(protocol.Inspect)
def inspect(session: Session, request: protocol.Inspect, client: Client) -> list[Sent]:
    """The value or the gradient of one node, or why it is missing."""
    r, row, what = session.recording, session.row(request.node), request.what
    array, missing = session.array(row, what)
    facts = _facts(session, row, what, array)
    found: dict[str, Any] = {
        "name": r.names.get(row, ""),
        "accessor": session.accessor(row, what),
        "facts": facts,
        "summary": None,
        "histogram": None,
        "heat": None,
        "image": None,
        "layouts": [],
        "tokens": None,
        "labels": [],
        "note": "",
        "storage": None,
        "earlier": "",
        "forward": session.forward(row),
        "missing": missing,
    }
    buffers: list[bytes] = []
    before = pins.earlier(r, row)
    if before is not None:
        found["earlier"] = before[0].title or "an earlier recording"
    if array is not None:
        array = inspector.whole(array)
        (known,) = statistics([array], Wanted(histogram=True, exact=request.exact))
        found["summary"], found["histogram"] = known.summary, known.histogram
        if hasattr(array, "ndim"):
            found["layouts"] = [one.name for one in inspector.layouts(array.shape)]
            found["tokens"] = inspector.tokens(array, session.vocabulary or vocabulary.current)
            found["storage"] = inspector.storage(array, session.named(row))
            if inspector.is_attention(array):
                found["labels"] = labels(r, row, array.shape[-1], session.vocabulary or vocabulary.current)
                found["note"] = "Attention weights, by the look of it: square, not negative, every row sums to 1."
        try:
            if request.image:
                found["image"], buffers = inspector.image(array, request.image, request.index[0] if request.index else 0)
            else:
                look = inspector.Look(request.rows, request.cols, request.facet, request.index, request.pool)
                found["heat"], buffers = inspector.heat(array, look)
        except ValueError as error:
            raise protocol.Refused(str(error)) from error
    return [(protocol.Inspected(request.id, r.name, row, what, **found).to_json(), buffers)]


def _facts(session: Session, row: int, what: str, array: Any) -> list[protocol.Fact]:
    r = session.recording
    if what == "grad":
        return [] if array is None else inspector.facts(array)
    facts = inspector.facts(array, r.tensor(row), r, row) if array is not None else [protocol.Fact("shape", str(r.shape[row]))]
    if r.note[row]:
        facts.append(protocol.Fact("note", r.note[row]))
    if array is not None and r.kind[row] != "constant" and r.overwritten(row):
        facts.append(protocol.Fact("overwritten", "Its memory was written in place since; these are the current values."))
    return facts


def labels(recording: Recording, row: int, length: int, words: Vocabulary | None) -> list[str]:
    """The tokens along the axes of attention weights: those of the nearest ids of that length, preferring earlier rows.

    Without such ids, a vocabulary of exactly that size labels the positions themselves; without a vocabulary there are no labels.
    """
    r = recording
    if words is None or length > LABELS:
        return []
    for at in (*range(row, -1, -1), *range(row + 1, r.count)):
        if r.kind[at] == "constant" or not r.shape[at] or r.shape[at][-1] != length or len(r.shape[at]) > 2:
            continue
        ids = r.value(at) if getattr(r.dtype[at], "kind", "") in "iu" else None
        told = None if ids is None else inspector.tokens(ids, words)
        if told is not None:
            return [text or str(number) for text, number in zip(told.texts[0], told.ids[0], strict=True)]
    return [words.text(at) for at in range(length)] if len(words) == length else []


@answers(protocol.AskElement)
def element(session: Session, request: protocol.AskElement, client: Client) -> list[Sent]:
    """One exact element, and the expression for it."""
    row, what, index = session.row(request.node), request.what, request.index
    array, missing = session.array(row, what)
    if array is None:
        raise protocol.Refused(missing)
    array = inspector.whole(array)
    shape = array.shape
    if len(index) != len(shape) or not all(0 <= i < n for i, n in zip(index, shape, strict=True)):
        raise protocol.BadMessage(f"There is no element {index} in a tensor of shape {shape}.")
    value = array[tuple(index)] if shape else array
    value = numpy.asarray(value.get() if inspector.library(value) is not numpy else value)[()]  # in its own dtype: 0.1, not 0.10000000149
    accessor = session.accessor(row, what)
    path = f"{accessor}[{', '.join(map(str, index))}]" if accessor and index else accessor
    told = protocol.TensorElement(request.id, session.recording.name, row, what, index, str(value), path)
    return [(told.to_json(), [])]
