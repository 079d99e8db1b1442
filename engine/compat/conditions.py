"""Conditions that programs state for tracers to keep: `torch._assert`, `torch._check` and its like. Here they hold or raise."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..base.dtypes import bool_
from ..core.tensor import Tensor

_UNTOLD = "Expected cond to be True, but got False."


def _assert(condition: Any, message: str | None = "") -> None:
    """Python's `assert`, as a function: AssertionError with the message unless the condition holds."""
    if not condition:
        raise AssertionError(message)


def _assert_async(condition: Tensor, message: str = "") -> None:
    """RuntimeError with the message unless a tensor of one number is true. Here at once, and not when the GPU gets there."""
    if not condition:
        raise RuntimeError(message or "Expected Tensor with single nonzero value, but got zero")


def _check_with(error_type: type[Exception], cond: bool, message: Callable[[], Any] | None) -> None:
    """An error of this type unless the condition, a bool, holds; `message()` is its text."""
    if not isinstance(cond, bool):
        if isinstance(cond, Tensor):
            raise TypeError("cond must be a bool, but got a Tensor; torch._check_tensor_all() asserts that all elements are true")
        raise TypeError(f"cond must be a bool, but got {type(cond)}")
    if cond:
        return
    if message is not None and not callable(message):
        raise TypeError("message must be a callable")
    raise error_type(_UNTOLD if message is None else str(message()))


def _checking(error_type: type[Exception]) -> Callable[..., None]:
    def check(cond: bool, message: Callable[[], Any] | None = None) -> None:
        _check_with(error_type, cond, message)

    check.__doc__ = f"{error_type.__name__}, with the text `message()`, unless the condition holds."
    return check


_check, _check_index, _check_value = _checking(RuntimeError), _checking(IndexError), _checking(ValueError)
_check_type, _check_not_implemented = _checking(TypeError), _checking(NotImplementedError)


def _check_is_size(i: int, message: Callable[[], Any] | None = None, *, max: int | None = None) -> None:
    """RuntimeError for a negative number, and for one above `max`."""
    _check(i >= 0, message)
    _check(max is None or i <= max, message)


def _check_tensor_all_with(error_type: type[Exception], cond: Tensor, message: Callable[[], Any] | None = None) -> None:
    """An error of this type unless all elements of a bool tensor are true."""
    if not isinstance(cond, Tensor):
        raise TypeError(f"cond must be a tensor, but got {type(cond)}")
    if cond.dtype is not bool_:
        raise TypeError(f"cond tensor must have dtype torch.bool, but got {cond.dtype}")
    _check_with(error_type, bool(cond.all()), message)


def _check_tensor_all(cond: Tensor, message: Callable[[], Any] | None = None) -> None:
    """RuntimeError unless all elements of a bool tensor are true."""
    _check_tensor_all_with(RuntimeError, cond, message)
