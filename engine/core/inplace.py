"""Views and in-place writes: how the tape stays correct after `x[0] = v` and `x.add_(y)`.

Views: an op whose result shares its input's memory calls `mark_view`. The result then refers to its base, the tensor that is not itself a
view, and to the view ops between the two; the base keeps weak references to all its views.

Writes: `write` runs an op out of place and `put` copies the result into the target's memory. The version of the storage increases (see
`engine.core.versions`), so that a backward pass that needs the old values raises. The target's `node` becomes that of the result; if the
target is a view, its base gets a node that combines the old base with the written part. `rebase` then gives every other view of that base a
new node, derived from the base through its view ops, because its memory may have changed too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from weakref import ref

import numpy

from ..backends import cpu, loops
from ..backends.batch import UNWRITTEN, Batched, Unbatchable
from ..backends.meta import Meta
from ..backends.reference import module_of
from ..base import dtypes, observe
from ..base.dtypes import FLOAT, FROM_NUMPY, LOW
from ..base.layout import overlaps
from . import devices, quick, tape, versions
from .registry import registry

if TYPE_CHECKING:
    from .tensor import Tensor


def note_write_to(
    target: Tensor, op_name: str, recorded: bool = False, kept: Tensor | None = None, line: tuple[Any, int] | None = None
) -> None:
    """Record a write to the tensor's memory by increasing the version of its storage, unless the tensor was made by `.data`.

    If the write is not recorded, so that no `rebase` follows, the nodes of all views but `kept` are derived again from the base.
    """
    base = target if target._view is None else target._view[0]
    if not base._apart:
        versions.note_write(target.array, op_name, line=line)
    if base._views and not recorded:
        for view in live(base._views):
            if view is not kept:
                _derive(view)


def reshape_in_place(target: Tensor, fn: Any) -> Tensor:
    """Turn `target` into the view of itself that `fn` returns: same memory, new shape and strides. A leaf stays a leaf."""
    mode, node = tape.mode, target.node
    old = target._like(target.array, node)
    old._view = target._view
    leaf, before = not mode.grad and node is not None and node.op is None, mode.grad
    mode.grad = mode.grad or node is not None and not leaf  # the gradient of a non-leaf goes through the view even in no_grad mode
    try:
        seen_as = fn(old)
    finally:
        mode.grad = before
    target.array = seen_as.array
    if seen_as._view is None or seen_as._view[1] is (target._view or (None, None))[1]:
        return target  # the shape is unchanged
    back = _back(seen_as._view[1][1], old.array.shape)
    if leaf:
        target.node = tape.moved(node, target, *back)
    else:
        _becomes(target, seen_as.node)
    if target._view is not None:
        target._view = seen_as._view
    for view in live(target._views):  # their view ops start from the new shape from now on
        if view._base is target:
            view._view = target, _after(back, view._view[1])
    return target


def _back(step: tuple, shape: tuple) -> tuple:
    """The view that undoes `step`, both as pairs of an op and its attributes; `shape` is the shape before `step`."""
    op, attrs = step
    if op.name in ("transpose", "permute"):  # two swapped dimensions: its own inverse
        return step
    if op.name == "strided_view":
        layout = dict(zip(("size", "stride", "storage_offset"), attrs["source"], strict=True))
        return op, {**layout, "source": (attrs["size"], attrs["stride"], attrs["storage_offset"])}
    return registry["reshape"], {"shape": shape}


def _after(step: tuple, link: tuple) -> tuple:
    """The chain of view ops in `link` with `step` added at its start."""
    before, *rest = link
    return ((None, step) if before is None else _after(step, before), *rest)


def live(views: list | None) -> list:
    return [view for seen in views or () if (view := seen()) is not None]


# -- views -----------------------------------------------------------------------------------------------------------------


def mark_view(out: Tensor, source: Tensor, op: Any, attrs: dict) -> None:
    """Mark `out` as a view of `source`, which it shares memory with: store its base and the view ops from there.

    A view op without a derivative, such as one that reads the bytes as another dtype, only shares the list of views (`seen_together`).
    """
    if not op.ruled:
        return seen_together(out, source)
    seen = source._view
    if seen is None:
        base = source
        out._view = source, (None, (op, attrs))
    else:
        base = seen[0]
        out._view = base, (seen[1], (op, attrs))  # a linked list, not a copy: deep chains of views stay cheap
    views = base._views
    if views is None:
        base._views = [ref(out)]
    else:
        n = len(views)
        if n > 7 and n & (n - 1) == 0:  # at powers of two, drop dead references
            views[:] = [v for v in views if v() is not None]
        views.append(ref(out))


SEVERAL = (
    "is the output of a function that returns multiple views. Such functions do not allow the output views to be modified inplace. You "
    "should replace the inplace operation by an out-of-place one."
)
FROM_FUNCTION = (
    "was created inside a custom Function (or because an input was returned as-is) and the autograd logic to handle view+inplace would "
    "override the custom backward associated with the custom Function, leading to incorrect gradients. You can fix this by cloning the "
    "output of the custom Function."
)
FROM_NO_GRAD = (
    "was created in no_grad mode, so its gradient is unknown. Make the view where ops are recorded, or write in no_grad mode too."
)


def together(views: list[Tensor], source: Tensor, maker: str) -> list[Tensor]:
    """Forbid recorded writes to views that one call made of a tensor that requires grad, as in PyTorch, and return the views."""
    if source.node is not None and tape.mode.grad:
        for i, view in enumerate(views):
            if view._view is not None:
                forbid_writes(view, f"Output {i} of {maker}", SEVERAL)
    return views


def seen_together(out: Tensor, source: Tensor) -> None:
    """Share the list of views between `out` and `source`, which share memory outside the graph: a write updates the views of both."""
    base = source if source._view is None else source._view[0]
    if base._views is None:
        base._views = []
    out._views = base._views
    if base._apart:
        out._apart = True


def forbid_writes(view: Tensor, name: str, reason: str) -> None:
    """Forbid recorded writes to a view; after a write to its base its gradient is unknown. `name` and `reason` are for the error."""
    assert view._view is not None
    base, (before, step, *_) = view._view
    view._view = base, (before, step, (name, reason))


def _forbidden(view: Tensor) -> tuple[str, str] | None:
    """The name and the reason, for the error, if writes to the view or to one that it is a view of are forbidden; else None."""
    link = None if view._view is None else view._view[1]
    while link is not None:
        if len(link) > 2:
            return link[2]
        link = link[0]
    return None


class _Modified:
    """The op of a view whose memory was written so that its gradient is unknown: its backward step raises RuntimeError."""

    name, function = "modified_view", None
    picks = variadic = view = multi = False
    ruled, rules, aux, defaults, slots, inputs, params, outputs = True, (), (), {}, (), (), (), ("out",)

    def __init__(self, name: str, reason: str) -> None:
        self.told = f"{name} is a view and its base or another view of its base has been modified inplace. This view {reason}"

    def pull(self, node: Any, grad: Any, *xp: Any) -> Any:
        raise RuntimeError(self.told)

    pull_recorded = push = pull


class _Nowhere(_Modified):
    """The op of a view whose base was written and does not require grad: the gradient ends there."""

    def __init__(self) -> None:
        self.name = "strided_view"

    def pull(self, node: Any, grad: Any, *xp: Any) -> Any:
        return ()

    pull_recorded = pull


_nowhere = _Nowhere()


def _unknown(view: Tensor, name: str, reason: str) -> Any:
    return tape.Node(_Modified(name, reason), (view.node,), {}, (), view.array.shape, view.array.dtype)


def refuse_leaf(tensor: Tensor, name: str) -> None:
    """Raise RuntimeError for a write that PyTorch forbids while ops are recorded.

    These are writes to a leaf that requires grad or a view of one, to one of several views of one call, and to a view made in no_grad mode.
    """
    if not tape.mode.grad or tensor.node is None and tensor._view is None:
        return
    base, node = tensor._base, tensor.node
    for inside in (node, None if base is None else base.node):
        if inside is not None and "outside" in inside.attrs and (outside := inside.attrs["outside"]()) is not None:
            refuse_leaf(outside, name)  # the samples of a vmap follow the rules of the whole tensor
    if node is not None and node.op is None:
        raise RuntimeError(
            f"{name}: a leaf Variable that requires grad is being used in an in-place operation. Wrap the write in torch.no_grad()."
        )
    if base is None:
        return
    if node is not None:
        if (forbidden := _forbidden(tensor)) is not None:
            raise RuntimeError(f"{name}: {forbidden[0]} is a view and is being modified inplace. This view {forbidden[1]}")
        link = tensor._view[1] if tensor._view is not None else None
        while link is not None:
            link = link[0]
            if node.op is not None and node.op.view:
                node = node.inputs[0]  # towards the base, up to a leaf that is itself a view
    if node is not None and (node.op is None or base.node is None) or base.node is not None and base.node.op is None:
        raise RuntimeError(
            f"{name}: a view of a leaf Variable that requires grad is being used in an in-place operation. "
            "Wrap the write in torch.no_grad()."
        )
    if base.node is not None and tensor.node is None and FROM_NUMPY[tensor.array.dtype].rank >= FLOAT:
        raise RuntimeError(f"{name}: A view {FROM_NO_GRAD}")


def write(op: Any, target: Tensor, inputs: tuple, attrs: dict) -> Tensor:
    """Run `op` on `(target, *inputs)` out of place, write the result into `target`'s memory and return `target`.

    If the op saves its input, it runs on a copy of the old target, so that `x.mul_(y)` has a gradient for `y`, as in PyTorch.

    Raises RuntimeError if the result's shape is not the target's, if its dtype cannot be cast to the target's, and for a write that
    `refuse_leaf` forbids.
    """
    if devices.several and (place := devices.elsewhere((target,))) is not None:
        with place:
            return write(op, target, inputs, attrs)
    name = f"{op.name}_"
    refuse_leaf(target, name)
    watcher = observe.current
    old: Any = None  # the target before the write
    if watcher is not None:
        watcher.begins()
        old = target._like(target.array, past_hooks(target))
    if _at_once(op, target, inputs, attrs, name):
        if watcher is not None:
            watcher.wrote(op, target, (old, *inputs), attrs)
        return target
    if old is None:
        old = target._like(target.array, past_hooks(target))
    if op.saves_input and tape.mode.grad and (target.node is not None or any(getattr(x, "node", None) is not None for x in inputs)):
        old.array = target.array.copy()
    try:
        inputs = tuple([apart(target, x, op) if hasattr(x, "array") else x for x in inputs])
    except RuntimeError:
        if (
            op.scatters and not op.memory_first and (wrong := op.misplaced((old, *inputs), attrs)) is not None
        ):  # PyTorch checks the indices first
            raise op.explain(wrong, (old, *inputs), attrs) from None
        raise
    observe.current = None  # the observer is notified of the in-place op, not of its parts
    try:
        result = _called(op, old, inputs, attrs)
    except NotImplementedError:
        if op.casts:  # PyTorch checks the shapes and the target's dtype before it looks for a kernel
            shapes = [tuple(getattr(x, "shape", ())) for x in (old, *inputs)]
            _refuse_shape(target.array, numpy.broadcast_shapes(*shapes), name)
            refuse_result(target.array, op, (old, *inputs), name)
        raise
    finally:
        observe.current = watcher
    _refuse_shape(target.array, result.array.shape, name)
    put(target, result, name)
    if watcher is not None:
        watcher.wrote(op, target, (old, *inputs), attrs)
    return target


UFUNCS = {"add": numpy.add, "sub": numpy.subtract, "mul": numpy.multiply, "div": numpy.divide}


def written_by(ufunc: numpy.ufunc, name: str, target: Tensor, x: Any) -> bool:
    """`write` for what most in-place arithmetic is: of arrays of one shape that share no memory, or with a number, and not recorded.

    Returns whether it was written.
    """
    array, mode = target.array, tape.mode
    if array.__class__ is not numpy.ndarray or array.dtype not in quick.DTYPES or array.size >= loops.LARGE or observe.current is not None:
        return False
    if target._views is not None or target._view is not None or mode.grad and target.node is not None:
        return False
    if not (x.__class__ is float or x.__class__ is int):
        if not hasattr(x, "node") or mode.grad and x.node is not None:
            return False
        x = x.array
        if x.__class__ is not numpy.ndarray or x.dtype is not array.dtype or x.shape != array.shape:
            return False
        if versions.storage(x) is versions.storage(array):
            return False
    try:
        loops.into(ufunc, array, x, out=array)
    except (OverflowError, ValueError):  # which `write` explains
        return False
    if not target._apart:
        versions.note_write(array, name)
    return True


def _copy(array: Any, value: Any, out: Any) -> None:
    if loops.copied(value, out) is None:
        numpy.copyto(out, value, "unsafe")


_INTO: dict[str, Any] = {**UFUNCS, "copy": _copy}


def _at_once(op: Any, target: Tensor, inputs: tuple, attrs: dict, name: str) -> bool:
    """Write without a tensor for the result, if nothing is recorded and no operand shares the memory. Returns whether it was written.

    On a GPU it is for elementwise ops that have a kernel; on the CPU for dense arrays, but not in half precision, which is rounded.
    """
    array, recording, shape = target.array, tape.mode.grad, None
    kind, dtype = array.__class__, array.dtype
    on_cpu = kind is numpy.ndarray
    if not (array.flags.forc if on_cpu else op.pointwise and not op.checks and kind is devices.gpu_array) or not quick.DTYPES:
        return False
    if recording and target.node is not None or on_cpu and (devices.mixed and attrs or dtype in LOW and not op.exact):
        return False
    operands, ready = [array], dtype in quick.DTYPES and not op.checks
    for x in inputs:
        if hasattr(x, "array"):
            if recording and x.node is not None:
                return False
            x = x.array
            if on_cpu and (x.__class__ is not kind or x.dtype in LOW) or versions.storage(x) is versions.storage(array):
                return False
            ready, shape = ready and x.dtype is dtype, x.shape
        elif on_cpu and not (x.__class__ is float or x.__class__ is int or x is None):
            return False
        operands.append(x)
    if not on_cpu:
        if not devices.gpu.elementwise.write(op, array, operands, attrs):
            return False
    else:
        try:
            arrays = operands if ready or op.unprepared else op.prepare(operands)[0]
            into = _INTO.get(op.name) if arrays[0] is array and (shape is None or shape == array.shape) else None
            data = op.on_cpu(cpu, *arrays, **attrs) if into is None else array
        except Exception:  # which the op's call explains
            return False
        if into is not None:
            if array.size < loops.LARGE or into is _copy or loops.over(into, *arrays, out=array) is None:
                loops.into(into, *arrays, out=array)
        elif data.__class__ is not tuple and data.shape == array.shape and data.dtype is dtype:
            array[...] = data
        else:
            return False
    note_write_to(target, name, recording)
    if recording and (target._view is not None or target._views is not None):
        rebase(target, None)
    return True


def past_hooks(target: Tensor) -> Any:
    """The node of a tensor that is about to be written.

    For a view with hooks between it and its base it is a new node without them: as in PyTorch, the gradient of a write goes directly to the
    base, and the hooks stay with the view's old values.
    """
    base, node = target._base, target.node
    while node is not None and node.op is not None and node.op.view and base is not None and base.node not in (None, node):
        # a strided view may show more than a part of the view that it was made of
        if node.hooks is not None or node.op.name == "strided_view" and node.inputs[0] is not base.node:
            return _seen_through(base, target)
        node = node.inputs[0]
    return target.node


def _called(op: Any, old: Tensor, inputs: tuple, attrs: dict) -> Tensor:
    if not op.order:
        return op.call(old, *inputs, **attrs)
    return op.call(**dict(zip(op.inputs, (old, *inputs), strict=False)), **attrs)  # by name: the caller's order is another


def _refuse_shape(array: Any, shape: tuple, name: str) -> None:
    if shape != array.shape:
        raise RuntimeError(f"{name}: output with shape {list(array.shape)} doesn't match the broadcast shape {list(shape)}")


def apart(target: Tensor, operand: Tensor, op: Any) -> Tensor:
    """Return an operand of a write to `target`, copied if it shares the target's memory, so that `x.mul_(x)` reads the old values.

    Raises RuntimeError if it overlaps the written elements without being the same view, as in PyTorch.
    """
    a, b = target.array, operand.array
    if versions.storage(a) is not versions.storage(b):
        return operand
    if not op.reads_first:
        refuse_shared(a, b, f"{op.name}_", op.scatters)
    return operand._like(b.copy(), operand.node)


def refuse_shared(a: Any, b: Any, name: str, scatters: bool) -> None:
    """Raise RuntimeError if a write to `a` changes `b` at other positions, or, if the op scatters, at any position."""
    if versions.storage(a) is not versions.storage(b) or devices.is_traced(a):  # a traced step has passed this check when it ran eagerly
        return
    itself = a is b and scatters
    if isinstance(a, Batched) and isinstance(b, Batched):
        a, b = versions.whole(a), versions.whole(b)
    dense = not isinstance(a, Batched) and not isinstance(b, Batched) and a.size and b.size and _dense(a) and _dense(b)
    if itself or a is not b and dense:
        first, begin = devices.address(a), devices.address(b)
        alike = a.shape == b.shape and all(i == j for i, j, n in zip(a.strides, b.strides, a.shape, strict=True) if n > 1)
        same = first == begin and alike and not scatters
        if itself or first < begin + b.nbytes and begin < first + a.nbytes and not same:
            raise RuntimeError(
                f"{name}: unsupported operation: some elements of the input tensor and the written-to tensor refer to a single "
                "memory location. Please clone() the tensor before performing the operation."
            )


def _dense(array: Any) -> bool:
    """Whether the elements fill one block of memory without gaps or overlaps, in any order of the dimensions."""
    step = array.itemsize
    for stride, n in sorted((s, n) for s, n in zip(array.strides, array.shape, strict=True) if n != 1):
        if stride != step:
            return False
        step *= n
    return True


def refuse_overlap(array: Any, name: str) -> None:
    """Raise RuntimeError if several elements of the array share one memory location, as in an expanded tensor."""
    if overlaps(array):
        raise RuntimeError(
            f"{name}: unsupported operation: more than one element of the written-to tensor refers to a single memory location. "
            "Please clone() the tensor before performing the operation."
        )


def refuse_cast(array: Any, value: Any, name: str) -> None:
    """Raise RuntimeError if `value` has a wider kind of dtype than the array, such as float for an integer array."""
    _refuse_kind(array, FROM_NUMPY[value.dtype], name)


def refuse_result(array: Any, op: Any, inputs: tuple, name: str) -> None:
    """Raise RuntimeError if the result of an elementwise op, not computed yet, would have a wider kind of dtype than the array."""
    if op.types in ("promote", "float"):
        kind = dtypes.result(tuple([getattr(x, "array", x) for x in inputs]))
        _refuse_kind(array, dtypes.default if op.types == "float" and kind.rank < FLOAT else kind, name)


def _refuse_kind(array: Any, kind: Any, name: str) -> None:
    if kind.rank > FROM_NUMPY[array.dtype].rank:
        raise RuntimeError(f"{name}: result type {kind.name} can't be cast to the desired output type {FROM_NUMPY[array.dtype].name}")


def put(target: Tensor, result: Tensor, name: str) -> None:
    """Copy `result` into `target`'s memory, and update the nodes of `target`, its base and all live views.

    Raises RuntimeError if the dtype cannot be cast, between the meta device and others, and if elements of the target share memory.
    """
    array, value, node = target.array, result.array, result.node
    if value.dtype is not array.dtype:
        refuse_cast(array, value, name)
        node = _narrowed(node, array)
    if value.__class__ is not array.__class__ and Meta in (value.__class__, array.__class__):
        raise RuntimeError(
            f"{name}: Attempting to copy from device {result.device} to device {target.device}, but cross-device copies are not allowed!"
        )
    if value.__class__ is Batched and array.__class__ is not Batched:
        raise Unbatchable(UNWRITTEN)
    if value.__class__ is devices.traced_array and array.__class__ is numpy.ndarray:
        _trace(target)
        array = target.array
    if 0 in (memory := versions.whole(array)).strides:
        refuse_overlap(memory, name)
    once = None if target._view is None or array.flags.c_contiguous else _once(array, value)
    note_write_to(target, name, tape.mode.grad)  # first, so that an interrupt leaves no unnoticed write
    if once is None:
        array[...] = value
    else:
        array[once] = value[once]
    if node is not None and node.op is not None:
        node.time = tape.tick()  # after the write: a saved result is what the memory now holds
        node.dtype = array.dtype  # also the dtype of its gradient
        if "out" in node.op.slots and isinstance(node.saved, tuple) and node.saved:
            i = node.op.slots.index("out")
            if i < len(node.saved) and node.saved[i] is value:
                node.saved = (*node.saved[:i], array, *node.saved[i + 1 :])
    if tape.mode.grad:  # otherwise only the values change, and the target keeps its node
        if node is None and target.node is not None:
            node = constant(target)
        rebase(target, node, once)


def _trace(target: Tensor) -> None:
    """Turn the memory of a tensor that a traced step made, and all its views, into a traced array."""
    base = target._base or target
    base.array = devices.traced_array.library.asarray(base.array)
    for view in live(base._views):
        path, link = [], view._view[1]
        while link is not None:
            link, step = link
            path.append(step)
        view.array = base.array.library.read_through(base.array, tuple(path[::-1]))


def _narrowed(node: Any, array: Any) -> Any:
    """The node of a result cast to the dtype of the array that it is written into, which the gradient then has."""
    return node and tape.Node(registry["to_dtype"], (node,), {"dtype": FROM_NUMPY[array.dtype]}, (), array.shape, array.dtype)


def _once(array: Any, value: Any) -> tuple | None:
    """Index one element per memory location where elements of `array` share locations, as those of overlapping windows do.

    Of the elements at one location it is the last that `value` changes, so that an unchanged element does not restore the old value.
    Returns None if no two elements share a location, and for meta and vmap arrays, which are written whole.
    """
    span = array.itemsize
    for stride, n in sorted((abs(s), n) for s, n in zip(array.strides, array.shape, strict=True) if n > 1):
        if stride < span:
            break
        span += stride * (n - 1)
    else:
        return None
    if not array.size or array.__class__ in (Batched, Meta):
        return None
    library = module_of(array)
    places = library.zeros((), "int64")
    for stride, n in zip(array.strides, array.shape, strict=True):
        places = places[..., None] + library.arange(n) * stride
    changed = (value != array) & ~((value != value) & (array != array))
    order = library.argsort(-(library.arange(array.size) + array.size * changed.reshape(-1)))
    _, first = library.unique(places.reshape(-1)[order], return_index=True)
    return library.unravel_index(order[first], array.shape)


def rebase(target: Tensor, node: Any, once: tuple | None = None) -> None:
    """Give the written `target` its new node, and derive the nodes of its base and of the base's other views from it.

    `once` is the index of the elements that were written, if elements of the target share memory locations.
    """
    base = target._base
    unrecorded = (target if base is None else base).node is not None  # then a view that does not require grad was made in no_grad mode
    if base is None:
        _becomes(target, node)
        base = target
    elif node is not None or base.node is not None:
        _becomes(base, _written(base, target, node, once))
    for view in live(base._views):  # their memory was written too: their gradient now goes through the base
        if view._base is not base:
            _derive(view)
            continue
        if view.node is not None and view.node.op is None:  # a leaf stays one
            continue
        forbidden = _forbidden(view)
        if forbidden is None and unrecorded and view.node is None and FROM_NUMPY[view.array.dtype].rank >= FLOAT:
            forbidden = "The result", FROM_NO_GRAD
        if forbidden is None:
            _becomes(view, _seen_through(base, view))
        elif base.node is not None or view.node is not None:
            _becomes(view, _unknown(view, *forbidden))


def _derive(view: Tensor) -> None:
    """Give a view a new node after an unrecorded write to its base; its hooks stay with the old node."""
    if view.node is not None:
        if (forbidden := _forbidden(view)) is not None:
            _becomes(view, _unknown(view, *forbidden))
        elif view.node.op is not None:
            _becomes(view, _seen_through(view._base, view))


def _becomes(tensor: Tensor, node: Any) -> None:
    """Set the tensor's node. `retain_grad` moves to the new node, and hooks stay with the old one."""
    old, tensor.node = tensor.node, node
    if node is not None and old is not None and old.hooks is not None and old.hooks.retain is not None:
        tape.hooks_of(node).retain, old.hooks.retain = old.hooks.retain, None


