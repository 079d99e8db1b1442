"""`TorchVersion`: a version string that compares with strings and tuples, like `torch.__version__`."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from typing import Any


def _key(version: Any) -> tuple | None:
    """Return the numeric parts without trailing zeros and the local part after "+", or None for an invalid version."""
    text = ".".join(map(str, version)) if isinstance(version, (tuple, list)) else str(version)
    release, _, local = text.partition("+")
    if re.match(r"v?\d+(\.\d+)*", release) is None:
        return None
    numbers = [int(n) for n in re.findall(r"\d+", release)]
    while numbers and not numbers[-1]:
        numbers.pop()
    return numbers, local


def _compared(compare: Callable) -> Callable:
    def method(self: TorchVersion, other: Any) -> bool:
        mine, other_key = _key(self), _key(other) if isinstance(other, (str, tuple, list)) else None
        return compare(str(self), other) if mine is None or other_key is None else compare(mine, other_key)

    return method


class TorchVersion(str):
    """`TorchVersion("2.13.0+engine") >= "2.9"`, `>= (2, 0)`: compared numerically; a local part makes a version later."""

    __lt__, __le__, __gt__, __ge__ = map(_compared, (operator.lt, operator.le, operator.gt, operator.ge))
    __eq__, __ne__ = map(_compared, (operator.eq, operator.ne))

    def __hash__(self) -> int:
        return str.__hash__(self)
