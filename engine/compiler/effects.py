"""What a traced step changes besides tensors: the objects that it reaches are compared with how they were, and put back."""

from __future__ import annotations

import inspect
import random
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from types import CellType, FunctionType, MethodType, ModuleType
from typing import Any, NamedTuple

import numpy

from ..backends.xla import Traced, TraceError
from ..base import errors, tree
from ..core.tensor import Tensor
from ..nn import Module
from ..optim.optimizer import Optimizer
from .discovery import Discovery, at, is_plain, is_users

MOST = 100_000  # objects that are looked at, the nearest first
SMALL = 64  # items of a list or dict whose values a program takes for granted
LARGEST = 1 << 24  # bytes of a NumPy array that is compared
_ITSELF = (Tensor, bool, int, float, complex, str, bytes, type(None))  # what a trace compares or follows by other means
_ENGINE = tuple(f"{__name__.partition('.')[0]}.{part}." for part in ("base", "backends", "core"))  # such as the grad mode
_ARGUMENT = "the argument"
_TABLES = ("_parameters", "_buffers", "_modules")
_OUTSIDE = ", which a program would not; do this outside, with what the function returns"


class Stored(NamedTuple):
    """A tensor, or several in a tuple, list or dict, that the step stores under a key of a dict or as an attribute."""

    holder: dict
    key: Any
    value: Any
    words: str


class Items:
    """A list, or an object with slots, with `get` as a dict has it; of the key `len` its length."""

    def __init__(self, x: Any) -> None:
        self.x = x

    def get(self, key: Any, default: Any = None) -> Any:
        if key is len or isinstance(key, str):
            return len(self.x) if key is len else getattr(self.x, key, default)
        return self.x[key] if key < len(self.x) else default


class Snapshot:
    """The contents of the lists, dicts, objects and variables that a step reaches from its arguments, its variables and its globals."""

    def __init__(self, fn: Callable, given: tuple[tuple, dict], found: Discovery) -> None:
        self.args, self.kwargs = given
        self._code = list(found.code)
        self._outer = {n for code in self._code for n in code.co_names}  # globals and attributes
        self._names = self._outer.union(*((*code.co_varnames, *code.co_freevars, *code.co_cellvars) for code in self._code))
        self._spaces = {id(names) for names in found.code.values()}  # the globals of modules, of which only some names matter
        self._held: list[tuple[Any, dict, str, str]] = []
        todo: deque[tuple] = deque([(fn, "the function", "", "")])
        todo += [(x, f"{_ARGUMENT} {n!r}", "", n) for n, x in _named(fn, *given)]
        todo += [(names, "", "the global variable {!r}", "") for names in {id(g): g for g in found.code.values()}.values()]
        todo += [(m, f"a {type(m).__name__}", "", "") for m in found.modules.values()]
        # an optimizer's groups and state are compared by the plan
        seen = {id(x): x for o in found.optimizers.values() for x in (o.param_groups, *o.param_groups, o.state)}
        while todo and len(seen) < MOST:
            x, words, form, name = todo.popleft()  # `form` names what is in a table of attributes or variables
            if id(x) in seen or isinstance(x, _ITSELF) or type(x).__module__.startswith(_ENGINE):
                continue
            seen[id(x)] = x
            if isinstance(x, Iterator) and (name in self._names or words.startswith(_ARGUMENT)):
                self._refuse(f"uses {words}", name, ": an iterator or a file, which a program would not advance; use it outside")
            held = self._read(x)
            if held is not None:
                form = form or _form(x)
                self._held.append((x, held, form or words, name))
                for key, value in held.items():
                    inner = form if key in _TABLES else ""
                    todo.append((value, form.format(key), inner, key) if form else (value, words, "", name))
            todo += self._parts(x, words, name)

    def _parts(self, x: Any, words: str, name: str) -> Iterable[tuple]:
        """What belongs to an object, and is no item of it, as `(object, words, form, name)`."""
        kind = type(x)
        if kind.__module__.startswith(f"{__package__}."):  # a compiled function inside
            return [(x.fn, words, "", name)] if hasattr(x, "fn") else []
        if isinstance(x, (tuple, frozenset)):
            return [(one, words, "", name) for one in x]
        if isinstance(x, ModuleType):
            if not is_users(getattr(x, "__file__", None)):
                return []
            self._spaces.add(id(vars(x)))
            return [(vars(x), words, f"{{!r}} of {x.__name__}", name)]
        if isinstance(x, MethodType):
            return [(x.__self__, words, "", name), (x.__func__, words, "", name)]
        if isinstance(x, partial):
            return [(one, words, "", name) for one in (x.func, x.args, x.keywords)]
        parts = []
        if isinstance(x, FunctionType):
            code, defaults = x.__code__, x.__defaults__ or ()
            parts += [(cell, f"the variable {n!r}", "", n) for n, cell in zip(code.co_freevars, x.__closure__ or (), strict=True)]
            names = code.co_varnames[: code.co_argcount]  # of an op of the engine they may be fewer than the defaults: its code changes
            named = [*zip(reversed(names), reversed(defaults), strict=False)]
            parts += [(value, f"the default of {n!r}", "", n) for n, value in (*named, *(x.__kwdefaults__ or {}).items())]
        if not _has_public(x) and isinstance(table := getattr(x, "__dict__", None), dict):
            parts.append((table, words, f"{{!r}} of {x.__name__ if isinstance(x, FunctionType) else kind.__name__}", name))
        return [*parts, (kind, words, "", name)]

    def _read(self, x: Any) -> dict | None:
        """What a list, a dict, a variable and so on holds, by key; None for another object."""
        if isinstance(x, dict):
            return {n: x[n] for n in self._outer if n in x} if id(x) in self._spaces else dict(x)
        if isinstance(x, (list, deque)):
            return dict(enumerate(x))
        if isinstance(x, set):
            return {one: one for one in x}
        if isinstance(x, CellType):
            try:
                return {0: x.cell_contents}
            except ValueError:  # not assigned yet
                return {}
        if isinstance(x, type):
            return dict(vars(x)) if x.__module__ == "__main__" or is_users(_file(x)) else None
        if isinstance(x, numpy.ndarray):
            return {0: x.copy()} if x.nbytes <= LARGEST else None
        if isinstance(x, random.Random):
            return {0: x.getstate()}
        if isinstance(x, numpy.random.Generator):
            return {0: x.bit_generator.state}
        if _has_public(x):
            return {n: value for n, value in vars(x).items() if not n.startswith("_")}
        slots = {n for kind in type(x).__mro__ for n in vars(kind).get("__slots__", ()) if hasattr(x, n)}
        return {n: getattr(x, n) for n in slots} if slots and self._read(type(x)) is not None else None

    def read(self) -> Iterator[tuple[Any, Any, Any, str]]:
        """What the code may read, the nearest first, as `(holder, key, value, words)`.

        These are the attributes and globals whose names it has, and the items of small lists and dicts that it reaches by name.
        """
        for x, held, words, name in self._held:
            named = "{" in words
            if isinstance(x, (Optimizer, numpy.ndarray, random.Random, numpy.random.Generator)) or not named and name not in self._names:
                continue
            if not named and not isinstance(x, CellType):
                yield Items(x), len, len(held), f"the number of items of {words}"
            if not named and (len(held) > SMALL or isinstance(x, set)):
                continue
            holder = x if isinstance(x, (dict, CellType)) else vars(x) if isinstance(x, type) else Items(x)
            for key, value in held.items():
                if not named:
                    yield holder, key, value, words if isinstance(x, CellType) else f"an item of {words}"
                elif key in self._outer:
                    yield holder, key, value, words.format(key)

    def stored(self) -> list[Stored]:
        """Return the tensors that the step has stored, which a program can do too; raises TraceError for another change."""
        found = []
        for x, held, words, name in self._held:
            now = self._read(x) or {}
            for key in held.keys() | now.keys():
                if key in held and key in now and same(held[key], now[key]):
                    continue
                told, own = (words.format(key), key) if "{" in words else (words, name)
                if not isinstance(x, dict) or words.startswith(_ARGUMENT) or key not in now or not _traced(now[key]):
                    self._refuse(f"changes {told}", own, _OUTSIDE)
                found.append(Stored(x, key, now[key], f"{told}{at(self._code, own)}"))
        return found

    def restore(self) -> None:
        """Put back what has changed."""
        for x, held, _, _ in self._held:
            now = self._read(x) or {}
            if held.keys() == now.keys() and all(now[key] is value or same(now[key], value) for key, value in held.items()):
                continue
            if isinstance(x, list):
                x[:] = held.values()
            elif isinstance(x, (set, deque)):
                x.clear()
                x.update(held) if isinstance(x, set) else x.extend(held.values())
            elif isinstance(x, CellType):
                x.cell_contents = held[0]
            elif isinstance(x, numpy.ndarray):
                x[...] = held[0]
            elif isinstance(x, random.Random):
                x.setstate(held[0])
            elif isinstance(x, numpy.random.Generator):
                x.bit_generator.state = held[0]
            else:
                put, drop = (x.__setitem__, x.__delitem__) if isinstance(x, dict) else (partial(setattr, x), partial(delattr, x))
                for key in now.keys() - held.keys():
                    drop(key)
                for key, value in held.items():
                    if key not in now or now[key] is not value:
                        put(key, value)

    def _refuse(self, what: str, name: Any, why: str) -> None:
        raise TraceError(f"compile: the function {what}{at(self._code, name)}{why}")


