"""User-defined subclasses of Tensor, and the dispatch of calls to `__torch_function__`.

It costs nothing for plain tensors: a subclass gets dispatching methods when it is defined, and from the first such definition on the public
functions look for subclasses among their arguments. Inside `Tensor.__torch_function__` calls are not dispatched again.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from types import FunctionType
from typing import Any

from . import public
from .public import Public
from .tensor import Tensor, define
from .undispatched import disabled

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
# Operators that are dispatched as a method; the others are dispatched under their own names.
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
PROPERTIES = ("T", "mT", "H", "mH", "real", "imag", "data", "grad", "grad_fn", "shape", "dtype", "device", "layout", "ndim", "nbytes")
PROPERTIES += ("itemsize", "requires_grad", "retains_grad", "is_leaf", "is_cpu", "is_cuda", "is_sparse", "is_meta", "is_quantized")
PROPERTIES += ("_base", "_version", "output_nr")
_SEEN = ("T", "mT", "H", "mH", "real", "imag", "data")  # properties that are tensors
_BUILTIN = frozenset({int, float, bool, str, complex, slice, type(None), type(...)})  # the types of most arguments that are not tensors
_PLAIN = frozenset({"as_subclass", "register_hook", "register_post_accumulate_grad_hook"})


class _Modes(threading.local):
    """The active modes of this thread, innermost last: see `engine.overrides`."""

    def __init__(self) -> None:
        self.stack: list = []


modes = _Modes()


def _overloaded(values: Any, found: dict) -> dict:
    """Collect the types among the arguments that define `__torch_function__`, as the keys of `found`."""
    for x in values:
        if isinstance(x, (list, tuple)):
            _overloaded(x, found)
        elif isinstance(x, Tensor):
            if type(x)._defined_by_a_program:
                found[type(x)] = None
        elif type(x) not in _BUILTIN and not isinstance(x, type) and hasattr(type(x), "__torch_function__"):
            found[type(x)] = None  # a tensor-like object
    return found


def _dispatched(func: Callable, args: tuple, kwargs: dict, types: dict) -> Any:
    """Dispatch a call to the innermost mode, then to the types, subclasses first, until one does not return NotImplemented.

    While a mode handles the call it is not active itself. Raises TypeError if all return NotImplemented.
    """
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
    """Make a dispatching method for a subclass. `__torch_function__` receives Tensor's method, for an operator that of `STANDS_FOR`."""
    raw = getattr(Tensor, name)
    told = getattr(Tensor, STANDS_FOR.get(name, name))

    @functools.wraps(raw)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        if modes.stack:
            return getattr(Tensor, name)(self, *args, **kwargs)  # while a mode is active, Tensor's own methods dispatch
        if disabled.on:
            return raw(self, *args, **kwargs)
        return _dispatched(told, (self, *args), kwargs, _overloaded((self, *args, *kwargs.values()), {}))

    return call


def _ask(function: Public, args: tuple, kwargs: dict) -> Any:
    """Call a public function, or a method while a mode is active, dispatched to the modes and to arguments with `__torch_function__`."""
    if modes.stack or not disabled.on:
        types = {} if disabled.on else _overloaded((*args, *kwargs.values()), {})
        if types or modes.stack:
            return _dispatched(function.told, args, kwargs, types)
    return function.plain(*args, **kwargs)


def _ask_modes(function: Public, args: tuple, kwargs: dict) -> Any:
    """`_ask` for a property, which is dispatched to modes but not to subclasses."""
    return _ask(function, args, kwargs) if modes.stack else function.plain(*args)


@functools.cache
def functions_ask() -> None:
    """Make all public functions, including the factories, dispatch to user-defined types and to modes from now on."""
    public.all_ask(_ask)


class _Listening:
    """Counts the active modes of all threads. While there is one, Tensor's methods and properties dispatch too."""

    def __init__(self) -> None:
        self.lock, self.count = threading.Lock(), 0

    def start(self) -> None:
        with self.lock:
            self.count += 1
            if self.count == 1:
                self._let(_ask, _ask_modes)

    def stop(self) -> None:
        with self.lock:
            self.count -= 1
            if not self.count:
                self._let(None, None)

    def _let(self, method: Callable | None, prop: Callable | None) -> None:
        for function in methods.values():
            function.asks(method)
        for getter_and_setter in properties.values():
            for function in getter_and_setter:
                function.asks(prop)


listening = _Listening()


def _converted(result: Any, cls: type) -> Any:
    """Convert the tensors in a result to the subclass."""
    if isinstance(result, Tensor):
        return result if isinstance(result, cls) else result.as_subclass(cls)
    if isinstance(result, (tuple, list)):
        values = [_converted(x, cls) for x in result]
        return type(result)(*values) if hasattr(result, "_fields") else type(result)(values)
    return result


def _torch_function(cls: type, func: Callable, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
    """The default `__torch_function__`: run the plain function and convert its results to the subclass."""
    if not all(issubclass(cls, t) for t in types):
        return NotImplemented
    before, disabled.on = disabled.on, True
    try:
        return _converted(func(*args, **kwargs or {}), cls)
    finally:
        disabled.on = before


def _defined(cls: type, **kwargs: Any) -> None:
    """`Tensor.__init_subclass__`: give a subclass from outside the engine dispatching methods."""
    super(Tensor, cls).__init_subclass__(**kwargs)
    engines = (__name__.partition(".")[0], "torch")
    if any(base not in (Tensor, object) and base.__module__.partition(".")[0] in engines for base in cls.__mro__):
        return  # the engine's subclasses, such as Parameter, and those derived from them are not dispatched
    cls._defined_by_a_program = True  # type: ignore[attr-defined]
    functions_ask()
    for base in cls.__mro__[1:]:
        if base is not Tensor and getattr(base, "_defined_by_a_program", False):
            return  # the dispatching methods are inherited
    for name in dir(Tensor):
        raw = getattr(Tensor, name, None)  # an attribute of PyTorch that is missing here raises when it is read
        if name not in cls.__dict__ and callable(raw) and name not in _PLAIN and (not name.startswith("_") or name in _OPERATORS):
            setattr(cls, name, _method(name))
    for name in _SEEN:
        if name not in cls.__dict__:
            there = Tensor.__dict__[name]
            setattr(cls, name, property(lambda self, get=there.fget: _converted(get(self), type(self)), there.fset, doc=there.__doc__))


def _make_subclass(cls: type, data: Tensor, require_grad: bool = False) -> Any:
    """Return a detached tensor that shares the memory of `data`, as an instance of a subclass."""
    out = Tensor.detach(data).as_subclass(cls)
    return Tensor.requires_grad_(out) if require_grad else out


define("__torch_function__", classmethod(_torch_function))
define("__init_subclass__", classmethod(_defined))
define("_make_subclass", staticmethod(_make_subclass))

_told = _OPERATORS | {
    f"__{n}__" for n in ("array", "bool", "complex", "contains", "deepcopy", "float", "format", "index", "int", "len", "repr")
}
_silent = _PLAIN | {"is_shared", "share_memory_"}
# What modes intercept: methods first, then operators, which are dispatched as methods.
methods = {
    n: public.method_of(Tensor, n)
    for n, f in list(vars(Tensor).items())
    if n[0] != "_" and isinstance(f, FunctionType) and n not in _silent
}
methods |= {n: public.method_of(Tensor, n) for n in sorted(_told) if n in vars(Tensor)}
for _name, _method_name in STANDS_FOR.items():
    methods[_name].told = methods[_method_name].function
properties = {n: public.property_of(Tensor, n) for n in PROPERTIES if n in vars(Tensor)}
