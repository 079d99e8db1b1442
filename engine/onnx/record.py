"""Record the ops of a model run, with an observer that maps every array to a symbolic value."""

from __future__ import annotations

import numbers
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy

from .. import nn
from ..autograd import no_grad
from ..backends.cuda import allowed_attention
from ..base import errors
from ..base.observe import Observer, observing
from ..core import devices, versions
from ..core.tensor import Tensor
from .errors import OnnxExporterError


@dataclass(eq=False)
class Value:
    """An array in the run. `data` holds the contents of constants, and of results computed only from constants."""

    array: Any
    kind: str  # "input", "parameter", "constant", "result"
    name: str = ""
    data: numpy.ndarray | None = None
    traced: bool = False  # whether it depends on the model's inputs
    where: str = ""
    others: list[Any] = field(default_factory=list)  # data in the other runs, if different
    shapes: list[tuple] = field(default_factory=list)  # shape in every run


@dataclass(eq=False)
class Event:
    """A call of an op."""

    op: str
    inputs: list[Any]
    attrs: dict[str, Any]
    outputs: list[Value]
    where: str
    path: str = ""  # of the module that called it
    kind: Any = None  # the op's class, or None for a module that is translated as a whole
    traced: bool = field(default=False)


class Recording(Observer):
    """The events of one run. All arrays are kept alive, so that their ids stay unique."""

    def __init__(self, model: Any, inputs: dict[str, Tensor]):
        self.model, self.events = model, []
        self.values: dict[int, Value] = {}
        self.arrays: dict[int, Any] = {}  # by the same ids, to keep the arrays alive
        self.stale: dict[int, tuple[Value, Any]] = {}  # arrays overwritten through another: id -> (new value of the storage, array)
        self.paths = {id(m): path for path, m in model.named_modules()} if isinstance(model, nn.Module) else {}
        self.scopes: list[tuple[str | None, str]] = []  # running modules (path, description) and functions
        self.results: list[Value] = []
        self.given = {name: self._know(t.array, Value(t.array, "input", name, traced=True)) for name, t in inputs.items()}
        if isinstance(model, nn.Module):
            for name, tensor in (*model.named_parameters(), *model.named_buffers()):
                if id(tensor.array) not in self.values:
                    self._know(tensor.array, Value(tensor.array, "parameter", name, tensor._host()))

    def run(self, args: tuple, kwargs: dict) -> Any:
        """Run the model, record its events, and return its output."""
        handles = []
        if isinstance(self.model, nn.Module):
            for module in self.model.modules():
                if type(module) in (nn.LSTM, nn.GRU, nn.RNN) and not module.proj_size:
                    mark: list[int] = []
                    handles.append(module.register_forward_pre_hook(lambda m, a, mark=mark: mark.append(len(self.events))))
                    handles.append(module.register_forward_hook(lambda m, a, out, mark=mark: self._recurrent(m, a, out, mark.pop())))
        try:
            with (
                no_grad(),
                observing(self),
                allowed_attention(enable_flash=False, enable_mem_efficient=False, enable_cudnn=False),
            ):  # as ops
                out = self.model(*args, **kwargs)
            self.results = [self.value(t.array) for t in flat(out)]
            return out
        finally:
            for handle in handles:
                handle.remove()

    # -- the observer -------------------------------------------------------------------------------------------------------

    def enter(self, kind: str, name: str, subject: Any) -> None:
        path = self.paths.get(id(subject)) if kind == "module" else None
        self.scopes.append((path, f"{path or 'the model'} ({name})" if kind == "module" else ""))

    def leave(self) -> None:
        self.scopes.pop()

    def op(self, op: Any, inputs: tuple, attrs: dict, output: Any) -> None:
        self._event(op.name, op, inputs, attrs, output if isinstance(output, tuple) else (output,))

    def wrote(self, op: Any, target: Any, inputs: tuple, attrs: dict) -> None:
        fresh = Tensor._wrap(target.array.copy())
        self._event(op.name, op, inputs, attrs, (fresh,))
        new = self.values[id(fresh.array)]
        owner, mine = versions.storage(target.array), id(target.array)
        shared = {k: a for k, a in self.arrays.items() if k != mine and versions.storage(a) is owner}
        whole = new
        if target.array is not owner and id(owner) in shared:
            written = Tensor._wrap(owner.copy())
            self._event("write_positions", None, (Tensor._wrap(owner), fresh), {"positions": _positions(target.array, owner)}, (written,))
            whole = self.values[id(owner)] = self.values[id(written.array)]
            del shared[id(owner)]
        self.stale.update({k: (whole, a) for k, a in shared.items()})
        self.stale.pop(mine, None)
        self.stale.pop(id(owner), None)
        self._know(target.array, new)

    # -- values -------------------------------------------------------------------------------------------------------------

    def where(self) -> str:
        """Describe the user's current line and module."""
        module = next((words for _, words in reversed(self.scopes) if words), "")
        line = errors.user_line()
        return ", ".join([*([f"at {line}"] if line else []), *([f"in {module}"] if module else [])])

    def _know(self, array: Any, value: Value) -> Value:
        self.values[id(array)] = value
        self.arrays[id(array)] = array
        return value

    def value(self, array: Any) -> Value:
        """Return the value of an array; one that no recorded op made is a constant."""
        stale = self.stale.pop(id(array), None)
        if stale is not None:
            whole, seen = stale
            again = Tensor._wrap(numpy.array(seen))
            self._event(
                "read_positions", None, (Tensor._wrap(whole.array),), {"positions": _positions(seen, versions.storage(seen))}, (again,)
            )
            self.values[id(array)] = self.values[id(again.array)]
        found = self.values.get(id(array))
        if found is None:
            found = self._know(array, Value(array, "constant", data=devices.move(array, devices.CPU).copy(), where=self.where()))
        return found

    def _seen(self, x: Any) -> Any:
        """Replace every array in an argument by its value."""
        if isinstance(x, Tensor):
            return self.value(x.array)
        if isinstance(x, numpy.ndarray):
            return self.value(x)
        if type(x) is tuple or type(x) is list:
            return type(x)(map(self._seen, x))
        if isinstance(x, tuple):
            return tuple(map(self._seen, x))
        return x.item() if isinstance(x, numpy.generic) and isinstance(x, numbers.Number) else x

    def _event(self, name: str, op: Any, inputs: Any, attrs: dict, outputs: tuple) -> None:
        given = [self._seen(x) for x in inputs]
        known = {k: self._seen(v) for k, v in attrs.items()}
        traced = any(v.traced for v in values_in([given, list(known.values())]))
        where = self.where()
        fresh = [out for out in outputs if not any(v.array is out.array for v in values_in(given))]  # without inputs returned as is
        results = [
            self._know(out.array, Value(out.array, "result", data=None if traced else out._host().copy(), traced=traced, where=where))
            for out in fresh
        ]
        if results:
            path = next((p for p, _ in reversed(self.scopes) if p is not None), "")
            self.events.append(Event(name, given, known, results, where, path, op, traced))

    def _recurrent(self, module: Any, args: tuple, output: Any, mark: int) -> None:
        """Record the call of a recurrent module in place of its ops."""
        x, states = args[0], args[1] if len(args) > 1 else None
        if not isinstance(x, Tensor):
            return  # a packed sequence: keep its ops
        del self.events[mark:]
        states = () if states is None else states if isinstance(states, tuple) else (states,)
        out, last = output
        weights = [w for layer in module.all_weights for w in layer]
        attrs = {
            "mode": module.mode, "layers": module.num_layers, "directions": 2 if module.bidirectional else 1, "bias": module.bias,
            "batch_first": module.batch_first, "hidden": module.hidden_size,
        }  # fmt: skip
        self._event("recurrent", None, (x, *states, *weights), attrs, (out, *(last if isinstance(last, tuple) else (last,))))


def flat(x: Any) -> list[Tensor]:
    """Return the tensors in nested containers, in order."""
    if isinstance(x, Tensor):
        return [x]
    if isinstance(x, Mapping):
        return [t for v in x.values() for t in flat(v)]
    return [t for v in x for t in flat(v)] if isinstance(x, (list, tuple)) else []


def values_in(x: Any) -> list[Value]:
    """Return all values in nested containers."""
    if isinstance(x, Value):
        return [x]
    return [v for part in x for v in values_in(part)] if isinstance(x, (list, tuple)) else []


def _positions(array: Any, owner: Any) -> numpy.ndarray:
    """Return the flat indices of an array's elements in its storage."""
    if not isinstance(owner, numpy.ndarray) or not owner.flags.c_contiguous:
        raise OnnxExporterError("a write through a view is exported from contiguous tensors on the CPU only")
    start = array.__array_interface__["data"][0] - owner.__array_interface__["data"][0]
    counted = numpy.arange(owner.size, dtype=numpy.int64)
    strides = tuple(s // owner.itemsize * counted.itemsize for s in array.strides)
    return numpy.lib.stride_tricks.as_strided(counted[start // owner.itemsize :], array.shape, strides).copy()
