"""The back end without Jupyter: answers messages from views. One recording, one backward pass, any number of views."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from importlib import import_module
from threading import RLock
from typing import Any, Literal

from engine.backends.meta import Meta

from .. import inspector, protocol
from ..backward import breakpoint_answers, breakpoints, offers
from ..backward.stepper import Stepper
from ..backward.telling import operand
from ..base import requests
from ..base.recent import Recent
from ..formulas import typeset
from ..graph import svg, text
from ..graph.graph import Graph
from ..protocol.pack import together
from ..recording import source
from ..recording.reasons import why_no_grad
from ..recording.recording import Recording
from . import levels

LONGEST = 2000  # maximum length of a sentence in characters
Sent = tuple[dict[str, Any], list[bytes]]
Send = Callable[[dict[str, Any], list[bytes]], None]

recent: Recent[Session] = Recent()  # every session still in use, oldest first

# Modules that register handlers. They are above this one, so it imports them by name, when the first view asks.
MODULES = ("session.whole", "session.overlay", "session.faces", "backward.answers", "backward.breakpoint_answers")
MODULES += ("training.answers", "checks.answers", "teach.answers", "tensors.answers", "tensors.compared")
MODULES += ("distributed.answers", "memory_use.answers", "profiling.answers", "whatif.answers", "exporting.answers")


@cache
def load_handlers() -> None:
    """Import every module that answers requests."""
    for name in MODULES:
        import_module(f"workbench.{name}")


class Client:
    """One view: how to reach it, and what it has been sent of the graph and of the pass."""

    def __init__(self, session: Session, send: Send) -> None:
        self.session, self.send = session, send
        self.opened = True  # False: it will request what it should show, and needs no messages before
        self.ready: Any = None  # the id of its last `ready`, which is sent again where the answer takes long
        self.rows = self.edges = self.sites = self.groups = 0
        self.steps: set[int] = set()
        self.waiting: list[protocol.StepTo] = []  # requests for a step that the engine has not taken yet

    def receive(self, data: Any) -> None:
        """Answer a message from the view, before another thread can send it later changes."""
        with self.session.lock:
            if isinstance(data, dict) and data.get("type") == "ready":
                if data.get("id") == self.ready:
                    return
                self.ready = data.get("id")
            for message in self.session.handle(data, self):
                self.send(*message)

    def close(self) -> None:
        """Disconnect the closed view."""
        self.session.disconnect(self)


class Session:
    """Answers views from a recording. Thread-safe; raises nothing but a KeyboardInterrupt.

    `busy` returns whether the user's code is running: a live pass is then not stepped from another thread.
    """

    def __init__(self, recording: Recording, graph: Graph | None = None) -> None:
        self.lock = RLock()
        self.recording = recording
        self.graph = graph or Graph(recording)
        self.stepper: Stepper | None = None
        self.passes: list[Stepper] = []  # every pass that the code ran; `stepper` is the one shown
        self.training: Any = None  # the loop that the view controls: training.Loop
        self.lesson: Any = None  # teach.lesson.Lesson
        self.among: Any = None  # the process that this is, among those of a job: distributed.across.Among
        self.modes: protocol.Modes | None = None  # forward against reverse mode
        self.breakpoints = breakpoints.kept
        self.until: list[breakpoints.Breakpoint] = []  # where the code itself wants the pass to stop
        self.clients: list[Client] = []
        self.waits: Literal["", "pass", "loop"] = ""  # which part of the running cell waits for a view
        self.opened = 0  # number of times that a view has requested everything: someone is there
        self.busy: Callable[[], bool] = lambda: False
        self.heard: Callable[[], None] = lambda: None  # called after each request, so that a waiting cell checks whether it may continue
        self.to_side_panel: Callable[[Session], None] | None = None  # shows a session in the side panel, if there is one
        self.postponed: list[tuple[Client, Any]] = []  # views and their messages, answered when the running cell has ended
        self.flags: dict[str, list[protocol.Flag]] = {}  # small marks at nodes, by origin
        self.findings: list[protocol.Finding] | None = None  # findings of the checks; None if they have not run
        self.thorough, self.unsure = False, ""  # whether every value was checked; what could not be judged
        self.vocabulary = inspector.vocabulary.current  # what ids mean here; None: what wb.vocabulary says when asked
        self.kept: Any = None  # what lives as long as the session: the watch of a PyTorch tensor, the model of a repeated step
        self._alone = Client(self, lambda message, buffers: None)
        recent.add(self)

    # -- views ----------------------------------------------------------------------------------------------------------------

    def connect(self, send: Send) -> Client:
        """Connect a new view. It requests what to show with `ready`."""
        client = Client(self, send)
        with self.lock:
            self.clients.append(client)
            self.breakpoints.tell(self.show_breakpoints)
        return client

    def disconnect(self, client: Client) -> None:
        with self.lock:
            if client in self.clients:
                self.clients.remove(client)

    def show(self, recording: Recording, graph: Graph, stepper: Stepper | None = None) -> None:
        """Replace the recording in all views."""
        with self.lock:
            for old in {*self.passes, *filter(None, [self.stepper])}:
                if old is not stepper and stepper not in self.passes:
                    old.close()
            if stepper not in self.passes:
                self.passes = [] if stepper is None else [stepper]
            if recording is not self.recording:
                self.flags.clear()
                self.findings, self.thorough, self.unsure = None, False, ""
            self.recording, self.graph, self.stepper = recording, graph, stepper
            if self.breakpoints.all:
                self._flag_breakpoints()
            for client in self.clients:
                client.steps.clear()
                self._tell(client)

    def choose(self, number: int) -> None:
        """Show another pass, in all views."""
        if not 0 <= number < len(self.passes):
            raise protocol.Refused(f"There is no pass {number + 1}; this code has run {len(self.passes)}.")
        chosen = self.passes[number]
        self.show(chosen.recording, chosen.graph, chosen)

    def step_through(self, stepper: Stepper) -> None:
        """Show a pass to step through."""
        self.show(self.recording, self.graph, stepper)

    def update(self) -> None:
        """Send the new rows while the code still runs. Called from the running code, so it never waits for another thread."""
        if not self.lock.acquire(blocking=False):
            return
        try:
            for client in filter(lambda client: client.opened, self.clients):
                if client.rows == self.recording.count:
                    continue  # the groups alone are not worth a message
                if client.rows:
                    client.send(*self._graph(client, client.rows, client.edges, client.sites, client.groups))
                elif self.recording.count:
                    client.send(*self._graph(client))
        finally:
            self.lock.release()

    def take_over(self, other: Session, namespace: Mapping[str, Any] | None = None) -> None:
        """Show the recording of another session from now on: the next iteration of a loop."""
        with self.lock:
            for old in {*self.passes, *filter(None, [self.stepper])}:
                old.close()
            self.recording, self.graph, self.stepper, self.passes = other.recording, other.graph, other.stepper, other.passes
            self.finish(namespace)

    def tell_training(self) -> None:
        """Send the progress of the loop to all views."""
        with self.lock:
            for client in self.clients:
                client.send(self.training.message().to_json(), [])

    def finish(self, namespace: Mapping[str, Any] | None = None) -> None:
        """Send the graph again now that the code has ended, and names, loops and folds are known."""
        with self.lock:
            self.graph.finish(namespace)
            for graph in {one.graph for one in self.passes if not one.graph.finished}:
                graph.finish(namespace)
            if self.breakpoints.all:
                self._flag_breakpoints()
            for client in self.clients:
                client.steps.clear()  # sent again, with the names
                self._tell(client)

    def close(self) -> None:
        """Release the pass and everything held; an unfinished pass restores the gradients."""
        with self.lock:
            for stepper in {*self.passes, *filter(None, [self.stepper])}:
                stepper.close()
            self.clients.clear()

    def stills(self) -> dict[str, str]:
        """Static output for a page without a kernel, by MIME type; the text also serves terminals and screen readers."""
        graph = self.graph.message()
        pictures = {"image/svg+xml": svg.picture(graph)} if graph.nodes.op else {}
        return {"text/plain": text.tree(graph, self.gradient_texts()), **pictures}

    def gradient_texts(self) -> dict[int, str]:
        """`.grad` of each parameter and leaf that is still alive, in words, by row."""
        r, found, arrays = self.recording, {}, {}
        for row in range(r.count):
            tensor = r.tensor(row) if r.kind[row] in ("parameter", "leaf") else None
            if tensor is not None and r.grad[row]:
                grad = getattr(tensor, "_grad", None)
                found[row] = "no gradient yet"
                if grad is not None:
                    arrays[row] = grad.array
        return found | dict(zip(arrays, text.gradient_texts(list(arrays.values())), strict=True))

    def headline(self) -> str:
        """A one-line summary."""
        return text.headline(self.graph.message())

    # -- messages -------------------------------------------------------------------------------------------------------------

    def handle(self, data: Any, client: Client | None = None) -> list[Sent]:
        """Answer one message with `(json, buffers)` pairs. A request that cannot be answered gets a Problem with a sentence."""
        client = client or self._alone
        re = data.get("id") if isinstance(data, dict) and type(data.get("id")) is int else None
        request = None
        try:
            request = protocol.read(data)
            with self.lock:
                found = self._answer(request, client)
        except protocol.Postponed:
            self.postponed.append((client, data))
            found = []
        except protocol.Refused as error:
            found = [self.problem(re, str(error))]
        except Exception as error:  # any error is sent to the requesting view, which would otherwise wait forever
            found = [self.problem(re, f"The kernel could not answer: {type(error).__name__}: {error}")]
        finally:
            self.heard()
        if isinstance(request, protocol.StepTo) and request.then and request not in client.waiting:
            return [together([*found, *self._then(request, client)])]
        return found

    def cell_ended(self) -> None:
        """Answer what views have requested while a cell was running."""
        with self.lock:
            postponed, self.postponed = self.postponed, []
            for client, data in postponed:
                if client in self.clients:
                    client.receive(data)

    def _answer(self, request: protocol.ToKernel, client: Client) -> list[Sent]:
        foreign = self.recording.foreign
        if foreign is not None and (message := foreign.answer(request)) is not None:
            return [(message.to_json(), [])]
        load_handlers()
        return requests.HANDLERS[type(request)](self, request, client)

    def _then(self, request: protocol.StepTo, client: Client) -> list[Sent]:
        """The answers to what a view requested along with a step, of the pass where it is now."""
        return [answer for one in request.then for answer in self.handle(one, client)]

    def problem(self, re: int | None, sentence: str, node: int = -1) -> Sent:
        if len(sentence) > LONGEST:  # the text of an exception, or of a view's message
            sentence = f"{sentence[: LONGEST // 2]} … {sentence[-LONGEST // 2 :]}"
        return protocol.Problem(re, sentence, node).to_json(), []

    def _tell(self, client: Client) -> None:
        if not client.opened:
            return
        for message in self.everything(client):
            client.send(*message)

    def everything(self, client: Client) -> list[Sent]:
        """The graph and the state of its pass, with the steps that the view has not been sent."""
        found = [self._graph(client), *(self._flags(origin) for origin in self.flags), *self._cell_runs()]
        if self.stepper is not None:
            found.append((self.stepper.message(self.passes).to_json(), []))
            if self.stepper.index:
                found.append((self.stepped(client, None).to_json(), []))
            if self.breakpoints.all:
                found.append(breakpoint_answers.message(self, None))
        elif self.graph.view == "graph" and (roots := offers.roots(self.recording)):
            found.append((protocol.Offer(self.recording.name, roots).to_json(), []))
        load_handlers()
        found += [message for state in requests.STATE for message in state(self)] + self._level()
        if self.recording.failure >= 0:
            found.append(self.problem(None, self.recording.note[self.recording.failure], self.recording.failure))
        return found

    @property
    def number(self) -> int:
        """The index of the pass that is shown."""
        return next((i for i, one in enumerate(self.passes) if one is self.stepper), 0)

    @property
    def stops(self) -> list[breakpoints.Breakpoint]:
        """The breakpoints at which a running pass stops."""
        return [*self.breakpoints.active, *self.until]

    def show_level(self) -> None:
        """Send the level set by the code to all views."""
        with self.lock:
            for client in self.clients:
                for message in self._level():
                    client.send(*message)

    def _level(self) -> list[Sent]:
        return [] if levels.current is None else [(protocol.Level(levels.current).to_json(), [])]

    def show_breakpoints(self) -> None:
        """Send the changed breakpoints to all views."""
        with self.lock:
            self._flag_breakpoints()
            for client in self.clients:
                client.send(*self._flags("breakpoint"))
                client.send(*breakpoint_answers.message(self, None))

    def _flag_breakpoints(self) -> None:
        self.flags["breakpoint"] = breakpoint_answers.flags(self)

    def flag(self, origin: str, flags: list[protocol.Flag]) -> None:
        """Mark nodes in all views, replacing the marks of the same origin."""
        with self.lock:
            self.flags[origin] = flags
            for client in self.clients:
                client.send(*self._flags(origin))

    def tell_cell_runs(self) -> None:
        """Notify all views that a cell runs again, perhaps one that made this graph."""
        with self.lock:
            for message in self._cell_runs():
                for client in self.clients:
                    client.send(*message)

    def _cell_runs(self) -> list[Sent]:
        runs = source.runs(self.graph.sites)
        return [(protocol.CellRuns(None, self.recording.name, runs).to_json(), [])] if runs else []

    def _flags(self, origin: str) -> Sent:
        return protocol.Flags(None, self.recording.name, origin, self.flags[origin]).to_json(), []

    def _graph(self, client: Client, rows: int = 0, edges: int = 0, sites: int = 0, groups: int = 0) -> Sent:
        message = self.graph.message(rows, edges, sites, groups).to_json() if rows else self.graph.whole()
        client.rows = rows + len(message["nodes"]["op"])
        client.edges = edges + len(message["edges"]["source"])
        client.sites = sites + len(message["sites"])
        client.groups = groups + len(message["groups"])
        return message, []

    # -- the pass -------------------------------------------------------------------------------------------------------------

    def stepped(self, client: Client, re: int | None) -> protocol.Stepped:
        """The state of the pass, with the steps that the view has not been sent."""
        stepper = self.stepper
        assert stepper is not None
        steps = stepper.steps(client.steps)
        client.steps.update(step.index for step in steps)
        state = (stepper.index, stepper.total, steps, stepper.done, stepper.failed, stepper.sentence(), stepper.stopped, stepper.runs)
        return protocol.Stepped(re, self.recording.name, *state)

    def tell_others(self, client: Client) -> None:
        """Notify every other view, and a class that follows, that the pass has moved."""
        if self.lesson is not None:
            self.lesson.moved()
        for other in self.clients:
            if other is not client:
                other.send(self.stepped(other, None).to_json(), [])

    def arrived(self) -> None:
        """Answer the waiting views: a paused pass has reached its target, or has ended."""
        with self.lock:
            if self.stepper is None:
                return
            if self.lesson is not None:
                self.lesson.moved()
            for client in self.clients:
                waiting, client.waiting = client.waiting, []
                for request in waiting:
                    stepped = self.stepped(client, request.id).to_json(), []
                    client.send(*together([stepped, *self._then(request, client)]))
                if not waiting:
                    client.send(self.stepped(client, None).to_json(), [])
                if self.stepper.mode != "paused":
                    client.send(self.stepper.message(self.passes).to_json(), [])

    # -- one tensor -----------------------------------------------------------------------------------------------------------

    def row(self, node: int) -> int:
        """The row of a node named by a view. Raises BadMessage if there is no such node."""
        if not 0 <= node < self.recording.count:
            raise protocol.BadMessage(f"There is no node {node} in this graph; it has {self.recording.count}.")
        return node

    def array(self, row: int, what: str) -> tuple[Any, str]:
        """The value (or, for what="grad", the gradient) of a row; or None and the reason."""
        if what == "grad":
            return self.gradient(row)
        array = self.recording.value(row)
        return array, "" if array is not None else self.gone(row)

    def accessor(self, row: int, what: str) -> str:
        """The Python expression for the value or the gradient, such as `model.layers[0].weight.grad`; "" if there is none."""
        name = self.graph.accessors.get(row, "")
        if name and what == "grad":
            tensor = self.recording.tensor(row)
            return f"{name}.grad" if tensor is not None and tensor._grad is not None else ""
        return name

    def named(self, row: int) -> Iterator[tuple[int, str, Any]]:
        """All other known tensors: node, name, array."""
        r = self.recording
        for at in range(r.count):
            if at != row and r.kind[at] != "constant" and (array := r.value(at)) is not None:
                yield at, r.names.get(at, ""), array

    def gradient(self, row: int) -> tuple[Any, str]:
        """The gradient of a row at the current step; or None and the reason."""
        r = self.recording
        if self.stepper is not None and self.stepper.index:
            array, missing = self.stepper.gradient(row, compute=self.stepper.mode == "paused" or not self.busy())
            if array is not None or missing:
                return (array, missing) if array.__class__ is not Meta else (None, inspector.NO_NUMBERS)
        tensor = r.tensor(row)
        if tensor is not None and tensor.is_meta:
            return None, inspector.NO_NUMBERS
        if tensor is not None and tensor._grad is not None and (self.stepper is None or row not in self.stepper.plan or self.stepper.done):
            return tensor._grad.array, ""
        if self.stepper is not None and row in self.stepper.plan and not self.stepper.done:
            return None, inspector.NOT_YET
        return None, why_no_grad(r, row)

    def gone(self, row: int) -> str:
        """Why the value of a row no longer exists."""
        r = self.recording
        if r.note[row] and r.dtype[row] is None:
            return "The op failed, so it has no result: " + r.note[row]
        tensor = r.tensor(row)
        if tensor is not None and tensor.is_meta:
            return inspector.NO_NUMBERS
        foreign = r.foreign
        if foreign is not None and (reason := foreign.gone(row)):
            return reason
        budget = inspector.bytes_text(r.keep)
        if r.released:
            return f"The value was freed to stay under {budget}. Record again with a larger budget, such as %%watch --keep 1GB."
        if r.keep == 0 or r.bytes[row] > r.keep:
            return f"The value is larger than the recording's budget, {budget}, and the program has freed it."
        return "The tape did not save this value, and the program has freed it. Run the cell under %%watch to keep every value."

    def forward(self, row: int) -> protocol.Rules | None:
        """The formula of what the op of a row computed; None for a row that no op made."""
        r = self.recording
        op = r.ops[row]
        if op is None or r.dtype[row] is None:
            return None
        count = max([slot + 1 for _, slot in r.inputs(row)], default=0)
        operands: list[Any] = [None] * max(count, 0 if op.variadic else len(op.inputs))
        for made, slot in r.inputs(row):
            operands[slot] = operand(r, made)
        return typeset.forward(op, r.attrs[row], operands, operand(r, row))
