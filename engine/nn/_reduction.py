"""Loss reductions under PyTorch's private names: their enum values, and the deprecated flags `size_average` and `reduce`."""

from __future__ import annotations

from ..ops.loss import flagged, reduction_of

_NUMBERS = {"none": 0, "mean": 1, "sum": 2}


def get_enum(reduction: str) -> int:
    """Return the enum value of a reduction: 0 for "none", 1 for "mean", 2 for "sum"; ValueError for any other."""
    known = reduction_of(None, None, reduction)
    if known not in _NUMBERS:
        raise ValueError(f"{reduction} is not a valid value for reduction")
    return _NUMBERS[known]


def legacy_get_string(size_average: bool | None, reduce: bool | None, emit_warning: bool = True) -> str:
    """Return the reduction that the deprecated flags select; a flag that is None counts as True."""
    return reduction_of(size_average is not False, reduce, "mean") if emit_warning else flagged(size_average, reduce)


def legacy_get_enum(size_average: bool | None, reduce: bool | None, emit_warning: bool = True) -> int:
    """Return the enum value of the reduction that the deprecated flags select."""
    return get_enum(legacy_get_string(size_average, reduce, emit_warning))
