"""Everything that a view may ask of a session, asked beforehand: what the stand-alone replay answers with."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from copy import copy
from time import monotonic
from typing import TYPE_CHECKING, Any, Literal, get_args

from .. import metrics, protocol
from ..granularity import By
from ..inspector import bytes_text, host
from .pack import Pack, key

if TYPE_CHECKING:
    from ..session import Session
    from ..stepper import Stepper

LEFT_OUT = -1  # in place of a message's number: there was no room for it
MOMENTS = 400  # of the memory's time line, at most
CHECKED = 40  # nodes whose rule is held against finite differences, at most
ELEMENTS = 1024  # of larger tensors single ones are not in the file
MOVING = ("gradient", "ratio", "bad")  # overlays that are others after a step


class Conversation:
    """Asks a session, and keeps the answers in a pack, until that has `budget` bytes or `seconds` are over.

    An answer that depends on where the pass stands is kept once for each stretch of steps in which it is the same: `answers` has, for
    each kind of request and each request, `[from which step on, number of the message, from which step on, ...]`.
    """

    def __init__(self, session: Session, pack: Pack, budget: int, seconds: float) -> None:
        self.session, self.pack = session, pack
        self.budget, self.until, self.seconds = budget, monotonic() + seconds, seconds
        self.client = session.connect(lambda message, buffers: None)
        self.answers: dict[str, dict[str, list[int]]] = {}
        self.asked: Counter[str] = Counter()
        self.left: Counter[str] = Counter()  # by kind
        self.slow = False  # it was time, not room, that ended

    def add(self, message: dict[str, Any], buffers: list[bytes]) -> int:
        return self.pack.add((message, buffers))

    def ask(self, request: protocol.ToKernel, index: int = 0) -> dict[str, Any] | None:
        """Keep the answer as the one from step `index` on; None when there was no room for it."""
        asked = request.to_json()
        known = self.answers.setdefault(request.kind, {}).setdefault(key(asked), [])
        self.asked[request.kind] += 1
        late = monotonic() > self.until
        number, message = LEFT_OUT, None
        if self.pack.size < self.budget and not late:
            message, buffers = self.session.handle(asked, self.client)[0]
            number = self.add(message, buffers)
        else:
            self.slow |= late and self.pack.size < self.budget
            self.left[request.kind] += 1
        if not known or known[-1] != number:
            known += [index, number]
        return message

    def elements(self, row: int, what: Literal["value", "grad"], index: int = 0) -> None:
        """Keep each element of a small tensor as the text that a click on it shows."""
        array, _ = self.session.array(row, what)
        if array is None or getattr(array, "size", 0) > ELEMENTS or self.pack.size >= self.budget:
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

    def sentence(self) -> str:
        """What was left out, and why; "" when nothing was."""
        if not self.left:
            return ""
        total = sum(self.asked[kind] for kind in self.left)
        kinds = ", ".join(dict.fromkeys(NAMES[kind] for kind in self.left))
        why = f"take no longer than {self.seconds:g} seconds" if self.slow else f"stay under {bytes_text(self.budget)}"
        return f"{sum(self.left.values()):,} of {total:,} answers about {kinds} were left out to {why}."

    # -- what there is to ask ---------------------------------------------------------------------------------------------------

    def opening(self) -> list[int]:
        """What a view gets that has just opened, and the norms of all steps, so that no box waits for them."""
        found = self.session.handle(protocol.Ready(0).to_json(), self.client)
        stepper = self.session.stepper
        steps = 0 if stepper is None else len(stepper.taken)
        for first in range(1, steps + 1, 1000):
            found += self.session.handle(protocol.AskNorms(0, first, steps).to_json(), self.client)
        return [self.add(*sent) for sent in found if sent[0]["type"] not in ("stepped", "training")]

    def whole(self) -> None:
        """Values, boxes, and the panes that no step changes: what is most looked at comes first."""
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
        """The gradient of every node at every step at which it is another one."""
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
        """The panes and overlays that are others after each step."""
        for index in walk(stepper):
            for name in MOVING:
                self.ask(protocol.AskMetric(0, name), index)
            if stepper is not None and index:
                self.ask(protocol.AskFanOut(0, stepper.plan[index - 1]), index)
                self.ask(protocol.AskLocal(0, stepper.plan[index - 1], index), index)

    def deeper(self, stepper: Stepper | None) -> None:
        """What somebody asks for who looks closer: other pictures, exact counts, series, local derivatives, paths, checked rules."""
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
        """The other ways in which a value can be seen that differ by one switch."""
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
    "ask_memory": "memory", "ask_slopes": "slopes",
}  # fmt: skip


def walk(stepper: Stepper | None) -> Iterator[int]:
    """Every place at which a pass can stand, from its start on; without a pass the one place there is."""
    if stepper is not None:
        stepper.to(0)
    yield 0
    while stepper is not None and stepper.index < len(stepper.taken):
        yield stepper.next()


def passage(stepper: Stepper, conversation: Conversation) -> dict[str, Any]:
    """The pass for a replay: what is told at each of its places, and where each button leads from there."""
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
        client.steps = set(range(index))  # so that this step alone is told
        told[str(index)] = conversation.add(session.stepped(client, None).to_json(), [])
    places = sorted(map(int, told))

    def landed(index: int, forth: bool) -> int:
        """Where a step ends that would end at a place where no gradient arrives."""
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
    """The graph in other formats, which the menu of the view saves."""
    for name in SAVED:
        conversation.ask(protocol.AskExport(0, name))


SAVED = ("json", "dot", "mmd")
