"""Module hooks: before and after forward, on the backward pass, on state dicts and on registration."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..autograd import Function
from ..base.errors import warn
from ..core.tape import Handle
from ..core.tensor import Tensor
from . import last_node

if TYPE_CHECKING:
    from .module import Module


class ModuleHooks:
    """The hook tables of one module, keyed by handle id; created only when a module gets its first hook."""

    def __init__(self) -> None:
        self.before: OrderedDict[int, Callable] = OrderedDict()
        self.after: OrderedDict[int, Callable] = OrderedDict()
        self.with_kwargs: set[int] = set()
        self.always: set[int] = set()
        self.backward_before: OrderedDict[int, Callable] = OrderedDict()
        self.backward: OrderedDict[int, Callable] = OrderedDict()
        self.full: bool | None = None  # whether the backward hooks are full ones; the two kinds cannot be mixed
        self.state_before: OrderedDict[int, Callable] = OrderedDict()
        self.state_after: OrderedDict[int, Callable] = OrderedDict()
        self.load_before: OrderedDict[int, Callable] = OrderedDict()
        self.load_after: OrderedDict[int, Callable] = OrderedDict()

    def set_full(self, full: bool) -> None:
        """Record the kind of backward hooks; RuntimeError if the other kind is registered."""
        if self.full is not None and self.full is not full:
            raise RuntimeError(
                "Cannot use both regular backward hooks and full backward hooks on a single Module. Please use only one of them."
            )
        self.full = full


of_class: Any = None  # Module, set by module.py
everywhere = ModuleHooks()  # the hooks of all modules
registered: dict[str, OrderedDict[int, Callable]] = {kind: OrderedDict() for kind in ("parameter", "buffer", "module")}


def hang(table: OrderedDict, entry: Any, prepend: bool = False) -> Handle:
    """Add an entry to a hook table and return a handle that removes it."""
    handle = Handle(table)
    table[handle.id] = entry
    if prepend:
        table.move_to_end(handle.id, last=False)
    return handle


def on_registration(kind: str, module: Module, name: str, value: Any) -> Any:
    """Run the registration hooks and return the value to register."""
    for hook in list(registered[kind].values()):
        changed = hook(module, name, value)
        value = value if changed is None else changed
    return value


def _everywhere() -> ModuleHooks:
    of_class._hooks = everywhere
    return everywhere


def register_module_forward_pre_hook(hook: Callable) -> Handle:
    """Call `hook(module, args)` before the forward of every module."""
    return hang(_everywhere().before, hook)


def register_module_forward_hook(hook: Callable, *, with_kwargs: bool = False, always_call: bool = False) -> Handle:
    """Call `hook(module, args, output)` after the forward of every module."""
    handle = hang(_everywhere().after, hook)
    if with_kwargs:
        everywhere.with_kwargs.add(handle.id)
    if always_call:
        everywhere.always.add(handle.id)
    return handle


def register_module_full_backward_pre_hook(hook: Callable) -> Handle:
    """Call `hook(module, grad_output)` before the backward pass of every module."""
    return hang(_everywhere().backward_before, hook)


def register_module_full_backward_hook(hook: Callable) -> Handle:
    """Call `hook(module, grad_input, grad_output)` once the gradients of a module's inputs are computed, for every module."""
    _everywhere().set_full(True)
    return hang(everywhere.backward, hook)


def register_module_backward_hook(hook: Callable) -> Handle:
    """Register a global non-full backward hook, deprecated in PyTorch: use `register_module_full_backward_hook`."""
    _everywhere().set_full(False)
    return hang(everywhere.backward, hook)


def register_module_parameter_registration_hook(hook: Callable) -> Handle:
    """Call `hook(module, name, param)` whenever a parameter is registered; a return value other than None replaces it."""
    return hang(registered["parameter"], hook)


def register_module_buffer_registration_hook(hook: Callable) -> Handle:
    """Call `hook(module, name, buffer)` whenever a buffer is registered; a return value other than None replaces it."""
    return hang(registered["buffer"], hook)


def register_module_module_registration_hook(hook: Callable) -> Handle:
    """Call `hook(module, name, submodule)` whenever a submodule is registered; a return value other than None replaces it."""
    return hang(registered["module"], hook)


def call(module: Module, args: tuple, kwargs: dict) -> Any:
    """Run `module.forward` with its hooks; `Module.__call__` uses this if there are any."""
    hooks = module._hooks
    assert hooks is not None
    ran: set[int] = set()
    try:
        return _hooked(module, hooks, args, kwargs, ran)
    except Exception:
        # always_call hooks run after a failed forward too; the original error is raised
        for tables in (everywhere,) if hooks is everywhere else (everywhere, hooks):
            for key, hook in list(tables.after.items()):
                if key in tables.always and key not in ran:
                    hook(module, args, kwargs, None) if key in tables.with_kwargs else hook(module, args, None)
        raise


def _hooked(module: Module, hooks: ModuleHooks, args: tuple, kwargs: dict, ran: set[int]) -> Any:
    both = (everywhere,) if hooks is everywhere else (everywhere, hooks)
    for tables in both:
        for key, hook in list(tables.before.items()):
            if key in tables.with_kwargs:
                changed = hook(module, args, kwargs)
                if changed is not None:
                    if not (isinstance(changed, tuple) and len(changed) == 2):
                        raise RuntimeError(f"forward pre-hook must return None or a tuple of (new_args, new_kwargs), but got {changed}.")
                    args, kwargs = changed
            else:
                changed = hook(module, args)
                if changed is not None:
                    args = changed if isinstance(changed, tuple) else (changed,)
    full = [tables for tables in both if tables.backward and tables.full is not False]
    watch = _BackwardHook(module, both) if full or any(tables.backward_before for tables in both) else None
    if watch is not None:
        args = watch.on_inputs(args)
    result = module.forward(*args, **kwargs)
    for tables in both:
        for key, hook in list(tables.after.items()):
            ran.add(key)
            changed = hook(module, args, kwargs, result) if key in tables.with_kwargs else hook(module, args, result)
            if changed is not None:
                result = changed
    old = [hook for tables in both if tables.full is False for hook in tables.backward.values()]
    if old:
        last_node.watch(module, old, args, result)
    return result if watch is None else watch.on_outputs(result)


class _Boundary(Function):
    """Identity whose backward calls `told(grads)`; missing gradients are None, or zeros with `fill`."""

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
    """The full backward hooks of one call, run once the gradients of all inputs are computed."""

    def __init__(self, module: Module, both: tuple[ModuleHooks, ...]) -> None:
        self.module = module
        self.hooks = [hook for tables in both if tables.full is not False for hook in tables.backward.values()]
        self.before = [hook for tables in both for hook in tables.backward_before.values()]
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
            warn(
                "Full backward hook is firing when gradients are computed with respect to module outputs since no inputs require "
                "gradients. See https://docs.pytorch.org/docs/main/generated/torch.nn.Module.html#"
                "torch.nn.Module.register_full_backward_hook for more details."
            )
            for hook in self.hooks:
                changed = hook(self.module, (None,) * self.n_inputs, self.grad_output)
                if changed is not None and not (isinstance(changed, tuple) and all(g is None for g in changed)):
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
