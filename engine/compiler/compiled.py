"""`Compiled`: a function that runs eagerly once, is traced at its second call, and from then on runs as XLA's program."""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Callable, Sequence
from types import MethodType
from typing import TYPE_CHECKING, Any
from weakref import WeakSet, ref

import numpy

from ..backends.xla import TraceError
from ..base import dtypes, errors, observe, tree
from ..core import casting, tape
from ..core.tensor import Tensor
from .discovery import Discovery, is_plain, read_by
from .effects import Snapshot
from .guards import Guards
from .plan import Plan

if TYPE_CHECKING:
    from .explain import Explanation

LIMIT = 8  # programs of one function for arguments of the same shapes, as in PyTorch
every: WeakSet[Compiled] = WeakSet()
_one_at_a_time = threading.RLock()  # programs may share state, which they write over
_forked = False  # XLA's threads stay in the parent of a forked process: there, calls run eagerly


def _after_fork() -> None:
    global _forked, _one_at_a_time
    _forked, _one_at_a_time = True, threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


class _Same:
    """A key for an argument that is neither a tensor nor a constant: equal only for the same object, which it does not keep alive."""

    def __init__(self, value: Any) -> None:
        self._hash = id(value)
        try:
            self._value: Callable[[], Any] = ref(value)
        except TypeError:  # an object of C, without weak references
            self._value = lambda: value

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and (value := self._value()) is not None and value is other._value()


class Compiled:
    """The callable that `compile` returns for a function: same arguments, effects and results.

    The first call with arguments of these shapes runs eagerly, the second is traced and compiled, and further ones run XLA's program. While
    an observer watches, calls run eagerly, so that there is something to see.
    """

    def __init__(self, fn: Callable, fullgraph: bool = False, limit: int | None = None) -> None:
        functools.update_wrapper(self, fn, updated=())
        self.__name__: str = getattr(fn, "__name__", type(fn).__name__)
        self.fn, self.fullgraph, self.limit = fn, fullgraph, LIMIT if limit is None else limit
        self.reset()
        every.add(self)

    def reset(self) -> None:
        """Forget all programs."""
        self.plans: dict[Any, list[tuple[Guards, Plan]]] = {}
        self._found: dict[Any, Discovery] = {}
        self.eager: dict[Any, str] = {}  # key of a call -> why such calls are not compiled

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else MethodType(self, instance)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if observe.current is not None or _forked:
            return self.fn(*args, **kwargs)
        structure = (args, kwargs)
        given = tree.leaves(structure)
        key = self._key(structure, given)
        if key in self.eager:
            return self.fn(*args, **kwargs)
        with _one_at_a_time:
            for guards, plan in self.plans.get(key, ()):
                if guards.hold() and plan.fits(given):
                    return plan.run(given)
            return self._new(key, structure, given)

    def export(
        self,
        path: str | os.PathLike,
        args: tuple | None = None,
        kwargs: dict | None = None,
        *,
        platforms: Sequence[str] = ("cpu", "cuda"),
        dynamic_batch: bool = False,
    ) -> None:
        """Write the program and its state to a file that runs without this project; `load` and docs/deploy.md read it.

        The program is the one compiled for the calls so far, or for example arguments `args` and `kwargs`: if no such call has been
        compiled, the function is called with them, twice, with all that it does. `platforms` are JAX's names: "cpu", "cuda", "rocm",
        "tpu"; none of the devices is needed. `dynamic_batch=True`, for inference, lets the first dimension of all tensors have any size.

        Raises RuntimeError if the call cannot be compiled, and ValueError for what an exported program cannot do.
        """
        from .export import export

        export(self, path, args, kwargs, platforms, dynamic_batch)

    def _key(self, structure: tuple, given: list) -> Any:
        """What a trace takes for granted of a call."""
        leaves = tuple(
            (a.array.shape, a.array.dtype, a.array.__class__, a.node is None)
            if isinstance(a, Tensor)
            else (a.__class__, a)
            if is_plain(a)
            else _Same(a)
            for a in given
        )
        form = repr(tree.mapped(lambda x: 0, structure))
        tensors = [id(a) for a in given if isinstance(a, Tensor)]
        again = len(set(tensors)) < len(tensors) and tuple(map(tensors.index, tensors))  # which arguments are one tensor
        autocast = casting.on and repr(casting.snapshot())
        return form, leaves, again, tape.mode.grad, tape.mode.inference, autocast, dtypes.default

    def _new(self, key: Any, structure: tuple, given: list) -> Any:
        found, (args, kwargs) = self._found.pop(key, None), structure
        if found is None:
            strange = next((a for a in given if isinstance(a, Tensor) and a.array.__class__ is not numpy.ndarray), None)
            if strange is not None:
                why = "inside vmap" if strange.array.__class__.__name__ == "Batched" else f"with a tensor on {strange.device}"
                self._give_up(key, f"compile: a call {why} has no compiled form")
                return self.fn(*args, **kwargs)
            with Discovery() as found:
                result = self.fn(*args, **kwargs)
            if found.refused:
                self._give_up(key, found.refused)
            else:
                self._found[key] = found
            return result
        known = self.plans.setdefault(key, [])
        if len(known) >= self.limit:
            self._give_up(key, f"compile: {self.limit} programs have been made, the last because {known[-1][0].broken()} changed")
            return self.fn(*args, **kwargs)
        guards = Guards(found, read_by(self.fn, found.code))
        try:
            before = Snapshot(self.fn, structure, found)
            guards.watch(before.read())
            plan = Plan(self.fn, given, structure, found, before)
            plan.because = known[-1][0].broken() if known else ""
            plan.compile(given)
            guards.release(plan.stored)
            guards.watch_grads(plan.leaves if plan.uses_grads else [])
        except Exception as error:
            # the eager call raised nothing, so that it is the trace that fails
            why = str(error) if isinstance(error, TraceError) else f"compile: {type(error).__name__} while the function was traced: {error}"
            if self.fullgraph:
                raise TraceError(why) from error
            self._give_up(key, why)
            return self.fn(*args, **kwargs)
        known.append((guards, plan))
        return plan.run(given)

    def explain(self, *args: Any, **kwargs: Any) -> Explanation:
        """Say what was compiled and what was not, with memory, cost and origin of each part of the programs.

        With arguments, the program for them is run a few times on copies of the state, which does not change, and its parts are timed.
        """
        from .explain import explained

        return explained(self, args, kwargs)

    def _give_up(self, key: Any, why: str) -> None:
        """Let such calls run eagerly from now on, with a warning; raises TraceError with `fullgraph`."""
        if self.fullgraph:
            raise TraceError(why)
        self.eager[key] = why
        errors.warn(f"{why}. {self.__name__} runs eagerly.")
