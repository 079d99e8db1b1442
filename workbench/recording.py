"""A recording: what ran, as a table with one row for each op and each tensor or number that came from outside."""

from __future__ import annotations

import itertools
import os
from collections import deque
from dataclasses import dataclass
from types import CodeType
from typing import Any
from weakref import WeakValueDictionary, ref

from engine import inplace, tape
from engine.tensor import Tensor

KEEP = 256 << 20  # bytes of results that a recording holds so that they can be looked at later

# a block of memory: its size, how many need it, the row that made it, rows it is kept for, its storage's identity
BYTES, HOLDERS, ROW, KEPT, KEY = range(5)

_NONE: dict = {}  # the attributes of what has none
_numbers = itertools.count(1)
recent: WeakValueDictionary[str, Recording] = WeakValueDictionary()  # every recording that somebody still looks at, oldest first


@dataclass(frozen=True)
class Scope:
    """A call of a module or composite, or the user's own `with scope(...)`, that ops ran inside."""

    parent: int  # -1: the top
    kind: str  # "module", "function", "scope"
    name: str  # the qualified attribute path of a module where it is known
    label: str
    subject: int  # identity of the module, so that two calls of one module are known as such; 0 for others
    code: CodeType | None  # where it was entered
    lasti: int


class Recording:
    """The table. Columns only grow, and never hold a tensor.

    Arrays of results are held up to `keep` bytes, the oldest going first, so that a node can be looked at after its cell has ended.
    """

    def __init__(self, title: str = "", keep: int = KEEP) -> None:
        self.name = f"{next(_numbers)}-{os.urandom(4).hex()}"
        self.title = title
        self.keep = keep
        self.count = 0  # rows that are whole: a reader in another thread looks at no others
        self.dropped = 0  # ops that came after the recording was full
        self.root = -1
        self.live = False
        self.failure = -1  # the row of the op that failed
        self.passes = 0  # backward passes seen
        self.ops: list[Any] = []  # the engine's op, or None
        self.kind: list[str] = []
        self.scope: list[int] = []
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
        self.edge_end: list[int] = []  # edges up to and with this row's
        self.source: list[int] = []
        self.target: list[int] = []
        self.slot: list[int] = []
        self.scopes: list[Scope] = []
        self.modules: list[ref] = []  # outermost modules that ran: they name their parameters
        self.names: dict[int, str] = {}
        self.cells: dict[int, str] = {}  # the cell that ran the op, where a graph spans several
        self.times: dict[int, int] = {}  # the tape's time of a node -> row
        self.kept: dict[int, Any] = {}
        self.kept_bytes = 0
        self.released = 0  # rows whose kept array had to go
        self.versions: dict[int, int] = {}  # version of the storage when the row was made, where it was not 0
        # memory: what tensors, the tape and gradients need, not what the recording itself holds
        self.now = self.peak = 0
        self.peak_row = -1
        self.timeline: list[int] = []  # bytes after each event
        self.blocks: dict[int, list] = {}  # identity of a storage -> block
        self.savings: dict[int, list] = {}  # the tape's time of a node -> (block that it saves, place in `saved`)
        self.gradients: dict[int, ref] = {}  # row of a leaf -> its gradient's tensor
        self._queue: deque[int] = deque()  # rows whose arrays are held, oldest first
        self._held: dict[int, list] = {}  # such a row -> the block that its array lies in
        make_room()
        recent[self.name] = self

    # -- growing ----------------------------------------------------------------------------------------------------------

    def append(
        self, op: Any, kind: str, shape: tuple, dtype: Any, nbytes: int, grad: bool, *, scope: int = -1, code: CodeType | None = None,
        lasti: int = 0, saved: int = 0, note: str = "", attrs: dict | None = None, tensor: ref | None = None, sources: list | None = None,
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
        self.edge_end.append(len(self.source))
        self.count = row + 1
        return row

    def constant(self, x: Any, scope: int = -1) -> int:
        """Add a row for a number (or an array that is no tensor) among an op's operands."""
        row = self.append(None, "constant", tuple(getattr(x, "shape", ())), getattr(x, "dtype", type(x).__name__), 0, False, scope=scope)
        text = repr(x)
        self.names[row] = text if len(text) <= 24 else type(x).__name__
        self.kept[row] = x
        return row

    def hold(self, row: int, array: Any, block: list) -> None:
        """Keep the row's array, if the budget allows; older ones make room. A block costs once, however many rows lie in it."""
        if not block[KEPT]:
            if block[BYTES] > self.keep:
                return
            self.kept_bytes += block[BYTES]
        block[KEPT] += 1
        self.kept[row] = array
        self._held[row] = block
        self._queue.append(row)
        while self.kept_bytes > self.keep:
            old = self._queue.popleft()
            del self.kept[old]
            block = self._held.pop(old)
            block[KEPT] -= 1
            self.released += 1
            if not block[KEPT]:
                self.kept_bytes -= block[BYTES]

    # -- looking up -------------------------------------------------------------------------------------------------------

    def inputs(self, row: int) -> list[tuple[int, int]]:
        """`(source row, slot)` of each input."""
        begin = self.edge_end[row - 1] if row else 0
        return [(self.source[e], self.slot[e]) for e in range(begin, self.edge_end[row])]

    def op_name(self, row: int) -> str:
        """The op's name; "" for what no op made."""
        op = self.ops[row]
        return "" if op is None else op.name

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
        """The array of the row's result: the kept one, or the live tensor's. None when both are gone."""
        array = self.kept.get(row)
        if array is None:
            tensor = self.tensor(row)
            array = None if tensor is None else tensor.array
        return array

    def overwritten(self, row: int) -> bool:
        """Whether the memory of the row's result was written in place after the row was made."""
        array = self.value(row)
        return array is not None and inplace.version(array) != self.versions.get(row, 0)

    def reachable(self, row: int) -> list[int]:
        """The rows that `row` depends on, itself included, in order."""
        needed = bytearray(row + 1)
        needed[row] = 1
        for at in range(row, -1, -1):
            if needed[at]:
                for source, _ in self.inputs(at):
                    needed[source] = 1
        return [at for at in range(row + 1) if needed[at]]

    def release(self) -> None:
        """Let go of all arrays."""
        for block in self._held.values():
            block[KEPT] = 0
        self.released += len(self._queue)
        self._queue.clear()
        self._held.clear()
        self.kept = {row: x for row, x in self.kept.items() if self.kind[row] == "constant"}
        self.kept_bytes = 0


def make_room() -> None:
    """Before a new recording begins, the oldest let go of their arrays until all of them together hold no more than one may."""
    held = list(recent.values())
    total = sum(r.kept_bytes for r in held)
    for recording in held:
        if total <= KEEP:
            return
        total -= recording.kept_bytes
        recording.release()
