"""`torch._assert`, `torch._check` and so on: conditions for tracers, which are checked eagerly here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..base.dtypes import bool_
from ..core import devices
from ..core.tensor import Tensor

_UNTOLD = "Expected cond to be True, but got False."


def _assert(condition: Any, message: str | None = "") -> None:
    """Raise AssertionError with the message unless the condition is true."""
    if not condition:
        raise AssertionError(message)


def _assert_async(condition: Tensor, message: str = "") -> None:
    """Raise RuntimeError with the message unless a single-element tensor is true; on a GPU, when the host next waits."""
    if condition.numel() != 1:
        raise RuntimeError(f"Expected a tensor with one element, got {condition.numel()}")
    devices.require(condition.array != 0, RuntimeError, message or "Expected Tensor with single nonzero value, but got zero")


def _check_with(error_type: type[Exception], cond: bool, message: Callable[[], Any] | None) -> None:
    """Raise `error_type` with the text `message()` unless the bool `cond` is true."""
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
    """Raise RuntimeError if the size is negative or greater than `max`."""
    _check(i >= 0, message)
    _check(max is None or i <= max, message)


def _check_tensor_all_with(error_type: type[Exception], cond: Tensor, message: Callable[[], Any] | None = None) -> None:
    """Raise `error_type` unless all elements of a bool tensor are true."""
    if not isinstance(cond, Tensor):
        raise TypeError(f"cond must be a tensor, but got {type(cond)}")
    if cond.dtype is not bool_:
        raise TypeError(f"cond tensor must have dtype torch.bool, but got {cond.dtype}")
    _check_with(error_type, bool(cond.all()), message)


def _check_tensor_all(cond: Tensor, message: Callable[[], Any] | None = None) -> None:
    """Raise RuntimeError unless all elements of a bool tensor are true."""
    _check_tensor_all_with(RuntimeError, cond, message)
