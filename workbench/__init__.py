"""A workbench for deep learning in notebooks: see the autograd graph, look into every tensor, step backward passes forth and back.

%load_ext workbench          then %%watch at the top of a cell
import workbench as wb       then wb.show(loss), wb.step(loss), wb.inspect(x), wb.memory(), wb.time()
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from engine.core.tensor import Tensor
    from engine.nn import Module

    from . import plot
    from .teach.ask import quiz
    from .teach.sabotage import sabotage
    from .training.history import History
    from .training.progress import Track

__all__ = [
    "breakpoint",
    "check_rule",
    "diff",
    "fork",
    "history",
    "inspect",
    "loop",
    "local_jacobian",
    "memory",
    "paths",
    "plot",
    "record",
    "rerun",
    "scope",
    "show",
]
__all__ += ["export", "level"]
__all__ += ["assert_unchanged", "check", "fingerprint", "guard", "release", "why"]
__all__ += ["follow", "grade", "lesson", "modes", "present", "quiz", "sabotage", "say"]
__all__ += ["step", "time", "tokens", "track", "watch"]


def show(tensor: Any = None) -> Any:
    """The graph of everything that `tensor` was computed from, or of a module's latest run; without it, the last recording.

    In a notebook a view that can be explored; elsewhere an object that prints itself as a table. RuntimeError for a tensor that no
    recorded op made and that does not require grad, and for a module that has not run under a watch.
    """
    from .subjects import is_module, ran
    from .surface import opened
    from .torch_models import is_tensor

    if is_module(tensor):
        return _shown(ran(tensor, _names()))
    if is_tensor(tensor):
        from .watching import shown

        known = shown(tensor, _names())
        return watch(tensor) if known is None else _shown(known)
    return _shown(opened(tensor, _names()))


def step(tensor: Tensor | None = None, gradient: Tensor | None = None, *, until: Any = None) -> Any:
    """The backward pass of `tensor`, to be walked forth and back: in a notebook in a view, elsewhere with `next()`, `previous()`, `to()`.

    Of a tensor of PyTorch's the pass is run at once, by PyTorch's own engine, and what is walked through is its record: that changes no
    `.grad`, and the graph stays for `.backward()`.

    Without a tensor, a context manager: inside `with wb.step():` every backward pass of a running cell waits at each step for the view.
    Outside Jupyter such a block simply runs. `until` is where to go at once: a condition such as "norm > 1e3 or nan > 0", what
    `wb.breakpoint` gives, or a list of these; ValueError for what is neither.
    """
    from .breakpoints import named
    from .torch_models import is_tensor

    stops = [] if until is None else named(until)
    if tensor is None:
        if _kernel():
            from .jupyter.pause import Pause

            return Pause(until=stops)
        return nullcontext()
    notebook = _page()
    if is_tensor(tensor):
        from .watching import stepped

        session = stepped(tensor, gradient, _names())
    else:
        from .stepper import Stepper
        from .surface import opened

        session = opened(tensor, _names())
        session.stepper = Stepper.of(session.recording, session.graph, tensor, gradient)
        if notebook:
            session.stepper.prepare()  # a later cell may overwrite what the tape saved
    if stops and session.stepper is not None:
        session.stepper.run(stops)
    return _shown(session) if notebook else session.stepper


def breakpoint(when: str = "", *, op: str = "", name: str = "", module: str = "") -> Any:
    """Stop backward passes that run to a breakpoint: at an `op`, at what a glob matches (`name="layers.*.weight"`, `module="encoder"`),
    or anywhere; with `when`, only where that holds of a gradient: "nan > 0 or norm > 1e3 or norm < 1e-8 or zero > 0.99".

    It is kept as long as the kernel lives. ValueError for a condition that cannot be read; the sentence says why.
    """
    from .breakpoints import Breakpoint, kept

    return kept.add(Breakpoint.of(when, op=op, name=name, module=module))


def inspect(tensor: Any, tokens: Any = None) -> Any:
    """Facts, counts, moments and distribution of a tensor, and its gradient or the reason why there is none; or the parameters of a module.

    `tokens` is a vocabulary as `wb.tokens` takes it: whole numbers are shown as what they stand for.
    """
    from .subjects import is_module, model
    from .torch_models import is_tensor

    if is_module(tensor):
        session: Any = model(tensor, _names())
    elif is_tensor(tensor):
        from .watching import inspected

        session = inspected(tensor, _names(), tokens)
    else:
        from .surface import inspected

        session = inspected(tensor, _names(), tokens)
    return _shown(session) if _page() else session.report()


def tokens(vocabulary: Any) -> None:
    """From now on every view shows ids as tokens: a list of tokens, a dict either way round, or a tokenizer with `get_vocab()`.

    None: as numbers again. TypeError for anything else.
    """
    from .inspector import vocabulary as known

    known.use(vocabulary)


def level(name: str) -> None:
    """How much all views show: "student" leaves the tabs Step and Value and a simple bar, "full" shows everything. The notebook keeps it.

    ValueError for another name.
    """
    from . import levels
    from .session import recent as sessions

    levels.choose(name)
    for session in sessions:
        session.show_level()


def memory(of: Any = None) -> Any:
    """What memory the last recorded code needs now and needed at its peak, and why. RuntimeError when nothing was recorded.

    `of` is a tensor, a module, a view, or what `with wb.record() as r` gives: the code that was recorded with it.
    """
    from .subjects import remembered

    session = remembered(of, _names())
    return _shown(session) if _page() else session.report()


def why(tensor: Tensor) -> Any:
    """What keeps a tensor's memory alive: chains from variables, outputs, errors, graphs, optimizers, ..., each with the line that cuts it.

    It looks through the objects that the program holds, at most 200,000 of them (about 0.3 s), and keeps none. TypeError for what is
    neither a Tensor nor an array.
    """
    from . import alive

    frame = _frame()
    return alive.why(tensor, _names_in(frame), hide=(frame, frame.f_globals, frame.f_locals))


def release(*what: str) -> None:
    """Let go of what nobody asked to keep: "recordings" (arrays to be looked at), "error" (its local variables), "outputs", and "view"
    (what the panel shows); without a word, of all. Graphs and numbers stay. ValueError for another word.
    """
    from .releasing import release

    release(*what)


def time(of: Any = None) -> Any:
    """Where the time of the last recorded code went: when each op ran, and totals by line, op and module. RuntimeError without one.

    `of` is a tensor, a module, a view, or what `with wb.record() as r` gives: the code that was recorded with it.
    """
    from .subjects import timed

    session = timed(of, _names())
    return _shown(session) if _page() else session.report()


def check(of: Any = None, thorough: bool = True) -> Any:
    """What is wrong with the last recorded code: where, why it matters, and the line that mends it. RuntimeError when nothing was recorded.

    `of` is a tensor, a module, a view, or what `with wb.record() as r` gives: the code that was recorded with it. In a notebook
    a view that opens on the findings; elsewhere a report that prints itself, with `findings`. Without `thorough` only what every cell under
    %%watch is checked for.
    """
    from .subjects import checked

    session = checked(of, _names(), thorough)
    return _shown(session) if _page() else session.report()


def guard(nan: bool = True, inf: bool = True) -> AbstractContextManager[None]:
    """`with wb.guard(): ...` raises a FloatingPointError at the very op, forward or backward, that makes a NaN or (`inf`) an infinity.

    The sentence has the operands and their values there. Outside the block it costs nothing.
    """
    from .checks.guard import guard

    return guard(nan, inf)


def fingerprint(loss: Tensor) -> str:
    """16 hexadecimal digits of the graph behind `loss`: its ops, shapes, dtypes and, where it was recorded, modules; of nothing else.

    RuntimeError for a tensor without a graph.
    """
    from .checks.fingerprint import fingerprint

    return fingerprint(loss)


def assert_unchanged(loss: Tensor, file: str, update: bool | None = None) -> None:
    """AssertionError, with the lines that differ, when the graph behind `loss` is not the one in `file` any more. For tests.

    The file is written anew with `update=True`, `--update` on the command line, or WB_UPDATE=1 in the environment.
    """
    from .checks.fingerprint import assert_unchanged

    assert_unchanged(loss, file, update)


def diff(before: Any = None, after: Any = None) -> Any:
    """Two recordings in one graph: what was added, removed and changed, and how far values are apart.

    `before` and `after` are tensors (all that they were computed from), modules, views, or what `with wb.record() as r` gives; without
    them the last two recordings. RuntimeError when there are no two.
    """
    from .subjects import compared

    return _shown(compared(before, after, _names()))


def watch(subject: Any = None, keep: int | None = None) -> Any:
    """Watch a model or a tensor, of the engine or of PyTorch: graph, numbers and gradients in the view.

    `with wb.watch(model): ...` records what runs inside the block, and every backward pass as a record to walk through. Without a block
    a module is watched at each of its calls, and a tensor of PyTorch's shows the graph behind it. `keep`: bytes of results that are held
    to be looked at later. TypeError for what is neither.
    """
    from .watching import watched

    return watched(subject, keep, _frame(), _shown, _displayed)


def export(file: Any, target: Any = None, *, paths: bool = False, stats: bool = False, budget: Any = None) -> Any:
    """Write a file of the kind that its ending says: `.html`, the view with all its answers, for a page without kernel or network;
    `.svg`, `.png`, `.pdf`, a drawing; `.json`, `.dot`, `.mmd`, the graph for other tools; `trace.json`, times for Chrome's tracing.

    `target` is a view, what `wb.record()` or `wb.step()` gives, or a tensor; by default what was shown last. `budget` bounds the data of a
    page ("8 MB"); what had no room is said. `stats` adds the numbers of each value to a `.json`. Absolute paths are cut unless `paths`.
    ValueError for another ending, RuntimeError when there is nothing to export.
    """
    from .exporting.ask import export

    return export(file, target, _names(), paths, stats, budget)


@contextmanager
def record(title: str = "", keep: int | None = None) -> Iterator[Any]:
    """Record the ops inside the block: `with wb.record() as r: ...`, then `wb.show()` or `print(r)`. For scripts; cells have %%watch.

    The newest recording stays until the next one is made, named or not.
    """
    from engine.base import observe

    from .recorder import Recorder
    from .recording import KEEP
    from .surface import ShownSession, last

    recorder = Recorder(title, KEEP if keep is None else keep)
    session = ShownSession(recorder.recording)
    names = _frame()
    ended: BaseException | None = None
    try:
        with observe.observing(recorder):
            yield session
    except BaseException as error:
        ended = error
        raise
    finally:
        recorder.stop(ended)
        ended = None  # it holds this frame
        session.finish(_names_in(names))
        last[:] = [session]


def fork(walk: Any, expression: str, at: Tensor | None = None, slot: int = -1, index: Sequence[int] | None = None, name: str = "") -> Any:
    """What the backward pass would be with another gradient: `wb.fork(s, "g.clip(-1, 1)")` for `s = wb.step(loss)`.

    The gradient that arrives at tensor `at` (by default where the pass stands), or what its step hands to input number `slot`, becomes
    `expression` in `g`; with `index` only that element does. The engine computes the rest again; `.grad` changes only by `write()`.
    ValueError for an expression that is not allowed, RuntimeError where the pass cannot be run again.
    """
    from .whatif.ask import fork

    return fork(walk, expression, at, slot, index, name)


def rerun(loss: Tensor, changes: Mapping[Tensor, str]) -> Any:
    """The program behind `loss` once more, with other values: `wb.rerun(loss, {w: "x * 2"})` shows new loss and gradients beside the old.

    Ops are called again from the recording; Python is not, so branches stay as they were. The tensors themselves are not touched.
    """
    from .whatif.ask import rerun

    return rerun(loss, changes, _names())


def local_jacobian(tensor: Tensor, row: int = 0) -> Any:
    """The derivative of the op that made `tensor` by each of its inputs: a number, a diagonal, or the whole matrix up to 4,096 entries.

    Of a larger one its structure and the row of result element number `row` (flat).
    """
    from .whatif.ask import local_jacobian

    return local_jacobian(tensor, _names(), row)


def paths(loss: Tensor, tensor: Tensor, most: int = 12) -> Any:
    """Which path from `loss` gave how much of the gradient of `tensor`; the contributions add up to it. At most about `most` entries."""
    from .whatif.ask import paths

    return paths(loss, tensor, _names(), most)


def check_rule(tensor: Tensor) -> Any:
    """The rule of the op that made `tensor`, held against central differences of its own forward in float64."""
    from .whatif.ask import check_rule

    return check_rule(tensor, _names())


def scope(name: str) -> AbstractContextManager[None]:
    """A named group in the graph: `with wb.scope("attention"): ...`."""
    from engine.base import observe

    return observe.scope(name)


def history(model: Module, optimizer: Any = None, every: int = 1, keep: int = 256) -> History:
    """Record the training of `model` from now on: weights, gradients, updates and activations of every `every`-th step, as numbers.

    A step is one `optimizer.step()`; without an optimizer one backward pass. At most `keep` steps are kept: beyond that every second
    one goes. `h["layers.0.weight"].grad.norm` is then a series, `h.log(loss=loss)` adds one; `h.close()` or a `with` block ends it.
    """
    from .training.history import History

    return History(model, optimizer, every, keep)


def say(text: str, at: Any = None, *, step: Any = "there", depth: Any = "", overlay: str = "", rule: bool | None = None) -> Any:
    """A page of a lesson: Markdown, at a tensor, a name or an op ("mul", "mul 2" for the second one).

    `step` brings the backward pass there ("there"), to the "start", the "end", a number of steps, or nowhere (None). `depth` shows the
    rule of that step in "symbols", "shapes" or "numbers" (`rule=False` does not), `overlay` chooses what boxes show. ValueError for
    words that there are not.
    """
    from .teach.lesson import Say

    return Say(text, at, step=step, depth=depth, overlay=overlay, rule=rule)


def lesson(subject: Any, steps: Any, title: str = "") -> Any:
    """A narrated lesson about a loss or a recording: `wb.lesson(loss, [wb.say("...", at="mul"), wb.quiz(...), ...])`.

    `steps` may be a Markdown file too, see docs/teaching.md. ValueError for a place that the graph does not have.
    """
    from .teach.ask import lesson

    return _shown(lesson(subject, steps, title))


def modes(f: Callable, *xs: Tensor) -> Any:
    """Forward against reverse mode for the whole Jacobian of `f` at `xs`: passes, multiplications, additions and bytes, counted.

    In a notebook a view that walks through the passes; elsewhere a table. `f` takes the tensors and gives one. TypeError or ValueError
    for what has no Jacobian, or more than 10,000 numbers.
    """
    from .teach.ask import modes

    return _shown(modes(f, xs))


def grade(file: str, *ids: str) -> Any:
    """Points for the answers that `wb.quiz.save(file)` kept, compared anew with the live tensors; for an autograder's cell.

    With ids an AssertionError where one of them is not right. Errors: see `workbench.teach.grading.grade`.
    """
    from .teach.grading import grade

    return grade(file, *ids)


def present(view: Any, file: str) -> None:
    """Let a class follow what `wb.lesson` or `wb.step` gave: page and step are written into `file`, in a folder that all can read."""
    from .teach.ask import present

    present(view, file)


def follow(view: Any, file: str) -> None:
    """Let this view of a lesson or a pass go where the teacher's goes, whose `wb.present` writes `file`; at most a second later."""
    from .teach.ask import follow

    follow(view, file)


