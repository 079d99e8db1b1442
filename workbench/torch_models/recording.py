"""A recording of PyTorch ops: maps tensors and graph nodes to rows, and tracks which memory they need."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from typing import TYPE_CHECKING, Any, Protocol
from weakref import ref

import numpy

from .. import protocol
from ..recording.recording import HOLDERS, KEEP, KEY, NUMBER, USE, Recording
from . import arrays, refusals, words
from .loaded import is_tensor, torch
from .saved import freed
from .witness import TorchWitness

if TYPE_CHECKING:
    from .passes import TorchPass

_numbers = count(1)

# The target of one of a node's gradients: row and mark number of the node that made the input, and the index of its result.
# Only integers, so that the garbage collector has nothing to traverse and no node holds another node's mark.
Target = tuple[int, int, int]


class _Watch(ref):
    """A weak reference to a tensor, with its identity and its block of memory."""

    __slots__ = ("key", "block")
    key: int
    block: list


class Listener(Protocol):
    """An object that is notified when a node has run."""

    def ran(self, mark: Mark, gradients: tuple, upstream: tuple) -> None: ...


class Mark:
    """The mark of a node of PyTorch's graph, stored in the node's `metadata`: it holds the row that the node is a part of.

    It is also the node's hook, because a graph has many nodes and every further object per node slows down garbage collection.
    """

    __slots__ = ("row", "number", "name", "targets", "told", "_recording", "__weakref__")
    name: str  # PyTorch's name of the node
    targets: tuple[Target | None, ...] | None  # of its gradients, None for an input without one; None as a whole for a leaf's node
    told: ref[Listener]

    def __init__(self, row: int, recording: ref[TorchRecording]) -> None:
        self.row, self.number, self._recording = row, next(_numbers), recording

    def __call__(self, gradients: tuple, upstream: tuple) -> None:
        """The hook: the node has turned `upstream` into `gradients` of its inputs. Returns None, so that PyTorch keeps the gradients."""
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
    """A Recording of PyTorch tensors. It keeps no tensors or nodes alive, except values within the budget."""

    @property
    def foreign(self) -> TorchRecording:
        """The recording itself, which answers the inspector's queries for PyTorch tensors."""
        return self

    def __init__(self, title: str = "", keep: int = KEEP) -> None:
        super().__init__(title, keep)
        self.witness: TorchWitness = TorchWitness()
        self.begin: Callable[[TorchRecording, Any, Any], TorchPass] | None = None  # runs a pass that the code has not run: stepping.begin
        self.records: list[ref[TorchPass]] = []  # of its passes, held by a view
        self.key = f"gradient workbench {self.name}"  # of the marks in nodes' metadata
        self._rows: dict[int, int] = {}  # identity of a live tensor -> row
        self._watches: dict[int, _Watch] = {}
        self.hooks: dict[int, Any] = {}  # mark number -> handle of the hook of a live node; ~number: handle of a leaf's prehook
        self._data: dict[int, int] = {}  # row of a `.data` tensor -> row of the tracked tensor
        self._cut: dict[int, tuple[ref, int]] = {}  # identity of a `.data` tensor not used yet -> the tensor and the tracked row
        self._changed: dict[int, int] = {}  # row -> PyTorch's version counter of the tensor when the row was made
        me = self._me = ref(self)

        def died(watch: Any) -> None:
            recording = me()
            if recording is not None and recording._watches.pop(id(watch), None) is not None:
                recording._died(watch)

        self._on_death = died

    # -- passes --------------------------------------------------------------------------------------------------------------

    def room(self) -> int:
        """Bytes held for inspection: values, and gradients of its passes."""
        return super().room() + sum(record.kept_bytes for record in self._records())

    def release(self) -> None:
        """Release all arrays, including gradients."""
        super().release()
        for record in self._records():
            record.let_go()

    def passed(self, record: TorchPass) -> None:
        """Register the record of a pass through the recorded graph."""
        self.records = [*(held for held in self.records if held() is not None), ref(record)]

    def _records(self) -> list[TorchPass]:
        return [record for held in self.records if (record := held()) is not None]

    # -- tensors -------------------------------------------------------------------------------------------------------------

    def stands(self, tensor: Any, row: int, keep: bool = True) -> None:
        """Assign the tensor to this row. If `keep`, its value is held within the budget."""
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
        """Use a tensor that only the graph holds as the value of the row."""
        if row not in self.kept and self.ref[row] is None:
            self._keep(tensor, row, self._block(tensor, row))

    def _keep(self, tensor: Any, row: int, block: list) -> None:
        if arrays.ordinary(tensor) or not (arrays.wrapped(tensor) or tensor.is_meta):
            self._changed.setdefault(row, writes_to(tensor))
            self.hold(row, tensor.detach(), block)

    def leaf(self, tensor: Any, scope: int = -1) -> int:
        """Add a row for a leaf or input tensor."""
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
        """Note that `tensor` is the `.data` of `tracked`."""
        row, key, cut = self.row_of(tracked), id(tensor), self._cut
        if row >= 0 and self.grad[row]:
            cut[key] = ref(tensor, lambda _: cut.pop(key, None)), row

    def detached(self) -> dict[int, int]:
        """Map rows made by detach() or .data to the rows that they were detached from."""
        by_op = {row: self.inputs(row)[0][0] for row in range(self.count) if self.op_name(row) == "detach" and self.inputs(row)}
        return {**self._data, **by_op}

    def tensor_row(self, op: Any, kind: str, tensor: Any, **more: Any) -> int:
        """Add a row with shape, dtype, device and bytes of this tensor."""
        if tensor.device.type == "cuda":
            self.gpu[self.count] = tensor.device.index
        if arrays.ordinary(tensor):
            shape, dtype = tuple(tensor.shape), arrays.dtype_of(tensor)
            return self.append(op, kind, shape, dtype, tensor.nbytes, tensor.requires_grad, **more)
        more["note"] = "; ".join(filter(None, (more.get("note", ""), arrays.unusual(tensor))))
        size = 0 if arrays.wrapped(tensor) else arrays.bytes_of(tensor)
        return self.append(op, kind, arrays.shape_of(tensor), arrays.dtype_of(tensor), size, tensor.requires_grad, **more)

    # -- nodes ---------------------------------------------------------------------------------------------------------------

    def marked(self, node: Any) -> Mark | None:
        """The mark of a node of PyTorch's graph; None if the recording lacks the node."""
        return node.metadata.get(self.key)

    def mark(self, node: Any, row: int) -> Mark:
        """Mark the node as a part of this row, and return the mark."""
        mark = node.metadata[self.key] = Mark(row, self._me)
        return mark

    def saves(self, mark: Mark, saved: list) -> int:
        """Note that the node saves these tensors for backward until it dies or is freed, and return their bytes."""
        keys, total, known = [], 0, self.blocks.keys()
        for tensor in saved:
            internal = _storage(tensor)[0] not in known  # not the memory of a recorded tensor
            block = self._block(tensor, mark.row)
            block[HOLDERS] += 1
            keys.append(block[KEY])
            total += arrays.bytes_of(tensor)
            if block[NUMBER] >= 0:
                self.uses.frombytes(USE(block[NUMBER], -mark.number, -1, len(self.events)))  # -1: not an index of the engine's rules
                if internal:
                    self.roles[block[NUMBER]] = "saved", mark.row
        if keys:
            self.times[-mark.number] = mark.row
            self.savings[-mark.number] = tuple(keys)
        return total

    def settle(self) -> None:
        """Find nodes that an unwatched pass has freed, by checking the live ones."""
        super().settle()
        if self.live or not self.savings:
            return
        tensors = [tensor for watch in list(self._watches.values()) if (tensor := watch()) is not None]
        todo = [tensor.grad_fn for tensor in tensors if tensor.grad_fn is not None]
        seen = set(todo)
        for node in todo:
            mark = self.marked(node)
            if mark is not None and -mark.number in self.savings and freed(node):
                self.free(mark.number)
            before = {source for source, _ in node.next_functions if source is not None and source not in seen}
            seen |= before
            todo += before

    def free(self, number: int) -> None:
        """Note that the node with this mark has freed its saved tensors."""
        if -number in self.savings:
            self.freed[-number] = len(self.events)
        for key in self.savings.pop(-number, ()):
            if (block := self.blocks.get(key)) is not None:
                self._release(block)

    def gradient_of(self, row: int) -> None:
        """Track the `.grad` of a leaf for the memory view."""
        tensor = self.its(row)
        gradient = None if tensor is None else tensor.grad
        held = self.gradients.get(row)
        if gradient is None or held is not None and held() is gradient:
            return
        block = self._block(gradient, row)
        block[HOLDERS] += 1
        self.roles[block[NUMBER]] = "gradient", row
        watch = _Watch(gradient, self._on_death)
        watch.key, watch.block = 0, block  # it has no row
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
        """The row of a node of PyTorch's graph or of a tensor; -1 if it is not in the recording."""
        if is_tensor(node):
            row = self.find(node)
            return row if row >= 0 or node.grad_fn is None else self.row_of(node.grad_fn)
        metadata = getattr(node, "metadata", None)
        mark = metadata.get(self.key) if isinstance(metadata, dict) else None
        return -1 if mark is None else mark.row

    def its(self, row: int) -> Any:
        """The PyTorch tensor of a row while it is alive, else None."""
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
        """Yield the parameters of the modules that ran which no recorded op used."""
        seen: set[int] = set()
        for held in self.modules:
            module = held()
            for name, parameter in () if module is None else module.named_parameters():
                if self.find(parameter) < 0 and id(parameter) not in seen:
                    seen.add(id(parameter))
                    yield name, arrays.Seen(parameter)

    def answer(self, request: Any) -> protocol.ToView | None:
        """The substitute answer to a request that only the engine could answer; None if it can be answered normally."""
        return refusals.answer(self, request)

    # -- queries of the inspector --------------------------------------------------------------------------------------------

    def facts(self, row: int) -> list[protocol.Fact]:
        """The inspector's header of a row."""
        return words.facts(self, row)

    def why_no_grad(self, row: int) -> str:
        """Why the row has no gradient, in PyTorch's terms."""
        return words.why_no_grad(self, row)

    def gone(self, row: int) -> str:
        """Why the row has no value; "" if the budget was too small for it."""
        found = self.its(row)
        if found is not None:
            return "" if arrays.numpy_of(found) is not None else arrays.unusual(found)
        if self.released or self.bytes[row] > self.keep:
            return ""
        return "PyTorch did not save this value for backward, and the program has freed it. `with wb.watch(): ...` records every value."

    # -- memory --------------------------------------------------------------------------------------------------------------

    def alive(self) -> Iterator[tuple[int, int]]:
        """Yield `(storage, row)` of the live tensors."""
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
    """PyTorch's version counter of a tensor; 0 for inference tensors, which have none."""
    return 0 if tensor.is_inference() else tensor._version


def _storage(tensor: Any) -> tuple[int, int]:
    """Address and bytes of the tensor's storage; address 0 if it has none that identifies it."""
    if not arrays.ordinary(tensor) and (not arrays.strided(tensor) or tensor.is_meta):
        return 0, 0 if arrays.wrapped(tensor) else arrays.bytes_of(tensor)
    storage = tensor.untyped_storage()
    return storage.data_ptr(), storage.nbytes()
