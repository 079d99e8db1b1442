"""`nn.functional` names that fix one argument of another function (in place, with indices), and PyTorch's private helpers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..core.op import functions
from ..core.tensor import Tensor

_IN_PLACE = ("elu", "hardtanh", "leaky_relu")
_POOLS = tuple(f"{kind}_pool{d}d" for kind in ("max", "adaptive_max") for d in (1, 2, 3))
_POOLS += ("fractional_max_pool2d", "fractional_max_pool3d")


def _with(function: Callable, name: str, words: str, **set_: Any) -> Callable:
    def call(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **{**kwargs, **set_})

    call.__name__ = call.__qualname__ = name
    call.__module__ = "engine.nn.functional"
    call.__doc__ = f"`{function.__name__}` {words}."
    return call


def made(home: str) -> dict[str, Callable]:
    """Build these functions and return them by name."""
    find = lambda name: functions[home + name] if home + name in functions else functions[name]  # noqa: E731
    found = {f"{name}_": _with(find(name), f"{name}_", "in place", inplace=True) for name in _IN_PLACE}
    for name in _POOLS:
        longer = f"{name}_with_indices"
        found[longer] = _with(find(name), longer, "and where the maxima are", return_indices=True)
    return found | {"assert_int_or_pair": assert_int_or_pair}


def assert_int_or_pair(arg: Any, arg_name: str, message: str) -> None:
    """Raise AssertionError with `message`, formatted with the argument's name, unless the argument is an int or a pair."""
    if not (isinstance(arg, int) or len(arg) == 2):
        raise AssertionError(message.format(arg_name))


def in_projection_packed(q: Tensor, k: Tensor, v: Tensor, w: Tensor, b: Tensor | None = None) -> list[Tensor]:
    """Project queries, keys and values with the three parts of one weight `(3 E, E)`."""
    linear = functions["nn.functional.linear"]
    biases = (None,) * 3 if b is None else b.chunk(3)
    return [linear(x, weight, bias) for x, weight, bias in zip((q, k, v), w.chunk(3), biases, strict=True)]


def in_projection(
    q: Tensor, k: Tensor, v: Tensor, w_q: Tensor, w_k: Tensor, w_v: Tensor, b_q: Any = None, b_k: Any = None, b_v: Any = None
) -> tuple[Tensor, Tensor, Tensor]:
    """Project queries, keys and values with separate weights."""
    linear = functions["nn.functional.linear"]
    return linear(q, w_q, b_q), linear(k, w_k, b_k), linear(v, w_v, b_v)
