"""Access to the autograd graph: nodes, gradient edges, hooks on saved tensors and on gradients."""

from __future__ import annotations

import abc
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from ..base import dtypes
from ..core import inplace, tape, versions
from ..core.call import noting
from ..core.tensor import Tensor

__all__ = [
    "GradientEdge", "Node", "allow_mutation_on_saved_tensors", "disable_saved_tensors_hooks", "get_gradient_edge", "increment_version",
    "register_multi_grad_hook", "save_on_cpu", "saved_tensors_hooks",
]  # fmt: skip


class Node(abc.ABC):  # noqa: B024  an interface for isinstance: the tape's own classes are registered below
    """Interface of `grad_fn`: `name()`, `metadata`, `next_functions`, `register_hook`, `register_prehook`."""


Node.register(tape.Node)
Node.register(tape.Leaf)


class GradientEdge(NamedTuple):
    """The point where a gradient arrives: a node and the index of its output."""

    node: Any
    output_nr: int
    ownership_token: Any = None


def get_gradient_edge(tensor: Tensor) -> GradientEdge:
    """Return the edge where the gradient of `tensor` arrives; `backward` and `grad` accept it instead of the tensor."""
    if not tensor.requires_grad:
        raise RuntimeError("It is not possible to get the gradient edge for a Tensor that does not require gradients")
    node = tensor.node
    return GradientEdge(node, node.attrs["index"] if node.op is not None and node.op.picks else 0)


def increment_version(tensor: Any) -> None:
    """Mark a tensor's memory as modified outside the engine, so that a backward pass that saved it raises an error."""
    for t in (tensor,) if isinstance(tensor, Tensor) else tensor:
        inplace.note_write_to(t, "increment_version")


# -- hooks on saved tensors --------------------------------------------------------------------------------------------------


class _Hooks(threading.local):
    """This thread's hooks, outermost first, and the message to raise while hooks are disabled."""

    def __init__(self) -> None:
        self.stack: tuple[saved_tensors_hooks, ...] = ()
        self.disabled: str | None = None


_hooks = _Hooks()


class saved_tensors_hooks:
    """Context manager: ops save `pack_hook(tensor)` for backward, which then reads `unpack_hook(packed)`.

    Of nested blocks, the innermost applies. `unpack_hook` must return a tensor with the same values as the packed one.
    """

    def __init__(self, pack_hook: Callable, unpack_hook: Callable) -> None:
        self.pack_hook, self.unpack_hook = pack_hook, unpack_hook
        self._outer: list[tuple] = []

    def __enter__(self) -> None:
        if _hooks.disabled is not None:
            raise RuntimeError(_hooks.disabled)
        self._outer.append(_hooks.stack)
        _hooks.stack = (*_hooks.stack, self)
        noting(self._see).__enter__()  # not stored on self: a cycle would keep what the hooks hold until a garbage collection

    def __exit__(self, *exc: object) -> None:
        _hooks.stack = self._outer[-1]  # first, because an interrupt may arrive after any call
        self._outer.pop()
        noting(self._see).__exit__()

    def _see(self, node: tape.Node) -> None:
        if _hooks.stack and _hooks.stack[-1] is self and node.saved:
            node.saved = self._packed(node)  # type: ignore[assignment]

    def _packed(self, node: tape.Node) -> Any:
        n, variadic = len(node.op.inputs), node.op.variadic
        kept = []
        for i, value in enumerate(node.saved):
            if variadic and i == 0 and value is not None:
                kept.append(tuple(self.pack(a, s) for a, s in zip(value, node.inputs, strict=True)))
            else:
                kept.append(self.pack(value, node.inputs[i] if i < n and i < len(node.inputs) else None))
        return tape.Packed(lambda: tuple(tuple(v.open() for v in k) if isinstance(k, tuple) else k.open() for k in kept))

    def pack(self, value: Any, source: Any = None) -> Kept:
        """Pack an array; `source` is its node if it is an input that requires grad."""
        if value is None or not hasattr(value, "dtype"):
            return Kept(None, value)
        tensor = value if isinstance(value, Tensor) else Tensor._wrap(value)
        if source is not None and dtypes.FROM_NUMPY[tensor.array.dtype].rank >= dtypes.FLOAT and tensor.node is None:
            tensor.node = source
        before, version = tape.mode.grad, versions.version(tensor.array)
        tape.mode.grad = False
        stack, _hooks.stack = _hooks.stack, ()
        try:
            packed = self.pack_hook(tensor)
        finally:
            tape.mode.grad, _hooks.stack = before, stack
        if versions.version(tensor.array) != version:
            raise RuntimeError(
                "A saved tensor pack hook is modifying its input in place. Tensors provided as input to pack hook cannot be modified by "
                "in-place operations as this can lead to unexpected side-effects. Please open an issue if you need to perform in-place "
                "operations on the input to a pack hook."
            )
        return Kept(self.unpack_hook, packed)


class Kept:
    """A packed value and the hook that unpacks it."""

    __slots__ = ("_unpack", "_packed")

    def __init__(self, unpack: Callable | None, packed: Any) -> None:
        self._unpack, self._packed = unpack, packed

    def tensor(self) -> Any:
        if self._unpack is None:
            return self._packed
        found = self._unpack(self._packed)
        if not isinstance(found, Tensor):
            raise TypeError(f"Output of saved tensor unpack_hook expected to be a Tensor but got result of type {type(found).__name__}")
        return found

    def open(self) -> Any:
        found = self.tensor()
        return found.array if isinstance(found, Tensor) else found


