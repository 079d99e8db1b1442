"""The `ctx` object of a custom Function: passes state from `forward` to `backward` and `jvp`."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any
from weakref import ref

from ..core import tape, versions
from ..core.tensor import Tensor
from . import graph


class FunctionCtx:
    """State that `forward` leaves for `backward`: any attribute may be set; tensors should go through `save_for_backward`."""

    def __init__(self, needs: tuple) -> None:
        self.needs_input_grad = needs
        self._saved = _Saved()
        self._recorded: Callable = lambda: self._saved
        self._pushing = False  # True while jvp runs, not backward
        self._dirty: tuple = ()
        self._no_grad: tuple = ()
        self._materialize = True
        self._name, self._sealed = "", math.inf  # the Function's name, and the time when forward finished

    def save_for_backward(self, *tensors: Tensor | None) -> None:
        """Save tensors (inputs, outputs or others) for `backward`; TypeError for any other value except None."""
        self._saved.backward = _tensors(tensors, "save_for_backward")

    def save_for_forward(self, *tensors: Tensor | None) -> None:
        """Save tensors for `jvp`, which reads them as `saved_tensors`."""
        self._saved.forward = _tensors(tensors, "save_for_forward")

    def mark_dirty(self, *tensors: Tensor) -> None:
        """Declare the inputs that `forward` modified in place; it must return them."""
        self._dirty = tensors

    def mark_non_differentiable(self, *tensors: Tensor) -> None:
        """Declare outputs as non-differentiable."""
        self._no_grad = tensors

    def set_materialize_grads(self, value: bool) -> None:
        """Set whether `backward` receives zeros (True, the default) or None (False) as the gradient of unused outputs."""
        self._materialize = value

    @property
    def saved_tensors(self) -> tuple:
        """The saved tensors, reattached to the tape.

        Raises SpoiledError if one was modified in place since it was saved, and GraphFreedError if the graph was freed.
        """
        kept = self._recorded()
        if kept is None:
            raise tape.freed(self._name)
        saved = kept.forward if self._pushing else kept.backward
        for i, t in enumerate(saved):
            if t is None or not hasattr(t, "array"):
                continue
            write = versions.last_write_of(t.array)
            if write is not None and write.time > self._sealed:
                raise versions.spoiled(t.array, write, self._name, f"saved_tensors[{i}]")
        return tuple(t.open() if isinstance(t, (_Output, _Packed)) else t for t in saved)

    def _seal(self, name: str, node: tape.Node, outputs: tuple) -> None:
        """Move the saved tensors to the node, which frees them. Outputs are kept as arrays: a node that holds its own output is a cycle."""
        self._name, self._sealed = name, node.time
        own, hooks, saved = {id(o) for o in outputs}, graph.packing(), self._saved
        if hooks is not None:
            saved.backward = tuple(t if t is None else _Packed(hooks, t, own=id(t) in own) for t in saved.backward)
        saved.backward, saved.forward = (
            tuple(_Output(t.array, t.node) if isinstance(t, Tensor) and id(t) in own else t for t in kept)
            for kept in (saved.backward, saved.forward)
        )
        if saved.backward or saved.forward:
            node.saved, self._recorded = (saved,), ref(saved)
            del self._saved


class _Saved:
    """The tensors saved by a Function."""

    def __init__(self) -> None:
        self.backward: tuple = ()
        self.forward: tuple = ()


def _tensors(tensors: tuple, name: str) -> tuple:
    for i, t in enumerate(tensors):
        if t is not None and not isinstance(t, Tensor):
            raise TypeError(f"{name} can only save variables, but argument {i} is of type {type(t).__name__}")
    return tensors


class _Output:
    """A saved output: its array and a weak reference to its node, which is recreated if it was one of several outputs and is gone."""

    def __init__(self, array: Any, node: Any) -> None:
        self.array, self._node = array, ref(node) if node is not None else lambda: None
        self._index, self._source = (node.attrs["index"], ref(node.inputs[0])) if node is not None and node.op.picks else (0, lambda: None)

    def open(self) -> Tensor:
        return self.tied(self.array)

    def tied(self, array: Any) -> Tensor:
        """Return a tensor with this array, attached to the node."""
        out, source = Tensor._wrap(array), self._source()
        out.node = self._node()
        if out.node is None and source is not None:
            out.node = tape.picked(source, self._index, array)
        return out


class _Packed:
    """A saved tensor packed by hooks: unpacking returns its values, while its node (or its place as an output) is kept here."""

    __slots__ = ("_kept", "_place")

    def __init__(self, hooks: Any, tensor: Tensor, own: bool) -> None:
        self._kept = hooks.pack(tensor.detach() if own else tensor)
        self._place: Any = _Output(None, tensor.node) if own else tensor.node

    def open(self) -> Tensor:
        found = self._kept.tensor()
        if isinstance(self._place, _Output):
            return self._place.tied(found.array)
        out = Tensor._wrap(found.array)
        out.node = self._place
        return out
