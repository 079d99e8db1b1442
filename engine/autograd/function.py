"""Custom differentiable ops: subclass `Function` with `forward(ctx, ...)` and `backward(ctx, *grads)`."""

from __future__ import annotations

import functools
import inspect
import warnings
from collections.abc import Callable
from typing import Any

from ..base import dtypes, observe
from ..core import devices, inplace, tape, xp
from ..core.batching import entered
from ..core.op import registry
from ..core.tensor import Tensor
from . import anomaly_mode, function_vmap
from .function_context import FunctionCtx


class _FunctionOp:
    """A custom Function as the tape sees it: an op whose derivative is the user's `backward`."""

    picks = variadic = view = False
    ruled, rules, aux, defaults = True, (), (), {}

    def __init__(self, cls: type[Function], n_out: int) -> None:
        self.function, self.name, self.multi = cls, cls.__name__, n_out > 1
        self.slots, self.inputs, self.params, self.outputs = (), (), (), tuple(f"out{i}" for i in range(n_out))
        self.__doc__ = cls.__doc__

    def __repr__(self) -> str:
        return f"<Function {self.name}>"

    @staticmethod
    def _context(node: Any) -> FunctionCtx:
        if node.saved is tape.FREED:
            raise tape.freed(node.op.name)
        return node.attrs["__context__"]

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
        ctx = self._context(node)
        if ctx._materialize:
            grads = _materialized(grads, node.attrs["__results__"])
        # the tape's rules transpose; a user's backward does not (hence the conjugates)
        grads = [g.conj() if g is not None and g.array.dtype.kind == "c" else g for g in grads]
        rule = self.function.backward if self.function.backward is not Function.backward else self.function.vjp
        found = rule(ctx, *grads)
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
            if g is not None and wanted[i] is None:
                raise RuntimeError(
                    f"function {self.name}Backward returned a gradient different than None at position {i + 1}, but the corresponding "
                    "forward input was not a Variable"
                )
            if g is not None and not isinstance(g, Tensor):
                raise RuntimeError(
                    f"expected Variable or None (got {type(g).__name__}): gradient {i} that {self.name}.backward returned is no Tensor"
                )
            if source is None or g is None:
                checked.append(None)
                continue
            if tuple(g.shape) != source.shape:
                if g.array.ndim < len(source.shape) or any(
                    a != b and b != 1 for a, b in zip(g.shape[::-1], source.shape[::-1], strict=False)
                ):
                    raise RuntimeError(
                        f"Function {self.name}Backward returned an invalid gradient at index {i} - got {list(g.shape)} "
                        f"but expected shape compatible with {list(source.shape)}"
                    )
                g = g.sum_to_size(source.shape)
            if g.is_complex() and source.dtype.kind != "c":
                raise RuntimeError(f"Function {self.name}Backward returned a complex gradient at index {i} for a real input")
            g = g.conj() if g.array.dtype.kind == "c" else g
            checked.append(g if g.array.dtype == source.dtype else g.to(dtypes.FROM_NUMPY[source.dtype]))
        return checked

    def push(self, node: Any, tangents: list, xp: Any, recorded: bool) -> Any:
        if self.function.jvp is Function.jvp:
            raise NotImplementedError(
                f"{self.name}: You must implement the jvp function for custom autograd.Function to use it with forward mode AD."
            )
        ctx = self._context(node)
        given = [t if t is None or recorded else Tensor._wrap(t) for t in tangents]
        if ctx._materialize:
            given = _materialized(given, node.attrs["__inputs__"])
        before = tape.mode.grad
        tape.mode.grad, ctx._pushing = before and recorded, True
        try:
            found = self.function.jvp(ctx, *given)
        finally:
            tape.mode.grad, ctx._pushing = before, False
        outs = list(found) if isinstance(found, tuple) else [found]
        if len(outs) != len(self.outputs):
            raise RuntimeError(f"{self.name}.jvp returned {len(outs)} tangents for {len(self.outputs)} outputs")
        outs = _materialized(outs, node.attrs["__results__"], given)
        arrays = outs if recorded else [None if t is None else t.array for t in outs]
        return arrays if self.multi else arrays[0]


