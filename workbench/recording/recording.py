"""A table of what ran, with one row for each op and for each tensor or scalar from outside."""

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

from numpy import generic, ndarray

from engine.backends.meta import Meta
from engine.core import tape, versions
from engine.core.tensor import Tensor

from ..base.readable import readable
from ..base.recent import Recent
from .sites import line_of
from .waits import Waits
from .witness import Witness

KEEP = 256 << 20  # bytes of results that a recording keeps for viewing

# a block of memory: its size, number of holders, the row that made it, its number (an index into `events`), its storage's id
BYTES, HOLDERS, ROW, NUMBER, KEY = range(5)
EVENT, USE = Struct("qqq").pack, Struct("qqqq").pack  # the format of one entry of `events` and `uses`; faster than appending single values

_NONE: dict = {}  # shared by rows without attributes
_numbers = itertools.count(1)
recent: Recent[Recording] = Recent()  # every recording still in use, oldest first


class Watch(ref):
    """A weak reference to an object that uses memory while it lives: a tensor or a gradient."""

    __slots__ = ("key", "block")
    key: int  # id of a tensor; 0 for a gradient
    block: list | None  # None once its death is recorded


class Saving(ref):
    """A weak reference to a node of the tape, with the ids of the storages that it saves, which live as long as the node.

    These are ints rather than blocks, so that the garbage collector has nothing to traverse.
    """

    __slots__ = ("time", "keys")
    time: int
    keys: tuple[int, ...]


class Scope(NamedTuple):
    """A call of a module or composite op, or the user's own `with scope(...)`, inside which ops ran."""

    parent: int  # -1 at the top level
    kind: str  # "module", "function", "scope"
    name: str  # for a module its qualified attribute path, if known
    label: str
    subject: int  # id of the module, which identifies two calls of one module; 0 for others
    code: CodeType | None  # where it was entered
    lasti: int


BOXED = (
    "Module calls were not recorded. Boxes are inferred from the parameters that each op uses, or from the ops around it. "
    "Use %%watch on the forward pass for exact boxes."
)


