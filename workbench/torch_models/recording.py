"""A recording of PyTorch's ops: which row a tensor and a node of PyTorch's graph stand at, and whose memory is needed by whom."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import TYPE_CHECKING, Any, Protocol
from weakref import ref

import numpy

from .. import protocol
from ..recording import HOLDERS, KEEP, KEY, NUMBER, USE, Recording
from . import arrays, refusals, words
from .loaded import is_tensor, torch
from .witness import TorchWitness

if TYPE_CHECKING:
    from .passes import TorchPass

_numbers = count(1)

# Where one of a node's gradients goes: the row and the number of the mark of the node that made that input, and which of its results it is.
# Numbers alone: the garbage collector has nothing to look through, and no node holds a mark but its own.
Target = tuple[int, int, int]


class _Watch(ref):
    """A weak reference to a tensor, with its identity and its block of memory."""

    __slots__ = ("key", "block")
    key: int
    block: list


class Listener(Protocol):
    """Who wants to know that a node ran."""

    def ran(self, mark: Mark, gradients: tuple, upstream: tuple) -> None: ...


class Mark:
    """Hangs on a node of PyTorch's graph, in its `metadata`, and dies with it. It says which row the node is a part of.

    It is the node's hook too: a graph has many nodes, and each object that hangs there is one more that every garbage collection looks at.
    """

    __slots__ = ("row", "number", "name", "targets", "told", "_recording", "__weakref__")
    name: str  # PyTorch's of the node
    targets: tuple[Target | None, ...] | None  # where its gradients go, None: no gradient does; None in all: into a leaf's .grad
    told: ref[Listener]

    def __init__(self, row: int, recording: ref[TorchRecording]) -> None:
        self.row, self.number, self._recording = row, next(_numbers), recording

    def __call__(self, gradients: tuple, upstream: tuple) -> None:
        """The node has turned `upstream` into `gradients` of its inputs. Nothing is returned: what PyTorch computes stays as it is."""
        listener = self.told()
        if listener is not None:
            listener.ran(self, gradients, upstream)

    def __del__(self) -> None:
        recording = self._recording()
        if recording is not None:
            recording.hooks.pop(self.number, None)
            if self.targets is None:
                recording.hooks.pop(~self.number, None)
            recording.free(self.number)


class TorchRecording(Recording):
    """A Recording of tensors that are PyTorch's. No tensor and no node lives longer for it, but for values within the budget."""

    @property
    def foreign(self) -> TorchRecording:
        """It answers the inspector's questions itself."""
        return self

    def __init__(self, title: str = "", keep: int = KEEP) -> None:
        super().__init__(title, keep)
        self.witness: TorchWitness = TorchWitness()
        self.records: list[ref[TorchPass]] = []  # of its passes: a view has them
        self.key = f"gradient workbench {self.name}"  # of the marks
        self._rows: dict[int, int] = {}  # identity of a live tensor -> row
        self._watches: dict[int, _Watch] = {}
        self.hooks: dict[int, Any] = {}  # number of a mark -> handle of its hook, while the node lives; ~number: of a leaf's other hook
        self._data: dict[int, int] = {}  # row of what .data gave -> the tracked row that it was asked of
        self._cut: dict[int, tuple[ref, int]] = {}  # identity of such a tensor that no op has used yet -> it, and that row
        self._changed: dict[int, int] = {}  # row -> PyTorch's count of writes to the tensor when the row was made
        me = self._me = ref(self)

        def died(watch: Any) -> None:
            recording = me()
            if recording is not None and recording._watches.pop(id(watch), None) is not None:
                recording._died(watch)

        self._on_death = died

    # -- passes --------------------------------------------------------------------------------------------------------------

    def room(self) -> int:
        """Bytes of what is held to be looked at: values, and the gradients of its passes."""
        return super().room() + sum(record.kept_bytes for record in self._records())

    def release(self) -> None:
        """Let go of all arrays, gradients too."""
        super().release()
        for record in self._records():
            record.let_go()

    def passed(self, record: TorchPass) -> None:
        """The record of a pass through it is made."""
        self.records = [*(held for held in self.records if held() is not None), ref(record)]

    def _records(self) -> list[TorchPass]:
        return [record for held in self.records if (record := held()) is not None]

    # -- tensors -------------------------------------------------------------------------------------------------------------

    def stands(self, tensor: Any, row: int, keep: bool = True) -> None:
        """The tensor stands at this row from now on. Its numbers are held within the budget, if `keep` says so."""
        block = self._block(tensor, row)
        block[HOLDERS] += 1
        key = id(tensor)
        old = self._rows.get(key)
        if old is not None:
            self.ref[old] = None
        watch = _Watch(tensor, self._on_death)
        watch.key, watch.block = key, block
        self._watches[id(watch)] = watch
        self._rows[key] = row
        if self.ref[row] is None:
            self.ref[row] = watch
            self._changed[row] = writes_to(tensor)
            if keep:
                self._keep(tensor, row, block)

    def saw(self, tensor: Any, row: int) -> None:
        """These are the numbers of the row, though the tensor is only the graph's."""
        if row not in self.kept and self.ref[row] is None:
            self._keep(tensor, row, self._block(tensor, row))

    def _keep(self, tensor: Any, row: int, block: list) -> None:
        if arrays.ordinary(tensor) or not (arrays.wrapped(tensor) or tensor.is_meta):
            self._changed.setdefault(row, writes_to(tensor))
            self.hold(row, tensor.detach(), block)

    def leaf(self, tensor: Any, scope: int = -1) -> int:
        """A new row for a tensor that came from outside."""
        kind = "input"
        if tensor.requires_grad and tensor.is_leaf:
            kind = "parameter" if isinstance(tensor, torch().nn.Parameter) else "leaf"
        row = self.tensor_row(None, kind, tensor, scope=scope)
        self.stands(tensor, row, keep=kind == "input")  # the user holds leaves
        known, before = self._cut.pop(id(tensor), (None, -1))
        if known is not None and known() is tensor:
            self._data[row] = before
        return row

    def cut_off(self, tensor: Any, tracked: Any) -> None:
        """`tensor` is what `.data` of another one gave."""
        row, key, cut = self.row_of(tracked), id(tensor), self._cut
        if row >= 0 and self.grad[row]:
            cut[key] = ref(tensor, lambda _: cut.pop(key, None)), row

    def detached(self) -> dict[int, int]:
        """Rows that detach() or .data made -> the row that they were detached from."""
        by_op = {row: self.inputs(row)[0][0] for row in range(self.count) if self.op_name(row) == "detach" and self.inputs(row)}
        return {**self._data, **by_op}

    def tensor_row(self, op: Any, kind: str, tensor: Any, **more: Any) -> int:
        """A new row with the facts of this result."""
        if arrays.ordinary(tensor):
            shape, dtype = tuple(tensor.shape), arrays.dtype_of(tensor)
            return self.append(op, kind, shape, dtype, tensor.nbytes, tensor.requires_grad, **more)
        more["note"] = "; ".join(filter(None, (more.get("note", ""), arrays.unusual(tensor))))
        size = 0 if arrays.wrapped(tensor) else arrays.bytes_of(tensor)
        return self.append(op, kind, arrays.shape_of(tensor), arrays.dtype_of(tensor), size, tensor.requires_grad, **more)

    # -- nodes ---------------------------------------------------------------------------------------------------------------

    def marked(self, node: Any) -> Mark | None:
        """The mark of a node of PyTorch's graph; None when the node is not in the recording."""
        return node.metadata.get(self.key)

    def mark(self, node: Any, row: int) -> Mark:
        """The node is a part of this row."""
        mark = node.metadata[self.key] = Mark(row, self._me)
        return mark

    def saves(self, mark: Mark, saved: list) -> int:
        """The node keeps these tensors for its backward, as long as it lives or until it is freed. Their bytes."""
        keys, total, known = [], 0, self.blocks.keys()
        for tensor in saved:
            internal = _storage(tensor)[0] not in known  # no tensor of the program lies there
            block = self._block(tensor, mark.row)
            block[HOLDERS] += 1
            keys.append(block[KEY])
            total += arrays.bytes_of(tensor)
            if block[NUMBER] >= 0:
                self.uses.frombytes(USE(block[NUMBER], -mark.number, -1, len(self.events)))  # the place is PyTorch's, and no rule's of ours
                if internal:
                    self.roles[block[NUMBER]] = "saved", mark.row
        if keys:
            self.times[-mark.number] = mark.row
            self.savings[-mark.number] = tuple(keys)
        return total

    def settle(self) -> None:
        """A pass that nobody watched may have freed what nodes saved: those that are still there are asked."""
        super().settle()
        if self.live or not self.savings:
            return
        from . import nodes  # it imports this module

        tensors = [tensor for watch in list(self._watches.values()) if (tensor := watch()) is not None]
        todo = [tensor.grad_fn for tensor in tensors if tensor.grad_fn is not None]
        seen = set(todo)
        for node in todo:
            mark = self.marked(node)
            if mark is not None and -mark.number in self.savings and nodes.freed(node):
                self.free(mark.number)
            before = {source for source, _ in node.next_functions if source is not None and source not in seen}
            seen |= before
            todo += before

    def free(self, number: int) -> None:
        """The node with this mark keeps nothing any more."""
        if -number in self.savings:
            self.freed[-number] = len(self.events)
        for key in self.savings.pop(-number, ()):
            if (block := self.blocks.get(key)) is not None:
                self._release(block)

    def gradient_of(self, row: int) -> None:
        """`.grad` of a leaf, in the memory view."""
        tensor = self.its(row)
        gradient = None if tensor is None else tensor.grad
        held = self.gradients.get(row)
        if gradient is None or held is not None and held() is gradient:
            return
        block = self._block(gradient, row)
        block[HOLDERS] += 1
        self.roles[block[NUMBER]] = "gradient", row
        watch = _Watch(gradient, self._on_death)
        watch.key, watch.block = 0, block  # it stands at no row
        self._watches[id(watch)] = watch
        self.gradients[row] = watch

    # -- looking up ----------------------------------------------------------------------------------------------------------

    def find(self, tensor: Any) -> int:
        row = self._rows.get(id(tensor), -1)
        if row < 0:
            return -1
        held = self.ref[row]
        return row if held is None or held() is tensor or self.kind[row] == "op" else -1

    def row_of(self, node: Any) -> int:
        """The row of a node of PyTorch's graph, or of a tensor; -1 when it is not in the recording."""
        if is_tensor(node):
            row = self.find(node)
            return row if row >= 0 or node.grad_fn is None else self.row_of(node.grad_fn)
        metadata = getattr(node, "metadata", None)
        mark = metadata.get(self.key) if isinstance(metadata, dict) else None
        return -1 if mark is None else mark.row

    def its(self, row: int) -> Any:
        """PyTorch's tensor, while the user still has it."""
        held = self.ref[row]
        return None if held is None else held()

    def tensor(self, row: int) -> Any:
        found = self.its(row)
        return None if found is None else arrays.Seen(found)

    def value(self, row: int) -> numpy.ndarray | Any:
        kept = self.kept.get(row)
        if self.kind[row] == "constant":
            return kept
        found = self.its(row) if kept is None else kept
        return None if found is None else arrays.numpy_of(found)

    def overwritten(self, row: int) -> bool:
        found = self.kept.get(row)
        found = self.its(row) if found is None else found
        return is_tensor(found) and writes_to(found) != self._changed.get(row, 0)

    def unused(self) -> Iterator[tuple[str, Any]]:
        """Parameters of the modules that ran, which no recorded op used."""
        seen: set[int] = set()
        for held in self.modules:
            module = held()
            for name, parameter in () if module is None else module.named_parameters():
                if self.find(parameter) < 0 and id(parameter) not in seen:
                    seen.add(id(parameter))
                    yield name, arrays.Seen(parameter)

    def answer(self, request: Any) -> protocol.ToView | None:
        """What a view is told in place of what only the engine could answer; None where there is a real answer."""
        return refusals.answer(self, request)

    # -- what the inspector asks ---------------------------------------------------------------------------------------------

    def facts(self, row: int) -> list[protocol.Fact]:
        """The inspector's header of a row."""
        return words.facts(self, row)

    def why_no_grad(self, row: int) -> str:
        """Why there is no gradient to show, in PyTorch's own terms."""
        return words.why_no_grad(self, row)

    def gone(self, row: int) -> str:
        """Why there are no numbers; "" where it is the budget that had no room for them."""
        found = self.its(row)
        if found is not None:
            return "" if arrays.numpy_of(found) is not None else arrays.unusual(found)
        if self.released or self.bytes[row] > self.keep:
            return ""
        return "PyTorch did not save this value for backward, and the program has let go of it. `with wb.watch(): ...` records every value."

    # -- memory --------------------------------------------------------------------------------------------------------------

    def alive(self) -> Iterator[tuple[int, int]]:
        """`(storage, row)` of the tensors that the program still has."""
        for watch in list(self._watches.values()):
            row = self._rows.get(watch.key)
            if row is not None:
                yield watch.block[KEY], row

    def _block(self, tensor: Any, row: int) -> list:
        key, size = _storage(tensor)
        block = self.blocks.get(key)
        if block is None:
            block = self.need(key, size, row) if key else [size, 0, row, -1, -1 - row]
        return block

    def _release(self, block: list) -> None:
        block[HOLDERS] -= 1
        if block[HOLDERS] == 0:
            self.forget(block)

    def _died(self, watch: _Watch) -> None:
        self._release(watch.block)
        row = self._rows.pop(watch.key, None)
        if row is not None and self.ref[row] is watch:
            self.ref[row] = None


def writes_to(tensor: Any) -> int:
    """PyTorch's count of the writes to a tensor's memory; 0 where it counts none."""
    return 0 if tensor.is_inference() else tensor._version


def _storage(tensor: Any) -> tuple[int, int]:
    """Address and bytes of the memory that the tensor lies in; address 0: none that could be told from others."""
    if not arrays.ordinary(tensor) and (not arrays.strided(tensor) or tensor.is_meta):
        return 0, 0 if arrays.wrapped(tensor) else arrays.bytes_of(tensor)
    storage = tensor.untyped_storage()
    return storage.data_ptr(), storage.nbytes()
