"""PyTorch's private helpers for TorchScript annotations, which have no effect here."""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import UnionType
from typing import Any, Final, TypeVar, Union, get_args, get_origin

from ..futures import Future
from .jit import _overload, _overload_method, export, ignore, is_scripting, unused  # noqa: F401

__all__ = [
    "BroadcastingList1", "BroadcastingList2", "BroadcastingList3", "Final", "Future", "boolean_dispatch", "export", "ignore", "is_optional",
    "is_scripting", "is_tuple", "unused",
]  # fmt: skip
_T = TypeVar("_T")


class BroadcastingListCls:
    """`BroadcastingList2[int]`: TorchScript's annotation for a scalar or a list of that length."""

    def __getitem__(self, types: Any) -> None:
        return None


BroadcastingList1 = BroadcastingList2 = BroadcastingList3 = BroadcastingListCls()


def _copy_to_script_wrapper(fn: _T) -> _T:
    """Return the function unchanged."""
    return fn


def boolean_dispatch(
    arg_name: str, arg_index: int, default: bool, if_true: Callable, if_false: Callable, module_name: str, func_name: str
) -> Callable:
    """Return a function that dispatches to one of two functions on a boolean argument."""

    @functools.wraps(if_true if default else if_false)
    def call(*args: Any, **kwargs: Any) -> Any:
        asked = kwargs.get(arg_name, args[arg_index] if arg_index < len(args) else default)
        return (if_true if asked else if_false)(*args, **kwargs)

    call.__name__, call.__module__ = func_name or call.__name__, module_name or call.__module__
    return call


def is_tuple(ann: Any) -> bool:
    """Return whether an annotation is a tuple."""
    return get_origin(ann) is tuple or ann is tuple


def is_optional(ann: Any) -> bool:
    """Return whether an annotation is a union of None and one other type."""
    return get_origin(ann) in (Union, UnionType) and len(get_args(ann)) == 2 and type(None) in get_args(ann)
