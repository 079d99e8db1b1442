"""`wb.flight`: the block around a training that records its last steps."""

from __future__ import annotations

import contextlib
import functools
import os
import signal as signals
import sys
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from time import perf_counter
from types import FrameType
from typing import Any

import engine
from engine.data import DataLoader
from engine.optim import optimizer as own_optimizers

from .. import caller
from ..inspector import bytes_text
from ..recording.sites import positions
from ..torch_models.loaded import torch
from . import replay, state, values, variables
from .file import write, written
from .flown import Flown, Inspect, unseen
from .log import END, FEW, Fetched, Log, Step
from .prints import Prints, possible, taken
from .replay import Code
from .state import Subjects
from .triggers import Triggers

SHARE = 0.02  # of the time, at most, is spent on snapshots,
FULL = 0.024  # and this share if there are many batches since the last one
ROOM = 0.2  # of the bytes of a snapshot: as many bytes of batches, and it is time for another one, since a file has them all
EVERY = 1 << 18  # bytes of all tensors up to which each step gets its checksums
CHOSEN, PART = "chosen", "part of the batch"
_END = object()


class Flight(Flown):
    """What `with wb.flight(model, optimizer) as flight:` gives; `flight(iterable)` is a loop each of whose turns is a step.

    Attributes:
        count: how many steps have been recorded.
        over: whether recording has ended, as a loss or a gradient was not finite: the steps up to there are kept.
        path: the file that it writes.
        written: why it was written, "" if it has not been.
        left_out: values that cannot be kept, and their types.
    """

    entered = 0  # how many blocks the process is in

    def __init__(
        self, given: Sequence[Any], frame: FrameType, path: str | os.PathLike[str], keep: int = 3, when: Sequence[str] = (),
        spike: float | None = 10.0, signal: int | None = None, started: str = "", inspect: Inspect = unseen,
        chooses: Callable[[Any], str] | None = None, call: str = "flight", button: bool = False,
    ) -> None:  # fmt: skip
        """`chooses(loader)`: "step" if its batches are the steps, "part" if parts of them, else "". By default, the recorder finds out.

        `call`: what the frame is calling, by which its block is found again.
        """
        if isinstance(keep, bool) or not isinstance(keep, int) or keep < 1:
            raise ValueError(f"wb.flight: keep is a number of steps of at least 1, got {keep!r}.")
        self.path, self.written = os.fspath(path), ""
        self._signal, self._inspect, self._chooses, self._button = signal, inspect, chooses, button
        self._subjects = Subjects(given, caller.names_in(frame))
        self._triggers = Triggers(when, spike)
        self._log = Log(keep)
        self._program: Code = Code(frame, call)
        self.fingerprint, self.threads = {**self._program.fingerprint(), "started": started}, engine.get_num_threads()
        if replay.active is None:
            replay.know(self._program)
        self._sites: dict[tuple, int] = {}
        self._idle: set[int] = set()  # those that have trained nothing so far
        self._step: Step | None = None  # that runs now
        self._replay: replay.Replay | None = None
        self._open = False  # while the block runs
        self._trained = False  # whether the step has run a backward pass or the optimizer
        self._fetching = False  # while a loop waits for its batch
        self._outside = False  # whether a backward pass has run outside of steps since the last one
        self._noting = False  # while a backward pass runs
        self._asked = ""
        self.count, self.over = 0, False
        self._early = False  # whether the gradients that the step begins with are still to be kept
        self._raw: list[Any] = []  # the losses of the step
        self._scale = 1.0  # of the gradient scaler, as the step began
        self._compared = False  # whether there are checksums of each step
        self._ends = False  # whether the step is what comes after the end of its loop
        self._loop: Any = None  # the iterator of the loop that runs
        self._left: Step | None = None  # a step whose loop was left by `break`, or by an exception
        self._frames: list[tuple[FrameType, frozenset[str]]] = []  # of the step, with the names of their counters
        self._copies = variables.Copies()
        self._versions: tuple = ()  # of the tensors when the step began
        self._thread = 0
        self._taken, self._cost, self._batches = 0.0, 0.0, 0  # when the last snapshot was taken, its cost, bytes of batches since
        self._room = 0.0  # bytes of batches until the next one
        self._after: str | None = None  # the mark of the state when the last loop ended
        self._stack, self._sampling = contextlib.ExitStack(), contextlib.ExitStack()
        self._prints: Prints | None = None  # of a step with a snapshot

    # -- what users read ---------------------------------------------------------------------------------------------------------

    @property
    def left_out(self) -> Mapping[str, str]:
        return self._subjects.left_out

    def __repr__(self) -> str:
        kept = f", steps {self.steps[0].number} to {self.steps[-1].number} can be repeated" if self.steps else ""
        why = f" {self.why}." if self.why else ""
        return f"Flight recorder: {self.count} steps{kept}.{why}"

    def _code(self) -> str:
        if not self.steps:
            return ""
        kept = self.at is None or self.steps[0].number <= self.at
        step = "" if self.at in (None, self.steps[-1].number) else self.at
        return f"flight.repeat({step})" if kept else f"wb.open({self.path!r}).repeat(program=...)"

    def keep_this(self, why: str = "It was asked for") -> None:
        """Write the file when the step that runs has ended, or now if none runs. Other threads may ask for it, too.

        Args:
            why: what the file gives as its cause.
        """
        self._asked = why
        if self._step is None and self.steps and (not self._open or threading.get_ident() == self._thread):
            self._keep(why)

    def save(self, path: str | None = None) -> str:
        """Write the recorded steps to a file now.

        Args:
            path: the file, by default that of the block.

        Returns:
            Its path.

        Raises:
            LookupError: no step has been recorded.
        """
        path = path or self.path
        if self._replay is not None:  # by the program that is run again
            return path
        if not self.steps:
            raise LookupError("No step has been recorded.")
        write(path, self._content())
        return path

    @property
    def is_open(self) -> bool:
        """Whether the block runs."""
        return self._open

    @property
    def runs(self) -> bool:
        """Whether a step runs, or its batch is being fetched."""
        return self._open and (self._fetching or self._step is not None and not self._ends)

    def lacks(self, subjects: Sequence[Any]) -> bool:
        """Whether there is an optimizer among these that it does not record, or, without one, a tensor."""
        known = [*self._subjects.optimizers.values(), *self._subjects.loose.values()]
        return any(all(x is not one for one in known) for x in subjects if hasattr(x, "param_groups") or hasattr(x, "requires_grad"))

    @property
    def repeats(self) -> bool:
        """Whether steps are being repeated, and in this block."""
        return self._replay is not None and self._replay.subjects is self._subjects

    def first_state(self, table: str, subject: Any) -> Any:
        """If steps are being repeated, the state of a subject at the snapshot that they begin with; else None."""
        if self._replay is None or not self.repeats:
            return None
        key = next(key for key, one in getattr(self._subjects, table).items() if one is subject)
        return values.made((self._replay.steps[0].whole or {})[table][key])

    def _content(self) -> dict[str, Any]:
        return written(self._log, self.fingerprint, self.why or "It was asked for", self._subjects)

    def _here(self) -> Subjects | None:
        return self._subjects

    # -- the block ---------------------------------------------------------------------------------------------------------------

    def __enter__(self) -> Flight:
        self._thread, self._open = threading.get_ident(), True
        Flight.entered += 1
        self._replay = replay.active
        if self._replay is not None and self._replay.subjects is None and self._program.block == self._replay.block:
            self._replay.subjects, self._replay.program = self._subjects, self._program
            self._replay.at_end(self._close)
        with contextlib.ExitStack() as stack:
            lib = torch()
            for tensor in (engine.Tensor, *([lib.Tensor] if lib is not None else [])):
                stack.enter_context(replaced(tensor, "backward", self._noted))
            for loader in (DataLoader, *([lib.utils.data.DataLoader] if lib is not None else [])):
                stack.enter_context(replaced(loader, "__iter__", self._iterated))
            for module in (own_optimizers, *([sys.modules["torch.optim.optimizer"]] if lib is not None else [])):
                register = module.register_optimizer_step_pre_hook
                stack.callback(register(lambda optimizer, args, kwargs: self._stepping(optimizer)).remove)
            if self._button and self._replay is None:
                stack.callback(caller.button("Keep this", f"Write the last steps to {self.path}", self.keep_this))
            if self._signal is not None:
                stack.callback(signals.signal, self._signal, signals.signal(self._signal, lambda *_: self.keep_this("A signal came")))
            self._stack = stack.pop_all()
        return self

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        self._close()
        if self._replay is not None:
            if error is None and self._replay.subjects is self._subjects:
                self._replay.leave(self._ended_again)
            return
        step, self._left = self._step or self._left, None
        if step is None:
            return
        self._step = step
        if error is not None and not isinstance(error, GeneratorExit) and not (isinstance(error, SystemExit) and not error.code):
            step.error = replay.said(error)
        self._guarded(self._end)

    def _close(self) -> None:
        if self._open:
            Flight.entered -= 1
            self._open = False
            self._sampling.close()
            self._stack.close()

    def at_end(self, close: Callable[[], Any]) -> None:
        """Call `close()` when recording ends, or the repetition of a step."""
        self._stack.callback(close)

    def __call__(self, iterable: Iterable) -> Loop:
        """Loop over anything; each turn is one step of the training. A DataLoader in the block does not need it."""
        if not self._open:
            raise RuntimeError("wb.flight: the loop is within the block: with wb.flight(model, optimizer) as flight.")
        return Loop(self, iterable)

    def _iterated(self, original: Callable, loader: Any) -> Any:
        if self._chooses is not None and not self._fetching:
            role = self._chooses(loader)
            if role == "part":
                return self._within(lambda: original(loader), PART)
            return self.turns(lambda: original(loader), CHOSEN) if role else original(loader)
        within = self._step is not None and not self._ends
        return original(loader) if within or self._fetching else self.turns(lambda: original(loader))

    def turns(self, iterate: Callable[[], Iterator], known: str = "") -> Iterator[Any]:
        """Yield the items of an iterator, each as a step; as they are within another step, or as a part of its batch.

        `known`: which loop it is, "" for one that is known by its place in the code.
        """
        if self._fetching:
            yield from iterate()
            return
        frame = variables.users(sys._getframe(1))
        assert frame is not None
        code, line = frame.f_code, frame.f_lineno
        place = positions(code)[frame.f_lasti // 2]  # with columns: a comprehension may be in the same line
        del frame  # it would live as long as the loop
        site = self._sites.setdefault(known or (code, place), len(self._sites))
        if self._step is not None and not known and not self._ends:
            yield from self._within(iterate, f"{code.co_qualname}:{line - code.co_firstlineno}")
            return
        if self._replay is not None:
            yield from self._replay.items(self._subjects, site, iterate, self._program.code, self._again, self._ended_again)
            return
        if self._step is not None:  # of the epoch before
            self._guarded(self._end)
            self._after = None
        self._idle.add(site)
        iterator, step, fetched = self._fetched(iterate), None, Fetched()
        self._loop = iterator
        try:
            while (item := self._fetched(lambda: next(iterator, _END))) is not _END or (fetched.unfinished and site not in self._idle):
                if self.over or not self._open:  # `next()` after the block
                    if item is _END:
                        return
                    yield item
                    continue
                self._guarded(self._begin, site, item, variables.chain(sys._getframe(1), self._program.code), fetched)
                self._ends = item is _END
                if self._ends:  # what was fetched ahead is still to be trained on
                    return
                step, batch, item = self._step, [item], None
                yield batch.pop()  # nothing else refers to it
                self._guarded(self._end)
                if step is not None:
                    fetched.add(step.item, max(1, len(step.losses)) if self._trained else 0)
        except GeneratorExit:  # by `break` or by an exception
            if self._step is step:
                self._guarded(self._finish)
                self._left, self._step = self._step, None
            raise
        finally:
            if self._loop is iterator and not self._ends:
                self._guarded(self._mark)

    def _within(self, iterate: Callable[[], Iterator], place: str) -> Iterator[Any]:
        """A loop within a step. If it goes on in the next one, as that of `b` in `zip(a, b)`, its items are parts of the batch."""
        if self._replay is not None:
            yield from self._replay.parts(place, iterate)
            return
        began, first = self._step, []
        for item in iterate():
            if (step := self._step) is began and len(first) <= FEW:
                first.append([values.copied(item, self._subjects.lost, "batch"), state.random_state()])
            elif step is not began and step is not None:
                if began is not None and len(first) <= FEW:
                    began.parts.setdefault(place, []).extend(first)
                began = None
                step.parts.setdefault(place, []).append([values.copied(item, self._subjects.lost, "batch"), state.random_state()])
            yield item

    def _fetched(self, fetch: Callable[[], Any]) -> Any:
        self._fetching = True
        try:
            return fetch()
        finally:
            self._fetching = False

    def _guarded(self, record: Callable, *arguments: Any) -> None:
        """Call a part of the recorder. If it fails, such as on a full disk, recording ends with a warning, and the training goes on."""
        try:
            record(*arguments)
        except Exception as error:
            self.over, self._step, self._frames = True, None, []
            warnings.warn(f"wb.flight: recording has ended, as it failed: {replay.said(error)}", stacklevel=2)

    # -- a step ------------------------------------------------------------------------------------------------------------------

    def _begin(self, site: int, item: Any, frames: list[FrameType], fetched: Fetched) -> None:
        if self._left is not None:  # its loop was left by `break`
            self._step, self._left = self._left, None
            self._end()
        s = self._subjects
        began = perf_counter()
        skipped = {id(x) for table in (s.modules, s.optimizers, s.others, s.values, s.objects) for x in table.values()}
        tensors = s.tensors().values()
        kept = variables.kept(frames, skipped | {id(x) for x in tensors}, self._copies)
        self._compared = sum(x.nbytes for x in tensors) <= EVERY
        batch = END if item is _END else values.copied(item, s.lost, "batch")
        step = Step(self.count, site, batch, {}, s.small(), kept, *fetched.before())
        self._batches += values.bytes_in(step.item)
        changed = self._after is not None and self._after != s.mark()
        self._after = None
        if changed or not self._log.steps:
            self._log.make_room()
        share = FULL if self._batches > self._room else SHARE
        due = began - self._taken >= self._cost / share
        if changed or not self._log.steps or (due and self._log.room):
            whole = s.whole()
            self._room = max(1 << 20, ROOM * values.bytes_in(whole))
            self._log.take(step, whole)
            self._taken = perf_counter()
            self._cost, self._batches = self._taken - began, 0
        self._log.add(step)
        self._frames, self._versions = [(frame, variables.counters(frame)) for frame in frames], tuple(x._version for x in tensors)
        self._triggers.begin()
        self._trained, self._outside, self._early, self._raw, self._step = False, False, step.whole is not None, [], step
        self._scale = self._scale_now()
        if self._compared:
            self._keep_gradients()
        step.random = state.random_state()
        if step.whole is not None and possible():
            self._prints = Prints()
            self._sampling.enter_context(taken(self._prints))

    def _mark(self) -> None:
        self._after = self._subjects.mark() if self._open else None

    def _keep_gradients(self) -> None:
        """Copy the gradients that a step with a snapshot begins with; of large models, those that are there when they are first needed."""
        if self._early and self._step is not None:
            self._early, self._step.gradients = False, self._subjects.gradients()

    def _finish(self) -> None:
        """Note what came of the step, at once when its turn ends."""
        if (step := self._step) is None:
            return
        self._stop_sampling(step)
        step.losses, self._raw = self._losses(), []
        step.ended = variables.numbers(self._frames)
        self._frames = []
        self._trained = self._trained or self._versions != self._subjects.versions()
        if self._trained and self._compared:
            step.sums = replay.sums(self._subjects)

    def _stop_sampling(self, step: Step) -> None:
        self._sampling.close()
        if self._prints is not None:
            step.prints = self._prints.packed()
            self._cost += 2 * self._prints.seconds  # that of calling Python for each op is about as much
            self._prints = None

    def _again(self, step: Step) -> None:
        self._raw, self._step, self._scale, self.count, self._ends = [], step, self._scale_now(), step.number, step.item == END

    def _ended_again(self) -> None:
        if self._step is not None:
            self._step.losses, self._step, self._ends = self._losses(), None, False

    def _losses(self) -> list[float]:
        return [values.number(x) / self._scale for x in self._raw]

    def _scale_now(self) -> float:
        return next((x.get_scale() for x in self._subjects.others.values() if hasattr(x, "get_scale") and x.is_enabled()), 1.0)

    def _end(self) -> None:
        if self._frames:
            self._finish()
        step, self._step, self._ends = self._step, None, False
        if step is None:
            return
        if not self._trained and not step.error:
            self._log.drop(step)
            return
        self.count += 1
        self._idle.discard(step.site)
        step.idle = sorted(self._idle)
        if step.losses:
            self._log.curve.append((step.number, step.loss))
        why = self._triggers.ended(step) or (step.error and f"It raised {step.error}") or self._asked
        if why:
            step.sums = step.sums or replay.sums(self._subjects)
            self.over = self._triggers.spoilt
            self._keep(why)

    def _noted(self, original: Callable, tensor: Any, *args: Any, **kwargs: Any) -> Any:
        """Stands for `Tensor.backward`, which PyTorch calls again by its name where a recording overrides it."""
        if self._replay is not None:
            self._replay.trains()
        if self._step is None or self._noting or threading.get_ident() != self._thread:
            self._outside = self._outside or self._step is None
            return original(tensor, *args, **kwargs)
        self._noting = True
        try:
            self._trained = True
            if tensor.numel() == 1:
                self._raw.append(values.scalar(tensor))
            self._guarded(self._keep_gradients)
            return original(tensor, *args, **kwargs)
        finally:
            self._noting = False

    def _stepping(self, optimizer: Any) -> None:
        key = next((key for key, one in self._subjects.optimizers.items() if one is optimizer), None)
        if key is None:
            self._subjects.left_out["an optimizer that was not given"] = type(optimizer).__name__
            return
        if self._replay is not None:
            self._replay.trains()
        if self._step is None:
            if self._replay is not None or self.over or (self._log.steps and not self._outside):  # the rest of an epoch's gradients
                return
            raise RuntimeError(
                "wb.flight does not see where a step of this training begins. Loop over a DataLoader in the block, or over "
                "flight(...): for i in flight(range(1000))."
            )
        self._guarded(self._keep_gradients)
        self._trained = True
        if self._replay is None:
            self._guarded(self._triggers.gradients, self._gradients(key, optimizer))

    def _gradients(self, key: str, optimizer: Any) -> Iterator[tuple[str, Any]]:
        names = {id(t): state.called(name) for name, t in self._subjects.tensors().items()}
        for p in state.parameters(optimizer):
            if p.grad is not None:
                yield names.get(id(p), key), p.grad

    def _keep(self, why: str) -> None:
        """Write the file, unless an earlier reason is the cause of this one."""
        self._asked = ""
        if self.why and not why.startswith("It was asked"):
            return
        self.why, self.at = why, self.steps[-1].number
        content = self._content()
        size = bytes_text(values.bytes_in(content))
        ends = " Recording ends." if self.over else ""
        print(f"wb.flight: {why} in step {self.steps[-1].number}.{ends} Writing {self.path} ({size}).", file=sys.stderr)
        try:
            write(self.path, content)
        except OSError as error:  # the training goes on
            warnings.warn(f"wb.flight: {self.path} could not be written: {error}", stacklevel=2)
        else:
            self.written = why


class Loop:
    """A loop each of whose turns is a step."""

    def __init__(self, flight: Flight, iterable: Iterable) -> None:
        if not hasattr(iterable, "__iter__"):
            raise TypeError(f"wb.flight: a loop goes over an iterable, got {type(iterable).__name__}.")
        self._flight, self._iterable = flight, iterable

    def __len__(self) -> int:
        return len(self._iterable)  # type: ignore[arg-type]

    def __iter__(self) -> Iterator[Any]:
        return self._flight.turns(lambda: iter(self._iterable))


@contextlib.contextmanager
def replaced(owner: type, name: str, by: Callable) -> Iterator[None]:
    """While the block runs, `by(original, self, ...)` is called instead of a method."""
    original = getattr(owner, name)
    own = name in vars(owner)

    @functools.wraps(original)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        return by(original, self, *args, **kwargs)

    setattr(owner, name, call)
    try:
        yield
    finally:
        if own:
            setattr(owner, name, original)
        else:
            delattr(owner, name)