def _named(fn: Callable, args: tuple, kwargs: dict) -> Iterable[tuple[str, Any]]:
    """The arguments of a call with their names."""
    try:
        return inspect.signature(fn).bind(*args, **kwargs).arguments.items()
    except ValueError:  # a function in C
        return [("", one) for one in (*args, *kwargs.values())]


def _file(kind: type) -> str:
    """The file that defines a class; "" if unknown."""
    return getattr(sys.modules.get(kind.__module__), "__file__", None) or ""


def _has_public(x: Any) -> bool:
    """Whether an object is the engine's, such as an optimizer, and looks after its private attributes itself."""
    return hasattr(x, "__dict__") and (isinstance(x, Optimizer) or not isinstance(x, (Module, type)) and errors.hides(_file(type(x))))


def _form(x: Any) -> str:
    """How the attributes of an object are named; "" for one whose items have no names."""
    if isinstance(x, type):
        return f"{{!r}} of the class {x.__name__}"
    items = dict, list, set, deque, CellType, numpy.ndarray, random.Random, numpy.random.Generator
    return "" if isinstance(x, items) else f"{{!r}} of {type(x).__name__}"


def _traced(value: Any) -> bool:
    """Whether a value consists of constants, and of tensors of the trace that do not retain their gradients."""
    leaves = tree.leaves(value)
    traced = [type(x) is Tensor and x.array.__class__ is Traced and not x.retains_grad for x in leaves]
    return any(traced) and all(some or is_plain(x) for some, x in zip(traced, leaves, strict=True))


def same(a: Any, b: Any) -> bool:
    """Whether values are the same object, or constants, lists, dicts and arrays of the same content."""
    if a is b or a.__class__ is not b.__class__:
        return a is b
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if isinstance(a, (tuple, list)):
        return len(a) == len(b) and all(map(same, a, b))
    return a.tobytes() == b.tobytes() if isinstance(a, numpy.ndarray) else is_plain(a) and a == b
