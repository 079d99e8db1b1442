"""The implementation of `wb.export`: find the session, and write the file in the format of its extension."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from copy import copy
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

from engine.core.tensor import Tensor

from .. import inspector, protocol
from ..backward.stepper import Stepper
from ..graph import svg
from ..graph.drawing import draw
from ..graph.graph import Graph
from ..graph.outline import BOXES
from ..inspector import bytes_text
from ..recording.recording import Recording
from ..session.session import Session, recent
from ..session.surface import opened
from . import data, dot, mermaid, paper, trace
from .privacy import without_paths
from .replay import BUDGET, replay


@dataclass(frozen=True)
class Written:
    """A file that `wb.export` wrote. It is path-like (`os.PathLike`).

    Attributes:
        path: where it is.
        bytes: its size.
        left: a sentence on what was left out; "" if nothing was.
    """

    path: Path
    bytes: int
    left: str

    def __fspath__(self) -> str:
        return str(self.path)

    def __repr__(self) -> str:
        return f"{self.path}: {bytes_text(self.bytes)}.{' ' + self.left if self.left else ''}"


def export(
    file: str | PathLike[str],
    target: Any,
    names: Mapping[str, Any],
    paths: bool = False,
    stats: bool = False,
    budget: int | str | None = None,
    boxes: int | None = None,
) -> Written:
    """Write `file` in the format of its extension.

    Raises ValueError for another extension or a limit that is not positive, and RuntimeError if nothing was recorded.
    """
    path = Path(file)
    ending = path.suffix.lower().removeprefix(".")
    if ending not in KINDS:
        endings = ", ".join("trace.json" if one == "trace" else f".{one}" for one in KINDS)
        raise ValueError(f"wb.export writes files that end in {endings}, not {path.name!r}.")
    limit = BUDGET if budget is None else sized(budget)
    most = BOXES if boxes is None else boxes
    if most < 1:
        raise ValueError(f"boxes is the number of boxes that a drawing may have, at least 1, not {boxes!r}.")
    with session_of(target, names, ending in ("html", "replay")) as session:
        if session.recording.count == 0:
            raise RuntimeError("There is nothing to export: no op was recorded.")
        content, left = KINDS["trace" if path.name.endswith("trace.json") else ending](_Wish(session, paths, stats, limit, most, ending))
    path.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8", "replace"))
    return Written(path, path.stat().st_size, left)


@dataclass(frozen=True)
class _Wish:
    session: Session
    paths: bool
    stats: bool
    budget: int
    boxes: int
    ending: str

    @property
    def message(self) -> protocol.Graph:
        return self.session.graph.message()


def _html(wish: _Wish) -> tuple[str, str]:
    made = replay(wish.session, wish.paths, wish.budget)
    return made.html(), made.left


def _data(wish: _Wish) -> tuple[bytes, str]:
    made = replay(wish.session, wish.paths, wish.budget)
    return made.data, made.left


def _json(wish: _Wish) -> tuple[str, str]:
    r = wish.session.recording

    def numbers(row: int) -> dict[str, Any] | None:
        value = r.value(row)
        if not hasattr(value, "dtype"):
            return None
        known = inspector.summary(value)
        kept = ("size", "nan", "pos_inf", "neg_inf", "negative", "zero", "positive", "min", "max", "mean", "std", "norm")
        return {name: getattr(known, name) for name in kept}

    return data.text(wish.message, numbers if wish.stats else None, wish.paths), ""


def _drawn(wish: _Wish) -> tuple[str | bytes, str]:
    message = wish.message
    drawing = draw(message, wish.boxes)
    if not wish.paths:
        for box in drawing.boxes:
            box.title, box.detail, box.riders = without_paths([box.title, box.detail, box.riders])
        for frame in drawing.frames:
            frame.title = without_paths(frame.title)
        drawing.title = without_paths(drawing.title)
    ops = sum(kind == "op" for kind in message.nodes.kind)
    left = f"{drawing.hidden:,} of {ops:,} ops are counted in closed boxes." if drawing.hidden else ""
    return (svg.written(drawing) if wish.ending == "svg" else paper.page(drawing, wish.ending)), left


KINDS: Mapping[str, Callable[[_Wish], tuple[str | bytes, str]]] = {
    "html": _html,
    "svg": _drawn,
    "png": _drawn,
    "pdf": _drawn,
    "json": _json,
    "dot": lambda wish: (dot.text(wish.message, wish.paths), ""),
    "mmd": lambda wish: (mermaid.text(wish.message, wish.paths), ""),
    "replay": _data,
    "trace": lambda wish: (trace.text(wish.session.recording, wish.session.graph, wish.paths), ""),
}


def sized(budget: Any) -> int:
    """Parse a size in bytes, from a number or a text such as "20 MB". Raises ValueError if it is neither or not positive."""
    units = {"B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9}
    text = str(budget).strip().upper()
    unit = next((one for one in ("KB", "MB", "GB", "B") if text.endswith(one)), "")
    try:
        found = int(float(text.removesuffix(unit)) * units.get(unit, 1))
    except (ValueError, OverflowError):  # OverflowError for infinity
        found = 0
    if found <= 0:
        raise ValueError(f'budget is a number of bytes, or such as "20 MB", not {budget!r}.')
    return found


def session_of(target: Any, names: Mapping[str, Any], with_pass: bool) -> AbstractContextManager[Any]:
    """The session of a view, a session, a stepper, a recording, or a tensor; without a target, the newest session.

    If `with_pass`, a loss with an intact tape gets a backward pass for the duration of the block.
    """
    session = getattr(target, "session", target)
    if target is None:
        session = newest()
    if isinstance(session, Session):
        return nullcontext(session) if session.stepper is not None or not with_pass else _stepped(session, None)
    if isinstance(target, Stepper):
        session = Session(target.recording, target.graph)
        session.stepper = target
        return nullcontext(session)
    if isinstance(target, Recording):
        session = Session(target, Graph(target))
        session.graph.finish(names)
        return nullcontext(session)
    if target is None or isinstance(target, Tensor):
        session = opened(target, names)
        return _stepped(session, target) if with_pass else nullcontext(session)
    from ..torch_models import is_tensor

    if is_tensor(target):
        from ..subjects.watching import shown

        known = shown(target, names)
        if known is None:
            raise RuntimeError("This tensor of PyTorch's was not recorded: `with wb.watch(): ...` around what computes it, then export it.")
        return nullcontext(known)
    raise TypeError(f"wb.export takes a view, a pass, a recording, or a tensor, not {type(target).__name__}.")


def newest() -> Session | None:
    """The newest live session that shows more than a single tensor; None if there is none."""
    made = reversed(recent)
    return next((one for one in made if one.recording.count and one.graph.view != "tensor"), None)


class _stepped(AbstractContextManager):
    """A session with its own backward pass for the duration of the block, if its loss still has a tape."""

    def __init__(self, session: Session, tensor: Tensor | None) -> None:
        self.session, self.tensor = copy(session), tensor  # a copy, so that views do not show the pass
        self.stepper: Stepper | None = None

    def __enter__(self) -> Session:
        r = self.session.recording
        root = self.tensor if self.tensor is not None or r.root < 0 else r.tensor(r.root)
        if isinstance(root, Tensor) and root.node is not None and _whole(root):
            self.stepper = self.session.stepper = Stepper.of(r, self.session.graph, root)
        return self.session

    def __exit__(self, *error: Any) -> None:
        if self.stepper is not None:
            self.stepper.close()


def _whole(tensor: Tensor) -> bool:
    """Whether a backward pass can begin at the tensor: it has one element, and its tape was not freed."""
    from engine.core import tape

    nodes = tape.plan([tensor.node])
    return tensor.array.size == 1 and not any(node.op is not None and node.saved is tape.FREED for node in nodes)
