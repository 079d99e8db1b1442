"""The tape: what ran, in what order, and the one executor that walks it."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import count
from operator import attrgetter
from typing import TYPE_CHECKING, Any
from weakref import ref

import numpy

from . import errors, inplace, observe

if TYPE_CHECKING:
    from .tensor import Tensor

tick = count(1).__next__  # a node's place in time; inputs always have a smaller one than outputs


class _Mode(threading.local):
    """Whether ops are recorded, for each thread on its own."""

    grad = True
    inference = False


mode = _Mode()


class Freed:
    """What a node's `saved` is after backward went through it without `retain_graph`."""

    def __repr__(self) -> str:
        return "<freed>"


FREED: Any = Freed()


class Node:
    """One op that ran. It keeps arrays, never Tensors, so tape and tensors form no cycle.

    `inputs` are the nodes of the op's inputs (None where no gradient is wanted), `saved` the arrays that live rules name, `shape`
    and `dtype` (NumPy's) those of the result. A node of an op with several results has shape None; each result has a `pick` node.
    """

    __slots__ = ("op", "inputs", "attrs", "saved", "shape", "dtype", "time", "hooks", "__weakref__")
    op: Any
    inputs: tuple
    attrs: dict
    saved: tuple
    shape: tuple | None
    dtype: Any
    time: int
    hooks: Hooks | None

    def __init__(self, op: Any, inputs: tuple, attrs: dict, saved: tuple, shape: tuple | None, dtype: Any):
        self.op, self.inputs, self.attrs, self.saved, self.shape, self.dtype = op, inputs, attrs, saved, shape, dtype
        self.time, self.hooks = tick(), None

    @property
    def next_functions(self) -> tuple:
        """PyTorch's view of the edges: `(node, 0)` for each input."""
        return tuple((source, 0) for source in self.inputs)

    def name(self) -> str:
        """The op's name in PyTorch's style: `MulBackward`."""
        return "".join(part.capitalize() for part in self.op.name.split("_")) + "Backward"

    def register_hook(self, fn: Callable) -> Handle:
        """Call `fn(grad_inputs, grad_outputs)` after this node's step; what it returns, unless None, replaces `grad_inputs`."""
        return hooks_of(self.inputs[0] if self.op.picks else self).add("post", fn)  # of several results: the op itself has the step

    def __repr__(self) -> str:
        return f"<{self.name()}>"


class Leaf:
    """Where a gradient comes to rest: a tensor that the user asked to differentiate by. It does not keep the tensor alive."""

    __slots__ = ("tensor", "shape", "dtype", "time", "hooks", "__weakref__")
    op, inputs, attrs = None, (), {}

    def __init__(self, tensor: Tensor):
        self.tensor, self.time, self.hooks = ref(tensor), tick(), None
        self.shape, self.dtype = tensor.array.shape, tensor.array.dtype

    next_functions = ()

    def name(self) -> str:
        return "AccumulateGrad"

    def __repr__(self) -> str:
        return "<AccumulateGrad>"


class Hooks:
    """The rare things hung on a node: hooks on its gradient, tensors that want to keep it."""

    def __init__(self) -> None:
        self.before: dict[int, Callable] = {}  # tensor hooks: grad -> grad or None
        self.post: dict[int, Callable] = {}  # node hooks: (grad_inputs, grad_outputs) -> grad_inputs or None
        self.accumulated: dict[int, Callable] = {}  # leaf hooks: tensor -> None
        self.retain: ref | None = None  # the non-leaf tensor whose .grad is to be kept

    def add(self, where: str, fn: Callable) -> Handle:
        table = getattr(self, where)
        handle = Handle(table)
        table[handle.id] = fn
        return handle


class Handle:
    """What registering a hook returns; `remove()` takes the hook away. It is a context manager too."""

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


class _Pick:
    """One of several results: where its gradient arrives before it joins the others' at the op's own node."""

    name, picks, rules, slots, multi, variadic, view, ruled = "pick", True, (), (), False, False, False, True
    inputs, outputs, aux, params, defaults = ("input",), ("out",), (), (), {}

    @staticmethod
    def push(node: Node, tangents: list, xp: Any, recorded: bool) -> Any:
        return tangents[0][node.attrs["index"]]

    def __repr__(self) -> str:
        return "<op pick>"


pick = _Pick()


def picked(node: Node, index: int, array: Any) -> Node:
    """The node of result number `index` of an op with several results."""
    return Node(pick, (node,), {"index": index}, (), array.shape, array.dtype)


# -- the order of a pass ------------------------------------------------------------------------------------------------

