"""User-written ops: `class Exp(Function)` with `forward(ctx, ...)` and `backward(ctx, *grads)`."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any
from weakref import ref

from .. import dtypes, inplace, observe, tape
from ..tensor import Tensor


class Context:
    """What `forward` leaves for `backward`. Any attribute can be set on it; tensors go through `save_for_backward`."""

    def __init__(self, needs: tuple) -> None:
        self.needs_input_grad = needs
        self._saved: tuple = ()
        self._dirty: tuple = ()
        self._no_grad: tuple = ()
        self._materialize = True
        self._name, self._sealed = "", math.inf  # whose backward it is for, and when forward was done

    def save_for_backward(self, *tensors: Tensor | None) -> None:
        """Keep tensors (inputs or outputs, or any) for backward."""
        self._saved = tensors

    def mark_dirty(self, *tensors: Tensor) -> None:
        """Say which inputs forward changed in place."""
        self._dirty = tensors

    def mark_non_differentiable(self, *tensors: Tensor) -> None:
        """Say which outputs carry no gradient."""
        self._no_grad = tensors

    def set_materialize_grads(self, value: bool) -> None:
        """False: backward gets None, not zeros, for outputs that nobody used."""
        self._materialize = value

    @property
    def saved_tensors(self) -> tuple:
        """The saved tensors, tied to the tape again. SpoiledError when one was written in place after forward."""
        for i, t in enumerate(self._saved):
            if t is None:
                continue
            write = inplace.last_write_of(t.array)
            if write is not None and write.time > self._sealed:
                raise inplace.spoiled(t.array, write, self._name, f"saved_tensors[{i}]")
        return tuple(t.open() if isinstance(t, _Output) else t for t in self._saved)

    def _seal(self, name: str, time: int, outputs: tuple) -> None:
        """Outputs are kept as arrays: a node that kept a tensor it made would be a cycle."""
        self._name, self._sealed = name, time
        places = {id(o): i for i, o in enumerate(outputs)}
        self._saved = tuple(_Output(t.array, t.node) if t is not None and id(t) in places else t for t in self._saved)


class _Output:
    """A saved output: its array, and a weak way back to its node."""

    def __init__(self, array: Any, node: Any) -> None:
        self.array, self.node = array, ref(node) if node is not None else lambda: None

    def open(self) -> Tensor:
        out = Tensor._wrap(self.array)
        out.node = self.node()
        return out


class _FunctionOp:
    """A user's Function as the tape sees it: an op whose rules are the user's `backward`."""

    picks = variadic = view = False
    ruled, rules, aux, defaults = True, (), (), {}

    def __init__(self, cls: type[Function], n_out: int) -> None:
        self.function, self.name, self.multi = cls, cls.__name__, n_out > 1
        self.slots, self.inputs, self.params, self.outputs = (), (), (), tuple(f"out{i}" for i in range(n_out))
        self.__doc__ = cls.__doc__

    def __repr__(self) -> str:
        return f"<Function {self.name}>"

    def pull(self, node: Any, grad: Any) -> list:
        grads = [None if g is None else Tensor._wrap(g) for g in (grad if self.multi else [grad])]
        before, tape.mode.grad = tape.mode.grad, False
        try:
            found = self._call(node, grads)
        finally:
            tape.mode.grad = before
        return [None if g is None else g.array for g in found]

    def pull_recorded(self, node: Any, grad: Any, xp: Any) -> list:
        return self._call(node, list(grad) if self.multi else [grad])

    def _call(self, node: Any, grads: list) -> list:
        (ctx,) = node.saved
        if ctx._materialize:
            beside = next(g for g in grads if g is not None)
            grads = [
                g if g is not None else beside.new_zeros(shape, dtype=dtypes.FROM_NUMPY[d])
                for g, (shape, d) in zip(grads, node.attrs["__results__"], strict=True)
            ]
        found = self.function.backward(ctx, *grads)
        found = list(found) if isinstance(found, (tuple, list)) else [found]
        wanted = node.attrs["__inputs__"]
        while len(found) > len(wanted) and found[-1] is None:
            found.pop()
        if len(found) != len(wanted):
            raise RuntimeError(
                f"function {self.name}Backward returned an incorrect number of gradients (expected {len(wanted)}, got {len(found)})"
            )
        checked = []
        for i, (g, source) in enumerate(zip(found, node.inputs, strict=True)):
            if source is None or g is None:
                checked.append(None)
                continue
            if not isinstance(g, Tensor):
                raise TypeError(f"{self.name}.backward: gradient {i} must be a Tensor or None, got {type(g).__name__}")
            if tuple(g.shape) != source.shape:
                if g.array.ndim < len(source.shape) or any(
                    a != b and b != 1 for a, b in zip(g.shape[::-1], source.shape[::-1], strict=False)
                ):
                    raise RuntimeError(
                        f"Function {self.name}Backward returned an invalid gradient at index {i} - got {list(g.shape)} "
                        f"but expected shape compatible with {list(source.shape)}"
                    )
                g = g.sum_to_size(source.shape)
            checked.append(g if g.array.dtype == source.dtype else g.to(dtypes.FROM_NUMPY[source.dtype]))
        return checked

    def push(self, node: Any, tangents: list, xp: Any, recorded: bool) -> Any:
        raise NotImplementedError(f"{self.name} is a user-written Function without a forward-mode rule (jvp)")


class Function:
    """A user-written op. Subclass it, write the static methods `forward` and `backward`, and call `YourFunction.apply(...)`.

    `forward(ctx, *args)` works on tensors without recording; `backward(ctx, *grad_outputs)` returns one gradient (or None) for each
    argument of forward. With `setup_context(ctx, inputs, output)` defined, forward is called without `ctx`.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise RuntimeError(
            f"{type(self).__name__} should not be instantiated. Methods on autograd functions are all static: "
            f"call {type(self).__name__}.apply(...)"
        )

    @staticmethod
    def forward(*args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError("You must implement the forward function for custom autograd.Function.")

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        raise NotImplementedError(
            "You must implement either the backward or vjp method for your custom autograd.Function to use it with backward mode AD."
        )

    @classmethod
    def apply(cls, *args: Any) -> Any:
        """Run `forward` and put one node on the tape."""
        nodes = tuple(a.node if isinstance(a, Tensor) else None for a in args)
        ctx = Context(tuple(n is not None for n in nodes))
        watcher = observe.current
        if watcher is not None:
            watcher.begins()
        observe.current = None
        before, tape.mode.grad = tape.mode.grad, False
        try:
            if "setup_context" in dir(cls):
                result = cls.forward(*args)
                cls.setup_context(ctx, args, result)  # type: ignore[attr-defined]
            else:
                result = cls.forward(ctx, *args)
        finally:
            tape.mode.grad, observe.current = before, watcher
        single = not isinstance(result, tuple)
        outputs = (result,) if single else result
        # an input handed through unchanged becomes a new tensor, unless it was written in place
        outputs = tuple(
            o._like(o.array) if isinstance(o, Tensor) and any(o is a for a in args) and not any(o is d for d in ctx._dirty) else o
            for o in outputs
        )
        for t in ctx._dirty:
            inplace.refuse_leaf(t, cls.__name__)
            inplace.note_write(t.array, cls.__name__)
        if any(n is not None for n in nodes) and tape.mode.grad:
            cls._record(ctx, args, nodes, outputs)
        answer = outputs[0] if single else outputs
        if watcher is not None:
            watcher.op(_FunctionOp(cls, len(outputs)), args, {}, answer)
        return answer

    @classmethod
    def _record(cls, ctx: Context, args: tuple, nodes: tuple, outputs: tuple) -> None:
        tensors = [o for o in outputs if isinstance(o, Tensor)]
        carrying = [o for o in tensors if dtypes.FROM_NUMPY[o.array.dtype].rank >= dtypes.FLOAT and not any(o is x for x in ctx._no_grad)]
        attrs = {
            "__outputs__": len(outputs),
            "__results__": tuple((o.array.shape, o.array.dtype) if isinstance(o, Tensor) else ((), dtypes.F32) for o in outputs),
            "__inputs__": tuple(isinstance(a, Tensor) for a in args),
        }  # fmt: skip
        single = len(outputs) == 1
        shape, dtype = attrs["__results__"][0] if single else (None, dtypes.F32)
        node = tape.Node(_FunctionOp(cls, len(outputs)), nodes, attrs, (ctx,), shape, dtype)
        for i, o in enumerate(outputs):
            if any(o is c for c in carrying):
                made = node if single else tape.picked(node, i, o.array)
                if any(o is d for d in ctx._dirty):
                    inplace.rebase(o, made)
                else:
                    o.node = made
        ctx._seal(cls.__name__, node.time, outputs)


class _Twice(Function):
    """Hands a gradient through, tied to what it depends on; it cannot be differentiated again."""

    @staticmethod
    def forward(ctx: Any, found: Tensor, *sources: Tensor) -> Tensor:
        return found.detach()

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        raise RuntimeError("trying to differentiate twice a function that was marked with @once_differentiable")


def once_differentiable(backward: Callable) -> Callable:
    """Mark a Function's `backward` as having no derivative itself: differentiating through it is a RuntimeError, not a wrong number."""

    @functools.wraps(backward)
    def once(ctx: Any, *grads: Any) -> Any:
        before, tape.mode.grad = tape.mode.grad, False
        try:
            found = backward(ctx, *grads)
        finally:
            tape.mode.grad = before
        sources = [t for t in (*grads, *ctx.saved_tensors) if isinstance(t, Tensor) and t.node is not None]
        if not before or not sources:
            return found
        tied = tuple(_Twice.apply(f, *sources) if isinstance(f, Tensor) else f for f in (found if isinstance(found, tuple) else (found,)))
        return tied if isinstance(found, tuple) else tied[0]

    return once
