"""Hooks on the tape's nodes: their storage, handles, and calls during the backward pass.

Tensor hooks receive the gradient of one tensor; node hooks run before or after one backward step. Either may replace the gradients.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import TYPE_CHECKING, Any
from weakref import ref

from ..backends.batch import Batched
from ..backends.coo import Coo
from ..base import dtypes
from ..base.errors import warn
from . import naming

if TYPE_CHECKING:
    from .tensor import Tensor


class Hooks:
    """The hooks of one node, and the tensor whose `.grad` is kept by `retain_grad`; created only when one is needed."""

    def __init__(self) -> None:
        self.before: dict[int, Callable] = {}  # tensor hooks: grad -> grad or None
        self.pre: dict[int, Callable] = {}  # node hooks: (grad_outputs) -> grad_outputs or None
        self.metadata: dict = {}
        self.post: dict[int, Callable] = {}  # node hooks: (grad_inputs, grad_outputs) -> grad_inputs or None
        self.accumulated: dict[int, Callable] = {}  # leaf hooks: tensor -> None
        self.retain: ref | None = None  # the non-leaf tensor that keeps its .grad

    def add(self, where: str, fn: Callable) -> Handle:
        table = getattr(self, where)
        handle = Handle(table)
        table[handle.id] = fn
        return handle


class Handle:
    """The handle of a registered hook: `remove()` removes the hook. As a context manager it removes it at the end of the block."""

    _ids = count()

    def __init__(self, table: dict):
        self.id, self._table = next(Handle._ids), table

    def remove(self) -> None:
        self._table.pop(self.id, None)

    def __enter__(self) -> Handle:
        return self

    def __exit__(self, *exc: object) -> None:
        self.remove()


def hooks_of(node: Any) -> Hooks:
    if node.hooks is None:
        node.hooks = Hooks()
    return node.hooks


wrap: Any = None  # Tensor._wrap, set by tensor.py


def _tensor(array: Any) -> Tensor:
    return Coo.tensor(array) if array.__class__ is Coo else wrap(array)


def arrived(hooks: Hooks, grad: Any, recorded: bool) -> Any:
    """Run the tensor hooks on a gradient, each of which may replace it; store it in `.grad` after `retain_grad`, and return it."""
    if hooks.before:
        shown = grad if recorded else _tensor(grad)
        for fn in tuple(hooks.before.values()):
            changed = fn(shown)
            if changed is not None:
                shown = _replacing(fn, shown, changed)
        grad = shown if recorded else shown.array
    tensor = hooks.retain() if hooks.retain is not None else None
    if tensor is not None and _level(grad.array if recorded else grad) in (None, _level(tensor.array)):
        kept = grad.clone() if recorded else _tensor(grad.copy())
        tensor._grad = kept if tensor._grad is None else tensor._grad + kept
    return grad


def _level(array: Any) -> Any:
    """The vmap level of a batched array, which nothing that outlives the level may keep; None for any other array."""
    return array.level if array.__class__ is Batched else None


def before_step(hooks: Hooks, grad: Any, recorded: bool) -> Any:
    """Run the node hooks before a step: they receive the gradients of the results, and may replace them."""
    outer = grad if isinstance(grad, list) else [grad]  # a list: an op with several results
    told = shown(outer, recorded)
    for fn in tuple(hooks.pre.values()):
        told = _changed(fn, told, fn(told))
    outer = _given(told, recorded)
    return outer if isinstance(grad, list) else outer[0]


def after_step(hooks: Hooks, node: Any, input_grads: Any, grad: Any, recorded: bool) -> tuple:
    """Run the node hooks after a step: they receive the gradients of inputs and results, and may replace those of the inputs.

    The gradients of the inputs are in the order of `next_functions`.
    """
    order, given = naming.edges(node), list(input_grads)
    found = shown([given[i] for i in order], recorded)
    outer = shown(grad if isinstance(grad, list) else (grad,), recorded)
    for fn in tuple(hooks.post.values()):
        found = _changed(fn, found, fn(found, outer))
    for i, g in zip(order, _given(found, recorded), strict=True):
        given[i] = g
    return tuple(given)


def shown(grads: Any, recorded: bool) -> tuple:
    """Gradients as tensors for node hooks. Complex ones are conjugated: PyTorch's gradient is the conjugate of the rules'."""
    grads = (g if g is None or g.dtype not in _COMPLEX else g.conj() for g in grads)
    return tuple(g if g is None or recorded else _tensor(g) for g in grads)


def _given(grads: tuple, recorded: bool) -> list:
    """The gradients that node hooks returned, converted back for the rules: the inverse of `shown`."""
    back = [g if g is None or recorded else g.array for g in grads]
    return [g if g is None or g.dtype not in _COMPLEX else g.conj() for g in back]


_COMPLEX = {d if whose else d.numpy for d in (dtypes.complex64, dtypes.complex128) for whose in (True, False)}  # of Tensors and of arrays


def _changed(fn: Callable, shown: tuple, changed: Any) -> tuple:
    """The gradients after a node hook that returned `changed`. Raises TypeError or RuntimeError if they cannot be replaced by it."""
    if changed is None:
        return shown
    if not isinstance(changed, tuple):
        raise TypeError(f"expected tuple, but hook returned {type(changed).__name__!r}")
    if len(changed) != len(shown):
        raise RuntimeError(f"hook {_name(fn)!r} has returned an incorrect number of values (got {len(changed)}, but expected {len(shown)})")
    return tuple(_replacing(fn, s, c) for s, c in zip(shown, changed, strict=True))


def _replacing(fn: Callable, shown: Any, changed: Any) -> Any:
    """Return the gradient that a hook returned, after checking its type, shape and dtype against the original."""
    if changed is None:
        return None
    if shown is None:
        raise TypeError("can't replace a None gradient with a non-None value")
    if not hasattr(changed, "requires_grad"):
        raise TypeError(f"expected Variable, but hook returned {type(changed).__name__!r}: a hook returns a Tensor or None")
    if tuple(changed.shape) != tuple(shown.shape):
        raise RuntimeError(
            f"hook {_name(fn)!r} has changed the size of value: the shape of the gradient was {tuple(shown.shape)}, and it returned "
            f"{tuple(changed.shape)}"
        )
    if changed.dtype is not shown.dtype:
        raise RuntimeError(f"hook {_name(fn)!r} has changed the type of value (was {shown.type()} got {changed.type()})")
    return changed


def _name(fn: Callable) -> str:
    return getattr(fn, "__name__", "<unknown>")


def tell_of_no_leaf() -> None:
    """Emit PyTorch's warning about reading `.grad` of a non-leaf tensor, which `backward()` does not set."""
    warn(
        "The .grad attribute of a Tensor that is not a leaf Tensor is being accessed. Its .grad attribute won't be populated during "
        "autograd.backward(). If you indeed want the .grad field to be populated for a non-leaf Tensor, use .retain_grad() on the "
        "non-leaf Tensor. If you access the non-leaf Tensor by mistake, make sure you access the leaf Tensor instead."
    )
