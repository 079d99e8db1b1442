"""The tape: the graph of recorded ops, and the backward and forward passes over it.

While recording is on (`mode.grad`), an op with an input that requires grad adds one `Node` and stores it as `node` of its result. A node
refers to the nodes of its inputs, down to the `Leaf` of each tensor with `requires_grad=True`; `time` orders nodes by when they ran.

`backward_steps` is the only executor of backward passes. It visits the nodes newest first; each step calls `op.pull`, which turns the
gradient of the result into the gradients of the inputs. `push_forward` visits the same nodes oldest first, for forward mode.
"""

from __future__ import annotations

import functools
import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, MutableMapping
from operator import attrgetter
from typing import TYPE_CHECKING, Any
from weakref import ref

import numpy

from ..backends import loops
from ..backends.coo import Coo
from ..base import errors, observe
from ..base.layout import axes_of, contiguous_format, copied, inverse
from . import devices, naming, versions
from .hooks import Handle, Hooks, _tensor, after_step, arrived, before_step, hooks_of, shown
from .registry import registry
from .versions import tick

if TYPE_CHECKING:
    from .tensor import Tensor


class _Mode(threading.local):
    """Thread-local switches: whether ops are recorded, and the state of a running backward pass."""

    grad = True
    inference = False
    limited = False  # whether the running pass was started for given inputs only
    order: Any = ()  # the plan of the pass whose hooks are running


mode = _Mode()


class Freed:
    """The value of a node's `saved` after a backward pass without `retain_graph` has used it."""

    def __repr__(self) -> str:
        return "<freed>"


FREED: Any = Freed()


class Packed:
    """The value of a node's `saved` where `saved_tensors_hooks` packed the arrays; `open()` unpacks and returns them."""

    __slots__ = ("open",)

    def __init__(self, opened: Callable[[], tuple]) -> None:
        self.open = opened


class _Place:
    """The base of `Node` and `Leaf`, with the same slots, so that a leaf can become a node."""

    __slots__ = ("op", "inputs", "attrs", "saved", "shape", "dtype", "time", "hooks", "__weakref__")
    op: Any
    inputs: tuple
    attrs: dict
    saved: Any
    shape: Any
    dtype: Any
    time: float  # in ticks; a fraction sorts a node between two others
    hooks: Hooks | None

    @property
    def metadata(self) -> dict:
        """A dict for the user's own data, kept as long as the graph."""
        return hooks_of(self).metadata


class Node(_Place):
    """One recorded call of an op.

    `inputs` are the nodes of the op's inputs, None for an input without a gradient. `saved` holds the arrays that the derivative rules of
    the other inputs use, in the order of `op.slots`. `attrs` are the call's attributes. `shape` and `dtype` (NumPy's) are those of the
    result. The node of an op with several results has shape None, and each result has a `pick` node.

    A node keeps arrays, never Tensors, so that nodes and tensors form no reference cycle.
    """

    __slots__ = ()

    def __init__(self, op: Any, inputs: tuple, attrs: dict, saved: tuple, shape: tuple | None, dtype: Any):
        self.op, self.inputs, self.attrs, self.saved, self.shape, self.dtype = op, inputs, attrs, saved, shape, dtype
        self.time, self.hooks = tick(), None

    @property
    def next_functions(self) -> tuple:
        """The edges as PyTorch shows them: for each input a pair of its node and the index of the result of that node."""
        if self.op.picks:
            return self.inputs[0].next_functions
        return tuple(
            (None, 0) if s is None else (typed(s.inputs[0]), s.attrs["index"]) if s.op is not None and s.op.picks else (typed(s), 0)
            for s in (self.inputs[i] for i in naming.edges(self))
        )

    def name(self) -> str:
        """Return PyTorch's name of the node, such as `MulBackward0`."""
        return naming.backward_name(self)

    def _kept(self, slot: str) -> Any:
        """The value of `node._saved_self`, `node._saved_result`, ...: an attribute, or what was saved for the backward step."""
        if slot in self.attrs:
            return self.attrs[slot]
        name = _SHOWN.get(slot, slot)
        if slot not in self.op.slots:
            raise AttributeError(f"{self.name()!r} object has no attribute '_saved_{name}'")
        if self.saved is FREED:
            raise freed(self.op.name)
        place = self.op.slots.index(slot)
        kept = opened(self)[place] if self.saved else None
        if kept is None:
            raise AttributeError(f"{self.name()!r} object has no attribute '_saved_{name}': {self.op.name} did not save it")
        return self.as_tensor(place, kept) if hasattr(kept, "dtype") else kept

    def _raw(self, slot: str) -> Any:
        """The value of `node._raw_saved_self`, ...: an attribute, or a handle on which pack hooks can be registered."""
        kept = self._kept(slot)
        return kept if slot in self.attrs or not hasattr(kept, "dtype") else raw_saved(self, self.op.slots.index(slot))

    def as_tensor(self, place: int, kept: Any) -> Tensor:
        """A saved array as a tensor: the leaf itself where it is one, else a new tensor with the same `grad_fn`."""
        slot = self.op.slots[place]
        source = self.inputs[place] if slot in self.op.inputs and not self.op.variadic else self if slot == "out" else None
        leaf = source.tensor() if isinstance(source, Leaf) else None
        if leaf is not None and leaf.array is kept:
            return leaf
        tensor = _tensor(kept)
        if kept.dtype.kind in "fc":
            tensor.node = source
        return tensor

    def __dir__(self) -> list[str]:
        """The attributes, without the `_saved_...` of other ops."""
        saved = self.saved if self.saved.__class__ is tuple else opened(self) if self.saved is not FREED else ()
        kept = [slot for slot, value in zip(self.op.slots, saved, strict=False) if value is not None]
        shown = {f"{start}{_SHOWN.get(slot, slot)}" for slot in (*kept, *self.attrs) for start in _SAVED}
        return [name for name in object.__dir__(self) if not name.startswith(_SAVED) or name in shown]

    def register_hook(self, fn: Callable) -> Handle:
        """Call `fn(grad_inputs, grad_outputs)` after this node's step; a return value other than None replaces `grad_inputs`."""
        return hooks_of(self.inputs[0] if self.op.picks else self).add("post", fn)  # a pick has no step: its op's node does

    def register_prehook(self, fn: Callable) -> Handle:
        """Call `fn(grad_outputs)` before this node's step; a return value other than None replaces them."""
        return hooks_of(self.inputs[0] if self.op.picks else self).add("pre", fn)

    def __repr__(self) -> str:
        home = "torch.autograd.function." if hasattr(self.op, "function") else ""
        return f"<{home}{naming.type_name(self)} object at {id(self.inputs[0] if self.op.picks else self):#x}>"