_time = attrgetter("time")


def plan(roots: Iterable, targets: Iterable | None = None) -> list:
    """Every node that the roots depend on, in the order of the backward pass: newest first, each leaf as soon as its gradient is whole.

    With `targets`, only the nodes on a path from a root to a target.
    """
    seen, last_user = set(), {}
    todo = []
    for root in roots:
        if root.op is None:
            last_user[root] = None
        elif root not in seen:
            seen.add(root)
            todo.append(root)
    while todo:
        node = todo.pop()
        for source in node.inputs:
            if source is None:
                continue
            if source.op is None:
                user = last_user.get(source)
                if user is None or node.time < user.time:
                    last_user[source] = node
            elif source not in seen:
                seen.add(source)
                todo.append(source)
    order = sorted(seen, key=_time, reverse=True)
    if last_user:
        after: dict[Any, list] = {}
        for leaf, user in last_user.items():
            after.setdefault(user, []).append(leaf)
        whole = sorted(after.get(None, ()), key=_time)
        for node in order:
            whole.append(node)
            leaves = after.get(node)
            if leaves is not None:
                # in the order of the op's inputs: weight before bias
                whole.extend(dict.fromkeys(s for s in node.inputs if s in leaves))
        order = whole
    return order if targets is None else _towards(order, set(targets))


def _towards(order: list, targets: set) -> list:
    needed = set(targets)
    for node in sorted(order, key=_time):
        if any(source in needed for source in node.inputs if source is not None):
            needed.add(node)
    return [node for node in order if node in needed]


# -- reverse mode ---------------------------------------------------------------------------------------------------------


def backward_steps(
    roots: list[tuple[Any, Any]],
    xp: Any,
    retain: bool = False,
    captured: dict | None = None,
    accumulate: bool = True,
    in_place: bool = True,
) -> Iterator[tuple[Any, Any, tuple]]:
    """Run the backward pass one node at a time, yielding `(node, grad, input_grads)` after each.

    `.backward()` exhausts this generator; the workbench's stepper holds it. There is no other executor. `roots` are `(node, grad)`
    pairs. `xp` is the array namespace that the rules run on: the engine itself when the derivative is to be recorded.
    `captured` (`{node: None}`) collects the gradients that arrive at those nodes; with `accumulate` False leaves keep theirs, and
    with `in_place` False a leaf that has a gradient already gets a new tensor for the sum, so that the step can be undone.
    """
    grads: dict[Any, Any] = {}
    for node, grad in roots:
        grad = _conj(grad, node)
        grads[node] = grads[node] + grad if node in grads else grad
    order = plan(grads, captured)
    recorded = xp is not numpy and getattr(xp, "records", False)
    if observe.current is not None:
        observe.current.backward_begins(tuple(grads), order)
    take = grads.pop
    for node in order:
        grad = take(node, None)
        if grad is None:
            continue
        watcher = observe.current
        if watcher is not None:
            watcher.step_begins(node)
        hooks = node.hooks
        if hooks is not None:
            grad = _conj(_before(hooks, _conj(grad, node), recorded), node)
        if captured is not None and node in captured:
            captured[node] = _conj(grad, node)
        op = node.op
        if op is None:
            input_grads: Any = ()
            if accumulate:
                _receive(node, _conj(grad, node), recorded, in_place)
        elif op.picks:
            input_grads = (grad,)
            _unpick(grads, node, grad)
        else:
            saved = node.saved
            if saved is FREED:
                raise _freed(node)
            if saved and inplace.last_write > node.time:
                inplace.check(node)
            input_grads = op.pull_recorded(node, grad, xp) if recorded else op.pull(node, grad)
            if hooks is not None and hooks.post:
                input_grads = _after(hooks, input_grads, grad, recorded)
            for source, g in zip(node.inputs, input_grads):
                if g is not None:
                    before = grads.get(source)
                    grads[source] = g if before is None else before + g
            if saved and not retain:
                node.saved = FREED
        if watcher is not None:
            watcher.backward(node, grad, input_grads)
        yield node, grad, input_grads


def _freed(node: Node) -> errors.GraphFreedError:
    return errors.GraphFreedError(
        f"Trying to backward through the graph a second time: the arrays that {node.op.name} saved were freed by the first "
        "backward pass. Pass retain_graph=True to the first backward() or autograd.grad() if you need the graph again."
        + errors.at_user_line()
    )


def _conj(grad: Any, node: Any) -> Any:
    """From PyTorch's gradient of a complex tensor to the rules' own and back: rules transpose, their conjugate is PyTorch's."""
    return grad if node.dtype.kind != "c" or node.shape is None else grad.conj()


