"""Visualize the autograd graph, inspect tensors and step through backward passes, in notebooks and in scripts.

In a notebook, `%load_ext workbench`, then `%%watch` at the top of a cell. Everywhere, `import workbench as wb`, then

record and draw      wb.watch  wb.show  wb.record  wb.scope
step through         wb.step  wb.break_at
inspect              wb.describe  wb.vocabulary  wb.whatif
memory and time      wb.memory  wb.why_alive  wb.release  wb.profile
check and compare    wb.check  wb.guard  wb.diff  wb.testing
train                wb.history  wb.progress  wb.loop
repeat a step        wb.flight  wb.flight_callback  wb.open
many processes       wb.cluster  wb.ranks  wb.across_ranks
plot, teach, data    wb.plot  wb.teach  wb.samples
write to a file      wb.export

In a notebook most functions return an interactive view; elsewhere, objects that print themselves.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from importlib import import_module
from os import PathLike
from typing import TYPE_CHECKING, Any

from . import caller

if TYPE_CHECKING:
    from engine.core.tensor import Tensor

    from . import plot, samples, teach, testing, whatif
    from .backward.breakpoints import Breakpoint
    from .backward.stepper import Stepper
    from .checks.ask import CheckReport
    from .distributed.across import Across, SpreadReport
    from .distributed.ask import Ranks
    from .exporting.ask import Written
    from .flights.file import Opened
    from .flights.recorder import Flight
    from .jupyter.cluster import Cluster, Single
    from .jupyter.widget import View
    from .memory_use.alive import Why
    from .memory_use.ask import MemoryReport
    from .session.report import Report
    from .session.surface import ShownSession
    from .subjects.watching import Watch
    from .training.history import History
    from .training.progress import Track

__all__ = [
    "across_ranks",
    "break_at",
    "check",
    "cluster",
    "describe",
    "diff",
    "export",
    "flight",
    "flight_callback",
    "guard",
    "history",
    "loop",
    "memory",
    "plot",
    "profile",
    "progress",
    "ranks",
    "record",
    "release",
    "samples",
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
    """Show the graph behind a tensor, the graph of a module's latest run, or the program that XLA runs for a compiled step.

    Args:
        tensor: a tensor or a module, of the engine or of PyTorch; a step that `engine.compile` returned, or its `explain()`. By default,
            the last recording is shown.

    Returns:
        In a notebook an interactive view; elsewhere an object that prints itself as a table.

    Raises:
        RuntimeError: no recorded op produced the tensor and it does not require grad; the module has not run under a watch; or nothing has
            been compiled yet.
        TypeError: it is none of these.

    Example::

        >>> w = engine.tensor([1.0, 2.0], requires_grad=True)
        >>> loss = (w * w).sum()
        >>> wb.show(loss)
        2 ops, 1 other leaf, 16 B saved for backward.
          #1 mul: float32 2, from #0, #0
            #0 leaf w: float32 2, no gradient yet
          #2 sum loss: float32 scalar, from #1
    """
    from .programs import ask as programs
    from .session.surface import opened
    from .subjects.recordings import is_module, ran
    from .torch_models import is_tensor

    if programs.is_compiled(tensor):
        return caller.shown(programs.opened(tensor, caller.names()))
    if is_module(tensor):
        return caller.shown(ran(tensor, caller.names()))
    if is_tensor(tensor):
        from .subjects.watching import shown

        known = shown(tensor, caller.names())
        return watch(tensor) if known is None else caller.shown(known)
    return caller.shown(opened(tensor, caller.names()))


def step(
    tensor: Tensor | None = None, gradient: Tensor | None = None, *, until: str | Breakpoint | Sequence[str | Breakpoint] | None = None
) -> View | Stepper | AbstractContextManager[Any]:
    """Step through the backward pass of a tensor, forward and back.

    Every step runs one op's derivative rule. For a tensor of the engine, `.grad` fills up as the pass proceeds, and is restored on the way
    back. For a PyTorch tensor, PyTorch's own engine runs the pass at once and its record is stepped through: `.grad` does not change, and
    the graph is kept for `.backward()`.

    Without a tensor, `with wb.step():` makes every backward pass in the block wait at each step for the view. Outside Jupyter the block
    simply runs.

    Args:
        tensor: where the pass begins, usually the loss.
        gradient: the gradient of `tensor`, of its shape; needed unless it has one element.
        until: where to stop first: a condition such as "norm > 1e3 or nan > 0", a breakpoint from `wb.break_at`, or a list of these.

    Returns:
        In a notebook a view, elsewhere a pass with `next()`, `previous()` and `to()`; without a tensor, a context manager.

    Raises:
        RuntimeError: the tensor has no graph, or an earlier `backward()` has freed it.
        ValueError: `until` cannot be parsed.

    Example::

        >>> w = engine.tensor([1.0, 2.0], requires_grad=True)
        >>> loss = (w * w).sum()
        >>> walk = wb.step(loss)
        >>> walk.to(2)
        2
        >>> walk
        Step 2 of 3, mul: gradient of w gains norm 2.236; gradient of w gains norm 2.236, now norm 4.472.
        >>> walk.finish()
        >>> w.grad
        tensor([2., 4.])
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
    """Set a breakpoint for backward passes. It lasts until the kernel exits.

    Args:
        when: stop only if this holds for a gradient: comparisons of `norm`, `nan`, `zero`, ... with a number, joined by "and" and "or".
            By default, stop every time.
        op: stop at ops of this type, such as "matmul".
        name: stop at tensors whose name matches this glob, such as "layers.*.weight".
        module: stop in modules whose path matches this glob, such as "encoder". At most one of `op`, `name` and `module` is given.

    Returns:
        The breakpoint.

    Raises:
        ValueError: the condition cannot be parsed; the message says why.

    Example::

        >>> stop = wb.break_at("norm > 2", op="mul")
        >>> stop
        Breakpoint at every mul when norm > 2
        >>> w = engine.tensor([1.0, 2.0], requires_grad=True)
        >>> walk = wb.step((w * w).sum())
        >>> walk.run([stop])
        2
        >>> walk.stopped
        'Stopped because norm > 2 at every mul: what mul hands to w has norm 2.236.'
    """
    from .backward.breakpoints import Breakpoint, kept

    return kept.add(Breakpoint.of(when, op=op, name=name, module=module))


