"""Run a notebook, and keep each view that it displays: its replay, and a drawing for each step of its pass or page of its lesson."""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from ..exporting.privacy import without_paths
from ..exporting.replay import put_back, replay, still
from ..graph.drawing import draw
from ..graph.outline import Outline
from ..session.session import Session
from ..teach.lessons import Say
from ..teach.markup import plain
from ..teach.questions import Question

VIEW = "application/vnd.jupyter.widget-view+json"
SECONDS = 15.0  # to compute the replay of one view
STEPS = 12  # drawings of a pass at most


@dataclass(frozen=True)
class Limits:
    """How much is kept of the views: about `total` bytes of replays, and of one view at most the given part of what is left of them."""

    total: int = 8_000_000
    most: int = 1_500_000  # bytes of one view
    least: int = 150_000  # which each view may have in any case
    part: float = 0.25
    drawings: bool = True  # whether to keep drawings and moments


@dataclass(frozen=True)
class Moment:
    """What a printed page says of a view: the text, the node that the pass is at, and those it has been at, as keys of boxes."""

    text: str
    at: list[Any] | None
    done: list[Any]


DEFAULT = Limits()


@dataclass(frozen=True)
class Captured:
    """A view as it was when its cell had ended."""

    title: str
    facts: str
    text: str
    picture: str  # SVG, or ""
    data: bytes  # of the replay
    drawing: dict[str, Any] | None  # of the graph, as JSON
    moments: list[Moment]
    left: str = ""  # a sentence on what the replay lacks
    kind: Literal["graph", "steps", "card"] = "graph"  # "steps": with a backward pass; "card": a tensor or a question, without a graph
    asks: bool = False  # whether it has a question


# -- in the kernel that runs the notebook -----------------------------------------------------------------------------------------


def install(folder: str, limits: Limits) -> None:
    """From now on, write `<model id>.replay` and `<model id>.json` to `folder` for each view, at the end of the cell that displays it."""
    from IPython.core.getipython import get_ipython

    from .widget import View

    shell: Any = get_ipython()
    displayed: dict[str, View] = {}
    bundle = View._repr_mimebundle_

    def noted(view: View, **kwargs: Any) -> Any:
        displayed[view.model_id] = view
        return bundle(view, **kwargs)

    left = limits.total

    def write(_: Any) -> None:
        nonlocal left
        for name, view in displayed.items():
            budget = max(limits.least, min(limits.most, int(left * limits.part)))
            made = replay(view.session, budget=budget, seconds=SECONDS)
            left -= len(made.data)
            (Path(folder) / f"{name}.replay").write_bytes(made.data)
            picture, text = made.stills.get("image/svg+xml", ""), made.stills["text/plain"]
            about = {"title": made.title, "facts": made.facts[0], "text": text, "picture": picture, "left": made.left}
            about |= _kind(view.session) | (_drawn(still(view.session)) if limits.drawings else {"drawing": None, "moments": []})
            (Path(folder) / f"{name}.json").write_text(json.dumps(about), encoding="utf-8")
        displayed.clear()

    View._repr_mimebundle_ = noted  # pyright: ignore
    shell.events.register("post_run_cell", write)
    shell.config.InlineBackend.figure_formats = {"retina"}


def _kind(session: Session) -> dict[str, Any]:
    card = session.graph.view == "tensor" or not session.recording.count
    asks = session.lesson is not None and any(isinstance(page, Question) for page in session.lesson.pages)
    return {"kind": "card" if card else "graph" if session.stepper is None else "steps", "asks": asks}


def _drawn(session: Session) -> dict[str, Any]:
    """The drawing of the session's graph and the moments to print."""
    with session.lock:
        graph = session.graph.message()
        home = Outline(graph).home if graph.nodes.op else []
        drawing = asdict(draw(graph)) if graph.nodes.op and session.graph.view != "tensor" else None
        with put_back(session.stepper):
            moments = [asdict(one) for one in _moments(session, home)]
    return without_paths({"drawing": drawing, "moments": moments})


