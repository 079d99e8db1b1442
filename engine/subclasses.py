"""Subclasses of Tensor that a program defines: what ops give them, and `__torch_function__`, PyTorch's way to hear of every call.

Plain tensors pay nothing for it: a subclass gets methods of its own when it is defined, and the public functions look for such tensors
among their arguments from the first such definition on. Inside `Tensor.__torch_function__` calls are plain again.
"""

from __future__ import annotations

import functools
import inspect
import sys
import threading
from collections.abc import Callable
from types import FunctionType
from typing import Any

from . import create, from_data, ranges
from .op import functions
from .tensor import Tensor

_OPERATORS = frozenset(
    f"__{prefix}{name}__"
    for name in ["add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and", "or", "xor", "lshift", "rshift"]
    for prefix in ("", "r", "i")
) | {
    "__neg__",
    "__pos__",
    "__abs__",
    "__invert__",
    "__eq__",
    "__ne__",
    "__lt__",
    "__le__",
    "__gt__",
    "__ge__",
    "__getitem__",
    "__setitem__",
}
# Of these operators one hears as of methods; of the others under their own names.
STANDS_FOR = {f"__i{n}__": f"{n}_" for n in ("add", "sub", "mul", "pow")}
STANDS_FOR |= {f"__{n}__": n for n in ("ne", "lt", "le", "gt", "ge", "add", "sub", "mul", "pow", "matmul", "neg", "abs")} | {
    "__radd__": "add",
    "__rmul__": "mul",
    "__truediv__": "div",
    "__itruediv__": "div_",
    "__ifloordiv__": "floor_divide_",
    "__mod__": "remainder",
    "__imod__": "remainder_",
    "__rand__": "bitwise_and",
    "__ror__": "bitwise_or",
    "__rxor__": "bitwise_xor",
    "__pos__": "positive",
}
_SEEN = ("T", "mT", "H", "mH", "real", "imag", "data")  # properties that are tensors
_BUILTIN = frozenset({int, float, bool, str, complex, slice, type(None), type(...)})  # what most arguments beside tensors are
_TELL_NOBODY = frozenset({"get_default_dtype", "set_default_dtype", "is_tensor", "promote_types", "can_cast", "manual_seed", "typename"})
_PLAIN = frozenset({"as_subclass", "register_hook", "register_post_accumulate_grad_hook"})


class _Disabled(threading.local):
    on = False


class _Modes(threading.local):
    """The modes that are entered in this thread, the innermost last: see `engine.overrides`."""

    def __init__(self) -> None:
        self.stack: list = []


_disabled = _Disabled()
modes = _Modes()


def _overloaded(values: Any, found: dict) -> dict:
    """The types among arguments that the program has defined, subclasses before their parents."""
    for x in values:
        if isinstance(x, (list, tuple)):
            _overloaded(x, found)
        elif isinstance(x, Tensor):
            if type(x)._defined_by_a_program:
                found[type(x)] = None
        elif type(x) not in _BUILTIN and not isinstance(x, type) and hasattr(type(x), "__torch_function__"):
            found[type(x)] = None  # like a tensor, without being one
    return found


def _dispatched(func: Callable, args: tuple, kwargs: dict, types: dict) -> Any:
    """What the innermost mode says to a call, else what the types say in turn. Inside a mode's answer the mode itself is not entered."""
    if modes.stack:
        mode = modes.stack.pop()
        try:
            result = mode.__torch_function__(func, tuple(types), args, kwargs)
        finally:
            modes.stack.append(mode)
        if result is not NotImplemented:
            return result
    for kind in sorted(types, key=lambda t: -len(t.__mro__)):
        result = kind.__torch_function__(func, tuple(types), args, kwargs)
        if result is not NotImplemented:
            return result
    names = ", ".join(t.__name__ for t in types)
    mode = f" nor in mode {type(modes.stack[-1]).__name__}" if modes.stack else ""
    told = getattr(func, "__name__", repr(func))
    raise TypeError(f"no implementation found for {told!r} on types that implement __torch_function__: [{names}]{mode}")


def _method(name: str) -> Callable:
    """A method of a subclass: it tells of the plain method, an operator of the method that it stands for."""
    raw = getattr(Tensor, name)
    told = getattr(Tensor, STANDS_FOR[name]) if name in STANDS_FOR else raw if raw.__name__ == name else _named(name, raw)

    @functools.wraps(raw)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        if modes.stack:
            return getattr(Tensor, name)(self, *args, **kwargs)  # while a mode is entered, Tensor's own methods ask
        if _disabled.on:
            return raw(self, *args, **kwargs)
        return _dispatched(told, (self, *args), kwargs, _overloaded((self, *args, *kwargs.values()), {}))

    return call


def _named(name: str, raw: Callable) -> Callable:
    def call(*args: Any, **kwargs: Any) -> Any:
        return raw(*args, **kwargs)

    call.__name__ = call.__qualname__ = name
    return call