def describe(tensor: Any, tokens: Any = None) -> View | Report:
    """Summarize a tensor: shape, counts, moments, distribution, and its gradient or why it has none; or a module: its parameters.

    Args:
        tensor: a tensor or a module, of the engine or of PyTorch.
        tokens: a vocabulary as for `wb.vocabulary`: integers are shown as the tokens that they stand for.

    Returns:
        In a notebook a view, elsewhere a report.

    Example::

        >>> x = engine.arange(6.0).reshape(2, 3)
        >>> wb.describe(x)
        x: float32 2×3, values 0, 1, 2, 3, 4, 5
          shape: (2, 3)
          dtype: float32
          device: cpu
          size: 6 elements, 24 B
          strides: (3, 1)
          view of: a tensor of shape (6,)
          requires_grad: False
          leaf: True
          signs: 0 negative, 1 zero, 5 positive; 0 NaN, 0 Inf
          grad: It does not require grad. Set requires_grad=True before it is used to get a gradient.
    """
    from .subjects.recordings import is_module
    from .tensors.ask import inspected
    from .training.ask import model

    session: Any = model(tensor, caller.names()) if is_module(tensor) else inspected(tensor, caller.names(), tokens)
    return caller.shown(session) if caller.has_page() else session.report()


def vocabulary(tokens: Any) -> None:
    """Show token ids as text in every view from now on. A view that exists keeps the vocabulary that it was made with.

    Args:
        tokens: a list of tokens, a dict from ids to tokens or from tokens to ids, a tokenizer with `get_vocab()`, or None to show ids as
            numbers again.

    Raises:
        TypeError: it is none of these.

    Example::

        >>> wb.vocabulary(["the", "cat", "sat"])
        >>> wb.describe(engine.tensor([0, 1, 2])).tokens
        'the cat sat'
        >>> wb.vocabulary(None)
    """
    from .inspector import vocabulary as known

    known.use(tokens)


