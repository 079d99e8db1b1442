"""`functorch`: the predecessor of `torch.func`, importable after `install_as_torch()`.

The transforms are those of `engine.func`. Modules become functions of tuples of parameters, while `functional_call` takes them by name.
"""

from __future__ import annotations

import copy
import functools
import warnings
from collections.abc import Callable, Sequence
from typing import Any

from .. import func
from ..core.op import functions
from ..core.tensor import Tensor
from ..nn import Module

__all__ = [
    "FunctionalModule", "FunctionalModuleWithBuffers", "combine_state_for_ensemble", "functionalize", "grad", "grad_and_value", "hessian",
    "jacfwd", "jacrev", "jvp", "make_functional", "make_functional_with_buffers", "vjp", "vmap",
]  # fmt: skip


def _moved(fn: Callable, successor: str = "") -> Callable:
    """Wrap a function to emit PyTorch's deprecation warning."""
    name = fn.__name__

    @functools.wraps(fn)
    def warned(*args: Any, **kwargs: Any) -> Any:
        warnings.warn(
            "We've integrated functorch into PyTorch. As the final step of the integration, "
            f"`functorch.{name}` is deprecated as of PyTorch 2.0 and will be deleted in a future version of PyTorch >= 2.3. "
            f"Please use `{successor or f'torch.func.{name}'}` instead; see the PyTorch 2.0 release notes and/or the `torch.func` "
            "migration guide for more details https://pytorch.org/docs/main/func.migrating.html",
            FutureWarning,
            stacklevel=2,
        )
        return fn(*args, **kwargs)

    return warned


class _Places:
    """The table entries of a module's parameters or buffers, tied ones grouped under the first name. Empty between calls."""

    def __init__(self, module: Module, kind: str) -> None:
        found: dict[int, tuple[str, Tensor, list]] = {}
        for path, owner in module.named_modules():
            table = getattr(owner, kind)
            for name, tensor in table.items():
                if tensor is not None:
                    found.setdefault(id(tensor), (f"{path}.{name}" if path else name, tensor, []))[2].append((table, name))
        self.names = tuple(name for name, _, _ in found.values())
        self.taken = tuple(tensor for _, tensor, _ in found.values())
        self._places = [places for _, _, places in found.values()]
        self.fill([None] * len(self.names))

    def fill(self, tensors: Sequence) -> None:
        """Store these tensors, or None, in the entries."""
        if len(tensors) != len(self.names):
            raise ValueError(f"expected {len(self.names)} tensors, for {', '.join(self.names) or 'none'}, but got {len(tensors)}")
        for tensor, places in zip(tensors, self._places, strict=True):
            for table, name in places:
                table[name] = tensor

    def empty(self) -> None:
        self.fill([None] * len(self.names))


class FunctionalModuleWithBuffers(Module):
    """The result of `make_functional_with_buffers`: called with parameters, buffers and the module's own arguments."""

    def __init__(self, stateless_model: Module) -> None:
        super().__init__()
        self.stateless_model = stateless_model
        self._state = _Places(stateless_model, "_parameters"), _Places(stateless_model, "_buffers")
        self.param_names, self.buffer_names = (places.names for places in self._state)

    def forward(self, params: Any, buffers: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            for places, tensors in zip(self._state, (params, buffers), strict=True):
                places.fill(tuple(tensors))
            return self.stateless_model(*args, **kwargs)
        finally:
            for places in self._state:
                places.empty()


class FunctionalModule(FunctionalModuleWithBuffers):
    """The result of `make_functional`: called with parameters and the module's own arguments."""

    def forward(self, params: Any, *args: Any, **kwargs: Any) -> Any:
        return super().forward(params, (), *args, **kwargs)


def _functional(kind: type[FunctionalModuleWithBuffers], model: Module, disable_autograd_tracking: bool) -> tuple[Any, tuple, tuple]:
    made = kind(copy.deepcopy(model))
    params, buffers = (places.taken for places in made._state)
    if disable_autograd_tracking:
        for p in params:
            p.requires_grad_(False)
    return made, params, buffers


def make_functional(model: Module, disable_autograd_tracking: bool = False) -> tuple[FunctionalModule, tuple[Tensor, ...]]:
    """Return a function of parameters and inputs, and a copy of the parameters. Raises RuntimeError if the module has buffers."""
    if any(True for _ in model.buffers()):
        raise RuntimeError("make_functional(model): `model` has buffers. Please use make_functional_with_buffers(model) instead.")
    return _functional(FunctionalModule, model, disable_autograd_tracking)[:2]


def make_functional_with_buffers(
    model: Module, disable_autograd_tracking: bool = False
) -> tuple[FunctionalModuleWithBuffers, tuple[Tensor, ...], tuple[Tensor, ...]]:
    """Return a function of parameters, buffers and inputs, and copies of both."""
    return _functional(FunctionalModuleWithBuffers, model, disable_autograd_tracking)


def combine_state_for_ensemble(models: Sequence[Module]) -> tuple[FunctionalModuleWithBuffers, tuple[Tensor, ...], tuple[Tensor, ...]]:
    """Return one module as a function, and the stacked parameters and buffers of all modules, for use with `vmap`."""
    if len(models) == 0:
        raise RuntimeError("combine_state_for_ensemble: Expected at least one model, got 0.")
    if len({m.training for m in models}) > 1:
        raise RuntimeError("combine_state_for_ensemble: Expected all models to have the same training/eval mode.")
    if len({type(m) for m in models}) > 1:
        raise RuntimeError("combine_state_for_ensemble: Expected all models to be of the same class.")
    made, params, buffers = zip(*(_functional(FunctionalModuleWithBuffers, m, False) for m in models), strict=True)
    return made[0], _stacked(params), _stacked(buffers)


def _stacked(states: Sequence[tuple[Tensor, ...]]) -> tuple[Tensor, ...]:
    return tuple(functions["stack"]([t.detach() for t in same]) for same in zip(*states, strict=True))


vmap = _moved(func.vmap, "torch.vmap")
functionalize, grad, grad_and_value, hessian = map(_moved, (func.functionalize, func.grad, func.grad_and_value, func.hessian))
jacfwd, jacrev, jvp, vjp = map(_moved, (func.jacfwd, func.jacrev, func.jvp, func.vjp))
make_functional = _moved(make_functional, "torch.func.functional_call")
make_functional_with_buffers = _moved(make_functional_with_buffers, "torch.func.functional_call")
combine_state_for_ensemble = _moved(combine_state_for_ensemble, "torch.func.stack_module_state")
