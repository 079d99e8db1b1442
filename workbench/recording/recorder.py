"""The recorder: an Observer that fills a Recording in a few microseconds per op, without keeping tensors alive."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import lru_cache
from math import nan
from threading import get_ident
from time import perf_counter
from types import CodeType
from typing import Any
from weakref import WeakSet, ref

import numpy

from engine.backends.batch import Batched
from engine.base import observe
from engine.core import devices, versions
from engine.core.batching import spread
from engine.core.tape import FREED, Packed
from engine.core.tensor import Tensor

from ..base.attributes import NUMBERS, PLAIN, plain
from ..base.frames import HIDDEN, is_installed, passes_around
from . import origins  # noqa: F401  errors about exhausted memory name the arrays of recordings
from .flowing import Flowing
from .lifetimes import Lifetimes
from .mending import mend
from .recording import EVENT, HOLDERS, KEEP, Recording, Scope, Watch
from .sites import Sites
from .witness import has_mode

MAX_ROWS = 200_000
PERIOD = 0.1  # seconds between two reports of a running recording
TURNS, PLENTY = 8, 20_000  # after TURNS iterations of a training loop and PLENTY rows, only iterations 16, 32, 64, ... are recorded
PULSE = 5.0  # seconds between two reports while iterations are skipped

_new = tuple.__new__  # of a NamedTuple; its own `__new__` takes twice as long


class Recorder(observe.Observer):
    """Records the ops of the thread that created it, up to `limit` rows; ops beyond that are only counted.

    A training loop may run for hours: unless `every_turn`, later iterations are skipped except those whose number is a power of two.
    Skipped ones cost next to nothing, and memory does not grow. An iteration ends with the optimizer's step, or with the backward pass if
    there is no optimizer. The ops by which a DataLoader fetches a batch are not recorded either: a batch is an input, whether it is made by
    this process or by a worker.

    `listener` is called from the recorded thread while it runs: at most every 0.1 s, and for at most a twentieth of the time.
    """

    def __init__(self, title: str = "", keep: int = KEEP, limit: int = MAX_ROWS, every_turn: bool = False) -> None:
        self.recording = Recording(title, keep)
        self.recording.live = True
        self.limit, self.every_turn = limit, every_turn
        self.resting = False  # this iteration is skipped
        self._deep = 0  # scopes entered while resting
        self._loading = False  # resting only because a batch is being fetched
        self._loaders: WeakSet[Any] = WeakSet()  # iterators of DataLoaders that have begun
        self._optimizers = False  # an optimizer has taken a step
        self._flowing = Flowing(self.recording)
        self.listener: Callable[[], None] | None = None
        self._begun = nan  # when the running op began
        self._mark: Any = None  # the same as a mark in a GPU's stream, which runs behind
        self._steps: list[tuple[int, float, Any]] = []  # running backward steps: the node's time, when it began, its mark
        self._due = perf_counter() + PERIOD
        self._lifetimes = Lifetimes(self.recording)
        self._rows = self.recording.rows
        self._died = self._lifetimes.died
        self._thread = get_ident()
        self._stack: list[tuple[int, bool]] = []  # open scopes: the parent of each, and whether it is a module call
        self._open_modules = 0  # the number of open module calls
        self._scope = -1
        self._paths: dict[int, str] = {}  # id of a module -> its qualified name
        self._sites = Sites()
        self._code: CodeType | None = None  # the user's code that ran the last op
        self._body: CodeType | None = None  # the engine's code of the composite entered last, until a scope ends
        self._called: tuple[CodeType | None, int] = None, 0  # where the user called it
        self._unpacked = -1  # the tape's time of the last node whose step unpacked tensors from a hook
        self._last = -1  # the tape's time of the last node of a skipped pass
        # a backward pass that may record its own ops: code, lasti, last node's time, open scopes, number of running passes
        self._pass: tuple[CodeType | None, int, int, int, int] | None = None
        self._outer: list[tuple] = []  # the same for outer passes, a step of which began the next one

    # -- calls by the engine ------------------------------------------------------------------------------------------------

    def begins(self) -> None:
        if not self.resting and get_ident() == self._thread:
            if devices.gpu is not None:
                self._mark = devices.gpu.mark()
            self._begun = perf_counter()

    def op(self, op: Any, inputs: tuple, attrs: dict, output: Any) -> None:
        if self.resting:
            self.recording.dropped += not self._loading
            return
        ended = perf_counter()
        if get_ident() != self._thread:
            return
        r = self.recording
        if r.count >= self.limit:
            r.dropped += 1
            return
        out = output if isinstance(output, Tensor) else _first_tensor(output)
        if out is None:
            return
        try:
            if r.dead:
                r.write_deaths()
            # the user's line as code object and instruction; resolved later. The frame below is the engine's
            frame: Any = sys._getframe(2)
            code = frame.f_code
            before, body, hidden = self._code, self._body, self._sites.hidden
            while code is not before:  # the code of the previous op ends the search; `Sites.frame` inlined
                if code is body:  # the engine's own: where the user called it is known
                    break
                inside = hidden.get(id(code))
                if not (self._sites.hides(code) if inside is None else inside):
                    self._code = code
                    break
                frame = frame.f_back
                if frame is None:
                    code = None
                    break
                code = frame.f_code
            if frame is None:
                lasti = 0
            elif code is body:
                code, lasti = self._called
            else:
                lasti = frame.f_lasti
            if self._pass is not None:
                self._leave_pass(code, lasti, frame)
            rows, sources = self._rows, []
            for x in inputs:
                if isinstance(x, Tensor):
                    source = rows.get(id(x))
                    sources.append(self._input(x) if source is None else source)
                else:
                    sources.append(-1 if x is None else self._constant(x))
            if out.array.__class__ is Batched:
                self._shared(out, inputs, sources, code, lasti)
            row = r.count
            for slot, source in enumerate(sources):
                if source >= 0:
                    r.source.append(source)
                    r.target.append(row)
                    r.slot.append(slot)
            array, node = out.array, out.node
            base, nbytes, shape = array.base, array.nbytes, None
            if base is None:
                place = id(array)
            else:
                place = id(base if isinstance(base, type(array)) else array)
            block = r.blocks.get(place)
            if block is not None:
                block[HOLDERS] += 1
                if (write := versions.written(place)) is not None:
                    r.versions[row] = write.version
                r.hold(row, array, block)
            elif base is None:  # a result with its own storage; `need` and `hold` inlined
                number = len(r.events)
                block = r.blocks[place] = [nbytes, 1, row, number, place]
                now = r.now = r.now + nbytes
                if now > r.peak:
                    r.peak, r.peak_row = now, row
                r.events.frombytes(EVENT(number, nbytes, row if r.step < 0 else ~r.step))
                if nbytes <= r.keep:
                    r.kept[row] = array
                    r.kept_bytes += nbytes
                    if r.kept_bytes > r.keep:
                        r.let_go()
            else:
                block = self._lifetimes.block(array, row)
                block[HOLDERS] += 1
                r.hold(row, array, block)
            saved = 0
            if node is not None and node.op is not None:
                if node.op is not op and node.op.picks:
                    self._several(output, row)
                    node = node.inputs[0]
                r.times[node.time] = row
                shape = node.shape
                if node.saved:
                    saved = self._lifetimes.saves(node, row)
            key = id(out)
            watch = Watch(out, self._died)  # `Lifetimes.watch` inlined
            watch.key, watch.block = key, block
            rows[key] = row
            r.ops.append(op)
            r.kind.append("op")
            r.scope.append(self._scope)
            r.code.append(code)
            r.lasti.append(lasti)
            r.shape.append(array.shape if shape is None else shape)
            r.dtype.append(array.dtype)
            r.bytes.append(nbytes)
            r.saved.append(saved)
            r.grad.append(node is not None)
            note = f"view of #{sources[0]}" if base is not None and op.view and out._view is not None else ""
            r.note.append(note if self._pass is None or not self._steps else self._derivative(note, code is not self._pass[0]))
            r.attrs.append(attrs if not attrs or attrs is op.defaults else plain(attrs))
            r.ref.append(watch)
            r.begun.append(self._begun)
            r.took.append(ended - self._begun)
            r.edge_end.append(len(r.source))
            if devices.gpu is not None:
                r.placed(row, array)
                if self._mark is not None and _on_gpu(array):
                    r.marks[row] = (self._mark, devices.gpu.mark())
            r.count = row + 1
            if out is not output:
                self._siblings(output, out, row)
        except BaseException:  # an interrupt by the user, who may catch it and continue
            self._mend()
            raise
        if self.listener is not None and ended > self._due:
            self._report()

    def failed(self, op: Any, inputs: tuple, attrs: dict, error: Exception) -> None:
        ended, r = perf_counter(), self.recording
        if get_ident() != self._thread or r.count >= self.limit:
            return
        try:
            r.write_deaths()
            code, lasti = self._sites.site()
            sources = self._sources(inputs)
            r.failure = r.append(
                op, "op", (), None, 0, False, scope=self._scope, code=code, lasti=lasti, note=str(error), attrs=plain(attrs),
                sources=sources, begun=self._begun, took=ended - self._begun,
            )  # fmt: skip
        except BaseException:
            self._mend()
            raise

    def wrote(self, op: Any, target: Any, inputs: tuple, attrs: dict) -> None:
        ended, r = perf_counter(), self.recording
        if get_ident() != self._thread:
            return
        if self.resting or r.count >= self.limit:
            r.dropped += not self._loading
            return
        try:
            r.write_deaths()
            code, lasti = self._sites.site()
            before = self._rows.get(id(target))
            sources = [self._input(target) if before is None else before, *self._sources(inputs[1:])]
            if target.array.__class__ is Batched:
                self._shared(target, inputs, sources, code, lasti)
            known, base, views = before is not None, target._base, target._views
            # for a written view, the tape's new node is a view of the base; the base was written with the op's own node
            made = target.node if base is None or base.node is None or base.node.op is None else base.node.inputs[1]
            row = self._rewritten(op, target, sources, attrs, code, lasti, "in place", made)
            r.begun[row], r.took[row] = self._begun, ended - self._begun
            if devices.gpu is not None:
                r.placed(row, target.array)
                if self._mark is not None and _on_gpu(target.array):
                    r.marks[row] = (self._mark, devices.gpu.mark())
            if base is None:
                base = target
            else:
                views = base._views
                old = self._rows.get(id(base))
                if old is not None or (base.node is not None and base.node.op is not None):
                    old = self._input(base) if old is None else old
                    written = base.node.op if base.node is not None and base.node.op is not None else op
                    self._rewritten(written, base, [old, row], {}, code, lasti, f"written through its view #{row}", base.node)
            for weak in views or ():
                view = weak()
                own = view is target and (not known or view.node is None)  # just created by this write, or not on the tape
                if view is not None and not own and id(view) in self._rows and id(base) in self._rows:
                    before, (made, how), *_ = view._view[1]
                    source = self._rows[id(base)]
                    how = how if before is None else {}  # a view of a view takes several ops from the base
                    self._rewritten(made, view, [source], how, code, lasti, f"view of #{source}, written in place", view.node)
        except BaseException:
            self._mend()
            raise

    def enter(self, kind: str, name: str, subject: Any) -> None:
        if get_ident() != self._thread:
            return
        if kind == "loading":
            if subject not in self._loaders:
                self._loaders.add(subject)
                self._load_begins(sys._getframe(2))
                if (loader := getattr(subject, "_loader", None)) is not None:
                    self.recording.witness.loaded(self.recording, loader)
            self._loading = self._loading or not self.resting
            self.resting = True
        if self.resting:
            self._deep += 1
            return
        r = self.recording
        frame: Any = sys._getframe(2)
        code = frame.f_code
        if code is not self._code and self._sites.hidden.get(id(code), True):
            frame = self._sites.frame(frame)
            code = None if frame is None else frame.f_code
        lasti = 0 if frame is None else frame.f_lasti
        if self._pass is not None:
            self._leave_pass(code, lasti, frame)
        label, identity, parent, scope = name, 0, self._scope, len(r.scopes)
        module = kind == "module"
        if module:
            identity, cls = id(subject), type(subject)
            label = cls.__name__
            if not self._open_modules or identity not in self._paths:
                self._name_modules(subject)
            self._open_modules += 1
            if has_mode(cls):
                r.witness.entered(scope, subject)
            name = self._paths.get(identity) or label
        elif kind == "function":
            body = getattr(subject, "__code__", None)
            self._body = body if self._sites.hidden.get(id(body)) else None  # a user's own function has lines of its own
            self._called = code, lasti
        r.scopes.append(_new(Scope, (parent, kind, name, label, identity, code, lasti)))
        self._scope = scope
        self._stack.append((parent, module))

    def _load_begins(self, frame: Any) -> None:
        """Note where a pass over a DataLoader, such as an epoch, begins. Installed packages, such as a progress bar, are skipped."""
        while frame is not None and is_installed(frame.f_code.co_filename):
            frame = frame.f_back
        if frame is not None:
            self.recording.loadings.append((self.recording.count, frame.f_code, frame.f_lasti))

    def leave(self) -> None:
        if get_ident() != self._thread:
            return
        if self._deep:
            self._deep -= 1
            if self._loading and not self._deep:
                self.resting = self._loading = False
            return
        while self._pass is not None and len(self._stack) <= self._pass[3]:  # not a module that checkpoint reruns inside the pass
            self._end_pass()
        if self._stack:
            self._body = None
            self._scope, module = self._stack.pop()
            self._open_modules -= module

    def backward_begins(self, roots: tuple, plan: list) -> None:
        if get_ident() != self._thread or not plan:
            return
        if self.resting:
            self._last = plan[-1].time
            return
        r = self.recording
        try:
            r.write_deaths()
            code, lasti = self._sites.site()
            around = passes_around(sys._getframe(1))
            while self._pass is not None and self._pass[4] >= around:
                self._end_pass()
            self._flowing.begins(len(self._outer) + (self._pass is not None))
            r.witness.begins(r, roots, plan, (code, lasti))
        except BaseException:
            self._mend()
            raise
        r.passes += 1
        r.scopes.append(Scope(self._scope, "function", "backward", "backward", 0, code, lasti))
        self._scope = len(r.scopes) - 1
        if self._pass is not None:
            self._outer.append(self._pass)
        self._pass = code, lasti, plan[-1].time, len(self._stack), around

    def _derivative(self, note: str, theirs: bool) -> str:
        """Describe an op run by a backward step: what it is the derivative of, or ran for. `theirs`: the user's own code ran it."""
        r = self.recording
        row = r.times.get(self._steps[-1][0], -1)
        if row < 0:
            return note
        what = f"{r.op_name(row)} #{row}"
        if self._steps[-1][0] == self._unpacked:  # checkpoint recomputes here
            mine = f"computed to unpack what {what} saved"
        elif hasattr(r.ops[row], "function"):
            mine = f"in the backward of {what}"
        elif theirs:
            mine = f"in a hook on the gradient of {what.strip()}"
        else:
            mine = f"accumulates the gradient of #{row}" if r.ops[row] is None else f"derivative of {what}"
        return f"{mine}; {note}" if note else mine

    def step_begins(self, node: Any) -> None:
        if not self.resting and get_ident() == self._thread:
            r, mark = self.recording, None if devices.gpu is None else devices.gpu.mark()
            try:
                if r.dead:
                    r.write_deaths()
                r.step = len(r.steps)
                if node.op is not None and type(node.saved) is Packed:
                    self._unpacked = node.time
                self._steps.append((node.time, perf_counter(), mark))
            except BaseException:
                self._mend()
                raise

    def backward(self, node: Any, grad: Any, input_grads: tuple) -> None:
        ended = perf_counter()
        if get_ident() != self._thread:
            return
        if self.resting:
            if node.time == self._last and not self._optimizers and not self._loading:
                self._turned()
            return
        r = self.recording
        try:
            if r.dead:
                r.write_deaths()
            while self._steps:  # steps ended by an exception were not reported
                time, begun, mark = self._steps.pop()
                if time == node.time:
                    break
            else:
                begun, mark = nan, None
            if self._outer:  # an inner pass may have been ended by an exception, which is not reported
                around = passes_around(sys._getframe(1))
                while self._pass is not None and self._pass[4] > around:
                    self._end_pass()
            last, inner = self._pass is not None and node.time == self._pass[2], bool(self._outer)
            if node.op is None:
                self._lifetimes.accumulated(node)
                r.witness.received(r, node, grad)
            elif node.saved is FREED:
                r.free(node.time)
            self._flowing.step(node, grad, input_grads)
            if last:
                self._end_pass()
            if len(r.steps) < self.limit:
                if mark is not None and _on_gpu(grad):
                    r.step_marks[len(r.steps)] = (mark, devices.gpu.mark())
                r.step_begun.append(begun)
                r.step_took.append(ended - begun)
                r.step_ops.append(node.op)
                r.steps.append(r.times.get(node.time, -1))
            r.step = len(r.steps) if inner else -1  # the step that began this pass continues
        except BaseException:
            self._mend()
            raise
        if last and not inner and not self._optimizers:
            self._turned()

    def _turned(self) -> None:
        """End an iteration of a training loop and decide whether to record the next. No pass or step is open at this point."""
        r = self.recording
        r.turns += 1
        r.waits.turned.append(perf_counter())
        r.passed_over += self.resting
        if self.every_turn:
            return
        following = r.turns + 1
        self.resting = r.turns >= TURNS and r.count >= PLENTY and following & (following - 1) != 0
        if self.resting and self.listener is not None and perf_counter() > self._due:
            self._report()
            self._due = max(self._due, perf_counter() + PULSE)

    # -- rows from outside --------------------------------------------------------------------------------------------------

    def _sources(self, inputs: tuple) -> list[int]:
        found = []
        for x in inputs:
            if isinstance(x, Tensor):
                row = self._rows.get(id(x))
                found.append(self._input(x) if row is None else row)
            else:
                found.append(-1 if x is None else self._constant(x))
        return found

    def _input(self, tensor: Tensor) -> int:
        r, node, array, kind = self.recording, tensor.node, tensor.array, "input"
        if node is not None:
            time = node.time
            if (known := r.times.get(time)) is not None:
                return known  # one of several results, or another tensor on the same node
            if node.op is None:
                kind = "parameter" if is_parameter(type(tensor)) else "leaf"
                r.times[time] = r.count
        base, nbytes = array.base, array.nbytes
        owner = array if base is None else versions.storage(array)
        place, key = id(owner), id(tensor)
        block = r.blocks.get(place)
        if block is None:
            block = r.need(place, nbytes if owner is array else owner.nbytes, r.count, 1)
        else:
            block[HOLDERS] += 1
        if (write := versions.written(place)) is not None:
            r.versions[r.count] = write.version
        watch = Watch(tensor, self._died)
        watch.key, watch.block = key, block
        row = self._rows[key] = r.outside(kind, array.shape, array.dtype, nbytes, node is not None, self._scope, watch)
        if devices.gpu is not None:
            r.placed(row, array)
        if kind == "input":  # leaves are held by the user; a batch is gone after its iteration
            r.hold(row, array, block)
        return row

    def _constant(self, x: Any) -> int:
        known = type(x) in PLAIN or isinstance(x, NUMBERS) or hasattr(x, "dtype")
        return self.recording.constant(x, self._scope) if known else -1

    def _shared(self, out: Tensor, inputs: tuple, sources: list[int], code: CodeType | None, lasti: int) -> None:
        """Make the nodes by which inputs shared by all samples entered a vmap the op's sources; they were not reported to the observer."""
        r, node = self.recording, out.node
        note = "" if self._pass is None or not self._steps else self._derivative("", code is not self._pass[0])
        while node is not None and node.op is not None and node.time not in r.times:
            for entered in node.inputs:
                chain, row = [], -1
                while entered is not None and entered.op is spread and entered.time not in r.times:
                    chain.append(entered)
                    entered = entered.inputs[0]
                    row = r.times.get(entered.time, -1)
                if row < 0 or row not in sources:
                    continue
                slot = sources.index(row)
                array = inputs[slot].array
                block = r.blocks.get(id(versions.storage(array)))
                for one in reversed(chain):
                    array = one.attrs["level"].same(array)
                    sources[slot] = r.times[one.time] = row = r.append(
                        spread, "op", one.shape, one.dtype, 0, True, scope=self._scope, code=code, lasti=lasti,
                        attrs=plain(one.attrs), sources=[row], note=note,
                    )  # fmt: skip
                    if block is not None:
                        r.hold(row, array, block)
            node = node.inputs[0] if node.inputs else None  # for one of several results, or a written view: the op's own node

    # -- several results, in-place writes -------------------------------------------------------------------------------------

    def _several(self, output: Any, row: int) -> None:
        for out in output:
            if isinstance(out, Tensor) and out.node is not None:
                self.recording.times[out.node.time] = row

    def _siblings(self, output: tuple, first: Tensor, row: int) -> None:
        for out in output:
            if isinstance(out, Tensor) and out is not first:
                self._lifetimes.hold(self._follow(out, row))

    def _follow(self, tensor: Tensor, row: int) -> Watch:
        array = tensor.array
        block = self.recording.blocks.get(id(versions.storage(array))) or self._lifetimes.block(array, row)
        block[HOLDERS] += 1
        self._rows[id(tensor)] = row
        return self._lifetimes.watch(tensor, id(tensor), block)

    def _rewritten(self, op: Any, tensor: Tensor, sources: list, attrs: dict, code: Any, lasti: int, note: str, node: Any) -> int:
        """Add a row for `tensor`, which has new contents or a new node on the tape; it represents the tensor from now on."""
        r, array = self.recording, tensor.array
        old = self._rows.get(id(tensor))
        weak = r.ref[old] if old is not None else None
        if old is not None:
            r.ref[old] = None
        if weak is None or weak() is not tensor:
            weak = self._follow(tensor, r.count)
        block = r.blocks.get(id(versions.storage(array))) or self._lifetimes.block(array, r.count)
        saved = 0
        while node is not None and node.op is not None and node.time not in r.times:
            r.times[node.time] = r.count
            saved += self._lifetimes.saves(node, r.count) if node.saved else 0
            node = node.inputs[0] if len(node.inputs) == 1 and node.op is not op else None
        r.versions[r.count] = versions.version(array)
        row = r.append(op, "op", array.shape, array.dtype, array.nbytes, tensor.node is not None, scope=self._scope, code=code, lasti=lasti,
                       saved=saved, note=note, attrs=plain(attrs), tensor=weak, sources=sources)  # fmt: skip
        self._rows[id(tensor)] = row
        r.hold(row, array, block)
        return row

    # -- memory ---------------------------------------------------------------------------------------------------------------

    def updated(self, optimizer: Any) -> None:
        if get_ident() != self._thread:
            return
        if not self._optimizers:  # the earlier passes were not iterations of their own
            self._optimizers, self.recording.turns = True, self.recording.passed_over
            del self.recording.waits.turned[self.recording.turns :]
        if not self.resting:
            r = self.recording
            try:
                r.write_deaths()
                r.witness.updated(r, optimizer, self._sites.site())
                self._lifetimes.optimizer(optimizer)
            except BaseException:
                self._mend()
                raise
        self._turned()

    def waited(self, what: str, seconds: float) -> None:
        r = self.recording
        if get_ident() == self._thread:
            r.waits.add(sys._getframe(1), self._sites.added, what, seconds, r.turns, r.count)

    # -- sites ----------------------------------------------------------------------------------------------------------------

    def user_code(self, code: CodeType) -> None:
        """Treat this code as the user's, wherever it is defined."""
        self._sites.add(code)

    def _name_modules(self, root: Any) -> None:
        if not hasattr(root, "named_modules"):
            return
        if id(root) not in self._paths:
            self.recording.modules.append(ref(root))
        paths = {id(root): ""}
        _name_below(root, "", paths)
        self._paths.update(paths)

    def _leave_pass(self, code: CodeType | None, lasti: int, frame: Any = None) -> None:
        """End passes that an exception left open, once the user's code has moved on; code run by a step, such as a hook, does not count."""
        while self._pass is not None and (code is not self._pass[0] or lasti != self._pass[1]) and passes_around(frame) < self._pass[4]:
            self._end_pass()

    def _end_pass(self) -> None:
        self._pass = self._outer.pop() if self._outer else None
        self._flowing.end(len(self._outer) + (self._pass is not None))
        if self._scope >= 0 and self.recording.scopes[self._scope].name == "backward":
            self._scope = self.recording.scopes[self._scope].parent

    # -- begin and end --------------------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Start the clock of the recording; by default it starts when the recorder is created."""
        self.recording.began = perf_counter()

    def _report(self) -> None:
        begun = perf_counter()
        assert self.listener is not None
        self.listener()
        ended = perf_counter()
        self._due = ended + max(PERIOD, 20 * (ended - begun))

    def _mend(self) -> None:
        """Repair the recording after a user's interrupt inside the recorder. A running pass ends."""
        self._flowing.end()
        mend(self.recording)

    def stop(self, error: BaseException | None = None) -> Recording:
        """Complete the recording, perhaps after an error. Deaths of tensors and nodes are still tracked."""
        self.listener = None
        self.recording.write_deaths()
        self.recording.witness.ends(self.recording, error, self._steps[-1][0] if self._steps else -1, HIDDEN)
        self.recording.ended = perf_counter()
        self._leave_pass(None, -1)
        self._flowing.end()  # for a pass that was interrupted
        self.recording.step = -1
        self.recording.live = False
        return self.recording


def _name_below(module: Any, prefix: str, paths: dict[int, str]) -> None:
    """Collect the path of each module below this one, like `named_modules` but much faster; the first path if there are several."""
    for name, child in module._modules.items():
        if child is not None and id(child) not in paths:
            paths[id(child)] = path = prefix + name
            if child._modules:
                _name_below(child, path + ".", paths)


def _first_tensor(output: Any) -> Tensor | None:
    return next((x for x in output if isinstance(x, Tensor)), None) if isinstance(output, (tuple, list)) else None


def _on_gpu(value: Any) -> bool:
    if isinstance(value, list):  # the gradients of an op with several results
        return any(map(_on_gpu, value))
    array = value.array if isinstance(value, Tensor) else value
    return array is not None and not isinstance(array, (numpy.ndarray, numpy.generic))


@lru_cache(256)
def is_parameter(cls: type) -> bool:
    return any(c.__name__ == "Parameter" for c in cls.__mro__)
