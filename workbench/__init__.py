"""Visualize the autograd graph, inspect tensors and step through backward passes, in notebooks and in scripts.

%load_ext workbench          then %%watch at the top of a cell
import workbench as wb       then wb.show(loss), wb.step(loss), wb.describe(x), wb.memory(), wb.profile()
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from importlib import import_module
from typing import TYPE_CHECKING, Any

from . import caller

if TYPE_CHECKING:
    from engine.core.tensor import Tensor

    from . import plot, teach, testing, whatif
    from .backward.breakpoints import Breakpoint
    from .backward.stepper import Stepper
    from .checks.ask import CheckReport
    from .exporting.ask import Written
    from .jupyter.widget import View
    from .memory_use.alive import Why
    from .memory_use.ask import MemoryReport
    from .session.report import Report
    from .session.surface import ShownSession
    from .subjects.watching import Watch
    from .training.history import History
    from .training.progress import Track

__all__ = [
    "break_at",
    "check",
    "describe",
    "diff",
    "export",
    "guard",
    "history",
    "loop",
    "memory",
    "plot",
    "profile",
    "progress",
    "record",
    "release",
    "scope",
    "show",
    "step",
    "teach",
    "testing",
    "vocabulary",
    "watch",
    "whatif",
    "why_alive",
]


def show(tensor: Any = None) -> View | Watch | ShownSession:
    """Show the graph behind `tensor`, or the graph of a module's latest run; by default, the last recording.

    In a notebook, returns an interactive view; elsewhere, an object that prints itself as a table. Raises RuntimeError for a tensor that no
    recorded op produced and that does not require grad, and for a module that has not run under a watch.
    """
    from .session.surface import opened
    from .subjects.recordings import is_module, ran
    from .torch_models import is_tensor

    if is_module(tensor):
        return caller.shown(ran(tensor, caller.names()))
    if is_tensor(tensor):
        from .subjects.watching import shown

        known = shown(tensor, caller.names())
        return watch(tensor) if known is None else caller.shown(known)
    return caller.shown(opened(tensor, caller.names()))


def step(tensor: Tensor | None = None, gradient: Tensor | None = None, *, until: Any = None) -> View | Stepper | AbstractContextManager:
    """Step through the backward pass of `tensor`: in a view in a notebook, elsewhere with `next()`, `previous()` and `to()`.

    For a PyTorch tensor, PyTorch's own engine runs the pass at once, and its record is stepped through: `.grad` does not change, and the
    graph is kept for `.backward()`.

    Without a tensor, returns a context manager: inside `with wb.step():` every backward pass of a running cell waits at each step for the
    view. Outside Jupyter the block simply runs. `until` says where to stop first: a condition such as "norm > 1e3 or nan > 0", a breakpoint
    from `wb.break_at`, or a list of these; anything else raises ValueError.
    """
    from .backward.breakpoints import named
    from .torch_models import is_tensor

    stops = [] if until is None else named(until)
    if tensor is None:
        if caller.in_kernel():
            from .jupyter.pause import Pause

            return Pause(until=stops)
        return nullcontext()
    notebook = caller.has_page()
    if is_tensor(tensor):
        from .subjects.watching import stepped

        session = stepped(tensor, gradient, caller.names())
    else:
        from .backward.stepper import Stepper
        from .session.surface import opened

        session = opened(tensor, caller.names())
        session.stepper = Stepper.of(session.recording, session.graph, tensor, gradient)
        if notebook:
            session.stepper.prepare()  # a later cell may overwrite what the tape saved
    assert session.stepper is not None
    if stops:
        session.stepper.run(stops)
    return caller.shown(session) if notebook else session.stepper


def break_at(when: str = "", *, op: str = "", name: str = "", module: str = "") -> Breakpoint:
    """Set a breakpoint for backward passes: at an `op`, at a glob (`name="layers.*.weight"`, `module="encoder"`), or anywhere.

    With `when`, stop only if the condition holds for a gradient: "nan > 0 or norm > 1e3 or norm < 1e-8 or zero > 0.99". The breakpoint
    lasts until the kernel exits. Raises ValueError, with the reason, for a condition that cannot be parsed.
    """
    from .backward.breakpoints import Breakpoint, kept

    return kept.add(Breakpoint.of(when, op=op, name=name, module=module))


def describe(tensor: Any, tokens: Any = None) -> View | Report:
    """Summarize a tensor: facts, counts, moments, distribution, and its gradient or why it has none; for a module, its parameters.

    `tokens` is a vocabulary as for `wb.vocabulary`: integers are shown as the tokens that they stand for.
    """
    from .subjects.recordings import is_module
    from .tensors.ask import inspected
    from .training.ask import model

    session: Any = model(tensor, caller.names()) if is_module(tensor) else inspected(tensor, caller.names(), tokens)
    return caller.shown(session) if caller.has_page() else session.report()


def vocabulary(tokens: Any) -> None:
    """Show ids as tokens in every view from now on: a list of tokens, a dict in either direction, or a tokenizer with `get_vocab()`.

    None shows ids as numbers again. A view that exists keeps the vocabulary that it was made with. Raises TypeError for anything else.
    """
    from .inspector import vocabulary as known

    known.use(tokens)


def memory(of: Any = None) -> View | MemoryReport:
    """Report the current and peak memory of the last recorded code, and what uses it.

    `of` selects a recording: a tensor, a module, a view, or the `r` of `with wb.record() as r`. Raises RuntimeError if nothing was
    recorded.
    """
    from .memory_use.ask import remembered

    session = remembered(of, caller.names())
    return caller.shown(session) if caller.has_page() else session.report()


def why_alive(tensor: Tensor) -> Why:
    """Find what keeps a tensor's memory alive: chains from variables, outputs, graphs, optimizers, ..., each with the line that cuts it.

    Searches at most 200,000 of the program's objects (about 0.3 s), and keeps none of them. Raises TypeError if `tensor` is neither a
    Tensor nor an array.
    """
    from .memory_use import alive

    frame = caller.frame()
    return alive.why(tensor, caller.names_in(frame), hide=(frame, frame.f_globals, frame.f_locals))


def release(*what: str) -> None:
    """Free "recordings" (arrays kept for viewing), "error" (its local variables), "outputs" or "view" (what the panel shows).

    Without arguments, all four are freed. Graphs and statistics remain. Raises ValueError for any other word.
    """
    from .memory_use.releasing import release

    release(*what)


def profile(of: Any = None) -> View | Report:
    """Report where the time of the last recorded code went: when each op ran, and totals by line, op and module.

    `of` selects a recording: a tensor, a module, a view, or the `r` of `with wb.record() as r`. Raises RuntimeError if nothing was
    recorded.
    """
    from .profiling.ask import timed

    session = timed(of, caller.names())
    return caller.shown(session) if caller.has_page() else session.report()


def check(of: Any = None, thorough: bool = True) -> View | CheckReport:
    """Report problems in the last recorded code: where they are, why they matter, and the line that fixes them.

    `of` selects a recording: a tensor, a module, a view, or the `r` of `with wb.record() as r`. In a notebook, returns a view that opens on
    the findings; elsewhere a report that prints itself, with `findings`. Without `thorough`, only the checks that every %%watch cell gets
    are run. Raises RuntimeError if nothing was recorded.
    """
    from .checks.ask import checked

    session = checked(of, caller.names(), thorough)
    return caller.shown(session) if caller.has_page() else session.report()


def guard(nan: bool = True, inf: bool = True) -> AbstractContextManager[None]:
    """Raise FloatingPointError at the op, forward or backward, that produces a NaN (`nan`) or an infinity (`inf`): `with wb.guard(): ...`.

    The message shows the operands and their values. There is no cost outside the block.
    """
    from .checks.ask import guard

    return guard(nan, inf)


def diff(before: Any = None, after: Any = None) -> View | ShownSession:
    """Compare two recordings in one graph: what was added, removed and changed, and how much the values differ.

    `before` and `after` are tensors (everything they were computed from), modules, views, or the `r` of `with wb.record() as r`; by
    default, the last two recordings. Raises RuntimeError if there are not two.
    """
    from .compare.ask import compared

    return caller.shown(compared(before, after, caller.names()))


def watch(subject: Any = None, keep: int | None = None) -> Watch | View | ShownSession:
    """Watch a model or a tensor, of the engine or of PyTorch: graph, values and gradients in the view.

    `with wb.watch(model): ...` records what runs inside the block, and every backward pass as a record to step through. Without a block, a
    module is watched at each of its calls, and a PyTorch tensor shows the graph behind it. `keep` is the number of bytes of results kept
    for viewing. Raises TypeError for anything else.
    """
    from .subjects.watching import watched

    return watched(subject, keep, caller.frame(), caller.shown, caller.displayed)


def export(file: Any, target: Any = None, *, paths: bool = False, stats: bool = False, budget: Any = None) -> Written:
    """Write a file of the kind given by its extension.

    `.html` is the view with all its answers, a page that needs neither kernel nor network, and `.replay` its data alone; `.svg`, `.png` and
    `.pdf` are drawings; `.json`, `.dot` and `.mmd` are the graph for other tools; `trace.json` holds times for Chrome's tracing.

    `target` is a view, the result of `wb.record()` or `wb.step()`, or a tensor; by default, what was shown last. `budget` limits the data
    of a page ("8 MB"); what does not fit is reported. `stats` adds the statistics of each value to a `.json`. Absolute paths are
    shortened unless `paths`. Raises ValueError for any other extension, RuntimeError if there is nothing to export.
    """
    from .exporting.ask import export

    return export(file, target, caller.names(), paths, stats, budget)


@contextmanager
def record(title: str = "", keep: int | None = None) -> Iterator[ShownSession]:
    """Record the ops inside the block: `with wb.record() as r: ...`, then `wb.show()` or `print(r)`. For scripts; cells have %%watch.

    The newest recording is kept until the next one is made, even if it has no name.
    """
    from engine.base import observe

    from .recording.recorder import Recorder
    from .recording.recording import KEEP
    from .session.surface import ShownSession, last

    recorder = Recorder(title, KEEP if keep is None else keep)
    session = ShownSession(recorder.recording)
    names = caller.frame()
    ended: BaseException | None = None
    try:
        with observe.observing(recorder):
            yield session
    except BaseException as error:
        ended = error
        raise
    finally:
        recorder.stop(ended)
        ended = None  # it references this frame
        session.finish(caller.names_in(names))
        last[:] = [session]


def scope(name: str) -> AbstractContextManager[None]:
    """Group ops under a name in the graph: `with wb.scope("attention"): ...`."""
    from engine.base import observe

    return observe.scope(name)


def history(model: Any, optimizer: Any = None, every: int = 1, keep: int = 256) -> History:
    """Record the training of `model`, an `nn.Module` of the engine or of PyTorch: statistics of weights, gradients, updates and activations
    at every `every`-th step.

    A step is one `optimizer.step()`, or one backward pass without an optimizer. At most `keep` steps are kept: beyond that, every second
    one is dropped. `h["layers.0.weight"].grad.norm` is then a series, `h.log(loss=loss)` adds one; `h.close()` or a `with` block ends
    recording.
    """
    from .training.history import History

    return History(model, optimizer, every, keep)


def progress(iterable: Iterable, total: int | None = None, title: str = "") -> Track:
    """Show a progress bar with the time left, and curves of reported values: `for x in (p := wb.progress(loader)): p.report(loss=loss)`.

    In a notebook it is in the cell's output, elsewhere a line on stderr. `total` is the number of iterations if the iterable has no length.
    """
    from .training.progress import Track

    if not caller.in_kernel():
        return Track(iterable, total, title)
    from .jupyter.progress import Cell

    return Track(iterable, total, title, Cell())


def __getattr__(name: str) -> Any:
    if name in ("plot", "teach", "testing", "whatif"):  # `import workbench` stays light
        return import_module(f".{name}", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def loop(data: Iterable, *subjects: Any) -> Iterable:
    """Control a training loop from the view: play, pause, step and rewind it: `for x, y in wb.loop(loader, model)`.

    `subjects` are restored exactly on a rewind: the model, the optimizer, a scheduler, single tensors; so is the random state. The graph
    and backward passes of iterations that are shown can be inspected. The loop waits before its first iteration. Outside Jupyter, returns
    `data` itself. Raises TypeError for a subject that cannot be restored.
    """
    if not caller.in_kernel():
        return data
    from .jupyter.pause import controlled

    return controlled(data, subjects)


def load_ipython_extension(shell: Any) -> None:
    """Register the %%watch magic, rich display of tensors, and the connection to the JupyterLab panel for `%load_ext workbench`."""
    from .jupyter import cells, comm, display, errors, holders, magics

    shell.register_magics(magics.WatchMagics)
    display.register(shell)
    cells.follow()
    holders.register()
    errors.register(shell)
    if getattr(shell, "kernel", None) is not None:
        comm.register()
    shell.user_ns.setdefault("wb", sys.modules[__name__])
