"""The array namespace of `vmap`: the backends' functions, for arrays with a hidden batch dimension.

Ops and their rules run on a `Namespace` unchanged. The batching rules of functions are in the other files of this package; a function
without one runs sample by sample.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from importlib import import_module
from types import ModuleType
from typing import Any

from .array import FLOW, Batched, Level, Unbatchable, changed, space, within

RULES: dict[str, Callable] = {}  # name -> rule(xp, *args), called if an argument differs between samples

_MAKERS = frozenset(("zeros", "ones", "full", "empty", "arange", "eye"))


class Namespace:
    """The backends' functions for the arrays of one level; those without a batching rule run sample by sample."""

    def __init__(self, level: Level) -> None:
        self.level = level

    def __repr__(self) -> str:
        return f"<namespace of {self.level!r}>"

    def mine(self, x: Any) -> bool:
        return x.__class__ is Batched and x.level is self.level

    def mapped(self, *arguments: Any) -> bool:
        """Whether any of these differs between samples."""
        return any(self.mine(a) and not a.alike for a in within(arguments))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        rule, level = _rules().get(name), self.level
        if rule is None or name in _MAKERS:
            known = getattr(import_module("engine.backends.cpu"), name)
            if not callable(known):
                return known

        def call(*args: Any, **kwargs: Any) -> Any:
            if name in _MAKERS:
                return level.same(getattr(space(args, kwargs), name)(*args, **kwargs))
            if self.mapped(args, kwargs):
                return self.each(functools.partial(_called, name), args, kwargs) if rule is None else rule(self, *args, **kwargs)
            args, kwargs = (changed(a, lambda b: b.inner if b.level is level else b) for a in (args, kwargs))
            found = apply(name, args, kwargs)
            return tuple(map(self.marked, found)) if isinstance(found, tuple) else self.marked(found)

        self.__dict__[name] = call
        return call

    def marked(self, x: Any) -> Any:
        """Mark an array that does not depend on the sample as one of this level."""
        return x if not hasattr(x, "dtype") or self.mine(x) else self.level.same(x)

    # -- elementwise functions, and the fallback for all others ------------------------------------------------------------------

    def align(self, args: tuple) -> tuple:
        """Return the inner arrays, with their ranks padded so that the batch dimensions align in broadcasting."""
        rank = max(a.ndim for a in within(args))

        def fit(b: Any) -> Any:
            if b.level is not self.level or b.alike:
                return b.inner if b.level is self.level else b
            inner, lead = b.inner, rank - b.ndim
            return inner.reshape((inner.shape[0], *(1,) * lead, *inner.shape[1:])) if lead else inner

        return changed(args, fit)

    def elementwise(self, fn: Callable, args: tuple, kwargs: Any = None) -> Any:
        """Apply an elementwise function once to the whole batch."""
        alike, found = not self.mapped(args), fn(*self.align(args), **(kwargs or {}))
        if isinstance(found, tuple):
            return tuple(Batched(f, self.level, alike) for f in found)
        return Batched(found, self.level, alike)

    def each(self, fn: Callable, args: Any, kwargs: Any) -> Any:
        """Apply `fn` to each sample in turn and stack the results; Unbatchable if their shapes, or results without a shape, differ."""
        level = self.level
        if level.size == 0:
            args, kwargs = (changed(a, lambda b: self._blank(b) if b.level is level else b) for a in (args, kwargs))
            found = fn(*args, **kwargs)
            return changed_all(found, lambda a: level.wrap(space(a).zeros((0, *a.shape), a.dtype)))
        found = []
        for i in range(level.size):
            one, more = (changed(a, lambda b, i=i: b.sample(i) if b.level is level else b) for a in (args, kwargs))
            found.append(fn(*one, **more))
        return self._joined(found)

    def _blank(self, b: Batched) -> Any:
        return b.inner if b.alike else space(b.inner).zeros(b.shape, b.dtype)

    def _joined(self, found: list) -> Any:
        first = found[0]
        if isinstance(first, tuple):
            return tuple(self._joined([f[i] for f in found]) for i in range(len(first)))
        if isinstance(first, list):
            return [self._joined([f[i] for f in found]) for i in range(len(first))]
        if not hasattr(first, "shape"):
            if any(f != first for f in found):
                raise Unbatchable(FLOW)
            return first
        if len({tuple(f.shape) for f in found}) > 1:
            raise Unbatchable(
                "vmap: We do not support batching operators that can output dynamic shape: samples gave results of the shapes "
                f"{tuple(found[0].shape)} and {next(tuple(f.shape) for f in found if f.shape != first.shape)}"
            )
        xp = space(found)
        return self.level.wrap(xp.stack([xp.asarray(f) for f in found], 0))

    def run(self, fn: Callable, args: Any, kwargs: Any) -> Any:
        """Run an op's `forward`, or a rule, on this namespace, or sample by sample if its code reads values."""
        try:
            return fn(self, *args, **kwargs)
        except Unbatchable:
            return self.each(lambda *one, **more: at_work(space(one, more), fn)(space(one, more), *one, **more), args, kwargs)


def at_work(xp: Any, fn: Callable) -> Callable:
    """Adapt an op's `forward`, or a rule, to a namespace: with arrays of a vmap, or without memory, it is called through `xp.run`."""
    return fn if xp.__class__ is ModuleType else lambda xp, *args, **kwargs: xp.run(fn, args, kwargs)


def changed_all(x: Any, fn: Callable) -> Any:
    """Apply `fn` to each array in nested tuples and lists."""
    if isinstance(x, (tuple, list)):
        return type(x)(changed_all(v, fn) for v in x)
    return fn(x) if hasattr(x, "shape") else x


def apply(name: str, args: Any, kwargs: Any) -> Any:
    """Call the function of this name in the namespace of its arguments."""
    xp = space(args, kwargs)
    if name == "getitem" and xp.__class__ is not Namespace:
        return args[0][args[1]]
    return getattr(xp, name)(*args, **kwargs)


def _called(name: str, *args: Any, **kwargs: Any) -> Any:
    return apply(name, args, kwargs)


def rule(*names: str) -> Callable:
    """Register the decorated function as the batching rule of these names; a first parameter called `name` receives the function's name."""

    def note(fn: Callable) -> Callable:
        for name in names:
            RULES[name] = functools.partial(fn, name) if fn.__code__.co_varnames[:1] == ("name",) else fn
        return fn

    return note


@functools.cache
def _rules() -> dict[str, Callable]:
    """Return all rules; their files are imported when the first vmap runs."""
    for part in ("elements", "shapes", "products", "layers", "places"):
        import_module(f"{__package__}.{part}")
    return RULES