def track(iterable: Iterable, total: int | None = None, title: str = "") -> Track:
    """A progress bar with the time left, and curves of what the loop reports: `for batch in (t := wb.track(loader)): t.report(loss=loss)`.

    In a notebook in the cell's output, elsewhere a line on stderr. `total` is the number of turns where the iterable does not know it.
    """
    from .training.progress import Track

    if not _kernel():
        return Track(iterable, total, title)
    from .jupyter.progress import Cell

    return Track(iterable, total, title, Cell())


def __getattr__(name: str) -> Any:
    if name == "plot":  # `import workbench` stays light
        return import_module(".plot", __name__)
    if name == "quiz":
        return import_module(".teach.ask", __name__).quiz
    if name == "sabotage":
        return import_module(".teach.sabotage", __name__).sabotage
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def loop(data: Iterable, *subjects: Any) -> Iterable:
    """A training loop that the view plays, pauses, takes turn by turn and puts back to its start: `for x, y in wb.loop(loader, model)`.

    `subjects` are what goes back to its start, exactly: the model, the optimizer, a scheduler, single tensors; random numbers go back
    too. Turns that are shown can be looked at, graph and backward passes. It waits before its first turn. Outside Jupyter it is `data`
    itself. TypeError for a subject that cannot be put back.
    """
    if not _kernel():
        return data
    from .jupyter.pause import controlled

    return controlled(data, subjects)


