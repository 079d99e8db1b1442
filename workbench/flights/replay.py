"""Repeat recorded steps by running the program again: its loop gets the recorded batches, its model the recorded state."""

from __future__ import annotations

import builtins
import dis
import hashlib
import inspect
import linecache
import os
import runpy
import sys
import traceback
import zlib
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from copy import copy
from itertools import islice
from types import CellType, CodeType, FrameType, FunctionType, ModuleType
from typing import Any
from weakref import WeakValueDictionary

from ..base import frames
from ..recording.recording import KEEP
from ..session.surface import ShownSession
from ..subjects.watching import ModuleWatch
from . import loops, state, values, variables
from .log import END, Step
from .prints import Prints, taken
from .state import Subjects

Program = Callable[[], Any] | str | os.PathLike


class Done(BaseException):
    """Leaves the program when the step has been repeated. Not an Exception, so that the program does not handle it."""


class NotAhead(BaseException):
    """The program trains on a batch as soon as it gets it, so that those it had got without training were skipped, not fetched ahead."""


class Replay:
    """The steps to repeat, and what came of the last one.

    `before(step, subjects)` is called before each step, when everything is as it was then; if it returns true, the program is left there.
    With `until`, it is left after the first step after which `until(subjects)` is true; only the last of the steps is recorded. With
    `prints`, its ops are sampled instead.

    Attributes:
        steps: the recorded steps, which begin with a snapshot.
        block: which block they belong to, as in `Code`.
        again: the last one as it ran now; None until it has begun.
        session: the recording of the last step.
        subjects: the program's model, optimizer, ... of this run.
        program: the code that ran now.
    """

    def __init__(
        self, steps: Sequence[Step], block: str, keep: int = KEEP, before: Callable[[Step, Subjects], bool] | None = None,
        until: Callable[[Subjects], bool] | None = None, prints: Prints | None = None,
    ) -> None:  # fmt: skip
        self._prints = prints
        self.steps, self.block = list(steps), block
        self._keep, self._before, self._until = keep, before, until
        self._ahead, self._missed = True, True  # whether it gets `ahead` before the first step, `missed` before the others
        self._start()

    def _start(self) -> None:
        self.again: Step | None = None
        self.session: ShownSession | None = None
        self.subjects: Subjects | None = None
        self.program: Code | None = None
        self._at = 0
        self._running: Step | None = None
        self._early = False  # whether the program has got a batch that no step begins with
        self._parts: dict[str, list] = {}
        self._watch: ModuleWatch | None = None
        self._closing = ExitStack()

    def at_end(self, close: Callable[[], Any]) -> None:
        """Call `close()` when the program has been left, although a framework may not have told its callbacks of it."""
        self._closing.callback(close)

    def run(self, program: Program | Code) -> None:
        """Run the program up to the end of the last step. Raises RuntimeError if it does not get there."""
        global active
        if active is not None:
            raise RuntimeError("A step is being repeated already.")
        active, raised, done, trace = self, None, False, sys.gettrace()
        try:
            while not self._reached(program):
                self._closing.close()
                self._start()
        except Done:
            done = True
        except BaseException as error:
            if self.again is None or self.again.number != self.steps[-1].number:
                error.add_note(
                    f"This was raised before step {self.steps[-1].number} was reached. Loops that train get no batches until then."
                )
                raise
            raised = error  # of the step itself, as in the original run or new
            self.again.error = said(error)
        finally:
            active = None
            sys.settrace(trace)
            self._closing.close()
            self._stop(raised)
        if not done and raised is None:
            where = "its loop" if self.subjects is not None else "a block `with wb.flight(...)`"
            raise RuntimeError(f"The program ended without reaching {where}, so step {self.steps[-1].number} was not repeated.")

    def _reached(self, program: Program | Code) -> bool:
        """Run the program. Returns false if it has to be run again, without batches that it trained on although it had not."""
        try:
            call(program)
        except NotAhead:
            return False
        return True

    def items(
        self,
        of: Subjects,
        site: int,
        iterate: Callable[[], Iterator],
        code: CodeType,
        begun: Callable[[Step], None],
        ended: Callable[[], None],
    ) -> Iterator[Any]:
        """What a loop of the program gets: the recorded batches, if it is the loop that they belong to; its own if it only validates."""
        if self._running is not None and of is self.subjects:  # what came after the end of the loop before
            self._stop(None)
            self._turned(ended)
        while True:
            if self._at == len(self.steps):
                raise Done
            if of is not self.subjects or self.steps[self._at].site != site:
                if of is self.subjects and site in self.steps[-1].idle:
                    yield from iterate()
                else:  # its variables may be used behind it
                    variables.put(variables.chain(sys._getframe(1), code), self.steps[self._at].variables, {})
                return
            if self._until is not None and self.again is not None and self._until(self.subjects):
                raise Done
            step = self.steps[self._at]
            if any(map(values.unknown, (step.item, step.ahead, step.missed))):
                for own in islice(iterate(), 1):
                    values.learn(own)
            for item in (step.missed if self._missed else ()) if self._at else (step.ahead if self._ahead else ()):
                self._early = True
                yield values.made(item)
            self._early = False
            here = variables.chain(sys._getframe(1), code)
            self._put(step, here)
            batch = [] if step.item == END else [values.made(step.item)]
            last = step is self.steps[-1]
            if self._before is not None:
                state.put_random_state(step.random)
                if self._before(step, self.subjects):
                    raise Done
            if last and self._prints is None:
                self._watch = ModuleWatch(None, self._keep, here[0], _unchanged, _nothing)
                self._watch.begin(here[0])
            del here
            self.again = Step(step.number, site, None if batch else END, {}, {}, {})
            begun(self.again)
            state.put_random_state(step.random)
            if last and self._prints is not None:
                self._closing.enter_context(taken(self._prints))
            self._running, self._parts = step, {place: list(parts) for place, parts in step.parts.items()}
            if not batch:
                return
            try:
                yield batch.pop()  # nothing else refers to it
            except GeneratorExit:  # by `break` or by an exception
                self._turned(ended)
                return
            self._stop(None)
            self._turned(ended)
            if last and self._prints is not None:
                raise Done

    def parts(self, place: str, iterate: Callable[[], Iterator]) -> Iterator[Any]:
        """What a loop within a step gets: what is recorded of it in this step, else its own items."""
        own = None
        while True:
            if self._parts.get(place):
                item, chance = self._parts[place].pop(0)
                item = values.made(item)
                state.put_random_state(chance)
            else:
                own = iterate() if own is None else own
                try:
                    item = next(own)
                except StopIteration:
                    return
            yield item

    def _turned(self, ended: Callable[[], None]) -> None:
        """The turn of a step has ended."""
        if self._running is None:
            return
        if self._running is self.steps[-1]:
            assert self.again is not None and self.subjects is not None
            self.again.sums = sums(self.subjects)
        ended()
        self._running = None
        self._at += 1

    def trains(self) -> None:
        """The program runs a backward pass, or an optimizer."""
        if self._early:
            self._ahead, self._missed = self._ahead and self._at > 0, False
            raise NotAhead

    def leave(self, ended: Callable[[], None]) -> None:
        """The program leaves the block: in the middle of a turn, if it has got its batch from `next()`."""
        self._turned(ended)
        if self._at == len(self.steps):
            raise Done

    def _put(self, step: Step, here: Sequence[FrameType]) -> None:
        assert self.subjects is not None
        if step.whole is not None and step is self.steps[0]:
            self.subjects.put_whole(step.whole)
            self.subjects.put_gradients(step.gradients)
        self.subjects.put_small(step.small)
        variables.put(here, step.variables, step.ended)

    def _stop(self, error: BaseException | None) -> None:
        if self._watch is not None:
            watch, self._watch = self._watch, None
            watch.end(type(error) if error else None, error, error.__traceback__ if error else None)
            self.session = watch.session