def typed(node: Any) -> Any:
    """Return the node after giving it a class with PyTorch's name, for `type(y.grad_fn).__name__`; done lazily, so that ops stay fast."""
    if node.__class__ is Node:
        own = (node.inputs[0] if node.op.picks else node).attrs.get("__context__") is not None
        node.__class__ = _type_named(naming.type_name(node), own)
    return node


@functools.cache
def _type_named(name: str, own: bool) -> type:
    shown = {"__slots__": (), "__module__": "torch.autograd.function" if own else "builtins"}
    return type(name, (Node,), shown | {"__getattr__": _of_context} if own else shown)


def _of_context(node: Node, name: str) -> Any:
    """An attribute that a user's Function set on its `ctx`, which in PyTorch is the node itself."""
    context = (node.inputs[0] if node.op.picks else node).attrs["__context__"]
    if name.startswith("__") or not hasattr(context, name):
        raise AttributeError(f"{type(node).__name__!r} object has no attribute {name!r}")
    return getattr(context, name)


_SAVED = ("_saved_", "_raw_saved_")
raw_saved: Any = None  # autograd.graph sets its SavedTensor here
_SHOWN = {"input": "self", "out": "result"}  # PyTorch's names in `_saved_...`


def show_saved(slots: Iterable[str]) -> None:
    """Define `_saved_<name>` on nodes for these slots. A `__getattr__` would slow down every attribute of a node, and so each step."""
    for slot in slots:
        if not hasattr(Node, f"_saved_{slot}"):
            for name in {slot, _SHOWN.get(slot, slot)}:
                setattr(Node, f"_saved_{name}", property(lambda node, slot=slot: node._kept(slot)))
                setattr(Node, f"_raw_saved_{name}", property(lambda node, slot=slot: node._raw(slot)))