def _moments(session: Session, home: list[Any]) -> Iterator[Moment]:
    """One moment for each page of a lesson, else for steps of the pass, else one."""
    stepper, lesson = session.stepper, session.lesson

    def moment(text: str) -> Moment:
        if stepper is None:
            return Moment(text, None, [])
        rows = [home[row] if 0 <= row < len(home) else None for row in stepper.plan[: stepper.index]]
        return Moment(text, rows[-1] if rows else None, rows[:-1])

    if lesson is not None and lesson.pages:
        for number, page in enumerate(lesson.pages):
            place = lesson.place(number, stepper)
            if stepper is not None and place is not None:
                stepper.to(place)
            yield moment("\n\n".join(map(plain, page.text)) if isinstance(page, Say) else _asked(page))
    elif stepper is not None:
        last = len(stepper.taken) if stepper.is_record else stepper.total
        for index in sorted({round(at * last / min(STEPS, last)) for at in range(min(STEPS, last) + 1)} if last else {0}):
            stepper.to(index)
            yield moment(stepper.sentence())
    else:
        yield Moment("", None, [])


def _asked(question: Any) -> str:
    """A question as text, without an answer."""
    return "\n".join([" ".join(map(plain, question.prompt)), *(f"○ {one}" for one in question.choices)])


# -- in the process that makes the slides -----------------------------------------------------------------------------------------


def captured(
    text: str, beside: Path, seconds: int, running: Callable[[int, int], None], limits: Limits = DEFAULT
) -> tuple[Any, dict[str, Captured]]:
    """Run a notebook, given as the text of its file, in a fresh kernel; returns it with outputs, and its views by their model's id.

    It runs in an empty folder with links to the files in `beside`, so that it writes nothing there; answers are not among them. `running`
    is called before each cell with its index and the number of cells. `seconds` is the time limit of a cell. Raises RuntimeError if a cell
    fails, with its id.
    """
    import nbformat
    from nbclient import NotebookClient
    from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError

    nb: Any = nbformat.reads(text, as_version=4)
    with _linked(beside) as here, tempfile.TemporaryDirectory() as folder:
        client = NotebookClient(
            nb,
            timeout=seconds,
            kernel_name="python3",
            resources={"metadata": {"path": here}},
            record_timing=False,
            extra_arguments=["--log-level=ERROR"],
        )
        if os.name == "posix":  # sockets that are files: of two processes that look for free ports one may get the other's
            manager: Any = client.create_kernel_manager()
            manager.transport, manager.connection_file = "ipc", os.path.join(folder, "kernel")
        with client.setup_kernel(env={**os.environ, "PYTHONPATH": _path()}):
            here_too = f"__import__({__name__!r}, fromlist=['install'])"
            call = f"{here_too}.install({folder!r}, {here_too}.{limits!r})"
            nb.cells.insert(0, nbformat.v4.new_code_cell(call))
            for index, cell in enumerate(nb.cells):
                running(index, len(nb.cells))
                try:
                    client.execute_cell(cell, index, store_history=index > 0)
                except (CellExecutionError, CellTimeoutError, DeadKernelError) as error:
                    lines = re.sub(r"\x1b\[[0-9;]*m", "", str(error)).strip().splitlines()
                    why = lines[-1] if isinstance(error, CellExecutionError) else lines[0]
                    raise RuntimeError(f"the cell {cell.get('id', index)!r} failed: {why}") from error
            del nb.cells[0]
        return nb, {path.stem: _read(path) for path in Path(folder).glob("*.json")}


def _read(path: Path) -> Captured:
    about = json.loads(path.read_text(encoding="utf-8"))
    moments = [Moment(**one) for one in about.pop("moments")]
    return Captured(**about, data=path.with_suffix(".replay").read_bytes(), moments=moments)


def _path() -> str:
    """A PYTHONPATH with which the kernel imports the same workbench."""
    return os.pathsep.join(filter(None, [str(Path(__file__).resolve().parents[2]), os.environ.get("PYTHONPATH", "")]))


@contextmanager
def _linked(beside: Path) -> Iterator[str]:
    with tempfile.TemporaryDirectory() as here:
        for path in beside.iterdir():
            if not path.name.startswith(".") and path.suffix != ".ipynb" and not path.name.endswith("answers.json"):
                os.symlink(path.resolve(), Path(here) / path.name)
        yield here