def _watched(raw: Callable, told: Callable | None = None) -> Callable:
    """A public function, or a method, that asks the modes and its arguments first; they hear of `told`, which is itself by default."""

    @functools.wraps(raw)
    def call(*args: Any, **kwargs: Any) -> Any:
        if modes.stack or not _disabled.on:
            types = {} if _disabled.on else _overloaded((*args, *kwargs.values()), {})
            if types or modes.stack:
                return _dispatched(told or call, args, kwargs, types)
        return raw(*args, **kwargs)

    return call


@functools.cache
def watch_functions() -> None:
    """From now on the public functions look for tensors of a program's own types, and for modes; the factories too."""
    package = __name__.rpartition(".")[0]
    named = list(functions.items())
    for maker in (create, from_data, ranges):
        named += [(name, vars(maker)[name]) for name in maker.__all__]
    for name, raw in named:
        if name in _TELL_NOBODY or not isinstance(raw, FunctionType):  # a class or a generator stays what it is
            continue
        home, _, short = name.rpartition(".")
        module = sys.modules.get(f"{package}.{home}" if home and home != "Tensor" else package)
        if module is not None and module.__dict__.get(short) is raw:
            setattr(module, short, _watched(raw))


def public(name: str) -> Callable | None:
    """The function of that name ("linalg.inv") as programs see it: from the first subclass on, the one that asks for subclasses."""
    home, _, short = name.rpartition(".")
    package = __name__.rpartition(".")[0]
    raw, room = functions.get(name), sys.modules.get(f"{package}.{home}" if home else package)
    seen = vars(room).get(short) if room is not None else None
    return seen if raw is not None and callable(seen) and inspect.unwrap(seen) is raw else raw


def _converted(result: Any, cls: type) -> Any:
    """The result with its tensors as instances of the subclass."""
    if isinstance(result, Tensor):
        return result if isinstance(result, cls) else result.as_subclass(cls)
    if isinstance(result, (tuple, list)):
        values = [_converted(x, cls) for x in result]
        return type(result)(*values) if hasattr(result, "_fields") else type(result)(values)
    return result


def _torch_function(cls: type, func: Callable, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
    """What a call on a subclass does unless it says otherwise: the plain function, with results of the subclass."""
    if not all(issubclass(cls, t) for t in types):
        return NotImplemented
    before, _disabled.on = _disabled.on, True
    try:
        return _converted(func(*args, **kwargs or {}), cls)
    finally:
        _disabled.on = before


class DisableTorchFunctionSubclass:
    """A block in which calls on subclasses go straight to the engine: no `__torch_function__` hears of them."""

    def __enter__(self) -> None:
        self._before, _disabled.on = _disabled.on, True

    def __exit__(self, *error: object) -> None:
        _disabled.on = self._before


def disabled_torch_function(func: Callable, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
    """A `__torch_function__` for subclasses that want none: the call runs, and its results stay ordinary tensors."""
    with DisableTorchFunctionSubclass():
        return func(*args, **kwargs or {})


def _defined(cls: type, **kwargs: Any) -> None:
    """A subclass of Tensor is defined: one outside the engine hears of calls from now on."""
    super(Tensor, cls).__init_subclass__(**kwargs)
    engines = __name__.partition(".")[0]
    if any(base not in (Tensor, object) and base.__module__.partition(".")[0] == engines for base in cls.__mro__):
        return  # the engine's own, and what is made of them: to be a Parameter is no way to hear of calls
    cls._defined_by_a_program = True  # type: ignore[attr-defined]
    watch_functions()
    for base in cls.__mro__[1:]:
        if base is not Tensor and getattr(base, "_defined_by_a_program", False):
            return  # its methods are inherited
    for name in dir(Tensor):
        raw = getattr(Tensor, name, None)  # a name of PyTorch's that is missing here says so when it is asked
        if name not in cls.__dict__ and callable(raw) and name not in _PLAIN and (not name.startswith("_") or name in _OPERATORS):
            setattr(cls, name, _method(name))
    for name in _SEEN:
        if name not in cls.__dict__:
            there = Tensor.__dict__[name]
            setattr(cls, name, property(lambda self, get=there.fget: _converted(get(self), type(self)), there.fset, doc=there.__doc__))


def _make_subclass(cls: type, data: Tensor, require_grad: bool = False) -> Any:
    """The memory of a tensor, cut from its graph, as an instance of a subclass."""
    out = Tensor.detach(data).as_subclass(cls)
    return Tensor.requires_grad_(out) if require_grad else out


Tensor.__torch_function__ = classmethod(_torch_function)  # type: ignore[attr-defined]
Tensor.__init_subclass__ = classmethod(_defined)  # type: ignore[assignment]
Tensor._make_subclass = staticmethod(_make_subclass)  # type: ignore[attr-defined]
