"""`torch.library`: user-defined ops, available as `torch.ops.<namespace>.<name>`, with user-defined gradients."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

from .. import ops
from ..autograd import Function, no_grad
from ..core.tensor import Tensor

__all__ = ["CustomOpDef", "custom_op", "register_autograd", "register_fake", "register_kernel"]
_defined: dict[str, CustomOpDef] = {}


class CustomOpDef:
    """A user-defined op, opaque to autograd. Without a registered backward, it is not differentiable."""

    def __init__(self, name: str, fn: Callable, mutates_args: Any, device_types: Any):
        self._name, self._fn, self._mutates = name, fn, bool(mutates_args)
        self._signature = inspect.signature(fn)
        self._kernels: dict[str, Callable] = {}
        self._backward: Callable | None = None
        self._setup: Callable | None = None
        if device_types is not None:
            self.register_kernel(device_types, fn)
        self._function = type(name.partition("::")[2], (Function,), self._methods())

    def _methods(self) -> dict[str, Any]:
        def forward(*args: Any) -> Any:
            return self._run(*args)

        def setup_context(ctx: Any, inputs: tuple, output: Any) -> None:
            if self._setup is not None:
                self._setup(ctx, inputs, output)

        def backward(ctx: Any, *grads: Any) -> Any:
            if self._backward is None:
                raise RuntimeError(
                    f"Trying to backward through {self._name} but no autograd formula was registered. Use register_autograd to add one."
                )
            return self._backward(ctx, *grads)

        return {f.__name__: staticmethod(f) for f in (forward, setup_context, backward)}

    def _run(self, *args: Any) -> Any:
        device = next((x.device.type for x in args if isinstance(x, Tensor)), "cpu")
        kernel = self._kernels.get(device, None if self._kernels and self._fn in self._kernels.values() else self._fn)
        if kernel is None:
            raise NotImplementedError(f"{self._name}: there is no kernel for {device!r}, only for {sorted(self._kernels)}")
        with no_grad():
            return kernel(*args)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        bound = self._signature.bind(*args, **kwargs)
        bound.apply_defaults()
        if bound.kwargs:
            raise NotImplementedError(f"{self._name}: keyword-only arguments are not possible in an op of a program's own")
        return self._run(*bound.args) if self._mutates else self._function.apply(*bound.args)

    def __repr__(self) -> str:
        return f"<CustomOpDef({self._name})>"

    def register_autograd(self, backward: Callable, /, *, setup_context: Callable | None = None) -> None:
        """Register gradients: `backward(ctx, *grads)`, with the values saved by `setup_context(ctx, inputs, output)`."""
        if self._mutates:
            raise RuntimeError(f"Cannot register autograd formula for non-functional operator {self._name}: it changes its arguments")
        self._backward, self._setup = backward, setup_context

    def register_fake(self, fn: Callable, /) -> Callable:
        """Accept a function that computes shapes without values; it is never called, since nothing is traced."""
        return fn

    def register_kernel(self, device_types: str | Sequence[str] | None, fn: Callable | None = None, /) -> Callable:
        """Register the implementation for some device types, or for all if None."""
        if fn is None:
            return lambda f: self.register_kernel(device_types, f)
        if device_types is None:
            self._fn = fn
        else:
            self._kernels |= dict.fromkeys([device_types] if isinstance(device_types, str) else device_types, fn)
        return fn


def custom_op(
    name: str, fn: Callable | None = None, /, *, mutates_args: Any, device_types: Any = None, schema: str | None = None, tags: Any = None
) -> Any:
    """Register a function as the op `namespace::name`; without a function, return a decorator. The schema is ignored."""
    space, colons, short = name.partition("::")
    if not (colons and space.isidentifier() and short.isidentifier()):
        raise ValueError(f"custom_op: expected a name such as 'mylib::linear', got {name!r}")
    if fn is None:
        return lambda f: custom_op(name, f, mutates_args=mutates_args, device_types=device_types, schema=schema)
    if not hasattr(ops, space):
        setattr(ops, space, SimpleNamespace())
    _defined[name] = op = CustomOpDef(name, fn, mutates_args, device_types)
    setattr(getattr(ops, space), short, op)
    return op


def _found(op: Any) -> CustomOpDef:
    if isinstance(op, CustomOpDef):
        return op
    if op not in _defined:
        raise RuntimeError(f"torch.library: there is no op {op!r}; custom_op makes one")
    return _defined[op]


def register_autograd(op: Any, backward: Callable, /, *, setup_context: Callable | None = None, lib: Any = None) -> None:
    """Register gradients of an op; see `CustomOpDef.register_autograd`."""
    _found(op).register_autograd(backward, setup_context=setup_context)


def register_fake(op: Any, func: Callable | None = None, /, *, lib: Any = None, _stacklevel: int = 1, allow_override: bool = False) -> Any:
    """Register a shape function; see `CustomOpDef.register_fake`. Without a function, return a decorator."""
    return _found(op).register_fake if func is None else _found(op).register_fake(func)


def register_kernel(op: Any, device_types: Any, func: Callable | None = None, /, *, lib: Any = None) -> Any:
    """Register an implementation for some device types; see `CustomOpDef.register_kernel`."""
    return _found(op).register_kernel(device_types, func)
