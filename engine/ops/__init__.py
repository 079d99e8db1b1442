"""One class, one op."""

from . import activation, cast, compare, conv, decompose, index, join, linalg, math, norm, order, pool, reduce, rounding, scan, select, shape, special, trig  # noqa: F401