def load_ipython_extension(shell: Any) -> None:
    """`%load_ext workbench`: the magic %%watch, rich tensors, and the line to the JupyterLab panel."""
    from .jupyter import cells, comm, display, errors, holders, magics

    shell.register_magics(magics.WatchMagics)
    display.register(shell)
    cells.follow()
    holders.register()
    errors.register(shell)
    if getattr(shell, "kernel", None) is not None:
        comm.register()
    shell.user_ns.setdefault("wb", sys.modules[__name__])


def _kernel() -> bool:
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return shell is not None and getattr(shell, "kernel", None) is not None


def _page() -> bool:
    """Whether there is a page on which a view can be shown: a kernel's, or marimo's, which has none."""
    marimo = sys.modules.get("marimo")
    return _kernel() or (marimo is not None and marimo.running_in_notebook())


def _shown(session: Any) -> Any:
    if not _page():
        return session
    from .jupyter.widget import View

    return View(session)


def _displayed(session: Any) -> Callable[[], None]:
    if not _kernel():
        return lambda: None
    from .jupyter.widget import displayed

    return displayed(session)


def display_session(session: Any) -> None:
    """Show a view of a session in the cell's output; its text where there is no notebook."""
    if _kernel():
        _displayed(session)
    else:
        print(session)


def _frame() -> Any:
    frame = sys._getframe(1)
    hidden = (__file__, contextmanager.__code__.co_filename)
    while frame.f_back is not None and frame.f_code.co_filename in hidden:
        frame = frame.f_back
    return frame


def _names() -> dict[str, Any]:
    return _names_in(_frame())


def _names_in(frame: Any) -> dict[str, Any]:
    return {**frame.f_globals, **frame.f_locals}