def memory(of: Any = None) -> View | MemoryReport:
    """Report the current and peak memory of the last recorded code, and what uses it.

    Args:
        of: which recording: a tensor, a module, a view, or the `r` of `with wb.record() as r`. By default, the last one.

    Returns:
        In a notebook a view, elsewhere a report.

    Raises:
        RuntimeError: nothing was recorded.
        TypeError: `of` is something else.

    Example::

        >>> with wb.record():
        ...     w = engine.ones(1000, 1000, requires_grad=True)
        ...     loss = (w * w).sum()
        >>> wb.memory()
        4 MB needed now, 8 MB at the peak (sum made loss)
                       now  at the peak
          parameter   4 MB         4 MB
          activation   4 B         4 MB
        ...
    """
    from .memory_use.ask import remembered

    session = remembered(of, caller.names())
    return caller.shown(session) if caller.has_page() else session.report()


def why_alive(tensor: Tensor) -> Why:
    """Find what keeps a tensor's memory alive: chains of references from variables, outputs, graphs, optimizers, ... to the tensor.

    Searches at most 200,000 of the program's objects (about 0.3 s), and keeps none of them.

    Args:
        tensor: a tensor of the engine, or an array.

    Returns:
        The chains, each with the line of code that cuts it.

    Raises:
        TypeError: it is neither a Tensor nor an array.

    Example::

        >>> x = engine.ones(3)
        >>> losses = [x.sum() for _ in range(2)]
        >>> wb.why_alive(losses[0])
        The scalar float32 tensor (4 B) is kept alive by 1 chain:
          the variable losses[0]
              del losses[0]   # takes it out of the container
          Searched ... objects in ... ms.
    """
    from .memory_use import alive

    frame = caller.frame()
    return alive.why(tensor, caller.names_in(frame), hide=(frame, frame.f_globals, frame.f_locals))


def release(*what: str) -> None:
    """Free memory that the workbench or the notebook holds. Graphs and statistics remain.

    Args:
        *what: some of "recordings" (arrays kept for viewing), "error" (the local variables of the last error), "outputs" (results of cells)
            and "view" (what the panel shows). By default, all four.

    Raises:
        ValueError: another word.

    Example::

        >>> wb.release("recordings")
    """
    from .memory_use.releasing import release

    release(*what)


def profile(of: Any = None) -> View | Report:
    """Report where the time of the last recorded code went: when each op ran, and totals by line, op and module.

    Args:
        of: which recording: a tensor, a module, a view, or the `r` of `with wb.record() as r`. By default, the last one.

    Returns:
        In a notebook a view, elsewhere a report.

    Raises:
        RuntimeError: nothing was recorded.
        TypeError: `of` is something else.

    Example::

        >>> with wb.record():
        ...     y = engine.ones(100, 100).exp().sum()
        >>> print("Total:", wb.profile())
        Total: ... in 2 ops, ... between them, recording included
        ...
        op                                             calls   forward  backward  share
        ...
    """
    from .profiling.ask import timed

    session = timed(of, caller.names())
    return caller.shown(session) if caller.has_page() else session.report()


