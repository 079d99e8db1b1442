"""PyTorch's private name for parts of `engine.compiler`, which libraries use to test for compiled modules."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any, NoReturn

from ..compiler import OptimizedModule, allow_in_graph, assume_constant_result, disable, is_compiling, list_backends, reset

__all__ = [
    "OptimizedModule",
    "TransformGetItemToIndex",
    "allow_in_graph",
    "assume_constant_result",
    "config",
    "disable",
    "is_compiling",
    "list_backends",
    "reset",
]


class TransformGetItemToIndex(contextlib.nullcontext):
    """A block in which `x[i]` supports an index `i` mapped by `vmap`; here it always does."""

    def __init__(self) -> None:
        super().__init__(self)


def mark_static_address(t: Any, guard: bool = True) -> None:
    """Do nothing: there are no traces that could rely on addresses."""


def mark_dynamic(t: Any, index: Any, **kwargs: Any) -> None:
    """Do nothing: sizes are never fixed by a trace."""


class _Config:
    """PyTorch's settings of TorchDynamo, with its defaults. They can be set and read but have no effect.

    Raises AttributeError for settings that PyTorch does not have.
    """

    accumulated_cache_size_limit = accumulated_recompile_limit = 256
    cache_size_limit = recompile_limit = 8
    allow_rnn = capture_dynamic_output_shape_ops = capture_scalar_outputs = compiled_autograd = disable = error_on_recompile = False
    fail_on_recompile_limit_hit = specialize_float = specialize_int = suppress_errors = verbose = False
    assume_static_by_default = automatic_dynamic_shapes = capture_func_transforms = dynamic_shapes = guard_nn_modules = True
    force_nn_module_property_static_shapes = force_parameter_static_shapes = inline_inbuilt_nn_modules = True
    optimize_ddp = trace_numpy = True

    def __getattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"torch._dynamo.config.{name} does not exist")

    def __setattr__(self, name: str, value: Any) -> None:
        if name.startswith("_") or name == "patch" or not hasattr(type(self), name):
            raise AttributeError(f"torch._dynamo.config.{name} does not exist")
        super().__setattr__(name, value)

    @contextlib.contextmanager
    def patch(self, changes: str | dict[str, Any] | None = None, value: Any = None, **more: Any) -> Iterator[None]:
        """Change settings in a block or function: `patch("verbose", True)`, `patch({"verbose": True})`, `patch(verbose=True)`."""
        changes = {changes: value} if isinstance(changes, str) else {**(changes or {}), **more}
        before = {name: getattr(self, name) for name in changes}
        try:
            for name, new in changes.items():
                setattr(self, name, new)
            yield
        finally:
            for name, old in before.items():
                setattr(self, name, old)


config = _Config()
