"""The magics `%%watch`, which records a cell's ops and shows the growing graph, and `%torch`, which makes `import torch` the engine."""

from __future__ import annotations

import ast
import re
from contextlib import ExitStack
from threading import current_thread, main_thread
from typing import Any

from IPython.core.error import UsageError
from IPython.core.magic import Magics, cell_magic, line_cell_magic, magics_class
from IPython.core.magic_arguments import argument, magic_arguments, parse_argstring
from IPython.display import display

import engine
from engine.base import observe

from ..checks.answers import check
from ..recording.recorder import MAX_ROWS, Recorder
from ..recording.recording import KEEP
from ..session.passes import PassWatcher
from ..session.session import Session
from ..torch_models import loaded
from ..torch_models.watch import TorchWatch
from . import cells
from .pause import glance
from .widget import View


@magics_class
class WatchMagics(Magics):
    """The workbench's magics."""

    shell: Any

    @magic_arguments()
    @argument("--keep", default=None, metavar="SIZE", help="keep up to this many bytes of results for viewing (default 256MB)")
    @argument("--limit", type=int, default=MAX_ROWS, metavar="N", help="record at most so many ops and tensors (default 200000)")
    @argument("--every-turn", action="store_true", help="record every turn of a long training, not only the first ones and some later ones")
    @argument("--steps", action="store_true", help="record the backward passes too, to be walked through afterwards")
    @cell_magic
    def watch(self, line: str, cell: str) -> None:
        """Record this cell and show its graph, live.

        Example::

            %%watch --steps
            loss = model(x).square().mean()
            loss.backward()
        """
        __tracebackhide__ = True
        options = parse_argstring(self.watch, line)
        keep = KEEP if options.keep is None else size(options.keep)
        body = self._compiled(line, cell)
        recorder = Recorder(cells.title(), keep, options.limit, options.every_turn)
        session = Session(recorder.recording)
        view = View(session)
        # A terminal cannot update its output, so it gets only the finished graph.
        shown: Any = display(view, display_id=True) if hasattr(self.shell, "kernel") else None
        recorder.listener = lambda: live(session)
        with ExitStack() as stack:
            stack.push(lambda kind, error, trace: self._finish(recorder, session, shown, view, error))
            observer: observe.Observer = recorder
            if options.steps:
                observer = watcher = PassWatcher(session, recorder, None, lambda: self.shell.user_ns)
                stack.push(lambda kind, error, trace: watcher.close(error))
            stack.enter_context(observe.observing(observer))
            if loaded.torch() is not None:
                names = lambda: self.shell.user_ns  # noqa: E731
                stack.enter_context(TorchWatch(session, names, cells.title(), keep, options.limit, ours=False))
            recorder.begin()
            for code in body:
                exec(code, self.shell.user_global_ns, self.shell.user_ns)

    @line_cell_magic
    def torch(self, line: str, cell: str | None = None) -> None:
        """Make `import torch` import the engine from now on. As `%%torch`, also watch the cell, with the options of `%%watch`.

        Run it before the first `import torch` of the kernel.

        Example::

            %torch
            import torch
        """
        __tracebackhide__ = True
        if cell is None and line.strip():
            raise UsageError("%torch takes no arguments; as %%torch it takes those of %%watch")
        try:
            engine.install_as_torch()
        except RuntimeError as refused:
            told = str(refused).partition(" Restart ")[0].partition(": ")[2]
            raise UsageError(
                f"%torch: {told} Restart the kernel and run %torch before the first `import torch`; or stay with PyTorch, whose models "
                "wb.watch shows."
            ) from None
        if cell is not None:
            self.watch(line, cell)

    def _finish(self, recorder: Recorder, session: Session, shown: Any, view: View, error: BaseException | None) -> None:
        recorder.stop(error)
        session.finish(self.shell.user_ns)
        check(session)
        if shown is not None:
            shown.update(view)  # the stills in the saved notebook show the finished graph
        else:
            display(view)

    def _compiled(self, line: str, cell: str) -> list[Any]:
        """Compile the cell under its own file name and line numbers; the last expression separately, so that its value is displayed."""
        shell = self.shell
        raw = shell.history_manager.input_hist_raw[-1]
        if not raw.rstrip().endswith(cell.rstrip()):
            raw = f"%%watch {line}\n{cell}"  # run without history
        before = raw[: raw.rindex(cell.rstrip())].count("\n") if cell.strip() else 1
        source = "\n" * before + shell.transform_cell(cell)
        name = shell.compile.cache(source, cells.number(), raw)
        tree = shell.compile.ast_parse(source, filename=name)
        tree = shell.transform_ast(tree)
        last = [tree.body.pop()] if tree.body and isinstance(tree.body[-1], ast.Expr) and not _silenced(source) else []
        codes = [shell.compile(tree, name, "exec")] if tree.body else []
        return codes + [shell.compile(ast.Interactive(last), name, "single")] if last else codes


def live(session: Session) -> None:
    """Send new rows while the cell runs; first handle the view's messages if only the busy main thread can."""
    if current_thread() is main_thread():
        glance()
    session.update()


def _silenced(source: str) -> bool:
    """Whether the source ends with a semicolon, which suppresses display."""
    lines = [text for text in source.splitlines() if text.strip() and not text.strip().startswith("#")]
    return bool(lines) and lines[-1].rstrip().endswith(";")


def size(text: str) -> int:
    """Parse a size such as "64MB", "1.5GB" or "4096" into bytes; decimal units. Raises UsageError for anything else."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([kMGT]?)i?B?", text.strip(), re.IGNORECASE)
    if found is None:
        raise UsageError(f"--keep takes a size such as 64MB, not {text!r}")
    return int(float(found[1]) * 1000 ** " KMGT".index(found[2].upper() or " "))