def constant(target: Tensor) -> Any:
    """The node of a tensor overwritten with values without a gradient, as by `x.eq_(y)`: it requires grad and passes zeros back."""
    return tape.Node(registry["fill"], (target.node, None), {}, (), target.array.shape, target.array.dtype)


def _written(base: Tensor, view: Tensor, node: Any, once: tuple | None) -> Any:
    """The node of a base after a write to one of its views: its inputs are the old base and the written view."""
    if once is not None:
        return _written_at(base, view, node, once)
    return tape.Node(registry["write_view"], (base.node, node), {"path": _way(base, view)}, (), base.array.shape, base.array.dtype)


def _written_at(base: Tensor, view: Tensor, node: Any, once: tuple) -> Any:
    """The node of a base after a write to the elements at the index `once` of one of its views."""
    array, path = base.array, _way(base, view)
    library = module_of(array)
    places = devices.namespace(array).read_through(library.arange(array.size).reshape(array.shape), path)[once]
    if node is not None:
        node = tape.Node(registry["getitem"], (node,), {"index": once}, (), places.shape, array.dtype)
    attrs = {"indices": library.unravel_index(places, array.shape), "accumulate": False}
    return tape.Node(registry["index_put"], (base.node, node), attrs, (), array.shape, array.dtype)


def _way(base: Tensor, view: Tensor) -> tuple:
    """The view ops from a base to its view, starting at the last strided one, which reads the storage whatever precedes it."""
    path = view._path
    for i, (op, attrs) in reversed([*enumerate(path)]):
        if op.name == "strided_view":
            source = tuple(base.shape), base.stride(), base.storage_offset()
            return (op, {**attrs, "source": source}), *path[i + 1 :]
    return path


def _seen_through(base: Tensor, view: Tensor) -> Any:
    """The node of a view derived from its base's node through the view ops. If the base does not require grad, the gradient ends there."""
    node = base.node
    if node is None:
        return None if view.node is None else tape.Node(_nowhere, (), {}, (), view.array.shape, view.array.dtype)
    array = base.array
    for op, attrs in _way(base, view):
        array = op.forward(devices.namespace(array), array, **attrs)
        node = tape.Node(op, (node,), attrs, (), array.shape, array.dtype)
    return node
