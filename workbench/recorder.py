"""The recorder: an Observer that fills a Recording, in a few microseconds for each op, and keeps no tensor alive."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from threading import get_ident
from time import perf_counter
from types import CodeType
from typing import Any
from weakref import ref

import engine
from engine import inplace, observe
from engine.tensor import Tensor

from .recording import BYTES, HOLDERS, KEEP, KEY, Recording, Scope

MAX_ROWS = 200_000
PERIOD = 0.1  # seconds between two reports of a running recording

# Frames of these files are not the user's.
HIDDEN = tuple(os.path.dirname(os.path.abspath(file)) + os.sep for file in (engine.__file__, __file__))
_PLAIN = (int, float, bool, str, type(None), complex)
_HARMLESS = frozenset((*_PLAIN, slice, type(Ellipsis)))


class Watch(ref):
    """A weak reference to what needs memory as long as it lives: a tensor, a gradient, or a node of the tape."""

    __slots__ = ("key", "block")
    key: int  # identity of a tensor; minus the time of a node; 0 for a gradient
    block: list | None  # None for a node: the recording's `savings` have its blocks


class Recorder(observe.Observer):
    """Records the ops of the thread that made it, at most `limit` rows; of the rest only the number is known.

    `listener` is called from the recorded thread while it runs: not more often than every 0.1 s, nor for more than a twentieth of the time.
    """

    def __init__(self, title: str = "", keep: int = KEEP, limit: int = MAX_ROWS) -> None:
        self.recording = Recording(title, keep)
        self.recording.live = True
        self.limit = limit
        self.listener: Callable[[], None] | None = None
        self._due = perf_counter() + PERIOD
        self._rows: dict[int, int] = {}  # identity of a live tensor -> row
        self._watches: dict[int, Watch] = {}  # by their own identity: only what is held can tell of a death
        self._thread = get_ident()
        self._stack: list[int] = []
        self._scope = -1
        self._paths: dict[int, str] = {}  # identity of a module -> its qualified name
        self._inside: dict[int, bool] = {}  # identity of a code object -> it is not the user's
        self._codes: list[CodeType] = []  # keeps those identities theirs
        self._pass: tuple | None = None  # a backward pass that may record ops of its own: (code, lasti, last node's time)
        me = ref(self)

        def died(watch: Any) -> None:
            """What was watched is gone, and so is its need for memory."""
            recorder = me()
            if recorder is None or recorder._watches.pop(id(watch), None) is None:
                return
            if watch.block is None:
                recorder._free(-watch.key)
                return
            recorder._release(watch.block)
            row = recorder._rows.pop(watch.key, None)
            if row is not None and (refs := recorder.recording.ref)[row] is watch:
                refs[row] = None

        self._on_death = died

    # -- what the engine tells ----------------------------------------------------------------------------------------------

    def op(self, op: Any, inputs: tuple, attrs: dict, output: Any) -> None:
        if get_ident() != self._thread:
            return
        r = self.recording
        if r.count >= self.limit:
            r.dropped += 1
            return
        out = output if output.__class__ is Tensor or isinstance(output, Tensor) else _first_tensor(output)
        if out is None:
            return
        # the user's line: the code object and the instruction in it; nothing is computed yet
        frame: Any = sys._getframe(1)
        inside, code = self._inside, None
        while frame is not None:
            code = frame.f_code
            hidden = inside.get(id(code))
            if hidden is None:
                hidden = self._classify(code)
            if not hidden:
                break
            frame = frame.f_back
        lasti = 0 if frame is None else frame.f_lasti
        if self._pass is not None:
            self._leave_pass(code, lasti)
        rows, sources = self._rows, []
        for x in inputs:
            source = rows.get(id(x)) if isinstance(x, Tensor) else -1
            if source is None:
                source = self._input(x)
            elif source < 0 and x is not None:
                source = self._constant(x)
            sources.append(source)
        row = r.count
        for slot, source in enumerate(sources):
            if source >= 0:
                r.source.append(source)
                r.target.append(row)
                r.slot.append(slot)
        array, node = out.array, out.node
        fresh = array.base is None
        place = id(array) if fresh else id(inplace.storage(array))
        block = r.blocks.get(place)
        if block is not None:
            block[HOLDERS] += 1
            if version := inplace.version(array):
                r.versions[row] = version
        elif fresh:  # `_block`, written out
            nbytes = array.nbytes
            block = r.blocks[place] = [nbytes, 1, row, 0, place]
            now = r.now = r.now + nbytes
            if now > r.peak:
                r.peak, r.peak_row = now, row
            r.timeline.append(now)
        else:
            block = self._block(array, row)
            block[HOLDERS] += 1
        saved = 0
        if node is not None and node.op is not None:
            if node.op.picks:
                self._several(output, row)
                node = node.inputs[0]
            r.times[node.time] = row
            if node.saved:
                saved = self._saves(node, row)
        watch = Watch(out, self._on_death)  # `_watch`, written out
        watch.key = key = id(out)
        watch.block = block
        self._watches[id(watch)] = watch
        rows[key] = row
        r.ops.append(op)
        r.kind.append("op")
        r.scope.append(self._scope)
        r.code.append(code)
        r.lasti.append(lasti)
        r.shape.append(array.shape)
        r.dtype.append(array.dtype)
        r.bytes.append(array.nbytes)
        r.saved.append(saved)
        r.grad.append(node is not None)
        r.note.append(f"view of #{sources[0]}" if not fresh and op.view and out._base is not None else "")
        r.attrs.append(attrs if not attrs or attrs is op.defaults else _plain(attrs))
        r.ref.append(watch)
        r.edge_end.append(len(r.source))
        r.hold(row, array, block)
        r.count = row + 1
        if out is not output:
            self._siblings(output, out, row)
        if self.listener is not None and perf_counter() > self._due:
            self._report()

    def failed(self, op: Any, inputs: tuple, attrs: dict, error: Exception) -> None:
        r = self.recording
        if get_ident() != self._thread or r.count >= self.limit:
            return
        code, lasti = self._site()
        sources = self._sources(inputs)
        r.failure = r.append(op, "op", (), None, 0, False, scope=self._scope, code=code, lasti=lasti, note=str(error), attrs=_plain(attrs),
                             sources=sources)  # fmt: skip

    def wrote(self, op: Any, target: Any, inputs: tuple, attrs: dict) -> None:
        r = self.recording
        if get_ident() != self._thread:
            return
        if r.count >= self.limit:
            r.dropped += 1
            return
        code, lasti = self._site()
        before = self._rows.get(id(target))
        sources = [self._input(target) if before is None else before, *self._sources(inputs[1:])]
        row = self._rewritten(op, target, sources, attrs, code, lasti, "in place")
        base = target._base
        if base is None:
            base, views = target, target._views
        else:
            views = base._views
            old = self._rows.get(id(base))
            if old is not None or (base.node is not None and base.node.op is not None):
                old = self._input(base) if old is None else old
                written = base.node.op if base.node is not None and base.node.op is not None else op
                self._rewritten(written, base, [old, row], {}, code, lasti, f"written through its view #{row}")
        for weak in views or ():
            view = weak()
            if view is not None and view is not target and id(view) in self._rows and id(base) in self._rows:
                made = view._view[1][1][0]
                source = self._rows[id(base)]
                self._rewritten(made, view, [source], {}, code, lasti, f"view of #{source}, written in place")

    def enter(self, kind: str, name: str, subject: Any) -> None:
        if get_ident() != self._thread:
            return
        code, lasti = self._site()
        self._leave_pass(code, lasti)
        label, identity = name, 0
        if kind == "module":
            identity, label = id(subject), type(subject).__name__
            if identity not in self._paths or not any(self.recording.scopes[s].kind == "module" for s in self._stack):
                self._name_modules(subject)
            name = self._paths.get(identity) or label
        self.recording.scopes.append(Scope(self._scope, kind, name, label, identity, code, lasti))
        self._scope = len(self.recording.scopes) - 1
        self._stack.append(self._scope)

    def leave(self) -> None:
        if get_ident() != self._thread:
            return
        if self._pass is not None:
            self._end_pass()
        if self._stack:
            self._scope = self.recording.scopes[self._stack.pop()].parent

    def backward_begins(self, roots: tuple, plan: list) -> None:
        if get_ident() != self._thread or not plan:
            return
        code, lasti = self._site()
        self._leave_pass(None, -1)
        self.recording.passes += 1
        self.recording.scopes.append(Scope(self._scope, "function", "backward", "backward", 0, code, lasti))
        self._scope = len(self.recording.scopes) - 1
        self._pass = (code, lasti, plan[-1].time)

    def backward(self, node: Any, grad: Any, input_grads: tuple) -> None:
        if get_ident() != self._thread:
            return
        if self._pass is not None and node.time == self._pass[2]:
            self._end_pass()
        if node.op is None:
            self._accumulated(node)
        elif not isinstance(node.saved, tuple):  # freed
            self._free(node.time)

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
        r, node, array = self.recording, tensor.node, tensor.array
        if node is not None and (known := r.times.get(node.time)) is not None:
            return known  # one of several results, or another tensor on the same node
        if node is not None and node.op is None:
            kind = "parameter" if is_parameter(type(tensor)) else "leaf"
            r.times[node.time] = r.count
        else:
            kind = "input"
        block = r.blocks.get(id(inplace.storage(array))) or self._block(array, r.count)
        block[HOLDERS] += 1
        if version := inplace.version(array):
            r.versions[r.count] = version
        watch = self._watch(tensor, id(tensor), block)
        row = self._rows[id(tensor)] = r.append(
            None, kind, array.shape, array.dtype, array.nbytes, node is not None, scope=self._scope, tensor=watch
        )
        if kind == "input":  # the user holds leaves; a batch is gone after its iteration
            r.hold(row, array, block)
        return row

    def _constant(self, x: Any) -> int:
        return self.recording.constant(x, self._scope) if isinstance(x, _PLAIN) or hasattr(x, "dtype") else -1

    # -- several results, in-place writes -------------------------------------------------------------------------------------

    def _several(self, output: Any, row: int) -> None:
        for out in output:
            if isinstance(out, Tensor) and out.node is not None:
                self.recording.times[out.node.time] = row

    def _siblings(self, output: tuple, first: Tensor, row: int) -> None:
        for out in output:
            if isinstance(out, Tensor) and out is not first:
                self._follow(out, row)

    def _follow(self, tensor: Tensor, row: int) -> Watch:
        array = tensor.array
        block = self.recording.blocks.get(id(inplace.storage(array))) or self._block(array, row)
        block[HOLDERS] += 1
        self._rows[id(tensor)] = row
        return self._watch(tensor, id(tensor), block)

    def _rewritten(self, op: Any, tensor: Tensor, sources: list, attrs: dict, code: Any, lasti: int, note: str) -> int:
        """`tensor` has new contents, or a new place on the tape: a new row stands for it from now on."""
        r, array, node = self.recording, tensor.array, tensor.node
        old = self._rows.get(id(tensor))
        weak = r.ref[old] if old is not None else None
        if old is not None:
            r.ref[old] = None
        if weak is None or weak() is not tensor:
            weak = self._follow(tensor, r.count)
        block = r.blocks.get(id(inplace.storage(array))) or self._block(array, r.count)
        saved = 0
        while node is not None and node.op is not None and node.time not in r.times:
            r.times[node.time] = r.count
            saved += self._saves(node, r.count) if node.saved else 0
            node = node.inputs[0] if len(node.inputs) == 1 and node.op is not op else None
        r.versions[r.count] = inplace.version(array)
        row = r.append(op, "op", array.shape, array.dtype, array.nbytes, tensor.node is not None, scope=self._scope, code=code, lasti=lasti,
                       saved=saved, note=note, attrs=_plain(attrs), tensor=weak, sources=sources)  # fmt: skip
        self._rows[id(tensor)] = row
        r.hold(row, array, block)
        return row

    # -- memory ---------------------------------------------------------------------------------------------------------------

    def _watch(self, what: Any, key: int, block: list | None) -> Watch:
        watch = Watch(what, self._on_death)
        watch.key, watch.block = key, block
        self._watches[id(watch)] = watch
        return watch

    def _block(self, array: Any, row: int) -> list:
        r, owner = self.recording, inplace.storage(array)
        block = [owner.nbytes, 0, row, 0, id(owner)]
        r.blocks[id(owner)] = block
        r.now += block[BYTES]
        if r.now > r.peak:
            r.peak, r.peak_row = r.now, row
        r.timeline.append(r.now)
        return block

    def _saves(self, node: Any, row: int) -> int:
        """The node keeps arrays for its backward: they live as long as it does, or until backward frees it. Their bytes."""
        r, saved, total = self.recording, [], 0
        blocks = r.blocks
        for place, array in enumerate(node.saved):
            if array is None:
                continue
            for a in array if array.__class__ is tuple else (array,):
                if not hasattr(a, "nbytes"):
                    continue  # a number, or what a user-written Function keeps
                total += a.nbytes
                block = blocks.get(id(a) if a.base is None else id(inplace.storage(a)))
                if block is None:
                    block = self._block(a, row)
                block[HOLDERS] += 1
                saved.append((block, place))
        if saved:
            r.savings[node.time] = saved
            self._watch(node, -node.time, None)
        return total

    def _accumulated(self, leaf: Any) -> None:
        r, tensor = self.recording, leaf.tensor()
        row = r.row_of(leaf)
        if tensor is None or row < 0 or tensor._grad is None:
            return
        gradient = tensor._grad
        held = r.gradients.get(row)
        if held is not None and held() is gradient:
            return
        block = r.blocks.get(id(inplace.storage(gradient.array))) or self._block(gradient.array, row)
        block[HOLDERS] += 1
        r.gradients[row] = self._watch(gradient, 0, block)

    def _free(self, time: int) -> None:
        """The node of that time needs its saved arrays no longer."""
        for block, _ in self.recording.savings.pop(time, ()):
            self._release(block)

    def _release(self, block: list) -> None:
        r = self.recording
        block[HOLDERS] -= 1
        if block[HOLDERS] == 0 and r.blocks.get(block[KEY]) is block:
            del r.blocks[block[KEY]]
            r.now -= block[BYTES]
            r.timeline.append(r.now)

    # -- where ----------------------------------------------------------------------------------------------------------------

    def _classify(self, code: CodeType) -> bool:
        hidden = code.co_filename.startswith(HIDDEN)
        self._codes.append(code)
        self._inside[id(code)] = hidden
        return hidden

    def _site(self) -> tuple[CodeType | None, int]:
        frame: Any = sys._getframe(2)
        while frame is not None and frame.f_code.co_filename.startswith(HIDDEN):
            frame = frame.f_back
        return (None, 0) if frame is None else (frame.f_code, frame.f_lasti)

    def _name_modules(self, root: Any) -> None:
        if not hasattr(root, "named_modules"):
            return
        if id(root) not in self._paths:
            self.recording.modules.append(ref(root))
        self._paths.update({id(module): path for path, module in root.named_modules()})

    def _leave_pass(self, code: CodeType | None, lasti: int) -> None:
        """A pass that an exception ended told nobody: the user's code having moved on says so."""
        if self._pass is not None and (code is not self._pass[0] or lasti != self._pass[1]):
            self._end_pass()

    def _end_pass(self) -> None:
        self._pass = None
        if self._scope >= 0 and self.recording.scopes[self._scope].name == "backward":
            self._scope = self.recording.scopes[self._scope].parent

    # -- the end --------------------------------------------------------------------------------------------------------------

    def _report(self) -> None:
        begun = perf_counter()
        assert self.listener is not None
        self.listener()
        ended = perf_counter()
        self._due = ended + max(PERIOD, 20 * (ended - begun))

    def stop(self) -> Recording:
        """The recording is complete. Deaths of tensors and nodes are still followed while the recorder lives."""
        self.listener = None
        if self._pass is not None:
            self._end_pass()
        self.recording.live = False
        return self.recording


def _first_tensor(output: Any) -> Tensor | None:
    return next((x for x in output if isinstance(x, Tensor)), None) if isinstance(output, (tuple, list)) else None


def is_parameter(cls: type) -> bool:
    return any(c.__name__ == "Parameter" for c in cls.__mro__)


def _plain(attrs: dict) -> dict:
    """Attributes without tensors in them, which would stay alive."""
    return {k: v if v.__class__ in _HARMLESS else _without_tensors(v) for k, v in attrs.items() if not k.startswith("__")}


def _without_tensors(value: Any) -> Any:
    if value.__class__ is tuple and len(value) <= 64 and _HARMLESS.issuperset(map(type, value)):
        return value
    if value.__class__ in _HARMLESS or isinstance(value, _PLAIN):
        return value
    if isinstance(value, (tuple, list)) and len(value) <= 64:
        return tuple(_without_tensors(v) for v in value)
    return Opaque(type(value).__name__)


class Opaque:
    """Stands for an attribute that is not kept."""

    def __init__(self, kind: str) -> None:
        self.kind = kind

    def __repr__(self) -> str:
        return self.kind
