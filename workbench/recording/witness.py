"""Collects events of a recording that leave no row: passes, updates, modules' modes, non-finite gradients, the final error.

It costs a fraction of the recording itself, keeps no tensor alive, and draws no conclusions: the checks do that when the code has ended.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache, partial, wraps
from types import CodeType
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import ref

import numpy

from engine.backends.coo import Coo
from engine.backends.reduction import squares
from engine.core import devices, tape, versions
from engine.core.tensor import Tensor

from ..inspector import capturing, on_gpu, values
from . import late, not_finite
from .late import Late
from .not_finite import BadRow, BadStep

if TYPE_CHECKING:
    from .recording import Recording

Where = tuple[CodeType | None, int]
_OF_A_PASS = ("modified by an inplace operation", "backward through the graph a second time")

COPIES = 64 << 20  # bytes of parameters up to which they are copied to measure a step
MOST = 64  # events of one kind
LOOKED = 2  # leaves per pass of which the gradients are followed across passes


@lru_cache(1024)
def has_mode(cls: type) -> bool:
    """Whether modules of that class behave differently in training and evaluation mode."""
    return any(c.__name__.lstrip("_").startswith(("Dropout", "AlphaDropout", "BatchNorm")) for c in cls.__mro__)


class Pass(NamedTuple):
    """A backward pass."""

    root: int  # row of the loss; -1: unknown
    rows: int  # number of rows when it began
    where: Where


class Update(NamedTuple):
    """A step of an optimizer."""

    passes: int  # passes begun before it
    empty: bool  # whether none of its parameters had a gradient
    rows: int
    where: Where


class Mode(NamedTuple):
    """A call of a module that depends on the training mode."""

    scope: int
    training: bool
    recorded: bool  # whether grad mode was on
    passes: int  # passes begun before it


class Load(NamedTuple):
    """A pass over a DataLoader."""

    sampler: str  # the class of its sampler
    identity: int  # of the sampler
    epoch: int  # of a DistributedSampler; -1 for others
    shuffle: bool  # whether a DistributedSampler draws an order
    dataset: str  # the class of its dataset
    rows: int


class Accumulated(NamedTuple):
    """A parameter was updated with a gradient that accumulated over an earlier update."""

    row: int
    number: int  # of the pass that accumulated
    where: Where  # of that pass


class Ended(NamedTuple):
    """The error that ended the recorded code."""

    kind: str
    text: str
    where: Where
    step: int  # the row of the running backward step; -1 if there was none
    write: tuple[CodeType, int] | None  # code and line that overwrote a tensor needed by the step
    backward: bool  # whether it ended a backward pass
    calls: str  # the collectives of all ranks, in words, if they differ


def _if_possible(measure: Callable[..., None]) -> Callable[..., None]:
    """Decorate a measurement: while memory is full or a CUDA graph is captured, there is none, and the program goes on."""

    @wraps(measure)
    def call(self: Witness, *args: Any) -> None:
        try:
            if not capturing():
                measure(self, *args)
        except MemoryError:
            self._before = []

    return call


class Witness:
    """Events for the checks. The recorder calls its methods, in the recorded thread.

    Access to tensors goes through methods, so that a subclass can support the tensors of another library. Nothing waits for a GPU: its
    numbers are read when a check needs them, or once they have arrived.
    """

    def __init__(self) -> None:
        self.passes: list[Pass] = []
        self.updates: list[Update] = []
        self.modes: list[Mode] = []
        self.loads: list[Load] = []
        self.optimizers: dict[int, ref] = {}
        self.given: dict[int, ref] = {}  # identity of a parameter given to an optimizer -> the parameter
        self._accumulated: list[Accumulated] = []
        self._ratios: list[tuple[int, float]] = []
        self._largest: dict[int, float] = {}
        self._earliest: dict[int, float] = {}
        self._late: list[tuple[Late, Callable[[list[float]], None]]] = []  # numbers on their way, and what notes them
        self.bad_rows: dict[str, BadRow] = {}  # by kind: "NaN", "+Inf", "−Inf"
        self.bad_step: BadStep | None = None
        self.ended: Ended | None = None
        self._versions: dict[int, tuple[ref, int]] = {}  # identity of a leaf -> the leaf and its version when the last pass began
        self._pending: list[tuple[ref, int, Accumulated, Late]] = []
        self._before: list[tuple[ref, Any]] = []  # copies of parameters
        self._leaves: list[ref] = []  # of the newest pass, until their gradients on a GPU are measured

    # -- numbers ----------------------------------------------------------------------------------------------------------------

    @property
    def accumulated(self) -> list[Accumulated]:
        """Updates with gradients that accumulated over an earlier update."""
        return self._settle()._accumulated

    @property
    def ratios(self) -> list[tuple[int, float]]:
        """The number of a pass, and |Δw| / |w| over all matrices for the update after it."""
        return self._settle()._ratios

    @property
    def largest(self) -> dict[int, float]:
        """Row of a leaf -> largest |gradient| at the last measured update."""
        return self._settle()._largest

    @property
    def earliest(self) -> dict[int, float]:
        """The same at the first measured update."""
        return self._settle()._earliest

    def _then(self, numbers: Late, note: Callable[[list[float]], None]) -> None:
        """Note numbers in the order of the events: at once, or when they have arrived from a GPU."""
        self._late.append((numbers, note))
        self._settle(wait=False)

    def settle(self) -> None:
        """Read all numbers; waits for a GPU."""
        self._settle()

    def _settle(self, wait: bool = True) -> Witness:
        while self._late and (wait or self._late[0][0].done):
            numbers, note = self._late.pop(0)
            note(numbers.get())
        return self

    # -- events from the recorder -----------------------------------------------------------------------------------------------

    def entered(self, scope: int, module: Any) -> None:
        """A module is called."""
        if has_mode(type(module)) and getattr(module, "p", 1) != 0:
            self.modes.append(Mode(scope, module.training, self.tracks(), len(self.passes)))

    def loaded(self, r: Recording, loader: Any) -> None:
        """A pass over a DataLoader begins."""
        sampler = loader.sampler
        if len(self.loads) < MOST:
            kinds = type(sampler).__name__, id(sampler), getattr(sampler, "epoch", -1), getattr(sampler, "shuffle", False)
            self.loads.append(Load(*kinds, type(loader.dataset).__name__, r.count))

    def begins(self, r: Recording, roots: tuple, plan: list, where: Where) -> None:
        """A backward pass begins."""
        self._begins(r, r.row_of(roots[0]), [node.tensor for node in plan if node.op is None], where)

    def _begins(self, r: Recording, root: int, leaves: list[ref], where: Where) -> None:
        number = len(self.passes) + 1
        if self._before:
            self._moved()
        if self._pending:
            self._confirm()
        self._gradients(r)
        if root >= 0:
            self._loss(r, root, number)
        self._leaves = leaves
        self._follow(r, leaves, number, where)
        self.passes.append(Pass(root, r.count, where))
        if number & (number - 1) == 0:  # 1, 2, 4, ...: few in a long training run
            self._copy(leaves)

    def received(self, r: Recording, leaf: Any, grad: Any) -> None:
        """A leaf's gradient is complete. If it is the first non-finite one, rerun the pass to find the step that made it."""
        if self.bad_step is None and not _is_finite(grad):
            self._search_step(r, len(self.passes), r.row_of(leaf), grad.array if isinstance(grad, Tensor) else grad)

    def updated(self, r: Recording, optimizer: Any, where: Where) -> None:
        """An optimizer has taken a step."""
        known = self.optimizers.get(id(optimizer))
        if known is None or known() is not optimizer or not self.updates or len(self.passes) & (len(self.passes) - 1) == 0:
            self.optimizers[id(optimizer)] = ref(optimizer)  # repeated at times, because groups may be added later
            self.given.update((id(p), ref(p)) for group in optimizer.param_groups for p in group["params"])
        empty = not any(self.has_gradient(p) for group in optimizer.param_groups for p in group["params"])
        self.updates.append(Update(len(self.passes), empty, r.count, where))
        self._gradients(r)
        if self._before and not capturing():
            found = {}
            for held, _ in self._before:
                p = held()
                gradient = None if p is None else self.gradient(p)
                row = -1 if p is None else self.row(r, p)
                if gradient is not None and gradient.size and row >= 0:
                    found[row] = gradient.values if isinstance(gradient, Coo) else gradient
            rows = list(found)
            self._then(late.largest(list(found.values())), lambda numbers: self._grew(dict(zip(rows, numbers, strict=True))))
            self._moved()
        if self._pending:
            own = {id(p) for group in optimizer.param_groups for p in group["params"]}
            self._confirm(own)

    def ends(self, r: Recording, error: BaseException | None, step: int, hidden: tuple[str, ...]) -> None:
        """The recorded code has ended, possibly with an error."""
        self._gradients(r)
        self._moved()
        self._confirm()
        self._before, self._pending = [], []
        if error is not None:
            write = getattr(error, "write", None)
            row = r.times.get(step, -1)
            line, text = write.line if write is not None else None, str(error)
            backward = row >= 0 or any(words in text for words in _OF_A_PASS)
            self.ended = Ended(type(error).__name__, text, _innermost(error, hidden), row, line, backward, getattr(error, "calls", ""))

    # -- access to tensors ------------------------------------------------------------------------------------------------------

    def tracks(self) -> bool:
        """Whether grad mode is on."""
        return tape.mode.grad

    def values(self, tensor: Any) -> Any:
        """The tensor's array; None if it has no values."""
        return None if tensor.is_meta else tensor.array

    def has_gradient(self, tensor: Any) -> bool:
        """Whether the tensor has a `.grad`."""
        return tensor._grad is not None

    def gradient(self, tensor: Any) -> Any:
        """The array of the tensor's `.grad`, or None."""
        return None if tensor._grad is None else self.values(tensor._grad)

    def version(self, tensor: Any) -> int:
        """The version of the tensor's memory: the number of in-place writes."""
        return versions.version(tensor.array)

    def row(self, r: Recording, tensor: Any) -> int:
        """The row of a leaf; -1 if no recorded op used it."""
        node = getattr(tensor, "node", None)
        return -1 if node is None else r.times.get(node.time, -1)

    # -- updates ----------------------------------------------------------------------------------------------------------------

    @_if_possible
    def _follow(self, r: Recording, leaves: list[ref], number: int, where: Where) -> None:
        """Note parameters for which this pass accumulates into a gradient that an update has already used."""
        for leaf in leaves[:LOOKED]:
            tensor = leaf()
            if tensor is None:
                continue
            version, (known, before) = self.version(tensor), self._versions.get(id(tensor), (None, -1))
            self._versions[id(tensor)] = leaf, version
            gradient = self.gradient(tensor)
            if known is not None and known() is tensor and version != before and gradient is not None:
                there = late.nonzero([gradient])
                if not there.done or there.get()[0]:
                    self._pending.append((leaf, version, Accumulated(self.row(r, tensor), number, where), there))

    @_if_possible
    def _confirm(self, own: set[int] | None = None) -> None:
        """Confirm accumulated gradients once an update used them: of the parameters `own`, or, if None, of those written since."""
        waiting = []
        for held, version, what, before in self._pending:
            tensor = held()
            gradient = None if tensor is None else self.gradient(tensor)
            if gradient is None:
                continue
            if id(tensor) in own if own is not None else self.version(tensor) != version:
                self._then(late.nonzero([gradient]), partial(self._accumulates, what, before))
            elif own is not None:
                waiting.append((held, version, what, before))
        self._pending = waiting

    def _accumulates(self, what: Accumulated, before: Late, now: list[float]) -> None:
        if before.get()[0] and now[0] and len(self._accumulated) < MOST:
            self._accumulated.append(what)

    def _grew(self, found: dict[int, float]) -> None:
        self._largest |= found
        self._earliest = found | self._earliest

    # -- values that are not finite ----------------------------------------------------------------------------------------------

    @_if_possible
    def _loss(self, r: Recording, root: int, number: int) -> None:
        """If the loss of a pass that begins is not finite, search for the op that made it so."""
        value, start, stop = r.value(root), self.passes[-1].rows if self.passes else 0, r.count
        if self.bad_rows or self.bad_step is not None or not on_gpu(value) and _scalar_is_finite(value):
            return
        held = ref(r)

        def search(bad: list[float]) -> None:
            r = held()
            if r is not None and bad[0] and not self.bad_rows and self.bad_step is None:
                self.bad_rows = not_finite.among(r, start, stop, root, number)

        if value.size == 1 and values.floating(value):
            self._then(late.bad([value]), search)

    @_if_possible
    def _gradients(self, r: Recording) -> None:
        """If gradients on a GPU of the newest pass are not finite, search for the step that made the first of them."""
        leaves, self._leaves = self._leaves, []
        if devices.gpu_array is None or self.bad_step is not None:
            return
        known = [(leaf, g) for leaf in leaves if (t := leaf()) is not None and on_gpu(g := self.gradient(t)) and values.floating(g)]
        number, held = len(self.passes), ref(r)

        def search(bad: list[float]) -> None:
            r, tensor = held(), next((leaf() for (leaf), n in zip(those, bad, strict=True) if n), None)
            if r is not None and tensor is not None and self.bad_step is None:
                self._search_step(r, number, self.row(r, tensor), self.gradient(tensor))

        those = [leaf for leaf, _ in known]
        if known:
            self._then(late.bad([g for _, g in known]), search)

    def _search_step(self, r: Recording, number: int, row: int, gradient: Any) -> None:
        """Rerun a pass to find the step that made a gradient that is not finite; `row` is the leaf that received it."""
        root = self.passes[number - 1].root if number else -1
        self.bad_step = not_finite.step_among(r, root, number) or BadStep(row, None, gradient, (), number)

    # -- sizes of updates --------------------------------------------------------------------------------------------------------

    @_if_possible
    def _copy(self, leaves: list[ref]) -> None:
        arrays = [(leaf, self.values(tensor)) for leaf in leaves if (tensor := leaf()) is not None]
        tensors = [(leaf, array) for leaf, array in arrays if array is not None and array.ndim > 1]
        if sum(array.nbytes for _, array in tensors) <= COPIES:
            self._before = [(held, array.copy()) for held, array in tensors]

    @_if_possible
    def _moved(self) -> None:
        """Record the change of the parameters by the last update, relative to their norm."""
        pairs = []
        for held, before in self._before:
            tensor = held()
            now = None if tensor is None else self.values(tensor)
            if now is not None and now.shape == before.shape:
                pairs.append((now, before))
        self._before = []
        if pairs:
            number = len(self.passes)
            updated = bool(self.updates) and self.updates[-1].passes == number
            with numpy.errstate(all="ignore"):
                sizes = late.squares([before for _, before in pairs])
                changes = late.squares([numpy.subtract(now, before, out=before) for now, before in pairs])
            self._then(changes, lambda found: self._moves(number, updated, sum(found), sum(sizes.get())))

    def _moves(self, number: int, updated: bool, change: float, size: float) -> None:
        if size > 0 and (change > 0 or updated):
            self._ratios.append((number, math.sqrt(change / size)))


def _scalar_is_finite(array: Any) -> bool:
    """Whether a NumPy scalar is finite; True for anything else."""
    return array.__class__ is not numpy.ndarray or array.size != 1 or array.dtype.kind != "f" or math.isfinite(array.item())


def _is_finite(grad: Any) -> bool:
    """Whether all elements are finite, tested by x·x in one pass. GPU arrays count as finite: see `_gradients`."""
    array = grad.array if grad.__class__ is Tensor else grad
    if array.__class__ is not numpy.ndarray:
        return True
    if array.dtype.char in "fd" and math.isfinite(squares(array)):
        return True
    return values.finite(array)


def _innermost(error: BaseException, hidden: tuple[str, ...]) -> Where:
    """The innermost code object and instruction outside the hidden files."""
    found: Where = (None, 0)
    trace = error.__traceback__
    while trace is not None:
        if not trace.tb_frame.f_code.co_filename.startswith(hidden):
            found = (trace.tb_frame.f_code, trace.tb_lasti)
        trace = trace.tb_next
    return found
