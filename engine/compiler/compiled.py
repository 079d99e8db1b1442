"""`Compiled`: a step that runs eagerly once, is traced at its second call, and from then on runs as XLA's program."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..backends.xla import TraceError
from ..base import dtypes, errors, observe, tree
from ..core import casting, tape
from ..core.tensor import Tensor
from .discovery import Discovery, is_plain, read_by
from .guards import Guards
from .plan import Plan

if TYPE_CHECKING:
    from .explain import Explanation

LIMIT = 8  # plans of one step, as in PyTorch


class Compiled:
    """The callable that `compile` returns for a function."""

    def __init__(self, fn: Callable, fullgraph: bool = False, limit: int | None = None) -> None:
        self.fn, self.fullgraph, self.limit = fn, fullgraph, LIMIT if limit is None else limit
        self.plans: dict[Any, list[tuple[Guards, Plan]]] = {}
        self._found: dict[Any, Discovery] = {}
        self.eager: dict[Any, str] = {}  # key -> why calls with this key are not compiled

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if observe.current is not None:  # somebody watches: op by op, so that there is something to see
            return self.fn(*args, **kwargs)
        structure = (args, kwargs)
        given = tree.leaves(structure)
        key = self._key(structure, given)
        if key in self.eager:
            return self.fn(*args, **kwargs)
        for guards, plan in self.plans.get(key, ()):
            if guards.hold():
                return plan.run(given)
        return self._new(key, structure, given)

    def _key(self, structure: tuple, given: list) -> Any:
        """What a trace takes for granted of a call."""
        leaves = tuple(
            (a.array.shape, a.array.dtype, a.array.__class__, a.node is None) if isinstance(a, Tensor) else a if is_plain(a) else id(a)
            for a in given
        )
        shape = len(structure[0]), tuple(structure[1])
        return shape, leaves, tape.mode.grad, casting.on and str(casting._thread.active), dtypes.default

    def _new(self, key: Any, structure: tuple, given: list) -> Any:
        found, (args, kwargs) = self._found.pop(key, None), structure
        if found is None:
            with Discovery() as found:
                result = self.fn(*args, **kwargs)
            if found.host_draws:
                return self._give_up(key, f"compile: the step draws from {found.host_draws}, which would be the same number in every call", result)
            self._found[key] = found
            return result
        known = self.plans.setdefault(key, [])
        if len(known) >= self.limit:
            changed = known[-1][0].broken()
            self._give_up(key, f"compile: a program has been made {self.limit} times, since {changed} changed; further calls run eagerly")
            return self.fn(*args, **kwargs)
        try:
            guards = Guards(found, read_by(self.fn, found.code))
            plan = Plan(self.fn, given, structure, found)
            plan.because = known[-1][0].broken() if known else ""
            plan.compile(given)
        except TraceError as error:
            if self.fullgraph:
                raise
            self._give_up(key, str(error))
            return self.fn(*args, **kwargs)
        known.append((guards, plan))
        return plan.run(given)

    def explain(self, *args: Any, **kwargs: Any) -> Explanation:
        """Say what was compiled and what was not, with memory, cost and origin of each part of the programs.

        With arguments, the program for them is run a few times on copies of the state, which does not change, and its parts are timed.
        """
        from .explain import explained

        return explained(self, args, kwargs)

    def _give_up(self, key: Any, why: str, result: Any = None) -> Any:
        if self.fullgraph:
            raise TraceError(why)
        self.eager[key] = why
        errors.warn(f"{why}. The step runs eagerly.")
        return result