def check(of: Any = None, thorough: bool = True) -> View | CheckReport:
    """Report problems in the last recorded code: where they are, why they matter, and the line that fixes them.

    Args:
        of: which recording: a tensor, a module, a view, or the `r` of `with wb.record() as r`. By default, the last one.
        thorough: if False, run only the checks that every `%%watch` cell gets.

    Returns:
        In a notebook a view that opens on the findings, elsewhere a report. Both have `findings`.

    Raises:
        RuntimeError: nothing was recorded.
        TypeError: `of` is something else.

    Example::

        >>> with wb.record():
        ...     x = engine.tensor([-1.0, 1.0], requires_grad=True)
        ...     loss = x.log().sum()
        >>> [finding.code for finding in wb.check().findings]
        ['nan-forward']
    """
    from .checks.ask import checked

    session = checked(of, caller.names(), thorough)
    return caller.shown(session) if caller.has_page() else session.report()


def guard(nan: bool = True, inf: bool = True) -> AbstractContextManager[None]:
    """Stop at the op, forward or backward, that produces a NaN or an infinity: `with wb.guard(): ...`.

    The error's message shows the operands and their values. There is no cost outside the block.

    Args:
        nan: stop at a NaN.
        inf: stop at an infinity that was made from finite values.

    Returns:
        A context manager.

    Raises:
        FloatingPointError: in the block, at the first such op.

    Example::

        >>> with wb.guard():
        ...     engine.tensor([-1.0, 1.0]).log()
        Traceback (most recent call last):
            ...
        workbench.checks.guard.NotFiniteError: log made NaN ...: result[0]; input is (2,) float32, values −1, 1, input[0] = −1. ...
    """
    from .checks.ask import guard

    return guard(nan, inf)


def diff(before: Any = None, after: Any = None) -> View | ShownSession:
    """Compare two recordings in one graph: what was added, removed and changed, and how much the values differ.

    Args:
        before: a tensor (everything it was computed from), a module, a view, or the `r` of `with wb.record() as r`.
        after: the same. By default, the last two recordings are compared.

    Returns:
        In a notebook a view, elsewhere an object that prints itself as a table.

    Raises:
        RuntimeError: there are not two recordings.
        TypeError: `before` or `after` is something else.

    Example::

        >>> x = engine.tensor([1.0, -2.0], requires_grad=True)
        >>> wb.diff(x.relu().sum(), x.tanh().sum())
        before → after: 1 same, 2 changed, 0 added, 0 removed
          ≠ tanh 2: relu became tanh; values differ by 0.8083 of their size
          ≠ sum: values differ by 1.202 of their size
    """
    from .compare.ask import compared

    return caller.shown(compared(before, after, caller.names()))


def watch(subject: Any = None, keep: int | None = None) -> Watch | View | ShownSession:
    """Watch a model or a tensor, of the engine or of PyTorch: graph, values and gradients.

    `with wb.watch(model): ...` records what runs inside the block, and every backward pass, to be stepped through. Without a block, a
    module is watched at each of its calls, and a tensor shows the graph behind it.

    Args:
        subject: a module or a tensor. By default, whatever runs in the block.
        keep: bytes of results to keep for viewing (default 256 MB).

    Returns:
        A watch, which displays itself as a view in a notebook and prints itself as a table elsewhere; for a tensor of the engine, the same
        as `wb.show`.

    Raises:
        TypeError: the subject is neither a module nor a tensor.

    Example::

        >>> model = engine.nn.Linear(2, 1)
        >>> with wb.watch(model) as watch:
        ...     model(engine.ones(4, 2)).sum().backward()
        >>> watch
        Linear: 2 ops, 2 parameters, 32 B saved for backward.
          #0 input: float32 4×2
          #3 linear in model: Linear: float32 4×1, from #0, #1, #2
            #1 parameter weight: float32 1×2, gradient norm 5.657
            #2 parameter bias: float32 1, gradient 4
          #4 sum: float32 scalar, from #3
    """
    from .subjects.watching import watched

    return watched(subject, keep, caller.frame(), caller.shown, caller.displayed)


