"""A recording: what ran, as a table with one row for each op and each tensor or number that came from outside."""

from __future__ import annotations

import itertools
import os
from array import array
from math import nan
from struct import Struct
from threading import Lock, get_ident
from time import perf_counter
from types import CodeType
from typing import Any, NamedTuple
from weakref import ref

from engine.backends.meta import Meta
from engine.core import tape, versions
from engine.core.tensor import Tensor

from .checks.witness import Witness
from .readable import readable
from .recent import Recent
from .sites import line_of

KEEP = 256 << 20  # bytes of results that a recording holds so that they can be looked at later

# a block of memory: its size, how many need it, the row that made it, rows it is kept for, its storage's identity
BYTES, HOLDERS, ROW, NUMBER, KEY = range(5)
EVENT, USE = Struct("qqq").pack, Struct("qqqq").pack  # what `events` and `uses` have of one; quicker than number by number

_NONE: dict = {}  # the attributes of what has none
_numbers = itertools.count(1)
recent: Recent[Recording] = Recent()  # every recording that somebody still looks at, oldest first


class Watch(ref):
    """A weak reference to what needs memory as long as it lives: a tensor or a gradient."""

    __slots__ = ("key", "block")
    key: int  # identity of a tensor; 0 for a gradient
    block: list | None  # None: its death is written down


class Saving(ref):
    """A weak reference to a node of the tape, and what it saves: identities of storages, which live as long as it does.

    Numbers, not blocks: the garbage collector has nothing to look through.
    """

    __slots__ = ("time", "keys")
    time: int
    keys: tuple[int, ...]


class Scope(NamedTuple):
    """A call of a module or composite, or the user's own `with scope(...)`, that ops ran inside."""

    parent: int  # -1: the top
    kind: str  # "module", "function", "scope"
    name: str  # the qualified attribute path of a module where it is known
    label: str
    subject: int  # identity of the module, so that two calls of one module are known as such; 0 for others
    code: CodeType | None  # where it was entered
    lasti: int


BOXED = (
    "Module calls were not recorded. Boxes are inferred from the parameters that each op uses, or from the ops around it. "
    "Use %%watch on the forward pass for exact boxes."
)


