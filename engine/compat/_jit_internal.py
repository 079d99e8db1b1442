"""PyTorch's private address of what libraries mark for TorchScript, which there is none of: the marks are there and change nothing."""

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
    """`BroadcastingList2[int]`: a number or so many of them, as annotations for scripts say it."""

    def __getitem__(self, types: Any) -> None:
        return None


BroadcastingList1 = BroadcastingList2 = BroadcastingList3 = BroadcastingListCls()


def _copy_to_script_wrapper(fn: _T) -> _T:
    """The function as it is."""
    return fn


def boolean_dispatch(
    arg_name: str, arg_index: int, default: bool, if_true: Callable, if_false: Callable, module_name: str, func_name: str
) -> Callable:
    """A function that calls one or another by what one of its arguments is."""

    @functools.wraps(if_true if default else if_false)
    def call(*args: Any, **kwargs: Any) -> Any:
        asked = kwargs.get(arg_name, args[arg_index] if arg_index < len(args) else default)
        return (if_true if asked else if_false)(*args, **kwargs)

    call.__name__, call.__module__ = func_name or call.__name__, module_name or call.__module__
    return call


def is_tuple(ann: Any) -> bool:
    """Whether an annotation is of a tuple."""
    return get_origin(ann) is tuple or ann is tuple


def is_optional(ann: Any) -> bool:
    """Whether an annotation allows None besides one other type."""
    return get_origin(ann) in (Union, UnionType) and len(get_args(ann)) == 2 and type(None) in get_args(ann)