def export(
    file: str | PathLike[str],
    target: Any = None,
    *,
    paths: bool = False,
    stats: bool = False,
    budget: int | str | None = None,
    boxes: int | None = None,
) -> Written:
    """Write what is shown to a file. Its extension gives the format.

    | extension | content |
    |---|---|
    | `.html` | the view with all its answers: a page that needs neither kernel nor network |
    | `.replay` | the data of that page |
    | `.svg` `.png` `.pdf` | a drawing |
    | `.json` `.dot` `.mmd` | the graph for other tools: JSON, Graphviz, Mermaid |
    | `trace.json` | times for Chrome's tracing and Perfetto |

    Args:
        file: the path.
        target: a view, the result of `wb.record` or `wb.step`, or a tensor. By default, what was shown last.
        paths: keep absolute paths; by default they are shortened.
        stats: add the statistics of each value to a `.json`.
        budget: limit of the data of a page, in bytes or such as "8 MB". What does not fit is reported.
        boxes: limit of the boxes of a drawing, 60 by default: more groups stay closed.

    Returns:
        The file that was written: its path, its size, and what was left out.

    Raises:
        ValueError: another extension, or a budget that is not a size.
        RuntimeError: there is nothing to export.
        TypeError: `target` is something else.

    Example::

        >>> w = engine.tensor([1.0, 2.0], requires_grad=True)
        >>> written = wb.export("loss.svg", (w * w).sum())
        >>> written.path.name, written.left
        ('loss.svg', '')
    """
    from .exporting.ask import export

    return export(file, target, caller.names(), paths, stats, budget, boxes)