class Function:
    """Base class for custom differentiable ops: define static `forward` and `backward`, then call `YourFunction.apply(...)`.

    `forward(ctx, *args)` runs without recording. `backward(ctx, *grad_outputs)` returns one gradient (or None) per argument of `forward`.
    If `setup_context(ctx, inputs, output)` is defined, `forward` is called without `ctx`. `jvp(ctx, *tangents)` returns the outputs'
    tangents in forward mode. Under `vmap`, the static method `vmap(info, in_dims, *args)` runs; with `generate_vmap_rule = True`, `forward`
    and `backward` themselves run on per-sample tensors.
    """

    generate_vmap_rule = False

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        warnings.warn(
            f"{type(self)} should not be instantiated. Methods on autograd functions are all static, so you should invoke them on the "
            "class itself. Instantiating an autograd function will raise an error in a future version of PyTorch.",
            DeprecationWarning,
            stacklevel=2,
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(
            "Legacy autograd function with non-static forward method is deprecated. Please use new-style autograd function with static "
            f"forward method: {type(self).__name__}.apply(...)"
        )

    @staticmethod
    def forward(*args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError("You must implement the forward function for custom autograd.Function.")

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple, output: Any) -> Any:
        """Save what backward needs, for a `forward` that takes no `ctx`."""
        raise NotImplementedError("setup_context is not implemented.")

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        raise NotImplementedError(
            "You must implement either the backward or vjp method for your custom autograd.Function to use it with backward mode AD."
        )

    @staticmethod
    def vjp(ctx: Any, *grad_outputs: Any) -> Any:
        """Alias of `backward`."""
        raise NotImplementedError(
            "You must implement either the backward or vjp method for your custom autograd.Function to use it with backward mode AD."
        )

    @staticmethod
    def jvp(ctx: Any, *grad_inputs: Any) -> Any:
        """Return the outputs' tangents, given the inputs' tangents."""
        raise NotImplementedError("You must implement the jvp function for custom autograd.Function to use it with forward mode AD.")

    @staticmethod
    def vmap(info: Any, in_dims: tuple, *args: Any) -> Any:
        """Return `(outputs, out_dims)` for whole batches; `in_dims` gives each argument's batch dimension, or None."""
        raise NotImplementedError(
            "To use autograd.Function with vmap, you must either override the vmap staticmethod or set generate_vmap_rule=True."
        )

    @classmethod
    def apply(cls, *args: Any, **kwargs: Any) -> Any:
        """Run `forward` and record one node; with `setup_context`, defaults and keyword arguments are bound to positions first."""
        set_up = cls.setup_context is not Function.setup_context
        if set_up and (kwargs or len(args) < len(_parameters(cls.forward).parameters)):
            bound = _parameters(cls.forward).bind(*args, **kwargs)
            bound.apply_defaults()
            args, kwargs = bound.args, bound.kwargs
        nodes = tuple(a.node if isinstance(a, Tensor) else None for a in args)
        if devices.mixed and (level := function_vmap.level_of(args)) is not None:
            if function_vmap.own_rule(cls, Function.vmap):
                return function_vmap.mapped(cls, level, args, kwargs)
            nodes = tuple(entered(level, [getattr(a, "array", None) for a in args], list(nodes))[1])
        ctx = FunctionCtx(tuple(n is not None for n in nodes))
        watcher = observe.current
        if watcher is not None:
            watcher.begins()
        observe.current = None
        before, tape.mode.grad = tape.mode.grad, False
        try:
            if set_up:
                result = cls.forward(*args, **kwargs)
                cls.setup_context(ctx, args, result)  # type: ignore[attr-defined]
            else:
                result = cls.forward(ctx, *args, **kwargs)
        finally:
            tape.mode.grad, observe.current = before, watcher
        single = not isinstance(result, tuple)
        outputs = (result,) if single else result
        # an input returned unchanged becomes a new tensor, unless it was written in place
        outputs = tuple(
            _seen_as(o) if isinstance(o, Tensor) and any(o is a for a in args) and not any(o is d for d in ctx._dirty) else o
            for o in outputs
        )
        if any(not any(o is d for o in outputs) for d in ctx._dirty):
            raise RuntimeError(
                f"{cls.__name__}: Some elements marked as dirty during the forward method were not returned as output. The inputs that are "
                "modified inplace must all be outputs of the Function."
            )
        for t in ctx._dirty:
            inplace.note_write_to(t, cls.__name__)
            inplace.refuse_leaf(t, cls.__name__)
        if any(n is not None for n in nodes) and tape.mode.grad:
            cls._record(ctx, args, nodes, outputs)
        else:
            outputs = tuple(o.detach() if isinstance(o, Tensor) and o.node is not None else o for o in outputs)
        answer = outputs[0] if single else outputs
        if watcher is not None:
            watcher.op(_FunctionOp(cls, len(outputs)), args, {}, answer)
        return answer

    @classmethod
    def _record(cls, ctx: FunctionCtx, args: tuple, nodes: tuple, outputs: tuple) -> None:
        tensors = [o for o in outputs if isinstance(o, Tensor)]
        carrying = [o for o in tensors if dtypes.FROM_NUMPY[o.array.dtype].rank >= dtypes.FLOAT and not any(o is x for x in ctx._no_grad)]
        attrs = {
            "__outputs__": len(outputs),
            "__results__": tuple(map(_told, outputs)),
            "__inputs__": tuple(map(_told, args)),
            "__context__": ctx,
        }  # fmt: skip
        single = len(outputs) == 1
        shape, dtype = attrs["__results__"][0] or (None, dtypes.F32) if single else (None, dtypes.F32)
        node = tape.Node(_FunctionOp(cls, len(outputs)), nodes, attrs, (), shape, dtype)
        for i, o in enumerate(outputs):
            if any(o is c for c in carrying):
                made = node if single else tape.picked(node, i, o.array)
                if any(o is d for d in ctx._dirty):
                    if o._view is not None and not single:
                        raise RuntimeError(_DIRTY_VIEW)
                    inplace.rebase(o, made)
                    continue
                o.node = made
                if o._view is not None:
                    inplace.forbid_writes(o, f"Output {i} of {cls.__name__}", inplace.FROM_FUNCTION)
        ctx._seal(cls.__name__, node, outputs)
        if anomaly_mode.is_anomaly_enabled():
            anomaly_mode.note(node)


_DIRTY_VIEW = (
    "If your Function modifies inplace an input that is a view of another Tensor, your Function cannot return more than one Tensor. This "
    "is not supported by the current autograd engine. You should either make sure the input is not a view (using .clone() for example) or "
    "make your Function only return one Tensor (potentially splitting it into two Functions: one doing the inplace that returns a single "
    "Tensor and a second one that does the other operations)."
)


def _seen_as(x: Tensor) -> Tensor:
    """Return a view of all of `x`, detached in no_grad mode."""
    if x.node is not None and not tape.mode.grad:
        return x.detach()
    out = x._like(x.array)
    inplace.mark_view(out, x, registry["view"], {"shape": x.array.shape})
    return out


def _told(x: Any) -> tuple | None:
    """Return a tensor's shape and dtype, or None for any other value."""
    return (x.array.shape, x.array.dtype) if isinstance(x, Tensor) else None


def _materialized(found: list, told: tuple, beside: list | None = None) -> list:
    """Replace missing gradients or tangents with zeros; None stays where the value is not a tensor."""
    like = next(t for t in beside or found if t is not None)
    return [
        like.new_zeros(at[0], dtype=dtypes.FROM_NUMPY[at[1]]) if t is None and at is not None else t
        for t, at in zip(found, told, strict=True)
    ]


@functools.cache
def _parameters(forward: Callable) -> inspect.Signature:
    return inspect.signature(forward)


class InplaceFunction(Function):
    """A Function with an `inplace` flag, kept for code from before PyTorch 0.4."""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace


class _Twice(Function):
    """Pass a gradient through, tied to its sources; differentiating it again raises RuntimeError."""

    @staticmethod
    def forward(ctx: Any, found: Tensor, *sources: Tensor) -> Tensor:
        return found.detach()

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        raise RuntimeError("trying to differentiate twice a function that was marked with @once_differentiable")


def refusing(value: Tensor, *sources: Tensor) -> Tensor:
    """Return `value` tied to its sources, so that differentiating it raises RuntimeError instead of giving a wrong gradient."""
    return _Twice.apply(value, *sources)


xp.refusing = refusing


def once_differentiable(backward: Callable) -> Callable:
    """Mark a Function's `backward` as not differentiable: differentiating through it raises RuntimeError, not a silent wrong gradient."""

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
        tied = tuple(refusing(f, *sources) if isinstance(f, Tensor) else f for f in (found if isinstance(found, tuple) else (found,)))
        return tied if isinstance(found, tuple) else tied[0]

    return once
