"""The view in a cell's output: an anywidget connecting a session to the front end, with static output for pages without a kernel."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import anywidget
import traitlets
from IPython.core.getipython import get_ipython
from IPython.display import display

from ..backward.breakpoints import Breakpoint
from ..backward.granularity import By
from ..backward.stepper import Stepper
from ..base.readable import readable
from ..checks.answers import check
from ..protocol.checks import Finding
from ..protocol.pack import pack
from ..session.session import Session
from . import cells, comm

_BUILT = Path(__file__).with_name("static") / "view.js"
_LOADER = Path(__file__).with_name("loader.js")
_MISSING = """export default { render({ el }) {
  el.textContent = "The view of Gradient Workbench is not built. Run `npm ci` and `npm run build` in extension/, then restart the kernel.";
} };"""


class Widget(anywidget.AnyWidget):
    """The front end's view, which loads its code and exchanges messages with this object.

    The first message may come, in another thread, before `__init__` has returned, so what `_asked` needs is set before it is called.
    """

    # A saved notebook may keep the state of each widget, including its code; so it holds only a loader that requests the view.
    _esm = _LOADER.read_text(encoding="utf-8") if _BUILT.exists() else _MISSING
    _bundle = traitlets.Unicode().tag(sync=True)

    def __init__(self, **traits: Any) -> None:
        self._line = ""
        super().__init__(_bundle=bundle()[0], **traits)
        comm.direct(self.comm, self._handle_msg)

    def _asked(self, message: Any) -> None:
        """Answer a message from the front end."""
        raise NotImplementedError

    def _stills(self) -> dict[str, str]:
        """Static output for a page without a kernel, by MIME type."""
        raise NotImplementedError

    def _say(self, message: dict[str, Any], buffers: list[bytes]) -> None:
        message, buffers = pack(message, buffers)
        self.send(message, buffers or None)

    def _handle_custom_msg(self, content: Any, buffers: Any) -> None:
        if isinstance(content, dict) and "bundle" in content:
            name, code = bundle()
            self.send({"bundle": name}, [code])
        else:
            self._asked(content)

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        stills = {kind: readable(still, len(still)) for kind, still in self._stills().items()}
        self._line = stills["text/plain"].partition("\n")[0]  # the widget's own bundle also uses the repr
        try:
            made = super()._repr_mimebundle_(**kwargs)
        finally:
            self._line = ""
        data, metadata = made if isinstance(made, tuple) else (made or {}, {})
        return {**data, **stills}, metadata


class View(Widget):
    """An interactive view in a notebook. Display it, or move its backward pass from code; the page follows.

    Attributes:
        index: the number of steps done.
        total: the number of steps in the pass.
        done: whether the pass is at its end.
        stopped: a sentence about the breakpoint that stopped the pass at the current step; "" for none.
        stepper: the backward pass. Raises RuntimeError if there is none.
        findings: the findings of the checks on what is shown, most serious first.
    """

    _above = traitlets.Unicode().tag(sync=True)  # a sentence above it

    def __init__(self, session: Session, above: str = "") -> None:
        self.session = session
        self.client = session.connect(self._say)
        self.client.opened = False
        super().__init__(_above=above)
        session.busy, session.to_side_panel = cells.running, comm.follow
        cells.follow()
        cells.shown(session)
        if session.graph.view != "tensor":  # inspecting one tensor does not replace the graph in the side panel
            comm.follow(session)

    def _asked(self, message: Any) -> None:
        self.client.receive(message)

    def _stills(self) -> dict[str, str]:
        with self.session.lock:
            return self.session.stills()

    # -- the pass, from code ----------------------------------------------------------------------------------------------------

    @property
    def stepper(self) -> Stepper:
        """The backward pass. Raises RuntimeError if there is none."""
        if self.session.stepper is None:
            raise RuntimeError("There is no backward pass here. Use wb.step(loss) to get one.")
        return self.session.stepper

    @property
    def index(self) -> int:
        """The number of steps done."""
        return self.stepper.index

    @property
    def total(self) -> int:
        """The number of steps in the pass."""
        return self.stepper.total

    @property
    def done(self) -> bool:
        """Whether the pass is at its end."""
        return self.stepper.done

    @property
    def stopped(self) -> str:
        """A sentence about the breakpoint that stopped the pass at the current step; "" for none."""
        return self.stepper.stopped

    @property
    def findings(self) -> list[Finding]:
        """The findings of the checks on what is shown, most serious first."""
        with self.session.lock:
            if self.session.findings is None:
                check(self.session)
            return list(self.session.findings or [])

    def next(self, by: By = "op") -> str:
        """Step forward by one "op", "module", "parameter" or "iteration" (`by`); return a sentence about the step."""
        return self._walk(lambda: self.stepper.next(by))

    def previous(self, by: By = "op") -> str:
        """Step back by one "op", "module", "parameter" or "iteration" (`by`); return a sentence about the new position."""
        return self._walk(lambda: self.stepper.previous(by))

    def run(self, back: bool = False) -> str:
        """Run forward, or with `back` backwards, to the next breakpoint; return a sentence about where and why the pass stopped."""
        return self._walk(lambda: self.stepper.run(self.session.stops, back))

    def run_until(self, stops: str | Breakpoint | Sequence[str | Breakpoint], back: bool = False) -> str:
        """Run, with `back` backwards, to where one of `stops` holds, as for `Stepper.run_until`; return a sentence about it."""
        return self._walk(lambda: self.stepper.run_until(stops, back))

    def breakpoint(self, when: str = "", *, op: str = "", name: str = "", module: str = "") -> Breakpoint:
        """Set a breakpoint; `when`, `op`, `name` and `module` are those of `wb.break_at`."""
        return self.session.breakpoints.add(Breakpoint.of(when, op=op, name=name, module=module))

    def to(self, index: int) -> str:
        """Step forward or back until `index` steps are done."""
        return self._walk(lambda: self.stepper.to(index))

    def finish(self) -> str:
        """Run to the end: `.grad` is then what `.backward()` leaves."""
        return self._walk(self.stepper.finish)

    def _walk(self, move: Any) -> str:
        with self.session.lock:
            move()
            self.session.arrived()
            return self.stepper.stopped or self.stepper.sentence()

    def close(self) -> None:
        """Close the widget; an unfinished pass restores `.grad`."""
        if hasattr(self, "client"):
            self.client.close()
            if not self.session.clients:
                self.session.close()
                comm.closed(self.session)
        super().close()

    def __repr__(self) -> str:
        if self._line:
            return self._line
        with self.session.lock:
            return self.session.headline()

    def __str__(self) -> str:
        with self.session.lock:
            return str(self.session)


@cache
def bundle() -> tuple[str, bytes]:
    """The name of the view's code, a hash of it, and the code itself."""
    code = _BUILT.read_bytes() if _BUILT.exists() else b""
    return sha256(code).hexdigest()[:16], code


def displayed(session: Session) -> Callable[[], None]:
    """Display a view of the session in the cell's output. The returned function updates the stills for the saved notebook."""
    view = View(session)
    shown: Any = display(view, display_id=True)
    return lambda: shown.update(view)


def in_notebook() -> bool:
    """Whether there is a kernel, and so perhaps a page to draw on."""
    shell = get_ipython()
    return shell is not None and getattr(shell, "kernel", None) is not None