class Leaf(_Place):
    """The node of a tensor with `requires_grad=True` that no op made: it accumulates into `.grad`. It does not keep the tensor alive."""

    __slots__ = ()
    tensor: Any = _Place.saved  # a weak reference, in the slot in which a node keeps its saved arrays

    def __init__(self, tensor: Tensor):
        self.op, self.inputs, self.attrs, self.tensor, self.time, self.hooks = None, (), _NONE, ref(tensor), tick(), None
        self.shape, self.dtype = tensor.array.shape, tensor.array.dtype

    next_functions = ()

    @property
    def variable(self) -> Tensor:
        """The tensor whose gradient is accumulated here. Raises AttributeError once it is freed, so that `hasattr` can test for it."""
        tensor = self.tensor()
        if tensor is None:
            raise AttributeError("AccumulateGrad has no variable: the tensor was freed, as the graph does not keep leaves alive")
        return tensor

    def name(self) -> str:
        return "torch::autograd::AccumulateGrad"

    def register_hook(self, fn: Callable) -> Handle:
        """Call `fn((), (grad,))` after a gradient has been accumulated."""
        return hooks_of(self).add("post", fn)

    def register_prehook(self, fn: Callable) -> Handle:
        """Call `fn((grad,))` before a gradient is accumulated; a return value other than None replaces it."""
        return hooks_of(self).add("pre", fn)

    def __repr__(self) -> str:
        return f"<AccumulateGrad object at {id(self):#x}>"


Leaf.__name__ = Leaf.__qualname__ = "AccumulateGrad"  # PyTorch's name of the type
_NONE: dict = {}


def moved(leaf: Leaf, tensor: Tensor, back: Any, attrs: dict) -> Leaf:
    """Return a new leaf for a tensor that was reshaped in place; the old one becomes the node of `back`, a view of the old shape."""
    now = Leaf(tensor)
    now.hooks, now.time = leaf.hooks, leaf.time
    leaf.__class__ = Node  # type: ignore[assignment]
    leaf.op, leaf.inputs, leaf.attrs, leaf.saved, leaf.hooks = back, (now,), attrs, (), None
    return now


class _Pick:
    """The op of a `pick` node, which takes the gradient of one of several results to the op's own node."""

    name, picks, rules, slots, multi, variadic, view, ruled = "pick", True, (), (), False, False, False, True
    inputs, outputs, aux, params, defaults = ("input",), ("out",), (), (), {}

    @staticmethod
    def push(node: Node, tangents: list, xp: Any, recorded: bool) -> Any:
        return tangents[0][node.attrs["index"]]

    def __repr__(self) -> str:
        return "<op pick>"


pick = _Pick()


def picked(node: Node, index: int, array: Any) -> Node:
    """The `pick` node of result number `index` of an op with several results."""
    return Node(pick, (node,), {"index": index}, (), array.shape, array.dtype)


# -- the order of a pass ------------------------------------------------------------------------------------------------

_time = attrgetter("time")


