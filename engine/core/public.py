"""The public functions: one function object for each public name, which stays the same object for the whole run.

The engine calls an op's own function. Users get a copy of it under each name, with the same code and at the same cost: `engine.exp` and
`Tensor.exp` are two functions, as in PyTorch. When calls must be dispatched to `__torch_function__` (see `engine.core.subclasses`), the
`__code__` of each copy is replaced by code that dispatches first. So functions that were imported or stored before dispatch too, and
compare equal as before.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from types import CodeType, FunctionType
from typing import Any, cast

from . import create, from_data, ranges
from .registry import functions

makers: dict[str, Any] = {name: vars(module)[name] for module in (create, from_data, ranges) for name in module.__all__}
_UNHEARD = (  # never dispatched
    "get_default_dtype",
    "set_default_dtype",
    "is_tensor",
    "promote_types",
    "can_cast",
    "manual_seed",
    "typename",
)
_PACKAGE = __name__.partition(".")[0]


class Public:
    """A public function and the plain one that does its work; `told` is the function that `__torch_function__` receives."""

    __slots__ = ("_asking", "_plain_code", "function", "plain", "told")

    def __init__(self, function: FunctionType, plain: FunctionType) -> None:
        self.function, self.plain, self.told = function, plain, cast(Callable, function)
        self._plain_code, self._asking = function.__code__, None
        function.__wrapped__ = plain  # type: ignore[attr-defined]  for the signature, and the source

    def asks(self, ask: Callable | None) -> None:
        """Make every call `ask(self, args, kwargs)` from now on; None restores the plain function."""
        if ask is None:
            self.function.__code__ = self._plain_code
            return
        if self._asking is None:
            self._asking = _code(self._plain_code.co_freevars, functools.partial(ask, self), self.function)
        self.function.__code__ = self._asking


_LINE = sys._getframe().f_lineno
_TEXT = """
def around({names}):
    def call(*_args, **_kwargs):
        _ask = "<ask>"
        return _ask(_args, _kwargs)
        ({names})
"""


@functools.cache
def _form(names: tuple[str, ...]) -> CodeType:
    """The code of a dispatching function with these free variables: `__code__` can only be replaced by code with as many of them."""
    text = "\n" * _LINE + _TEXT.format(names=", ".join(names))  # so that tracebacks show the right lines
    code = compile(text, __file__, "exec")
    for _ in range(2):
        code = next(x for x in code.co_consts if isinstance(x, CodeType))
    return code


def _code(names: tuple[str, ...], ask: Callable, function: FunctionType) -> CodeType:
    form = _form(names)
    at = form.co_consts.index("<ask>")
    consts = (*form.co_consts[:at], ask, *form.co_consts[at + 1 :])
    return form.replace(co_consts=consts, co_name=function.__name__, co_qualname=function.__qualname__)


def _copy(plain: FunctionType) -> FunctionType:
    out = FunctionType(plain.__code__, plain.__globals__, plain.__name__, plain.__defaults__, plain.__closure__)
    functools.update_wrapper(out, plain)
    out.__kwdefaults__ = plain.__kwdefaults__
    del out.__wrapped__
    out.__dict__.update(plain.__dict__)
    return out


def _named_copy(plain: FunctionType, name: str, qualname: str, home: str = "") -> Public:
    out = _copy(plain)
    out.__module__, out.__qualname__, out.__name__ = f"{_PACKAGE}.{home}" if home else _PACKAGE, qualname, name
    return Public(out, plain)


named: dict[str, Public] = {}  # full name, such as "linalg.inv" -> public function
_ask_of_all: Callable | None = None


def all_ask(ask: Callable) -> None:
    """`Public.asks` for every public function, those of namespaces that are imported later included."""
    global _ask_of_all
    _ask_of_all = ask
    for function in named.values():
        function.asks(ask)


def publish(found: dict[str, Any], home: str = "") -> dict[str, Any]:
    """Replace the functions of a namespace by their public ones; other values are returned unchanged."""
    full = f"{home}.{{}}" if home else "{}"
    return {n: _published(full.format(n), f) if isinstance(f, FunctionType) and n not in _UNHEARD else f for n, f in found.items()}


def _published(full: str, plain: FunctionType) -> FunctionType:
    known = named.get(full)
    if known is None:
        home, _, name = full.rpartition(".")
        told = f"{home}_{name}" if home in ("linalg", "fft", "special") else name  # PyTorch's `__name__` of these functions
        known = named[full] = _named_copy(plain, told, name, home)
        if _ask_of_all is not None:
            known.asks(_ask_of_all)
    return known.function


def of_home(home: str) -> dict[str, Any]:
    """Return the public functions of a namespace, such as "linalg", by name; for "", the package itself, the factories too."""
    found = {full.rpartition(".")[2]: f for full, f in functions.items() if full.rpartition(".")[0] == home}
    return publish(found if home else found | makers, home)


def function_of(full: str) -> Any:
    """Return the function with a full name, such as "linalg.inv"; None if there is none."""
    known = named.get(full)
    return known.function if known is not None else functions.get(full)


def name_of(function: Any) -> str | None:
    """Return the full name of a public function, such as "linalg.inv"; None for any other object."""
    return next((name for name, public in named.items() if public.function is function), None)


def method_of(cls: type, name: str) -> Public:
    """Replace a method by its own public function, so that `Tensor.absolute` is neither `Tensor.abs` nor the op's function."""
    method = _own(vars(cls)[name], cls, name)
    setattr(cls, name, method.function)
    return method


def property_of(cls: type, name: str) -> tuple[Public, ...]:
    """Replace a property's getter and setter by public functions; `__torch_function__` receives its `__get__` or `__set__`."""
    there = vars(cls)[name]
    own = [_own(f, cls, name) for f in (there.fget, there.fset) if f is not None]
    seen = property(*[public.function for public in own], doc=there.__doc__)
    setattr(cls, name, seen)
    for public, told in zip(own, (seen.__get__, seen.__set__), strict=False):
        public.told = told
    return tuple(own)


def _own(plain: FunctionType, cls: type, name: str) -> Public:
    own = f"{cls.__name__}.{name}"
    if plain.__qualname__ == own:  # defined in the class body: it is the public function itself
        return Public(plain, _copy(plain))
    return _named_copy(plain, name, own)