@contextmanager
def record(title: str = "", keep: int | None = None) -> Iterator[ShownSession]:
    """Record the ops inside the block: `with wb.record() as r: ...`. For scripts; cells have `%%watch`.

    The newest recording is kept until the next one is made, even if it has no name.

    Args:
        title: a title for the recording.
        keep: bytes of results to keep for viewing (default 256 MB).

    Returns:
        The recording; `print(r)` prints its graph, and `wb.show`, `wb.memory`, `wb.profile`, `wb.check` and `wb.diff` take it.

    Example::

        >>> with wb.record("two ops") as r:
        ...     x = engine.tensor([1.0, 2.0])
        ...     y = (x * x).sum()
        >>> print(r)
        two ops: 2 ops, 0 B saved for backward.
          #0 input x: float32 2
          #1 mul: float32 2, from #0, #0
          #2 sum y: float32 scalar, from #1
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
    """Group the ops inside the block under a name in the graph: `with wb.scope("attention"): ...`.

    Args:
        name: the name of the group.

    Returns:
        A context manager.

    Example::

        >>> with wb.record() as r, wb.scope("square"):
        ...     y = engine.ones(2) ** 2
        >>> print(r)
        1 op, 0 B saved for backward.
          #0 input: float32 2
          #2 pow y in square: float32 2, from #0, #1
            #1 constant 2: int scalar
    """
    from engine.base import observe

    return observe.scope(name)


def flight(
    *subjects: Any,
    keep: int = 3,
    path: str | PathLike[str] = "run.flight",
    when: str | Sequence[str] = (),
    spike: float | None = 10.0,
    signal: int | None = None,
    button: bool = False,
) -> Flight:
    """Record the last steps of a training, so that one that went wrong can be repeated bit for bit, looked into, and gone on from.

    `with wb.flight(model, optimizer) as flight:` around the loop. Each batch of a DataLoader is a step; write `for ... in flight(...)` for
    any other loop. Schedulers, scalers and random generators among the variables are kept as well.

    A file is written when the loss or a gradient is NaN or infinite, when the loss is far above the usual, when a condition holds, when an
    exception leaves the block, and on request. `wb.open` reads it.

    Args:
        *subjects: modules, optimizers, and whatever else the steps change: what has `state_dict()`, tensors, arrays, lists, dicts, objects.
        keep: the number of steps that can be repeated at least.
        path: the file.
        when: conditions for a gradient, as for `wb.break_at`: "norm > 1e3".
        spike: how many robust standard deviations a loss must be above the median of the last 100; None for no limit.
        signal: a signal, such as `signal.SIGUSR1`, that asks for the file; only in the main thread.
        button: whether a notebook shows a button "Keep this", which asks for the file, while the block runs.

    Returns:
        A context manager, with `steps`, `repeat()`, `resume()` and `bisect()`.

    Raises:
        TypeError: there is neither a model nor an optimizer among the subjects, or one has no state.
        ValueError: `keep` is less than 1, or a condition cannot be parsed.

    Example::

        >>> model = engine.nn.Linear(2, 1)
        >>> optimizer = engine.optim.SGD(model.parameters(), lr=0.1)
        >>> with wb.flight(model, optimizer) as flight:
        ...     for x in flight([engine.ones(4, 2), engine.zeros(4, 2)]):
        ...         loss = model(x).square().mean()
        ...         optimizer.zero_grad()
        ...         loss.backward()
        ...         optimizer.step()
        >>> flight
        Flight recorder: 2 steps, steps 0 to 1 can be repeated.
        >>> flight.repeat(0).same
        True
    """
    from .checks.ask import inspected
    from .flights.recorder import Flight

    return Flight(
        subjects, caller.frame(), path, keep, [when] if isinstance(when, str) else when, spike, signal, inspect=inspected, button=button
    )


def flight_callback(
    framework: str,
    keep: int = 3,
    path: str | PathLike[str] = "run.flight",
    when: str | Sequence[str] = (),
    spike: float | None = 10.0,
    signal: int | None = None,
    button: bool = False,
) -> Any:
    """A flight recorder for Lightning's or transformers' Trainer: `Trainer(..., callbacks=[wb.flight_callback("lightning")])`.

    It records as `wb.flight` does. The model, the optimizers, schedulers and the Trainer's counters are found by itself.

    Args:
        framework: "lightning" or "transformers".
        keep: as for `wb.flight`, like the others.
        path: the file.
        when: conditions for a gradient.
        spike: how far a loss may be above the median.
        signal: a signal that asks for the file.
        button: whether there is a button that asks for it.

    Returns:
        The callback. Its `flight` is what the block of `wb.flight` gives.

    Raises:
        ValueError: there is no callback for that framework.
        ModuleNotFoundError: it is not installed.

    Example::

        >>> recorder = wb.flight_callback("lightning")  # doctest: +SKIP
        >>> Trainer(max_epochs=10, callbacks=[recorder]).fit(model, loader)  # doctest: +SKIP
        >>> recorder.flight.repeat()  # doctest: +SKIP
    """
    from .checks.ask import inspected
    from .flights.callbacks import callback

    conditions = [when] if isinstance(when, str) else when
    given = {"keep": keep, "path": path, "when": conditions, "spike": spike, "signal": signal, "button": button}
    return callback(framework, {**given, "inspect": inspected})


def open(path: str | PathLike[str]) -> Opened:
    """Open a flight file: the steps before something went wrong, to repeat and to step through.

    Args:
        path: a file that `wb.flight` wrote.

    Returns:
        The recorded steps, which print as a summary, with `repeat(program=...)`.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: it is no flight file, damaged, or of another version.

    Example::

        >>> def train():
        ...     model = engine.nn.Linear(2, 1)
        ...     optimizer = engine.optim.SGD(model.parameters(), lr=0.1)
        ...     with wb.flight(model, optimizer, path="run.flight") as flight:
        ...         for x in flight(engine.ones(3, 4, 2)):
        ...             loss = (model(x) - 1).log().mean()
        ...             optimizer.zero_grad()
        ...             loss.backward()
        ...             optimizer.step()
        >>> train()
        >>> wb.open("run.flight").why
        'The loss is nan'
        >>> wb.check(wb.open("run.flight").repeat(program=train)).findings[0].code
        'nan-forward'
    """
    from .checks.ask import inspected
    from .flights.automatic import started
    from .flights.file import Opened

    return Opened(path, inspected, started)


def history(model: Any, optimizer: Any = None, every: int = 1, keep: int = 256) -> History:
    """Record the training of a model: statistics of weights, gradients, updates and activations over the steps.

    A step is one `optimizer.step()`, or one backward pass without an optimizer. Recording ends with `h.close()` or the end of a `with`
    block.

    Args:
        model: an `nn.Module` of the engine or of PyTorch.
        optimizer: the optimizer that trains it.
        every: measure every `every`-th step.
        keep: the number of steps to keep at most: beyond that, every second one is dropped.

    Returns:
        The history: `h["layers.0.weight"].grad.norm` is a series over the steps.

    Raises:
        TypeError: the model is not an `nn.Module`.
        ValueError: `every` is less than 1 or `keep` less than 2.

    Example::

        >>> model = engine.nn.Linear(2, 1)
        >>> optimizer = engine.optim.SGD(model.parameters(), lr=0.1)
        >>> with wb.history(model, optimizer) as h:
        ...     for _ in range(3):
        ...         loss = model(engine.ones(4, 2)).square().mean()
        ...         optimizer.zero_grad()
        ...         loss.backward()
        ...         optimizer.step()
        ...         h.log(loss=loss)
        >>> h["weight"].grad.norm.shape
        (3,)
        >>> h.steps
        array([0, 1, 2])
    """
    from .training.history import History

    return History(model, optimizer, every, keep)


def progress(iterable: Iterable, total: int | None = None, title: str = "") -> Track:
    """Show a progress bar with the time left, and curves of reported values.

    In a notebook it is in the cell's output, elsewhere a line on stderr.

    Args:
        iterable: what to loop over.
        total: the number of iterations, if the iterable has no length.
        title: a title for the bar.

    Returns:
        An iterable over the same items, with `report()`.

    Raises:
        TypeError: `iterable` cannot be looped over.
        ValueError: `total` is not an integer of at least 0.

    Example::

        >>> for i in (track := wb.progress(range(3))):
        ...     track.report(loss=1 / (i + 1))
        >>> track.scalars["loss"].last
        0.3333333333333333
    """
    from .training.progress import Track

    if not caller.in_kernel():
        return Track(iterable, total, title)
    from .jupyter.progress import Cell

    return Track(iterable, total, title, Cell())


def ranks(model: Any = None, every: int = 10) -> Ranks:
    """Show what every process of a distributed job is doing, who waits for whom, and since when parameters differ.

    No rank has to wait for it: each answers at any time, also while it computes. In a notebook the board of rank 0 is drawn twice a second
    until the process group ends; elsewhere, print the returned object. To compare parameters, every rank must call this with its model.

    Args:
        model: an `nn.Module` whose parameters are compared.
        every: compare them after each `every`-th step of the optimizer.

    Returns:
        The ranks. `print(r)` prints the board as it is now; `r.pause()` has all ranks pause after the same step, `r.resume()` has them go
        on, and in `with r.alone():` only this rank goes on, without time-outs in the others.

    Raises:
        ValueError: the default process group is not initialized, or `every` is less than 1.
        TypeError: `model` is not an `nn.Module`.

    Example::

        >>> import engine.distributed as dist
        >>> dist.init_process_group(store=dist.HashStore(), rank=0, world_size=1)
        >>> wb.ranks()
        rank  step  collective  waited  memory  state
           0     0           0       –  ...  computes...
        >>> dist.destroy_process_group()
    """
    from .distributed.ask import Ranks

    if not caller.in_kernel():
        return Ranks(model, every)
    from .jupyter.progress import Place

    return Ranks(model, every, Place())


def across_ranks(of: Any = None) -> View | Across | SpreadReport:
    """Compare values over all processes of a distributed job. Every process must call it.

    Args:
        of: a module, to compare its parameters and gradients; or the `r` of `with wb.record() as r`, to find the first op whose result
            differs between ranks. By default, the last recording.

    Returns:
        For a module a report of minimum, maximum and norm, and of the largest difference between two ranks. For a recording, in a notebook
        a view with flags where differences begin, elsewhere an object that prints them.

    Raises:
        ValueError: the default process group is not initialized.
        RuntimeError: nothing was recorded.
        TypeError: `of` is something else.

    Example::

        >>> import engine.distributed as dist
        >>> dist.init_process_group(store=dist.HashStore(), rank=0, world_size=1)
        >>> wb.across_ranks(engine.nn.Linear(2, 1)).rows[0].equal
        True
        >>> dist.destroy_process_group()
    """
    from engine.nn import Module

    from .distributed.across import recorded, spread

    return spread(of) if isinstance(of, Module) else caller.shown(recorded(of, caller.names()))


def __dir__() -> list[str]:
    return __all__


def __getattr__(name: str) -> Any:
    if name in ("plot", "samples", "teach", "testing", "whatif"):  # `import workbench` stays light
        return import_module(f".{name}", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def loop(data: Iterable, *subjects: Any) -> Iterable:
    """Control a training loop from the view: play, pause, step and rewind it.

    The graph and backward passes of iterations that are shown can be inspected. The loop waits before its first iteration. Outside Jupyter,
    returns `data` itself.

    Args:
        data: what to loop over, such as a DataLoader.
        *subjects: what a rewind restores exactly: the model, the optimizer, a scheduler, single tensors. So is the random state.

    Returns:
        An iterable over the items of `data`.

    Raises:
        TypeError: a subject cannot be restored.

    Example::

        >>> model = engine.nn.Linear(2, 1)
        >>> for x in wb.loop([engine.ones(4, 2)] * 3, model):
        ...     y = model(x)
    """
    if not caller.in_kernel():
        return data
    from .jupyter.pause import controlled

    return controlled(data, subjects)


def cluster(n: int | None = None, *, hosts: str = "", profile: str = "", torch: bool = False, timeout: float = 120) -> Cluster | Single:
    """Start the ranks of a distributed training: `%%px` cells run on all of them, with `engine.distributed` initialized.

    The ranks are processes of one MPI job. Ctrl-C interrupts all of them. If a cell fails on one, those that wait for it raise an error
    that says so, and the default process group is made anew for the next cell. With one rank, cells run in this process. A cluster that
    runs already is stopped first. Needs the extra `cluster`, except for one rank.

    Args:
        n: the number of ranks.
        hosts: the machines and their ranks, as in "a:4,b:4", or the path of a hostfile, instead of `n`. They need SSH and the same files.
        profile: a profile of ipyparallel, whose `ipcluster_config.py` starts the ranks: for Slurm, PBS or SSH.
        torch: `import torch` gives the engine in the ranks.
        timeout: the seconds within which all ranks must have started.

    Returns:
        The cluster. `show("loss")` shows the graphs of all ranks; `stop()`, `restart()`, `interrupt()`, `reset()`, `pause()` and `resume()`
        control them; `client` and `view` are ipyparallel's.

    Raises:
        RuntimeError: ipyparallel or MPI is not installed, or the ranks have not started.
        TypeError: `n` is not an integer.
        ValueError: `n` is less than 1, or machines or profile make no sense.

    Example::

        >>> cluster = wb.cluster(1)
        >>> cluster
        1 rank: this process. %%px runs a cell here
        >>> engine.distributed.get_world_size()
        1
        >>> cluster.stop()
    """
    from .jupyter.cluster import started

    return started(n, hosts, profile, torch, timeout)


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