def plan(roots: Iterable, targets: Iterable | None = None) -> list:
    """List every node that the roots depend on in the order of the backward pass: newest first, a leaf after the last node that uses it.

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
    several = {node.inputs[0] for node in targets if node.op is not None and node.op.picks}
    # as in PyTorch, a path to one result of an op is a path to the op
    needed = targets.union(node for node in order if node.op is not None and node.op.picks and node.inputs[0] in several)
    for node in sorted(order, key=_time):
        if any(source in needed for source in node.inputs if source is not None):
            needed.add(node)
    return [node for node in order if node in needed]


def _ends(targets: Iterable, order: list) -> set:
    """The targets that depend on no other target: the pass computes their gradient but does not run their step."""
    planned = set(order)
    return {node for node in targets if planned.isdisjoint(node.inputs)}


# -- reverse mode ---------------------------------------------------------------------------------------------------------


def backward_steps(
    roots: list[tuple[Any, Any]],
    xp: Any,
    retain: bool = False,
    captured: dict | None = None,
    accumulate: bool = True,
    in_place: bool = True,
    unseen: bool = False,
) -> Iterator[tuple[Any, Any, tuple]]:
    """Run the backward pass one node at a time, yielding `(node, grad, input_grads)` after each step.

    `.backward()` exhausts this generator, and the workbench's stepper advances it; there is no other executor.

    `roots` are `(node, grad)` pairs. `xp` is the array namespace in which the rules run: `engine.core.xp`, which records them, for
    `create_graph`. `captured` (`{node: None}`) receives the gradients of those nodes; with `accumulate` False the pass ends at them and
    no leaf's `.grad` changes. With `in_place` False a second gradient of a leaf is added out of place, so that the step can be undone.
    With `unseen`, which says that the caller does not look at the steps, the gradients of parts of a tensor are added in place.

    Raises GraphFreedError if saved arrays were freed, and SpoiledError if one was overwritten in place.
    """
    grads: dict[Any, Any] = {}
    parted: set = set()  # nodes whose gradient so far is an array that nothing else refers to: see `_add_part`
    for node, grad in roots:
        grad = _conj(grad, node)
        grads[node] = grads[node] + grad if node in grads else grad
    order = plan(grads, captured)
    ends = _ends(captured, order) if captured is not None and not accumulate else ()
    recorded = xp is not numpy and getattr(xp, "records", False)
    unseen = unseen and not recorded
    if captured is not None and not grads.keys() <= (planned := set(order)):
        # as in PyTorch, the hooks of a root run even if no target depends on it
        for node in grads.keys() - planned:
            if node.hooks is not None:
                arrived(node.hooks, _conj(grads[node], node), recorded)
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
        wanted = captured if captured is not None and node in captured else None
        if wanted is not None and ends and node not in ends:  # on the path to another target: PyTorch captures before the tensor's hooks
            wanted[node] = _conj(grad, node)
        if hooks is not None:
            mode.order = order
            grad = _conj(arrived(hooks, _conj(grad, node), recorded), node)
        if wanted is not None and (not ends or node in ends):
            wanted[node] = _conj(grad, node)
            if ends:
                if watcher is not None:
                    watcher.backward(node, grad, ())
                yield node, grad, ()
                continue
        if hooks is not None and hooks.pre:
            grad = before_step(hooks, grad, recorded)
        op = node.op
        if op is None:
            input_grads: Any = ()
            if accumulate:
                _receive(node, _conj(grad, node), recorded, in_place)
            if hooks is not None and hooks.post:
                for fn in tuple(hooks.post.values()):
                    fn((), shown((grad,), recorded))
        elif op.picks:
            input_grads = (grad,)
            _unpick(grads, node, grad)
        elif unseen and op.name == "getitem" and hooks is None and watcher is None and _add_part(grads, parted, node, grad):
            input_grads = ()
        else:
            saved = node.saved
            if saved.__class__ is not tuple:
                node.saved = opened(node)  # unpacked arrays are newer than the node: like PyTorch, check no version
            elif saved and versions.last_write > node.time:
                versions.check(node)
            try:
                input_grads = op.pull_recorded(node, grad, xp) if recorded else op.pull(node, grad)
            except errors.FLOATING:
                if recorded or hasattr(op, "function"):  # a program's own rule
                    raise
                with numpy.errstate(all="ignore"):
                    input_grads = op.pull(node, grad)
            if hooks is not None and hooks.post:
                input_grads = after_step(hooks, node, input_grads, grad, recorded)
            for source, g in zip(node.inputs, input_grads):
                if g is not None:
                    before = grads.get(source)
                    grads[source] = g if before is None else _sum(before, g)
            node.saved = FREED if saved and not retain else saved
        if watcher is not None:
            watcher.backward(node, grad, input_grads)
        yield node, grad, input_grads


def _add_part(grads: dict, parted: set, node: Node, part: Any) -> bool:
    """Add the gradient of `x[index]` to that of `x`, without zeros around each of many parts. Returns whether it was added.

    It is not if `index` has arrays, which may select a place twice, or if the gradients are no arrays of NumPy's of one dtype.
    """
    source, index = node.inputs[0], node.attrs["index"]
    items = index if index.__class__ is tuple else (index,)
    if part.__class__ is not numpy.ndarray or part.dtype is not source.dtype or any(item.__class__ not in _PLAIN for item in items):
        return False
    whole = grads.get(source)
    if whole is None:
        whole = grads[source] = numpy.zeros(source.shape, part.dtype)
        if part.size < loops.LARGE or loops.copied(part, whole[index]) is None:
            whole[index] = part
        parted.add(source)
        return True
    if source not in parted:
        if whole.__class__ is not numpy.ndarray or whole.dtype is not part.dtype:
            return False
        whole = grads[source] = whole.copy()
        parted.add(source)
    if part.ndim:
        loops.add_to(whole[index], part)
    else:  # one element may be selected, not a view of it
        whole[index] += part
    return True


_PLAIN = frozenset((int, slice, type(None), type(Ellipsis)))  # parts of an index that selects no place twice


def _sum(a: Any, b: Any) -> Any:
    """The sum of two gradients of one tensor; on a GPU by the kernel of `add`, as CuPy's `+` takes the host twice as long."""
    if devices.gpu is None:
        found = loops.over(numpy.add, a, b) if a.__class__ is numpy.ndarray and a.size >= loops.LARGE else None
        return _plus(a, b) if found is None else found
    with devices.beside(a):
        found = devices.gpu.elementwise.binary(registry["add"], a, b)
        return a + b if found is None else found


def _plus(a: Any, b: Any) -> Any:
    try:
        return a + b
    except errors.FLOATING:
        with numpy.errstate(all="ignore"):
            return a + b


def opened(node: Any) -> tuple:
    """Return the arrays that a node saved, unpacked where hooks packed them. Raises GraphFreedError if they were freed."""
    if node.saved is FREED:
        raise freed(node.op.name)
    return node.saved.open() if node.saved.__class__ is Packed else node.saved