def said(error: BaseException) -> str:
    """An exception as the last line of its traceback."""
    return traceback.format_exception_only(error)[-1].strip()


active: Replay | None = None  # while a program is run again


def _unchanged(session: Any) -> Any:
    return session


def _nothing(session: Any) -> Callable[[], None]:
    return lambda: None


def sums(subjects: Subjects) -> dict[str, int]:
    """A checksum of each tensor and each gradient: equal bytes have equal ones."""
    found = {}
    for name, tensor in subjects.tensors().items():
        found[name] = zlib.crc32(values.Copy.of(tensor, shared=True).data)
        if tensor.is_leaf and tensor.grad is not None:
            grad = tensor.grad.detach()
            found[f"{name}.grad"] = zlib.crc32(values.Copy.of(grad.to_dense() if grad.is_sparse else grad, shared=True).data)
    return found


# -- programs ------------------------------------------------------------------------------------------------------------------


class Code:
    """A program that is known from the frame of its `with wb.flight(...)` block: a cell, a script, or a function with its arguments.

    Attributes:
        block: the function, and how often the name `flight` is read in it before the block: that holds when other lines change.
    """

    def __init__(self, frame: FrameType, call: str = "flight") -> None:
        """`call`: another name that the frame is calling, `fit` or `train`."""
        self.code: CodeType = frame.f_code
        self.globals = frame.f_globals
        before = (one for one in dis.get_instructions(self.code) if one.offset < frame.f_lasti)
        self.block = f"{self.code.co_qualname} {sum(one.argval == call and one.opname.startswith('LOAD_') for one in before)}"
        self._outer: list[dict] = [self.globals]  # what the program can change although it is run again
        self._call: Callable[[], Any] = lambda: exec(self.code, self.globals)
        if frames.is_function(frame):
            local = dict(frames.variables(frame))
            names = inspect.getargs(self.code)
            given = [*(local.get(name) for name in names.args if name not in _by_name(self.code)), *local.get(names.varargs or "", ())]
            named = {name: local.get(name) for name in _by_name(self.code)} | local.get(names.varkw or "", {})
            cells = tuple(CellType(local[name]) if name in local else CellType() for name in self.code.co_freevars)
            function = FunctionType(self.code, self.globals, closure=cells)  # its cells are copies: the user's variables stay as they are
            self._call = lambda: function(*given, **named)
            outer = {name: local[name] for name in (*self.code.co_varnames[: len(given)], *named, *self.code.co_freevars) if name in local}
            self._outer += [outer, *(vars(x) for x in outer.values() if hasattr(x, "__dict__") and not isinstance(x, (type, ModuleType)))]

    @property
    def in_cell(self) -> bool:
        """Whether it is a cell of a notebook."""
        return "__IPYTHON__" in self.globals or "get_ipython" in self.globals

    def fingerprint(self) -> dict[str, str]:
        """The name of the program's file or function, and a digest of its source: enough to tell whether another program is the same."""
        name = os.path.basename(self.code.co_filename)
        file = name if name.endswith(".py") and not self.in_cell else ""
        return {"file": file, "function": self.code.co_qualname, "block": self.block, "sha256": _source_digest(self.code)}

    def __call__(self) -> None:
        """Run it again. The variables of its module and its arguments' attributes are as before afterwards, and the items of containers."""
        if self.code.co_flags & (inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR):
            raise RuntimeError(f"{self.code.co_name} cannot be called again: give the program, as in flight.repeat(program=train).")
        before = [(names, dict(names)) for names in self._outer]
        inner = [x for _, names in before for name, x in names.items() if type(x) in (list, dict, set, deque) and not name.startswith("__")]
        before += [(x, copy(x)) for x in inner]
        try:
            self._call()
        finally:
            for name in self.globals.keys() - before[0][1].keys():
                del self.globals[name]
            self.globals.update(before[0][1])  # never empty, as other threads may use them
            for x, content in before[1:]:
                values.fill(x, content)