class Recording:
    """The table. Columns only grow, and never hold a tensor.

    Arrays of results are held up to `keep` bytes, the oldest going first, so that a node can be looked at after its cell has ended.
    """

    distance: list[float] | None = None  # of two recordings in one: how far each row's values are apart

    @property
    def foreign(self) -> Any:
        """A recording of another library's tensors, which answers for itself what only that library knows; None: the engine's."""
        return None

    def __init__(self, title: str = "", keep: int = KEEP) -> None:
        self.name = f"{next(_numbers)}-{os.urandom(4).hex()}"
        self.title = readable(title)
        self.keep = keep
        self.count = 0  # rows that are whole: a reader in another thread looks at no others
        self.dropped = 0  # ops that were not recorded
        self.turns = self.passed_over = 0  # of a training loop: how many have ended, how many of them were not recorded
        self.root = -1
        self.live = False
        self.failure = -1  # the row of the op that failed
        self.passes = 0  # backward passes seen
        self.witness = Witness()  # what has no row
        self.ops: list[Any] = []  # the engine's op, or None
        self.kind: list[str] = []
        self.scope: list[int] = []
        self.boxed = False  # calls of modules were not seen, and are told from parameters
        self.code: list[CodeType | None] = []  # the user's code object, and the instruction in it
        self.lasti: list[int] = []
        self.shape: list[tuple] = []
        self.dtype: list[Any] = []
        self.bytes: list[int] = []
        self.saved: list[int] = []
        self.grad: list[bool] = []
        self.note: list[str] = []
        self.attrs: list[dict] = []
        self.ref: list[ref | None] = []  # the result's tensor, while it lives
        self.begun = array("d")  # when the op began, by `time.perf_counter()`; NaN: not measured
        self.took = array("d")  # seconds that it ran; NaN: not measured
        self.marks: dict[int, tuple] = {}  # row -> marks in a GPU's work before and after the op, until `timing.settle` has read them
        self.anchor: tuple | None = None  # one of these marks, and the time when it was given
        self.edge_end: list[int] = []  # edges up to and with this row's
        self.source: list[int] = []
        self.target: list[int] = []
        self.slot: list[int] = []
        self.scopes: list[Scope] = []
        self.loadings: list[tuple[int, CodeType, int]] = []  # where a pass over a DataLoader began: the next row, the line that asked
        self.modules: list[ref] = []  # outermost modules that ran: they name their parameters
        self.names: dict[int, str] = {}
        self.cells: dict[int, str] = {}  # the cell that ran the op, where a graph spans several
        self.times: dict[int, int] = {}  # the tape's time of a node -> row
        self.kept: dict[int, Any] = {}
        self.kept_bytes = 0
        self.released = 0  # rows whose kept array had to go
        self._texts: dict[tuple, str] = {}  # of numbers among the operands
        self.versions: dict[int, int] = {}  # version of the storage when the row was made, where it was not 0
        # backward steps as they ran, in all passes
        self.steps = array("l")  # the node's row; -1: it is not in the recording
        self.step_ops: list[Any] = []  # the engine's op; None where a leaf received its gradient
        self.step_begun, self.step_took = array("d"), array("d")
        self.step_marks: dict[int, tuple] = {}
        self.began = perf_counter()
        self.ended = nan
        # memory: what tensors, the tape and gradients need, not what the recording itself holds
        self.now = self.peak = 0
        self.peak_row = -1
        self.events = array("q")  # number of a block, bytes that came or (negative) went, `where`; one after the other: see memory_use
        self.uses = array("q")  # number of a block, the tape's time of a node that saves it, place in `saved`, events so far
        self.freed: dict[int, int] = {}  # the tape's time of a node that has let go of what it saved -> numbers in `events` so far
        self.roles: dict[int, tuple[str, int]] = {}  # number of a block that no op made -> what it is, and the row whose it is
        self.dropped_at: dict[int, int] = {}  # number of a block that outlived a tensor on it -> numbers in `events` when that tensor went
        self.others: dict[int, ref] = {}  # number of a block -> what an optimizer keeps there
        self.step = -1  # the backward step that is running
        self.blocks: dict[int, list] = {}  # identity of a storage -> block
        self.savings: dict[int, Any] = {}  # the tape's time of a node that saves something -> what follows its end
        # What has died, until somebody looks. Appending is all that happens where something dies: Python code there would swallow an
        # interrupt by the user, and could run in any thread.
        self.dead: list[Watch | Saving] = []
        self.rows: dict[int, int] = {}  # identity of a live tensor -> row
        self._settling, self._thread = Lock(), get_ident()
        self.watches: dict[int, Watch] = {}  # those that no row holds, by their own identity: only what is held can tell of a death
        self.gradients: dict[int, ref] = {}  # row of a leaf -> its gradient's tensor
        # Most rows hold an array that is a storage of its own, and nothing more is written down; of the others:
        self.held: dict[int, int] = {}  # row -> identity of the storage that its array lies in
        self.held_bytes: dict[int, int] = {}  # such a storage -> its size
        self._newest: dict[int, int] = {}  # such a storage, when several rows lie in it -> the newest of them
        self._oldest = 0  # no row before this one is held
        make_room()
        recent.add(self)

    # -- growing ----------------------------------------------------------------------------------------------------------

    def append(
        self, op: Any, kind: str, shape: tuple, dtype: Any, nbytes: int, grad: bool, *, scope: int = -1, code: CodeType | None = None,
        lasti: int = 0, saved: int = 0, note: str = "", attrs: dict | None = None, tensor: ref | None = None, sources: list | None = None,
        begun: float = nan, took: float = nan,
    ) -> int:  # fmt: skip
        """Add a row; its number. `sources` are the rows of its inputs, -1 for none."""
        row = self.count
        for i, source in enumerate(sources or ()):
            if source >= 0:
                self.source.append(source)
                self.target.append(row)
                self.slot.append(i)
        self.ops.append(op)
        self.kind.append(kind)
        self.scope.append(scope)
        self.code.append(code)
        self.lasti.append(lasti)
        self.shape.append(shape)
        self.dtype.append(dtype)
        self.bytes.append(nbytes)
        self.saved.append(saved)
        self.grad.append(grad)
        self.note.append(note)
        self.attrs.append(attrs or _NONE)
        self.ref.append(tensor)
        self.begun.append(begun)
        self.took.append(took)
        self.edge_end.append(len(self.source))
        self.count = row + 1
        return row

    def outside(self, kind: str, shape: tuple, dtype: Any, nbytes: int, grad: bool, scope: int, tensor: ref | None) -> int:
        """Add a row for what no op made; its number."""
        row = self.count
        self.ops.append(None)
        self.kind.append(kind)
        self.scope.append(scope)
        self.code.append(None)
        self.lasti.append(0)
        self.shape.append(shape)
        self.dtype.append(dtype)
        self.bytes.append(nbytes)
        self.saved.append(0)
        self.grad.append(grad)
        self.note.append("")
        self.attrs.append(_NONE)
        self.ref.append(tensor)
        self.begun.append(nan)
        self.took.append(nan)
        self.edge_end.append(len(self.source))
        self.count = row + 1
        return row

    def constant(self, x: Any, scope: int = -1) -> int:
        """Add a row for a number (or an array that is no tensor) among an op's operands."""
        kind = type(x)
        known = kind is float or kind is int
        shape, dtype = ((), kind.__name__) if known else (tuple(getattr(x, "shape", ())), getattr(x, "dtype", kind.__name__))
        row = self.outside("constant", shape, dtype, 0, False, scope, None)
        text = self._texts.get((kind, x)) if known and x else None
        if text is None:
            text = repr(x)
            text = text if len(text) <= 24 else kind.__name__
            if known and x:  # 0.0 and -0.0 are equal
                self._texts[kind, x] = text
        self.names[row] = text
        self.kept[row] = x
        return row

    def hold(self, row: int, array: Any, block: list) -> None:
        """Keep the row's array, if the budget allows; older ones make room. A block costs once, however many rows lie in it."""
        nbytes, _, made, _, key = block
        kept = self.kept
        if key in self._newest or key in self.held_bytes or made != row and id(kept.get(made)) == key:
            self._newest[key] = row  # it is paid for, by the row that made it or by one that lies in it
        elif nbytes > self.keep:
            return
        else:
            self.held_bytes[key] = nbytes
            self.kept_bytes += nbytes
        kept[row], self.held[row] = array, key
        if row < self._oldest:
            self._oldest = row
        if self.kept_bytes > self.keep:
            self.let_go()

    def lend(self, row: int, array: Any) -> None:
        """Show another recording's array here; it costs nothing."""
        self.kept[row], self.held[row] = array, 0

    def let_go(self) -> None:
        """The oldest arrays go until the others are within the budget."""
        while self.kept_bytes > self.keep and self._oldest < self.count:
            row, self._oldest = self._oldest, self._oldest + 1
            if row not in self.kept or self.kind[row] == "constant":
                continue
            array = self.kept.pop(row)
            self.released += 1
            key = self.held.pop(row, None)
            if key is None:  # a storage of its own; rows that came later may lie in it
                if id(array) not in self._newest:
                    self.kept_bytes -= array.nbytes
            elif key and self._newest.get(key, row) == row:
                self._newest.pop(key, None)
                size = self.held_bytes.pop(key, None)
                self.kept_bytes -= versions.storage(array).nbytes if size is None else size

    def unhold(self, row: int) -> None:
        """Let go of what is kept for a row that there is not."""
        self.kept.pop(row, None)
        self.held.pop(row, None)
        newest = {key: at for at, key in sorted(self.held.items()) if key}
        self._newest = {key: newest[key] for key in self._newest if key in newest}
        self.held_bytes = {key: size for key, size in self.held_bytes.items() if key in newest}
        self.kept_bytes = sum(self._held_sizes().values())

    def held_alone(self) -> int:
        """Bytes that nobody but the recording holds."""
        self.settle()
        return sum(size for key, size in self._held_sizes().items() if key not in self.blocks)

    def _held_sizes(self) -> dict[int, int]:
        """Each storage that something kept lies in, by its identity, and its size."""
        sizes = dict(self.held_bytes)
        for row, x in list(self.kept.items()):
            key = self.held.get(row)
            if key is None and self.kind[row] != "constant":
                sizes[id(x)] = x.nbytes
            elif key and key not in sizes:  # its maker, which paid, is gone
                sizes[key] = versions.storage(x).nbytes
        return sizes

    def need(self, key: int, nbytes: int, row: int, holders: int = 0, where: int | None = None) -> list:
        """A new block of memory for the storage of that identity. `where` is the row that makes it unless told: ~k, the backward step k."""
        events = self.events
        number = len(events)
        block = self.blocks[key] = [nbytes, holders, row, number, key]
        now = self.now = self.now + nbytes
        if now > self.peak:
            self.peak, self.peak_row = now, row
        events.frombytes(EVENT(number, nbytes, row if where is None else where))  # at once: a death may come in between
        return block

    def forget(self, block: list) -> None:
        """Nobody needs the block any more."""
        nbytes, _, _, number, key = block
        if self.blocks.get(key) is block:
            del self.blocks[key]
            self.now -= nbytes
            self.events.frombytes(EVENT(number, -nbytes, self.count if self.step < 0 else ~self.step))

    def settle(self) -> None:
        """Whoever looks at memory writes down first what has died. While the code runs, its own thread alone does so."""
        with self._settling:
            if not self.live or get_ident() == self._thread:
                self.write_deaths()

    def write_deaths(self) -> None:
        """Write down what has died since, before another tensor is taken for it. An interrupt leaves the rest for the next time."""
        dead, rows = self.dead, self.rows
        known = len(dead)
        for gone in dead:
            if isinstance(gone, Watch):
                row = rows.pop(gone.key, -1)
                if row >= 0 and self.ref[row] is gone:
                    self.ref[row] = None
                else:
                    self.watches.pop(id(gone), None)
                block = gone.block
                if block is not None:
                    gone.block = None
                    holders = block[HOLDERS] = block[HOLDERS] - 1
                    if holders:
                        self.dropped_at[block[NUMBER]] = len(self.events)
                    else:
                        self.forget(block)
            else:
                self.free(gone.time)
        del dead[:known]

    def free(self, time: int) -> None:
        """The node of that time needs its saved arrays no longer. Called while they, or at least their blocks, are there."""
        saving = self.savings.pop(time, None)
        self.freed[time] = len(self.events)
        if saving is not None:
            for key in saving.keys:
                block = self.blocks[key]
                block[HOLDERS] -= 1
                if not block[HOLDERS]:
                    self.forget(block)

    # -- looking up -------------------------------------------------------------------------------------------------------

    def inputs(self, row: int) -> list[tuple[int, int]]:
        """`(source row, slot)` of each input."""
        begin = self.edge_end[row - 1] if row else 0
        return [(self.source[e], self.slot[e]) for e in range(begin, self.edge_end[row])]

    def op_name(self, row: int) -> str:
        """The op's name; "" for what no op made."""
        op = self.ops[row]
        return "" if op is None else op.name

    def called(self, row: int) -> str:
        """What sentences call a row: the user's name for it; else its op, or what it is, and the line that made it: "add, line 3"."""
        name = self.names.get(row)
        if name:
            return name
        what, code = self.op_name(row) or self.kind[row], self.code[row]
        if code is not None:
            return f"{what}, line {line_of(code, self.lasti[row])}"
        return f"{what} {'×'.join(map(str, self.shape[row]))}".strip()

    def maker(self, row: int) -> str:
        """The op of a row in words: "tanh, which made h", or "tanh, line 4"."""
        op, name = self.op_name(row), self.names.get(row)
        return f"{op}, which made {name}" if op and name else self.called(row)

    def row_of(self, node: Any) -> int:
        """The row of a node of the tape; -1 when it is not in the recording. A result of several shares the row of its op."""
        row = self.times.get(node.time, -1)
        if row < 0 and isinstance(node, tape.Leaf):
            tensor = node.tensor()
            row = -1 if tensor is None else self.find(tensor)
            if row >= 0:
                self.times[node.time] = row
        return row

    def find(self, tensor: Tensor) -> int:
        """The row that stands for this very tensor now; -1 for none."""
        for row in range(self.count - 1, -1, -1):
            held = self.ref[row]
            if held is not None and held() is tensor:
                return row
        return -1

    def tensor(self, row: int) -> Tensor | None:
        """The tensor itself, while the user still has it."""
        held = self.ref[row]
        return None if held is None else held()

    def value(self, row: int) -> Any:
        """The array of the row's result: the kept one, or the live tensor's. None when both are gone, and on the device "meta"."""
        array = self.kept.get(row)
        if array is None:
            tensor = self.tensor(row)
            array = None if tensor is None else tensor.array
        return None if array.__class__ is Meta else array

    def overwritten(self, row: int) -> bool:
        """Whether the memory of the row's result was written in place after the row was made."""
        array = self.value(row)
        return array is not None and versions.version(array) != self.versions.get(row, 0)

    def reachable(self, row: int) -> list[int]:
        """The rows that `row` depends on, itself included, in order."""
        needed = bytearray(row + 1)
        needed[row] = 1
        for at in range(row, -1, -1):
            if needed[at]:
                for source, _ in self.inputs(at):
                    needed[source] = 1
        return [at for at in range(row + 1) if needed[at]]

    def left_out(self) -> str:
        """What was not recorded, in a sentence; "" when everything was."""
        if self.passed_over:
            whole = self.turns - self.passed_over
            return (
                f"{whole:,} of {self.turns:,} turns of the training were recorded, the first ones and then those whose number is a "
                f"power of two. %%watch --every-turn records them all, as long as there is room."
            )
        full = f"{self.dropped:,} further ops were not recorded: the recording was full." if self.dropped else ""
        return full or (BOXED if self.boxed else "")

    def room(self) -> int:
        """Bytes of the arrays that are held to be looked at."""
        return self.kept_bytes

    def release(self) -> None:
        """Let go of all arrays."""
        constants = {row: x for row, x in self.kept.items() if self.kind[row] == "constant"}
        self.released += len(self.kept) - len(constants)
        for held in (self.held, self.held_bytes, self._newest):
            held.clear()
        self.kept, self.kept_bytes = constants, 0


def make_room() -> None:
    """Before a new recording begins, the oldest let go of their arrays until all of them together hold no more than one may."""
    held = list(recent)
    total = sum(r.room() for r in held)
    for recording in held:
        if total <= KEEP:
            return
        total -= recording.room()
        recording.release()