def freed(op_name: str) -> errors.GraphFreedError:
    """The error to raise when the freed arrays of `op_name` are needed again."""
    return errors.GraphFreedError(
        f"Trying to backward through the graph a second time: the arrays that {op_name} saved were freed by the first "
        "backward pass. Pass retain_graph=True to the first backward() or autograd.grad() if you need the graph again."
        + errors.at_user_line()
    )


def _conj(grad: Any, node: Any) -> Any:
    """Convert a complex gradient between PyTorch's convention and the rules': rules apply the transpose, PyTorch the conjugate of it."""
    return grad if node.dtype.kind != "c" or node.shape is None else grad.conj()


def _unpick(grads: dict, node: Node, g: Any) -> None:
    """Add the gradient of one of several results to the list of gradients that the op's rules receive."""
    source = node.inputs[0]
    slots = grads.setdefault(source, [None] * source.attrs["__outputs__"])
    i = node.attrs["index"]
    slots[i] = g if slots[i] is None else slots[i] + g


_receiving = threading.RLock()  # backward passes of several threads may reach the same leaf


def _unlocked() -> None:
    """Replace the lock after a fork: the thread that holds it does not exist in the child."""
    global _receiving
    _receiving = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_unlocked)


def _receive(leaf: Leaf, grad: Any, recorded: bool, in_place: bool) -> None:
    """Accumulate a gradient into the leaf's `.grad`, in one assignment, so that an interrupt leaves it either untouched or complete."""
    tensor = leaf.tensor()
    if tensor is None:
        return
    with _receiving, devices.beside(grad):
        before = tensor._grad
        if tensor.node is None:  # it no longer requires a gradient
            pass
        elif before is None:
            tensor._grad = _laid_as(grad, tensor) if recorded else _tensor(_own(grad, tensor.array))
        elif recorded:
            tensor._grad = before + grad
        elif grad.__class__ is Coo or before.array.__class__ is Coo:
            tensor._grad = _tensor(before.array + grad)
        elif in_place:
            loops.add_to(before.array, grad)  # as PyTorch does: other references to the gradient see the sum
            versions.note_write(before.array, "backward")
        elif before.node is None:
            tensor._grad = before._like(before.array + grad)
        else:
            tensor._grad = before.detach() + _tensor(grad)
    if leaf.hooks is not None:
        for fn in tuple(leaf.hooks.accumulated.values()):
            if fn(tensor) is not None:
                raise RuntimeError("Tensor post accumulate grad hooks should return None.")


def _own(grad: Any, leaf: Any) -> Any:
    """The leaf's own copy of its gradient: a rule may return the same array for two inputs."""
    found = loops.copied(grad) if grad.__class__ is numpy.ndarray and grad.size >= loops.LARGE and leaf.flags.c_contiguous else None
    return copied(grad, leaf) if found is None else found


def _laid_as(grad: Any, leaf: Any) -> Any:
    """A recorded copy of a gradient with the leaf's memory layout."""
    if grad.array.__class__ is Coo:
        return grad.clone()
    axes = axes_of(leaf.array)
    if axes is None:
        return grad.clone(memory_format=contiguous_format)
    return grad.permute(axes).clone(memory_format=contiguous_format).permute(inverse(axes))


def backward(roots: list[tuple[Any, Any]], xp: Any, retain: bool = False, captured: dict | None = None, accumulate: bool = True) -> None:
    """Run the whole backward pass; the arguments are those of `backward_steps`."""
    deque(backward_steps(roots, xp, retain, captured, accumulate, unseen=True), maxlen=0)


# -- forward mode ---------------------------------------------------------------------------------------------------------


def push_forward(root: Any, tangents: MutableMapping, xp: Any) -> Any:
    """Forward mode: propagate tangents (`{leaf: tangent}`) along the tape to `root`, and return its tangent, or None without a path.

    `tangents` also caches the tangent of each node on the way, so that another root computes only the nodes not visited before.
    """
    recorded = getattr(xp, "records", False)
    for node in sorted(plan([root]), key=_time):
        if node.op is not None and node not in tangents:
            given = [None if source is None else tangents.get(source) for source in node.inputs]
            if all(t is None for t in given):
                tangents[node] = None
                continue
            saved = node.saved
            if saved.__class__ is not tuple:
                node.saved = opened(node)
            elif saved and versions.last_write > node.time:
                versions.check(node)
            tangents[node] = node.op.push(node, given, xp, recorded)
            node.saved = saved
    return tangents.get(root)