_known: WeakValueDictionary[tuple[str, ...], Code] = WeakValueDictionary()  # of the recorders of this process


def know(program: Code) -> None:
    """Find this program again by its fingerprint, as long as its recorder is there."""
    _known[_key(program.fingerprint())] = program


def _key(fingerprint: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(fingerprint[key] for key in ("file", "function", "block", "sha256"))


def digest(source: str) -> str:
    """A digest of a program's text."""
    return hashlib.sha256(source.strip().encode()).hexdigest()


def _source_digest(code: CodeType) -> str:
    if code.co_name == "<module>":
        return digest("".join(linecache.getlines(code.co_filename)))
    try:
        return digest(inspect.getsource(code))
    except OSError:  # code without a file
        return ""


def among(names: Mapping[str, Any], fingerprint: Mapping[str, str]) -> Program | None:
    """The program with that fingerprint: a recorder's, a function without arguments among `names`, or a cell that this kernel has run."""
    if (own := _known.get(_key(fingerprint))) is not None:
        return own
    found = names.get(fingerprint["function"])
    if isinstance(found, FunctionType) and not found.__code__.co_argcount and _source_digest(found.__code__) == fingerprint["sha256"]:
        return found
    ipython: Any = sys.modules.get("IPython")
    shell: Any = ipython.get_ipython() if ipython is not None else None
    if shell is None:
        return None
    for number, cell in reversed([*enumerate(shell.user_ns.get("In", ()))]):
        text = shell.transform_cell(cell)
        if digest(text) == fingerprint["sha256"]:
            code = compile(text, shell.compile.cache(text, number, cell), "exec")
            return lambda: exec(code, dict(shell.user_ns))
    return None


def _by_name(code: CodeType) -> tuple[str, ...]:
    return code.co_varnames[code.co_argcount : code.co_argcount + code.co_kwonlyargcount]


def call(program: Program | Code, turns: Callable[..., Any] | None = None) -> None:
    """Run a program: a function without arguments, or the path of a script; its training loops go through `turns` if that is given."""
    if callable(program):
        program()
        return
    path = os.fspath(program)
    if not os.path.isfile(path):
        raise FileNotFoundError(f"There is no program {path!r}: give the path of a script, or a function that trains.")
    with _arguments(path):
        if turns is None:
            runpy.run_path(path, run_name="__main__")
            return
        with open(path, "rb") as file:
            code = loops.compiled(file.read(), path)
        main, before = ModuleType("__main__"), sys.modules["__main__"]
        vars(main).update({"__file__": path, "__builtins__": builtins, loops.TURNS: turns})
        sys.modules["__main__"] = main
        try:
            exec(code, vars(main))
        finally:
            sys.modules["__main__"] = before


@contextmanager
def _arguments(path: str) -> Iterator[None]:
    argv, folders = sys.argv, list(sys.path)
    sys.argv = [path]
    sys.path.insert(0, os.path.dirname(os.path.abspath(path)))
    try:
        yield
    finally:
        sys.argv, sys.path[:] = argv, folders