class Recording:
    """The table. Columns only grow, and never hold a tensor.

    Result arrays are kept up to `keep` bytes, dropping the oldest first, so that a node can be inspected after its cell has ended.
    """

    slowed = True  # the recorder took time while the code ran
    distance: list[float] | None = None  # when comparing two recordings, the distance between each row's values

    @property
    def foreign(self) -> Any:
        """The recording itself if it is of another library's tensors, which only it can query; None for the engine's."""
        return None

    def __init__(self, title: str = "", keep: int = KEEP) -> None:
        self.name = f"{next(_numbers)}-{os.urandom(4).hex()}"
        self.title = readable(title)
        self.keep = keep
        self.count = 0  # complete rows; readers in other threads use only these
        self.dropped = 0  # ops that were not recorded
        self.turns = self.passed_over = 0  # iterations of a training loop: how many have ended, how many of them were not recorded
        self.root = -1
        self.live = False
        self.failure = -1  # the row of the op that failed
        self.passes = 0  # backward passes seen
        self.waits = Waits()  # where the host waited for a GPU
        self.witness = Witness()  # facts that have no row
        self.ops: list[Any] = []  # the engine's op, or None
        self.kind: list[str] = []
        self.scope: list[int] = []
        self.boxed = False  # module calls were not recorded, but inferred from parameters
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
        self.begun = array("d")  # when the op began, by `time.perf_counter()`; NaN if not measured
        self.took = array("d")  # seconds that it ran; NaN if not measured
        self.marks: dict[int, tuple] = {}  # row -> marks in a GPU's stream before and after the op, until `timing.settle` reads them
        self.gpu: dict[int, int] = {}  # row of a result on a GPU -> the GPU's index
        self.reached: dict[int, tuple] = {}  # GPU -> the last of these marks that was read, and the time when it was reached
        self.edge_end: list[int] = []  # the number of edges up to and including this row
        self.source: list[int] = []
        self.target: list[int] = []
        self.slot: list[int] = []
        self.scopes: list[Scope] = []
        self.loadings: list[tuple[int, CodeType, int]] = []  # where a pass over a DataLoader began: the next row, and the user's line
        self.modules: list[ref] = []  # outermost modules that ran: they name their parameters
        self.names: dict[int, str] = {}
        self.cells: dict[int, str] = {}  # the cell that ran the op, if a graph spans several
        self.times: dict[int, int] = {}  # the tape's time of a node -> row
        self.kept: dict[int, Any] = {}
        self.kept_bytes = 0
        self.released = 0  # rows whose kept array was dropped
        self._texts: dict[tuple, str] = {}  # texts of scalars among the operands
        self.versions: dict[int, int] = {}  # version of the storage when the row was made, if not 0
        # backward steps in the order they ran, in all passes
        self.steps = array("l")  # the node's row; -1 if it is not in the recording
        self.step_ops: list[Any] = []  # the engine's op; None if a leaf received its gradient
        self.step_begun, self.step_took = array("d"), array("d")
        self.step_marks: dict[int, tuple] = {}
        self.began = perf_counter()
        self.ended = nan
        # memory that tensors, the tape and gradients use, not what the recording itself holds
        self.now = self.peak = 0
        self.peak_row = -1
        self.events = array("q")  # triples: number of a block, bytes allocated or (negative) freed, `where`; see memory_use
        self.uses = array("q")  # number of a block, the tape's time of a node that saves it, index in `saved`, events so far
        self.freed: dict[int, int] = {}  # the tape's time of a node that freed its saved tensors -> length of `events` then
        self.roles: dict[int, tuple[str, int]] = {}  # number of a block that no op made -> its role, and its row
        self.dropped_at: dict[int, int] = {}  # number of a block that outlived a tensor on it -> length of `events` when that tensor died
        self.others: dict[int, ref] = {}  # number of a block -> the optimizer state stored there
        self.step = -1  # the running backward step; -1 for none
        self.blocks: dict[int, list] = {}  # id of a storage -> block
        self.savings: dict[int, Any] = {}  # the tape's time of a node that saves tensors -> its weak reference
        # Objects that have died, until someone reads them. A death only appends here: Python code run there would swallow a user's
        # interrupt, and could run in any thread.
        self.dead: list[Watch | Saving] = []
        self.rows: dict[int, int] = {}  # id of a live tensor -> row
        self._settling, self._thread = Lock(), get_ident()
        self.watches: dict[int, Watch] = {}  # watches that no row holds, by their own id: a discarded one would report no death
        self.gradients: dict[int, ref] = {}  # row of a leaf -> its gradient's tensor
        # Most rows keep an array that owns its storage and need no entry here; for the others:
        self.held: dict[int, int] = {}  # row -> id of the storage of its array
        self.held_bytes: dict[int, int] = {}  # id of such a storage -> its size
        self._newest: dict[int, int] = {}  # id of such a storage, if several rows share it -> the newest of them
        self._oldest = 0  # no row before this one is kept
        make_room()
        recent.add(self)

    # -- growing ----------------------------------------------------------------------------------------------------------

    def append(
        self, op: Any, kind: str, shape: tuple, dtype: Any, nbytes: int, grad: bool, *, scope: int = -1, code: CodeType | None = None,
        lasti: int = 0, saved: int = 0, note: str = "", attrs: dict | None = None, tensor: ref | None = None, sources: list | None = None,
        begun: float = nan, took: float = nan,
    ) -> int:  # fmt: skip
        """Add a row and return its number. `sources` are the rows of its inputs, -1 for none."""
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
        """Add a row for a value that no op made and return its number."""
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
        """Add a row for a scalar (or an array that is not a tensor) among an op's operands and return its number."""
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

    def placed(self, row: int, array: Any) -> None:
        """Note the GPU of a row's array, if it is on one."""
        index = None if isinstance(array, (ndarray, generic)) else getattr(getattr(array, "data", None), "device_id", None)
        if index is not None:
            self.gpu[row] = index

    def device(self, row: int) -> str:
        """The device of a row's result, such as "cuda:0"; "" for the CPU."""
        return f"cuda:{self.gpu[row]}" if row in self.gpu else ""

    def hold(self, row: int, array: Any, block: list) -> None:
        """Keep the row's array within the budget; older arrays are dropped. A block counts once, however many rows share it."""
        nbytes, _, made, _, key = block
        kept = self.kept
        if key in self._newest or key in self.held_bytes or made != row and id(kept.get(made)) == key:
            self._newest[key] = row  # already counted, for the row that made it or another row on it
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
        """Show another recording's array here, without counting it."""
        self.kept[row], self.held[row] = array, 0

    def let_go(self) -> None:
        """Drop the oldest arrays until the others are within the budget."""
        while self.kept_bytes > self.keep and self._oldest < self.count:
            row, self._oldest = self._oldest, self._oldest + 1
            if row not in self.kept or self.kind[row] == "constant":
                continue
            array = self.kept.pop(row)
            self.released += 1
            key = self.held.pop(row, None)
            if key is None:  # owns its storage; later rows may share it
                if id(array) not in self._newest:
                    self.kept_bytes -= array.nbytes
            elif key and self._newest.get(key, row) == row:
                self._newest.pop(key, None)
                size = self.held_bytes.pop(key, None)
                self.kept_bytes -= versions.storage(array).nbytes if size is None else size

    def unhold(self, row: int) -> None:
        """Drop what is kept for a row that was rolled back."""
        self.kept.pop(row, None)
        self.held.pop(row, None)
        newest = {key: at for at, key in sorted(self.held.items()) if key}
        self._newest = {key: newest[key] for key in self._newest if key in newest}
        self.held_bytes = {key: size for key, size in self.held_bytes.items() if key in newest}
        self.kept_bytes = sum(self._held_sizes().values())

    def held_alone(self) -> int:
        """Bytes that only the recording holds."""
        self.settle()
        return sum(size for key, size in self._held_sizes().items() if key not in self.blocks)

    def _held_sizes(self) -> dict[int, int]:
        """The id and size of each storage used by kept arrays."""
        sizes = dict(self.held_bytes)
        for row, x in list(self.kept.items()):
            key = self.held.get(row)
            if key is None and self.kind[row] != "constant":
                sizes[id(x)] = x.nbytes
            elif key and key not in sizes:  # the row that made it, which counted it, is gone
                sizes[key] = versions.storage(x).nbytes
        return sizes

    def need(self, key: int, nbytes: int, row: int, holders: int = 0, where: int | None = None) -> list:
        """Create a memory block for the storage with that id. `where` is the row that allocates it by default; ~k for backward step k."""
        events = self.events
        number = len(events)
        block = self.blocks[key] = [nbytes, holders, row, number, key]
        now = self.now = self.now + nbytes
        if now > self.peak:
            self.peak, self.peak_row = now, row
        events.frombytes(EVENT(number, nbytes, row if where is None else where))  # at once: a death may be recorded in between
        return block

    def forget(self, block: list) -> None:
        """Free a block that has no holders any more."""
        nbytes, _, _, number, key = block
        if self.blocks.get(key) is block:
            del self.blocks[key]
            self.now -= nbytes
            self.events.frombytes(EVENT(number, -nbytes, self.count if self.step < 0 else ~self.step))

    def settle(self) -> None:
        """Record pending deaths before memory is read. While the code runs, only its own thread does so."""
        with self._settling:
            if not self.live or get_ident() == self._thread:
                self.write_deaths()

    def write_deaths(self) -> None:
        """Record pending deaths, before an id is reused by another tensor. An interrupt leaves the rest for the next call."""
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
        """Release the saved arrays of the node with that time. Must be called while they, or at least their blocks, exist."""
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
        """The op's name; "" for a row that no op made."""
        op = self.ops[row]
        return "" if op is None else op.name

    def called(self, row: int) -> str:
        """The row's description in sentences: the user's name for it, else its op or kind, and its line if known: "add, line 3"."""
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
        """The row of a node of the tape; -1 if it is not in the recording. Several results share the row of their op."""
        row = self.times.get(node.time, -1)
        if row < 0 and isinstance(node, tape.Leaf):
            tensor = node.tensor()
            row = -1 if tensor is None else self.find(tensor)
            if row >= 0:
                self.times[node.time] = row
        return row

    def find(self, tensor: Tensor) -> int:
        """The row that represents this very tensor now; -1 for none."""
        for row in range(self.count - 1, -1, -1):
            held = self.ref[row]
            if held is not None and held() is tensor:
                return row
        return -1

    def tensor(self, row: int) -> Tensor | None:
        """The row's tensor, while the user still holds it."""
        held = self.ref[row]
        return None if held is None else held()

    def value(self, row: int) -> Any:
        """The array of the row's result, kept or of the live tensor. None if both are gone, and on the device "meta"."""
        array = self.kept.get(row)
        if array is None:
            tensor = self.tensor(row)
            array = None if tensor is None else tensor.array
        return None if array.__class__ is Meta else array

    def overwritten(self, row: int) -> bool:
        """Whether the storage of the row's result was written in place after the row was made."""
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
        """A sentence about what was not recorded; "" if everything was."""
        if self.passed_over:
            whole = self.turns - self.passed_over
            return (
                f"{whole:,} of {self.turns:,} training iterations were recorded: the first ones, then those whose number is a power of "
                f"two. %%watch --every-turn records all, as long as there is room."
            )
        full = f"{self.dropped:,} further ops were not recorded: the recording was full." if self.dropped else ""
        return full or (BOXED if self.boxed else "")

    def room(self) -> int:
        """Bytes of the arrays that are kept for viewing."""
        return self.kept_bytes

    def release(self) -> None:
        """Drop all kept arrays."""
        constants = {row: x for row, x in self.kept.items() if self.kind[row] == "constant"}
        self.released += len(self.kept) - len(constants)
        for held in (self.held, self.held_bytes, self._newest):
            held.clear()
        self.kept, self.kept_bytes = constants, 0


def make_room() -> None:
    """Drop arrays of the oldest recordings until all together hold no more than one may, before a new recording begins."""
    held = list(recent)
    total = sum(r.room() for r in held)
    for recording in held:
        if total <= KEEP:
            return
        total -= recording.room()
        recording.release()
