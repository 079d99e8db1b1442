"""`torch.overrides`: `TorchFunctionMode`, which intercepts calls in a block, and queries about `__torch_function__`.

Without modes there is no overhead: public functions check for them once this module is imported, and Tensor's methods and properties
only while one is active. Dispatch to subclasses of Tensor is in `engine.core.subclasses`.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import inspect
from collections.abc import Callable, Iterable, Iterator
from types import FunctionType
from typing import Any

import engine

from ..core import public, subclasses
from ..core.subclasses import functions_ask, listening, methods, modes, properties
from ..core.tensor import Tensor
from ..core.undispatched import disabled

__all__ = [
    "BaseTorchFunctionMode",
    "TorchFunctionMode",
    "enable_reentrant_dispatch",
    "get_default_nowrap_functions",
    "get_ignored_functions",
    "get_overridable_functions",
    "get_testing_overrides",
    "handle_torch_function",
    "has_torch_function",
    "has_torch_function_unary",
    "has_torch_function_variadic",
    "is_tensor_like",
    "is_tensor_method_or_property",
    "redispatch_function",
    "resolve_name",
    "wrap_torch_function",
]

_TAKE_TENSORS = {"is_complex", "is_floating_point", "numel", "ones_like", "zeros_like", "empty_like", "full_like"}  # take tensors
_SPACES = ("", "functional", "nn.functional", "linalg", "fft", "special")

functions_ask()


class TorchFunctionMode:
    """A context in which `__torch_function__(self, func, types, args=(), kwargs=None)` of this object is called for every call.

    This covers functions, factories, methods, operators and properties, also on plain tensors. Its return value is the call's result.
    The mode is disabled inside it, so that `func(*args, **kwargs)` dispatches to the outer mode, a subclass, or the engine.
    """

    def __torch_function__(self, func: Callable, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        raise NotImplementedError("a TorchFunctionMode defines __torch_function__(self, func, types, args=(), kwargs=None)")

    def __enter__(self) -> Any:
        listening.start()
        modes.stack.append(self)
        return self

    def __exit__(self, *error: object) -> None:
        modes.stack.pop()
        listening.stop()


class BaseTorchFunctionMode(TorchFunctionMode):
    """A mode that forwards every call."""

    def __torch_function__(self, func: Callable, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        return func(*args, **(kwargs or {}))


@contextlib.contextmanager
def enable_reentrant_dispatch() -> Iterator[None]:
    """Re-enable dispatch to subclasses where it is disabled, inside a `with` block."""
    before, disabled.on = disabled.on, False
    try:
        yield
    finally:
        disabled.on = before


def redispatch_function(func: Callable, types: Any, args: tuple, kwargs: dict | None) -> Any:
    """Call a function from its own `__torch_function__`, skipping that level of dispatch but not those of calls inside it."""
    inner = getattr(func, "__wrapped__", func)
    with enable_reentrant_dispatch():
        return inner(*args, **(kwargs or {}))


# -- queries -------------------------------------------------------------------------------------------------------------------


def has_torch_function(relevant_args: Iterable[Any]) -> bool:
    """Return whether a mode is active or an argument overrides `__torch_function__`."""
    return bool(modes.stack) or not disabled.on and bool(subclasses._overloaded(relevant_args, {}))


def has_torch_function_unary(x: Any) -> bool:
    """`has_torch_function((x,))`."""
    return has_torch_function((x,))


def has_torch_function_variadic(*args: Any) -> bool:
    """`has_torch_function(args)`."""
    return has_torch_function(args)


def handle_torch_function(public_api: Callable, relevant_args: Iterable[Any], *args: Any, **kwargs: Any) -> Any:
    """Dispatch a call to the active mode, else to the arguments' types in turn. Raises TypeError if none handles it."""
    types = {} if disabled.on else subclasses._overloaded(relevant_args, {})
    return subclasses._dispatched(public_api, args, kwargs, types)


def wrap_torch_function(dispatcher: Callable) -> Callable:
    """Return a decorator that dispatches calls on the tensors that `dispatcher` selects from the arguments."""

    def decorate(func: Callable) -> Callable:
        @functools.wraps(func)
        def call(*args: Any, **kwargs: Any) -> Any:
            relevant = tuple(dispatcher(*args, **kwargs))
            if has_torch_function(relevant):
                return handle_torch_function(call, relevant, *args, **kwargs)
            return func(*args, **kwargs)

        return call

    return decorate


def is_tensor_like(inp: Any) -> bool:
    """Return whether `inp` is a tensor or its type has `__torch_function__`."""
    return isinstance(inp, Tensor) or hasattr(inp, "__torch_function__")


def is_tensor_method_or_property(func: Callable) -> bool:
    """Return whether `func` is a method of Tensor, or `__get__` or `__set__` of a property."""
    name = getattr(func, "__name__", "")
    return name in ("__get__", "__set__") or getattr(Tensor, name, None) is func


def get_default_nowrap_functions() -> set[Callable]:
    """Return the getters with results that are never wrapped in a subclass."""
    return {vars(Tensor)[name].__get__ for name in ("_base", "grad")}


def get_overridable_functions() -> dict[Any, list[Callable]]:
    """Return the overridable functions by namespace."""
    found: dict[Any, list[Callable]] = {}
    for _, space, func in _overridable():
        found.setdefault(space, []).append(func)
    return found


def _overridable() -> Iterator[tuple[str, Any, Callable]]:
    shown = {id(known.function) for full, known in public.named.items() if full not in public.makers or full in _TAKE_TENSORS}
    for home in _SPACES:
        space = importlib.import_module(f"engine.{home}" if home else "engine")
        for name, func in sorted(vars(space).items()):
            if id(func) in shown and not name.startswith("_"):
                yield f"torch.{home}.{name}" if home else f"torch.{name}", space, func
    for name, method in methods.items():
        yield f"torch.Tensor.{name}", Tensor, method.function
    for name, (getter, *_) in properties.items():
        yield f"torch.Tensor.{name}.__get__", Tensor, getter.told


def get_ignored_functions() -> set[Callable]:
    """Return public functions without tensor arguments, mostly factories, which dispatch to modes but not to subclasses."""
    heard = {func for _, space, func in _overridable() if space is engine}
    return {f for n, f in vars(engine).items() if not n.startswith("_") and isinstance(f, FunctionType) and f not in heard}


def get_testing_overrides() -> dict[Callable, Callable]:
    """Return, for every overridable function, a dummy of the same signature that returns -1, for tests of `__torch_function__`."""

    def stand_in(func: Callable) -> Callable:
        def call(*args: Any, **kwargs: Any) -> int:
            return -1

        with contextlib.suppress(ValueError, TypeError):  # functions written in C may have no signature
            call.__signature__ = inspect.signature(func)  # type: ignore[attr-defined]
        return call

    return {func: stand_in(func) for _, _, func in _overridable()}


def resolve_name(f: Callable) -> str | None:
    """Return PyTorch's name of a function, such as "torch.Tensor.add"; None if it is not overridable."""
    made = ((f"torch.{name}", engine, getattr(engine, name)) for name in public.makers)
    return next((told for told, _, func in reversed((*made, *_overridable())) if func == f), None)  # the last of several names, as PyTorch
