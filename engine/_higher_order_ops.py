"""Control flow as functions: `torch.cond` and `torch.while_loop`. Here they run as Python's own do, and gradients follow the way taken."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .tensor import Tensor
from .utils._pytree import tree_flatten


def _checked(name: str, what: str, operands: Any) -> list:
    leaves = tree_flatten(operands)[0] if isinstance(operands, (tuple, list)) else None
    if leaves is None or not all(isinstance(x, (Tensor, int)) for x in leaves):
        raise RuntimeError(
            f"{name}: Expect {what} to be a tuple of possibly nested dict/list/tuple that only consists of tensor leaves, "
            f"but got {operands!r}."
        )
    return leaves


def _decided(name: str, what: str, value: Any) -> bool:
    if isinstance(value, Tensor):
        if value.numel() != 1:
            raise RuntimeError(f"{name}: Expected {what} to be bool or single-element tensor, but got {value}.")
        return bool(value.item())
    if not isinstance(value, int):
        raise RuntimeError(f"{name}: Expected {what} to be bool or single-element tensor, but got {value!r}.")
    return bool(value)


def cond(pred: Any, true_fn: Callable, false_fn: Callable, operands: tuple | list = ()) -> Any:
    """`true_fn(*operands)` where `pred`, a bool or a tensor of one element, holds, else `false_fn(*operands)`; only one of them runs.

    Raises RuntimeError for a `pred` of more elements, functions that are none, and operands that are no tensors in tuples, lists and dicts.
    """
    if not callable(true_fn) or not callable(false_fn):
        raise RuntimeError("cond: Expect both branches to be callable.")
    _checked("cond", "operands", operands)
    return (true_fn if _decided("cond", "pred", pred) else false_fn)(*operands)


def while_loop(cond_fn: Callable, body_fn: Callable, carried_inputs: tuple | list) -> Any:
    """`carried = body_fn(*carried)` as long as `cond_fn(*carried)` holds; returns the last `carried`.

    The body returns what it takes: as many tensors, in the same tuples, lists and dicts, of the same shapes and dtypes. Raises RuntimeError
    where it does not, or where the condition is neither a bool nor a tensor of one element.
    """
    if not callable(cond_fn) or not callable(body_fn):
        raise RuntimeError("while_loop: Expect cond_fn and body_fn to be callable.")
    _checked("while_loop", "carried_inputs", carried_inputs)
    carried: Any = tuple(carried_inputs)
    result: Any = carried
    while _decided("while_loop", "the result of cond_fn", cond_fn(*carried)):
        result = body_fn(*carried)
        after = (result,) if isinstance(result, Tensor) else tuple(result) if isinstance(result, (tuple, list)) else result
        _same(carried, after)
        carried = after
    return result


def _same(before: Any, after: Any) -> None:
    """RuntimeError where the body of a loop changed the number, shape or dtype of what it carries."""
    old, new = tree_flatten(before), tree_flatten(after)
    if old[1] != new[1]:
        raise RuntimeError(f"while_loop: Expected body_fn to return what it takes, {before!r} in structure, but got {after!r}.")
    for i, (a, b) in enumerate(zip(old[0], new[0], strict=True)):
        if isinstance(a, Tensor) and (not isinstance(b, Tensor) or a.shape != b.shape or a.dtype is not b.dtype):
            got = f"{tuple(b.shape)} {b.dtype}" if isinstance(b, Tensor) else repr(b)
            raise RuntimeError(
                "while_loop: Expected body_fn_output and carried_inputs to have same metadata, "
                f"but item {i} was {tuple(a.shape)} {a.dtype} and became {got}."
            )
