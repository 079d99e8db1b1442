"""Hearing of calls: `TorchFunctionMode` for every call within a block, and the questions about `__torch_function__` that libraries ask.

Plain code pays nothing: the public functions look for modes once this module is imported, and Tensor's methods and properties only
while one is entered. What subclasses of Tensor hear is in `engine.core.subclasses`.
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

_TAKE_TENSORS = {"is_complex", "is_floating_point", "numel", "ones_like", "zeros_like", "empty_like", "full_like"}  # among the factories
_SPACES = ("", "functional", "nn.functional", "linalg", "fft", "special")

functions_ask()


class TorchFunctionMode:
    """A block in which `__torch_function__(self, func, types, args=(), kwargs=None)` of this object hears of every call.

    That is: functions, factories, methods, operators and properties, on plain tensors too. What it returns is the call's result. Inside
    of it the mode is not entered, so that `func(*args, **kwargs)` goes to the mode around it, to a subclass, or to the engine.
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
    """The mode that lets every call through."""

    def __torch_function__(self, func: Callable, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        return func(*args, **(kwargs or {}))


@contextlib.contextmanager
def enable_reentrant_dispatch() -> Iterator[None]:
    """A block, inside a subclass's plain call, in which subclasses hear of calls again."""
    before, subclasses._disabled.on = subclasses._disabled.on, False
    try:
        yield
    finally:
        subclasses._disabled.on = before


def redispatch_function(func: Callable, types: Any, args: tuple, kwargs: dict | None) -> Any:
    """Call a function whose own `__torch_function__` is running, past that one level: the calls inside of it are heard of again."""
    inner = getattr(func, "__wrapped__", func)
    with enable_reentrant_dispatch():
        return inner(*args, **(kwargs or {}))


# -- questions -----------------------------------------------------------------------------------------------------------------


def has_torch_function(relevant_args: Iterable[Any]) -> bool:
    """Whether a mode is entered, or one of the arguments has a `__torch_function__` of its own."""
    return bool(modes.stack) or not subclasses._disabled.on and bool(subclasses._overloaded(relevant_args, {}))


def has_torch_function_unary(x: Any) -> bool:
    """`has_torch_function((x,))`."""
    return has_torch_function((x,))


def has_torch_function_variadic(*args: Any) -> bool:
    """`has_torch_function(args)`."""
    return has_torch_function(args)


def handle_torch_function(public_api: Callable, relevant_args: Iterable[Any], *args: Any, **kwargs: Any) -> Any:
    """What the entered mode, else the types of the arguments in turn, say to a call. TypeError if none does."""
    types = {} if subclasses._disabled.on else subclasses._overloaded(relevant_args, {})
    return subclasses._dispatched(public_api, args, kwargs, types)


def wrap_torch_function(dispatcher: Callable) -> Callable:
    """A decorator: calls of a function are heard of by the tensors that `dispatcher` picks from its arguments."""

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
    """Whether it is a tensor, or its type has a `__torch_function__`."""
    return isinstance(inp, Tensor) or hasattr(inp, "__torch_function__")


def is_tensor_method_or_property(func: Callable) -> bool:
    """Whether it is a method of Tensor's, or a property's `__get__` or `__set__`."""
    name = getattr(func, "__name__", "")
    return name in ("__get__", "__set__") or getattr(Tensor, name, None) is func


def get_default_nowrap_functions() -> set[Callable]:
    """What gives back a tensor as it is kept, so that no subclass is put around it."""
    return {vars(Tensor)[name].__get__ for name in ("_base", "grad")}


def get_overridable_functions() -> dict[Any, list[Callable]]:
    """The functions of which modes and subclasses hear, by the namespace in which they are."""
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
    """Public functions that take no tensors to ask, factories above all; modes hear of those, subclasses do not."""
    heard = {func for _, space, func in _overridable() if space is engine}
    return {f for n, f in vars(engine).items() if not n.startswith("_") and isinstance(f, FunctionType) and f not in heard}


def get_testing_overrides() -> dict[Callable, Callable]:
    """For every overridable function one of the same signature that gives -1: to test a `__torch_function__` with."""

    def stand_in(func: Callable) -> Callable:
        def call(*args: Any, **kwargs: Any) -> int:
            return -1

        with contextlib.suppress(ValueError, TypeError):  # what is written in C has no signature
            call.__signature__ = inspect.signature(func)  # type: ignore[attr-defined]
        return call

    return {func: stand_in(func) for _, _, func in _overridable()}


def resolve_name(f: Callable) -> str | None:
    """The name under which PyTorch has a function, such as "torch.Tensor.add"; None for one that nobody hears of."""
    made = ((f"torch.{name}", engine, getattr(engine, name)) for name in public.makers)
    return next((told for told, _, func in reversed((*made, *_overridable())) if func == f), None)  # of several names the last, as PyTorch
