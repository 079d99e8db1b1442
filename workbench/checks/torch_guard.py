"""`wb.guard` for PyTorch: checks the result of every function and the gradients of every node of the graph."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from engine.base import errors

from ..base.frames import at_user_line
from ..torch_models import arrays, names
from ..torch_models.loaded import folder, is_tensor, torch
from ..torch_models.recorder import SILENT, bookkeeping
from .guard import check, check_backward

MOST = 10_000  # hooks after which those of freed nodes are dropped
_MAKES = ("empty", "new_empty", "detach")  # functions that return uninitialized tensors, or pass them on


@contextmanager
def guarding(wanted: frozenset[str]) -> Iterator[None]:
    """Within the block, raise NotFiniteError at PyTorch's first op, forward or backward, that makes one of the `wanted` kinds."""
    hooks: list[Any] = []
    errors.hide(folder())

    class Guarding(torch().overrides.TorchFunctionMode):
        """Runs every torch function and checks its result."""

        def __torch_function__(self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
            result = func(*args, **(kwargs or {}))
            name = getattr(func, "__name__", "")
            if name not in SILENT and not name.startswith(_MAKES) and names.tensors_in((args, kwargs)):
                with bookkeeping():
                    for made in names.tensors_in(result):
                        _look(func, args, kwargs or {}, made, wanted)
                        if made.grad_fn is not None:
                            if hooks and len(hooks) % MOST == 0:  # most of these nodes are freed in a long training run
                                hooks[:] = [hook for hook in hooks if hook.hooks_dict_ref() is not None]
                            hooks.append(made.grad_fn.register_hook(_hook(func, args, kwargs or {}, at_user_line(), wanted)))
            return result

    try:
        with Guarding():
            yield
    finally:
        for hook in hooks:
            hook.remove()


def _look(func: Any, args: tuple, kwargs: dict, made: Any, wanted: frozenset[str]) -> None:
    floating = arrays.ordinary(made) and (made.is_floating_point() or made.is_complex())
    if not floating or torch().isfinite(made.detach()).all():
        return
    op, operands, settings = names.of_call(func, args, kwargs)
    check(op, map(_numbers, operands), settings.values(), _numbers(made), wanted)


def _hook(func: Any, args: tuple, kwargs: dict, line: str, wanted: frozenset[str]) -> Callable[[tuple, tuple], None]:
    op, _, _ = names.of_call(func, args, kwargs)

    def hook(gradients: tuple, upstream: tuple) -> None:
        with bookkeeping():
            check_backward(op, map(_numbers, upstream), map(_numbers, gradients), line, wanted)

    return hook


def _numbers(x: Any) -> Any:
    return arrays.numpy_of(x) if is_tensor(x) else x
