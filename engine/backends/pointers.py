"""The address of an array's elements, as compiled code takes it."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy

_word, _DATA = ctypes.c_size_t.from_address, object.__basicsize__  # in a PyArrayObject, the address follows what all objects have


def address(x: Any) -> int:
    """Return it, read from NumPy's object: `__array_interface__` takes eight times as long, more than a small matrix product."""
    return _word(id(x) + _DATA).value


def _told(x: Any) -> int:
    return x.__array_interface__["data"][0]


_probe = numpy.empty(2)[1:]
if address(_probe) != _told(_probe):  # a Python or a NumPy with other objects
    address = _told
