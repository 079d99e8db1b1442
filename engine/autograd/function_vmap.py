"""Custom Functions under `vmap`: dispatch to the Function's own `vmap` rule, which receives whole batches."""

from __future__ import annotations

from typing import Any, NamedTuple

from ..backends.batch import Batched, Level, Namespace, space
from ..core.batching import batch, running, spread, unbatch
from ..core.tensor import Tensor


class VmapInfo(NamedTuple):
    """The `info` argument of a Function's `vmap`: the batch size and the randomness mode."""

    batch_size: int
    randomness: str


def level_of(args: tuple) -> Level | None:
    """Return the innermost vmap level among the arguments, or None."""
    inside = space([a.array for a in args if isinstance(a, Tensor)])
    return inside.level if inside.__class__ is Namespace else None


def own_rule(cls: Any, default: Any) -> bool:
    """Return whether to use the Function's own `vmap`; if not, its forward runs on samples. RuntimeError if it defines both or neither."""
    if cls.vmap is not default:
        if cls.generate_vmap_rule:
            raise RuntimeError(
                f"You tried to vmap over {cls.__name__}, but it has both generate_vmap_rule=True and an overridden vmap staticmethod. "
                "Please set generate_vmap_rule=False or delete the overridden vmap staticmethod to avoid ambiguity."
            )
        return True
    if not cls.generate_vmap_rule:
        raise RuntimeError(
            f"You tried to vmap over {cls.__name__}, but it does not have vmap support. Please override and implement the vmap "
            "staticmethod or set generate_vmap_rule=True."
        )
    return False


def mapped(cls: Any, level: Level, args: tuple, kwargs: dict) -> Any:
    """Run the Function's `vmap` on whole batches outside the level, then wrap its outputs in the level again."""
    inner = [isinstance(a, Tensor) and a.array.__class__ is Batched and a.array.level is level for a in args]
    given = [unbatch(a, level) if i else a for a, i in zip(args, inner, strict=True)]
    levels, running.levels = running.levels, [v for v in running.levels if v is not level]
    try:
        found = cls.vmap(VmapInfo(level.size, level.randomness), tuple(0 if i else None for i in inner), *given, **kwargs)
    finally:
        running.levels = levels
    if not (isinstance(found, tuple) and len(found) == 2):
        raise RuntimeError(f"Expected {cls.__name__}.vmap to return (outputs, out_dims), got {type(found).__name__}")
    outputs, out_dims = found
    whole = outputs if isinstance(outputs, tuple) else (outputs,)
    places = out_dims if isinstance(out_dims, tuple) else (out_dims,) * len(whole)
    if len(places) != len(whole):
        raise RuntimeError(f"{cls.__name__}.vmap returned {len(whole)} outputs and {len(places)} out_dims")

    def enter(o: Any, d: int | None) -> Any:
        if not isinstance(o, Tensor):
            return o
        return spread(o, level) if d is None else batch(o if d == 0 else o.movedim(d, 0), level)

    inside = tuple(enter(o, d) for o, d in zip(whole, places, strict=True))
    return inside if isinstance(outputs, tuple) else inside[0]