class SavedTensor:
    """A tensor saved by a node, returned by attributes such as `node._raw_saved_self`."""

    __slots__ = ("_node", "_place")

    def __init__(self, node: tape.Node, place: int) -> None:
        self._node, self._place = node, place

    def register_hooks(self, pack_hook: Callable, unpack_hook: Callable) -> None:
        """Replace the saved tensor with `pack_hook(tensor)`; the backward step then reads `unpack_hook` of that."""
        node, place, before = self._node, self._place, self._node.saved
        arrays = tape.opened(node)
        kept = saved_tensors_hooks(pack_hook, unpack_hook).pack(node.as_tensor(place, arrays[place]))
        others = before.open if isinstance(before, tape.Packed) else (*before[:place], None, *before[place + 1 :])

        def unpacked() -> tuple:
            found = others() if callable(others) else others
            return (*found[:place], kept.open(), *found[place + 1 :])

        node.saved = tape.Packed(unpacked)  # type: ignore[assignment]


tape.raw_saved = SavedTensor


def packing() -> saved_tensors_hooks | None:
    """Return the hooks that apply to tensors saved now, or None."""
    return _hooks.stack[-1] if _hooks.stack else None


class save_on_cpu(saved_tensors_hooks):
    """Context manager: tensors saved for backward are moved to host memory, and back to their device when needed.

    `pin_memory` and `device_type` are accepted without effect: a copy is made on use, and every tensor is moved.
    """

    def __init__(self, pin_memory: bool = False, device_type: str = "cuda") -> None:
        def pack(tensor: Tensor) -> tuple:
            return tensor.device, tensor.detach().clone() if tensor.device.type == "cpu" else tensor.detach().cpu()

        def unpack(packed: tuple) -> Tensor:
            device, tensor = packed
            return tensor.to(device)

        super().__init__(pack, unpack)


@contextmanager
def disable_saved_tensors_hooks(error_message: str) -> Iterator[None]:
    """Context manager: entering `saved_tensors_hooks` inside raises RuntimeError with this message."""
    before, _hooks.disabled = _hooks.disabled, error_message
    try:
        yield
    finally:
        _hooks.disabled = before


class _Mutable:
    """The handle that `allow_mutation_on_saved_tensors` yields for the copies it keeps."""

    def __init__(self) -> None:
        self.open = True

    def clear(self) -> None:
        """Invalidate the copies: a backward pass that needs them raises AssertionError from now on."""
        self.open = False


@contextmanager
def allow_mutation_on_saved_tensors() -> Iterator[_Mutable]:
    """Context manager: ops save copies, so saved tensors may be modified in place. The backward pass must run inside the block too."""
    if any(isinstance(h, _Copying) for h in _hooks.stack):
        raise RuntimeError("allow_mutation_on_saved_tensors contexts cannot be nested")
    context = _Mutable()
    with _Copying(context):
        try:
            yield context
        finally:
            context.clear()


class _Copying(saved_tensors_hooks):
    def __init__(self, context: _Mutable) -> None:
        def unpack(copy: Tensor) -> Tensor:
            if not context.open:
                raise AssertionError(
                    "Trying to backward outside of the 'allow_mutation_on_saved_tensors' context in which the graph was originally "
                    "recorded."
                )
            return copy

        super().__init__(lambda tensor: tensor.detach().clone(), unpack)


# -- one hook on several tensors -------------------------------------------------------------------------------------------------


class _Handles:
    """Several hook handles that are removed together."""

    def __init__(self, handles: Sequence[tape.Handle]) -> None:
        self._handles = tuple(handles)

    def remove(self) -> None:
        for handle in self._handles:
            handle.remove()

    def __enter__(self) -> _Handles:
        return self

    def __exit__(self, *exc: object) -> None:
        self.remove()


def register_multi_grad_hook(tensors: Sequence[Tensor], fn: Callable, *, mode: str = "all") -> _Handles:
    """Call `fn` once per backward pass: with all gradients after the last one (mode "all"), or with the first one (mode "any").

    In mode "all", `fn` receives a sequence with None for tensors that the pass does not reach.
    """
    if mode not in ("all", "any"):
        raise ValueError(f"Expects mode to be one of ('all', 'any') but got {mode}")
    nodes = [t.node for t in tensors]
    if any(n is None for n in nodes):
        raise RuntimeError("register_multi_grad_hook: expected tensors that require grad")
    lock = threading.Lock()
    found: dict[int, list] = {}  # id of a pass's plan -> the plan, the gradients so far, and how many are missing

    def hook_of(i: int) -> Callable:
        def hook(grad: Tensor) -> None:
            order = tape.mode.order
            with lock:
                known = found.get(id(order))
                if known is None or known[0] is not order:
                    found.clear()
                    planned = set(order)
                    known = found[id(order)] = [order, [None] * len(nodes), sum(n in planned for n in nodes)]
                known[1][i] = grad
                known[2] -= 1
                last, first = known[2] == 0, sum(g is not None for g in known[1]) == 1
                grads = list(known[1])
                if last:
                    del found[id(order)]
            if mode == "any":
                if first:
                    fn(grad)
            elif last:
                fn(grads)

        return hook

    return _Handles([t.register_hook(hook_of(i)) for i, t in enumerate(tensors)])
