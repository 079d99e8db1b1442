"""Precomputed answers to the requests that a view can send to a session, for the stand-alone replay."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from copy import copy
from time import monotonic
from typing import TYPE_CHECKING, Any, Literal, get_args

from .. import protocol
from ..backward import metrics
from ..backward.granularity import By
from ..inspector import bytes_text, host
from .pack import Pack, key

if TYPE_CHECKING:
    from ..backward.stepper import Stepper
    from ..session.session import Session

PASS = "pass"
LEFT_OUT = -1  # in place of a message's number: it did not fit
MOMENTS = 400  # moments of the memory timeline at most
CHECKED = 40  # nodes at most whose rule is checked against finite differences
ELEMENTS = 1024  # elements; of larger tensors, single elements are not stored
MOVING = ("gradient", "ratio", "bad")  # overlays that change with each step
WHATEVER_PASS = {
    "ask_bytes",
    "ask_compare",
    "ask_export",
    "ask_findings",
    "ask_memory",
    "ask_moment",
    "ask_predictions",
    "ask_series",
    "ask_timing",
}


class Room:
    """The budget shared by all answers: a pack of at most `budget` bytes, a limit of `seconds`, and counts of the omitted answers."""

    def __init__(self, pack: Pack, budget: int, seconds: float) -> None:
        self.pack, self.budget, self.until, self.seconds = pack, budget, monotonic() + seconds, seconds
        self.asked: Counter[str] = Counter()
        self.left: Counter[str] = Counter()  # by kind
        self.known: dict[tuple[str, str, str], tuple[int, dict[str, Any]]] = {}  # answers that do not depend on the pass
        self.slow = False  # whether the time limit was reached first

    def is_left(self) -> bool:
        late = monotonic() > self.until
        self.slow |= late and self.pack.size < self.budget
        return not late and self.pack.size < self.budget

    def sentence(self) -> str:
        """A sentence on the omitted answers and the reason; "" if nothing was omitted."""
        passes = self.left[PASS]
        kinds = ", ".join(dict.fromkeys(NAMES[kind] for kind in self.left if kind != PASS))
        total = sum(self.asked[kind] for kind in self.left if kind != PASS)
        told = [f"{self.left.total() - passes:,} of {total:,} answers about {kinds}"] if kinds else []
        told += [f"{passes:,} of {self.asked[PASS]:,} backward passes"] if passes else []
        why = f"take no longer than {self.seconds:g} seconds" if self.slow else f"stay under {bytes_text(self.budget)}"
        return f"{' and '.join(told)} were left out to {why}." if told else ""


class Conversation:
    """Sends requests about one pass to a session, and stores the answers while the budget lasts.

    An answer that depends on the step is stored once per range of steps in which it is the same: for each kind of request and each
    request, `answers` has `[first step, number of the message, first step, ...]`.
    """

    def __init__(self, session: Session, room: Room) -> None:
        self.session, self.room = session, room
        self.client = session.connect(lambda message, buffers: None)
        self.answers: dict[str, dict[str, list[int]]] = {}

    def add(self, message: dict[str, Any], buffers: list[bytes]) -> int:
        return self.room.pack.add((message, buffers))

    def ask(self, request: protocol.ToKernel, index: int = 0) -> dict[str, Any] | None:
        """Store the answer as valid from step `index` on, and return it; None if the budget is used up."""
        asked = request.to_json()
        known = self.answers.setdefault(request.kind, {}).setdefault(key(asked), [])
        self.room.asked[request.kind] += 1
        number, message = LEFT_OUT, None
        same = (self.session.recording.name, request.kind, key(asked))
        if same in self.room.known:
            number, message = self.room.known[same]
        elif self.room.is_left():
            message, buffers = self.session.handle(asked, self.client)[0]
            number = self.add(message, buffers)
            if request.kind in WHATEVER_PASS or isinstance(request, protocol.Inspect) and request.what == "value":
                self.room.known[same] = number, message
        else:
            self.room.left[request.kind] += 1
        if not known or known[-1] != number:
            known += [index, number]
        return message

    def elements(self, row: int, what: Literal["value", "grad"], index: int = 0) -> None:
        """Store the elements of a small tensor as texts, which the view shows on a click."""
        array, _ = self.session.array(row, what)
        if array is None or getattr(array, "size", 0) > ELEMENTS or not self.room.is_left():
            return
        r = self.session.recording
        texts = [str(one) for one in host(array).reshape(-1)]
        told = {
            "type": "elements",
            "shape": list(r.shape[row]),
            "texts": texts,
            "path": self.session.accessor(row, what),
            "recording": r.name,
        }
        known = self.answers.setdefault("elements", {}).setdefault(f"{row} {what}", [])
        known += [index, self.add(told, [])]

    # -- requests ---------------------------------------------------------------------------------------------------------------

    def opening(self) -> list[int]:
        """The messages for a newly opened view, with the norms of all steps, so that no box waits for them."""
        found = self.session.handle(protocol.Ready(0).to_json(), self.client)
        stepper = self.session.stepper
        steps = 0 if stepper is None else len(stepper.taken)
        for first in range(1, steps + 1, 1000):
            found += self.session.handle(protocol.AskNorms(0, first, steps).to_json(), self.client)
        for message, _ in found:
            if message["type"] == "lesson":
                message |= {"role": "", "trouble": ""}  # a file has no presenter
        return [self.add(*sent) for sent in found if sent[0]["type"] not in ("stepped", "training", "offer")]

    def pages(self, stepper: Stepper | None) -> list[int | None]:
        """The step of the pass that belongs to each page of the lesson; None for pages without a step."""
        lesson = self.session.lesson
        return [] if lesson is None else [lesson.place(page, stepper) for page in range(len(lesson.pages))]

    def whole(self) -> None:
        """Request values, boxes, and the panes that no step changes, the most used first."""
        r = self.session.recording
        nodes = [row for row in range(r.count) if r.kind[row] != "constant"]
        self.ask(protocol.AskFaces(0, list(range(r.count))))
        for row in nodes:
            self.ask(protocol.Inspect(0, row, "value"))
        for name in metrics.METRICS:
            if name not in MOVING:
                self.ask(protocol.AskMetric(0, name))
        self.ask(protocol.AskTiming(0))
        self.ask(protocol.AskBytes(0))
        self.ask(protocol.AskFindings(0))
        self.ask(protocol.AskCompare(0, "show"))
        memory = self.ask(protocol.AskMemory(0))
        events = 0 if memory is None or memory["type"] != "memory" else memory["line"]["count"]
        if events:
            for event in range(events) if events <= MOMENTS else [memory["line"]["peak_event"]]:  # type: ignore[index]
                self.ask(protocol.AskMoment(0, event))
        self.ask(protocol.AskPredictions(0))
        for row in nodes:
            self.ask(protocol.AskPredictions(0, row))

    def gradients(self, stepper: Stepper | None) -> None:
        """Request the gradient of every node at every step that changes it."""
        r = self.session.recording
        rows = [row for row in range(r.count) if r.kind[row] != "constant"]
        for index in walk(stepper):
            told = None if stepper is None or not index else stepper.step(index)
            if index:
                ends = stepper is not None and index == stepper.total
                moved = () if told is None else [told.node, *(c.target for c in told.contributions)]
                rows = [row for row in dict.fromkeys([*moved, *(stepper.plan if ends and stepper else ())]) if row >= 0]
            for row in rows:
                self.ask(protocol.Inspect(0, row, "grad"), index)
                self.elements(row, "grad", index)

    def passing(self, stepper: Stepper | None) -> None:
        """Request the panes and overlays that change with each step."""
        for index in walk(stepper):
            for name in MOVING:
                self.ask(protocol.AskMetric(0, name), index)
            if stepper is not None and index:
                self.ask(protocol.AskFanOut(0, stepper.plan[index - 1]), index)
                self.ask(protocol.AskLocal(0, stepper.plan[index - 1], index), index)

    def deeper(self, stepper: Stepper | None) -> None:
        """Request details: other pictures, exact counts, series, local derivatives, paths, checked rules."""
        r = self.session.recording
        self.ask(protocol.AskSlopes(0))
        for row in range(r.count):
            if r.kind[row] == "constant":
                continue
            self.ask(protocol.AskSeries(0, row, "value"))
            if r.kind[row] == "op":
                self.ask(protocol.AskLocal(0, row, 0))
            if r.kind[row] == "parameter":
                self.ask(protocol.AskSampleGradients(0, row))
            if stepper is not None and row in stepper.plan:
                self.ask(protocol.AskPaths(0, row))
            self._pictures(row)
            self.elements(row, "value")
        for index in walk(stepper):
            self.ask(protocol.AskModel(0), index)
        for row in [row for row in range(r.count) if r.kind[row] == "op"][:CHECKED]:
            self.ask(protocol.CheckRule(0, row))

    def _pictures(self, row: int) -> None:
        """Request the alternative displays of a value, each with one option changed."""
        seen = self.ask(protocol.Inspect(0, row, "value"))
        if seen is None or seen["type"] != "inspected" or seen["summary"] is None:
            return
        if seen["histogram"] is not None and seen["histogram"]["sampled"]:
            self.ask(protocol.Inspect(0, row, "value", exact=True))
        if seen["heat"] is not None and seen["heat"]["block"] != [1, 1]:
            self.ask(protocol.Inspect(0, row, "value", pool="absmax"))
        for layout in seen["layouts"]:
            self.ask(protocol.Inspect(0, row, "value", image=layout))


NAMES = {
    "inspect": "single tensors", "ask_metric": "overlays", "ask_model": "the model", "ask_fan_out": "sums of gradients",
    "ask_local": "local derivatives", "ask_paths": "paths", "check_rule": "checked rules", "ask_series": "tensors over time",
    "ask_moment": "moments of the memory", "ask_predictions": "predicted memory", "ask_sample_gradients": "gradients by sample",
    "ask_faces": "boxes", "ask_timing": "times", "ask_bytes": "the machine", "ask_findings": "checks", "ask_compare": "pinned tensors",
    "ask_memory": "memory", "ask_slopes": "slopes", "ask_norms": "gradient norms", "ask_export": "files to save",
}  # fmt: skip


def walk(stepper: Stepper | None) -> Iterator[int]:
    """Step through the pass from its start, yielding each index; without a pass, yield 0."""
    if stepper is not None:
        stepper.to(0)
    yield 0
    while stepper is not None and stepper.index < len(stepper.taken):
        yield stepper.next()


def passage(stepper: Stepper, conversation: Conversation) -> dict[str, Any]:
    """The pass for a replay: the message at each step, and the target of each button from there."""
    session = conversation.session
    stops: dict[str, str] = {}
    told: dict[str, int] = {}
    here = stepper.index
    if session.stops:
        stepper.to(0)
        while stepper.run(session.stops) < len(stepper.taken):
            stops[str(stepper.index)] = stepper.stopped
        stops |= {str(stepper.index): stepper.stopped} if stepper.stopped else {}
        stepper.stop = None
    for index in walk(stepper):
        client = copy(conversation.client)
        client.steps = set(range(index))  # so that only this step is sent
        told[str(index)] = conversation.add(session.stepped(client, None).to_json(), [])
    places = sorted(map(int, told))

    def landed(index: int, forth: bool) -> int:
        """The nearest recorded index in the step's direction, for a step that would end at an index without a message."""
        beyond = [one for one in places if one >= index] if forth else [one for one in reversed(places) if one <= index]
        return beyond[0] if beyond else places[-1 if forth else 0]

    def led(way: Any, forth: bool) -> list[int] | str:
        try:
            return [landed(way(index), forth) for index in range(stepper.total + 1)]
        except protocol.Refused as refused:
            return str(refused)

    ways = {f"next {by}": led(lambda i, by=by: stepper.places.after(by, i), True) for by in get_args(By)}
    ways |= {f"previous {by}": led(lambda i, by=by: stepper.places.before(by, i), False) for by in get_args(By)}
    ways["out"] = led(stepper.places.out, True)
    return {"start": here, "total": stepper.total, "plan": stepper.plan, "told": told, "ways": ways, "stops": stops}


def drawings(conversation: Conversation) -> None:
    """Request the graph in the formats that the view's menu can save."""
    for name in SAVED:
        conversation.ask(protocol.AskExport(0, name))


SAVED = ("json", "dot", "mmd")