def _unpick(grads: dict, node: Node, g: Any) -> None:
    """One of several results received a gradient: it goes to its place in the list that the op's rules will get."""
    source = node.inputs[0]
    slots = grads.setdefault(source, [None] * source.attrs["__outputs__"])
    i = node.attrs["index"]
    slots[i] = g if slots[i] is None else slots[i] + g


def _receive(leaf: Leaf, grad: Any, recorded: bool, in_place: bool) -> None:
    """A leaf's gradient is whole. One assignment, so an interrupt finds it either untouched or complete."""
    tensor = leaf.tensor()
    if tensor is None:
        return
    before = tensor._grad
    if recorded:
        tensor._grad = grad if before is None else before + grad
    elif before is None:
        # the leaf owns its gradient: a rule may have handed the same array to two inputs
        tensor._grad = _tensor(grad.copy())
    elif before.node is None and in_place:
        before.array += grad  # as PyTorch does: whoever holds the gradient sees the sum
        inplace.note_write(before.array, "backward")
    elif before.node is None:
        tensor._grad = before._like(before.array + grad)
    else:
        tensor._grad = before.detach() + _tensor(grad)
    if leaf.hooks is not None:
        for fn in tuple(leaf.hooks.accumulated.values()):
            fn(tensor)


def _tensor(array: Any) -> Tensor:
    from .tensor import Tensor

    return Tensor._wrap(array)


def _before(hooks: Hooks, grad: Any, recorded: bool) -> Any:
    if hooks.before:
        shown = grad if recorded else _tensor(grad)
        for fn in tuple(hooks.before.values()):
            changed = fn(shown)
            if changed is not None:
                shown = _replacing(shown, changed)
        grad = shown if recorded else shown.array
    tensor = hooks.retain() if hooks.retain is not None else None
    if tensor is not None:
        kept = grad if recorded else _tensor(grad.copy())
        tensor._grad = kept if tensor._grad is None else tensor._grad + kept
    return grad


def _after(hooks: Hooks, input_grads: Any, grad: Any, recorded: bool) -> tuple:
    """Node hooks see the gradients on both sides of the step, and may give others for the inputs."""

    def shown(grads: Any) -> tuple:
        return tuple(g if g is None or recorded else _tensor(g) for g in grads)

    found, outer = shown(input_grads), shown(grad if isinstance(grad, list) else (grad,))  # a list: an op with several results
    for fn in tuple(hooks.post.values()):
        changed = fn(found, outer)
        if changed is not None:
            if not isinstance(changed, tuple):
                raise TypeError(f"expected tuple, but hook returned {type(changed).__name__!r}")
            if len(changed) != len(found):
                raise RuntimeError(f"hook has returned an incorrect number of values (got {len(changed)}, but expected {len(found)})")
            found = tuple(map(_replacing, found, changed))
    return found if recorded else tuple(g if g is None else g.array for g in found)


def _replacing(shown: Any, changed: Any) -> Any:
    """What a hook gave for a gradient, when it can stand in its place."""
    if changed is not None and shown is None:
        raise TypeError("can't replace a None gradient with a non-None value")
    if changed is not None and tuple(changed.shape) != tuple(shown.shape):
        raise RuntimeError(f"hook changed the shape of the gradient from {tuple(shown.shape)} to {tuple(changed.shape)}")
    return changed


def backward(roots: list[tuple[Any, Any]], xp: Any, retain: bool = False, captured: dict | None = None, accumulate: bool = True) -> None:
    """Run the whole backward pass."""
    deque(backward_steps(roots, xp, retain, captured, accumulate), maxlen=0)


# -- forward mode ---------------------------------------------------------------------------------------------------------


def push_forward(root: Any, tangents: dict, xp: Any) -> Any:
    """Forward mode: the same tape walked the other way, from leaves (`{leaf: tangent}`) to `root`. None: no path.

    `tangents` keeps what is found at each node on the way, so that a further root costs only what is new.
    """
    recorded = getattr(xp, "records", False)
    for node in sorted(plan([root]), key=_time):
        if node.op is not None and node not in tangents:
            given = [tangents.get(source) for source in node.inputs]
            if all(t is None for t in given):
                tangents[node] = None
                continue
            if node.saved is FREED:
                raise _freed(node)
            if node.saved and inplace.last_write > node.time:
                inplace.check(node)
            tangents[node] = node.op.push(node, given, xp, recorded)
    return tangents.get(root)
