"""PyTorch's private module of its first `vmap`, which libraries still import."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from ..func import vmap as _mapped


def _vmap(func: Callable, in_dims: Any = 0, out_dims: Any = 0, allow_none_pass_through: bool = False) -> Callable:
    """Like `engine.func.vmap`; with `allow_none_pass_through`, results may be None."""
    if not allow_none_pass_through:
        return _mapped(func, in_dims, out_dims)
    places: list = []

    def without_none(*args: Any) -> Any:
        results = func(*args)
        whole = results if isinstance(results, tuple) else (results,)
        places[:] = [isinstance(results, tuple), *(r is None for r in whole)]
        return tuple(r for r in whole if r is not None)

    def call(*args: Any) -> Any:
        found = iter(_mapped(without_none, in_dims, out_dims)(*args))
        results = tuple(None if absent else next(found) for absent in places[1:])
        return results if places[0] else results[0]

    return call


def vmap(func: Callable, in_dims: Any = 0, out_dims: Any = 0) -> Callable:
    """Like `engine.func.vmap`, with PyTorch's deprecation warning."""
    warnings.warn("Please use `torch.vmap` instead of `torch._vmap_internals.vmap`.", FutureWarning, stacklevel=2)
    return _vmap(func, in_dims, out_dims)
