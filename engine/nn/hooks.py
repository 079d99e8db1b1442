"""What hangs on a module: hooks before and after forward, hooks on its backward, hooks on its state."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..autograd import Function
from ..tape import Handle
from ..tensor import Tensor

if TYPE_CHECKING:
    from .module import Module


class ModuleHooks:
    """The hook tables of one module; a module without hooks has none of this."""

    def __init__(self) -> None:
        self.before: OrderedDict[int, tuple[Callable, bool]] = OrderedDict()  # (hook, with_kwargs)
        self.after: OrderedDict[int, tuple[Callable, bool, bool]] = OrderedDict()  # (hook, with_kwargs, always_call)
        self.backward_before: OrderedDict[int, Callable] = OrderedDict()
        self.backward: OrderedDict[int, Callable] = OrderedDict()
        self.state_before: OrderedDict[int, Callable] = OrderedDict()
        self.state_after: OrderedDict[int, Callable] = OrderedDict()
        self.load_before: OrderedDict[int, Callable] = OrderedDict()
        self.load_after: OrderedDict[int, Callable] = OrderedDict()


def hang(table: OrderedDict, entry: Any, prepend: bool = False) -> Handle:
    """Put an entry into a hook table; the handle takes it out again."""
    handle = Handle(table)
    table[handle.id] = entry
    if prepend:
        table.move_to_end(handle.id, last=False)
    return handle


def call(module: Module, args: tuple, kwargs: dict) -> Any:
    """Run `module.forward` with all its hooks, as `Module.__call__` does when there are any."""
    hooks = module._hooks
    assert hooks is not None
    ran: set[int] = set()
    try:
        return _hooked(module, hooks, args, kwargs, ran)
    except Exception:
        # always_call hooks hear of a failed forward too; the first error is the one that is told
        for key, (hook, with_kwargs, always) in list(hooks.after.items()):
            if always and key not in ran:
                hook(module, args, kwargs, None) if with_kwargs else hook(module, args, None)
        raise


def _hooked(module: Module, hooks: ModuleHooks, args: tuple, kwargs: dict, ran: set[int]) -> Any:
    for hook, with_kwargs in list(hooks.before.values()):
        if with_kwargs:
            changed = hook(module, args, kwargs)
            if changed is not None:
                if not (isinstance(changed, tuple) and len(changed) == 2):
                    raise RuntimeError(f"forward pre-hook must return None or a tuple of (new_args, new_kwargs), but got {changed}.")
                args, kwargs = changed
        else:
            changed = hook(module, args)
            if changed is not None:
                args = changed if isinstance(changed, tuple) else (changed,)
    watch = _BackwardHook(module, hooks) if hooks.backward or hooks.backward_before else None
    if watch is not None:
        args = watch.on_inputs(args)
    result = module.forward(*args, **kwargs)
    for key, (hook, with_kwargs, _) in list(hooks.after.items()):
        ran.add(key)
        changed = hook(module, args, kwargs, result) if with_kwargs else hook(module, args, result)
        if changed is not None:
            result = changed
    return result if watch is None else watch.on_outputs(result)


class _Boundary(Function):
    """Identity on some tensors, telling `told(grads)` what came back through them: None or, with `fill`, zeros where nothing did."""

    @staticmethod
    def forward(ctx: Any, told: Callable, fill: bool, *tensors: Tensor) -> tuple:
        ctx.told = told
        ctx.set_materialize_grads(fill)
        ctx.mark_non_differentiable(*[t for t, needs in zip(tensors, ctx.needs_input_grad[2:], strict=True) if not needs])
        return tensors

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple:
        return None, None, *ctx.told(grads)


class _BackwardHook:
    """One call's full backward hooks: they run when the gradients of all inputs are known."""

    def __init__(self, module: Module, hooks: ModuleHooks) -> None:
        self.module = module
        self.hooks, self.before = list(hooks.backward.values()), list(hooks.backward_before.values())
        self.grad_output: tuple = ()
        self.n_inputs, self.inputs_at = -1, []
        self.n_outputs, self.outputs_at = 0, []

    def on_inputs(self, args: tuple) -> tuple:
        args, self.inputs_at, needs_grad = self._bounded(args, self._inputs_arrived, True)
        self.n_inputs = len(args)
        if not needs_grad:
            self.inputs_at = []
        return args

    def on_outputs(self, result: Any) -> Any:
        single = not isinstance(result, tuple)
        outputs = (result,) if single else result
        self.n_outputs = len(outputs)
        outputs, self.outputs_at, _ = self._bounded(outputs, self._outputs_arrived, False)
        return outputs[0] if single else outputs

    @staticmethod
    def _bounded(values: tuple, told: Callable, fill: bool) -> tuple[tuple, list[int], bool]:
        at = [i for i, v in enumerate(values) if isinstance(v, Tensor)]
        needs_grad = any(values[i].requires_grad for i in at)
        if not needs_grad:
            return values, at, False
        found = _Boundary.apply(told, fill, *[values[i] for i in at])
        out = list(values)
        for i, tensor in zip(at, found, strict=True):
            out[i] = tensor
        return tuple(out), at, True

    def _outputs_arrived(self, grads: tuple) -> tuple:
        full = [None] * self.n_outputs
        for i, g in zip(self.outputs_at, grads, strict=True):
            full[i] = g
        for hook in self.before:
            changed = hook(self.module, tuple(full))
            if changed is not None:
                full = list(self._checked(changed, full, "backward pre hook", "grad_output"))
        self.grad_output = tuple(full)
        if not self.inputs_at:
            for hook in self.hooks:
                if hook(self.module, (None,) * self.n_inputs, self.grad_output) is not None:
                    raise RuntimeError("Backward hook for Modules where no input requires gradient should always return None.")
        return tuple(full[i] for i in self.outputs_at)

    def _inputs_arrived(self, grads: tuple) -> tuple:
        full = [None] * self.n_inputs
        for i, g in zip(self.inputs_at, grads, strict=True):
            full[i] = g
        for hook in self.hooks:
            changed = hook(self.module, tuple(full), self.grad_output)
            if changed is not None:
                full = list(self._checked(changed, full, "Backward hook", "grad_input"))
        return tuple(full[i] for i in self.inputs_at)

    @staticmethod
    def _checked(changed: Any, full: list, kind: str, what: str) -> tuple:
        changed = changed if isinstance(changed, tuple) else (changed,)
        if len(changed) != len(full):
            raise RuntimeError(f"{kind} returned an invalid number of {what}, got {len(changed)}, but expected {len(full)}")
        return changed
