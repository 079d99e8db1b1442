"""PyTorch's address of how a loss is reduced: as a number, and what the deprecated flags `size_average` and `reduce` say."""

from __future__ import annotations

from ..ops.loss import flagged, reduction_of

_NUMBERS = {"none": 0, "mean": 1, "sum": 2}


def get_enum(reduction: str) -> int:
    """The number of a reduction: 0 none, 1 mean, 2 sum."""
    known = reduction_of(None, None, reduction)
    if known not in _NUMBERS:
        raise ValueError(f"{reduction} is not a valid value for reduction")
    return _NUMBERS[known]


def legacy_get_string(size_average: bool | None, reduce: bool | None, emit_warning: bool = True) -> str:
    """The reduction that the deprecated flags stand for; those that are None are True."""
    return reduction_of(size_average is not False, reduce, "mean") if emit_warning else flagged(size_average, reduce)


def legacy_get_enum(size_average: bool | None, reduce: bool | None, emit_warning: bool = True) -> int:
    """The same as a number."""
    return get_enum(legacy_get_string(size_average, reduce, emit_warning))
