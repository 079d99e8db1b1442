"""The timeline of live bytes: a window of it, bands by category, and the phases and cells along its axis."""

from __future__ import annotations

from typing import Any

import numpy

from .. import protocol
from .log import CATEGORIES, OPTIMIZER, Log

POINTS = 1200  # per window: more than a view has pixels
SPANS = 200


def line(log: Log, graph: Any, first: int = 0, last: int = -1, by: str = "event", index: int = 0) -> tuple[protocol.Line, list[bytes]]:
    """The window of events first..last - 1 (last=-1: to the end), and its buffers, numbered from `index`.

    A window of more than 1,200 events is divided into parts of equal length in events or in seconds, each represented by its highest
    point.
    """
    last = log.count if last < 0 else min(last, log.count)
    first = max(0, min(first, last - 1))
    seconds = log.seconds()
    events = numpy.arange(first, last)
    if len(events) > POINTS:
        events = _highest(log.live, _edges(first, last, seconds if by == "time" else None), last)
    bands = log.bands()[events] if log.count else numpy.zeros((0, len(CATEGORIES)))
    columns = [events.astype("<f8"), bands.astype("<f8")]
    described = [protocol.Buffer(index, "float64", [len(events)]), protocol.Buffer(index + 1, "float64", [len(events), len(CATEGORIES)])]
    timed = None
    if seconds is not None:
        columns.append(seconds[events].astype("<f8"))
        timed = protocol.Buffer(index + 2, "float64", [len(events)])
    spans = phases(log), cells(log, graph)
    told = protocol.Line(first, last, log.count, log.peak_event, described[0], timed, described[1], *spans)
    return told, [column.tobytes() for column in columns]


def _edges(first: int, last: int, seconds: Any) -> Any:
    if seconds is None:
        return first + numpy.arange(POINTS) * (last - first) // POINTS
    cuts = numpy.linspace(seconds[first], seconds[last - 1], POINTS, endpoint=False)
    return numpy.unique(numpy.concatenate([[first], first + numpy.searchsorted(seconds[first:last], cuts[1:])]).clip(first, last - 1))


def _highest(live: Any, edges: Any, last: int) -> Any:
    """The event with the most live bytes in each part."""
    ends = numpy.append(edges[1:], last)
    return numpy.array([begin + live[begin:end].argmax() for begin, end in zip(edges.tolist(), ends.tolist(), strict=True)])


def phases(log: Log) -> list[protocol.Span]:
    """The spans in which the program ran forward or backward, or an optimizer allocated state."""
    kind = (log.where < 0).astype(numpy.int8)
    born = log.born[log.category == OPTIMIZER]
    kind[born] = 2
    return _spans(kind, ("forward", "backward", "update"))


def cells(log: Log, graph: Any) -> list[protocol.Span]:
    """The spans of the cells (or files) whose code ran; empty if there is only one."""
    if not log.count or not log.rows:
        return []
    graph.site(log.rows - 1)  # fills graph.sites
    names: dict[str, int] = {}
    of_site = [names.setdefault(site.cell or site.file or "?", len(names)) for site in graph.sites]
    if len(names) < 2:
        return []
    sites = numpy.array([graph.site(row) for row in range(log.rows)])
    rows = log.rows_of_events()
    known = numpy.where(rows >= 0, sites[rows], -1)
    label = numpy.where(known >= 0, numpy.array(of_site)[known], -1)
    # an event without a line belongs to the cell before it
    at = numpy.maximum.accumulate(numpy.where(label >= 0, numpy.arange(log.count), 0))
    return [span for span in _spans(label[at], (*names, "")) if span.label]


def _spans(kind: Any, names: tuple[str, ...]) -> list[protocol.Span]:
    """Runs of equal kind; if there are more than 200, the 200 longest."""
    if not len(kind):
        return []
    cuts = numpy.flatnonzero(numpy.diff(kind)) + 1
    begins, ends = numpy.append(0, cuts), numpy.append(cuts, len(kind))
    if len(begins) > SPANS:
        longest = numpy.sort(numpy.argsort(begins - ends, kind="stable")[:SPANS])
        begins, ends = begins[longest], ends[longest]
    return [protocol.Span(names[int(kind[b])], int(b), int(e)) for b, e in zip(begins, ends, strict=True)]
